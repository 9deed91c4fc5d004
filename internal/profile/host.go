package profile

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A hostProcess is what one process of the host launched.
type hostProcess struct {
	launches      chunkList[launch]
	byCorrelation []uint64 // sorted: a launch's correlation in the upper half, its index in launches in the lower
	found         int      // index in byCorrelation of the last launch found
	steps         []int32  // indexes in Analysis.Steps, by time
	threads       []thread // the threads that launch
}

// A thread is what a thread did, by time.
type thread struct {
	intervals []interval // without overlap; times between them have no cause
	calls     []call     // the long ones
}

// An interval is a time in which a thread did one thing. HostQuiet is a time without recorded calls.
type interval struct {
	from, to int64
	cause    Cause
}

type call struct {
	from, to int64
	name     uint32
}

type span struct{ from, to int64 }

// emptySpan covers nothing.
var emptySpan = span{math.MaxInt64, math.MinInt64}

// cover extends a span to a log's events.
func (s *span) cover(l *Log) {
	if l.n > 0 {
		*s = span{min(s.from, l.from), max(s.to, l.to)}
	}
}

// A launch is a call that launches an activity of a device, or a graph.
type launch struct {
	start       int64
	opStart     uint32 // start of the call of op if its cost is known: the low bits, to distinguish its calls
	corr, op    uint32
	step        int32 // index in Analysis.Steps; -1 is unknown
	threadIndex uint16
	gives       Group // group of a kernel with a generic name; noGroup is unknown
	hint        Group // group of a kernel whose name says nothing; noGroup is unknown
	inGraph     bool
	exchanges   bool // it is below a call that sends each rank different data
}

func (z *analyzer) processOf(id int64) *hostProcess {
	p := z.processes[id]
	if p == nil {
		p = &hostProcess{}
		z.processes[id] = p
		z.processOrder = append(z.processOrder, p)
	}
	return p
}

func (p *hostProcess) indexLaunches() {
	p.byCorrelation = make([]uint64, 0, p.launches.n)
	for l := range p.launches.all {
		p.byCorrelation = append(p.byCorrelation,
			uint64(l.corr)<<32|uint64(len(p.byCorrelation))) //nolint:gosec // bounded by the events held
	}
	slices.Sort(p.byCorrelation)
}

// findLaunch returns the last launch with a correlation, or nil. Devices work roughly in the order
// of the launches, so it first tries the launch after the last one found.
func (p *hostProcess) findLaunch(corr uint32) *launch {
	if corr == 0 {
		return nil
	}
	list := p.byCorrelation
	matches := func(i int) bool { return i < len(list) && uint32(list[i]>>32) == corr } //nolint:gosec // upper half
	i := p.found + 1
	if !matches(i) || matches(i+1) {
		if i, _ = slices.BinarySearch(list, uint64(corr+1)<<32); i == 0 || !matches(i-1) {
			return nil
		}
		i--
	}
	p.found = i
	return p.launches.at(int(list[i] & math.MaxUint32)) //nolint:gosec // the lower half
}

// A frame is an open call of a thread. The calls below it inherit its fields.
type frame struct {
	end       int64
	gives     Group  // the group that the nearest call gives
	hint      Group  // the group at which the nearest call hints
	cause     Cause  // the cause of the outermost call that has one, or HostWork
	op        uint32 // the outermost operator
	inner     uint32 // the innermost operator
	costedOp  uint32 // the innermost operator with a known cost
	began     int64  // start of costedOp
	counted   bool   // nameInfo.outer counts the call, or one above it
	exchanges bool   // the call, or one above it, sends each rank different data
}

// maxStack is how many nested calls are followed.
const maxStack = 512

// eachCall calls yield for the thread's calls by their starts.
func (h *Thread) eachCall(yield func(Class, *Event)) {
	logs := make([]*Log, classes)
	for k := range h.Calls {
		logs[k] = &h.Calls[k]
	}
	for class, e := range mergeLogs(logs) {
		yield(Class(class), e) //nolint:gosec // one of the classes
	}
}

// walkThreads goes through each thread's calls. It finds the launches with their operators, what the thread did, and
// the long calls.
func (z *analyzer) walkThreads() {
	z.keptCall = max(otherWork/2, z.Span/2000)
	for _, h := range z.Timeline.Threads {
		w := walk{analyzer: z, process: z.processOf(h.Process), at: math.MinInt64}
		h.eachCall(w.addCall)
		if w.launches > 0 {
			w.process.threads = append(w.process.threads, w.t)
		} else if h.ID == OverheadThread {
			for _, d := range w.t.intervals {
				if d.cause != HostQuiet {
					z.overhead = append(z.overhead, d)
				}
			}
		}
		h.Calls = [classes]Log{} // nothing reads them again
	}
	for _, p := range z.processOrder {
		p.indexLaunches()
	}
	z.Host.Stacks = z.Timeline.Stacks
}

// OverheadThread is the thread on which readers record the profiler's own work.
const OverheadThread = -1

// A walk goes through one thread's calls by their starts.
type walk struct {
	*analyzer
	process    *hostProcess
	t          thread
	stack      []frame // open calls
	at         int64   // the latest end of a call so far
	capturing  bool    // a graph is being captured
	launches   int     // number of the thread's launches so far
	stepsBegun int     // number of the process's steps that have begun

	// State of seekAttention.
	attention []*launch // since the first product
	softmax   bool      // one of them is a softmax
	closed    bool      // the last launch ended an attention
}

func (w *walk) addCall(class Class, c *Event) {
	w.endCalls(c.Start)
	end := c.Start + c.Dur
	w.at = max(w.at, end)
	info := &w.infoByName[c.Name]
	f := frame{gives: noGroup, hint: noGroup, cause: HostWork}
	if n := len(w.stack); n > 0 {
		f = w.stack[n-1]
	}
	f.end = end
	if info.cause != HostWork && f.cause == HostWork && c.Dur >= leastDuration(class, info) {
		f.cause = info.cause
		w.t.intervals = append(w.t.intervals, interval{c.Start, end, f.cause})
	}
	if isStep := class == Annotation && info.stepName != nil; c.Dur >= w.keptCall && !isStep {
		w.t.calls = append(w.t.calls, call{c.Start, end, c.Name})
	}
	f.enterCall(class, c, info)
	switch class {
	case Runtime:
		if w.addRuntimeCall(c, info); info.launch && c.Correlation != 0 {
			w.addLaunch(c, &f, info.isGraph)
			return
		}
	case Op:
		w.openOperator(c, info, &f)
	case Annotation, Python:
		if info.samples && f.gives == noGroup {
			f.gives = Sampling
		}
	}
	if len(w.stack) < maxStack {
		w.stack = append(w.stack, f)
	}
}

// enterCall makes the frame of a call from a copy of the frame above it.
func (f *frame) enterCall(class Class, c *Event, info *nameInfo) {
	if info.hint != noGroup {
		f.hint = info.hint
	}
	f.exchanges = f.exchanges || info.exchanges
	if (class == Op || class == Annotation && info.cause == DataLoading) && !f.counted {
		f.counted = true
		info.outer += c.Dur
	}
}

// endCalls closes the calls that end by a time.
func (w *walk) endCalls(at int64) {
	for len(w.stack) > 0 && w.stack[len(w.stack)-1].end <= at {
		w.stack = w.stack[:len(w.stack)-1]
	}
	if len(w.stack) == 0 && w.at > math.MinInt64 && at-w.at > longCall {
		w.t.intervals = append(w.t.intervals, interval{w.at, at, HostQuiet})
	}
}

// leastDuration is the shortest duration of a call that has the cause of its name.
func leastDuration(class Class, info *nameInfo) int64 {
	switch {
	case class == Runtime && info.launch && info.cause == FirstUse:
		return otherWork / 2 // a launch loads its kernel's code if it takes so long
	case class == Runtime:
		return longCall
	}
	return 0
}

// addRuntimeCall counts synchronisation, and notes whether a graph is being captured.
func (w *walk) addRuntimeCall(c *Event, info *nameInfo) {
	switch {
	case info.sync:
		w.Host.Syncs++
		w.Host.SyncTime += c.Dur
	case info.capture:
		w.capturing = !strings.Contains(w.Timeline.Names.Text[c.Name], "EndCapture")
	}
}

func (w *walk) openOperator(c *Event, info *nameInfo, f *frame) {
	if info.gives != noGroup {
		f.gives = info.gives
	}
	if f.op == 0 {
		f.op = c.Name
	}
	f.inner = c.Name
	if s := w.Timeline.Names.Cost(c.Name); s.Flops+s.Bytes > 0 {
		f.costedOp, f.began = c.Name, c.Start
	}
}

func (w *walk) addLaunch(c *Event, f *frame, graph bool) {
	w.launches++
	w.Host.Launches++
	w.Host.LaunchTime += c.Dur
	if graph {
		w.Host.GraphLaunches++
	}
	if w.capturing {
		w.Host.Captured++
	}
	for w.stepsBegun < len(w.process.steps) && w.Steps[w.process.steps[w.stepsBegun]].Start <= c.Start {
		w.stepsBegun++
	}
	l := launch{
		start: c.Start, corr: c.Correlation, op: cmp.Or(f.costedOp, f.op), step: -1,
		gives: f.gives, hint: f.hint, inGraph: graph, exchanges: f.exchanges,
		opStart:     uint32(f.began),                //nolint:gosec // the low bits
		threadIndex: uint16(len(w.process.threads)), //nolint:gosec // at most maxLanes
	}
	if w.stepsBegun > 0 {
		l.step = w.process.steps[w.stepsBegun-1]
		w.Steps[l.step].Launches++
	}
	w.process.launches.add(l)
	w.seekAttention(f)
}

// seekAttention finds attention that has no kernel of its own: a batched product, a softmax, and a
// batched product, with only elementwise kernels between them. In the backward pass, a product follows.
func (w *walk) seekAttention(f *frame) {
	info, closed := &w.infoByName[f.inner], w.closed
	w.closed = false
	if f.gives != noGroup && f.gives != Sampling || f.inner == 0 || len(w.attention) > 32 ||
		!info.product && (len(w.attention) == 0 || !info.softmax && info.Group != Elementwise) {
		w.attention, w.softmax = w.attention[:0], false
		return
	}
	l := w.process.launches.at(w.process.launches.n - 1)
	w.attention = append(w.attention, l)
	w.softmax = w.softmax || info.softmax
	switch {
	case info.product && w.softmax:
		for _, l := range w.attention {
			l.gives = Attention
		}
		w.attention, w.softmax, w.closed = w.attention[:0], false, true
	case info.product && closed:
		l.gives = Attention
	}
}
