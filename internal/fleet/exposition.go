package fleet

import (
	"math"
	"strconv"
	"strings"
)

// expositionWriter writes the Prometheus text format as Python's client library does, which
// differs from what client_golang writes: "1.0" for one, "le" among the labels
// in alphabetical order, and a gauge with the time of creation behind every
// counter, histogram and summary.
type expositionWriter struct {
	b       []byte
	created bool // write the gauges of creation times
}

// pair is a label.
type pair struct{ name, value string }

// head begins a family.
func (p *expositionWriter) head(name, help, kind string) {
	p.b = append(p.b, "# HELP "...)
	p.b = append(append(append(p.b, name...), ' '), help...)
	p.b = append(append(p.b, "\n# TYPE "...), name...)
	p.b = append(append(append(p.b, ' '), kind...), '\n')
}

// sample writes one line. The labels must be in alphabetical order.
func (p *expositionWriter) sample(name string, labels []pair, v float64) {
	p.b = append(p.b, name...)
	for i, l := range labels {
		if i == 0 {
			p.b = append(p.b, '{')
		} else {
			p.b = append(p.b, ',')
		}
		p.b = append(append(p.b, l.name...), `="`...)
		p.b = append(append(p.b, escape(l.value)...), '"')
	}
	if len(labels) > 0 {
		p.b = append(p.b, '}')
	}
	p.b = append(p.b, ' ')
	p.b = append(append(p.b, number(v)...), '\n')
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func escape(s string) string {
	if strings.ContainsAny(s, "\\\n\"") {
		return escaper.Replace(s)
	}
	return s
}

// number formats as Python's repr, with the client library's own exponents
// above a million (prometheus_client.utils.floatToGoString).
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case math.IsNaN(v):
		return "NaN"
	case v != 0 && math.Abs(v) < 1e-4 || math.Abs(v) >= 1e16:
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	if dot := strings.IndexByte(s, '.'); v > 0 && dot > 6 {
		mantissa := strings.TrimRight(s[:1]+"."+s[1:dot]+s[dot+1:], "0.")
		if mantissa == "" {
			mantissa = "0"
		}
		return mantissa + "e+" + pad(dot-1)
	}
	return s
}

func pad(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// with returns labels with one more, in order.
func with(labels []pair, l pair) []pair {
	out := make([]pair, 0, len(labels)+1)
	for i, o := range labels {
		if l.name < o.name {
			out = append(out, l)
			return append(out, labels[i:]...)
		}
		out = append(out, o)
	}
	return append(out, l)
}

// histogram counts observations in buckets. Its upper bounds are shared and
// never changed.
type histogram struct {
	bounds []float64
	counts []int64 // by bucket, the last is +Inf
	n      int64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	h.n++
	h.sum += v
	for i, b := range h.bounds {
		if v <= b {
			h.counts[i]++
			return
		}
	}
	h.counts[len(h.bounds)]++
}

// histogram writes the samples of one label set.
func (p *expositionWriter) histogram(name string, labels []pair, h *histogram) {
	var below int64
	for i, n := range h.counts {
		below += n
		le := "+Inf"
		if i < len(h.bounds) {
			le = number(h.bounds[i])
		}
		p.sample(name+"_bucket", with(labels, pair{"le", le}), float64(below))
	}
	p.sample(name+"_count", labels, float64(h.n))
	p.sample(name+"_sum", labels, h.sum)
}
