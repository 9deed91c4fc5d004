package files

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// A panel is what a panel says of its queries.
type panel struct{ title string }

// PanelQueries are the queries of a query's panel, itself among them; none outside of panels.
func (q *Query) PanelQueries() (out []*Query) {
	for _, o := range q.Doc.Queries {
		if q.Role == InPanel && o.Role == InPanel && o.panel == q.panel {
			out = append(out, o)
		}
	}
	return out
}

// addVariables adds the queries of a dashboard's variables. If one selects nothing, the whole dashboard is empty.
func (d *Document) addVariables(list *yaml.Node) {
	for _, v := range items(list) {
		if spec := get(v, "spec"); spec != nil { // Perses', and Grafana's schema v2
			v = spec
		}
		name, text := str(v, "name"), get(v, "query")
		if inner := get(text, "query"); inner != nil {
			text = inner
		}
		if of, ok := stripVariable(str(text)); ok {
			d.add(&Query{Role: InVariable, Name: name, Where: "variable " + name, parsed: of}, text)
		}
		for _, m := range items(get(v, "plugin", "spec", "matchers")) {
			d.add(&Query{Role: InVariable, Name: name, Where: "variable " + name}, m)
		}
	}
}

// stripVariable blanks out Grafana's own functions around a selector, label_values and query_result, so that the rest
// is PromQL at the same place. It reports whether something is left: not of a list of values, or another plugin's
// words.
func stripVariable(text string) (string, bool) {
	if rest, ok := strings.CutPrefix(text, "query_result("); ok {
		return strings.Repeat(" ", len("query_result")) + "(" + rest, true
	}
	inner, ok := strings.CutPrefix(text, "label_values(")
	comma, end := strings.LastIndexByte(inner, ','), strings.LastIndexByte(inner, ')')
	if !ok || comma < 0 || end < comma || strings.ContainsAny(inner[comma:end], "{}[]\"") {
		return "", false // label_values(LABEL) reads all series
	}
	return "absent      (" + inner[:comma] + strings.Repeat(" ", end-comma) + ")" +
			strings.Repeat(" ", len(inner)-end-1),
		true
}

// panelOf returns a panel's settings for its queries, nil if the node is no panel.
func panelOf(n *yaml.Node) *panel {
	if str(n, "kind") == "Panel" { // Perses, and Grafana's schema v2
		spec := get(n, "spec")
		return &panel{cmp.Or(str(spec, "title"), str(spec, "display", "name"))}
	}
	if kindOf(get(n, "targets")) != "a list" {
		return nil
	}
	return &panel{str(n, "title")}
}

// holdsBoard reports whether a field is a dashboard written into a string, as in the objects of Grafana's operator
// and in the values of charts.
func holdsBoard(key string, n *yaml.Node) bool {
	text := str(n)
	return (key == "json" || strings.HasSuffix(key, ".json")) && strings.HasPrefix(strings.TrimSpace(text), "{") &&
		boardKeys.MatchString(text)
}

// boardKeys matches the fields of a dashboard that hold its panels.
var boardKeys = regexp.MustCompile(`"(panels|rows|elements)"`)

// addTarget adds the query that a node holds, if it holds one.
func (d *Document) addTarget(n *yaml.Node, in *panel) error {
	key := "expr"
	if str(n, "kind") == "PrometheusTimeSeriesQuery" {
		key, n = "query", get(n, "spec")
	}
	expr := get(n, key)
	if expr == nil || strings.TrimSpace(str(expr)) == "" {
		return want(expr, key, "a string")
	}
	q := &Query{Role: InVariable, Name: str(n, "name"), Where: "annotation or variable " + str(n, "name"), panel: in}
	if in != nil {
		q.Role, q.Name, q.Where = InPanel, in.title, fmt.Sprintf("panel %q", in.title)
		if id := str(n, "refId"); id != "" {
			q.Where += ", query " + id
		}
	}
	d.add(q, expr)
	return nil
}
