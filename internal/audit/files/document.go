// Package files reads the files that an audit is of: rules of Prometheus, Mimir and
// VictoriaMetrics, dashboards of Grafana and Perses, alerts that Grafana manages, and what
// autoscalers ask for (KEDA), also written into other files (ConfigMaps,
// custom resources, a chart's values). Every expression is found with its place, so that it can
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
	Pointer string // JSON pointer
	Role    Role
	Name    string // name of the alert, the recorded series or the panel
	Kind    string // type of the panel

	Runbook string // the alert's runbook_url
	Alone   bool   // the autoscaler asks nothing but Prometheus
	Managed *ManagedAlert

	Tree     parser.Expr
	Mentions []Mention
	Err      error // parse error

	offset int  // in the file, of the string's first byte, quotes included
	aside  bool // it is written elsewhere, and can only be pointed at: by an alias, in a string of another file

	parsed string // parsed instead of Expr, with the same length; "" means Expr
	panel  string // position of its panel
}

// IsRule reports whether a query must be PromQL: a rule's, or a scaler's. A dashboard's may be in another datasource's
// language, or have variables that nobody can fill in here.
func (q *Query) IsRule() bool { return q.Role != InPanel && q.Role != InVariable && q.Managed == nil }

// Opaque reports whether a range of the expression holds a variable, so that
// nobody can tell what it will be.
func (q *Query) Opaque(start, end posrange.Pos) bool {
	return slices.ContainsFunc(q.Mentions, func(m Mention) bool { return m.Start < int(end) && m.End > int(start) })
}

// A Document is a file that was read, with its queries.
type Document struct {
	Name string
	Data []byte

	// Remote says that these are a server's rules: there are no lines, and nothing can be repaired.
	Remote bool

	Queries []*Query

	lines []int // offsets at which lines begin, as the YAML library counts them
}

// ErrUnrelated is wrapped by the error of a file that can be read and has nothing to audit.
var ErrUnrelated = errors.New("neither rules nor a dashboard")

// Read parses a file and collects its queries. An error names the file and, where it can, the line
// and the column.
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
	d := &Document{Name: name, Data: data, lines: []int{0}}
	for _, end := range lineBreaks.FindAllIndex(data, -1) {
		d.lines = append(d.lines, end[1])
	}
	roots, err := parse(data)
	var syntax *json.SyntaxError
	if err != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && errors.As(json.Unmarshal(data, new(any)), &syntax) { // the YAML library does not tell the line
		line, column := d.position(int(syntax.Offset) - 1)
		return nil, hint.With(fmt.Errorf("%s:%d:%d: not JSON: %w", name, line, column, syntax), cmp.Or(hint.Of(err), "correct the line, or leave the file out"))
	}
	if err != nil {
		return nil, hint.Or(fmt.Errorf("%s: %w", name, err), "check that it is the file you meant")
	}
	for i, root := range roots {
		at := ""
		if len(roots) > 1 {
			at = fmt.Sprintf("/%d", i)
		}
		d.variables(root, at)
		if err := d.walk(root, at, nil); err != nil {
			return nil, hint.Or(fmt.Errorf("%s:%w", name, err), "correct the line, or leave the file out")
		}
	}
	if !slices.ContainsFunc(d.Queries, func(q *Query) bool { return q.Role != InVariable }) {
		return nil, hint.With(fmt.Errorf("%s: %w in it", name, ErrUnrelated),
			"give groups of rules, a PrometheusRule, VMRule or ScaledObject, or a dashboard as Grafana or Perses exports it, also in a ConfigMap")
	}
	return d, nil
}

// lineBreaks end lines as the YAML library counts them: more of them than an editor shows.
var lineBreaks = regexp.MustCompile(`\r\n|[\r\n\x{85}\x{2028}\x{2029}]`)

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
	data = surrogates.ReplaceAllFunc(data, func(b []byte) []byte { return bytes.Repeat([]byte("?"), len(b)) }) // only texts for people have them
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF) && len(roots) == 0:
			return nil, errors.New("empty")
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil && IsTemplate(data):
			return nil, hint.With(fmt.Errorf("not YAML: %w", err), "render templates before, such as with helm template; quote texts that contain {{")
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

func (d *Document) errorAt(n *yaml.Node, format string, args ...any) error {
	line, column := d.position(d.offsetOf(n))
	return fmt.Errorf("%d:%d: %s", line, column, fmt.Sprintf(format, args...))
}

// want returns an error where a node that is there is of another kind.
func (d *Document) want(n *yaml.Node, what, kind string) error {
	if got := kindOf(n); got != kind && got != "nothing" {
		return d.errorAt(n, "%s is %s, want %s", what, got, kind)
	}
	return nil
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// walk finds the queries under a node, whatever its nesting: groups of rules at the top of a file, in the spec of a
// custom resource or in a chart's values, and panels in rows, in panels or by name. in is the panel that surrounds
// the node.
func (d *Document) walk(n *yaml.Node, at string, in *panel) error {
	for i, item := range items(n) {
		if err := d.walk(item, fmt.Sprintf("%s/%d", at, i), in); err != nil {
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
		d.scaler(n, at+"/spec/triggers")
		return nil
	}
	if p := panelOf(n, at); p != nil {
		in = p
	}
	if err := d.target(n, at, in); err != nil {
		return err
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i].Value, n.Content[i+1]
		p, err := at+"/"+escape(key), error(nil)
		switch {
		case key == "groups" && in == nil:
			err = d.groups(v, p)
		case kind == "ConfigMap" && key == "data":
			for k := 0; k+1 < len(v.Content); k += 2 {
				err = cmp.Or(err, d.embedded(v.Content[k].Value, v.Content[k+1], p))
			}
		case holdsBoard(key, v):
			err = d.embedded(key, v, at)
		default:
			err = d.walk(v, p, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// embedded reads the file inside a string. Its findings name the line where their expression stands, and nothing in
// it is repaired.
func (d *Document) embedded(name string, n *yaml.Node, at string) error {
	sub, err := collect(name, []byte(str(n)))
	if err != nil {
		if !errors.Is(err, ErrUnrelated) && slices.Contains([]string{".yaml", ".yml", ".json", ".rules"}, path.Ext(name)) && str(n) != "" {
			return d.errorAt(n, "data %s", err)
		}
		return nil // data of another kind
	}
	for _, q := range sub.Queries {
		begin, lines := d.offsetOf(n), bytes.Count(sub.Data[:q.offset], []byte("\n"))
		q.offset, q.aside = begin, true
		for range lines { // a block's lines are the file's
			if next := bytes.IndexByte(d.Data[q.offset:], '\n'); next >= 0 && d.Data[begin] != '"' {
				q.offset += next + 1
			}
		}
		q.Pointer, q.panel = at+"/"+escape(name)+"#"+q.Pointer, name+q.panel
		d.Queries = append(d.Queries, q)
	}
	return nil
}

// groups reads groups of rules.
func (d *Document) groups(n *yaml.Node, at string) error {
	if err := d.want(n, "groups", "a list"); err != nil {
		return err
	}
	for i, g := range items(n) {
		if err := cmp.Or(d.want(g, "a group of rules", "a mapping"), d.want(get(g, "rules"), "rules", "a list")); err != nil {
			return err
		}
		for k, r := range items(get(g, "rules")) {
			if err := d.rule(r, fmt.Sprintf("%s/%d/rules/%d", at, i, k)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Document) rule(r *yaml.Node, at string) error {
	expr, alert, record := get(r, "expr"), get(r, "alert"), get(r, "record")
	if expr == nil && get(r, "data") != nil {
		return d.managed(r, at)
	}
	if err := cmp.Or(d.want(r, "a rule", "a mapping"), d.want(alert, "alert", "a string"), d.want(record, "record", "a string")); err != nil {
		return err
	}
	q := &Query{Pointer: at + "/expr", Role: Alert, Name: str(alert), Where: "alert " + str(alert), Runbook: str(r, "annotations", "runbook_url")}
	switch {
	case expr == nil:
		return d.errorAt(r, "a rule without expr")
	case expr.Kind != yaml.ScalarNode && expr.Kind != yaml.AliasNode:
		return d.want(expr, "expr", "a string")
	case alert == nil && record == nil:
		return d.errorAt(r, "a rule with neither alert nor record")
	case alert == nil:
		q.Role, q.Name, q.Where = Record, str(record), "recording rule "+str(record)
	}
	d.add(q, expr)
	return nil
}

// add adds a query whose expression a node holds.
func (d *Document) add(q *Query, n *yaml.Node) {
	q.Expr, q.offset, q.aside = scalar(n), d.offsetOf(n), n.Kind == yaml.AliasNode
	d.Queries = append(d.Queries, q)
}
