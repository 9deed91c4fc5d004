package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/load/campaign"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/source"
	"github.com/sixty-dev/sixty/internal/workload"
)

// benchFlags are the flags of bench as they were given.
type benchFlags struct {
	campaign.Asked // what campaign reads; read adds the rest

	http      httpFlags
	out       outputFlags
	objective string
	watch     time.Duration
}

func newBenchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:  "bench",
		Args: cobra.ExactArgs(1),
		RunE: f.run,
	}
	f.register(cmd)
	cmd.AddCommand(newBenchCompare(), newBenchMerge(), newBenchReport(), newBenchSelfTest(), newBenchTrace())
	return cmd
}

func (f *benchFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	f.http.register(s)
	s.StringVar(&f.API, "api", "", "which is asked (default: what the URL says, else chat)")
	s.StringVar(&f.Model, "model", "", "model `name` (default: the first that the server lists)")
	s.StringVar(&f.KeyEnv, "api-key-env", "", "environment `variable` that holds the API key")
	s.StringVar(&f.ExtraBody, "extra-body", "", "further fields of the request body as a `JSON` object; null removes one")
	s.BoolVar(&f.Whole, "no-stream", false, "ask for whole answers")
	s.BoolVar(&f.FreeEnd, "no-ignore-eos", false, "let the model end its answers (no ignore_eos, no min_tokens)")
	s.StringVar(&f.Counting, "token-counting", "auto", "how tokens in an event are counted")
	s.StringVar(&f.MaxTokensField, "max-tokens-field", "max_tokens", "body `field` for the number of tokens")
	s.StringVar(&f.Tokenizer, "tokenizer", "", "tokenizer.json `file` of the model (default: the server's /tokenize)")

	s.StringVar(&f.Scenario, "scenario", "", "`name`: low-load, saturation, long-prompts, long-outputs, burst or all; or a YAML file")
	s.Float64Var(&f.Scale, "scale", 1, "multiply a scenario's concurrency, requests and lengths")
	registerWorkload(s, &f.Config.Asked, closedLoops|traces|conversations)
	s.StringVar(&f.WorkloadFrom, "workload-from", "", "take lengths, prefix sharing and arrivals from a live server's `URL`, a recording, or prometheus=URL")
	s.DurationVar(&f.watch, "watch", time.Minute, "with --workload-from URL: measure for this long")
	s.IntVar(&f.MaxConcurrency, "max-concurrency", 0, "streams of an open loop; more requests wait (default 10000)")
	s.DurationVar(&f.Timeout, "timeout", 0, "of one request (default 10m)")
	s.DurationVar(&f.Drain, "drain", 0, "wait this long at the end for what is in flight (default: --timeout)")
	s.StringVar(&f.WarmupTime, "warmup", "auto", "time to leave out at the beginning, or auto")
	s.StringVar(&f.objective, "slo", "", "objective for goodput and search: "+strings.Join(slo.UseCases(), ", ")+", or a slo.yaml")
	s.StringArrayVar(&f.Asserts, "assert", nil, "condition such as 'ttft_p95<500ms'; exit 1 when it does not hold")
	s.IntVar(&f.Repeat, "repeat", 1, "run the test so often and merge the results")
	s.Float64Var(&f.Until, "until", 0, "with --repeat: stop when the P95s' intervals are within this share of their value")
	s.StringSliceVar(&f.Metrics, "metrics", []string{"auto"}, "`URLs` of metrics to scrape during the test: the servers', GPU exporters'; auto is the target's own, or none")
	f.out.register(s, "text", "json", "html")
	f.out.registerFull(s, "show every latency, the server's signals and the generator's judgement of itself")
	s.StringVar(&f.JSONFile, "json", "", "write the result as JSON to this `file` too")
	s.StringVar(&f.HTMLFile, "html", "", "write a report with plots to this `file` too")
	s.StringVar(&f.CSVFile, "csv", "", "write a line per request to this `file`")
	s.StringVar(&f.VLLMFile, "vllm-json", "", "write the result as vllm bench serve does to this `file`")
	s.StringVar(&f.BaselineFile, "save-baseline", "", "write thresholds for generate rules and diagnose to this `file`")

	s.StringVar(&f.Search, "search", "", "find the highest rate, or concurrency, that meets --slo")
	s.StringVar(&f.Levels, "sweep", "", "run the test at these levels of --search, such as 1,2,4,8")
	s.Float64Var(&f.SearchFrom, "search-from", 1, "lowest level of a search")
	s.Float64Var(&f.SearchTo, "search-to", 0, "highest level of a search (default: found by doubling)")
	s.Float64Var(&f.SearchPrecision, "search-precision", 0.05, "relative precision of a search")
	s.DurationVar(&f.Budget, "budget", 0, "begin no further trial of a search or repetition after this time")
	s.StringVar(&f.Resume, "resume", "", "file that keeps a search's trials, to go on after an interruption")
}

// objectiveFor finds the objective for a model, nil without --slo.
func (f *benchFlags) objectiveFor(model string) (*slo.Objective, error) {
	if slices.Contains(slo.UseCases(), f.objective) {
		return objectiveFor("", f.objective, model)
	}
	o, err := objectiveFor(f.objective, "", model)
	return o, hint.Or(err, "--slo takes "+strings.Join(slo.UseCases(), ", ")+", or a file")
}

// tuneRuntime keeps garbage collection, which costs the measured requests time,
// rare: nothing is allocated per event.
func tuneRuntime() (restore func()) {
	old := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(old) }
}

// read makes the campaign that the flags ask for.
func (f *benchFlags) read(stdout, stderr io.Writer) (err error) {
	f.Form, f.Full, f.OutFile = f.out.form(), f.out.full, f.out.file
	f.Terminal, f.Live = terminal(stdout, f.out.color), isTerminal(stderr)
	f.Stdout, f.Stderr, f.Saving, f.LastWords = stdout, stderr, saving, lastWords
	f.ObjectiveFor, f.Pathologies = f.objectiveFor, pathologies.All()
	if err := f.Check(); err != nil {
		return err
	}
	if f.HTTP, err = f.http.Config(); err != nil {
		return err
	}
	if f.Workload, _, err = f.Spec(nil); err != nil {
		return err
	}
	if f.WorkloadFrom != "" {
		f.Observe = func(ctx context.Context, model string) (*workload.Measured, error) {
			from := observedFlags{model: model, sourceFlags: sourceFlags{duration: f.watch, interval: source.DefaultInterval, http: f.http}}
			if err := from.check([]string{f.WorkloadFrom}); err != nil {
				return nil, err
			}
			return from.observe(ctx, stderr)
		}
	}
	return f.Read()
}

func (f *benchFlags) run(cmd *cobra.Command, args []string) error {
	defer tuneRuntime()()
	f.URL, f.Given = args[0], cmd.Flags().Changed
	givenWorkload(cmd.Flags(), &f.Config.Asked)
	stdout := cmd.OutOrStdout()
	var answer bytes.Buffer // for --out
	if f.out.file != "" {
		stdout = &answer
	}
	if err := f.read(stdout, cmd.ErrOrStderr()); err != nil {
		return err
	}
	err := campaign.Run(cmd.Context(), f.Config)
	if answer.Len() > 0 {
		err = errors.Join(err, f.out.write(nil, func(w io.Writer, _ render.Options) error {
			_, err := answer.WriteTo(w)
			return err
		}))
	}
	if errors.Is(err, campaign.ErrMissed) {
		return errFound
	}
	return err
}
