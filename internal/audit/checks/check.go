// Package checks lints the expressions of rules, dashboards and autoscalers. It compares each expression with what
// inference servers really expose (a Surface): names and labels by release, buckets, types, and ranges of values.
// Checks of PromQL alone are left to pint (https://cloudflare.github.io/pint/), which queries the Prometheus server
// as well.
//
// A check is a value in a file of its subject. Every expression is walked once; the walk hands each
// node to every check.
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

	// look looks at one node of a query; see on and onQuery. It is nil where another check's finds both.
	look func(*pass, parser.Node)
}

// on makes a look at nodes of one kind.
func on[N parser.Node](look func(*pass, N)) func(*pass, parser.Node) {
	return func(p *pass, n parser.Node) {
		if n, ok := n.(N); ok {
			look(p, n)
		}
	}
}

// onQuery makes a look at a whole query.
func onQuery(look func(*pass)) func(*pass, parser.Node) {
	return func(p *pass, _ parser.Node) {
		if len(p.path) == 0 {
			look(p)
		}
	}
}

// A Problem is one fault at one place.
type Problem struct {
	Check    string           `json:"check"`
	Severity catalog.Severity `json:"severity"`

	File  string `json:"file"`
	Line  int    `json:"line,omitempty"` // line of the fragment, from 1; 0 if the file has no lines
	Where string `json:"where"`          // the alert, the panel

	Fragment string `json:"fragment"` // the part of the expression that is meant
	Why      string `json:"why"`
	Fix      string `json:"fix"` // replacement, or advice

	// Fixable says that Fix can repair it.
	Fixable bool `json:"fixable"`

	// Doubt says that the files do not tell whether it is one: a deployment may add
	// a label, another program may have the name. It is never an error.
	Doubt bool `json:"doubt,omitempty"`

	start  int // of the fragment in the expression
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
	surface *Surface
	records map[string]*files.Query // recording rules of all files by name, nil where several rules have one
	path    []parser.Node           // that leads to the node
	check   *Check
	found   []Problem
}

// recorded reports whether a rule of the files records a name.
func (p *pass) recorded(name string) bool {
	_, ok := p.records[name]
	return ok
}

// whole is the range of the whole expression.
func (p *pass) whole() posrange.PositionRange {
	return posrange.PositionRange{End: posrange.Pos(len(p.Expr))}
}

// report adds a finding about a range of the expression, and what to write instead.
func (p *pass) report(at posrange.PositionRange, why, fix string) *Problem {
	start, end := int(at.Start), int(at.End)
	if start < 0 || end > len(p.Expr) || start >= end {
		start, end = 0, len(p.Expr)
	}
	p.found = append(p.found, Problem{
		Check: p.check.ID, Severity: p.check.Severity, File: p.Doc.Name, Line: p.Line(start),
		Where: p.Where, Fragment: p.Expr[start:end], Why: why, Fix: fix, start: start,
	})
	return &p.found[len(p.found)-1]
}

// addDoubt adds a finding that is one only where the files do not tell, and says what it hangs on.
func (p *pass) addDoubt(at posrange.PositionRange, why, but, fix string) {
	f := p.report(at, why+"; "+but, fix)
	f.Severity, f.Doubt = info, true
}

// reportRename adds a finding about a name that has one successor, which Fix can write.
func (p *pass) reportRename(v *parser.VectorSelector, why, to string) {
	f := p.report(v.PositionRange(), why, "write "+to)
	f.Severity = page
	if v.Name != "" && strings.HasPrefix(p.Expr[v.PosRange.Start:], v.Name) && p.CanRename() {
		f.Fixable, f.rename = true, &files.Rename{Query: p.Query, Name: v.Name, To: to}
	}
}

// Lint judges files that belong together against a surface, without the checks that are
// to be ignored.
func Lint(docs []*files.Document, s *Surface, ignore ...string) (out []Problem) {
	records := map[string]*files.Query{}
	for _, d := range docs {
		for _, q := range d.Queries {
			if _, twice := records[q.Name]; q.Role == files.Record {
				if records[q.Name] = q; twice {
					records[q.Name] = nil
				}
			}
		}
	}
	for _, d := range docs {
		var found []Problem
		for _, q := range d.Queries {
			p := &pass{Query: q, surface: s, records: records}
			found = append(found, p.lint(ignore)...)
		}
		slices.SortStableFunc(found, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
		out = append(out, found...)
	}
	return out
}

// lint walks the query once.
func (p *pass) lint(ignore []string) []Problem {
	if p.Tree == nil {
		return nil
	}
	parser.Inspect(p.Tree, func(n parser.Node, path []parser.Node) error {
		for _, c := range checks {
			if p.check, p.path = c, path; n != nil && c.look != nil {
				c.look(p, n)
			}
		}
		return nil
	})
	found := slices.DeleteFunc(p.found, func(f Problem) bool { return slices.Contains(ignore, f.Check) })
	slices.SortStableFunc(found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.Severity, a.Severity))
	})
	return found
}

// checks are everything that the linter looks for.
var checks = []*Check{
	&unknownMetric, &removedMetric, &notExposed, &histogramName, &unknownLabel,
	&missingLe, &addedBuckets, &noSuchBucket, &bucketEdge, &averageOfPercentiles,
	&rateOnGauge, &rawCounter, &deltaOnCounter, &ratioSummed, &impossibleThreshold, &alertCondition, &internalEvent,
	&scalingWrong,
}

// Checks lists everything that the linter looks for.
func Checks() []*Check { return slices.Clone(checks) }

// Fix writes the successors of renamed metrics into a file, and returns it with how many that were; none where it
// cannot be told that the file would read as intended.
func Fix(d *files.Document, findings []Problem) (fixed *files.Document, repaired int) {
	var all []files.Rename
	for _, f := range findings {
		if f.File != d.Name || f.rename == nil {
			continue
		}
		if repaired++; !slices.Contains(all, *f.rename) {
			all = append(all, *f.rename)
		}
	}
	if out := d.Rename(all); out != nil {
		return out, repaired
	}
	return d, 0
}
