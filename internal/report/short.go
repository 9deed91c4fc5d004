package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/render"
)

// Ranks of the parts of a screen: the lowest leaves first if there is no room for all. Parts of rank 0 stay.
const (
	rankVerify = iota + 1
	rankBasis
	rankRow // lines of evidence after the first
	rankModel
	rankEvidence
	rankRunbook
	rankPrediction
	rankAlso
	rankChain
)

const maxModels, maxRows = 5, 3

// A screen is the short report on a diagnosis that is being written.
type screen struct {
	*render.Document
	d *diagnose.Diagnosis
	v *diagnose.Verdict
	f *diagnose.Finding // the leading one; nil without one
}

// newScreen returns the parts that fit a screen: the verdict with its doubts and its time, the strongest evidence, the
// first fix with its prediction, and the next command.
func newScreen(d *diagnose.Diagnosis, o Options) *render.Document {
	s := &screen{render.NewDocument(""), d, &d.Verdict, d.LeadingFinding(&d.Verdict)}
	s.Answer(styleOf(d, s.v), nameVerdict(d, s.v), summarize(s.v)).Most = 4
	s.say(0, 2, "", whereSince(d, s.v, false))
	if s.f != nil {
		s.say(rankChain, 4, "", s.f.Story())
	}
	s.addModels()
	s.addBasis()
	if s.f != nil {
		s.addEvidence()
		s.addFixes()
	}
	if o.Commands {
		s.addCommands()
	}
	return s.Document
}

// say adds a paragraph of at most so many lines, unless the text is empty.
func (s *screen) say(rank, most int, title, text string) {
	if s.Rank(rank); text != "" {
		s.Paragraph(title, text).Most = most
	}
	s.Rank(0)
}

// addModels adds a line for each of the other models, at most maxModels lines.
func (s *screen) addModels() {
	rest := otherVerdicts(s.d)
	if n := len(rest); n > maxModels {
		s.say(0, 1, "", fmt.Sprintf("%d more models, the worst first:", n))
		rest = rest[:maxModels-1]
	}
	for i := range rest {
		s.say(rankModel, 1, nameVerdict(s.d, &rest[i]), summarize(&rest[i]))
	}
}

// addBasis adds doubts, other findings, the number of unchecked pathologies, and the baseline.
func (s *screen) addBasis() {
	d := s.d
	s.say(0, 4, "Note", strings.Join(listDoubts(d, s.v), " "))
	also := each(selected(d, s.v, alsoFiring), func(f **diagnose.Finding) string {
		return fmt.Sprintf("%s (%s)", (*f).Pathology.ID, (*f).Severity)
	})
	s.say(rankAlso, 1, "Also firing", render.Sentence(strings.Join(also, ", ")))
	unchecked := ""
	if n := len(d.Coverage); s.f == nil && len(d.Findings) > 0 {
		s.say(0, 2, "", countOutcomes(d))
	} else if n > 0 && s.f != nil {
		unchecked = fmt.Sprintf("%d of %d failure modes could not be checked.", n, len(d.Findings))
	}
	if baselineSource(d) == segments.NoBaseline {
		s.say(rankBasis, 1, "", unchecked)
	} else {
		s.say(rankBasis, 2, "Normal", strings.TrimSpace(render.Sentence(describeBaseline(d))+" "+unchecked))
	}
}

// addEvidence adds a table of the strongest evidence, unless the finding has a story.
func (s *screen) addEvidence() {
	if s.f.Story() != "" {
		return
	}
	columns := evidenceColumns()
	if len(s.d.Targets) > 1 && len(s.f.Targets) > 0 {
		columns[0].Title += " on " + render.Clip(render.Clean(s.f.Targets[0]), 24)
	}
	s.Rank(rankEvidence)
	table := s.Table(columns, EvidenceRows(chooseStrongest(s.f.Evidence, maxRows), false))
	table.Ranks = []int{rankEvidence, rankRow, rankRow}
	s.Rank(0)
}

// addFixes adds the fixes that are recommended, or says that none is predicted to help.
func (s *screen) addFixes() {
	heads := catalog.Heads(s.f.Fixes)
	if n := len(heads); n > 0 && !slices.ContainsFunc(heads, func(h string) bool { return h != catalog.Else }) {
		s.Section(catalog.Only, fmt.Sprintf("  None of %d is predicted to help; --full lists them.", n))
	}
	for i, head := range heads {
		fix := &s.f.Fixes[i]
		if head == catalog.Else {
			continue
		}
		s.Section(head, "  "+render.Sentence(fix.Summary)).Most = 2
		if lines := commandLines(fix, first(s.f.Targets)); len(lines) > 0 {
			s.Brief(2, lines[0], fmt.Sprintf("%d flags to change; --full lists them", len(fix.Changes)))
		}
		s.say(rankPrediction, 2, "", predictionShort(fix.Predicted))
		s.say(rankVerify, 2, "Confirm", render.Sentence(fix.Verify))
	}
}

// addCommands adds the commands that show more.
func (s *screen) addCommands() {
	if s.More = "what was checked and what was not"; s.f != nil {
		s.More = "all evidence and reasons, and every fix"
		s.Rank(rankRunbook)
		s.Section("Next", "  sixty explain "+s.f.Pathology.ID)
	}
}

// otherVerdicts returns the verdicts beside the one in the first line, the worst first.
func otherVerdicts(d *diagnose.Diagnosis) []diagnose.Verdict {
	switch {
	case len(d.Verdicts) < 2:
		return nil
	case d.Status == diagnose.Firing:
		return d.Verdicts[1:]
	}
	return d.Verdicts
}

// listDoubts returns reasons not to trust a verdict, or not to act on it at once.
func listDoubts(d *diagnose.Diagnosis, v *diagnose.Verdict) []string {
	var out []string
	add := func(s string) {
		if s = render.Sentence(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, n := range d.Notes {
		add(n)
	}
	add(objectivesLine(d.LeadingFinding(v)))
	if n := len(d.Unjudged); n > 0 && d.Status == diagnose.Firing {
		add(fmt.Sprintf("%d of %d targets not judged: %s: %s", n, len(d.Targets), d.Unjudged[0].Target,
			d.Unjudged[0].Reason))
	}
	if d.Status != diagnose.Unknown && baselineSource(d) == segments.NoBaseline {
		add("No past to compare with")
	}
	for i := range d.Targets {
		t := &d.Targets[i]
		if !isUp(d, t) && slices.Contains(v.Targets, t.Name) {
			continue // the verdict says that it is down
		}
		for _, n := range t.Notes {
			add(t.Name + ": " + n)
		}
	}
	return out
}

// chooseStrongest returns at most so many comparisons, in their order. It prefers a latency that users feel, then
// signals that moved from normal, each quantity once, then further signals of these quantities, then the rest.
func chooseStrongest(evidence []catalog.Evidence, most int) []catalog.Evidence {
	all := dropRepeated(evidence, false)
	felt := slices.IndexFunc(all, func(e catalog.Evidence) bool {
		return hasMoved(&e) && (sameQuantity(e.Signal, indicator.TTFTP50) || sameQuantity(e.Signal, indicator.ITLP50) ||
			sameQuantity(e.Signal, indicator.E2EMean))
	})
	var ranks [4][]int
	for i := range all {
		n := 1
		if !hasMoved(&all[i]) {
			n = 3
		} else if slices.ContainsFunc(all[:i],
			func(o catalog.Evidence) bool { return sameQuantity(o.Signal, all[i].Signal) }) {
			n = 2
		}
		if i == felt {
			n = 0
		}
		ranks[n] = append(ranks[n], i)
	}
	order := slices.Concat(ranks[:]...)
	order = order[:min(most, len(order))]
	slices.Sort(order)
	return each(order, func(i *int) catalog.Evidence { return all[*i] })
}

// hasMoved reports whether a reading differs from normal in the direction of its threshold, by more than 5 %. It is
// true without a normal value.
func hasMoved(e *catalog.Evidence) bool {
	const factor = 1.05
	return !e.Baseline.OK || e.Op == catalog.GreaterThan && e.Value.V > factor*e.Baseline.V ||
		e.Op == catalog.LessThan && factor*e.Value.V < e.Baseline.V
}

// sameQuantity reports whether two signals are percentiles or means of one histogram.
func sameQuantity(a, b *indicator.Signal) bool {
	return a == b || a.Count != "" && a.Count == b.Count && a.Unit == b.Unit
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
