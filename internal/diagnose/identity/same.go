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

// ownLabels are the labels that engines attach to the pulse themselves, beside those in their tables of families.
var ownLabels = []string{labels.MetricName, "model_name", "engine", "engine_type", "dp_rank", "tp_rank", "pp_rank",
	"moe_ep_rank", "priority"}

// An origin is where a series was scraped: its labels without the engine's own.
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
			continue // labels that distinguish replicas and workers, or a router's gauge, one for each of its servers
		}
		if o := originOf(s.Metric); !seen[o.key] {
			seen[o.key] = true
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b origin) int { return cmp.Compare(a.key, b.key) })
	return out, nil
}

// SamplesOf returns an expression for the last samples of the metrics that a regular expression matches.
func SamplesOf(names string, matchers []*labels.Matcher) indicator.Samples {
	return indicator.Now("", append([]*labels.Matcher{indicator.Like(labels.MetricName, names)}, matchers...)...)
}

// SelectorOf returns a selector of the metrics that a regular expression matches.
func SelectorOf(names string, matchers []*labels.Matcher) string {
	return SamplesOf(names, matchers).String()
}

// tellingApart returns the labels, beside the usual ones, without which origins of the same time would look like one.
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
		// The label that separates the most origins; among equals, one that people know.
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

// telling are the labels that best tell people which server a series is of.
var telling = []string{"exported_instance", "pod", "exported_pod", "exported_job", "exported_namespace"}

// startMetrics matches the metrics that tell when a process started, or began to count.
var startMetrics = dialect.NamePattern("generation_tokens_created") + "|process_start_time_seconds"

// counterMetrics matches counters of a process, which are equal in every view of it.
var counterMetrics = dialect.NamePattern("generation_tokens_total", "prompt_tokens_total",
	"time_to_first_token_seconds_sum")

// How views of servers are compared.
const (
	// compared is how much of the past is compared: twice as much as one view may lag behind another, so that both show
	// the same for long enough.
	compared = 10 * time.Minute
	mostLag  = compared / 2
	// skew is how far the clocks of two Prometheus servers may be apart, if both show the same start of a process.
	skew = 3 * time.Second
	// proof is how often a counter of one view must have grown past a value of the other to prove that both are one
	// process, if its start is unknown. Half as often is enough if the start is known and one view lags.
	proof = 4
)

// A processView is what one origin shows of a process.
type processView struct {
	origin
	start    float64                       // 0 if unknown
	counters map[string][]model.SamplePair // by series
	scrapes  []model.SamplePair            // the longest of the series
	behind   time.Duration                 // lag of another view of the same process
}

// A double is a view of a process that another origin shows too, and that is not judged.
type double struct {
	of     origin        // the view that is judged
	behind time.Duration // how far it lags behind that view, if that is long
}

// findDuplicates returns the origins whose process another origin shows too. It needs proof: the same start with equal
// counters, at the same time or at a constant lag; or counters with a long history that grow through each other's
// values. The freshest view is judged.
func findDuplicates(ctx context.Context, q metrics.Querier, at time.Time, matchers []*labels.Matcher,
	os []origin) (map[string]double, error) {
	if len(os) < 2 {
		return nil, nil
	}
	v, err := q.Evaluate(ctx, SamplesOf(startMetrics, matchers), at)
	if err != nil {
		return nil, fmt.Errorf("find when the servers started: %w", err)
	}
	views := make([]*processView, len(os))
	byKey := map[string]*processView{}
	for i, o := range os {
		views[i] = &processView{origin: o, counters: map[string][]model.SamplePair{}}
		byKey[o.key] = views[i]
	}
	for _, s := range v {
		// Whole seconds identify nothing, because processes that start together share them. A server started when its
		// last engine did.
		if o, born := byKey[originOf(s.Metric).key], float64(s.Value); o != nil && born != math.Trunc(born) {
			o.start = max(o.start, born)
		}
	}
	groups := map[string][]*processView{}
	for _, s := range views {
		k := fmt.Sprint("start ", s.start)
		if s.start == 0 {
			k = "instance " + s.labels["instance"]
		}
		groups[k] = append(groups[k], s)
	}
	maps.DeleteFunc(groups, func(_ string, g []*processView) bool { return len(g) < 2 })
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
	m, err := q.Samples(ctx, SelectorOf(counterMetrics, append(slices.Clone(matchers), among)), at,
		compared+time.Millisecond)
	if err != nil {
		return nil, fmt.Errorf("compare servers that look alike: %w", err)
	}
	for _, s := range m {
		o := byKey[originOf(s.Metric).key]
		if o == nil {
			continue
		}
		o.counters[LabelKey(s.Metric, ownLabels)] = sinceReset(s.Values)
		if len(s.Values) > len(o.scrapes) {
			o.scrapes = s.Values
		}
	}
	var processes [][]*processView
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
			processes = append(processes, []*processView{s})
		}
	}
	return chooseViews(processes), nil
}

// chooseViews returns, for each process, the views that are not judged. The judged view is the first of those that are
// up to date and saw the most, preferably from an origin that is judged for other processes, so that a label can
// exclude the others.
func chooseViews(processes [][]*processView) map[string]double {
	out, worse := map[string]double{}, map[string]bool{}
	for _, settle := range []bool{false, true} {
		for _, p := range processes {
			most, fresh := 0, p[0].behind
			for _, s := range p {
				most, fresh = max(most, len(s.scrapes)), min(fresh, s.behind)
			}
			flaws := func(s *processView) (n int) {
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
			best := slices.MinFunc(p, func(a, b *processView) int { return flaws(a) - flaws(b) })
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

// laggingBehind reports whether a view is further behind the freshest one than the phases of their scrapes and a missed
// scrape explain.
func (s *processView) laggingBehind(fresh time.Duration) bool {
	gap := s.lastScrape().Sub(s.scrapes[0].Timestamp) / time.Duration(max(1, len(s.scrapes)-1))
	return s.behind-fresh > max(2*gap, skew)
}

func (s *processView) lastScrape() model.Time { return s.scrapes[len(s.scrapes)-1].Timestamp }

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

// sameProcess reports whether two views are of one process, and by how much the second lags behind the first. A process
// that never worked looks like any other, so both views must then be of one address.
func sameProcess(a, b *processView) (lag time.Duration, ok bool) {
	bounds := lagBounds{math.Inf(-1), math.Inf(1)}
	met, worked := 0, false
	for series, one := range a.counters {
		other, ok := b.counters[series]
		if !ok {
			if len(a.counters) == len(b.counters) {
				return 0, false // other models
			}
			continue
		}
		worked = worked || len(one) > 0 && len(other) > 0 && one[len(one)-1].Value > 0
		grown := bounds.narrow(one, other)
		met = max(met, grown)
	}
	slack, need := 0.0, proof
	if a.start != 0 {
		slack, need = float64(skew.Milliseconds()), proof/2
	}
	proven := a.start != 0 && (worked || a.labels["instance"] == b.labels["instance"])
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
