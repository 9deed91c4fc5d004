// Package replicaimbalance detects a replica, or a data-parallel rank, that gets more than its share of the traffic.
package replicaimbalance

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	several = &catalog.Threshold{
		Name: "replicas", Unit: indicator.Count, Default: 1.5,
		Why: "there must be another replica to share with",
	}
	arrivals = &catalog.Threshold{
		Name: "arrival_share", Unit: indicator.Times, Default: 1.5,
		Why: "half as many requests again as the mean replica gets",
	}
	held = &catalog.Threshold{
		Name: "load_share", Unit: indicator.Times, Default: 1.5,
		Why: "half as many requests again as the mean replica holds",
	}
	enough = &catalog.Threshold{
		Name: "imbalance_requests", Unit: indicator.Requests, Default: 15,
		Why: "with fewer requests, an uneven distribution is chance",
	}
	allThere = &catalog.Threshold{
		Name: "replicas_present", Unit: indicator.Ratio, Default: 0.85,
		Why: "while a replica is down, or was just now, the others carry its share",
	}
	oneKind = &catalog.Threshold{
		Name: "answers_alike", Unit: indicator.Ratio, Default: 0.1,
		Why: "chance and sessions make the output lengths of replicas differ by a small factor, not by ten: a " +
			"prefill and a decode server differ by their roles",
	}
	rankSpread = &catalog.Threshold{
		Name: "engine_spread", Unit: indicator.Times, Default: 1.5,
		Why: "the busiest rank holds half as many requests again as the mean",
	}
	rankGets = &catalog.Threshold{
		Name: "engine_arrivals", Unit: indicator.Times, Default: 1.2,
		Why: "a fifth more requests than the mean rank gets; one that holds more and gets its fair share " +
			"is slower than the others",
	}
	rankLoad = &catalog.Threshold{
		Name: "engine_load", Unit: indicator.Requests, Default: 4,
		Why: "with fewer requests in flight, the spread is chance",
	}
)

// Pathology is replica imbalance.
var Pathology = &catalog.Pathology{
	ID:       "replica-imbalance",
	Alert:    "ReplicaImbalance",
	Title:    "One replica gets more than its share of the traffic",
	Severity: catalog.Page,
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.All(catalog.Queueing, catalog.FirstTokenLate)},
		{Severity: catalog.Ticket},
	},
	Everywhere:        true,
	FollowsObjectives: true,
	When: catalog.Any(
		catalog.All(
			catalog.Guard(catalog.Above(indicator.Replicas, several)),
			catalog.Above(indicator.ArrivalShare, arrivals),
			catalog.Above(indicator.LoadShare, held),
			catalog.Guard(catalog.Above(indicator.FirstTokens, enough)),
			catalog.Guard(catalog.Above(indicator.FleetPresence, allThere)),
			catalog.Guard(catalog.Above(indicator.AnswersAlike, oneKind)),
		),
		catalog.All(
			catalog.Above(indicator.EngineSpread, rankSpread),
			catalog.Guard(catalog.Above(indicator.Running, rankLoad)),
			catalog.Above(indicator.RankArrivals, rankGets),
		),
	),
	For:         time.Minute,
	Supports:    []catalog.Cond{catalog.Queueing, catalog.FirstTokenLate},
	ExplainedBy: []string{"target-down", "engine-hung"},
	Chain: slices.Concat([]catalog.Link{
		{Says: "One replica gets most requests", When: catalog.Above(indicator.ArrivalShare, arrivals)},
		{Says: "It holds more requests", When: catalog.Above(indicator.LoadShare, held)},
		{Says: "One rank gets most requests", When: catalog.Above(indicator.RankArrivals, rankGets)},
		{Says: "That rank holds more", When: catalog.Above(indicator.EngineSpread, rankSpread)},
		catalog.QueueGrows,
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  402,
}
