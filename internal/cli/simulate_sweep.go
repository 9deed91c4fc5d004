package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/report/simreport"
)

// loadParameters are what a sweep can vary beside the engine's settings.
var loadParameters = []string{"replicas", "route", "rate", "rate-scale", "speed", "cv", "prompt-tokens", "output-tokens", "prefix-share", "seed"}

// engineParameters are the engine's settings that change what is simulated.
var engineParameters = []string{
	"max-num-seqs", "max-num-batched-tokens", "max-model-len", "block-size", "num-gpu-blocks", "enable-chunked-prefill", "enable-prefix-caching",
	"long-prefill-token-threshold", "scheduling-policy", "async-scheduling", "watermark", "max-num-queued-reqs", "max-num-queued-tokens",
}

func isLoadParameter(name string) bool { return slices.Contains(loadParameters, name) }

// maxPoints bounds a sweep: a table that nobody reads, and minutes of work.
const maxPoints = 400

const sweepHint = "write it as max-num-seqs=16,32,64, or as rate=1:20:1 (from, to, step)"

// parseSweeps reads --sweep.
func parseSweeps(texts []string) ([]simreport.Axis, error) {
	var axes []simreport.Axis
	points := 1
	for _, text := range texts {
		name, list, ok := strings.Cut(text, "=")
		name = strings.ReplaceAll(strings.TrimLeft(strings.TrimSpace(name), "-"), "_", "-")
		if name == "num-gpu-blocks-override" {
			name = "num-gpu-blocks"
		}
		switch {
		case !ok || list == "":
			return nil, hint.With(fmt.Errorf("--sweep %q has no values", text), sweepHint)
		case !isLoadParameter(name) && !slices.Contains(engineParameters, name):
			return nil, hint.With(fmt.Errorf("--sweep: %q changes nothing that is simulated", name),
				"one of "+strings.Join(slices.Concat(engineParameters, loadParameters), ", "))
		case slices.ContainsFunc(axes, func(a simreport.Axis) bool { return a.Parameter == name }):
			return nil, fmt.Errorf("--sweep: %s is varied twice", name)
		}
		values, err := sweepValues(name, list)
		if err != nil {
			return nil, hint.With(fmt.Errorf("--sweep %q: %w", text, err), sweepHint)
		}
		axes = append(axes, simreport.Axis{Parameter: name, Values: values})
		if points *= len(values); points > maxPoints {
			return nil, hint.With(fmt.Errorf("--sweep: %d points or more, at most %d", points, maxPoints), "take larger steps")
		}
	}
	return axes, nil
}

// sweepValues reads a list, or from:to:step. Lengths hold colons and commas of
// their own: "lognormal:800,1.2" is one value, and several are separated by
// semicolons.
func sweepValues(name, list string) ([]string, error) {
	separator := ","
	if name == "prompt-tokens" || name == "output-tokens" || name == "rate" {
		if strings.Contains(list, ";") || strings.ContainsAny(list, "abcdefghijklmnopqrstuvwxyz") {
			separator = ";"
		}
	}
	if parts := strings.Split(list, ":"); separator == "," && len(parts) == 3 {
		return sweepRange(parts)
	}
	var values []string
	for v := range strings.SplitSeq(list, separator) {
		if v = strings.TrimSpace(v); v == "" || slices.Contains(values, v) {
			return nil, fmt.Errorf("the value %q is empty or comes twice", v)
		}
		values = append(values, v)
	}
	return values, nil
}

func sweepRange(parts []string) ([]string, error) {
	var n [3]float64
	for i, p := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, fmt.Errorf("%q is not a number", p)
		}
		n[i] = v
	}
	from, to, step := n[0], n[1], n[2]
	if !(step > 0) || to < from {
		return nil, fmt.Errorf("from %g to %g by %g leads nowhere", from, to, step)
	}
	if (to-from)/step > maxPoints {
		return nil, fmt.Errorf("more than %d values", maxPoints)
	}
	var values []string
	for i := 0; ; i++ {
		v := from + float64(i)*step
		if v > to+step*1e-9 {
			return values, nil
		}
		values = append(values, strconv.FormatFloat(v, 'g', 10, 64))
	}
}

// combinations are the points of a sweep, the last axis the fastest.
func combinations(axes []simreport.Axis) []map[string]string {
	sets := []map[string]string{{}}
	for _, a := range axes {
		var next []map[string]string
		for _, set := range sets {
			for _, v := range a.Values {
				one := map[string]string{a.Parameter: v}
				for k, x := range set {
					one[k] = x
				}
				next = append(next, one)
			}
		}
		sets = next
	}
	if len(axes) == 0 {
		return []map[string]string{nil}
	}
	return sets
}

// apply returns the flags of a point of a sweep.
func (f *simulateFlags) apply(set map[string]string) (*simulateFlags, error) {
	g := *f
	for name, v := range set {
		var err error
		switch name {
		case "replicas":
			g.replicas, err = strconv.Atoi(v)
			if err == nil && g.replicas < 1 {
				err = fmt.Errorf("%d replicas", g.replicas)
			}
		case "route":
			g.route = v
		case "rate":
			g.load.rate = v
		case "rate-scale":
			g.load.rateScale, err = positive(v)
		case "speed":
			g.load.speed, err = positive(v)
		case "cv":
			g.load.cv, err = strconv.ParseFloat(v, 64)
			g.load.bursty = true
		case "prompt-tokens":
			g.load.prompt = v
		case "output-tokens":
			g.load.output = v
		case "prefix-share":
			g.load.prefixShare, err = strconv.ParseFloat(v, 64)
			g.load.shared = true
		case "seed":
			g.load.seed, err = strconv.ParseUint(v, 10, 64)
		}
		if err != nil {
			return nil, hint.With(fmt.Errorf("--sweep: %s %q: %w", name, v, err), sweepHint)
		}
	}
	return &g, nil
}

func positive(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && !(v > 0 && v <= 1e6) {
		err = fmt.Errorf("want a positive number")
	}
	return v, err
}
