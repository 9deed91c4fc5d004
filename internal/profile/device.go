package profile

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/heap"
)

type lane struct {
	process *host
	kind    Kind
}

type running struct {
	end   int64
	group Group
}

// ComesBefore orders activities by their ends.
func (r running) ComesBefore(o running) bool { return r.end < o.end }

// sweep goes through one device's activities by time.
type sweep struct {
	*analyzer
	d       *Device
	active  heap.Heap[running]
	count   [Groups]int
	mask    uint32 // groups that run
	at      int64
	current *Step
	none    Step  // receives the times outside of steps
	last    Group // group of the activity that began last

	lastKind Kind
	longest  heap.Heap[Gap] // the longest gaps, the shortest of them first
}

// computing is every group except communication and copies.
const computing = 1<<Communication - 1

// attributeTime gives the time until to, in which the running activities do not change, to their groups.
func (s *sweep) attributeTime(to int64) {
	t := to - s.at
	if t <= 0 {
		return
	}
	if s.mask == 0 {
		s.at = to
		return
	}
	d, current, compute, communicates := s.d, s.current, s.mask&computing, s.mask>>Communication&1 != 0
	whose := compute
	switch {
	case compute != 0:
		d.Compute += t
		if communicates {
			d.Hidden += t
		}
	case communicates:
		whose = 1 << Communication
		d.Exposed += t
		current.Exposed += t
	default:
		whose = 1 << Copies
		d.ExposedCopies += t
	}
	n := int64(bits.OnesCount32(whose))
	for rest := t % n; whose != 0; whose, rest = whose&(whose-1), 0 {
		g := bits.TrailingZeros32(whose)
		d.Group[g].Time += t/n + rest
		current.Group[g] += t/n + rest
	}
	if communicates {
		d.Communication += t
	}
	if s.mask&(s.mask-1) == 0 {
		d.Group[bits.TrailingZeros32(s.mask)].Alone += t
	}
	d.Busy += t
	current.Busy += t
	s.at = to
}

// advanceTo ends the activities that end by a time.
func (s *sweep) advanceTo(to int64) {
	for len(s.active) > 0 && s.active[0].end <= to {
		r := s.active.Pop()
		s.attributeTime(r.end)
		if s.count[r.group]--; s.count[r.group] == 0 {
			s.mask &^= 1 << r.group
		}
	}
}

func (s *sweep) beginActivity(c lane, a *Event) {
	s.advanceTo(a.Start)
	l := c.process.findLaunch(a.Correlation)
	current := s.current
	if l != nil {
		current = &s.none
		if l.step >= 0 {
			current = &s.Steps[l.step]
		}
	}
	if s.mask == 0 && a.Start > s.at {
		s.addGap(a, c, l, current)
	}
	s.attributeTime(a.Start)
	s.at = max(s.at, a.Start)
	s.current = current
	g := s.classifyActivity(a, c, l)
	s.last, s.lastKind = g, c.kind
	end := a.Start + a.Dur
	if !current.begunOnDevice {
		current.GPUFrom, current.begunOnDevice = a.Start, true
	}
	current.GPUFrom, current.GPUTo = min(current.GPUFrom, a.Start), max(current.GPUTo, end)
	current.Count[g]++
	current.Kernels++
	if a.Dur > 0 {
		s.active.Push(running{end, g})
		s.count[g]++
		s.mask |= 1 << g
	}
}

func (s *sweep) classifyActivity(a *Event, c lane, l *launch) Group {
	d, m := s.d, &s.infoByName[a.Name]
	g := Copies
	if c.kind == Kernel {
		g = s.classifyKernel(a, m, l)
	}
	if g == Communication && (m.ranks || l != nil && l.ranks) {
		d.Exchanged += a.Dur
	}
	t := &d.Group[g]
	t.Sum += a.Dur
	t.Count++
	if a.Size > 0 {
		t.Bytes += float64(a.Size)
		t.Known += a.Dur
	}
	graph := l != nil && l.inGraph
	if graph {
		d.Graph++
	}
	if g == Communication && len(d.Waits) < maxWaits {
		d.Waits, d.WaitSteps = append(d.Waits, a.Dur), append(d.WaitSteps, -1)
		if l != nil {
			d.WaitSteps[len(d.Waits)-1] = l.step
		}
	}
	s.tallyKernel(a, g, graph, l)
	return g
}

// classifyKernel finds a kernel's group by its name, and by its launcher if the name says only how it computes.
func (s *sweep) classifyKernel(a *Event, m *nameInfo, l *launch) Group {
	d, g := s.d, m.Group
	d.Runs++
	if m.wholeGraph {
		d.WholeGraph++
	}
	if a.Dur < small {
		d.Small++
		d.SmallTime += a.Dur
	}
	switch {
	case l == nil || !m.How:
	case l.gives != Groups:
		g = l.gives
	case g == Other && l.hint != Groups:
		g = l.hint
	}
	if g == Sampling && m.How && !s.Workload.Samples() && (l == nil || l.gives != Sampling) {
		g = Elementwise // sorting, and random numbers
	}
	if g == Attention && m.How {
		d.Unfused += a.Dur
	}
	if (g == Elementwise || g == Activation) && m.Library == "Triton" {
		d.Compiled += a.Dur
	}
	return g
}

// maxWaits is how many communication kernels of a device are compared between ranks.
const maxWaits = 1 << 14

func (s *sweep) tallyKernel(a *Event, g Group, graph bool, l *launch) {
	key := uint64(a.Name)<<8 | uint64(g)
	k := s.kernelStats[key]
	if k == nil {
		name := s.Timeline.Names.Text[a.Name]
		k = &KernelStat{Name: name, Short: shortenName(name), Library: s.infoByName[a.Name].Library, Group: g}
		s.kernelStats[key] = k
	}
	k.Count++
	k.Sum += a.Dur
	k.Max = max(k.Max, a.Dur)
	k.Squares += float64(a.Dur) / 1e9 * float64(a.Dur) / 1e9
	if graph {
		k.Graph++
	}
	if l != nil {
		k.Operator = s.Timeline.Names.Text[l.op]
		if l.gives != Groups && l.gives != g {
			k.Below = l.gives.String()
		}
		s.addWork(a, g, l)
	}
}

func (z *analyzer) sweepDevices() {
	for first, next := 0, 0; first < len(z.Streams); first = next { // Close sorted them
		for next = first; next < len(z.Streams) && z.Streams[next].Device == z.Streams[first].Device; next++ {
		}
		z.sweepDevice(z.Streams[first].Device, z.Streams[first:next])
	}
}

func (z *analyzer) sweepDevice(id int, streams []*Stream) {
	d := &Device{ID: id, GPU: z.GPUs[id]}
	s := &sweep{analyzer: z, d: d}
	s.current = &s.none
	var logs []*Log
	var lanes []lane
	all := never
	for _, st := range streams {
		for k := range st.Work {
			if l := &st.Work[k]; l.n > 0 {
				all.cover(l)
				logs, lanes = append(logs, l), append(lanes, lane{z.hostOf(st.Process), Kind(k)})
			}
		}
	}
	if len(logs) == 0 {
		return
	}
	d.From, d.Wall = all.from, all.to-all.from
	s.at = d.From
	for i, e := range mergeLogs(logs) {
		s.beginActivity(lanes[i], e)
	}
	s.advanceTo(math.MaxInt64)
	s.finishGaps()
	z.Devices = append(z.Devices, d)
}

func (z *analyzer) finishAnalysis() {
	for i := range z.Steps {
		a, b := &z.Steps[i], &z.Steps[min(i+1, len(z.Steps)-1)]
		if a.Period > 0 && a.begunOnDevice && b.GPUFrom > a.GPUFrom {
			a.Period = b.GPUFrom - a.GPUFrom
		}
	}
	for _, k := range z.kernelStats {
		z.Kernels = append(z.Kernels, *k)
	}
	slices.SortFunc(z.Kernels, func(a, b KernelStat) int {
		return cmp.Or(cmp.Compare(b.Sum, a.Sum), cmp.Compare(a.Name, b.Name))
	})
	z.compareRoofline()
	if z.Host.GraphLaunches > 0 {
		z.Analysis.Notes = append(z.Analysis.Notes, fmt.Sprintf(
			"kernels in graphs (launched %d times) are counted by name: their operators are not recorded",
			z.Host.GraphLaunches))
	}
}

// WholeGraph is the name of a CUDA graph whose kernels were not recorded one by one.
const WholeGraph = "CUDA graph, its kernels not recorded"
