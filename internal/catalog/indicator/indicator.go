// Package indicator declares every quantity that sixty measures, once: its expression over samples, its unit, and the
// traps of reading it. Conditions, dashboards, alerts and reports refer to these signals; no other package writes
// PromQL for a server's metrics.
//
// A quantity is an Expr, a value of a small algebra over metrics with the canonical names of vLLM's V1 engine. Three
// spans are placeholders: WindowMark for the judged window, ShortMark for the shortest time over which a rate can be
// trusted, PastMark for the longest available history. Rewriting.Compile translates an expression for one deployment,
// and Expr.String prints PromQL that any Prometheus accepts.
//
// The package performs no I/O.
package indicator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Unit is the unit of a signal's value, in base units as Prometheus wants them.
type Unit string

// The units in use.
const (
	Seconds           Unit = "seconds"
	SecondsPerToken   Unit = "seconds/token"
	Ratio             Unit = "ratio" // 0 to 1
	Tokens            Unit = "tokens"
	TokensPerSecond   Unit = "tokens/s"
	Requests          Unit = "requests"
	RequestsPerSecond Unit = "requests/s"
	PerSecond         Unit = "1/s"
	PerRequest        Unit = "1/request"
	Count             Unit = "count"
	Bytes             Unit = "bytes"
	BytesPerSecond    Unit = "bytes/s"
	Watts             Unit = "watts"
	Celsius           Unit = "celsius"
	Megahertz         Unit = "MHz"
	Times             Unit = "times" // a quotient of two like quantities
	State             Unit = "state" // above 0 while something holds
)

// Scope selects the labels that identify one value of a signal.
type Scope uint8

// Scopes of a signal.
const (
	// Model: one value for each model served by each target.
	Model Scope = iota
	// Instance: one value for each scraped target; the metric has no
	// model_name label (http_*, process_*, cache_config_info).
	Instance
	// GPU: one value for each target of a GPU exporter, the worst or the mean
	// of its devices. Diagnosis lends it to the model servers on that host.
	GPU
	// Gateway: one value for each gateway between clients and servers.
	Gateway
)

// A Signal is one measurable quantity.
type Signal struct {
	Name  string // stable, in JSON: "ttft_p95"
	Title string // for people: "TTFT P95"
	Unit  Unit
	Scope Scope

	Expr Expr

	// Histogram and Quantile identify a percentile of a classic histogram. Histogram is the family's name without
	// _bucket.
	Histogram string
	Quantile  float64

	// MinCount is the least number of observations for a percentile or a mean; Count is the family whose _count has
	// it.
	MinCount float64
	Count    string

	// Optional makes a server without the metric count as zero: the metric is newer than most servers, or appears
	// with the first event.
	Optional bool

	// Scrapes marks a signal about scrapes, including failed ones. It is evaluated at the last scrape, not at the
	// last page.
	Scrapes bool

	// Logged marks a signal that only engines' logs have.
	Logged bool

	// Fleet marks a comparison of the target with the others of its model or job.
	Fleet bool

	// Held marks a value about the requests in the engine's gauges: 0 once StaleGauges shows that they are gone.
	Held bool

	// Feature is a requirement on the server that no metric shows.
	Feature string

	// OfRanks marks a comparison of data-parallel ranks: a server with one rank has no value.
	OfRanks bool

	// OfRoles returns Expr for another way to tell roles; nil if the signal does not depend on roles.
	OfRoles func(Roles) Expr

	// Per is the label of a target's parts that have values of their own: PerModel, PerUpstream or PerRank; "" for
	// the target as a whole.
	Per string

	// MinPast is how much past a trend, or a silence, needs before it is believed.
	MinPast time.Duration

	// Otherwise holds expressions for servers that do not expose what Expr reads; the first that fits counts.
	Otherwise []Alternative

	// Panel, which may be nil, is a dashboard panel with this signal only.
	Panel *Panel

	// Censored marks a histogram that lacks the requests without an answer. UnansweredShare and UnansweredWait have
	// those.
	Censored bool

	Doc  string // meaning, source and traps
	Hint string // how to get it if it is missing

	Place int // position in All, from 1 on; 0 before All is called, and for unlisted signals
}

// An Alternative is another expression of a signal, in canonical names.
type Alternative struct {
	Without string // the metric that a server lacks
	With    string // a metric that it must have; "" for none
	Expr    Expr
}

// A Panel is a signal's own panel: a line for each model, server or GPU.
type Panel struct {
	ID    int     // its number, unique and never used for anything else again
	Row   int     // the number of the row that it ends (package generate/dashboard)
	Width int     // of 24
	Title string  // "" is the signal's
	Max   float64 // maximum of the axis; 0 follows the data
	Doc   string  // how to read the panel, beside the signal's Doc
}

// PromQL returns the signal's expression in canonical names, without the guard on MinCount.
func (s *Signal) PromQL() string { return s.Compile(s.Expr).String() }

// Compile returns one of the signal's expressions in canonical names.
func (s *Signal) Compile(e Expr) Expr { return Rewriting{}.Compile(e, s.Scope) }

// Buckets returns the histogram's bucket increments over the window, from which every
// quantile of the family follows; nil for other signals.
func (s *Signal) Buckets() Expr {
	if s.Histogram == "" {
		return nil
	}
	return Buckets(s.Histogram)
}

// Mean returns the signal of the mean for a percentile, nil if no signal has the mean. It replaces the percentile in
// deployments that drop buckets.
func (s *Signal) Mean() *Signal {
	switch s.Histogram {
	case ttftFamily:
		return TTFTMean
	case itlFamily:
		return ITLMean
	case tpotFamily:
		return TPOTMean
	case e2eFamily:
		return E2EMean
	case queueFamily:
		return QueueTimeMean
	}
	return nil
}

// Observations returns the number of observations behind the value, nil when the signal does not depend on one.
func (s *Signal) Observations() Expr {
	if s.Count == "" {
		return nil
	}
	return SumIncrease(s.Count + "_count")
}

// Guarded returns PromQL without the values that rest on too few observations.
func (s *Signal) Guarded() string {
	if !s.Counted() {
		return s.PromQL()
	}
	return s.Guard(s.PromQL(), s.Compile(s.Observations()).String())
}

// Guard restricts PromQL of the signal to values that rest on enough observations,
// which the second expression counts.
func (s *Signal) Guard(expr, observations string) string {
	if !s.Counted() {
		return expr
	}
	return fmt.Sprintf("(%s) and (%s >= %s)", expr, observations, Number(s.MinCount))
}

// Censor returns PromQL of a percentile that includes the requests without an answer; wait and share are PromQL of
// their wait and share. If their share exceeds what lies beyond the percentile, the percentile is at least their wait,
// and their wait itself if too few requests got an answer. A wait that goes on is a right-censored observation (Kaplan
// and Meier, J. Am. Stat. Assoc. 53, 1958): its final length is unknown, and no shorter.
func (s *Signal) Censor(expr, wait, share string) string {
	waits := fmt.Sprintf("((%s) and (%s) > %s)", wait, share, Number(math.Round(100*(1-s.Quantile))/100))
	return fmt.Sprintf("(%s > (%s)) or (%s) or %s", waits, expr, expr, waits)
}

// AtLeast returns a percentile that includes the requests without an answer, as Censor does.
func (s *Signal) AtLeast(v, wait, share Value) Value {
	if s.Censored && wait.OK && share.OK && share.V > 1-s.Quantile && wait.V > 0 && (!v.OK || wait.V > v.V) {
		return Value{V: wait.V, OK: true, AtLeast: true, Unanswered: share.V}
	}
	return v
}

// Felt reports whether users notice the signal: latencies, broken streams, errors, and answers that are given up.
func (s *Signal) Felt() bool {
	switch strings.Replace(s.Count, "sixty_gateway_", "vllm:", 1) {
	case ttftFamily, itlFamily, tpotFamily, e2eFamily, "vllm:request_duration_seconds", "vllm:inter_token_seconds":
		return (s.Unit == Seconds || s.Unit == SecondsPerToken) && s != UnseenWait && s != GatewayOutside || s == StallsPerRequest
	}
	return felt[s.Name]
}

// felt are further signals that users feel, by name.
var felt = map[string]bool{
	"http_5xx_share": true, "http_4xx_share": true, "abandoned_share": true, "corrupted_share": true,
	"gateway_error_share": true, "gateway_gave_up_share": true,
}

// Counted reports whether the signal's values need a number of observations.
func (s *Signal) Counted() bool { return s.Count != "" && s.MinCount > 0 }

// TooFew returns an unknown reading if n observations are too few.
func (s *Signal) TooFew(n float64) (Value, bool) {
	if !s.Counted() || n >= s.MinCount {
		return Value{}, false
	}
	return Unknown(fmt.Sprintf("too few observations: %.0f, want %.0f", math.Floor(n), s.MinCount)), true
}

// TooShort returns an unknown reading if the past is too short for the signal.
func (s *Signal) TooShort(past time.Duration) (Value, bool) {
	if past >= s.MinPast {
		return Value{}, false
	}
	return Unknown(fmt.Sprintf("needs %.0f min of history", s.MinPast.Minutes())), true
}

// Sums reports whether the value is a number of events in the window, which grows with the window's length.
func (s *Signal) Sums() bool {
	if s.Unit != Count && s.Unit != Requests {
		return false
	}
	sums := false
	s.Expr.Each(func(l Samples) { sums = sums || (l.Func == "increase" || l.Func == "changes") && l.Span == WindowMark })
	return sums
}

// Natural keeps a reading within the quantity's range: shares and numbers of events are never negative, although
// rounding can make the difference of two rates negative.
func (s *Signal) Natural(v float64) float64 {
	if s.Unit == Ratio || s.Unit == PerRequest || s.Sums() {
		return max(0, v)
	}
	return v
}

// Shares reports whether two signals read the same histogram, or only the same metric, so that one adds no evidence
// to the other.
func (s *Signal) Shares(other *Signal) bool {
	return s == other || s.sourceFamily() != "" && s.sourceFamily() == other.sourceFamily()
}

// sourceFamily returns the family of metrics that the signal reads, "" if it reads several.
func (s *Signal) sourceFamily() string {
	var families []string
	for _, n := range Reads(s.Expr) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			n = strings.TrimSuffix(n, suffix)
		}
		families = append(families, n)
	}
	if families = slices.Compact(families); len(families) != 1 {
		return ""
	}
	return families[0]
}

// How many observations a statistic needs. A P95 of ten values is more or less their maximum; with fewer values it
// means nothing. A median or mean of three already shows a doubling.
const (
	minForTail   = 10
	minForMedian = 3
)

// MinTrend is the shortest past from which the slope of a memory gauge is
// read: caches warm up within the first minutes and look like leaks.
const MinTrend = 5 * time.Minute

// quantileSignal declares a percentile of a latency or size histogram.
func quantileSignal(name, title string, unit Unit, q float64, histogram, doc string) *Signal {
	need := float64(minForTail)
	if q <= 0.5 {
		need = minForMedian
	}
	return &Signal{
		Name: name, Title: title, Unit: unit, Expr: QuantileOf(q, Buckets(histogram)), Histogram: histogram, Quantile: q,
		Count: histogram, MinCount: need, Doc: doc,
	}
}

// meanSignal declares the mean of a histogram's observations, from its sum and count, which is exact even if buckets
// are coarse. A negative mean is a broken sum (an interval with an unset milestone, vllm-project/vllm#49135) and is
// left out.
func meanSignal(name, title string, unit Unit, histogram, doc string) *Signal {
	return &Signal{
		Name: name, Title: title, Unit: unit, Count: histogram, MinCount: minForMedian, Doc: doc,
		Expr: NotNegative(MeanOf(histogram)),
	}
}

// rateSignal declares the per-second rate of a counter.
func rateSignal(name, title string, unit Unit, counter, doc string) *Signal {
	return &Signal{Name: name, Title: title, Unit: unit, Doc: doc, Expr: SumRate(counter)}
}

// withAlternative adds an expression for servers that lack what the signal reads.
func (s *Signal) withAlternative(a Alternative) *Signal {
	s.Otherwise = append(s.Otherwise, a)
	return s
}

// markCensored marks a signal whose histogram lacks the requests without an answer.
func (s *Signal) markCensored() *Signal {
	s.Censored = true
	return s
}

// withCount sets another family that counts the observations, which servers of all releases have.
func (s *Signal) withCount(family string) *Signal {
	s.Count = family
	return s
}
