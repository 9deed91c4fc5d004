package profile

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// worst is how many steps a trimmed trace holds.
const worst = 3

// without is the length of a trimmed trace where there are no steps, around the longest
// time in which the device did nothing, in nanoseconds.
const without = 50_000_000

// Trim writes the worst steps as a trace in Chrome's format, which ui.perfetto.dev and
// chrome://tracing open, and sixty itself reads.
func (t *Timeline) Trim(w io.Writer, a *Analysis) error {
	b := bufio.NewWriter(w)
	parts := worstParts(a)
	fmt.Fprintf(b, `{"schemaVersion":1,"displayTimeUnit":"ms","baseTimeNanoseconds":%d,"deviceProperties":[`, t.Base)
	var ids []int
	for id := range t.GPUs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for i, id := range ids {
		if i > 0 {
			_ = b.WriteByte(',') // errors stay in the writer, and Flush returns them
		}
		g := t.GPUs[id]
		fmt.Fprintf(b, `{"id":%d,"name":%s,"totalGlobalMem":%d,"numSms":%d}`, id, quoted(g.Name), g.Memory, g.SMs)
	}
	_, _ = b.WriteString("],\n\"traceEvents\":[\n")
	out := &trimmer{w: b, parts: parts, names: t.Names}
	for _, s := range t.Streams {
		for k := range s.Work {
			cat := [kinds]string{"kernel", "gpu_memcpy", "gpu_memset"}[k]
			s.Work[k].All(func(x *Event) bool {
				size := `"bytes":` + strconv.FormatUint(x.Size, 10)
				if Kind(k) == Kernel {
					size = `"grid":[` + strconv.FormatUint(x.Size, 10) + `,1,1]`
				}
				out.event(cat, x.Name, int64(s.Device), s.ID, x.Start, x.Dur,
					fmt.Sprintf(`,"args":{"device":%d,"stream":%d,"correlation":%d,%s}`, s.Device, s.ID, x.Correlation, size))
				return out.err == nil
			})
		}
	}
	for _, h := range t.Threads {
		process, thread := h.Process, h.ID
		if process == 0 {
			process, thread = h.ID>>32, h.ID&(1<<32-1)
		} else {
			process &= 1<<24 - 1
		}
		for k := range h.Calls {
			cat := [classes]string{"user_annotation", "python_function", "cpu_op", "cuda_runtime"}[k]
			h.Calls[k].All(func(x *Event) bool {
				args := ""
				if x.Correlation != 0 {
					args = fmt.Sprintf(`,"args":{"correlation":%d}`, x.Correlation)
				}
				out.event(cat, x.Name, process, thread, x.Start, x.Dur, args)
				return out.err == nil
			})
		}
	}
	_, _ = b.WriteString("\n]}\n")
	if out.err != nil {
		return fmt.Errorf("write trace: %w", out.err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

// worstParts are the times of the longest steps, on the host and on the device.
func worstParts(a *Analysis) []span {
	order := make([]int, len(a.Steps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(a.Steps[y].Time(), a.Steps[x].Time()) })
	var parts []span
	for _, i := range order[:min(worst, len(order))] {
		s := &a.Steps[i]
		parts = append(parts, span{s.Start, s.Start + s.Host})
		if s.GPUTo > s.GPUFrom {
			parts = append(parts, span{s.GPUFrom, s.GPUTo})
		}
	}
	if len(parts) == 0 {
		from := a.From
		for _, d := range a.Devices {
			if len(d.Gaps) > 0 {
				from = d.Gaps[0].From - without/2
			}
			break
		}
		parts = append(parts, span{from, from + without})
	}
	return union(parts)
}

// union merges spans that touch.
func union(list []span) []span {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

type trimmer struct {
	w     *bufio.Writer
	parts []span
	names *Names
	n     int
	err   error
}

func (o *trimmer) event(cat string, name uint32, pid, tid, start, dur int64, args string) {
	if !slices.ContainsFunc(o.parts, func(p span) bool { return start < p.to && p.from < start+max(dur, 1) }) {
		return
	}
	if o.n++; o.n > 1 {
		_, _ = o.w.WriteString(",\n")
	}
	_, o.err = fmt.Fprintf(o.w, `{"ph":"X","cat":"%s","name":%s,"pid":%d,"tid":%d,"ts":%s,"dur":%s%s}`, cat, quoted(o.names.Text[name]), pid, tid, microseconds(start), microseconds(dur), args)
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// microseconds writes nanoseconds as microseconds with three decimals, exactly.
func microseconds(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%03d", sign, ns/1000, ns%1000)
}
