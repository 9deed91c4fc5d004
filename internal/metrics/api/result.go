package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/api"
	"github.com/prometheus/common/model"
)

// Answers about a thousand replicas are tens of megabytes each round, and reading them with client_golang is most of
// a query's CPU time (BenchmarkQuery). A result of vectors or matrices is read here in one pass; client_golang parses
// the rest of an answer, and results of an unknown form.

// A result is the result of one query: a vector or a matrix, or neither if it is empty or was not parsed here.
type result struct {
	vector model.Vector
	matrix model.Matrix
}

type resultKey struct{}

// resultReader is a client that parses results out of answers, for callers with a resultKey in their context.
type resultReader struct{ api.Client }

// Do implements api.Client.
func (c resultReader) Do(ctx context.Context, req *http.Request) (*http.Response, []byte, error) {
	resp, body, err := c.Client.Do(ctx, req)
	if to, ok := ctx.Value(resultKey{}).(*result); ok && err == nil {
		body = to.cutResult(body)
	}
	return resp, body, err
}

// cutResult cuts the result out of an answer and parses it. A result of unknown form stays in the answer.
func (r *result) cutResult(body []byte) []byte {
	const begin = `"result":[` // in a text its quotes would be escaped
	from := bytes.Index(body, []byte(begin)) + len(begin)
	if from < len(begin) {
		return body
	}
	*r = result{}
	p := parser{b: body, at: from, names: map[string]string{}}
	p.readEach(']', func() { p.readSeries(r) })
	if p.failed || len(r.vector) > 0 && len(r.matrix) > 0 {
		*r = result{}
		return body
	}
	return append(body[:from:from], body[p.at-1:]...)
}

// A parser reads the JSON of a result. Once failed is set, its results are meaningless.
type parser struct {
	b      []byte
	at     int
	names  map[string]string // texts, each once
	slab   []model.Sample
	failed bool
}

// nextByte returns the next byte that is not white space; 0 at the end.
func (p *parser) nextByte() byte {
	for p.at < len(p.b) {
		switch c := p.b[p.at]; c {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return c
		}
	}
	return 0
}

// expectByte skips the byte c, and fails if another one comes next.
func (p *parser) expectByte(c byte) {
	if p.nextByte() != c {
		p.failed = true
		return
	}
	p.at++
}

// readEach reads the elements of a list and its end.
func (p *parser) readEach(end byte, read func()) {
	if p.nextByte() == end {
		p.at++
		return
	}
	for !p.failed {
		read()
		switch p.nextByte() {
		case ',':
			p.at++
		case end:
			p.at++
			return
		default:
			p.failed = true
		}
	}
}

// readRaw reads a string that has no escapes, and returns it without its quotes.
func (p *parser) readRaw() []byte {
	p.expectByte('"')
	n := bytes.IndexByte(p.b[p.at:], '"')
	if p.failed || n < 0 {
		p.failed = true
		return nil
	}
	text := p.b[p.at : p.at+n]
	p.at += n + 1
	return text
}

// readText reads a string.
func (p *parser) readText() string {
	begin := p.at
	raw := p.readRaw()
	if bytes.IndexByte(raw, '\\') < 0 {
		if known, ok := p.names[string(raw)]; ok {
			return known
		}
		s := string(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
		p.names[string(raw)] = s
		return s
	}
	for end := p.at; ; end = p.at {
		var s string
		if json.Unmarshal(p.b[begin:end], &s) == nil {
			return s
		}
		n := bytes.IndexByte(p.b[end:], '"') // the quote before was escaped
		if n < 0 {
			p.failed = true
			return ""
		}
		p.at = end + n + 1
	}
}

// readSeries reads an element of the result: a series with one sample or with several.
func (p *parser) readSeries(to *result) {
	p.expectByte('{')
	if string(p.readRaw()) != "metric" {
		p.failed = true
		return
	}
	p.expectByte(':')
	p.expectByte('{')
	m := make(model.Metric, 10)
	p.readEach('}', func() {
		name := p.readText()
		p.expectByte(':')
		m[model.LabelName(name)] = model.LabelValue(p.readText())
	})
	p.expectByte(',')
	switch string(p.readRaw()) {
	case "value":
		p.expectByte(':')
		if len(p.slab) == 0 {
			p.slab = make([]model.Sample, 256)
		}
		s := &p.slab[0]
		p.slab = p.slab[1:]
		s.Metric, s.Timestamp, s.Value = m, 0, 0
		s.Timestamp, s.Value = p.readSample()
		to.vector = append(to.vector, s)
	case "values":
		p.expectByte(':')
		p.expectByte('[')
		var values []model.SamplePair
		p.readEach(']', func() {
			at, v := p.readSample()
			values = append(values, model.SamplePair{Timestamp: at, Value: v})
		})
		to.matrix = append(to.matrix, &model.SampleStream{Metric: m, Values: values})
	default:
		p.failed = true // a histogram
	}
	p.expectByte('}')
}

// readSample reads a time and a value.
func (p *parser) readSample() (at model.Time, v model.SampleValue) {
	p.expectByte('[')
	p.nextByte()
	end := p.at
	for end < len(p.b) && p.b[end] != ',' {
		end++
	}
	if at.UnmarshalJSON(p.b[p.at:end]) != nil {
		p.failed = true
	}
	p.at = end
	p.expectByte(',')
	f, err := strconv.ParseFloat(string(p.readRaw()), 64)
	if err != nil {
		p.failed = true
	}
	p.expectByte(']')
	return at, model.SampleValue(f)
}
