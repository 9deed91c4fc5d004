package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// Status is the outcome of one pathology on one target. The zero value is
// Unknown: an outcome that nobody set is never shown as healthy.
type Status uint8

// The outcomes, the worse the higher.
const (
	Unknown Status = iota
	NotApplicable
	OK
	Pending // the condition holds, but has not lasted long enough to be believed
	Firing
)

func (s Status) String() string {
	return [...]string{"unknown", "not_applicable", "ok", "pending", "firing"}[s]
}

// Verdicts beside the pathologies' ids.
const (
	Healthy          = "healthy"
	Idle             = "idle"
	InsufficientData = "insufficient-data"
	NotCertain       = "not-certain" // somebody may be hurt, and it is too early to say how
	NotFound         = "not-found"   // only some pathologies were checked, which says nothing of health
)

// quietNames are what people call the verdicts beside the pathologies.
var quietNames = map[string]string{Healthy: "Healthy", Idle: "Idle", InsufficientData: "Unknown",
	NotCertain: "Not certain yet", NotFound: "Not found"}

// NameOf returns the display name of a verdict beside the pathologies, and any other id unchanged.
func NameOf(id string) string { return cmp.Or(quietNames[id], id) }

// Names returns the display names of all verdicts, by id.
func Names(catalogue []*catalog.Pathology) map[string]string {
	names := maps.Clone(quietNames)
	for _, p := range catalogue {
		names[p.ID] = p.Name()
	}
	return names
}

// A Target is a judged server, exporter or gateway.
type Target = identity.Target

// A Diagnosis is what sixty has to say about a set of targets at one moment.
type Diagnosis struct {
	At     time.Time
	Status Status // Firing, Pending, OK or Unknown
	// Verdict is the worst of Verdicts. If nothing fires, it judges all targets together.
	Verdict  Verdict
	Verdicts []Verdict // one for each model, the worst first
	Findings []Finding // every pathology once for each model, the worst first
	Workload Workload  // the verdict's workload
	Coverage []Gap
	Targets  []identity.Target
	Unjudged []Unjudged
	Doubts   []Doubt
	Spans    []segments.Span // by target: the judged time and its baseline
	Window   period.Period   // the window of the verdict's first target
	Baseline period.Period
	Source   segments.BaselineSource
	Interval time.Duration // between scrapes
	Notes    []string      // remarks on the diagnosis as a whole
	// Deployments are the paths of requests that pass servers of several roles, one for a model.
	Deployments []Deployment

	inquiry *inquiry // nil if Run did not make the diagnosis
}

// A Verdict is the answer for one model, or for all models.
type Verdict struct {
	ID       string
	Status   Status           // Firing, Pending, OK or Unknown
	Severity catalog.Severity // the severity of the firing finding
	Summary  string           // one sentence
	// Model names the model whose verdict it is: "" where there is only one, or
	// where the targets do not say which they serve.
	Model   string
	Targets []string
	All     []string // all targets judged for it, Targets included
	// Since is when the fault began, zero without one. SinceAtLeast means that the fault was already there when
	// observation began, at Since.
	Since        time.Time
	SinceAtLeast bool
	Incident     string  // id of the open incident that it belongs to, in a monitor
	Confidence   float64 // 0 to 1
	Workload     Workload
	Plots        []Plot // after Diagnosis.Plot
}

// A Finding is the outcome of one pathology on one model, over the targets that
// share its worst status.
type Finding struct {
	Pathology *catalog.Pathology
	Model     string // as in Verdict
	Status    Status
	Severity  catalog.Severity // lower than the pathology's while the objectives hold, or by its degrees
	Note      bool             // shown beside the verdict, without effect on it
	Wait      time.Duration    // how long it must go on before a ticket notifies people
	Targets   []string         // the worst first
	// Since, SinceAtLeast and Incident are as in Verdict. DatedBy is the signal that dates the finding, nil where the
	// timeline does.
	Since        time.Time
	SinceAtLeast bool
	DatedBy      *indicator.Signal
	Incident     string
	Evidence     []catalog.Evidence // the first target's evidence
	Chain        []Step             // how it came about, on the first target
	Servers      int                // how many servers serve the model; Targets are some of them, or a gateway in front
	Summary      string
	Reasons      []string
	Fixes        []catalog.Fix
	Confidence   float64

	part part // the part of the gateway, for the first target

	// impact is how many requests a second pass the targets; a held request counts as if it stayed ten seconds. It is 0
	// where nobody is served.
	impact float64
	ended  bool // it is pending because the last scrapes say that it is over
	likely bool // it is pending, and chance is an unlikely explanation

	// InhibitedBy is the pathology that explains this one, or "".
	InhibitedBy string
	// RuledOutBy is the comparison that shows that it is not there.
	RuledOutBy *catalog.Evidence
}

// A Step is one link of the chain from cause to symptom, with its reading and its onset.
type Step struct {
	Says         string
	Evidence     catalog.Evidence
	Since        time.Time // zero where nothing tells
	SinceAtLeast bool
	First        bool // it is the first that changed
	Traffic      bool // it is about what clients ask for
}

// Unjudged is a target that could not be judged, and why.
type Unjudged struct {
	Target, Reason string
	harmless       bool // it is starting, or was drained: the verdict does not wait for it
}

// A Doubt is a reason against calling a target healthy, whether or not anything fires there.
type Doubt struct{ Target, Reason string }

// explains reports whether the other finding, of the same model, is a consequence of this one.
func (f *Finding) explains(other *Finding) bool {
	return f.Model == other.Model && f.Pathology.Inhibits(other.Pathology)
}

// Suspected reports whether the finding keeps a verdict from being healthy, although it does not fire.
func (f *Finding) Suspected() bool { return f.mayHurt() && !f.ended }

func (f *Finding) mayHurt() bool {
	return f.Status == Pending && f.likely && !f.Note && f.Severity > catalog.Info
}

// Workload compares the traffic of one target, and the cost of serving it, with
// the baseline.
type Workload struct {
	Target  string
	Known   bool // there is a baseline to compare with
	Changed bool // the traffic changed
	Factors []Factor
}

// A Factor is one quantity that the latency or the output depends on.
type Factor struct {
	Signal          *indicator.Signal
	Name            string
	Value, Baseline float64
	// ShareOfTTFTChange is the part of the rise of the mean TTFT that this
	// factor explains, 0 to 1; negative when it was not computed.
	ShareOfTTFTChange float64
	// ShareOfOutputChange is the same for the fall of the output rate.
	ShareOfOutputChange float64
}

// A Gap is something that could not be checked on some target, and what to switch
// on.
type Gap struct {
	ID      string // the pathology
	Missing []string
	Hint    string
}

// Labels returns cluster, namespace and model_name, where known, of the servers of a verdict or finding. A gateway
// belongs to the model for which it was judged.
func (d *Diagnosis) Labels(model string, targets []string) map[string]string {
	first := func(names []string, named bool) *identity.Target {
		among := make(map[string]bool, len(names))
		for _, name := range names {
			among[name] = true
		}
		for i := range d.Targets {
			if t := &d.Targets[i]; among[t.Name] && (!named || t.Labels["model_name"] != "") {
				return t
			}
		}
		return nil
	}
	t := first(targets, true)
	if i := slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.Model == model }); t == nil && i >= 0 {
		t = first(d.Verdicts[i].All, true)
	}
	if t == nil {
		t = first(targets, false)
	}
	if t == nil {
		return map[string]string{}
	}
	return identity.PickLabels(t.Labels, identity.ModelLabels)
}

// allVerdicts returns the overall verdict and the models' verdicts.
func (d *Diagnosis) allVerdicts() []*Verdict {
	out := []*Verdict{&d.Verdict}
	for i := range d.Verdicts {
		out = append(out, &d.Verdicts[i])
	}
	return out
}

// Found reports whether anything fires at a severity or at a worse one.
func (d *Diagnosis) Found(least catalog.Severity) bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Status == Firing && f.Severity >= least })
}

// Reading returns a signal of a target, by its index in Diagnosis.Targets, in the window and in the baseline. It is
// unknown if Run did not make the diagnosis.
func (d *Diagnosis) Reading(target int, sig *indicator.Signal) (now, normal indicator.Value) {
	if d.inquiry == nil || target >= len(d.inquiry.snapshot.readings) {
		none := indicator.Unknown("nothing was read")
		return none, none
	}
	s := d.inquiry.snapshot
	return s.Now(target, sig), s.Normal(target, sig)
}

// A Plot is one quantity over time, for the eye: nothing is judged by it.
type Plot struct {
	Signal *indicator.Signal
	Over   time.Duration // each value is computed over this time before it
	// Now and Normal are the judged readings of the first line's target, in Window and Baseline.
	Now, Normal      indicator.Value
	Window, Baseline period.Period
	// Promised is the target's objective, NaN without one.
	Promised float64
	Lines    []Line // the verdict's first target first, then the others
}

// A Line is a quantity of one target. NaN marks a moment without a value.
type Line struct {
	Target string
	At     []time.Time
	Value  []float64
}

// An inquiry holds what a diagnosis was made from, for later questions about it.
type inquiry struct {
	request  Request
	snapshot *Snapshot
	settings Settings
}

// LeadingFinding returns the finding behind a verdict, nil where nothing fires.
func (d *Diagnosis) LeadingFinding(v *Verdict) *Finding {
	i := slices.IndexFunc(d.Findings, func(f Finding) bool {
		return f.Status == Firing && f.Pathology.ID == v.ID && f.Model == v.Model
	})
	if i < 0 {
		return nil
	}
	return &d.Findings[i]
}

// A Deployment is the path of a request through the servers of a model.
type Deployment struct {
	Model      string  // as in Verdict
	Stages     []Stage // at least two, in the order in which a request meets them
	Links      []Link  // from each stage to the next one
	FirstToken float64 // seconds until the first token, over all stages; NaN if one is unknown
}

// A Stage is the servers of one role.
type Stage struct {
	Role    engine.Role
	Targets []string
	Lost    int     // Targets that do not answer
	Waiting float64 // waiting requests on all servers; NaN if unknown
	Seconds float64 // mean time that a request spends here until its first token; NaN if unknown
	Found   []string
}

// A Link goes from one stage to the next.
type Link struct {
	Carries   string  // "requests" or "KV cache"
	Seconds   float64 // mean, included in the Seconds of the stage behind it; NaN if unknown
	FailShare float64 // share of failed transfers; NaN if unknown
	Found     []string
}

// Gateway returns the index of the gateway to show: the one with the most firing findings, -1 without gateways.
func (d *Diagnosis) Gateway() int {
	shown, most := -1, -1
	for i := range d.Targets {
		if t := &d.Targets[i]; t.IsGateway() && t.Problem == "" {
			fire := 0
			for k := range d.Findings {
				fire += boolToInt(d.Findings[k].Status == Firing && slices.Contains(d.Findings[k].Targets, t.Name))
			}
			if fire > most {
				shown, most = i, fire
			}
		}
	}
	return shown
}

// Parts returns a gateway's readings in the window for each model or upstream.
func (d *Diagnosis) Parts(target int, sig *indicator.Signal) map[string]float64 {
	if d.inquiry == nil || target >= len(d.inquiry.snapshot.parts) {
		return nil
	}
	return view{snapshot: d.inquiry.snapshot, target: target}.readingsByPart(sig)
}

// noteGateways adds a note on each gateway that cannot be read.
func (d *Diagnosis) noteGateways() {
	for i := range d.Targets {
		if t := &d.Targets[i]; t.IsGateway() && t.Problem != "" {
			d.Notes = append(d.Notes, fmt.Sprintf("the gateway %s cannot be read: %s", t.Name, t.Problem))
		}
	}
}
