// Package whatif says what a change would do to the servers that are watched: it measures
// their workload and step times, simulates them as they are and with the change, and
// answers with intervals. The page's sliders and assistants ask it.
package whatif

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/planning/simreport"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Bounds of a change, and of what is simulated for it.
const (
	mostReplicas = 256
	mostFactor   = 100
	samples      = 8
	requests     = 20_000
)

// ErrPresent is wrapped by the error for servers whose present the simulation does not
// give: a prediction would be worth nothing.
var ErrPresent = errors.New("no prediction: the simulator cannot reproduce current behaviour")

// Simulate simulates a change. Look is how much of the past the workload is measured
// in. Replicas with one of the pathologies are left out while others are healthy.
func Simulate(ctx context.Context, s *source.Source, pathologies []*catalog.Pathology, ask view.WhatIf, at time.Time, look time.Duration) (view.WhatIfAnswer, error) {
	out := view.WhatIfAnswer{Schema: view.WhatIfSchema, Warnings: []string{}, Settings: view.Settings{Flags: map[string]string{}}}
	c := ask.Change
	if err := check(&c); err != nil {
		return out, err
	}
	seen, err := s.Observe(ctx, ask.Model, at, look, pathologies)
	if err != nil {
		return out, err
	}
	q := &planning.Simulation{Samples: samples, Replicas: c.Replicas, Load: workload.Asked{
		RateScale: c.ArrivalRateFactor, PromptScale: c.PromptFactor, OutputScale: c.OutputFactor, Speed: 1, CV: 1, PrefixGroups: 1, Requests: requests,
	}}
	q.Seen = seen
	if err := q.FindRelease(""); err != nil {
		return out, err
	}
	q.Args = engine.Config{}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(c.Flags)) {
		words = append(words, name, c.Flags[name])
	}
	line := strings.TrimSpace(strings.Join(words, " "))
	if line != "" {
		if q.Args, err = vllm.Engine.Flags.CheckArgs(line, "flags", q.Release); err != nil {
			return out, err
		}
	}
	r, err := simreport.Simulate(ctx, q, nil)
	if err != nil {
		return out, err
	}
	out.Basis, out.Command = r.Calibration.Statement, commandOf(s, ask.Model, &c, line)
	out.Settings.Replicas = len(seen.Ranks)
	for name, v := range r.Deployment.Settings {
		flag := "--" + strings.TrimPrefix(name, "--")
		if out.Settings.Flags[flag] = fmt.Sprint(v.Value); v.Source == "assumed" {
			out.Settings.Flags[flag] = "" // what is simulated is no setting of the server
		}
	}
	out.Warnings = append(out.Warnings, r.Calibration.Notes...)
	if len(r.Missed) > 0 {
		var missed []string
		for _, m := range r.Missed {
			missed = append(missed, m.String())
		}
		return out, fmt.Errorf("%w: %s", ErrPresent, strings.Join(missed, "; "))
	}
	if len(r.Runs) == 0 {
		return out, errors.New("nothing was simulated")
	}
	changed := &r.Runs[0]
	if changed.Error != "" {
		return out, errors.New(changed.Error)
	}
	out.Warnings = append(out.Warnings, changed.Warnings...)
	out.Changed = numbers(changed)
	out.Present = out.Changed // nothing is changed
	if r.Present != nil {
		out.Present = numbers(&r.Present.Run)
	}
	return out, nil
}

func check(c *view.Change) error {
	for name, f := range map[string]*float64{"arrival_rate_factor": &c.ArrivalRateFactor, "prompt_factor": &c.PromptFactor, "output_factor": &c.OutputFactor} {
		if *f == 0 {
			*f = 1
		}
		if !(*f > 0 && *f <= mostFactor) {
			return fmt.Errorf("%s: %g is not between 0 and %d", name, *f, mostFactor)
		}
	}
	if c.Replicas < 0 || c.Replicas > mostReplicas {
		return fmt.Errorf("replicas: %d is not between 1 and %d", c.Replicas, mostReplicas)
	}
	for name, v := range c.Flags {
		if !strings.HasPrefix(name, "--") || strings.ContainsAny(name+v, "\n\x00") || strings.ContainsAny(v, " \t") {
			return hint.With(fmt.Errorf("flags: %q %q", name, v), `write them like {"--max-num-seqs": "64"}`)
		}
	}
	return nil
}

// commandOf is the command line that simulates the same.
func commandOf(s *source.Source, model string, c *view.Change, args string) string {
	words := []string{"sixty simulate " + s.Arguments}
	if model != "" {
		words = append(words, "--model "+render.ShellWord(model))
	}
	if c.Replicas > 0 {
		words = append(words, "--replicas "+strconv.Itoa(c.Replicas))
	}
	for _, f := range []struct {
		flag  string
		value float64
	}{{"--rate-scale", c.ArrivalRateFactor}, {"--prompt-scale", c.PromptFactor}, {"--output-scale", c.OutputFactor}} {
		if f.value != 1 {
			words = append(words, fmt.Sprintf("%s %g", f.flag, f.value))
		}
	}
	if args != "" {
		words = append(words, "--engine-args "+render.ShellWord(args))
	}
	return strings.Join(words, " ")
}

// numbers are what a run gives, by the names of docs/api.md.
func numbers(r *simreport.Run) map[string]*view.Estimated {
	out := map[string]*view.Estimated{}
	set := func(name string, v float64, within *[2]float64) {
		e := &view.Estimated{Value: &v}
		if within != nil {
			e.Low, e.High = &within[0], &within[1]
		}
		out[name] = e
	}
	if l := r.Latency[simreport.TTFT]; l != nil {
		set("ttft_p50", l.P50, nil)
		set("ttft_p95", l.P95, l.P95Within)
	}
	if l := r.Latency[simreport.ITL]; l != nil {
		set("itl_p95", l.P95, l.P95Within)
	}
	if l := r.Latency[simreport.E2E]; l != nil {
		set("e2e_mean", l.Mean, l.MeanWithin)
	}
	set("output_tokens_rate", r.Throughput.OutputTokens, &r.Throughput.Interval)
	set("requests_rate", r.Throughput.Requests, nil)
	set("kv_cache_usage", r.State.KVMean, nil)
	if r.Duration > 0 {
		within := [2]float64{r.Requests.Interval[0] / r.Duration, r.Requests.Interval[1] / r.Duration}
		set("preemptions_rate", float64(r.Requests.Preemptions)/r.Duration, &within)
	}
	return out
}
