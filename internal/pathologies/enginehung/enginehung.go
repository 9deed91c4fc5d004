// Package enginehung detects an engine, or one rank, that owes answers and makes no progress, while /health answers.
// It may owe tokens to the requests that it holds, first tokens to clients that wait before it accepts them, or a
// silent rank's share of the other ranks' tokens.
package enginehung

import (
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

var (
	holds = &catalog.Threshold{
		Name: "hung_holds", Unit: indicator.Requests, Default: 0.5,
		Why: "a request all the time: somebody waits for it",
	}
	stuck = &catalog.Threshold{
		Name: "engines_stuck", Unit: indicator.Count, Default: 0.5,
		Why: "one engine that held requests for ten seconds without generating a token; a long prompt without " +
			"chunked prefill stops a small engine for two to four",
	}
	noProgress = &catalog.Threshold{
		Name: "no_progress", Unit: indicator.TokensPerSecond, Default: 1e-9,
		Why: "no token in ten seconds",
	}
	clientsCome = &catalog.Threshold{
		Name: "clients_come", Unit: indicator.PerSecond, Default: 0.1,
		Why: "connections arrive and none ends: an engine that hung while idle shows in none of its own gauges",
	}
	clientsWait = &catalog.Threshold{
		Name: "clients_wait", Unit: indicator.Count, Default: 4.5,
		Why: "five connections for ten seconds in front of an engine that does nothing: health checks and scrapes " +
			"hold one or two, and an idle one is closed after five seconds",
	}
	leftUnserved = &catalog.Threshold{
		Name: "clients_left_unserved", Unit: indicator.Requests, Default: 3,
		Why: "more requests ended than the engine held or answered: their clients gave up before " +
			"the engine accepted them",
	}
	owes = &catalog.Threshold{
		Name: "rank_owes", Unit: indicator.Requests, Default: 8,
		Why: "a rank that should have sent eight first tokens sends none by chance once in 3000 times",
	}
	metBusy = &catalog.Threshold{
		Name: "rank_met_busy", Unit: indicator.Requests, Default: 8,
		Why: "none of eight requests falls into such a time by chance once in 3000 times",
	}
	outsideLong = &catalog.Threshold{
		Name: "outside_long", Unit: indicator.Seconds, Default: 20,
		Why: "a mean of twenty seconds outside the scheduler: the longest prompts are tokenized within seconds",
	}
	clientsMore = &catalog.Threshold{
		Name: "clients_more", Unit: indicator.PerSecond, Default: 0.05,
		Why: "three more clients in a minute than were answered; a pool of keep-alive connections does not grow",
	}
)

// lost holds while requests are open at the server, and neither wait nor run in its scheduler. If streams are slow,
// they come back late and are not lost.
var lost = catalog.All(
	catalog.Above(indicator.HeldOutside, clientsWait), catalog.Above(indicator.OutsideWait, outsideLong),
	catalog.Any(catalog.Below(indicator.GenerationTokenRate, noProgress),
		catalog.Below(indicator.ITLMean, catalog.DecodeSlower)),
)

var (
	// unserved holds while clients wait in front of an idle engine.
	unserved = catalog.Any(
		catalog.All(catalog.Above(indicator.UnseenClients, clientsWait),
			catalog.Above(indicator.FDGrowth, clientsCome)),
		catalog.Above(indicator.StrandedClients, clientsWait),
		catalog.Above(indicator.LeftUnserved, leftUnserved),
	)
	// owed holds while clients wait for a silent rank.
	owed = catalog.Any(
		catalog.All(catalog.Above(indicator.UnseenClients, clientsWait), catalog.Above(indicator.FDTrend, clientsMore)),
		catalog.Above(indicator.StrandedClients, clientsWait),
		catalog.Above(indicator.LeftUnserved, leftUnserved),
		catalog.Above(indicator.LeftNoQueue, catalog.SomeAbandoned),
	)
)

// Pathology is a hung engine.
var Pathology = &catalog.Pathology{
	ID:       "engine-hung",
	Alert:    "EngineHung",
	Title:    "The engine holds requests and generates no tokens",
	Severity: catalog.Page,
	Grades: []catalog.Grade{
		{
			Severity: catalog.Page, While: catalog.Any(catalog.Above(indicator.StuckEngines, stuck), unserved, owed,
				lost),
		},
		{Severity: catalog.Ticket}, // whether anybody waits cannot be seen
	},
	When: catalog.Any(
		catalog.Above(indicator.StuckEngines, stuck),
		catalog.All(catalog.Below(indicator.EngineProgress, noProgress), unserved),
		lost,
		catalog.All(catalog.Above(indicator.OwedFirstTokens, owes),
			catalog.Any(owed, catalog.Guard(catalog.Above(indicator.MetBusyRanks, metBusy)))),
	),
	ExplainedBy: []string{"target-down", "gpu-hardware-errors"},
	Chain: []catalog.Link{
		{Says: "The engine makes no tokens", When: catalog.Below(indicator.EngineProgress, noProgress)},
		{
			Says: "One rank stands still", When: catalog.All(catalog.Above(indicator.StuckEngines, stuck),
				catalog.Guard(catalog.Above(indicator.EngineProgress, noProgress))),
		},
		{Says: "It owes first tokens", When: catalog.Above(indicator.OwedFirstTokens, owes)},
		{Says: "Requests stay in flight", When: catalog.Above(indicator.InFlightFloor, holds)},
		{Says: "Requests hang outside the scheduler", When: catalog.Above(indicator.HeldOutside, clientsWait)},
		{
			Says: "Connections pile up", When: catalog.Any(catalog.Above(indicator.StrandedClients, clientsWait),
				catalog.Above(indicator.UnseenClients, clientsWait)),
		},
		{
			Says: "Clients leave unserved", When: catalog.Any(catalog.Above(indicator.LeftUnserved, leftUnserved),
				catalog.Above(indicator.LeftNoQueue, catalog.SomeAbandoned)),
		},
		catalog.FirstTokensLate,
	},
	Refine: refineFinding,
	Panel:  425,
}
