// Package clientcancellations detects clients that hang up before their answer is
// complete.
package clientcancellations

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Pathology is clients that cancel.
var Pathology = &catalog.Pathology{
	ID:       "client-cancellations",
	Alert:    "ClientCancellations",
	Title:    "Clients disconnect before their answers are complete",
	Severity: catalog.Page,
	Grades:   []catalog.Grade{{Severity: catalog.Page, While: catalog.MostGetNothing}, {Severity: catalog.Ticket}},
	When: catalog.All(
		catalog.Any(
			catalog.Above(indicator.AbandonedShare, catalog.AbandonedMore),
			catalog.All(catalog.Above(indicator.AbandonedShare, catalog.AbandonedShare), catalog.UserPain),
		),
		catalog.Above(indicator.Abandoned, catalog.SomeAbandoned),
	),
	For: 2 * time.Minute,
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "severe-degradation", "concurrency-limit",
		"saturation", "slow-decode",
	},
	Refine: refine,
	Panel:  604,
}
