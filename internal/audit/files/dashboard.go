package files

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Panel is what a panel says about the values it shows.
type Panel struct {
	Kind, Unit string
	UnitNode   *Node
	Legend     string
	Perses     bool

	title      string
	datasource *Node
	overrides  *Node // of the fields that are told by a query's name
}

// dashboard reads a dashboard of Grafana (classic and with schema v2, alone or
// as the API returns it) or of Perses.
func (d *Document) dashboard(n *Node, path string) error {
	before := len(d.Queries)
	vars := d.variables(n, path)
	err := d.dashboardNode(n, path, nil, vars)
	if len(d.Queries) > before {
		d.Queries[before].First = true
	}
	return err
}

// variables collects the variables that a dashboard declares, and adds what they ask for: where that is gone, the
// whole dashboard stays empty.
func (d *Document) variables(n *Node, path string) map[string]Variable {
	out := map[string]Variable{}
	roots := map[string]*Node{path: n, path + "/dashboard": n.Get("dashboard"), path + "/spec": n.Get("spec")}
	for _, root := range roots {
		for _, in := range root.Get("__inputs").Items() {
			name := in.Get("name").Str()
			out[name] = Variable{Name: name, plugin: in.Get("pluginId").Str()}
		}
		for _, v := range slices.Concat(root.At("templating", "list").Items(), root.Get("variables").Items()) {
			x := declared(v)
			out[x.Name] = x
		}
	}
	for _, base := range slices.Sorted(maps.Keys(roots)) {
		for i, v := range roots[base].At("templating", "list").Items() {
			text, at := v.Get("query"), fmt.Sprintf("%s/templating/list/%d/query", base, i)
			if text.Get("query") != nil {
				text, at = text.Get("query"), at+"/query"
			}
			if !isOther(v.Get("datasource"), out) {
				d.variable(v.Get("name").Str(), text, at, out)
			}
		}
		for i, v := range roots[base].Get("variables").Items() {
			for k, m := range v.At("spec", "plugin", "spec", "matchers").Items() {
				d.variable(v.At("spec", "name").Str(), m, fmt.Sprintf("%s/variables/%d/spec/plugin/spec/matchers/%d", base, i, k), out)
			}
		}
	}
	return out
}

// declared is a variable as a dashboard declares it.
func declared(v *Node) Variable {
	spec := v
	if v.Get("spec") != nil { // Perses', and Grafana's schema v2
		spec = v.Get("spec")
	}
	x := Variable{Name: spec.Get("name").Str(), Kind: spec.Get("type").Str(), Multi: slices.ContainsFunc([]string{"multi", "includeAll", "allowMultiple", "allowAllValue"},
		func(key string) bool { return spec.Get(key).Scalar() == "true" })}
	plugin, ofPerses := persesVariables[spec.At("plugin", "kind").Str()]
	switch {
	case x.Kind == "datasource":
		return Variable{Name: x.Name, plugin: spec.Get("query").Str()}
	case ofPerses && spec.At("display", "hidden").Scalar() != "true":
		x.Kind, x.Node = plugin, spec.Get("name")
	case x.Kind != "" && spec.Get("hide").Scalar() != "2": // 2: nobody chooses it
		x.Node = spec.Get("name")
	}
	return x
}

// panelPath is where a query's panel stands.
func (q *Query) panelPath() string {
	return q.Pointer[:max(strings.LastIndex(q.Pointer, "/targets/"), strings.LastIndex(q.Pointer, "/queries/"), 0)]
}

// variable adds one variable's query: a selector, or Grafana's label_values and
// query_result around one. Its own functions are blanked out, so that the rest
// is PromQL at the same place.
func (d *Document) variable(name string, text *Node, path string, vars map[string]Variable) {
	q := &Query{Node: text, Pointer: path, Role: InVariable, Name: name, Where: "variable " + name, Vars: vars}
	switch value := text.Str(); {
	case strings.HasPrefix(value, "label_values("):
		comma, end := strings.LastIndexByte(value, ','), strings.LastIndexByte(value, ')')
		if comma < 0 || end < comma || strings.ContainsAny(value[comma:end], "{}[]\"") {
			return // of all series
		}
		inner := value[len("label_values("):comma]
		q.parsed = "absent      (" + inner + strings.Repeat(" ", end-comma) + ")" + strings.Repeat(" ", len(value)-end-1)
	case strings.HasPrefix(value, "query_result("):
		q.parsed = strings.Repeat(" ", len("query_result")) + value[len("query_result"):]
	case strings.HasSuffix(path, "/query") || value == "":
		return // a list of values, another plugin's words
	}
	d.Queries = append(d.Queries, q)
}

// persesVariables are Grafana's kinds of variables by the plugins of Perses'.
var persesVariables = map[string]string{
	"PrometheusLabelValuesVariable": "query", "PrometheusLabelNamesVariable": "query", "PrometheusPromQLVariable": "query",
	"StaticListVariable": "custom",
}

// dashboardNode walks a dashboard, whatever its nesting: rows, rows in panels,
// panels by name. panel is the panel that surrounds the node.
func (d *Document) dashboardNode(n *Node, path string, panel *Panel, vars map[string]Variable) error {
	switch n.kind {
	case list:
		for i, item := range n.items {
			if err := d.dashboardNode(item, fmt.Sprintf("%s/%d", path, i), panel, vars); err != nil {
				return err
			}
		}
	case object:
		if p := panelOf(n); p != nil {
			panel = p
		}
		if isOtherQuery(n) {
			return nil
		}
		if err := d.target(n, path, panel, vars); err != nil {
			return err
		}
		for _, f := range n.fields {
			if holdsBoard(f) {
				if err := d.embedded(f, path); err != nil {
					return err
				}
				continue
			}
			if err := d.dashboardNode(f.Value, path+"/"+escape(f.Key), panel, vars); err != nil {
				return err
			}
		}
	}
	return nil
}

// panelOf returns what a panel says of its values, nil where the node is none.
func panelOf(n *Node) *Panel {
	if n.Get("kind").Str() == "Panel" { // Perses, and Grafana's schema v2
		spec := n.Get("spec")
		p := &Panel{title: spec.At("display", "name").Str(), Kind: spec.At("plugin", "kind").Str(), Perses: true}
		p.UnitNode = spec.At("plugin", "spec", "format", "unit")
		if p.UnitNode == nil {
			p.UnitNode = spec.At("plugin", "spec", "yAxis", "format", "unit")
		}
		if title := spec.Get("title"); title != nil {
			p.title, p.Kind, p.Perses = title.Str(), spec.At("vizConfig", "kind").Str(), false
			p.UnitNode = spec.At("vizConfig", "spec", "fieldConfig", "defaults", "unit")
			p.overrides = spec.At("vizConfig", "spec", "fieldConfig", "overrides")
		}
		p.Unit = p.UnitNode.Str()
		return p
	}
	if n.Get("targets") == nil || n.Get("targets").kind != list {
		return nil
	}
	p := &Panel{
		title: n.Get("title").Str(), Kind: n.Get("type").Str(),
		UnitNode: n.At("fieldConfig", "defaults", "unit"), datasource: n.Get("datasource"), overrides: n.At("fieldConfig", "overrides"),
	}
	if p.UnitNode == nil { // the graph panel of old
		if axes := n.Get("yaxes"); axes != nil && len(axes.items) > 0 {
			p.UnitNode = axes.items[0].Get("format")
		}
	}
	if p.UnitNode == nil {
		p.UnitNode = n.Get("format")
	}
	p.Unit = p.UnitNode.Str()
	return p
}

// override applies what a panel says of the fields of one query, by the query's letter or by
// the name that its legend gives them: their unit. Where a name with labels in it may be
// meant, nothing is known of it.
func (c *Panel) override(refID string) {
	for _, o := range c.overrides.Items() {
		option, applies, unsure := o.At("matcher", "options").Str(), false, strings.Contains(c.Legend, "{{")
		switch o.At("matcher", "id").Str() {
		case "byFrameRefID":
			applies, unsure = option == refID, false
		case "byName":
			applies = option == c.Legend || unsure
		case "byRegexp":
			re, err := regexp.Compile(strings.Trim(option, "/"))
			applies = err != nil || re.MatchString(c.Legend) || unsure
		}
		for _, property := range o.Get("properties").Items() {
			if !applies || property.Get("id").Str() != "unit" {
				continue
			}
			c.UnitNode, c.Unit = property.Get("value"), property.Get("value").Str()
			if unsure {
				c.UnitNode, c.Unit = nil, "unknown"
			}
		}
	}
}

// isOther reports whether a datasource speaks another language than PromQL, by its
// plugin: its own, that of the variable or input that it names, or else by its name.
// What is not known is taken for Prometheus'.
func isOther(source *Node, vars map[string]Variable) bool {
	plugin := source.Get("type").Str()
	name := source.Str()
	if source != nil && source.kind == object {
		name = source.Get("uid").Str()
	}
	if v := strings.Trim(name, "${}[]"); v != name && vars[v].plugin != "" {
		plugin = vars[v].plugin
	}
	if plugin == "" {
		plugin = strings.ToLower(name)
		return slices.ContainsFunc(otherLanguages, func(l string) bool { return strings.Contains(plugin, l) })
	}
	return isOtherPlugin(plugin)
}

// otherLanguages are the datasources that are told by name alone.
var otherLanguages = []string{
	"loki", "tempo", "elasticsearch", "opensearch", "influxdb", "cloudwatch", "graphite",
	"clickhouse", "__expr__",
}

// isOtherPlugin reports whether a plugin's queries are no PromQL. "datasource" stands
// for mixed ones, whose queries name their own.
func isOtherPlugin(plugin string) bool {
	return !strings.Contains(plugin, "prometheus") && plugin != "victoriametrics-metrics-datasource" &&
		plugin != "datasource" && !strings.HasPrefix(plugin, "$")
}

// isOtherQuery reports whether a node is a query of Grafana's schema v2 in another
// language: {"kind": "loki"}, and later {"kind": "DataQuery", "group": "loki"}.
func isOtherQuery(n *Node) bool {
	kind := n.Get("kind").Str()
	return slices.Contains(otherLanguages, kind) || kind == "DataQuery" && n.Get("group").Str() != "" &&
		isOtherPlugin(n.Get("group").Str())
}

// holdsBoard reports whether a field is a dashboard written into a string, as in the
// objects of Grafana's operator and in the values of charts.
func holdsBoard(f Field) bool {
	if f.Value.kind != text || f.Key != "json" && !strings.HasSuffix(f.Key, ".json") ||
		!strings.HasPrefix(strings.TrimSpace(f.Value.Value), "{") {
		return false
	}
	return slices.ContainsFunc([]string{`"panels"`, `"rows"`, `"elements"`},
		func(key string) bool { return strings.Contains(f.Value.Value, key) })
}

// target adds the query that a node holds, if it holds one.
func (d *Document) target(n *Node, path string, panel *Panel, vars map[string]Variable) error {
	source := n.Get("datasource")
	if source == nil && panel != nil {
		source = panel.datasource
	}
	if isOther(source, vars) || isOther(n.Get("datasourceUid"), vars) {
		return nil
	}
	expr, key := n.Get("expr"), "expr"
	if n.Get("kind").Str() == "PrometheusTimeSeriesQuery" {
		expr, key, n, path = n.At("spec", "query"), "query", n.Get("spec"), path+"/spec"
	}
	if expr == nil {
		return nil
	}
	if expr.kind != text {
		if expr.kind == null {
			return nil
		}
		return d.wrongKindError(expr, key, text)
	}
	if strings.TrimSpace(expr.Value) == "" {
		return nil
	}
	q := &Query{Node: expr, Pointer: path + "/" + key, Role: InPanel, Vars: vars, Panel: &Panel{}}
	if panel == nil {
		q.Role, q.Name, q.Where = InVariable, n.Get("name").Str(), "annotation or variable "+n.Get("name").Str()
	} else {
		copied := *panel
		copied.Legend = n.Get("legendFormat").Str() + n.Get("seriesNameFormat").Str()
		copied.override(n.Get("refId").Str())
		q.Panel, q.Name = &copied, panel.title
		q.Where = fmt.Sprintf("panel %q", panel.title)
		if id := n.Get("refId").Str(); id != "" {
			q.Where += ", query " + id
		}
	}
	d.Queries = append(d.Queries, q)
	return nil
}
