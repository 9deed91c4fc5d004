package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/hint"
)

// Lengths is a distribution of token counts. The zero value is invalid; parse
// one, or use Fixed or FromHistogram.
type Lengths struct {
	kind    lengthKind
	a, b    float64 // fixed: a; uniform: a to b; normal: mean, deviation; lognormal: mu, sigma
	min     int
	max     int
	edges   []float64 // histogram: upper bounds, ascending
	weights []float64 // histogram: cumulative, ending at 1
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

const lengthHint = "write 512, uniform:100-900, normal:512,128 (mean, deviation) or lognormal:800,1.2 (mean, coefficient of variation), with an optional :min-max"

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
		lo, hi, err := span(bounds)
		if err != nil {
			return l, err
		}
		l.min, l.max = lo, hi
	}
	if kind == "uniform" {
		lo, hi, err := span(args)
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

// span parses "100-900".
func span(s string) (lo, hi int, err error) {
	a, b, ok := strings.Cut(s, "-")
	lo, err1 := strconv.Atoi(strings.TrimSpace(a))
	hi, err2 := strconv.Atoi(strings.TrimSpace(b))
	if !ok || err1 != nil || err2 != nil || lo < 1 || hi < lo || hi > maxTokens {
		return 0, 0, fmt.Errorf("want MIN-MAX, not %q", s)
	}
	return lo, hi, nil
}

// A Bucket of a histogram holds Count values up to UpperBound; the last one's
// bound may be infinite.
type Bucket struct {
	UpperBound float64
	Count      float64
}

// FromHistogram is the distribution that a server's histogram shows, such as
// vllm:request_prompt_tokens; values are uniform within a bucket. Buckets
// ascend and their counts are not cumulative.
func FromHistogram(buckets []Bucket) (Lengths, error) {
	l := Lengths{kind: histogram, min: 1, max: maxTokens, text: "histogram"}
	total, last := 0.0, 0.0
	for i, b := range buckets {
		if !(b.Count >= 0) || !(b.UpperBound > last) {
			return Lengths{}, fmt.Errorf("bucket %d of the length histogram: bound %v, count %v", i, b.UpperBound, b.Count)
		}
		total += b.Count
		bound := b.UpperBound
		if math.IsInf(bound, 1) {
			bound = last * 2 // nothing says how far the last bucket reaches
		}
		if bound > last {
			l.edges, l.weights = append(l.edges, bound), append(l.weights, total)
		}
		last = b.UpperBound
	}
	if total == 0 || math.IsInf(total, 1) {
		return Lengths{}, fmt.Errorf("the length histogram holds no observations")
	}
	for i := range l.weights {
		l.weights[i] /= total
	}
	return l, nil
}

// Valid reports whether l is a distribution rather than the zero value.
func (l Lengths) Valid() bool { return l.kind != 0 }

// String returns the distribution as it was written.
func (l Lengths) String() string { return l.text }

// MarshalText and UnmarshalText make Lengths a string in YAML and JSON.
func (l Lengths) MarshalText() ([]byte, error) { return []byte(l.text), nil }

// UnmarshalText parses what ParseLengths does.
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
		v = math.Ceil(lo + (1-rng.Float64())*(l.edges[i]-lo))
	}
	if math.IsNaN(v) {
		return l.min
	}
	return int(min(max(v, float64(l.min)), float64(l.max)))
}
