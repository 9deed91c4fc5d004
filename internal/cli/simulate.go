package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/simreport"
	"github.com/sixty-dev/sixty/internal/sim"
)

// simulateFlags are the flags of simulate as they were given.
type simulateFlags struct {
	planFlags
	planning.Simulation // what needs no reading; question adds the rest

	serve              serveFlags
	loadTest, stepCost string
	transfer           float64
	route              string
	sweeps             []string
	jsonFile, htmlFile string
}

const simulateLong = `Simulates vLLM's scheduler under a workload: what users would see, and what the batch,
the queue and the KV cache would do, with another configuration, more replicas, or
more load.

How long a step takes is fitted to what servers were seen to do: their own metrics
(a URL, a recording, --prometheus) or a load test's results (--load-test); without
either it is estimated from data sheets (--gpu, --model-config). The output says
which, how well it fits, and where the simulation goes beyond what was seen.

The workload is that of the servers which were measured, or --rate (Poisson, --cv 0
even, --cv 3 in bursts), or a --trace. A --sweep varies any setting of the engine, and
replicas, route, rate, rate-scale, speed, cv, prompt-tokens, output-tokens,
prefix-share and seed; two sweeps together give every combination.

With --serve it serves make-believe vLLM servers instead: the OpenAI API and vLLM's
metrics, from the same scheduler, and with --scenario a fault to find.`

const simulateExample = `  sixty simulate http://localhost:8000 --replicas 2
  sixty simulate http://localhost:8000 --engine-args "--max-num-seqs 256" --sweep max-num-seqs=32,64,128,256
  sixty simulate incident.tar.zst --window 45s --sweep rate-scale=0.5:3:0.25 --use-case chat --html report.html
  sixty simulate --load-test run.csv --engine-args "$ARGS" --trace azure.csv --sweep speed=1,2,4 --sweep replicas=1,2
  sixty simulate --gpu H100 --model-config config.json --rate 5 --sweep max-num-seqs=64,256,1024
  sixty simulate --serve :8000 --scenario kv-cache-thrashing`

func newSimulateCommand() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{
		Use:     "simulate [URL… | RECORDING]",
		Short:   "Say what a change of configuration, replicas or load would do",
		Long:    simulateLong,
		Example: simulateExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.serve.addr != "" {
				return f.runServers(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if err := f.serve.stray(cmd.Flags().Changed); err != nil {
				return err
			}
			givenWorkload(cmd.Flags(), &f.Load)
			if cmd.Flags().Changed("replicas") && f.Replicas < 1 {
				return fmt.Errorf("--replicas %d: want 1 or more", f.Replicas)
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	s := cmd.Flags()
	f.planFlags.register(s, "text", "json", "html")
	registerWorkload(s, &f.Load, closedLoops|traces|scaledRates)
	s.StringVar(&f.loadTest, "load-test", "", "fit step times to a load test's `file`: sixty bench --csv, or vllm bench serve --save-detailed")
	s.StringVar(&f.stepCost, "step-cost", "", "step times that are known, such as '`base=8ms`, per-token=50us, knee=256'; also mixed, per-seq, per-kv, per-pair")
	s.IntVar(&f.Replicas, "replicas", 0, "engines behind a router (default: as many as were measured)")
	s.IntVar(&f.PrefillEngines, "prefill-engines", 0, "engines that compute prompts alone; the replicas then decode alone")
	s.Float64Var(&f.transfer, "transfer-rate", 25, "GB a second that one GPU of them sends of the KV cache")
	s.StringVar(&f.route, "route", "", "between replicas: round-robin, least-loaded or prefix-affinity (default: as measured, else round-robin)")
	s.StringArrayVar(&f.sweeps, "sweep", nil, "vary a parameter: `max-num-seqs=16,32,64` or rate=1:20:1; may be given twice")
	s.IntVar(&f.Samples, "samples", -1, "samples of the calibration that intervals rest on (default: as many as take little time)")
	s.BoolVar(&f.DropTooLarge, "drop-too-large", false, "leave out requests that no server of this configuration could ever serve")
	s.StringVar(&f.jsonFile, "json", "", "write the result as JSON to a `file`")
	s.StringVar(&f.htmlFile, "html", "", "write a report with plots to a `file`")
	f.serve.register(s)
	return cmd
}

// check refuses flags that contradict each other.
func (f *simulateFlags) check(args []string) error {
	if err := f.source.check(args); err != nil {
		return err
	}
	switch {
	case f.stepCost != "" && f.loadTest != "":
		return errors.New("--step-cost and --load-test both say how long steps take: give one")
	case (f.gpu == "") != (f.modelConfig == "") && f.loadTest == "" && f.stepCost == "" && !f.source.given():
		return hint.With(errors.New("an estimate of step times needs both --gpu and --model-config"), "give the GPU's name and the model's config.json")
	case len(f.gpus()) > 1:
		return hint.With(fmt.Errorf("--gpu %s: a simulation is of one kind", f.gpu), "sixty tune compares several")
	case f.PrefillEngines < 0 || !(f.transfer > 0 && f.transfer < 1e5):
		return fmt.Errorf("--prefill-engines %d, --transfer-rate %g: want 0 or more engines, and a rate of more than 0", f.PrefillEngines, f.transfer)
	case f.Samples < -1:
		return fmt.Errorf("--samples %d is negative", f.Samples)
	case len(f.sweeps) > 2:
		return hint.With(fmt.Errorf("%d sweeps: more than two cannot be shown", len(f.sweeps)), "fix one of them with its flag")
	}
	return f.Load.Check()
}

// question reads what the flags name.
func (f *simulateFlags) question(ctx context.Context, stderr io.Writer) (err error) {
	f.Route, f.TransferRate = perfmodel.Route(f.route), f.transfer*1e9
	if f.Sweep, err = planning.ParseSweeps(f.sweeps); err != nil {
		return err
	}
	if f.Known, err = f.known(ctx, stderr, nil); err != nil {
		return err
	}
	if f.Trace, err = readTrace(f.Load.Trace, f.Load.TraceFormat); err == nil {
		err = timed(f.Trace)
	}
	if f.stepCost != "" && err == nil {
		var cost sim.StepCost
		cost, err = sim.ParseStepCost(f.stepCost)
		f.Cost, f.CostFrom = &cost, f.stepCost
	}
	return err
}

func (f *simulateFlags) run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	if err := f.question(ctx, stderr); err != nil {
		return err
	}
	model := f.source.model
	if f.Seen != nil {
		model = f.Seen.Model
	}
	objective, err := f.objective(model)
	if err != nil {
		return err
	}
	if f.loadTest != "" {
		file, err := os.Open(f.loadTest)
		if err != nil {
			return fmt.Errorf("open --load-test: %w", err)
		}
		defer file.Close()
		f.LoadTest, f.LoadTestFrom = file, f.loadTest
	}
	line := newProgress(stderr)
	defer line.clear()
	line.show("simulating")
	result, err := simreport.Simulate(ctx, &f.Simulation, objective)
	if err != nil {
		return err
	}
	line.clear()
	for path, write := range map[string]func(io.Writer) error{
		f.jsonFile: func(w io.Writer) error { return render.JSON(w, result) },
		f.htmlFile: func(w io.Writer) error { return simreport.HTML(w, result) },
	} {
		if path != "" {
			if err := fileio.Write(path, write); err != nil {
				return err
			}
		}
	}
	err = f.out.write(stdout, func(w io.Writer, o render.Options) error {
		switch f.out.form() {
		case "json":
			return render.JSON(w, result)
		case "html":
			return simreport.HTML(w, result)
		}
		return simreport.Text(w, result, f.out.full, o)
	})
	switch {
	case err != nil:
		return err
	case len(result.Missed) > 0:
		return errCannotTell
	case !result.Served():
		return errFound
	}
	return nil
}
