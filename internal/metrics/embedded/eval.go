package embedded

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// This file evaluates expressions of signals over cached samples. PromQL's engine returns the same result for the
// printed expression, because the range functions are the engine's own. The engine answers queries with errors, and
// queries for samples that are not cached.

// errEngine means that the engine must answer.
var errEngine = errors.New("not held")

// An element is one sample of an instant vector: the number of its label set, and its value.
type element struct {
	id int32
	f  float64
}

// An operand is a scalar or an instant vector.
type operand struct {
	scalar   bool
	f        float64
	elements []element
}

// scratch is memory that lives as long as the evaluation of one expression.
type scratch[T any] struct {
	room []T
	used int
}

// takeSlice returns an empty slice with capacity n.
func (s *scratch[T]) takeSlice(n int) []T {
	if s.used+n > len(s.room) {
		s.room, s.used = make([]T, max(n, 2*len(s.room))), 0
	}
	s.used += n
	return s.room[s.used-n : s.used-n : s.used]
}

// A partial holds a sum's Kahan compensation and its number of addends.
type partial struct{ c, n float64 }

// unnamed is the change of labels by a function: it drops the metric name.
var unnamed = &change{metadata: true}

// A choice holds the series that a selector matches.
type choice struct {
	families []*family
	series   []*recentSeries
}

// A reading identifies a range function over a selector at one evaluation time.
type reading struct {
	of     *choice
	fn     string
	param  float64
	window time.Duration
	at     int64
}

// Evaluate implements metrics.Querier.
func (s *Store) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	if v, err := s.recent.evaluateExpr(ctx, e, at.UnixMilli()); err == nil {
		return v, nil
	}
	if err := ctx.Err(); err != nil { // the engine would only parse it
		return nil, err
	}
	return s.Query(ctx, e.String(), at)
}

// evaluateExpr evaluates an expression at time at. errEngine means that the engine must answer.
func (r *recent) evaluateExpr(ctx context.Context, e indicator.Expr, at int64) (model.Vector, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = 0
	if ctx.Err() != nil || !r.listMetrics(ctx) {
		return nil, errEngine
	}
	r.elements.used, r.numbers.used, r.partials.used = 0, 0, 0
	v, err := r.evalNode(ctx, e, at)
	if err != nil || r.hasDuplicates(v.elements) {
		return nil, errEngine
	}
	if v.scalar {
		return model.Vector{{Metric: model.Metric{}, Value: model.SampleValue(v.f), Timestamp: model.Time(at)}}, nil
	}
	samples := make([]model.Sample, len(v.elements))
	out := make(model.Vector, len(v.elements))
	for i, e := range v.elements {
		samples[i] = model.Sample{
			Metric: r.sets.metricOf(e.id), Value: model.SampleValue(e.f), Timestamp: model.Time(at),
		}
		out[i] = &samples[i]
	}
	return out, nil
}

// selectStreams returns the samples of a selector in the span up to at or, with a step, the samples that
// an instant query sees at each step. errEngine means that the engine must answer.
func (r *recent) selectStreams(ctx context.Context, ms []*labels.Matcher, span, at, step int64) (model.Matrix, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || !r.listMetrics(ctx) {
		return nil, errEngine
	}
	from := at - span
	if step > 0 {
		from -= r.lookback
	}
	c, err := r.chooseSeries(ctx, &indicator.Samples{Where: ms}, from, at)
	if err != nil {
		return nil, err
	}
	if step > 0 && !r.knowsEnds(c, from, at) {
		return nil, errEngine
	}
	out := make(model.Matrix, 0, len(c.series))
	for _, s := range c.series {
		var pairs []model.SamplePair
		if points := s.samplesBetween(from, at); step == 0 && len(points) > 0 {
			pairs = make([]model.SamplePair, len(points))
			for i, p := range points {
				pairs[i] = model.SamplePair{Timestamp: model.Time(p.T), Value: model.SampleValue(p.F)}
			}
		}
		for t := at - span; step > 0 && t <= at; t += step {
			if p, ok := s.sampleAt(t, r.lookback); ok {
				if pairs == nil {
					pairs = make([]model.SamplePair, 0, 1+(at-t)/step)
				}
				pairs = append(pairs, model.SamplePair{Timestamp: model.Time(t), Value: model.SampleValue(p.F)})
			}
		}
		if len(pairs) > 0 {
			out = append(out, &model.SampleStream{Metric: r.sets.metricOf(r.labelSetNumber(s)), Values: pairs})
		}
	}
	return out, nil
}

// hasDuplicates reports whether two elements have the same labels, which PromQL forbids.
func (r *recent) hasDuplicates(vec []element) (found bool) {
	place := r.sets.clearedPlaces()
	for _, e := range vec {
		found = found || place[e.id] != 0
		place[e.id] = 1
	}
	for _, e := range vec {
		place[e.id] = 0
	}
	return found
}

// labelSetNumber returns the number of a series' label set.
func (r *recent) labelSetNumber(s *recentSeries) int32 {
	if s.id == 0 {
		s.id = r.sets.numberOf(s.lset)
	}
	return s.id
}

// chooseSeries returns the series that a selector matches, with samples after from cached.
func (r *recent) chooseSeries(ctx context.Context, s *indicator.Samples, from, at int64) (*choice, error) {
	r.selectorKey = append(r.selectorKey[:0], s.Metric...)
	for _, m := range s.Where {
		r.selectorKey = append(append(append(append(r.selectorKey, 0xff), m.Name...), byte(m.Type)), m.Value...)
	}
	c, known := r.choices[string(r.selectorKey)]
	if !known {
		c = &choice{families: r.matchFamilies(s)}
	}
	for _, f := range c.families {
		if !r.ensureSamples(ctx, f, from, at) {
			return nil, errEngine
		}
	}
	if r.choices[string(r.selectorKey)] != c { // it is new, or series were added
		c.series = nil
		matches, rest := r.matchInstances(s.Where)
		for _, f := range c.families {
			for _, one := range f.series {
				if matches[one.instanceID] && !slices.ContainsFunc(rest, func(m *labels.Matcher) bool {
					return !m.Matches(one.lset.Get(m.Name))
				}) {
					c.series = append(c.series, one)
				}
			}
		}
		if len(r.choices) >= mostRemembered {
			clear(r.choices)
		}
		r.choices[string(r.selectorKey)] = c
	}
	return c, nil
}

// matchInstances returns which instances a selector matches, and its matchers of other labels. Most queries
// name instances, and a family has many series of each, so instances are matched once. Names that a matcher lists are
// looked up, because matching each of a thousand servers with a thousand alternatives takes longer than the query.
func (r *recent) matchInstances(where []*labels.Matcher) (matches []bool, rest []*labels.Matcher) {
	var candidates []string
	var matchers []*labels.Matcher
	for _, m := range where {
		switch listed := m.SetMatches(); {
		case m.Name != model.InstanceLabel:
			rest = append(rest, m)
		case candidates == nil && len(listed) > 0 && m.Type == labels.MatchRegexp:
			candidates = listed
		default:
			matchers = append(matchers, m)
		}
	}
	if candidates == nil {
		candidates = slices.Collect(maps.Keys(r.instances))
	}
	matches = make([]bool, len(r.instances))
	for _, name := range candidates {
		if n, known := r.instances[name]; known {
			matches[n] = !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(name) })
		}
	}
	return matches, rest
}

// matchFamilies returns the families that a selector can match.
func (r *recent) matchFamilies(s *indicator.Samples) (out []*family) {
	if s.Metric != "" {
		if f := r.families[s.Metric]; f != nil {
			out = append(out, f)
		}
		return out
	}
	for name, f := range r.families {
		if !slices.ContainsFunc(s.Where, func(m *labels.Matcher) bool {
			return m.Name == labels.MetricName && !m.Matches(name)
		}) {
			out = append(out, f)
		}
	}
	return out
}

// evalNode evaluates one node of an expression at time at.
func (r *recent) evalNode(ctx context.Context, e indicator.Expr, at int64) (operand, error) {
	switch n := e.(type) {
	case indicator.Number:
		return operand{scalar: true, f: float64(n)}, nil
	case indicator.Samples:
		return r.readRange(ctx, n, at)
	case indicator.Aggregate:
		v, err := r.evalNode(ctx, n.Of, at)
		if err != nil || v.scalar {
			return v, errors.Join(err, errEngine)
		}
		return r.aggregateElements(n, v.elements)
	case indicator.Apply:
		return r.applyFunction(ctx, n, at)
	case indicator.Binary:
		a, err := r.evalNode(ctx, n.A, at)
		if err != nil {
			return a, err
		}
		b, err := r.evalNode(ctx, n.B, at)
		if err != nil {
			return b, err
		}
		return r.evalBinary(&n, a, b)
	}
	return operand{}, errEngine
}

// lookBehind returns how far before the evaluation time a function reads samples, in ms.
func (r *recent) lookBehind(s indicator.Samples) int64 {
	switch s.Func {
	case "":
		return r.lookback
	case indicator.FirstSeen, indicator.LastTrue, indicator.LastZero, indicator.HeldLast:
		return s.Span.Milliseconds() + r.lookback
	case indicator.LastMoved:
		return (s.Span + indicator.Step).Milliseconds() + r.lookback
	}
	return s.Span.Milliseconds()
}

// readRange evaluates a range function over each series. Results are remembered for other signals at the
// same time; a rate shares the increase over its span.
func (r *recent) readRange(ctx context.Context, s indicator.Samples, at int64) (operand, error) {
	if s.Offset != 0 {
		return operand{}, errEngine
	}
	scale := 1.0
	if s.Func == "rate" {
		s.Func, scale = "increase", 1/s.Span.Seconds()
	}
	from := at - r.lookBehind(s)
	c, err := r.chooseSeries(ctx, &s, from, at)
	if err != nil {
		return operand{}, err
	}
	key := reading{c, s.Func, s.Param, s.Span, at}
	vec, ok := r.memo[key]
	if !ok {
		if slices.Contains(endsMatter, s.Func) && !r.knowsEnds(c, from, at) {
			return operand{}, errEngine
		}
		read, err := r.rangeFunction(s, at)
		if err != nil {
			return operand{}, err
		}
		vec = make([]element, 0, len(c.series))
		for _, one := range c.series {
			if f, ok := read(one); ok {
				vec = append(vec, element{r.labelSetNumber(one), f})
			}
		}
		if s.Func != "" && s.Func != "last_over_time" {
			vec = r.relabelElements(unnamed, vec)
		}
		if len(r.memo) >= mostRemembered {
			clear(r.memo)
		}
		r.memo[key], r.memoTo = vec, max(r.memoTo, at)
	}
	if scale != 1 {
		vec = append(r.elements.takeSlice(len(vec)), vec...)
		for i := range vec {
			vec[i].f *= scale
		}
	}
	return operand{elements: vec}, nil
}

// mostRemembered bounds the remembered selectors, and the remembered readings.
const mostRemembered = 1000

// A seriesFunc returns the value of a range function for one series; ok is false if the series has none.
type seriesFunc func(*recentSeries) (value float64, ok bool)

// rangeFunction returns a range function, bound to the evaluation time at.
func (r *recent) rangeFunction(s indicator.Samples, at int64) (seriesFunc, error) {
	switch s.Func {
	case "":
		return func(s *recentSeries) (float64, bool) {
			p, ok := s.sampleAt(at, r.lookback)
			return p.F, ok
		}, nil
	case indicator.FirstSeen, indicator.LastTrue, indicator.LastZero, indicator.LastMoved:
		return r.timeFunction(s, at), nil
	case indicator.HeldLast:
		if r.lookback < indicator.MissedFor.Milliseconds() {
			return nil, errEngine // the lookback ends before the absence is certain
		}
		return heldLast(s, at), nil
	}
	return engineFunction(s, at)
}

// nextStep returns the first time of the subqueries' grid that is not before t.
func nextStep(t int64) int64 {
	step := indicator.Step.Milliseconds()
	return step * ((t + step - 1) / step)
}

// timeFunction returns a function that evaluates to the time at which a series was last, or first, in some state.
func (r *recent) timeFunction(s indicator.Samples, at int64) seriesFunc {
	step := indicator.Step.Milliseconds()
	first := nextStep(at - s.Span.Milliseconds() + 1)
	seen := map[string]func(*recentSeries, int64, float64) bool{
		indicator.LastTrue: func(_ *recentSeries, _ int64, v float64) bool { return v > 0 },
		indicator.LastZero: func(_ *recentSeries, _ int64, v float64) bool { return v == 0 },
		indicator.LastMoved: func(s *recentSeries, t int64, v float64) bool {
			before, ok := s.sampleAt(t-step, r.lookback)
			return ok && v != before.F
		},
	}[s.Func]
	or := s.Func != indicator.LastTrue
	return func(s *recentSeries) (float64, bool) {
		for t := at / step * step; seen != nil && t >= first; t -= step {
			if p, ok := s.sampleAt(t, r.lookback); ok && seen(s, t, p.F) {
				return float64(p.T) / 1000, true
			}
		}
		for t := first; or && t <= at; t += step {
			if p, ok := s.sampleAt(t, r.lookback); ok {
				return float64(p.T) / 1000, true
			}
		}
		return 0, false
	}
}

// heldLast returns a function that evaluates to the largest last value of a series before it ended.
func heldLast(s indicator.Samples, at int64) seriesFunc {
	begin, missed := at-s.Span.Milliseconds(), indicator.MissedFor.Milliseconds()
	return func(s *recentSeries) (most float64, ok bool) {
		for _, ended := range s.stale {
			t := nextStep(max(ended, begin+1))
			n := s.upTo(ended)
			if t > at || n == 0 || s.points[n-1].T <= t-missed || s.upTo(t) != n {
				continue
			}
			if f := s.points[n-1].F; !ok || f > most || math.IsNaN(most) {
				most, ok = f, true
			}
		}
		return most, ok
	}
}

// engineFunction returns one of the engine's own range functions.
func engineFunction(s indicator.Samples, at int64) (seriesFunc, error) {
	call := promql.FunctionCalls[s.Func]
	if call == nil {
		return nil, errEngine
	}
	// The engine's functions read these arguments beside the samples.
	args := parser.Expressions{
		&parser.MatrixSelector{VectorSelector: &parser.VectorSelector{Name: s.Metric}, Range: s.Span},
	}
	var params []promql.Vector
	if s.Func == "quantile_over_time" {
		args = slices.Insert(args, 0, parser.Expr(&parser.NumberLiteral{Val: s.Param}))
		params = []promql.Vector{{{F: s.Param}}}
	}
	in := make(promql.Matrix, 1)
	enh := &promql.EvalNodeHelper{Ts: at, Out: make(promql.Vector, 0, 1)}
	begin := at - s.Span.Milliseconds()
	return func(s *recentSeries) (float64, bool) {
		if in[0].Floats = s.samplesBetween(begin, at); len(in[0].Floats) == 0 {
			return 0, false
		}
		out, _ := call(params, in, args, enh)
		enh.Out = out[:0]
		if len(out) == 0 {
			return 0, false
		}
		return out[0].F, true
	}, nil
}

// applyFunction evaluates a function of values.
func (r *recent) applyFunction(ctx context.Context, n indicator.Apply, at int64) (operand, error) {
	if n.Func == indicator.Time {
		return operand{scalar: true, f: float64(at) / 1000}, nil
	}
	v, err := r.evalNode(ctx, n.Of, at)
	if err != nil || v.scalar {
		return v, errors.Join(err, errEngine)
	}
	var f func(float64) float64
	switch n.Func {
	case "floor":
		f = math.Floor
	case "exp":
		f = math.Exp
	case "ln":
		f = math.Log
	case "clamp_min":
		f = func(v float64) float64 { return math.Max(n.Param, v) }
	case "clamp_max":
		f = func(v float64) float64 { return math.Min(n.Param, v) }
	case indicator.Percentile:
		return r.histogramQuantile(n.Param, v.elements, at)
	default:
		return operand{}, errEngine
	}
	out := append(r.elements.takeSlice(len(v.elements)), v.elements...)
	for i := range out {
		out[i].f = f(out[i].f)
	}
	return operand{elements: r.relabelElements(unnamed, out)}, nil
}

// histogramQuantile evaluates histogram_quantile by the engine's own code.
func (r *recent) histogramQuantile(q float64, vec []element, at int64) (operand, error) {
	in := make(promql.Vector, len(vec))
	for i, e := range vec {
		in[i] = promql.Sample{T: at, F: e.f, Metric: r.sets.sets[e.id]}
	}
	args := parser.Expressions{&parser.NumberLiteral{Val: q}, &parser.VectorSelector{}}
	out, _ := promql.FunctionCalls[indicator.Percentile]([]promql.Vector{{{F: q}}, in}, nil, args,
		&promql.EvalNodeHelper{Ts: at})
	found := make([]element, len(out))
	for i, s := range out {
		found[i] = element{r.sets.numberOf(s.Metric), s.F}
	}
	return operand{elements: found}, nil
}

// relabelElements changes the labels of a vector in place.
func (r *recent) relabelElements(c *change, vec []element) []element {
	to := r.sets.mapperFor(c)
	for i := range vec {
		vec[i].id = to(vec[i].id)
	}
	return vec
}

// aggregateElements evaluates an aggregation.
func (r *recent) aggregateElements(n indicator.Aggregate, vec []element) (operand, error) {
	if n.Into != "" {
		return operand{}, errEngine // count_values
	}
	groups := r.groupNumbers(!n.Without, n.Labels, vec)
	out, sums := r.elements.takeSlice(len(vec)), r.partials.takeSlice(len(vec))
	place := r.sets.clearedPlaces()
	for i, e := range vec {
		k := place[groups[i]]
		if k == 0 {
			out, sums = append(out, element{groups[i], e.f}), append(sums, partial{n: 1})
			place[groups[i]] = int32(len(out))
			continue
		}
		g, s := &out[k-1], &sums[k-1]
		s.n++
		switch n.Op {
		case "sum", "avg":
			g.f, s.c = kahansum.Inc(e.f, g.f, s.c)
		case "max":
			if g.f < e.f || math.IsNaN(g.f) {
				g.f = e.f
			}
		case "min":
			if g.f > e.f || math.IsNaN(g.f) {
				g.f = e.f
			}
		}
	}
	tooLarge := false
	for i := range out {
		place[out[i].id] = 0
		g, s := &out[i], &sums[i]
		switch n.Op {
		case "sum":
			g.f += s.c
		case "avg":
			tooLarge = tooLarge || math.IsInf(g.f, 0) // maybe only the sum is too large
			g.f = g.f/s.n + s.c/s.n
		case "count":
			g.f = s.n
		case "group":
			g.f = 1
		}
	}
	if tooLarge {
		return operand{}, errEngine
	}
	return operand{elements: out}, nil
}

// groupNumbers returns the group number of each label set: by some labels, or by all labels but those and
// the metric name.
func (r *recent) groupNumbers(keep bool, names []string, vec []element) []int32 {
	c := change{keepNamed: keep, labelNames: names}
	if !keep {
		c.labelNames = append(slices.Clip(names), labels.MetricName)
	}
	group := r.sets.mapperFor(&c)
	out := r.numbers.takeSlice(len(vec))
	for _, e := range vec {
		out = append(out, group(e.id))
	}
	return out
}

var comparisons = []string{"==", "!=", ">", "<", ">=", "<="}

// evalBinary evaluates an operator.
func (r *recent) evalBinary(n *indicator.Binary, a, b operand) (operand, error) {
	compares := slices.Contains(comparisons, n.Op)
	unname := !compares || n.Bool
	switch {
	case a.scalar && b.scalar:
		f, keep := applyOperator(n.Op, a.f, b.f)
		if compares {
			f = boolNumber(keep)
		}
		return operand{scalar: true, f: f}, nil
	case a.scalar || b.scalar:
		vec := a.elements
		if a.scalar {
			vec = b.elements
		}
		out := r.elements.takeSlice(len(vec))
		for _, e := range vec {
			x, y := e.f, b.f
			if a.scalar {
				x, y = a.f, e.f
			}
			f, keep := applyOperator(n.Op, x, y)
			switch {
			case n.Bool:
				f, keep = boolNumber(keep), true
			case compares:
				f = e.f // the vector's value, on whichever side it is
			}
			if keep {
				out = append(out, element{e.id, f})
			}
		}
		if unname {
			out = r.relabelElements(unnamed, out)
		}
		return operand{elements: out}, nil
	}
	ga, gb := r.groupNumbers(n.By == "on", n.Match.Labels, a.elements),
		r.groupNumbers(n.By == "on", n.Match.Labels, b.elements)
	switch n.Op {
	case "and", "or", "unless":
		return operand{elements: r.combineSets(n.Op, a.elements, b.elements, ga, gb)}, nil
	}
	result := change{metadata: unname}
	if n.Group == "" {
		result.keepNamed, result.labelNames = n.By == "on", n.Match.Labels
	}
	if n.Group == "right" {
		a, b, ga, gb = b, a, gb, ga
	}
	return r.joinVectors(n, &result, a.elements, b.elements, ga, gb)
}

func boolNumber(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// applyOperator applies an operator to two numbers; keep is false where a comparison filters the result.
func applyOperator(op string, a, b float64) (float64, bool) {
	switch op {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "/":
		return a / b, true
	case "%":
		return math.Mod(a, b), true
	case "==":
		return a, a == b
	case "!=":
		return a, a != b
	case ">":
		return a, a > b
	case "<":
		return a, a < b
	case ">=":
		return a, a >= b
	default: // <=
		return a, a <= b
	}
}

func (r *recent) combineSets(op string, a, b []element, ga, gb []int32) []element {
	place := r.sets.clearedPlaces()
	mark := func(groups []int32, v int32) {
		for _, g := range groups {
			place[g] = v
		}
	}
	var out []element
	if op == "or" {
		out = append(out, a...)
		mark(ga, 1)
		for i, e := range b {
			if place[gb[i]] == 0 {
				out = append(out, e)
			}
		}
		mark(ga, 0)
		return out
	}
	mark(gb, 1)
	for i, e := range a {
		if (place[ga[i]] == 1) == (op == "and") {
			out = append(out, e)
		}
	}
	mark(gb, 0)
	return out
}

// joinVectors evaluates an operator between vectors, where each element of a matches at most one of b.
func (r *recent) joinVectors(n *indicator.Binary, result *change, a, b []element, ga, gb []int32) (operand, error) {
	if len(a) == 0 || len(b) == 0 {
		return operand{}, nil
	}
	place := r.sets.clearedPlaces()
	mistaken := false // the engine reports the error
	for i, g := range gb {
		mistaken = mistaken || place[g] != 0
		place[g] = int32(i + 1)
	}
	met, kept := r.elements.takeSlice(len(a)), make([]bool, 0, len(a))
	for i, e := range a {
		k := place[ga[i]] - 1
		if k < 0 {
			mistaken = mistaken || k < -1 && n.Group == "" // two elements of a match one of b
			continue
		}
		x, y := e.f, b[k].f
		if n.Group == "right" {
			x, y = y, x
		}
		f, keep := applyOperator(n.Op, x, y)
		if n.Bool {
			f, keep = boolNumber(keep), true
		}
		met, kept = append(met, element{e.id, f}), append(kept, keep)
		if n.Group == "" {
			place[ga[i]] = -1
		}
	}
	for _, g := range gb {
		place[g] = 0
	}
	if met = r.relabelElements(result, met); mistaken || n.Group != "" && r.hasDuplicates(met) {
		return operand{}, errEngine
	}
	out := met[:0]
	for i, e := range met {
		if kept[i] {
			out = append(out, e)
		}
	}
	return operand{elements: out}, nil
}
