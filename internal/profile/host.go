package profile

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// host is what the threads of one process did.
type host struct {
	process       int64
	launches      list[launch]
	byCorrelation []uint64 // correlations, each with the number of its launch in the lower half, in order
	found         int      // where in it a launch was found last
	steps         []int32  // the numbers of its steps, in order of time
	threads       []thread // those that launch
}

// thread is what one thread did, as far as gaps ask for it.
type thread struct {
	doing []doing // in order of time, none within another
	calls []call  // the long ones, in order of their starts
}

// doing is a time in which a thread did one thing, or nothing that was recorded: HostQuiet.
type doing struct {
	from, to int64
	cause    Cause
}

// call is a long call.
type call struct {
	from, to int64
	name     uint32
}

// span is a time.
type span struct{ from, to int64 }

// never holds nothing.
var never = span{math.MaxInt64, math.MinInt64}

// hold makes a span hold a log's events, too.
func (s *span) hold(l *Log) {
	if l.n > 0 {
		*s = span{min(s.from, l.from), max(s.to, l.to)}
	}
}

// launch is a call that put work on a device.
type launch struct {
	start    int64
	began    uint32 // when the operator whose work is known began: the low bits, which tell its runs apart
	corr, op uint32
	step     int32
	thread   uint16
	gives    Group // to a kernel whose name says only how it computes
	hint     Group // to one whose name says nothing
	graph    bool
	ranks    bool // it is below a call that sends each rank something else
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
// the order of the launches, more or less: it looks behind the one that was found before first.
func (h *host) find(corr uint32) *launch {
	if h == nil || corr == 0 {
		return nil
	}
	list, is := h.byCorrelation, func(i int) bool { return i < len(h.byCorrelation) && uint32(h.byCorrelation[i]>>32) == corr } //nolint:gosec // the upper half
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

// frame is a call on a thread's stack.
type frame struct {
	end   int64
	gives Group
	hint  Group
	cause Cause  // what it says that the host does; HostWork is nothing of its own
	op    uint32 // the outermost operator below the annotations
	inner uint32 // the innermost operator
	shape uint32 // the innermost operator whose work is known
	began int64  // when that one began
	below bool   // it is an operator or loads data, or is below such a call
	ranks bool   // it sends each rank something else, or is below such a call
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
// what their process did meanwhile.
func (z *analyzer) threads() {
	z.long = max(otherWork/2, z.Span/2000)
	for _, h := range z.Timeline.Threads {
		w := walk{analyzer: z, p: z.host(h.Process), at: math.MinInt64}
		h.merged(w.addCall)
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
	for _, p := range z.order {
		p.index()
	}
	z.Host.Stacks = z.Timeline.Stacks
}

// OverheadThread is the thread on which a reader puts what the profiler says of its own work.
const OverheadThread = -1

// walk goes through one thread's calls by time.
type walk struct {
	*analyzer
	p              *host
	t              thread
	stack          []frame
	at             int64 // until when the thread's calls are known
	capturing      bool  // a graph is being captured
	launches, step int   // launches so far; how many of the process' steps have begun
	attention      []*launch
	softmax        bool // among them, behind a product
	closed         bool // the launch before was the last of one: in the backward pass another product belongs to it
}

// addCall takes the thread's next call.
func (w *walk) addCall(class Class, c *Event) {
	for len(w.stack) > 0 && w.stack[len(w.stack)-1].end <= c.Start {
		w.stack = w.stack[:len(w.stack)-1]
	}
	if len(w.stack) == 0 && w.at > math.MinInt64 && c.Start-w.at > longCall {
		w.t.doing = append(w.t.doing, doing{w.at, c.Start, HostQuiet})
	}
	info := &w.info[c.Name]
	end := c.Start + c.Dur
	w.at = max(w.at, end)
	f := frame{gives: Groups, hint: Groups, cause: HostWork}
	if n := len(w.stack); n > 0 {
		f = w.stack[n-1]
	}
	f.end = end
	least := int64(0)
	switch {
	case class == Runtime && info.launch && info.cause == FirstUse:
		least = otherWork / 2 // a launch is first to load its kernel's code
	case class == Runtime:
		least = longCall
	}
	if info.cause != HostWork && f.cause == HostWork && c.Dur >= least {
		f.cause = info.cause
		w.t.doing = append(w.t.doing, doing{c.Start, end, f.cause})
	}
	if step := class == Annotation && info.step != nil; c.Dur >= w.long && !step {
		w.t.calls = append(w.t.calls, call{c.Start, end, c.Name})
	}
	if info.hint != Groups {
		f.hint = info.hint
	}
	f.ranks = f.ranks || info.ranks
	if (class == Op || class == Annotation && info.cause == DataLoading) && !f.below {
		f.below = true
		info.outer += c.Dur
	}
	switch class {
	case Runtime:
		switch {
		case info.sync:
			w.Host.Syncs++
			w.Host.SyncTime += c.Dur
		case info.capture:
			w.capturing = !strings.Contains(w.Timeline.Names.Text[c.Name], "EndCapture")
		}
		if info.launch && c.Correlation != 0 {
			w.launch(c, &f, info.graph)
			return
		}
	case Op:
		if info.gives != Groups {
			f.gives = info.gives
		}
		if f.op == 0 {
			f.op = c.Name
		}
		f.inner = c.Name
		if s := w.Timeline.Names.Shape(c.Name); s.Flops+s.Bytes > 0 {
			f.shape, f.began = c.Name, c.Start
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
	if w.capturing {
		w.Host.Captured++
	}
	for w.step < len(w.p.steps) && w.Steps[w.p.steps[w.step]].Start <= c.Start {
		w.step++
	}
	l := launch{
		start: c.Start, corr: c.Correlation, op: cmp.Or(f.shape, f.op), step: -1, gives: f.gives, hint: f.hint, graph: graph, ranks: f.ranks,
		began: uint32(f.began), thread: uint16(len(w.p.threads)), //nolint:gosec // the low bits; at most maxLanes
	}
	if w.step > 0 {
		l.step = w.p.steps[w.step-1]
		w.Steps[l.step].Launches++
	}
	w.p.launches.add(l)
	w.seekAttention(f)
}

// seekAttention finds attention that no kernel of its own computes: a product in batches, a
// softmax, and a product in batches, with nothing but elementwise kernels between them.
func (w *walk) seekAttention(f *frame) {
	info, closed := &w.info[f.inner], w.closed
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
