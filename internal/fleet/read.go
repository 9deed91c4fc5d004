package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/sim"
)

// sick is the duration of most faults.
const sick = 70 * time.Second

// Scenarios returns all scenarios: a healthy server, each pathology of a catalogue that has a scenario, and an idle
// server.
func Scenarios(catalogue []*catalog.Pathology) ([]Scenario, error) {
	out := []Scenario{healthyScenario()}
	for _, p := range catalogue {
		if p.Scenario == "" {
			continue // it needs more than the fleet has: a gateway, or two linked servers
		}
		s, err := ReadScenario(p.ID, p.Scenario)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return append(out, idleScenario()), nil
}

// FindScenario returns a scenario by its name.
func FindScenario(catalogue []*catalog.Pathology, name string) (Scenario, error) {
	all, err := Scenarios(catalogue)
	if err != nil {
		return Scenario{}, err
	}
	var names []string
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, hint.With(fmt.Errorf("there is no scenario %q", name), "one of "+strings.Join(names, ", "))
}

// FindScenarios finds scenarios by the ids of their pathologies; "all" alone finds all.
func FindScenarios(all []*catalog.Pathology, ids []string) ([]Scenario, error) {
	if slices.Equal(ids, []string{"all"}) {
		return Scenarios(all)
	}
	var list []Scenario
	for _, id := range ids {
		sc, err := FindScenario(all, id)
		if err != nil {
			return nil, err
		}
		list = append(list, sc)
	}
	return list, nil
}

// ReadScenario reads a scenario from YAML, as docs/fleet.md describes it. It begins with a healthy phase of the usual
// traffic; the key healthy changes it. Each further phase changes the traffic of the phase before. By default it lasts
// 70 s, and its verdict is the scenario's name. Unknown keys are errors.
func ReadScenario(name, text string) (Scenario, error) {
	s, err := readScenario(name, text)
	if err != nil {
		return s, fmt.Errorf("scenario %s: %w", name, err)
	}
	return s, nil
}

func readScenario(name, text string) (Scenario, error) {
	file := struct {
		Title    string
		Fault    string
		Replicas int
		Interval time.Duration
		Args     string        // arguments of vllm serve
		HostTime time.Duration `yaml:"host_time"`
		Checks   bool          `yaml:"checks_nan"` // VLLM_COMPUTE_NANS_IN_LOGITS=1
		Cost     sim.StepCost  // seconds
		Healthy  Phase
		Phases   []yaml.Node
	}{Cost: DefaultCost, Healthy: healthyPhase()}
	if err := decodeYAML([]byte(text), &file); err != nil {
		return Scenario{}, err
	}
	s := Scenario{Name: name, Title: file.Title, Fault: file.Fault, Replicas: file.Replicas, Interval: file.Interval}
	args := engine.ParseArgs(file.Args, "scenario")
	settings, ignored, err := Settings{HostTime: file.HostTime, Cost: file.Cost, ChecksNaN: file.Checks}.With(args)
	switch {
	case err != nil:
		return s, err
	case len(ignored) > 0:
		return s, fmt.Errorf("%s: changes nothing in the simulation", strings.Join(ignored, ", "))
	case len(file.Phases) == 0:
		return s, fmt.Errorf("no phase has a fault")
	}
	s.Settings, s.Phases = settings, []Phase{file.Healthy}
	for i := range file.Phases {
		p := Phase{For: sick, Traffic: s.Phases[i].Traffic, Want: name}
		b, err := yaml.Marshal(&file.Phases[i])
		if err != nil {
			return s, err
		}
		if err := decodeYAML(b, &p); err != nil {
			return s, fmt.Errorf("phase %d: %w", i+2, err)
		}
		s.Phases = append(s.Phases, p)
	}
	return s, nil
}

// decodeYAML reads YAML over present values.
func decodeYAML(text []byte, to any) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	return dec.Decode(to)
}
