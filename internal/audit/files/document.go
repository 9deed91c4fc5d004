// Package files reads the queries out of the files that an audit is about: rules of Prometheus, Mimir and
// VictoriaMetrics, alerts that Grafana manages, dashboards of Grafana and Perses, and autoscalers of KEDA.
//
// Read parses a file as YAML, of which JSON is a part, and walks its nodes at any depth: rules may be in a List of
// Kubernetes or in a chart's values, panels in rows. The result is a Document with one Query for each expression. A
// Query knows the node that holds it, so that a finding has a line, and Rename can replace a metric's name without
// changing another byte. Variables of dashboards are replaced for the parser only (variables.go).
//
// The package judges nothing (package checks does) and neither reads nor writes the disk (package surface does).
package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	yaml "go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// MaxFile bounds a file. Dashboards of a few hundred panels are below a megabyte.
const MaxFile = 16 << 20

// A Role says what a query is for.
type Role uint8

// The roles.
const (
	Alert Role = iota
	Record
	InPanel
	InVariable // selects a dashboard variable's values, or an annotation's events
	Scaler     // used by an autoscaler
)

// A Query is one expression of a file, with its surroundings.
type Query struct {
	Doc           *Document
	Expr          string
	Where         string // for people: `alert HighTTFT`, `panel "TTFT", query A`
	Role          Role
	Name          string        // name of the alert, the recorded series, the panel, the variable or the autoscaler
	Runbook       string        // the alert's runbook_url
	AllPrometheus bool          // all triggers of the autoscaler are queries of Prometheus
	Managed       *ManagedAlert // nil for all but Grafana-managed alerts

	Tree     parser.Expr // nil if Err is set
	Mentions []Mention   // variables in Expr
	Err      error       // parse error

	node   *yaml.Node // holds the expression; nil for rules of a Prometheus server
	parsed string     // text to parse instead of Expr, of the same length; "" for Expr itself
}

// Line returns the line of a byte of the expression, from 1; 0 for rules of a Prometheus server.
func (q *Query) Line(at int) int {
	if q.node == nil {
		return 0
	}
	line := q.node.Line
	if q.isBlock() { // a block begins on the line after its indicator, | or >
		line++
	}
	if q.node.Style&yaml.LiteralStyle != 0 {
		line += strings.Count(q.Expr[:at], "\n")
	}
	return line
}

// isBlock reports whether the expression is a block of YAML, on lines of its own.
func (q *Query) isBlock() bool { return q.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 }

// Opaque reports whether a range of the expression holds a variable, so that its text is unknown.
func (q *Query) Opaque(start, end posrange.Pos) bool {
	return slices.ContainsFunc(q.Mentions, func(m Mention) bool { return m.Start < int(end) && m.End > int(start) })
}

// A Document is a file with its queries, in their order.
type Document struct {
	Name    string
	Data    []byte
	Queries []*Query
}

// ErrUnrelated marks the error of a file that can be parsed and has nothing to audit.
var ErrUnrelated = errors.New("neither rules nor a dashboard")

// Read parses a file and collects its queries. An expression that does not parse is no error: its Query has Err. An
// error names the file and, if it is known, the line.
func Read(name string, data []byte) (*Document, error) {
	d := &Document{Name: name, Data: data}
	roots, err := parse(data)
	if err != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		err = cmp.Or(errorOfJSON(data), err)
	}
	for _, root := range roots {
		err = cmp.Or(err, d.walk(root, nil))
	}
	var types *yaml.TypeError
	if errors.As(err, &types) {
		err = errors.New(types.Errors[0])
	}
	if err != nil {
		return nil, hint.Or(fmt.Errorf("%s: %w", name, err), "correct the line, or leave the file out")
	}
	if !slices.ContainsFunc(d.Queries, func(q *Query) bool { return q.Role != InVariable }) {
		return nil, hint.With(fmt.Errorf("%s: %w in it", name, ErrUnrelated),
			"give groups of rules, a PrometheusRule, VMRule or ScaledObject, or a dashboard as Grafana or Perses "+
				"exports it; take the file out of a ConfigMap: kubectl get configmap NAME -o jsonpath='{.data.FILE}'")
	}
	return d, nil
}

// Add parses a query and adds it to a document.
func (d *Document) Add(q *Query) {
	q.Doc = d
	q.Tree, q.Mentions, q.Err = parseTemplate(cmp.Or(q.parsed, q.Expr))
	d.Queries = append(d.Queries, q)
}

// errorOfJSON returns the syntax error of a JSON file with its line, which the YAML parser's error lacks; nil for valid
// JSON.
func errorOfJSON(data []byte) error {
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal(data, new(any)), &syntax) {
		return nil
	}
	return fmt.Errorf("line %d: not JSON: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), syntax)
}

// surrogates matches two escapes for one character, which JSON has and YAML has not.
var surrogates = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)

// parse parses the documents of a YAML or JSON file; JSON is YAML.
func parse(data []byte) (roots []*yaml.Node, err error) {
	switch {
	case len(data) > MaxFile:
		return nil, fmt.Errorf("larger than %d MiB", MaxFile>>20)
	case !utf8.Valid(data):
		return nil, errors.New("not UTF-8 text")
	}
	// Only texts for people have surrogates, and they are not read.
	data = surrogates.ReplaceAllFunc(data, func(b []byte) []byte { return bytes.Repeat([]byte("?"), len(b)) })
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF) && len(roots) == 0:
			return nil, errors.New("empty")
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil && IsTemplate(data):
			return nil, hint.With(fmt.Errorf("not YAML: %w", err),
				"render templates before, such as with helm template; quote texts that contain {{")
		case err != nil:
			return nil, fmt.Errorf("not YAML: %w", err)
		case len(doc.Content) > 0:
			roots = append(roots, doc.Content[0])
		}
	}
}

// IsTemplate reports whether a file that is not YAML looks like a template of a chart.
func IsTemplate(data []byte) bool { return bytes.Contains(data, []byte("{{")) }

// get follows keys from a mapping; it returns the zero node if one is missing.
func get(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		in := n
		n = &yaml.Node{}
		for i := 0; in.Kind == yaml.MappingNode && i+1 < len(in.Content) && n.IsZero(); i += 2 {
			if in.Content[i].Value == key {
				n = in.Content[i+1]
			}
		}
	}
	return n
}

// str returns the text of the string or number behind keys, "" for anything else. An alias is followed once, so that
// nested aliases cannot multiply.
func str(n *yaml.Node, keys ...string) string {
	n = get(n, keys...)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}

// walk adds the queries below a node: those of "groups", panels, variables and scaled objects at any depth. panel is
// the title of the surrounding panel, nil outside of panels.
func (d *Document) walk(n *yaml.Node, panel *string) (err error) {
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			err = cmp.Or(err, d.walk(item, panel))
		}
	}
	if n.Kind != yaml.MappingNode {
		return err
	}
	switch str(n, "kind") {
	case "CustomResourceDefinition": // its schema has groups too
		return nil
	case "ScaledObject", "ScaledJob":
		return d.addScaler(n)
	}
	if title, ok := titleOf(n); ok {
		panel = &title
	}
	d.addTarget(n, panel)
	d.addVariables(get(n, "variables"))
	d.addVariables(get(n, "templating", "list"))
	for i := 0; i+1 < len(n.Content) && err == nil; i += 2 {
		if key, v := n.Content[i].Value, n.Content[i+1]; key == "groups" && panel == nil {
			err = d.addGroups(v)
		} else {
			err = d.walk(v, panel)
		}
	}
	return err
}

// NewRule returns the query of an alert or, if alert is empty, of a recording rule. The caller sets its expression.
func NewRule(alert, record, runbook string) *Query {
	if alert == "" && record != "" {
		return &Query{Role: Record, Name: record, Where: "recording rule " + record}
	}
	return &Query{Role: Alert, Name: alert, Where: "alert " + alert, Runbook: runbook}
}

// A group holds rules, of Prometheus or of Grafana.
type group struct{ Rules []yaml.Node }

func (d *Document) addGroups(n *yaml.Node) error {
	var groups []group
	if err := n.Decode(&groups); err != nil {
		return err
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if err := d.addRule(&r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Document) addRule(n *yaml.Node) error {
	var r struct {
		Alert, Record string
		Expr          yaml.Node
		Annotations   map[string]string
		managedRule   `yaml:",inline"`
	}
	if err := n.Decode(&r); err != nil {
		return err
	}
	q := NewRule(r.Alert, r.Record, r.Annotations["runbook_url"])
	switch {
	case r.Expr.IsZero() && r.Data != nil:
		r.managedRule.addTo(d, q.Runbook)
		return nil
	case str(&r.Expr) == "":
		return fmt.Errorf("line %d: a rule without expr", n.Line)
	case q.Name == "":
		return fmt.Errorf("line %d: a rule with neither alert nor record", n.Line)
	}
	d.addText(q, &r.Expr)
	return nil
}
