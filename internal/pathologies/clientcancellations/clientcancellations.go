// Package clientcancellations detects clients that hang up before their answer is complete.
package clientcancellations

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// abandonedMore is a share of abandoned requests above the usual one.
var abandonedMore = &catalog.Threshold{
	Name: "abandoned_more", Unit: indicator.Ratio, Objective: "cancelled", Default: catalog.None,
	Baseline: &catalog.Relative{Factor: 2, Offset: 0.1},
	Why: "twice the usual share and ten points more: completion in an editor cancels most of its requests by " +
		"design, so a normal share is not a fault while tokens are on time",
}

// Pathology is clients that cancel.
var Pathology = &catalog.Pathology{
	ID:       "client-cancellations",
	Alert:    "ClientCancellations",
	Title:    "Clients disconnect before their answers are complete",
	Severity: catalog.Page,
	Grades:   []catalog.Grade{{Severity: catalog.Page, While: catalog.MostGetNothing}, {Severity: catalog.Ticket}},
	When: catalog.All(
		catalog.Any(
			catalog.Above(indicator.AbandonedShare, abandonedMore),
			catalog.All(catalog.Above(indicator.AbandonedShare, catalog.AbandonedShare), catalog.UserPain),
		),
		catalog.Guard(catalog.Above(indicator.Abandoned, catalog.SomeAbandoned)),
	),
	For: 2 * time.Minute,
	ExplainedBy: []string{
		"target-down", "gpu-hardware-errors", "engine-hung", "kv-cache-thrashing", "engine-restart",
		"replica-imbalance", "gpu-throttling", "prefill-starvation", "severe-degradation", "concurrency-limit",
		"saturation", "slow-decode",
	},
	Chain: slices.Concat(catalog.Demand, []catalog.Link{
		catalog.QueueGrows,
		catalog.FirstTokensLate,
		catalog.AnswersLate,
		catalog.ClientsLeave,
	}),
	Refine: refineFinding,
	Panel:  604,
}
