package tunereport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
)

// Cost is what the deployment costs at the load that was asked for, in the currency of
// the price.
type Cost struct {
	GPUHour          float64 `json:"gpu_hour"`
	From             string  `json:"from"`
	Hour             float64 `json:"hour"`
	MillionOutput    float64 `json:"million_output_tokens,omitempty"`
	MillionAllTokens float64 `json:"million_tokens,omitempty"`
}

// Alternative is one row of a comparison.
type Alternative struct {
	GPU            string           `json:"gpu"`
	Quantization   string           `json:"quantization"` // "" is that of the checkpoint
	GPUs           int              `json:"gpus,omitempty"`
	TensorParallel int              `json:"tensor_parallel_size,omitempty"`
	Met            bool             `json:"met"`
	Says           string           `json:"says"` // "meets the targets", or why not
	TTFTP95        planning.Seconds `json:"ttft_p95,omitempty"`
	ITLP95         planning.Seconds `json:"itl_p95,omitempty"`
	KVTokens       float64          `json:"kv_tokens,omitempty"`
	Cost           *Cost            `json:"cost,omitempty"`
	Command        string           `json:"command,omitempty"`
	Best           bool             `json:"best,omitempty"`
}

// What an alternative says where it is no reason.
const (
	saysMeets  = "meets the targets"
	saysLikely = "likely meets the targets"
)

func costOf(t *planning.Tuned) *Cost {
	if t.Price.PerHour <= 0 {
		return nil
	}
	c := &Cost{GPUHour: t.Price.PerHour, From: t.Price.From}
	c.Hour, c.MillionOutput, c.MillionAllTokens = t.Cost()
	return c
}

// AddComparison adds the alternatives, of which the answer is the best.
func (a *Answer) AddComparison(all []planning.Alternative, best int, serve string) {
	for i, x := range all {
		row := Alternative{GPU: cmp.Or(x.Device.Name, render.GiB(x.Memory.Value)), Quantization: x.Quantization, Best: i == best}
		switch t := x.Tuned; {
		case x.Err != nil:
			row.Says = x.Err.Error()
		default:
			row.Met, row.Cost, row.KVTokens = t.Meets(), costOf(t), t.Ledger.Tokens.Value
			s := &t.Ledger.Settings
			row.GPUs, row.TensorParallel = s.TP*s.PP*s.DP, s.TP
			row.Says = "fits"
			if p := t.Point(); p != nil {
				row.GPUs, row.TTFTP95, row.ITLP95 = p.GPUs, p.TTFT, p.ITL
				row.Command = command(t.Ledger, &p.Knobs, t.Args, serve)
				switch row.Says = saysMeets; {
				case t.Likely():
					row.Says = saysLikely
				case !row.Met:
					row.Says = strings.Join(p.Misses, "; ")
				}
			} else if !row.Met {
				row.Says, row.KVTokens, row.Cost = "does not fit", 0, nil
			}
		}
		a.Comparison = append(a.Comparison, row)
	}
}

// cost says what it costs: in a line or, in full, with the price that it rests on.
func (c *Cost) text(full bool) string {
	if !full && c.MillionOutput > 0 {
		return fmt.Sprintf("%.2f an hour, %.2f per million output tokens", c.Hour, c.MillionOutput)
	}
	text := fmt.Sprintf("%.2f an hour, at %.2f for one GPU (%s)", c.Hour, c.GPUHour, c.From)
	if c.MillionOutput > 0 {
		text = fmt.Sprintf("%.2f per million output tokens, %.2f per million of all tokens at this load; %s", c.MillionOutput, c.MillionAllTokens, text)
	}
	return text
}

// remainingArgs are the user's arguments that a command does not have yet, as vllm serve takes them.
func remainingArgs(args engine.Config, has []string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if name == engine.ModelName || slices.ContainsFunc(has, func(line string) bool {
			return strings.HasPrefix(line+" ", "--"+name+" ") || strings.HasPrefix(line+" ", "--no-"+name+" ")
		}) {
			continue
		}
		switch v := args[name].Value; v {
		case "true":
			out = append(out, "--"+name)
		case "false":
			out = append(out, "--no-"+name)
		default:
			words := []string{v}
			if engine.Lists[name] {
				words = strings.Fields(v)
			}
			for i := range words {
				words[i] = quoted(words[i])
			}
			out = append(out, "--"+name+" "+strings.Join(words, " "))
		}
	}
	return out
}

// quoted is a word as a shell takes it.
func quoted(v string) string {
	if v != "" && !strings.ContainsAny(v, " \t\n\"'{}[]$&|;<>()*?#~`\\") {
		return v
	}
	return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
}

// risk says how far the slow end of the intervals is from the targets, and how to know
// better; "" without targets of latency.
func (a *Answer) risk() string {
	if len(a.Result.Predicted) == 0 {
		return ""
	}
	if a.Result.Overload {
		return "at the slow end of what is known it does not keep up with the load, and requests wait ever longer"
	}
	var late []string
	for _, m := range a.Result.Predicted {
		if m.Target == nil || m.Unit != "s" || m.Value > *m.Target {
			continue
		}
		if m.High > *m.Target {
			late = append(late, fmt.Sprintf("%s may be %s", m.Name, render.Seconds(m.High)))
		}
	}
	if len(late) == 0 {
		if a.Status != statusFound {
			return ""
		}
		return riskLow
	}
	return render.And(late) + " at the slow end of the interval, which misses the target"
}

const riskLow = "low: the slow end of every interval meets its target"
