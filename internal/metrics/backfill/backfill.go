// Package backfill writes metrics pages as OpenMetrics text with timestamps,
// from which promtool makes blocks that a Prometheus serves:
//
//	promtool tsdb create-blocks-from openmetrics recording.om data/
//	prometheus --storage.tsdb.path=data --storage.tsdb.retention.time=100y
//
// So a recording can be looked at with the Prometheus, and the dashboards, that
// a team has. The text holds what a scrape would have stored: the samples of the
// pages with the target's labels, and up. Staleness cannot be written: after a
// failed scrape old values are seen for five minutes more.
package backfill

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// A Writer writes pages. It is not safe for concurrent use.
type Writer struct {
	out     *bufio.Writer
	line    []byte
	samples int
}

// NewWriter returns a Writer. Close completes the text.
func NewWriter(w io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 1<<16)}
}

// AddPage writes what a scrape of the page at a time would have stored. An empty
// page, or one that cannot be parsed, is a scrape that failed.
func (w *Writer) AddPage(target labels.Labels, at time.Time, body []byte) error {
	up := 0.0
	b := labels.NewBuilder(labels.EmptyLabels())
	if len(body) > 0 {
		_, err := scrape.Parse(body, "", func(l labels.Labels, _ int64, v float64) {
			b.Reset(l)
			target.Range(func(t labels.Label) {
				if old := l.Get(t.Name); old != "" {
					b.Set("exported_"+t.Name, old)
				}
				b.Set(t.Name, t.Value)
			})
			w.sample(b.Labels(), at, v)
		})
		if err != nil && !errors.Is(err, scrape.ErrNotExposition) {
			return fmt.Errorf("backfill: %w", err)
		}
		if err == nil {
			up = 1
		}
	}
	b.Reset(target)
	w.sample(b.Set(labels.MetricName, "up").Labels(), at, up)
	_, err := w.out.Write(nil) // the error of an earlier write
	return err
}

// Close writes the end of the text. It does not close what is below.
func (w *Writer) Close() error {
	w.out.WriteString("# EOF\n")
	return w.out.Flush()
}

// escapes are those of OpenMetrics' label values.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (w *Writer) sample(l labels.Labels, at time.Time, v float64) {
	line := append(w.line[:0], l.Get(labels.MetricName)...)
	sep := byte('{')
	l.Range(func(l labels.Label) {
		if l.Name == labels.MetricName {
			return
		}
		line = append(line, sep)
		line = append(line, l.Name...)
		line = append(line, '=', '"')
		line = append(line, escapes.Replace(l.Value)...)
		line = append(line, '"')
		sep = ','
	})
	if sep == ',' {
		line = append(line, '}')
	}
	line = append(line, ' ')
	line = strconv.AppendFloat(line, v, 'g', -1, 64)
	line = append(line, ' ')
	line = strconv.AppendFloat(line, float64(at.UnixMilli())/1000, 'f', 3, 64)
	w.line = append(line, '\n')
	w.out.Write(w.line) // its error stays with the buffer
	w.samples++
}

// Recording writes a recording, its targets with the label instance and, unless
// it is empty, job. It returns the number of samples.
func Recording(out io.Writer, rec *recording.Recording, job string) (int, error) {
	w := NewWriter(out)
	good := false
	err := rec.Scrapes(func(s recording.Scrape) error {
		target := []string{"instance", s.Target}
		if job != "" {
			target = append(target, "job", job)
		}
		good = good || len(s.Body) > 0
		return w.AddPage(labels.FromStrings(target...), s.At, s.Body)
	})
	if err != nil {
		return w.samples, err
	}
	if !good {
		return w.samples, hint.With(errors.New("backfill: all scrapes of the recording failed"), "record again while the server is reachable")
	}
	return w.samples, w.Close()
}
