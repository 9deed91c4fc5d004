package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// text lays the short answer out for a terminal.
type text struct {
	*render.Text
	options Options
}

// A lineBudget says how many lines the parts of the short answer may take.
type lineBudget struct {
	summary, doubts, models, rows, fix, command, predicted, verify, basis int
}

// roomy is where all there is to say is short.
var roomy = lineBudget{summary: 4, doubts: 4, models: 6, rows: 3, fix: 3, command: 4, predicted: 4, verify: 2, basis: 2}

// tighten are taken one after the other until the answer fits. What casts doubt on the
// verdict goes last.
var tighten = []func(*lineBudget){
	func(r *lineBudget) { r.verify = 0 },
	func(r *lineBudget) { r.basis = 0 },
	func(r *lineBudget) { r.predicted, r.fix = 3, 2 },
	func(r *lineBudget) { r.models = 5 },
	func(r *lineBudget) { r.models, r.summary = 4, 3 },
	func(r *lineBudget) { r.predicted = 2 },
	func(r *lineBudget) { r.rows = 2 },
	func(r *lineBudget) { r.models = 3 },
	func(r *lineBudget) { r.rows = 1 },
	func(r *lineBudget) { r.command, r.fix, r.predicted = 2, 1, 1 },
	func(r *lineBudget) { r.models, r.doubts = 2, 3 },
	func(r *lineBudget) { r.rows, r.summary = 0, 2 },
}

// short lays out what fits a screen: the verdict and what speaks against it, since when,
// the evidence that says most, the first fix and its prediction, and what to ask next.
func short(d *diagnose.Diagnosis, o Options) *render.Text {
	r := roomy
	for step := 0; ; step++ {
		t := text{Text: render.NewText(o.Options), options: o}
		t.answer(d, r)
		if t.Lines() <= t.LineBudget() || step == len(tighten) {
			return t.Text
		}
		tighten[step](&r)
	}
}

func (t *text) answer(d *diagnose.Diagnosis, r lineBudget) {
	v := &d.Verdict
	f := d.LeadingFinding(v)
	t.verdict(d, v, r.summary)
	t.models(d, r.models)
	if doubts := doubts(d, v); len(doubts) > 0 {
		t.Brief(r.doubts, "  Note: ", "  ", strings.Join(doubts, " "))
	}
	if also := otherFindings(d, v); also != "" {
		t.Brief(1, "  ", "  ", also)
	}
	if f != nil {
		t.writeTopEvidence(d, f, r.rows)
		t.firstFix(f, r)
	} else if len(d.Findings) > 0 {
		t.Brief(2, "  ", "  ", tally(d))
	}
	if rests := basis(d, f); rests != "" && r.basis > 0 {
		t.Line("")
		t.Brief(r.basis, "", "", t.Style(render.Dim, rests))
	}
	t.next(f)
}

// verdict says what is wrong, where and since when, in at most so many lines.
func (t *text) verdict(d *diagnose.Diagnosis, v *diagnose.Verdict, lines int) {
	t.Brief(lines, t.Style(style(d, v), head(d, v)), "  ", ": "+summary(v))
	if where := whereSince(d, v, false); where != "" {
		t.Brief(max(1, lines/2), "  ", "  ", where)
	}
}

// models lists those beside the one that leads, the worst first, a line for each.
func (t *text) models(d *diagnose.Diagnosis, most int) {
	var rest []*diagnose.Verdict
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; len(d.Verdicts) > 1 && (i > 0 || d.Status != diagnose.Firing) {
			rest = append(rest, v)
		}
	}
	for i, v := range rest {
		if i == most-1 && len(rest) > most {
			t.Line(fmt.Sprintf("and %d more models", len(rest)-i))
			return
		}
		t.Line(render.Cut(render.Clean(head(d, v)+": "+summary(v)), t.Width()))
	}
}

// otherFindings names what fires on the leading model beside the verdict, and is no symptom of it.
func otherFindings(d *diagnose.Diagnosis, v *diagnose.Verdict) string {
	var parts []string
	for _, f := range selected(d, v, alsoFiring) {
		parts = append(parts, fmt.Sprintf("%s (%s)", f.Pathology.ID, f.Severity))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Also firing: " + strings.Join(parts, ", ") + "."
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
		add(fmt.Sprintf("%d of %d targets not judged: %s: %s", n, len(d.Targets), d.Unjudged[0].Target, d.Unjudged[0].Reason))
	}
	if d.Status != diagnose.Unknown && baselineSource(d) == diagnose.NoBaseline {
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

// writeTopEvidence shows the evidence that says most.
func (t *text) writeTopEvidence(d *diagnose.Diagnosis, f *diagnose.Finding, most int) {
	rows := evidenceRows(strongest(f.Evidence, most), false)
	if len(rows) == 0 {
		return
	}
	columns := evidenceColumns()
	if len(d.Targets) > 1 && len(f.Targets) > 0 {
		columns[0].Title += " on " + render.Clip(render.Clean(f.Targets[0]), 24)
	}
	t.Line("")
	t.Table(columns, rows)
}

// strongest chooses from what speaks for a finding: first what moved from its normal in
// the direction of its threshold, each quantity once; and among it, what users feel.
func strongest(evidence []catalog.Evidence, most int) []catalog.Evidence {
	all := farthest(evidence, false)
	rank := func(i int) int {
		e, n := &all[i], 0
		if !moved(e) {
			n += 2
		}
		if slices.ContainsFunc(all[:i], func(o catalog.Evidence) bool { return sameQuantity(o.Signal, e.Signal) }) {
			n++
		}
		return n
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(a) - rank(b) })
	most = min(most, len(order))
	if felt := slices.IndexFunc(order, func(i int) bool { return usersNotice(all[i].Signal) && moved(&all[i]) }); felt >= most && most > 1 {
		order[most-1] = order[felt]
	}
	chosen := order[:most]
	slices.Sort(chosen)
	out := make([]catalog.Evidence, 0, most)
	for _, i := range chosen {
		out = append(out, all[i])
	}
	return out
}

// clearly is how many times as much is a difference that people see.
const clearly = 1.05

// moved reports whether a reading left its normal in the direction of its threshold.
func moved(e *catalog.Evidence) bool {
	if !e.Baseline.OK {
		return true
	}
	return e.Op == catalog.GreaterThan && e.Value.V > clearly*e.Baseline.V || e.Op == catalog.LessThan && clearly*e.Value.V < e.Baseline.V
}

func usersNotice(s *indicator.Signal) bool {
	return slices.ContainsFunc([]*indicator.Signal{indicator.TTFTP50, indicator.ITLP50, indicator.E2EMean}, func(o *indicator.Signal) bool { return sameQuantity(o, s) })
}

// sameQuantity reports whether two signals are percentiles or means of one histogram.
func sameQuantity(a, b *indicator.Signal) bool {
	return a == b || a.Count != "" && a.Count == b.Count && a.Unit == b.Unit
}

// firstFix shows the fix to try first: what it is, the line to copy, what it will do.
func (t *text) firstFix(f *diagnose.Finding, r lineBudget) {
	if len(f.Fixes) == 0 {
		return
	}
	fix := &f.Fixes[0]
	t.Line("")
	t.Brief(r.fix, t.Style(render.Bold, "FIX")+"  ", "  ", render.Sentence(fix.Summary))
	t.command(fix, first(f.Targets), r.command)
	if lines := predictionShort(fix.Predicted); lines != "" {
		t.Brief(r.predicted, "  ", "  ", render.Clean(lines))
	}
	if r.verify > 0 && fix.Verify != "" {
		t.Brief(r.verify, "  Verify: ", "  ", render.Sentence(fix.Verify))
	}
}

// command writes the line to copy, which is not cut off: where there is no room for it, it
// says where it is.
func (t *text) command(fix *catalog.Fix, target string, most int) {
	lines := commandLines(fix, target)
	if len(lines) == 0 {
		return
	}
	trial := render.NewText(t.options.Options)
	if trial.Command("    ", lines[0]); trial.Lines() > most {
		t.Line(fmt.Sprintf("    %d flags to change; --full lists them", len(fix.Changes)))
		return
	}
	t.Command("    ", lines[0])
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// basis says what the answer rests on.
func basis(d *diagnose.Diagnosis, f *diagnose.Finding) string {
	var parts []string
	switch source := baselineSource(d); {
	case source == diagnose.NoBaseline:
	case source == diagnose.History && !d.Baseline.From.IsZero():
		parts = append(parts, "Normal: "+span(d.Baseline, d.At)+".")
	default:
		parts = append(parts, render.Sentence("Normal: "+baselineWords[source]))
	}
	if n := len(d.Coverage); n > 0 && f != nil {
		parts = append(parts, fmt.Sprintf("%d of %d failure modes could not be checked.", n, len(d.Findings)))
	}
	return strings.Join(parts, " ")
}

// longestCommand is how many lines the command takes at most that is printed to be run next.
const longestCommand = 4

// next says what to ask for more.
func (t *text) next(f *diagnose.Finding) {
	if t.options.Again == "" {
		return
	}
	t.Line("")
	more := "NEXT  what was checked and what was not"
	if f != nil {
		more = "NEXT  all evidence and reasons"
		switch n := len(f.Fixes) - 1; {
		case n == 1:
			more += ", another fix"
		case n > 1:
			more += fmt.Sprintf(", %d other fixes", n)
		}
		more += "; the runbook"
	}
	t.Brief(1, "", "", t.Style(render.Bold, more[:4])+more[4:])
	trial := render.NewText(t.options.Options)
	if trial.Command("  ", t.options.Again+" --full"); t.options.Again == SameCommand || trial.Lines() > longestCommand {
		t.Line("  The same command with --full.")
	} else {
		t.Command("  ", t.options.Again+" --full")
	}
	if f != nil {
		t.Line("  sixty explain " + f.Pathology.ID)
	}
}
