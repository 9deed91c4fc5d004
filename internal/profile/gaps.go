package profile

import (
	"cmp"
	"slices"
	"strings"
)

// A Gap is a time in which a device was idle.
type Gap struct {
	From, Time int64
	Cause      Cause // the cause of most of it
	Idle       [Causes]int64
	Step       int32  // the next activity's step; -1 is unknown
	Once       bool   // the gap does not come back: see markOnce
	Host       string // the host's call during the gap; "": not recorded
	Before     string // the next kernel

	process     *host
	threadIndex uint16
	kernel      uint32
}

// ComesBefore orders gaps by length.
func (g Gap) ComesBefore(o Gap) bool { return g.Time < o.Time }

const (
	keptGaps  = 64 // per device, for markOnce
	shownGaps = 10 // per device, to be shown
)

func (s *sweep) addGap(a *Event, c lane, l *launch, step *Step) {
	begin, end := s.at, a.Start
	g := Gap{From: begin, Time: end - begin, Step: -1, process: c.process, kernel: a.Name}
	if l != nil {
		g.Step, g.threadIndex = l.step, l.threadIndex
	}
	step.Idle += end - begin
	if l == nil {
		g.Idle[NotRecorded] = end - begin
	} else {
		launched := max(begin, min(l.start, end))
		if launched > begin { // launched after the device became idle
			s.hostDid(&g, c.process, l.threadIndex, begin, launched, step)
			step.HostLate += g.Idle[HostLate] + g.Idle[HostWork]
		}
		queued := launched
		if d := c.process.threads[l.threadIndex].doingAt(launched); d != nil &&
			d.from == l.start { // the launch itself took long
			queued = min(end, d.to)
			g.Idle[d.cause] += queued - launched
		}
		switch {
		case launched > begin:
			s.addDelay(&g, end-queued, otherWork, StartDelayed)
		case s.last == Communication || c.kind == Kernel && s.infoByName[a.Name].Group == Communication:
			s.addDelay(&g, end-queued, shortGap, CommWait)
		case s.lastKind == Copy || c.kind == Copy:
			s.addDelay(&g, end-queued, shortGap, CopyWait)
		default:
			s.addDelay(&g, end-queued, shortGap, Dependency)
		}
	}
	for i, t := range g.Idle {
		s.d.Idle[i] += t
		step.Causes[i] += float32(t)
		if t > g.Idle[g.Cause] {
			g.Cause = Cause(i) //nolint:gosec // one of the causes
		}
	}
	if len(s.longest) < keptGaps {
		s.longest.Push(g)
	} else if g.Time > s.longest[0].Time {
		s.longest[0] = g
		s.longest.Sink()
	}
}

// addDelay gives a time to launch gaps, or to another cause if it is longer than launch gaps are.
func (s *sweep) addDelay(g *Gap, t, short int64, long Cause) {
	if t > short {
		g.Idle[long] += t
	} else {
		g.Idle[LaunchGap] += t
	}
}

// doingAt returns a thread's first doing that ends after a time; nil if it has no such doing.
func (t *thread) doingAt(at int64) *doing {
	i, _ := slices.BinarySearchFunc(t.doing, at, func(d doing, at int64) int { return cmp.Compare(d.to, at+1) })
	if i == len(t.doing) {
		return nil
	}
	return &t.doing[i]
}

// eachOverlap calls yield for the overlaps of a time with a sorted list of times.
func eachOverlap(list []doing, from, to int64, yield func(Cause, int64, int64)) {
	i, _ := slices.BinarySearchFunc(list, from, func(d doing, at int64) int { return cmp.Compare(d.to, at+1) })
	for ; i < len(list) && list[i].from < to; i++ {
		yield(list[i].cause, max(from, list[i].from), min(to, list[i].to))
	}
}

// hostDid divides the time until a launch by its thread's doings. If nothing of the thread was recorded, another
// thread that launches may have been at work: PyTorch's backward pass has a thread of its own.
func (s *sweep) hostDid(g *Gap, h *host, thread uint16, from, to int64, step *Step) {
	free := to - from
	eachOverlap(s.overhead, from, to, func(c Cause, a, b int64) {
		g.Idle[c] += b - a
		free -= b - a
	})
	none := int64(0)
	eachOverlap(h.threads[thread].doing, from, to, func(c Cause, a, b int64) {
		t := min(b-a, free)
		if c == HostQuiet {
			for i := range h.threads {
				others := int64(0)
				eachOverlap(h.threads[i].doing, a, b, func(c Cause, a, b int64) {
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
	idleCause := HostQuiet
	if s.Workload.Serves() {
		idleCause = NothingToDo
	}
	if none >= quiet {
		g.Idle[idleCause] += min(none, free)
		free -= min(none, free)
	}
	if step.DecodeRequests > 0 { // it is busy with requests, so there was something to do
		free += g.Idle[NothingToDo]
		g.Idle[NothingToDo] = 0
	}
	if free >= otherWork {
		g.Idle[HostWork] += free
	} else {
		g.Idle[HostLate] += free
	}
}

// finishGaps sorts a device's gaps, marks those that did not come back, and names the host's calls in the longest.
func (s *sweep) finishGaps() {
	d, gaps := s.d, s.longest
	slices.SortFunc(gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.From, b.From))
	})
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
		if int(g.threadIndex) < len(g.process.threads) {
			g.Host = s.callIn(g.process.threads[g.threadIndex].calls, g)
		}
	}
}

// callIn names a thread's main call in a gap: the innermost that covers half of the gap, or the longest.
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

// onceShare is the share of the time from which a gap that does not come back is set apart.
const onceShare = 0.05

// markOnce marks gaps, sorted by length, that take much of the time and do not come back.
//
// A gap comes back if gaps of at least a third of its length precede half of the steps. It also does if such gaps
// of its own cause precede three steps that span half of all steps: a loader with four workers stalls at every
// fourth batch. Without three steps, three such gaps are needed. Recorded work of the host then counts as a part of
// every step, and the first use of code or memory as of none.
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
		alike, preceding, returns := 0, map[int32]bool{}, map[int32]bool{}
		first, last := g.Step, g.Step
		for k := range gaps {
			if gaps[k].Time >= g.Time/3 && !gaps[k].Once {
				alike++
				preceding[gaps[k].Step] = true
				if gaps[k].Cause == g.Cause {
					returns[gaps[k].Step] = true
					first, last = min(first, gaps[k].Step), max(last, gaps[k].Step)
				}
			}
		}
		switch {
		case len(steps) >= 3 && len(returns) >= 3 && 2*int(last-first) >= len(steps): // recurring, to the end
		case len(steps) >= 3:
			g.Once = 2*len(preceding) < len(steps)
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

// causeOf returns what the host does in a call, by its name; HostWork is nothing in particular.
func causeOf(text string) Cause {
	for _, d := range causeWords {
		for w := range strings.SplitSeq(d.words, "|") {
			busy := d.cause == NothingToDo && holdsAny(text, "_bootstrap", ": run")
			if strings.Contains(text, w) && !busy {
				return d.cause
			}
		}
	}
	return HostWork
}

// causeWords are words in the names of calls by what the host does in them; the first match
// decides. The profiler's words are Kineto's (libkineto/src/CuptiActivity.cpp, overheadKindString).
var causeWords = []struct {
	cause Cause
	words string
}{
	{ProfilerTime, "Activity Buffer Request|Buffer Flush|Instrumentation|Command Buffer Full"},
	{DataLoading, "DataLoader|dataloader.py|data_load|load_batch|: get_batch|collate"},
	{GarbageCollection, "gc.collect|gc_collect"},
	{FirstUse, "ModuleLoad|LibraryLoad|Module Loading|Lazy Function Loading|ModuleGetFunction|GraphInstantiate|" +
		"StreamCreate|StreamPriorityRange|EventCreate|PrimaryCtx|convert_frame|compile_fx|codecache|triton/compiler|" +
		"async_compile|hiprtc|nvrtc"},
	{Synchronising, "Synchronize"},
	{Allocating, "cudaMalloc|cudaFree|cudaHostAlloc|cudaHostRegister|cuMem|hipMalloc|hipFree|hipHostMalloc|" +
		"hipHostRegister|MemGetInfo"},
	{HostCopy, "Memcpy"},
	{NothingToDo, "poll|select.|selectors.py|queue.py|epoll|recv|time.sleep|wait_for|zmq"},
	{LockWait, "acquire|lock.wait|threading.py|futex|mutex"},
	{FirstUse, "LaunchKernel"},
}
