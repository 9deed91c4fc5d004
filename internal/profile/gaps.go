package profile

import (
	"cmp"
	"slices"
)

// A Gap is a time in which a device was idle, until its next activity.
type Gap struct {
	From, Time int64
	Cause      Cause // the cause of most of the time
	Idle       [Causes]int64
	Step       int32  // the next activity's step; -1 is unknown
	Once       bool   // a one-time gap: see markOnce
	Host       string // the host's call during the gap; "" is unknown
	Before     string // the next activity's name

	process     *hostProcess // the process that launched the next activity
	threadIndex uint16
	kernel      uint32
}

// ComesBefore orders gaps by length.
func (g Gap) ComesBefore(o Gap) bool { return g.Time < o.Time }

const (
	keptGaps  = 64 // gaps of a device that markOnce considers
	shownGaps = 10 // gaps in Device.Gaps
)

// addGap attributes the idle time before an activity to causes. l is the activity's launch, or nil.
func (s *sweep) addGap(a *Event, c lane, l *launch, step *Step) {
	g := Gap{From: s.at, Time: a.Start - s.at, Step: -1, process: c.process, kernel: a.Name}
	step.Idle += g.Time
	if l == nil {
		g.Idle[NotRecorded] = g.Time
	} else {
		g.Step, g.threadIndex = l.step, l.threadIndex
		s.explainGap(&g, a, c, l, step)
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

// explainGap attributes a gap before a launched activity: the time until the launch to what the host did, the launch to
// its cause if it took long, and the time from then on to a wait, or to LaunchGap if it is short.
func (s *sweep) explainGap(g *Gap, a *Event, c lane, l *launch, step *Step) {
	end, wait, short := a.Start, Dependency, int64(shortGap)
	launched := max(g.From, min(l.start, end))
	switch {
	case launched > g.From: // the device was idle before the launch
		wait, short = StartDelayed, otherWork
		s.attributeHostTime(g, l.threadIndex, launched, step)
		step.HostLate += g.Idle[HostLate] + g.Idle[HostWork]
	case s.lastGroup == Communication || c.kind == Kernel && s.infoByName[a.Name].Group == Communication:
		wait = CommWait
	case s.lastKind == Memcpy || c.kind == Memcpy:
		wait = CopyWait
	}
	queued := launched
	if v := c.process.threads[l.threadIndex].intervalAt(launched); v != nil && v.from == l.start {
		queued = min(end, v.to)
		g.Idle[v.cause] += queued - launched
	}
	if end-queued <= short {
		wait = LaunchGap
	}
	g.Idle[wait] += end - queued
}

// searchIntervals returns the index of the first interval that ends after a time.
func searchIntervals(list []interval, at int64) int {
	i, _ := slices.BinarySearchFunc(list, at, func(v interval, at int64) int { return cmp.Compare(v.to, at+1) })
	return i
}

// intervalAt returns a thread's first interval that ends after a time, or nil.
func (t *thread) intervalAt(at int64) *interval {
	i := searchIntervals(t.intervals, at)
	if i == len(t.intervals) {
		return nil
	}
	return &t.intervals[i]
}

// eachOverlap calls yield with the cause of each interval that overlaps a time, and with the overlap.
func eachOverlap(list []interval, from, to int64, yield func(Cause, int64, int64)) {
	for i := searchIntervals(list, from); i < len(list) && list[i].from < to; i++ {
		yield(list[i].cause, max(from, list[i].from), min(to, list[i].to))
	}
}

// attributeHostTime attributes a gap's time until the launch: first to the profiler, then to the intervals of the
// thread that launched. The rest is HostWork, or HostLate if it is short.
func (s *sweep) attributeHostTime(g *Gap, threadIndex uint16, launched int64, step *Step) {
	rest := launched - g.From
	eachOverlap(s.overhead, g.From, launched, func(c Cause, from, to int64) {
		g.Idle[c] += to - from
		rest -= to - from
	})
	silent := int64(0)
	eachOverlap(g.process.threads[threadIndex].intervals, g.From, launched, func(c Cause, from, to int64) {
		if c == HostQuiet {
			silent += min(rest, g.process.quietTime(from, to))
			return
		}
		t := min(to-from, rest)
		g.Idle[c] += t
		rest -= t
	})
	if silent >= quiet {
		cause, t := HostQuiet, min(silent, rest)
		if s.Workload.Serves() {
			cause = NothingToDo
		}
		g.Idle[cause] += t
		rest -= t
	}
	if step.DecodeRequests > 0 { // there were requests to continue, so the host did not wait for work
		rest += g.Idle[NothingToDo]
		g.Idle[NothingToDo] = 0
	}
	if rest >= otherWork {
		g.Idle[HostWork] += rest
	} else {
		g.Idle[HostLate] += rest
	}
}

// quietTime returns how long every thread that launches was quiet in a time. One quiet thread says nothing: PyTorch's
// backward pass has a thread of its own.
func (p *hostProcess) quietTime(from, to int64) int64 {
	least := to - from
	for i := range p.threads {
		t := int64(0)
		eachOverlap(p.threads[i].intervals, from, to, func(c Cause, from, to int64) {
			if c == HostQuiet {
				t += to - from
			}
		})
		least = min(least, t)
	}
	return least
}

// finishGaps sorts a device's gaps, marks one-time gaps, and names the host's calls in the longest gaps.
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

// callIn names a thread's main call in a gap: the innermost one that covers half of the gap, or else the longest.
func (s *sweep) callIn(calls []call, g *Gap) string {
	name, longest, covered := "", int64(0), false
	for _, c := range calls {
		in := min(c.to, g.From+g.Time) - max(c.from, g.From)
		if in <= 0 {
			continue
		}
		if half := in >= g.Time/2; half || !covered && in > longest {
			name, longest, covered = s.Timeline.Names.Text[c.name], in, covered || half
		}
	}
	return name
}

// onceShare is the least share of the wall time of a one-time gap.
const onceShare = 0.05

// markOnce marks one-time gaps, which take much of the time and do not recur. The gaps are sorted by length.
func (s *sweep) markOnce(gaps []Gap) {
	wall, stepCount := s.d.Wall, 0
	for i := range s.Steps {
		if s.Steps[i].begunOnDevice {
			stepCount++
		}
	}
	for i := range gaps {
		g := &gaps[i]
		if float64(g.Time) < onceShare*float64(wall) {
			return
		}
		if g.Once = !g.recurs(gaps, stepCount); g.Once {
			wall -= g.Time
		}
	}
}

// recurs reports whether a gap is one of many. It is if gaps of at least a third of its length, one-time gaps apart,
// precede half of the steps. It also is if such gaps with its own cause precede three steps that span half of all
// steps: a data loader with four workers stalls at every fourth batch.
//
// In a trace with fewer than three steps, three such gaps are needed. There, work of the host counts as recurring in
// any case, and the first use of code or memory never does.
func (g *Gap) recurs(gaps []Gap, stepCount int) bool {
	similar, anyCause, sameCause := 0, map[int32]bool{}, map[int32]bool{} // the latter two: steps after the gaps
	first, last := g.Step, g.Step
	for i := range gaps {
		o := &gaps[i]
		if o.Time < g.Time/3 || o.Once {
			continue
		}
		similar++
		anyCause[o.Step] = true
		if o.Cause == g.Cause {
			sameCause[o.Step] = true
			first, last = min(first, o.Step), max(last, o.Step)
		}
	}
	if stepCount >= 3 {
		return 2*len(anyCause) >= stepCount || len(sameCause) >= 3 && 2*int(last-first) >= stepCount
	}
	switch g.Cause {
	case FirstUse, Allocating:
		return false
	case HostWork, DataLoading, NothingToDo, HostQuiet:
		return true
	}
	return similar >= 3
}
