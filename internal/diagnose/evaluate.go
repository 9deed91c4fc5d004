package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// evaluate judges a snapshot. It notes in since which trails it needs to date a fault and were not read yet.
func evaluate(s *Snapshot, since *dates, pathologies []*catalog.Pathology, set Settings) Diagnosis {
	d := Diagnosis{At: s.At, Targets: slices.Clone(s.Targets), Spans: s.Spans, Interval: s.interval}
	var judged []judgement
	for i := range s.Targets {
		if s.Targets[i].Problem == "" {
			judged = append(judged, judgeTarget(s, since, i, pathologies, set))
		}
	}
	for i := range judged {
		if j := &judged[i]; s.Targets[j.target].Serves() {
			d.Targets[j.target].Life = j.stateOf()
			if j.view.canBeJudged() {
				j.doubt = j.reasonAgainstHealthy()
			}
			if j.doubt != "" {
				d.Doubts = append(d.Doubts, Doubt{j.name(), j.doubt})
			}
		}
	}
	for i := range d.Targets {
		if t := &d.Targets[i]; t.IsGateway() && !s.Now(i, indicator.GatewayOffered).OK {
			t.Life = identity.LifeLost
		}
	}
	checked := slices.Clone(pathologies)
	if len(set.Only) > 0 {
		checked = slices.DeleteFunc(checked,
			func(p *catalog.Pathology) bool { return !slices.Contains(set.Only, p.ID) })
	}
	missing := listUnjudged(s, judged)
	pools := poolsOf(s, judged, missing)
	for i := range pools {
		pools[i].only = set.Only
		pools[i].judgePool(checked)
	}
	slices.SortStableFunc(pools, comparePools)
	for i := range pools {
		if p := &pools[i]; !p.gateway || p.verdict.Status == Firing {
			d.Verdicts = append(d.Verdicts, p.verdict)
		}
		d.Findings = append(d.Findings, pools[i].findings...)
	}
	rankFindings(d.Findings)
	all := pool{snapshot: s, only: set.Only, judged: judged, unjudged: missing, findings: d.Findings}
	d.Unjudged = all.unjudged
	d.Verdict = all.quietVerdict()
	if n := len(d.Verdicts); n == 1 || n > 1 && d.Verdicts[0].Status == Firing {
		d.Verdict = d.Verdicts[0]
	}
	d.Status, d.Workload = d.Verdict.Status, d.Verdict.Workload
	d.Coverage = findGaps(d.Findings)
	d.Notes = append(diagnosisNotes(s, judged, &d), lifeNotes(d.Targets)...)
	d.Window, d.Baseline, d.Source = shownSpan(s, &d)
	d.Deployments = findDeployments(s, &d)
	return d
}

// shownSpan returns the span to show: that of the target that is compared with its past, else of the first target that
// the verdict names.
func shownSpan(s *Snapshot, d *Diagnosis) (window, base period.Period, source segments.BaselineSource) {
	name := d.Workload.Target
	if name == "" && len(d.Verdict.Targets) > 0 {
		name = d.Verdict.Targets[0]
	}
	if len(s.Spans) == 0 {
		return period.Period{To: s.At}, period.Period{}, segments.NoBaseline
	}
	span := &s.Spans[max(0, slices.IndexFunc(s.Targets, func(t identity.Target) bool { return t.Name == name }))]
	return span.Window, span.Baseline, span.Source
}

// diagnosisNotes returns remarks on the whole diagnosis.
func diagnosisNotes(s *Snapshot, judged []judgement, d *Diagnosis) []string {
	var out, cold []string
	youngest := math.Inf(1)
	for _, j := range judged {
		name := s.Targets[j.target].Name
		if age := j.view.Now(indicator.ServingAge); age.OK && age.V >= 0 && age.V < coldFor {
			cold, youngest = append(cold, name), min(youngest, age.V)
		}
	}
	for _, j := range judged {
		if j.view.Now(indicator.StaleGauges).Or(0) > 0 {
			out = append(out, fmt.Sprintf("%s shows %s whose clients have all left: an engine without work does not update its gauges",
				s.Targets[j.target].Name, catalog.Requests(j.view.Now(indicator.LastHeld).Or(0))))
		}
	}
	if len(cold) > 0 {
		out = append(out, fmt.Sprintf("%s started %s ago and may still be warming up", identity.ListNames(cold),
			indicator.FormatNumber(youngest, indicator.Seconds)))
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		isExplained := func(by Finding) bool { return by.Status == Firing && by.explains(f) }
		if f.Status != Pending || d.Verdict.ID == NotCertain && f.Suspected() ||
			slices.ContainsFunc(d.Findings, isExplained) {
			continue // the verdict says so, or what fires does
		}
		how := "is not certain yet"
		if f.ended {
			how = "seems to be over"
		}
		out = append(out, fmt.Sprintf("%s on %s since %s %s", f.Pathology.Name(), identity.ListNames(f.Targets),
			f.Since.UTC().Format("15:04:05 UTC"), how))
	}
	return out
}

// findGaps lists what could not be checked, each pathology once.
func findGaps(fs []Finding) []Gap {
	var gaps []Gap
	for _, f := range fs {
		if f.Status != Unknown {
			continue
		}
		i := slices.IndexFunc(gaps, func(g Gap) bool { return g.ID == f.Pathology.ID })
		if i < 0 {
			i = len(gaps)
			gaps = append(gaps, Gap{ID: f.Pathology.ID})
		}
		gaps[i].addMissing(f.Evidence)
	}
	return gaps
}

// addMissing notes what the evidence of a finding lacks.
func (g *Gap) addMissing(evidence []catalog.Evidence) {
	for _, e := range evidence {
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
		onlyTime := e.Value.OK || strings.HasPrefix(e.Value.Reason, "too few") ||
			strings.HasPrefix(e.Value.Reason, "needs ")
		if g.Hint == "" && !onlyTime { // the signal is exposed, so a hint would enable nothing
			g.Hint = e.Signal.Hint
		}
	}
}

// lifeNotes lists the targets that are starting and those that were drained.
func lifeNotes(targets []identity.Target) (out []string) {
	names := map[identity.Life][]string{}
	for i := range targets {
		names[targets[i].Life] = append(names[targets[i].Life], targets[i].Name)
	}
	for _, l := range []struct {
		identity.Life
		what string
	}{{identity.LifeStarting, "starting, never answered yet"},
		{identity.LifeDrained, "stopped without requests in flight"}} {
		if of := names[l.Life]; len(of) > 0 {
			out = append(out, l.what+": "+identity.ListNames(of))
		}
	}
	return out
}
