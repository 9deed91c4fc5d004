// Package pathologies lists the catalogue: every failure mode that sixty knows.
//
// Each pathology is a directory with one package. NAME.go declares the catalog.Pathology: its condition, thresholds
// with their reasons, grades, and the pathologies that explain it. refineFinding, in refine.go where it is long,
// words a finding with the server's own numbers and sizes the fixes; it cannot change the verdict. runbook.md is for
// the person on call, and testdata has the cases that must fire and the cases that must not. CONTRIBUTING.md tells
// how to add one.
//
// Nothing registers itself: callers pass the list on, as a driver passes analyzers to a checker. A pathology reads
// signals through its Pass only, and performs no I/O.
package pathologies

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/pathologies/clientcancellations"
	"github.com/sixty-dev/sixty/internal/pathologies/concurrencylimit"
	"github.com/sixty-dev/sixty/internal/pathologies/corruptedoutputs"
	"github.com/sixty-dev/sixty/internal/pathologies/decodelost"
	"github.com/sixty-dev/sixty/internal/pathologies/enginehung"
	"github.com/sixty-dev/sixty/internal/pathologies/enginerestart"
	"github.com/sixty-dev/sixty/internal/pathologies/gatewaycancellations"
	"github.com/sixty-dev/sixty/internal/pathologies/gatewayerrors"
	"github.com/sixty-dev/sixty/internal/pathologies/gatewayimbalance"
	"github.com/sixty-dev/sixty/internal/pathologies/gatewaytimeouts"
	"github.com/sixty-dev/sixty/internal/pathologies/gpuhardwareerrors"
	"github.com/sixty-dev/sixty/internal/pathologies/gputhrottling"
	"github.com/sixty-dev/sixty/internal/pathologies/gpuunderutilization"
	"github.com/sixty-dev/sixty/internal/pathologies/hangoutsideengine"
	"github.com/sixty-dev/sixty/internal/pathologies/heldafterclient"
	"github.com/sixty-dev/sixty/internal/pathologies/httperrors"
	"github.com/sixty-dev/sixty/internal/pathologies/kvcachethrashing"
	"github.com/sixty-dev/sixty/internal/pathologies/kvoffloadslow"
	"github.com/sixty-dev/sixty/internal/pathologies/kvtiermisses"
	"github.com/sixty-dev/sixty/internal/pathologies/kvtransferfailing"
	"github.com/sixty-dev/sixty/internal/pathologies/kvtransferslow"
	"github.com/sixty-dev/sixty/internal/pathologies/memoryleak"
	"github.com/sixty-dev/sixty/internal/pathologies/metricsslow"
	"github.com/sixty-dev/sixty/internal/pathologies/misrouting"
	"github.com/sixty-dev/sixty/internal/pathologies/notinengine"
	"github.com/sixty-dev/sixty/internal/pathologies/notokenpasses"
	"github.com/sixty-dev/sixty/internal/pathologies/noupstream"
	"github.com/sixty-dev/sixty/internal/pathologies/oneengineanswers"
	"github.com/sixty-dev/sixty/internal/pathologies/pdimbalance"
	"github.com/sixty-dev/sixty/internal/pathologies/prefilllost"
	"github.com/sixty-dev/sixty/internal/pathologies/prefillstarvation"
	"github.com/sixty-dev/sixty/internal/pathologies/prefixcachemisses"
	"github.com/sixty-dev/sixty/internal/pathologies/rankskew"
	"github.com/sixty-dev/sixty/internal/pathologies/replicaimbalance"
	"github.com/sixty-dev/sixty/internal/pathologies/retrystorm"
	"github.com/sixty-dev/sixty/internal/pathologies/routerqueueing"
	"github.com/sixty-dev/sixty/internal/pathologies/saturation"
	"github.com/sixty-dev/sixty/internal/pathologies/severedegradation"
	"github.com/sixty-dev/sixty/internal/pathologies/slowdecode"
	"github.com/sixty-dev/sixty/internal/pathologies/slowoutsideengine"
	"github.com/sixty-dev/sixty/internal/pathologies/slowprefill"
	"github.com/sixty-dev/sixty/internal/pathologies/slowstart"
	"github.com/sixty-dev/sixty/internal/pathologies/speculationcollapse"
	"github.com/sixty-dev/sixty/internal/pathologies/startstuck"
	"github.com/sixty-dev/sixty/internal/pathologies/suspectedleaks"
	"github.com/sixty-dev/sixty/internal/pathologies/targetdown"
	"github.com/sixty-dev/sixty/internal/pathologies/unexplained"
	"github.com/sixty-dev/sixty/internal/pathologies/upstreamdown"
	"github.com/sixty-dev/sixty/internal/pathologies/workloadshift"
)

//go:embed */testdata/*.txt
var cases embed.FS

// Cases holds the case files of package history, in a directory for each
// pathology: its id without hyphens.
func Cases() fs.FS { return cases }

// All returns the catalogue, root causes before symptoms: if two findings cost the same, the earlier one leads the
// verdict.
func All() []*catalog.Pathology { return slices.Clone(all) }

var all = withTexts(
	targetdown.Pathology,
	startstuck.Pathology,
	gpuhardwareerrors.Pathology,
	enginehung.Pathology,
	kvcachethrashing.Pathology,
	enginerestart.Pathology,
	httperrors.Pathology,
	replicaimbalance.Pathology,
	gputhrottling.Pathology,
	prefillstarvation.Pathology,
	speculationcollapse.Pathology,
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
	metricsslow.Pathology,

	// Pathologies that only a gateway sees.
	upstreamdown.Pathology,
	noupstream.Pathology,
	hangoutsideengine.Pathology,
	notokenpasses.Pathology,
	misrouting.Pathology,
	routerqueueing.Pathology,
	gatewayerrors.Pathology,
	slowoutsideengine.Pathology,
	notinengine.Pathology,
	gatewaytimeouts.Pathology,
	gatewaycancellations.Pathology,
	retrystorm.Pathology,
	heldafterclient.Pathology,
	suspectedleaks.Pathology,
	oneengineanswers.Pathology,
	gatewayimbalance.Pathology,

	// Pathologies of engines again, of features that not all use.
	corruptedoutputs.Pathology,
	kvtransferfailing.Pathology,
	decodelost.Pathology,
	prefilllost.Pathology,
	kvtransferslow.Pathology,
	pdimbalance.Pathology,
	kvtiermisses.Pathology,
	kvoffloadslow.Pathology,
	rankskew.Pathology,
	slowstart.Pathology,
)

//go:embed */runbook.md */scenario.yaml
var texts embed.FS

// withTexts adds each pathology's runbook and scenario from its directory. Gateways' have no scenario.
func withTexts(all ...*catalog.Pathology) []*catalog.Pathology {
	for _, p := range all {
		dir := strings.ReplaceAll(p.ID, "-", "")
		runbook, _ := texts.ReadFile(dir + "/runbook.md") // that it is there and complete is tested
		scenario, _ := texts.ReadFile(dir + "/scenario.yaml")
		p.Template, p.Scenario = string(runbook), string(scenario)
		p.Runbook = generate.FillRunbook(p, generate.DescribeThreshold)
	}
	return all
}
