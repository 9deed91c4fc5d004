// Package serverside scrapes the metrics of servers under a load test. Afterwards it returns series to compare with
// the client's, normal values, and a diagnosis of each step of the load. The command line passes the pathologies in.
package serverside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/measure"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Every is the scrape interval: short enough to distinguish a burst from a queue, and no load for the servers.
const Every = time.Second

// maxServerPoints bounds the series of a result.
const maxServerPoints = 600

// FindMetricsURLs returns the metrics pages to scrape while a target is tested. "auto" stands for the target's own
// page, if it has one, and "none" for nothing. Everything else is an address, which must answer.
func FindMetricsURLs(
	ctx context.Context, target string, requested []string, http config.HTTPClientConfig,
) (urls []string, err error) {
	for _, m := range requested {
		if m == "none" {
			continue
		}
		if m == "auto" {
			base, _, _ := strings.Cut(strings.TrimRight(target, "/"), "/v1")
			m = base + "/metrics"
			if page, err := fetchPage(ctx, m, http); err != nil || !page.Exposition() {
				continue
			}
		} else if _, err := fetchPage(ctx, m, http); err != nil {
			return nil, hint.Or(fmt.Errorf("--metrics: %w", err),
				"check the address, or leave the server's metrics out with --metrics none")
		}
		urls = append(urls, m)
	}
	return urls, nil
}

func fetchPage(ctx context.Context, url string, http config.HTTPClientConfig) (source.Scrape, error) {
	s, err := source.NewScraper(source.Spec{URLs: []string{url}, HTTP: http})
	if err != nil {
		return source.Scrape{}, err
	}
	defer s.Close()
	page := s.FetchAll(ctx)[0]
	return page, page.Err
}

// A Watch scrapes the servers' metrics during one test, and judges them afterwards. Each test has its own storage:
// samples from before it, under another load, are not its normal.
type Watch struct {
	*source.Source
	pathologies []*catalog.Pathology
	stop        context.CancelFunc
	done        sync.WaitGroup
}

// Begin begins to scrape. It asks for the servers' other facts at once, before they are busy. The caller must close
// the Watch.
func Begin(
	ctx context.Context, urls []string, http config.HTTPClientConfig, pathologies []*catalog.Pathology,
) (*Watch, error) {
	s, err := source.Open(ctx, source.Spec{URLs: urls, HTTP: http, Interval: Every})
	if err != nil {
		return nil, err
	}
	w := &Watch{Source: s, pathologies: pathologies}
	ctx, w.stop = context.WithCancel(ctx)
	w.done.Go(func() { s.Live.FetchFacts(ctx) })
	w.done.Go(func() { s.Live.Run(ctx) })
	return w, nil
}

// stopScraping stops the scraping.
func (w *Watch) stopScraping() {
	w.stop()
	w.done.Wait()
}

// Close stops the scraping and drops the samples.
func (w *Watch) Close() error {
	w.stopScraping()
	return w.Source.Close()
}

// Judge stops the scraping and evaluates the servers' metrics. Failures become notes, because the client's numbers
// are valid without them.
func (w *Watch) Judge(ctx context.Context, res *load.Result, objective *slo.Objective) *load.Server {
	w.stopScraping()
	s := &load.Server{Series: []load.ServerPoint{}, Missed: w.Live.FailedScrapes()}
	q := &queries{Watch: w, began: res.Started}
	if err := q.discoverTargets(ctx); err != nil {
		s.Notes = append(s.Notes, "the server's metrics: "+err.Error())
		return s
	}
	for _, part := range []struct {
		what string
		do   func() error
	}{
		{"over time", func() (err error) { s.Series, err = q.querySeries(ctx); return err }},
		{"what is normal", func() (err error) { s.Normal, err = q.measureNormal(ctx, res); return err }},
		{"the diagnosis", func() (err error) { s.Phases, err = q.diagnosePhases(ctx, res, objective); return err }},
	} {
		if err := part.do(); err != nil {
			s.Notes = append(s.Notes, "the server's metrics, "+part.what+": "+err.Error())
		}
	}
	return s
}

// queries queries the storage of one test.
type queries struct {
	*Watch
	began       time.Time // start of the test
	first, last time.Time // scrapes
	targets     []diagnose.Target
}

func (q *queries) discoverTargets(ctx context.Context) (err error) {
	span := q.Span()
	if q.first, q.last = span.First, span.Last; q.last.IsZero() {
		return errors.New("no scrape finished during the test")
	}
	q.targets, _, err = identity.Discover(ctx, q, identity.Search{At: q.last, Lookback: q.last.Sub(q.first) + Every})
	return err
}

// comparedSignals lists the signals to compare with the client's, the number of scrapes that each needs, and whether
// the values of several servers add up.
var comparedSignals = []struct {
	signal  *indicator.Signal
	scrapes time.Duration
	sum     bool
}{
	{indicator.Running, 1, true},
	{indicator.Waiting, 1, true},
	{indicator.KVUsage, 1, false},
	{indicator.PreemptionRate, 4, true},
	{indicator.GenerationTokenRate, 4, true},
	{indicator.PromptTokenRate, 4, true},
	{indicator.PrefixHitRatio, 4, false},
	{indicator.GPUUtil, 1, false},
	{indicator.SMActive, 1, false},
}

// querySeries returns the signals over the whole test.
func (q *queries) querySeries(ctx context.Context) ([]load.ServerPoint, error) {
	step := max(Every, (q.last.Sub(q.first) / maxServerPoints).Round(Every))
	points := map[int64]map[string]float64{}
	for _, b := range comparedSignals {
		for _, t := range q.targets {
			if t.Problem != "" || !t.Dialect.Answers(b.signal) {
				continue
			}
			// A gauge's window is a little longer than the scrape interval, because scrapes are never quite on time.
			window := b.scrapes*Every + Every/2
			r := t.Dialect.Rewriting()
			r.Window, r.Short, r.Past = window, window, window
			for name, value := range t.Labels {
				r.Matchers = append(r.Matchers, labels.MustNewMatcher(labels.MatchEqual, name, value))
			}
			m, err := q.QueryRange(ctx, r.Compile(b.signal.Expr, b.signal.Scope).String(),
				metrics.Range{Start: q.first, End: q.last, Step: step})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", b.signal.Name, err)
			}
			for _, line := range m {
				for _, p := range line.Values {
					v, at := float64(p.Value), int64(p.Timestamp)
					if math.IsNaN(v) || math.IsInf(v, 0) {
						continue
					}
					if points[at] == nil {
						points[at] = map[string]float64{}
					}
					old, ok := points[at][b.signal.Name]
					switch {
					case !ok:
					case b.sum:
						v += old
					default:
						v = max(v, old)
					}
					points[at][b.signal.Name] = v
				}
			}
		}
	}
	out := make([]load.ServerPoint, 0, len(points))
	for at, values := range points {
		out = append(out, load.ServerPoint{
			At:     math.Round(1e3*time.UnixMilli(at).Sub(q.began).Seconds()) / 1e3,
			Values: values,
		})
	}
	slices.SortFunc(out, func(a, b load.ServerPoint) int { return cmp.Compare(a.At, b.At) })
	return out, nil
}

// timeAt converts an offset into the test to a time.
func (q *queries) timeAt(seconds float64) time.Time {
	return q.began.Add(time.Duration(seconds * float64(time.Second)))
}

// rangeBetween returns a part of the test, limited to the time that was scraped.
func (q *queries) rangeBetween(from, to float64) period.Period {
	r := period.Period{From: q.timeAt(from), To: q.timeAt(to)}
	if r.From.Before(q.first) {
		r.From = q.first
	}
	if r.To.After(q.last) {
		r.To = q.last
	}
	return r
}

// Requirements of normal values: scrapes for a rate, and requests in each of the spans whose median is taken.
const (
	scrapesPerRate = 4
	requestsASpan  = 20
)

// measureNormal returns the median of every signal over the steady window.
func (q *queries) measureNormal(ctx context.Context, res *load.Result) (map[string]float64, error) {
	r := q.rangeBetween(res.Window.From, res.Window.To)
	short := scrapesPerRate * Every
	if !res.Window.Steady || res.Throughput.Requests <= 0 || r.Length() < 2*short {
		return nil, nil // too short, or latencies never settled
	}
	enough := time.Duration(requestsASpan / res.Throughput.Requests * float64(time.Second))
	window := min(max(short, enough, min(5*time.Minute, r.Length()/4)), r.Length()/2)
	files, err := measure.Measure(ctx, q, measure.Config{
		From: r.From, To: r.To, Window: window.Round(Every), Short: min(short, r.Length()/8), Source: "load test",
		Created: r.To,
	})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Model == res.Target.Model || len(files) == 1 {
			return f.Normal, nil
		}
	}
	return nil, fmt.Errorf("the metrics belong to other models than %s", res.Target.Model)
}

// diagnosePhases diagnoses the window, or each step of a load with steps. The first step is the baseline of the later
// ones.
func (q *queries) diagnosePhases(
	ctx context.Context, res *load.Result, objective *slo.Objective,
) ([]load.Phase, error) {
	spans := []load.Phase{{Name: "the window", From: res.Window.From, To: res.Window.To}}
	if steps := stepsOf(res); len(steps) > 1 {
		spans = steps
	}
	o := diagnose.Options{Interval: Every, Pathologies: q.pathologies, Annotate: q.Live.Annotate, First: q.first}
	if objective != nil {
		one := *objective
		one.Model, one.Namespace, one.Cluster, one.Service = "", "", "", "" // it applies to this model
		o.Settings.Objectives = &slo.File{Objectives: []slo.Objective{one}}
	}
	var first period.Period
	for i := range spans {
		p := &spans[i]
		r := q.rangeBetween(p.From, p.To)
		if r.Length() < scrapesPerRate*Every {
			p.Status, p.Verdict = diagnose.Unknown.String(), diagnose.InsufficientData
			p.Summary = fmt.Sprintf("too short to judge: %.1f s are fewer than %d scrapes",
				max(r.Length().Seconds(), 0), scrapesPerRate)
			continue
		}
		o.At, o.Window, o.Baseline = r.To, r.Length(), first
		d, err := diagnose.Run(ctx, q, o)
		if err != nil {
			return nil, err
		}
		addDiagnosis(p, &d)
		if first.From.IsZero() {
			first = r
		}
	}
	return spans, nil
}

// stepsOf returns the steps of an open loop's rate. Ramps are no steps.
func stepsOf(res *load.Result) []load.Phase {
	if res.Load.Arrivals == nil {
		return nil
	}
	var steps []load.Phase
	at := 0.0
	for _, s := range res.Load.Arrivals.Profile {
		to := at + s.Duration.Seconds()
		if s.Duration == 0 {
			to = res.Window.To
		}
		if s.From != s.To || at >= res.Duration {
			return nil
		}
		steps = append(steps, load.Phase{
			Name: fmt.Sprintf("%g requests/s", s.From), From: at, To: min(to, res.Duration),
		})
		at = to
	}
	if len(steps) > maxSteps {
		return nil
	}
	return steps
}

// maxSteps bounds the steps that are judged separately.
const maxSteps = 50

// addDiagnosis copies a diagnosis into a phase.
func addDiagnosis(p *load.Phase, d *diagnose.Diagnosis) {
	p.Status, p.Verdict, p.Summary, p.Confidence = d.Status.String(), d.Verdict.ID, d.Verdict.Summary,
		math.Round(100*d.Verdict.Confidence)/100
	for _, g := range d.Coverage {
		p.Unchecked = append(p.Unchecked, g.ID)
	}
	for _, f := range d.Findings {
		if f.Status != diagnose.Firing {
			continue
		}
		x := load.FiredPathology{
			ID: f.Pathology.ID, Title: f.Pathology.Title, Severity: f.Severity.String(),
			Summary: f.Summary, ExplainBy: f.InhibitedBy,
		}
		for _, e := range f.Evidence {
			// A condition may compare the same signal twice.
			if line := evidenceLine(&e); e.Holds == catalog.True && !slices.Contains(x.Evidence, line) {
				x.Evidence = append(x.Evidence, line)
			}
		}
		for _, fix := range f.Fixes {
			x.Fixes = append(x.Fixes, fixLine(&fix))
		}
		p.Findings = append(p.Findings, x)
	}
}

func evidenceLine(e *catalog.Evidence) string {
	u := e.Signal.Unit
	s := fmt.Sprintf("%s %s %s %s (%s)", e.Signal.Title, indicator.Format(e.Value, u), e.Op,
		indicator.FormatNumber(e.Threshold, u), e.Source)
	if e.Baseline.OK {
		s += ", in the first step " + indicator.Format(e.Baseline, u)
	}
	return s
}

func fixLine(f *catalog.Fix) string {
	var changes []string
	for _, c := range f.Changes {
		changes = append(changes, c.Flag+" "+c.To)
	}
	if len(changes) == 0 {
		return f.Summary
	}
	return fmt.Sprintf("%s (%s)", strings.TrimSuffix(f.Summary, "."), strings.Join(changes, ", "))
}
