// Package finding says what takes a profile's time, and what to do about it.
//
// kinds.yaml has the possible findings (Kind): a condition over signals and thresholds, sentences, and fixes for each
// workload. They have the types of the catalogue that diagnoses servers, so that reports show both alike. Judge
// measures a profile's signals, evaluates all conditions, and orders the findings that hold.
//
// A diagnosis of a server shows such findings as the pathology slow-decode, whose runbook leads to a profile. The
// package performs no I/O.
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

// A Kind is a possible finding: an entry of kinds.yaml.
type Kind struct {
	catalog.Pathology
	data kindData
}

// kindData is an entry of kinds.yaml, whose head explains the fields.
type kindData struct {
	ID, Title, Severity string
	Alone               bool
	When, Any           []string
	Idle                string
	Cost                []string
	wording
	Cases map[string]wording
}

type wording struct {
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

// table is kinds.yaml.
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

// loadTable reads kinds.yaml. It panics on an error, which every test would see.
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

// A Result is the judgement of one kind. Summary is the kind's title, and Reasons and Fixes are empty, unless it holds.
type Result struct {
	Kind     *Kind
	Holds    catalog.Truth
	Severity catalog.Severity
	Summary  string
	Reasons  []string
	Evidence []catalog.Evidence
	Fixes    []catalog.Fix
	Cost     float64 // share of the time that a fix can save at most, from 0 to 1
}

// A Verdict is the judgement of a profile.
type Verdict struct {
	Findings []Result // kinds that hold, by rankOf and then by cost
	Others   []Result // the other kinds
}

// Leading is the first finding; nil without findings.
func (v *Verdict) Leading() *Result {
	if len(v.Findings) == 0 {
		return nil
	}
	return &v.Findings[0]
}

// Judge judges a profile by every kind. Set overrides thresholds by name.
func Judge(p *profile.Profile, set map[string]float64) Verdict {
	var v Verdict
	w := view{p, set, measureSignals(p), textsOf(p)}
	for _, k := range Kinds() {
		f := Result{Kind: k, Severity: k.Severity, Summary: k.Title}
		for _, name := range k.data.Cost {
			f.Cost += w.now[name].V
		}
		w.now["cost"] = indicator.Known(f.Cost)
		f.Holds, f.Evidence = k.When.Eval(w)
		if len(v.Findings) > 0 && v.Findings[0].Kind.data.Alone {
			f.Holds, f.Evidence = catalog.Unknown, nil
		}
		if f.Holds != catalog.True {
			v.Others = append(v.Others, f)
			continue
		}
		w.fillResult(&f)
		v.Findings = append(v.Findings, f)
	}
	slices.SortStableFunc(v.Findings, func(a, b Result) int {
		return cmp.Or(cmp.Compare(rankOf(&b, p), rankOf(&a, p)), cmp.Compare(b.Cost, a.Cost))
	})
	f := v.Leading()
	if f != nil && f.Kind.ID != "one-time" && !f.Kind.data.Alone && p.Share(p.OnceTime()) > onceMentioned {
		f.Summary = "Without one-time gaps: " + strings.ToLower(f.Summary[:1]) + f.Summary[1:]
	}
	return v
}

// Shares of the time from which one-time gaps come first, and from which the first finding mentions them.
const onceLeads, onceMentioned = 1.0 / 3, 0.05

// rankOf returns 2 for long one-time gaps, 1 for problems, and 0 for findings that a healthy program has, too.
func rankOf(f *Result, p *profile.Profile) int {
	switch {
	case f.Kind.ID == "one-time" && f.Cost > onceLeads:
		return 2
	case f.Severity >= catalog.Ticket || f.Kind.data.Idle != "",
		f.Kind.ID == "gemm-bound" && usesFP32(p.Heaviest(profile.GEMM).Name):
		return 1
	}
	return 0
}

// fillResult fills a finding's sentences and fixes.
func (v view) fillResult(f *Result) {
	k := f.Kind
	s := k.data.wording
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

// caseOf returns the name of a kind's case that applies to the profile, or "".
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
		case usesFP32(p.Heaviest(profile.GEMM).Name):
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

// usesFP32 reports whether the kernel of a product computes in FP32, without tensor cores. cuBLAS calls such kernels
// sgemm, and CUTLASS simt_sgemm; with TF32 they are s1688gemm. XMMA's names have the types of all matrices. Tensile's
// have a single S if all are FP32.
func usesFP32(kernel string) bool {
	return sgemm.MatchString(kernel)
}

var sgemm = regexp.MustCompile(`(^|_)sgemm_|gemm_f32f32_f32f32_|^Cijk_\w+?_(SB|S_B)_`)

// fixesOf returns the fixes for a profile's workload and GPU.
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

// textsOf returns the texts for names in braces that are not signals. A missing text is unknown.
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

// readings are a profile's measurements by signal. A missing one is unknown.
type readings map[string]indicator.Value

func (m readings) add(name string, v float64) { m[name] = indicator.Known(v) }

func measureSignals(p *profile.Profile) readings {
	m := readings{}
	if n := float64(p.Host.Launches); n > 0 {
		m.add("launch_time", float64(p.Host.LaunchTime)/1e9/n)
		m.add("captured_launches", float64(p.Host.Captured)/n)
	}
	if p.Devices == 0 {
		if p.HostOnly && m["captured_launches"].V < 0.1 { // captured launches run nothing on a device
			m.add("cpu_only", 1)
		}
		return m
	}
	m.add("cpu_only", 0)
	m.add("one_time", p.Share(p.OnceTime()))
	m.add("device_time", p.Seconds())
	m.add("device_of_recorded", p.RecordedShare())
	if p.Stragglers.Known {
		m.add("rank_wait", p.Stragglers.Share)
	}
	m.measureTime(p)
	m.measureKernels(p)
	m.measureSteps(p)
	return m
}

// measureTime measures shares of the time without one-time gaps.
func (m readings) measureTime(p *profile.Profile) {
	b := p.Recurring()
	for c := range profile.Causes {
		m.add(signalName("idle_", c), b.Share(b.Idle[c]))
	}
	for g := range profile.Groups {
		m.add(signalName("group_", g), b.Share(b.Group[g].Time))
	}
	m.add("gpu_busy", b.Share(b.Busy))
	m.add("idle_host", b.Share(b.Idle[profile.HostLate]+b.Idle[profile.LaunchGap]))
	m.add("idle_dependency", b.Share(b.Idle[profile.Dependency]+b.Idle[profile.CopyWait]))
	exposed := b.Share(b.Exposed + b.Idle[profile.CommWait])
	m.add("communication_exposed", max(0, exposed-p.Stragglers.Share))
	m.add("copies_exposed", b.Share(b.ExposedCopies))
	m.add("attention_of_busy", b.ShareOfBusy(b.Group[profile.Attention].Time))
	m.add("gemm_of_busy", b.ShareOfBusy(b.Group[profile.GEMM].Time+b.Group[profile.MoE].Time))
	m.add("convolution_of_busy", b.ShareOfBusy(b.Group[profile.Convolution].Time))
	m.add("sampling_of_busy", b.ShareOfBusy(b.Group[profile.Sampling].Time))
	unfused := max(0, b.Group[profile.Elementwise].Time+b.Group[profile.Activation].Time-b.Compiled)
	m.add("elementwise_of_busy", b.ShareOfBusy(unfused))
	m.add("elementwise_unfused", b.Share(unfused))
}

func (m readings) measureKernels(p *profile.Profile) {
	all := float64(p.KernelRuns + p.Group[profile.Copies].Count)
	m.add("kernels", all)
	m.add("evidence", all+float64(p.Busy-p.Exposed)/1e6) // an all-reduce that waits is no evidence
	if n, b := float64(p.KernelRuns), p.Recurring(); n > 0 {
		m.add("small_kernels", float64(p.SmallKernels)/n)
		m.add("small_kernels_time", b.ShareOfBusy(b.SmallKernelTime))
		m.add("small_kernels_wall", b.Share(b.SmallKernelTime))
		m.add("graph_kernels", float64(max(p.GraphKernels, p.WholeGraphs))/n)
	}
}

// fewLaunches is the number of launches up to which a step may not be a whole one.
const fewLaunches = 20

func (m readings) measureSteps(p *profile.Profile) {
	all, decode, mixed := p.Steps[profile.Unknown], p.Steps[profile.Decode], p.Steps[profile.Mixed]
	if all.Count > 0 && all.Launches > fewLaunches {
		m.add("launches_per_step", all.Launches)
	}
	if decode.Count > 0 {
		m.add("decode_step_p50", decode.P50)
	}
	if whole := all.Mean * float64(all.Count); mixed.Count > 0 && whole > 0 {
		m.add("mixed_step_p50", mixed.P50)
		m.add("mixed_share", mixed.Mean*float64(mixed.Count)/whole)
		m.add("mixed_cost", (mixed.Mean-decode.Mean)*float64(mixed.Count)/whole)
		if decode.Count >= 3 && decode.P50 > 0 {
			m.add("mixed_over_decode", mixed.P50/decode.P50)
		}
	}
}

// A view shows a profile's signals to conditions: a catalog.View without a baseline or peers.
type view struct {
	p     *profile.Profile
	set   map[string]float64 // thresholds
	now   readings
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
