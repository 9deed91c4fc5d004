package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/term"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/live"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/loadreport"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/workload"
)

// bench is one invocation.
type bench struct {
	f              *benchFlags
	stdout, stderr io.Writer
	live           bool // stderr is a terminal

	probed    *load.Probed
	asserts   []load.Assertion
	objective *slo.Objective
	warmup    time.Duration
	scraper   *scrape.Client
	servers   []live.Target // metrics pages that are scraped during the tests
}

// plan is one test to run.
type plan struct {
	name     string
	cfg      load.Config
	shape    load.Shape
	workload any
	source   func() (workload.Source, error) // a fresh one for every run
}

// newBench checks everything that can be checked before load is sent.
func newBench(ctx context.Context, stdout, stderr io.Writer, url string, f *benchFlags) (*bench, error) {
	b := &bench{f: f, stdout: stdout, stderr: stderr}
	if file, ok := stderr.(*os.File); ok {
		b.live = term.IsTerminal(int(file.Fd()))
	}
	var err error
	for _, a := range f.asserts {
		x, err := load.ParseAssertion(a)
		if err != nil {
			return nil, err
		}
		b.asserts = append(b.asserts, x)
	}
	if b.warmup, err = f.warmupTime(); err != nil {
		return nil, err
	}
	if _, err := f.spec(); err != nil {
		return nil, err
	}
	target, err := f.target(url)
	if err != nil {
		return nil, err
	}
	var vocab *load.Vocabulary
	if f.tokenizer != "" {
		file, err := os.Open(f.tokenizer)
		if err != nil {
			return nil, fmt.Errorf("open --tokenizer: %w", err)
		}
		defer file.Close()
		if vocab, err = load.ReadTokenizer(file); err != nil {
			return nil, err
		}
	}
	if b.probed, err = load.Probe(ctx, target, vocab, f.turns != ""); err != nil {
		return nil, err
	}
	if b.objective, err = f.objectiveFor(b.probed.Target.Model); err != nil {
		return nil, err
	}
	if b.scraper, err = scrape.New(scrape.Config{}); err != nil {
		return nil, err
	}
	return b, b.findMetrics(ctx, url)
}

// findMetrics decides which metrics pages are scraped. One that the user named
// must answer.
func (b *bench) findMetrics(ctx context.Context, target string) error {
	var addresses []string
	for _, m := range b.f.metrics {
		switch m {
		case "none":
		case "auto":
			base, _, _ := strings.Cut(strings.TrimRight(target, "/"), "/v1")
			if body, err := b.scraper.Fetch(ctx, base+"/metrics"); err == nil {
				if _, err := scrape.Parse(body.Raw, body.ContentType, func(labels.Labels, int64, float64) {}); err == nil {
					addresses = append(addresses, base+"/metrics")
				}
			}
		default:
			if _, err := b.scraper.Fetch(ctx, m); err != nil {
				return hint.With(fmt.Errorf("--metrics: %w", err), firstHint(err, "check the address, or leave the server's metrics out with --metrics none"))
			}
			addresses = append(addresses, m)
		}
	}
	var err error
	b.servers, err = live.Targets(addresses)
	return err
}

// plans makes the tests that the flags ask for.
func (b *bench) plans(ctx context.Context) ([]plan, error) {
	switch f := b.f; {
	case f.scenario != "":
		return b.scenarios()
	case f.trace != "":
		p, err := b.replay()
		return []plan{p}, err
	default:
		spec, err := f.spec()
		if err != nil {
			return nil, err
		}
		s := load.Scenario{Workload: spec, Concurrency: f.concurrency, Rate: f.rate, CV: &f.cv, Requests: f.requests, Duration: f.duration, MaxConcurrency: f.maxConcurrency}
		var arrivals *workload.Arrivals
		if f.workloadFrom != "" {
			seen, err := b.seen(ctx, &s.Workload)
			if err != nil {
				return nil, err
			}
			if f.rate == "" && f.concurrency == 0 {
				if arrivals, err = b.arrivalsOf(seen); err != nil {
					return nil, err
				}
			}
		}
		if arrivals == nil {
			if arrivals, err = s.Arrivals(); err != nil {
				return nil, err
			}
		}
		p, err := b.plan(&s, arrivals)
		return []plan{p}, err
	}
}

// seen measures the workload of --workload-from, as sixty simulate does, and puts
// its lengths and shared prefixes into spec.
func (b *bench) seen(ctx context.Context, spec *workload.Spec) (*observed, error) {
	from := observedFlags{model: b.f.model, watch: b.f.watch, interval: scrapeEvery}
	var urls []string
	if _, err := os.Stat(b.f.workloadFrom); err == nil {
		from.recording = b.f.workloadFrom
	} else {
		urls = []string{b.f.workloadFrom}
	}
	if err := from.check(urls); err != nil {
		return nil, err
	}
	o, err := from.observe(ctx, b.stderr, urls)
	if err != nil {
		return nil, fmt.Errorf("--workload-from: %w", err)
	}
	measured, err := o.Workload.Spec()
	if err != nil {
		return nil, fmt.Errorf("--workload-from: %w", err)
	}
	spec.Prompt, spec.Output, spec.PrefixShare = measured.Prompt, measured.Output, measured.PrefixShare
	fmt.Fprintf(b.stderr, "measured on %s: %.0f requests in %s; prompts %s, outputs %s, %.0f %% of the prompt shared\n", o.From, o.Workload.Requests(),
		o.To.Sub(o.Fleet.From).Round(time.Second), measured.Prompt, measured.Output, 100*measured.PrefixShare)
	return o, nil
}

// arrivalsOf are the measured arrivals, repeated for as long as the test lasts. A
// test without a length lasts as long as what was measured.
func (b *bench) arrivalsOf(o *observed) (*workload.Arrivals, error) {
	a, err := o.Workload.Arrivals()
	if err != nil {
		return nil, fmt.Errorf("--workload-from: %w", err)
	}
	switch {
	case b.f.duration > 0:
		a = a.Repeat(b.f.duration)
	case b.f.requests > 0:
		a = a.Repeat(time.Duration(float64(b.f.requests)/max(a.Rate(0), 1e-3)*2e9) + time.Hour)
	}
	return &a, nil
}

func (b *bench) scenarios() ([]plan, error) {
	var list []load.Scenario
	switch f := b.f; {
	case f.scenario == "all":
		list = load.Scenarios()
	case strings.HasSuffix(f.scenario, ".yaml") || strings.HasSuffix(f.scenario, ".yml"):
		raw, err := os.Open(f.scenario)
		if err != nil {
			return nil, fmt.Errorf("open --scenario: %w", err)
		}
		defer raw.Close()
		if list, err = load.ReadScenarios(raw); err != nil {
			return nil, err
		}
	default:
		s, err := load.FindScenario(f.scenario)
		if err != nil {
			return nil, err
		}
		list = []load.Scenario{s}
	}
	var plans []plan
	for _, s := range list {
		s, err := s.Scale(b.f.scale)
		if err != nil {
			return nil, err
		}
		if b.f.requests > 0 {
			s.Requests = b.f.requests
		}
		if b.f.duration > 0 {
			s.Duration = b.f.duration
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
func (b *bench) base() load.Config {
	return load.Config{Target: b.probed.Target, Vocabulary: b.probed.Vocabulary, Timeout: b.f.timeout, Drain: b.f.drain, Seed: b.f.seed}
}

// plan makes a test of a scenario; arrivals are nil for a closed loop.
func (b *bench) plan(s *load.Scenario, arrivals *workload.Arrivals) (plan, error) {
	cfg := b.base()
	cfg.Concurrency, cfg.Arrivals, cfg.MaxConcurrency = s.Concurrency, arrivals, s.MaxConcurrency
	cfg.MaxRequests, cfg.Duration = s.Requests, s.Duration
	limit := s.MaxConcurrency
	if limit == 0 && arrivals != nil {
		limit = load.DefaultMaxConcurrency
	}
	spec := s.Workload
	if err := b.fits(&spec); err != nil {
		return plan{}, err
	}
	return plan{
		name: s.Name, cfg: cfg, workload: spec,
		shape:  load.Shape{Concurrency: s.Concurrency, Arrivals: arrivals, MaxConcurrency: limit, Asked: s.Requests, Seed: b.f.seed},
		source: func() (workload.Source, error) { return workload.NewGenerator(spec, b.f.seed) },
	}, nil
}

// fits warns of requests that the model's context cannot hold.
func (b *bench) fits(spec *workload.Spec) error {
	limit := b.probed.MaxLength
	g, err := workload.NewGenerator(*spec, b.f.seed)
	if err != nil || limit == 0 {
		return err
	}
	over, n := 0, 1000
	var s workload.Session
	for range n {
		g.Next(&s)
		if s.Turns[0].PromptTokens()+s.Turns[0].OutputTokens > limit {
			over++
		}
	}
	if over == n {
		return hint.With(fmt.Errorf("prompt and output together exceed the model's context of %d tokens", limit), "shorten them, or scale the scenario down with --scale")
	}
	if over > 0 {
		fmt.Fprintf(b.stderr, "warning: about %.1f %% of the requests exceed the model's context of %d tokens and will be refused\n", 100*float64(over)/float64(n), limit)
	}
	return nil
}

func (b *bench) replay() (plan, error) {
	f := b.f
	file, err := os.Open(f.trace)
	if err != nil {
		return plan{}, fmt.Errorf("open --trace: %w", err)
	}
	defer file.Close()
	t, err := workload.Read(file, workload.Options{Format: workload.Format(f.traceFormat)})
	if err != nil {
		return plan{}, err
	}
	if f.traceFrom > 0 || f.traceLength > 0 {
		t = t.Cut(f.traceFrom, f.traceLength)
		if len(t.Requests) == 0 {
			return plan{}, errors.New("no request of the trace lies in that part")
		}
	}
	for reason, n := range t.Skipped {
		fmt.Fprintf(b.stderr, "warning: %d lines of the trace were left out: %s\n", n, reason)
	}
	if t.Truncated {
		fmt.Fprintf(b.stderr, "warning: the trace is longer than %d requests; the rest is left out\n", len(t.Requests))
	}
	cfg := b.base()
	cfg.Trace, cfg.MaxConcurrency, cfg.MaxRequests, cfg.Duration = true, f.maxConcurrency, f.requests, f.duration
	return plan{
		name: "", cfg: cfg, workload: t.Stats(),
		shape:  load.Shape{Trace: string(t.Format), Speed: f.speed, MaxConcurrency: cmp.Or(f.maxConcurrency, load.DefaultMaxConcurrency), Asked: len(t.Requests), Seed: f.seed},
		source: func() (workload.Source, error) { return workload.NewReplay(t, f.speed, defaultTraceOutput) },
	}, nil
}

// defaultTraceOutput is asked for where a trace does not tell.
const defaultTraceOutput = 128

// errSpoiled ends a command whose result the generator spoiled.
var errSpoiled = errors.New("the generator spoiled the result")

// tests runs the plans one after another and reports them.
func (b *bench) tests(ctx context.Context) error {
	plans, err := b.plans(ctx)
	if err != nil {
		return err
	}
	var results []*load.Result
	var last *load.Recording
	for i := range plans {
		res, rec, err := b.repeat(ctx, &plans[i])
		if err != nil {
			return err
		}
		results, last = append(results, res), rec
		if b.f.format == "text" {
			if err := loadreport.Text(b.stdout, res, terminal(b.stdout, "auto")); err != nil {
				return err
			}
			if i+1 < len(plans) {
				fmt.Fprintln(b.stdout)
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := b.write(results, last, nil, ""); err != nil {
		return err
	}
	return b.verdict(results)
}

// repeat runs a test as often as asked, or until it is precise enough.
func (b *bench) repeat(ctx context.Context, p *plan) (*load.Result, *load.Recording, error) {
	var results []*load.Result
	var rec *load.Recording
	begin := time.Now()
	for i := range b.f.repeat {
		res, r, err := b.run(ctx, p, nil)
		if err != nil {
			return nil, nil, err
		}
		results, rec = append(results, res), r
		if ctx.Err() != nil || b.f.budget > 0 && time.Since(begin) > b.f.budget {
			break
		}
		if b.f.until > 0 && i >= 2 {
			m, err := load.Merge(results, load.Repeated)
			if err != nil {
				return nil, nil, err
			}
			if narrow(m, b.f.until) {
				break
			}
		}
	}
	if len(results) == 1 {
		return results[0], rec, nil
	}
	m, err := load.Merge(results, load.Repeated)
	return m, nil, err
}

// narrow reports whether the P95s' intervals are within share of their values.
func narrow(r *load.Result, share float64) bool {
	for _, m := range []load.Metric{load.TTFT, load.ITL, load.E2E} {
		if q, ok := r.Latency[m].At(0.95); ok && (q.Few || math.Max(q.High-q.Value, q.Value-q.Low) > share*q.Value) {
			return false
		}
	}
	return true
}

// run runs one test. lost, if not nil, may end it early.
func (b *bench) run(ctx context.Context, p *plan, lost func(load.Progress) bool) (*load.Result, *load.Recording, error) {
	cfg := p.cfg
	var err error
	if cfg.Source, err = p.source(); err != nil {
		return nil, nil, err
	}
	r, err := load.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch *serverWatch
	if len(b.servers) > 0 {
		if watch, err = watchServers(ctx, b.scraper, b.servers); err != nil {
			return nil, nil, err
		}
		defer watch.end()
	}
	var tokens int64
	rec, err := r.Run(runCtx, time.Second, func(x load.Progress) {
		if b.live {
			fmt.Fprintf(b.stderr, "\r\x1b[K%s %s", p.name, loadreport.Progress(x, x.OutputTokens-tokens, time.Second))
		}
		tokens = x.OutputTokens
		if lost != nil && lost(x) {
			cancel()
		}
	})
	if b.live {
		fmt.Fprint(b.stderr, "\r\x1b[K")
	}
	cancel()
	if err != nil {
		return nil, nil, err
	}
	saving(ctx)
	v := b.probed.Vocabulary
	t := &b.probed.Target
	res := load.Summarize(rec, load.Settings{Name: p.name, Load: p.shape, Workload: p.workload, Objective: b.objective, Warmup: b.warmup,
		Target: load.Asked{URL: redactURL(t.URL), API: t.API, Model: t.Model, Stream: t.Stream, Version: b.probed.Version, Prompts: v.Source}})
	res.Notes = append(res.Notes, b.probed.Notes...)
	if watch != nil {
		// An interrupt ends the test, not what is said of it.
		last, done := lastWords(ctx)
		res.Server = watch.judge(last, res, b.objective)
		done()
	}
	return res, rec, nil
}

// write writes the files that were asked for, and JSON to stdout.
func (b *bench) write(results []*load.Result, rec *load.Recording, found *load.Found, unit string) error {
	f := b.f
	var single any = results
	if len(results) == 1 {
		single = results[0]
	}
	if found != nil {
		single = found
	}
	title := "Load test"
	if len(results) > 0 {
		title += " of " + results[0].Target.Model
	}
	outputs := []struct {
		path  string
		write func(io.Writer) error
	}{
		{f.jsonFile, func(w io.Writer) error { return render.JSON(w, single) }},
		{f.htmlFile, func(w io.Writer) error {
			return loadreport.HTML(w, loadreport.Report{Title: title, Results: results, Search: found, Unit: unit})
		}},
		{f.csvFile, func(w io.Writer) error { return loadreport.CSV(w, rec) }},
		{f.vllmFile, func(w io.Writer) error { return loadreport.VLLM(w, results[len(results)-1], rec) }},
		{f.baselineFile, func(w io.Writer) error {
			capacity := 0.0
			if found != nil && found.Best != nil && f.search == "rate" {
				capacity = found.Best.Level
			}
			base, err := load.NewBaseline(results[len(results)-1], b.objective, capacity, time.Now())
			if err != nil {
				return err
			}
			return render.JSON(w, base)
		}},
	}
	for _, o := range outputs {
		if o.path == "" || len(results) == 0 {
			continue
		}
		if err := writeFile(o.path, o.write); err != nil {
			return err
		}
	}
	if f.format == "json" {
		return render.JSON(b.stdout, single)
	}
	return nil
}

// verdict turns assertions and the generator's judgement into the exit code.
func (b *bench) verdict(results []*load.Result) error {
	failed, spoiled, complete, gone := false, []string(nil), 0, 0.0
	for _, r := range results {
		gone = max(gone, r.Gone)
		complete += r.Requests.Complete + r.Requests.Cancelled
		if r.Generator.Spoiled {
			spoiled = append(spoiled, r.Generator.Reasons...)
		}
		for _, a := range b.asserts {
			v, ok := a.Check(r)
			if !ok {
				failed = true
				fmt.Fprintf(b.stderr, "assertion %s does not hold: it is %.4g\n", a, v)
			}
		}
	}
	switch {
	case complete == 0:
		return hint.With(errors.New("no request was answered"), "see the failures above, and the server's log")
	case gone > 0:
		return hint.With(fmt.Errorf("the server went away after %.1f s", gone), "look at its log; what was measured until then is in the result")
	case len(spoiled) > 0:
		return hint.With(fmt.Errorf("%w: %s", errSpoiled, strings.Join(spoiled, "; ")), "give the generator more processors, or a machine of its own, or ask for less load")
	case failed:
		return errFound
	}
	return nil
}
