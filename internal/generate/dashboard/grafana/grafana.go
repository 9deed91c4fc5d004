// Package grafana renders sixty's dashboards as Grafana's JSON.
//
// It knows Grafana's model and no signals; package dashboard decides the contents. It performs no I/O.
package grafana

import (
	"fmt"
	"strings"

	layout "github.com/sixty-dev/sixty/internal/generate/dashboard"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
)

// schemaVersion is Grafana 11's version of the dashboard model. Newer Grafanas migrate it. The names are Grafana's
// own; tests check the output against its schema.
const schemaVersion = 39

// An object is a JSON object. Its keys are written in alphabetical order, as Grafana exports them.
type object = map[string]any

// promDS is the data source that the reader selected.
var promDS = object{"type": "prometheus", "uid": "${datasource}"}

// Files returns one file for each dashboard, named after its uid.
func Files(cfg layout.Config) ([]generate.File, error) {
	return layout.Files(cfg, renderDashboard)
}

// PanelPath returns the path of a pathology's panel in any Grafana, or "".
func PanelPath(p *catalog.Pathology) string {
	uid, id, ok := layout.PanelForPathology(p)
	if !ok {
		return ""
	}
	return fmt.Sprintf("/d/%s?viewPanel=%d", uid, id)
}

// BudgetPath is the path of the panel of the error budgets.
const BudgetPath = "/d/sixty-gateway?viewPanel=613"

func renderDashboard(d layout.Dashboard) object {
	annotations := []object{}
	for _, e := range d.Events {
		annotations = append(annotations, object{
			"name": e.Name, "datasource": promDS, "enable": true, "iconColor": e.Colour, "expr": e.Expr, "step": "30s",
			"titleFormat": e.Title, "textFormat": e.Text, "tagKeys": strings.Join(e.Tags, ","),
		})
	}
	others := newLink("sixty", "dashboards", "external link", "")
	others["tags"], others["includeVars"], others["keepTime"] = []string{layout.Tag}, true, true
	return object{
		"uid": d.UID, "title": d.Title, "description": d.Doc, "tags": []string{layout.Tag, "vllm"},
		"schemaVersion": schemaVersion, "version": 1, "id": nil, // Grafana gives one
		"editable": false, "timezone": "browser", "timepicker": object{}, "graphTooltip": 1, // shares the crosshair
		"time": object{"from": "now-1h", "to": "now"}, "refresh": "30s",
		"links":       []object{others, newLink("Runbooks", "link", "doc", d.Runbooks)},
		"annotations": object{"list": annotations},
		"templating":  object{"list": renderVariables(d.Variables)},
		"panels":      placePanels(d.Rows),
	}
}

// newLink returns a link that opens an address in a new tab. Without an address it lists dashboards.
func newLink(title, kind, icon, url string) object {
	out := object{
		"title": title, "type": kind, "icon": icon, "tooltip": "", "tags": []string{},
		"asDropdown": false, "targetBlank": url != "", "includeVars": false, "keepTime": false,
	}
	if url != "" {
		out["url"] = url
	}
	return out
}

func renderVariables(vs []layout.Variable) []object {
	out := []object{{
		"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus",
		"refresh": 1, "sort": 0, "includeAll": false, "multi": false,
	}}
	for _, v := range vs {
		all := ".*" // a label that some series lack matches them, too
		if v.Always {
			all = ".+"
		}
		query := fmt.Sprintf("label_values(%s, %s)", v.Selector, v.Label)
		out = append(out, object{
			"type": "query", "name": v.Name, "label": v.Title, "datasource": promDS, "definition": query,
			// 1: label values
			"query":   object{"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
			"current": object{"text": "All", "value": "$__all"}, "includeAll": true, "allValue": all, "multi": true,
			"refresh": 2, "sort": 1, // when the time range changes; alphabetical
		})
	}
	return out
}

// placePanels places rows and their panels on the grid, left to right.
func placePanels(rows []layout.Row) []object {
	var out []object
	y := 0
	for _, r := range rows {
		row := object{
			"type": "row", "id": r.ID, "title": r.Title, "gridPos": object{"h": 1, "w": layout.Columns, "x": 0, "y": y},
			"collapsed": false, "panels": []object{},
		}
		if r.Repeat != "" {
			row["repeat"] = r.Repeat
		}
		out = append(out, row)
		y++
		x, height := 0, 0
		for _, p := range r.Panels {
			if x+p.Width > layout.Columns {
				x, y, height = 0, y+height, 0
			}
			chart := renderPanel(p)
			chart["gridPos"] = object{"h": p.Height(), "w": p.Width, "x": x, "y": y}
			height = max(height, p.Height())
			x += p.Width
			out = append(out, chart)
		}
		y += height
	}
	return out
}

func renderPanel(p layout.Panel) object {
	format := "time_series"
	defaults, overridden := object{"unit": unitID(p.Unit), "noValue": p.NoData}, []object{}
	out := object{"id": p.ID, "title": p.Title, "description": p.Doc, "datasource": promDS}
	switch p.Kind {
	case layout.Heatmap:
		format = "heatmap"
		out["type"], out["options"] = "heatmap", heatmapOptions(p.Unit)
		delete(defaults, "unit")
	case layout.Stat:
		out["type"], out["options"] = "stat", statOptions
		defaults["thresholds"], defaults["color"] = renderSteps(p.Steps), object{"mode": "thresholds"}
	default:
		out["type"], out["options"] = "timeseries", seriesOptions
		defaults["custom"] = lineOptions(p)
		defaults["thresholds"], defaults["color"] = renderSteps(p.Lines()), object{"mode": "palette-classic-by-name"}
		overridden = overrideAxes(p)
	}
	if p.Max > 0 && p.Kind != layout.Heatmap { // a quantity with a natural maximum
		defaults["min"], defaults["max"] = 0, p.Max
	}
	out["fieldConfig"] = object{"defaults": defaults, "overrides": overridden}
	var links, targets []object
	for _, l := range p.Links {
		links = append(links, newLink(l.Title, "link", "doc", l.URL))
	}
	for i, s := range p.Series {
		targets = append(targets, object{
			"datasource": promDS, "refId": refID(i), "expr": s.Expr, "legendFormat": s.Legend,
			"range": true, "instant": false, "format": format, "editorMode": "code",
		})
	}
	out["links"], out["targets"] = links, targets
	return out
}

// Options of panels that are the same on every dashboard.
var (
	seriesOptions = object{
		"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
	statOptions = object{
		"graphMode": "area", "colorMode": "value", "justifyMode": "auto", "textMode": "value_and_name",
		"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard", "orientation": "auto",
		"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
)

// lineOptions returns the style of lines.
func lineOptions(p layout.Panel) object {
	stacking, opacity, thresholds := "none", 5, "off"
	if p.Stack {
		stacking, opacity = "normal", 30
	}
	if len(p.Lines()) > 0 {
		thresholds = "dashed"
	}
	return object{
		"drawStyle": "line", "lineWidth": 2, "fillOpacity": opacity, "showPoints": "never", "spanNulls": false,
		"axisSoftMin": 0,
		"stacking":    object{"mode": stacking, "group": "A"}, "thresholdsStyle": object{"mode": thresholds},
	}
}

// heatmapOptions returns the style of a heatmap, which hides empty cells.
func heatmapOptions(u indicator.Unit) object {
	return object{
		"calculate": false, "cellGap": 1,
		"color": object{
			"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "scale": "exponential", "exponent": 0.5,
			"steps":   64,
			"reverse": false,
		},
		"yAxis":     object{"axisPlacement": "left", "reverse": false, "unit": unitID(u)},
		"showValue": "never", "legend": object{"show": true}, "tooltip": object{"mode": "single", "yHistogram": true},
		"exemplars": object{"color": "rgba(255,0,255,0.7)"}, "rowsFrame": object{"layout": "auto"},
		"filterValues": object{"le": 1e-9},
	}
}

// overrideAxes moves series with another unit to the right axis, and draws the number of requests behind percentiles as
// bars there.
func overrideAxes(p layout.Panel) []object {
	out := []object{}
	for i, s := range p.Series {
		if !s.Right && s.Unit == p.Unit {
			continue
		}
		label := s.Heading()
		if s.Right {
			label = "requests"
		}
		properties := []object{
			{"id": "unit", "value": unitID(s.Unit)},
			{"id": "custom.axisPlacement", "value": "right"},
			{"id": "custom.axisLabel", "value": label},
			{"id": "custom.thresholdsStyle", "value": object{"mode": "off"}},
		}
		if s.Right {
			properties = append(properties,
				object{"id": "custom.drawStyle", "value": "bars"},
				object{"id": "custom.fillOpacity", "value": 15},
				object{"id": "custom.lineWidth", "value": 0},
				object{"id": "color", "value": object{"mode": "fixed", "fixedColor": "text"}},
			)
		}
		out = append(out, object{
			"matcher":    object{"id": "byFrameRefID", "options": refID(i)},
			"properties": properties,
		})
	}
	return out
}

var levelColours = map[layout.Level]string{layout.Warning: "yellow", layout.Critical: "red", layout.Good: "green"}

func renderSteps(in []layout.Step) object {
	out := []object{{"value": nil, "color": "green"}} // from the beginning
	for _, s := range in {
		out = append(out, object{"value": s.Value, "color": levelColours[s.Level]})
	}
	return object{"mode": "absolute", "steps": out}
}

// refID names queries A, B, C.
func refID(i int) string { return string(rune('A' + i)) }

// unitID returns Grafana's id of a unit (packages/grafana-data, valueFormats/categories.ts).
func unitID(u indicator.Unit) string {
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
