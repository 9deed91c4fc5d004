// Package campaign makes the tests of one invocation of sixty bench: those of scenarios, a
// trace or a workload that was measured, and the search for capacity. It writes results to files.
// Package load makes a single test.
package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
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

// Config says what to test, and where the results go.
type Config struct {
	Target  load.Target
	Metrics []string                // pages to scrape during the tests, as serverside.FindMetricsURLs takes them
	HTTP    config.HTTPClientConfig // how those are asked

	// What is sent: one of Scenario, and the trace or the lengths of Asked.
	workload.Asked
	Scenario        string  // a name, "all", or a YAML file
	Scale           float64 // of a scenario's concurrency, requests and lengths
	MaxConcurrency  int
	Timeout, Warmup time.Duration
	// Observe, which may be nil, measures the workload of running servers of a model.
	Observe func(ctx context.Context, model string) (*workload.Measured, error)

	// How it is judged.
	ObjectiveFor func(model string) (*slo.Objective, error) // nil: no objective
	Assertions   []load.Assertion
	Pathologies  []*catalog.Pathology

	// What is searched for, "rate" or "concurrency", and between which levels.
	Search               string
	SearchFrom, SearchTo float64

	Files     Files
	Stderr    io.Writer
	Live      bool                                                        // Stderr is a terminal
	Saving    func(context.Context)                                       // is told that what was measured is being written
	LastWords func(context.Context) (context.Context, context.CancelFunc) // for what is said after an interrupt
}

// Files are those that results are written to; "" is none.
type Files struct {
	Result, CSV, Baseline string
	Out                   string // of the report, which the caller writes
}

// Found is what a campaign found.
type Found struct {
	Results []*load.Result
	Search  *load.Found // nil where nothing was searched for
	unit    string      // of its levels
}

// Document tells of all of it.
func (f *Found) Document() *render.Document {
	return loadreport.Document(f.Search, f.unit, f.Results...)
}

// Value is what JSON has: a search, a result, or several.
func (f *Found) Value() any {
	switch {
	case f.Search != nil:
		return f.Search
	case len(f.Results) == 1:
		return f.Results[0]
	}
	return f.Results
}

// Ends of a campaign whose results are there.
var (
	// ErrSpoiled is wrapped where the generator spoiled a result.
	ErrSpoiled = errors.New("the load generator distorted the result")
	// ErrMissed says that an assertion does not hold, or that no level meets the objective.
	ErrMissed = errors.New("an assertion or objective failed")
)

// campaign is one invocation.
type campaign struct {
	Config
	scenarios []load.Scenario // of --scenario
	probed    *load.Probed
	objective *slo.Objective
	servers   []string // metrics pages that are scraped during the tests
}

// plan is one test to run.
type plan struct {
	cfg load.Config
	set load.Settings
}

// Run makes the tests, or the search. What was found until an error is returned with it.
func Run(ctx context.Context, c Config) (*Found, error) {
	b := &campaign{Config: c}
	var err error
	if b.scenarios, err = c.scenarios(); err != nil {
		return nil, err
	}
	conversations := slices.ContainsFunc(b.scenarios, func(s load.Scenario) bool { return s.Workload.Turns.Valid() })
	if b.probed, err = load.Probe(ctx, c.Target, conversations); err != nil {
		return nil, err
	}
	if b.objective, err = c.ObjectiveFor(b.probed.Target.Model); err != nil {
		return nil, err
	}
	if c.Search != "" && b.objective == nil {
		return nil, hint.With(fmt.Errorf("--slo has no objective for model %s", b.probed.Target.Model), "add one, or pass --slo chat")
	}
	if b.servers, err = serverside.FindMetricsURLs(ctx, c.Target.URL, c.Metrics, c.HTTP); err != nil {
		return nil, err
	}
	if c.Search != "" {
		return b.search(ctx)
	}
	return b.tests(ctx)
}

// plans makes the tests that the flags ask for.
func (b *campaign) plans(ctx context.Context) ([]plan, error) {
	if b.Trace != "" {
		p, err := b.replay()
		return []plan{p}, err
	}
	if b.Scenario != "" {
		return b.scenarioPlans()
	}
	s, seen, err := b.madeUp(ctx)
	if err != nil {
		return nil, err
	}
	var arrivals *workload.Arrivals
	if b.Concurrency == 0 {
		a, _, err := b.Arrivals(seen)
		if err != nil {
			return nil, err
		}
		a = b.Repeat(a, seen)
		arrivals = &a
	}
	p, err := b.plan(&s, arrivals)
	return []plan{p}, err
}

// madeUp is the scenario that the flags describe, and what was measured for it, nil
// without --workload-from.
func (b *campaign) madeUp(ctx context.Context) (s load.Scenario, seen *workload.Measured, err error) {
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
		fmt.Fprintf(b.Stderr, "measured on %s: %.0f requests in %s; prompts %s, outputs %s, %.0f %% of the prompt shared\n",
			seen.Source, seen.Workload.Requests(), seen.To.Sub(seen.From).Round(time.Second),
			spec.Prompt, spec.Output, 100*spec.PrefixShare)
	}
	return load.Scenario{
		Workload: spec, Concurrency: b.Concurrency, CV: &b.CV,
		Requests: b.Requests, Duration: b.Duration, MaxConcurrency: b.MaxConcurrency,
	}, seen, nil
}

// scenarios are those that Scenario names.
func (c *Config) scenarios() ([]load.Scenario, error) {
	switch {
	case c.Scenario == "":
		return nil, nil
	case c.Scenario == "all":
		return load.Scenarios(), nil
	case strings.HasSuffix(c.Scenario, ".yaml") || strings.HasSuffix(c.Scenario, ".yml"):
		raw, err := os.Open(c.Scenario)
		if err != nil {
			return nil, fmt.Errorf("open --scenario: %w", err)
		}
		defer raw.Close()
		return load.ReadScenarios(raw)
	}
	s, err := load.FindScenario(c.Scenario)
	return []load.Scenario{s}, err
}

func (b *campaign) scenarioPlans() ([]plan, error) {
	var plans []plan
	for _, s := range b.scenarios {
		s, err := s.Scale(b.Scale)
		if err != nil {
			return nil, err
		}
		if b.Requests > 0 {
			s.Requests = b.Requests
		}
		if b.Duration > 0 {
			s.Duration = b.Duration
		}
		arrivals, err := s.Arrivals()
		if err != nil {
			return nil, err
		}
		p, err := b.plan(&s, arrivals)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// base is the part of a test that does not depend on its load.
func (b *campaign) base() load.Config {
	return load.Config{Target: b.probed.Target, Vocabulary: b.probed.Vocabulary, Timeout: b.Timeout, Seed: b.Seed}
}

// plan makes a test of a scenario; arrivals are nil for a closed loop.
func (b *campaign) plan(s *load.Scenario, arrivals *workload.Arrivals) (plan, error) {
	cfg := b.base()
	cfg.Concurrency, cfg.Arrivals, cfg.MaxConcurrency = s.Concurrency, arrivals, s.MaxConcurrency
	cfg.MaxRequests, cfg.Duration = s.Requests, s.Duration
	limit := s.MaxConcurrency
	if limit == 0 && arrivals != nil {
		limit = load.DefaultMaxConcurrency
	}
	var err error
	if cfg.Source, err = workload.NewGenerator(s.Workload, b.Seed); err != nil {
		return plan{}, err
	}
	return plan{cfg, load.Settings{
		Name: s.Name, Workload: s.Workload,
		Load: load.Shape{Concurrency: s.Concurrency, Arrivals: arrivals, MaxConcurrency: limit, Asked: s.Requests, Seed: b.Seed},
	}}, nil
}

func (b *campaign) replay() (plan, error) {
	file, err := os.Open(b.Trace)
	if err != nil {
		return plan{}, fmt.Errorf("open --trace: %w", err)
	}
	defer file.Close()
	t, err := workload.Read(file)
	if err != nil {
		return plan{}, err
	}
	for reason, n := range t.Skipped {
		fmt.Fprintf(b.Stderr, "warning: %d lines of the trace were left out: %s\n", n, reason)
	}
	if t.Truncated {
		fmt.Fprintf(b.Stderr, "warning: the trace is longer than %d requests; the rest is left out\n", len(t.Requests))
	}
	cfg := b.base()
	cfg.Trace, cfg.MaxConcurrency, cfg.MaxRequests, cfg.Duration = true, b.MaxConcurrency, b.Requests, b.Duration
	if cfg.Source, err = workload.NewReplay(t, b.Speed, workload.UsualOutput); err != nil {
		return plan{}, err
	}
	return plan{cfg, load.Settings{
		Workload: t.Stats(),
		Load:     load.Shape{Trace: t.Format, Speed: b.Speed, MaxConcurrency: cmp.Or(b.MaxConcurrency, load.DefaultMaxConcurrency), Asked: len(t.Requests), Seed: b.Seed},
	}}, nil
}

// tests runs the plans one after another.
func (b *campaign) tests(ctx context.Context) (*Found, error) {
	plans, err := b.plans(ctx)
	if err != nil {
		return nil, err
	}
	found := &Found{}
	var last *load.Recording
	for i := range plans {
		res, rec, err := b.run(ctx, &plans[i], nil)
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
	if err := b.write(found, last); err != nil {
		return found, err
	}
	return found, b.verdict(found.Results)
}

// run runs one test. lost, if not nil, may end it early.
func (b *campaign) run(ctx context.Context, p *plan, lost func(load.Progress) bool) (*load.Result, *load.Recording, error) {
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
			fmt.Fprintf(b.Stderr, "\r\x1b[K%s %s", p.set.Name, loadreport.Progress(x, x.OutputTokens-tokens, time.Second))
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
	p.set.Target = load.Asked{URL: source.Redacted(t.URL), API: t.API, Model: t.Model, Stream: t.Stream, Version: b.probed.Version, Prompts: b.probed.Vocabulary.Source}
	res := load.Summarize(rec, p.set)
	res.Notes = append(res.Notes, b.probed.Notes...)
	if watch != nil {
		// An interrupt ends the test, not what is said of it.
		last, done := b.LastWords(ctx)
		res.Server = watch.Judge(last, res, b.objective)
		done()
	}
	return res, rec, nil
}

// write writes the files that were asked for.
func (b *campaign) write(f *Found, rec *load.Recording) error {
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

// verdict turns assertions and the generator's judgement into the exit code.
func (b *campaign) verdict(results []*load.Result) error {
	failed, spoiled, complete, gone := false, []string(nil), 0, 0.0
	for _, r := range results {
		gone = max(gone, r.Gone)
		complete += r.Requests.Complete + r.Requests.Cancelled
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
		return hint.With(fmt.Errorf("the server went away after %.1f s", gone), "see its log; the measurements until then are in the result")
	case len(spoiled) > 0:
		return hint.With(ErrSpoiled, "give the load generator more CPUs, or its own machine, or reduce the load")
	case failed:
		return ErrMissed
	}
	return nil
}
