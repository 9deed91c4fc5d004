package profile

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// worst is how many steps a trimmed trace holds.
const worst = 3

// without is the length of a trimmed trace where there are no steps, around the longest
// time in which the device did nothing, in nanoseconds.
const without = 50_000_000

// Trim writes the worst steps as a trace in Chrome's format, which ui.perfetto.dev and
// chrome://tracing open, and sixty itself reads.
func (t *Timeline) Trim(w io.Writer, a *Analysis) error {
	b := bufio.NewWriter(w) // errors stay in it, and Flush returns them
	fmt.Fprintf(b, `{"schemaVersion":1,"displayTimeUnit":"ms","baseTimeNanoseconds":%d,"deviceProperties":[`, t.Base)
	separator := ""
	for _, id := range slices.Sorted(maps.Keys(t.GPUs)) {
		fmt.Fprintf(b, `%s{"id":%d,"name":%s}`, separator, id, quoted(t.GPUs[id].Name))
		separator = ","
	}
	_, _ = b.WriteString("],\n\"traceEvents\":[")
	separator = "\n"
	parts := worstParts(a)
	event := func(cat string, x *Event, pid, tid int64, args string, values ...any) {
		if slices.ContainsFunc(parts, func(p span) bool { return x.Start < p.to && p.from < x.Start+max(x.Dur, 1) }) {
			fmt.Fprintf(b, `%s{"ph":"X","cat":"%s","name":%s,"pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{%s}}`, separator, cat,
				quoted(t.Names.Text[x.Name]), pid, tid, microseconds(x.Start), microseconds(x.Dur), fmt.Sprintf(args, values...))
			separator = ",\n"
		}
	}
	for _, s := range t.Streams {
		for k := range s.Work {
			for x := range s.Work[k].All {
				event([kinds]string{"kernel", "gpu_memcpy", "gpu_memset"}[k], x, int64(s.Device), s.ID,
					`"device":%d,"stream":%d,"correlation":%d,"bytes":%d`, s.Device, s.ID, x.Correlation, x.Size)
			}
		}
	}
	for _, h := range t.Threads {
		process, thread := h.Process&(1<<24-1), h.ID
		if h.Process == 0 {
			process, thread = h.ID>>32, h.ID&(1<<32-1)
		}
		for k := range h.Calls {
			for x := range h.Calls[k].All {
				event([classes]string{"user_annotation", "python_function", "cpu_op", "cuda_runtime"}[k], x, process, thread, `"correlation":%d`, x.Correlation)
			}
		}
	}
	_, _ = b.WriteString("\n]}\n")
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
	return parts
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always can
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
