// Package surface reads what servers expose, for the audit: from their pages, from a recording, or from a
// Prometheus-compatible server and its rules.
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

// A Deployment is what the servers expose, the rules that a Prometheus server evaluates,
// and what a user should know of how they were looked at.
type Deployment struct {
	Surface  *checks.Surface
	Rules    []*files.Document
	AllRules bool // Rules are all that there are
	Notes    []string
}

// Of reads what the servers of a Spec expose: of URLs one scrape each, of a recording and of a Prometheus server what
// they hold at a time, in the syntax of source.Span. Notes are returned beside an error too.
func Of(ctx context.Context, spec source.Spec, when string) (d *Deployment, err error) {
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
	seen, err := OfSource(ctx, q, at, spec.Prometheus != "")
	if err != nil {
		return d, err
	}
	if d.Surface = seen.Surface; len(d.Surface.Dialects) == 0 {
		return d, hint.With(errors.New("no metric of an inference server found"),
			"check the address and --match; with --disable-log-stats vLLM shows none")
	}
	if !d.Surface.Whole {
		d.lookAround(&spec, q.Live)
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

// lookAround notes which pages anybody may read from other machines, and the command lines of servers on
// this one.
func (d *Deployment) lookAround(spec *source.Spec, servers *source.Live) {
	here := false
	if servers == nil {
		return
	}
	for i, t := range servers.Targets {
		host, _, err := net.SplitHostPort(t.Instance)
		switch {
		case err != nil || servers.LastError(i) != nil:
		case host == "localhost" || net.ParseIP(host).IsLoopback():
			here = true
		case spec.HTTP.Authorization == nil && spec.HTTP.BasicAuth == nil && spec.HTTP.TLSConfig.CertFile == "" &&
			spec.HTTP.HTTPHeaders == nil:
			d.Surface.Expose(checks.OpenPages, t.Instance)
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || !here {
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

// recently is how far back a Prometheus server is asked for names.
const recently = 15 * time.Minute

// OfSource looks at what a source holds at a moment, without its rules; whole says that everything measured is in it.
func OfSource(ctx context.Context, q *source.Source, at time.Time, whole bool) (*Deployment, error) {
	targets, _, err := identity.Discover(ctx, q, identity.Search{At: at, Lookback: recently, Matchers: q.Matchers()})
	if err != nil {
		return nil, err
	}
	s := checks.NewSurface(q.Name)
	s.Live, s.Whole = true, whole
	for _, t := range targets {
		if !t.Dialect.Exposes(dialect.HostInfo) { // a page of this machine that sixty recorded
			s.AddTarget(t.Dialect, t.Labels["model_name"], t.Labels["instance"])
		}
	}
	if s.Source = render.Plural(len(s.Instances), "server"); q.Live == nil {
		s.Source += " in the samples of " + q.Name
	}
	if err := addNames(ctx, q, s, at); err != nil {
		return nil, err
	}
	s.Interval, err = steadyInterval(ctx, q, at)
	return &Deployment{Surface: s}, err
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

// addNames asks which names there are, of inference servers and of what the checklist looks for, for the edges of
// their buckets, and for labels that name who asked.
func addNames(ctx context.Context, q *source.Source, s *checks.Surface, at time.Time) error {
	wanted, matchers := strings.Join(audit.Wanted(), "|"), q.Matchers()
	of := func(pattern string, with []*labels.Matcher) string {
		texts := []string{labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, pattern).String()}
		for _, m := range with {
			texts = append(texts, m.String())
		}
		// The deployment does not measure what sixty records of this machine.
		return fmt.Sprintf("last_over_time({%s}[%[3]s]) unless on (instance) last_over_time(%[2]s[%[3]s])",
			strings.Join(texts, ","), dialect.HostInfo, model.Duration(recently))
	}
	all := of(dialect.Selector+"|process_.+|"+wanted, matchers)
	exprs := []string{all}
	if buckets := labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".+_bucket"); s.Whole { // and large
		exprs = []string{
			"group by (__name__) (" + of(wanted, nil) + ")", // gateways and hosts have labels of their own
			"group by (__name__, le) (" + of(dialect.Selector, slices.Concat(matchers, []*labels.Matcher{buckets})) +
				")",
			"group by (__name__, " + strings.Join(checks.PersonalLabels(), ", ") + ") (" + all + ")",
		}
	}
	for _, expr := range exprs {
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
