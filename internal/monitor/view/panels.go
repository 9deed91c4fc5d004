package view

import (
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
)

// Panels are the rows of the dashboards.
type Panels struct {
	IntervalS float64 `json:"interval_s"` // between two scrapes; rates need four
	Rows      []Row   `json:"rows"`
}

// A Row is a titled group of panels of one dashboard.
type Row struct {
	Board  string  `json:"board"` // start, serving, incident, fleet, gpu, host, gateway
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// A Panel is one chart.
type Panel struct {
	ID          int     `json:"id"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	NoData      string  `json:"no_data"` // why it may be empty
	Unit        string  `json:"unit"`
	Kind        string  `json:"kind"`  // lines, heatmap, stat
	Width       int     `json:"width"` // of 24
	Max         float64 `json:"max"`   // maximum of the axis; 0 follows the data
	Stack       bool    `json:"stack"`
	Steps       []Step  `json:"steps"`
	Queries     []Query `json:"queries"`
}

// A Step is a threshold: from Value on, a panel has the level.
type Step struct {
	Value float64 `json:"value"`
	Level string  `json:"level"` // warning, critical, good
	Why   string  `json:"why"`
}

// A Query is one expression of PromQL with $model, $instance, $__rate_interval and
// $__range in it; it may return several series.
type Query struct {
	Expr      string `json:"expr"`
	ByReplica string `json:"by_replica"` // the same of each replica, by the label instance
	Quantile  string `json:"quantile,omitempty"`
	Buckets   string `json:"buckets,omitempty"` // whose quantile Expr is, where several may be asked by histogram_quantiles
	Legend    string `json:"legend"`            // with labels as {{label}}
	Unit      string `json:"unit"`
	Right     bool   `json:"right"` // the requests behind the panel's statement, on an axis of their own
}

var (
	kinds  = map[dashboard.Kind]string{dashboard.TimeSeries: "lines", dashboard.Stat: "stat", dashboard.Heatmap: "heatmap"}
	levels = map[dashboard.Level]string{dashboard.Warning: "warning", dashboard.Critical: "critical", dashboard.Good: "good"}
)

// NewPanels returns the rows and panels of the dashboards for servers that are scraped at
// an interval. Percentiles of one histogram may be asked together where the server has Prometheus'
// experimental functions.
func NewPanels(cfg dashboard.Config, interval time.Duration, experimental bool) (Panels, error) {
	boards, err := dashboard.Build(cfg)
	if err != nil {
		return Panels{}, err
	}
	if cfg.Deployment.Model == nil {
		cfg.Deployment.Model = dialect.UsualModel
	}
	cfg.Deployment.Model = append(slices.Clone(cfg.Deployment.Model), "instance")
	each, err := dashboard.Build(cfg)
	if err != nil {
		return Panels{}, err
	}
	out := Panels{IntervalS: interval.Seconds(), Rows: []Row{}}
	for i, b := range boards {
		for k, r := range b.Rows {
			row := Row{Board: strings.TrimPrefix(b.UID, "sixty-"), Title: r.Title, Panels: []Panel{}}
			for j := range r.Panels {
				row.Panels = append(row.Panels, newPanel(&r.Panels[j], &each[i].Rows[k].Panels[j], experimental))
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out, nil
}

// newPanel returns a panel; each is the same one by replica.
func newPanel(p, each *dashboard.Panel, experimental bool) Panel {
	out := Panel{
		ID: p.ID, Title: p.Title, Description: p.Doc, NoData: p.NoData, Unit: string(p.Unit), Kind: kinds[p.Kind], Width: p.Width,
		Max: p.Max, Stack: p.Stack, Steps: []Step{}, Queries: []Query{},
	}
	for _, s := range p.Steps {
		if !s.Hidden || p.Kind == dashboard.Stat {
			out.Steps = append(out.Steps, Step{Value: s.Value, Level: levels[s.Level], Why: s.Why})
		}
	}
	for i, s := range p.Series {
		q := Query{Expr: s.Expr, ByReplica: each.Series[i].Expr, Legend: s.Legend, Unit: string(s.Unit), Right: s.Right}
		if experimental {
			q.Quantile, q.Buckets = s.Quantile, s.Buckets
		}
		out.Queries = append(out.Queries, q)
	}
	return out
}
