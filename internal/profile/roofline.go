package profile

import (
	"cmp"
	"slices"

	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Rate is what a matrix product reached, where its shapes were recorded.
type Rate struct {
	Operator string
	Dims     string // m×k×n
	Count    int
	Time     int64   // of its kernels, nanoseconds
	Flops    float64 // operations per second
	Bytes    float64 // per second, each matrix moved once
	// Peak is the share of what the data sheet allows at this intensity: of the
	// arithmetic or of the memory's bandwidth, whichever is the limit. 0 is unknown.
	Peak        float64
	MemoryBound bool
}

// rate is a Rate under way.
type rate struct {
	count int
	time  int64
	began uint32 // of the run that was counted last
}

// work counts a kernel of an operator whose work is known. An operator may take several
// kernels: its work counts once, their time counts all.
func (z *analyzer) work(a *Event, g Group, l *launch) {
	if z.Timeline.Names.Shape(l.op).Flops == 0 || g == Communication || g == Copies {
		return
	}
	if z.rates == nil {
		z.rates = map[uint32]*rate{}
	}
	r := z.rates[l.op]
	if r == nil {
		r = &rate{}
		z.rates[l.op] = r
	}
	r.time += a.Dur
	if r.count == 0 || l.began != r.began {
		r.began = l.began
		r.count++
	}
}

// Peaks returns a GPU's arithmetic and bandwidth from its data sheet, of dense BF16.
func Peaks(g GPU) (flops, bandwidth float64, ok bool) {
	if g.Name == "" {
		return 0, 0, false
	}
	sheet, err := perfmodel.FindGPU(g.Name)
	if err != nil {
		return 0, g.Bandwidth, g.Bandwidth > 0
	}
	return sheet.BF16, sheet.Bandwidth, true
}

// roofline compares what products reached with what the GPU allows.
func (z *analyzer) roofline() {
	if len(z.Devices) == 0 {
		return
	}
	flops, bandwidth, known := Peaks(z.Timeline.GPUs[z.Devices[0].ID])
	for op, r := range z.rates {
		if r.time == 0 || r.count == 0 {
			continue
		}
		shape := z.Timeline.Names.Shape(op)
		runs := float64(r.count)
		out := Rate{
			Operator: z.Timeline.Names.Text[op], Dims: shape.Dims, Count: r.count, Time: r.time,
			Flops: runs * shape.Flops / float64(r.time) * 1e9, Bytes: runs * shape.Bytes / float64(r.time) * 1e9,
		}
		if known && flops > 0 && shape.Bytes > 0 {
			out.MemoryBound = shape.Flops/shape.Bytes < flops/bandwidth
			if out.MemoryBound {
				out.Peak = out.Bytes / bandwidth
			} else {
				out.Peak = out.Flops / flops
			}
		}
		z.Roofline = append(z.Roofline, out)
	}
	slices.SortFunc(z.Roofline, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Dims, b.Dims))
	})
}
