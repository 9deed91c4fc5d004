// Package startstuck detects a server that does not come up.
package startstuck

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	never = &catalog.Threshold{
		Name: "never_answered", Unit: indicator.Count, Default: 0.5,
		Why: "no scrape ever succeeded: it is starting, or cannot start",
	}
	tooLong = &catalog.Threshold{
		Name: "start_takes", Unit: indicator.Seconds, Default: 600,
		Why: "ten minutes cover the start of most models, including compilation and CUDA graphs, when no other start " +
			"shows how long it takes",
	}
	notTold = &catalog.Threshold{
		Name: "start_not_told", Unit: indicator.Seconds, Default: 1e-3,
		Why: "no server of its job shows how long a start takes",
	}
	longerThanOthers = &catalog.Threshold{
		Name: "start_over_usual", Unit: indicator.Times, Default: 3,
		Why: "three times the longest start in its job: a cold page cache, an image pull or a " +
			"weight download can double it",
	}
	atLeast = &catalog.Threshold{
		Name: "start_at_least", Unit: indicator.Seconds, Default: 300,
		Why: "scheduling and pulling a 10 GB image to a new node can take five minutes before the process " +
			"starts, for small models too",
	}
	loops = &catalog.Threshold{
		Name: "crash_loop", Unit: indicator.Count, Default: 2.5,
		Why: "three starts within 15 minutes: a rollout causes one, and its correction a second",
	}
	young = &catalog.Threshold{
		Name: "crash_loop_age", Unit: indicator.Seconds, Default: 300,
		Why: "it has not served for five minutes since; after that it counts as up",
	}
	nobody = &catalog.Threshold{
		Name: "nobody_answers", Unit: indicator.Count, Default: 0.5,
		Why: "no target of its job answers, so no requests are served while it starts",
	}
)

// Pathology is a start that does not finish.
var Pathology = &catalog.Pathology{
	ID:       "start-stuck",
	Alert:    "StartStuck",
	Title:    "The server does not come up",
	Severity: catalog.Page,
	When: catalog.Any(
		catalog.All(catalog.Below(indicator.Answered, never), catalog.Any(
			catalog.All(catalog.Above(indicator.StartRatio, longerThanOthers),
				catalog.Above(indicator.Starting, atLeast)),
			catalog.All(catalog.Above(indicator.Starting, tooLong),
				catalog.Guard(catalog.Below(indicator.PoolStart, notTold))),
		)),
		catalog.All(catalog.Above(indicator.Starts, loops), catalog.Guard(catalog.Below(indicator.ServingAge, young))),
	),
	Grades: []catalog.Grade{
		{Severity: catalog.Page, While: catalog.Below(indicator.JobAnswers, nobody)},
		{Severity: catalog.Ticket},
	},
	Explains:    []string{"engine-restart", "metrics-slow"},
	ExplainedBy: []string{"target-down"},
	Chain: []catalog.Link{
		{Says: "The server starts repeatedly", When: catalog.Above(indicator.Starts, loops)},
		{Says: "The start takes too long", When: catalog.Above(indicator.Starting, atLeast)},
		{Says: "No server answers", When: catalog.Below(indicator.JobAnswers, nobody)},
	},
	Refine: refineFinding,
	Panel:  432,
}
