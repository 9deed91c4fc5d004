package profile

import (
	"cmp"
	"slices"

	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Rate is the throughput of an operator with a known Cost.
type Rate struct {
	Operator string
	Dims     string // m×k×n for a product
	Count    int
	Time     int64   // time of its kernels, nanoseconds
	Flops    float64 // operations per second; 0 for communication
	Bytes    float64 // per second, each matrix moved once; for communication, over the link
	// PeakShare is the throughput over the data sheet's limit for such an operator, which Bound names; 0 is unknown.
	PeakShare float64
	Bound     string // arithmetic, bandwidth (of the memory) or link (between GPUs)
}

// rate sums up an operator's kernels on the way to a Rate.
type rate struct {
	count   int
	time    int64
	opStart uint32 // start of the last call that was counted
}

// addCost counts a kernel of an operator with a known cost. If an operator takes several kernels, its cost counts once
// and their times add up.
func (s *sweep) addCost(a *Event, g Group, l *launch) {
	cost := s.Timeline.Names.Cost(l.op)
	if cost.Bytes+cost.Flops == 0 || g == Copies || (g == Communication) != (cost.Flops == 0) {
		return
	}
	if s.rates == nil {
		s.rates = map[uint32]*rate{}
	}
	r := s.rates[l.op]
	if r == nil {
		r = &rate{}
		s.rates[l.op] = r
	}
	r.time += a.Dur
	s.d.Group[g].Known += a.Dur
	if r.count == 0 || l.opStart != r.opStart {
		r.opStart = l.opStart
		r.count++
		s.d.Group[g].Flops += cost.Flops
		s.d.Group[g].Bytes += cost.Bytes
	}
}

// Peaks returns limits from a GPU's data sheet: dense BF16 operations per second, and the bandwidths of its memory and
// of its link to other GPUs in bytes per second. 0 is unknown.
func Peaks(g GPU) (flops, bandwidth, link float64) {
	sheet, err := perfmodel.FindGPU(g.Name)
	if g.Name == "" || err != nil {
		return 0, g.Bandwidth, 0
	}
	return sheet.BF16, sheet.Bandwidth, max(sheet.Link, sheet.Bus)
}

// compareRoofline computes the operators' rates, and compares them with the data sheet of the first GPU.
func (z *analyzer) compareRoofline() {
	if len(z.Devices) == 0 {
		return
	}
	flops, bandwidth, link := Peaks(z.Devices[0].GPU)
	for op, r := range z.rates {
		if r.time == 0 || r.count == 0 {
			continue
		}
		cost, calls := z.Timeline.Names.Cost(op), float64(r.count)
		out := Rate{
			Operator: z.Timeline.Names.Text[op], Dims: cost.Dims, Count: r.count, Time: r.time,
			Flops: calls * cost.Flops / float64(r.time) * 1e9, Bytes: calls * cost.Bytes / float64(r.time) * 1e9,
		}
		compare := func(bound string, rate, peak float64) {
			if peak > 0 {
				out.Bound, out.PeakShare = bound, rate/peak
			}
		}
		switch {
		case cost.Flops == 0:
			out.Operator = cost.Name
			compare("link", out.Bytes, link)
		case bandwidth > 0 && cost.Bytes > 0 && cost.Flops/cost.Bytes < flops/bandwidth:
			compare("bandwidth", out.Bytes, bandwidth)
		default:
			compare("arithmetic", out.Flops, flops)
		}
		z.Roofline = append(z.Roofline, out)
	}
	slices.SortFunc(z.Roofline, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Dims, b.Dims))
	})
}
