package profile

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Cause is why a device did nothing.
type Cause uint8

// The causes.
const (
	HostLate    Cause = iota // the host had not launched the next kernel yet, and was at work
	LaunchGap                // it was launched: what a launch takes, and what lies between two kernels
	CommWait                 // it waited for communication
	CopyWait                 // it waited for a copy
	Dependency               // it was queued, and waited for another stream or an event
	NothingToDo              // the host had nothing to launch
	NotRecorded              // the launch is not in the trace
	Causes                   // how many there are
)

var causeNames = [Causes]string{
	"host late", "launch gaps", "waiting for communication", "waiting for copies", "waiting for another stream", "nothing to do", "launch not recorded",
}

func (c Cause) String() string { return causeNames[min(c, Causes-1)] }

// Times that tell causes apart, in nanoseconds.
const (
	// shortGap is what lies between two kernels that are both queued: 1 to 3 µs on an
	// NVIDIA GPU, up to 15 µs on AMD's, more between graphs.
	shortGap = 20_000
	// quiet is how long a host must do nothing that was recorded until it is believed
	// to have nothing to do, rather than to compute in Python what no event shows.
	quiet = 10_000_000
	// small is the duration below which a kernel's launch, 2 to 5 µs on the host,
	// begins to cost as much as the kernel.
	small = 10_000
	// breath is between two calls of a host that is at work.
	breath = 1_000_000
)

// bins is into how many parts a device's time is divided for charts.
const bins = 240

// A Bin is a part of a device's time: nanoseconds of each sort.
type Bin struct{ Compute, Communication, Copies int64 }

// GroupTime is what a group of kernels took.
type GroupTime struct {
	Time  int64 // of the wall clock; what overlaps counts once
	Sum   int64 // of all durations
	Count int
}

// Work is where the time of a device went, or that of several together. All times are
// nanoseconds of the wall clock: Compute + Exposed + ExposedCopies + the causes of idleness =
// Wall.
type Work struct {
	Wall  int64 // from a device's first activity to its last
	Busy  int64
	Idle  [Causes]int64
	Group [Groups]GroupTime

	Compute       int64 // at least one computing kernel ran
	Communication int64 // at least one of communication ran
	Hidden        int64 // of which behind computation
	Exposed       int64 // and not
	ExposedCopies int64 // copies and memsets while nothing else ran

	Runs       int // of kernels
	Small      int // of less than 10 µs
	SmallTime  int64
	Graph      int   // that a graph replayed
	Blocks     int   // whose grid is known
	Narrow     int   // of which with fewer blocks than the GPU has multiprocessors
	NarrowTime int64 // and what they took
	WholeGraph int   // graphs recorded without their kernels
}

// add adds what another device did.
func (w *Work) add(o *Work) {
	w.Wall += o.Wall
	w.Busy += o.Busy
	for c := range o.Idle {
		w.Idle[c] += o.Idle[c]
	}
	for g := range o.Group {
		w.Group[g].Time += o.Group[g].Time
		w.Group[g].Sum += o.Group[g].Sum
		w.Group[g].Count += o.Group[g].Count
	}
	w.Compute += o.Compute
	w.Communication += o.Communication
	w.Hidden += o.Hidden
	w.Exposed += o.Exposed
	w.ExposedCopies += o.ExposedCopies
	w.Runs += o.Runs
	w.Small += o.Small
	w.SmallTime += o.SmallTime
	w.Graph += o.Graph
	w.Blocks += o.Blocks
	w.Narrow += o.Narrow
	w.NarrowTime += o.NarrowTime
	w.WholeGraph += o.WholeGraph
}

// IdleTime is for how long nothing ran.
func (w *Work) IdleTime() int64 { return w.Wall - w.Busy }

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
	ID   int
	Name string
	From int64
	Work

	LongestGap int64
	Bins       []Bin
	Waits      []int64 // durations of communication kernels, in order: what ranks are compared by

	longestAt int64 // when the longest gap begins
}

// A KernelStat is what one kernel took, all its runs together.
type KernelStat struct {
	Name     string // in full
	Short    string
	Group    Group
	Count    int
	Sum, Max int64
	Graph    int // runs that a graph replayed
	Operator string
}

// Host is what the threads did that launch.
type Host struct {
	Launches, GraphLaunches int
	LaunchTime              int64
	Syncs                   int
	SyncTime                int64
	Stacks                  bool
	Threads                 int
}

// An Analysis is what became of one timeline.
type Analysis struct {
	Source      string
	Tool        string
	Rank, World int
	Base        int64
	From, Span  int64 // of everything in the trace
	Events      int64
	Devices     []*Device
	HostOnly    bool // operators were recorded, and no device
	Steps       []Step
	StepsBy     string // how steps were told apart; "" is not at all
	Kernels     []KernelStat
	Host        Host
	Roofline    []Rate
	Memory      map[int][]MemoryPoint
	GPUs        map[int]GPU
	Stacks      *Stacks
	VLLM        bool // its names are of vLLM, and of no other engine
	Quantised   bool // products' names say so
	Partial     []string
	Notes       []string

	among bool // it is one of several
}

// Analyze says where the time of a timeline went.
func Analyze(t *Timeline) *Analysis {
	a := &Analysis{
		Source: t.Source, Tool: t.Tool, Rank: t.Rank, World: t.World, Base: t.Base, Events: t.Events, GPUs: t.GPUs,
		Partial: t.Partial, Notes: t.Notes, Memory: map[int][]MemoryPoint{}, Stacks: newStacks(t.Names),
	}
	for id, m := range t.Memory {
		a.Memory[id] = m.Points
	}
	z := &analyzer{Timeline: t, Analysis: a, hosts: map[int64]*host{}, kernels: map[uint64]*kernelSum{}}
	operators := slices.ContainsFunc(t.Threads, func(h *Thread) bool { return h.Calls[Op].n > 0 })
	z.names()
	z.steps()
	z.span()
	z.threads()
	z.devices()
	a.HostOnly = operators && len(a.Devices) == 0
	z.finish()
	return a
}

// DropRankDetails lets go of what is shown of one rank alone: the stacks, and the single steps'
// groups. A thousand ranks are held at once.
func (a *Analysis) DropRankDetails() {
	a.Stacks = nil
	for _, d := range a.Devices {
		d.Bins = nil
	}
}

// analyzer is one analysis under way.
type analyzer struct {
	*Timeline
	*Analysis
	info    []nameInfo
	another bool            // names are of another engine, which may have kernels of vLLM
	hosts   map[int64]*host // by process
	kernels map[uint64]*kernelSum
	rates   map[uint32]*rate
	order   []*host
}

// nameInfo is what follows from a name alone.
type nameInfo struct {
	group   Group
	gives   Group // the group that it gives to vague kernels below it; Groups is none
	step    *batch
	launch  bool
	graph   bool
	whole   bool // a graph without its kernels
	sync    bool
	waits   bool // a Python function that waits for work
	samples bool
}

func (z *analyzer) names() {
	z.info = make([]nameInfo, len(z.Timeline.Names.Text))
	for i, text := range z.Timeline.Names.Text {
		n := &z.info[i]
		n.group, n.gives = GroupOf(text), Groups
		if g, ok := purpose(text); ok {
			n.gives = g
		}
		n.graph, n.whole = strings.Contains(text, "GraphLaunch"), text == WholeGraph
		n.launch = n.graph || strings.Contains(text, "Launch") || strings.Contains(text, "Memcpy") || strings.Contains(text, "Memset")
		n.sync = strings.Contains(text, "Synchronize")
		n.waits = waits(text)
		z.VLLM = z.VLLM || strings.Contains(text, "vllm") || strings.HasPrefix(text, "execute_context_") || strings.HasPrefix(text, "gpu_model_runner: ")
		z.another = z.another || strings.Contains(text, "sglang") || strings.HasPrefix(text, "[Executor] _forward_step")
		if n.group == GEMM || n.group == MoE {
			z.Quantised = z.Quantised || quantised(text)
		}
		n.samples = strings.Contains(text, "/sample/") || strings.Contains(text, "sampler.py") || strings.Contains(text, "model_runner: sample")
	}
	z.VLLM = z.VLLM && !z.another
}

// quantised reports whether a product's name says that its weights have few bits.
func quantised(name string) bool {
	n := strings.ToLower(name)
	for _, w := range []string{"fp8", "e4m3", "e5m2", "fp4", "int8", "int4", "s8_", "i8i8", "awq", "gptq", "marlin", "w8a8", "w4a16", "scaled_mm"} {
		if strings.Contains(n, w) {
			return true
		}
	}
	return false
}

// waits reports whether a Python function waits for something to do.
func waits(text string) bool {
	for _, w := range []string{"poll", "select.", "selectors.py", "queue.py", "epoll", "recv", "acquire", "lock.wait", "time.sleep", "threading.py", "wait_for", "zmq"} {
		if strings.Contains(text, w) {
			return !strings.Contains(text, "_bootstrap") && !strings.Contains(text, ": run")
		}
	}
	return false
}

// span finds when the trace begins and ends.
func (z *analyzer) span() {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	hold := func(l *Log) {
		if l.n > 0 {
			first, last = min(first, l.from), max(last, l.to)
		}
	}
	for _, s := range z.Streams {
		for k := range s.Work {
			hold(&s.Work[k])
		}
	}
	for _, h := range z.Timeline.Threads {
		for k := range h.Calls {
			if Class(k) != Python { // frames that were open before the trace began
				hold(&h.Calls[k])
			}
		}
	}
	if first <= last {
		z.From, z.Span = first, last-first
	}
}

// host is what the threads of one process did.
type host struct {
	process       int64
	launches      list[launch]
	byCorrelation []uint64 // correlations, each with the number of its launch in the lower half, in order
	found         int      // where in it a launch was found last
	steps         []int32  // the numbers of its steps, in order of time
	busy          []span   // while it was at work
	idle          []span   // while it waited in Python
}

type span struct{ from, to int64 }

// launch is a call that put work on a device.
type launch struct {
	start      int64
	began      uint32 // when the operator whose work is known began: the low bits, which tell its runs apart
	corr, op   uint32
	step, node int32
	gives      Group
	graph      bool
}

func (z *analyzer) host(process int64) *host {
	h := z.hosts[process]
	if h == nil {
		h = &host{process: process}
		z.hosts[process] = h
		z.order = append(z.order, h)
	}
	return h
}

// index makes launches be found by their correlation.
func (h *host) index() {
	h.byCorrelation = make([]uint64, 0, h.launches.n)
	for l := range h.launches.all {
		h.byCorrelation = append(h.byCorrelation, uint64(l.corr)<<32|uint64(len(h.byCorrelation))) //nolint:gosec // bounded by the events held
	}
	slices.Sort(h.byCorrelation)
}

// find returns the launch with a correlation, the last of several, or nil. Devices work in
// the order of the launches, more or less: it looks near the one that was found before, and
// in steps twice as long each.
func (h *host) find(corr uint32) *launch {
	if h == nil || corr == 0 || len(h.byCorrelation) == 0 {
		return nil
	}
	list, want := h.byCorrelation, uint64(corr)<<32|math.MaxUint32
	from, to := h.found, h.found+1 // what is wanted is at from or later, and before to
	for step := 1; from > 0 && list[from] > want; step *= 2 {
		from, to = max(0, from-step), from
	}
	for step := 1; to < len(list) && list[to] <= want; step *= 2 {
		from, to = to, min(len(list), to+step)
	}
	for to-from > 1 {
		if middle := (from + to) / 2; list[middle] <= want {
			from = middle
		} else {
			to = middle
		}
	}
	h.found = from
	if uint32(list[from]>>32) != corr { //nolint:gosec // the upper half
		return nil
	}
	return h.launches.at(int(list[from] & math.MaxUint32)) //nolint:gosec // the lower half
}

// frame is a call on a thread's stack.
type frame struct {
	end   int64
	name  uint32
	node  int32
	gives Group
	op    uint32 // the outermost operator below the annotations
	shape uint32 // the innermost operator whose work is known
	began int64  // when that one began
	step  bool   // of a step: stacks of all steps are told as one
}

const maxStack = 512

// merged calls yield for the calls of a thread in order of their start.
func (h *Thread) merged(yield func(Class, *Event)) {
	logs := make([]*Log, classes)
	for k := range h.Calls {
		logs[k] = &h.Calls[k]
	}
	for class, e := range merged(logs) {
		yield(Class(class), e) //nolint:gosec // one of the classes
	}
}

// threads goes through what the threads did: which launches there were, below what, and
// when their process was at work.
func (z *analyzer) threads() {
	for _, h := range z.Timeline.Threads {
		z.thread(h)
		if z.Consume {
			h.Calls = [classes]Log{}
		}
	}
	for _, p := range z.order {
		p.busy, p.idle = union(p.busy), union(p.idle)
		p.index()
	}
	z.Host.Stacks = z.Timeline.Stacks
}

func (z *analyzer) thread(h *Thread) {
	w := walk{analyzer: z, p: z.host(h.Process)}
	h.merged(w.addCall)
	if w.launches > 0 {
		z.Host.Threads++
		w.p.busy = append(w.p.busy, w.busy...)
		w.p.idle = append(w.p.idle, w.idle...)
	}
}

// walk goes through one thread's calls by time.
type walk struct {
	*analyzer
	p              *host
	stack          []frame
	busy, idle     []span // of this thread alone: of one that launches nothing they do not count
	launches, step int    // launches so far; how many of the process' steps have begun
}

// addCall takes the thread's next call.
func (w *walk) addCall(class Class, c *Event) {
	for len(w.stack) > 0 && w.stack[len(w.stack)-1].end <= c.Start {
		w.stack = w.stack[:len(w.stack)-1]
	}
	info := &w.info[c.Name]
	end := c.Start + c.Dur
	f := frame{end: end, name: c.Name, gives: Groups, step: class == Annotation && info.step != nil}
	if n := len(w.stack); n > 0 {
		f.gives, f.op, f.shape, f.began = w.stack[n-1].gives, w.stack[n-1].op, w.stack[n-1].shape, w.stack[n-1].began
	}
	switch class {
	case Runtime:
		if info.sync {
			w.Host.Syncs++
			w.Host.SyncTime += c.Dur
		} else {
			addSpan(&w.busy, c.Start, end)
		}
		if info.launch && c.Correlation != 0 {
			w.launch(c, &f, info.graph)
			return
		}
	case Op:
		addSpan(&w.busy, c.Start, end)
		if f.gives == Groups {
			f.gives = info.gives
		}
		if f.op == 0 {
			f.op = c.Name
		}
		if w.Timeline.Names.Shape(c.Name).Flops > 0 {
			f.shape, f.began = c.Name, c.Start
		}
	case Annotation:
		if info.step != nil && w.StepsBy != stepWays[byProfiler] {
			addSpan(&w.busy, c.Start, end)
		}
	case Python:
		if info.waits {
			addSpan(&w.idle, c.Start, end)
		}
	}
	if (class == Annotation || class == Python) && info.samples && f.gives == Groups {
		f.gives = Sampling
	}
	if len(w.stack) < maxStack {
		w.stack = append(w.stack, f)
	}
}

// launch notes a call that put work on a device, below a frame.
func (w *walk) launch(c *Event, f *frame, graph bool) {
	w.launches++
	w.Host.Launches++
	w.Host.LaunchTime += c.Dur
	if graph {
		w.Host.GraphLaunches++
	}
	for w.step < len(w.p.steps) && w.Steps[w.p.steps[w.step]].Start <= c.Start {
		w.step++
	}
	l := launch{start: c.Start, corr: c.Correlation, op: cmp.Or(f.shape, f.op), step: -1, gives: f.gives, began: uint32(f.began), graph: graph} //nolint:gosec // the low bits
	if w.step > 0 {
		l.step = w.p.steps[w.step-1]
		w.Steps[l.step].Launches++
	}
	l.node = w.Analysis.Stacks.path(w.stack)
	w.p.launches.add(l)
}

// addSpan adds a time to spans: the last one goes on where the breath between is short.
func addSpan(list *[]span, from, to int64) {
	if n := len(*list); n > 0 && from-(*list)[n-1].to <= breath && from >= (*list)[n-1].from {
		(*list)[n-1].to = max((*list)[n-1].to, to)
		return
	}
	*list = append(*list, span{from, to})
}

// union merges spans that touch.
func union(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// covered is how much of a time lies in one of the spans.
func covered(list []span, from, to int64) int64 {
	i, _ := slices.BinarySearchFunc(list, from, func(s span, at int64) int { return cmp.Compare(s.to, at) })
	sum := int64(0)
	for ; i < len(list) && list[i].from < to; i++ {
		sum += max(0, min(to, list[i].to)-max(from, list[i].from))
	}
	return sum
}
