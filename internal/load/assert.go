package load

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// Meets returns why a result misses an objective, or nil. Latencies count from the schedule, because users wait from
// then on. A latency that was not measured misses.
func (r *Result) Meets(o *slo.Objective) error {
	checks := []struct {
		metric Metric
		limit  time.Duration
	}{{TTFTScheduled, o.TTFTP95}, {ITL, o.ITLP95}, {E2EScheduled, o.E2EP95}}
	for _, c := range checks {
		if c.limit == 0 {
			continue
		}
		q, ok := r.Latency[c.metric].At(0.95)
		if !ok {
			if c.metric == ITL && r.Tokens.Output < 2 {
				continue // answers of one token have no gaps
			}
			return fmt.Errorf("%s was not measured", c.metric)
		}
		if q.Value > c.limit.Seconds() {
			return fmt.Errorf("%s P95 is %.3g s, the objective %.3g s", c.metric, q.Value, c.limit.Seconds())
		}
	}
	if ok := 1 - r.Requests.ErrorRate(); o.Availability > 0 && ok < o.Availability {
		return fmt.Errorf("%.2f %% of the requests succeeded, the objective is %.2f %%", 100*ok, 100*o.Availability)
	}
	if o.Availability == 0 && r.Requests.ErrorRate() > maxErrorRate {
		return fmt.Errorf("%.2f %% of the requests failed", 100*r.Requests.ErrorRate())
	}
	return nil
}

// maxErrorRate is the share of failures that an objective without an availability accepts. Beyond it, the latencies
// of the other requests mean little.
const maxErrorRate = 0.01

// An Assertion is a condition on a result, such as ttft_p95<500ms.
type Assertion struct {
	Quantity string
	Op       string // < <= > >=
	Limit    float64
	written  string
}

var assertionForm = regexp.MustCompile(`^\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*([0-9.eE+-]+)\s*(µs|us|ms|s|m|%)?\s*$`)

const assertionHint = "write it as ttft_p95<500ms, itl_p99<=0.1s, error_rate<1%, output_tokens>=2000 or goodput>0.95"

// ParseAssertion reads an assertion.
func ParseAssertion(text string) (Assertion, error) {
	m := assertionForm.FindStringSubmatch(text)
	if m == nil {
		return Assertion{}, hint.With(fmt.Errorf("assertion %q cannot be read", text), assertionHint)
	}
	v, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return Assertion{}, hint.With(fmt.Errorf("assertion %q: %q is not a number", text, m[3]), assertionHint)
	}
	a := Assertion{Quantity: m[1], Op: m[2], written: strings.TrimSpace(text)}
	scale := map[string]float64{"": 1, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "%": 0.01}
	a.Limit = v * scale[m[4]]
	if _, known := (&Result{}).quantityNamed(a.Quantity); !known {
		return Assertion{}, hint.With(fmt.Errorf("assertion %q: unknown quantity %q", text, a.Quantity), assertionHint)
	}
	return a, nil
}

// String returns the assertion as the user wrote it.
func (a Assertion) String() string { return a.written }

// Check returns the measured value, and whether the assertion holds. Without a measurement the value is NaN and the
// assertion fails.
func (a Assertion) Check(r *Result) (value float64, holds bool) {
	v, _ := r.quantityNamed(a.Quantity)
	switch a.Op {
	case "<":
		return v, v < a.Limit
	case "<=":
		return v, v <= a.Limit
	case ">":
		return v, v > a.Limit
	}
	return v, v >= a.Limit
}

// Format writes a value of the assertion's quantity with its unit.
func (a Assertion) Format(v float64) string {
	unit := indicator.Seconds
	switch a.Quantity {
	case "error_rate", "goodput":
		unit = indicator.Ratio
	case "requests":
		unit = indicator.RequestsPerSecond
	case "input_tokens", "output_tokens":
		unit = indicator.TokensPerSecond
	}
	if math.IsNaN(v) {
		return "not measured"
	}
	return indicator.FormatNumber(v, unit)
}

// quantityNamed returns a named number of a result, or NaN if it was not measured. Latencies are named
// METRIC_STATISTIC: ttft_p95, itl_mean, e2e_max.
func (r *Result) quantityNamed(name string) (v float64, known bool) {
	switch name {
	case "error_rate":
		return r.Requests.ErrorRate(), true
	case "requests":
		return r.Throughput.Requests, true
	case "input_tokens":
		return r.Throughput.InputTokens, true
	case "output_tokens":
		return r.Throughput.OutputTokens, true
	case "goodput":
		if r.Goodput == nil {
			return math.NaN(), true
		}
		return r.Goodput.Share, true
	}
	metric, stat := "", ""
	if i := strings.LastIndexByte(name, '_'); i >= 0 {
		metric, stat = name[:i], name[i+1:]
	}
	q, isQuantile := map[string]float64{"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}[stat]
	d := r.Latency[Metric(metric)]
	switch {
	case !slices.Contains(Metrics(), Metric(metric)) || !isQuantile && stat != "mean" && stat != "max":
		return 0, false
	case d == nil || d.Count == 0:
		return math.NaN(), true
	case stat == "mean":
		return d.Mean, true
	case stat == "max":
		return d.Max, true
	}
	x, _ := d.At(q)
	return x.Value, true
}
