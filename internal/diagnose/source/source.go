// Package source opens samples. A Source is opened from the URLs of servers, which it then scrapes, from a recording,
// from an engine's log, or from a Prometheus-compatible server. It answers PromQL, and knows the available time, the
// scrape interval, and what the servers report beside their metrics.
//
// A short run (sixty diagnose), a long one (sixty record, a monitor) and a single page (sixty audit) use the same
// Scraper. Package source judges nothing: Diagnose hands the samples to package diagnose, with a deadline.
package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/api"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/render"
)

// DefaultInterval is the scrape interval of URLs unless the user sets one.
const DefaultInterval = time.Second

// A Spec says where samples come from: one of URLs, Recording and Prometheus.
type Spec struct {
	URLs       []string // servers, completed by scrape.URL
	Gateways   []string // metrics pages of gateways before URLs
	Recording  string   // an archive, a directory, or one page
	Prometheus string   // URL of a Prometheus-compatible server

	Matchers []*labels.Matcher       // select the series of a Prometheus server
	HTTP     config.HTTPClientConfig // how to authenticate and encrypt; zero is the default
	Signing  api.Signing             // signs requests to a Prometheus server
	Interval time.Duration           // between two scrapes of URLs, DefaultInterval when 0
	Storage  embedded.Config         // storage of scraped samples; zero is a temporary one without retention
	Host     bool                    // read this machine's GPUs and operating system for those URLs that are on it
}

// A Source answers PromQL about the servers that it was opened for. It is safe for
// concurrent use.
type Source struct {
	metrics.Querier
	Name string // the origin of the samples, for people; without secrets
	// Arguments name the same samples on a command line, without secrets.
	Arguments string
	Live      *Live // the servers that are scraped; nil unless URLs were opened

	matchers []*labels.Matcher
	opened   time.Time
	scraper  bool                       // the samples are from a scraper in this process
	interval time.Duration              // of scraped and recorded pages; 0 for a Prometheus server
	store    *embedded.Store            // nil for a Prometheus server
	noted    map[string]recording.Noted // the recording's notes, by instance
	rules    func(context.Context) ([]api.Rule, error)
	partial  func() []string // a Prometheus server's warnings of partial answers; nil for others
	warnings []func() []string
	closers  []func() error
}

// Open opens the source that a Spec names. It sends no requests to URLs yet; it loads a recording. The caller closes
// the source.
func Open(ctx context.Context, spec Spec) (*Source, error) {
	s := &Source{matchers: spec.Matchers}
	var err error
	switch {
	case spec.Recording != "":
		s.Name, s.Arguments = spec.Recording, render.ShellWord(spec.Recording)
		err = s.openRecording(ctx, spec.Recording)
	case spec.Prometheus != "":
		s.Name = Redacted(spec.Prometheus)
		s.Arguments = "--prometheus " + render.ShellWord(s.Name)
		if len(spec.Matchers) > 0 {
			s.Arguments += " --match " + render.ShellWord(indicator.Selector("", spec.Matchers...))
		}
		err = s.openPrometheus(spec)
	case len(spec.URLs) > 0:
		if err = spec.checkSigning(); err == nil {
			err = s.openServers(spec)
		}
	default:
		err = hint.With(errors.New("no source of samples"), "give a server's URL, a recording or --prometheus URL")
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openStore opens a storage for loaded or scraped samples.
func (s *Source) openStore(cfg embedded.Config) error {
	store, err := embedded.Open(cfg)
	if err != nil {
		return err
	}
	s.store, s.Querier = store, store
	s.closers = append(s.closers, store.Close)
	s.warnings = append(s.warnings, store.Warnings)
	return nil
}

func (s *Source) openRecording(ctx context.Context, path string) (err error) {
	rec, err := recording.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	s.warnings = append(s.warnings, rec.Warnings)
	if err := s.openStore(embedded.Config{}); err != nil {
		return err
	}
	if err := s.store.Load(ctx, rec, nil); err != nil {
		return hint.Or(err, "check that the files are answers of /metrics")
	}
	if err := s.onlyStrangersError(ctx); err != nil {
		return err
	}
	s.noted = map[string]recording.Noted{}
	for _, name := range rec.Targets() {
		s.noted[name] = rec.Noted(name)
	}
	pace, err := identity.ReadPace(ctx, s, nil, s.Span().Last)
	s.interval = pace.Interval
	return err
}

func (s *Source) openPrometheus(spec Spec) error {
	client, err := api.New(api.Config{URL: spec.Prometheus, HTTP: spec.HTTP, Signing: spec.Signing})
	if err != nil {
		return err
	}
	s.rules, s.opened = client.Rules, time.Now()
	s.acceptPartial(client)
	s.warnings = append(s.warnings, client.Warnings)
	s.closers = append(s.closers, func() error { client.Close(); return nil })
	return nil
}

// acceptPartial accepts a server's partial answers and records their warnings.
func (s *Source) acceptPartial(q metrics.Querier) {
	p := &partials{}
	s.Querier, s.partial = &lenient{q, p.recordPartial}, p.listWarnings
}

// WithoutPartials returns the same source with an empty record of partial answers. A monitor queries again and again,
// and an hour-old partial answer says nothing about now. Only the original is closed.
func (s *Source) WithoutPartials() *Source {
	c := *s
	if q, ok := s.Querier.(*lenient); ok {
		c.acceptPartial(q.next)
	}
	return &c
}

func (s *Source) openServers(spec Spec) error {
	scraper, err := NewScraper(spec)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { scraper.Close(); return nil })
	s.interval = scraper.Interval
	s.warnings = append(s.warnings, scraper.Notes)
	var words []string
	for _, u := range spec.URLs {
		words = append(words, render.ShellWord(Redacted(u)))
	}
	s.Arguments = strings.Join(words, " ")
	s.Name = scraper.Targets[0].Name()
	if n := len(scraper.Targets); n > 1 {
		s.Name += fmt.Sprintf(" and %d more", n-1)
	}
	if err := s.openStore(spec.Storage); err != nil {
		return err
	}
	s.Live = newLive(scraper, s.store)
	return nil
}

// OpenPages opens an empty source for pages that the caller brings, one every interval.
func OpenPages(interval time.Duration, storage embedded.Config) (*Source, error) {
	s := &Source{interval: interval}
	return s, s.openStore(storage)
}

// AddPage stores a page of a target, or a failed scrape if the body is nil. Pages of one target must come in the order
// of time.
func (s *Source) AddPage(instance string, page scrape.Body) error {
	t := embedded.Target{Instance: instance}
	if page.Raw == nil {
		return s.store.AppendFailureAfter(t, page.At, page.Duration)
	}
	_, err := s.store.Append(t, page.At, page.Raw, page.ContentType, page.Duration)
	return err
}

// ReadLog reads the file of an engine's log.
func ReadLog(path string) (*engine.Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--engine-log: %w", err)
	}
	defer file.Close()
	log, err := engine.ParseLog(file, time.Now())
	if err != nil {
		return nil, fmt.Errorf("--engine-log %s: %w", path, err)
	}
	return &log, nil
}

// OpenLog opens the statistics in an engine's log, as pages. They have no latencies. The name becomes the label
// instance.
func OpenLog(ctx context.Context, name string, log *engine.Log) (*Source, error) {
	pages := log.Pages()
	if len(pages) == 0 {
		return nil, errors.New("it has no line with statistics")
	}
	s, err := OpenPages(log.Interval(), embedded.Config{})
	if err != nil {
		return nil, err
	}
	s.Name = name
	for _, p := range pages {
		err := context.Cause(ctx)
		if err == nil {
			err = s.AddPage(name, scrape.Body{Raw: p.Body, At: p.At})
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close releases what Open holds. Nothing is scraped any more by then.
func (s *Source) Close() error {
	var err error
	for _, c := range slices.Backward(s.closers) {
		err = errors.Join(err, c())
	}
	return err
}

// Warnings returns one sentence for each kind of data that was skipped, dropped, or answered partially so far.
func (s *Source) Warnings() []string {
	var all []string
	if s.partial != nil {
		all = s.partial()
	}
	for _, w := range s.warnings {
		all = append(all, w()...)
	}
	return all
}

// Matchers returns the matchers that every query about the servers needs.
func (s *Source) Matchers() []*labels.Matcher { return s.matchers }

// Span returns the available time: from the first page to the last one, zero without pages. A Prometheus server's
// span has no beginning, and ends when the server was opened.
func (s *Source) Span() Span {
	if s.store == nil {
		return Span{Last: s.opened}
	}
	first, last, _ := s.store.Times()
	return Span{First: first, Last: last}
}

// Rules lists the rules that a Prometheus server evaluates.
func (s *Source) Rules(ctx context.Context) ([]api.Rule, error) {
	if s.rules == nil {
		return nil, api.ErrNoRules
	}
	return s.rules(ctx)
}

// Created returns when the oldest process began to count, zero if none exposes it.
func (s *Source) Created() time.Time {
	var oldest time.Time
	if s.store == nil {
		return oldest
	}
	for _, t := range s.store.Targets() {
		if at, ok := s.store.FirstCreated(t); ok && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest
}

// Pace returns the scrape interval before a time, and since when it applies. Targets that sixty scrapes itself have
// the requested interval.
func (s *Source) Pace(ctx context.Context, at time.Time) (identity.Pace, error) {
	if s.store == nil {
		return identity.ReadPace(ctx, s, s.matchers, at)
	}
	return identity.Pace{First: s.Span().First, Interval: s.interval}, nil
}

// Restrict returns a source of the matching series alone.
func (s *Source) Restrict(match []*labels.Matcher) *Source {
	c := *s
	if q, ok := s.Querier.(*lenient); ok {
		c.acceptPartial(metrics.Restrict(q.next, match))
		return &c
	}
	c.Querier = metrics.Restrict(s.Querier, match)
	return &c
}

// WithMatcher returns the same source with a further matcher for queries about the servers.
func (s *Source) WithMatcher(match *labels.Matcher) *Source {
	c := *s
	c.matchers = append(slices.Clip(s.matchers), match)
	return &c
}

// First returns the time of the servers' first sample within a span, zero without one.
func (s *Source) First(ctx context.Context, from, to time.Time) (time.Time, error) {
	return identity.First(ctx, s, s.matchers, from, to)
}

// Options returns the options of a diagnosis at one time. The caller adds the pathologies.
func (s *Source) Options(ctx context.Context, at time.Time) (diagnose.Options, error) {
	pace, err := s.Pace(ctx, at)
	o := diagnose.Options{
		At: at, First: pace.First, Created: s.Created(), Interval: pace.Interval,
		Matchers: s.matchers, Every: s.store != nil, Scraper: s.scraper,
	}
	switch {
	case s.Live != nil:
		o.Annotate = s.Live.Annotate
	case s.noted != nil:
		o.Annotate = s.annotateTargets
	}
	return o, err
}

// annotateTargets adds what the servers of a recording said about themselves beside their metrics.
func (s *Source) annotateTargets(ts []diagnose.Target) {
	for i := range ts {
		n := s.noted[ts[i].Labels["instance"]]
		models := make([]scrape.Model, len(n.Models))
		for k, m := range n.Models {
			models[k] = scrape.Model(m)
		}
		if ts[i].Serves() {
			addRelease(&ts[i], n.Version, models)
		}
	}
}

// Complete fills in options from the source: the time and the baseline, in the syntax of --at and --baseline, and
// what servers report beside their metrics.
func (s *Source) Complete(ctx context.Context, o *diagnose.Options, at, baseline string) error {
	span := s.Span()
	moment, err := span.At(at)
	if err != nil {
		return err
	}
	own, err := s.Options(ctx, moment)
	if err != nil {
		return err
	}
	predict := o.Predict
	*o = mergeOptions(own, *o)
	o.Predict = predict
	if s.Live != nil {
		return nil
	}
	if span.First.IsZero() {
		span.Last = moment
	}
	length := o.Window
	if length == 0 {
		length = segments.UsualWindow(o.Interval)
	}
	if o.Baseline, err = span.Baseline(baseline, moment.Add(-length)); err == nil && o.Baseline.To.After(moment) {
		err = fmt.Errorf("it ends (%s) after --at (%s)", FormatTime(o.Baseline.To), FormatTime(moment))
	}
	if err != nil {
		return fmt.Errorf("--baseline: %w", err)
	}
	return nil
}

// With opens a source, calls fn with it, notes its warnings and closes it.
func With(ctx context.Context, spec Spec, note func([]string), fn func(*Source) error) (err error) {
	s, err := Open(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		note(s.Warnings())
		err = errors.Join(err, s.Close())
	}()
	return fn(s)
}

// Redacted returns a URL without its password and its query, which may be secret.
func Redacted(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	u.RawQuery = ""
	return u.Redacted()
}

// OfCollector returns a source over samples that a scraper in this process collects continuously. The caller closes the
// storage behind it.
func OfCollector(name string, q metrics.Querier, matchers ...*labels.Matcher) *Source {
	return &Source{Querier: q, Name: name, matchers: matchers, opened: time.Now(), scraper: true}
}
