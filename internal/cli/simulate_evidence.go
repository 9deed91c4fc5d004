package cli

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/gpu"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/whatif"
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
	observed, err := whatif.Config(s.release(), s.known(nil), s.device())
	if err != nil {
		return err
	}
	e.Config = observed.Config
	if s.seen != nil {
		capacity := float64((e.Config.NumBlocks - 1) * e.Config.BlockSize)
		for i := range s.seen.Engines {
			e.Scrapes = append(e.Scrapes, s.seen.Engines[i].Scrapes(capacity)...)
		}
		e.ScrapesFrom = s.seen.From
	}
	if f.loadTest != "" {
		file, err := os.Open(f.loadTest)
		if err != nil {
			return fmt.Errorf("open --load-test: %w", err)
		}
		defer file.Close()
		test, err := whatif.ReadLoadTest(file, e.Config.BlockSize)
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

// dataSheets reads the model and the GPU, where both are given.
func (s *simulation) dataSheets() error {
	f, e := s.f, &s.evidence
	var device *gpu.Spec
	if f.gpu != "" {
		spec, err := gpu.Find(f.gpu)
		if err != nil {
			return fmt.Errorf("--gpu: %w", err)
		}
		device = &spec
	}
	if f.modelConfig == "" || device == nil {
		return nil
	}
	content, err := readFile(f.modelConfig, modelconfig.MaxBytes)
	if err != nil {
		return fmt.Errorf("--model-config: %w", err)
	}
	m, err := modelconfig.Parse(content)
	if err != nil {
		return fmt.Errorf("--model-config %s: %w", f.modelConfig, err)
	}
	parallel := 1
	if n, _, ok := s.args.Number(engine.TensorParallelSize); ok && n >= 1 && n <= 64 {
		parallel = int(n)
	}
	model, bits := whatif.ModelCost(m, s.args[engine.KVCacheDtype].Value)
	hardware := whatif.Devices(*device, parallel, bits)
	e.Model, e.Device = &model, &hardware
	e.HardwareFrom = device.Name
	if parallel > 1 {
		e.HardwareFrom = fmt.Sprintf("%d × %s", parallel, device.Name)
	}
	if name := m.Architecture; name != "" {
		e.HardwareFrom += " and the configuration of a " + name
	}
	return nil
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
