package profile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Limits of durations, in nanoseconds.
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
	// smallKernel is the duration below which a kernel's launch, 2 to 5 µs on the host, costs as much as the kernel.
	smallKernel = 10_000
	// longCall is the duration from which a call of the runtime does more than launch.
	longCall = 50_000
)

// GroupTime is the time of a group of kernels.
type GroupTime struct {
	Time  int64 // wall clock; overlaps count once
	Sum   int64 // sum of all durations
	Alone int64 // part of Time while nothing else ran: the gain if the group were free
	Count int
	// Kernels of operators with a known Cost: their operations, the bytes that they move at least, their durations.
	Flops, Bytes float64
	Known        int64
}

// A Breakdown is the time of one device, or of several together, by what the device did.
// Compute + Exposed + ExposedCopies + the sum of Idle = Wall.
type Breakdown struct {
	Wall  int64 // from a device's first activity to its last
	Busy  int64 // at least one activity ran
	Idle  [Causes]int64
	Once  [Causes]int64 // part of Idle in one-time gaps: see markOnce
	Group [Groups]GroupTime

	Compute       int64 // at least one computing kernel ran
	Communication int64 // at least one communication kernel ran
	Hidden        int64 // communication during computation
	Exposed       int64 // communication without computation
	ExposedCopies int64 // copies and memsets while nothing else ran

	// Sums of durations.
	Unfused   int64 // attention by separate kernels for the products and the softmax
	Compiled  int64 // elementwise kernels and activations that a compiler generated
	Exchanged int64 // communication that sends each rank different data, such as embeddings or experts

	KernelRuns      int
	SmallKernels    int // runs of less than 10 µs
	SmallKernelTime int64
	GraphKernels    int // runs that a graph replayed
	WholeGraphs     int // graphs recorded without their kernels
}

// addNumbers adds every number of a struct to the same number of another, also in nested structs and arrays.
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
func (w *Breakdown) IdleTime() int64 { return w.Wall - w.Busy }

// OnceTime is the time of one-time gaps.
func (w *Breakdown) OnceTime() (total int64) {
	for _, t := range w.Once {
		total += t
	}
	return total
}

// Recurring is the breakdown without one-time gaps.
func (w *Breakdown) Recurring() *Breakdown {
	r := *w
	for c, t := range w.Once {
		r.Wall -= t
		r.Idle[c] -= t
	}
	return &r
}

// Share is a time as a share of the wall time, from 0 to 1.
func (w *Breakdown) Share(ns int64) float64 { return shareOf(ns, w.Wall) }

// ShareOfBusy is a time as a share of the time in which a device worked, from 0 to 1.
func (w *Breakdown) ShareOfBusy(ns int64) float64 { return shareOf(ns, w.Busy) }

func shareOf(ns, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(ns) / float64(whole)
}

// A Device is one device's part of an Analysis.
type Device struct {
	ID int
	GPU
	From int64 // start of its first activity
	Breakdown

	Gaps []Gap // the longest ones, in descending order

	Waits     []int64 // durations of communication kernels, by time, for the comparison of ranks
	WaitSteps []int32 // and their steps; -1 is unknown
}

// A KernelStat sums up all runs of one kernel.
type KernelStat struct {
	Name     string // in full
	Short    string // from shortenName
	Library  string // "" is unknown
	Group    Group
	Below    string // the group of its launcher, if its own name has another
	Count    int
	Sum, Max int64
	Squares  float64 // sum of the squared durations, in seconds²
	Graph    int     // runs that a graph replayed
	Operator string  // the operator of the last run
}

// Host sums up the calls of the threads that launch.
type Host struct {
	Launches, GraphLaunches int
	LaunchTime              int64
	Syncs                   int
	SyncTime                int64
	Captured                int  // launches into a graph that was being captured
	Stacks                  bool // Python functions were recorded
}

// An Analysis says where the time of one Timeline went.
type Analysis struct {
	Source, Tool string
	Rank         int   // -1 is unknown
	From, Span   int64 // the time that all events except Python's span
	Events       int64
	Devices      []*Device
	Truncated    bool // the file ends in the middle
	HostOnly     bool // the host was recorded, and no device
	Steps        []Step
	StepsBy      string // how steps were detected; "": not at all
	Kernels      []KernelStat
	Host         Host
	Roofline     []Rate
	Workload     Workload
	Quantised    bool   // the names of products say so
	AMD          bool   // the host calls HIP
	Processor    string // the device instead of a GPU: "cpu", "mtia"; "" is unknown
	HostCalls    string // without a device: the calls that took the most host time
	Partial      []string
	Notes        []string

	severalRanks bool // the profile has other analyses, too
}

// Analyze says where the time of a timeline went. It empties the timeline's threads.
func Analyze(t *Timeline) *Analysis {
	a := &Analysis{
		Source: t.Source, Tool: t.Tool, Rank: t.Rank, Events: t.Events,
		Truncated: t.Truncated, Partial: t.Partial, Notes: t.Notes,
	}
	z := &analyzer{Timeline: t, Analysis: a, processes: map[int64]*hostProcess{}, kernelStats: map[uint64]*KernelStat{}}
	seen := slices.ContainsFunc(t.Threads, func(h *Thread) bool {
		return h.Calls[Op].n > 0 || h.Calls[Annotation].n > 0
	})
	z.readNames()
	z.findSteps()
	z.findSpan()
	z.walkThreads()
	z.sweepDevices()
	if a.HostOnly = (seen || a.Host.Launches > 0) && len(a.Devices) == 0; a.HostOnly {
		a.HostCalls = z.longestCalls()
	}
	z.finishAnalysis()
	return a
}

type analyzer struct {
	*Timeline
	*Analysis
	infoByName   []nameInfo
	processes    map[int64]*hostProcess // by process
	kernelStats  map[uint64]*KernelStat
	rates        map[uint32]*rate
	processOrder []*hostProcess
	overhead     []interval // the profiler's own work
	keptCall     int64      // shortest call that is kept, to be named in a gap
}

// nameInfo is what the name of a call or of an activity says. A call is above the kernels that are launched during it.
type nameInfo struct {
	Meaning
	gives      Group // group of the kernels below it with generic names; noGroup for none
	hint       Group // group of the kernels below it whose names say nothing; noGroup for none
	cause      Cause // the host's activity during the call
	stepName   *stepName
	launch     bool
	isGraph    bool
	wholeGraph bool // a graph without its kernels
	sync       bool
	capture    bool // it begins or ends the capture of a graph
	exchanges  bool // it sends each rank different data
	product    bool // a batched matrix product
	softmax    bool
	samples    bool  // it samples tokens
	outer      int64 // time of its calls that are below no other operator or data loading
}

func newNameInfo(text string) nameInfo {
	n := nameInfo{
		Meaning:    MeaningOf(text),
		cause:      causeOf(text),
		stepName:   parseStep(text),
		launch:     holdsAny(text, "Launch", "Memcpy", "Memset"),
		isGraph:    strings.Contains(text, "GraphLaunch"),
		wholeGraph: text == WholeGraph,
		sync:       strings.Contains(text, "Synchronize"),
		capture:    holdsAny(text, "StreamBeginCapture", "StreamEndCapture"),
		exchanges: holdsAny(text, "all_to_all", "alltoall", "All2All", "all2all", "AllToAll", "::ep::", "deep_ep",
			"mori::Ep"),
		product: holdsAny(text, "::bmm", "::baddbmm"),
		softmax: strings.Contains(text, "softmax"),
		samples: holdsAny(text, "/sample/", "sampler.py", "model_runner: sample"),
	}
	n.gives, n.hint = n.purposeBelow(text)
	return n
}

// readNames classifies all names. The names tell the workload, the processor, and whether the weights are quantised.
func (z *analyzer) readNames() {
	z.infoByName = make([]nameInfo, len(z.Timeline.Names.Text))
	var votes [workloads]int
	for i, text := range z.Timeline.Names.Text {
		n := newNameInfo(text)
		z.infoByName[i] = n
		switch {
		case holdsAny(text, "aten::mkldnn", "_for_cpu", "onednn", "cpu_model_runner.py"):
			z.Processor = "cpu"
		case strings.Contains(text, "job_prep_and_submit_for_execution"):
			z.Processor = "mtia"
		}
		z.AMD = z.AMD || n.launch && strings.HasPrefix(text, "hip")
		if n.Group == GEMM || n.Group == MoE {
			z.Quantised = z.Quantised || holdsAny(strings.ToLower(text), fewBits...)
		}
		votes[workloadIn(text, n.Meaning)]++
	}
	z.Workload = electWorkload(votes)
}

// fewBits are parts of the names of products with weights of 8 bits or fewer.
var fewBits = []string{
	"fp8", "e4m3", "e5m2", "fp4", "int8", "int4", "s8_", "i8i8", "awq", "gptq", "marlin", "w8a8", "w4a16", "scaled_mm",
}

func holdsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// longestCalls names the calls that took the most time of the host, with their shares.
func (z *analyzer) longestCalls() string {
	order, total := make([]int, len(z.infoByName)), int64(0)
	for i := range order {
		order[i], total = i, total+z.infoByName[i].outer
	}
	slices.SortStableFunc(order,
		func(a, b int) int { return cmp.Compare(z.infoByName[b].outer, z.infoByName[a].outer) })
	var out []string
	for _, i := range order[:min(3, len(order))] {
		if share := shareOf(z.infoByName[i].outer, total); share > 0.05 {
			out = append(out, fmt.Sprintf("%.60s %.0f %%", z.Timeline.Names.Text[i], 100*share))
		}
	}
	return strings.Join(out, ", ")
}

func (z *analyzer) findSpan() {
	all := emptySpan
	for l, class := range z.Timeline.eachLog {
		if class != Python { // their frames may have been open before the trace began
			all.cover(l)
		}
	}
	if all != emptySpan {
		z.From, z.Span = all.from, all.to-all.from
	}
}
