package files

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// addVariables adds the queries of a dashboard's variables. If one selects nothing, the whole dashboard is empty.
func (d *Document) addVariables(list *yaml.Node) {
	for _, v := range list.Content {
		if spec := get(v, "spec"); !spec.IsZero() { // Perses, and Grafana's schema v2
			v = spec
		}
		name, text := str(v, "name"), get(v, "query")
		if inner := get(text, "query"); !inner.IsZero() {
			text = inner
		}
		if selector := blankFunction(str(text)); selector != "" {
			d.addText(&Query{Role: InVariable, Name: name, Where: "variable " + name, parsed: selector}, text)
		}
		for _, m := range get(v, "plugin", "spec", "matchers").Content {
			d.addText(&Query{Role: InVariable, Name: name, Where: "variable " + name}, m)
		}
	}
}

// variableFunction matches Grafana's functions around a selector: label_values(SELECTOR, LABEL) and
// query_result(QUERY). label_values(LABEL) has no selector: it reads all series.
var variableFunction = regexp.MustCompile(`(?s)^(?:label_values\((.+),[^{}\[\]"]*|query_result\((.+))\)\s*$`)

// blankFunction replaces Grafana's function around a selector by blanks, so that the selector keeps its place. It
// returns "" for other texts, such as a list of values.
func blankFunction(text string) string {
	m := variableFunction.FindStringSubmatchIndex(text)
	if m == nil {
		return ""
	}
	start, end := max(m[2], m[4]), max(m[3], m[5])
	return strings.Repeat(" ", start) + text[start:end] + strings.Repeat(" ", len(text)-end)
}

// titleOf returns a panel's title; ok is false if the node is no panel.
func titleOf(n *yaml.Node) (title string, ok bool) {
	if str(n, "kind") == "Panel" { // Perses and Grafana's schema v2
		return cmp.Or(str(n, "spec", "title"), str(n, "spec", "display", "name")), true
	}
	return str(n, "title"), get(n, "targets").Kind == yaml.SequenceNode
}

// addTarget adds the query of a node that holds one. panel is the surrounding panel's title, nil outside of panels.
func (d *Document) addTarget(n *yaml.Node, panel *string) {
	key := "expr"
	if str(n, "kind") == "PrometheusTimeSeriesQuery" {
		key, n = "query", get(n, "spec")
	}
	q := &Query{Role: InVariable, Name: str(n, "name"), Where: "annotation or variable " + str(n, "name")}
	if panel != nil {
		q.Role, q.Name, q.Where = InPanel, *panel, fmt.Sprintf("panel %q", *panel)
		if id := str(n, "refId"); id != "" {
			q.Where += ", query " + id
		}
	}
	d.addText(q, get(n, key))
}

// addText adds a query with the expression that a node holds, unless the node is no text or blank.
func (d *Document) addText(q *Query, n *yaml.Node) {
	if q.Expr, q.node = str(n), n; strings.TrimSpace(q.Expr) != "" {
		d.Add(q)
	}
}
