package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Lengths are a distribution of token counts. The zero value is invalid: use ParseLengths, Fixed or FromHistogram.
type Lengths struct {
	kind    lengthKind
	a, b    float64 // fixed: a; uniform: a to b; normal: mean, deviation; lognormal: mu, sigma; histogram: exponent a
	min     int
	max     int
	edges   []float64 // histogram: upper bounds, ascending
	weights []float64 // histogram: cumulative, ending at 1
	widest  float64   // histogram: width of the widest bucket that holds something, the unit of a
	text    string
}

type lengthKind uint8

const (
	fixed lengthKind = iota + 1
	uniform
	normal
	lognormal
	histogram
)

// Fixed is always n tokens.
func Fixed(n int) Lengths {
	return Lengths{kind: fixed, a: float64(n), min: 1, max: maxTokens, text: strconv.Itoa(n)}
}

const lengthHint = "write 512, uniform:100-900, normal:512,128 (mean, deviation) or lognormal:800,1.2 (mean, " +
	"coefficient of variation), with an optional :min-max"

// ParseLengths reads a distribution as users write it.
func ParseLengths(s string) (Lengths, error) {
	l, err := parseLengths(strings.TrimSpace(s))
	if err != nil {
		return Lengths{}, hint.With(fmt.Errorf("token lengths %q: %w", s, err), lengthHint)
	}
	l.text = s
	return l, nil
}

func parseLengths(s string) (Lengths, error) {
	kind, rest, named := strings.Cut(s, ":")
	if !named {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxTokens {
			return Lengths{}, fmt.Errorf("want a number from 1 to %d", maxTokens)
		}
		return Fixed(n), nil
	}
	l := Lengths{min: 1, max: maxTokens}
	args, bounds, bounded := strings.Cut(rest, ":")
	if bounded {
		lo, hi, err := parseSpan(bounds)
		if err != nil {
			return l, err
		}
		l.min, l.max = lo, hi
	}
	if kind == "uniform" {
		lo, hi, err := parseSpan(args)
		l.kind, l.a, l.b = uniform, float64(lo), float64(hi)
		return l, err
	}
	first, second, ok := strings.Cut(args, ",")
	a, err1 := strconv.ParseFloat(strings.TrimSpace(first), 64)
	b, err2 := strconv.ParseFloat(strings.TrimSpace(second), 64)
	if !ok || err1 != nil || err2 != nil || !(a >= 1 && a <= maxTokens) || !(b >= 0 && b <= maxTokens) {
		return l, fmt.Errorf("want two numbers after %s", kind)
	}
	switch kind {
	case "normal":
		l.kind, l.a, l.b = normal, a, b
	case "lognormal":
		sigma2 := math.Log1p(b * b)
		l.kind, l.a, l.b = lognormal, math.Log(a)-sigma2/2, math.Sqrt(sigma2)
	default:
		return l, fmt.Errorf("unknown distribution %q", kind)
	}
	return l, nil
}

// parseSpan parses "100-900".
func parseSpan(s string) (lo, hi int, err error) {
	a, b, ok := strings.Cut(s, "-")
	lo, err1 := strconv.Atoi(strings.TrimSpace(a))
	hi, err2 := strconv.Atoi(strings.TrimSpace(b))
	if !ok || err1 != nil || err2 != nil || lo < 1 || hi < lo || hi > maxTokens {
		return 0, 0, fmt.Errorf("want MIN-MAX, not %q", s)
	}
	return lo, hi, nil
}

// A Bucket of a histogram holds Count values up to UpperBound; the last one's bound may be infinite.
type Bucket struct {
	UpperBound float64
	Count      float64
}

// FromHistogram returns the distribution behind a server's histogram, such as vllm:request_prompt_tokens. Buckets
// ascend and their counts are not cumulative.
//
// Within the buckets, values follow the distribution of greatest entropy that has the histogram's mean, which its sum
// and count give exactly. It is an exponential with one exponent for all buckets (Jaynes, Physical Review 106, 1957).
// If the mean is 0, which is unknown, or no values in the buckets can have it, values are uniform within a bucket.
func FromHistogram(buckets []Bucket, mean float64) (Lengths, error) {
	l := Lengths{kind: histogram, min: 1, max: maxTokens, text: "histogram"}
	total, last := 0.0, 0.0
	for i, b := range buckets {
		if !(b.Count >= 0) || !(b.UpperBound > last) {
			return Lengths{}, fmt.Errorf("bucket %d of the length histogram: bound %v, count %v", i, b.UpperBound,
				b.Count)
		}
		bound := b.UpperBound
		if math.IsInf(bound, 1) {
			bound = last * 2 // nothing says how far the last bucket reaches
		}
		if total += b.Count; bound > last {
			l.edges, l.weights = append(l.edges, bound), append(l.weights, total)
		}
		last = bound
	}
	if total == 0 || math.IsInf(total, 1) || len(l.edges) == 0 {
		return Lengths{}, fmt.Errorf("the length histogram holds no observations")
	}
	for i := range l.weights {
		l.weights[i] /= total
	}
	l.widest = l.widestBucket()
	if mean > 0 {
		l.a = l.findExponent(mean)
	}
	return l, nil
}

// findExponent finds the exponent with which the distribution has a mean, in units of one over the widest bucket.
func (l Lengths) findExponent(mean float64) float64 {
	const steepest = 50
	at := func(a float64) float64 { l.a = a; return l.histogramMean() }
	lo, hi := -float64(steepest), float64(steepest)
	if mean < at(hi) || mean > at(lo) {
		return 0
	}
	for range 60 {
		if mid := (lo + hi) / 2; at(mid) > mean {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// histogramMean is the mean with the exponent a.
func (l Lengths) histogramMean() float64 {
	mean, before, from := 0.0, 0.0, 0.0
	for i, to := range l.edges {
		k := l.a * (to - from) / l.widest
		// The mean of exp(−k·x) on 0 to 1; near 0 by its series.
		part := 0.5 - k/12
		if math.Abs(k) > 1e-3 {
			part = 1/k - 1/math.Expm1(k)
		}
		// A draw rounds up to a whole token, half a token on average.
		mean += (l.weights[i] - before) * min(from+part*(to-from)+0.5, to)
		before, from = l.weights[i], to
	}
	return mean
}

func (l Lengths) widestBucket() float64 {
	widest, from := 0.0, 0.0
	for i, to := range l.edges {
		if i == 0 && l.weights[0] > 0 || i > 0 && l.weights[i] > l.weights[i-1] {
			widest = max(widest, to-from)
		}
		from = to
	}
	return widest
}

// interpolateBucket maps a uniform number to a place in a bucket.
func (l Lengths) interpolateBucket(u, from, to float64) float64 {
	k := l.a * (to - from) / l.widest
	if math.Abs(k) < 1e-9 {
		return from + u*(to-from)
	}
	return from - math.Log1p(u*math.Expm1(-k))/k*(to-from)
}

// Mean returns the mean of Draw, estimated from many draws unless a formula gives it.
func (l Lengths) Mean() float64 {
	switch {
	case !l.Valid():
		return 0
	case l.kind == fixed:
		return l.a
	}
	const n = 20_000
	rng, sum := rand.New(rand.NewPCG(1, 1)), 0.0
	for range n {
		sum += float64(l.Draw(rng))
	}
	return sum / n
}

// Valid reports whether l is a distribution rather than the zero value.
func (l Lengths) Valid() bool { return l.kind != 0 }

// String returns the distribution as the user wrote it.
func (l Lengths) String() string { return l.text }

// MarshalText returns the text that ParseLengths reads.
func (l Lengths) MarshalText() ([]byte, error) { return []byte(l.text), nil }

// UnmarshalText parses a text as ParseLengths does.
func (l *Lengths) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLengths(string(b))
	return err
}

// Scale returns the distribution with every length multiplied by f.
func (l Lengths) Scale(f float64) Lengths {
	if f == 1 || !l.Valid() {
		return l
	}
	s := l
	s.text = fmt.Sprintf("%s×%g", l.text, f)
	switch l.kind {
	case lognormal:
		s.a += math.Log(f)
	case histogram:
		s.edges = slices.Clone(l.edges)
		for i := range s.edges {
			s.edges[i] *= f
		}
		s.widest *= f
	default:
		s.a, s.b = l.a*f, l.b*f
	}
	if s.kind == fixed {
		s.a = max(math.Round(s.a), 1)
		s.text = strconv.Itoa(int(s.a))
	}
	s.max = max(int(min(float64(l.max)*f, maxTokens)), s.min)
	return s
}

// Draw returns a length of at least 1.
func (l Lengths) Draw(rng *rand.Rand) int {
	var v float64
	switch l.kind {
	case fixed:
		return int(l.a)
	case uniform:
		v = l.a + rng.Float64()*(l.b-l.a+1)
		v = min(math.Floor(v), l.b)
	case normal:
		v = math.Round(l.a + l.b*rng.NormFloat64())
	case lognormal:
		v = math.Round(math.Exp(l.a + l.b*rng.NormFloat64()))
	case histogram:
		u := rng.Float64()
		i, _ := slices.BinarySearch(l.weights, u)
		i = min(i, len(l.edges)-1)
		lo := 0.0
		if i > 0 {
			lo = l.edges[i-1]
		}
		v = math.Ceil(l.interpolateBucket(1-rng.Float64(), lo, l.edges[i]))
	}
	if math.IsNaN(v) {
		return l.min
	}
	return int(min(max(v, float64(l.min)), float64(l.max)))
}
