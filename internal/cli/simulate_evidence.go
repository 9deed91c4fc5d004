package cli

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim"
)

// gather collects what says how long steps take.
func (s *simulation) gather() error {
	f, e := s.f, &s.evidence
	if err := s.dataSheets(); err != nil {
		return err
	}
	if f.stepCost != "" {
		cost, err := parseStepCost(f.stepCost)
		if err != nil {
			return err
		}
		e.Cost, e.CostFrom = &cost, f.stepCost
		return nil
	}
	if f.loadTest == "" && s.seen == nil {
		return nil
	}
	// The configuration under which it was observed is that of the servers, not one
	// of the sweep's.
	observed, err := perfmodel.Config(s.release, s.known(nil), s.device)
	if err != nil {
		return err
	}
	e.Config = observed.Config
	if s.seen != nil {
		e.Scrapes, e.ScrapesFrom = s.seen.Scrapes(e.Config), s.seen.From
	}
	if f.loadTest != "" {
		file, err := os.Open(f.loadTest)
		if err != nil {
			return fmt.Errorf("open --load-test: %w", err)
		}
		defer file.Close()
		test, err := perfmodel.ReadLoadTest(file, e.Config.BlockSize)
		if err != nil {
			return fmt.Errorf("%s: %w", f.loadTest, err)
		}
		e.Requests, e.RequestsFrom = test.Requests, f.loadTest
		if skips := test.Skips(); skips != "" {
			fmt.Fprintf(s.stderr, "note: of the load test's requests were left out: %s\n", skips)
		}
	}
	return nil
}

// dataSheets reads the model and the GPU, where both are given: what a step would
// cost, and how large the KV cache would be where nothing else tells.
func (s *simulation) dataSheets() error {
	t := &tuning{f: &tuneFlags{gpu: s.f.gpu, modelConfig: s.f.modelConfig}, fixed: s.args, seen: s.seen, release: s.release}
	if err := t.accelerator(); err != nil {
		return err
	}
	if t.device.Name != "" {
		s.device = &t.device
	}
	if s.f.modelConfig == "" || s.f.gpu == "" {
		return nil
	}
	var err error
	if t.model, err = t.f.model(); err != nil {
		return err
	}
	settings, err := t.settings(t.known())
	if err != nil {
		return err
	}
	l, err := perfmodel.NewLedger(t.model, settings)
	if err != nil {
		return err
	}
	if l.Blocks.Value >= 2 {
		all := l.EngineConfig("the memory ledger")
		s.ledger = engine.Config{}
		for _, flag := range []string{engine.NumBlocks, engine.MaxModelLen, engine.BlockSize} {
			s.ledger[flag] = all[flag]
		}
		s.ledgerSays = fmt.Sprintf("num-gpu-blocks %.0f, from the memory ledger (%.0f to %.0f; sixty tune shows it)", l.Blocks.Value, l.Blocks.Low, l.Blocks.High)
	}
	if s.device == nil {
		return nil // a size of memory has no speed
	}
	mean, err := s.meanTokens()
	if err != nil {
		return err
	}
	prior := l.StepCost(mean)
	s.evidence.Prior, s.evidence.HardwareFrom = &prior, l.StepTimesFrom()
	return nil
}

// meanTokens is what a request holds on average, in the middle of its answer.
func (s *simulation) meanTokens() (float64, error) {
	if s.trace == nil {
		spec, _, err := s.spec(&s.f.load)
		return spec.Prompt.Mean() + spec.Output.Mean()/2, err
	}
	var sum float64
	for _, r := range s.trace.Requests {
		sum += float64(r.PromptTokens) + float64(r.OutputTokens)/2
	}
	return sum / float64(max(len(s.trace.Requests), 1)), nil
}

// parseStepCost reads constants such as base=8ms,per-token=50us,knee=256.
func parseStepCost(text string) (sim.StepCost, error) {
	const form = "write it as base=8ms,mixed=5ms,per-seq=20us,per-token=50us,per-kv=70ns,per-pair=1ns,knee=256; what is left out is 0"
	var c sim.StepCost
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		to := map[string]*float64{"base": &c.Base, "mixed": &c.Mixed, "per-seq": &c.PerSeq, "per-token": &c.PerToken, "per-kv": &c.PerKV, "per-pair": &c.PerPair}[name]
		var err error
		switch {
		case !ok:
			err = fmt.Errorf("%q has no value", part)
		case name == "knee":
			c.Knee, err = strconv.Atoi(value)
		case to == nil:
			err = fmt.Errorf("there is no %q", name)
		default:
			*to, err = seconds(value)
		}
		if err != nil {
			return c, hint.With(fmt.Errorf("--step-cost: %w", err), form)
		}
	}
	if err := c.Validate(); err != nil {
		return c, hint.With(fmt.Errorf("--step-cost: %w", err), form)
	}
	return c, nil
}

// seconds reads a duration; below a nanosecond as a number of seconds, such as
// 8e-11.
func seconds(text string) (float64, error) {
	if d, err := time.ParseDuration(text); err == nil && d != 0 {
		return d.Seconds(), nil
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a duration", text)
	}
	return v, nil
}
