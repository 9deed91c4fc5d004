package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Scenario is a named test: a workload and its schedule.
type Scenario struct {
	Name     string        `yaml:"name"`
	Goal     string        `yaml:"goal,omitempty"`
	Workload workload.Spec `yaml:"workload"`

	Concurrency    int           `yaml:"concurrency,omitempty"`
	Rate           string        `yaml:"rate,omitempty"` // in the syntax of workload.ParseArrivals
	CV             *float64      `yaml:"cv,omitempty"`   // CV of the arrivals; 1 (Poisson) when absent
	MaxConcurrency int           `yaml:"max_concurrency,omitempty"`
	Requests       int           `yaml:"requests,omitempty"`
	Duration       time.Duration `yaml:"duration,omitempty"`
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
		"use one of "+strings.Join(names, ", ")+", or a YAML file")
}

// Scale returns the scenario for a smaller or larger server: it multiplies the concurrency, requests, rate and
// lengths by f, to at least 1.
func (s Scenario) Scale(f float64) (Scenario, error) {
	if !(f > 0 && f <= 1000) {
		return s, fmt.Errorf("scale %v: want a positive number up to 1000", f)
	}
	if f == 1 {
		return s, nil
	}
	n := func(v int) int {
		if v == 0 {
			return 0
		}
		return max(int(math.Round(float64(v)*f)), 1)
	}
	s.Concurrency, s.Requests, s.MaxConcurrency = n(s.Concurrency), n(s.Requests), n(s.MaxConcurrency)
	s.Workload.Prompt, s.Workload.Output = s.Workload.Prompt.Scale(f), s.Workload.Output.Scale(f)
	s.Workload.SystemTokens = n(s.Workload.SystemTokens)
	if s.Rate != "" {
		a, err := workload.ParseArrivals(s.Rate, 1)
		if err != nil {
			return s, err
		}
		if len(a.Profile) != 1 || a.Profile[0].Duration != 0 {
			return s, errors.New("only a constant rate can be scaled")
		}
		s.Rate = fmt.Sprintf("%g", a.Profile[0].From*f)
	}
	return s, nil
}

// Arrivals returns the scenario's arrivals, or nil for a closed loop.
func (s *Scenario) Arrivals() (*workload.Arrivals, error) {
	if s.Rate == "" {
		return nil, nil
	}
	cv := 1.0
	if s.CV != nil {
		cv = *s.CV
	}
	a, err := workload.ParseArrivals(s.Rate, cv)
	if err != nil {
		return nil, err
	}
	return &a, nil
}

// Validate reports contradictions.
func (s *Scenario) Validate() error {
	if err := s.Workload.Validate(); err != nil {
		return fmt.Errorf("scenario %q: %w", s.Name, err)
	}
	switch {
	case s.Name == "":
		return errors.New("a scenario has no name")
	case (s.Concurrency > 0) == (s.Rate != ""):
		return fmt.Errorf("scenario %q: want either a concurrency or a rate", s.Name)
	case s.Concurrency < 0 || s.Requests < 0 || s.Duration < 0 || s.MaxConcurrency < 0:
		return fmt.Errorf("scenario %q: a number is negative", s.Name)
	}
	_, err := s.Arrivals()
	return err
}

// maxScenarios bounds a scenario file, in bytes.
const maxScenarios = 1 << 20

// ReadScenarios reads a YAML file with a list of scenarios under the key scenarios. Unknown keys are errors that name
// their line.
func ReadScenarios(r io.Reader) ([]Scenario, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxScenarios+1))
	if err != nil {
		return nil, fmt.Errorf("read scenarios: %w", err)
	}
	if len(b) > maxScenarios {
		return nil, fmt.Errorf("read scenarios: over %d bytes", maxScenarios)
	}
	var file struct {
		Scenarios []Scenario `yaml:"scenarios"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		return nil, hint.With(fmt.Errorf("read scenarios: %w", err), "see docs/bench.md for the keys")
	}
	if len(file.Scenarios) == 0 {
		return nil, errors.New("read scenarios: the file has none")
	}
	for i := range file.Scenarios {
		if err := file.Scenarios[i].Validate(); err != nil {
			return nil, fmt.Errorf("read scenarios: %w", err)
		}
	}
	return file.Scenarios, nil
}
