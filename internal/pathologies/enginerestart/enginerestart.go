// Package enginerestart detects a server that started anew a moment ago.
package enginerestart

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	once = &catalog.Threshold{
		Name: "restarted", Unit: indicator.Count, Default: 0.5,
		Why: "its counters were reset just now",
	}
	justStarted = &catalog.Threshold{
		Name: "just_started", Unit: indicator.Seconds, Default: 120,
		Why: "the engine has served for less than two minutes: what is wrong after that has another cause",
	}
	seenDown = &catalog.Threshold{
		Name: "seen_down", Unit: indicator.Ratio, Default: 0,
		Why: "a scrape failed before: the server's clock alone is not proof, because it may differ from the monitor's",
	}
	answers = &catalog.Threshold{
		Name: "answers_now", Unit: indicator.Count, Default: 0.5,
		Why: "the last scrape succeeded: while scrapes fail, the recent start is not the fault",
	}
	noneFailed = &catalog.Threshold{
		Name: "no_scrape_failed", Unit: indicator.Ratio, Default: 1e-6,
		Why: "it was down between two scrapes, so what it held is unknown",
	}
	lostRequests = &catalog.Threshold{
		Name: "restart_held", Unit: indicator.Requests, Default: 1.5,
		Why: "it held two requests at the last scrape before; one may be the last of a drain",
	}
	watched = &catalog.Threshold{
		Name: "watched_before", Unit: indicator.Seconds, Default: 5,
		Why: "scrapes of it, successful or not, began before it served: the start was observed",
	}
)

// Pathology is a recent restart.
var Pathology = &catalog.Pathology{
	ID:       "engine-restart",
	Alert:    "EngineRestart",
	Title:    "The server restarted recently",
	Severity: catalog.Ticket,
	When: catalog.All(catalog.Guard(catalog.Above(indicator.UpNow, answers)), catalog.Any(
		catalog.Above(indicator.Restarts, once),
		catalog.All(
			catalog.Below(indicator.ServingAge, justStarted),
			catalog.Guard(catalog.Above(indicator.StartedWhileWatched, watched)),
			catalog.Guard(catalog.Above(indicator.SeenDown, seenDown)),
		),
	)),
	Grades: []catalog.Grade{
		{Severity: catalog.Ticket, While: catalog.All(catalog.Below(indicator.BetweenScrapes, catalog.ScrapedOften),
			catalog.Any(
				catalog.All(catalog.Above(indicator.HeldAway, lostRequests),
					catalog.Above(indicator.HeldAwayShare, catalog.InUse)),
				catalog.All(catalog.Above(indicator.Restarts, once), catalog.Below(indicator.SeenDown, noneFailed)),
			))},
		{Severity: catalog.Info}, // a start without lost requests: a rollout, or intended
	},
	// Symptoms name this pathology in their ExplainedBy. A cold start explains slow first steps, an empty prefix
	// cache, and clients that gave up or return all at once. It does not explain evictions, errors or a hang: counters
	// begin at zero, so those are new.
	For:         0 * time.Second,
	ExplainedBy: []string{"target-down"},
	Chain: slices.Concat([]catalog.Link{
		{
			Says: "The server restarts", When: catalog.Any(catalog.Above(indicator.Restarts, once),
				catalog.Below(indicator.ServingAge, justStarted)),
		},
		{Says: "Its requests are lost", When: catalog.Above(indicator.HeldAway, lostRequests)},
	}, catalog.Late),
	Refine: refineFinding,
	Panel:  432,
}
