// Package httperrors detects requests that are refused or fail at the HTTP boundary.
package httperrors

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	clientErrors = &catalog.Threshold{
		Name: "http_4xx_share", Unit: indicator.Ratio, Default: 0.1, Baseline: &catalog.Relative{
			Factor: 2, Offset: 0.05, Most: 0.3,
		},
		Why: "twice the usual share and five points more, because some clients always send bad requests; three in " +
			"ten are too many regardless of the usual share; without a baseline, one in ten",
	}
	someClient = &catalog.Threshold{
		Name: "http_4xx_some", Unit: indicator.Requests, Default: 4.5,
		Why: "at least five: smaller numbers are chance",
	}
	manyClient = &catalog.Threshold{
		Name: "http_4xx_many", Unit: indicator.Requests, Default: 19.5,
		Why: "twenty refusals deserve a look during working hours: an expired key, or a new client release; fewer " +
			"are one client's mistake, reported as info",
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

// serverFails holds while the server fails requests, rather than refusing bad ones.
var serverFails = catalog.All(catalog.Above(indicator.ServerErrs, catalog.ServerErrorShare),
	catalog.Guard(catalog.Above(indicator.ServerErrCount, catalog.SomeServerErrors)))

// Pathology is HTTP errors.
var Pathology = &catalog.Pathology{
	ID:       "http-errors",
	Alert:    "HTTPErrors",
	Title:    "HTTP requests fail",
	Severity: catalog.Page,
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Any(serverFails, catalog.Above(indicator.EngineErrors, engineErrors))},
		{
			Severity: catalog.Ticket, While: catalog.Any(catalog.Above(indicator.ClientErrCount, manyClient),
				catalog.Above(indicator.AdmissionRejections, rejections)),
		},
		{Severity: catalog.Info}, // clients must fix their own errors
	},
	When: catalog.Any(
		serverFails,
		catalog.All(catalog.Above(indicator.ClientErrs, clientErrors),
			catalog.Guard(catalog.Above(indicator.ClientErrCount, someClient))),
		catalog.Above(indicator.EngineErrors, engineErrors),
		catalog.Above(indicator.AdmissionRejections, rejections),
	),
	For:         time.Minute,
	ExplainedBy: []string{"target-down", "engine-hung"},
	Chain: []catalog.Link{
		{Says: "The engine reports errors", When: catalog.Above(indicator.EngineErrors, engineErrors)},
		{Says: "Admission control refuses requests", When: catalog.Above(indicator.AdmissionRejections, rejections)},
		{Says: "Requests are refused", When: catalog.Above(indicator.ClientErrs, clientErrors)},
		catalog.RequestsFail,
	},
	Refine: refineFinding,
	Panel:  603,
}
