package asked

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Simulation holds the flags of simulate.
type Simulation struct {
	Deployment
	planning.Simulation // AddFlags binds its plain fields; Read sets the others

	sweeps []string
}

// AddFlags adds the flags of sixty simulate, without the output format and --serve.
func (f *Simulation) AddFlags(s *pflag.FlagSet) {
	f.Deployment.AddFlags(s)
	f.Load.AddFlags(s, workload.ClosedLoops|workload.Traces|workload.ScaledRates)
	s.IntVar(&f.Replicas, "replicas", 0, "engines behind a router (default: as many as were measured)")
	s.StringArrayVar(&f.sweeps, "sweep", nil, "vary a parameter: `max-num-seqs=16,32,64` or rate=1:20:1")
	f.Samples = -1 // as many as take little time
}

func (f *Simulation) checkFlags() error {
	switch {
	case (len(f.gpus) == 0) != (f.modelConfig == "") && f.loadTest == "" && f.Source.SourceCount() == 0:
		return hint.With(errors.New("an estimate of step times needs both --gpu and a model"),
			"name the model, or its config.json, as an argument: sixty simulate Qwen/Qwen3-8B --gpu H100")
	case len(f.gpus) > 1:
		return hint.With(fmt.Errorf("--gpu: a simulation has one kind of GPU, not %d", len(f.gpus)),
			"sixty tune compares several")
	case len(f.sweeps) > 1:
		return hint.With(errors.New("--sweep is given twice: a simulation varies one parameter"),
			"give the others by their flags or in --engine-args, once for each value")
	}
	return f.Load.Check()
}

// Read validates the flags and arguments and reads the files that they name. changed reports whether a flag was
// given.
func (f *Simulation) Read(ctx context.Context, args []string, changed func(flag string) bool, say Say) (err error) {
	f.Load.Given(changed)
	if changed("replicas") && f.Replicas < 1 {
		return fmt.Errorf("--replicas %d: want 1 or more", f.Replicas)
	}
	if err := f.resolveArgs(args); err != nil {
		return err
	}
	if err := f.checkFlags(); err != nil {
		return err
	}
	for _, text := range f.sweeps {
		if f.Sweep, err = planning.ParseSweep(text); err != nil {
			return err
		}
	}
	if f.Known, err = f.readKnown(ctx, say); err != nil {
		return err
	}
	if f.Load.Trace != "" {
		file, err := os.Open(f.Load.Trace)
		if err != nil {
			return fmt.Errorf("open trace: %w", err)
		}
		defer file.Close()
		if f.Trace, err = workload.Read(file); err != nil {
			return err
		}
	}
	return nil
}

// Objective returns the objective of the simulated model, or nil.
func (f *Simulation) Objective() (*slo.Objective, error) {
	return f.Promise.Objective(f.modelName(&f.Known, f.Source.Model))
}
