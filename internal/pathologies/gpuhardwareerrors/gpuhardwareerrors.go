// Package gpuhardwareerrors detects errors that a GPU or its links report.
package gpuhardwareerrors

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	anyError = &catalog.Threshold{
		Name: "gpu_error", Unit: indicator.Count, Default: 0.5,
		Why: "one is enough: the driver reports it, and results or the process may be lost",
	}
	linkErrors = &catalog.Threshold{
		Name: "gpu_link_errors", Unit: indicator.PerSecond, Default: 1,
		Why: "more than one retransmission a second costs bandwidth; single ones are normal error correction",
	}
)

// Pathology is GPU hardware errors.
var Pathology = &catalog.Pathology{
	ID:       "gpu-hardware-errors",
	Alert:    "HardwareErrors",
	Title:    "The GPU reports hardware errors",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.Above(indicator.XIDChanges, anyError),
		catalog.Above(indicator.ECCErrors, anyError),
		catalog.Above(indicator.RemapFailures, anyError),
		catalog.Above(indicator.NVLinkErrors, linkErrors),
		catalog.Above(indicator.PCIeReplays, linkErrors),
	),
	For: 0 * time.Second,
	Chain: slices.Concat([]catalog.Link{
		{
			Says: "The GPU reports an error", When: catalog.Any(catalog.Above(indicator.XIDChanges, anyError),
				catalog.Above(indicator.ECCErrors, anyError), catalog.Above(indicator.RemapFailures, anyError)),
		},
		{
			Says: "A GPU link retransmits", When: catalog.Any(catalog.Above(indicator.NVLinkErrors, linkErrors),
				catalog.Above(indicator.PCIeReplays, linkErrors)),
		},
		catalog.StepsSlow,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  344,
}
