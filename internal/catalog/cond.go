package catalog

import (
	"math"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// A Threshold is a named number that a signal is compared with. Its value is the first of: the number that the user
// set, an objective, a measured number, a number relative to the baseline, the default. Without any of them, the
// comparison is unknown.
type Threshold struct {
	Name string // in --set and in threshold files: "kv_cache_full"
	Unit indicator.Unit
	Why  string // the reason for the number, with its source

	// Default is the last resort; NaN (None) when no number fits all.
	Default float64

	// Objective makes the threshold follow an objective. ErrorBudget turns an
	// availability into the error ratio that burns its budget at BurnRate.
	Objective slo.Key
	BurnRate  float64

	// Baseline makes the threshold relative to the deployment's normal value.
	Baseline *Relative
}

// None is the default of a threshold that has no sensible universal value.
var None = math.NaN()

// Relative computes a threshold from the baseline b of the compared signal:
//
//	Factor × b × max(1, now(Per)/normal(Per))^Exponent + Offset
//
// and never below zero, nor above Most.
//
// Per, which may be nil, is what the signal may fairly grow with: a decode step of a larger batch takes longer, and
// that alone is no fault. Perhaps means that Per may have grown because of the signal (slower steps fill a batch, by
// Little's law). Its growth then excuses nothing, but leaves in doubt what it would explain.
type Relative struct {
	Factor   float64
	Offset   float64 // in the signal's unit: differences below it do not matter
	Per      *indicator.Signal
	Perhaps  bool
	Exponent float64

	// Most bounds the limit, whatever the normal value is; 0 means no bound. It keeps an older fault from becoming the
	// normal state.
	Most float64

	// History requires a baseline of earlier samples. Lifetime sums suffice to compare the cost of work, but not
	// traffic: a lifetime contains warm-ups, tests and other users' load.
	History bool
}

// Op compares a signal with a threshold.
type Op string

// The comparisons.
const (
	GreaterThan Op = ">"
	LessThan    Op = "<"
)

// almostZero is the limit below which a quantity counts as zero.
const almostZero = 1e-6

// Text writes the comparison with a limit for people: "> 90 %".
func (o Op) Text(limit float64, u indicator.Unit) string {
	if o == LessThan && limit > 0 && limit < almostZero {
		return "= 0"
	}
	return string(o) + " " + indicator.FormatNumber(limit, u)
}

// A Cond is a condition tree. Exactly one of its three shapes is used: a
// comparison (Signal, Op, Threshold), All, or Any.
type Cond struct {
	Signal    *indicator.Signal
	Op        Op
	Threshold *Threshold
	Promised  bool // compares with an objective only, never with the normal value or a default
	Guarding  bool // only rules out other causes and chance: see Guard
	All       []Cond
	Any       []Cond
}

// Role is the meaning of a comparison.
type Role uint8

// The roles.
const (
	Cause   Role = iota // happens in the server
	Symptom             // felt by users
	Guarded             // no evidence: it rules out other causes and chance
)

func (r Role) String() string { return [...]string{"cause", "symptom", "guard"}[r] }

// Role returns the role of a comparison. That users notice nothing is no evidence of a fault.
func (c Cond) Role() Role {
	switch {
	case c.Guarding || c.Op == LessThan && c.Signal.Felt():
		return Guarded
	case c.Signal.Felt():
		return Symptom
	}
	return Cause
}

// Guard marks the comparisons of a condition as guards: a least number of requests, a quantity that must be as usual.
// They decide like others, but are not shown as evidence.
func Guard(c Cond) Cond {
	c.Guarding = c.Signal != nil
	c.All, c.Any = markGuards(c.All), markGuards(c.Any)
	return c
}

func markGuards(cs []Cond) []Cond {
	if cs == nil {
		return nil
	}
	out := make([]Cond, len(cs))
	for i := range cs {
		out[i] = Guard(cs[i])
	}
	return out
}

// Empty reports whether c has no comparison.
func (c Cond) Empty() bool { return c.Signal == nil && c.All == nil && c.Any == nil }

// Above holds while the signal is greater than the threshold.
func Above(s *indicator.Signal, t *Threshold) Cond {
	return Cond{Signal: s, Op: GreaterThan, Threshold: t}
}

// Below holds while the signal is less than the threshold.
func Below(s *indicator.Signal, t *Threshold) Cond {
	return Cond{Signal: s, Op: LessThan, Threshold: t}
}

// Breached holds while the signal exceeds an objective or a threshold set by hand. Without either it does not hold.
func Breached(s *indicator.Signal, t *Threshold) Cond {
	return Cond{Signal: s, Op: GreaterThan, Threshold: t, Promised: true}
}

// All holds while every condition holds.
func All(cs ...Cond) Cond { return Cond{All: cs} }

// Any holds while at least one condition holds.
func Any(cs ...Cond) Cond { return Cond{Any: cs} }

// Leaves calls yield for every comparison of the tree, in order.
func (c Cond) Leaves(yield func(Cond)) {
	if c.Signal != nil {
		yield(c)
		return
	}
	for _, subs := range [...][]Cond{c.All, c.Any} {
		for _, sub := range subs {
			sub.Leaves(yield)
		}
	}
}

// Signals calls yield for every signal that the tree reads, including signals of relative thresholds.
func (c Cond) Signals(yield func(*indicator.Signal)) {
	c.Leaves(func(leaf Cond) {
		yield(leaf.Signal)
		if b := leaf.Threshold.Baseline; b != nil && b.Per != nil {
			yield(b.Per)
		}
	})
}

// Applicable returns the condition without the alternatives that read unused signals; false if nothing is left.
func (c Cond) Applicable(used func(*indicator.Signal) bool) (Cond, bool) {
	whole := true
	c.Signals(func(s *indicator.Signal) { whole = whole && used(s) })
	if whole || c.Signal != nil {
		return c, whole
	}
	if c.Any != nil {
		var left []Cond
		for _, sub := range c.Any {
			if sub, asked := sub.Applicable(used); asked {
				left = append(left, sub)
			}
		}
		return Cond{Any: left}, left != nil
	}
	all := make([]Cond, len(c.All))
	for i, sub := range c.All {
		var asked bool
		if all[i], asked = sub.Applicable(used); !asked {
			return c, false
		}
	}
	return Cond{All: all}, true
}

// Truth is three-valued: a comparison with something missing is Unknown.
type Truth uint8

// The truth values. The zero value is Unknown.
const (
	Unknown Truth = iota
	False
	True
)

// Evidence is one comparison with its numbers.
type Evidence struct {
	Signal    *indicator.Signal
	Op        Op
	Value     indicator.Value
	Baseline  indicator.Value
	Threshold float64
	Source    string // source of the threshold: "--set", "slo", "chat", "measured", "baseline", "cap" (bad whatever was normal), "default"
	Name      string // the threshold's
	Holds     Truth
	Role      Role
}

// Shown reports whether a comparison that holds is evidence to look at.
func (e *Evidence) Shown() bool { return e.Holds == True && e.Role != Guarded }

// Eval evaluates a condition and returns every comparison made, in the order of the tree.
func (c Cond) Eval(v View) (Truth, []Evidence) {
	comparisons := 0
	c.Leaves(func(Cond) { comparisons++ })
	evidence := make([]Evidence, 0, comparisons)
	truth := c.evaluateTree(v, &evidence)
	return truth, evidence
}

// Holds evaluates a condition as Eval does, and makes no comparison that cannot decide it.
func (c Cond) Holds(v View) Truth { return c.evaluateTree(v, nil) }

// evaluateTree evaluates a part of the tree, and appends its evidence if evidence is not nil.
func (c Cond) evaluateTree(v View, evidence *[]Evidence) Truth {
	if c.Signal != nil {
		e := compareSignal(c, v)
		if h, ok := v.(interface{ isOver(Cond) bool }); ok && e.Holds == True && h.isOver(c) {
			e.Holds = False
		}
		if evidence != nil {
			*evidence = append(*evidence, e)
		}
		return e.Holds
	}
	subs, all := c.All, true
	if c.Any != nil {
		subs, all = c.Any, false
	}
	truth, decided := False, True // the value of an empty Any, and the value that decides
	if all {
		truth, decided = True, False
	}
	for _, sub := range subs {
		if got := sub.evaluateTree(v, evidence); got == decided || got == Unknown && truth != decided {
			truth = got
		}
		if evidence == nil && truth == decided {
			break
		}
	}
	return truth
}

// A Doubt bounds how far a reading and its normal value may be off by chance.
type Doubt struct {
	// Least is the least value that the reading in the window may stand for.
	Least float64
	// Wander is the factor by which the server exceeds normal now and then by itself.
	Wander float64
	// Margin is the factor by which the limit must be exceeded because few moments tell.
	Margin float64
}

// An Uncertain view knows how far its readings may be off.
type Uncertain interface {
	View
	Doubt(*indicator.Signal) Doubt
	// Over reports whether the state in which a comparison holds has ended in the window.
	Over(comparison Cond) bool
}

// Certain evaluates a condition like Eval, but needs proof beyond doubt. A reading exceeds its limit if the near end
// of its interval does, if the server's own fluctuation does not explain it, and if it still goes on.
func (c Cond) Certain(v Uncertain) Truth { return c.Holds(doubted{lasting{v}}) }

// Likely evaluates a condition like Certain, with half of the doubt. A condition that fails it is more likely chance
// than not.
func (c Cond) Likely(v Uncertain) Truth { return c.Certain(halved{v}) }

// halved is an uncertain view with half of the doubt.
type halved struct{ Uncertain }

// Doubt implements Uncertain.
func (h halved) Doubt(s *indicator.Signal) Doubt {
	d := h.Uncertain.Doubt(s)
	return Doubt{Least: math.Sqrt(max(0, d.Least) * max(0, h.Now(s).V)), Wander: math.Sqrt(d.Wander), Margin: math.Sqrt(d.Margin)}
}

// Ended reports whether a condition holds in the window only because of a fault that is over.
func (c Cond) Ended(v Uncertain) bool { return c.Holds(lasting{v}) != True }

// lasting is an uncertain view without faults that are over.
type lasting struct{ Uncertain }

func (l lasting) isOver(c Cond) bool { return l.Over(c) }

// doubted is a lasting view whose readings are at the near ends of their intervals.
type doubted struct{ lasting }

// Now implements View.
func (d doubted) Now(s *indicator.Signal) indicator.Value {
	v := d.Uncertain.Now(s)
	if v.OK {
		v.V = d.Doubt(s).Least
	}
	return v
}

func compareSignal(c Cond, v View) Evidence {
	if d, ok := v.(doubted); ok && c.Op == LessThan {
		v = d.Uncertain // the doubt does not bring a reading under its limit
	}
	e := Evidence{
		Signal: c.Signal, Op: c.Op, Name: c.Threshold.Name, Role: c.Role(),
		Value: v.Now(c.Signal), Baseline: v.Normal(c.Signal), Threshold: math.NaN(),
	}
	limit, source, ok := c.Threshold.Resolve(c.Signal, c.Op, v)
	if c.Promised {
		limit, source, ok = v.Limit(c.Threshold)
		if !ok || source == Measured {
			e.Holds = False // an objective that is not set is not broken
			return e
		}
	}
	if !ok {
		if c.Threshold.Objective != "" && c.Threshold.Baseline == nil {
			e.Holds = False // an objective that is not set is not broken
		}
		return e
	}
	e.Threshold, e.Source = limit, source
	if !e.Value.OK {
		return e
	}
	e.Holds = False
	if c.Op == GreaterThan && e.Value.V > limit || c.Op == LessThan && e.Value.V < limit {
		e.Holds = True
	}
	return e
}

// Measured is the source of a limit that was measured, not promised.
const Measured = "measured"

// Resolve returns the number that the signal is compared with, and its source.
func (t *Threshold) Resolve(s *indicator.Signal, op Op, v View) (limit float64, source string, ok bool) {
	way := t.Ways(v.Limit, v.HasHistory())
	if way.Set {
		return way.Limit, way.Source, true
	}
	if way.Relative != nil {
		limit, ok = way.Relative.deriveLimit(s, v)
		if !ok || v.MayHoldFault() && t.isLaxer(limit, op) {
			limit, ok = t.peerLimit(way.Relative, s, op, v)
		}
		if ok {
			return limit, way.Relative.describeSource(limit), true
		}
	}
	if !math.IsNaN(t.Default) {
		return t.Default, "default", true
	}
	return 0, "", false
}

// Ways are the ways to resolve a threshold: its set number, else the baseline of the kind that it needs, else its
// default.
type Ways struct {
	Set      bool
	Limit    float64 // the limit that was set
	Source   string
	Relative *Relative // nil where it does not follow the baseline
}

// Ways resolves a threshold as far as that is possible without readings. limit is View.Limit, and history says whether
// the baseline is made of earlier samples.
func (t *Threshold) Ways(limit func(*Threshold) (float64, string, bool), history bool) Ways {
	if v, source, ok := limit(t); ok {
		return Ways{Set: true, Limit: v, Source: source}
	}
	if t.Baseline == nil || t.Baseline.History && !history {
		return Ways{}
	}
	return Ways{Relative: t.Baseline}
}

// peerLimit returns the limit for a server whose own history is too short to relax the default. A value that its peers
// have had for long is not a fault of a new server.
func (t *Threshold) peerLimit(r *Relative, s *indicator.Signal, op Op, v View) (float64, bool) {
	if !t.isLaxer(math.Inf(1), op) {
		return 0, false // no limit is laxer
	}
	peers, ok := v.Peers()
	if !ok {
		return 0, false
	}
	limit, ok := r.deriveLimit(s, peers)
	if own, known := r.deriveLimit(s, v); known {
		limit = min(limit, own)
	}
	return limit, ok && t.isLaxer(limit, op)
}

// isLaxer reports whether an upper limit is easier to keep than the default.
func (t *Threshold) isLaxer(limit float64, op Op) bool {
	return op == GreaterThan && limit > t.Default
}

func (r *Relative) deriveLimit(s *indicator.Signal, v View) (float64, bool) {
	base := v.Normal(s)
	if !base.OK {
		return 0, false
	}
	scale := 1.0
	d, certain := v.(doubted)
	if r.Per != nil && (certain || !r.Perhaps) {
		now, normal := v.Now(r.Per), v.Normal(r.Per)
		if !now.OK || !normal.OK || normal.V <= 0 {
			return 0, false
		}
		scale = math.Pow(math.Max(1, now.V/normal.V), r.Exponent)
		if _, half := d.Uncertain.(halved); half && r.Perhaps {
			scale = math.Sqrt(scale)
		}
	}
	if certain {
		doubt := d.Doubt(s)
		if doubt.Wander > r.Factor && doubt.Wander > 1 {
			scale *= doubt.Wander / r.Factor
		}
		scale *= max(1, doubt.Margin)
	}
	return r.clampLimit(r.Factor*base.V*scale + r.Offset), true
}

// describeSource says what set a limit: the baseline, or Most if the baseline allows more.
func (r *Relative) describeSource(limit float64) string {
	if r.Most > 0 && limit == r.Most {
		return "cap"
	}
	return "baseline"
}

// clampLimit keeps a limit between zero and Most.
func (r *Relative) clampLimit(limit float64) float64 {
	limit = math.Max(0, limit)
	if r.Most > 0 {
		limit = math.Min(limit, r.Most)
	}
	return limit
}
