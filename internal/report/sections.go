package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/render"
)

// This file writes the sentences and tables; document.go and short.go decide which of them are shown.

// fullVerdicts returns the verdicts that get details, the leading one first: one for each model with a firing finding
// or, if nothing fires, the verdict for all models.
func fullVerdicts(d *diagnose.Diagnosis) []*diagnose.Verdict {
	out := []*diagnose.Verdict{&d.Verdict}
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; i > 0 && v.Status == diagnose.Firing {
			out = append(out, v)
		}
	}
	return out
}

// briefVerdicts returns the verdicts that get a line each, for models without a firing finding.
func briefVerdicts(d *diagnose.Diagnosis) []*diagnose.Verdict {
	var out []*diagnose.Verdict
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; len(d.Verdicts) > 1 && v.Status != diagnose.Firing {
			out = append(out, v)
		}
	}
	return out
}

func othersHead(d *diagnose.Diagnosis) string {
	if isBrief(d) {
		return "Models"
	}
	return "Other models"
}

// concernsModel reports whether a finding concerns a verdict's model. If nothing fires, the verdict is about all
// models.
func concernsModel(d *diagnose.Diagnosis, v *diagnose.Verdict, f *diagnose.Finding) bool {
	return d.Status != diagnose.Firing || f.Model == v.Model
}

// selected returns the findings of a verdict's model that satisfy keep, without the leading one.
func selected(d *diagnose.Diagnosis, v *diagnose.Verdict, keep func(*diagnose.Finding) bool) []*diagnose.Finding {
	var out []*diagnose.Finding
	first := d.LeadingFinding(v)
	for i := range d.Findings {
		if f := &d.Findings[i]; f != first && concernsModel(d, v, f) && keep(f) {
			out = append(out, f)
		}
	}
	return out
}

func alsoFiring(f *diagnose.Finding) bool {
	return f.Status == diagnose.Firing && f.InhibitedBy == ""
}

func explained(f *diagnose.Finding) bool { return f.Status == diagnose.Firing && f.InhibitedBy != "" }
func pending(f *diagnose.Finding) bool   { return f.Status == diagnose.Pending }
func ruledOut(f *diagnose.Finding) bool  { return f.Status == diagnose.OK }

// isBrief reports whether the report should be short, because nothing fires.
func isBrief(d *diagnose.Diagnosis) bool { return d.Status != diagnose.Firing }

// confidenceText returns a confidence in words: the number is too rough to be printed.
func confidenceText(c float64) string {
	switch {
	case c >= 0.8:
		return "high confidence"
	case c >= 0.6:
		return "fair confidence"
	}
	return "low confidence"
}

// qualifier returns the text in parentheses after a verdict's name: severity and confidence.
func qualifier(d *diagnose.Diagnosis, v *diagnose.Verdict) string {
	var parts []string
	if f := d.LeadingFinding(v); f != nil {
		parts = append(parts, f.Severity.String())
	}
	if v.Confidence > 0 && v.ID != diagnose.InsufficientData && v.ID != diagnose.NotCertain {
		parts = append(parts, confidenceText(v.Confidence))
	}
	return strings.Join(parts, ", ")
}

// nameOf returns a verdict's name for people; programs use its id.
func nameOf(d *diagnose.Diagnosis, v *diagnose.Verdict) string {
	if f := d.LeadingFinding(v); f != nil {
		return cmp.Or(f.Pathology.Name(), v.ID)
	}
	return diagnose.NameOf(v.ID)
}

// summarize returns the sentence after a verdict's name, without words that repeat the name.
func summarize(v *diagnose.Verdict) string {
	return render.Sentence(strings.TrimPrefix(strings.TrimPrefix(v.Summary, "Cannot tell: "), "Not certain yet: "))
}

// nameVerdict returns a verdict's name with its qualifier and, if there are several models, its model.
func nameVerdict(d *diagnose.Diagnosis, v *diagnose.Verdict) string {
	out := nameOf(d, v)
	if q := qualifier(d, v); q != "" {
		out += " (" + q + ")"
	}
	return out + ofModel(v)
}

// nameOtherFiring names the other models with firing findings; "" if there are none.
func nameOtherFiring(d *diagnose.Diagnosis) string {
	var parts []string
	all := fullVerdicts(d)[1:]
	for i, v := range all {
		if i == maxVerdicts {
			parts = append(parts, fmt.Sprintf("%d more", len(all)-i))
			break
		}
		where := ofModel(v)
		if where == "" {
			where = " on " + joinNames(v.Targets, false)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)%s", v.ID, v.Severity, where))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Also firing, below: " + strings.Join(parts, ", ") + "."
}

// whereSince says on which targets a verdict is, and since when.
func whereSince(d *diagnose.Diagnosis, v *diagnose.Verdict, verbose bool) string {
	var parts []string
	if on := joinNames(v.Targets, verbose); on != "" {
		parts = append(parts, "On "+on)
	}
	if hop := d.Hop(v); hop != "" && hop != string(engine.Serve) {
		parts = append(parts, "hop: "+hop)
	}
	if t := v.Since; !t.IsZero() {
		ago := formatLength(d.At.Sub(t))
		since := "since " + formatClock(t, d.At) + ", " + ago + " ago"
		switch {
		case v.SinceAtLeast:
			since = "already there when watching began, " + ago + " ago"
		case !t.Before(d.At):
			since = "since " + formatClock(t, d.At)
		}
		if len(parts) == 0 {
			since = strings.ToUpper(since[:1]) + since[1:]
		}
		parts = append(parts, since)
	}
	return render.Sentence(strings.Join(parts, ", "))
}

// objectivesLine explains why a finding is less severe than its pathology; "" if it is not.
func objectivesLine(f *diagnose.Finding) string {
	if f == nil || !f.Pathology.FollowsObjectives {
		return ""
	}
	all := f.Pathology.Severities()
	if len(all) < 2 || f.Severity > all[len(all)-1] {
		return ""
	}
	return fmt.Sprintf("Worse than normal, but within the objectives: %s, not %s.", f.Severity, all[len(all)-2])
}

// maxNames bounds the targets in a sentence. One more is named rather than counted.
const maxNames = 3

func joinNames(all []string, verbose bool) string {
	all = each(all, func(s *string) string { return render.Clean(*s) })
	if !verbose && len(all) > maxNames+1 {
		all = append(all[:maxNames:maxNames], fmt.Sprintf("%d more", len(all)-maxNames))
	}
	return render.And(all)
}

// evidenceColumns returns the columns of EvidenceRows. Thresholds are wrapped on a narrow terminal.
func evidenceColumns() []render.Column {
	return render.Words(render.Columns("signal", "now", "normal", "threshold"))
}

// catalogSource is the source of a threshold that was neither set nor measured. It is not shown.
const catalogSource = "default"

// EvidenceRows returns a row for each signal in the evidence of a finding: its title, value, normal value and
// threshold. verbose returns a row for every comparison.
func EvidenceRows(evidence []catalog.Evidence, verbose bool) [][]string {
	var rows [][]string
	for _, e := range dropRepeated(evidence, verbose) {
		threshold := "none"
		if !math.IsNaN(e.Threshold) {
			threshold = formatThreshold(&e)
			if e.Source != catalogSource {
				threshold += " (" + render.Clean(e.Source) + ")"
			}
		}
		if verbose && e.Name != "" {
			threshold += ", " + e.Name
			if !math.IsNaN(e.Threshold) {
				threshold += map[catalog.Truth]string{catalog.True: ", met", catalog.False: ", not met"}[e.Holds]
			}
		}
		normal := "–"
		if e.Baseline.OK {
			normal = e.Signal.Text(e.Baseline)
		}
		rows = append(rows, []string{e.Signal.Title, e.Signal.Text(e.Value), normal, threshold})
	}
	return rows
}

// formatThreshold writes a comparison's threshold without words that the signal's title has.
func formatThreshold(e *catalog.Evidence) string {
	return e.Signal.Untitled(e.Op.Text(e.Threshold, e.Signal.Unit))
}

// dropRepeated drops repeated comparisons and, unless all are wanted, comparisons that do not hold. If one signal
// passes several thresholds, the farthest threshold stays.
func dropRepeated(evidence []catalog.Evidence, all bool) []catalog.Evidence {
	var out []catalog.Evidence
	for _, e := range evidence {
		if !all && !e.Shown() {
			continue
		}
		i := slices.IndexFunc(out, func(o catalog.Evidence) bool {
			return o.Signal == e.Signal && o.Op == e.Op && (!all || o.Name == e.Name)
		})
		switch {
		case i < 0:
			out = append(out, e)
		case e.Op == catalog.GreaterThan && e.Threshold > out[i].Threshold, e.Op == catalog.LessThan &&
			e.Threshold < out[i].Threshold:
			out[i] = e
		}
	}
	return out
}

// ruledOutLine says why a pathology was ruled out: the comparison that does not hold.
func ruledOutLine(f *diagnose.Finding) string {
	e := f.RuledOutBy
	if e == nil {
		return "conditions not met"
	}
	line := formatComparison(e)
	if e.Source == "baseline" && e.Baseline.OK {
		line += fmt.Sprintf(" (normal %s)", e.Signal.Text(e.Baseline))
	}
	return render.Clean(line)
}

// formatComparison writes a comparison that does not hold: "TTFT P95 0.2 s, not > 2 s".
func formatComparison(e *catalog.Evidence) string {
	line := e.Signal.Title + " " + e.Signal.Text(e.Value)
	if threshold := formatThreshold(e); !strings.HasSuffix(threshold, " "+e.Signal.Text(e.Value)) {
		line += ", not " + threshold
	}
	return line
}

// summaryOf returns a line on a finding that does not lead, with its targets if the diagnosis has several.
func summaryOf(d *diagnose.Diagnosis, f *diagnose.Finding) string {
	s := cmp.Or(f.Summary, f.Pathology.Title)
	if len(d.Targets) > 1 && len(f.Targets) > 0 {
		s = strings.TrimSuffix(s, ".") + " (on " + joinNames(f.Targets, false) + ")"
	}
	return render.Clean(s)
}

// otherLine returns a line on a model without a firing finding.
func otherLine(d *diagnose.Diagnosis, v *diagnose.Verdict, verbose bool) string {
	line := render.Clean(nameVerdict(d, v) + ": " + summarize(v))
	if slices.ContainsFunc(v.Targets, func(t string) bool { return strings.Contains(v.Summary, t) }) {
		return line
	}
	return strings.TrimSpace(line + " " + whereSince(d, v, verbose))
}

// The differences from which on a factor is shown.
const (
	noticeable      = 0.2   // relative
	noticeableRatio = 0.05  // absolute, of ratios
	noticeableTime  = 0.001 // absolute, of times, in seconds
)

// changes describes what differs from the baseline: a sentence, "" if nothing is known, and the rows of changeColumns.
// The last two cells are the factor's shares of the rise of mean TTFT and of the change of the output rate.
func changes(d *diagnose.Diagnosis, w *diagnose.Workload, verbose bool) (intro string, rows [][]string) {
	if !w.Known {
		return "", nil
	}
	different := false
	for i := range w.Factors {
		f := &w.Factors[i]
		if !verbose && !differs(f) && f.ShareOfTTFTChange < tellingShare && f.ShareOfOutputChange < tellingShare {
			continue
		}
		different = different || differs(f)
		title := f.Name
		if f.Signal != nil {
			title = f.Signal.Title
		}
		rows = append(rows, []string{
			title, fromTo(f), difference(f), percent(f.ShareOfTTFTChange), percent(f.ShareOfOutputChange),
		})
	}
	switch {
	case len(rows) == 0:
		return "", nil
	case w.Changed && d.Status == diagnose.Firing:
		intro = "The traffic differs from normal."
	case w.Changed:
		intro = "The traffic differs from normal; the server handles it."
	case different:
		intro = "The traffic is normal; the server behaves differently."
	default:
		intro = "The traffic and the server are as normal."
	}
	return intro, rows
}

// changeColumns returns the columns of changes. The last two leave a narrow terminal.
func changeColumns() []render.Column {
	columns := render.Columns("quantity", "normal → now", "change", "of TTFT's rise", "of output's change")
	columns[3].Rank, columns[4].Rank = 2, 1
	return columns
}

// tellingShare is the smallest share of a change that is reported.
const tellingShare = 0.05

// nameTarget names the target of a comparison if the diagnosis has several.
func nameTarget(d *diagnose.Diagnosis, w *diagnose.Workload) string {
	if len(d.Targets) < 2 || w.Target == "" {
		return ""
	}
	return " on " + render.Clean(w.Target)
}

// ofModel names the model of a verdict if the diagnosis has several.
func ofModel(v *diagnose.Verdict) string {
	if v.Model == "" {
		return ""
	}
	return " on " + render.Clean(v.Model)
}

func differs(f *diagnose.Factor) bool {
	switch {
	case isRatio(f):
		return math.Abs(f.Value-f.Baseline) >= noticeableRatio
	case f.Signal != nil && f.Signal.Unit == indicator.Seconds && math.Abs(f.Value-f.Baseline) < noticeableTime:
		return false
	}
	return math.Abs(f.Value-f.Baseline) >= noticeable*math.Abs(f.Baseline) && f.Value != f.Baseline
}

func isRatio(f *diagnose.Factor) bool { return f.Signal != nil && f.Signal.Unit == indicator.Ratio }

// fromTo writes the baseline and the value, with their unit once if it is the same.
func fromTo(f *diagnose.Factor) string {
	unit := indicator.Count
	if f.Signal != nil {
		unit = f.Signal.Unit
	}
	from, to := indicator.FormatNumber(f.Baseline, unit), indicator.FormatNumber(f.Value, unit)
	number, name, _ := strings.Cut(from, " ")
	if _, other, _ := strings.Cut(to, " "); name == other {
		from = number
	}
	return from + " → " + to
}

// difference writes the relative difference of a factor; for ratios the absolute one, in percentage points.
func difference(f *diagnose.Factor) string {
	switch {
	case isRatio(f):
		return fmt.Sprintf("%+.0f points", 100*(f.Value-f.Baseline))
	case f.Baseline == 0:
		return ""
	case f.Value >= 3*f.Baseline && f.Baseline > 0:
		return indicator.FormatNumber(f.Value/f.Baseline, indicator.Times)
	}
	return fmt.Sprintf("%+.0f %%", 100*(f.Value/f.Baseline-1))
}

func percent(share float64) string {
	if !(share >= 0) {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// A gapGroup holds the pathologies that one remedy makes checkable; without a remedy, the pathologies that lack the
// same inputs.
type gapGroup struct {
	ids, missing []string
	hint         string
}

// groupGaps groups the pathologies that could not be checked.
func groupGaps(coverage []diagnose.Gap) []gapGroup {
	var groups []gapGroup
	at := map[string]int{}
	for _, g := range coverage {
		key := cmp.Or(g.Hint, strings.Join(each(g.Missing, reasonOf), "; "))
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key], groups = i, append(groups, gapGroup{hint: g.Hint})
		}
		groups[i].ids = append(groups[i].ids, g.ID)
		for _, m := range g.Missing {
			m = strings.Replace(m, "not exposed: ", "no ", 1)
			if !slices.Contains(groups[i].missing, m) {
				groups[i].missing = append(groups[i].missing, m)
			}
		}
	}
	return groups
}

// reasonOf returns why an input is missing: diagnose writes "not exposed: METRIC" or "SIGNAL: reason".
func reasonOf(missing *string) string {
	input, reason, _ := strings.Cut(*missing, ": ")
	if input == "not exposed" {
		return input
	}
	return cmp.Or(reason, input)
}

// maxInputs bounds the missing inputs in a line. One more is named rather than counted.
const maxInputs = 2

// line writes the group as one paragraph. brief leaves out the inputs if there is a hint; verbose has all inputs.
func (g *gapGroup) line(brief, verbose bool) string {
	inputs := g.missing
	if !verbose && len(inputs) > maxInputs+1 {
		inputs = append(inputs[:maxInputs:maxInputs], fmt.Sprintf("%d more", len(inputs)-maxInputs))
	}
	line := strings.Join(g.ids, ", ")
	if len(inputs) > 0 && !(brief && g.hint != "") {
		line += ": " + strings.Join(inputs, "; ")
	}
	if g.hint != "" {
		line = render.Sentence(line) + " To enable: " + g.hint
	}
	return render.Sentence(line)
}

// commandLines returns a fix's command, to copy, and lines that say what it replaces and which flags to remove.
func commandLines(f *catalog.Fix, target string) []string {
	var lines []string
	if args := cmp.Or(f.Args(), strings.ReplaceAll(f.Command, "TARGET", address(target))); args != "" {
		lines = append(lines, render.Clean(args))
	}
	if was := f.Replaced(); was != "" {
		lines = append(lines, render.Clean("replaces "+was))
	}
	if gone := f.LeftOut(); gone != "" {
		lines = append(lines, render.Clean("remove "+gone))
	}
	return lines
}

// address returns a target's name if it is a host and a port without characters that a shell interprets, else "TARGET".
func address(target string) string {
	word := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".-:[]", r))
	}
	if strings.Contains(target, ":") && !strings.HasPrefix(target, "-") && strings.TrimLeftFunc(target, word) == "" {
		return target
	}
	return "TARGET"
}

// countOutcomes says how many pathologies were ruled out, are pending, or could not be checked.
func countOutcomes(d *diagnose.Diagnosis) string {
	count := map[diagnose.Status]int{}
	for i := range d.Findings {
		count[d.Findings[i].Status]++
	}
	parts := []string{fmt.Sprintf("%d ruled out", count[diagnose.OK])}
	if n := count[diagnose.Pending]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d pending", n))
	}
	if n := count[diagnose.Unknown]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be checked", n))
	}
	if n := count[diagnose.NotApplicable]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d do not apply", n))
	}
	return fmt.Sprintf("Checked %s: %s.", render.Plural(len(d.Findings), "failure mode"), strings.Join(parts, ", "))
}

// basisRows returns targets, configuration, window and baseline as pairs of a name and a text.
func basisRows(d *diagnose.Diagnosis, verbose bool) [][2]string {
	out := [][2]string{}
	for n, t := range sortTargets(d) {
		if !verbose && len(d.Targets) > maxNames+1 && n == maxNames {
			out = append(out, [2]string{"", fmt.Sprintf("and %d more targets", len(d.Targets)-maxNames)})
			break
		}
		out = append(out, [2]string{"", targetLine(d, t)})
	}
	if len(out) > 0 {
		out[0][0] = "target"
		if len(d.Targets) > 1 {
			out[0][0] = "targets"
		}
	}
	if verbose {
		var config [][2]string
		for i := range d.Targets {
			config = append(config, configRows(&d.Targets[i])...)
		}
		if len(config) > 0 {
			config[0][0] = "config"
		}
		out = append(out, config...)
	}
	if !d.Window.To.IsZero() {
		out = append(out, [2]string{"window", formatPeriod(d.Window, d.At)})
	}
	out = append(out, [2]string{"baseline", describeBaseline(d)})
	return out
}

// baselineWords describes the sources of baselines.
var baselineWords = map[segments.BaselineSource]string{
	segments.FromHistory:  "earlier samples",
	segments.FromLifetime: "lifetime average, from its counters",
	segments.FromFile:     "from --baseline",
}

// describeBaseline says what the diagnosis was compared with.
func describeBaseline(d *diagnose.Diagnosis) string {
	switch source := baselineSource(d); {
	case source == segments.NoBaseline:
		return "none: no past to compare with"
	case d.Baseline.From.IsZero():
		return baselineWords[source]
	default:
		return formatPeriod(d.Baseline, d.At) + ", " + baselineWords[source]
	}
}

// sortTargets returns the targets, first those that are down or could not be judged.
func sortTargets(d *diagnose.Diagnosis) []*diagnose.Target {
	out := make([]*diagnose.Target, 0, len(d.Targets))
	for i := range d.Targets {
		out = append(out, &d.Targets[i])
	}
	order := func(t *diagnose.Target) int {
		isUnjudged := slices.ContainsFunc(d.Unjudged, func(u diagnose.Unjudged) bool { return u.Target == t.Name })
		if !isUp(d, t) || isUnjudged {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *diagnose.Target) int { return order(a) - order(b) })
	return out
}

func targetLine(d *diagnose.Diagnosis, t *diagnose.Target) string {
	parts := []string{cmp.Or(t.Name, "unnamed")}
	if t.Dialect.ID != "" {
		parts = append(parts, t.Dialect.ID)
	}
	if t.Version != "" {
		parts = append(parts, "version "+t.Version)
	}
	switch i := slices.IndexFunc(d.Unjudged, func(u diagnose.Unjudged) bool { return u.Target == t.Name }); {
	case i >= 0:
		parts = append(parts, "not judged: "+d.Unjudged[i].Reason)
	case t.Problem != "":
		parts = append(parts, t.Problem)
	case !isUp(d, t):
		parts = append(parts, "down")
	}
	return render.Clean(strings.Join(append(parts, t.Notes...), ", "))
}

func configRows(t *diagnose.Target) [][2]string {
	var out [][2]string
	for flag, s := range t.Config {
		out = append(out, [2]string{"", render.Clean(fmt.Sprintf("%s: %s = %s (%s)", t.Name, flag, s.Value, s.Source))})
	}
	slices.SortFunc(out, func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) })
	return out
}

// isUp reports whether a target answers with an engine's metrics.
func isUp(d *diagnose.Diagnosis, t *diagnose.Target) bool {
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Pathology.ID == "target-down" && f.Status == diagnose.Firing && slices.Contains(f.Targets, t.Name) {
			return false
		}
	}
	return t.Problem == ""
}

func baselineSource(d *diagnose.Diagnosis) segments.BaselineSource {
	return cmp.Or(d.Source, segments.NoBaseline)
}

// runbook returns the address of the page on a pathology.
func (o *Options) runbook(p *catalog.Pathology) string {
	return o.Runbooks.PageURL(p.ID)
}

func formatPeriod(r period.Period, at time.Time) string {
	return fmt.Sprintf("%s to %s (%s)", formatClock(r.From, at), formatClock(r.To, at), formatLength(r.Length()))
}

// formatClock writes a time in UTC, without the date on the day of the diagnosis.
func formatClock(t, at time.Time) string {
	t, at = t.UTC(), at.UTC()
	if t.Format(time.DateOnly) == at.Format(time.DateOnly) {
		return t.Format("15:04:05") + " UTC"
	}
	return t.Format("2006-01-02 15:04:05") + " UTC"
}

func formatLength(d time.Duration) string {
	return indicator.FormatNumber(d.Seconds(), indicator.Seconds)
}
