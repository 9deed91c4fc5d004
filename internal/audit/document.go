package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/hint"
)

// A File is a file as it was read.
type File struct {
	Name string
	Data []byte
	Kind FileKind

	// Remote says that the bytes are a server's rules, put into a file to be
	// read: lines mean nothing, and nothing can be repaired.
	Remote bool
}

// A FileKind says what the user takes a file for.
type FileKind string

// The kinds of files.
const (
	Rules      FileKind = "rules"
	Dashboards FileKind = "dashboards"
	Both       FileKind = "rules and dashboards" // in documents of their own
)

// role says what a query is for.
type role uint8

const (
	alertRole role = iota
	recordRole
	panelRole
	variableRole
	scalerRole // of an autoscaler
)

// A query is one expression of a file, with what surrounds it.
type query struct {
	file  *File
	node  *node  // the expression's string
	where string // for people: `alert HighTTFT`, `panel "TTFT", query A`
	at    string // JSON pointer
	role  role
	name  string // of the alert, the recorded series or the panel

	rule  *node // the rule's mapping, nil elsewhere
	hold  time.Duration
	panel *panelContext
	vars  map[string]variable
	first bool // of its dashboard

	trigger, scaler *node // the autoscaler's trigger, and the autoscaler
	adapter         *node // the rule of prometheus-adapter
	managed         *managedAlert

	parsed   string // what is parsed instead of the node's value, of the same length; "" for the value itself
	tree     parser.Expr
	mentions []mention
	err      error // of parsing

	doc   *document
	facts map[parser.Expr]fact // of the expression's parts, as far as they were asked for
}

// A document is a file's queries.
type document struct {
	file    *File
	starts  []int
	queries []*query
	scaled  []*node             // autoscalers, whatever they look at
	panels  map[string][]*query // by the place of their panel
}

// read parses a file and collects its queries. An error names the file and,
// where it can, the line and the column.
func read(f *File) (*document, error) {
	roots, err := parse(f.Data)
	if err != nil {
		return nil, inFile(f, err)
	}
	d := &document{file: f, starts: lineStarts(f.Data)}
	for i, root := range roots {
		path := ""
		if len(roots) > 1 {
			path = fmt.Sprintf("/%d", i)
		}
		switch f.Kind {
		case Rules:
			err = d.rules(root, path)
		case Both:
			before := len(d.queries)
			if err = d.rules(root, path); err == nil && len(d.queries) == before && root.kind == object {
				err = d.dashboard(root, path)
			}
		default:
			err = d.dashboard(root, path)
		}
		if err != nil {
			return nil, inFile(f, err)
		}
	}
	if !d.isWhat(f.Kind) {
		if f.Kind == Rules {
			return nil, hint.With(fmt.Errorf("%s: no rules in it", f.Name), "give a file with groups of rules, a PrometheusRule, VMRule or ScaledObject, or a ConfigMap of them; dashboards go with --dashboards")
		}
		return nil, hint.With(fmt.Errorf("%s: no panel with a Prometheus query in it", f.Name), "give a dashboard as Grafana or Perses exports it; rules go with --rules")
	}
	for _, q := range d.queries {
		q.file = f
		q.tree, q.mentions, q.err = standIn(cmp.Or(q.parsed, q.node.value))
	}
	return d, nil
}

// isWhat reports whether the queries are what the user takes the file for: a
// file of rules has no panels.
func (d *document) isWhat(kind FileKind) bool {
	return slices.ContainsFunc(d.queries, func(q *query) bool { return kind != Dashboards || q.role == panelRole }) ||
		kind != Dashboards && len(d.scaled) > 0
}

// KindOf tells rules from dashboards by what a file holds; "" means neither. A
// file that cannot be parsed counts as rules, so that reading it says why.
func KindOf(data []byte) FileKind {
	roots, err := parse(data)
	if err != nil {
		return Rules
	}
	found := map[FileKind]bool{}
	for _, root := range roots {
		for _, kind := range []FileKind{Rules, Dashboards} {
			d := &document{file: &File{Data: data, Kind: kind}, starts: lineStarts(data)}
			if kind == Rules {
				err = d.rules(root, "")
			} else {
				err = d.dashboard(root, "")
			}
			if d.isWhat(kind) || err != nil && kind == Rules {
				found[kind] = true
				break
			}
		}
	}
	switch {
	case found[Rules] && found[Dashboards]:
		return Both
	case found[Rules]:
		return Rules
	case found[Dashboards]:
		return Dashboards
	}
	return ""
}

// IsTemplate reports whether a file has to be rendered before it can be read, as those
// of a chart have.
func IsTemplate(data []byte) bool {
	_, err := parse(data)
	return err != nil && bytes.Contains(data, []byte("{{"))
}

// inFile puts the file's name before an error, and keeps its hint.
func inFile(f *File, err error) error {
	var at *syntaxError
	if errors.As(err, &at) {
		return hint.With(fmt.Errorf("%s:%w", f.Name, err), hintOr(err, "correct the line, or leave the file out"))
	}
	return hint.With(fmt.Errorf("%s: %w", f.Name, err), hintOr(err, "check that it is the file you meant"))
}

func hintOr(err error, otherwise string) string {
	if h := hint.Of(err); h != "" {
		return h
	}
	return otherwise
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func wrong(n *node, what string, want kind) error {
	return &syntaxError{n.line, n.column, fmt.Sprintf("%s is %s, want %s", what, n.kind, want)}
}

// rules finds groups of rules wherever they are: at the top of a Prometheus,
// Mimir or VictoriaMetrics file, in the spec of a custom resource, in a chart's
// values, and in the texts of a ConfigMap.
func (d *document) rules(n *node, path string) error {
	switch n.kind {
	case object:
		switch n.get("kind").str() {
		case "CustomResourceDefinition": // whose schema has groups too
			return nil
		case "ConfigMap":
			return d.configMap(n, path)
		case "ScaledObject", "ScaledJob", "HorizontalPodAutoscaler":
			d.scaler(n, path+"/spec/triggers")
			return nil
		}
		if n.get("seriesQuery") != nil {
			d.adapter(n, path)
			return nil
		}
		for _, f := range n.fields {
			p := path + "/" + escape(f.key)
			if f.key != "groups" {
				if err := d.rules(f.value, p); err != nil {
					return err
				}
				continue
			}
			if f.value.kind != list && f.value.kind != null {
				return wrong(f.value, "groups", list)
			}
			for i, g := range f.value.items {
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
func (d *document) configMap(n *node, path string) error {
	data := n.get("data")
	if data == nil || data.kind != object {
		return nil
	}
	for _, f := range data.fields {
		if f.value.kind != text {
			continue
		}
		if err := d.embedded(f, path+"/data"); err != nil {
			return err
		}
	}
	return nil
}

// embedded reads the file inside a string. Its findings name the line where their
// expression stands, and nothing in it is repaired.
func (d *document) embedded(f field, at string) error {
	inner := &File{Name: f.key, Data: []byte(f.value.value), Kind: d.file.Kind}
	if inner.Kind == Both {
		if inner.Kind = KindOf(inner.Data); inner.Kind == "" {
			return nil
		}
	}
	sub, err := read(inner)
	if err != nil {
		var wrong *syntaxError
		if errors.As(err, &wrong) && slices.Contains([]string{".yaml", ".yml", ".json", ".rules"}, path.Ext(f.key)) {
			return &syntaxError{f.value.line, f.value.column, fmt.Sprintf("data %s: %s", f.key, wrong.Error())}
		}
		return nil // of another kind
	}
	bytes, placed := f.value.source(d.file.Data)
	for _, q := range sub.queries {
		outer := &node{kind: text, value: q.node.value, offset: -1, line: f.value.line, column: f.value.column}
		if placed && q.node.offset >= 0 && q.node.offset < len(bytes) {
			outer.line, outer.column = position(d.file.Data, d.starts, bytes[q.node.offset])
		}
		q.at, q.node = at+"/"+escape(f.key)+"#"+q.at, outer
		if q.panel != nil {
			q.panel.unitNode = nil
		}
		d.queries = append(d.queries, q)
	}
	d.scaled = append(d.scaled, sub.scaled...)
	return nil
}

func (d *document) group(g *node, path string) error {
	if g.kind != object {
		return wrong(g, "a group of rules", object)
	}
	rules := g.get("rules")
	if rules == nil || rules.kind == null {
		return nil
	}
	if rules.kind != list {
		return wrong(rules, "rules", list)
	}
	for i, r := range rules.items {
		if err := d.rule(r, fmt.Sprintf("%s/rules/%d", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) rule(r *node, path string) error {
	if r.kind != object {
		return wrong(r, "a rule", object)
	}
	expr := r.get("expr")
	if expr == nil {
		if r.get("data") != nil {
			return d.managed(r, path)
		}
		return &syntaxError{r.line, r.column, "a rule without expr"}
	}
	if expr.kind != text && expr.kind != other {
		return wrong(expr, "expr", text)
	}
	for _, key := range []string{"alert", "record", "for"} {
		if v := r.get(key); v != nil && v.kind != text && (v.kind != other || key != "for") {
			return wrong(v, key, text)
		}
	}
	q := &query{node: expr, at: path + "/expr", rule: r}
	if v := r.get("for"); v != nil {
		hold, err := model.ParseDuration(v.scalar())
		if err != nil {
			return &syntaxError{v.line, v.column, fmt.Sprintf("for: %q is not a duration such as 5m", v.scalar())}
		}
		q.hold = time.Duration(hold)
	}
	switch {
	case r.get("alert") != nil:
		q.role, q.name = alertRole, r.get("alert").str()
		q.where = "alert " + q.name
	case r.get("record") != nil:
		q.role, q.name = recordRole, r.get("record").str()
		q.where = "recording rule " + q.name
	default:
		return &syntaxError{r.line, r.column, "a rule with neither alert nor record"}
	}
	d.queries = append(d.queries, q)
	return nil
}
