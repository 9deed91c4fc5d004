// Package files reads the files that an audit is of: rules of Prometheus, Mimir and
// VictoriaMetrics, dashboards of Grafana and Perses, alerts that Grafana manages, and what
// autoscalers ask for (KEDA), also written into other files (ConfigMaps,
// custom resources, a chart's values). Every expression is found with its line, so that it can
// be pointed at, and a name in it replaced without another byte changing.
package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
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

	// where it is written; nil where it can only be pointed at: in a string of another file, on a server
	node   *yaml.Node
	line   int    // of its first byte, from 1; 0 if the file has no lines
	block  bool   // its lines are the file's
	parsed string // parsed instead of Expr, with the same length; "" means Expr
	panel  *panel // nil outside of panels
}

// Line returns the line of a byte of the expression, from 1; 0 if the file has no lines.
func (q *Query) Line(at int) int {
	if !q.block {
		return q.line
	}
	return q.line + strings.Count(q.Expr[:at], "\n")
}

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
	d, err := collect(name, data)
	if err != nil {
		return nil, err
	}
	for _, q := range d.Queries {
		q.parse(d)
	}
	return d, nil
}

// Add parses a query and adds it to a document that was not read from a file.
func (d *Document) Add(q *Query) {
	q.parse(d)
	d.Queries = append(d.Queries, q)
}

func (q *Query) parse(in *Document) {
	q.Doc = in
	q.Tree, q.Mentions, q.Err = standIn(cmp.Or(q.parsed, q.Expr))
}

// collect finds the queries of a file.
func collect(name string, data []byte) (*Document, error) {
	d := &Document{Name: name, Data: data}
	roots, err := parse(data)
	var syntax *json.SyntaxError // the YAML library does not tell its line
	if err != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && errors.As(json.Unmarshal(data, new(any)),
		&syntax) {
		err = fmt.Errorf("line %d: not JSON: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), syntax)
	}
	if err != nil {
		return nil, hint.Or(fmt.Errorf("%s: %w", name, err), "correct the line, or leave the file out")
	}
	for _, root := range roots {
		if err := d.walk(root, nil); err != nil {
			return nil, hint.Or(fmt.Errorf("%s:%w", name, err), "correct the line, or leave the file out")
		}
	}
	if !slices.ContainsFunc(d.Queries, func(q *Query) bool { return q.Role != InVariable }) {
		return nil, hint.With(fmt.Errorf("%s: %w in it", name, ErrUnrelated),
			"give groups of rules, a PrometheusRule, VMRule or ScaledObject, or a dashboard as Grafana or Perses exports it, "+
				"also in a ConfigMap")
	}
	return d, nil
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

// get follows keys from a mapping; nil where one is missing.
func get(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		in := n
		if n = nil; in != nil && in.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(in.Content) && n == nil; i += 2 {
				if in.Content[i].Value == key {
					n = in.Content[i+1]
				}
			}
		}
	}
	return n
}

// items are a list's, none of anything else.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// scalar returns the text of a string, number or boolean, "" for other nodes. Aliases are followed to strings only,
// so that aliases of aliases cannot multiply.
func scalar(n *yaml.Node) string {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}

// str returns a string, "" for anything else.
func str(n *yaml.Node, keys ...string) string {
	if n = get(n, keys...); kindOf(n) != "a string" {
		return ""
	}
	return scalar(n)
}

// kindOf says what a node is, for people.
func kindOf(n *yaml.Node) string {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n == nil:
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	return cmp.Or(map[string]string{"!!str": "a string", "!!null": "nothing"}[n.ShortTag()], "a number or boolean")
}

func errorAt(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%d:%d: %s", n.Line, n.Column, fmt.Sprintf(format, args...))
}

// want returns an error where a node that is there is of another kind.
func want(n *yaml.Node, what, kind string) error {
	if got := kindOf(n); got != kind && got != "nothing" {
		return errorAt(n, "%s is %s, want %s", what, got, kind)
	}
	return nil
}

// walk finds the queries under a node, whatever its nesting: groups of rules at the top of a file, in the spec of a
// custom resource or in a chart's values, and panels in rows, in panels or by name. in is the panel that surrounds
// the node.
func (d *Document) walk(n *yaml.Node, in *panel) (err error) {
	for _, item := range items(n) {
		if err := d.walk(item, in); err != nil {
			return err
		}
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	kind := str(n, "kind")
	switch {
	case kind == "CustomResourceDefinition": // its schema has groups too
		return nil
	case kind == "ScaledObject" || kind == "ScaledJob":
		d.addScaler(n)
		return nil
	}
	if p := panelOf(n); p != nil {
		in = p
	}
	if err := d.addTarget(n, in); err != nil {
		return err
	}
	for i := 0; i+1 < len(n.Content) && err == nil; i += 2 {
		switch key, v := n.Content[i].Value, n.Content[i+1]; {
		case key == "groups" && in == nil:
			err = d.addGroups(v)
		case kind == "ConfigMap" && key == "data":
			for k := 0; k+1 < len(v.Content); k += 2 {
				err = cmp.Or(err, d.addEmbedded(v.Content[k].Value, v.Content[k+1]))
			}
		case holdsBoard(key, v):
			err = d.addEmbedded(key, v)
		default:
			switch key {
			case "templating":
				d.addVariables(get(v, "list"))
			case "variables":
				d.addVariables(v)
			}
			err = d.walk(v, in)
		}
	}
	return err
}

// addEmbedded reads the file inside a string. Its findings name the line where their expression stands, and nothing in
// it is repaired.
func (d *Document) addEmbedded(name string, n *yaml.Node) error {
	sub, err := collect(name, []byte(str(n)))
	if err != nil {
		isFile := slices.Contains([]string{".yaml", ".yml", ".json", ".rules"}, path.Ext(name))
		if !errors.Is(err, ErrUnrelated) && isFile && str(n) != "" {
			return errorAt(n, "data %s", err)
		}
		return nil // data of another kind
	}
	for _, q := range sub.Queries {
		q.node = nil
		if n.Style&yaml.LiteralStyle != 0 { // a block's lines are the file's
			q.line += n.Line
		} else {
			q.line, q.block = n.Line, false
		}
		d.Queries = append(d.Queries, q)
	}
	return nil
}

// addGroups reads groups of rules.
func (d *Document) addGroups(n *yaml.Node) error {
	if err := want(n, "groups", "a list"); err != nil {
		return err
	}
	for _, g := range items(n) {
		if err := cmp.Or(want(g, "a group of rules", "a mapping"),
			want(get(g, "rules"), "rules", "a list")); err != nil {
			return err
		}
		for _, r := range items(get(g, "rules")) {
			if err := d.addRule(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Document) addRule(r *yaml.Node) error {
	expr, alert, record := get(r, "expr"), get(r, "alert"), get(r, "record")
	if expr == nil && get(r, "data") != nil {
		return d.addManaged(r)
	}
	q := &Query{Role: Alert, Name: str(alert), Where: "alert " + str(alert),
		Runbook: str(r, "annotations", "runbook_url")}
	if alert == nil {
		q.Role, q.Name, q.Where = Record, str(record), "recording rule "+str(record)
	}
	switch {
	case expr == nil:
		return cmp.Or(want(r, "a rule", "a mapping"), errorAt(r, "a rule without expr"))
	case alert == nil && record == nil:
		return errorAt(r, "a rule with neither alert nor record")
	case expr.Kind != yaml.ScalarNode && expr.Kind != yaml.AliasNode:
		return want(expr, "expr", "a string")
	}
	d.add(q, expr)
	return cmp.Or(want(alert, "alert", "a string"), want(record, "record", "a string"))
}

// add adds a query whose expression a node holds. A block's content begins on the line after its indicator.
func (d *Document) add(q *Query, n *yaml.Node) {
	q.Expr, q.node, q.line = scalar(n), n, n.Line
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		q.line++
	}
	q.block = n.Style&yaml.LiteralStyle != 0
	if n.Kind == yaml.AliasNode {
		q.node = nil
	}
	d.Queries = append(d.Queries, q)
}
