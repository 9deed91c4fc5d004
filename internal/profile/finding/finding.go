// Package finding says what dominates a profile and what to do about it: conditions
// over measured shares, as data, in the form of the catalogue that diagnoses a server.
// What is wrong with a server here shows on it as the pathology slow-decode, whose runbook
// leads to a profile; the fixes here, by workload (fixes.yaml), lead back.
//
// It judges the profile that it is handed and performs no I/O.
package finding

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/profile"
)

// A Kind is one thing that dominates a profile.
type Kind struct {
	catalog.Pathology

	// Cost is the share of the wall time that it takes: what a cure would win at most.
	Cost func(*profile.Profile) float64

	// Alone says that where it holds nothing else can be judged.
	Alone bool

	refine func(*pass)
}

// A Result is a kind, judged.
type Result struct {
	Kind     *Kind
	Holds    catalog.Truth
	Severity catalog.Severity
	Summary  string
	Reasons  []string
	Evidence []catalog.Evidence
	Fixes    []catalog.Fix
	Cost     float64
}

// A Verdict is what a profile comes to.
type Verdict struct {
	Findings []Result // those that hold, the costliest first
	Others   []Result // those that do not, or could not be judged
}

// Leading is the finding that leads; nil where nothing was found.
func (v *Verdict) Leading() *Result {
	if len(v.Findings) == 0 {
		return nil
	}
	return &v.Findings[0]
}

// pass is what a kind that holds says of itself.
type pass struct {
	view
	summary string
	reasons []string
	fixes   string // whose fixes: the kind's id, or with a slash and one of its causes behind it
}

func (p *pass) reason(format string, args ...any) {
	p.reasons = append(p.reasons, fmt.Sprintf(format, args...))
}

func (p *pass) text(s *indicator.Signal) string { return indicator.Format(p.Now(s), s.Unit) }

// Judge judges a profile by every kind. Set overrides thresholds by their names.
func Judge(p *profile.Profile, set map[string]float64) Verdict {
	var v Verdict
	see := view{p, set, measure(p)}
	for _, k := range Kinds() {
		holds, evidence := k.When.Eval(see)
		f := Result{Kind: k, Holds: holds, Severity: k.Severity, Summary: k.Title, Evidence: evidence}
		switch {
		case len(v.Findings) > 0 && v.Findings[0].Kind.Alone:
			f.Holds, f.Evidence = catalog.Unknown, nil
			v.Others = append(v.Others, f)
			continue
		case holds != catalog.True:
			v.Others = append(v.Others, f)
			continue
		}
		f.Cost = k.Cost(p)
		s := &pass{view: see, summary: k.Title, fixes: k.ID}
		if k.refine != nil {
			k.refine(s)
		}
		f.Summary, f.Reasons, f.Fixes = s.summary, s.reasons, fixesOf(s.fixes, p.Workload)
		v.Findings = append(v.Findings, f)
	}
	rank := func(f *Result) catalog.Severity {
		if f.Kind == oneTime && f.Cost > onceLeads {
			return 2
		}
		return min(f.Severity, 1)
	}
	slices.SortStableFunc(v.Findings, func(a, b Result) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), cmp.Compare(b.Cost, a.Cost))
	})
	if f := v.Leading(); f != nil && f.Kind != oneTime && p.Share(p.OnceTime()) > onceTold {
		f.Summary = "Apart from what happened once: " + strings.ToLower(f.Summary[:1]) + f.Summary[1:]
	}
	return v
}

// Shares of the time: what happened once leads where it is more than a third; elsewhere it is told of.
const onceLeads, onceTold = 1.0 / 3, 0.05

//go:embed fixes.yaml
var fixesText []byte

// advice is a fix in fixes.yaml.
type advice struct {
	For                  []string
	Do, Tradeoff, Verify string
	Flag, From, To       string
	Risk                 bool
}

var advices = sync.OnceValue(func() (all map[string][]advice) {
	if err := yaml.UnmarshalStrict(fixesText, &all); err != nil {
		panic(err) // the table is part of the program, and a test reads it
	}
	return all
})

// fixesOf are the fixes of a finding for a workload.
func fixesOf(id string, w profile.Workload) (out []catalog.Fix) {
	for _, a := range advices()[id] {
		if len(a.For) > 0 && !slices.Contains(a.For, strings.ToLower(w.String())) && (!w.Serves() || !slices.Contains(a.For, "serving")) {
			continue
		}
		f := catalog.Fix{Summary: a.Do, Tradeoff: a.Tradeoff, Verify: a.Verify, Risk: a.Risk}
		if a.Flag != "" {
			f.Changes = []catalog.Change{{Flag: a.Flag, From: a.From, To: a.To}}
		}
		out = append(out, f)
	}
	return out
}

// Signals of a profile. They have no PromQL: they are measured in a trace. Shares of the time are of the
// wall time without the gaps that did not come back, but for that of those.
var (
	GPUBusy       = signal("gpu_busy", "GPU busy", indicator.Ratio)
	Recorded      = signal("device_of_recorded", "From the first kernel to the last, of what was recorded", indicator.Ratio)
	OneTime       = signal("one_time", "Gaps that did not come back", indicator.Ratio)
	HostBound     = signal("idle_host", "Idle: host late, launch gaps", indicator.Ratio)
	Waiting       = signal("idle_dependency", "Idle: waiting for a stream", indicator.Ratio)
	Exposed       = signal("communication_exposed", "Communication, exposed, without waiting for a slower rank", indicator.Ratio)
	ExposedCopies = signal("copies_exposed", "Copies, exposed", indicator.Ratio)
	Straggling    = signal("rank_wait", "Waiting for a slower rank", indicator.Ratio)
	Attention     = signal("attention_of_busy", "Attention, of GPU time", indicator.Ratio)
	GEMM          = signal("gemm_of_busy", "GEMM and MoE, of GPU time", indicator.Ratio)
	Convolution   = signal("convolution_of_busy", "Convolution, of GPU time", indicator.Ratio)
	Sampling      = signal("sampling_of_busy", "Sampling, of GPU time", indicator.Ratio)
	Elementwise   = signal("elementwise_of_busy", "Elementwise, of GPU time", indicator.Ratio)
	SmallKernels  = signal("small_kernels", "Kernels under 10 µs", indicator.Ratio)
	SmallTime     = signal("small_kernels_time", "GPU time of kernels under 10 µs", indicator.Ratio)
	Launches      = signal("launches_per_step", "Launches per step", indicator.Count)
	LaunchTime    = signal("launch_time", "A launch on the host", indicator.Seconds)
	GraphKernels  = signal("graph_kernels", "Kernels replayed by graphs", indicator.Ratio)
	DecodeStep    = signal("decode_step_p50", "Decode step P50", indicator.Seconds)
	MixedStep     = signal("mixed_step_p50", "Mixed step P50", indicator.Seconds)
	MixedOver     = signal("mixed_over_decode", "Mixed step over decode step", indicator.Times)
	MixedShare    = signal("mixed_share", "Time in mixed steps", indicator.Ratio)
	Kernels       = signal("kernels", "Kernels", indicator.Count)
	Span          = signal("device_time", "From the first kernel to the last", indicator.Seconds)
	Narrow        = signal("narrow_kernels", "GPU time of small grids", indicator.Ratio)
	Captured      = signal("captured_launches", "Launches into a graph that was being captured", indicator.Ratio)
	NoDevice      = signal("cpu_only", "No GPU in the trace", indicator.Count)

	idle = func() (all [profile.Causes]*indicator.Signal) {
		for c := range profile.Causes {
			all[c] = signal("idle_"+strings.ReplaceAll(c.String(), " ", "_"), "Idle: "+c.String(), indicator.Ratio)
		}
		return all
	}()
)

func signal(name, title string, unit indicator.Unit) *indicator.Signal {
	return &indicator.Signal{Name: name, Title: title, Unit: unit}
}

// measure takes the readings of all signals.
func measure(p *profile.Profile) map[*indicator.Signal]indicator.Value {
	m := map[*indicator.Signal]indicator.Value{}
	if p.Host.Launches > 0 {
		m[LaunchTime] = indicator.Known(float64(p.Host.LaunchTime) / 1e9 / float64(p.Host.Launches))
		m[Captured] = indicator.Known(float64(p.Host.Captured) / float64(p.Host.Launches))
	}
	if p.Devices == 0 {
		if p.HostOnly {
			m[NoDevice] = indicator.Known(1)
		}
		return m
	}
	h := p.Habit()
	of := func(ns int64) indicator.Value { return indicator.Known(h.Share(ns)) }
	busy := func(groups ...profile.Group) indicator.Value {
		sum := int64(0)
		for _, g := range groups {
			sum += h.Group[g].Time
		}
		return indicator.Known(h.OfBusy(sum))
	}
	for c, s := range idle {
		m[s] = of(h.Idle[c])
	}
	m[GPUBusy], m[HostBound] = of(h.Busy), of(h.Idle[profile.HostLate]+h.Idle[profile.LaunchGap])
	m[OneTime], m[Recorded] = indicator.Known(p.Share(p.OnceTime())), indicator.Known(p.OfRecorded())
	m[Waiting] = of(h.Idle[profile.Dependency] + h.Idle[profile.CopyWait])
	m[Exposed], m[ExposedCopies] = indicator.Known(exposed(p)), of(h.ExposedCopies)
	m[Attention], m[GEMM], m[Convolution] = busy(profile.Attention), busy(profile.GEMM, profile.MoE), busy(profile.Convolution)
	m[Sampling], m[Elementwise] = busy(profile.Sampling), busy(profile.Elementwise)
	m[Kernels], m[NoDevice] = indicator.Known(float64(p.Runs+p.Group[profile.Copies].Count)), indicator.Known(0)
	m[Span] = indicator.Known(p.Seconds())
	if p.Runs > 0 {
		m[SmallKernels] = indicator.Known(float64(p.Small) / float64(p.Runs))
		m[SmallTime] = indicator.Known(h.OfBusy(p.SmallTime))
		m[GraphKernels] = indicator.Known(float64(max(p.Graph, p.WholeGraph)) / float64(p.Runs))
	}
	if p.Blocks > 0 {
		m[Narrow] = indicator.Known(p.OfBusy(p.NarrowTime))
	}
	if p.Steps[profile.Unknown].Count > 0 {
		m[Launches] = indicator.Known(p.Steps[profile.Unknown].Launches)
	}
	d, x := p.Steps[profile.Decode], p.Steps[profile.Mixed]
	if d.Count > 0 {
		m[DecodeStep] = indicator.Known(d.P50)
	}
	if x.Count > 0 {
		m[MixedStep] = indicator.Known(x.P50)
		all := p.Steps[profile.Unknown]
		m[MixedShare] = indicator.Known(x.Mean * float64(x.Count) / (all.Mean * float64(all.Count)))
	}
	if d.Count >= 3 && x.Count > 0 && d.P50 > 0 {
		m[MixedOver] = indicator.Known(x.P50 / d.P50)
	}
	if p.Straggle.Known {
		m[Straggling] = indicator.Known(p.Straggle.Share)
	}
	return m
}

// exposed is the share of the time in which a device communicates and does nothing else, without what
// it waits there for a slower rank.
func exposed(p *profile.Profile) float64 {
	h := p.Habit()
	return max(0, h.Share(h.Exposed+h.Idle[profile.CommWait])-p.Straggle.Share)
}

// view shows a profile's readings to conditions.
type view struct {
	p   *profile.Profile
	set map[string]float64
	now map[*indicator.Signal]indicator.Value
}

func (v view) Now(s *indicator.Signal) indicator.Value {
	if x, ok := v.now[s]; ok {
		return x
	}
	return indicator.Unknown("the trace does not hold it")
}

func (v view) Normal(*indicator.Signal) indicator.Value { return indicator.Value{} }
func (v view) HasHistory() bool                         { return false }
func (v view) MayHoldFault() bool                       { return false }
func (v view) Peers() (catalog.View, bool)              { return nil, false }

func (v view) Limit(t *catalog.Threshold) (float64, string, bool) {
	x, ok := v.set[t.Name]
	return x, "--set", ok
}

// Thresholds lists all thresholds by their names.
func Thresholds() []*catalog.Threshold {
	var out []*catalog.Threshold
	for _, k := range Kinds() {
		k.When.Leaves(func(c catalog.Cond) {
			if !slices.Contains(out, c.Threshold) {
				out = append(out, c.Threshold)
			}
		})
	}
	slices.SortFunc(out, func(a, b *catalog.Threshold) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func threshold(name string, unit indicator.Unit, number float64, why string) *catalog.Threshold {
	return &catalog.Threshold{Name: name, Unit: unit, Default: number, Why: why}
}
