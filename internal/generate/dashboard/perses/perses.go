// Package perses renders sixty's dashboards as Perses' resources.
//
// It knows Perses' model and no signals; package dashboard decides the contents. Perses differs from Grafana in four
// ways. A chart has one axis, so a panel with two units becomes two panels. The heatmap does not draw classic
// histograms, so percentiles replace it. Dashboards have no annotations. Panels have no text for missing data, so the
// description holds it. The package performs no I/O.
package perses

import (
	"fmt"
	"slices"

	layout "github.com/sixty-dev/sixty/internal/generate/dashboard"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
)

// Project is the Perses project that the dashboards belong to.
const Project = "vllm"

const (
	prometheusKind = "PrometheusDatasource"
	chosen         = "$datasource" // the reader's selection
	narrowest      = 6             // columns of each part of a split panel
)

// Files returns one file for each dashboard, named after its uid.
func Files(cfg layout.Config) ([]generate.File, error) {
	return layout.Files(cfg, renderDashboard)
}

// An object is a JSON object. The names are Perses' own; tests check the output against its packages.
type object = map[string]any

// kindOf returns a variable, a panel, a query, a grid, or a plugin with its options.
func kindOf(kind string, spec object) object { return object{"kind": kind, "spec": spec} }

func renderDashboard(d layout.Dashboard) object {
	panels, grids := object{}, []object{}
	for _, r := range d.Rows {
		var parts []unitPanel
		for _, p := range r.Panels {
			parts = append(parts, splitByUnit(p)...)
		}
		for _, p := range parts {
			panels[p.key()] = renderPanel(p)
		}
		grid := object{"display": object{"title": r.Title, "collapse": object{"open": true}}, "items": layOut(parts)}
		if r.Repeat != "" {
			grid["repeatVariable"] = r.Repeat
		}
		grids = append(grids, kindOf("Grid", grid))
	}
	out := kindOf("Dashboard", object{
		"display":  object{"name": d.Title, "description": d.Doc},
		"duration": "1h", "refreshInterval": "30s",
		"variables": renderVariables(d.Variables), "panels": panels, "layouts": grids,
	})
	out["metadata"] = object{"name": d.UID, "project": Project}
	return out
}

// layOut places panels from left to right, and widens the panels of an incomplete line.
func layOut(parts []unitPanel) []object {
	var out []object
	y := 0
	for len(parts) > 0 {
		n, width, height := 0, 0, 0
		for n < len(parts) && (n == 0 || width+parts[n].Width <= layout.Columns) {
			width += parts[n].Width
			height = max(height, parts[n].Height())
			n++
		}
		x := 0
		for i, p := range parts[:n] {
			w := p.Width + (layout.Columns-width)/n
			if i < (layout.Columns-width)%n {
				w++
			}
			out = append(out, object{
				"x": x, "y": y, "width": w, "height": p.Height(), "content": object{"$ref": "#/spec/panels/" + p.key()},
			})
			x += w
		}
		parts, y = parts[n:], y+height
	}
	return out
}

// A unitPanel is the part of a panel that has one unit.
type unitPanel struct {
	layout.Panel
	suffix string
}

func (p unitPanel) key() string { return fmt.Sprintf("p%d%s", p.ID, p.suffix) }

// splitByUnit splits a panel by the units of its series.
func splitByUnit(p layout.Panel) []unitPanel {
	var parts []unitPanel
	for _, s := range p.Series {
		i := slices.IndexFunc(parts, func(o unitPanel) bool { return o.Unit == s.Unit && o.Series[0].Right == s.Right })
		if i < 0 {
			one := unitPanel{Panel: p}
			one.Unit, one.Series = s.Unit, nil
			if s.Unit != p.Unit || s.Right {
				one.Steps, one.Max = nil, 0
			}
			parts = append(parts, one)
			i = len(parts) - 1
		}
		parts[i].Series = append(parts[i].Series, s)
	}
	if len(parts) == 1 {
		return parts
	}
	for i := range parts {
		one := &parts[i]
		one.Width = max(p.Width/len(parts), narrowest)
		if i > 0 {
			one.suffix = fmt.Sprintf("-%d", i+1)
			one.Title = p.Title + ": " + one.Series[0].Heading()
		}
	}
	return parts
}

func renderVariables(vs []layout.Variable) []object {
	out := []object{kindOf("ListVariable", object{
		"name": "datasource", "display": object{"name": "Data source"}, "allowMultiple": false, "allowAllValue": false,
		"plugin": kindOf("DatasourceVariable", object{"datasourcePluginKind": prometheusKind}),
	})}
	for _, v := range vs {
		out = append(out, kindOf("ListVariable", object{
			"name": v.Name, "display": object{"name": v.Title}, "defaultValue": "$__all", "allowMultiple": true,
			"allowAllValue":  true,
			"customAllValue": ".*", "sort": "alphabetical-asc",
			"plugin": kindOf("PrometheusLabelValuesVariable",
				object{"labelName": v.Label, "matchers": []string{v.Selector}}),
		}))
	}
	return out
}

func renderPanel(p unitPanel) object {
	display := object{"name": p.Title, "description": p.Doc}
	if p.Kind == layout.Heatmap { // Perses' heatmap draws native histograms only (heatmap-chart-plugin 0.3.0)
		p.Panel = p.Percentiles()
	}
	var queries, links []object
	for _, s := range p.Series {
		q := kindOf("PrometheusTimeSeriesQuery", object{
			"datasource": chosen, "query": s.Expr, "seriesNameFormat": s.Legend,
		})
		queries = append(queries, kindOf("TimeSeriesQuery", object{"plugin": q}))
	}
	for _, l := range p.Links {
		links = append(links, object{"name": l.Title, "url": l.URL, "targetBlank": true})
	}
	kind, spec := "TimeSeriesChart", lineOptions(p)
	shown := p.Lines()
	if p.Kind == layout.Stat {
		kind, shown = "StatChart", p.Steps
		spec = object{"calculation": "last-number", "format": unitFormat(p.Unit), "sparkline": object{"width": 1}}
	}
	if len(shown) > 0 {
		spec["thresholds"] = renderSteps(shown)
	}
	return kindOf("Panel", object{"display": display, "plugin": kindOf(kind, spec), "queries": queries, "links": links})
}

func lineOptions(p unitPanel) object {
	visual := object{"display": "line", "lineWidth": 1.5, "areaOpacity": 0.05}
	if p.Stack {
		visual["stack"], visual["areaOpacity"] = "all", 0.3
	}
	if p.Series[0].Right {
		visual["display"] = "bar"
	}
	yAxis := object{"format": unitFormat(p.Unit)}
	// growth and budgets go below zero
	if p.Unit != indicator.BytesPerSecond && (p.Unit != indicator.Ratio || p.Max > 0) {
		yAxis["min"] = 0
	}
	if p.Max > 0 {
		yAxis["max"] = p.Max
	}
	return object{
		"legend": object{"position": "bottom", "mode": "list", "size": "small"}, "yAxis": yAxis,
		"visual": visual,
	}
}

var levelColours = map[layout.Level]string{
	layout.Warning: "#E69F00", layout.Critical: "#D62728", layout.Good: "#2CA02C",
}

func renderSteps(in []layout.Step) object {
	var out []object
	for _, s := range in {
		step := object{"value": s.Value, "color": levelColours[s.Level]}
		if s.Why != "" {
			step["name"] = s.Why
		}
		out = append(out, step)
	}
	return object{"mode": "absolute", "defaultColor": levelColours[layout.Good], "steps": out}
}

// unitFormat returns Perses' format of a unit.
func unitFormat(u indicator.Unit) object {
	name := "decimal"
	switch u {
	case indicator.Seconds, indicator.SecondsPerToken:
		return object{"unit": "seconds"}
	case indicator.Ratio:
		return object{"unit": "percent-decimal"}
	case indicator.RequestsPerSecond:
		name = "requests/sec"
	case indicator.TokensPerSecond, indicator.PerSecond:
		name = "counts/sec"
	case indicator.Bytes:
		name = "bytes"
	case indicator.BytesPerSecond:
		name = "bytes/sec"
	}
	return object{"unit": name, "shortValues": true}
}
