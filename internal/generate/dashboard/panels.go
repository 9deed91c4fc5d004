package dashboard

import (
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
)

// Panels are the rows of all dashboards, for the monitor's own page. Their expressions contain $model, $instance,
// $__rate_interval and $__range, and may return several series.
type Panels struct {
	IntervalS float64    `json:"interval_s"` // between two scrapes; rates need four
	Rows      []PanelRow `json:"rows"`
}

// A PanelRow is a titled group of panels of one dashboard.
type PanelRow struct {
	Board  string  `json:"board"` // start, serving, incident, fleet, gpu, host, gateway
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// NewPanels returns the rows and panels of the dashboards for servers that are scraped at an interval. experimental
// says that the server has Prometheus' experimental functions, which query several percentiles of a histogram at once.
func NewPanels(cfg Config, interval time.Duration, experimental bool) (Panels, error) {
	boards, err := Build(cfg)
	if err != nil {
		return Panels{}, err
	}
	if cfg.Deployment.Model == nil {
		cfg.Deployment.Model = dialect.UsualModel
	}
	cfg.Deployment.Model = append(slices.Clone(cfg.Deployment.Model), "instance")
	each, err := Build(cfg)
	if err != nil {
		return Panels{}, err
	}
	out := Panels{IntervalS: interval.Seconds(), Rows: []PanelRow{}}
	for i, b := range boards {
		for k, r := range b.Rows {
			for j := range r.Panels {
				completePanel(&r.Panels[j], &each[i].Rows[k].Panels[j], experimental)
			}
			out.Rows = append(out.Rows, PanelRow{Board: strings.TrimPrefix(b.UID, "sixty-"), Title: r.Title,
				Panels: r.Panels})
		}
	}
	return out, nil
}

// completePanel adds the expressions for single replicas to a panel, from the same panel of a dashboard by instance.
func completePanel(p, each *Panel, experimental bool) {
	if p.Kind != Stat {
		p.Steps = p.Lines()
	}
	if p.Steps == nil {
		p.Steps = []Step{}
	}
	for i := range p.Series {
		s := &p.Series[i]
		s.ByReplica = each.Series[i].Expr
		if !experimental {
			s.Quantile, s.Buckets = "", ""
		}
	}
}
