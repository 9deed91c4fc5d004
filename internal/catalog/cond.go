package catalog

import (
	"math"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// A Threshold is a named number that a signal is compared with. It is resolved
// in this order: set by the user; from the objectives; measured; relative to
// the baseline; the default. One that resolves to nothing makes the comparison
// unknown.
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

	// Baseline makes it relative to what was normal for this deployment.
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
// Per, which may be nil, is what the signal may fairly grow with: a decode step of a larger batch takes
// longer, and that alone is no fault. Perhaps says that it may as well have grown with the signal (slower steps fill a
// batch, by Little's law): then its growth excuses nothing, and leaves in doubt what it would explain.
type Relative struct {
	Factor   float64
	Offset   float64 // in the signal's unit: differences below it do not matter
	Per      *indicator.Signal
	Perhaps  bool
	Exponent float64

	// Most is where a number is bad whatever was normal; 0 is nowhere. It keeps a
	// fault that was there before from making itself normal.
	Most float64

	// History asks for a baseline of earlier samples. The sums of a server's
	// whole life do, where the cost of work is compared, but not where its
	// traffic is: a life holds warm-ups, tests and other people's load.
	History bool
}

// Op compares a signal with a threshold.
type Op string

// The comparisons.
const (
	GreaterThan Op = ">"
	LessThan    Op = "<"
)

// nothing is a limit below which a quantity counts as zero.
const nothing = 1e-6

// Text writes the comparison with a limit for people: "> 90 %".
func (o Op) Text(limit float64, u indicator.Unit) string {
	if o == LessThan && limit > 0 && limit < nothing {
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
	Promised  bool // compares with what somebody promised alone: neither with what is normal nor with a default
	Guarding  bool // rules other causes and chance out, and shows nothing: see Guard
	All       []Cond
	Any       []Cond
}

// Role says what a comparison shows.
type Role uint8

// The roles.
const (
	Cause   Role = iota // what happens in the server
	Symptom             // what users feel
	Guarded             // nothing: it rules other causes and chance out
)

func (r Role) String() string { return [...]string{"cause", "symptom", "guard"}[r] }

// Role is that of a comparison. That users do not feel something is no evidence of a fault.
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
// They decide as others do, and are no evidence to look at.
func Guard(c Cond) Cond {
	c.Guarding = c.Signal != nil
	c.All, c.Any = guards(c.All), guards(c.Any)
	return c
}

func guards(cs []Cond) []Cond {
	if cs == nil {
		return nil
	}
	out := make([]Cond, len(cs))
	for i := range cs {
		out[i] = Guard(cs[i])
	}
	return out
}

// Empty reports whether c says nothing.
func (c Cond) Empty() bool { return c.Signal == nil && c.All == nil && c.Any == nil }

// Above holds while the signal is greater than the threshold.
func Above(s *indicator.Signal, t *Threshold) Cond {
	return Cond{Signal: s, Op: GreaterThan, Threshold: t}
}

// Below holds while the signal is less than the threshold.
func Below(s *indicator.Signal, t *Threshold) Cond {
	return Cond{Signal: s, Op: LessThan, Threshold: t}
}

// Breached holds while the signal is greater than what was promised by an objective or
// set by hand; where nothing was, it does not hold.
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

// Signals calls yield for every signal that the tree reads, those of relative
// thresholds included.
func (c Cond) Signals(yield func(*indicator.Signal)) {
	c.Leaves(func(leaf Cond) {
		yield(leaf.Signal)
		if b := leaf.Threshold.Baseline; b != nil && b.Per != nil {
			yield(b.Per)
		}
	})
}

// Asked returns the condition without the alternatives that read a signal which is not used, and false where
// nothing is left of it.
func (c Cond) Asked(used func(*indicator.Signal) bool) (Cond, bool) {
	whole := true
	c.Signals(func(s *indicator.Signal) { whole = whole && used(s) })
	if whole || c.Signal != nil {
		return c, whole
	}
	if c.Any != nil {
		var left []Cond
		for _, sub := range c.Any {
			if sub, asked := sub.Asked(used); asked {
				left = append(left, sub)
			}
		}
		return Cond{Any: left}, left != nil
	}
	all := make([]Cond, len(c.All))
	for i, sub := range c.All {
		var asked bool
		if all[i], asked = sub.Asked(used); !asked {
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
	Source    string // of the threshold: "--set", "slo", "chat", "measured", "baseline", "cap" (a number that is bad whatever was normal), "default"
	Name      string // the threshold's
	Holds     Truth
	Role      Role
}

// Shown reports whether a comparison that holds is evidence to look at.
func (e *Evidence) Shown() bool { return e.Holds == True && e.Role != Guarded }

// Eval evaluates a condition and returns every comparison made, in the order
// of the tree.
func (c Cond) Eval(v View) (Truth, []Evidence) {
	comparisons := 0
	c.Leaves(func(Cond) { comparisons++ })
	evidence := make([]Evidence, 0, comparisons)
	truth := c.eval(v, &evidence)
	return truth, evidence
}

// Holds evaluates a condition as Eval does, and makes no comparison that cannot decide it.
func (c Cond) Holds(v View) Truth { return c.eval(v, nil) }

// eval appends the evidence of a part of the tree, where it is asked for.
func (c Cond) eval(v View, evidence *[]Evidence) Truth {
	if c.Signal != nil {
		e := compare(c, v)
		if h, ok := v.(interface{ over(Cond) bool }); ok && e.Holds == True && h.over(c) {
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
	truth, decided := False, True // of an empty Any, and what nothing changes any more
	if all {
		truth, decided = True, False
	}
	for _, sub := range subs {
		if all {
			truth = and(truth, sub.eval(v, evidence))
		} else {
			truth = or(truth, sub.eval(v, evidence))
		}
		if evidence == nil && truth == decided {
			break
		}
	}
	return truth
}

// A Doubt is how far a reading and what is normal may be from what goes on, by chance alone.
type Doubt struct {
	// Least is what the reading in the window stands for at least.
	Least float64
	// Wander is how many times as high as normal the server reads now and then by itself.
	Wander float64
	// Margin is by how many times the limit must be passed, where few moments tell.
	Margin float64
}

// An Uncertain view knows how far its readings may be off.
type Uncertain interface {
	View
	Doubt(*indicator.Signal) Doubt
	// Over reports whether what makes a comparison hold has ended in the window.
	Over(comparison Cond) bool
}

// Certain evaluates a condition as Eval does, on what is beyond doubt: a reading is above
// its limit only if its near end is, if it is beyond what the server does by itself, and if it is not
// over.
func (c Cond) Certain(v Uncertain) Truth { return c.Holds(doubted{lasting{v}}) }

// Likely evaluates a condition as Certain does, with half of the doubt: what does not hold then is more likely
// chance than not.
func (c Cond) Likely(v Uncertain) Truth { return c.Certain(halved{v}) }

// halved shows an uncertain view as half as uncertain.
type halved struct{ Uncertain }

// Doubt implements Uncertain.
func (h halved) Doubt(s *indicator.Signal) Doubt {
	d := h.Uncertain.Doubt(s)
	return Doubt{Least: math.Sqrt(max(0, d.Least) * max(0, h.Now(s).V)), Wander: math.Sqrt(d.Wander), Margin: math.Sqrt(d.Margin)}
}

// Ended reports whether a condition that holds in the window does so because of what is over.
func (c Cond) Ended(v Uncertain) bool { return c.Holds(lasting{v}) != True }

// lasting shows an uncertain view without what is over.
type lasting struct{ Uncertain }

func (l lasting) over(c Cond) bool { return l.Over(c) }

// doubted shows it at the near ends of its readings too.
type doubted struct{ lasting }

// Now implements View.
func (d doubted) Now(s *indicator.Signal) indicator.Value {
	v := d.Uncertain.Now(s)
	if v.OK {
		v.V = d.Doubt(s).Least
	}
	return v
}

func and(a, b Truth) Truth {
	switch {
	case a == False || b == False:
		return False
	case a == Unknown || b == Unknown:
		return Unknown
	}
	return True
}

func or(a, b Truth) Truth {
	switch {
	case a == True || b == True:
		return True
	case a == Unknown || b == Unknown:
		return Unknown
	}
	return False
}

func compare(c Cond, v View) Evidence {
	if d, ok := v.(doubted); ok && c.Op == LessThan {
		v = d.Uncertain // what a reading may be less by does not bring it under a limit
	}
	e := Evidence{
		Signal: c.Signal, Op: c.Op, Name: c.Threshold.Name, Role: c.Role(),
		Value: v.Now(c.Signal), Baseline: v.Normal(c.Signal), Threshold: math.NaN(),
	}
	limit, source, ok := c.Threshold.Resolve(c.Signal, c.Op, v)
	if c.Promised {
		limit, source, ok = v.Limit(c.Threshold)
		if !ok || source == Measured {
			e.Holds = False // what nobody promised is not broken
			return e
		}
	}
	if !ok {
		if c.Threshold.Objective != "" && c.Threshold.Baseline == nil {
			e.Holds = False // what nobody promised is not broken
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

// Measured is the source of a limit that was found by a measurement, and promised to nobody.
const Measured = "measured"

// Resolve returns the number that the signal is compared with, and its source.
func (t *Threshold) Resolve(s *indicator.Signal, op Op, v View) (limit float64, source string, ok bool) {
	way := t.Ways(v.Limit, v.HasHistory())
	if way.Set {
		return way.Limit, way.Source, true
	}
	if way.Relative != nil {
		limit, ok = way.Relative.limit(s, v)
		if !ok || v.MayHoldFault() && t.laxer(limit, op) {
			limit, ok = t.peerLimit(way.Relative, s, op, v)
		}
		if ok {
			return limit, way.Relative.source(limit), true
		}
	}
	if !math.IsNaN(t.Default) {
		return t.Default, "default", true
	}
	return 0, "", false
}

// Ways says how a threshold is resolved: by the number that was set for it or else
// relative to the baseline, where there is one of the kind that it needs, or else by
// its default.
type Ways struct {
	Set      bool
	Limit    float64 // where it was set
	Source   string
	Relative *Relative // nil where it does not follow the baseline
}

// Ways resolves a threshold as far as that is possible without readings. The limits
// are View.Limit's; history says whether the baseline is made of earlier samples.
func (t *Threshold) Ways(limit func(*Threshold) (float64, string, bool), history bool) Ways {
	if v, source, ok := limit(t); ok {
		return Ways{Set: true, Limit: v, Source: source}
	}
	if t.Baseline == nil || t.Baseline.History && !history {
		return Ways{}
	}
	return Ways{Relative: t.Baseline}
}

// peerLimit returns the limit of a server whose own past is too short to make it easier to keep
// than the default: what its peers have had for long is no fault of one that is new.
func (t *Threshold) peerLimit(r *Relative, s *indicator.Signal, op Op, v View) (float64, bool) {
	if !t.laxer(math.Inf(1), op) {
		return 0, false // nothing can be
	}
	peers, ok := v.Peers()
	if !ok {
		return 0, false
	}
	limit, ok := r.limit(s, peers)
	if own, known := r.limit(s, v); known {
		limit = min(limit, own)
	}
	return limit, ok && t.laxer(limit, op)
}

// laxer reports whether an upper limit is easier to keep than the default.
func (t *Threshold) laxer(limit float64, op Op) bool {
	return op == GreaterThan && limit > t.Default
}

func (r *Relative) limit(s *indicator.Signal, v View) (float64, bool) {
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
	return r.bounded(r.Factor*base.V*scale + r.Offset), true
}

// source says what a limit follows: the baseline, or Most, which is below what it allows.
func (r *Relative) source(limit float64) string {
	if r.Most > 0 && limit == r.Most {
		return "cap"
	}
	return "baseline"
}

// bounded keeps a limit between zero and Most.
func (r *Relative) bounded(limit float64) float64 {
	limit = math.Max(0, limit)
	if r.Most > 0 {
		limit = math.Min(limit, r.Most)
	}
	return limit
}
