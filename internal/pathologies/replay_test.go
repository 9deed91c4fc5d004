package pathologies_test

import (
	"iter"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestEveryAlertFiresAndStaysSilent evaluates the usual rules on the cases of every pathology, at the usual scrape
// interval.
func TestEveryAlertFiresAndStaysSilent(t *testing.T) {
	cfg := usualRules(t, generate.UsualInterval, "vllm-v1", "dcgm", string(dialect.Gateway))
	rules, err := generate.NewRules(cfg)
	must.Succeed(t, err)
	for _, p := range pathologies.All() {
		t.Run(p.ID, func(t *testing.T) {
			t.Parallel()
			alert := generate.AlertNames(&cfg.Deployment, p)[0]
			for name, want := range map[string]bool{"fires": true, "nearmiss": false} {
				c := openSlowly(t, p, name)
				if firesOn(t, rules.Groups(), alert, c, generate.CaseEvaluation, want) != want {
					t.Errorf("%s: want firing %v", name, want)
				}
			}
		})
	}
}

// TestAServerHasItsOwnEnginesAlert holds that, in a deployment of two engines, a dead vLLM server raises the alert
// named after vLLM, and no other.
func TestAServerHasItsOwnEnginesAlert(t *testing.T) {
	cfg := usualRules(t, generate.UsualInterval, "vllm-v1", "sglang")
	rules, err := generate.NewRules(cfg)
	must.Succeed(t, err)
	down := byID("target-down")
	dead := openSlowly(t, down, "fires")
	for i, alert := range generate.AlertNames(&cfg.Deployment, down) {
		if want := i == 0; firesOn(t, rules.Groups(), alert, dead, generate.CaseEvaluation, want) != want {
			t.Errorf("%s: want firing %v", alert, want)
		}
	}
}

// openSlowly reads a case and stretches it to the usual scrape interval.
func openSlowly(t *testing.T, p *catalog.Pathology, name string) *history.Case {
	t.Helper()
	c, err := generate.OpenCase(os.DirFS(strings.ReplaceAll(p.ID, "-", "")+"/testdata"), name)
	must.Succeed(t, err)
	return c
}

// usualRules returns the configuration of all alerts for servers of some dialects.
func usualRules(t *testing.T, interval time.Duration, ids ...string) generate.RulesConfig {
	t.Helper()
	cfg := generate.RulesConfig{
		Deployment:  dialect.Deployment{Instance: dialect.UsualInstance, Model: dialect.UsualModel, Past: time.Hour},
		Pathologies: pathologies.All(), Interval: interval, Past: generate.UsualPast, Ago: generate.UsualAgo,
	}
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(interval)
	for _, id := range ids {
		d, err := dialect.Named(id)
		must.Succeed(t, err)
		cfg.Deployment.Dialects = append(cfg.Deployment.Dialects, d)
	}
	return cfg
}

// firesOn evaluates an alert on a case, and reports whether it fires at the end, or at any time.
func firesOn(
	t *testing.T, groups []rulefmt.RuleGroup, alert string, c *history.Case, evaluation time.Duration, atSomeTime bool,
) bool {
	t.Helper()
	store := embeddedtest.New(t)
	groups, read := generate.GroupsBehind(groups, alert)
	rules, err := store.Rules(groups)
	must.Succeed(t, err)
	series := c.Series()
	// A target is up even if an alert reads none of its series.
	answered := history.Series{
		Labels: labels.FromStrings(labels.MetricName, "answered"), Values: make([]float64, c.Scrapes),
	}
	for instance, all := range series {
		series[instance] = append(slices.DeleteFunc(all, func(s history.Series) bool {
			return !read[s.Name()] && s.Name() != history.Up && s.Name() != history.Took
		}), answered)
	}
	fires, end := false, time.Duration(c.Scrapes-1)*c.Every
	target := func(instance string) embedded.Target {
		return embedded.Target{Instance: instance, Job: "vllm", Labels: map[string]string{"namespace": "prod"}}
	}
	for at, err := range scrapeCase(store, c, series, history.Start, target) {
		must.Succeed(t, err)
		if after := at.Sub(history.Start); after%evaluation != 0 && after != end {
			continue
		}
		must.Succeed(t, rules.Eval(t.Context(), at))
		fires = slices.ContainsFunc(rules.Alerts(), func(a embedded.Alert) bool { return a.Name == alert && a.Firing })
		if fires && atSomeTime {
			break
		}
	}
	return fires
}

// scrapeCase appends series of a case to a store, from a time on. It yields the time of each scrape, and ends with the
// first error.
func scrapeCase(
	store *embedded.Store, c *history.Case, series map[string][]history.Series, begin time.Time,
	target func(instance string) embedded.Target,
) iter.Seq2[time.Time, error] {
	return func(yield func(time.Time, error) bool) {
		pages := map[string]exposition{}
		for instance, all := range series {
			pages[instance] = newExposition(all)
		}
		for i := range c.Scrapes {
			at := begin.Add(time.Duration(i) * c.Every)
			for _, instance := range slices.Sorted(maps.Keys(pages)) {
				up, took := true, 10*time.Millisecond
				for _, s := range series[instance] {
					switch {
					case s.Name() == history.Up:
						up = s.Values[i] == 1
					case s.Name() == history.Took:
						took = time.Duration(s.Values[i] * float64(time.Second))
					}
				}
				var err error
				if up {
					_, err = store.Append(target(instance), at, pages[instance].at(i), "", took)
				} else {
					err = store.AppendFailureAfter(target(instance), at, took)
				}
				if err != nil {
					yield(at, err)
					return
				}
			}
			if !yield(at, nil) {
				return
			}
		}
	}
}

// An exposition renders the pages of one target in Prometheus' text format.
type exposition []exposedSeries

type exposedSeries struct {
	series string
	values []float64 // by scrape
}

// newExposition returns the exposition of series, without those that the scraper itself records.
func newExposition(all []history.Series) (e exposition) {
	for _, s := range all {
		if s.Name() != history.Up && s.Name() != history.Took {
			rest := labels.NewBuilder(s.Labels).Del(labels.MetricName).Labels()
			e = append(e, exposedSeries{s.Name() + rest.String() + " ", s.Values})
		}
	}
	return e
}

// at returns the page of one scrape.
func (e exposition) at(scrape int) []byte {
	var b []byte
	for _, l := range e {
		if v := l.values[scrape]; !math.IsNaN(v) {
			b = append(strconv.AppendFloat(append(b, l.series...), v, 'g', -1, 64), '\n')
		}
	}
	return b
}
