// Package campaign runs one invocation of sixty bench: the tests of scenarios, of a trace or of a measured workload,
// or a search for capacity. It writes the results to files. Package load runs a single test.
package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/common/config"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/loadreport"
	"github.com/sixty-dev/sixty/internal/load/serverside"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Config selects the tests and the files for their results.
type Config struct {
	Target  load.Target
	Metrics []string                // pages to scrape during the tests, in the syntax of serverside.FindMetricsURLs
	HTTP    config.HTTPClientConfig // for the pages

	// The workload: Scenario, or the trace or the lengths of Asked.
	workload.Asked
	Scenario        string  // a name, or "all"
	Scale           float64 // multiplies a scenario's concurrency, requests and lengths
	Prompts         []load.Prompt
	Timeout, Warmup time.Duration
	// Observe measures the workload of running servers of a model. It may be nil.
	Observe func(ctx context.Context, model string) (*workload.Measured, error)

	// The judgement.
	ObjectiveFor func(model string) (*slo.Objective, error) // nil: no objective
	Assertions   []load.Assertion
	Pathologies  []*catalog.Pathology

	// The search for "rate" or "concurrency", between two levels.
	Search               string
	SearchFrom, SearchTo float64

	Files  Files
	Stderr io.Writer
	Live   bool // Stderr is a terminal
	// called when the results are about to be written
	Saving func(context.Context)
	// returns the context for output after an interrupt
	LastWords func(context.Context) (context.Context, context.CancelFunc)
}

// Files are the paths of result files; "" for none.
type Files struct {
	Result, CSV, Baseline string
	Out                   string // the report, which the caller writes
}

// Found holds the results of a campaign.
type Found struct {
	Results []*load.Result
	Search  *load.Found // nil without a search
	unit    string      // unit of the search's levels
}

// Document returns the report on all results.
func (f *Found) Document() *render.Document {
	return loadreport.Document(f.Search, f.unit, f.Results...)
}

// Value returns the JSON value: a search, a result, or several.
func (f *Found) Value() any {
	switch {
	case f.Search != nil:
		return f.Search
	case len(f.Results) == 1:
		return f.Results[0]
	}
	return f.Results
}

// Errors of a campaign with results.
var (
	// ErrSpoiled means that the generator distorted a result.
	ErrSpoiled = errors.New("the load generator distorted the result")
	// ErrMissed means that an assertion failed, or that no level met the objective.
	ErrMissed = errors.New("an assertion or objective failed")
)

// A campaign is one invocation.
type campaign struct {
	Config
	probed    *load.Probed
	objective *slo.Objective
	servers   []string // metrics pages to scrape during the tests
}

// A testPlan is one test to run.
type testPlan struct {
	cfg load.Config
	set load.Settings
}

// Run runs the tests or the search. It returns the results so far together with an error.
func Run(ctx context.Context, c Config) (*Found, error) {
	b := &campaign{Config: c}
	scenarios, err := c.findScenarios()
	if err != nil {
		return nil, err
	}
	if b.probed, err = load.Probe(ctx, c.Target); err != nil {
		return nil, err
	}
	if b.objective, err = c.ObjectiveFor(b.probed.Target.Model); err != nil {
		return nil, err
	}
	if c.Search != "" && b.objective == nil {
		return nil, hint.With(fmt.Errorf("--slo has no objective for model %s", b.probed.Target.Model),
			"add one, or pass --slo chat")
	}
	if b.servers, err = serverside.FindMetricsURLs(ctx, c.Target.URL, c.Metrics, c.HTTP); err != nil {
		return nil, err
	}
	if c.Search != "" {
		return b.searchCapacity(ctx)
	}
	return b.runTests(ctx, scenarios)
}

// newPlans makes the tests that the flags ask for.
func (b *campaign) newPlans(ctx context.Context, scenarios []load.Scenario) ([]testPlan, error) {
	if b.Trace != "" {
		p, err := b.replayPlan()
		return []testPlan{p}, err
	}
	if b.Scenario == "" {
		s, seen, err := b.syntheticScenario(ctx)
		if err != nil {
			return nil, err
		}
		if b.Concurrency == 0 {
			a, _, err := b.Arrivals(seen)
			if err != nil {
				return nil, err
			}
			a = b.Repeat(a, seen)
			s.Arrivals = &a
		}
		scenarios = []load.Scenario{s}
	}
	var plans []testPlan
	for i := range scenarios {
		p, err := b.newPlan(&scenarios[i])
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// syntheticScenario returns the scenario that the flags describe, and the workload that was measured for it, which is
// nil without --workload-from.
func (b *campaign) syntheticScenario(ctx context.Context) (s load.Scenario, seen *workload.Measured, err error) {
	if b.Observe != nil {
		if seen, err = b.Observe(ctx, b.Target.Model); err != nil {
			return s, nil, fmt.Errorf("--workload-from: %w", err)
		}
	}
	spec, _, err := b.Spec(seen)
	if err != nil {
		return s, nil, err
	}
	if seen != nil {
		fmt.Fprintf(b.Stderr, "measured on %s: %.0f requests in %s; prompts %s, outputs %s, %.0f %% of the prompt "+
			"shared\n",
			seen.Source, seen.Workload.Requests(), seen.To.Sub(seen.From).Round(time.Second),
			spec.Prompt, spec.Output, 100*spec.PrefixShare)
	}
	return load.Scenario{
		Workload: spec, Concurrency: b.Concurrency, Requests: b.Requests, Duration: b.Duration,
	}, seen, nil
}

// findScenarios returns the scenarios that Scenario names, at the asked scale and length.
func (c *Config) findScenarios() (out []load.Scenario, err error) {
	switch c.Scenario {
	case "":
		return nil, nil
	case "all":
		out = load.Scenarios()
	default:
		s, err := load.FindScenario(c.Scenario)
		if err != nil {
			return nil, err
		}
		out = []load.Scenario{s}
	}
	for i := range out {
		s := &out[i]
		if *s, err = s.Scale(c.Scale); err != nil {
			return nil, err
		}
		s.Requests, s.Duration = cmp.Or(c.Requests, s.Requests), c.Duration
	}
	return out, nil
}

// baseConfig returns the part of a test that does not depend on its load.
func (b *campaign) baseConfig() load.Config {
	return load.Config{
		Target: b.probed.Target, Vocabulary: b.probed.Vocabulary, Prompts: b.Prompts, Timeout: b.Timeout, Seed: b.Seed,
	}
}

// newPlan returns the test of a scenario.
func (b *campaign) newPlan(s *load.Scenario) (testPlan, error) {
	cfg := b.baseConfig()
	cfg.Concurrency, cfg.Arrivals = s.Concurrency, s.Arrivals
	cfg.MaxRequests, cfg.Duration = s.Requests, s.Duration
	var err error
	if cfg.Source, err = workload.NewGenerator(s.Workload, b.Seed); err != nil {
		return testPlan{}, err
	}
	return testPlan{cfg, load.Settings{
		Name: s.Name, Workload: s.Workload,
		Load: load.Shape{Concurrency: s.Concurrency, Arrivals: s.Arrivals, Asked: s.Requests, Seed: b.Seed},
	}}, nil
}

func (b *campaign) replayPlan() (testPlan, error) {
	file, err := os.Open(b.Trace)
	if err != nil {
		return testPlan{}, fmt.Errorf("open --trace: %w", err)
	}
	defer file.Close()
	t, err := workload.Read(file)
	if err != nil {
		return testPlan{}, err
	}
	for reason, n := range t.Skipped {
		fmt.Fprintf(b.Stderr, "warning: %d lines of the trace were left out: %s\n", n, reason)
	}
	if t.Truncated {
		fmt.Fprintf(b.Stderr, "warning: the trace is longer than %d requests; the rest is left out\n", len(t.Requests))
	}
	cfg := b.baseConfig()
	cfg.Trace, cfg.MaxRequests, cfg.Duration = true, b.Requests, b.Duration
	if cfg.Source, err = workload.NewReplay(t, b.Speed, workload.UsualOutput); err != nil {
		return testPlan{}, err
	}
	return testPlan{cfg, load.Settings{
		Load: load.Shape{Trace: t.Format, Speed: b.Speed, Asked: len(t.Requests), Seed: b.Seed},
	}}, nil
}

// runTests runs the plans one after another.
func (b *campaign) runTests(ctx context.Context, scenarios []load.Scenario) (*Found, error) {
	plans, err := b.newPlans(ctx, scenarios)
	if err != nil {
		return nil, err
	}
	found := &Found{}
	var last *load.Recording
	for i := range plans {
		res, rec, err := b.runTest(ctx, &plans[i], nil)
		switch {
		case err != nil && i == 0:
			return nil, err
		case err != nil:
			return found, err
		}
		found.Results, last = append(found.Results, res), rec
		if _, answer := loadreport.Answer(res); len(plans) > 1 {
			fmt.Fprintf(b.Stderr, "%s: %s\n", res.Name, answer)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := b.writeFiles(found, last); err != nil {
		return found, err
	}
	return found, b.judgeResults(found.Results)
}

// runTest runs one test. lost, if not nil, may end it early.
func (b *campaign) runTest(
	ctx context.Context, p *testPlan, lost func(load.Progress) bool,
) (*load.Result, *load.Recording, error) {
	r, err := load.New(p.cfg)
	if err != nil {
		return nil, nil, err
	}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch *serverside.Watch
	if len(b.servers) > 0 {
		if watch, err = serverside.Begin(ctx, b.servers, b.HTTP, b.Pathologies); err != nil {
			return nil, nil, err
		}
		defer watch.Close()
	}
	var tokens int64
	rec, err := r.Run(runCtx, time.Second, func(x load.Progress) {
		if b.Live {
			fmt.Fprintf(b.Stderr, "\r\x1b[K%s %s", p.set.Name,
				loadreport.Progress(x, x.OutputTokens-tokens, time.Second))
		}
		tokens = x.OutputTokens
		if lost != nil && lost(x) {
			cancel()
		}
	})
	if b.Live {
		fmt.Fprint(b.Stderr, "\r\x1b[K")
	}
	cancel()
	if err != nil {
		return nil, nil, err
	}
	b.Saving(ctx)
	t := &b.probed.Target
	p.set.Objective, p.set.Warmup = b.objective, b.Warmup
	p.set.Target = load.Asked{
		URL: source.Redacted(t.URL), API: t.API, Model: t.Model, Version: b.probed.Version,
		Prompts: b.probed.Vocabulary.Source,
	}
	if len(b.Prompts) > 0 {
		p.set.Target.Prompts = "own"
	}
	res := load.Summarize(rec, p.set)
	res.Notes = append(res.Notes, b.probed.Notes...)
	if watch != nil {
		// An interrupt ends the test, but not its judgement.
		last, done := b.LastWords(ctx)
		res.Server = watch.Judge(last, res, b.objective)
		done()
	}
	return res, rec, nil
}

// writeFiles writes the requested files.
func (b *campaign) writeFiles(f *Found, rec *load.Recording) error {
	for _, o := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{b.Files.Result, func(w io.Writer) error { return render.JSON(w, f.Value()) }},
		{b.Files.CSV, func(w io.Writer) error { return loadreport.CSV(w, rec) }},
		{b.Files.Baseline, func(w io.Writer) error {
			capacity := 0.0
			if f.Search != nil && f.Search.Best != nil && b.Search == "rate" {
				capacity = f.Search.Best.Level
			}
			base, err := load.NewBaseline(f.Results[len(f.Results)-1], b.objective, capacity, time.Now())
			if err != nil {
				return err
			}
			return render.JSON(w, base)
		}},
	} {
		if o.path == "" || len(f.Results) == 0 {
			continue
		}
		if err := fileio.Write(o.path, o.write); err != nil {
			return err
		}
	}
	return nil
}

// judgeResults turns assertions and the generator's judgement into an error, which gives the exit code.
func (b *campaign) judgeResults(results []*load.Result) error {
	failed, spoiled, complete, gone := false, []string(nil), 0, 0.0
	for _, r := range results {
		gone = max(gone, r.Gone)
		complete += r.Requests.Complete
		if r.Generator.Spoiled {
			spoiled = append(spoiled, r.Generator.Reasons...)
		}
		for _, a := range b.Assertions {
			if v, ok := a.Check(r); !ok {
				failed = true
				fmt.Fprintf(b.Stderr, "assertion %s failed: it is %s\n", a, a.Format(v))
			}
		}
	}
	switch {
	case complete == 0:
		return hint.With(errors.New("no request was answered"), "see the failures above, and the server's log")
	case gone > 0:
		return hint.With(fmt.Errorf("the server went away after %.1f s", gone),
			"see its log; the measurements until then are in the result")
	case len(spoiled) > 0:
		return hint.With(ErrSpoiled, "give the load generator more CPUs, or its own machine, or reduce the load")
	case failed:
		return ErrMissed
	}
	return nil
}
