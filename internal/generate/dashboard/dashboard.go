// Package dashboard defines the contents of sixty's dashboards: which signals share a panel, their units, thresholds
// and explanations, and the links to runbooks. Packages grafana and perses below it render them for the two programs.
//
// The layout (layout.go) is data: a dashboard has rows, a row has panels, a panel has queries, and a query is a
// signal at a level. The level says what one line stands for: a model, a replica, a GPU. A builder compiles queries
// to PromQL through [dialect.Deployment], with the variables of the dashboards as matchers. While an expression is a
// syntax tree, a mark stands for the range of rates, because "$__rate_interval" is no PromQL. Titles, descriptions,
// and reasons for empty panels come from the signals.
//
// Alerts and bookmarks link to panels by number, so numbers are never reused. The package performs no I/O.
package dashboard

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Config holds everything that the dashboards depend on.
type Config struct {
	// Deployment holds dialects and labels. Window and Short are unused: dashboards follow the time range that the
	// reader selects. Instance, Model and GPU have defaults.
	Deployment dialect.Deployment

	// The dashboards mark and link the alerts of Pathologies.
	Pathologies []*catalog.Pathology

	Runbooks docs.Runbooks

	// Limit returns the thresholds that are known, objectives first; it may be nil. Other lines are drawn at the
	// catalogue's defaults.
	Limit func(*catalog.Threshold) (limit float64, source string, ok bool)

	// Period adds the panels of the error budgets over that time, which need the recording rules of package burnrate;
	// 0 leaves them out.
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
	Runbooks  string // address of all runbooks
}

// A Variable restricts a dashboard to the values of a label.
type Variable struct {
	Name  string // "model"
	Title string
	Label string // "model_name"

	// Selector selects series with the label, restricted by the variables before this one.
	Selector string

	// Always says that every series has the label, so that "all" need not match series without it.
	Always bool
}

// A Row is a titled group of panels.
type Row struct {
	ID     int
	Title  string
	Repeat string // the row is repeated for each value of this variable, unless it is ""
	Panels []Panel
}

// Kind is the way in which a panel draws.
type Kind uint8

// The kinds of panels.
const (
	TimeSeries Kind = iota
	Stat            // the last value, large
	Heatmap         // buckets of a histogram over time
)

// MarshalText names the kind as docs/api.md does.
func (k Kind) MarshalText() ([]byte, error) {
	return []byte([...]string{"lines", "stat", "heatmap"}[k]), nil
}

// A Panel is one chart. docs/api.md describes the JSON of panels, series and steps.
type Panel struct {
	ID     int            `json:"id"` // stable, unique in its dashboard: alerts link to it
	Title  string         `json:"title"`
	Kind   Kind           `json:"kind"`
	Width  int            `json:"width"` // in Columns
	Unit   indicator.Unit `json:"unit"`
	Max    float64        `json:"max"` // maximum of the axis; 0 if it follows the data
	Steps  []Step         `json:"steps"`
	Stack  bool           `json:"stack"`
	Series []Series       `json:"queries"`

	Doc    string `json:"description"` // Markdown: meaning, traps, alerts
	NoData string `json:"no_data"`     // why there may be no data, one sentence
	Links  []Link `json:"-"`
}

// A Series is one query of a panel. It may return several series.
type Series struct {
	Expr   string         `json:"expr"`   // PromQL, with the dashboards' variables and RateInterval
	Legend string         `json:"legend"` // with labels as {{label}}
	Unit   indicator.Unit `json:"unit"`
	// ByModel is the query for a heatmap's buckets by model, for programs that draw percentiles instead. ByReplica is
	// the query of each replica, for the page that can ask for either.
	ByModel   string `json:"-"`
	ByReplica string `json:"by_replica"`
	// Quantile and Buckets are the arguments of histogram_quantile, if the query is a percentile.
	Quantile string `json:"quantile,omitempty"`
	Buckets  string `json:"buckets,omitempty"`

	Right bool `json:"right"` // the number of requests behind the panel's percentiles, on an axis of its own

	// Signal is nil if the query is for buckets or parts of a signal.
	Signal *indicator.Signal `json:"-"`
}

// Columns is the width of a dashboard.
const Columns = 24

// Height returns how many rows of the grid a panel takes in Grafana and Perses.
func (p *Panel) Height() int {
	if p.Kind == Stat {
		return 5
	}
	return 8
}

// Percentiles replaces a heatmap by lines of percentiles, for programs that cannot draw heatmaps of classic
// histograms.
func (p Panel) Percentiles() Panel {
	buckets := p.Series[0]
	p.Kind, p.Series = TimeSeries, nil
	for _, q := range []struct{ quantile, name string }{
		{"0.1", "P10"},
		{"0.5", "P50"},
		{"0.9", "P90"},
		{"0.99", "P99"},
	} {
		p.Series = append(p.Series, Series{
			Expr:   fmt.Sprintf("histogram_quantile(%s, %s)", q.quantile, buckets.ByModel),
			Legend: q.name + " {{model_name}}", Unit: p.Unit, Signal: buckets.Signal,
		})
	}
	return p
}

// Lines returns the thresholds that are drawn as lines.
func (p *Panel) Lines() []Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Hidden })
}

// Heading returns the legend before its labels.
func (s *Series) Heading() string {
	text, _, _ := strings.Cut(s.Legend, "{{")
	return strings.TrimSpace(text)
}

// A Step is a threshold: from Value on, a panel has the level.
type Step struct {
	Value  float64 `json:"value"`
	Level  Level   `json:"level"`
	Why    string  `json:"why"`
	Hidden bool    `json:"-"` // colours the number, but draws no line
}

// Level says how bad a value is.
type Level uint8

// Levels of a threshold.
const (
	Warning  Level = iota // yellow
	Critical              // red
	Good                  // green: less is worse
)

// MarshalText names the level as docs/api.md does.
func (l Level) MarshalText() ([]byte, error) {
	return []byte([...]string{"warning", "critical", "good"}[l]), nil
}

// A Link leads a reader to another page.
type Link struct{ Title, URL string }

// An Event marks moments on the time axis of every panel.
type Event struct {
	Name   string
	Expr   string // has a sample while the event lasts
	Title  string // with labels as {{label}}
	Text   string
	Tags   []string // labels shown as tags
	Colour string
}

// RateInterval is the range of rates. Grafana and Perses replace it by a time that fits the resolution and the scrape
// interval.
const RateInterval = "$__rate_interval"

// Range stands for the time range that the reader selected.
const Range = "$__range"

const (
	// rateMark and rangeMark stand for RateInterval and Range in a syntax tree. No expression of package indicator
	// has these durations.
	rateMark  = 2*time.Hour + 16*time.Minute + 31*time.Second
	rangeMark = 2*time.Hour + 16*time.Minute + 37*time.Second
)

// Tag marks all of sixty's dashboards.
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
		d, err := b.buildDashboard(l)
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", l.uid, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// withVariables replaces the marks by the dashboards' variables. Ranges of two and three minutes, in which restarts
// are counted, follow the resolution as rates do.
func withVariables(promQL string) string {
	return strings.NewReplacer("["+promDuration(rateMark)+"]", "["+RateInterval+"]", "["+promDuration(rangeMark)+"]",
		"["+Range+"]",
		"[2m]", "["+RateInterval+"]", "[3m]", "["+RateInterval+"]").Replace(promQL)
}

// Files returns one JSON file for each dashboard, named after its uid. form converts a dashboard to the model of a
// program.
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

// PanelFor returns the panel that shows a signal.
func PanelFor(s *indicator.Signal) (uid string, panelID int, ok bool) {
	return findPanel(func(p panel) bool {
		return slices.ContainsFunc(p.queries, func(q query) bool { return q.signal == s && !q.right })
	})
}

// PanelForPathology returns a pathology's own panel or, if it has none, the panel of the first signal of its
// condition.
func PanelForPathology(c *catalog.Pathology) (uid string, panelID int, ok bool) {
	uid, panelID, ok = findPanel(func(p panel) bool { return p.id == c.Panel })
	c.When.Signals(func(s *indicator.Signal) { // in the order of the condition
		if !ok {
			uid, panelID, ok = PanelFor(s)
		}
	})
	return uid, panelID, ok
}

// findPanel returns the first panel that is wanted. It searches detailed dashboards first.
func findPanel(wanted func(panel) bool) (uid string, panelID int, ok bool) {
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
