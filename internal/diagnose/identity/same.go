package identity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine/gateway"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A server may be seen more than once: by a pair of Prometheus servers, by two jobs, as a pod and behind a service.
// Several servers may look like one, if "instance" is relabelled, dropped, or that of a federating Prometheus server.
// This file identifies servers by their processes.

// ownLabels are labels that engines themselves attach to the pulse, beside those in their tables of families.
var ownLabels = []string{labels.MetricName, "model_name", "engine", "engine_type", "dp_rank", "tp_rank", "pp_rank",
	"moe_ep_rank", "priority"}

// An origin is where a series was scraped: its labels but for the engine's own.
type origin struct {
	key    string
	labels map[string]string
}

func originOf(m model.Metric) origin {
	o := origin{labels: map[string]string{}}
	f, _ := dialect.Known(string(m[model.MetricNameLabel]))
	for n, v := range m {
		if !slices.Contains(ownLabels, string(n)) && !slices.Contains(f.Labels, string(n)) {
			o.labels[string(n)] = string(v)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(o.labels)) {
		o.key += n + "\xfe" + o.labels[n] + "\xff"
	}
	return o
}

// findOrigins lists where engines were seen at one moment.
func findOrigins(ctx context.Context, q metrics.Querier, at time.Time, matchers []*labels.Matcher) ([]origin, error) {
	v, err := q.Evaluate(ctx, SamplesOf(Pulse, matchers), at)
	if err != nil {
		return nil, fmt.Errorf("find the engines: %w", err)
	}
	var out []origin
	seen := map[string]bool{}
	for _, s := range v {
		if len(PickLabels(s.Metric, IdentityLabels)) > 0 || gateway.Gauge(s.Metric) {
			continue // these tell replicas and workers apart, or are a router's, one for each of its servers
		}
		if o := originOf(s.Metric); !seen[o.key] {
			seen[o.key] = true
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b origin) int { return cmp.Compare(a.key, b.key) })
	return out, nil
}

// SamplesOf are the last samples of the metrics that a regular expression matches.
func SamplesOf(names string, matchers []*labels.Matcher) indicator.Samples {
	return indicator.Now("", append([]*labels.Matcher{indicator.Like(labels.MetricName, names)}, matchers...)...)
}

// SelectorOf selects the series of the metrics that a regular expression matches.
func SelectorOf(names string, matchers []*labels.Matcher) string {
	return SamplesOf(names, matchers).String()
}

// tellingApart returns the labels beside the usual ones without which origins that
// were there at the same time would look like one.
func tellingApart(os []origin, usual []string) []string {
	var more []string
	for {
		values := map[string]map[string]bool{} // values of each label among origins that look alike
		groups := map[string][]origin{}
		for _, o := range os {
			k := LabelKey(o.labels, slices.Concat(usual, more))
			groups[k] = append(groups[k], o)
		}
		for _, g := range groups {
			for _, o := range g {
				for n, v := range o.labels {
					if !slices.ContainsFunc(g, func(other origin) bool { return other.labels[n] != v }) {
						continue
					}
					if values[n] == nil {
						values[n] = map[string]bool{}
					}
					values[n][v] = true
				}
			}
		}
		if len(values) == 0 {
			return more
		}
		// The label that separates most of them; among equals, one that people know.
		more = append(more, slices.MinFunc(slices.Collect(maps.Keys(values)), func(a, b string) int {
			known := func(n string) int {
				if i := slices.Index(telling, n); i >= 0 {
					return i
				}
				return len(telling)
			}
			return cmp.Or(cmp.Compare(len(values[b]), len(values[a])), known(a)-known(b), cmp.Compare(a, b))
		}))
	}
}

// telling are labels that say best which server a series is of.
var telling = []string{"exported_instance", "pod", "exported_pod", "exported_job", "exported_namespace"}

// A process' birth: when it began to count, or when it started.
var births = dialect.NamePattern("generation_tokens_created") + "|process_start_time_seconds"

// A process' counters, which are equal in every view.
var deeds = dialect.NamePattern("generation_tokens_total", "prompt_tokens_total", "time_to_first_token_seconds_sum")

// How views of servers are compared.
const (
	// compared is how much of the past is: twice as much as one view may lag behind another,
	// so that they show the same for long enough.
	compared = 10 * time.Minute
	mostLag  = compared / 2
	// skew is how far the clocks of two Prometheus servers may be apart where the
	// process is known to have begun at the same moment.
	skew = 3 * time.Second
	// proof is how often a counter of one view must have grown past a value of the other for
	// them to be one, where no birth is known; half as often where one lags and it is.
	proof = 4
)

// seen is what one origin shows of a server.
type seen struct {
	origin
	birth   float64                       // 0 where it is not known
	deeds   map[string][]model.SamplePair // by series
	scrapes []model.SamplePair            // the longest of them
	behind  time.Duration                 // lag of another view of the same process
}

// A double is a view of a process that another one shows too.
type double struct {
	of     origin
	behind time.Duration // it shows what the other one showed before, where that is long ago
}

// findDuplicates returns the origins whose process another origin shows too. It needs proof: the same birth with equal
// counters, at the same time or at a constant lag; or counters with a long history that grow through each other's
// values. The freshest view is judged.
func findDuplicates(ctx context.Context, q metrics.Querier, at time.Time, matchers []*labels.Matcher,
	os []origin) (map[string]double, error) {
	if len(os) < 2 {
		return nil, nil
	}
	v, err := q.Evaluate(ctx, SamplesOf(births, matchers), at)
	if err != nil {
		return nil, fmt.Errorf("find when the servers started: %w", err)
	}
	views := make([]*seen, len(os))
	byKey := map[string]*seen{}
	for i, o := range os {
		views[i] = &seen{origin: o, deeds: map[string][]model.SamplePair{}}
		byKey[o.key] = views[i]
	}
	for _, s := range v {
		// Whole seconds identify nothing: processes that start together share them. A server's birth is that of its
		// last engine.
		if o, born := byKey[originOf(s.Metric).key], float64(s.Value); o != nil && born != math.Trunc(born) {
			o.birth = max(o.birth, born)
		}
	}
	groups := map[string][]*seen{}
	for _, s := range views {
		k := fmt.Sprint("birth ", s.birth)
		if s.birth == 0 {
			k = "instance " + s.labels["instance"]
		}
		groups[k] = append(groups[k], s)
	}
	maps.DeleteFunc(groups, func(_ string, g []*seen) bool { return len(g) < 2 })
	if len(groups) == 0 {
		return nil, nil
	}
	var instances []string
	for _, g := range groups {
		for _, s := range g {
			instances = append(instances, regexp.QuoteMeta(s.labels["instance"]))
		}
	}
	slices.Sort(instances)
	among := indicator.Like("instance", strings.Join(slices.Compact(instances), "|"))
	m, err := q.Samples(ctx, SelectorOf(deeds, append(slices.Clone(matchers), among)), at, compared+time.Millisecond)
	if err != nil {
		return nil, fmt.Errorf("compare servers that look alike: %w", err)
	}
	for _, s := range m {
		o := byKey[originOf(s.Metric).key]
		if o == nil {
			continue
		}
		o.deeds[LabelKey(s.Metric, ownLabels)] = sinceReset(s.Values)
		if len(s.Values) > len(o.scrapes) {
			o.scrapes = s.Values
		}
	}
	var processes [][]*seen
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		first := len(processes)
	next:
		for _, s := range groups[k] {
			for i := first; i < len(processes); i++ {
				if lag, ok := sameProcess(processes[i][0], s); ok {
					s.behind = processes[i][0].lastScrape().Sub(s.lastScrape()) + lag
					processes[i] = append(processes[i], s)
					continue next
				}
			}
			processes = append(processes, []*seen{s})
		}
	}
	return chooseViews(processes), nil
}

// chooseViews returns, for each process, the views that are not judged. The judged view is the first of those that are
// up to date and saw the most, preferably from an origin that is judged for other processes, so that a label can
// exclude the others.
func chooseViews(processes [][]*seen) map[string]double {
	out, worse := map[string]double{}, map[string]bool{}
	for _, settle := range []bool{false, true} {
		for _, p := range processes {
			most, fresh := 0, p[0].behind
			for _, s := range p {
				most, fresh = max(most, len(s.scrapes)), min(fresh, s.behind)
			}
			flaws := func(s *seen) (n int) {
				if 5*len(s.scrapes) < 4*most {
					n += 2
				}
				if s.laggingBehind(fresh) {
					n += 2
				}
				for label, v := range s.labels {
					if settle && worse[label+"="+v] {
						return n + 1
					}
				}
				return n
			}
			best := slices.MinFunc(p, func(a, b *seen) int { return flaws(a) - flaws(b) })
			for _, s := range p {
				switch {
				case s == best:
				case settle:
					d := double{of: best.origin}
					if s.laggingBehind(best.behind) {
						d.behind = s.behind - best.behind
					}
					out[s.key] = d
				case flaws(s) > flaws(best):
					for label, v := range s.labels {
						if v != best.labels[label] {
							worse[label+"="+v] = true
						}
					}
				}
			}
		}
	}
	return out
}

// laggingBehind reports whether a view is further behind another one than the phases of their scrapes
// and one that was missed explain.
func (s *seen) laggingBehind(fresh time.Duration) bool {
	gap := s.lastScrape().Sub(s.scrapes[0].Timestamp) / time.Duration(max(1, len(s.scrapes)-1))
	return s.behind-fresh > max(2*gap, skew)
}

func (s *seen) lastScrape() model.Time { return s.scrapes[len(s.scrapes)-1].Timestamp }

// sinceReset drops the samples before a counter's last reset, and values that are not numbers.
func sinceReset(in []model.SamplePair) []model.SamplePair {
	var out []model.SamplePair
	for _, p := range in {
		v := float64(p.Value)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if len(out) > 0 && p.Value < out[len(out)-1].Value {
			out = out[:0]
		}
		out = append(out, p)
	}
	return out
}

// sameProcess reports whether two views are of one process, and how long after the first one the
// second shows the same. A process that never worked is like any other, but where both were
// scraped at one address.
func sameProcess(a, b *seen) (lag time.Duration, ok bool) {
	bounds := lagBounds{math.Inf(-1), math.Inf(1)}
	met, worked := 0, false
	for series, one := range a.deeds {
		other, ok := b.deeds[series]
		if !ok {
			if len(a.deeds) == len(b.deeds) {
				return 0, false // other models
			}
			continue
		}
		worked = worked || len(one) > 0 && len(other) > 0 && one[len(one)-1].Value > 0
		grown := bounds.narrow(one, other)
		met = max(met, grown)
	}
	slack, need := 0.0, proof
	if a.birth != 0 {
		slack, need = float64(skew.Milliseconds()), proof/2
	}
	proven := a.birth != 0 && (worked || a.labels["instance"] == b.labels["instance"])
	if bounds.least < slack && bounds.most > -slack && (proven || met >= need) {
		return 0, true
	}
	lag = time.Duration((bounds.least + bounds.most) / 2 * float64(time.Millisecond))
	return lag, bounds.least < bounds.most && !math.IsInf(bounds.most-bounds.least, 0) && lag.Abs() <= mostLag &&
		met >= need
}

// lagBounds hold the lag between two views, in milliseconds.
type lagBounds struct{ least, most float64 }

// narrow narrows the bounds by a counter that both views have. It returns how often one view's counter grew past a
// value of the other's.
func (b *lagBounds) narrow(one, other []model.SamplePair) (grown int) {
	from := 0
	for i, p := range one {
		less, _ := slices.BinarySearchFunc(other, p.Value,
			func(o model.SamplePair, v model.SampleValue) int { return cmp.Compare(o.Value, v) })
		more := less
		for more < len(other) && other[more].Value == p.Value {
			more++
		}
		if less > 0 {
			b.least = max(b.least, float64(other[less-1].Timestamp-p.Timestamp))
		}
		if more < len(other) {
			b.most = min(b.most, float64(other[more].Timestamp-p.Timestamp))
		}
		if i > 0 && p.Value > one[i-1].Value && more > from {
			grown++
		}
		from = less
	}
	return grown
}

// matcherWithout returns a matcher that keeps the series of some origins and drops the series of others; nil if no
// label separates them.
func matcherWithout(dropped, kept []origin, prefer func(label string) int) *labels.Matcher {
	if len(dropped) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, o := range slices.Concat(dropped, kept) {
		for n := range o.labels {
			names[n] = true
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	slices.SortStableFunc(sorted, func(a, b string) int { return prefer(a) - prefer(b) })
	for _, n := range sorted {
		values := map[string]bool{}
		for _, o := range dropped {
			values[o.labels[n]] = true
		}
		// A series without the label may belong to no engine.
		if values[""] || slices.ContainsFunc(kept, func(o origin) bool { return values[o.labels[n]] }) {
			continue
		}
		var texts []string
		for v := range values {
			texts = append(texts, regexp.QuoteMeta(v))
		}
		slices.Sort(texts)
		return indicator.Unlike(n, strings.Join(texts, "|"))
	}
	return nil
}
