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

// How long parts of the first screen stay where there is no room for all; 0 stays.
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

const mostModels, mostRows = 5, 3

// screen says what fits a screen: the verdict and what speaks against it, since when, the evidence that says
// most, the first fix and its prediction, and what to ask next.
func screen(d *diagnose.Diagnosis, o Options) *render.Document {
	v, t := &d.Verdict, render.NewDocument("")
	f := d.LeadingFinding(v)
	say := func(rank, most int, title, text string) {
		if t.Rank(rank); text != "" {
			t.Paragraph(title, text).Most = most
		}
		t.Rank(0)
	}
	t.Answer(style(d, v), nameVerdict(d, v), summary(v)).Most = 4
	say(0, 2, "", whereSince(d, v, false))
	if f != nil {
		say(rankChain, 4, "", f.Story())
	}
	rest := otherVerdicts(d)
	if n := len(rest); n > mostModels {
		say(0, 1, "", fmt.Sprintf("%d more models, the worst first:", n))
		rest = rest[:mostModels-1]
	}
	for i := range rest {
		say(rankModel, 1, nameVerdict(d, &rest[i]), summary(&rest[i]))
	}
	say(0, 4, "Note", strings.Join(doubts(d, v), " "))
	also := each(selected(d, v, alsoFiring), func(f **diagnose.Finding) string {
		return fmt.Sprintf("%s (%s)", (*f).Pathology.ID, (*f).Severity)
	})
	say(rankAlso, 1, "Also firing", render.Sentence(strings.Join(also, ", ")))
	if f == nil && len(d.Findings) > 0 {
		say(0, 2, "", tally(d))
	}
	unchecked := ""
	if n := len(d.Coverage); n > 0 && f != nil {
		unchecked = fmt.Sprintf("%d of %d failure modes could not be checked.", n, len(d.Findings))
	}
	if baselineSource(d) == segments.NoBaseline {
		say(rankBasis, 1, "", unchecked)
	} else {
		say(rankBasis, 2, "Normal", strings.TrimSpace(render.Sentence(normal(d))+" "+unchecked))
	}
	if f != nil && f.Story() == "" {
		columns := evidenceColumns()
		if len(d.Targets) > 1 && len(f.Targets) > 0 {
			columns[0].Title += " on " + render.Clip(render.Clean(f.Targets[0]), 24)
		}
		t.Rank(rankEvidence)
		t.Table(columns, EvidenceRows(strongest(f.Evidence, mostRows), false)).Ranks = []int{rankEvidence, rankRow,
			rankRow}
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

// otherVerdicts returns the verdicts that the first line does not have, the worst first.
func otherVerdicts(d *diagnose.Diagnosis) []diagnose.Verdict {
	switch {
	case len(d.Verdicts) < 2:
		return nil
	case d.Status == diagnose.Firing:
		return d.Verdicts[1:]
	}
	return d.Verdicts
}

// doubts are what speaks against a verdict, or bounds what it is worth.
func doubts(d *diagnose.Diagnosis, v *diagnose.Verdict) []string {
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
			continue // that it is down is the verdict
		}
		for _, n := range t.Notes {
			add(t.Name + ": " + n)
		}
	}
	return out
}

// strongest chooses from what speaks for a finding: first what moved from its normal in
// the direction of its threshold, each quantity once; and among it, what users feel.
func strongest(evidence []catalog.Evidence, most int) []catalog.Evidence {
	all := farthest(evidence, false)
	felt := slices.IndexFunc(all, func(e catalog.Evidence) bool {
		return moved(&e) && (sameQuantity(e.Signal, indicator.TTFTP50) || sameQuantity(e.Signal, indicator.ITLP50) ||
			sameQuantity(e.Signal, indicator.E2EMean))
	})
	var ranks [4][]int
	for i := range all {
		n := 1
		if !moved(&all[i]) {
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

// moved reports whether a reading left its normal in the direction of its threshold, by a difference that people see.
func moved(e *catalog.Evidence) bool {
	const clearly = 1.05
	return !e.Baseline.OK || e.Op == catalog.GreaterThan && e.Value.V > clearly*e.Baseline.V ||
		e.Op == catalog.LessThan && clearly*e.Value.V < e.Baseline.V
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
