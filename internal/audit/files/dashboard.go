package files

import (
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// A panel is what a panel says of its queries.
type panel struct {
	title, kind, at string
}

// PanelQueries are the queries of a query's panel, itself among them; none outside of panels.
func (q *Query) PanelQueries() (out []*Query) {
	for _, o := range q.Doc.Queries {
		if q.Role == InPanel && o.Role == InPanel && o.panel == q.panel {
			out = append(out, o)
		}
	}
	return out
}

// variables adds the queries of a dashboard's variables. If one selects nothing, the whole dashboard is empty.
func (d *Document) variables(n *yaml.Node, path string) {
	type variable struct {
		node *yaml.Node
		at   string
	}
	var all []variable
	for _, key := range []string{"", "/dashboard", "/spec"} {
		root := n
		if key != "" {
			root = get(n, key[1:])
		}
		for i, v := range items(get(root, "templating", "list")) {
			all = append(all, variable{v, fmt.Sprintf("%s%s/templating/list/%d", path, key, i)})
		}
		for i, v := range items(get(root, "variables")) { // Perses', and Grafana's schema v2
			all = append(all, variable{get(v, "spec"), fmt.Sprintf("%s%s/variables/%d/spec", path, key, i)})
		}
	}
	for _, v := range all {
		text, at := get(v.node, "query"), v.at+"/query"
		if q := get(text, "query"); q != nil {
			text, at = q, at+"/query"
		}
		d.variable(str(v.node, "name"), text, at)
		for i, m := range items(get(v.node, "plugin", "spec", "matchers")) {
			d.add(&Query{Pointer: fmt.Sprintf("%s/plugin/spec/matchers/%d", v.at, i), Role: InVariable, Name: str(v.node, "name"), Where: "variable " + str(v.node, "name")}, m)
		}
	}
}

// variable adds one variable's query: Grafana's label_values or query_result around a selector. Its own functions are
// blanked out, so that the rest is PromQL at the same place.
func (d *Document) variable(name string, n *yaml.Node, at string) {
	q, value := &Query{Pointer: at, Role: InVariable, Name: name, Where: "variable " + name}, str(n)
	if inner, ok := strings.CutPrefix(value, "label_values("); ok {
		comma, end := strings.LastIndexByte(inner, ','), strings.LastIndexByte(inner, ')')
		if comma < 0 || end < comma || strings.ContainsAny(inner[comma:end], "{}[]\"") {
			return // label_values(LABEL) reads all series
		}
		q.parsed = "absent      (" + inner[:comma] + strings.Repeat(" ", end-comma) + ")" + strings.Repeat(" ", len(inner)-end-1)
	} else if strings.HasPrefix(value, "query_result(") {
		q.parsed = strings.Repeat(" ", len("query_result")) + value[len("query_result"):]
	} else {
		return // a list of values, another plugin's words
	}
	d.add(q, n)
}

// panelOf returns a panel's settings for its queries, nil if the node is no panel.
func panelOf(n *yaml.Node, at string) *panel {
	if str(n, "kind") == "Panel" { // Perses, and Grafana's schema v2
		spec := get(n, "spec")
		if title := get(spec, "title"); title != nil {
			return &panel{title: str(title), kind: str(spec, "vizConfig", "kind"), at: at}
		}
		return &panel{title: str(spec, "display", "name"), kind: str(spec, "plugin", "kind"), at: at}
	}
	if kindOf(get(n, "targets")) != "a list" {
		return nil
	}
	return &panel{title: str(n, "title"), kind: str(n, "type"), at: at}
}

// holdsBoard reports whether a field is a dashboard written into a string, as in the objects of Grafana's operator
// and in the values of charts.
func holdsBoard(key string, n *yaml.Node) bool {
	text := str(n)
	return (key == "json" || strings.HasSuffix(key, ".json")) && strings.HasPrefix(strings.TrimSpace(text), "{") &&
		slices.ContainsFunc([]string{`"panels"`, `"rows"`, `"elements"`}, func(key string) bool { return strings.Contains(text, key) })
}

// target adds the query that a node holds, if it holds one.
func (d *Document) target(n *yaml.Node, at string, in *panel) error {
	key := "expr"
	if str(n, "kind") == "PrometheusTimeSeriesQuery" {
		key, n, at = "query", get(n, "spec"), at+"/spec"
	}
	expr := get(n, key)
	if expr == nil || strings.TrimSpace(str(expr)) == "" {
		return d.want(expr, key, "a string")
	}
	q := &Query{Pointer: at + "/" + key, Role: InVariable, Name: str(n, "name"), Where: "annotation or variable " + str(n, "name")}
	if in != nil {
		q.Role, q.Name, q.Kind, q.Where, q.panel = InPanel, in.title, in.kind, fmt.Sprintf("panel %q", in.title), in.at
		if id := str(n, "refId"); id != "" {
			q.Where += ", query " + id
		}
	}
	d.add(q, expr)
	return nil
}
