package profile

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// made is a timeline that a test makes. Times are microseconds.
type made struct {
	*Timeline
	corr uint32
}

func newMade() *made { return &made{Timeline: New("test", "test", 0)} }

func (m *made) event(name string, start, dur int64, corr uint32) Event {
	return Event{Start: us * start, Dur: us * dur, Name: m.Names.ID([]byte(name)), Correlation: corr}
}

// on adds an activity without its launch.
func (m *made) on(device int, stream int64, kind Kind, name string, start, dur int64) {
	m.AddActivity(0, device, stream, kind, m.event(name, start, dur, 0))
}

// launched adds a kernel and its launch of 5 µs.
func (m *made) launched(name string, launch, start, dur int64) {
	m.corr++
	m.call(Runtime, "cudaLaunchKernel", launch, 5, m.corr)
	m.AddActivity(0, 0, 7, Kernel, m.event(name, start, dur, m.corr))
}

func (m *made) call(class Class, name string, start, dur int64, corr uint32) {
	m.AddCall(0, 1, class, m.event(name, start, dur, corr))
}

func (m *made) device(t *testing.T) (*Analysis, *Device) {
	t.Helper()
	m.Close()
	a := Analyze(m.Timeline)
	if len(a.Devices) == 0 {
		t.Fatal("no devices")
	}
	return a, a.Devices[0]
}

const us = 1000

// TestOverlapCountsOnce runs two kernels at once, communication that is partly hidden, and a partly hidden copy.
func TestOverlapCountsOnce(t *testing.T) {
	m := newMade()
	m.on(0, 1, Kernel, "sgemm", 0, 100)
	m.on(0, 2, Kernel, "flash_fwd_kernel", 50, 100) // 50 both, 50 alone
	m.on(0, 3, Kernel, "ncclDevKernel_AllReduce_Sum", 120, 80)
	m.on(0, 4, Memcpy, "Memcpy HtoD (Host -> Device)", 140, 80)
	m.on(0, 4, Memcpy, "Memcpy HtoD (Host -> Device)", 300, 100)
	_, d := m.device(t)
	for _, tc := range []struct {
		name      string
		got, want int64
	}{
		{"wall", d.Wall, 400},
		{"busy", d.Busy, 320},
		{"idle", d.IdleTime(), 80},
		{"compute", d.Compute, 150},
		{"communication", d.Communication, 80},
		{"hidden", d.Hidden, 30},
		{"exposed", d.Exposed, 50},
		{"copies", d.ExposedCopies, 120},
		{"GEMM", d.Group[GEMM].Time, 75},
		{"attention", d.Group[Attention].Time, 75},
		{"sum of GEMM", d.Group[GEMM].Sum, 100},
	} {
		if tc.got != tc.want*us {
			t.Errorf("%s: %d ns, want %d µs", tc.name, tc.got, tc.want)
		}
	}
}

// TestCausesOfIdleness makes a gap of each of six causes.
func TestCausesOfIdleness(t *testing.T) {
	m := newMade()
	m.launched("sgemm", 0, 10, 90)                           // until 100
	m.launched("sgemm", 50, 102, 98)                         // 2 µs after it: a launch gap
	m.launched("sgemm", 260, 270, 30)                        // launched 60 µs late, started 10 µs later
	m.launched("ncclDevKernel_AllReduce_Sum", 280, 300, 100) // no gap
	m.launched("sgemm", 281, 500, 100)                       // queued, 100 µs after communication
	m.launched("sgemm", 282, 700, 100)                       // queued, 100 µs after computation
	m.launched("sgemm", 30_790, 30_800, 100)                 // 29,990 µs late, and no call on the host
	m.on(0, 7, Kernel, "sgemm", 30_950, 50)                  // 50 µs, no launch in the trace
	_, d := m.device(t)
	for cause, want := range map[Cause]int64{
		LaunchGap: 2 + 10 + 10, HostLate: 60, CommWait: 100, Dependency: 100, HostQuiet: 29_990, NotRecorded: 50, CopyWait: 0,
	} {
		if got := d.Idle[cause]; got != want*us {
			t.Errorf("%s: %d ns, want %d µs", cause, got, want)
		}
	}
}

// TestAShortWaitInPythonIsNothingToDo needs no minimum duration, unlike a time without recorded calls.
func TestAShortWaitInPythonIsNothingToDo(t *testing.T) {
	m := newMade()
	m.Timeline.Stacks = true
	m.launched("sgemm", 0, 10, 90)
	m.call(Python, "queue.py(154): get", 110, 2000, 0)
	m.call(Op, "aten::mm", 2150, 60, 0)
	m.launched("sgemm", 2200, 2210, 90)
	_, d := m.device(t)
	if got := d.Idle[NothingToDo]; got != 2000*us {
		t.Errorf("nothing to do %d", got)
	}
	if got := d.Idle[HostLate]; got != 100*us {
		t.Errorf("host late %d", got)
	}
}

// TestKernelsBelongToTheStepThatLaunchedThem has a device that runs a step's kernels during the next step on the host.
func TestKernelsBelongToTheStepThatLaunchedThem(t *testing.T) {
	m := newMade()
	m.call(Annotation, "execute_context_1(512)_generation_0(0)", 0, 900, 0)
	m.launched("sgemm", 100, 500, 1000)
	m.call(Annotation, "execute_context_1(100)_generation_7(7)", 1000, 900, 0)
	m.launched("sgemm", 1100, 1500, 400)
	m.launched("flash_fwd_kernel", 1110, 1900, 100)
	m.call(Annotation, "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk900sqsq8sqsk900)", 2000, 500, 0)
	m.launched("sgemm", 2600, 2700, 100) // of sampling, after the annotation
	a, _ := m.device(t)
	if len(a.Steps) != 3 || a.StepsBy != stepWays[byVLLM].title || a.Workload != VLLM {
		t.Fatalf("%d steps by %q", len(a.Steps), a.StepsBy)
	}
	for i, want := range []Step{
		{Batch: Batch{Prefill, 1, 512, 0, 0}, GPUFrom: 500 * us, GPUTo: 1500 * us, Busy: 1000 * us, Kernels: 1, Period: 1000 * us},
		{Batch: Batch{Mixed, 1, 100, 7, 7}, GPUFrom: 1500 * us, GPUTo: 2000 * us, Busy: 500 * us, Kernels: 2, Period: 1200 * us},
		{Batch: Batch{Decode, 0, 0, 8, 8}, GPUFrom: 2700 * us, GPUTo: 2800 * us, Busy: 100 * us, Kernels: 1},
	} {
		s := a.Steps[i]
		got := Step{Batch: s.Batch, GPUFrom: s.GPUFrom, GPUTo: s.GPUTo, Busy: s.Busy, Kernels: s.Kernels, Period: s.Period}
		if got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
	}
	if g := a.Steps[1].Group; g[GEMM] != 400*us || g[Attention] != 100*us {
		t.Errorf("groups of the second step: %v", g)
	}
}

func TestKernelsOfAGraphAreCountedAsReplayed(t *testing.T) {
	m := newMade()
	m.call(Runtime, "cudaGraphLaunch", 0, 5, 9)
	for i := range int64(10) {
		m.AddActivity(0, 0, 7, Kernel, m.event("sgemm", 10+5*i, 4, 9))
	}
	a, d := m.device(t)
	if d.GraphKernels != 10 || d.SmallKernels != 10 || a.Host.GraphLaunches != 1 || d.Idle[LaunchGap] != 9*us {
		t.Errorf("%+v, %+v", d, a.Host)
	}
}

func TestAGenericKernelHasTheGroupOfItsLauncher(t *testing.T) {
	m := newMade()
	m.call(Op, "aten::scaled_dot_product_attention", 0, 100, 0)
	m.call(Op, "aten::bmm", 10, 50, 0)
	m.launched("sgemm", 20, 30, 50)
	m.call(Python, "vllm/v1/sample/sampler.py(20): forward", 200, 100, 0)
	m.launched("vectorized_elementwise_kernel<4, div>", 210, 220, 50)
	m.launched("rms_norm_kernel", 400, 410, 50)
	m.call(Op, "aten::scaled_dot_product_attention", 500, 100, 0)
	m.launched("rms_norm_kernel", 510, 520, 40)
	a, d := m.device(t)
	for g, want := range map[Group]int64{Attention: 50, Sampling: 50, Norm: 90, GEMM: 0} {
		if got := d.Group[g].Time; got != want*us {
			t.Errorf("%s: %d ns, want %d µs", g, got, want)
		}
	}
	if k := a.Kernels[0]; k.Name != "rms_norm_kernel" || k.Below != "attention" { // name and launcher disagree
		t.Errorf("%+v", k)
	}
}

func TestATraceWithoutADeviceHasSteps(t *testing.T) {
	m := newMade()
	m.call(Annotation, "execute_context_0(0)_generation_8(8)", 0, 1000, 0)
	m.call(Op, "aten::linear", 100, 400, 0)
	m.call(Op, "aten::mm", 150, 300, 0)
	m.Close()
	a := Analyze(m.Timeline)
	if p := Combine([]*Analysis{a}); len(a.Devices) != 0 || !p.HostOnly || p.Wall != 0 || p.Steps[Decode].Count != 1 {
		t.Errorf("%+v", p)
	}
	if empty := Analyze(newMade().Timeline); empty.HostOnly {
		t.Error("an empty trace has operators")
	}
}

// TestAnEngineIsDetectedByItsAnnotations, although every engine here runs a kernel of vLLM.
func TestAnEngineIsDetectedByItsAnnotations(t *testing.T) {
	for note, want := range map[string]Workload{
		"": Model, "gpu_model_runner: preprocess": VLLM, "[Executor] _forward_step 3: 0 ctx reqs, 8 gen reqs": TensorRTLLM,
		"sglang/srt/managers/scheduler.py(700): run_batch": SGLang, "transformers/generation/utils.py(2000): generate": LLM,
	} {
		m := newMade()
		m.call(Annotation, note, 0, 50, 0)
		m.launched("void vllm::rms_norm_kernel<c10::BFloat16>", 10, 20, 5)
		a, _ := m.device(t)
		if a.Workload != want {
			t.Errorf("%q: %s, want %s", note, a.Workload, want)
		}
	}
}

// TestRanksWithoutANumberAreNamedAfterTheirFiles, and a kernel without a rule is in the notes.
func TestRanksWithoutANumberAreNamedAfterTheirFiles(t *testing.T) {
	var ranks []*Analysis
	for _, file := range []string{"dir/tp0.json.gz", "dir/tp1.json.gz"} {
		m := newMade()
		m.Source = file
		m.on(0, 7, Kernel, "k_123", 0, 100)
		m.Close()
		ranks = append(ranks, Analyze(m.Timeline))
	}
	p := Combine(ranks)
	if got := ranks[1].DeviceName(ranks[1].Devices[0]); got != "tp1.json.gz, GPU 0" {
		t.Error(got)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "k_123 (100.0 %") {
		t.Error(p.Notes)
	}
}

// TestMemsetsDoNotCountAsCopies: an idle time before a memset waits for another stream, not for a copy.
func TestMemsetsDoNotCountAsCopies(t *testing.T) {
	m := newMade()
	m.launched("sgemm", 0, 10, 50)
	m.call(Runtime, "cudaMemsetAsync", 20, 5, 900)
	m.AddActivity(0, 0, 7, Memset, m.event("Memset (Device)", 160, 1, 900))
	if _, d := m.device(t); d.Idle[CopyWait] != 0 || d.Idle[Dependency] != 100*us {
		t.Errorf("%v", d.Idle)
	}
}

// TestTheStragglerHasTheShortestCollectives, although the ranks' clocks differ.
func TestTheStragglerHasTheShortestCollectives(t *testing.T) {
	var ranks []*Analysis
	for rank, waits := range [][]int64{{100, 100, 100}, {20, 20, 20}} {
		m := newMade()
		m.Rank = rank
		for i, w := range waits {
			m.on(0, 7, Kernel, "ncclDevKernel_AllReduce_Sum", int64(1000*rank+200*i), w)
		}
		m.Close()
		ranks = append(ranks, Analyze(m.Timeline))
	}
	s := Combine(ranks).Stragglers
	if !s.Known || s.Collectives != 3 || s.Last != "rank 1, GPU 0" || s.LastShare != 1 {
		t.Errorf("%+v", s)
	}
	if math.Abs(s.Share-240.0/(500+420)) > 1e-9 {
		t.Errorf("share %f", s.Share)
	}
}

// TestPartsAddUp tests any activities: overlapping, without duration, out of order.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMade()
		type event struct{ from, to int64 }
		var all []event
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			start, dur := rapid.Int64Range(0, 500).Draw(t, "start"), rapid.Int64Range(0, 60).Draw(t, "dur")
			kind := Kind(rapid.IntRange(0, 2).Draw(t, "kind"))
			name := rapid.SampledFrom([]string{"sgemm", "flash_fwd", "nccl:x", "whatever"}).Draw(t, "name")
			if rapid.Bool().Draw(t, "launched") && kind == Kernel {
				m.launched(name, rapid.Int64Range(0, 500).Draw(t, "launch"), start, dur)
			} else {
				m.on(0, rapid.Int64Range(0, 3).Draw(t, "stream"), kind, name, start, dur)
			}
			all = append(all, event{start, start + dur})
		}
		m.Close()
		d := Analyze(m.Timeline).Devices[0]
		busy, first, last := int64(0), int64(math.MaxInt64), int64(0)
		for _, e := range all {
			first, last = min(first, e.from), max(last, e.to)
		}
		for at := first; at < last; at++ {
			for _, e := range all {
				if e.from <= at && at < e.to {
					busy++
					break
				}
			}
		}
		idle, groups := int64(0), int64(0)
		for _, c := range d.Idle {
			idle += c
		}
		for _, g := range d.Group {
			groups += g.Time
		}
		if d.Busy != busy*us || d.Wall != (last-first)*us || idle != d.Wall-d.Busy || groups != d.Busy {
			t.Fatalf("busy %d of %d, want %d of %d; idle %d, groups %d",
				d.Busy, d.Wall, busy*us, (last-first)*us, idle, groups)
		}
		if d.Compute+d.Exposed+d.ExposedCopies != d.Busy || d.Hidden+d.Exposed != d.Communication {
			t.Fatalf("%+v", d.Breakdown)
		}
	})
}

func TestShortenedNamesStayDistinct(t *testing.T) {
	for name, want := range map[string]string{
		"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, float)": "vectorized_elementwise_kernel<CUDAFunctor_add>",
		"void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, float)":                                                                "vllm::rms_norm_kernel<BFloat16>",
		"Memcpy DtoD (Device -> Device)": "Memcpy DtoD (Device -> Device)", "plain": "plain", "": "",
	} {
		if got := shortenName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestStepOf(t *testing.T) {
	for name, want := range map[string]*stepName{
		"execute_context_2(300)_generation_16(16)":                           {Batch{Mixed, 2, 300, 16, 16}, byVLLM},
		"execute_context_0(0)_generation_0(0)":                               {},
		"execute_context_x(0)_generation_0(0)":                               nil,
		"execute_context_1(5)_generation_":                                   nil,
		"execute_context_99999999999999999999(5)_generation_1(1)":            nil,
		"ProfilerStep#12":                                                    {way: byProfiler},
		"aten::mm":                                                           nil,
		"gpu_model_runner: preprocess":                                       {way: byRunner},
		"[Executor] _forward_step 7: 1 ctx reqs, 512 ctx tokens, 8 gen reqs": {Batch{Mixed, 1, 512, 8, 8}, byTensorRT},
		"[Executor] _forward_step: 0 ctx reqs, 3 gen reqs":                   {Batch{Decode, 0, 0, 3, 3}, byTensorRT},
		"[Executor] _forward_step 7: x ctx reqs":                             nil,
		"step[DECODE bs=8]":                                                  {Batch{Phase: Decode}, byRange},
		"vllm/v1/worker/gpu_worker.py(500): execute_model":                   {way: byModel},
	} {
		got := parseStep(name)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestCompareDistinguishesAChangeFromChance(t *testing.T) {
	of := func(mean int64, noise func(i int64) int64) *Profile {
		m := newMade()
		for i := range int64(20) {
			m.call(Annotation, "execute_context_0(0)_generation_8(8)", 10_000*i, 500, 0)
			m.launched("sgemm", 10_000*i+10, 10_000*i+100, mean+noise(i))
		}
		m.Close()
		return Combine([]*Analysis{Analyze(m.Timeline)})
	}
	little := func(i int64) int64 { return i % 3 }
	much := func(i int64) int64 { return 400 * (i % 5) }
	for name, tc := range map[string]struct {
		before, after *Profile
		worse         bool
	}{
		"a fifth slower":        {of(1000, little), of(1200, little), true},
		"the same":              {of(1000, little), of(1000, little), false},
		"faster":                {of(1200, little), of(1000, little), false},
		"within the gate":       {of(1000, little), of(1020, little), false},
		"noise hides the share": {of(1000, much), of(1080, much), false},
	} {
		d := Compare(tc.before, tc.after)
		if d.Per != "decode step" || d.Before != 20 || d.Worse(0.03) != tc.worse {
			t.Errorf("%s: %+v: worse %v", name, d.Total, d.Worse(0.03))
		}
	}
	slower := of(1200, little)
	for i := range slower.Ranks[0].Steps { // with batches twice as large: cheaper for each token
		slower.Ranks[0].Steps[i].DecodeTokens, slower.Ranks[0].Steps[i].DecodeRequests = 16, 16
	}
	if d := Compare(of(1000, little), slower); !d.OtherBatches || d.Worse(0.03) || d.Judged().Growth() > -0.3 {
		t.Errorf("larger batches: %+v", d.Judged())
	}
	bare := newMade()
	bare.on(0, 1, Kernel, "sgemm", 0, 100)
	bare.Close()
	p := Combine([]*Analysis{Analyze(bare.Timeline)})
	if d := Compare(p, of(1, little)); d.Per != "trace" || len(d.Caveats) == 0 {
		t.Errorf("%+v", d)
	}
}

func TestAnEmptyTimelineHasNoShares(t *testing.T) {
	m := newMade()
	m.Close()
	a := Analyze(m.Timeline)
	p := Combine([]*Analysis{a})
	if p.Devices != 0 || p.Share(5) != 0 || p.ShareOfBusy(5) != 0 {
		t.Errorf("%+v", p)
	}
}

func TestAChunkListReturnsEveryElement(t *testing.T) {
	var l chunkList[int]
	for i := range 3*maxChunk + 7 {
		l.add(i)
	}
	for i := range l.n {
		if *l.at(i) != i {
			t.Fatalf("%d: %d", i, *l.at(i))
		}
	}
}

func TestEachDeviceCountsItsGraphsWithoutKernels(t *testing.T) {
	tl := New("two devices", "Nsight Systems", 0)
	name := tl.Names.ID([]byte(WholeGraph))
	for device := range 2 {
		for i := range int64(3) {
			tl.AddActivity(1, device, 7, Kernel, Event{Start: i * 1000, Dur: 500, Name: name})
		}
	}
	tl.Close()
	p := Combine([]*Analysis{Analyze(tl)})
	if p.WholeGraphs != 6 || p.KernelRuns != 6 {
		t.Errorf("%d graphs without their kernels among %d kernels, want 6 of 6", p.WholeGraphs, p.KernelRuns)
	}
}
