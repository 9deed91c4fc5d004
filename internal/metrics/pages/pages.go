// Package pages rebuilds metrics pages from stored samples. Prometheus and the monitor keep samples, not pages; with
// this package an incident can be recorded afterwards, in the format of package recording, and diagnosed again
// anywhere.
//
// Help texts, comments, the order of lines, and types are not stored; the types that matter follow from the names.
// The target's labels are not written to its pages.
package pages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// MaxBytes is the default bound on the text that Write makes, in bytes. An archive of it has about a fortieth.
const MaxBytes = 256 << 20

// maxTargets bounds the targets of one call.
const maxTargets = 200

// A Request selects the pages to make.
type Request struct {
	// Instances are the targets' values of the label instance. Several targets of one instance are distinguished by
	// their other labels.
	Instances []string
	Matchers  []*labels.Matcher // restrict all series
	From, To  time.Time
	// MaxBytes bounds the text; 0 stands for the constant MaxBytes. To stay below it, scrapes are dropped evenly.
	MaxBytes int64
}

// Result describes the written pages.
type Result struct {
	Targets, Pages, Failed int // Failed scrapes are written as empty pages
	Bytes                  int64
	Stride                 int // one scrape in Stride was kept, for the target that lost the most; 1 if all were kept
	// Labels are each target's labels in the storage, by the name of its directory.
	Labels map[string]model.Metric
}

// AddPage receives one page of a target. An empty body stands for a failed scrape, and took is its duration, 0 if
// unknown.
type AddPage func(target string, at time.Time, body []byte, took time.Duration) error

// Write queries the samples and calls add for every page, target by target and in the order of time. The names of the
// targets are distinct; a target alone on its instance is named by the instance. A request without samples is an
// error.
func Write(ctx context.Context, q metrics.Querier, r Request, add AddPage) (Result, error) {
	if r.MaxBytes == 0 {
		r.MaxBytes = MaxBytes
	}
	targets, err := findTargets(ctx, q, &r)
	if err != nil {
		return Result{}, err
	}
	res := Result{Stride: 1, Labels: map[string]model.Metric{}}
	for i := range targets {
		t := &targets[i]
		m, err := q.Samples(ctx, renderSelector(r.Matchers, t.labels), r.To, r.To.Sub(r.From))
		if err != nil {
			return res, fmt.Errorf("read the samples of %s: %w", t.writtenAs, err)
		}
		t.prepareSeries(m)
		if len(t.scrapes) == 0 {
			continue
		}
		res.Targets++
		res.Labels[t.writtenAs] = t.labels
		if err := t.writePages(ctx, (r.MaxBytes-res.Bytes)/int64(len(targets)-i), &res, add); err != nil {
			return res, err
		}
	}
	if res.Pages == 0 {
		return res, hint.With(fmt.Errorf("there are no samples of %s from %s to %s", strings.Join(r.Instances, ", "),
			r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339)), "choose a time within the storage's "+
			"retention")
	}
	return res, nil
}

// A target is one scraped server.
type target struct {
	writtenAs string
	labels    model.Metric // the labels that all its series have
	// scrapes are their times in ascending order, and whether they succeeded.
	scrapes []scrape
	series  []lineSeries
}

type scrape struct {
	at   model.Time
	up   bool
	took time.Duration // for a failed scrape; 0 when unknown
}

// A lineSeries becomes one line of each page.
type lineSeries struct {
	familyName, metricType string
	line                   string // name and labels
	values                 []model.SamplePair
}

// findTargets finds the targets by their series up or, without it, by the label instance.
func findTargets(ctx context.Context, q metrics.Querier, r *Request) ([]target, error) {
	if len(r.Instances) == 0 {
		return nil, errors.New("no instance is named")
	}
	var out []target
	for _, instance := range r.Instances {
		m, err := q.Samples(ctx, renderSelector(r.Matchers, model.Metric{
			model.MetricNameLabel: "up", model.InstanceLabel: model.LabelValue(instance),
		}), r.To, r.To.Sub(r.From))
		if err != nil {
			return nil, fmt.Errorf("find the targets: %w", err)
		}
		slices.SortFunc(m, func(a, b *model.SampleStream) int {
			return cmp.Compare(a.Metric.String(), b.Metric.String())
		})
		for i, up := range m {
			t := target{writtenAs: instance, labels: up.Metric.Clone()}
			delete(t.labels, model.MetricNameLabel)
			if i > 0 {
				t.writtenAs = fmt.Sprintf("%s-%d", instance, i+1)
			}
			for _, v := range up.Values {
				t.scrapes = append(t.scrapes, scrape{at: v.Timestamp, up: v.Value != 0})
			}
			out = append(out, t)
		}
		if len(m) == 0 {
			out = append(out, target{
				writtenAs: instance, labels: model.Metric{model.InstanceLabel: model.LabelValue(instance)},
			})
		}
	}
	if len(out) > maxTargets {
		return nil, fmt.Errorf("%d targets: the limit is %d", len(out), maxTargets)
	}
	return out, nil
}

// renderSelector writes a selector of the series that match and have some labels.
func renderSelector(matchers []*labels.Matcher, with model.Metric) string {
	var parts []string
	for name, value := range with {
		parts = append(parts, labels.MustNewMatcher(labels.MatchEqual, string(name), string(value)).String())
	}
	slices.Sort(parts)
	for _, m := range matchers {
		parts = append(parts, m.String())
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// prepareSeries prepares the series of a target.
func (t *target) prepareSeries(m model.Matrix) {
	histograms := map[string]bool{}
	for _, s := range m {
		if base, ok := strings.CutSuffix(string(s.Metric[model.MetricNameLabel]), "_bucket"); ok &&
			s.Metric[model.BucketLabel] != "" {
			histograms[base] = true
		}
	}
	most := 0
	for i, s := range m {
		name := string(s.Metric[model.MetricNameLabel])
		if name == "scrape_duration_seconds" {
			t.timeFailures(s.Values)
		}
		if name == "" || isFromScraper(name) || len(s.Values) == 0 {
			continue
		}
		if len(s.Values) > len(m[most].Values) {
			most = i
		}
		family, kind := familyOf(name, s.Metric, histograms)
		t.series = append(t.series, lineSeries{
			familyName: family, metricType: kind, line: t.renderLine(name, s.Metric), values: s.Values,
		})
	}
	slices.SortFunc(t.series, func(a, b lineSeries) int {
		return cmp.Or(cmp.Compare(a.familyName, b.familyName), cmp.Compare(a.line, b.line))
	})
	if len(t.scrapes) == 0 && len(t.series) > 0 {
		// without up, the samples of the most complete series stand for the scrapes
		for _, v := range m[most].Values {
			t.scrapes = append(t.scrapes, scrape{at: v.Timestamp, up: true})
		}
	}
}

// timeFailures sets how long failed scrapes took.
func (t *target) timeFailures(took []model.SamplePair) {
	for i := range t.scrapes {
		s := &t.scrapes[i]
		k, known := slices.BinarySearchFunc(took, s.at, func(v model.SamplePair, at model.Time) int {
			return cmp.Compare(v.Timestamp, at)
		})
		if known && !s.up && took[k].Value > 0 && took[k].Value < model.SampleValue(time.Hour.Seconds()) {
			s.took = time.Duration(float64(took[k].Value) * float64(time.Second))
		}
	}
}

// isFromScraper reports whether a series comes from the scraper or from rules, and not from the server.
func isFromScraper(name string) bool {
	return name == "up" || name == "ALERTS" || name == "ALERTS_FOR_STATE" || strings.HasPrefix(name, "scrape_") ||
		strings.HasPrefix(name, "sixty_") || strings.HasPrefix(name, "sixty:")
}

// familyOf returns the family of a metric and, if the metric is cumulative, its type. Both follow from the name and
// labels.
func familyOf(name string, m model.Metric, histograms map[string]bool) (family, kind string) {
	for _, suffix := range [...]string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && histograms[base] {
			return base, "histogram"
		}
	}
	switch {
	case strings.HasSuffix(name, "_total"):
		return name, "counter"
	case m[model.QuantileLabel] != "":
		return name, "summary"
	}
	return name, ""
}

// renderLine writes a metric with the labels of the page: without the target's labels, which the reader takes from the
// directory's name, and with exported_NAME labels under their own names.
func (t *target) renderLine(name string, m model.Metric) string {
	var b strings.Builder
	quoted := !model.LegacyValidation.IsValidMetricName(name)
	sep := "{"
	if quoted {
		b.WriteString("{" + strconv.Quote(name))
		sep = ","
	} else {
		b.WriteString(name)
	}
	names := make([]string, 0, len(m))
	for n := range m {
		if _, attached := t.labels[n]; n != model.MetricNameLabel && !attached {
			names = append(names, string(n))
		}
	}
	slices.Sort(names)
	for _, n := range names {
		b.WriteString(sep)
		sep = ","
		shown := n
		if own, ok := strings.CutPrefix(n, model.ExportedLabelPrefix); ok {
			if _, attached := t.labels[model.LabelName(own)]; attached {
				shown = own
			}
		}
		if !model.LegacyValidation.IsValidLabelName(shown) {
			shown = strconv.Quote(shown)
		}
		b.WriteString(shown + `="` + escapes.Replace(string(m[model.LabelName(n)])) + `"`)
	}
	if sep == "," {
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	return b.String()
}

// escapes are the escape sequences of label values.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// valueLength is roughly the length of a printed value, in bytes.
const valueLength = 8

// writePages makes the pages of a target, within a budget in bytes.
func (t *target) writePages(ctx context.Context, budget int64, res *Result, add AddPage) error {
	estimate := int64(0)
	for i := range t.series {
		estimate += int64(len(t.series[i].line)+valueLength) * int64(len(t.series[i].values))
	}
	stride := 1
	if estimate > budget {
		stride = int(min(math.Ceil(float64(estimate)/float64(max(budget, 1))), float64(len(t.scrapes))))
	}
	res.Stride = max(res.Stride, stride)
	next := make([]int, len(t.series))
	before := model.Time(math.MinInt64)
	var page bytes.Buffer
	for i, s := range t.scrapes {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		page.Reset()
		family := ""
		for k := range t.series {
			// A sample with a time of its own belongs to the scrape that brought it.
			series, j := &t.series[k], next[k]
			for j < len(series.values) && series.values[j].Timestamp <= s.at {
				j++
			}
			next[k] = j
			if j == 0 || series.values[j-1].Timestamp <= before || i == 0 && series.values[j-1].Timestamp < s.at {
				continue
			}
			if series.metricType != "" && series.familyName != family {
				fmt.Fprintf(&page, "# TYPE %s %s\n", series.familyName, series.metricType)
			}
			family = series.familyName
			page.WriteString(series.line)
			page.Write(strconv.AppendFloat(page.AvailableBuffer(), float64(series.values[j-1].Value), 'g', -1, 64))
			page.WriteByte('\n')
		}
		before = s.at
		kept := (len(t.scrapes)-1-i)%stride == 0 // the last one always
		if s.up && page.Len() > 0 && kept {
			res.Pages++
			res.Bytes += int64(page.Len())
			if err := add(t.writtenAs, s.at.Time(), bytes.Clone(page.Bytes()), 0); err != nil {
				return err
			}
		}
		if !s.up {
			res.Failed++
			if err := add(t.writtenAs, s.at.Time(), nil, s.took); err != nil {
				return err
			}
		}
	}
	return nil
}
