// Package audit looks for what a deployment's monitoring lacks and for what in
// it is broken: a linter of alerting and recording rules and of dashboards
// against what inference servers really expose, and a checklist of what should
// be measured.
//
// Rules are Prometheus' groups, wherever they stand (plain files, custom
// resources, Mimir namespaces, VictoriaMetrics, ConfigMaps); dashboards are
// Grafana's and Perses'. PromQL is judged on its syntax tree. A finding says
// where, why, and what to write instead; Fix changes the strings concerned and
// nothing else of a file.
//
// The package is pure: bytes and values in, findings and bytes out. Package cli
// reads the files and asks the servers.
package audit

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/catalog"
)

// A Check is one thing that the linter looks for.
type Check struct {
	ID       string // word-like and stable: "missing-le"
	Severity catalog.Severity
	Doc      string // what it finds, one sentence
	run      func(*pass)
}

// A Finding is one fault at one place.
type Finding struct {
	Check    string           `json:"check"`
	Severity catalog.Severity `json:"severity"`

	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // of the fragment, from 1; 0 where the file has none
	Column int    `json:"column,omitempty"`
	Path   string `json:"pointer"` // JSON pointer to the string
	Where  string `json:"where"`   // the alert, the panel

	Fragment string `json:"fragment"` // the part of the expression that is meant
	Why      string `json:"why"`
	Fix      string `json:"fix"` // what to write instead, or what to do

	// Fixable says that Fix can repair it.
	Fixable bool `json:"fixable"`

	// Doubt says that nobody can tell from the files whether it is one: a deployment may
	// add a label, have one server or one model. It is told for information and is never
	// an error; Why says what it hangs on.
	Doubt bool `json:"doubt,omitempty"`

	edits []edit
	node  *node
}

// An edit replaces bytes of a decoded string.
type edit struct {
	node       *node
	start, end int
	text       string
}

// pass is one check's look at one query.
type pass struct {
	*query
	surface *Surface
	records map[string]*query // recording rules of all files, by name
	asked   map[string]bool   // names of series that some expression asks for
	bounded map[*query]bounds // of recording rules, as far as they were asked for
	several map[string]bool   // names that several rules record
	depth   int               // of recording rules that read one another
	beside  *beside           // what the file's queries say together
	before  *query            // the one before it, nil for the first
	router  bool              // some file reads what only a router exposes
	models  bool              // some file tells models apart
	vllm    bool              // some file asks for vLLM's metrics
	absent  bool              // some alert asks for what is not there, or is down
	starts  []int
	check   *Check
	out     *[]Finding
}

// suggestion is a repair: in words and, where it is mechanical, as edits.
type suggestion struct {
	words string
	edits []edit
}

func advice(words string) suggestion { return suggestion{words: words} }

// report adds a finding about a range of the expression.
func (p *pass) report(at posrange.PositionRange, why string, fix suggestion) {
	p.reportAs(p.check.Severity, at, why, fix)
}

func (p *pass) reportAs(severity catalog.Severity, at posrange.PositionRange, why string, fix suggestion) {
	start, end := int(at.Start), int(at.End)
	expr := p.node.value
	if start < 0 || end > len(expr) || start >= end {
		start, end = 0, len(expr)
	}
	p.add(Finding{Severity: severity, Fragment: expr[start:end], Why: why, Fix: fix.words, edits: fix.edits}, p.node, start)
}

// doubt adds a finding that is one only where what but says holds, which the files do not
// tell.
func (p *pass) doubt(at posrange.PositionRange, why, but string, fix suggestion) {
	p.add(Finding{Severity: catalog.Info, Doubt: true, Fragment: p.node.value[at.Start:at.End], Why: why + "; " + but, Fix: fix.words},
		p.node, int(at.Start))
}

// reportUnit adds a finding about the panel's unit.
func (p *pass) reportUnit(why string, fix suggestion) {
	n := p.panel.unitNode
	if n == nil {
		n = p.node
	}
	p.add(Finding{Severity: p.check.Severity, Fragment: n.value, Why: why, Fix: fix.words, edits: fix.edits}, n, 0)
}

// reportText adds a finding about a range of a text of the rule, such as an annotation.
func (p *pass) reportText(n *node, start, end int, why, fix string) {
	fragment := n.value[start:end]
	if p.node.offset < 0 { // the rule stands in a string of another file
		n, start = p.node, 0
	}
	p.add(Finding{Severity: p.check.Severity, Fragment: fragment, Why: why, Fix: fix}, n, start)
}

func (p *pass) add(f Finding, n *node, start int) {
	f.Check, f.File, f.Path, f.Where, f.node = p.check.ID, p.file.Name, p.path, p.where, p.node
	f.Line, f.Column = n.line, n.column
	if at, ok := n.source(p.file.Data); ok {
		f.Line, f.Column = n.place(p.file.Data, p.starts, at[start])
	}
	for _, e := range f.edits {
		if _, ok := e.node.source(p.file.Data); !ok {
			f.edits = nil
		}
	}
	if p.file.Remote {
		f.Line, f.Column, f.edits = 0, 0, nil
	}
	f.Fixable = len(f.edits) > 0
	*p.out = append(*p.out, f)
}

// replace is an edit of a range of the expression.
func (p *pass) replace(at posrange.PositionRange, text string) edit {
	return edit{p.node, int(at.Start), int(at.End), text}
}

// Lint judges files against a surface, without the checks that are to be
// ignored. A file that cannot be read is an error of its own; the others are
// judged.
func Lint(files []File, s *Surface, ignore ...string) ([]Finding, []error) {
	var docs []*document
	var errs []error
	for i := range files {
		d, err := read(&files[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		docs = append(docs, d)
	}
	all := pass{
		surface: s, records: map[string]*query{}, several: map[string]bool{}, asked: map[string]bool{},
		bounded: map[*query]bounds{},
	}
	for _, d := range docs {
		for _, q := range d.queries {
			if q.role == recordRole {
				all.several[q.name] = all.records[q.name] != nil
				all.records[q.name] = q
			}
			if q.tree != nil {
				for _, v := range selectors(q.tree) {
					all.asked[nameOf(v)] = true
				}
			}
			all.models = all.models || q.tellsModelsApart()
			all.vllm = all.vllm || q.tree != nil && slices.ContainsFunc(selectors(q.tree), ofVLLM)
			all.absent = all.absent || q.role == alertRole && q.tree != nil && asksForAbsence(q.tree)
			all.router = all.router || q.tree != nil && slices.ContainsFunc(selectors(q.tree),
				func(v *parser.VectorSelector) bool {
					_, f := classOf(nameOf(v))
					return isRouters(f) && !taken(f)
				})
		}
	}
	var out []Finding
	for _, d := range docs {
		out = append(out, d.lint(all, ignore)...)
	}
	return out, errs
}

// Expressions counts the expressions in files that can be read.
func Expressions(files []File) int {
	n := 0
	for i := range files {
		if d, err := read(&files[i]); err == nil {
			n += len(d.queries)
		}
	}
	return n
}

func (d *document) lint(all pass, ignore []string) []Finding {
	var out []Finding
	all.beside = d.beside()
	for at, q := range d.queries {
		if all.before = nil; at > 0 {
			all.before = d.queries[at-1]
		}
		for i := range checks {
			c := &checks[i]
			if (q.err != nil) != (c.ID == syntaxID) || slices.Contains(ignore, c.ID) {
				continue
			}
			p := all
			p.query, p.starts, p.check, p.out = q, d.starts, c, &out
			c.run(&p)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(b.Severity, a.Severity))
	})
	return slices.CompactFunc(out, func(a, b Finding) bool {
		return a.Check == b.Check && a.Line == b.Line && a.Column == b.Column && a.Fragment == b.Fragment && a.Path == b.Path
	})
}

// Checks lists everything that the linter looks for.
func Checks() []Check { return slices.Clone(checks) }

// walk visits the nodes of the query with the path that leads to each.
func (p *pass) walk(fn func(n parser.Node, path []parser.Node)) {
	parser.Inspect(p.tree, func(n parser.Node, path []parser.Node) error {
		if n != nil {
			fn(n, path)
		}
		return nil
	})
}

// text returns what the user wrote for a node.
func (p *pass) text(n parser.Node) string {
	at := n.PositionRange()
	if int(at.End) > len(p.node.value) || at.Start >= at.End {
		return n.String()
	}
	return p.node.value[at.Start:at.End]
}

// opaque reports whether a range of the expression holds a variable, so that
// nobody can tell what it will be.
func (p *pass) opaque(start, end posrange.Pos) bool {
	return slices.ContainsFunc(p.mentions, func(m mention) bool { return m.start < int(end) && m.end > int(start) })
}
