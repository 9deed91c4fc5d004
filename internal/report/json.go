package report

import (
	"cmp"
	"encoding/json"
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

// JSON writes a diagnosis as one indented JSON object, documented field by
// field in docs/json.md.
func JSON(w io.Writer, d diagnose.Diagnosis, o Options) error {
	return render.JSON(w, newDiagnosisJSON(&d, &o))
}

// The types below are the contract where it says more than the values that it is of: a number
// that is not known is null, times are in UTC with milliseconds, a list is never null. What is
// the same in both has its names in JSON where it is declared.
type (
	diagnosisJSON struct {
		Schema   string        `json:"schema"`
		Tool     version.Tool  `json:"tool"`
		At       timestamp     `json:"at"`
		Status   string        `json:"status"`
		Verdict  verdictJSON   `json:"verdict"`
		Verdicts []verdictJSON `json:"verdicts"`
		Findings []findingJSON `json:"findings"`
		Workload workloadJSON  `json:"workload"`
		Coverage []gapJSON     `json:"coverage"`
		Targets  []targetJSON  `json:"targets"`
		Window   rangeJSON     `json:"window"`
		Baseline baselineJSON  `json:"baseline"`
		Notes    []string      `json:"notes"`
		Gateway  *boundaryJSON `json:"gateway,omitempty"`
		Plots    []plotJSON    `json:"plots,omitempty"`

		Deployments []deploymentJSON `json:"deployments,omitempty"`
	}

	// deploymentJSON is the path of a request through the servers of a model.
	deploymentJSON struct {
		Model      string      `json:"model"`
		FirstToken number      `json:"first_token"`
		Stages     []stageJSON `json:"stages"`
		Links      []linkJSON  `json:"links"`
	}

	stageJSON struct {
		Role     string   `json:"role"`
		Targets  []string `json:"targets"`
		Lost     int      `json:"lost"`
		Waiting  number   `json:"waiting"`
		Seconds  number   `json:"seconds"`
		Findings []string `json:"findings"`
	}

	linkJSON struct {
		Carries   string   `json:"carries"`
		Seconds   number   `json:"seconds"`
		FailShare number   `json:"fail_share"`
		Findings  []string `json:"findings"`
	}

	// plotJSON is one quantity over time, of a verdict that was plotted.
	plotJSON struct {
		Model      string     `json:"model"`
		Signal     string     `json:"signal"`
		Title      string     `json:"title"`
		Unit       string     `json:"unit"`
		From       timestamp  `json:"from"`
		To         timestamp  `json:"to"`
		Onset      timestamp  `json:"onset"`
		AtLeast    bool       `json:"onset_at_least"`
		WindowFrom timestamp  `json:"window_from"`
		Baseline   rangeJSON  `json:"baseline"`
		OverS      float64    `json:"over_s"`
		Threshold  number     `json:"threshold"`
		Op         string     `json:"op"`
		Value      number     `json:"value"`
		ValueText  string     `json:"value_text,omitempty"` // where only a bucket or a bound is known
		Normal     number     `json:"normal"`
		NormalText string     `json:"normal_text,omitempty"`
		Quantile   float64    `json:"quantile,omitempty"` // the points are interpolated in buckets
		Evidence   bool       `json:"evidence"`
		Lines      []lineJSON `json:"lines"`
	}

	lineJSON struct {
		Name   string      `json:"name"`
		Points [][2]number `json:"points"`
	}

	// boundaryJSON is what a gateway saw; times are seconds.
	boundaryJSON struct {
		Kind        string             `json:"kind"`
		Seconds     float64            `json:"seconds"`
		Whole       bool               `json:"since_begin"`
		Offered     float64            `json:"offered"`
		Ended       map[string]float64 `json:"ended"`
		Open        float64            `json:"open"`
		ErrorShare  number             `json:"error_share"`
		GaveUpShare number             `json:"gave_up_share"`
		TTFT        *latencyJSON       `json:"ttft"`
		E2E         *latencyJSON       `json:"e2e"`
		Parts       []partJSON         `json:"ttft_parts"`
		Findings    []foundJSON        `json:"findings"`
	}

	// foundJSON is a finding at the gateway.
	foundJSON struct {
		ID       string           `json:"id"`
		Severity catalog.Severity `json:"severity"`
		Summary  string           `json:"summary"`
	}

	latencyJSON struct {
		Count        float64 `json:"count"`
		GivenUp      float64 `json:"given_up"`
		Mean         number  `json:"mean"`
		P50          number  `json:"p50"`
		P95          number  `json:"p95"`
		CorrectedP50 number  `json:"corrected_p50"`
		AtLeast50    bool    `json:"corrected_p50_at_least"`
		CorrectedP95 number  `json:"corrected_p95"`
		AtLeast95    bool    `json:"corrected_p95_at_least"`
		EngineCount  float64 `json:"engine_count"`
		EngineMean   number  `json:"engine_mean"`
		EngineP50    number  `json:"engine_p50"`
		EngineP95    number  `json:"engine_p95"`
	}

	partJSON struct {
		Name    string `json:"name"`
		Seconds number `json:"seconds"`
	}

	verdictJSON struct {
		ID         string       `json:"id"`
		Name       string       `json:"name"`
		Status     string       `json:"status"`
		Severity   *string      `json:"severity"`
		Model      string       `json:"model"`
		Summary    string       `json:"summary"`
		Hop        string       `json:"hop,omitempty"`
		Targets    []string     `json:"targets"`
		Since      timestamp    `json:"since"`
		AtLeast    bool         `json:"at_least"`
		Confidence number       `json:"confidence"`
		Findings   []string     `json:"findings"`
		Workload   workloadJSON `json:"workload"`
	}

	findingJSON struct {
		ID          string         `json:"id"`
		Name        string         `json:"name"`
		Model       string         `json:"model"`
		Title       string         `json:"title"`
		Status      string         `json:"status"`
		Severity    string         `json:"severity"`
		Targets     []string       `json:"targets"`
		Since       timestamp      `json:"since"`
		AtLeast     bool           `json:"at_least"`
		Summary     string         `json:"summary"`
		Reasons     []string       `json:"reasons"`
		Confidence  number         `json:"confidence"`
		Evidence    []evidenceJSON `json:"evidence"`
		RuledOutBy  *evidenceJSON  `json:"ruled_out_by"`
		InhibitedBy *string        `json:"inhibited_by"`
		Runbook     string         `json:"runbook"`
		Fixes       []fixJSON      `json:"fixes"`
	}

	evidenceJSON struct {
		Signal          string   `json:"signal"`
		Title           string   `json:"title"`
		Unit            string   `json:"unit"`
		Value           number   `json:"value"`
		ValueBound      *string  `json:"value_bound"`
		ValueBucket     []number `json:"value_bucket,omitempty"`
		ValueText       string   `json:"value_text,omitempty"` // where only a bucket or a bound is known
		ValueReason     string   `json:"value_reason,omitempty"`
		Baseline        number   `json:"baseline"`
		BaselineBucket  []number `json:"baseline_bucket,omitempty"`
		BaselineText    string   `json:"baseline_text,omitempty"`
		Threshold       number   `json:"threshold"`
		ThresholdName   string   `json:"threshold_name"`
		ThresholdSource string   `json:"threshold_source"`
		Op              string   `json:"op"`
		Holds           *bool    `json:"holds"`
	}

	fixJSON struct {
		Summary    string         `json:"summary"`
		Changes    []changeJSON   `json:"changes"`
		Args       string         `json:"args"`
		Command    string         `json:"command"`
		Arithmetic []string       `json:"arithmetic"`
		Tradeoff   string         `json:"tradeoff"`
		Predicted  *predictedJSON `json:"predicted"`
		Verify     string         `json:"verify"`
	}

	predictedJSON struct {
		Reason  *string       `json:"reason"`
		Needs   number        `json:"needs_seconds"`
		Benefit *estimateJSON `json:"benefit"`
		Effects []effectJSON  `json:"effects"`
		Basis   []string      `json:"basis"`
		Caveats []string      `json:"caveats"`
	}

	effectJSON struct {
		Signal    string       `json:"signal"`
		Title     string       `json:"title"`
		Unit      string       `json:"unit"`
		Measured  number       `json:"measured"`
		Text      string       `json:"measured_text,omitempty"`
		Before    estimateJSON `json:"before"`
		Unchanged estimateJSON `json:"unchanged"`
		After     estimateJSON `json:"after"`
	}

	estimateJSON struct {
		Value number `json:"value"`
		Low   number `json:"low"`
		High  number `json:"high"`
	}

	changeJSON struct {
		Flag string  `json:"flag"`
		From *string `json:"from"`
		To   string  `json:"to"`
	}

	workloadJSON struct {
		Target  string       `json:"target"`
		Known   bool         `json:"known"`
		Changed bool         `json:"changed"`
		Factors []factorJSON `json:"factors"`
	}

	factorJSON struct {
		Name                string `json:"name"`
		Unit                string `json:"unit"`
		Baseline            number `json:"baseline"`
		Value               number `json:"value"`
		ShareOfTTFTChange   number `json:"share_of_ttft_change"`
		ShareOfOutputChange number `json:"share_of_output_change"`
	}

	gapJSON struct {
		ID      string   `json:"id"`
		Missing []string `json:"missing"`
		Hint    string   `json:"hint"`
	}

	targetJSON struct {
		Name    string        `json:"name"`
		Dialect string        `json:"dialect"`
		Version string        `json:"version"`
		Model   string        `json:"model"`
		Up      bool          `json:"up"`
		Judged  bool          `json:"judged"`
		State   string        `json:"state"` // of a server: starting, serving, slow, drained, lost; of a gateway: lost; "" where nothing tells
		Problem string        `json:"problem"`
		Notes   []string      `json:"notes"`
		Config  engine.Config `json:"config"`
	}

	rangeJSON struct {
		From timestamp `json:"from"`
		To   timestamp `json:"to"`
	}

	baselineJSON struct {
		From   timestamp `json:"from"`
		To     timestamp `json:"to"`
		Source string    `json:"source"`
	}
)

// A number is null where JSON has no value for it: NaN and the infinities.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// A timestamp is RFC 3339 in UTC with milliseconds, or null when it is zero.
type timestamp time.Time

func (t timestamp) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

func newDiagnosisJSON(d *diagnose.Diagnosis, o *Options) diagnosisJSON {
	return diagnosisJSON{
		Schema:   Schema,
		Tool:     version.This(),
		At:       timestamp(d.At),
		Status:   d.Status.String(),
		Verdict:  newVerdictJSON(d, &d.Verdict),
		Verdicts: each(d.Verdicts, func(v *diagnose.Verdict) verdictJSON { return newVerdictJSON(d, v) }),
		Findings: each(d.Findings, func(f *diagnose.Finding) findingJSON { return newFindingJSON(f, o) }),
		Workload: newWorkloadJSON(&d.Workload),
		Coverage: each(d.Coverage, func(g *diagnose.Gap) gapJSON {
			return gapJSON{ID: g.ID, Missing: list(g.Missing), Hint: g.Hint}
		}),
		Targets: each(d.Targets, func(t *diagnose.Target) targetJSON { return newTargetJSON(d, t) }),
		Window:  rangeJSON{timestamp(d.Window.From), timestamp(d.Window.To)},
		Baseline: baselineJSON{
			From: timestamp(d.Baseline.From), To: timestamp(d.Baseline.To), Source: string(baselineSource(d)),
		},
		Notes:   list(d.Notes),
		Gateway: newBoundaryJSON(d),
		Plots:   newPlotsJSON(d),

		Deployments: each(d.Deployments, newDeploymentJSON),
	}
}

func newDeploymentJSON(w *diagnose.Deployment) deploymentJSON {
	return deploymentJSON{
		Model: w.Model, FirstToken: number(w.FirstToken),
		Stages: each(w.Stages, func(s *diagnose.Stage) stageJSON {
			return stageJSON{string(s.Role), list(s.Targets), s.Lost, number(s.Waiting), number(s.Seconds), list(s.Found)}
		}),
		Links: each(w.Links, func(l *diagnose.Link) linkJSON {
			return linkJSON{l.Carries, number(l.Seconds), number(l.FailShare), list(l.Found)}
		}),
	}
}

// newPlotsJSON returns the plots of all verdicts that have some, or nil.
func newPlotsJSON(d *diagnose.Diagnosis) (out []plotJSON) {
	verdicts := []*diagnose.Verdict{&d.Verdict}
	if d.Status == diagnose.Firing {
		verdicts = fullVerdicts(d)
	}
	for _, v := range verdicts {
		f := d.LeadingFinding(v)
		from, to := shownTime(d, v)
		for i := range v.Plots {
			p := &v.Plots[i]
			limit, op, evidence := plotLimit(p, f)
			out = append(out, plotJSON{
				Model: v.Model, Signal: p.Signal.Name, Title: p.Signal.Title, Unit: string(p.Signal.Unit), From: timestamp(from), To: timestamp(to),
				Onset: timestamp(v.Since), AtLeast: v.SinceAtLeast, WindowFrom: timestamp(p.Window.From),
				Baseline: rangeJSON{timestamp(p.Baseline.From), timestamp(p.Baseline.To)}, OverS: p.Over.Seconds(),
				Threshold: number(limit), Op: string(op), Value: known(p.Now), Normal: known(p.Normal), Evidence: evidence,
				ValueText: indicator.FormatBound(p.Now, p.Signal.Unit), NormalText: indicator.FormatBound(p.Normal, p.Signal.Unit), Quantile: p.Signal.Quantile,
				Lines: each(p.Lines, newLineJSON),
			})
		}
	}
	return out
}

func newLineJSON(l *diagnose.Line) lineJSON {
	out := lineJSON{Name: l.Target, Points: make([][2]number, 0, len(l.At))}
	for i, at := range l.At {
		out.Points = append(out.Points, [2]number{number(render.Moment(at)), number(l.Value[i])})
	}
	return out
}

func newBoundaryJSON(d *diagnose.Diagnosis) *boundaryJSON {
	v := d.Boundary
	if v == nil {
		return nil
	}
	latency := func(l *diagnose.Latency) *latencyJSON {
		if l == nil {
			return nil
		}
		return &latencyJSON{
			l.Count, l.GivenUp, number(l.Mean), known(l.P50), known(l.P95), known(l.CorrectedP50), l.CorrectedP50.AtLeast, known(l.CorrectedP95), l.CorrectedP95.AtLeast,
			l.EngineCount, number(l.EngineMean), known(l.EngineP50), known(l.EngineP95),
		}
	}
	found := []foundJSON{}
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Status == diagnose.Firing && f.InhibitedBy == "" && f.Pathology.Scope() == indicator.Gateway {
			found = append(found, foundJSON{f.Pathology.ID, f.Severity, f.Summary})
		}
	}
	return &boundaryJSON{
		Kind: v.Gateway, Seconds: v.Span.Seconds(), Whole: v.Whole, Offered: v.Offered, Ended: v.Ended, Open: v.Open,
		ErrorShare: number(v.ErrorShare), GaveUpShare: number(v.GaveUpShare), TTFT: latency(v.First), E2E: latency(v.Duration),
		Parts:    each(v.Waits, func(w *diagnose.Wait) partJSON { return partJSON{w.Where, number(w.Seconds)} }),
		Findings: found,
	}
}

func newVerdictJSON(d *diagnose.Diagnosis, v *diagnose.Verdict) verdictJSON {
	out := verdictJSON{
		ID: v.ID, Name: nameOf(d, v), Status: v.Status.String(), Model: v.Model, Summary: v.Summary, Hop: d.Hop(v), Targets: list(v.Targets),
		Since: timestamp(v.Since), AtLeast: v.SinceAtLeast, Confidence: number(v.Confidence), Findings: []string{}, Workload: newWorkloadJSON(&v.Workload),
	}
	if v.Status == diagnose.Firing {
		out.Severity = optional(v.Severity.String())
		for i := range d.Findings {
			if f := &d.Findings[i]; f.Status == diagnose.Firing && f.Model == v.Model {
				out.Findings = append(out.Findings, f.Pathology.ID)
			}
		}
	}
	return out
}

func newWorkloadJSON(w *diagnose.Workload) workloadJSON {
	return workloadJSON{Target: w.Target, Known: w.Known, Changed: w.Changed, Factors: each(w.Factors, newFactorJSON)}
}

func newFindingJSON(f *diagnose.Finding, o *Options) findingJSON {
	out := findingJSON{
		ID: f.Pathology.ID, Name: cmp.Or(f.Pathology.Name(), f.Pathology.ID), Model: f.Model, Title: f.Pathology.Title, Status: f.Status.String(), Severity: f.Severity.String(),
		Targets: list(f.Targets), Since: timestamp(f.Since), AtLeast: f.SinceAtLeast, Summary: f.Summary, Reasons: list(f.Reasons),
		Confidence: number(f.Confidence), Evidence: each(f.Evidence, newEvidenceJSON),
		InhibitedBy: optional(f.InhibitedBy), Runbook: o.runbook(f.Pathology), Fixes: each(f.Fixes, newFixJSON),
	}
	if f.RuledOutBy != nil {
		e := newEvidenceJSON(f.RuledOutBy)
		out.RuledOutBy = &e
	}
	return out
}

func newEvidenceJSON(e *catalog.Evidence) evidenceJSON {
	out := evidenceJSON{
		Signal: e.Signal.Name, Title: e.Signal.Title, Unit: string(e.Signal.Unit), Value: known(e.Value), ValueReason: e.Value.Reason,
		Baseline: known(e.Baseline), Threshold: number(e.Threshold), ThresholdName: e.Name,
		ThresholdSource: e.Source, Op: string(e.Op), ValueBucket: bucketJSON(e.Value), BaselineBucket: bucketJSON(e.Baseline),
		ValueText: indicator.FormatBound(e.Value, e.Signal.Unit), BaselineText: indicator.FormatBound(e.Baseline, e.Signal.Unit),
	}
	switch {
	case e.Value.OK && e.Value.AtMost:
		out.ValueBound = optional("at_most")
	case e.Value.OK && e.Value.AtLeast:
		out.ValueBound = optional("at_least")
	}
	if e.Holds != catalog.Unknown {
		holds := e.Holds == catalog.True
		out.Holds = &holds
	}
	return out
}

// bucketJSON are the bounds of the histogram's bucket that a percentile is in; none
// where the value is of no histogram.
func bucketJSON(v indicator.Value) []number {
	if v.Bucket == (stat.Bucket{}) {
		return nil
	}
	return []number{number(v.Bucket.Low), number(v.Bucket.High)}
}

func newFixJSON(f *catalog.Fix) fixJSON {
	return fixJSON{
		Summary: f.Summary, Args: f.Args(), Command: f.Command, Arithmetic: list(f.Arithmetic), Tradeoff: f.Tradeoff, Verify: f.Verify, Predicted: newPredictedJSON(f.Predicted),
		Changes: each(f.Changes, func(c *catalog.Change) changeJSON {
			return changeJSON{Flag: c.Flag, From: optional(c.From), To: c.To}
		}),
	}
}

func newPredictedJSON(p *catalog.Prediction) *predictedJSON {
	if p == nil {
		return nil
	}
	estimate := func(e catalog.Estimate) estimateJSON {
		return estimateJSON{Value: number(e.Value), Low: number(e.Low), High: number(e.High)}
	}
	var benefit *estimateJSON
	if p.Reason == "" {
		e := estimate(p.Benefit)
		benefit = &e
	}
	return &predictedJSON{
		Reason: optional(p.Reason), Needs: number(p.Needs.Seconds()), Benefit: benefit, Basis: list(p.Basis), Caveats: list(p.Caveats),
		Effects: each(p.Effects, func(e *catalog.Effect) effectJSON {
			return effectJSON{Signal: e.Signal.Name, Title: e.Signal.Title, Unit: string(e.Signal.Unit), Measured: known(e.Measured), Text: indicator.FormatBound(e.Measured, e.Signal.Unit), Before: estimate(e.Before), Unchanged: estimate(e.Unchanged), After: estimate(e.After)}
		}),
	}
}

func newFactorJSON(f *diagnose.Factor) factorJSON {
	out := factorJSON{
		Name: f.Name, Baseline: number(f.Baseline), Value: number(f.Value),
		ShareOfTTFTChange: computedOrNull(f.ShareOfTTFTChange), ShareOfOutputChange: computedOrNull(f.ShareOfOutputChange),
	}
	if f.Signal != nil {
		out.Unit = string(f.Signal.Unit)
	}
	return out
}

func newTargetJSON(d *diagnose.Diagnosis, t *diagnose.Target) targetJSON {
	out := targetJSON{
		Name: t.Name, Dialect: t.Dialect.ID, Version: t.Version, Up: isUp(d, t), State: string(t.Life), Problem: t.Problem, Model: t.Labels["model_name"],
		Judged: !slices.ContainsFunc(d.Unjudged, func(u diagnose.Unjudged) bool { return u.Target == t.Name }),
		Notes:  list(t.Notes), Config: t.Config,
	}
	if out.Config == nil {
		out.Config = engine.Config{}
	}
	return out
}

// EvidenceJSON is evidence as in the JSON of a diagnosis.
func EvidenceJSON(evidence []catalog.Evidence) any { return each(evidence, newEvidenceJSON) }

// FixesJSON is fixes as in the JSON of a diagnosis.
func FixesJSON(fixes []catalog.Fix) any { return each(fixes, newFixJSON) }

// each converts a slice; the result is never nil, for null is no list.
func each[From, To any](in []From, convert func(*From) To) []To {
	out := make([]To, 0, len(in))
	for i := range in {
		out = append(out, convert(&in[i]))
	}
	return out
}

func list(in []string) []string { return each(in, func(s *string) string { return *s }) }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func known(v indicator.Value) number { return number(v.Or(math.NaN())) }

// computedOrNull is null where it was not computed.
func computedOrNull(v float64) number {
	if v < 0 {
		return number(math.NaN())
	}
	return number(v)
}
