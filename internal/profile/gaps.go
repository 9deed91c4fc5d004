package profile

import (
	"cmp"
	"slices"
	"strings"
)

// A Gap is a time in which a device did nothing.
type Gap struct {
	From, Time int64
	Cause      Cause // of most of it
	Idle       [Causes]int64
	Step       int32  // of what came next; -1 is unknown
	Once       bool   // it does not come back: see markOnce
	Host       string // the call that the host was in; "" is not recorded
	Before     string // the kernel that came next

	process *host
	thread  uint16
	kernel  uint32
}

const (
	keptGaps  = 64 // of a device, for markOnce
	shownGaps = 10 // and to be shown
)

// gap judges a time in which the device did nothing, before an activity.
func (s *sweep) gap(a *Event, c lane, l *launch, step *Step) {
	from, to := s.at, a.Start
	g := Gap{From: from, Time: to - from, Step: -1, process: c.process, kernel: a.Name}
	if l != nil {
		g.Step, g.thread = l.step, l.thread
	}
	step.Idle += to - from
	if l == nil {
		g.Idle[NotRecorded] = to - from
	} else {
		launched := max(from, min(l.start, to))
		if launched > from { // the host had not launched it when the device became idle
			s.hostDid(&g, c.process, l.thread, from, launched, step)
			step.HostLate += g.Idle[HostLate] + g.Idle[HostWork]
		}
		queued := launched
		if d := c.process.threads[l.thread].at(launched); d != nil && d.from == l.start { // the launch itself took long
			queued = min(to, d.to)
			g.Idle[d.cause] += queued - launched
		}
		switch {
		case launched > from:
			s.delay(&g, to-queued, otherWork, StartDelayed)
		case s.last == Communication || c.kind == Kernel && s.info[a.Name].Group == Communication:
			s.delay(&g, to-queued, shortGap, CommWait)
		case s.lastKind == Copy || c.kind == Copy:
			s.delay(&g, to-queued, shortGap, CopyWait)
		default:
			s.delay(&g, to-queued, shortGap, Dependency)
		}
	}
	for i, t := range g.Idle {
		s.d.Idle[i] += t
		step.Causes[i] += float32(t)
		if t > g.Idle[g.Cause] {
			g.Cause = Cause(i) //nolint:gosec // one of the causes
		}
	}
	if len(s.gaps.v) < keptGaps {
		s.gaps.push(g)
	} else if g.Time > s.gaps.v[0].Time {
		s.gaps.v[0] = g
		s.gaps.sink()
	}
}

// delay gives a time to launch gaps, or to a cause where it is longer than those are.
func (s *sweep) delay(g *Gap, t, short int64, long Cause) {
	if t > short {
		g.Idle[long] += t
	} else {
		g.Idle[LaunchGap] += t
	}
}

// at returns what a thread did from a time on, or the first thing that it did later; nil is
// nothing of its own.
func (t *thread) at(at int64) *doing {
	i, _ := slices.BinarySearchFunc(t.doing, at, func(d doing, at int64) int { return cmp.Compare(d.to, at+1) })
	if i == len(t.doing) {
		return nil
	}
	return &t.doing[i]
}

// overlap calls yield for what lies in one of several times that are in order.
func overlap(list []doing, from, to int64, yield func(Cause, int64, int64)) {
	i, _ := slices.BinarySearchFunc(list, from, func(d doing, at int64) int { return cmp.Compare(d.to, at+1) })
	for ; i < len(list) && list[i].from < to; i++ {
		yield(list[i].cause, max(from, list[i].from), min(to, list[i].to))
	}
}

// hostDid divides the time until a launch by what its thread did. Where nothing of the thread was
// recorded, another one that launches, too, may have been at work: PyTorch's backward pass has a
// thread of its own.
func (s *sweep) hostDid(g *Gap, h *host, thread uint16, from, to int64, step *Step) {
	free := to - from
	overlap(s.overhead, from, to, func(c Cause, a, b int64) {
		g.Idle[c] += b - a
		free -= b - a
	})
	none := int64(0)
	overlap(h.threads[thread].doing, from, to, func(c Cause, a, b int64) {
		t := min(b-a, free)
		if c == HostQuiet {
			for i := range h.threads {
				others := int64(0)
				overlap(h.threads[i].doing, a, b, func(c Cause, a, b int64) {
					if c == HostQuiet {
						others += b - a
					}
				})
				t = min(t, others)
			}
			none += t
			return
		}
		g.Idle[c] += t
		free -= t
	})
	cause := HostQuiet
	if s.Workload.Serves() {
		cause = NothingToDo
	}
	if none >= quiet {
		g.Idle[cause] += min(none, free)
		free -= min(none, free)
	}
	if step.DecodeRequests > 0 { // it goes on with requests: there was something to do
		free += g.Idle[NothingToDo]
		g.Idle[NothingToDo] = 0
	}
	if free >= otherWork {
		g.Idle[HostWork] += free
	} else {
		g.Idle[HostLate] += free
	}
}

// finishGaps orders a device's gaps, marks those that did not come back, and names what the host
// did in the longest.
func (s *sweep) finishGaps() {
	d, gaps := s.d, s.gaps.v
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.From, b.From)) })
	s.markOnce(gaps)
	for i := range gaps {
		if g := &gaps[i]; g.Once {
			for c, t := range g.Idle {
				d.Once[c] += t
			}
		}
	}
	d.Gaps = gaps[:min(len(gaps), shownGaps)]
	for i := range d.Gaps {
		g := &d.Gaps[i]
		g.Before = shortenName(s.Timeline.Names.Text[g.kernel])
		if int(g.thread) < len(g.process.threads) {
			g.Host = s.callIn(g.process.threads[g.thread].calls, g)
		}
	}
}

// callIn names the call that says most of what a thread did in a gap: the innermost that
// holds at least half of it, or the longest within.
func (s *sweep) callIn(calls []call, g *Gap) string {
	best, most, whole := "", int64(0), false
	for _, c := range calls {
		in := min(c.to, g.From+g.Time) - max(c.from, g.From)
		if c.from >= g.From+g.Time || in <= 0 {
			continue
		}
		if half := in >= g.Time/2; half || !whole && in > most {
			best, most, whole = s.Timeline.Names.Text[c.name], in, whole || half
		}
	}
	return best
}

// onceShare is the share of the time from which on a gap that does not come back is told apart.
const onceShare = 0.05

// markOnce marks the gaps, the longest first, that take much of the time and do not come back. A
// gap is a habit where others of a third of its length or more lie before half of the steps, or such with its cause
// before three that span half of them: a loader with four workers stalls at every fourth batch. Without three steps
// it is one where there are three. Until steps show another thing, work of the host that
// was recorded is taken for a part of each step, and the first use of code or memory for none.
func (s *sweep) markOnce(gaps []Gap) {
	wall, steps := s.d.Wall, map[int32]bool{}
	for i := range s.Steps {
		if s.Steps[i].begunOnDevice {
			steps[int32(i)] = true //nolint:gosec // at most maxSteps a process
		}
	}
	for i := range gaps {
		g := &gaps[i]
		if float64(g.Time) < onceShare*float64(wall) {
			return
		}
		alike, before, returns := 0, map[int32]bool{}, map[int32]bool{}
		first, last := g.Step, g.Step
		for k := range gaps {
			if gaps[k].Time >= g.Time/3 && !gaps[k].Once {
				alike++
				before[gaps[k].Step] = true
				if gaps[k].Cause == g.Cause {
					returns[gaps[k].Step] = true
					first, last = min(first, gaps[k].Step), max(last, gaps[k].Step)
				}
			}
		}
		switch {
		case len(steps) >= 3 && len(returns) >= 3 && 2*int(last-first) >= len(steps): // now and then, to the end
		case len(steps) >= 3:
			g.Once = 2*len(before) < len(steps)
		case g.Cause == FirstUse, g.Cause == Allocating:
			g.Once = true
		case g.Cause != HostWork && g.Cause != DataLoading && g.Cause != NothingToDo && g.Cause != HostQuiet:
			g.Once = alike < 3
		}
		if g.Once {
			wall -= g.Time
		}
	}
}

// causeOf is what a name of a call says that the host does; HostWork is nothing of its own.
func causeOf(text string) Cause {
	for _, d := range causeWords {
		for w := range strings.SplitSeq(d.words, "|") {
			if strings.Contains(text, w) && (d.cause != NothingToDo || !strings.Contains(text, "_bootstrap") && !strings.Contains(text, ": run")) {
				return d.cause
			}
		}
	}
	return HostWork
}

// causeWords are words of calls by what the host does in them; the first cause decides. Those of the
// profiler are Kineto's (libkineto/src/CuptiActivity.cpp, overheadKindString).
var causeWords = []struct {
	cause Cause
	words string
}{
	{ProfilerTime, "Activity Buffer Request|Buffer Flush|Instrumentation|Command Buffer Full"},
	{DataLoading, "DataLoader|dataloader.py|data_load|load_batch|: get_batch|collate"},
	{GarbageCollection, "gc.collect|gc_collect"},
	{FirstUse, "ModuleLoad|LibraryLoad|Module Loading|Lazy Function Loading|ModuleGetFunction|GraphInstantiate|StreamCreate|" +
		"StreamPriorityRange|EventCreate|PrimaryCtx|convert_frame|compile_fx|codecache|triton/compiler|async_compile|hiprtc|nvrtc"},
	{Synchronising, "Synchronize"},
	{Allocating, "cudaMalloc|cudaFree|cudaHostAlloc|cudaHostRegister|cuMem|hipMalloc|hipFree|hipHostMalloc|hipHostRegister|MemGetInfo"},
	{HostCopy, "Memcpy"},
	{NothingToDo, "poll|select.|selectors.py|queue.py|epoll|recv|time.sleep|wait_for|zmq"},
	{LockWait, "acquire|lock.wait|threading.py|futex|mutex"},
	{FirstUse, "LaunchKernel"},
}
