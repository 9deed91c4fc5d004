// Package asked turns the flags and arguments of simulate and tune into a planning.Simulation or a planning.Tuning.
// It reads files and measures running servers. Its errors name the flags.
package asked

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Flags with the same meaning in several verbs.
const (
	FlagRelease = "vllm-version"
	FlagArgs    = "engine-args"
)

// A Deployment holds the flags about a deployment and its objectives.
type Deployment struct {
	Source  source.Observed
	Promise settings.Promised

	EngineArgs, ReleaseOf string            // as vllm serve takes them, and vLLM's release
	gpus                  []planning.Choice // kinds of GPU
	modelConfig, loadTest string

	Note     func([]string)                   // informs of remarks
	Progress func(format string, args ...any) // writes a line that the next one overwrites
}

// AddFlags adds the common flags of simulate and tune, without the output format.
func (f *Deployment) AddFlags(s *pflag.FlagSet) {
	f.Source.AddFlags(s)
	s.StringVar(&f.modelConfig, "model-config", "",
		"the model's config.json, the `directory` that has it, or its name at Hugging Face; an argument that is a "+
			"name does the same")
	s.Func("gpu", "`name` of the GPU, such as H100 or 'RTX 4090', or the memory of one, such as 80GiB", f.addGPUs)
	s.StringVar(&f.EngineArgs, FlagArgs, "", "`arguments` as vllm serve takes them, such as '--max-num-seqs 256'")
	s.StringVar(&f.ReleaseOf, FlagRelease, "", "`release` of vLLM, such as 0.23 (default: the measured server's)")
	s.StringVar(&f.loadTest, "load-test", "",
		"fit step times to a load test's `file`: sixty bench --csv of one replica")
	f.Promise.AddFlags(s)
}

// addGPUs adds the kinds of GPU of a list.
func (f *Deployment) addGPUs(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		device, memory, err := perfmodel.ParseGPU(strings.TrimSpace(name))
		if err != nil {
			return fmt.Errorf("--gpu: %w", err)
		}
		f.gpus = append(f.gpus, planning.Choice{Device: device, Memory: memory})
	}
	return nil
}

// isMeasured reports whether step times are measured.
func (f *Deployment) isMeasured() bool { return f.Source.SourceCount() > 0 || f.loadTest != "" }

// readKnown reads and measures the facts about the deployment, unless check refuses the flags and arguments.
func (f *Deployment) readKnown(ctx context.Context, args []string, check func() error) (k planning.Known, err error) {
	if err := f.resolveArgs(args); err != nil {
		return k, err
	}
	if err := check(); err != nil {
		return k, err
	}
	if len(f.gpus) > 0 {
		k.Device, k.Memory = f.gpus[0].Device, f.gpus[0].Memory
	}
	if f.modelConfig != "" {
		if k.Model, err = readModel(f.modelConfig); err != nil {
			return k, err
		}
	}
	if f.loadTest != "" {
		content, err := fileio.Read(f.loadTest, 1<<30)
		if err != nil {
			return k, fmt.Errorf("--load-test: %w", err)
		}
		k.LoadTest, k.LoadTestFrom = bytes.NewReader(content), f.loadTest
	}
	if f.Source.SourceCount() > 0 {
		if k.Seen, err = f.Source.Observe(ctx, f.Note, f.Progress); err != nil {
			return k, err
		}
		f.Source.Model = k.Seen.Model
	}
	if err = k.FindRelease(f.ReleaseOf); err != nil {
		return k, fmt.Errorf("--%s: %w", FlagRelease, err)
	}
	k.Release = cmp.Or(k.Release, engine.ImageRelease(f.EngineArgs))
	strict := cmp.Or(k.Release, vllm.DefaultRelease)
	if k.Seen != nil && f.ReleaseOf == "" {
		strict = "" // Release is only the oldest that fits their metrics
	}
	if k.Args, err = vllm.Engine.Flags.CheckArgs(f.EngineArgs, "--"+FlagArgs, strict); err != nil {
		return k, err
	}
	if v := k.Args[engine.MaxModelLen].Value; v == "auto" || v == "-1" {
		k.LongestThatFits = true
		delete(k.Args, engine.MaxModelLen)
	}
	return k, nil
}

// A Simulation holds the flags of simulate.
type Simulation struct {
	Deployment
	planning.Simulation // AddFlags binds its plain fields; Read sets the others
}

// AddFlags adds the flags of sixty simulate, without the output format and --serve.
func (f *Simulation) AddFlags(s *pflag.FlagSet) {
	f.Deployment.AddFlags(s)
	f.Load.AddFlags(s, workload.ClosedLoops|workload.Traces|workload.ScaledRates)
	s.IntVar(&f.Replicas, "replicas", 0, "engines behind a router (default: as many as were measured)")
	s.Func("sweep", "vary a parameter: `max-num-seqs=16,32,64` or rate=1:20:1", func(text string) (err error) {
		if f.Sweep.Parameter != "" {
			return hint.With(errors.New("--sweep is given twice: a simulation varies one parameter"),
				"give the others by their flags or in --engine-args, once for each value")
		}
		f.Sweep, err = planning.ParseSweep(text)
		return err
	})
	f.Samples = -1 // as many as take little time
}

// Read validates the flags and arguments and reads the files that they name. changed reports whether a flag was
// given.
func (f *Simulation) Read(ctx context.Context, args []string, changed func(flag string) bool) (err error) {
	f.Load.Given(changed)
	f.Known, err = f.readKnown(ctx, args, func() error {
		switch {
		case changed("replicas") && f.Replicas < 1:
			return fmt.Errorf("--replicas %d: want 1 or more", f.Replicas)
		case len(f.gpus) > 1:
			return hint.With(fmt.Errorf("--gpu: a simulation has one kind of GPU, not %d", len(f.gpus)),
				"sixty tune compares several")
		}
		return f.Load.Check()
	})
	if err != nil || f.Load.Trace == "" {
		return err
	}
	file, err := os.Open(f.Load.Trace)
	if err == nil {
		defer file.Close()
		f.Trace, err = workload.Read(file)
	}
	return err
}

// simulatedRequests is the number of requests for each configuration: enough for a P95, and few enough that a search
// of fifty configurations ends in seconds.
const simulatedRequests = 1500

// A Tuning holds the flags of tune.
type Tuning struct {
	Deployment
	planning.Tuning // AddFlags binds its plain fields; Read sets the others
}

// AddFlags adds the flags of sixty tune, without the output format.
func (f *Tuning) AddFlags(s *pflag.FlagSet) {
	f.Deployment.AddFlags(s)
	f.Load.Requests = simulatedRequests
	f.Load.AddFlags(s, workload.ScaledRates|workload.NoUsualLengths)
	s.IntVar(&f.MaxGPUs, "max-gpus", 64, "GPUs of the whole deployment, at most")
	s.DurationVar(&f.Targets.TTFTP95, "ttft-p95", 0, "target of the 95th percentile of the time to the first token")
	s.DurationVar(&f.Targets.ITLP95, "itl-p95", 0, "target of the 95th percentile of the time between tokens")
	s.DurationVar(&f.Targets.E2EP95, "e2e-p95", 0, "target of the 95th percentile of a whole answer")
	s.Float64Var(&f.Targets.TokensPerSecond, "throughput", 0,
		"target of output tokens per second, of the whole deployment")
	f.Prices = planning.ListPrices()
	s.Func("price", "price per hour of one GPU, such as `H100=2.49`; may be repeated (default: list prices of "+
		"November 2026, in dollars)", func(text string) error { return f.Prices.Set(text, "--price") })
}

// listMissing lists what an answer needs and nothing gives. promised reports whether objectives were named.
func (f *Tuning) listMissing(promised bool) (out []string) {
	need := func(lacks bool, what string) {
		if lacks {
			out = append(out, what)
		}
	}
	aims, described := promised || !f.Targets.Empty(), !f.isMeasured()
	need(f.modelConfig == "", "the model (an argument, such as Qwen/Qwen3-32B)")
	need(described && len(f.gpus) == 0 && f.EngineArgs == "", "the GPU (--gpu)")
	need(described && aims && f.Load.Prompt == "", "the length of prompts (--prompt-tokens)")
	need(described && aims && f.Load.Output == "", "the length of answers (--output-tokens)")
	need(described && aims && f.Load.Rate == "" && f.Targets.TokensPerSecond == 0, "the load (--rate or --throughput)")
	need(!aims && (f.Load.Rate != "" || len(f.gpus) > 1),
		"a target (--use-case, --ttft-p95, --itl-p95, --e2e-p95 or --throughput)")
	return out
}

func (f *Tuning) checkFlags(promised bool) error {
	if lacks := f.listMissing(promised); lacks != nil {
		return hint.With(errors.New("missing: "+strings.Join(lacks, ", ")),
			"sixty tune Qwen/Qwen3-32B --gpu H100 --use-case chat --rate 5 --prompt-tokens 900 --output-tokens 250")
	}
	switch t := &f.Targets; {
	case f.MaxGPUs < 1 || f.MaxGPUs > 1<<14:
		return fmt.Errorf("--max-gpus %d: want 1 to %d", f.MaxGPUs, 1<<14)
	case f.Load.Requests < 50 || f.Load.Requests > 100_000:
		return fmt.Errorf("--requests %d: want 50 to 100000", f.Load.Requests)
	case min(t.TTFTP95, t.ITLP95, t.E2EP95) < 0 || !(t.TokensPerSecond >= 0 && t.TokensPerSecond < 1e12):
		return errors.New("a target is negative")
	case len(f.gpus) > 1 && f.isMeasured():
		return hint.With(errors.New("measured step times are for one kind of GPU"),
			"compare from data sheets, without servers and --load-test, or name one --gpu")
	}
	return f.Load.Check()
}

// Read validates the flags and arguments and reads the files that they name. changed reports whether a flag was
// given.
func (f *Tuning) Read(ctx context.Context, args []string, changed func(flag string) bool) (err error) {
	f.Load.Given(changed)
	check := func() error { return f.checkFlags(changed("use-case") || changed("slo")) }
	if f.Known, err = f.readKnown(ctx, args, check); err != nil {
		return err
	}
	f.Check, f.Choices = ctx.Err, f.gpus
	o, err := f.Promise.Objective(cmp.Or(f.Source.Model, f.Model.Architecture))
	if t := &f.Targets; o != nil {
		t.TTFTP95, t.ITLP95, t.E2EP95 = cmp.Or(t.TTFTP95, o.TTFTP95), cmp.Or(t.ITLP95, o.ITLP95),
			cmp.Or(t.E2EP95, o.E2EP95)
	}
	return err
}

// ServedName returns the model argument of vllm serve: from the user's command line, else from the servers or the
// configuration. It returns "" if all are unknown.
func (f *Tuning) ServedName() string {
	return cmp.Or(f.Args[engine.ModelName].Value, f.Source.Model, f.Model.Name)
}
