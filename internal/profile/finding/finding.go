// Package finding says what dominates a profile and what to do about it: conditions
// over measured shares, as data, in the form of the catalogue that diagnoses a server.
// What is wrong here shows on a server as the pathology slow-decode or slow-prefill;
// their runbooks lead to a profile, and the fixes here lead back.
//
// It judges the profile that it is handed and performs no I/O.
package finding

import (
	"cmp"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/profile"
)

// A Kind is one thing that dominates a profile.
type Kind struct {
	catalog.Pathology

	// Cost is the share of the wall time that it takes: what a cure would win at most.
	Cost func(*profile.Profile) float64

	// Leads is the pathology of a server that it shows as.
	Leads string
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

// Judge judges a profile by every kind. Set overrides thresholds by their names.
func Judge(p *profile.Profile, set map[string]float64) Verdict {
	var v Verdict
	see := view{p, set, measure(p)}
	for _, k := range Kinds() {
		holds, evidence := k.When.Eval(see)
		f := Result{Kind: k, Holds: holds, Severity: k.Severity, Summary: k.Title, Evidence: evidence}
		if holds != catalog.True {
			v.Others = append(v.Others, f)
			continue
		}
		f.Cost = k.Cost(p)
		pass := &catalog.Pass{View: see, Summary: k.Title, Fixes: slices.Clone(k.Fixes)}
		if k.Refine != nil {
			k.Refine(pass)
		}
		f.Summary, f.Reasons, f.Fixes = pass.Summary, pass.Reasons, pass.Fixes
		if !p.VLLM {
			f.Fixes = withoutFlags(f.Fixes)
		}
		v.Findings = append(v.Findings, f)
	}
	slices.SortStableFunc(v.Findings, func(a, b Result) int {
		return cmp.Or(cmp.Compare(min(b.Severity, 1), min(a.Severity, 1)), cmp.Compare(b.Cost, a.Cost))
	})
	return v
}

// withoutFlags returns the fixes for a program that has none of vLLM's flags.
func withoutFlags(fixes []catalog.Fix) []catalog.Fix {
	var out []catalog.Fix
	for _, f := range fixes {
		switch {
		case f.Instead != "":
			f.Summary, f.Changes = f.Instead, nil
			out = append(out, f)
		case len(f.Changes) == 0:
			out = append(out, f)
		}
	}
	return out
}

// Signals of a profile. They have no PromQL: they are measured in a trace.
var (
	GPUBusy       = signal("gpu_busy", "GPU busy", indicator.Ratio)
	HostLate      = signal("idle_host_late", "Idle: host late", indicator.Ratio)
	HostBound     = signal("idle_host", "Idle: host late, launch gaps", indicator.Ratio)
	NothingToDo   = signal("idle_nothing_to_do", "Idle: nothing to do", indicator.Ratio)
	Waiting       = signal("idle_dependency", "Idle: waiting for a stream", indicator.Ratio)
	Exposed       = signal("communication_exposed", "Communication, exposed", indicator.Ratio)
	ExposedCopies = signal("copies_exposed", "Copies, exposed", indicator.Ratio)
	Straggling    = signal("rank_wait", "Waiting for a slower rank", indicator.Ratio)
	Attention     = signal("attention_of_busy", "Attention, of GPU time", indicator.Ratio)
	GEMM          = signal("gemm_of_busy", "GEMM and MoE, of GPU time", indicator.Ratio)
	Sampling      = signal("sampling_of_busy", "Sampling, of GPU time", indicator.Ratio)
	Elementwise   = signal("elementwise_of_busy", "Elementwise, of GPU time", indicator.Ratio)
	SmallKernels  = signal("small_kernels", "Kernels under 10 µs", indicator.Ratio)
	Launches      = signal("launches_per_step", "Launches per step", indicator.Count)
	LaunchTime    = signal("launch_time", "A launch on the host", indicator.Seconds)
	GraphKernels  = signal("graph_kernels", "Kernels replayed by graphs", indicator.Ratio)
	DecodeSteps   = signal("decode_steps", "Decode steps", indicator.Count)
	DecodeStep    = signal("decode_step_p50", "Decode step P50", indicator.Seconds)
	MixedStep     = signal("mixed_step_p50", "Mixed step P50", indicator.Seconds)
	MixedOver     = signal("mixed_over_decode", "Mixed step over decode step", indicator.Times)
	MixedShare    = signal("mixed_share", "Time in mixed steps", indicator.Ratio)
	Kernels       = signal("kernels", "Kernels", indicator.Count)
	Narrow        = signal("narrow_kernels", "GPU time of small grids", indicator.Ratio)
	NoDevice      = signal("cpu_only", "No GPU in the trace", indicator.Count)
)

func signal(name, title string, unit indicator.Unit) *indicator.Signal {
	return &indicator.Signal{Name: name, Title: title, Unit: unit}
}

// measure takes the readings of all signals.
func measure(p *profile.Profile) map[*indicator.Signal]indicator.Value {
	if p.Devices == 0 {
		if p.HostOnly {
			return map[*indicator.Signal]indicator.Value{NoDevice: indicator.Known(1)}
		}
		return nil
	}
	of := func(ns int64) indicator.Value { return indicator.Known(p.Share(ns)) }
	busy := func(groups ...profile.Group) indicator.Value {
		sum := int64(0)
		for _, g := range groups {
			sum += p.Group[g].Time
		}
		return indicator.Known(p.OfBusy(sum))
	}
	m := map[*indicator.Signal]indicator.Value{
		GPUBusy: of(p.Busy), HostLate: of(p.Idle[profile.HostLate]), NothingToDo: of(p.Idle[profile.NothingToDo]),
		HostBound: of(p.Idle[profile.HostLate] + p.Idle[profile.LaunchGap]),
		Waiting:   of(p.Idle[profile.Dependency] + p.Idle[profile.CopyWait]), Exposed: of(p.Exposed + p.Idle[profile.CommWait]), ExposedCopies: of(p.ExposedCopies),
		Attention: busy(profile.Attention), GEMM: busy(profile.GEMM, profile.MoE), Sampling: busy(profile.Sampling), Elementwise: busy(profile.Elementwise),
		Kernels: indicator.Known(float64(p.Runs)), NoDevice: indicator.Known(0),
	}
	if p.Runs > 0 {
		m[SmallKernels] = indicator.Known(float64(p.Small) / float64(p.Runs))
		m[GraphKernels] = indicator.Known(float64(max(p.Graph, p.WholeGraph)) / float64(p.Runs))
	}
	if p.Blocks > 0 {
		m[Narrow] = indicator.Known(p.OfBusy(p.NarrowTime))
	}
	if p.Host.Launches > 0 {
		m[LaunchTime] = indicator.Known(float64(p.Host.LaunchTime) / 1e9 / float64(p.Host.Launches))
	}
	if p.Steps[profile.Unknown].Count > 0 {
		m[Launches] = indicator.Known(p.Steps[profile.Unknown].Launches)
		m[DecodeSteps] = indicator.Known(float64(p.Steps[profile.Decode].Count))
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

// finiteOrZero is a finite number for sentences.
func finiteOrZero(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
