package report

import (
	"cmp"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

// Schema names the version of the JSON. Fields are added under the same name;
// a change that breaks a reader gets a new one.
const Schema = "sixty.diagnosis/v1"

// An object is a JSON object. docs/json.md describes each field. Unknown numbers are null, times are in UTC with
// milliseconds, lists are never null.
type object = render.Object

// JSON writes a diagnosis as one indented JSON object.
func JSON(w io.Writer, d diagnose.Diagnosis, o Options) error {
	return render.JSON(w, object{
		"schema", Schema, "tool", version.This(), "at", moment(d.At), "status", d.Status.String(), "verdict",
		verdictJSON(&d, &d.Verdict),
		"verdicts", each(d.Verdicts, func(v *diagnose.Verdict) object { return verdictJSON(&d, v) }),
		"findings", each(d.Findings, func(f *diagnose.Finding) object { return findingJSON(f, &o) }),
		"workload", workloadJSON(&d.Workload),
		"coverage", each(d.Coverage, func(g *diagnose.Gap) object {
			return object{"id", g.ID, "missing", listOrEmpty(g.Missing), "hint", g.Hint}
		}),
		"targets", each(d.Targets, func(t *diagnose.Target) object { return targetJSON(&d, t) }),
		"window",
		object{"from", moment(d.Window.From), "to", moment(d.Window.To)},
		"baseline",
		object{"from", moment(d.Baseline.From), "to", moment(d.Baseline.To), "source", string(baselineSource(&d))},
		"notes", listOrEmpty(d.Notes), "gateway", gatewayJSON(&d), "plots", listOrNone(plotsJSON(&d)), "deployments",
		listOrNone(each(d.Deployments, deploymentJSON)),
	})
}

// deploymentJSON returns the path of a request through the servers of a model.
func deploymentJSON(w *diagnose.Deployment) object {
	return object{
		"model", w.Model, "first_token", render.Finite(w.FirstToken),
		"stages", each(w.Stages, func(s *diagnose.Stage) object {
			return object{"role", string(s.Role), "targets", listOrEmpty(s.Targets), "lost", s.Lost, "waiting",
				render.Finite(s.Waiting), "seconds", render.Finite(s.Seconds), "findings", listOrEmpty(s.Found)}
		}),
		"links", each(w.Links, func(l *diagnose.Link) object {
			return object{"carries", l.Carries, "seconds", render.Finite(l.Seconds), "fail_share",
				render.Finite(l.FailShare), "findings", listOrEmpty(l.Found)}
		}),
	}
}

// plotsJSON returns the plots of all verdicts.
func plotsJSON(d *diagnose.Diagnosis) (out []object) {
	verdicts := []*diagnose.Verdict{&d.Verdict}
	if d.Status == diagnose.Firing {
		verdicts = fullVerdicts(d)
	}
	for _, v := range verdicts {
		f := d.LeadingFinding(v)
		from, to := shownTime(d, v)
		for i := range v.Plots {
			p := &v.Plots[i]
			limit, op, fromEvidence := plotLimit(p, f)
			out = append(out, object{
				"model", v.Model, "signal", p.Signal.Name, "title", p.Signal.Title, "unit", string(p.Signal.Unit),
				"from", moment(from), "to", moment(to),
				"onset", moment(v.Since), "onset_at_least", v.SinceAtLeast, "window_from", moment(p.Window.From),
				"baseline",
				object{"from", moment(p.Baseline.From), "to", moment(p.Baseline.To)},
				"over_s", p.Over.Seconds(),
				"threshold", render.Finite(limit), "op", string(op),
				"value", numberOrNull(p.Now), "value_text", boundText(p.Now, p.Signal),
				"normal", numberOrNull(p.Normal), "normal_text", boundText(p.Normal, p.Signal),
				"quantile", render.OrNone(p.Signal.Quantile), // the points are interpolated in buckets
				"evidence", fromEvidence, "lines", each(p.Lines, lineJSON),
			})
		}
	}
	return out
}

func lineJSON(l *diagnose.Line) object {
	points := make([][2]any, 0, len(l.At))
	for i, at := range l.At {
		points = append(points, [2]any{render.Moment(at), render.Finite(l.Value[i])})
	}
	return object{"name", l.Target, "points", points}
}

// gatewayJSON returns what a gateway measured in its window, by names of signals.
func gatewayJSON(d *diagnose.Diagnosis) any {
	gateway := d.Gateway()
	if gateway < 0 {
		return render.None{}
	}
	signals := map[string]any{}
	for _, s := range gatewaySignals {
		if now, _ := d.Reading(gateway, s.gateway); now.OK {
			signals[s.gateway.Name] = now.V
		} else if parts := d.Parts(gateway, s.gateway); len(parts) > 0 {
			signals[s.gateway.Name] = parts // by model
		}
	}
	found := []object{}
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Status == diagnose.Firing && f.InhibitedBy == "" &&
			f.Pathology.Scope() == indicator.Gateway {
			found = append(found, object{"id", f.Pathology.ID, "severity", f.Severity, "summary", f.Summary})
		}
	}
	return object{"kind", d.Targets[gateway].Version, "target", d.Targets[gateway].Name, "signals", signals, "findings",
		found}
}

func verdictJSON(d *diagnose.Diagnosis, v *diagnose.Verdict) object {
	var severity any
	findings := []string{}
	if v.Status == diagnose.Firing {
		severity = v.Severity.String()
		for i := range d.Findings {
			if f := &d.Findings[i]; f.Status == diagnose.Firing && f.Model == v.Model {
				findings = append(findings, f.Pathology.ID)
			}
		}
	}
	return object{
		"id", v.ID, "name", nameOf(d, v), "status", v.Status.String(), "severity", severity, "model", v.Model,
		"summary", v.Summary,
		"hop", render.OrNone(d.Hop(v)), "targets", listOrEmpty(v.Targets), "since", moment(v.Since), "at_least",
		v.SinceAtLeast,
		"confidence", render.Finite(v.Confidence), "findings", findings, "workload", workloadJSON(&v.Workload),
	}
}

func workloadJSON(w *diagnose.Workload) object {
	return object{"target", w.Target, "known", w.Known, "changed", w.Changed, "factors",
		each(w.Factors, func(f *diagnose.Factor) object {
			unit := indicator.Unit("")
			if f.Signal != nil {
				unit = f.Signal.Unit
			}
			computed := func(v float64) any { // null where it was not
				if v < 0 {
					return nil
				}
				return render.Finite(v)
			}
			return object{
				"name", f.Name, "unit", string(unit), "baseline", render.Finite(f.Baseline), "value",
				render.Finite(f.Value),
				"share_of_ttft_change", computed(f.ShareOfTTFTChange), "share_of_output_change",
				computed(f.ShareOfOutputChange),
			}
		})}
}

func findingJSON(f *diagnose.Finding, o *Options) object {
	var ruledOutBy any
	if f.RuledOutBy != nil {
		ruledOutBy = evidenceJSON(f.RuledOutBy)
	}
	var datedBy any
	if f.DatedBy != nil {
		datedBy = f.DatedBy.Name
	}
	return object{
		"id", f.Pathology.ID, "name", cmp.Or(f.Pathology.Name(), f.Pathology.ID), "model", f.Model, "title",
		f.Pathology.Title,
		"status", f.Status.String(), "severity", f.Severity.String(), "targets", listOrEmpty(f.Targets), "since",
		moment(f.Since), "at_least", f.SinceAtLeast,
		"dated_by", datedBy, "summary", f.Summary, "reasons", listOrEmpty(f.Reasons), "confidence",
		render.Finite(f.Confidence), "servers", f.Servers, "evidence", EvidenceJSON(f.Evidence),
		"story", f.Story(), "chain", each(f.Chain, stepJSON),
		"ruled_out_by", ruledOutBy, "inhibited_by", render.OrNull(f.InhibitedBy), "runbook", o.runbook(f.Pathology),
		"fixes", FixesJSON(f.Fixes),
	}
}

// EvidenceJSON returns evidence as in the JSON of a diagnosis.
func EvidenceJSON(evidence []catalog.Evidence) any { return each(evidence, evidenceJSON) }

func stepJSON(s *diagnose.Step) object {
	return append(object{"says", s.Says, "since", moment(s.Since), "at_least", s.SinceAtLeast, "first", s.First},
		evidenceJSON(&s.Evidence)...)
}

func evidenceJSON(e *catalog.Evidence) object {
	var valueBound, holds any
	switch {
	case e.Value.OK && e.Value.AtMost:
		valueBound = "at_most"
	case e.Value.OK && e.Value.AtLeast:
		valueBound = "at_least"
	}
	if e.Holds != catalog.Unknown {
		holds = e.Holds == catalog.True
	}
	var limit any = render.None{}
	if !math.IsNaN(e.Threshold) {
		limit = e.Op.Text(e.Threshold, e.Signal.Unit)
	}
	return object{
		"signal", e.Signal.Name, "title", e.Signal.Title, "unit", string(e.Signal.Unit),
		"value", numberOrNull(e.Value), "value_bound", valueBound, "value_bucket", bucketJSON(e.Value), "value_text",
		boundText(e.Value, e.Signal),
		"value_reason", render.OrNone(e.Value.Reason), "baseline", numberOrNull(e.Baseline), "baseline_bucket",
		bucketJSON(e.Baseline), "baseline_text", boundText(e.Baseline, e.Signal),
		"threshold", render.Finite(e.Threshold), "threshold_name", e.Name, "threshold_source", e.Source, "op",
		string(e.Op), "limit_text", limit, "holds", holds, "role", e.Role.String(),
	}
}

// bucketJSON returns the bounds of the histogram's bucket that holds a percentile.
func bucketJSON(v indicator.Value) any {
	if v.Bucket == (stat.Bucket{}) {
		return render.None{}
	}
	return []any{render.Finite(v.Bucket.Low), render.Finite(v.Bucket.High)}
}

// boundText returns the text of a value of which only a bucket or a bound is known.
func boundText(v indicator.Value, s *indicator.Signal) any {
	return render.OrNone(indicator.FormatBound(v, s.Unit))
}

// FixesJSON returns fixes as in the JSON of a diagnosis.
func FixesJSON(fixes []catalog.Fix) any {
	heads := catalog.Heads(fixes)
	return each(fixes, func(f *catalog.Fix) object {
		head := heads[0]
		heads = heads[1:]
		return object{
			"head", head, "summary", f.Summary, "changes", each(f.Changes, func(c *catalog.Change) object {
				return object{"flag", c.Flag, "from", render.OrNull(c.From), "to", c.To}
			}),
			"args", f.Args(), "command", f.Command, "arithmetic", listOrEmpty(f.Arithmetic), "tradeoff", f.Tradeoff,
			"predicted", predictedJSON(f.Predicted), "verify", f.Verify, "stops", f.Stops,
		}
	})
}

func predictedJSON(p *catalog.Prediction) any {
	if p == nil {
		return nil
	}
	estimate := func(e catalog.Estimate) object {
		return object{"value", render.Finite(e.Value), "low", render.Finite(e.Low), "high", render.Finite(e.High)}
	}
	var benefit any
	if p.Reason == "" {
		benefit = estimate(p.Benefit)
	}
	return object{
		"reason", render.OrNull(p.Reason), "needs_seconds", render.Finite(p.Needs.Seconds()), "benefit", benefit,
		"effects", each(p.Effects, func(e *catalog.Effect) object {
			return object{
				"signal", e.Signal.Name, "title", e.Signal.Title, "unit", string(e.Signal.Unit), "measured",
				numberOrNull(e.Measured), "measured_text", boundText(e.Measured, e.Signal),
				"before", estimate(e.Before), "unchanged", estimate(e.Unchanged), "after", estimate(e.After),
			}
		}),
		"basis", listOrEmpty(p.Basis), "caveats", listOrEmpty(p.Caveats),
	}
}

func targetJSON(d *diagnose.Diagnosis, t *diagnose.Target) object {
	config := t.Config
	if config == nil {
		config = engine.Config{}
	}
	return object{
		"name", t.Name, "dialect", t.Dialect.ID, "version", t.Version, "model", t.Labels["model_name"], "up",
		isUp(d, t),
		"judged", !slices.ContainsFunc(d.Unjudged, func(u diagnose.Unjudged) bool { return u.Target == t.Name }),
		// starting, serving, slow, drained or lost, "" if unknown; a gateway is only ever lost
		"state", string(t.Life),
		"problem", t.Problem, "notes", listOrEmpty(t.Notes), "config", config,
	}
}

// moment returns a time in RFC 3339 in UTC with milliseconds, or null for the zero time.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func each[From, To any](in []From, convert func(*From) To) []To { return render.Each(in, convert) }

func listOrEmpty(in []string) []string { return append([]string{}, in...) }

// listOrNone returns a list, or None if it is empty.
func listOrNone(list []object) any {
	if len(list) == 0 {
		return render.None{}
	}
	return list
}

func numberOrNull(v indicator.Value) any { return render.Finite(v.Or(math.NaN())) }
