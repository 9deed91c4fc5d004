package profile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Cause is why a device did nothing.
type Cause uint8

// The causes. Those from HostLate to LockWait, and HostQuiet, are what the host did until it launched what
// came next; the later ones win where one call contains the other.
const (
	HostLate          Cause = iota // it was at work, and launched again within 2 ms
	HostWork                       // it computed something else for longer than that
	LockWait                       // it waited for a lock
	HostCopy                       // a copy that returns when it is done
	Allocating                     // memory was allocated or freed
	FirstUse                       // code was loaded or compiled, a graph instantiated
	Synchronising                  // it waited for a device
	NothingToDo                    // it waited for work
	GarbageCollection              // of Python
	DataLoading                    // it waited for the next batch of training data
	HostQuiet                      // nothing of it was recorded
	ProfilerTime                   // the profiler held it up
	LaunchGap                      // it was launched: what a launch takes, and what lies between two kernels
	StartDelayed                   // it was launched and began much later, while nothing else ran
	CommWait                       // it waited for communication
	CopyWait                       // it waited for a copy
	Dependency                     // it was queued, and waited for another stream or an event
	NotRecorded                    // the launch is not in the trace
	Causes                         // how many there are
)

var causeNames = [Causes]string{
	"host late", "host computes", "locks", "blocking copies", "memory allocation", "first use", "synchronisation",
	"nothing to do", "garbage collection", "data loading", "host not recorded", "profiler", "launch gaps", "start delayed",
	"waiting for communication", "waiting for copies", "waiting for another stream", "launch not recorded",
}

func (c Cause) String() string { return causeNames[min(c, Causes-1)] }

// Times that tell causes apart, in nanoseconds.
const (
	// shortGap is what lies between two kernels that are both queued: 1 to 3 µs on an
	// NVIDIA GPU, up to 15 µs on AMD's, more between graphs.
	shortGap = 20_000
	// otherWork is how long a host must launch nothing until it is believed to do something
	// else than to launch: in eager mode a launch takes 10 to 200 µs of Python, profiled up to 1 ms.
	otherWork = 2_000_000
	// quiet is how long a host must do nothing that was recorded until it is believed
	// to have nothing to do, rather than to compute in Python what no event shows.
	quiet = 10_000_000
	// small is the duration below which a kernel's launch, 2 to 5 µs on the host,
	// begins to cost as much as the kernel.
	small = 10_000
	// longCall is from which on a call of the runtime is more than its launch.
	longCall = 50_000
)

// GroupTime is what a group of kernels took.
type GroupTime struct {
	Time  int64 // of the wall clock; what overlaps counts once
	Sum   int64 // of all durations
	Alone int64 // of Time, while nothing else ran: what would be won if the group were free
	Count int
	Flops float64 // operations of the kernels whose work is known
	Bytes float64 // that they move at least
	Known int64   // the durations of those
}

// Work is where the time of a device went, or that of several together. All times are
// nanoseconds of the wall clock: Compute + Exposed + ExposedCopies + the causes of idleness =
// Wall.
type Work struct {
	Wall  int64 // from a device's first activity to its last
	Busy  int64
	Idle  [Causes]int64
	Once  [Causes]int64 // of Idle, in gaps that did not come back: see markOnce
	Group [Groups]GroupTime

	Compute       int64 // at least one computing kernel ran
	Communication int64 // at least one of communication ran
	Hidden        int64 // of which behind computation
	Exposed       int64 // and not
	ExposedCopies int64 // copies and memsets while nothing else ran

	Unfused  int64 // attention that kernels of products and of softmax compute, all durations
	Compiled int64 // elementwise kernels and activations that a compiler generated, all durations
	// Exchanged is communication that sends each rank something else, as that of embeddings or experts, all durations.
	Exchanged int64

	Runs       int // of kernels
	Small      int // of less than 10 µs
	SmallTime  int64
	Graph      int // that a graph replayed
	WholeGraph int // graphs recorded without their kernels
}

// add adds what another device did.
func (w *Work) add(o *Work) { addNumbers(reflect.ValueOf(w).Elem(), reflect.ValueOf(o).Elem()) }

// addNumbers adds the numbers of a value of the same type, whatever holds them.
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

// IdleTime is for how long nothing ran.
func (w *Work) IdleTime() int64 { return w.Wall - w.Busy }

// OnceTime is what gaps took that did not come back.
func (w *Work) OnceTime() (sum int64) {
	for _, t := range w.Once {
		sum += t
	}
	return sum
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
func (w *Work) Share(ns int64) float64 { return portion(ns, w.Wall) }

// OfBusy is a part of the time in which devices worked.
func (w *Work) OfBusy(ns int64) float64 { return portion(ns, w.Busy) }

func portion(ns, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(ns) / float64(whole)
}

// A Device is where one device's time went.
type Device struct {
	ID int
	GPU
	From int64
	Work

	Gaps []Gap // the longest, the longest first

	Waits     []int64 // durations of communication kernels, in order: what ranks are compared by
	WaitSteps []int32 // and their steps; -1 is unknown
}

// A KernelStat is what one kernel took, all its runs together.
type KernelStat struct {
	Name     string // in full
	Short    string
	Library  string // whose it is; "" is unknown
	Group    Group
	Below    string // what launched it is for, where its name says another thing
	Count    int
	Sum, Max int64
	Squares  float64 // the sum of the squares of all durations, in seconds
	Graph    int     // runs that a graph replayed
	Operator string
}

// Host is what the threads did that launch.
type Host struct {
	Launches, GraphLaunches int
	LaunchTime              int64
	Syncs                   int
	SyncTime                int64
	Captured                int // launches into a graph that was being captured
	Stacks                  bool
}

// An Analysis is what became of one timeline.
type Analysis struct {
	Source, Tool string
	Rank         int
	From, Span   int64 // of everything in the trace
	Events       int64
	Devices      []*Device
	HostOnly     bool // what the host did was recorded, and no device
	Steps        []Step
	StepsBy      string // how steps were told apart; "" is not at all
	Kernels      []KernelStat
	Host         Host
	Roofline     []Rate
	Workload     Workload
	Quantised    bool   // products' names say so
	AMD          bool   // calls of HIP say so
	Processor    string // what computes in place of a GPU: "cpu", "mtia"; "" is unknown
	Calls        string // without a device: the calls that took most of the host's time
	Partial      []string
	Notes        []string

	among bool // it is one of several
}

// Analyze says where the time of a timeline went.
func Analyze(t *Timeline) *Analysis {
	a := &Analysis{
		Source: t.Source, Tool: t.Tool, Rank: t.Rank, Events: t.Events,
		Partial: t.Partial, Notes: t.Notes,
	}
	z := &analyzer{Timeline: t, Analysis: a, hosts: map[int64]*host{}, kernels: map[uint64]*KernelStat{}}
	seen := slices.ContainsFunc(t.Threads, func(h *Thread) bool { return h.Calls[Op].n > 0 || h.Calls[Annotation].n > 0 })
	z.names()
	z.steps()
	z.span()
	z.threads()
	z.devices()
	if a.HostOnly = (seen || a.Host.Launches > 0) && len(a.Devices) == 0; a.HostOnly {
		a.Calls = z.longestCalls()
	}
	z.finish()
	return a
}

// analyzer is one analysis under way.
type analyzer struct {
	*Timeline
	*Analysis
	info     []nameInfo
	hosts    map[int64]*host // by process
	kernels  map[uint64]*KernelStat
	rates    map[uint32]*rate
	order    []*host
	overhead []doing // of the profiler
	long     int64   // from which on calls are kept for gaps
}

// nameInfo is what follows from a name alone.
type nameInfo struct {
	Meaning
	gives   Group // the group that it gives to kernels below it whose names say only how they compute
	hint    Group // and to those whose names say nothing
	cause   Cause // what it says that the host does
	step    *batch
	launch  bool
	graph   bool
	whole   bool // a graph without its kernels
	sync    bool
	capture bool // it begins or ends the capture of a graph
	ranks   bool // it sends each rank something else
	product bool // of matrices in batches
	softmax bool
	samples bool
	outer   int64 // how long calls of it took that are operators or load data, and are below none
}

func (z *analyzer) names() {
	z.info = make([]nameInfo, len(z.Timeline.Names.Text))
	var votes [workloads]int
	for i, text := range z.Timeline.Names.Text {
		n := &z.info[i]
		n.Meaning = MeaningOf(text)
		n.gives, n.hint = n.purpose(text)
		n.cause = causeOf(text)
		n.graph, n.whole = strings.Contains(text, "GraphLaunch"), text == WholeGraph
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
		n.ranks = holdsAny(text, "all_to_all", "alltoall", "All2All", "all2all", "AllToAll", "::ep::", "deep_ep", "mori::Ep")
		n.samples = holdsAny(text, "/sample/", "sampler.py", "model_runner: sample")
		if n.Group == GEMM || n.Group == MoE {
			z.Quantised = z.Quantised || holdsAny(strings.ToLower(text), fewBits...)
		}
		votes[workloadIn(text, n.Meaning)]++
	}
	z.Workload = elect(votes)
}

// fewBits are words in the name of a product whose weights have few bits.
var fewBits = []string{"fp8", "e4m3", "e5m2", "fp4", "int8", "int4", "s8_", "i8i8", "awq", "gptq", "marlin", "w8a8", "w4a16", "scaled_mm"}

// holdsAny reports whether a text holds one of several words.
func holdsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// longestCalls names the operators, and loading of data, that took most of the time, each where no other contains it.
func (z *analyzer) longestCalls() string {
	order, sum := make([]int, len(z.info)), int64(0)
	for i := range order {
		order[i], sum = i, sum+z.info[i].outer
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(z.info[b].outer, z.info[a].outer) })
	var out []string
	for _, i := range order[:min(3, len(order))] {
		if share := portion(z.info[i].outer, sum); share > onceShare {
			out = append(out, fmt.Sprintf("%.60s %.0f %%", z.Timeline.Names.Text[i], 100*share))
		}
	}
	return strings.Join(out, ", ")
}

// span finds when the trace begins and ends.
func (z *analyzer) span() {
	all := never
	for l, class := range z.Timeline.logs {
		if class != Python { // frames that were open before the trace began
			all.hold(l)
		}
	}
	if all != never {
		z.From, z.Span = all.from, all.to-all.from
	}
}
