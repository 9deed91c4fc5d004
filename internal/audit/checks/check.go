// Package checks lints the expressions of rules, dashboards and autoscalers. It compares each expression with what
// inference servers really expose (a Surface): names and labels by release, buckets, types, and ranges of values.
// Checks of PromQL alone are left to pint (https://cloudflare.github.io/pint/), which queries the Prometheus server
// as well.
//
// A check is a value in a file of its subject. Every expression is walked once; the walk hands each
// node to the checks that look at nodes of its kind.
//
// The package is pure: files and a Surface in, findings and files out.
package checks

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog"
)

// Severities: page for rules and panels that do not work at all, ticket for those that show something other than they
// say, info for fragile ones.
const (
	page   = catalog.Page
	ticket = catalog.Ticket
	info   = catalog.Info
)

// A Check is one thing that the linter looks for.
type Check struct {
	ID       string // word-like and stable: "missing-le"
	Severity catalog.Severity
	Title    string // one line
	Doc      string // why that is a fault, and what to do

	query     func(*pass) // the whole query
	selector  func(*pass, *parser.VectorSelector)
	aggregate func(*pass, *parser.AggregateExpr)
	call      func(*pass, *parser.Call)
	binary    func(*pass, *parser.BinaryExpr)
}

// A Problem is one fault at one place.
type Problem struct {
	Check    string           `json:"check"`
	Severity catalog.Severity `json:"severity"`

	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // line of the fragment, from 1; 0 if the file has no lines
	Column int    `json:"column,omitempty"`
	Path   string `json:"pointer"` // JSON pointer to the string
	Where  string `json:"where"`   // the alert, the panel

	Fragment string `json:"fragment"` // the part of the expression that is meant
	Why      string `json:"why"`
	Fix      string `json:"fix"` // replacement, or advice

	// Fixable says that Fix can repair it.
	Fixable bool `json:"fixable"`

	// Doubt says that the files do not tell whether it is one: a deployment may add
	// a label, another program may have the name. It is never an error.
	Doubt bool `json:"doubt,omitempty"`

	rename *files.Rename
}

// Doubtful is the word for findings of which the files do not tell whether they are any.
const Doubtful = "doubt"

// Label is what a finding is to people: its severity, or a doubt.
func (f *Problem) Label() string {
	if f.Doubt {
		return Doubtful
	}
	return f.Severity.String()
}

// A pass is one check's look at one node of a query.
type pass struct {
	*files.Query
	*set
	surface *Surface
	path    []parser.Node // that leads to the node
	check   *Check
	out     *[]Problem
}

// A set is what the files say together.
type set struct {
	records map[string]*files.Query // recording rules by name, nil where several rules have one
}

// recorded reports whether a rule of the files records a name.
func (all *set) recorded(name string) bool {
	_, ok := all.records[name]
	return ok
}

// report adds a finding about a range of the expression, and what to write instead.
func (p *pass) report(at posrange.PositionRange, why, fix string) {
	p.reportAs(p.check.Severity, at, why, fix)
}

func (p *pass) reportAs(severity catalog.Severity, at posrange.PositionRange, why, fix string) {
	start, end := int(at.Start), int(at.End)
	if expr := p.Expr; start < 0 || end > len(expr) || start >= end {
		start, end = 0, len(expr)
	}
	p.add(Problem{Severity: severity, Fragment: p.Expr[start:end], Why: why, Fix: fix}, start)
}

// addDoubt adds a finding that is one only where the files do not tell, and says what it hangs on.
func (p *pass) addDoubt(at posrange.PositionRange, why, but, fix string) {
	p.add(Problem{Severity: info, Doubt: true, Fragment: p.Expr[at.Start:at.End], Why: why + "; " + but, Fix: fix}, int(at.Start))
}

func (p *pass) add(f Problem, start int) {
	f.Check, f.File, f.Path, f.Where = p.check.ID, p.Doc.Name, p.Pointer, p.Where
	f.Line, f.Column = p.Place(start)
	*p.out = append(*p.out, f)
}

// reportRename adds a finding about a name that has one successor, which Fix can write.
func (p *pass) reportRename(severity catalog.Severity, v *parser.VectorSelector, why, to string) {
	p.reportAs(severity, v.PositionRange(), why, "write "+to)
	start := int(v.PosRange.Start)
	if v.Name != "" && strings.HasPrefix(p.Expr[start:], v.Name) && p.CanRename() {
		f := &(*p.out)[len(*p.out)-1]
		f.Fixable, f.rename = true, &files.Rename{Query: p.Query, Start: start, Name: v.Name, To: to}
	}
}

// Lint judges files that belong together against a surface, without the checks that are
// to be ignored.
func Lint(docs []*files.Document, s *Surface, ignore ...string) []Problem {
	all := &set{records: map[string]*files.Query{}}
	for _, d := range docs {
		for _, q := range d.Queries {
			if _, twice := all.records[q.Name]; q.Role == files.Record {
				if all.records[q.Name] = q; twice {
					all.records[q.Name] = nil
				}
			}
		}
	}
	var out []Problem
	for _, d := range docs {
		out = append(out, all.lint(d, s, ignore)...)
	}
	return out
}

// lint walks each expression of a document once.
func (all *set) lint(d *files.Document, s *Surface, ignore []string) []Problem {
	var out []Problem
	for _, q := range d.Queries {
		var active []*pass
		for _, c := range checks {
			if (q.Err != nil) == (c == &syntaxCheck) && !slices.Contains(ignore, c.ID) {
				p := &pass{Query: q, set: all, surface: s, check: c, out: &out}
				if active = append(active, p); c.query != nil {
					c.query(p)
				}
			}
		}
		if q.Err != nil {
			continue
		}
		parser.Inspect(q.Tree, func(n parser.Node, path []parser.Node) error {
			for _, p := range active {
				p.path = path
				p.check.visit(p, n)
			}
			return nil
		})
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(b.Severity, a.Severity), cmp.Compare(orderOf(a), orderOf(b)))
	})
	return slices.CompactFunc(out, func(a, b Problem) bool {
		return a.Check == b.Check && a.Line == b.Line && a.Column == b.Column && a.Fragment == b.Fragment && a.Path == b.Path
	})
}

// orderOf is where the check of a finding stands in the list.
func orderOf(f Problem) int {
	return slices.IndexFunc(checks, func(c *Check) bool { return c.ID == f.Check })
}

func (c *Check) visit(p *pass, n parser.Node) {
	switch n := n.(type) {
	case *parser.VectorSelector:
		if c.selector != nil {
			c.selector(p, n)
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

// checks are everything that the linter looks for.
var checks = []*Check{
	&syntaxCheck,
	&unknownMetric, &removedMetric, &notExposed, &histogramName, &unknownLabel, &unknownLabelValue,
	&missingLe, &addedBuckets, &noSuchBucket, &bucketEdge, &averageOfPercentiles,
	&rateOnGauge, &rawCounter, &deltaOnCounter, &ratioSummed, &impossibleThreshold, &alertCondition, &internalEvent, &scalingWrong,
}

// Checks lists everything that the linter looks for.
func Checks() []*Check { return slices.Clone(checks) }

// Fix writes the successors of renamed metrics into a file, and returns it with how many that were; none where it
// cannot be told that the file would read as intended.
func Fix(d *files.Document, findings []Problem) (fixed *files.Document, repaired int) {
	var all []files.Rename
	for _, f := range findings {
		if f.File == d.Name && f.rename != nil {
			all = append(all, *f.rename)
		}
	}
	if out := d.Rename(all); out != nil {
		return out, len(all)
	}
	return d, 0
}
