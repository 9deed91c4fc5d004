// Package dashboard says what sixty's dashboards show: which signals stand
// together, in which units, against which thresholds, with which explanation,
// and where a reader goes next. Packages grafana and perses beneath it render
// that for the two programs.
//
// The layout is data over package indicator's signals; every PromQL expression
// comes from there by way of [dialect.Deployment]. The package performs no I/O.
package dashboard

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Config says what the dashboards are made for.
type Config struct {
	// Deployment says how metrics are asked for. Its Window and Short are not
	// used: dashboards follow the time range that their reader chose. Its
	// Instance, Model and GPU labels default to the usual ones.
	Deployment dialect.Deployment

	// Pathologies are those whose alerts the dashboards mark and link.
	Pathologies []*catalog.Pathology

	Runbooks catalog.Runbooks

	// Limit returns the thresholds that are known, objectives above all; it may
	// be nil. Lines are drawn at them, or else at the catalogue's defaults.
	Limit func(*catalog.Threshold) (limit float64, source string, ok bool)

	// Period adds the panels of the error budgets over that time, for which the
	// recording rules of package burnrate must be loaded; 0 leaves them out.
	Period time.Duration
}

// A Dashboard is one page.
type Dashboard struct {
	UID       string // stable: in addresses and file names
	Title     string
	Doc       string // the question that it answers
	Variables []Variable
	Rows      []Row
	Events    []Event
	Runbooks  string // where all runbooks are
}

// A Variable restricts a dashboard to the values of a label.
type Variable struct {
	Name  string // "model"
	Title string
	Label string // "model_name"

	// Selector selects series that have the label, restricted by the variables
	// before this one.
	Selector string

	// Always says that every series has the label, so that "all" need not match those
	// without it.
	Always bool
}

// A Row is a titled group of panels.
type Row struct {
	ID     int
	Title  string
	Repeat string // name of the variable for each value of which the row is there once, or ""
	Panels []Panel
}

// Kind is the way a panel draws.
type Kind uint8

// The kinds of panels.
const (
	TimeSeries Kind = iota
	Stat            // the last value, large
	Heatmap         // of a histogram's buckets over time
)

// A Panel is one chart.
type Panel struct {
	ID     int // stable, unique in its dashboard: alerts link to it
	Title  string
	Kind   Kind
	Width  int // of Columns
	Unit   indicator.Unit
	Max    float64 // of the axis; 0 where it follows the data
	Steps  []Step
	Stack  bool
	Series []Series

	Doc    string // Markdown: what it means, its traps, which alerts read it
	NoData string // why there may be no data, one sentence
	Links  []Link
}

// A Series is one query of a panel. It may return several series.
type Series struct {
	Expr   string // PromQL, with the dashboards' variables and RateInterval
	Legend string // with labels as {{label}}
	Unit   indicator.Unit
	// ByModel is, of a heatmap's buckets, the same by model: for programs that
	// draw percentiles in its place.
	ByModel string
	// Quantile and Buckets are, of a percentile, which one it is and of what.
	Quantile, Buckets string

	Right bool // the number of observations behind the panel's statement, on an axis of its own

	// Signal is what the query asks for; nil where it asks for the buckets or
	// the parts of one.
	Signal *indicator.Signal
}

// Columns is the width of a dashboard.
const Columns = 24

// Height is how many rows of the grid a panel takes, in Grafana and in Perses.
func (p *Panel) Height() int {
	if p.Kind == Stat {
		return 5
	}
	return 8
}

// Percentiles draws a heatmap's distribution as lines of percentiles, for programs that draw no
// heatmap of classic histograms.
func (p Panel) Percentiles() Panel {
	buckets := p.Series[0]
	p.Kind, p.Series = TimeSeries, nil
	for _, q := range []struct{ quantile, name string }{{"0.1", "P10"}, {"0.5", "P50"}, {"0.9", "P90"}, {"0.99", "P99"}} {
		p.Series = append(p.Series, Series{
			Expr:   fmt.Sprintf("histogram_quantile(%s, %s)", q.quantile, buckets.ByModel),
			Legend: q.name + " {{model_name}}", Unit: p.Unit, Signal: buckets.Signal,
		})
	}
	return p
}

// Lines are the thresholds at which lines are drawn.
func (p *Panel) Lines() []Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Hidden })
}

// Heading is what a legend says before its labels.
func (s *Series) Heading() string {
	text, _, _ := strings.Cut(s.Legend, "{{")
	return strings.TrimSpace(text)
}

// A Step is a threshold: from Value on, a panel has the level.
type Step struct {
	Value  float64
	Level  Level
	Why    string
	Hidden bool // the number is coloured by it, but no line is drawn
}

// Level says how bad a value is.
type Level uint8

// Levels of a threshold.
const (
	Warning  Level = iota // yellow
	Critical              // red
	Good                  // green: where less is worse
)

// A Link leads a reader on.
type Link struct{ Title, URL string }

// An Event marks moments on the time axis of every panel.
type Event struct {
	Name   string
	Expr   string // has a sample while there is something to mark
	Title  string // with labels as {{label}}
	Text   string
	Tags   []string // labels shown as tags
	Colour string
}

// RateInterval is the range of rates: Grafana and Perses replace it by a time
// that fits the resolution shown and the scrape interval.
const RateInterval = "$__rate_interval"

// Range is the time that is shown, in place of "the past at hand".
const Range = "$__range"

// rateMark and rangeMark stand for RateInterval and Range while an expression is a
// syntax tree. No expression of package indicator has these durations.
const (
	rateMark  = 2*time.Hour + 16*time.Minute + 31*time.Second
	rangeMark = 2*time.Hour + 16*time.Minute + 37*time.Second
)

// Tag is on all of sixty's dashboards.
const Tag = "sixty"

// Build returns the dashboards.
func Build(cfg Config) ([]Dashboard, error) {
	b, err := newBuilder(cfg)
	if err != nil {
		return nil, err
	}
	all, err := layouts(cfg.Period)
	if err != nil {
		return nil, fmt.Errorf("dashboards: %w", err)
	}
	var out []Dashboard
	for _, l := range all {
		d, err := b.dashboard(l)
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", l.uid, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// withVariables writes the marks as the dashboards' variables. What is counted over two
// or three minutes, restarts, follows the resolution as rates do.
func withVariables(expr string) string {
	return strings.NewReplacer("["+promDuration(rateMark)+"]", "["+RateInterval+"]", "["+promDuration(rangeMark)+"]", "["+Range+"]",
		"[2m]", "["+RateInterval+"]", "[3m]", "["+RateInterval+"]").Replace(expr)
}

// Files returns one file of JSON for each dashboard, named after its uid; form
// makes of it what a program reads.
func Files(cfg Config, form func(Dashboard) map[string]any) ([]generate.File, error) {
	ds, err := Build(cfg)
	if err != nil {
		return nil, err
	}
	var out []generate.File
	for _, d := range ds {
		var b bytes.Buffer
		if err := render.JSON(&b, form(d)); err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
		}
		out = append(out, generate.File{Path: d.UID + ".json", Content: b.Bytes()})
	}
	return out, nil
}

// PanelFor returns the panel on which a signal is to be looked at.
func PanelFor(s *indicator.Signal) (uid string, panelID int, ok bool) {
	return find(func(p panel) bool {
		return slices.ContainsFunc(p.queries, func(q query) bool { return q.signal == s && !q.right })
	})
}

// PanelForPathology returns the panel on which a pathology is to be looked at:
// its own or, where it has none, that of the first signal of its condition.
func PanelForPathology(c *catalog.Pathology) (uid string, panelID int, ok bool) {
	uid, panelID, ok = find(func(p panel) bool { return p.id == c.Panel })
	c.When.Signals(func(s *indicator.Signal) {
		if !ok {
			uid, panelID, ok = PanelFor(s)
		}
	})
	return uid, panelID, ok
}

// find returns the first panel that is wanted, the more detailed dashboards
// first.
func find(wanted func(panel) bool) (uid string, panelID int, ok bool) {
	for _, l := range byDetail() {
		for _, r := range l.rows {
			for _, p := range r.panels {
				if wanted(p) {
					return l.uid, p.id, true
				}
			}
		}
	}
	return "", 0, false
}
