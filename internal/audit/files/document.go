// Package files reads the files that an audit is of: rules of Prometheus, Mimir and
// VictoriaMetrics, dashboards of Grafana and Perses, alerts that Grafana manages, and what
// autoscalers ask for (KEDA, prometheus-adapter), also written into other files (ConfigMaps,
// custom resources, a chart's values). Every expression is found with its place, so that it can
// be pointed at, and repaired without another byte changing.
package files

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// A Role says what a query is for.
type Role uint8

// The roles.
const (
	Alert Role = iota
	Record
	InPanel
	InVariable // of a dashboard, or of what else only names series
	Scaler     // of an autoscaler
)

// A Query is one expression of a file, with what surrounds it.
type Query struct {
	Doc     *Document
	Node    *Node  // the expression's string
	Where   string // for people: `alert HighTTFT`, `panel "TTFT", query A`
	Pointer string // JSON pointer
	Role    Role
	Name    string // of the alert, the recorded series or the panel

	Rule    *Node  // the rule's mapping, nil elsewhere
	Kind    string // of the panel
	Scaler  *Node  // the autoscaler
	Managed *ManagedAlert

	Tree     parser.Expr
	Mentions []Mention
	Err      error // of parsing

	parsed string // what is parsed instead of the node's value, of the same length; "" for the value itself
}

// Opaque reports whether a range of the expression holds a variable, so that
// nobody can tell what it will be.
func (q *Query) Opaque(start, end posrange.Pos) bool {
	return slices.ContainsFunc(q.Mentions, func(m Mention) bool { return m.Start < int(end) && m.End > int(start) })
}

// PanelQueries are the queries of a query's panel, itself among them.
func (q *Query) PanelQueries() []*Query { return q.Doc.panels[q.panelPath()] }

// A Document is a file that was read, with its queries.
type Document struct {
	Name string
	Data []byte

	// Remote says that the bytes are a server's rules, put into a file to be
	// read: lines mean nothing, and nothing can be repaired.
	Remote bool

	Queries []*Query

	starts []int               // of lines
	panels map[string][]*Query // by the place of their panel
}

// ErrUnrelated is wrapped by the error of a file that can be read and has nothing to audit.
var ErrUnrelated = errors.New("neither rules nor a dashboard")

// Read parses a file and collects its queries: of rules, of a dashboard, or of both in
// documents of their own. An error names the file and, where it can, the line and the column.
func Read(name string, data []byte) (*Document, error) {
	d, err := collect(name, data)
	if err != nil {
		return nil, err
	}
	d.panels = map[string][]*Query{}
	for _, q := range d.Queries {
		q.Doc = d
		q.Tree, q.Mentions, q.Err = standIn(cmp.Or(q.parsed, q.Node.Value))
		if q.Role == InPanel {
			d.panels[q.panelPath()] = append(d.panels[q.panelPath()], q)
		}
	}
	return d, nil
}

// collect finds the queries of a file.
func collect(name string, data []byte) (*Document, error) {
	d := &Document{Name: name, Data: data, starts: lineStarts(data)}
	roots, err := parse(data)
	if err != nil {
		return nil, d.wrap(err)
	}
	for i, root := range roots {
		path := ""
		if len(roots) > 1 {
			path = fmt.Sprintf("/%d", i)
		}
		if err := d.root(root, path); err != nil {
			return nil, d.wrap(err)
		}
	}
	if len(d.Queries) == 0 {
		return nil, hint.With(fmt.Errorf("%s: %w in it", name, ErrUnrelated),
			"give groups of rules, a PrometheusRule, VMRule or ScaledObject, or a dashboard as Grafana or Perses exports it, also in a ConfigMap")
	}
	return d, nil
}

// root reads one value of a file: rules, or else a dashboard, which has a panel with a query.
func (d *Document) root(n *Node, path string) error {
	before := len(d.Queries)
	err := d.rules(n, path)
	if len(d.Queries) > before {
		return err
	}
	wrong := d.dashboard(n, path)
	if slices.ContainsFunc(d.Queries[before:], func(q *Query) bool { return q.Role == InPanel }) {
		return wrong
	}
	d.Queries = d.Queries[:before]
	return err
}

// IsTemplate reports whether a file has to be rendered before it can be read, as those
// of a chart have.
func IsTemplate(data []byte) bool {
	_, err := parse(data)
	return err != nil && bytes.Contains(data, []byte("{{"))
}

// wrap puts the file's name before an error, and keeps its hint.
func (d *Document) wrap(err error) error {
	var at *syntaxError
	if errors.As(err, &at) {
		return hint.Or(fmt.Errorf("%s:%w", d.Name, err), "correct the line, or leave the file out")
	}
	return hint.Or(fmt.Errorf("%s: %w", d.Name, err), "check that it is the file you meant")
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func (d *Document) errorAt(n *Node, format string, args ...any) error {
	return errorAt(d.Data, d.starts, n.offset, fmt.Sprintf(format, args...))
}

func (d *Document) wrongKindError(n *Node, what string, want kind) error {
	return d.errorAt(n, "%s is %s, want %s", what, n.kind, want)
}

// rules finds groups of rules wherever they are: at the top of a Prometheus,
// Mimir or VictoriaMetrics file, in the spec of a custom resource, in a chart's
// values, and in the texts of a ConfigMap.
func (d *Document) rules(n *Node, path string) error {
	switch n.kind {
	case object:
		switch n.Get("kind").Str() {
		case "CustomResourceDefinition": // whose schema has groups too
			return nil
		case "ConfigMap":
			return d.configMap(n, path)
		case "ScaledObject", "ScaledJob":
			d.scaler(n, path+"/spec/triggers")
			return nil
		}
		if n.Get("seriesQuery") != nil {
			d.adapter(n, path)
			return nil
		}
		for _, f := range n.fields {
			p := path + "/" + escape(f.Key)
			if f.Key != "groups" {
				if err := d.rules(f.Value, p); err != nil {
					return err
				}
				continue
			}
			if f.Value.kind != list && f.Value.kind != null {
				return d.wrongKindError(f.Value, "groups", list)
			}
			for i, g := range f.Value.items {
				if err := d.group(g, fmt.Sprintf("%s/%d", p, i)); err != nil {
					return err
				}
			}
		}
	case list:
		for i, item := range n.items {
			if err := d.rules(item, fmt.Sprintf("%s/%d", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// configMap reads the files inside a ConfigMap.
func (d *Document) configMap(n *Node, path string) error {
	for _, f := range n.Get("data").Fields() {
		if f.Value.kind == text {
			if err := d.embedded(f, path+"/data"); err != nil {
				return err
			}
		}
	}
	return nil
}

// embedded reads the file inside a string. Its findings name the line where their
// expression stands, and nothing in it is repaired.
func (d *Document) embedded(f Field, at string) error {
	sub, err := collect(f.Key, []byte(f.Value.Value))
	if err != nil {
		var wrong *syntaxError
		if errors.As(err, &wrong) && slices.Contains([]string{".yaml", ".yml", ".json", ".rules"}, path.Ext(f.Key)) {
			return d.errorAt(f.Value, "data %s: %s", f.Key, wrong.Error())
		}
		return nil // of another kind
	}
	for _, q := range sub.Queries {
		out := &Node{kind: text, Value: q.Node.Value, offset: f.Value.offset, aside: true}
		for range strings.Count(f.Value.Value[:min(q.Node.offset, len(f.Value.Value))], "\n") { // a block's lines are the file's
			if next := bytes.IndexByte(d.Data[out.offset:], '\n'); next >= 0 && d.Data[f.Value.offset] != '"' {
				out.offset += next + 1
			}
		}
		q.Pointer, q.Node = at+"/"+escape(f.Key)+"#"+q.Pointer, out
		d.Queries = append(d.Queries, q)
	}
	return nil
}

func (d *Document) group(g *Node, path string) error {
	if g.kind != object {
		return d.wrongKindError(g, "a group of rules", object)
	}
	rules := g.Get("rules")
	if rules == nil || rules.kind == null {
		return nil
	}
	if rules.kind != list {
		return d.wrongKindError(rules, "rules", list)
	}
	for i, r := range rules.items {
		if err := d.rule(r, fmt.Sprintf("%s/rules/%d", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Document) rule(r *Node, path string) error {
	if r.kind != object {
		return d.wrongKindError(r, "a rule", object)
	}
	expr := r.Get("expr")
	if expr == nil {
		if r.Get("data") != nil {
			return d.managed(r, path)
		}
		return d.errorAt(r, "a rule without expr")
	}
	if expr.kind != text && expr.kind != other {
		return d.wrongKindError(expr, "expr", text)
	}
	for _, key := range []string{"alert", "record"} {
		if v := r.Get(key); v != nil && v.kind != text {
			return d.wrongKindError(v, key, text)
		}
	}
	q := &Query{Node: expr, Pointer: path + "/expr", Rule: r}
	switch {
	case r.Get("alert") != nil:
		q.Role, q.Name = Alert, r.Get("alert").Str()
		q.Where = "alert " + q.Name
	case r.Get("record") != nil:
		q.Role, q.Name = Record, r.Get("record").Str()
		q.Where = "recording rule " + q.Name
	default:
		return d.errorAt(r, "a rule with neither alert nor record")
	}
	d.Queries = append(d.Queries, q)
	return nil
}
