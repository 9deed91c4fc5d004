package burnrate

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine/sglang"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/render"
)

// CommonEdges returns the edges that all servers of a fleet have. A server that lacks an edge would count every
// request as late.
func CommonEdges(servers ...[]float64) []float64 {
	var out []float64
	for i, edges := range servers {
		if i == 0 {
			out = usableEdges(edges)
			continue
		}
		out = slices.DeleteFunc(out, func(e float64) bool { return !slices.Contains(edges, e) })
	}
	return out
}

// Families lists the canonical names of the histograms with which latency objectives are judged.
func Families() []string { return slices.Sorted(maps.Values(families)) }

// EdgesOf reads the buckets of one histogram, grouped by target and le. It returns the edges that all targets have.
func EdgesOf(answer model.Vector) []float64 {
	targets := map[model.Fingerprint][]float64{}
	for _, sample := range answer {
		target := sample.Metric.Clone()
		delete(target, "le")
		if edge, err := strconv.ParseFloat(string(sample.Metric["le"]), 64); err == nil {
			targets[target.Fingerprint()] = append(targets[target.Fingerprint()], edge)
		}
	}
	return CommonEdges(slices.Collect(maps.Values(targets))...)
}

// usualEdges returns the default edges that a family has in all dialects of the fleet. ok is false if one is unknown.
func (c *Config) usualEdges(family string) (edges []float64, ok bool) {
	var all [][]float64
	for _, name := range c.metricNames(family) {
		bounds := vllm.Bounds(name, "")
		if bounds == nil {
			bounds = sglang.Bounds(name)
		}
		if bounds == nil {
			return nil, false
		}
		all = append(all, bounds)
	}
	return CommonEdges(all...), true
}

// usableEdges returns the positive, finite edges in ascending order.
func usableEdges(edges []float64) []float64 {
	out := slices.DeleteFunc(slices.Clone(edges), func(e float64) bool { return !(e > 0) || math.IsInf(e, 0) })
	slices.Sort(out)
	return slices.Compact(out)
}

// maxRatio is the largest ratio between a target and its edge. Beyond it the rule would judge another promise.
const maxRatio = 2

// A placement is the edge at which a latency target is counted.
type placement struct {
	edge  time.Duration
	moved string // the consequence of moving the target; "" if it did not move
}

// placeTarget finds the edge nearest to a target in proportion. If two edges are equally near, it takes the lower one,
// which is stricter.
func placeTarget(target time.Duration, edges []float64) (placement, error) {
	edges = usableEdges(edges)
	if len(edges) == 0 {
		return placement{}, hint.With(fmt.Errorf("a target of %s, but the histogram has no bucket edges",
			render.Span(target)), "check that its _bucket series are stored and not dropped by relabelling")
	}
	want := target.Seconds()
	best := edges[0]
	for _, e := range edges {
		if distanceBetween(e, want) < distanceBetween(best, want)-1e-9 {
			best = e
		}
	}
	edge := time.Duration(math.Round(best * float64(time.Second)))
	switch {
	case distanceBetween(best, want) > math.Log(maxRatio)+1e-9:
		return placement{}, hint.With(fmt.Errorf("no bucket edge near a target of %s: the nearest is %s",
			render.Span(target), render.Span(edge)),
			"choose a target between "+spanSeconds(edges[0])+" and "+spanSeconds(edges[len(edges)-1])+
				", or give the server other buckets (--custom-histogram-buckets, vLLM 0.32 and later)")
	case edge < target:
		return placement{edge, fmt.Sprintf("counted at the bucket edge %s, %s stricter: requests between that and %s "+
			"count as late although they meet the target", render.Span(edge), render.Span(target-edge),
			render.Span(target))}, nil
	case edge > target:
		return placement{edge, fmt.Sprintf("counted at the bucket edge %s, %s looser: requests between %s and that "+
			"miss the target without being counted", render.Span(edge), render.Span(edge-target),
			render.Span(target))}, nil
	}
	return placement{edge: edge}, nil
}

func spanSeconds(seconds float64) string {
	return render.Span(time.Duration(math.Round(seconds * float64(time.Second))))
}

// edgeMatcher returns a matcher for an edge in every notation: Python's client writes "1.0", Go's "1", and OpenMetrics'
// canonical form "1" or "1e+06".
func edgeMatcher(upperBound float64) *labels.Matcher {
	forms := []string{strconv.FormatFloat(upperBound, 'g', -1, 64), strconv.FormatFloat(upperBound, 'f', -1, 64)}
	if upperBound == math.Trunc(upperBound) {
		forms = append(forms, strconv.FormatFloat(upperBound, 'f', 1, 64))
	}
	slices.Sort(forms)
	forms = slices.Compact(forms)
	if len(forms) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, "le", forms[0])
	}
	for i := range forms {
		forms[i] = regexp.QuoteMeta(forms[i])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, "le", strings.Join(forms, "|"))
}
