package profile

import (
	"cmp"
	"slices"

	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Rate is the throughput of an operator whose shapes were recorded.
type Rate struct {
	Operator string
	Dims     string // m×k×n for a product
	Count    int
	Time     int64   // time of its kernels, nanoseconds
	Flops    float64 // operations per second; 0 for communication
	Bytes    float64 // per second, each matrix moved once; for communication, over the bus
	// Peak is the share of the data sheet's limit at this intensity: the arithmetic, the memory's
	// bandwidth, or the link between GPUs. 0 is unknown.
	Peak  float64
	Bound string // arithmetic, bandwidth or link
}

type rate struct {
	count int
	time  int64
	began uint32 // start of the last run that was counted
}

// addWork counts a kernel of an operator whose work is known. An operator may take several kernels:
// its work counts once, their times add up.
func (s *sweep) addWork(a *Event, g Group, l *launch) {
	shape := s.Timeline.Names.Shape(l.op)
	if shape.Bytes+shape.Flops == 0 || g == Copies || (g == Communication) != (shape.Flops == 0) {
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
	if r.count == 0 || l.began != r.began {
		r.began = l.began
		r.count++
		s.d.Group[g].Flops += shape.Flops
		s.d.Group[g].Bytes += shape.Bytes
	}
}

// Peaks returns a GPU's dense BF16 arithmetic, and the bandwidths of its memory and of its link to
// other GPUs, from its data sheet; 0 is unknown.
func Peaks(g GPU) (flops, bandwidth, link float64) {
	sheet, err := perfmodel.FindGPU(g.Name)
	if g.Name == "" || err != nil {
		return 0, g.Bandwidth, 0
	}
	return sheet.BF16, sheet.Bandwidth, max(sheet.Link, sheet.Bus)
}

func (z *analyzer) compareRoofline() {
	if len(z.Devices) == 0 {
		return
	}
	flops, bandwidth, link := Peaks(z.Devices[0].GPU)
	for op, r := range z.rates {
		if r.time == 0 || r.count == 0 {
			continue
		}
		shape, runs := z.Timeline.Names.Shape(op), float64(r.count)
		out := Rate{
			Operator: z.Timeline.Names.Text[op], Dims: shape.Dims, Count: r.count, Time: r.time,
			Flops: runs * shape.Flops / float64(r.time) * 1e9, Bytes: runs * shape.Bytes / float64(r.time) * 1e9,
		}
		of := func(bound string, peak, v float64) {
			if peak > 0 {
				out.Bound, out.Peak = bound, v/peak
			}
		}
		switch {
		case shape.Flops == 0:
			out.Operator = shape.Name
			of("link", link, out.Bytes)
		case bandwidth > 0 && shape.Bytes > 0 && shape.Flops/shape.Bytes < flops/bandwidth:
			of("bandwidth", bandwidth, out.Bytes)
		default:
			of("arithmetic", flops, out.Flops)
		}
		z.Roofline = append(z.Roofline, out)
	}
	slices.SortFunc(z.Roofline, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Dims, b.Dims))
	})
}
