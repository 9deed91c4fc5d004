package profile

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

type host struct {
	process       int64
	launches      chunkList[launch]
	byCorrelation []uint64 // correlations, each with the number of its launch in the lower half, in order
	found         int      // place of the last launch found
	steps         []int32  // the numbers of its steps, in order of time
	threads       []thread // threads that launch
}

type thread struct { // in order of time, without overlap
	doing []doing // long ones, in order of their starts
	calls []call  // the long ones, in order of their starts
}

// doing is a time in which a thread did one thing, or HostQuiet: nothing that was recorded.
type doing struct {
	from, to int64
	cause    Cause
}

type call struct {
	from, to int64
	name     uint32
}

type span struct{ from, to int64 }

var never = span{math.MaxInt64, math.MinInt64}

// cover extends a span to a log's events.
func (s *span) cover(l *Log) {
	if l.n > 0 {
		*s = span{min(s.from, l.from), max(s.to, l.to)}
	}
}

type launch struct {
	start       int64
	began       uint32 // start of the operator whose work is known: the low bits, to distinguish its runs
	corr, op    uint32
	step        int32
	threadIndex uint16
	gives       Group // for a kernel whose name says only how it computes
	hint        Group // for a kernel whose name says nothing
	inGraph     bool
	ranks       bool // below a call that sends each rank different data
}

func (z *analyzer) hostOf(process int64) *host {
	h := z.hosts[process]
	if h == nil {
		h = &host{process: process}
		z.hosts[process] = h
		z.hostOrder = append(z.hostOrder, h)
	}
	return h
}

func (h *host) indexLaunches() {
	h.byCorrelation = make([]uint64, 0, h.launches.n)
	for l := range h.launches.all {
		h.byCorrelation = append(h.byCorrelation,
			uint64(l.corr)<<32|uint64(len(h.byCorrelation))) //nolint:gosec // bounded by the events held
	}
	slices.Sort(h.byCorrelation)
}

// findLaunch returns the last launch with a correlation, or nil. Devices work roughly in the order
// of the launches, so it first looks after the launch that it found last.
func (h *host) findLaunch(corr uint32) *launch {
	if h == nil || corr == 0 {
		return nil
	}
	list := h.byCorrelation
	is := func(i int) bool { return i < len(list) && uint32(list[i]>>32) == corr } //nolint:gosec // the upper half
	i := h.found + 1
	if !is(i) || is(i+1) {
		if i, _ = slices.BinarySearch(list, uint64(corr+1)<<32); i == 0 || !is(i-1) {
			return nil
		}
		i--
	}
	h.found = i
	return h.launches.at(int(list[i] & math.MaxUint32)) //nolint:gosec // the lower half
}

type frame struct {
	end      int64
	gives    Group
	hint     Group
	cause    Cause  // the host's work in it; HostWork is nothing in particular
	op       uint32 // the outermost operator below annotations
	inner    uint32 // the innermost operator
	shapedOp uint32 // the innermost operator whose work is known
	began    int64  // when shapedOp began
	below    bool   // an operator or loader of data, or below one
	ranks    bool   // sends each rank different data, or below such a call
}

const maxStack = 512

func (h *Thread) eachCall(yield func(Class, *Event)) {
	logs := make([]*Log, classes)
	for k := range h.Calls {
		logs[k] = &h.Calls[k]
	}
	for class, e := range mergeLogs(logs) {
		yield(Class(class), e) //nolint:gosec // one of the classes
	}
}

// walkThreads goes through the threads' calls for the launches, with their operators and causes.
func (z *analyzer) walkThreads() {
	z.long = max(otherWork/2, z.Span/2000)
	for _, h := range z.Timeline.Threads {
		w := walk{analyzer: z, p: z.hostOf(h.Process), at: math.MinInt64}
		h.eachCall(w.addCall)
		if w.launches > 0 {
			w.p.threads = append(w.p.threads, w.t)
		} else if h.ID == OverheadThread {
			for _, d := range w.t.doing {
				if d.cause != HostQuiet {
					z.overhead = append(z.overhead, d)
				}
			}
		}
		h.Calls = [classes]Log{} // nothing reads them again
	}
	for _, p := range z.hostOrder {
		p.indexLaunches()
	}
	z.Host.Stacks = z.Timeline.Stacks
}

// OverheadThread is the thread on which readers record the profiler's own work.
const OverheadThread = -1

type walk struct {
	*analyzer
	p              *host
	t              thread
	stack          []frame
	at             int64 // end of the known calls
	capturing      bool  // a graph is being captured
	launches, step int   // launches so far; steps of the process that have begun
	attention      []*launch
	softmax        bool // attention includes a softmax, after a product
	closed         bool // the last launch ended an attention: in the backward pass another product belongs to it
}

func (w *walk) addCall(class Class, c *Event) {
	w.endCalls(c.Start)
	end := c.Start + c.Dur
	w.at = max(w.at, end)
	info := &w.infoByName[c.Name]
	f := frame{gives: Groups, hint: Groups, cause: HostWork}
	if n := len(w.stack); n > 0 {
		f = w.stack[n-1]
	}
	f.end = end
	if info.cause != HostWork && f.cause == HostWork && c.Dur >= leastDuration(class, info) {
		f.cause = info.cause
		w.t.doing = append(w.t.doing, doing{c.Start, end, f.cause})
	}
	if isStep := class == Annotation && info.batch != nil; c.Dur >= w.long && !isStep {
		w.t.calls = append(w.t.calls, call{c.Start, end, c.Name})
	}
	f.pass(class, c, info)
	switch class {
	case Runtime:
		if w.addRuntimeCall(c, info); info.launch && c.Correlation != 0 {
			w.addLaunch(c, &f, info.isGraph)
			return
		}
	case Op:
		w.openOperator(c, info, &f)
	case Annotation, Python:
		if info.samples && f.gives == Groups {
			f.gives = Sampling
		}
	}
	if len(w.stack) < maxStack {
		w.stack = append(w.stack, f)
	}
}

// pass notes what the calls below a call inherit from it.
func (f *frame) pass(class Class, c *Event, info *nameInfo) {
	if info.hint != Groups {
		f.hint = info.hint
	}
	f.ranks = f.ranks || info.ranks
	if (class == Op || class == Annotation && info.cause == DataLoading) && !f.below {
		f.below = true
		info.outer += c.Dur
	}
}

func (w *walk) endCalls(at int64) {
	for len(w.stack) > 0 && w.stack[len(w.stack)-1].end <= at {
		w.stack = w.stack[:len(w.stack)-1]
	}
	if len(w.stack) == 0 && w.at > math.MinInt64 && at-w.at > longCall {
		w.t.doing = append(w.t.doing, doing{w.at, at, HostQuiet})
	}
}

// leastDuration is the duration from which a call has the cause of its name.
func leastDuration(class Class, info *nameInfo) int64 {
	switch {
	case class == Runtime && info.launch && info.cause == FirstUse:
		return otherWork / 2 // a launch is first to load its kernel's code
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
	if info.gives != Groups {
		f.gives = info.gives
	}
	if f.op == 0 {
		f.op = c.Name
	}
	f.inner = c.Name
	if s := w.Timeline.Names.Shape(c.Name); s.Flops+s.Bytes > 0 {
		f.shapedOp, f.began = c.Name, c.Start
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
	for w.step < len(w.p.steps) && w.Steps[w.p.steps[w.step]].Start <= c.Start {
		w.step++
	}
	l := launch{
		start: c.Start, corr: c.Correlation, op: cmp.Or(f.shapedOp, f.op), step: -1,
		gives: f.gives, hint: f.hint, inGraph: graph, ranks: f.ranks,
		began: uint32(f.began), threadIndex: uint16(len(w.p.threads)), //nolint:gosec // the low bits; at most maxLanes
	}
	if w.step > 0 {
		l.step = w.p.steps[w.step-1]
		w.Steps[l.step].Launches++
	}
	w.p.launches.add(l)
	w.seekAttention(f)
}

// seekAttention finds attention that has no kernel of its own: a batched product, a softmax, and a
// batched product, with only elementwise kernels between them.
func (w *walk) seekAttention(f *frame) {
	info, closed := &w.infoByName[f.inner], w.closed
	w.closed = false
	if f.gives != Groups && f.gives != Sampling || f.inner == 0 || len(w.attention) > 32 ||
		!info.product && (len(w.attention) == 0 || !info.softmax && info.Group != Elementwise) {
		w.attention, w.softmax = w.attention[:0], false
		return
	}
	l := w.p.launches.at(w.p.launches.n - 1)
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
