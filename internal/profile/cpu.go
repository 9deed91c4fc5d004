package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// leastThread is what share of the operators' time a thread must have to be shown.
const leastThread = 0.05

// processors stands in for devices where a trace has none: threads that compute. The
// time of an operator is that of the innermost one, and its group that of the
// outermost whose name says what it is for.
func (z *analyzer) processors() {
	var found []*Device
	total := int64(0)
	for i, h := range z.Timeline.Threads {
		if h.Calls[Op].n == 0 {
			continue
		}
		d := z.processor(i, h)
		if d.Busy > 0 {
			found = append(found, d)
			total += d.Busy
		}
	}
	found = slices.DeleteFunc(found, func(d *Device) bool { return float64(d.Busy) < leastThread*float64(total) })
	slices.SortFunc(found, func(a, b *Device) int { return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.ID, b.ID)) })
	z.Devices = found
}

// processor goes through what one thread computed.
func (z *analyzer) processor(number int, h *Thread) *Device {
	d := &Device{ID: number, CPU: true, Name: fmt.Sprintf("thread %d", h.ID&math.MaxUint32), From: z.From, Wall: z.Span, Bins: make([]Bin, bins), processes: []int64{h.Process}}
	switch {
	case strings.HasPrefix(h.Name, d.Name): // Kineto's names begin so
		d.Name = h.Name
	case h.Name != "":
		d.Name += " (" + h.Name + ")"
	}
	s := &sweep{analyzer: z, d: d, binSize: max(1, z.Span/bins), at: z.From}
	p := z.host(h.Process)
	var stack []frame
	step := 0
	// until gives the time up to an event to the operator that is innermost.
	until := func(to int64) {
		for s.at < to {
			n := len(stack)
			for n > 0 && stack[n-1].end <= s.at {
				n--
			}
			stack = stack[:n]
			end := to
			if n > 0 {
				end = min(to, stack[n-1].end)
			}
			if n == 0 || stack[n-1].op == 0 {
				if n == 0 {
					end = to
				}
				s.unused(p, end)
				continue
			}
			f := &stack[n-1]
			g := z.purpose(f)
			for step < len(p.steps) && z.Steps[p.steps[step]].Start <= s.at {
				step++
			}
			s.step = nil
			if step > 0 {
				s.step = &z.Steps[p.steps[step-1]]
			}
			if f.node == 0 {
				f.node = z.Analysis.Stacks.path(stack)
			}
			z.Analysis.Stacks.add(f.node, 0, end-s.at)
			key := uint64(f.op)<<8 | uint64(g)
			if k := z.kernels[key]; k != nil {
				k.sum += end - s.at
			} else {
				z.kernels[key] = &kernelSum{sum: end - s.at, op: f.op}
			}
			s.mask = 1 << g
			s.pass(end)
			s.mask = 0
		}
	}
	h.merged(func(class Class, c *Event) {
		if class == Runtime {
			return
		}
		until(c.Start)
		f := frame{end: c.Start + c.Dur, name: c.Name, class: class, gives: Groups, step: class == Annotation && z.info[c.Name].step != nil}
		if n := len(stack); n > 0 {
			f.gives, f.op = stack[n-1].gives, stack[n-1].op
		}
		if class == Python || class == Annotation {
			if class == Python && len(stack) > 0 && stack[len(stack)-1].class == Op {
				return // an operator in Python is what it says, not its frames
			}
			if z.info[c.Name].samples && f.gives == Groups {
				f.gives = Sampling
			}
		} else {
			if f.gives == Groups {
				f.gives = z.info[c.Name].gives
			}
			f.op = c.Name
			g := z.purpose(&f)
			d.Kernels++
			d.Group[g].Count++
			d.Group[g].Sum += c.Dur
			key := uint64(c.Name)<<8 | uint64(g)
			k := z.kernels[key]
			if k == nil {
				k = &kernelSum{op: c.Name}
				z.kernels[key] = k
			}
			k.count++
			k.max = max(k.max, c.Dur)
		}
		if len(stack) < maxStack {
			stack = append(stack, f)
		}
	})
	until(z.From + z.Span)
	return d
}

// purpose is what the operator of a frame is for: what it says itself, and where that is how
// it computes, what the operators say that called it.
func (z *analyzer) purpose(f *frame) Group {
	if own := z.info[f.op].group; f.gives == Groups || !vague(own) && own != Copies {
		return own
	}
	return f.gives
}

// unused is time in which a thread that computes did not.
func (s *sweep) unused(p *host, to int64) {
	t := to - s.at
	in := int64(0)
	if len(p.steps) > 0 {
		in = s.inSteps(p, s.at, to)
	}
	switch {
	case len(p.steps) > 0:
		s.d.Idle[HostLate] += in
		if t-in < quiet || s.goesOn(p, to) {
			s.d.Idle[HostLate] += t - in
		} else {
			s.d.Idle[NothingToDo] += t - in
		}
	case t >= quiet:
		s.d.Idle[NothingToDo] += t
	default:
		s.d.Idle[HostLate] += t
	}
	s.d.LongestGap = max(s.d.LongestGap, t)
	s.at = to
}

// goesOn reports whether the step at a time, or the next one, goes on with requests.
func (s *sweep) goesOn(p *host, at int64) bool {
	i, _ := slices.BinarySearchFunc(p.steps, at, func(i int32, at int64) int { return cmp.Compare(s.Steps[i].Start+s.Steps[i].Host, at) })
	return i < len(p.steps) && s.Steps[p.steps[i]].DecodeRequests > 0
}

// inSteps is how much of a time lies in steps.
func (s *sweep) inSteps(p *host, from, to int64) int64 {
	i, _ := slices.BinarySearchFunc(p.steps, from, func(i int32, at int64) int {
		return cmp.Compare(s.Steps[i].Start+s.Steps[i].Host, at)
	})
	sum := int64(0)
	for ; i < len(p.steps); i++ {
		st := &s.Steps[p.steps[i]]
		if st.Start >= to {
			break
		}
		sum += max(0, min(to, st.Start+st.Host)-max(from, st.Start))
	}
	return sum
}
