package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Format is the exposition format of a page.
type Format string

const (
	Text        Format = "text"        // Prometheus text format 0.0.4
	OpenMetrics Format = "openmetrics" // OpenMetrics text format 1.0.0
)

// ErrNotExposition is wrapped by the error for a page without a single sample.
var ErrNotExposition = errors.New("not an exposition")

// Info describes a parsed page.
type Info struct {
	Format Format

	// Types holds the type of every family that the page declares, under the
	// name of its TYPE line: in the text format a counter's ends in _total, in
	// OpenMetrics it does not. See TypeOf.
	Types map[string]model.MetricType

	// Samples is the number of sample lines.
	Samples int

	// Duplicates is the number of sample lines that repeat a series of the page. The parser does not look for them;
	// package embedded counts them and keeps the last.
	Duplicates int

	// Skipped is the number of lines that are neither samples nor comments, and
	// Refused says why the strict parser gave up, nil for a clean page.
	Skipped int
	Refused error
}

// TypeOf returns the type of the family to which a series' metric name belongs,
// MetricTypeUnknown where the page does not say.
func (i Info) TypeOf(metric string) model.MetricType {
	if t, ok := i.Types[metric]; ok {
		return t
	}
	for _, suffix := range [...]string{"_bucket", "_sum", "_count", "_total", "_created"} {
		if family, ok := strings.CutSuffix(metric, suffix); ok {
			if t, ok := i.Types[family]; ok {
				return t
			}
		}
	}
	return model.MetricTypeUnknown
}

// Sample is one sample line.
type Sample struct {
	// Series is the line's metric name and labels as written. The bytes are overwritten after the call: use them to
	// look up known series.
	Series []byte

	Value     float64
	Timestamp int64 // Unix milliseconds, 0 when the line has none

	parser textparse.Parser
	lset   labels.Labels // here, so that Labels allocates nothing of its own
}

// Labels builds the line's labels, metric name included. It normalises the bounds of buckets. The result may be kept.
func (s *Sample) Labels() labels.Labels {
	s.parser.Labels(&s.lset)
	return s.lset
}

// Parse calls fn for every sample of a page, in its order. See ParseSeries.
func Parse(body []byte, contentType string, fn func(l labels.Labels, ts int64, v float64)) (Info, error) {
	return ParseSeries(body, contentType, func(s *Sample) { fn(s.Labels(), s.Timestamp, s.Value) })
}

// ParseSeries calls fn for every sample of a page, in the page's order, without building labels that the caller may
// know already. The sample is valid during the call only, and the body is not kept.
//
// The content type selects the format; a page that ends with "# EOF" is always OpenMetrics, so that files need no
// content type. Exemplars and native histograms are ignored. From the first line that Prometheus' parser refuses, every
// line that is a sample by itself is kept, and the others are counted as Skipped. A page without a sample is an error.
func ParseSeries(body []byte, contentType string, fn func(*Sample)) (Info, error) {
	p := parsing{
		info: Info{Format: formatOf(body, contentType), Types: make(map[string]model.MetricType, 128)},
		fn:   fn,
	}
	// The copy has room for the line feed that the text parser appends. It also lets endOf find the offset of a
	// series, and keeps the caller's array untouched.
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	*buf = append(append((*buf)[:0], body...), '\n')
	text := (*buf)[:len(body)]

	if err := p.parseText(text); err != nil {
		p.info.Refused = err
		if err := p.parseText(p.keepValidLines(text[p.end:])); err != nil {
			p.info.Refused = err // some lines are samples by themselves, but not together
		}
	}
	if p.info.Samples == 0 {
		return p.info, p.explainEmpty(body)
	}
	return p.info, nil
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// putBuffer returns a buffer to the pool, unless it is unusually large.
func putBuffer(b *[]byte) {
	if cap(*b) <= 4<<20 {
		buffers.Put(b)
	}
}

func formatOf(body []byte, contentType string) Format {
	if mediaType, _, err := mime.ParseMediaType(contentType); err == nil &&
		mediaType == "application/openmetrics-text" {
		return OpenMetrics
	}
	if bytes.HasSuffix(bytes.TrimRight(body[max(0, len(body)-64):], "\r\n\t "), []byte("\n# EOF")) {
		return OpenMetrics
	}
	return Text
}

// parsing is the state of ParseSeries.
type parsing struct {
	info Info
	fn   func(*Sample)

	// The strict parser's position when it gave up: the end of the last accepted line, and the last declared family.
	end      int
	family   []byte
	lastType model.MetricType
}

func (p *parsing) newParser(text []byte) textparse.Parser {
	if p.info.Format == OpenMetrics {
		return textparse.NewOpenMetricsParser(text, nil)
	}
	return textparse.NewPromParser(text, nil, false)
}

// parseText parses text strictly.
func (p *parsing) parseText(text []byte) error {
	parser := p.newParser(text)
	s := Sample{parser: parser}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			p.end = endOf(s.Series, text)
			return shortenError(err)
		}
		switch entry {
		case textparse.EntrySeries:
			var ts *int64
			s.Series, ts, s.Value = parser.Series()
			s.Timestamp = 0
			if ts != nil {
				s.Timestamp = *ts
			}
			p.info.Samples++
			p.fn(&s)
		case textparse.EntryType:
			name, t := parser.Type()
			p.info.Types[string(name)] = t
			p.family, p.lastType = append(p.family[:0], name...), t
		}
	}
}

// typeWord returns a type as a TYPE line of the format spells it.
func typeWord(t model.MetricType, f Format) string {
	if t == model.MetricTypeUnknown && f == Text {
		return "untyped"
	}
	return string(t)
}

// endOf returns the offset in text of the end of the line that part belongs to; 0 without a part. Parsers return slices
// of their input, so the distance between the two is the difference of their capacities.
func endOf(part, text []byte) int {
	off := cap(text) - cap(part)
	if len(part) == 0 || off < 0 || off+len(part) > len(text) || &part[0] != &text[off] {
		return 0
	}
	off += len(part)
	if i := bytes.IndexByte(text[off:], '\n'); i >= 0 {
		return off + i + 1
	}
	return len(text)
}

// shortenError shortens a parser's error, which quotes the page from the offending line on.
func shortenError(err error) error {
	const most = 200
	msg := err.Error()
	if len(msg) <= most {
		return err
	}
	return errors.New(strings.ToValidUTF8(msg[:most], "") + "…")
}

// maxSkipped bounds the search for samples in a page that is no metrics page: a line takes a microsecond, and a page
// may have millions.
const maxSkipped = 100_000

// keepValidLines returns the lines of text that are samples or types by themselves, as a page that the strict parser
// accepts, and counts the others. It is for pages that were cut off, joined, or pasted into prose.
func (p *parsing) keepValidLines(text []byte) []byte {
	var clean []byte
	if len(p.family) > 0 {
		clean = fmt.Appendf(nil, "# TYPE %s %s\n", p.family, typeWord(p.lastType, p.info.Format))
	}
	for len(text) > 0 {
		if p.info.Skipped >= maxSkipped {
			p.info.Skipped += bytes.Count(text, []byte("\n"))
			break
		}
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
		case line[0] == '#' && !bytes.HasPrefix(line, []byte("# TYPE ")):
		case p.parsesAlone(line):
			clean = append(append(clean, line...), '\n')
		case line[0] != '#':
			p.info.Skipped++
		}
	}
	if p.info.Format == OpenMetrics {
		clean = append(clean, "# EOF\n"...)
	}
	return clean
}

// parsesAlone reports whether a line is a sample or a type by itself. A name without any mark of a metric's name is
// no sample: prose has lines such as "Version 2".
func (p *parsing) parsesAlone(line []byte) bool {
	if !mayBeginEntry(line[0]) || line[0] != '#' && !bytes.ContainsAny(line, "_:{") {
		return false
	}
	one := make([]byte, 0, len(line)+len("\n# EOF\n"))
	one = append(append(one, line...), '\n')
	if p.info.Format == OpenMetrics {
		one = append(one, "# EOF\n"...)
	}
	parser := p.newParser(one)
	entry, err := parser.Next()
	if err != nil || entry != textparse.EntrySeries && entry != textparse.EntryType {
		return false
	}
	_, err = parser.Next()
	return errors.Is(err, io.EOF)
}

func mayBeginEntry(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' || c == '{' || c == '#'
}

// explainEmpty returns the error for a page without a sample.
func (p *parsing) explainEmpty(body []byte) error {
	err := fmt.Errorf("parse metrics: %w: no sample in %d bytes", ErrNotExposition, len(body))
	switch start := bytes.TrimSpace(body[:min(len(body), 512)]); {
	case len(start) == 0:
		return hint.With(err, "check the server: its metrics page is empty")
	case start[0] == '<':
		return hint.With(err, "give the address of the metrics page, usually /metrics: this is an HTML page")
	case start[0] == '{' || start[0] == '[':
		return hint.With(err, "give the address of the metrics page, usually /metrics: this is JSON")
	case len(p.info.Types) > 0:
		return hint.With(err, "send the server a request first: it declares metrics but has no values yet")
	}
	return hint.With(err, "give a page in the Prometheus text format or OpenMetrics; an engine's log is "+
		"given with --engine-log")
}
