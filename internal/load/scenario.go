package load

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Scenario is a named test: a workload and its schedule.
type Scenario struct {
	Name     string
	Goal     string // purpose, for reports
	Workload workload.Spec

	Concurrency int                // streams of a closed loop
	Arrivals    *workload.Arrivals // schedule of an open loop, or nil
	Requests    int
	Duration    time.Duration
}

// Scenarios returns the five scenarios that every server should be measured with.
func Scenarios() []Scenario {
	lengths := func(prompt, output int) workload.Spec {
		return workload.Spec{Prompt: workload.Fixed(prompt), Output: workload.Fixed(output)}
	}
	return []Scenario{
		{
			Name: "low-load", Goal: "baseline time to first token and between tokens", Workload: lengths(512, 256),
			Concurrency: 1, Requests: 50,
		},
		{
			Name: "saturation", Goal: "the highest sustainable throughput", Workload: lengths(512, 256),
			Concurrency: 64, Requests: 500,
		},
		{
			Name: "long-prompts", Goal: "how time to first token grows with the prompt", Workload: lengths(8192, 256),
			Concurrency: 8, Requests: 50,
		},
		{
			Name: "long-outputs", Goal: "sustained decode speed", Workload: lengths(256, 4096), Concurrency: 16,
			Requests: 50,
		},
		{
			Name: "burst", Goal: "the queue under sudden load", Workload: lengths(512, 256), Concurrency: 128,
			Requests: 200,
		},
	}
}

// FindScenario returns a scenario by name.
func FindScenario(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, hint.With(fmt.Errorf("unknown scenario %q", name),
		"use one of "+strings.Join(names, ", ")+" or all; a load of your own is --rate or --concurrency with "+
			"--prompt-tokens and --output-tokens, or a --trace")
}

// Scale returns the scenario for a smaller or larger server: it multiplies the concurrency, requests and lengths by f,
// to at least 1.
func (s Scenario) Scale(f float64) (Scenario, error) {
	if !(f > 0 && f <= 1000) {
		return s, fmt.Errorf("scale %v: want a positive number up to 1000", f)
	}
	n := func(v int) int { return max(int(math.Round(float64(v)*f)), 1) }
	s.Concurrency, s.Requests = n(s.Concurrency), n(s.Requests)
	s.Workload.Prompt, s.Workload.Output = s.Workload.Prompt.Scale(f), s.Workload.Output.Scale(f)
	return s, nil
}
