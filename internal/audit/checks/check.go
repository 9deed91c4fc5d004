// Package checks lints the PromQL of rules, dashboards and autoscalers: it compares each expression with what inference
// servers expose.
//
// The input is files.Documents, whose queries are parsed, and a Surface: names, labels, bucket edges and dialects of
// the servers, read from them by package surface or derived from a dialect by SurfaceOf. The output is Findings, each
// with its place, its reason and its fix. Fix writes those fixes into a file that only rename a metric.
//
// A Check is a value in the file of its subject: names (name.go), labels (label.go), counters and gauges (counter.go),
// histograms (histogram.go), ranges of values (value.go), and decisions of alerts and autoscalers (condition.go,
// event.go, scaler.go). Lint walks each expression once and hands every node to every check. promql.go takes
// expressions apart for all checks; types and units of metrics come from the catalogue of engines.
//
// A fault that depends on what the files do not tell is a doubt: a scrape configuration may add a label, another
// program may expose a name. A doubt never fails an audit.
//
// The package is pure. Faults that PromQL alone shows are left to pint (https://cloudflare.github.io/pint/).
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

// Severities: page for rules and panels that do not work at all, ticket for those whose values are not what they seem,
// info for fragile ones.
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

	// look judges one node of a query; see on and onQuery. It is nil if another check's look reports this one too.
	look func(*pass, parser.Node)
}

// on restricts a look to nodes of one type.
func on[N parser.Node](look func(*pass, N)) func(*pass, parser.Node) {
	return func(p *pass, n parser.Node) {
		if n, ok := n.(N); ok {
			look(p, n)
		}
	}
}

// onQuery restricts a look to the root, so that a whole query is judged once.
func onQuery(look func(*pass)) func(*pass, parser.Node) {
	return func(p *pass, _ parser.Node) {
		if len(p.path) == 0 {
			look(p)
		}
	}
}

// A Finding is one fault at one place of a file.
type Finding struct {
	Check    string           `json:"check"`
	Severity catalog.Severity `json:"severity"`

	File  string `json:"file"`
	Line  int    `json:"line,omitempty"` // line of the fragment, from 1; 0 if the file has no lines
	Where string `json:"where"`          // the alert or the panel, for people

	Fragment string `json:"fragment"` // the faulty part of the expression
	Why      string `json:"why"`
	Fix      string `json:"fix"` // replacement, or advice

	Fixable bool `json:"fixable"`         // the function Fix can repair it
	Doubt   bool `json:"doubt,omitempty"` // the files alone do not prove it; Severity is then info

	start  int           // offset of Fragment in the expression, in bytes
	rename *files.Rename // the repair if Fixable
}

// DoubtLabel is the label of doubts.
const DoubtLabel = "doubt"

// Label returns a finding's severity for people, or DoubtLabel.
func (f *Finding) Label() string {
	if f.Doubt {
		return DoubtLabel
	}
	return f.Severity.String()
}

// A pass is the walk of all checks over one query.
type pass struct {
	*files.Query
	surface  *Surface
	records  map[string]*files.Query // recording rules of all files by name; nil for a name with several rules
	path     []parser.Node           // from the root to the parent of the present node
	check    *Check                  // that looks at the present node
	findings []Finding
}

// isRecorded reports whether a rule of the files records a name.
func (p *pass) isRecorded(name string) bool {
	_, ok := p.records[name]
	return ok
}

// whole is the range of the whole expression.
func (p *pass) whole() posrange.PositionRange {
	return posrange.PositionRange{End: posrange.Pos(len(p.Expr))}
}

// report adds a finding of the present check about a range of the expression.
func (p *pass) report(at posrange.PositionRange, why, fix string) *Finding {
	start, end := int(at.Start), int(at.End)
	if start < 0 || end > len(p.Expr) || start >= end {
		start, end = 0, len(p.Expr)
	}
	p.findings = append(p.findings, Finding{
		Check: p.check.ID, Severity: p.check.Severity, File: p.Doc.Name, Line: p.Line(start),
		Where: p.Where, Fragment: p.Expr[start:end], Why: why, Fix: fix, start: start,
	})
	return &p.findings[len(p.findings)-1]
}

// reportDoubt adds a doubt. unless says what would make the expression right.
func (p *pass) reportDoubt(at posrange.PositionRange, why, unless, fix string) {
	f := p.report(at, why+"; "+unless, fix)
	f.Severity, f.Doubt = info, true
}

// reportRename adds a finding about a metric with one successor. It is fixable if the file has the old name literally.
func (p *pass) reportRename(v *parser.VectorSelector, why, to string) {
	f := p.report(v.PositionRange(), why, "write "+to)
	f.Severity = page
	if v.Name != "" && strings.HasPrefix(p.Expr[v.PosRange.Start:], v.Name) && p.CanRename() {
		f.Fixable, f.rename = true, &files.Rename{Query: p.Query, Name: v.Name, To: to}
	}
}

// Lint judges files that belong together: the recording rules of one are known in all. Findings come in the order of
// the files and their lines. ignore lists IDs of checks.
func Lint(docs []*files.Document, s *Surface, ignore ...string) (all []Finding) {
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
		var ofFile []Finding
		for _, q := range d.Queries {
			p := &pass{Query: q, surface: s, records: records}
			ofFile = append(ofFile, p.lint(ignore)...)
		}
		slices.SortStableFunc(ofFile, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
		all = append(all, ofFile...)
	}
	return all
}

// lint walks the query once. It returns the findings by position, the worst first.
func (p *pass) lint(ignore []string) []Finding {
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
	kept := slices.DeleteFunc(p.findings, func(f Finding) bool { return slices.Contains(ignore, f.Check) })
	slices.SortStableFunc(kept, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.Severity, a.Severity))
	})
	return kept
}

var checks = []*Check{
	&unknownMetric, &removedMetric, &notExposed, &histogramName, &unknownLabel,
	&missingLe, &addedBuckets, &noSuchBucket, &bucketEdge, &averageOfPercentiles,
	&rateOnGauge, &rawCounter, &deltaOnCounter, &ratioSummed, &impossibleThreshold, &alertCondition, &internalEvent,
	&scalingWrong,
}

// Checks lists all checks.
func Checks() []*Check { return slices.Clone(checks) }

// Fix writes the successors of renamed metrics into a file. It returns the new file and how many findings that repairs;
// the old file and 0 if the new one would not parse as intended.
func Fix(d *files.Document, findings []Finding) (fixed *files.Document, repaired int) {
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
