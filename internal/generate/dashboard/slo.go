package dashboard

import (
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
)

// noSLO explains why the panels of the error budget may be empty.
const noSLO = "no objectives are recorded: write slo.yaml, and load the rules of `sixty generate rules --slo slo.yaml`"

// budgetAlerts returns the first parts of the names of package burnrate's alerts.
func (b *builder) budgetAlerts() []string {
	names, _ := b.cfg.Deployment.Subjects(indicator.Model)
	for i := range names {
		names[i] += burnrate.Alerts
	}
	return names
}

// budgetRow returns the panels of the error budget, from the series that package burnrate records.
func budgetRow(period time.Duration) (row, error) {
	levels, err := burnrate.Levels(period)
	if err != nil {
		return row{}, err
	}
	// The rules record the burn rate over the window of the fastest page, and over the whole period.
	fast, slow := levels[0], levels[len(levels)-1]
	recorded := func(legend, name string) query {
		return query{level: perObjective, legend: legend, shows: []string{"slo"}, expr: name}
	}
	return row{id: 610, title: "Objectives and error budget", panels: []panel{
		{
			id: 611, title: "Error budget left", kind: Stat, width: 8, unit: indicator.Ratio, noData: noSLO,
			doc: "Share of the period's error budget that is left. Below 0 the objective is missed.",
			steps: []step{
				{value: -1e9, level: Critical, why: "the budget is spent", hidden: true},
				{value: 0, level: Warning, why: "a quarter of the budget or less is left"},
				{value: 0.25, level: Good, why: "", hidden: true},
			},
			queries: []query{recorded("", burnrate.Remaining)},
		},
		{
			id: 612, title: "Objectives met", width: 8, unit: indicator.Ratio, noData: noSLO,
			doc:     "Share of good events over the period: requests within the latency target, or without error.",
			queries: []query{recorded("", burnrate.SLI(period))},
		},
		{
			id: 613, title: "Burn rate", width: 8, unit: indicator.Times, noData: noSLO,
			doc: "Speed at which the budget is spent: at 1 it lasts exactly for the period.",
			steps: []step{
				{value: slow.Factor, level: Warning, why: "the slowest alert's rate, once it lasted"},
				{value: fast.Factor, level: Critical, why: "the fastest page's rate"},
			},
			queries: []query{
				recorded(promDuration(fast.Long), burnrate.BurnRate(fast.Long)),
				recorded(promDuration(period), burnrate.BurnRate(period)),
			},
		},
		{
			id: 614, title: "Bad events", width: 12, unit: indicator.PerSecond, noData: noSLO,
			queries: []query{recorded("", burnrate.BadEvents)},
		},
		{
			id: 615, title: "Events", width: 12, unit: indicator.PerSecond, noData: noSLO,
			queries: []query{recorded("", burnrate.Events)},
			doc:     "The number behind the shares: one bad event among ten is ten per cent.",
		},
	}}, nil
}
