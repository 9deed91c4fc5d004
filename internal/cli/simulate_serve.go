package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// serveFlags are the flags with which simulate serves a make-believe fleet
// instead of printing what would be.
type serveFlags struct {
	Addr             string // "": do not serve
	scenario         string
	accelerate       float64
	router, exporter string
	model            string
	queueLimit       int
}

// Flags that the offline simulation has too; there they mean the same.
const (
	flagReplicas = "replicas"
	flagRelease  = "vllm-version"
	flagSeed     = "seed"
	flagArgs     = "engine-args"
)

func (f *serveFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.Addr, "serve", "", "serve make-believe vLLM servers at this `address`, such as :8000 (loopback unless a host is given)")
	fs.StringVar(&f.scenario, "scenario", "", "with --serve: traffic and a fault from inside, by the `name` of the pathology it leads to (default: only your traffic)")
	fs.Float64Var(&f.accelerate, "accelerate", 1, "with --serve: simulated seconds in a second")
	fs.StringVar(&f.router, "router", "", "with --serve: `address` of a router in front of the replicas")
	fs.StringVar(&f.exporter, "gpu-exporter", "", "with --serve: `address` of a make-believe dcgm-exporter (default: a port 1400 above; off: none)")
	fs.StringVar(&f.model, "served-model-name", "llama-8b", "with --serve: the model's `name`")
	fs.IntVar(&f.queueLimit, "max-num-queued-reqs", 0, "with --serve: answer 503 from so many requests on (0.29 and later)")
	if fs.Lookup(flagReplicas) == nil {
		fs.Int(flagReplicas, 0, "number of servers, on consecutive ports (default: what the scenario has)")
	}
	if fs.Lookup(flagRelease) == nil {
		fs.String(flagRelease, "", "the vLLM `release` whose metrics are imitated (default 0.23)")
	}
	if fs.Lookup(flagArgs) == nil {
		fs.String(flagArgs, "", "the servers' `arguments`, as vllm serve takes them")
	}
	if fs.Lookup(flagSeed) == nil {
		fs.Uint64(flagSeed, 1, "of everything random")
	}
}

// stray is the error of flags that need --serve and came without it.
func (f *serveFlags) stray(changed func(string) bool) error {
	for _, name := range []string{"scenario", "accelerate", "router", "gpu-exporter", "served-model-name", "max-num-queued-reqs"} {
		if changed(name) {
			return hint.With(fmt.Errorf("--%s goes with --serve", name), "add an address, such as --serve :8000")
		}
	}
	return nil
}

// run serves until it is interrupted.
func (f *serveFlags) run(cmd *cobra.Command) error {
	cfg, ignored, err := f.config(cmd.Flags())
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		notes(cmd.ErrOrStderr(), []string{"a make-believe server does not know " + strings.Join(ignored, ", ")})
	}
	endsWhenInterrupted(cmd.Context())
	fl, err := fleet.Start(cfg)
	if err != nil {
		return err
	}
	describeFleet(cmd.OutOrStdout(), fl, cfg)
	followPhases(cmd.Context(), cmd.OutOrStdout(), fl, cfg.Scenario)
	return errors.Join(fl.Close(), fl.Err())
}

// config also returns the flags of the engine that change nothing.
func (f *serveFlags) config(fs *pflag.FlagSet) (cfg fleet.Config, ignored []string, err error) {
	cfg = fleet.Config{Addr: f.Addr, Router: f.router, Exporter: f.exporter, Accelerate: f.accelerate, Model: f.model, MaxQueuedRequests: f.queueLimit}
	if cfg.Replicas, err = fs.GetInt(flagReplicas); err != nil {
		return cfg, nil, err
	}
	if cfg.Seed, err = fs.GetUint64(flagSeed); err != nil {
		return cfg, nil, err
	}
	release, err := fs.GetString(flagRelease)
	if err != nil {
		return cfg, nil, err
	}
	if release != "" {
		if cfg.Release, err = fleet.ParseRelease(release); err != nil {
			return cfg, nil, fmt.Errorf("--%s: %w", flagRelease, err)
		}
	}
	cfg.Scenario = fleet.Quiet()
	if f.scenario != "" {
		if cfg.Scenario, err = fleet.FindScenario(pathologies.All(), f.scenario); err != nil {
			return cfg, nil, fmt.Errorf("--scenario: %w", err)
		}
	}
	args, err := fs.GetString(flagArgs)
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Scenario.Settings, ignored, err = cfg.Scenario.Settings.With(engine.ParseArgs(args, "--"+flagArgs)); err != nil {
		return cfg, nil, fmt.Errorf("--%s: %w", flagArgs, err)
	}
	switch f.exporter {
	case "off":
		cfg.Exporter = ""
	case "":
		if cfg.Exporter, err = fleet.Neighbour(f.Addr, exporterOffset); err != nil {
			return cfg, nil, hint.With(fmt.Errorf("--serve: %w", err), "write it like :8000, or choose --gpu-exporter yourself")
		}
	}
	return cfg, ignored, nil
}

// exporterOffset leads from vLLM's usual port, 8000, to that of dcgm-exporter.
const exporterOffset = 1400

// describeFleet says where what is.
func describeFleet(w io.Writer, fl *fleet.Fleet, cfg fleet.Config) {
	release := cfg.Release
	if release == "" {
		release = fleet.DefaultRelease
	}
	fmt.Fprintf(w, "make-believe vLLM %s, model %s, scenario %s: %s\n", release, cfg.Model, cfg.Scenario.Name, cfg.Scenario.Title)
	for i, u := range fl.URLs() {
		fmt.Fprintf(w, "  replica %d     %s\n", i, u)
	}
	if u := fl.RouterURL(); u != "" {
		fmt.Fprintf(w, "  router        %s\n", u)
	}
	if u := fl.ExporterURL(); u != "" {
		fmt.Fprintf(w, "  GPU exporter  %s/metrics\n", u)
	}
	urls := append(fl.URLs(), strings.TrimSpace(fl.ExporterURL()))
	fmt.Fprintf(w, "try: sixty diagnose %s\n", strings.TrimSpace(strings.Join(urls, " ")))
	fmt.Fprintf(w, "     curl %s/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\":\"Hello\",\"max_tokens\":20,\"stream\":true}'\n", fl.URL(0))
	fmt.Fprintln(w, "end it with ctrl-C")
}

// followPhases tells of each phase of the scenario as it begins, until it is
// interrupted.
func followPhases(ctx context.Context, w io.Writer, fl *fleet.Fleet, sc fleet.Scenario) {
	for i, p := range sc.Phases {
		if err := fl.Wait(ctx, i); err != nil {
			return
		}
		if p.Tell != "" {
			fmt.Fprintf(w, "%s  %s: %s\n", time.Now().Format(time.TimeOnly), p.Name, p.Tell)
		}
	}
	<-ctx.Done()
}
