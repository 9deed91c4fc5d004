// Package pathologies lists the catalogue: every failure mode that sixty
// knows, one directory each. The list is handed to those who need it, as
// analyzers are handed to a checker; nothing registers itself.
package pathologies

import (
	"embed"
	"io/fs"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/pathologies/clientcancellations"
	"github.com/sixty-dev/sixty/internal/pathologies/concurrencylimit"
	"github.com/sixty-dev/sixty/internal/pathologies/enginehung"
	"github.com/sixty-dev/sixty/internal/pathologies/enginerestart"
	"github.com/sixty-dev/sixty/internal/pathologies/gpuhardwareerrors"
	"github.com/sixty-dev/sixty/internal/pathologies/gputhrottling"
	"github.com/sixty-dev/sixty/internal/pathologies/gpuunderutilization"
	"github.com/sixty-dev/sixty/internal/pathologies/httperrors"
	"github.com/sixty-dev/sixty/internal/pathologies/kvcachethrashing"
	"github.com/sixty-dev/sixty/internal/pathologies/memoryleak"
	"github.com/sixty-dev/sixty/internal/pathologies/prefillstarvation"
	"github.com/sixty-dev/sixty/internal/pathologies/prefixcachemisses"
	"github.com/sixty-dev/sixty/internal/pathologies/replicaimbalance"
	"github.com/sixty-dev/sixty/internal/pathologies/saturation"
	"github.com/sixty-dev/sixty/internal/pathologies/severedegradation"
	"github.com/sixty-dev/sixty/internal/pathologies/slowdecode"
	"github.com/sixty-dev/sixty/internal/pathologies/slowprefill"
	"github.com/sixty-dev/sixty/internal/pathologies/targetdown"
	"github.com/sixty-dev/sixty/internal/pathologies/unexplained"
	"github.com/sixty-dev/sixty/internal/pathologies/workloadshift"
)

//go:embed */testdata/*.txt
var cases embed.FS

// Cases holds the case files of package history, in a directory for each
// pathology: its id without hyphens.
func Cases() fs.FS { return cases }

// All returns the catalogue, root causes before symptoms: of two findings that
// cost the same, the earlier one leads the verdict.
func All() []*catalog.Pathology {
	return []*catalog.Pathology{
		targetdown.Pathology,
		gpuhardwareerrors.Pathology,
		enginehung.Pathology,
		kvcachethrashing.Pathology,
		enginerestart.Pathology,
		httperrors.Pathology,
		replicaimbalance.Pathology,
		gputhrottling.Pathology,
		prefillstarvation.Pathology,
		prefixcachemisses.Pathology,
		severedegradation.Pathology,
		concurrencylimit.Pathology,
		saturation.Pathology,
		slowdecode.Pathology,
		clientcancellations.Pathology,
		slowprefill.Pathology,
		memoryleak.Pathology,
		workloadshift.Pathology,
		unexplained.Pathology,
		gpuunderutilization.Pathology,
	}
}
