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
	"github.com/sixty-dev/sixty/internal/generate/detect"
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

// forget begins anew: the next servers make the rules again.
func (r *catalogueRules) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key, r.current = "", nil
}

// groups renders the rules, if the servers use other names than the last time.
func (r *catalogueRules) groups(ts []diagnose.Target, all []*catalog.Pathology, set diagnose.Settings, interval time.Duration) (_ []rulefmt.RuleGroup, changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var seen detect.Exposed
	for _, t := range ts {
		if t.Problem == "" && !t.IsGPU() {
			seen.Dialects = append(seen.Dialects, t.Dialect)
		}
	}
	if len(seen.Dialects) == 0 {
		return r.current, false, nil
	}
	// Rules are evaluated no more often than their window needs, whatever the scrape interval.
	interval = max(interval, 15*time.Second)
	window, short := generate.Windows(interval)
	d, err := detect.Resolve(generate.Deployment{
		Instance: generate.UsualInstance, Model: generate.UsualModel, Window: window, Short: short, Past: time.Hour,
	}, nil, seen)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(d.Dialects, func(a, b dialect.Dialect) int { return strings.Compare(a.Key(), b.Key()) })
	key := ""
	for _, x := range d.Dialects {
		key += x.Key() + "\xff"
	}
	if key == r.key {
		return r.current, false, nil
	}
	rules, err := generate.NewRules(generate.RulesConfig{
		Deployment:  d.Deployment,
		Pathologies: all, Set: set.Set, Objectives: set.Objectives, Measured: set.Baselines, Interval: interval,
		Past: 24 * time.Hour, Ago: time.Hour,
	})
	if err != nil {
		return nil, false, err
	}
	r.key, r.current = key, rules.Groups()
	return r.current, true, nil
}
