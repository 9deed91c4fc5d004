// Package targetdown detects a server whose metrics page no longer answers.
package targetdown

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	mostly = &catalog.Threshold{
		Name: "scrapes_succeed", Unit: indicator.Ratio, Default: 0.51,
		Why: "at least half of the last scrapes failed, or both where there are only two: one among many means little",
	}
	failsNow = &catalog.Threshold{
		Name: "last_scrape", Unit: indicator.Count, Default: 0.5,
		Why: "the last scrape failed too",
	}
	twice = &catalog.Threshold{
		Name: "scrapes_failed", Unit: indicator.Count, Default: 1.5,
		Why: "two scrapes failed: a healthy server loses one in a thousand, and the next one succeeds",
	}
	answered = &catalog.Threshold{
		Name: "answered", Unit: indicator.Count, Default: 0.5,
		Why: "it answered before; a server that never did is starting",
	}
	once = &catalog.Threshold{
		Name: "page_gaps_lost", Unit: indicator.Count, Default: 2.5,
		Why: "scrapes began and stopped once; scrapes that succeed now and then mean a slow page of a running server",
	}
	held = &catalog.Threshold{
		Name: "lost_requests", Unit: indicator.Requests, Default: 0.5,
		Why: "it held a request when it was last seen, which its client lost",
	}
	fewAnswer = &catalog.Threshold{
		Name: "pool_answers", Unit: indicator.Ratio, Default: 0.5,
		Why: "fewer than half of the servers of the model answer, or of those of its role in a pair of prefill and " +
			"decode: a rollout replaces them one by one, and the rest must carry twice their load",
	}
	worked = &catalog.Threshold{
		Name: "last_work", Unit: indicator.TokensPerSecond, Default: 1e-6,
		Why: "no token was generated between the last two scrapes: it was drained, or idle",
	}
	lingers = &catalog.Threshold{
		Name: "lost_lingers", Unit: indicator.Seconds, Default: 15,
		Why: "a terminated pod leaves discovery within seconds of its last scrape",
	}
	// lateUnheard is catalog.LongUnheard for a server whose pages took seconds before, or failed now and then.
	lateUnheard = &catalog.Threshold{
		Name: "unheard_while_late", Unit: indicator.Seconds, Default: 360,
		Why: "six scrapes in a row at one a minute: if one scrape in five times out, four in a row fail once in six " +
			"hundred times, and six once in sixteen thousand",
	}
	pageLate = &catalog.Threshold{
		Name: "page_late", Unit: indicator.Seconds, Default: 1,
		Why: "/metrics takes 10 to 40 ms; if it took a second before, a timeout does not indicate a lost server",
	}
	scrapedTwice = &catalog.Threshold{
		Name: "scraped_twice", Unit: indicator.Seconds, Default: 17.5,
		Why: "its last tokens lie within half a minute: a drain takes at least that long",
	}
	scrapedFourTimes = &catalog.Threshold{
		Name: "scraped_four_times", Unit: indicator.Seconds, Default: 5.5,
		Why: "four scrapes in a row were refused within 20 s: a slow server does not refuse connections, so it does " +
			"not matter that pages came and went before",
	}
	missedFour = &catalog.Threshold{
		Name: "unheard_scraped_seldom", Unit: indicator.Seconds, Default: 110,
		Why: "four scrapes in a row at one each 30 s, as in a minute at 15 s: of a slow page, two in a row often " +
			"time out",
	}
	restarted = &catalog.Threshold{
		Name: "restart_takes", Unit: indicator.Seconds, Default: 240,
		Why: "it has been down for four minutes: after an intended restart a server is back by then",
	}
	startsSoon = &catalog.Threshold{
		Name: "starts_soon", Unit: indicator.Seconds, Default: 120,
		Why: "half of the four minutes: a larger model that is replaced is not back by then",
	}
	longGone = &catalog.Threshold{
		Name: "long_gone", Unit: indicator.Seconds, Default: 600,
		Why: "ten minutes are longer than most starts: no requests are affected, but a replica is missing",
	}
)

// backByNow holds once a server would be back after an intended restart.
var backByNow = catalog.Above(indicator.Silence, restarted)

// Pathology is a target that is down.
var Pathology = &catalog.Pathology{
	ID:       "target-down",
	Alert:    "TargetDown",
	Title:    "The server does not answer",
	Severity: catalog.Page,
	When: catalog.All(
		catalog.Below(indicator.Up, mostly),
		catalog.Guard(catalog.Below(indicator.UpNow, failsNow)),
		catalog.Above(indicator.FailedScrapes, twice),
		catalog.Guard(catalog.Above(indicator.Answered, answered)),
		catalog.Any(
			catalog.All(catalog.Guard(catalog.Below(indicator.Flaps, once)), catalog.Any(
				catalog.Guard(catalog.Below(indicator.FailedAfter, catalog.Refused)),
				catalog.All(catalog.Guard(catalog.Below(indicator.FailedAfterAtLeast, catalog.Refused)),
					catalog.Above(indicator.Silence, catalog.Unheard)),
			)),
			catalog.All(catalog.Guard(catalog.Below(indicator.FailedAfter, catalog.Refused)), catalog.Any(
				catalog.All(catalog.Above(indicator.Silence, catalog.Unheard),
					catalog.Guard(catalog.Below(indicator.BetweenScrapes, scrapedFourTimes))),
				catalog.Above(indicator.Silence, catalog.LongUnheard),
			)),
			catalog.All(catalog.Above(indicator.Silence, catalog.LongUnheard),
				catalog.Guard(catalog.Below(indicator.PageTook, pageLate)), catalog.Any(
					catalog.Guard(catalog.Below(indicator.BetweenScrapes, scrapedTwice)),
					catalog.Above(indicator.Silence, missedFour),
				)),
			catalog.Above(indicator.Silence, lateUnheard),
		),
	),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Any(
			catalog.Below(indicator.PoolAnswers, fewAnswer), catalog.All(
				catalog.Above(indicator.LastHeld, held), catalog.Any(
					catalog.All(backByNow, catalog.Below(indicator.PoolStart, startsSoon)),
					catalog.Above(indicator.Silence, longGone),
				),
			),
		)},
		// No page shows whether the server was drained after its last scrape, as in a rollout: the others serve then.
		{Severity: catalog.Ticket, While: catalog.Any(
			catalog.Above(indicator.Silence, longGone),
			catalog.All(catalog.Above(indicator.LastHeld, held),
				catalog.Below(indicator.BetweenScrapes, catalog.ScrapedOften),
				catalog.Above(indicator.LastHeldShare, catalog.InUse)),
			catalog.All( // in use to the end
				catalog.Above(indicator.LastWork, worked), catalog.Above(indicator.Silence, lingers),
				catalog.Any(catalog.Below(indicator.BetweenScrapes, scrapedTwice), backByNow),
			),
		)},
		{
			Severity: catalog.Info, Note: true, While: catalog.All(catalog.Below(indicator.LastHeld, held),
				catalog.Below(indicator.LastWork, worked)),
		},
		{Severity: catalog.Info},
	},
	Chain: []catalog.Link{
		{Says: "Scrapes fail", When: catalog.Above(indicator.FailedScrapes, twice)},
		{Says: "Its requests are lost", When: catalog.Above(indicator.LastHeld, held)},
		{Says: "Few servers still answer", When: catalog.Below(indicator.PoolAnswers, fewAnswer)},
	},
	Refine: refineFinding,
	Panel:  431,
}
