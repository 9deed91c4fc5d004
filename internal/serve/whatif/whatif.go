// Package whatif simulates a change of the watched servers, with the simulation that also predicts an incident's fixes
// (package planning). The page's sliders and MCP clients call it.
package whatif

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/planning/simreport"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// Bounds of a change.
const (
	maxReplicas = 256
	maxFactor   = 100
)

// Simulate simulates a change of the servers of a diagnosis. s is the source of the diagnosis. The error wraps
// planning.ErrNoPrediction if their present state cannot be simulated.
func Simulate(
	ctx context.Context, s *source.Source, d *diagnose.Diagnosis, ask view.WhatIf,
) (view.WhatIfAnswer, error) {
	out := view.WhatIfAnswer{Schema: view.WhatIfSchema, Warnings: []string{}}
	out.Settings.Flags = map[string]string{}
	c := ask.Change
	if err := validateChange(&c); err != nil {
		return out, err
	}
	q := planning.Question{
		Model: ask.Model, Replicas: c.Replicas, Arrivals: c.ArrivalRateFactor, Prompt: c.PromptFactor,
		Output: c.OutputFactor,
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(c.Flags)) {
		words = append(words, name, c.Flags[name])
	}
	line := strings.TrimSpace(strings.Join(words, " "))
	if line != "" {
		var err error
		if q.Args, err = vllm.Engine.Flags.CheckArgs(line, "flags", ""); err != nil {
			return out, err
		}
	}
	a, err := planning.Ask(ctx, s, d, q)
	if err != nil {
		return out, err
	}
	out.Basis = fmt.Sprintf("%s at %s: %s", a.Target, d.At.UTC().Format("15:04:05 UTC"), strings.Join(a.Basis, "; "))
	if a.Replicas > 1 {
		out.Basis += fmt.Sprintf("; the other %d are taken for its like", a.Replicas-1)
	}
	out.Command, out.Settings.Replicas = simulateCommand(s, ask.Model, &c, line), a.Replicas
	for name, v := range simreport.DeploymentOf(a.Engine, perfmodel.Deployment{Config: a.Engine.Config}).Settings {
		assumed := slices.ContainsFunc(a.Engine.Assumed, func(text string) bool { return strings.Contains(text, name) })
		if _, known := a.Known[name]; assumed && !known {
			v = "" // a simulated value is no setting of the server
		}
		out.Settings.Flags["--"+name] = fmt.Sprint(v)
	}
	out.Warnings = append(out.Warnings, a.Caveats...)
	out.Present, out.Changed = a.Present, a.Changed
	for _, es := range []map[string]catalog.Estimate{a.Present, a.Changed} {
		maps.DeleteFunc(es, func(_ string, e catalog.Estimate) bool { // it was not simulated
			sum := e.Low + e.Value + e.High
			return math.IsNaN(sum) || math.IsInf(sum, 0)
		})
	}
	return out, nil
}

func validateChange(c *view.Change) error {
	for name, f := range map[string]*float64{"arrival_rate_factor": &c.ArrivalRateFactor,
		"prompt_factor": &c.PromptFactor, "output_factor": &c.OutputFactor} {
		if *f == 0 {
			*f = 1
		}
		if !(*f > 0 && *f <= maxFactor) {
			return fmt.Errorf("%s: %g is not between 0 and %d", name, *f, maxFactor)
		}
	}
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		return fmt.Errorf("replicas: %d is not between 1 and %d", c.Replicas, maxReplicas)
	}
	for name, v := range c.Flags {
		if !strings.HasPrefix(name, "--") || strings.ContainsAny(name+v, "\n\x00") || strings.ContainsAny(v, " \t") {
			return hint.With(fmt.Errorf("flags: %q %q", name, v), `write them like {"--max-num-seqs": "64"}`)
		}
	}
	return nil
}

// simulateCommand returns the command that simulates the same change, with drawn requests.
func simulateCommand(s *source.Source, model string, c *view.Change, args string) string {
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
