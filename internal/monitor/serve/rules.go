package serve

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
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
	gpus, gateway := false, false
	for _, t := range ts {
		switch {
		case t.Problem != "":
		case t.Dialect.Engine == dialect.DCGM:
			gpus = true
		case t.Dialect.Engine == dialect.Gateway:
			gateway = gateway || len(t.Dialect.Exprs) == 0
		case !t.Serves():
		default:
			seen.Dialects = append(seen.Dialects, t.Dialect)
		}
	}
	if len(seen.Dialects) == 0 {
		return r.current, false, nil
	}
	if gateway { // with all its names: most come with the first event
		d, err := dialect.Named(string(dialect.Gateway))
		if err != nil {
			return nil, false, err
		}
		seen.Dialects = append(seen.Dialects, d)
	}
	// Windows are those of alerts at this interval, whatever that of the scrapes.
	interval = max(interval, 15*time.Second)
	window, short := generate.Windows(interval)
	d, err := detect.Resolve(dialect.Deployment{
		Instance: dialect.UsualInstance, Model: dialect.UsualModel, Window: window, Short: short, Past: time.Hour,
	}, nil, seen)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(d.Dialects, func(a, b dialect.Dialect) int { return strings.Compare(a.Key(), b.Key()) })
	key := ""
	for _, x := range d.Dialects {
		key += x.Key() + "\xff"
	}
	if !gpus { // what joins a server with its GPUs is evaluated in vain
		key += "no GPU exporter"
		all = slices.DeleteFunc(slices.Clone(all), func(p *catalog.Pathology) bool {
			reads := false
			p.When.Signals(func(s *indicator.Signal) { reads = reads || s.Scope == indicator.GPU })
			return reads
		})
	}
	if key == r.key {
		return r.current, false, nil
	}
	rules, err := generate.NewRules(generate.RulesConfig{
		Deployment:  d.Deployment,
		Pathologies: all, Set: set.Set, Objectives: set.Objectives, Measured: set.Baselines, Interval: interval,
		Past: generate.UsualPast, Ago: generate.UsualAgo,
	})
	if err != nil {
		return nil, false, err
	}
	r.key, r.current = key, rules.Groups()
	for i := range r.current {
		// The monitor judges by itself: what is recorded is for those who look at it later.
		r.current[i].Interval = max(r.current[i].Interval, model.Duration(generate.UsualInterval))
	}
	return r.current, true, nil
}
