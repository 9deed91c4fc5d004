package diagnose

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

	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A server may be seen more than once: by the two halves of a pair of Prometheus
// servers, by two jobs, as a pod and behind a service. And several may look like one:
// where "instance" is relabelled, dropped, or that of the Prometheus server which
// they were federated from. This file tells them apart by what their processes are.

// ownLabels are labels that the engine itself gives to the pulse.
var ownLabels = []string{labels.MetricName, "model_name", "engine", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank"}

// An origin is where a series was scraped: its labels but for the engine's own.
type origin struct {
	key    string
	labels map[string]string
}

func originOf(m model.Metric) origin {
	o := origin{labels: map[string]string{}}
	for n, v := range m {
		if !slices.Contains(ownLabels, string(n)) {
			o.labels[string(n)] = string(v)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(o.labels)) {
		o.key += n + "\xfe" + o.labels[n] + "\xff"
	}
	return o
}

// origins lists where engines were seen at one moment.
func origins(ctx context.Context, q metrics.Querier, at time.Time, matchers []*labels.Matcher) ([]origin, error) {
	v, err := q.Query(ctx, selectorOf(pulse, matchers), at)
	if err != nil {
		return nil, fmt.Errorf("find the engines: %w", err)
	}
	var out []origin
	seen := map[string]bool{}
	for _, s := range v {
		if strings.HasPrefix(string(s.Metric[model.MetricNameLabel]), "ray_") {
			continue // its labels tell replicas and workers apart
		}
		if o := originOf(s.Metric); !seen[o.key] {
			seen[o.key] = true
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b origin) int { return cmp.Compare(a.key, b.key) })
	return out, nil
}

// selectorOf selects the series of the metrics that a regular expression matches.
func selectorOf(names string, matchers []*labels.Matcher) string {
	name := labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, names)
	return indicator.Selector("", append([]*labels.Matcher{name}, matchers...)...)
}

// tellingApart returns the labels beside the usual ones without which origins that
// were there at the same time would look like one.
func tellingApart(os []origin, usual []string) []string {
	var more []string
	for {
		values := map[string]map[string]bool{} // of each label, among origins that look alike
		groups := map[string][]origin{}
		for _, o := range os {
			k := labelKey(o.labels, slices.Concat(usual, more))
			groups[k] = append(groups[k], o)
		}
		for _, g := range groups {
			if len(g) < 2 {
				continue
			}
			names := map[string]bool{}
			for _, o := range g {
				for n := range o.labels {
					names[n] = true
				}
			}
			for n := range names {
				distinct := map[string]bool{}
				for _, o := range g {
					distinct[o.labels[n]] = true
				}
				if len(distinct) < 2 {
					continue
				}
				if values[n] == nil {
					values[n] = map[string]bool{}
				}
				maps.Copy(values[n], distinct)
			}
		}
		if len(values) == 0 {
			return more
		}
		// The one that tells most of them apart; of equals one that people know.
		names := slices.Collect(maps.Keys(values))
		slices.SortFunc(names, func(a, b string) int {
			known := func(n string) int {
				if i := slices.Index(telling, n); i >= 0 {
					return i
				}
				return len(telling)
			}
			return cmp.Or(cmp.Compare(len(values[b]), len(values[a])), known(a)-known(b), cmp.Compare(a, b))
		})
		more = append(more, names[0])
	}
}

// telling are labels that say best which server a series is of.
var telling = []string{"exported_instance", "pod", "exported_pod", "exported_job", "exported_namespace"}

// What a process is known by: when it began to count, or when it started.
const births = "(kserve_)?vllm[:_]generation_tokens_created|process_start_time_seconds"

// What a process did: the same in every view of it.
const deeds = "((kserve_)?vllm[:_]|sglang:)(generation_tokens_total|prompt_tokens_total|time_to_first_token_seconds_sum)"

// How views of servers are compared.
const (
	compared = 5 * time.Minute
	// skew is how far the clocks of two Prometheus servers may be apart where the
	// process is known to have begun at the same moment.
	skew = 3 * time.Second
	// alternations is how often the counters of two views must have grown in turns
	// for them to be one, where no birth is known.
	alternations = 4
)

// seen is what one origin shows of a server.
type seen struct {
	origin
	birth   float64 // 0 where it is not known
	samples int
	deeds   map[string][]model.SamplePair // by series
}

// duplicates returns the origins that show a process which another one shows too, each
// with that other one. Without proof there is none: the same birth and the same
// counters, or counters with a long past that grow in turns.
func duplicates(ctx context.Context, q metrics.Querier, at time.Time, matchers []*labels.Matcher, os []origin) (map[string]origin, error) {
	if len(os) < 2 {
		return nil, nil
	}
	v, err := q.Query(ctx, selectorOf(births, matchers), at)
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
		o := byKey[originOf(s.Metric).key]
		created := strings.HasSuffix(string(s.Metric[model.MetricNameLabel]), "_created")
		// Whole seconds are no fingerprint: what is started together has them in common.
		if born := float64(s.Value); o != nil && born != math.Trunc(born) && (created || o.birth == 0) {
			o.birth = born
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
	among := labels.MustNewMatcher(labels.MatchRegexp, "instance", strings.Join(slices.Compact(instances), "|"))
	m, err := q.Samples(ctx, selectorOf(deeds, append(slices.Clone(matchers), among)), at, compared+time.Millisecond)
	if err != nil {
		return nil, fmt.Errorf("compare servers that look alike: %w", err)
	}
	for _, s := range m {
		o := byKey[originOf(s.Metric).key]
		if o == nil {
			continue
		}
		own := ""
		for _, n := range ownLabels {
			own += string(s.Metric[model.LabelName(n)]) + "\xff"
		}
		o.deeds[own] = sinceReset(s.Values)
		o.samples += len(s.Values)
	}
	out := map[string]origin{}
	for _, k := range slices.Sorted(maps.Keys(groups)) {
		g := groups[k]
		// The one that saw most leads, unless the first one saw about as much.
		most := slices.MaxFunc(g, func(a, b *seen) int { return a.samples - b.samples }).samples
		slices.SortStableFunc(g, func(a, b *seen) int { return poor(a, most) - poor(b, most) })
		for i, s := range g {
			for _, first := range g[:i] {
				if _, dropped := out[first.key]; !dropped && same(first, s) {
					out[s.key] = first.origin
					break
				}
			}
		}
	}
	return out, nil
}

// poor is 1 for a view that saw clearly less than the best.
func poor(s *seen, most int) int {
	if 5*s.samples < 4*most {
		return 1
	}
	return 0
}

// sinceReset drops what came before a counter's last reset, and what is no number.
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

// same reports whether two views are of one process. One that never worked is like
// any other.
func same(a, b *seen) bool {
	slack := time.Duration(0)
	if a.birth != 0 {
		slack = skew
	}
	turns, worked := 0, false
	for series, one := range a.deeds {
		other, ok := b.deeds[series]
		if !ok {
			if len(a.deeds) == len(b.deeds) {
				return false // other models
			}
			continue
		}
		worked = worked || len(one) > 0 && len(other) > 0 && one[len(one)-1].Value > 0
		if !within(one, other, slack) || !within(other, one, slack) {
			return false
		}
		turns = max(turns, inTurns(one, other))
	}
	return worked && (a.birth != 0 || turns >= alternations)
}

// within reports whether every sample lies between those of the other series that
// surely came before and after it.
func within(samples, of []model.SamplePair, slack time.Duration) bool {
	ms := model.Time(slack.Milliseconds())
	before, after := 0, 0
	for _, p := range samples {
		for before < len(of) && of[before].Timestamp <= p.Timestamp-ms {
			before++
		}
		for after < len(of) && of[after].Timestamp < p.Timestamp+ms {
			after++
		}
		if before > 0 && p.Value < of[before-1].Value || after < len(of) && p.Value > of[after].Value {
			return false
		}
	}
	return true
}

// inTurns counts how often growth seen in one series follows growth seen in the other,
// or is the same at the same moment.
func inTurns(a, b []model.SamplePair) int {
	type sample struct {
		model.SamplePair
		of int
	}
	var all []sample
	for _, p := range a {
		all = append(all, sample{p, 0})
	}
	for _, p := range b {
		all = append(all, sample{p, 1})
	}
	slices.SortStableFunc(all, func(x, y sample) int { return cmp.Compare(x.Timestamp, y.Timestamp) })
	n, last := 0, -1
	for i := 1; i < len(all); i++ {
		switch {
		case all[i].Timestamp == all[i-1].Timestamp && all[i].Value == all[i-1].Value && all[i].Value > 0:
			n++
		case all[i].Value > all[i-1].Value && all[i].of != last:
			n++
			last = all[i].of
		}
	}
	return n
}

// without returns the matcher that keeps the series of some origins and drops those of
// others; nil where no label tells them apart.
func without(dropped, kept []origin, prefer func(label string) int) *labels.Matcher {
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
		// What lacks the label may be no engine's at all.
		if values[""] || slices.ContainsFunc(kept, func(o origin) bool { return values[o.labels[n]] }) {
			continue
		}
		var texts []string
		for v := range values {
			texts = append(texts, regexp.QuoteMeta(v))
		}
		slices.Sort(texts)
		if m, err := labels.NewMatcher(labels.MatchNotRegexp, n, strings.Join(texts, "|")); err == nil {
			return m
		}
	}
	return nil
}
