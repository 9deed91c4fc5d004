// Package httperrors detects requests that are refused or fail at the HTTP boundary.
package httperrors

import (
	_ "embed"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

//go:embed runbook.md
var runbook string

//go:embed scenario.yaml
var scenario string

var (
	clientErrors = &catalog.Threshold{
		Name: "http_4xx_share", Unit: indicator.Ratio, Default: 0.1, Baseline: &catalog.Relative{Factor: 2, Offset: 0.05, Most: 0.3},
		Why: "twice the usual share and five points more: somebody always sends nonsense; three in ten are too many whatever was usual; without a baseline one in ten",
	}
	someClient = &catalog.Threshold{
		Name: "http_4xx_some", Unit: indicator.Requests, Default: 4.5,
		Why: "at least five, for small numbers say nothing",
	}
	engineErrors = &catalog.Threshold{
		Name: "engine_errors", Unit: indicator.RequestsPerSecond, Default: 0.02,
		Why: "more than one engine error a minute",
	}
	rejections = &catalog.Threshold{
		Name: "admission_rejections", Unit: indicator.RequestsPerSecond, Default: 0.02,
		Why: "more than one refusal a minute",
	}
)

// Pathology is HTTP errors.
var Pathology = &catalog.Pathology{
	ID:       "http-errors",
	Alert:    "VLLMHTTPErrors",
	Title:    "HTTP requests fail",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.All(catalog.Above(indicator.ServerErrs, catalog.ServerErrorShare), catalog.Above(indicator.ServerErrCount, catalog.SomeServerErrors)),
		catalog.All(catalog.Above(indicator.ClientErrs, clientErrors), catalog.Above(indicator.ClientErrCount, someClient)),
		catalog.Above(indicator.EngineErrors, engineErrors),
		catalog.Above(indicator.AdmissionRejections, rejections),
	),
	For:         time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung"},
	Refine:      refine,
	Panel:       603,
	Runbook:     runbook,
	Scenario:    scenario,
}
