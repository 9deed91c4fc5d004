// Package targetdown detects a server whose metrics cannot be had any more.
package targetdown

import (
	_ "embed"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

//go:embed runbook.md
var runbook string

//go:embed scenario.yaml
var scenario string

var (
	mostly = &catalog.Threshold{
		Name: "scrapes_succeed", Unit: indicator.Ratio, Default: 0.51,
		Why: "at least half of the last scrapes failed, both of the last two where there are no more: one among many is a hiccup",
	}
	failsNow = &catalog.Threshold{
		Name: "last_scrape", Unit: indicator.Count, Default: 0.5,
		Why: "the last scrape failed too: it is not over",
	}
	twice = &catalog.Threshold{
		Name: "scrapes_failed", Unit: indicator.Count, Default: 1.5,
		Why: "two scrapes failed: of a healthy server one in a thousand is lost, and then the next one succeeds",
	}
	answered = &catalog.Threshold{
		Name: "answered", Unit: indicator.Count, Default: 0.5,
		Why: "it answered before: what never did is starting",
	}
	once = &catalog.Threshold{
		Name: "page_gaps_lost", Unit: indicator.Count, Default: 2.5,
		Why: "pages began once, and stopped once; one that comes now and then is slow, and its server is there",
	}
	held = &catalog.Threshold{
		Name: "lost_requests", Unit: indicator.Requests, Default: 0.5,
		Why: "it held a request when it was last seen, whose client lost it",
	}
	fewAnswer = &catalog.Threshold{
		Name: "pool_answers", Unit: indicator.Ratio, Default: 0.5,
		Why: "fewer than half of those that served the model answer: a rollout takes one after the other, and what is left must carry twice its load",
	}
	worked = &catalog.Threshold{
		Name: "last_work", Unit: indicator.TokensPerSecond, Default: 1e-6,
		Why: "nothing was generated between the last two pages: it was drained, or idle",
	}
	lingers = &catalog.Threshold{
		Name: "lost_lingers", Unit: indicator.Seconds, Default: 15,
		Why: "a pod that was ended leaves discovery within seconds of its last page",
	}
	twiceOften = &catalog.Threshold{
		Name: "scraped_twice", Unit: indicator.Seconds, Default: 17.5,
		Why: "what it generated between its last two pages lies within half a minute: a drain takes that long and more",
	}
	restarted = &catalog.Threshold{
		Name: "restart_takes", Unit: indicator.Seconds, Default: 240,
		Why: "it is away for four minutes: a server that was stopped to be started again is back by then",
	}
	longGone = &catalog.Threshold{
		Name: "long_gone", Unit: indicator.Seconds, Default: 600,
		Why: "ten minutes are more than most starts take: nobody is waiting for it, but a replica is missing",
	}
)

// backByNow is a server that is away for longer than a restart that was meant takes.
var backByNow = catalog.Above(indicator.Silence, restarted)

// Pathology is a target that is down.
var Pathology = &catalog.Pathology{
	ID:       "target-down",
	Alert:    "VLLMTargetDown",
	Title:    "The server does not answer",
	Severity: catalog.Page,
	When: catalog.All(
		catalog.Below(indicator.Up, mostly),
		catalog.Below(indicator.UpNow, failsNow),
		catalog.Above(indicator.FailedScrapes, twice),
		catalog.Above(indicator.Answered, answered),
		catalog.Any(
			catalog.All(catalog.Below(indicator.Flaps, once), catalog.Any(
				catalog.Below(indicator.FailedAfter, catalog.Refused),
				catalog.All(catalog.Below(indicator.FailedAfterAtLeast, catalog.Refused), catalog.Above(indicator.Silence, catalog.Unheard)),
			)),
			catalog.All(catalog.Above(indicator.Silence, catalog.LongUnheard), catalog.Below(indicator.PageTook, catalog.PageLate)),
			catalog.Above(indicator.Silence, catalog.LateUnheard),
		),
	),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Any(
			catalog.Below(indicator.PoolAnswers, fewAnswer), catalog.All(
				catalog.Above(indicator.LastHeld, held), catalog.Any(
					catalog.All(catalog.Below(indicator.BetweenScrapes, catalog.ScrapedOften), catalog.Above(indicator.LastHeldShare, catalog.InUse)),
					backByNow,
				),
			),
		)},
		{Severity: catalog.Ticket, While: catalog.Any(
			catalog.Above(indicator.Silence, longGone),
			catalog.All( // in use to the end
				catalog.Above(indicator.LastWork, worked), catalog.Above(indicator.Silence, lingers), catalog.Any(catalog.Below(indicator.BetweenScrapes, twiceOften), backByNow),
			),
		)},
		{Severity: catalog.Info, Note: true, While: catalog.All(catalog.Below(indicator.LastHeld, held), catalog.Below(indicator.LastWork, worked))},
		{Severity: catalog.Info},
	},
	Refine:   refine,
	Panel:    431,
	Runbook:  runbook,
	Scenario: scenario,
}
