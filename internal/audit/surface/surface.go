// Package surface does the I/O of an audit: it reads what servers expose, and the files to audit.
//
// A Deployment is read from metrics pages, a recording, or a Prometheus server with its rules (surface.go), or
// derived from dialects if no server can be reached. Paths reads the files, and Deployment.Audit joins both into a
// report, after it has repaired the files if asked (files.go). The judgements are in packages audit and checks.
package surface

import (
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
	"github.com/sixty-dev/sixty/internal/render"
)

// A Deployment is what servers expose, with the rules of their Prometheus server.
type Deployment struct {
	Surface  *checks.Surface
	Rules    []*files.Document
	AllRules bool     // Rules are complete, even if there are none
	Notes    []string // for people: what could not be read
}

// ForDialects returns the deployment of servers that cannot be reached, by their dialects; without a dialect, of the
// newest release of every engine.
func ForDialects(ids ...string) (d *Deployment, err error) {
	d = &Deployment{}
	d.Surface, err = checks.SurfaceOf(ids...)
	return d, err
}

// Read reads what servers expose: one scrape of each URL, or the samples of a recording or a Prometheus server at a
// time in the syntax of source.Span. With an error, the deployment has Notes alone.
func Read(ctx context.Context, spec source.Spec, when string) (d *Deployment, err error) {
	d = &Deployment{}
	q, err := source.Open(ctx, spec)
	if err != nil {
		return d, err
	}
	defer func() {
		d.Notes = append(d.Notes, q.Warnings()...)
		err = errors.Join(err, q.Close())
	}()
	if q.Live != nil {
		q.Live.ScrapeOnce(ctx)
		if err := q.Live.Answered(); err != nil {
			return d, err
		}
		for i := range q.Live.Targets {
			if err := q.Live.LastError(i); err != nil {
				d.Notes = append(d.Notes, err.Error())
			}
		}
	}
	at, err := q.Span().At(when)
	if err != nil {
		return d, err
	}
	exposed, err := ReadSource(ctx, q, at, spec.Prometheus != "")
	if err != nil {
		return d, err
	}
	if d.Surface = exposed.Surface; len(d.Surface.Dialects) == 0 {
		return d, hint.With(errors.New("no metric of an inference server found"),
			"check the address and --match; with --disable-log-stats vLLM shows none")
	}
	if !d.Surface.Whole {
		if q.Live != nil {
			addOpenPages(d.Surface, &spec, q.Live)
			addCommandLines(d.Surface, q.Live)
		}
		return d, nil
	}
	rules, err := q.Rules(ctx)
	if err != nil {
		reason := strings.ReplaceAll(err.Error(), "\n", "; ")
		d.Notes = append(d.Notes, "the server's rules cannot be read ("+reason+"): give them with --rules")
		return d, nil
	}
	d.Rules, d.AllRules = ruleFiles(rules), true
	return d, nil
}

// answers reports whether the i-th server answered, and its host.
func answers(servers *source.Live, i int) (host string, ok bool) {
	host, _, err := net.SplitHostPort(servers.Targets[i].Instance)
	return host, err == nil && servers.LastError(i) == nil
}

func isLocal(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// addOpenPages records the metrics pages of other machines that were read without authentication.
func addOpenPages(s *checks.Surface, spec *source.Spec, servers *source.Live) {
	if spec.HTTP.Authorization != nil || spec.HTTP.BasicAuth != nil || spec.HTTP.TLSConfig.CertFile != "" ||
		spec.HTTP.HTTPHeaders != nil {
		return
	}
	for i, t := range servers.Targets {
		if host, ok := answers(servers, i); ok && !isLocal(host) {
			s.Expose(checks.OpenPages, t.Instance)
		}
	}
}

// addCommandLines records secrets in the command lines of servers, if one of them runs on this machine. It reads /proc,
// which only Linux has.
func addCommandLines(s *checks.Surface, servers *source.Live) {
	anyLocal := false
	for i := range servers.Targets {
		host, ok := answers(servers, i)
		anyLocal = anyLocal || ok && isLocal(host)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || !anyLocal {
		return
	}
	for _, p := range processes {
		text, err := os.ReadFile(p)
		words := strings.Split(string(text), "\x00")
		if err == nil && slices.ContainsFunc(words[:min(4, len(words))], isServer) {
			s.AddCommandLine(strings.Join(words, " "))
		}
	}
}

// isServer reports whether a word of a command line names vLLM or SGLang, as a program or a module.
func isServer(word string) bool {
	name := path.Base(word)
	return name == "vllm" || strings.HasPrefix(name, "vllm.") || strings.HasPrefix(name, "sglang.")
}

// lookback is how old a series may be to count as exposed.
const lookback = 15 * time.Minute

// ReadSource reads what a source holds at a time, without rules. whole says that the source has the metrics of all
// programs of the deployment, and not of inference servers alone.
func ReadSource(ctx context.Context, q *source.Source, at time.Time, whole bool) (*Deployment, error) {
	targets, _, err := identity.Discover(ctx, q, identity.Search{At: at, Lookback: lookback, Matchers: q.Matchers()})
	if err != nil {
		return nil, err
	}
	s := checks.NewSurface(q.Name)
	s.Live, s.Whole = true, whole
	for _, t := range targets {
		if !t.Dialect.Exposes(dialect.HostInfo) { // else sixty itself measured this machine
			s.AddTarget(t.Dialect, t.Labels["model_name"], t.Labels["instance"])
		}
	}
	if s.Source = render.Plural(len(s.Instances), "server"); q.Live == nil {
		s.Source += " in the samples of " + q.Name
	}
	if err := addNames(ctx, q, s, at); err != nil {
		return nil, err
	}
	s.Interval, err = scrapeInterval(ctx, q, at)
	return &Deployment{Surface: s}, err
}

// scrapeInterval returns the time between two scrapes, or 0 with less than two minutes of history: a server that was
// discovered a moment ago has few samples, but is not scraped slowly.
func scrapeInterval(ctx context.Context, q *source.Source, at time.Time) (time.Duration, error) {
	pace, err := q.Pace(ctx, at)
	if err != nil || pace.Scrapes < 4 || at.Sub(pace.First) < 2*time.Minute {
		return 0, err
	}
	return pace.Interval, nil
}

// addNames adds the names of all series of inference servers and of what the checklist looks for, with bucket edges and
// labels. A Prometheus server may have very many series, so that it is asked for three groupings of them instead.
func addNames(ctx context.Context, q *source.Source, s *checks.Surface, at time.Time) error {
	wanted, matchers := strings.Join(audit.Wanted(), "|"), q.Matchers()
	seriesOf := func(names string, matchers []*labels.Matcher) string {
		texts := []string{labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, names).String()}
		for _, m := range matchers {
			texts = append(texts, m.String())
		}
		// sixty's own measurements of this machine do not belong to the deployment.
		return fmt.Sprintf("last_over_time({%s}[%[3]s]) unless on (instance) last_over_time(%[2]s[%[3]s])",
			strings.Join(texts, ","), dialect.HostInfo, model.Duration(lookback))
	}
	all := seriesOf(dialect.Selector+"|process_.+|"+wanted, matchers)
	exprs := []string{all}
	if s.Whole {
		buckets := labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".+_bucket")
		exprs = []string{
			"group by (__name__) (" + seriesOf(wanted, nil) + ")", // the user's matchers are not for gateways and hosts
			"group by (__name__, le) (" + seriesOf(dialect.Selector, append(slices.Clone(matchers), buckets)) + ")",
			"group by (__name__, " + strings.Join(checks.PersonalLabels(), ", ") + ") (" + all + ")",
		}
	}
	for _, expr := range exprs {
		v, err := q.Query(ctx, expr, at)
		if err != nil {
			return fmt.Errorf("find metric names: %w", err)
		}
		for _, sample := range v {
			metric := string(sample.Metric[model.MetricNameLabel])
			s.AddName(metric, string(sample.Metric[model.BucketLabel]))
			for _, name := range slices.Sorted(maps.Keys(sample.Metric)) {
				s.AddLabel(metric, string(name), string(sample.Metric[name]))
			}
		}
	}
	return nil
}

// ruleFiles turns a server's rules into documents, one for each of the server's files.
func ruleFiles(rules []api.Rule) []*files.Document {
	all := map[string]*files.Document{}
	for _, r := range rules {
		if all[r.File] == nil {
			all[r.File] = &files.Document{Name: r.File + " (in Prometheus)"}
		}
		q := files.NewRule(r.Alert, r.Record, r.Annotations["runbook_url"])
		q.Expr = r.Expr
		all[r.File].Add(q)
	}
	var out []*files.Document
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}
