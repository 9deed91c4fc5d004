package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/audit"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/live"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/api"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// auditSource is what the servers expose, and the rules that a Prometheus
// server evaluates.
type auditSource struct {
	surface  *audit.Surface
	rules    []audit.File
	allRules bool // rules are all that there are
}

// open looks at the servers that the user named.
func (f *auditFlags) open(ctx context.Context, stderr io.Writer, targets []string) (*auditSource, error) {
	switch {
	case f.recording != "":
		s, err := surfaceOfRecording(ctx, f.recording)
		return &auditSource{surface: s}, err
	case f.prometheus != "":
		return f.surfaceOfPrometheus(ctx, stderr)
	case len(targets) > 0:
		s, err := f.surfaceOfServers(ctx, stderr, targets)
		return &auditSource{surface: s}, err
	}
	if f.dialect == "" {
		s, err := audit.AnySurface()
		return &auditSource{surface: s}, err
	}
	s, err := audit.SurfaceOf(f.dialect)
	if err != nil {
		return nil, fmt.Errorf("--dialect: %w", err)
	}
	return &auditSource{surface: s}, nil
}

// addPage adds a server's page to a surface; false where it is no server's.
func addPage(s *audit.Surface, instance string, body []byte, contentType string) (bool, error) {
	names := map[string]bool{}
	_, err := scrape.Parse(body, contentType, func(l labels.Labels, _ int64, _ float64) {
		names[l.Get(labels.MetricName)] = true
		s.Add(l, instance)
	})
	if err != nil {
		return false, err
	}
	return s.Detect(slices.Sorted(maps.Keys(names))), nil
}

// surfaceOfServers scrapes every server once.
func (f *auditFlags) surfaceOfServers(ctx context.Context, stderr io.Writer, addresses []string) (*audit.Surface, error) {
	targets, err := live.Targets(addresses)
	if err != nil {
		return nil, err
	}
	http, err := f.http.config()
	if err != nil {
		return nil, err
	}
	client, err := scrape.New(scrape.Config{HTTP: http})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	bodies, errs := make([]scrape.Body, len(targets)), make([]error, len(targets))
	var wg sync.WaitGroup
	for i := range targets {
		wg.Go(func() { bodies[i], errs[i] = client.Fetch(ctx, targets[i].URL) })
	}
	wg.Wait()
	s := audit.NewSurface(servers(len(targets)))
	s.Live = true
	for i, t := range targets {
		err, engine := errs[i], false
		if err == nil {
			if engine, err = addPage(s, t.Instance, bodies[i].Raw, bodies[i].ContentType); errors.Is(err, scrape.ErrNotExposition) {
				err = hint.With(fmt.Errorf("scrape %s: %w", t.Name(), err), "check that the address is a server's metrics page")
			}
		}
		switch {
		case err != nil && len(targets) == 1:
			return nil, err
		case err != nil:
			notes(stderr, []string{err.Error()})
			errs[i] = err
		case !engine:
			notes(stderr, []string{t.Name() + " exposes no metric of an inference server or a GPU exporter: with --disable-log-stats vLLM shows none"})
		}
	}
	if !slices.Contains(errs, nil) {
		return nil, hint.With(fmt.Errorf("none of %d servers answers; the first: %w", len(targets), errs[0]), firstHint(errs[0], "check the addresses"))
	}
	return s, noEngines(s)
}

func servers(n int) string {
	if n == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", n)
}

// noEngines is the error for sources without an inference server.
func noEngines(s *audit.Surface) error {
	if len(s.Dialects) > 0 {
		return nil
	}
	return hint.With(errors.New("no metric of an inference server found"), "check the address and --match; with --disable-log-stats vLLM shows none")
}

// surfaceOfRecording reads the last page of each server.
func surfaceOfRecording(ctx context.Context, path string) (s *audit.Surface, err error) {
	rec, err := recording.OpenContext(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	last := map[string][]byte{}
	if err := rec.Scrapes(func(sc recording.Scrape) error {
		if len(sc.Body) > 0 {
			last[sc.Target] = bytes.Clone(sc.Body)
		}
		return ctx.Err()
	}); err != nil {
		return nil, err
	}
	s = audit.NewSurface(servers(len(last)) + " in " + path)
	s.Live = true
	for _, target := range slices.Sorted(maps.Keys(last)) {
		if _, err := addPage(s, target, last[target], ""); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, target, err)
		}
	}
	return s, noEngines(s)
}

// recently is how far back a Prometheus server is asked for names.
const recently = 15 * time.Minute

// surfaceOfPrometheus asks a server for the names, models and bucket edges that
// it holds, and for its rules.
func (f *auditFlags) surfaceOfPrometheus(ctx context.Context, stderr io.Writer) (*auditSource, error) {
	matchers, err := parseMatches(f.match)
	if err != nil {
		return nil, err
	}
	http, err := f.http.config()
	if err != nil {
		return nil, err
	}
	client, err := api.New(api.Config{URL: f.prometheus, HTTP: http})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	q := &tolerant{next: client, seen: map[string]bool{}}
	defer func() { notes(stderr, slices.Concat(q.partial, client.Warnings())) }()

	at, err := (span{last: time.Now()}).at(f.at)
	if err != nil {
		return nil, err
	}
	targets, _, err := diagnose.Discover(ctx, q, at, recently, matchers, false)
	if err != nil {
		return nil, err
	}
	out := &auditSource{surface: audit.NewSurface("Prometheus")}
	s := out.surface
	s.Live, s.Whole = true, true
	for _, t := range targets {
		s.AddTarget(t.Dialect, t.Labels["model_name"], t.Labels["instance"])
	}
	s.Source = fmt.Sprintf("%s in Prometheus", servers(len(s.Instances)))
	if err := addNames(ctx, q, s, at, matchers); err != nil {
		return nil, err
	}
	if s.Interval, err = steadyInterval(ctx, q, matchers, at); err != nil {
		return nil, err
	}
	rules, err := client.Rules(ctx)
	if err != nil {
		notes(stderr, []string{"the server's rules cannot be read (" + brief(err) + "): give them with --rules"})
		return out, nil
	}
	out.allRules = true
	out.rules, err = ruleFiles(rules)
	return out, err
}

// steadyInterval is the time between two scrapes where there is history enough
// to tell, 0 otherwise: a server that was discovered a moment ago has few
// samples, and is no slow one.
func steadyInterval(ctx context.Context, q metrics.Querier, matchers []*labels.Matcher, at time.Time) (time.Duration, error) {
	pace, err := diagnose.ReadPace(ctx, q, matchers, at)
	if err != nil || pace.Scrapes < 4 || at.Sub(pace.First) < 2*time.Minute {
		return 0, err
	}
	return pace.Interval, nil
}

func brief(err error) string {
	lines := strings.Split(err.Error(), "\n")
	return lines[len(lines)-1]
}

// addNames asks which names there are, of inference servers and of what the
// checklist looks for, and for the edges of their buckets.
func addNames(ctx context.Context, q metrics.Querier, s *audit.Surface, at time.Time, matchers []*labels.Matcher) error {
	var beside []string
	for _, name := range audit.Wanted() {
		beside = append(beside, regexp.QuoteMeta(name))
	}
	of := func(pattern string, with []*labels.Matcher) string {
		texts := []string{labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, pattern).String()}
		for _, m := range with {
			texts = append(texts, m.String())
		}
		return fmt.Sprintf("last_over_time({%s}[%s])", strings.Join(texts, ","), model.Duration(recently))
	}
	for _, expr := range []string{
		"group by (__name__) (" + of(dialect.Selector+"|http_requests_total|process_.+", matchers) + ")",
		"group by (__name__) (" + of(strings.Join(beside, "|"), nil) + ")", // gateways and hosts have labels of their own
		"group by (__name__, le) (" + of("((ray_|kserve_)?vllm[:_]|sglang:).+_bucket", matchers) + ")",
	} {
		v, err := q.Query(ctx, expr, at)
		if err != nil {
			return fmt.Errorf("find metric names: %w", err)
		}
		for _, sample := range v {
			s.AddName(string(sample.Metric[model.MetricNameLabel]), string(sample.Metric[model.BucketLabel]))
		}
	}
	return nil
}

// ruleFiles turns a server's rules into files that the linter reads, one for
// each of the server's.
func ruleFiles(rules []api.Rule) ([]audit.File, error) {
	type rule struct {
		Alert       string            `json:"alert,omitempty"`
		Record      string            `json:"record,omitempty"`
		Expr        string            `json:"expr"`
		For         string            `json:"for,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	type group struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	files := map[string][]group{}
	for _, r := range rules {
		gs := files[r.File]
		if len(gs) == 0 || gs[len(gs)-1].Name != r.Group {
			gs = append(gs, group{Name: r.Group})
		}
		g := &gs[len(gs)-1]
		one := rule{Alert: r.Alert, Record: r.Record, Expr: r.Expr, Annotations: r.Annotations}
		if r.For > 0 {
			one.For = model.Duration(r.For).String()
		}
		g.Rules = append(g.Rules, one)
		files[r.File] = gs
	}
	var out []audit.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data, err := json.Marshal(map[string]any{"groups": files[name]})
		if err != nil {
			return nil, fmt.Errorf("read the server's rules: %w", err)
		}
		out = append(out, audit.File{Name: name + " (in Prometheus)", Data: data, Kind: audit.Rules, Remote: true})
	}
	return out, nil
}
