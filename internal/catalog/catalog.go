// Package catalog declares what a pathology is: when it holds, why, and what to change. A condition is data, a tree
// of signals against thresholds, so that the diagnosis, the alert rules, the dashboards and the runbooks are all
// rendered from the same value.
//
// The package evaluates conditions against readings it is handed and compiles them to PromQL. It performs no I/O.
package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Severity is the urgency of an alert.
type Severity uint8

// Severities, in ascending order.
const (
	Info   Severity = iota // worth knowing
	Ticket                 // look at it in working hours
	Page                   // wake the person on call
)

func (s Severity) String() string {
	switch s {
	case Page:
		return "page"
	case Ticket:
		return "ticket"
	}
	return "info"
}

// MarshalText writes a severity's name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSeverity reads a severity's name.
func ParseSeverity(name string) (Severity, error) {
	for _, s := range []Severity{Info, Ticket, Page} {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown severity %q: want page, ticket or info", name)
}

// A Pathology describes one way in which a server goes wrong. It is a constant value; nothing modifies it.
type Pathology struct {
	ID       string   // "kv-cache-thrashing": stable; in URLs, labels, --only
	Alert    string   // alert name without its prefix, "KVCacheThrashing"; see dialect.AlertPrefixes
	Title    string   // one line, no final period
	Severity Severity // the worst that it can be

	// Grades give the severity by conditions beside When, the worst first. The first grade whose condition certainly
	// holds applies, else the last grade, which has no condition. Without grades the severity is Severity.
	Grades []Grade

	// FollowsObjectives lowers the severity while the objectives are known to hold: the server is worse than before,
	// but keeps its promises.
	FollowsObjectives bool

	// Unspecific marks a pathology without a cause of its own: it makes none of its causes certain, and is not
	// certain itself within the time of a burst.
	Unspecific bool

	// When holds while the pathology is there.
	When Cond

	// For is the hold duration of the alert.
	For time.Duration

	// Supports is evidence that raises the confidence. It never changes the status.
	Supports []Cond

	// ExplainedBy lists the pathologies whose symptom this one is: while one of them is found on the same target, or
	// between a gateway and the servers of one model behind it, it explains this one and inhibits its alert. Explains
	// lists symptoms of this one that were in the catalogue before it, so that a new cause touches no other
	// pathology. A pair is declared on one side only.
	ExplainedBy, Explains []string

	// Leads, which may be empty, is a weaker condition than When for a pathology that began clearly before one of its
	// symptoms. The earlier fault explains the later one, even if the symptom then hides the rest of When. Alert
	// rules cannot tell the order.
	Leads Cond

	// Across lets its causes on any server of its model explain it, as when a request is prefilled on one server and
	// decoded on another.
	Across bool
	// Everywhere is the same for a cause: it explains its symptoms on every server of its model.
	Everywhere bool

	// Chain lists the steps from cause to symptom: from the change to what users notice. The links that hold tell the
	// story. Without a Chain, the comparisons of When that hold do.
	Chain []Link

	// Fixes are alternatives, the best first.
	Fixes []Fix

	// Refine, which may be nil, words the finding with this server's numbers and sizes the fixes. It cannot change
	// the status.
	Refine func(*Pass)

	// Hop is the part of a deployment that it is about, if that is not the role of its targets.
	Hop Hop

	// Panel is the number of the dashboard panel to look at first; 0 means the panel of When's first signal.
	Panel int

	// Template is a Markdown page with the Sections: runbook.md of the pathology's directory. {{NAME}} stands for the
	// threshold of that name. Runbook is the page with the thresholds' defaults.
	Template, Runbook string

	// Scenario lets the simulated fleet bring the pathology about: its scenario.yaml, which fleet.ReadScenario reads.
	Scenario string
}

// Name returns the display name, such as "KV cache thrashing", which is the heading of the runbook.
func (p *Pathology) Name() string {
	heading, _, _ := strings.Cut(p.Runbook, "\n")
	return strings.TrimPrefix(heading, "# ")
}

// A Hop is a part of a deployment whose prefill and decode servers are apart.
type Hop string

// The hops.
const (
	HopPrefill  Hop = "prefill"
	HopTransfer Hop = "transfer" // KV caches on their way between the two
	HopDecode   Hop = "decode"
)

// A Link is one step of a pathology's chain: a sentence, and the condition under which it is true. The first
// comparison that holds gives its number and its onset.
type Link struct {
	Says string // "The KV cache fills"
	When Cond
	// Traffic marks a change of the clients' requests: it cannot have caused anything that began before it.
	Traffic bool
}

// A Grade is a severity with its condition.
type Grade struct {
	Severity Severity
	While    Cond // empty in the last one
	Note     bool // shown beside the verdict, without effect on it; never alerted on
	// For is the hold duration of its alert, if it differs from the pathology's. A harmless fault can wait until it
	// is known to last.
	For time.Duration
}

// GradeOf returns how severe p is on a target on which it holds.
func (p *Pathology) GradeOf(v Uncertain) Grade {
	grade := Grade{Severity: p.Severity}
	for _, g := range p.Grades {
		if g.While.Empty() || g.While.Certain(v) == True {
			grade = g
			break
		}
	}
	grade.For = p.Wait(grade)
	return grade
}

// Wait returns the hold duration of the alert of one of p's grades.
func (p *Pathology) Wait(g Grade) time.Duration { return cmp.Or(g.For, p.For) }

// Sections are the second-level headings of a runbook, in their order.
var Sections = []string{
	"What you see", "What it means", "Likely causes", "What to do", "How to tell that it worked", "Traps",
}

// Conditions returns every condition that decides about p.
func (p *Pathology) Conditions() []Cond {
	out := append([]Cond{p.When, p.Leads}, p.Supports...)
	for _, g := range p.Grades {
		if !g.While.Empty() {
			out = append(out, g.While)
		}
	}
	return out
}

// Severities lists the possible severities of p's alerts, the worst first: several where grades or objectives decide.
func (p *Pathology) Severities() []Severity {
	out := []Severity{p.Severity}
	if len(p.Grades) > 0 {
		out = nil
		for _, g := range p.Grades {
			out = append(out, g.Severity)
		}
	}
	if least := out[len(out)-1]; p.FollowsObjectives && least > Info {
		out = append(out, least-1)
	}
	return slices.Compact(out)
}

// Scope returns where p is judged: at gateways if all of its signals are theirs, on GPU exporters too if all of them
// are about GPUs, else on model servers.
func (p *Pathology) Scope() indicator.Scope {
	scope := indicator.Gateway
	p.When.Signals(func(s *indicator.Signal) { scope = min(scope, s.Scope) })
	return scope
}

// Per returns the label of the parts of a gateway that p judges one by one. All of p's signals share it.
func (p *Pathology) Per() (label string) {
	p.When.Signals(func(s *indicator.Signal) { label = s.Per })
	return label
}

// Causes returns the pathologies of a catalogue that inhibit p, in its order.
func (p *Pathology) Causes(all []*Pathology) []*Pathology {
	return slices.DeleteFunc(slices.Clone(all), func(q *Pathology) bool { return !q.Inhibits(p) })
}

// Inhibits reports whether p, found on a target, explains symptom there.
func (p *Pathology) Inhibits(symptom *Pathology) bool {
	return slices.Contains(symptom.ExplainedBy, p.ID) || slices.Contains(p.Explains, symptom.ID)
}

// Symptoms returns the pathologies of a catalogue that p inhibits, in its order.
func (p *Pathology) Symptoms(all []*Pathology) []*Pathology {
	return slices.DeleteFunc(slices.Clone(all), func(q *Pathology) bool { return !p.Inhibits(q) })
}

// A Pass gives Refine the readings and the configuration of one target on which a pathology fires, and collects its
// sentences and fixes.
type Pass struct {
	View
	Config engine.Config
	Flags  engine.Flags // flags of the server's engine

	// Findings of the other pathologies on this target, by ID.
	RuledOut, Suspected, Unseen []string
	// Part names the judged model or upstream of a gateway, if those are judged one by one.
	Part string
	// Parts returns a signal's readings in the window by model, by upstream or by rank.
	Parts func(*indicator.Signal) map[string]float64

	// Replicas returns a signal's readings in the window on the servers of the same model, by their names.
	Replicas func(*indicator.Signal) map[string]float64

	// Failure is the reason why the target's last scrape failed; "" if it did not, or if the reason is unknown.
	Failure string

	// Summary replaces the title in the verdict: one sentence with this server's numbers.
	Summary string
	// Reasons are further sentences: the mechanism, and inferences with their basis.
	Reasons []string
	// Fixes starts as a copy of the pathology's.
	Fixes []Fix
}

// Reason adds a sentence to the explanation.
func (p *Pass) Reason(format string, args ...any) {
	p.Reasons = append(p.Reasons, fmt.Sprintf(format, args...))
}

// Value returns the reading in the window, 0 if it is unknown. It is meant for sentences after a condition that
// implies a known value.
func (p *Pass) Value(s *indicator.Signal) float64 {
	if v := p.Now(s); isFinite(v) {
		return v.V
	}
	return 0
}

// A View holds one target's readings, for the evaluation of conditions.
type View interface {
	// Now returns a signal's reading in the window under judgement.
	Now(*indicator.Signal) indicator.Value
	// Normal returns its reading in the baseline.
	Normal(*indicator.Signal) indicator.Value
	// HasHistory reports whether the baseline is made of earlier samples.
	HasHistory() bool
	// MayHoldFault reports whether the baseline may contain the very fault that is looked for, as the sums of a short
	// lifetime do. Such a baseline makes thresholds stricter than their defaults, never laxer.
	MayHoldFault() bool
	// Peers returns the view with a baseline from its peers, whose history is long enough to be free of the fault;
	// false without peers.
	Peers() (View, bool)
	// Limit returns a threshold that was set for this target. The source names the user, an objective, or a
	// measurement.
	Limit(*Threshold) (limit float64, source string, ok bool)
}
