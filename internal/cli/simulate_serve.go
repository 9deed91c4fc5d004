package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning/asked"
)

// serveFlags hold the flags with which simulate serves simulated servers instead of printing a prediction.
type serveFlags struct {
	addr       string // "": do not serve
	fault      string
	accelerate float64
	exporter   string
}

// exporterOffset is the distance from vLLM's default port, 8000, to dcgm-exporter's.
const exporterOffset = 1400

func (f *serveFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.addr, "serve", "",
		"serve simulated vLLM servers at this `address`, such as :8000 (loopback unless a host is given)")
	fs.StringVar(&f.fault, "fault", "",
		"with --serve: traffic with a built-in fault, by the `name` of its pathology (default: only your traffic)")
	fs.Float64Var(&f.accelerate, "accelerate", 1, "with --serve: simulated seconds per second")
	fs.StringVar(&f.exporter, "gpu-exporter", "",
		"with --serve: `address` of a simulated dcgm-exporter (default: a port 1400 above; off: none)")
}

// servedModelName is the flag of vllm serve that names the model.
const servedModelName = "served-model-name"

// check refuses flags that need --serve and were given without it, and those that --serve does not use.
func (f *serveFlags) check(s *pflag.FlagSet) error {
	serveOnly := []string{"fault", "accelerate", "gpu-exporter"}
	common := []string{"serve", "replicas", "seed", asked.FlagArgs, asked.FlagRelease}
	var refused []string
	s.Visit(func(flag *pflag.Flag) {
		switch needsServe := slices.Contains(serveOnly, flag.Name); {
		case f.addr == "" && needsServe, f.addr != "" && !needsServe && !slices.Contains(common, flag.Name):
			refused = append(refused, "--"+flag.Name)
		}
	})
	switch names := strings.Join(refused, ", "); {
	case len(refused) == 0:
		return nil
	case f.addr == "":
		return hint.With(fmt.Errorf("only with --serve: %s", names), "add an address, such as --serve :8000")
	default:
		return hint.With(fmt.Errorf("not with --serve: %s", names),
			"leave them out; sixty simulate --help lists what --serve takes")
	}
}

// runServers serves simulated servers until it is interrupted, and prints the phases of the fault.
func (f *simulateFlags) runServers(ctx context.Context, stdout, stderr io.Writer) error {
	cfg, ignored, err := f.fleetConfig()
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		command.Notes(stderr, []string{"a simulated server does not support " + strings.Join(ignored, ", ")})
	}
	endsWhenInterrupted(ctx)
	fl, err := fleet.Start(cfg)
	if err != nil {
		return err
	}
	fl.Describe(stdout)
	if own := max(cfg.Scenario.Replicas, 1); f.serve.fault != "" && f.Replicas > own {
		fmt.Fprintf(stdout, "The traffic is %.3g times what is described below, for %d replicas.\n",
			float64(f.Replicas)/float64(own), f.Replicas)
	}
	for i, p := range cfg.Scenario.Phases {
		if err = fl.Wait(ctx, i); err != nil {
			break
		}
		if p.Tell != "" {
			fmt.Fprintf(stdout, "%s  %s: %s\n", time.Now().Format(time.TimeOnly), p.Name, p.Tell)
		}
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(fl.Close(), fl.Err())
}

// fleetConfig returns the configuration of the servers, and the engine's arguments that simulated servers ignore.
func (f *simulateFlags) fleetConfig() (cfg fleet.Config, ignored []string, err error) {
	v := &f.serve
	cfg = fleet.Config{
		Addr: v.addr, Exporter: v.exporter, Accelerate: v.accelerate,
		Replicas: f.Replicas, Seed: f.Load.Seed, Scenario: fleet.WithoutTraffic(),
	}
	if f.ReleaseOf != "" {
		if cfg.Release, err = fleet.ParseRelease(f.ReleaseOf); err != nil {
			return cfg, nil, fmt.Errorf("--%s: %w", asked.FlagRelease, err)
		}
	}
	if v.fault != "" {
		if cfg.Scenario, err = fleet.FindScenario(pathologies.All(), v.fault); err != nil {
			return cfg, nil, fmt.Errorf("--fault: %w", err)
		}
		cfg.Scenario = cfg.Scenario.Over(f.Replicas)
	}
	args, err := vllm.Engine.Flags.CheckArgs(f.EngineArgs, "--"+asked.FlagArgs, cfg.Release)
	if err != nil {
		return cfg, nil, err
	}
	cfg.Model = args[servedModelName].Value
	delete(args, servedModelName)
	if cfg.Scenario.Settings, ignored, err = cfg.Scenario.Settings.With(args); err != nil {
		return cfg, nil, fmt.Errorf("--%s: %w", asked.FlagArgs, err)
	}
	switch v.exporter {
	case "off":
		cfg.Exporter = ""
	case "":
		if cfg.Exporter, err = fleet.OffsetPort(v.addr, exporterOffset); err != nil {
			return cfg, nil, hint.With(fmt.Errorf("--serve: %w", err),
				"write it like :8000, or choose --gpu-exporter yourself")
		}
	}
	return cfg, ignored, nil
}
