// Package surface reads what servers expose, for the audit: from their pages, from a recording, or from a
// Prometheus-compatible server and its rules.
package surface

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/audit"
	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics/api"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Deployment is what the servers expose, the rules that a Prometheus server evaluates,
// and what a user should know of how they were looked at.
type Deployment struct {
	Surface  *checks.Surface
	Rules    []*files.Document
	AllRules bool // Rules are all that there are
	Notes    []string
}

func (d *Deployment) note(text string) { d.Notes = append(d.Notes, text) }

// Of reads the servers of a Spec. A Prometheus server is queried at the time at, in the syntax of source.Span. Notes
// are returned beside an error too.
func Of(ctx context.Context, spec source.Spec, at string) (d *Deployment, err error) {
	d = &Deployment{}
	switch {
	case spec.Prometheus != "":
		err = d.ofPrometheus(ctx, spec, at)
	case spec.Recording != "":
		err = d.ofRecording(ctx, spec.Recording)
	default:
		err = d.ofServers(ctx, spec)
	}
	if err == nil && len(d.Surface.Dialects) == 0 {
		err = hint.With(errors.New("no metric of an inference server found"),
			"check the address and --match; with --disable-log-stats vLLM shows none")
	}
	return d, err
}

// A serverScrape is the last one of a server.
type serverScrape struct {
	name, instance string
	source.Scrape
}

func (d *Deployment) ofServers(ctx context.Context, spec source.Spec) error {
	scraper, err := source.NewScraper(spec)
	if err != nil {
		return err
	}
	defer scraper.Close()
	var pages []serverScrape
	for i, p := range scraper.FetchAll(ctx) {
		pages = append(pages, serverScrape{scraper.Targets[i].Name(), scraper.Targets[i].Instance, p})
	}
	if err := d.ofPages(render.Plural(len(pages), "server"), pages); err != nil {
		return err
	}
	d.lookAround(&spec, pages)
	return nil
}

// lookAround notes which pages anybody may read from other machines, and the command lines of servers on
// this one.
func (d *Deployment) lookAround(spec *source.Spec, pages []serverScrape) {
	here := false
	for _, p := range pages {
		host, _, err := net.SplitHostPort(p.instance)
		switch {
		case err != nil || p.Err != nil:
		case host == "localhost" || net.ParseIP(host).IsLoopback():
			here = true
		case spec.HTTP.Authorization == nil && spec.HTTP.BasicAuth == nil && spec.HTTP.TLSConfig.CertFile == "" && spec.HTTP.HTTPHeaders == nil:
			d.Surface.Expose(checks.OpenPages, p.instance)
		}
	}
	if !here {
		return
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return
	}
	for _, p := range processes { // none on other systems than Linux
		text, err := os.ReadFile(p)
		words := strings.Split(string(text), "\x00")
		if err == nil && slices.ContainsFunc(words[:min(4, len(words))], isServer) {
			d.Surface.AddCommandLine(strings.Join(words, " "))
		}
	}
}

// isServer reports whether a word of a command line is one of a server's beginning.
func isServer(word string) bool {
	name := path.Base(word)
	return name == "vllm" || strings.HasPrefix(name, "vllm.") || strings.HasPrefix(name, "sglang.")
}

// ofRecording reads the last page of each server. Pages of the machine that sixty record wrote itself are skipped,
// because the deployment does not measure them.
func (d *Deployment) ofRecording(ctx context.Context, path string) (err error) {
	rec, err := recording.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	last, own := map[string]serverScrape{}, []byte("\n"+dialect.HostInfo+"{")
	if err := rec.Scrapes(func(s recording.Scrape) error {
		if len(s.Body) > 0 && !bytes.Contains(s.Body, own) {
			last[s.Target] = serverScrape{path + ": " + s.Target, s.Target, source.Scrape{Body: scrape.Body{Raw: s.Body}}}
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	var pages []serverScrape
	for _, target := range slices.Sorted(maps.Keys(last)) {
		pages = append(pages, last[target])
	}
	return d.ofPages(render.Plural(len(pages), "server")+" in "+path, pages)
}

// ofPages reads pages. An unreadable page among several is a note.
func (d *Deployment) ofPages(from string, pages []serverScrape) error {
	d.Surface = checks.NewSurface(from)
	d.Surface.Live = true
	var failed []error
	for _, p := range pages {
		engine, err := d.add(p)
		switch {
		case err != nil && len(pages) == 1:
			return err
		case err != nil:
			d.note(err.Error())
			failed = append(failed, err)
		case !engine:
			_, err := p.Kind(p.name)
			if len(pages) == 1 && err != nil {
				return err
			}
			d.note(fmt.Sprintf("%v; %s", err, hint.Of(err)))
		}
	}
	if len(failed) == len(pages) && len(pages) > 0 {
		return hint.Or(fmt.Errorf("none of %d servers answers; the first: %w", len(pages), failed[0]), "check the addresses")
	}
	return nil
}

// add adds a server's page; false where it is no inference server's.
func (d *Deployment) add(p serverScrape) (bool, error) {
	if p.Err != nil {
		return false, p.Err
	}
	names := map[string]bool{}
	_, err := scrape.Parse(p.Body.Raw, p.Body.ContentType, func(l labels.Labels, _ int64, _ float64) {
		names[l.Get(labels.MetricName)] = true
		d.Surface.Add(l, p.instance)
	})
	switch {
	case errors.Is(err, scrape.ErrNotExposition):
		return false, hint.With(fmt.Errorf("scrape %s: %w", p.name, err), "check that the address is a server's metrics page")
	case err != nil:
		return false, fmt.Errorf("%s: %w", p.name, err)
	}
	return d.Surface.Detect(slices.Sorted(maps.Keys(names))), nil
}

// recently is how far back a Prometheus server is asked for names.
const recently = 15 * time.Minute

// ofPrometheus asks a server for the names, models and bucket edges that it holds, and
// for its rules.
func (d *Deployment) ofPrometheus(ctx context.Context, spec source.Spec, when string) (err error) {
	q, err := source.Open(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		d.Notes = append(d.Notes, q.Warnings()...)
		err = errors.Join(err, q.Close())
	}()
	at, err := q.Span().At(when)
	if err != nil {
		return err
	}
	if err := d.ofSource(ctx, q, at); err != nil {
		return err
	}
	rules, err := q.Rules(ctx)
	if err != nil {
		d.note("the server's rules cannot be read (" + brief(err) + "): give them with --rules")
		return nil
	}
	d.Rules, d.AllRules = ruleFiles(rules), true
	return nil
}

// OfSource looks at what a source holds at a moment, without its rules.
func OfSource(ctx context.Context, q *source.Source, at time.Time) (*Deployment, error) {
	d := &Deployment{}
	return d, d.ofSource(ctx, q, at)
}

func (d *Deployment) ofSource(ctx context.Context, q *source.Source, at time.Time) error {
	targets, _, err := identity.Discover(ctx, q, identity.Search{At: at, Lookback: recently, Matchers: q.Matchers()})
	if err != nil {
		return err
	}
	d.Surface = checks.NewSurface(q.Name)
	s := d.Surface
	s.Live, s.Whole = true, true
	for _, t := range targets {
		s.AddTarget(t.Dialect, t.Labels["model_name"], t.Labels["instance"])
	}
	s.Source = render.Plural(len(s.Instances), "server") + " in the samples of " + q.Name
	if err := addNames(ctx, q, s, at, q.Matchers()); err != nil {
		return err
	}
	s.Interval, err = steadyInterval(ctx, q, at)
	return err
}

// steadyInterval is the time between two scrapes where there is history enough
// to tell, 0 otherwise: a server that was discovered a moment ago has few
// samples, and is no slow one.
func steadyInterval(ctx context.Context, q *source.Source, at time.Time) (time.Duration, error) {
	pace, err := q.Pace(ctx, at)
	if err != nil || pace.Scrapes < 4 || at.Sub(pace.First) < 2*time.Minute {
		return 0, err
	}
	return pace.Interval, nil
}

func brief(err error) string {
	lines := strings.Split(err.Error(), "\n")
	return lines[len(lines)-1]
}

// addNames asks which names there are, of inference servers and of what the checklist looks for, for the edges of
// their buckets, and for labels that name who asked.
func addNames(ctx context.Context, q *source.Source, s *checks.Surface, at time.Time, matchers []*labels.Matcher) error {
	wanted := strings.Join(audit.Wanted(), "|")
	of := func(pattern string, with []*labels.Matcher) string {
		texts := []string{labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, pattern).String()}
		for _, m := range with {
			texts = append(texts, m.String())
		}
		return fmt.Sprintf("last_over_time({%s}[%s])", strings.Join(texts, ","), model.Duration(recently))
	}
	buckets := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".+_bucket")}
	for _, expr := range []string{
		"group by (__name__) (" + of(wanted, nil) + ")", // gateways and hosts have labels of their own
		"group by (__name__, le) (" + of(dialect.Selector, append(buckets, matchers...)) + ")",
		"group by (__name__, " + strings.Join(checks.PersonalLabels(), ", ") + ") (" +
			of(dialect.Selector+"|process_.+|"+wanted, matchers) + ")",
	} {
		v, err := q.Query(ctx, expr, at)
		if err != nil {
			return fmt.Errorf("find metric names: %w", err)
		}
		for _, sample := range v {
			of := string(sample.Metric[model.MetricNameLabel])
			s.AddName(of, string(sample.Metric[model.BucketLabel]))
			for _, name := range slices.Sorted(maps.Keys(sample.Metric)) {
				s.AddLabel(of, string(name), string(sample.Metric[name]))
			}
		}
	}
	return nil
}

// ruleFiles turns a server's rules into files that the linter reads, one for each of the server's.
func ruleFiles(rules []api.Rule) []*files.Document {
	all := map[string]*files.Document{}
	for _, r := range rules {
		if all[r.File] == nil {
			all[r.File] = &files.Document{Name: r.File + " (in Prometheus)"}
		}
		q := &files.Query{Role: files.Alert, Expr: r.Expr, Name: r.Alert, Where: "alert " + r.Alert, Runbook: r.Annotations["runbook_url"]}
		if r.Record != "" {
			q.Role, q.Name, q.Where = files.Record, r.Record, "recording rule "+r.Record
		}
		all[r.File].Add(q)
	}
	var out []*files.Document
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}
