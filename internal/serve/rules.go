package serve

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
)

// catalogueRules are the rules of the catalogue, for the names that servers use. It is
// safe for concurrent use.
type catalogueRules struct {
	mu      sync.Mutex
	key     string
	current []rulefmt.RuleGroup
}

// last are the groups of the last change.
func (r *catalogueRules) last() []rulefmt.RuleGroup {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// groups renders the rules, if the servers use other names than the last time.
func (r *catalogueRules) groups(ts []diagnose.Target, all []*catalog.Pathology, set diagnose.Settings, interval time.Duration) (_ []rulefmt.RuleGroup, changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ds []dialect.Dialect
	seen := map[string]bool{}
	for _, t := range ts {
		if k := t.Dialect.Key(); t.Problem == "" && !seen[k] {
			seen[k] = true
			ds = append(ds, t.Dialect)
		}
	}
	if !slices.ContainsFunc(ds, func(d dialect.Dialect) bool { return d.Engine != dialect.DCGM }) {
		return r.current, false, nil
	}
	slices.SortFunc(ds, func(a, b dialect.Dialect) int { return strings.Compare(a.Key(), b.Key()) })
	key := ""
	for _, d := range ds {
		key += d.Key() + "\xff"
	}
	if key == r.key {
		return r.current, false, nil
	}
	// Rules are evaluated no more often than their window needs, whatever the scrape interval.
	interval = max(interval, 15*time.Second)
	window, short := generate.Windows(interval)
	rules, err := generate.NewRules(generate.RulesConfig{
		Deployment: generate.Deployment{
			Dialects: ds, Instance: generate.UsualInstance, Model: generate.UsualModel, Window: window, Short: short, Past: time.Hour,
		},
		Pathologies: all, Set: set.Set, Objectives: set.Objectives, Measured: set.Baselines, Interval: interval,
		Past: 24 * time.Hour, Ago: time.Hour,
	})
	if err != nil {
		return nil, false, err
	}
	r.key, r.current = key, rules.Groups()
	return r.current, true, nil
}
