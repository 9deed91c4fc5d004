package finding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/profile"
)

// A maker makes a trace. Times are microseconds.
type maker struct {
	*profile.Timeline
	corr uint32
	end  int64
}

// kernel adds a kernel or a copy, and its launch of 5 µs.
func (m *maker) kernel(name string, launch, start, dur int64, graph bool) {
	m.corr++
	call := "cudaLaunchKernel"
	if graph {
		call = "cudaGraphLaunch"
	}
	m.call(profile.Runtime, call, launch, 5, m.corr)
	kind := profile.Kernel
	if strings.HasPrefix(name, "Memcpy") {
		kind = profile.Memcpy
	}
	m.AddActivity(0, 0, 7, kind, profile.Event{Start: 1000 * start, Dur: 1000 * dur, Name: m.Names.ID([]byte(name)),
		Correlation: m.corr})
}

func (m *maker) call(class profile.Class, name string, start, dur int64, corr uint32) {
	m.AddCall(0, 1, class, profile.Event{Start: 1000 * start, Dur: 1000 * dur, Name: m.Names.ID([]byte(name)), Correlation: corr})
}

type kernel struct {
	name string
	dur  int64
}

// step adds a step of n kernels, each gap after the one before and launched lead before it runs. If lead is less than
// gap, the device waits for the launch.
func (m *maker) step(note string, n int, lead, gap int64, graph bool, kernels ...kernel) {
	start := m.end + 10
	if note != "" {
		m.call(profile.Annotation, note, start, 50, 0)
	}
	at := start + 20
	for i := range n {
		k := kernels[i%len(kernels)]
		at += gap
		m.kernel(k.name, at-lead, at, k.dur, graph)
		at += k.dur
	}
	m.end = at
}

func step(note string, n int, lead, gap int64, graph bool, kernels ...kernel) func(*maker) {
	return func(m *maker) { m.step(note, n, lead, gap, graph, kernels...) }
}

// repeat adds the same parts several times.
func repeat(times int, all ...func(*maker)) func(*maker) {
	return func(m *maker) {
		for range times {
			for _, do := range all {
				do(m)
			}
		}
	}
}

// busy adds decode steps of kernels that graphs replay, with hardly a gap between them.
func busy(kernels ...kernel) func(*maker) {
	return repeat(20, step(decode, 50, 100, 1, true, kernels...))
}

const decode, mixed = "execute_context_0(0)_generation_8(8)", "execute_context_2(900)_generation_8(8)"

func TestEachKindIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(m *maker)
		lead string // the first finding that is worth a ticket; "" is none
		also []string
	}{
		"host-bound decode":      {repeat(20, step(decode, 150, 4, 20, false, kernel{"sgemm", 12})), "host-bound", []string{"eager-mode"}},
		"host-bound with graphs": {repeat(20, step(decode, 150, 4, 20, true, kernel{"sgemm", 12})), "host-bound", nil},
		"healthy":                {busy(kernel{"sgemm", 70}, kernel{"flash_fwd", 20}, kernel{"rms_norm", 15}), "", nil},
		"communication":          {busy(kernel{"sgemm", 60}, kernel{"ncclDevKernel_AllReduce", 40}), "communication-bound", nil},
		"attention":              {busy(kernel{"sgemm", 30}, kernel{"flash_fwd", 60}), "attention-bound", nil},
		"sampling":               {busy(kernel{"sgemm", 80}, kernel{"DeviceRadixSort", 20}), "sampling-bound", nil},
		"copies":                 {busy(kernel{"sgemm", 60}, kernel{"Memcpy HtoD (Host -> Device)", 40}), "copies-bound", nil},
		"unfused":                {busy(kernel{"sgemm", 50}, kernel{"vectorized_elementwise_kernel", 45}), "elementwise-bound", nil},
		"prefill beside decode": {repeat(20,
			step(decode, 10, 100, 1, true, kernel{"sgemm", 60}, kernel{"rms_norm", 30}),
			step(mixed, 40, 100, 1, true, kernel{"sgemm", 60}, kernel{"rms_norm", 30}),
		), "prefill-beside-decode", nil},
		"idle": {func(m *maker) {
			for range 5 {
				m.step("execute_context_1(100)_generation_0(0)", 10, 100, 1, true, kernel{"sgemm", 60})
				m.end += 100_000
			}
		}, "nothing-queued", nil},
		"the host does something else while requests run": {func(m *maker) {
			for range 5 {
				m.step(decode, 10, 100, 1, true, kernel{"sgemm", 60})
				m.end += 100_000
			}
		}, "host-work", nil},
		"on the CPU": {func(m *maker) {
			m.call(profile.Op, "aten::mm", 0, 100, 0)
		}, "", []string{"cpu-only"}},
		"kernels without a rule": {busy(kernel{"sgemm", 50}, kernel{"k_123", 45}), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &maker{Timeline: profile.New(name, "test", 0)}
			tc.make(m)
			m.Close()
			p := profile.Combine([]*profile.Analysis{profile.Analyze(m.Timeline)})
			v := Judge(p, nil)
			var ids []string
			lead := ""
			for _, f := range v.Findings {
				ids = append(ids, f.Kind.ID)
				if lead == "" && f.Severity >= catalog.Ticket {
					lead = f.Kind.ID
				}
				if f.Summary == "" || len(f.Evidence) == 0 || f.Cost < 0 || f.Cost > 1 {
					t.Errorf("%+v", f)
				}
			}
			if lead != tc.lead {
				t.Errorf("leads %q of %v, want %q", lead, ids, tc.lead)
			}
			for _, id := range tc.also {
				if !slices.Contains(ids, id) {
					t.Errorf("%s is not among %v", id, ids)
				}
			}
		})
	}
}

func TestKindsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.ID] || k.Title == "" {
			t.Errorf("%s: %+v", k.ID, k)
		}
		seen[k.ID] = true
	}
	names := map[string]bool{}
	for _, l := range Thresholds() {
		if names[l.Name] || l.Why == "" {
			t.Errorf("threshold %s", l.Name)
		}
		names[l.Name] = true
	}
}

func TestEvidenceSaysThatAThresholdWasSet(t *testing.T) {
	m := &maker{Timeline: profile.New("x", "test", 0)}
	m.step(decode, 50, 100, 1, true, kernel{"sgemm", 70}, kernel{"flash_fwd", 20})
	m.Close()
	p := profile.Combine([]*profile.Analysis{profile.Analyze(m.Timeline)})
	v := Judge(p, map[string]float64{"attention_bound": 0.1})
	i := slices.IndexFunc(v.Findings, func(f Result) bool { return f.Kind.ID == "attention-bound" })
	if i < 0 || v.Findings[i].Evidence[0].Source != "--set" {
		t.Errorf("%+v", v.Findings)
	}
}

func TestFlagsOfVLLMAreForVLLMOnly(t *testing.T) {
	for _, vllm := range []bool{true, false} {
		m := &maker{Timeline: profile.New("x", "test", 0)}
		note := decode
		if !vllm {
			note = "ProfilerStep#1"
		}
		m.step(note, 300, 4, 20, false, kernel{"sgemm", 5}, kernel{"vectorized_elementwise_kernel", 5}, kernel{"flash_fwd", 9})
		m.Close()
		p := profile.Combine([]*profile.Analysis{profile.Analyze(m.Timeline)})
		v := Judge(p, nil)
		text := ""
		for _, f := range v.Findings {
			for _, x := range f.Fixes {
				text += fmt.Sprintln(x.Summary, x.Args(), x.LeftOut())
			}
		}
		if len(v.Findings) == 0 || strings.Contains(text, "--enforce-eager") != vllm {
			t.Errorf("vLLM %v: %s", vllm, text)
		}
	}
}

// TestTheTableIsComplete: each fix has all its sentences and known workloads, each kind has a fix for every workload in
// which it can be found, no fix names a flag or a variable of another program, and every name in braces is known.
func TestTheTableIsComplete(t *testing.T) {
	names := textsOf(profile.Combine(nil))
	for _, name := range []string{"stacks", "copy", "calls", "product"} {
		names[name] = ""
	}
	for _, k := range Kinds() {
		all := map[string]wording{"": k.data.wording}
		for name, c := range k.data.Cases {
			all[name] = c
		}
		for name, s := range all {
			for _, text := range append([]string{s.Summary}, s.Reasons...) {
				for _, x := range placeholder.FindAllString(text, -1) {
					if x = strings.Trim(x, "{}"); loadTable().signals[x] == nil {
						if _, ok := names[x]; !ok {
							t.Errorf("%s: nothing is called %s", k.ID, x)
						}
					}
				}
			}
			for _, a := range s.Fixes {
				if a.Do == "" || a.Tradeoff == "" || a.Verify == "" {
					t.Errorf("%s: %+v", k.ID, a)
				}
				for _, w := range a.For {
					if !slices.Contains([]string{"model", "llm", "training", "vllm", "sglang", "tensorrt-llm", "serving"}, w) {
						t.Errorf("%s: %q is no workload", k.ID, w)
					}
				}
			}
			for w := profile.Model; w <= profile.TensorRTLLM; w++ {
				fixes := fixesOf(s.Fixes, &profile.Profile{Workload: w})
				if amd := fixesOf(s.Fixes, &profile.Profile{Workload: w, AMD: true}); len(amd) == 0 != (len(fixes) == 0) {
					t.Errorf("%s %s: a fix for %s on one maker's GPUs alone", k.ID, name, w)
				}
				if len(fixes) == 0 && (w.Samples() || k.ID != "sampling-bound") && (name == "" || len(s.Fixes) > 0) {
					t.Errorf("%s %s: no fix for %s", k.ID, name, w)
				}
				for _, f := range fixes {
					text := f.Summary + f.Args() + f.LeftOut()
					for _, flag := range []string{"VLLM_", "--enforce-eager", "--async-scheduling", "--tensor-parallel-size", "--max-num", "--cpu-offload", "sixty profile capture"} {
						if w != profile.VLLM && strings.Contains(text, flag) {
							t.Errorf("%s: %s is told of %s", k.ID, w, text)
						}
					}
					if text += f.Tradeoff; !w.Samples() &&
						(strings.Contains(text, "KV cache") || strings.Contains(text, "token")) {
						t.Errorf("%s: %s is told of %s", k.ID, w, text)
					}
				}
			}
		}
	}
}
