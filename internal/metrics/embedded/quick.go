package embedded

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/kahansum"
)

// This file evaluates PromQL over what is held of the recent past. It gives what the
// engine gives, by the engine's own functions of ranges; what it does not know, and every
// mistake, it leaves to the engine. It is faster because samples are decoded already, a
// series' labels are a number, what becomes of them under an aggregation or an operator is
// known from the time before, and what several questions of one moment have in common is
// computed once.

// errEngine says that the engine must answer.
var errEngine = errors.New("not held")

// An element is a sample of an instant vector: the number of its labels, and its value.
type element struct {
	id int32
	f  float64
}

// A quickValue is a scalar or an instant vector.
type quickValue struct {
	scalar bool
	f      float64
	vec    []element
}

type memoKey struct {
	hash uint64
	at   int64
}

// unnamed is the change of a function: the name goes.
var unnamed = &change{metadata: true}

// A choice is the series that a selector chooses.
type choice struct {
	families []*family
	series   []*recentSeries
	asked    bool // series are those of all families
}

// answer evaluates an expression at a moment and hands the answer over; errEngine says that
// the engine must answer.
func (r *recent) answer(ctx context.Context, text string, at int64, take func(quickValue)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = 0
	p, err := r.plan(text)
	if err != nil || ctx.Err() != nil || !r.begin(ctx) {
		return errEngine
	}
	v, err := r.eval(ctx, p, at)
	if err != nil || r.twice(v.vec) {
		return errEngine
	}
	take(v)
	return nil
}

// model is a value for those who ask through a Querier.
func (r *recent) model(v quickValue, at int64) model.Vector {
	if v.scalar {
		return model.Vector{{Metric: model.Metric{}, Value: model.SampleValue(v.f), Timestamp: model.Time(at)}}
	}
	samples := make([]model.Sample, len(v.vec))
	out := make(model.Vector, len(v.vec))
	for i, e := range v.vec {
		samples[i] = model.Sample{Metric: r.sets.metric(e.id), Value: model.SampleValue(e.f), Timestamp: model.Time(at)}
		out[i] = &samples[i]
	}
	return out
}

// streams returns the samples of a selector up to a moment; see answer.
func (r *recent) streams(ctx context.Context, text string, at int64) (model.Matrix, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.plan(text)
	if err != nil || p.span == 0 || ctx.Err() != nil || !r.begin(ctx) {
		return nil, errEngine
	}
	series, err := r.choose(ctx, p, at)
	if err != nil {
		return nil, err
	}
	out := make(model.Matrix, 0, len(series))
	for _, s := range series {
		from, to := s.upTo(at-p.span), s.upTo(at)
		if from == to {
			continue
		}
		pairs := make([]model.SamplePair, to-from)
		for i := range pairs {
			pairs[i] = model.SamplePair{Timestamp: model.Time(s.t(from + i)), Value: model.SampleValue(s.f(from + i))}
		}
		out = append(out, &model.SampleStream{Metric: r.sets.metric(r.number(s)), Values: pairs})
	}
	return out, nil
}

// plan prepares an expression once.
func (r *recent) plan(text string) (*plan, error) {
	p, ok := r.plans[0][text]
	if !ok {
		if p, ok = r.plans[1][text]; !ok {
			e, err := r.parser.ParseExpr(text)
			if err != nil {
				return nil, err
			}
			p = planOf(e)
		}
		if len(r.plans[0]) >= mostPlans {
			r.plans = [2]map[string]*plan{{}, r.plans[0]}
		}
		r.plans[0][text] = p
	}
	if p == nil {
		return nil, errEngine
	}
	return p, nil
}

// twice reports whether two elements have the same labels, which is a mistake.
func (r *recent) twice(vec []element) (twice bool) {
	place := r.sets.places()
	for _, e := range vec {
		twice = twice || place[e.id] != 0
		place[e.id] = 1
	}
	for _, e := range vec {
		place[e.id] = 0
	}
	return twice
}

// number returns the number of a series' labels.
func (r *recent) number(s *recentSeries) int32 {
	if s.id == 0 {
		s.id = r.sets.id(s.lset)
	}
	return s.id
}

// choose returns the series of a selector, whose samples over its span are held. They are
// the caller's until the next call.
func (r *recent) choose(ctx context.Context, p *plan, at int64) ([]*recentSeries, error) {
	c := r.choices[p.key]
	if c == nil {
		c = &choice{}
		if p.name.Type == labels.MatchEqual {
			if f := r.families[p.name.Value]; f != nil {
				c.families = append(c.families, f)
			}
		} else {
			for name, f := range r.families {
				if p.name.Matches(name) && matchAll(p.matchers, labels.MetricName, name) {
					c.families = append(c.families, f)
				}
			}
			slices.SortFunc(c.families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
		}
		r.choices[p.key] = c
	}
	held := true
	for _, f := range c.families {
		held = r.want(ctx, f, at-cmp.Or(p.span, r.lookback), at) && held
	}
	if !held {
		return nil, errEngine
	}
	if r.choices[p.key] != c { // some were read
		r.choices[p.key] = c
		c.asked = false
	}
	if !c.asked {
		c.series = c.series[:0]
		for _, f := range c.families {
			for _, s := range f.series {
				if chosen(p.matchers, s.lset) {
					c.series = append(c.series, s)
				}
			}
		}
		c.asked = true
	}
	if p.instances == nil {
		return c.series, nil
	}
	in := r.among(p.instances)
	r.picked = r.picked[:0]
	for _, s := range c.series {
		if in[s.instance] {
			r.picked = append(r.picked, s)
		}
	}
	return r.picked, nil
}

// among says of instances, by number, whether a matcher chooses them.
func (r *recent) among(m *labels.Matcher) []bool {
	in := r.matched[m]
	for len(in) < len(r.instances) {
		in = append(in, m.Matches(r.instances[len(in)]))
	}
	r.matched[m] = in
	return in
}

// matchAll reports whether those of the matchers that are about a label hold of a value.
func matchAll(ms []*labels.Matcher, name, value string) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == name && !m.Matches(value) })
}

func chosen(ms []*labels.Matcher, l labels.Labels) bool {
	for _, m := range ms {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// eval evaluates a part of an expression at a moment.
func (r *recent) eval(ctx context.Context, p *plan, at int64) (quickValue, error) {
	if !p.memo {
		return r.compute(ctx, p, at)
	}
	key := memoKey{p.hash, at}
	if vec, ok := r.memo[key]; ok {
		return quickValue{vec: vec}, nil
	}
	v, err := r.compute(ctx, p, at)
	if err == nil && !v.scalar {
		if len(r.memo) >= mostParsed {
			clear(r.memo)
		}
		r.memo[key], r.memoTo = v.vec, max(r.memoTo, at)
	}
	return v, err
}

func (r *recent) compute(ctx context.Context, p *plan, at int64) (quickValue, error) {
	switch n := p.expr.(type) {
	case *parser.NumberLiteral:
		return quickValue{scalar: true, f: n.Val}, nil
	case *parser.VectorSelector:
		return r.instant(ctx, p, at, func(p promql.FPoint) float64 { return p.F })
	case *parser.Call:
		return r.apply(ctx, p, n, at)
	case *parser.AggregateExpr:
		v, err := r.eval(ctx, p.parts[0], at)
		if err != nil || v.scalar {
			return v, errors.Join(err, scalarError(v.scalar))
		}
		return r.aggregate(n.Op, p.change, v.vec)
	case *parser.BinaryExpr:
		a, err := r.eval(ctx, p.parts[0], at)
		if err != nil {
			return a, err
		}
		b, err := r.eval(ctx, p.parts[1], at)
		if err != nil {
			return b, err
		}
		return r.binary(p, n, a, b)
	}
	return quickValue{}, errEngine
}

func scalarError(scalar bool) error {
	if scalar {
		return errEngine
	}
	return nil
}

// instant evaluates a selector.
func (r *recent) instant(ctx context.Context, p *plan, at int64, read func(promql.FPoint) float64) (quickValue, error) {
	series, err := r.choose(ctx, p, at)
	if err != nil {
		return quickValue{}, err
	}
	vec := make([]element, 0, len(series))
	for _, s := range series {
		if point, ok := s.at(at, r.lookback); ok {
			vec = append(vec, element{r.number(s), read(point)})
		}
	}
	return quickValue{vec: vec}, nil
}

// apply evaluates a function by the engine's own code.
func (r *recent) apply(ctx context.Context, p *plan, n *parser.Call, at int64) (quickValue, error) {
	var args []promql.Vector
	var first []element
	ranged := -1
	for i, part := range p.parts {
		switch part.expr.(type) {
		case *parser.MatrixSelector, *parser.SubqueryExpr:
			ranged = i
			continue
		case *parser.VectorSelector:
			if n.Func.Name == "timestamp" {
				v, err := r.instant(ctx, part, at, func(p promql.FPoint) float64 { return float64(p.T) / 1000 })
				return quickValue{vec: r.relabel(unnamed, v.vec)}, err
			}
		}
		v, err := r.eval(ctx, part, at)
		if err != nil {
			return v, err
		}
		if p.change != nil {
			first = v.vec
			continue
		}
		args = append(args, r.vector(v, at))
	}
	if p.change != nil { // label_replace
		vec := r.relabel(p.change, slices.Clone(first))
		if r.twice(vec) {
			return quickValue{}, errEngine
		}
		return quickValue{vec: vec}, nil
	}
	if ranged >= 0 {
		return r.over(ctx, p, n, p.parts[ranged], args, at)
	}
	if n.Func.Name == "time" {
		return quickValue{scalar: true, f: float64(at) / 1000}, nil
	}
	out, _ := p.call(args, nil, n.Args, &promql.EvalNodeHelper{Ts: at})
	vec := make([]element, len(out))
	for i, s := range out {
		vec[i] = element{r.sets.id(s.Metric), s.F}
	}
	return quickValue{vec: vec}, nil
}

// vector is a value for the engine's functions, and for rules.
func (r *recent) vector(v quickValue, at int64) promql.Vector {
	if v.scalar {
		return promql.Vector{{T: at, F: v.f}}
	}
	out := make(promql.Vector, len(v.vec))
	for i, e := range v.vec {
		out[i] = promql.Sample{T: at, F: e.f, Metric: r.sets.sets[e.id]}
	}
	return out
}

// over evaluates a function of ranges.
func (r *recent) over(
	ctx context.Context, p *plan, n *parser.Call, of *plan, args []promql.Vector, at int64,
) (quickValue, error) {
	var vec []element
	in := make(promql.Matrix, 1)
	enh := &promql.EvalNodeHelper{Ts: at, Out: make(promql.Vector, 0, 1)}
	each := func(id int32, points []promql.FPoint) {
		in[0].Floats = points
		out, _ := p.call(args, in, n.Args, enh)
		if len(out) > 0 {
			vec = append(vec, element{id, out[0].F})
		}
		enh.Out = out[:0]
	}
	if sub, ok := of.expr.(*parser.SubqueryExpr); ok {
		if !r.covers(ctx, of.parts[0], sub.Range.Milliseconds(), at) {
			return quickValue{}, errEngine
		}
		ids, points, err := r.steps(ctx, of.parts[0], at-sub.Range.Milliseconds(), at, sub.Step.Milliseconds())
		if err != nil {
			return quickValue{}, err
		}
		for i, id := range ids {
			each(id, points[i])
		}
	} else {
		series, err := r.choose(ctx, of, at)
		if err != nil {
			return quickValue{}, err
		}
		vec = make([]element, 0, len(series))
		for _, s := range series {
			if r.room = s.points(r.room[:0], at-of.span, at); len(r.room) > 0 {
				each(r.number(s), r.room)
			}
		}
	}
	if n.Func.Name != "last_over_time" {
		vec = r.relabel(unnamed, vec)
	}
	return quickValue{vec: vec}, nil
}

// covers makes sure that what a subquery reads is held.
func (r *recent) covers(ctx context.Context, p *plan, span, at int64) bool {
	held := true
	if p.name != nil {
		for _, f := range r.families {
			if p.name.Matches(f.name) {
				held = r.want(ctx, f, at-span-cmp.Or(p.span, r.lookback), at) && held
			}
		}
	}
	if sub, ok := p.expr.(*parser.SubqueryExpr); ok {
		span += sub.Range.Milliseconds()
	}
	for _, part := range p.parts {
		held = r.covers(ctx, part, span, at) && held
	}
	return held
}

// steps evaluates an expression on the grid of a subquery.
func (r *recent) steps(
	ctx context.Context, p *plan, from, to, step int64,
) (ids []int32, points [][]promql.FPoint, err error) {
	index := map[int32]int{}
	for at := step * (from/step + 1); at <= to; at += step {
		if ctx.Err() != nil {
			return nil, nil, errEngine
		}
		v, err := r.compute(ctx, p, at)
		if err != nil || v.scalar {
			return nil, nil, errEngine
		}
		for _, e := range v.vec {
			i, ok := index[e.id]
			if !ok {
				i = len(ids)
				index[e.id] = i
				ids, points = append(ids, e.id), append(points, nil)
			}
			points[i] = append(points[i], promql.FPoint{T: at, F: e.f})
		}
	}
	return ids, points, nil
}

// relabel changes the labels of a vector in its place.
func (r *recent) relabel(c *change, vec []element) []element {
	to := r.sets.changing(c)
	for i := range vec {
		vec[i].id = to(vec[i].id)
	}
	return vec
}

// scratch is what an aggregation needs beside its result: room that is used again.
type scratch struct {
	groups []int32
	out    []element
	sums   []struct{ c, n float64 } // what a sum lost, and how many there are of a group
}

// aggregate evaluates an aggregation.
func (r *recent) aggregate(op parser.ItemType, c *change, vec []element) (quickValue, error) {
	to := r.sets.changing(c)
	groups := r.scratch.groups[:0]
	for _, e := range vec {
		groups = append(groups, to(e.id))
	}
	out, sums := r.scratch.out[:0], r.scratch.sums[:0]
	place := r.sets.places()
	for i, e := range vec {
		k := place[groups[i]]
		if k == 0 {
			out, sums = append(out, element{groups[i], e.f}), append(sums, struct{ c, n float64 }{n: 1})
			place[groups[i]] = int32(len(out))
			continue
		}
		g, s := &out[k-1], &sums[k-1]
		s.n++
		switch op {
		case parser.SUM, parser.AVG:
			g.f, s.c = kahansum.Inc(e.f, g.f, s.c)
		case parser.MAX:
			if g.f < e.f || math.IsNaN(g.f) {
				g.f = e.f
			}
		case parser.MIN:
			if g.f > e.f || math.IsNaN(g.f) {
				g.f = e.f
			}
		}
	}
	for i := range out {
		place[out[i].id] = 0
	}
	for i := range out {
		g, s := &out[i], &sums[i]
		switch op {
		case parser.SUM:
			g.f += s.c
		case parser.AVG:
			if math.IsInf(g.f, 0) {
				return quickValue{}, errEngine // it may be the sum that is too large
			}
			g.f = g.f/s.n + s.c/s.n
		case parser.COUNT:
			g.f = s.n
		case parser.GROUP:
			g.f = 1
		}
	}
	r.scratch = scratch{groups, out, sums}
	return quickValue{vec: slices.Clone(out)}, nil
}

// binary evaluates an operator.
func (r *recent) binary(p *plan, n *parser.BinaryExpr, a, b quickValue) (quickValue, error) {
	switch {
	case a.scalar && b.scalar:
		f, keep := operate(n.Op, a.f, b.f)
		if n.Op.IsComparisonOperator() {
			f = number(keep)
		}
		return quickValue{scalar: true, f: f}, nil
	case a.scalar || b.scalar:
		return quickValue{vec: r.withScalar(p, n, a, b)}, nil
	case n.Op.IsSetOperator():
		return quickValue{vec: r.set(p, n.Op, a.vec, b.vec)}, nil
	}
	return r.join(p, n, a.vec, b.vec)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// operate returns what an operator makes of two numbers, and whether it keeps it.
func operate(op parser.ItemType, a, b float64) (float64, bool) {
	switch op {
	case parser.ADD:
		return a + b, true
	case parser.SUB:
		return a - b, true
	case parser.MUL:
		return a * b, true
	case parser.DIV:
		return a / b, true
	case parser.MOD:
		return math.Mod(a, b), true
	case parser.POW:
		return math.Pow(a, b), true
	case parser.EQLC:
		return a, a == b
	case parser.NEQ:
		return a, a != b
	case parser.GTR:
		return a, a > b
	case parser.LSS:
		return a, a < b
	case parser.GTE:
		return a, a >= b
	default: // LTE
		return a, a <= b
	}
}

func (r *recent) withScalar(p *plan, n *parser.BinaryExpr, a, b quickValue) []element {
	vec := a.vec
	if a.scalar {
		vec = b.vec
	}
	out := make([]element, 0, len(vec))
	for _, e := range vec {
		x, y := e.f, b.f
		if a.scalar {
			x, y = a.f, e.f
		}
		f, keep := operate(n.Op, x, y)
		switch {
		case n.ReturnBool:
			f, keep = number(keep), true
		case n.Op.IsComparisonOperator():
			f = e.f // of the vector, on whichever side it is
		}
		if keep {
			out = append(out, element{e.id, f})
		}
	}
	if p.change.metadata {
		out = r.relabel(unnamed, out)
	}
	return out
}

// groups numbers the groups in which the sides of an operator meet.
func (r *recent) groups(p *plan, vec []element) []int32 {
	to := r.sets.changing(p.match)
	out := make([]int32, len(vec))
	for i, e := range vec {
		out[i] = to(e.id)
	}
	return out
}

func (r *recent) set(p *plan, op parser.ItemType, a, b []element) []element {
	ga, gb := r.groups(p, a), r.groups(p, b)
	place := r.sets.places()
	mark := func(groups []int32, v int32) {
		for _, g := range groups {
			place[g] = v
		}
	}
	var out []element
	if op == parser.LOR {
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
		if (place[ga[i]] == 1) == (op == parser.LAND) {
			out = append(out, e)
		}
	}
	mark(gb, 0)
	return out
}

// join evaluates arithmetic and comparisons between vectors.
func (r *recent) join(p *plan, n *parser.BinaryExpr, a, b []element) (quickValue, error) {
	if len(a) == 0 || len(b) == 0 {
		return quickValue{}, nil
	}
	card := n.VectorMatching.Card
	if card == parser.CardOneToMany {
		a, b = b, a
	}
	ga, gb := r.groups(p, a), r.groups(p, b)
	place := r.sets.places()
	twice := false
	for i, g := range gb {
		twice = twice || place[g] != 0
		place[g] = int32(i + 1)
	}
	met, kept := make([]element, 0, len(a)), make([]bool, 0, len(a))
	for i, e := range a {
		k := place[ga[i]] - 1
		if k < 0 {
			continue
		}
		x, y := e.f, b[k].f
		if card == parser.CardOneToMany {
			x, y = y, x
		}
		f, keep := operate(n.Op, x, y)
		if n.ReturnBool {
			f, keep = number(keep), true
		}
		met, kept = append(met, element{e.id, f}), append(kept, keep)
	}
	for _, g := range gb {
		place[g] = 0
	}
	if twice || card == parser.CardOneToOne && r.twiceAmong(ga, gb) {
		return quickValue{}, errEngine // which says what is wrong
	}
	if met = r.relabel(p.change, met); card != parser.CardOneToOne && r.twice(met) {
		return quickValue{}, errEngine
	}
	out := met[:0]
	for i, e := range met {
		if kept[i] {
			out = append(out, e)
		}
	}
	return quickValue{vec: out}, nil
}

// twiceAmong reports whether two of the left side meet the same one of the right side.
func (r *recent) twiceAmong(left, right []int32) (twice bool) {
	place := r.sets.places()
	for _, g := range right {
		place[g] = 1
	}
	for _, g := range left {
		twice = twice || place[g] == 2
		if place[g] == 1 {
			place[g] = 2
		}
	}
	for _, g := range right {
		place[g] = 0
	}
	return twice
}
