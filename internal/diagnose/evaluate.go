package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/baseline"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/slo"
)

// Settings is what the user wants judged, and by which numbers.
type Settings struct {
	Objectives *slo.File          // nil when nothing was promised
	Set        map[string]float64 // thresholds by name, set by hand
	Baselines  []*baseline.File   // what was measured of models, from a load test or a healthy period
	Only       []string           // ids of the pathologies to look for; empty means all
}

// Evaluate judges a snapshot.
func Evaluate(s *Snapshot, pathologies []*catalog.Pathology, set Settings) Diagnosis {
	d := Diagnosis{At: s.At, Targets: s.Targets, Spans: s.Spans}
	var judged []judgement
	for i := range s.Targets {
		if s.Targets[i].Problem != "" {
			continue
		}
		judged = append(judged, judge(s, i, pathologies, set))
	}
	for _, p := range pathologies {
		if len(set.Only) == 0 || slices.Contains(set.Only, p.ID) {
			d.Findings = append(d.Findings, merge(p, s, judged))
		}
	}
	rank(d.Findings)
	d.Workload = compareWorkload(s, judged)
	d.Coverage = coverage(d.Findings)
	d.Notes = notes(s, judged)
	d.Verdict, d.Status = verdict(s, &d, judged)
	d.Window, d.Baseline, d.Source = shown(s, &d)
	return d
}

// shown returns the span of the first target that the verdict speaks of.
func shown(s *Snapshot, d *Diagnosis) (window, base Range, source BaselineSource) {
	for i := range s.Targets {
		if len(d.Verdict.Targets) > 0 && s.Targets[i].Name == d.Verdict.Targets[0] {
			return s.Spans[i].Window, s.Spans[i].Baseline, s.Spans[i].Source
		}
	}
	if len(s.Spans) > 0 {
		return s.Spans[0].Window, s.Spans[0].Baseline, s.Spans[0].Source
	}
	return Range{To: s.At}, Range{}, NoBaseline
}

// A judgement is what one target's readings say.
type judgement struct {
	target   int
	view     view
	outcomes []outcome
}

// An outcome is one pathology on one target.
type outcome struct {
	pathology   *catalog.Pathology
	status      Status
	severity    catalog.Severity
	evidence    []catalog.Evidence
	confidence  float64
	inhibitedBy string
	pass        *catalog.Pass
}

func judge(s *Snapshot, target int, pathologies []*catalog.Pathology, set Settings) judgement {
	j := judgement{target: target, view: newView(s, target, set)}
	gpu := s.Targets[target].IsGPU()
	firing := map[string]*outcome{}
	for _, p := range pathologies {
		o := outcome{pathology: p, severity: p.Severity}
		if gpu && !onlyGPU(p) {
			o.status = NotApplicable
			j.outcomes = append(j.outcomes, o)
			continue
		}
		o.judge(s, j.view)
		j.outcomes = append(j.outcomes, o)
	}
	for i := range j.outcomes {
		if o := &j.outcomes[i]; o.status == Firing {
			firing[o.pathology.ID] = o
		}
	}
	// A doubtful cause is believed where one of its symptoms is beyond doubt.
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if o.status == Pending && slices.ContainsFunc(o.pathology.Inhibits, func(id string) bool { return firing[id] != nil }) {
			o.status = Firing
			firing[o.pathology.ID] = o
		}
	}
	// In the catalogue's order, so that the furthest cause is named.
	for i := range j.outcomes {
		o := &j.outcomes[i]
		if o.status != Firing {
			continue
		}
		for _, id := range o.pathology.Inhibits {
			if explained := firing[id]; explained != nil && explained.inhibitedBy == "" {
				explained.inhibitedBy = o.pathology.ID
			}
		}
	}
	for i := range j.outcomes {
		if o := &j.outcomes[i]; o.status == Firing {
			o.refine(s, j.view, target)
		}
	}
	return j
}

// onlyGPU reports whether a pathology can be judged on a GPU exporter alone.
func onlyGPU(p *catalog.Pathology) bool {
	all := true
	p.When.Signals(func(s *indicator.Signal) { all = all && s.Scope == indicator.GPU })
	return all
}

func (o *outcome) judge(s *Snapshot, v view) {
	truth, evidence := o.pathology.When.Eval(v)
	o.evidence = evidence
	switch truth {
	case catalog.True:
		o.status = Firing
	case catalog.False:
		o.status = OK
	}
	if o.status != Firing {
		return
	}
	if t, _ := o.pathology.When.Eval(doubtful{v}); t != catalog.True {
		o.status = Pending
	}
	held, known := 0, 0
	for _, c := range o.pathology.Supports {
		t, e := c.Eval(v)
		o.evidence = append(o.evidence, e...)
		if t != catalog.Unknown {
			known++
		}
		if t == catalog.True {
			held++
		}
	}
	o.confidence = confidence(o.evidence, held, known, v.span().Source)
	if o.pathology.FollowsObjectives && v.objectivesHold() && o.severity > catalog.Info {
		o.severity--
	}
}

// confidence says how sure a finding is: the further the evidence is beyond
// its thresholds, the more of the supporting evidence holds, and the better
// the thresholds are founded, the surer. It is a rough word in a number, not a
// probability.
func confidence(evidence []catalog.Evidence, held, known int, source BaselineSource) float64 {
	c, margin, n := 0.6, 0.0, 0
	for _, e := range evidence {
		if e.Holds != catalog.True || !(e.Threshold > 0) || !(e.Value.V > 0) {
			continue
		}
		margin += min(1, math.Abs(math.Log2(e.Value.V/e.Threshold)))
		n++
	}
	if n > 0 {
		c += 0.2 * margin / float64(n)
	}
	if known > 0 {
		c += 0.1 * float64(held) / float64(known)
	} else {
		c += 0.05
	}
	if source != NoBaseline {
		c += 0.09
	}
	return math.Round(c*100) / 100
}

func (o *outcome) refine(s *Snapshot, v view, target int) {
	o.pass = &catalog.Pass{View: v, Config: s.Targets[target].Config, Summary: o.pathology.Title, Fixes: slices.Clone(o.pathology.Fixes)}
	if o.pass.Config == nil {
		o.pass.Config = engine.Config{}
	}
	if o.pathology.Refine != nil {
		o.pathology.Refine(o.pass)
	}
}

// merge makes one finding of a pathology's outcomes on all targets.
func merge(p *catalog.Pathology, s *Snapshot, judged []judgement) Finding {
	f := Finding{Pathology: p, Severity: p.Severity, Status: NotApplicable}
	if len(judged) == 0 {
		f.Status = Unknown
	}
	var worst *outcome
	var span Span // of the worst
	inhibited := true
	for i := range judged {
		for k := range judged[i].outcomes {
			o := &judged[i].outcomes[k]
			if o.pathology != p || o.status == NotApplicable {
				continue
			}
			switch {
			case worst == nil || o.status == Unknown && worst.status == OK || rankOf(o.status) > rankOf(worst.status):
				worst, span, f.Targets, inhibited = o, *judged[i].view.span(), nil, true
			case o.status == Firing && worst.status == Firing && worst.inhibitedBy != "" && o.inhibitedBy == "":
				worst, span = o, *judged[i].view.span()
			}
			if o.status == worst.status {
				f.Targets = append(f.Targets, s.Targets[judged[i].target].Name)
				inhibited = inhibited && o.inhibitedBy != ""
			}
		}
	}
	if worst == nil {
		return f
	}
	f.Status, f.Severity, f.Evidence, f.Confidence = worst.status, worst.severity, worst.evidence, worst.confidence
	if f.Status >= Pending {
		f.Since, f.SinceAtLeast = span.since()
	}
	if f.Status == Firing {
		f.Summary, f.Reasons, f.Fixes = worst.pass.Summary, worst.pass.Reasons, worst.pass.Fixes
		if inhibited {
			f.InhibitedBy = worst.inhibitedBy
		}
	}
	if f.Status == OK {
		f.RuledOutBy = ruledOut(f.Evidence)
	}
	return f
}

// rankOf orders outcomes for merging: what fires anywhere is shown, then what
// could not be checked somewhere.
func rankOf(s Status) int {
	return map[Status]int{NotApplicable: 0, OK: 1, Unknown: 2, Pending: 3, Firing: 4}[s]
}

// ruledOut returns the comparison that most clearly does not hold.
func ruledOut(evidence []catalog.Evidence) *catalog.Evidence {
	var best *catalog.Evidence
	bestMargin := -1.0
	for i := range evidence {
		e := &evidence[i]
		if e.Holds != catalog.False || math.IsNaN(e.Threshold) {
			continue
		}
		margin := 10.0 // a zero on the right side of a threshold is as clear as can be
		if e.Value.V > 0 && e.Threshold > 0 {
			margin = min(margin, math.Abs(math.Log2(e.Value.V/e.Threshold)))
		}
		if margin > bestMargin {
			best, bestMargin = e, margin
		}
	}
	return best
}

// rank puts findings in the order in which they should be read: what fires and
// is not explained by another, the most severe first, then the rest. The
// catalogue's order, causes before symptoms, decides between equals.
func rank(fs []Finding) {
	key := func(f *Finding) int {
		k := rankOf(f.Status) * 100
		if f.Status == Firing && f.InhibitedBy == "" {
			k += 50 + int(f.Severity)
		}
		return -k
	}
	slices.SortStableFunc(fs, func(a, b Finding) int { return key(&a) - key(&b) })
}

// verdict gives the one answer.
func verdict(s *Snapshot, d *Diagnosis, judged []judgement) (Verdict, Status) {
	if len(d.Findings) > 0 && d.Findings[0].Status == Firing {
		f := &d.Findings[0]
		return Verdict{ID: f.Pathology.ID, Summary: f.Summary, Targets: f.Targets, Since: f.Since, SinceAtLeast: f.SinceAtLeast, Confidence: f.Confidence}, Firing
	}
	names := make([]string, 0, len(judged))
	idle, known := true, 0
	for _, j := range judged {
		if s.Targets[j.target].IsGPU() {
			continue
		}
		names = append(names, s.Targets[j.target].Name)
		if !j.view.known() {
			continue
		}
		known++
		idle = idle && j.view.idle()
	}
	switch {
	case known == 0:
		return Verdict{ID: InsufficientData, Summary: cannotTell(s, judged), Targets: names}, Unknown
	case idle:
		return Verdict{ID: Idle, Summary: "No traffic to speak of: nothing to judge, and nothing wrong", Targets: names, Confidence: 0.9}, OK
	}
	if pending := pendingSummary(s, d.Findings); pending != "" {
		return Verdict{ID: Healthy, Summary: pending, Targets: names, Confidence: 0.5}, OK
	}
	v := Verdict{ID: Healthy, Summary: healthySummary(s, judged), Targets: names, Confidence: 0.9}
	for _, j := range judged {
		span := j.view.span()
		if s.Targets[j.target].IsGPU() || span.Source != NoBaseline {
			continue
		}
		v.Confidence = min(v.Confidence, 0.7) // worse than itself could not be looked for
		if v.Confidence > 0.5 && (!span.Onset.IsZero() || span.Window.Length() < longEnough) {
			v.Confidence = 0.5
			v.Summary += "; but there is hardly any past to compare with"
		}
	}
	return v, OK
}

// longEnough is a window in which a server that nothing is known of before, and
// in which nothing changed, shows what it is like.
const longEnough = 30 * time.Second

// pendingSummary says what holds but has not lasted long enough to be believed,
// less what another one of it explains; "" when nothing does.
func pendingSummary(s *Snapshot, fs []Finding) string {
	var pending []*Finding
	for i := range fs {
		if fs[i].Status == Pending {
			pending = append(pending, &fs[i])
		}
	}
	var parts []string
	for _, f := range pending {
		explains := func(by *Finding) bool { return slices.Contains(by.Pathology.Inhibits, f.Pathology.ID) }
		if slices.ContainsFunc(pending, explains) {
			continue
		}
		on := strings.Join(f.Targets, ", ")
		if len(f.Targets) > 3 {
			on = fmt.Sprintf("%d targets", len(f.Targets))
		}
		parts = append(parts, fmt.Sprintf("%s on %s for %s", f.Pathology.ID, on, indicator.FormatNumber(s.At.Sub(f.Since).Seconds(), indicator.Seconds)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Nothing is believed wrong yet: " + strings.Join(parts, "; ")
}

// coldFor is how long after its start a server's numbers are taken with salt:
// graphs, caches and pools warm up with the first requests.
const coldFor = 300

// notes are remarks on the whole diagnosis.
func notes(s *Snapshot, judged []judgement) []string {
	var out []string
	for _, j := range judged {
		if age := j.view.Now(indicator.ServingAge); age.OK && age.V >= 0 && age.V < coldFor {
			out = append(out, fmt.Sprintf("%s began to serve %s before: it may still be warming up", s.Targets[j.target].Name, indicator.FormatNumber(age.V, indicator.Seconds)))
		}
		for _, o := range j.outcomes {
			if o.status == Pending {
				out = append(out, fmt.Sprintf("%s on %s since %s: too short to be believed yet", o.pathology.ID, s.Targets[j.target].Name, j.view.span().Onset.UTC().Format("15:04:05Z")))
			}
		}
	}
	return out
}

func cannotTell(s *Snapshot, judged []judgement) string {
	for i := range s.Targets {
		if p := s.Targets[i].Problem; p != "" {
			return fmt.Sprintf("Cannot tell: %s: %s", s.Targets[i].Name, p)
		}
	}
	for _, j := range judged {
		if j.view.span().Failing {
			return fmt.Sprintf("Cannot tell: the last scrape of %s failed, and the one before it did not: look at its /health, or ask again after the next one", s.Targets[j.target].Name)
		}
		if v := j.view.Now(indicator.FirstTokenRate); v.Reason != "" {
			return "Cannot tell: " + v.Reason
		}
		if j.view.Now(indicator.FirstTokenRate).OK && !j.view.Now(indicator.InFlightFloor).OK {
			return fmt.Sprintf("Cannot tell: %s has no samples from the last moments", s.Targets[j.target].Name)
		}
	}
	return "Cannot tell: a rate needs at least two scrapes, a verdict ten seconds of them"
}

func healthySummary(s *Snapshot, judged []judgement) string {
	var parts []string
	for _, j := range judged {
		if s.Targets[j.target].IsGPU() {
			continue
		}
		for _, sig := range []*indicator.Signal{indicator.TTFTP95, indicator.ITLP95} {
			if v := j.view.Now(sig); v.OK {
				parts = append(parts, fmt.Sprintf("%s %s", sig.Title, indicator.Format(v, sig.Unit)))
			}
		}
		break
	}
	if len(judged) > 1 || len(parts) == 0 {
		return "Nothing is wrong"
	}
	return "Nothing is wrong: " + strings.Join(parts, ", ")
}

// coverage lists what could not be checked.
func coverage(fs []Finding) []Gap {
	var gaps []Gap
	for _, f := range fs {
		if f.Status != Unknown {
			continue
		}
		g := Gap{ID: f.Pathology.ID}
		for _, e := range f.Evidence {
			if e.Holds != catalog.Unknown {
				continue
			}
			why := e.Value.Reason
			switch {
			case e.Value.OK && math.IsNaN(e.Threshold):
				why = e.Signal.Title + ": no baseline to compare with"
			case why == "":
				why = e.Signal.Title + ": no samples"
			case !strings.HasPrefix(why, "not exposed"):
				why = e.Signal.Title + ": " + why
			}
			if !slices.Contains(g.Missing, why) {
				g.Missing = append(g.Missing, why)
			}
			if g.Hint == "" {
				g.Hint = e.Signal.Hint
			}
		}
		gaps = append(gaps, g)
	}
	return gaps
}
