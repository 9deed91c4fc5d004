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

// newScreen returns the parts that fit a screen: the verdict with its doubts and its time, the strongest evidence, the
// first fix with its prediction, and the next command.
func newScreen(d *diagnose.Diagnosis, o Options) *render.Document {
	v, t := &d.Verdict, render.NewDocument("")
	f := d.LeadingFinding(v)
	say := func(rank, most int, title, text string) {
		if t.Rank(rank); text != "" {
			t.Paragraph(title, text).Most = most
		}
		t.Rank(0)
	}
	t.Answer(styleOf(d, v), nameVerdict(d, v), summarize(v)).Most = 4
	say(0, 2, "", whereSince(d, v, false))
	if f != nil {
		say(rankChain, 4, "", f.Story())
	}
	rest := otherVerdicts(d)
	if n := len(rest); n > maxModels {
		say(0, 1, "", fmt.Sprintf("%d more models, the worst first:", n))
		rest = rest[:maxModels-1]
	}
	for i := range rest {
		say(rankModel, 1, nameVerdict(d, &rest[i]), summarize(&rest[i]))
	}
	say(0, 4, "Note", strings.Join(listDoubts(d, v), " "))
	also := each(selected(d, v, alsoFiring), func(f **diagnose.Finding) string {
		return fmt.Sprintf("%s (%s)", (*f).Pathology.ID, (*f).Severity)
	})
	say(rankAlso, 1, "Also firing", render.Sentence(strings.Join(also, ", ")))
	if f == nil && len(d.Findings) > 0 {
		say(0, 2, "", countOutcomes(d))
	}
	unchecked := ""
	if n := len(d.Coverage); n > 0 && f != nil {
		unchecked = fmt.Sprintf("%d of %d failure modes could not be checked.", n, len(d.Findings))
	}
	if baselineSource(d) == segments.NoBaseline {
		say(rankBasis, 1, "", unchecked)
	} else {
		say(rankBasis, 2, "Normal", strings.TrimSpace(render.Sentence(describeBaseline(d))+" "+unchecked))
	}
	if f != nil && f.Story() == "" {
		columns := evidenceColumns()
		if len(d.Targets) > 1 && len(f.Targets) > 0 {
			columns[0].Title += " on " + render.Clip(render.Clean(f.Targets[0]), 24)
		}
		t.Rank(rankEvidence)
		table := t.Table(columns, EvidenceRows(chooseStrongest(f.Evidence, maxRows), false))
		table.Ranks = []int{rankEvidence, rankRow, rankRow}
		t.Rank(0)
	}
	if f != nil {
		heads := catalog.Heads(f.Fixes)
		if n := len(heads); n > 0 && !slices.ContainsFunc(heads, func(h string) bool { return h != catalog.Else }) {
			t.Section(catalog.Only, fmt.Sprintf("  None of %d is predicted to help; --full lists them.", n))
		}
		for i, head := range heads {
			fix := &f.Fixes[i]
			if head == catalog.Else {
				continue
			}
			t.Section(head, "  "+render.Sentence(fix.Summary)).Most = 2
			if lines := commandLines(fix, first(f.Targets)); len(lines) > 0 {
				t.Brief(2, lines[0], fmt.Sprintf("%d flags to change; --full lists them", len(fix.Changes)))
			}
			say(rankPrediction, 2, "", predictionShort(fix.Predicted))
			say(rankVerify, 2, "Confirm", render.Sentence(fix.Verify))
		}
	}
	if !o.Commands {
		return t
	}
	if t.More = "what was checked and what was not"; f != nil {
		t.More = "all evidence and reasons, and every fix"
		t.Rank(rankRunbook)
		t.Section("Next", "  sixty explain "+f.Pathology.ID)
	}
	return t
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
