package profile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Cause is the reason for which a device was idle.
type Cause uint8

// The causes. From HostLate to LockWait, and for HostQuiet, they say what the host did before it
// launched the next activity. If one call contains another, the later cause wins.
const (
	HostLate          Cause = iota // it was busy, and launched again within 2 ms
	HostWork                       // it computed something else for longer
	LockWait                       // it waited for a lock
	HostCopy                       // a blocking copy
	Allocating                     // memory was allocated or freed
	FirstUse                       // code was loaded or compiled, a graph instantiated
	Synchronising                  // it waited for a device
	NothingToDo                    // it waited for work
	GarbageCollection              // Python's
	DataLoading                    // it waited for the next batch of training data
	HostQuiet                      // nothing was recorded
	ProfilerTime                   // the profiler held it up
	LaunchGap                      // the duration of the launch, and the pause between two kernels
	StartDelayed                   // it was launched and began much later, while nothing else ran
	CommWait                       // it waited for communication
	CopyWait                       // it waited for a copy
	Dependency                     // it was queued, and waited for another stream or an event
	NotRecorded                    // the launch is not in the trace
	Causes                         // number of causes
)

var causeNames = [Causes]string{
	"host late", "host computes", "locks", "blocking copies", "memory allocation", "first use", "synchronisation",
	"nothing to do", "garbage collection", "data loading", "host not recorded", "profiler", "launch gaps",
	"start delayed", "waiting for communication", "waiting for copies", "waiting for another stream",
	"launch not recorded",
}

func (c Cause) String() string { return causeNames[min(c, Causes-1)] }

// Thresholds between causes, in nanoseconds.
const (
	// shortGap is the longest pause between two kernels that are both queued: 1 to 3 µs on an
	// NVIDIA GPU, up to 15 µs on AMD's, more between graphs.
	shortGap = 20_000
	// otherWork is how long a host must launch nothing to count as computing something else. In
	// eager mode a launch takes 10 to 200 µs of Python, and up to 1 ms under a profiler.
	otherWork = 2_000_000
	// quiet is how long a host must record nothing to count as having nothing to do. Less may be
	// Python code without events.
	quiet = 10_000_000
	// small is the duration of a kernel below which its launch, 2 to 5 µs on the host, costs as much as the kernel.
	small = 10_000
	// longCall is the duration from which a call of the runtime is more than its launch.
	longCall = 50_000
)

// GroupTime is the time of a group of kernels.
type GroupTime struct {
	Time  int64 // wall clock; overlaps count once
	Sum   int64 // sum of all durations
	Alone int64 // part of Time while nothing else ran: the gain if the group were free
	Count int
	Flops float64 // operations of the kernels with known work
	Bytes float64 // bytes that these move at least
	Known int64   // durations of these
}

// Work is the time of one device, or of several together. All times are nanoseconds of the wall
// clock: Compute + Exposed + ExposedCopies + the causes of idleness = Wall.
type Work struct {
	Wall  int64 // from a device's first activity to its last
	Busy  int64
	Idle  [Causes]int64
	Once  [Causes]int64 // part of Idle in gaps that did not come back: see markOnce
	Group [Groups]GroupTime

	Compute       int64 // at least one computing kernel ran
	Communication int64 // at least one communication kernel ran
	Hidden        int64 // communication behind computation
	Exposed       int64 // communication without computation
	ExposedCopies int64 // copies and memsets while nothing else ran

	Unfused  int64 // attention that kernels of products and of softmax compute, all durations
	Compiled int64 // elementwise kernels and activations that a compiler generated, all durations
	// Exchanged is communication that sends each rank different data, such as embeddings or experts; all durations.
	Exchanged int64

	Runs       int // kernels
	Small      int // kernels of less than 10 µs
	SmallTime  int64
	Graph      int // kernels that a graph replayed
	WholeGraph int // graphs recorded without their kernels
}

func (w *Work) addDevice(o *Work) { addNumbers(reflect.ValueOf(w).Elem(), reflect.ValueOf(o).Elem()) }

func addNumbers(to, from reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			addNumbers(to.Field(i), from.Field(i))
		}
	case reflect.Array:
		for i := range to.Len() {
			addNumbers(to.Index(i), from.Index(i))
		}
	case reflect.Bool:
		to.SetBool(to.Bool() || from.Bool())
	case reflect.Float64:
		to.SetFloat(to.Float() + from.Float())
	default:
		to.SetInt(to.Int() + from.Int())
	}
}

// IdleTime is how long nothing ran.
func (w *Work) IdleTime() int64 { return w.Wall - w.Busy }

// OnceTime is the time of gaps that did not come back.
func (w *Work) OnceTime() (total int64) {
	for _, t := range w.Once {
		total += t
	}
	return total
}

// Habit is the work without the gaps that did not come back.
func (w *Work) Habit() *Work {
	h := *w
	for c, t := range w.Once {
		h.Wall -= t
		h.Idle[c] -= t
	}
	return &h
}

// Share is a part of the wall time.
func (w *Work) Share(ns int64) float64 { return shareOf(ns, w.Wall) }

// OfBusy is a part of the time in which a device worked.
func (w *Work) OfBusy(ns int64) float64 { return shareOf(ns, w.Busy) }

func shareOf(ns, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(ns) / float64(whole)
}

// A Device is one device's time.
type Device struct {
	ID int
	GPU
	From int64
	Work

	Gaps []Gap // the longest, the longest first

	Waits     []int64 // durations of communication kernels, in order, to compare ranks by
	WaitSteps []int32 // and their steps; -1 is unknown
}

// A KernelStat is one kernel, all its runs together.
type KernelStat struct {
	Name     string // in full
	Short    string
	Library  string // "" is unknown
	Group    Group
	Below    string // the purpose of its launcher, if its name has another
	Count    int
	Sum, Max int64
	Squares  float64 // the sum of the squares of all durations, in seconds
	Graph    int     // runs that a graph replayed
	Operator string
}

// Host is the work of the threads that launch.
type Host struct {
	Launches, GraphLaunches int
	LaunchTime              int64
	Syncs                   int
	SyncTime                int64
	Captured                int // launches into a graph that was being captured
	Stacks                  bool
}

// An Analysis is the result for one timeline.
type Analysis struct {
	Source, Tool string
	Rank         int
	From, Span   int64 // over all events in the trace
	Events       int64
	Devices      []*Device
	HostOnly     bool // the host was recorded, and no device
	Steps        []Step
	StepsBy      string // how steps were detected; "": not at all
	Kernels      []KernelStat
	Host         Host
	Roofline     []Rate
	Workload     Workload
	Quantised    bool   // by the names of products
	AMD          bool   // by calls of HIP
	Processor    string // the device instead of a GPU: "cpu", "mtia"; "" is unknown
	Calls        string // without a device: the calls that took the most host time
	Partial      []string
	Notes        []string

	among bool // there are several analyses
}

// Analyze says where the time of a timeline went.
func Analyze(t *Timeline) *Analysis {
	a := &Analysis{
		Source: t.Source, Tool: t.Tool, Rank: t.Rank, Events: t.Events,
		Partial: t.Partial, Notes: t.Notes,
	}
	z := &analyzer{Timeline: t, Analysis: a, hosts: map[int64]*host{}, kernelStats: map[uint64]*KernelStat{}}
	seen := slices.ContainsFunc(t.Threads, func(h *Thread) bool {
		return h.Calls[Op].n > 0 || h.Calls[Annotation].n > 0
	})
	z.readNames()
	z.findSteps()
	z.findSpan()
	z.walkThreads()
	z.sweepDevices()
	if a.HostOnly = (seen || a.Host.Launches > 0) && len(a.Devices) == 0; a.HostOnly {
		a.Calls = z.longestCalls()
	}
	z.finishAnalysis()
	return a
}

type analyzer struct {
	*Timeline
	*Analysis
	infoByName  []nameInfo
	hosts       map[int64]*host // by process
	kernelStats map[uint64]*KernelStat
	rates       map[uint32]*rate
	hostOrder   []*host
	overhead    []doing // the profiler's own
	long        int64   // least duration of calls that are kept for gaps
}

type nameInfo struct {
	Meaning
	gives      Group // for kernels below it whose names say only how they compute
	hint       Group // for kernels below it whose names say nothing
	cause      Cause // the host's work in it
	batch      *batch
	launch     bool
	isGraph    bool
	wholeGraph bool // a graph without its kernels
	sync       bool
	capture    bool // it begins or ends the capture of a graph
	ranks      bool // it sends each rank different data
	product    bool // a batched matrix product
	softmax    bool
	samples    bool
	outer      int64 // time in calls of it that are outermost among operators and data loading
}

func (z *analyzer) readNames() {
	z.infoByName = make([]nameInfo, len(z.Timeline.Names.Text))
	var votes [workloads]int
	for i, text := range z.Timeline.Names.Text {
		n := &z.infoByName[i]
		n.Meaning = MeaningOf(text)
		n.gives, n.hint = n.purposeBelow(text)
		n.cause = causeOf(text)
		n.isGraph, n.wholeGraph = strings.Contains(text, "GraphLaunch"), text == WholeGraph
		n.launch = holdsAny(text, "Launch", "Memcpy", "Memset")
		switch {
		case holdsAny(text, "aten::mkldnn", "_for_cpu", "onednn", "cpu_model_runner.py"):
			z.Processor = "cpu"
		case strings.Contains(text, "job_prep_and_submit_for_execution"):
			z.Processor = "mtia"
		}
		z.AMD = z.AMD || n.launch && strings.HasPrefix(text, "hip")
		n.sync = strings.Contains(text, "Synchronize")
		n.capture = holdsAny(text, "StreamBeginCapture", "StreamEndCapture")
		n.product = holdsAny(text, "::bmm", "::baddbmm")
		n.softmax = strings.Contains(text, "softmax")
		n.ranks = holdsAny(text, "all_to_all", "alltoall", "All2All", "all2all", "AllToAll", "::ep::", "deep_ep",
			"mori::Ep")
		n.samples = holdsAny(text, "/sample/", "sampler.py", "model_runner: sample")
		if n.Group == GEMM || n.Group == MoE {
			z.Quantised = z.Quantised || holdsAny(strings.ToLower(text), fewBits...)
		}
		votes[workloadIn(text, n.Meaning)]++
	}
	z.Workload = electWorkload(votes)
}

var fewBits = []string{
	"fp8", "e4m3", "e5m2", "fp4", "int8", "int4", "s8_", "i8i8", "awq", "gptq", "marlin", "w8a8", "w4a16", "scaled_mm",
}

func holdsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

func (z *analyzer) longestCalls() string {
	order, total := make([]int, len(z.infoByName)), int64(0)
	for i := range order {
		order[i], total = i, total+z.infoByName[i].outer
	}
	slices.SortStableFunc(order,
		func(a, b int) int { return cmp.Compare(z.infoByName[b].outer, z.infoByName[a].outer) })
	var out []string
	for _, i := range order[:min(3, len(order))] {
		if share := shareOf(z.infoByName[i].outer, total); share > onceShare {
			out = append(out, fmt.Sprintf("%.60s %.0f %%", z.Timeline.Names.Text[i], 100*share))
		}
	}
	return strings.Join(out, ", ")
}

func (z *analyzer) findSpan() {
	all := never
	for l, class := range z.Timeline.eachLog {
		if class != Python { // their frames may have been open before the trace began
			all.cover(l)
		}
	}
	if all != never {
		z.From, z.Span = all.from, all.to-all.from
	}
}
