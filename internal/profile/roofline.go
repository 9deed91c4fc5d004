package profile

import (
	"cmp"
	"slices"

	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Rate is what an operator reached, where its shapes were recorded.
type Rate struct {
	Operator string
	Dims     string // of a product m×k×n
	Count    int
	Time     int64   // of its kernels, nanoseconds
	Flops    float64 // operations per second; 0 for communication
	Bytes    float64 // per second, each matrix moved once; of communication those of the bus
	// Peak is the share of what the data sheet allows at this intensity: of the arithmetic, of the memory's
	// bandwidth, whichever is the limit, or of the link between GPUs. 0 is unknown.
	Peak  float64
	Bound string // arithmetic, bandwidth or link
}

// rate is a Rate under way.
type rate struct {
	count int
	time  int64
	began uint32 // of the run that was counted last
}

// work counts a kernel of an operator whose work is known. An operator may take several
// kernels: its work counts once, their time counts all.
func (s *sweep) work(a *Event, g Group, l *launch) {
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

// Peaks returns a GPU's arithmetic, of dense BF16, the bandwidth of its memory, and that of its link to
// the others, from its data sheet; 0 is unknown.
func Peaks(g GPU) (flops, bandwidth, link float64) {
	sheet, err := perfmodel.FindGPU(g.Name)
	if g.Name == "" || err != nil {
		return 0, g.Bandwidth, 0
	}
	return sheet.BF16, sheet.Bandwidth, max(sheet.Link, sheet.Bus)
}

// roofline compares what operators reached with what the GPU allows.
func (z *analyzer) roofline() {
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
