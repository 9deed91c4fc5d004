// Package files reads the files that an audit is of: rules of Prometheus, Mimir and
// VictoriaMetrics, dashboards of Grafana and Perses, alerts that Grafana manages, and what
// autoscalers ask for (KEDA), at any depth of YAML or JSON (a List of Kubernetes, a chart's
// values). Every expression is found with its line, so that it can be pointed at, and a name in
// it replaced without another byte changing.
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
	InVariable // of a dashboard, or of another file that only names series
	Scaler     // used by an autoscaler
)

// A Query is one expression of a file, with what surrounds it.
type Query struct {
	Doc     *Document
	Expr    string
	Where   string // for people: `alert HighTTFT`, `panel "TTFT", query A`
	Role    Role
	Name    string // name of the alert, the recorded series or the panel
	Runbook string // the alert's runbook_url
	Alone   bool   // the autoscaler asks nothing but Prometheus
	Managed *ManagedAlert

	Tree     parser.Expr
	Mentions []Mention
	Err      error // parse error

	node   *yaml.Node // that holds it; nil where it is not of a file
	parsed string     // parsed instead of Expr, with the same length; "" means Expr
}

// Line returns the line of a byte of the expression, from 1; 0 if it is not of a file.
func (q *Query) Line(at int) int {
	if q.node == nil {
		return 0
	}
	line := q.node.Line
	if q.isBlock() { // its content begins on the line after its indicator
		line++
	}
	if q.node.Style&yaml.LiteralStyle != 0 {
		line += strings.Count(q.Expr[:at], "\n")
	}
	return line
}

// isBlock reports whether the file has the expression on lines of its own.
func (q *Query) isBlock() bool { return q.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 }

// Opaque reports whether a range of the expression holds a variable, so that
// nobody can tell what it will be.
func (q *Query) Opaque(start, end posrange.Pos) bool {
	return slices.ContainsFunc(q.Mentions, func(m Mention) bool { return m.Start < int(end) && m.End > int(start) })
}

// A Document is a file that was read, with its queries.
type Document struct {
	Name    string
	Data    []byte
	Queries []*Query
}

// ErrUnrelated is wrapped by the error of a file that can be read and has nothing to audit.
var ErrUnrelated = errors.New("neither rules nor a dashboard")

// Read parses a file and collects its queries. An error names the file and, where it can, the line.
func Read(name string, data []byte) (*Document, error) {
	d := &Document{Name: name, Data: data}
	roots, err := parse(data)
	var syntax *json.SyntaxError // the YAML library does not tell its line
	if err != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && errors.As(json.Unmarshal(data, new(any)),
		&syntax) {
		err = fmt.Errorf("line %d: not JSON: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), syntax)
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
			"give groups of rules, a PrometheusRule, VMRule or ScaledObject, or a dashboard as Grafana or Perses exports "+
				"it; take the file out of a ConfigMap: kubectl get configmap NAME -o jsonpath='{.data.FILE}'")
	}
	return d, nil
}

// Add parses a query and adds it to a document.
func (d *Document) Add(q *Query) {
	q.Doc = d
	q.Tree, q.Mentions, q.Err = standIn(cmp.Or(q.parsed, q.Expr))
	d.Queries = append(d.Queries, q)
}

// surrogates are pairs of escapes for one character, which JSON has and YAML has not.
var surrogates = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)

// parse parses the documents of a YAML or JSON file; JSON is YAML.
func parse(data []byte) (roots []*yaml.Node, err error) {
	switch {
	case len(data) > MaxFile:
		return nil, fmt.Errorf("larger than %d MiB", MaxFile>>20)
	case !utf8.Valid(data):
		return nil, errors.New("not UTF-8 text")
	}
	// Only texts for people have them.
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

// IsTemplate reports whether an unreadable file is a template, such as those of a chart.
func IsTemplate(data []byte) bool { return bytes.Contains(data, []byte("{{")) }

// get follows keys from a mapping; the zero node where one is missing.
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

// str returns the text of a string or a number, "" for anything else. Aliases are followed to strings only, so that
// aliases of aliases cannot multiply.
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

// walk finds the queries under a node, whatever its nesting: groups of rules at the top of a file, in the spec of a
// custom resource or in a chart's values, and panels in rows, in panels or by name. panel is the title of the panel
// that surrounds the node, nil outside of panels.
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

// NewRule returns the query of an alert, or of a recording rule where there is none, without its expression.
func NewRule(alert, record, runbook string) *Query {
	if alert == "" && record != "" {
		return &Query{Role: Record, Name: record, Where: "recording rule " + record}
	}
	return &Query{Role: Alert, Name: alert, Where: "alert " + alert, Runbook: runbook}
}

// A group is one of rules, of Prometheus or of Grafana.
type group struct{ Rules []yaml.Node }

// addGroups reads groups of rules.
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
		managed       `yaml:",inline"`
	}
	if err := n.Decode(&r); err != nil {
		return err
	}
	q := NewRule(r.Alert, r.Record, r.Annotations["runbook_url"])
	switch {
	case r.Expr.IsZero() && r.Data != nil:
		r.managed.addTo(d, q.Runbook)
		return nil
	case str(&r.Expr) == "":
		return fmt.Errorf("line %d: a rule without expr", n.Line)
	case q.Name == "":
		return fmt.Errorf("line %d: a rule with neither alert nor record", n.Line)
	}
	d.addText(q, &r.Expr)
	return nil
}
