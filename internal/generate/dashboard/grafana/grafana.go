// Package grafana renders sixty's dashboards as Grafana's JSON, and the
// provisioning files with which a Grafana loads them at its start.
//
// It knows Grafana's model and nothing of signals: what is shown is package
// dashboard's. It performs no I/O.
package grafana

import (
	"encoding/json"
	"fmt"
	"strings"

	layout "github.com/sixty-dev/sixty/internal/generate/dashboard"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
)

// schemaVersion is the version of the dashboard model, Grafana 11's.
const schemaVersion = 39

// promDS is the data source that the reader chose.
var promDS = datasource{Type: "prometheus", UID: "${datasource}"}

// Files returns one file for each dashboard, named after its uid.
func Files(cfg layout.Config) ([]generate.File, error) {
	return layout.Files(cfg, func(d layout.Dashboard) any { return render(d) })
}

// PanelPath returns the path, in any Grafana, of the panel on which a pathology is to be
// looked at; "" where no panel shows it.
func PanelPath(p *catalog.Pathology) string {
	uid, id, ok := layout.PanelForPathology(p)
	if !ok {
		return ""
	}
	return fmt.Sprintf("/d/%s?viewPanel=%d", uid, id)
}

// BudgetPath is the path of the panel of the error budgets.
const BudgetPath = "/d/sixty-gateway?viewPanel=613"

func render(d layout.Dashboard) dashboard {
	out := dashboard{
		UID: d.UID, Title: d.Title, Description: d.Doc, Tags: []string{layout.Tag, "vllm"},
		SchemaVersion: schemaVersion, Version: 1, Timezone: "browser", GraphTooltip: 1,
		Time: timeRange{From: "now-1h", To: "now"}, Refresh: "30s",
		Links: []link{
			{Title: "sixty", Type: "dashboards", Icon: "external link", Tags: []string{layout.Tag}, IncludeVars: true, KeepTime: true},
			{Title: "Runbooks", Type: "link", Icon: "doc", Tags: []string{}, URL: d.Runbooks, TargetBlank: true},
		},
		Templating: list[variable]{variables(d.Variables)},
		Panels:     panels(d.Rows),
		Timepicker: map[string]bool{},
	}
	out.Annotations.List = []annotation{}
	for _, e := range d.Events {
		out.Annotations.List = append(out.Annotations.List, annotation{
			Name: e.Name, Datasource: promDS, Enable: true, IconColor: e.Colour, Expr: e.Expr, Step: "30s",
			TitleFormat: e.Title, TextFormat: e.Text, TagKeys: strings.Join(e.Tags, ","),
		})
	}
	return out
}

func variables(vs []layout.Variable) []variable {
	out := []variable{{Type: "datasource", Name: "datasource", Label: "Data source", Query: "prometheus", Refresh: 1}}
	for _, v := range vs {
		all := ".*" // a label that some series lack matches them, too
		if v.Always {
			all = ".+"
		}
		query := fmt.Sprintf("label_values(%s, %s)", v.Selector, v.Label)
		out = append(out, variable{
			Type: "query", Name: v.Name, Label: v.Title, Datasource: &promDS,
			Query: variableQuery{Kind: 1, Query: query, RefID: "PrometheusVariableQueryEditor-VariableQuery"}, Definition: query,
			Current: &variableValue{Text: "All", Value: "$__all"}, IncludeAll: true, AllValue: all, Multi: true,
			Refresh: 2, Sort: 1, // when the time range changes; alphabetical
		})
	}
	return out
}

// panels places rows and their panels on the grid, left to right.
func panels(rows []layout.Row) []panel {
	var out []panel
	y := 0
	for _, r := range rows {
		open := false
		out = append(out, panel{
			Type: "row", ID: r.ID, Title: r.Title, GridPos: gridPos{H: 1, W: layout.Columns, Y: y}, Repeat: r.Repeat,
			Collapsed: &open, Panels: []panel{},
		})
		y++
		x, height := 0, 0
		for _, p := range r.Panels {
			if x+p.Width > layout.Columns {
				x, y, height = 0, y+height, 0
			}
			chart := chart(p)
			chart.GridPos = gridPos{H: p.Height(), W: p.Width, X: x, Y: y}
			height = max(height, chart.GridPos.H)
			x += p.Width
			out = append(out, chart)
		}
		y += height
	}
	return out
}

func chart(p layout.Panel) panel {
	out := panel{
		ID: p.ID, Title: p.Title, Description: p.Doc, Datasource: &promDS,
		FieldConfig: &fieldConfig{Defaults: fieldDefaults{Unit: unit(p.Unit), NoValue: p.NoData}, Overrides: []fieldOverride{}},
	}
	for _, l := range p.Links {
		out.Links = append(out.Links, link{Title: l.Title, Type: "link", Icon: "doc", Tags: []string{}, URL: l.URL, TargetBlank: true})
	}
	for i, s := range p.Series {
		format := "time_series"
		if p.Kind == layout.Heatmap {
			format = "heatmap"
		}
		out.Targets = append(out.Targets, target{
			Datasource: promDS, RefID: refID(i), Expr: s.Expr, LegendFormat: s.Legend, Range: true, Format: format, EditorMode: "code",
		})
	}
	defaults := &out.FieldConfig.Defaults
	switch p.Kind {
	case layout.Heatmap:
		out.Type, out.Options = "heatmap", json.RawMessage(fmt.Sprintf(heatmapOptions, unit(p.Unit)))
		defaults.Unit = ""
	case layout.Stat:
		out.Type, out.Options = "stat", json.RawMessage(statOptions)
		defaults.Thresholds, defaults.Color = steps(p.Steps), &color{Mode: "thresholds"}
		defaults.bounds(p)
	default:
		out.Type, out.Options = "timeseries", json.RawMessage(seriesOptions)
		defaults.Custom = custom(p)
		defaults.Color = &color{Mode: "palette-classic-by-name"}
		defaults.Thresholds = steps(p.Lines())
		defaults.bounds(p)
		out.FieldConfig.Overrides = overrides(p)
	}
	return out
}

// bounds fixes the axis of what has natural ends.
func (f *fieldDefaults) bounds(p layout.Panel) {
	if p.Max > 0 {
		zero, top := 0.0, p.Max
		f.Min, f.Max = &zero, &top
	}
}

// custom says how lines are drawn.
func custom(p layout.Panel) json.RawMessage {
	stacking, opacity, thresholds := "none", 5, "off"
	if p.Stack {
		stacking, opacity = "normal", 30
	}
	if len(p.Lines()) > 0 {
		thresholds = "dashed"
	}
	return json.RawMessage(fmt.Sprintf(lineOptions, opacity, stacking, thresholds))
}

// overrides puts what has another unit on the right axis, and the volume behind
// percentiles into bars there.
func overrides(p layout.Panel) []fieldOverride {
	out := []fieldOverride{}
	for i, s := range p.Series {
		if !s.Right && s.Unit == p.Unit {
			continue
		}
		o := fieldOverride{Matcher: matcher{ID: "byFrameRefID", Options: refID(i)}, Properties: []fieldProperty{
			{ID: "unit", Value: unit(s.Unit)},
			{ID: "custom.axisPlacement", Value: "right"},
			{ID: "custom.axisLabel", Value: axisLabel(s)},
			{ID: "custom.thresholdsStyle", Value: map[string]string{"mode": "off"}},
		}}
		if s.Right {
			o.Properties = append(o.Properties,
				fieldProperty{ID: "custom.drawStyle", Value: "bars"},
				fieldProperty{ID: "custom.fillOpacity", Value: 15},
				fieldProperty{ID: "custom.lineWidth", Value: 0},
				fieldProperty{ID: "color", Value: color{Mode: "fixed", FixedColor: "text"}},
			)
		}
		out = append(out, o)
	}
	return out
}

func axisLabel(s layout.Series) string {
	if s.Right {
		return "requests"
	}
	return s.Heading()
}

var levelColours = map[layout.Level]string{layout.Warning: "yellow", layout.Critical: "red", layout.Good: "green"}

func steps(in []layout.Step) *thresholds {
	out := &thresholds{Mode: "absolute", Steps: []thresholdStep{{Color: "green"}}}
	for _, s := range in {
		v := s.Value
		out.Steps = append(out.Steps, thresholdStep{Value: &v, Color: levelColours[s.Level]})
	}
	return out
}

// refID names queries A, B, C.
func refID(i int) string { return string(rune('A' + i)) }

// unit returns Grafana's id of a unit (packages/grafana-data,
// valueFormats/categories.ts).
func unit(u indicator.Unit) string {
	switch u {
	case indicator.Seconds, indicator.SecondsPerToken:
		return "s"
	case indicator.Ratio:
		return "percentunit"
	case indicator.RequestsPerSecond:
		return "reqps"
	case indicator.TokensPerSecond:
		return "suffix: tok/s"
	case indicator.PerSecond:
		return "cps"
	case indicator.Bytes:
		return "bytes"
	case indicator.BytesPerSecond:
		return "binBps"
	case indicator.Watts:
		return "watt"
	case indicator.Celsius:
		return "celsius"
	case indicator.Megahertz:
		return "rotmhz" // Grafana's only megahertz; it scales to GHz
	case indicator.Times:
		return "suffix:×"
	}
	return "short"
}
