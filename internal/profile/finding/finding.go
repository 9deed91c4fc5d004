// Package finding says what dominates a profile, and what to do about it. Its conditions over measured shares are
// data, in the form of the catalogue that diagnoses a server. On a server, a finding here shows as the pathology
// slow-decode, whose runbook leads to a profile; the fixes here, by workload, lead back.
//
// It judges a profile and performs no I/O.
package finding

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Kind is one thing that dominates a profile: an entry of kinds.yaml.
type Kind struct {
	catalog.Pathology
	data kindData
}

type kindData struct {
	ID, Title, Severity string
	Alone               bool // if it holds, nothing else can be judged
	When, Any           []string
	Idle                string
	Cost                []string
	says
	Cases map[string]says
}

type says struct {
	Summary string
	Reasons []string
	Fixes   []advice // nil in a case: the kind's own
}

type advice struct {
	For                  []string
	GPU                  string // nvidia or amd; "" is both
	Do, Tradeoff, Verify string
	Flag, From, To       string
	Risk                 bool
}

// table is kinds.yaml, whose head explains its parts.
type table struct {
	signals    map[string]*indicator.Signal
	thresholds map[string]*catalog.Threshold
	kinds      []*Kind
}

//go:embed kinds.yaml
var kindsText []byte

var units = map[string]indicator.Unit{
	"ratio": indicator.Ratio, "count": indicator.Count, "seconds": indicator.Seconds, "times": indicator.Times,
}

// loadTable reads kinds.yaml. It is part of the program, and a test reads it: an error is a panic.
var loadTable = sync.OnceValue(func() table {
	var data struct {
		Signals    map[string][2]string
		Thresholds map[string][3]any
		Kinds      []kindData
	}
	if err := yaml.UnmarshalStrict(kindsText, &data); err != nil {
		panic(err)
	}
	t := table{map[string]*indicator.Signal{}, map[string]*catalog.Threshold{}, nil}
	for c := range profile.Causes {
		data.Signals[signalName("idle_", c)] = [2]string{"ratio", "Idle: " + c.String()}
	}
	for g := range profile.Groups {
		data.Signals[signalName("group_", g)] = [2]string{"ratio", "Time of " + g.String()}
	}
	for name, s := range data.Signals {
		t.signals[name] = &indicator.Signal{Name: name, Title: s[1], Unit: units[s[0]]}
	}
	for name, x := range data.Thresholds {
		t.thresholds[name] = &catalog.Threshold{
			Name: name, Unit: units[x[0].(string)], Default: x[1].(float64),
			Why: x[2].(string),
		}
	}
	for _, k := range data.Kinds {
		p := catalog.Pathology{ID: k.ID, Title: k.Title, When: catalog.All(t.parseConds(k.When)...)}
		if len(k.Any) > 0 {
			p.When = catalog.Any(t.parseConds(k.Any)...)
		}
		severity, err := catalog.ParseSeverity(k.Severity)
		if err != nil {
			panic(err)
		}
		p.Severity = severity
		t.kinds = append(t.kinds, &Kind{p, k})
	}
	return t
})

// parseConds reads comparisons: "gpu_busy > busy_enough".
func (t *table) parseConds(list []string) (out []catalog.Cond) {
	for _, text := range list {
		f := strings.Fields(text)
		compare := catalog.Above
		if f[1] == "<" {
			compare = catalog.Below
		}
		if t.signals[f[0]] == nil || t.thresholds[f[2]] == nil {
			panic("kinds.yaml: " + text)
		}
		out = append(out, compare(t.signals[f[0]], t.thresholds[f[2]]))
	}
	return out
}

func signalName(prefix string, of fmt.Stringer) string {
	return prefix + strings.ReplaceAll(of.String(), " ", "_")
}

// Kinds lists all kinds.
func Kinds() []*Kind { return loadTable().kinds }

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

// A Verdict is the judgement of a profile.
type Verdict struct {
	Findings []Result // kinds that hold, the costliest first
	Others   []Result // the other kinds
}

// Leading is the finding that leads; nil without findings.
func (v *Verdict) Leading() *Result {
	if len(v.Findings) == 0 {
		return nil
	}
	return &v.Findings[0]
}

// Judge judges a profile by every kind. Set overrides thresholds by name.
func Judge(p *profile.Profile, set map[string]float64) Verdict {
	var v Verdict
	see := view{p, set, measureSignals(p), textsOf(p)}
	for _, k := range Kinds() {
		f := Result{Kind: k, Severity: k.Severity, Summary: k.Title}
		for _, name := range k.data.Cost {
			f.Cost += see.now[name].V
		}
		see.now["cost"] = indicator.Known(f.Cost)
		f.Holds, f.Evidence = k.When.Eval(see)
		if len(v.Findings) > 0 && v.Findings[0].Kind.data.Alone {
			f.Holds, f.Evidence = catalog.Unknown, nil
		}
		if f.Holds != catalog.True {
			v.Others = append(v.Others, f)
			continue
		}
		see.fillResult(&f)
		v.Findings = append(v.Findings, f)
	}
	rank := func(f *Result) catalog.Severity {
		switch {
		case f.Kind.ID == "one-time" && f.Cost > onceLeads:
			return 2
		case f.Kind.data.Idle != "", // idleness of unknown cause is worth as much
			f.Kind.ID == "gemm-bound" && fullPrecision(p.Heaviest(profile.GEMM).Name): // and no healthy program uses it
			return 1
		}
		return min(f.Severity, 1)
	}
	slices.SortStableFunc(v.Findings, func(a, b Result) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), cmp.Compare(b.Cost, a.Cost))
	})
	if f := v.Leading(); f != nil && f.Kind.ID != "one-time" && !f.Kind.data.Alone && p.Share(p.OnceTime()) > onceTold {
		f.Summary = "Without one-time gaps: " + strings.ToLower(f.Summary[:1]) + f.Summary[1:]
	}
	return v
}

// Shares of the time from which one-time gaps lead the verdict, and from which it mentions them.
const onceLeads, onceTold = 1.0 / 3, 0.05

func (v view) fillResult(f *Result) {
	k := f.Kind
	s := k.data.says
	if c, ok := k.data.Cases[v.caseOf(k.ID)]; ok {
		s.Summary = cmp.Or(c.Summary, s.Summary)
		if len(c.Reasons) > 0 {
			s.Reasons = c.Reasons
		}
		if c.Fixes != nil {
			s.Fixes = c.Fixes
		}
	}
	if k.data.Idle != "" {
		idle := "{idle_" + strings.ReplaceAll(k.data.Idle, " ", "_") + "}"
		s.Summary = cmp.Or(s.Summary, k.Title+": "+idle+" of the time, and the GPU is busy {gpu_busy}")
		if g := v.p.LongestGap(k.data.Idle); g != nil && g.Host != "" {
			s.Reasons = []string{fmt.Sprintf("In the longest of these gaps, %s, the host is in %s.",
				render.Seconds(float64(g.Time)/1e9), render.Clip(render.Clean(g.Host), 100))}
		}
	}
	f.Summary, _ = v.fillText(s.Summary)
	for _, r := range s.Reasons {
		if text, ok := v.fillText(r); ok {
			f.Reasons = append(f.Reasons, text)
		}
	}
	f.Fixes = fixesOf(s.Fixes, v.p)
}

// fillText replaces names in braces by readings. It reports false if one is unknown.
func (v view) fillText(text string) (string, bool) {
	known := true
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		name = strings.Trim(name, "{}")
		if t, ok := v.texts[name]; ok {
			return t
		}
		x := v.now[name]
		if known = known && x.OK; !x.OK {
			return "unknown"
		}
		return indicator.Format(x, loadTable().signals[name].Unit)
	}), known
}

var placeholder = regexp.MustCompile(`\{[a-z0-9_]+\}`)

func (v view) caseOf(id string) string {
	p := v.p
	switch id {
	case "cpu-only":
		return v.caseWithoutGPU()
	case "rank-straggles":
		return cmp.Or(p.Stragglers.Cause, "named")
	case "copies-bound":
		return caseOfCopies(p.Heaviest(profile.Copies).Name)
	case "host-bound":
		if v.now["graph_kernels"].V >= 0.05 {
			return "graphs"
		}
	case "communication-bound":
		if 3*p.Exchanged > p.Group[profile.Communication].Sum {
			return "exchange"
		}
	case "attention-bound":
		if 2*p.Unfused > p.Group[profile.Attention].Sum {
			return "unfused"
		}
	case "gemm-bound":
		switch {
		case fullPrecision(p.Heaviest(profile.GEMM).Name):
			return "32"
		case !p.Quantised && p.Workload.Samples():
			return "tokens16"
		case !p.Quantised:
			return "16"
		}
	}
	if p.Workload.Samples() {
		return "tokens"
	}
	return ""
}

func (v view) caseWithoutGPU() string {
	p := v.p
	switch {
	case p.Truncated:
		return "cut"
	case strings.HasPrefix(v.texts["calls"], "enumerate(DataLoader)"):
		return "loads"
	case p.Host.Launches > 0:
		return "launched"
	case strings.HasPrefix(p.Ranks[0].Tool, "Nsight"):
		return "nsys"
	}
	return p.Ranks[0].Processor
}

func caseOfCopies(name string) string {
	switch {
	case strings.Contains(name, "PtoP"):
		return "peers"
	case strings.Contains(name, "DtoD"), strings.Contains(name, "Memset"), strings.Contains(name, "rocclr"):
		return "device"
	}
	return ""
}

// fullPrecision reports whether a product computes in FP32, without tensor cores. cuBLAS calls such
// kernels sgemm and CUTLASS simt_sgemm, with TF32 s1688gemm. XMMA names all types. Tensile has S
// alone for the type of all matrices.
func fullPrecision(product string) bool {
	return sgemm.MatchString(product)
}

var sgemm = regexp.MustCompile(`(^|_)sgemm_|gemm_f32f32_f32f32_|^Cijk_\w+?_(SB|S_B)_`)

func fixesOf(list []advice, p *profile.Profile) (out []catalog.Fix) {
	w := p.Workload
	for _, a := range list {
		fits := len(a.For) == 0 || slices.Contains(a.For, strings.ToLower(w.String())) ||
			w.Serves() && slices.Contains(a.For, "serving")
		if a.GPU == "amd" && !p.AMD || a.GPU == "nvidia" && p.AMD || !fits {
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

func textsOf(p *profile.Profile) map[string]string {
	each := func(ns int64) string { return render.Seconds(float64(ns) / 1e9 / float64(max(p.Devices, 1))) }
	t := map[string]string{
		"busy_time": each(p.Busy), "recurring_time": each(p.Recurring().Wall),
		"before_time":   render.Seconds(float64(p.Before) / 1e9),
		"after_time":    render.Seconds(float64(p.After) / 1e9),
		"recorded_time": render.Seconds(float64(p.Before+p.After)/1e9 + p.Seconds()),
		"since":         "", "last": p.Stragglers.Last,
		"last_share": render.Percent(p.Stragglers.LastShare), "why": p.Stragglers.Why,
	}
	if p.Stragglers.Since > 0 {
		t["since"] = fmt.Sprintf(" since step %d", p.Stragglers.Since)
	}
	if len(p.Ranks) > 0 && p.Ranks[0].HostCalls != "" {
		t["calls"] = render.Clean(p.Ranks[0].HostCalls)
	}
	if p.Host.Stacks {
		t["stacks"] = "with_stack"
	}
	if !p.Stragglers.Known {
		t["alone"] = ""
	}
	if p.Devices == 0 {
		t["launches"] = render.Grouped(float64(p.Host.Launches))
	}
	if k := p.Heaviest(profile.GEMM); k.Count > 0 {
		t["product"] = k.Short
	}
	if k := p.Heaviest(profile.Copies); k.Count > 0 {
		t["copy"] = fmt.Sprintf("%s: %d times, %s together", k.Short, k.Count, render.Seconds(float64(k.Sum)/1e9))
	}
	return t
}

func measureSignals(p *profile.Profile) map[string]indicator.Value {
	m := map[string]indicator.Value{}
	know := func(name string, v float64) { m[name] = indicator.Known(v) }
	if n := float64(p.Host.Launches); n > 0 {
		know("launch_time", float64(p.Host.LaunchTime)/1e9/n)
		know("captured_launches", float64(p.Host.Captured)/n)
	}
	if p.Devices == 0 {
		if p.HostOnly && m["captured_launches"].V < 0.1 { // captured launches put nothing on a device
			know("cpu_only", 1)
		}
		return m
	}
	h := p.Recurring()
	busy := func(name string, groups ...profile.Group) {
		sum := int64(0)
		for _, g := range groups {
			sum += h.Group[g].Time
		}
		know(name, h.ShareOfBusy(sum))
	}
	for c := range profile.Causes {
		know(signalName("idle_", c), h.Share(h.Idle[c]))
	}
	for g := range profile.Groups {
		know(signalName("group_", g), h.Share(h.Group[g].Time))
	}
	know("gpu_busy", h.Share(h.Busy))
	know("idle_host", h.Share(h.Idle[profile.HostLate]+h.Idle[profile.LaunchGap]))
	know("one_time", p.Share(p.OnceTime()))
	know("device_of_recorded", p.RecordedShare())
	know("idle_dependency", h.Share(h.Idle[profile.Dependency]+h.Idle[profile.CopyWait]))
	know("communication_exposed", max(0, h.Share(h.Exposed+h.Idle[profile.CommWait])-p.Stragglers.Share))
	know("copies_exposed", h.Share(h.ExposedCopies))
	busy("attention_of_busy", profile.Attention)
	busy("gemm_of_busy", profile.GEMM, profile.MoE)
	busy("convolution_of_busy", profile.Convolution)
	busy("sampling_of_busy", profile.Sampling)
	unfused := max(0, h.Group[profile.Elementwise].Time+h.Group[profile.Activation].Time-h.Compiled)
	know("elementwise_of_busy", h.ShareOfBusy(unfused))
	know("elementwise_unfused", h.Share(unfused))
	know("kernels", float64(p.KernelRuns+p.Group[profile.Copies].Count))
	know("evidence", m["kernels"].V+float64(p.Busy-p.Exposed)/1e6) // a waiting all-reduce is no evidence
	know("cpu_only", 0)
	know("device_time", p.Seconds())
	if n := float64(p.KernelRuns); n > 0 {
		know("small_kernels", float64(p.SmallKernels)/n)
		know("small_kernels_time", h.ShareOfBusy(p.SmallKernelTime))
		know("small_kernels_wall", h.Share(p.SmallKernelTime))
		know("graph_kernels", float64(max(p.GraphKernels, p.WholeGraphs))/n)
	}
	all, d, x := p.Steps[profile.Unknown], p.Steps[profile.Decode], p.Steps[profile.Mixed]
	if all.Count > 0 && all.Launches > fewLaunches {
		know("launches_per_step", all.Launches)
	}
	if d.Count > 0 {
		know("decode_step_p50", d.P50)
	}
	if whole := all.Mean * float64(all.Count); x.Count > 0 && whole > 0 {
		know("mixed_step_p50", x.P50)
		know("mixed_share", x.Mean*float64(x.Count)/whole)
		know("mixed_cost", (x.Mean-d.Mean)*float64(x.Count)/whole)
		if d.Count >= 3 && d.P50 > 0 {
			know("mixed_over_decode", x.P50/d.P50)
		}
	}
	if p.Stragglers.Known {
		know("rank_wait", p.Stragglers.Share)
	}
	return m
}

const fewLaunches = 20

// view shows a profile's readings to conditions.
type view struct {
	p     *profile.Profile
	set   map[string]float64
	now   map[string]indicator.Value
	texts map[string]string
}

func (v view) Now(s *indicator.Signal) indicator.Value {
	if x, ok := v.now[s.Name]; ok {
		return x
	}
	return indicator.Unknown("not in the trace")
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
	return slices.SortedFunc(maps.Values(loadTable().thresholds),
		func(a, b *catalog.Threshold) int { return cmp.Compare(a.Name, b.Name) })
}
