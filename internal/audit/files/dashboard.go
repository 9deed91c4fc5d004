package files

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A panel is what a panel says of its queries.
type panel struct {
	title, kind string
	datasource  *Node
}

// dashboard reads a dashboard of Grafana (classic and with schema v2, alone or
// as the API returns it) or of Perses.
func (d *Document) dashboard(n *Node, path string) error {
	return d.dashboardNode(n, path, nil, d.variables(n, path))
}

// variables collects the plugins of the datasources that a dashboard's variables stand for, and adds what variables
// ask for: where that is gone, the whole dashboard stays empty.
func (d *Document) variables(n *Node, path string) map[string]string {
	plugins := map[string]string{}
	roots := map[string]*Node{path: n, path + "/dashboard": n.Get("dashboard"), path + "/spec": n.Get("spec")}
	for _, root := range roots {
		for _, in := range root.Get("__inputs").Items() {
			plugins[in.Get("name").Str()] = in.Get("pluginId").Str()
		}
		for _, v := range slices.Concat(root.At("templating", "list").Items(), root.Get("variables").Items()) {
			if v.Get("spec") != nil { // Perses', and Grafana's schema v2
				v = v.Get("spec")
			}
			if v.Get("type").Str() == "datasource" {
				plugins[v.Get("name").Str()] = v.Get("query").Str()
			}
		}
	}
	for _, base := range slices.Sorted(maps.Keys(roots)) {
		for i, v := range roots[base].At("templating", "list").Items() {
			text, at := v.Get("query"), fmt.Sprintf("%s/templating/list/%d/query", base, i)
			if text.Get("query") != nil {
				text, at = text.Get("query"), at+"/query"
			}
			if !isOther(v.Get("datasource"), plugins) {
				d.variable(v.Get("name").Str(), text, at)
			}
		}
		for i, v := range roots[base].Get("variables").Items() {
			for k, m := range v.At("spec", "plugin", "spec", "matchers").Items() {
				d.variable(v.At("spec", "name").Str(), m, fmt.Sprintf("%s/variables/%d/spec/plugin/spec/matchers/%d", base, i, k))
			}
		}
	}
	return plugins
}

// panelPath is where a query's panel stands.
func (q *Query) panelPath() string {
	return q.Pointer[:max(strings.LastIndex(q.Pointer, "/targets/"), strings.LastIndex(q.Pointer, "/queries/"), 0)]
}

// variable adds one variable's query: a selector, or Grafana's label_values and
// query_result around one. Its own functions are blanked out, so that the rest
// is PromQL at the same place.
func (d *Document) variable(name string, text *Node, path string) {
	q := &Query{Node: text, Pointer: path, Role: InVariable, Name: name, Where: "variable " + name}
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

// dashboardNode walks a dashboard, whatever its nesting: rows, rows in panels,
// panels by name. in is the panel that surrounds the node.
func (d *Document) dashboardNode(n *Node, path string, in *panel, plugins map[string]string) error {
	switch n.kind {
	case list:
		for i, item := range n.items {
			if err := d.dashboardNode(item, fmt.Sprintf("%s/%d", path, i), in, plugins); err != nil {
				return err
			}
		}
	case object:
		if p := panelOf(n); p != nil {
			in = p
		}
		if isOtherQuery(n) {
			return nil
		}
		if err := d.target(n, path, in, plugins); err != nil {
			return err
		}
		for _, f := range n.fields {
			if holdsBoard(f) {
				if err := d.embedded(f, path); err != nil {
					return err
				}
				continue
			}
			if err := d.dashboardNode(f.Value, path+"/"+escape(f.Key), in, plugins); err != nil {
				return err
			}
		}
	}
	return nil
}

// panelOf returns what a panel says of its queries, nil where the node is none.
func panelOf(n *Node) *panel {
	if n.Get("kind").Str() == "Panel" { // Perses, and Grafana's schema v2
		spec := n.Get("spec")
		if title := spec.Get("title"); title != nil {
			return &panel{title: title.Str(), kind: spec.At("vizConfig", "kind").Str()}
		}
		return &panel{title: spec.At("display", "name").Str(), kind: spec.At("plugin", "kind").Str()}
	}
	if n.Get("targets") == nil || n.Get("targets").kind != list {
		return nil
	}
	return &panel{title: n.Get("title").Str(), kind: n.Get("type").Str(), datasource: n.Get("datasource")}
}

// isOther reports whether a datasource speaks another language than PromQL, by its
// plugin: its own, that of the variable or input that it names, or else by its name.
// What is not known is taken for Prometheus'.
func isOther(source *Node, plugins map[string]string) bool {
	plugin := source.Get("type").Str()
	name := source.Str()
	if source != nil && source.kind == object {
		name = source.Get("uid").Str()
	}
	if v := strings.Trim(name, "${}[]"); v != name && plugins[v] != "" {
		plugin = plugins[v]
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
func (d *Document) target(n *Node, path string, in *panel, plugins map[string]string) error {
	source := n.Get("datasource")
	if source == nil && in != nil {
		source = in.datasource
	}
	if isOther(source, plugins) || isOther(n.Get("datasourceUid"), plugins) {
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
	q := &Query{Node: expr, Pointer: path + "/" + key, Role: InPanel}
	if in == nil {
		q.Role, q.Name, q.Where = InVariable, n.Get("name").Str(), "annotation or variable "+n.Get("name").Str()
	} else {
		q.Name, q.Kind, q.Where = in.title, in.kind, fmt.Sprintf("panel %q", in.title)
		if id := n.Get("refId").Str(); id != "" {
			q.Where += ", query " + id
		}
	}
	d.Queries = append(d.Queries, q)
	return nil
}
