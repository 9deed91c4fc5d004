// Package perses renders sixty's dashboards as Perses' resources.
//
// It knows Perses' model and nothing of signals: what is shown is package
// dashboard's. Perses' charts have one axis, so that a panel with two units
// becomes two side by side, and its heatmap none for classic histograms, so that
// percentiles stand in their place; its dashboards hold no annotations, and its panels
// no text for missing data, which stands in the description instead. It
// performs no I/O.
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
	chosen         = "$datasource" // the reader's
	narrowest      = 6             // columns, of the parts of a panel that was split
)

// Files returns one file for each dashboard, named after it.
func Files(cfg layout.Config) ([]generate.File, error) {
	return layout.Files(cfg, func(d layout.Dashboard) any { return render(d) })
}

func render(d layout.Dashboard) resource {
	out := resource{
		Kind: "Dashboard", Metadata: metadata{Name: d.UID, Project: Project},
		Spec: spec{
			Display:  display{Name: d.Title, Description: d.Doc},
			Duration: "1h", RefreshInterval: "30s",
			Variables: variables(d.Variables), Panels: map[string]object{},
		},
	}
	for _, r := range d.Rows {
		var parts []unitPanel
		for _, p := range r.Panels {
			parts = append(parts, byUnit(p)...)
		}
		for _, p := range parts {
			out.Spec.Panels[p.name()] = chart(p)
		}
		g := gridSpec{Display: gridDisplay{Title: r.Title}, Items: layOut(parts), RepeatVariable: r.Repeat}
		g.Display.Collapse.Open = true
		out.Spec.Layouts = append(out.Spec.Layouts, object{"Grid", g})
	}
	return out
}

// layOut puts panels from left to right, and widens those of a line that is not
// full.
func layOut(parts []unitPanel) []gridItem {
	var out []gridItem
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
			item := gridItem{X: x, Y: y, Width: w, Height: p.Height()}
			item.Content.Ref = "#/spec/panels/" + p.name()
			out = append(out, item)
			x += w
		}
		parts, y = parts[n:], y+height
	}
	return out
}

// A unitPanel is the share of a panel that has one unit.
type unitPanel struct {
	layout.Panel
	suffix string
}

func (p unitPanel) name() string { return fmt.Sprintf("p%d%s", p.ID, p.suffix) }

// byUnit splits a panel whose series have several units.
func byUnit(p layout.Panel) []unitPanel {
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

func variables(vs []layout.Variable) []object {
	out := []object{{"ListVariable", listVariable{
		Name: "datasource", Display: display{Name: "Data source"},
		Plugin: object{"DatasourceVariable", map[string]string{"datasourcePluginKind": prometheusKind}},
	}}}
	for _, v := range vs {
		values := map[string]any{"labelName": v.Label, "matchers": []string{v.Selector}}
		out = append(out, object{"ListVariable", listVariable{
			Name: v.Name, Display: display{Name: v.Title}, DefaultValue: "$__all", AllowMultiple: true, AllowAllValue: true,
			CustomAllValue: ".*", Sort: "alphabetical-asc", Plugin: object{"PrometheusLabelValuesVariable", values},
		}})
	}
	return out
}

func chart(p unitPanel) object {
	out := panelSpec{Display: display{Name: p.Title, Description: p.Doc}, Queries: []object{}}
	if p.Kind == layout.Heatmap {
		p = percentiles(p)
	}
	for _, s := range p.Series {
		q := prometheusQuery{Datasource: chosen, Query: s.Expr, SeriesNameFormat: s.Legend}
		out.Queries = append(out.Queries, object{"TimeSeriesQuery", querySpec{object{"PrometheusTimeSeriesQuery", q}}})
	}
	for _, l := range p.Links {
		out.Links = append(out.Links, link{Name: l.Title, URL: l.URL, TargetBlank: true})
	}
	if p.Kind == layout.Stat {
		stat := statChart{Calculation: "last-number", Format: unit(p.Unit), Thresholds: steps(p.Steps)}
		stat.Sparkline.Width = 1
		out.Plugin = object{"StatChart", stat}
	} else {
		out.Plugin = object{"TimeSeriesChart", lines(p)}
	}
	return object{"Panel", out}
}

// percentiles draws the distribution of a heatmap as lines: Perses' heatmap
// takes native histograms only (heatmap-chart-plugin 0.3.0).
func percentiles(p unitPanel) unitPanel {
	buckets := p.Series[0]
	p.Kind, p.Series = layout.TimeSeries, nil
	for _, q := range []struct{ quantile, name string }{{"0.1", "P10"}, {"0.5", "P50"}, {"0.9", "P90"}, {"0.99", "P99"}} {
		p.Series = append(p.Series, layout.Series{
			Expr:   fmt.Sprintf("histogram_quantile(%s, %s)", q.quantile, buckets.ByModel),
			Legend: q.name + " {{model_name}}", Unit: p.Unit, Signal: buckets.Signal,
		})
	}
	return p
}

func lines(p unitPanel) timeSeriesChart {
	out := timeSeriesChart{
		Legend: legend{Position: "bottom", Mode: "list", Size: "small"},
		YAxis:  yAxis{Format: unit(p.Unit)},
		Visual: visual{Display: "line", LineWidth: 1.5, AreaOpacity: 0.05},
	}
	zero := 0.0
	out.YAxis.Min = &zero
	if p.Max > 0 {
		out.YAxis.Max = &p.Max
	}
	if p.Unit == indicator.BytesPerSecond || p.Unit == indicator.Ratio && p.Max == 0 {
		out.YAxis.Min = nil // growth and budgets go below zero
	}
	if p.Stack {
		out.Visual.Stack, out.Visual.AreaOpacity = "all", 0.3
	}
	if p.Series[0].Right {
		out.Visual.Display = "bar"
	}
	out.Thresholds = steps(p.Lines())
	return out
}

var levelColours = map[layout.Level]string{layout.Warning: "#E69F00", layout.Critical: "#D62728", layout.Good: "#2CA02C"}

func steps(in []layout.Step) *thresholds {
	if len(in) == 0 {
		return nil
	}
	out := &thresholds{Mode: "absolute", DefaultColor: levelColours[layout.Good]}
	for _, s := range in {
		out.Steps = append(out.Steps, thresholdStep{Value: s.Value, Color: levelColours[s.Level], Name: s.Why})
	}
	return out
}

// unit returns Perses' format of a unit.
func unit(u indicator.Unit) format {
	brief := true
	switch u {
	case indicator.Seconds, indicator.SecondsPerToken:
		return format{Unit: "seconds"}
	case indicator.Ratio:
		return format{Unit: "percent-decimal"}
	case indicator.RequestsPerSecond:
		return format{Unit: "requests/sec", ShortValues: &brief}
	case indicator.TokensPerSecond, indicator.PerSecond:
		return format{Unit: "counts/sec", ShortValues: &brief}
	case indicator.Bytes:
		return format{Unit: "bytes", ShortValues: &brief}
	case indicator.BytesPerSecond:
		return format{Unit: "bytes/sec", ShortValues: &brief}
	}
	return format{Unit: "decimal", ShortValues: &brief}
}
