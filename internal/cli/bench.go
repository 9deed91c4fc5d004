package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/campaign"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/source"
	"github.com/sixty-dev/sixty/internal/workload"
)

// benchFlags are the flags of bench as they were given.
type benchFlags struct {
	campaign.Config // what needs no reading; config adds the rest

	given func(flag string) bool // on the command line

	api, model, keyEnv, caFile, extraBody, counting, maxTokensField, tokenizer string
	headers                                                                    []string
	insecure, noStream, noIgnoreEOS                                            bool

	workloadFrom, warmup, sweep, format, objective string
	watch                                          time.Duration
	asserts                                        []string
}

const benchLong = `Sends a workload to an OpenAI-compatible server and measures what its users would see.

Latencies are given from the moment a request was due and from the moment it was
sent. Percentiles come with their intervals, the warm-up is left out, failures are
counted, and the generator judges itself: a result that it spoiled is marked, and
the command then exits with 2.

Exit codes: 0 done, 1 an --assert does not hold or a comparison is worse, 2 the
server could not be measured.`

const benchExample = `  sixty bench http://localhost:8000 --scenario saturation
  sixty bench http://localhost:8000 --scenario all --scale 0.25 --html report.html
  sixty bench http://localhost:8000 --rate 5 --duration 2m --prompt-tokens lognormal:800,1.2 --output-tokens 200
  sixty bench http://localhost:8000 --trace trace.jsonl --speed 2
  sixty bench http://localhost:8000 --workload-from http://prod:8000 --search rate --slo chat
  sixty bench http://localhost:8000 --concurrency 32 --duration 1m --assert 'ttft_p95<500ms'
  sixty bench compare before.json after.json`

func newBenchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:     "bench URL",
		Short:   "Load test; derives thresholds; refuses results that the generator itself spoiled",
		Long:    benchLong,
		Example: benchExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.given = cmd.Flags().Changed
			givenWorkload(cmd.Flags(), &f.Asked)
			return runBench(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], f)
		},
	}
	f.register(cmd)
	cmd.AddCommand(newBenchCompare(), newBenchMerge(), newBenchReport(), newBenchSelfTest(), newBenchTrace())
	return cmd
}

func (f *benchFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.api, "api", "", "chat or completions (default: what the URL says, else chat)")
	s.StringVar(&f.model, "model", "", "model name (default: the first that the server lists)")
	s.StringVar(&f.keyEnv, "api-key-env", "", "environment variable that holds the API key")
	s.StringVar(&f.caFile, "ca-file", "", "PEM file of certificate authorities to trust")
	s.BoolVar(&f.insecure, "insecure", false, "do not verify the server's certificate")
	s.StringArrayVar(&f.headers, "header", nil, "further header, as 'Name: value'")
	s.StringVar(&f.extraBody, "extra-body", "", "further fields of the request body as a JSON object; null removes one")
	s.BoolVar(&f.noStream, "no-stream", false, "ask for whole answers")
	s.BoolVar(&f.noIgnoreEOS, "no-ignore-eos", false, "let the model end its answers (no ignore_eos, no min_tokens)")
	s.StringVar(&f.counting, "token-counting", "auto", "how tokens in an event are counted: auto, usage, final or events")
	s.StringVar(&f.maxTokensField, "max-tokens-field", "max_tokens", "body field for the number of tokens")
	s.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer.json of the model (default: the server's /tokenize)")

	s.StringVar(&f.Scenario, "scenario", "", "low-load, saturation, long-prompts, long-outputs, burst, all, or a YAML file")
	s.Float64Var(&f.Scale, "scale", 1, "multiply a scenario's concurrency, requests and lengths")
	registerWorkload(s, &f.Asked, closedLoops|traces|conversations)
	s.StringVar(&f.workloadFrom, "workload-from", "", "take lengths, prefix sharing and arrivals from a live server's `URL`, a recording, or prometheus=URL")
	s.DurationVar(&f.watch, "watch", time.Minute, "with --workload-from URL: measure for this long")
	s.IntVar(&f.MaxConcurrency, "max-concurrency", 0, "streams of an open loop; more requests wait (default 10000)")
	s.DurationVar(&f.Timeout, "timeout", 0, "of one request (default 10m)")
	s.DurationVar(&f.Drain, "drain", 0, "wait this long at the end for what is in flight (default: --timeout)")
	s.StringVar(&f.warmup, "warmup", "auto", "time to leave out at the beginning, or auto")
	s.StringVar(&f.objective, "slo", "", "objective for goodput and search: "+strings.Join(slo.UseCases(), ", ")+", or a slo.yaml")
	s.StringArrayVar(&f.asserts, "assert", nil, "condition such as 'ttft_p95<500ms'; exit 1 when it does not hold")
	s.IntVar(&f.Repeat, "repeat", 1, "run the test so often and merge the results")
	s.Float64Var(&f.Until, "until", 0, "with --repeat: stop when the P95s' intervals are within this share of their value")
	s.StringSliceVar(&f.Metrics, "metrics", []string{"auto"}, "`URLs` of metrics to scrape during the test: the servers', GPU exporters'; auto is the target's own, or none")
	s.StringVar(&f.format, "output", "text", "text or json, on standard output")
	s.StringVar(&f.JSONFile, "json", "", "write the result as JSON to a file")
	s.StringVar(&f.HTMLFile, "html", "", "write a report to a file")
	s.StringVar(&f.CSVFile, "csv", "", "write a line per request to a file")
	s.StringVar(&f.VLLMFile, "vllm-json", "", "write the result as vllm bench serve does to a file")
	s.StringVar(&f.BaselineFile, "baseline", "", "write thresholds for rules and diagnose to a file")

	s.StringVar(&f.Search, "search", "", "find the highest rate, or concurrency, that meets --slo")
	s.StringVar(&f.sweep, "sweep", "", "run the test at these levels of --search, such as 1,2,4,8")
	s.Float64Var(&f.SearchFrom, "search-from", 1, "lowest level of a search")
	s.Float64Var(&f.SearchTo, "search-to", 0, "highest level of a search (default: found by doubling)")
	s.Float64Var(&f.SearchPrecision, "search-precision", 0.05, "relative precision of a search")
	s.DurationVar(&f.Budget, "budget", 0, "begin no further trial of a search or repetition after this time")
	s.StringVar(&f.Resume, "resume", "", "file that keeps a search's trials, to go on after an interruption")
}

// target makes a load.Target of the flags.
func (f *benchFlags) target(url string) (load.Target, error) {
	t := load.Target{URL: url, API: load.API(f.api), Model: f.model, Stream: !f.noStream, IgnoreEOS: !f.noIgnoreEOS,
		Counting: load.TokenCounting(f.counting), MaxTokensField: f.maxTokensField}
	if f.keyEnv != "" {
		if t.Key = os.Getenv(f.keyEnv); t.Key == "" {
			return t, hint.With(fmt.Errorf("environment variable %s is empty", f.keyEnv), "export the API key in it")
		}
	}
	for _, h := range f.headers {
		k, v, ok := strings.Cut(h, ":")
		if !ok {
			return t, hint.With(fmt.Errorf("header %q has no colon", k), "write it as 'Name: value'")
		}
		if t.Headers == nil {
			t.Headers = map[string]string{}
		}
		t.Headers[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	if f.extraBody != "" {
		if err := json.Unmarshal([]byte(f.extraBody), &t.Extra); err != nil {
			return t, hint.With(fmt.Errorf("--extra-body: %w", err), `write it as '{"top_p": 0.9}'`)
		}
	}
	var err error
	t.TLS, err = tlsOf("--ca-file", f.caFile, f.insecure)
	return t, err
}

// tlsOf says how a server's certificate is verified: by the authority in a file, or
// not at all; nil for the usual way.
func tlsOf(flag, file string, insecure bool) (*tls.Config, error) {
	if file == "" && !insecure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} //nolint:gosec // on the user's word
	if file == "" {
		return c, nil
	}
	pem, err := fileio.Read(file, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", flag, err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %s holds no certificate", flag, file)
	}
	return c, nil
}

// objectiveFor finds the objective for a model, nil without --slo.
func (f *benchFlags) objectiveFor(model string) (*slo.Objective, error) {
	if f.objective == "" {
		return nil, nil
	}
	if o, err := slo.ForUseCase(f.objective); err == nil {
		return &o, nil
	}
	b, err := fileio.Read(f.objective, 1<<20)
	if err != nil {
		return nil, hint.With(err, "--slo takes "+strings.Join(slo.UseCases(), ", ")+", or a file")
	}
	file, err := slo.Parse(f.objective, b)
	if err != nil {
		return nil, err
	}
	o, ok := file.For(map[string]string{"model": model, "model_name": model})
	if !ok {
		return nil, hint.With(fmt.Errorf("%s has no objective for model %q", f.objective, model), `add one with model: "*"`)
	}
	return &o, nil
}

// warmupTime parses --warmup.
func (f *benchFlags) warmupTime() (time.Duration, error) {
	if f.warmup == "auto" {
		return load.AutoWarmup, nil
	}
	d, err := time.ParseDuration(f.warmup)
	if err != nil || d < 0 {
		return 0, hint.With(fmt.Errorf("--warmup %q", f.warmup), "write it as 30s, 0s or auto")
	}
	return d, nil
}

// check refuses flags that contradict each other.
func (f *benchFlags) check() error {
	ways := 0
	for _, set := range []bool{f.Scenario != "", f.Concurrency != 0, f.Rate != "", f.Trace != "", f.Search != ""} {
		if set {
			ways++
		}
	}
	switch {
	case ways == 0 && f.workloadFrom == "":
		return hint.With(errors.New("no load was asked for"), "pass --scenario, --concurrency, --rate, --trace, --workload-from or --search")
	case ways > 1:
		return hint.With(errors.New("--scenario, --concurrency, --rate, --trace and --search exclude each other"), "pass one of them")
	case f.Search != "" && f.Search != "rate" && f.Search != "concurrency":
		return fmt.Errorf("--search %q: want rate or concurrency", f.Search)
	case f.Search != "" && f.objective == "" && f.sweep == "":
		return hint.With(errors.New("a search needs an objective"), "pass --slo chat, or a slo.yaml")
	case f.sweep != "" && f.Search == "":
		return hint.With(errors.New("--sweep needs to know of what"), "pass --search rate or --search concurrency")
	case f.format != "text" && f.format != "json":
		return fmt.Errorf("--output %q: want text or json", f.format)
	case f.Repeat < 1 || f.Repeat > 1000:
		return fmt.Errorf("--repeat %d: want 1 to 1000", f.Repeat)
	case (f.CSVFile != "" || f.VLLMFile != "") && (f.Scenario == "all" || f.Search != "" || f.Repeat > 1):
		return hint.With(errors.New("--csv and --vllm-json work for a single test only"), "leave --repeat, --search and --scenario all out, or write the results with --json")
	}
	return f.useless()
}

// writable makes sure, before any load is sent, that the results can be written.
func (f *benchFlags) writable() error {
	for _, x := range []struct{ flag, path string }{{"json", f.JSONFile}, {"html", f.HTMLFile}, {"csv", f.CSVFile}, {"vllm-json", f.VLLMFile}, {"baseline", f.BaselineFile}, {"resume", f.Resume}} {
		if x.path == "" {
			continue
		}
		tmp, err := os.CreateTemp(filepath.Dir(x.path), "."+filepath.Base(x.path)+".*")
		if err != nil {
			return hint.With(fmt.Errorf("--%s %s: %w", x.flag, x.path, errors.Unwrap(err)), "name a file in a directory that exists and may be written to")
		}
		tmp.Close()
		os.Remove(tmp.Name())
	}
	return nil
}

// useless refuses flags that would do nothing beside the others: a test that does
// not do what was asked is worse than none.
func (f *benchFlags) useless() error {
	measured := f.workloadFrom != ""
	made := f.Scenario == "" && f.Trace == ""
	for _, x := range []struct {
		flags  string
		useful bool
		goesBy string
	}{
		{"prompt-tokens output-tokens prefix-share", made && !measured, "a made-up workload; scenarios, traces and --workload-from have their own"},
		{"turns think-time system-tokens prefix-groups cancel-share", made, "a made-up workload; scenarios and traces have their own"},
		{"think-time", f.Turns != "", "--turns"},
		{"scale", f.Scenario != "", "--scenario"},
		{"cv", f.Rate != "" || f.Search == "rate", "--rate or --search rate"},
		{"speed trace-format trace-from trace-length", f.Trace != "", "--trace"},
		{"workload-from", made, "--rate, --concurrency or --search; scenarios and traces have a workload"},
		{"watch", measured, "--workload-from URL"},
		{"max-concurrency", f.Scenario == "" && f.Concurrency == 0 && f.Search != "concurrency", "an open loop: --rate, --trace or --search rate"},
		{"until", f.Repeat > 1, "--repeat"},
		{"budget", f.Repeat > 1 || f.Search != "", "--repeat or --search"},
		{"search-from search-to search-precision resume", f.Search != "" && f.sweep == "", "--search, without --sweep"},
		{"repeat", f.Search == "", "a single level; a search makes each trial once"},
	} {
		if x.useful {
			continue
		}
		for flag := range strings.FieldsSeq(x.flags) {
			if f.given(flag) {
				return hint.With(fmt.Errorf("--%s would do nothing here", flag), "it goes with "+x.goesBy)
			}
		}
	}
	return nil
}

// tuneRuntime keeps garbage collection, which costs the measured requests time,
// rare: nothing is allocated per event.
func tuneRuntime() (restore func()) {
	old := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(old) }
}

// config makes the campaign that the flags ask for.
func (f *benchFlags) config(url string, stdout, stderr io.Writer) (c campaign.Config, err error) {
	c = f.Config
	c.ObjectiveFor, c.Pathologies, c.JSON = f.objectiveFor, pathologies.All(), f.format == "json"
	c.Terminal = terminal(stdout, "auto")
	c.Stdout, c.Stderr, c.Live, c.Saving, c.LastWords = stdout, stderr, newProgress(stderr).on, saving, lastWords
	for _, a := range f.asserts {
		x, err := load.ParseAssertion(a)
		if err != nil {
			return c, err
		}
		c.Assertions = append(c.Assertions, x)
	}
	if c.Warmup, err = f.warmupTime(); err != nil {
		return c, err
	}
	if c.Workload, _, err = f.Spec(nil); err != nil {
		return c, err
	}
	if c.Target, err = f.target(url); err != nil {
		return c, err
	}
	if f.tokenizer != "" {
		file, err := os.Open(f.tokenizer)
		if err != nil {
			return c, fmt.Errorf("open --tokenizer: %w", err)
		}
		defer file.Close()
		if c.Vocabulary, err = load.ReadTokenizer(file); err != nil {
			return c, err
		}
	}
	if f.sweep != "" {
		for s := range strings.SplitSeq(f.sweep, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
			if err != nil || !(v > 0) {
				return c, hint.With(fmt.Errorf("--sweep: %q is no level", s), "write it as 1,2,4,8")
			}
			c.Sweep = append(c.Sweep, v)
		}
	}
	if f.workloadFrom != "" {
		c.Observe = func(ctx context.Context, model string) (*workload.Measured, error) {
			from := observedFlags{model: model, sourceFlags: sourceFlags{duration: f.watch, interval: source.DefaultInterval}}
			if err := from.check([]string{f.workloadFrom}); err != nil {
				return nil, err
			}
			return from.observe(ctx, stderr)
		}
	}
	return c, nil
}

func runBench(ctx context.Context, stdout, stderr io.Writer, url string, f *benchFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.writable(); err != nil {
		return err
	}
	defer tuneRuntime()()
	c, err := f.config(url, stdout, stderr)
	if err != nil {
		return err
	}
	if err := campaign.Run(ctx, c); !errors.Is(err, campaign.ErrMissed) {
		return err
	}
	return errFound
}
