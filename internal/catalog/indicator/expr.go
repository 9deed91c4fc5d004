package indicator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// An Expr computes a quantity from samples. It is a closed algebra of the five types below. Rewriting.Compile
// translates it for a deployment; String prints PromQL, and metrics/embedded evaluates it on samples in memory.
type Expr interface {
	fmt.Stringer
	// Each calls f for the Samples of an expression, from left to right.
	Each(func(Samples))
}

// The nodes of the algebra. Their operators and functions have PromQL's names.
type (
	// Number is a constant.
	Number float64

	// Samples yields one value for each series of a metric: its last sample, or a function of the samples in a span.
	Samples struct {
		Func   string // "" is the last sample; PromQL's, or one of those below
		Param  float64
		Metric string
		Where  []*labels.Matcher
		Span   time.Duration // WindowMark, ShortMark, PastMark, or a fixed span
		Offset time.Duration
	}

	// Aggregate combines the values with the same Labels; nil means Own.
	Aggregate struct {
		Op      string
		Labels  []string
		Without bool   // all labels but those
		Into    string // label of count_values
		Of      Expr
	}

	// Apply is a function of each value. Percentile is a function of all values, and Time of none.
	Apply struct {
		Func  string
		Of    Expr
		Param float64
	}

	// Binary is an operator.
	Binary struct {
		Op   string
		A, B Expr
		Bool bool // a comparison yields 0 or 1, and does not filter
		Match
	}

	// Match selects the labels by which an operator matches its sides; by default all.
	Match struct {
		By     string // "on", "ignoring", or ""
		Labels []string
		Group  string // "left", "right", or ""
	}
)

// Functions that are called in another way than PromQL's.
const (
	Percentile = "histogram_quantile"
	Time       = "time"

	// Functions of Samples that evaluate the span at every Step.
	FirstSeen = "first_seen" // time of the first sample
	LastTrue  = "last_true"  // time of the last sample above zero
	LastZero  = "last_zero"  // time of the last sample that is zero, or of the first sample
	LastMoved = "last_moved" // time of the last sample that differs from the one a Step before, or of the first sample
	HeldLast  = "held_last"  // maximum of the values before absences
)

// Step is the resolution of the functions that return the time of a sample. MissedFor is how long a missing series
// counts with its last value.
const (
	Step      = 5 * time.Second
	MissedFor = 2 * time.Minute
)

// Own stands, in a list of labels, for the labels that identify one value of the signal by its scope.
const Own = ""

// Labels of parts of a target, and of groups of targets.
var (
	Rank  = []string{Own, "engine"} // one data-parallel rank
	Fleet = []string{"model_name"}  // all targets of one model
)

// A Function is computed from the samples of each series over the window, or over the span of In.
type Function func(metric string, where ...*labels.Matcher) Samples

func rangeFunction(name string) Function {
	return func(metric string, where ...*labels.Matcher) Samples {
		return Samples{Func: name, Metric: metric, Where: where, Span: WindowMark}
	}
}

// Functions of counters, of gauges, and of both.
var (
	Rate     = rangeFunction("rate")
	Increase = rangeFunction("increase")
	LastRate = rangeFunction("irate") // between the last two samples
	Resets   = rangeFunction("resets")

	Mean    = rangeFunction("avg_over_time")
	Lowest  = rangeFunction("min_over_time")
	Highest = rangeFunction("max_over_time")
	Total   = rangeFunction("sum_over_time")
	Slope   = rangeFunction("deriv")

	Last        = rangeFunction("last_over_time")
	SampleCount = rangeFunction("count_over_time")
	Changes     = rangeFunction("changes")
	First       = rangeFunction(FirstSeen)

	LastAbove  = rangeFunction(LastTrue)
	LastAtZero = rangeFunction(LastZero)
	LastChange = rangeFunction(LastMoved)
	BeforeGap  = rangeFunction(HeldLast)
)

// Lately returns a function over the last moments instead of the window.
func Lately(fn Function) Function {
	return func(metric string, where ...*labels.Matcher) Samples { return fn(metric, where...).In(ShortMark) }
}

// GaugeQuantile returns the quantile q of a gauge over the window.
func GaugeQuantile(q float64, metric string, where ...*labels.Matcher) Samples {
	return Samples{Func: "quantile_over_time", Param: q, Metric: metric, Where: where, Span: WindowMark}
}

// Now returns the last sample of each series.
func Now(metric string, where ...*labels.Matcher) Samples {
	return Samples{Metric: metric, Where: where}
}

// In returns the same function over another span.
func (s Samples) In(span time.Duration) Samples { s.Span = span; return s }

// Matchers of labels.
var (
	Is     = newMatcher(labels.MatchEqual)
	Not    = newMatcher(labels.MatchNotEqual)
	Like   = newMatcher(labels.MatchRegexp)
	Unlike = newMatcher(labels.MatchNotRegexp)
)

func newMatcher(kind labels.MatchType) func(label, value string) *labels.Matcher {
	return func(label, value string) *labels.Matcher { return labels.MustNewMatcher(kind, label, value) }
}

// Sum adds values up to one for each value of the signal. By and But choose other labels.
func Sum(e Expr) Aggregate { return Aggregate{Op: "sum", Of: e} }

// Avg averages values.
func Avg(e Expr) Aggregate { return Aggregate{Op: "avg", Of: e} }

// Min takes the least value.
func Min(e Expr) Aggregate { return Aggregate{Op: "min", Of: e} }

// Max takes the greatest value.
func Max(e Expr) Aggregate { return Aggregate{Op: "max", Of: e} }

// CountOf counts values.
func CountOf(e Expr) Aggregate { return Aggregate{Op: "count", Of: e} }

// By returns the same aggregation by other labels.
func (a Aggregate) By(names ...string) Aggregate { a.Labels = names; return a }

// But returns the same aggregation by all labels but some.
func (a Aggregate) But(names ...string) Aggregate {
	a.Labels, a.Without = names, true
	return a
}

// Floor rounds down.
func Floor(e Expr) Apply { return Apply{Func: "floor", Of: e} }

// AtLeast raises values to a bound.
func AtLeast(e Expr, least float64) Apply { return Apply{"clamp_min", e, least} }

// AtMost lowers values to a bound.
func AtMost(e Expr, most float64) Apply { return Apply{"clamp_max", e, most} }

// Add adds two values.
func Add(a, b Expr) Binary { return Binary{Op: "+", A: a, B: b} }

// Sub subtracts one value from another.
func Sub(a, b Expr) Binary { return Binary{Op: "-", A: a, B: b} }

// Mul multiplies two values.
func Mul(a, b Expr) Binary { return Binary{Op: "*", A: a, B: b} }

// Div divides one value by another.
func Div(a, b Expr) Binary { return Binary{Op: "/", A: a, B: b} }

// Mod is the remainder of a division.
func Mod(a, b Expr) Binary { return Binary{Op: "%", A: a, B: b} }

// And keeps the values of a where b has one.
func And(a, b Expr) Binary { return Binary{Op: "and", A: a, B: b} }

// Or keeps the values of a, and those of b where a has none.
func Or(a, b Expr) Binary { return Binary{Op: "or", A: a, B: b} }

// Unless keeps the values of a where b has none.
func Unless(a, b Expr) Binary { return Binary{Op: "unless", A: a, B: b} }

// Where keeps the values of a for which a comparison holds.
func Where(a Expr, op string, b Expr) Binary { return Binary{Op: op, A: a, B: b} }

// Test compares values, and yields 0 or 1.
func Test(a Expr, op string, b Expr) Binary { return Binary{Op: op, A: a, B: b, Bool: true} }

// Some keeps values above zero, for use as divisors.
func Some(e Expr) Binary { return Where(e, ">", Number(0)) }

// NotNegative leaves out impossible values: a mean below zero is a broken sum.
func NotNegative(e Expr) Binary { return Where(e, ">=", Number(0)) }

// OrZero adds 0 for the label sets of there that e lacks.
func OrZero(e, there Expr) Binary { return Or(e, Mul(Number(0), there)) }

// On selects the labels that must agree.
func (b Binary) On(names ...string) Binary { b.Match.By, b.Match.Labels = "on", names; return b }

// Ignoring selects the labels that need not agree.
func (b Binary) Ignoring(names ...string) Binary {
	b.Match.By, b.Match.Labels = "ignoring", names
	return b
}

// Left lets several values of the left side match one.
func (b Binary) Left() Binary { b.Group = "left"; return b }

// Right lets several values of the right side match one.
func (b Binary) Right() Binary { b.Group = "right"; return b }

// SumRate returns a counter's rate, added up for each value of the signal.
func SumRate(metric string, where ...*labels.Matcher) Aggregate { return Sum(Rate(metric, where...)) }

// SumIncrease returns a counter's increase, added up for each value of the signal.
func SumIncrease(metric string, where ...*labels.Matcher) Aggregate {
	return Sum(Increase(metric, where...))
}

// SumMean returns a gauge's mean over the window, added up for each value of the signal.
func SumMean(metric string, where ...*labels.Matcher) Aggregate { return Sum(Mean(metric, where...)) }

// MeanOf returns the mean of a histogram's observations, which is exact even if buckets are coarse.
func MeanOf(histogram string) Binary {
	return Div(SumRate(histogram+"_sum"), SumRate(histogram+"_count"))
}

// Buckets returns the increases of a histogram's buckets.
func Buckets(histogram string, where ...*labels.Matcher) Aggregate {
	return SumIncrease(histogram+"_bucket", where...).By(Bound...)
}

// Bound holds the labels of one bucket of a value of the signal.
var Bound = []string{"le", Own}

// QuantileOf returns a percentile of a histogram's observations, from its Buckets or from their rates.
func QuantileOf(q float64, buckets Expr) Apply { return Apply{Percentile, buckets, q} }

// Each implements Expr.
func (Number) Each(func(Samples)) {}

// Each implements Expr.
func (s Samples) Each(f func(Samples)) { f(s) }

// Each implements Expr.
func (a Aggregate) Each(f func(Samples)) { a.Of.Each(f) }

// Each implements Expr.
func (b Binary) Each(f func(Samples)) { b.A.Each(f); b.B.Each(f) }

// Each implements Expr.
func (a Apply) Each(f func(Samples)) {
	if a.Of != nil {
		a.Of.Each(f)
	}
}

// String prints the number as PromQL.
func (n Number) String() string { return strconv.FormatFloat(float64(n), 'f', -1, 64) }

// String prints PromQL.
func (s Samples) String() string {
	where := slices.Clone(s.Where)
	slices.SortFunc(where, func(a, b *labels.Matcher) int { return strings.Compare(a.String(), b.String()) })
	text := Selector(s.Metric, where...)
	offset := ""
	if s.Offset != 0 {
		offset = " offset " + model.Duration(s.Offset).String()
	}
	span := "[" + model.Duration(s.Span).String() + "]"
	steps := fmt.Sprintf("[%s:%s]", model.Duration(s.Span), model.Duration(Step))
	first := "min_over_time(timestamp(" + text + offset + ")" + steps + ")"
	switch s.Func {
	case "":
		return text + offset
	case FirstSeen:
		return first
	case LastTrue:
		return fmt.Sprintf("max_over_time((timestamp(%[1]s) and %[1]s > 0)%s)", text+offset, steps)
	case LastZero:
		return fmt.Sprintf("(max_over_time((timestamp(%[1]s) and %[1]s == 0)%[2]s) or %[3]s)", text+offset, steps, first)
	case LastMoved:
		before := " offset " + model.Duration(s.Offset+Step).String()
		return fmt.Sprintf("(max_over_time((timestamp(%[1]s) and %[1]s != %[2]s)%[3]s) or %[4]s)", text+offset, text+before, steps, first)
	case HeldLast:
		return fmt.Sprintf("max_over_time((last_over_time(%[1]s[%s]%[3]s) unless %[1]s%[3]s)%s)", text, model.Duration(MissedFor), offset, steps)
	case "quantile_over_time":
		return fmt.Sprintf("%s(%s, %s%s%s)", s.Func, Number(s.Param), text, span, offset)
	}
	return s.Func + "(" + text + span + offset + ")"
}

// String prints PromQL.
func (a Aggregate) String() string {
	how, into := "by", ""
	if a.Without {
		how = "without"
	}
	if a.Into != "" {
		into = strconv.Quote(a.Into) + ", "
	}
	return fmt.Sprintf("%s %s (%s) (%s%s)", a.Op, how, strings.Join(a.Labels, ", "), into, a.Of)
}

// String prints PromQL.
func (a Apply) String() string {
	switch a.Func {
	case Time:
		return "time()"
	case Percentile:
		return fmt.Sprintf("%s(%s, %s)", a.Func, Number(a.Param), a.Of)
	case "clamp_min", "clamp_max":
		return fmt.Sprintf("%s(%s, %s)", a.Func, a.Of, Number(a.Param))
	}
	return a.Func + "(" + a.Of.String() + ")"
}

// String prints PromQL, with parentheses only where they matter.
func (b Binary) String() string {
	op := b.Op
	if b.Bool {
		op += " bool"
	}
	if b.By != "" {
		op += fmt.Sprintf(" %s (%s)", b.By, strings.Join(b.Match.Labels, ", "))
	}
	if b.Group != "" {
		op += fmt.Sprintf(" group_%s ()", b.Group)
	}
	side := func(e Expr, right bool) string {
		if inner, ok := e.(Binary); ok && (inner.operatorPrecedence() < b.operatorPrecedence() || right && inner.operatorPrecedence() == b.operatorPrecedence()) {
			return "(" + e.String() + ")"
		}
		return e.String()
	}
	return side(b.A, false) + " " + op + " " + side(b.B, true)
}

// operatorPrecedence returns PromQL's precedence (prometheus.io/docs/prometheus/latest/querying/operators).
func (b Binary) operatorPrecedence() int {
	return 1 + slices.IndexFunc([]string{"or", "and unless", "== != <= < >= >", "+ -", "* / %"}, func(ops string) bool {
		return slices.Contains(strings.Fields(ops), b.Op)
	})
}
