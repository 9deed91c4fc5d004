package profile

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/heap"
)

// A lane is one kind of activities of a stream.
type lane struct {
	process *hostProcess
	kind    Kind
}

// running is an activity that has begun.
type running struct {
	end   int64
	group Group
}

// ComesBefore orders activities by their ends.
func (r running) ComesBefore(o running) bool { return r.end < o.end }

// A sweep goes through one device's activities by time.
type sweep struct {
	*analyzer
	d       *Device
	active  heap.Heap[running]
	count   [Groups]int // active activities by group
	mask    uint32      // a bit for each group with active activities
	at      int64       // time up to which all time is attributed
	current *Step       // the step of the activity that began last
	none    Step        // stands for the step of activities outside of steps

	lastGroup Group // the group of the activity that began last
	lastKind  Kind
	longest   heap.Heap[Gap] // the longest gaps, the shortest of them first
}

// computing is the mask of all groups except communication and copies.
const computing = 1<<Communication - 1

// attributeTime gives the time from s.at to a later one, in which the active activities do not change, to their groups.
func (s *sweep) attributeTime(to int64) {
	t := to - s.at
	if t <= 0 {
		return
	}
	if s.mask == 0 {
		s.at = to
		return
	}
	d, current, communicates := s.d, s.current, s.mask>>Communication&1 != 0
	owners := s.mask & computing // the groups that share the time
	switch {
	case owners != 0:
		d.Compute += t
		if communicates {
			d.Hidden += t
		}
	case communicates:
		owners = 1 << Communication
		d.Exposed += t
		current.Exposed += t
	default:
		owners = 1 << Copies
		d.ExposedCopies += t
	}
	n := int64(bits.OnesCount32(owners))
	for rest := t % n; owners != 0; owners, rest = owners&(owners-1), 0 {
		g := bits.TrailingZeros32(owners)
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

// advanceTo ends the activities that end by a time, and attributes the time until the last of these ends.
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
	g := s.countActivity(a, c.kind, l)
	s.lastGroup, s.lastKind = g, c.kind
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

// countActivity adds an activity to its group and its kernel, and returns the group. l is its launch, or nil.
func (s *sweep) countActivity(a *Event, kind Kind, l *launch) Group {
	d, info := s.d, &s.infoByName[a.Name]
	g := Copies
	if kind == Kernel {
		g = s.groupOf(info, l)
		s.countKernel(a, g, info)
	}
	t := &d.Group[g]
	t.Sum += a.Dur
	t.Count++
	if a.Size > 0 {
		t.Bytes += float64(a.Size)
		t.Known += a.Dur
	}
	if l != nil && l.inGraph {
		d.GraphKernels++
	}
	if g == Communication {
		s.countCommunication(a, info, l)
	}
	s.addToStat(a, g, l)
	return g
}

// groupOf returns a kernel's group, by its name and, if the name is generic, by its launcher.
func (s *sweep) groupOf(info *nameInfo, l *launch) Group {
	g := info.Group
	switch {
	case l == nil || !info.Generic:
	case l.gives != noGroup:
		g = l.gives
	case g == Other && l.hint != noGroup:
		g = l.hint
	}
	if g == Sampling && info.Generic && !s.Workload.Samples() && (l == nil || l.gives != Sampling) {
		return Elementwise // sorting, or random numbers
	}
	return g
}

func (s *sweep) countKernel(a *Event, g Group, info *nameInfo) {
	d := s.d
	d.KernelRuns++
	if info.wholeGraph {
		d.WholeGraphs++
	}
	if a.Dur < smallKernel {
		d.SmallKernels++
		d.SmallKernelTime += a.Dur
	}
	if g == Attention && info.Generic {
		d.Unfused += a.Dur
	}
	if (g == Elementwise || g == Activation) && info.Library == "Triton" {
		d.Compiled += a.Dur
	}
}

// maxWaits is how many communication kernels of a device are compared between ranks.
const maxWaits = 1 << 14

func (s *sweep) countCommunication(a *Event, info *nameInfo, l *launch) {
	d := s.d
	if info.exchanges || l != nil && l.exchanges {
		d.Exchanged += a.Dur
	}
	if len(d.Waits) < maxWaits {
		step := int32(-1)
		if l != nil {
			step = l.step
		}
		d.Waits, d.WaitSteps = append(d.Waits, a.Dur), append(d.WaitSteps, step)
	}
}

// addToStat adds a run to the statistics of its kernel. A kernel has statistics for each group that its runs are in.
func (s *sweep) addToStat(a *Event, g Group, l *launch) {
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
	if l == nil {
		return
	}
	if l.inGraph {
		k.Graph++
	}
	k.Operator = s.Timeline.Names.Text[l.op]
	if l.gives != noGroup && l.gives != g {
		k.Below = l.gives.String()
	}
	s.addCost(a, g, l)
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
	all := emptySpan
	for _, st := range streams {
		for k := range st.Activities {
			if l := &st.Activities[k]; l.n > 0 {
				all.cover(l)
				logs, lanes = append(logs, l), append(lanes, lane{z.processOf(st.Process), Kind(k)})
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

// finishAnalysis sets the steps' periods on the device, sorts the kernels, and computes the rates of operators.
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
