// Package audit looks for what a deployment's monitoring lacks and for what in
// it is broken: a linter of alerting and recording rules, dashboards and
// autoscalers against what inference servers really expose, and a checklist of
// what should be measured.
//
// A check is a value in a file of its own, check_*.go. Every expression is parsed
// once and walked once; the walk hands each node to the checks that look at nodes
// of its kind. What is known of an expression (its unit, its bounds, its labels)
// is inferred from the catalogue and PromQL's own rules (fact.go), never from
// titles, texts or colours.
//
// The package is pure: bytes and values in, findings and bytes out. Package cli
// reads the files and asks the servers.
package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/catalog"
)

// Severities: page is for what does not work at all, ticket for what shows or does something else
// than it says, info for what is fragile.
const (
	page   = catalog.Page
	ticket = catalog.Ticket
	info   = catalog.Info
)

// A Check is one thing that the linter looks for.
type Check struct {
	ID       string // word-like and stable: "missing-le"
	Severity catalog.Severity
	Title    string // what it finds, one line
	Doc      string // why that is a fault, and what to do

	// Bad holds the fault and Good does not. Each is a panel's query; an alert's
	// expression behind "alert: "; or, of several lines, a file.
	Bad, Good string

	roles []role // of the queries that it looks at, nil for all

	query     func(*pass) // the whole query
	selector  func(*pass, *parser.VectorSelector)
	matrix    func(*pass, *parser.MatrixSelector)
	aggregate func(*pass, *parser.AggregateExpr)
	call      func(*pass, *parser.Call)
	binary    func(*pass, *parser.BinaryExpr)
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

	// Doubt says that the files do not tell whether it is one: a deployment may add
	// a label, another program may have the name. It is never an error.
	Doubt bool `json:"doubt,omitempty"`

	edit *edit
}

// An edit replaces bytes of a decoded string.
type edit struct {
	node       *node
	start, end int
	text       string
}

// A pass is one check's look at one node of a query.
type pass struct {
	*query
	*files
	surface *Surface
	path    []parser.Node // that leads to the node
	check   *Check
	out     *[]Finding
}

// files are what all files say together.
type files struct {
	docs    []*document
	records map[string]*query // recording rules by name, nil where several rules have one
	words   map[string]bool   // words of all expressions: names of metrics and labels
}

// suggestion is a repair: in words and, where it changes no value, as edits.
type suggestion struct {
	words string
	edit  *edit
}

func advice(words string) suggestion { return suggestion{words: words} }

// report adds a finding about a range of the expression.
func (p *pass) report(at posrange.PositionRange, why string, fix suggestion) {
	p.reportAs(p.check.Severity, at, why, fix)
}

func (p *pass) reportAs(severity catalog.Severity, at posrange.PositionRange, why string, fix suggestion) {
	start, end := int(at.Start), int(at.End)
	if expr := p.node.value; start < 0 || end > len(expr) || start >= end {
		start, end = 0, len(expr)
	}
	p.add(Finding{Severity: severity, Fragment: p.node.value[start:end], Why: why, Fix: fix.words, edit: fix.edit}, p.node, start)
}

// doubt adds a finding that is one only where the files do not tell, and says what it hangs on.
func (p *pass) doubt(at posrange.PositionRange, why, but string, fix suggestion) {
	p.add(Finding{Severity: catalog.Info, Doubt: true, Fragment: p.node.value[at.Start:at.End], Why: why + "; " + but, Fix: fix.words},
		p.node, int(at.Start))
}

// reportText adds a finding about a string beside the expression, such as an annotation or a unit.
func (p *pass) reportText(n *node, why string, fix suggestion) {
	fragment := p.node.value
	if n != nil {
		fragment = n.value
	}
	if n == nil || p.node.offset < 0 { // the rule stands in a string of another file
		n = p.node
	}
	p.add(Finding{Severity: p.check.Severity, Fragment: fragment, Why: why, Fix: fix.words, edit: fix.edit}, n, 0)
}

func (p *pass) add(f Finding, n *node, start int) {
	f.Check, f.File, f.Path, f.Where = p.check.ID, p.file.Name, p.at, p.where
	f.Line, f.Column = n.line, n.column
	if at, ok := n.source(p.file.Data); ok {
		f.Line, f.Column = n.place(p.file.Data, p.doc.starts, at[start])
	}
	if p.file.Remote {
		f.Line, f.Column, f.edit = 0, 0, nil
	}
	if f.edit != nil {
		_, f.Fixable = f.edit.node.source(p.file.Data)
	}
	if !f.Fixable {
		f.edit = nil
	}
	*p.out = append(*p.out, f)
}

// Lint judges files against a surface, without the checks that are to be
// ignored. A file that cannot be read is an error of its own; the others are
// judged.
func Lint(all []File, s *Surface, ignore ...string) ([]Finding, []error) {
	fs := &files{records: map[string]*query{}, words: map[string]bool{}}
	var errs []error
	for i := range all {
		d, err := read(&all[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fs.docs = append(fs.docs, d)
	}
	for _, d := range fs.docs {
		d.panels = map[string][]*query{}
		for _, q := range d.queries {
			if q.doc = d; q.role == panelRole {
				d.panels[q.panelPath()] = append(d.panels[q.panelPath()], q)
			}
			if _, twice := fs.records[q.name]; q.role == recordRole {
				if fs.records[q.name] = q; twice {
					fs.records[q.name] = nil
				}
			}
			for w := range strings.FieldsFuncSeq(q.node.value, func(r rune) bool { return r > 127 || !isWord(byte(r)) && r != ':' }) {
				fs.words[w] = true
			}
		}
	}
	var out []Finding
	for _, d := range fs.docs {
		out = append(out, fs.lint(d, s, ignore)...)
	}
	return out, errs
}

// lint walks each expression of a document once.
func (fs *files) lint(d *document, s *Surface, ignore []string) []Finding {
	var out []Finding
	for _, q := range d.queries {
		var active []*pass
		for _, c := range checks {
			if (q.err != nil) == (c == &syntaxCheck) && !slices.Contains(ignore, c.ID) && (c.roles == nil || slices.Contains(c.roles, q.role)) {
				p := &pass{query: q, files: fs, surface: s, check: c, out: &out}
				if active = append(active, p); c.query != nil {
					c.query(p)
				}
			}
		}
		if q.err != nil {
			continue
		}
		parser.Inspect(q.tree, func(n parser.Node, path []parser.Node) error {
			for _, p := range active {
				p.path = path
				p.check.visit(p, n)
			}
			return nil
		})
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(b.Severity, a.Severity), cmp.Compare(orderOf(a), orderOf(b)))
	})
	return slices.CompactFunc(out, func(a, b Finding) bool {
		return a.Check == b.Check && a.Line == b.Line && a.Column == b.Column && a.Fragment == b.Fragment && a.Path == b.Path
	})
}

// orderOf is where the check of a finding stands in the list.
func orderOf(f Finding) int {
	return slices.IndexFunc(checks, func(c *Check) bool { return c.ID == f.Check })
}

func (c *Check) visit(p *pass, n parser.Node) {
	switch n := n.(type) {
	case *parser.VectorSelector:
		if c.selector != nil {
			c.selector(p, n)
		}
	case *parser.MatrixSelector:
		if c.matrix != nil {
			c.matrix(p, n)
		}
	case *parser.AggregateExpr:
		if c.aggregate != nil {
			c.aggregate(p, n)
		}
	case *parser.Call:
		if c.call != nil {
			c.call(p, n)
		}
	case *parser.BinaryExpr:
		if c.binary != nil {
			c.binary(p, n)
		}
	}
}

// Expressions counts the expressions in files that can be read.
func Expressions(all []File) int {
	n := 0
	for i := range all {
		if d, err := read(&all[i]); err == nil {
			n += len(d.queries)
		}
	}
	return n
}

// Checks lists everything that the linter looks for.
func Checks() []*Check { return slices.Clone(checks) }

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
func (q *query) opaque(start, end posrange.Pos) bool {
	return slices.ContainsFunc(q.mentions, func(m mention) bool { return m.start < int(end) && m.end > int(start) })
}

// mates are the queries of a query's panel, itself among them.
func (q *query) mates() []*query { return q.doc.panels[q.panelPath()] }
