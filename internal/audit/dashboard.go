package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// panelContext is what a panel says about the values it shows.
type panelContext struct {
	title, kind, unit string
	unitNode          *node
	datasource        *node
	overrides         *node // of the fields that are told by a query's name
	legend            string
	perses            bool
}

// dashboard reads a dashboard of Grafana (classic and with schema v2, alone or
// as the API returns it) or of Perses, or a ConfigMap of dashboards.
func (d *document) dashboard(n *node, path string) error {
	if n.kind != object {
		return wrong(n, "a dashboard", object)
	}
	if n.get("kind").str() == "ConfigMap" {
		return d.configMap(n, path)
	}
	before := len(d.queries)
	vars := d.variables(n, path)
	err := d.dashboardNode(n, path, nil, vars)
	if len(d.queries) > before {
		d.queries[before].first = true
	}
	return err
}

// variables collects the variables that a dashboard declares, and adds what they ask for: where that is gone, the
// whole dashboard stays empty.
func (d *document) variables(n *node, path string) map[string]variable {
	out := map[string]variable{}
	isTrue := func(n *node, keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return n.get(key).scalar() == "true" })
	}
	for _, root := range []*node{n, n.get("dashboard"), n.get("spec")} {
		for _, in := range root.get("__inputs").elements() {
			name := in.get("name").str()
			out[name] = variable{name: name, plugin: in.get("pluginId").str()}
		}
		for _, v := range root.at("templating", "list").elements() {
			x := variable{name: v.get("name").str(), kind: v.get("type").str(), node: v.get("name"), multi: isTrue(v, "multi", "includeAll")}
			if v.get("hide").scalar() == "2" { // nobody chooses it
				x.node = nil
			}
			if x.kind == "datasource" {
				x = variable{name: x.name, plugin: v.get("query").str()}
			}
			out[x.name] = x
		}
		for _, v := range root.get("variables").elements() {
			spec := v.get("spec")
			x := variable{name: spec.get("name").str(), multi: isTrue(spec, "allowMultiple", "allowAllValue", "multi", "includeAll")}
			if plugin := spec.at("plugin", "kind").str(); plugin != "" && spec.at("display", "hidden").scalar() != "true" { // Perses'
				x.kind, x.node = persesVariables[plugin], spec.get("name")
			}
			out[x.name] = x
		}
	}
	for _, under := range []string{"", "dashboard", "spec"} {
		root, base := n, path
		if under != "" {
			root, base = n.get(under), path+"/"+under
		}
		for i, v := range root.at("templating", "list").elements() {
			text, at := v.get("query"), fmt.Sprintf("%s/templating/list/%d/query", base, i)
			if text.get("query") != nil {
				text, at = text.get("query"), at+"/query"
			}
			if !isOther(v.get("datasource"), out) {
				d.variable(v.get("name").str(), text, at, out)
			}
		}
		for i, v := range root.get("variables").elements() {
			for k, m := range v.at("spec", "plugin", "spec", "matchers").elements() {
				d.variable(v.at("spec", "name").str(), m, fmt.Sprintf("%s/variables/%d/spec/plugin/spec/matchers/%d", base, i, k), out)
			}
		}
	}
	return out
}

// panelPath is where a query's panel stands.
func (q *query) panelPath() string {
	return q.at[:max(strings.LastIndex(q.at, "/targets/"), strings.LastIndex(q.at, "/queries/"), 0)]
}

// elements returns a list's items, none of a nil node.
func (n *node) elements() []*node {
	if n == nil {
		return nil
	}
	return n.items
}

// all returns a node's fields, none of a nil node.
func (n *node) all() []field {
	if n == nil {
		return nil
	}
	return n.fields
}

// variable adds one variable's query: a selector, or Grafana's label_values and
// query_result around one. Its own functions are blanked out, so that the rest
// is PromQL at the same place.
func (d *document) variable(name string, text *node, path string, vars map[string]variable) {
	q := &query{node: text, at: path, role: variableRole, name: name, where: "variable " + name, vars: vars}
	switch value := text.str(); {
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
	d.queries = append(d.queries, q)
}

// persesVariables are Grafana's kinds of variables by the plugins of Perses'.
var persesVariables = map[string]string{
	"PrometheusLabelValuesVariable": "query", "PrometheusLabelNamesVariable": "query", "PrometheusPromQLVariable": "query",
	"StaticListVariable": "custom",
}

// dashboardNode walks a dashboard, whatever its nesting: rows, rows in panels,
// panels by name. panel is the panel that surrounds the node.
func (d *document) dashboardNode(n *node, path string, panel *panelContext, vars map[string]variable) error {
	switch n.kind {
	case list:
		for i, item := range n.items {
			if err := d.dashboardNode(item, fmt.Sprintf("%s/%d", path, i), panel, vars); err != nil {
				return err
			}
		}
	case object:
		if n.get("kind").str() == "ConfigMap" {
			return d.configMap(n, path)
		}
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
			if err := d.dashboardNode(f.value, path+"/"+escape(f.key), panel, vars); err != nil {
				return err
			}
		}
	}
	return nil
}

// panelOf returns what a panel says of its values, nil where the node is none.
func panelOf(n *node) *panelContext {
	if n.get("kind").str() == "Panel" { // Perses, and Grafana's schema v2
		spec := n.get("spec")
		p := &panelContext{title: spec.at("display", "name").str(), kind: spec.at("plugin", "kind").str(), perses: true}
		p.unitNode = spec.at("plugin", "spec", "format", "unit")
		if p.unitNode == nil {
			p.unitNode = spec.at("plugin", "spec", "yAxis", "format", "unit")
		}
		if title := spec.get("title"); title != nil {
			p.title, p.kind, p.perses = title.str(), spec.at("vizConfig", "kind").str(), false
			p.unitNode = spec.at("vizConfig", "spec", "fieldConfig", "defaults", "unit")
			p.overrides = spec.at("vizConfig", "spec", "fieldConfig", "overrides")
		}
		p.unit = p.unitNode.str()
		return p
	}
	if n.get("targets") == nil || n.get("targets").kind != list {
		return nil
	}
	p := &panelContext{
		title: n.get("title").str(), kind: n.get("type").str(),
		unitNode: n.at("fieldConfig", "defaults", "unit"), datasource: n.get("datasource"), overrides: n.at("fieldConfig", "overrides"),
	}
	if p.unitNode == nil { // the graph panel of old
		if axes := n.get("yaxes"); axes != nil && len(axes.items) > 0 {
			p.unitNode = axes.items[0].get("format")
		}
	}
	if p.unitNode == nil {
		p.unitNode = n.get("format")
	}
	p.unit = p.unitNode.str()
	return p
}

// override applies what a panel says of the fields of one query, by the query's letter or by
// the name that its legend gives them: their unit. Where a name with labels in it may be
// meant, nothing is known of it.
func (c *panelContext) override(refID string) {
	for _, o := range c.overrides.elements() {
		option, applies, unsure := o.at("matcher", "options").str(), false, strings.Contains(c.legend, "{{")
		switch o.at("matcher", "id").str() {
		case "byFrameRefID":
			applies, unsure = option == refID, false
		case "byName":
			applies = option == c.legend || unsure
		case "byRegexp":
			re, err := regexp.Compile(strings.Trim(option, "/"))
			applies = err != nil || re.MatchString(c.legend) || unsure
		}
		for _, property := range o.get("properties").elements() {
			if !applies || property.get("id").str() != "unit" {
				continue
			}
			c.unitNode, c.unit = property.get("value"), property.get("value").str()
			if unsure {
				c.unitNode, c.unit = nil, "unknown"
			}
		}
	}
}

// isOther reports whether a datasource speaks another language than PromQL, by its
// plugin: its own, that of the variable or input that it names, or else by its name.
// What is not known is taken for Prometheus'.
func isOther(source *node, vars map[string]variable) bool {
	plugin := source.get("type").str()
	name := source.str()
	if source != nil && source.kind == object {
		name = source.get("uid").str()
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
func isOtherQuery(n *node) bool {
	kind := n.get("kind").str()
	return slices.Contains(otherLanguages, kind) || kind == "DataQuery" && n.get("group").str() != "" &&
		isOtherPlugin(n.get("group").str())
}

// holdsBoard reports whether a field is a dashboard written into a string, as in the
// objects of Grafana's operator and in the values of charts.
func holdsBoard(f field) bool {
	if f.value.kind != text || f.key != "json" && !strings.HasSuffix(f.key, ".json") ||
		!strings.HasPrefix(strings.TrimSpace(f.value.value), "{") {
		return false
	}
	return slices.ContainsFunc([]string{`"panels"`, `"rows"`, `"elements"`},
		func(key string) bool { return strings.Contains(f.value.value, key) })
}

// target adds the query that a node holds, if it holds one.
func (d *document) target(n *node, path string, panel *panelContext, vars map[string]variable) error {
	source := n.get("datasource")
	if source == nil && panel != nil {
		source = panel.datasource
	}
	if isOther(source, vars) || isOther(n.get("datasourceUid"), vars) {
		return nil
	}
	expr, key := n.get("expr"), "expr"
	if n.get("kind").str() == "PrometheusTimeSeriesQuery" {
		expr, key, n, path = n.at("spec", "query"), "query", n.get("spec"), path+"/spec"
	}
	if expr == nil {
		return nil
	}
	if expr.kind != text {
		if expr.kind == null {
			return nil
		}
		return wrong(expr, key, text)
	}
	if strings.TrimSpace(expr.value) == "" {
		return nil
	}
	q := &query{node: expr, at: path + "/" + key, role: panelRole, vars: vars, panel: &panelContext{}}
	if panel == nil {
		q.role, q.name, q.where = variableRole, n.get("name").str(), "annotation or variable "+n.get("name").str()
	} else {
		copied := *panel
		copied.legend = n.get("legendFormat").str() + n.get("seriesNameFormat").str()
		copied.override(n.get("refId").str())
		q.panel, q.name = &copied, panel.title
		q.where = fmt.Sprintf("panel %q", panel.title)
		if id := n.get("refId").str(); id != "" {
			q.where += ", query " + id
		}
	}
	d.queries = append(d.queries, q)
	return nil
}
