package generate

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/generate/history"
)

// Time in unit tests is stretched: the rules take a day as normal, and wait for minutes before they fire.
const (
	testScrape     = 15 * time.Second
	testEvaluation = 90 * time.Second
	testLength     = 4 * time.Hour
	// mostSlowed bounds the stretching, so that growth stays fast enough to be seen.
	mostSlowed = 12
)

// A RuleCase is a case file in the names and labels of a deployment, and the expected state of the pathology's alert.
type RuleCase struct {
	Alert  string
	Fires  bool // expect the alert to fire at some time; otherwise, not to fire at the end
	Case   *history.Case
	Series map[string][]history.Series // by instance, in the deployment's names; only series that the alert reads
	Labels map[string]string           // labels of all targets, beside instance and job

	Evaluation time.Duration // the rules' interval
}

// testJob is the label job of the servers in unit tests.
const testJob = "vllm"

// RuleTests makes promtool unit tests from the case files of pathologies: a server on which the alert fires, and a
// near miss. The rules are those of the configuration. cases holds a directory for each pathology, named by its id without hyphens. ruleFiles are the paths of
// the rules relative to the tests.
//
// The cases have vLLM's newest names and the default thresholds; they get the labels of the deployment. Pathologies
// that the deployment judges by other names or thresholds get no tests, and a note lists them.
func RuleTests(
	cfg RulesConfig, rules *Rules, cases fs.FS, ruleFiles []string,
) (files []File, notes []string, err error) {
	v1, err := dialect.Named("vllm-v1")
	if err != nil {
		return nil, nil, err
	}
	target, err := cfg.exampleTarget()
	if err != nil {
		return nil, nil, err
	}
	segments, err := cfg.divideFleet()
	if err != nil {
		return nil, nil, err
	}
	named := slices.ContainsFunc(cfg.Deployment.Dialects, func(d dialect.Dialect) bool { return d.Key() == v1.Key() })
	// The normal value needs a number of evaluations: rules with a shorter interval need a finer test.
	evaluation := min(testEvaluation, 3*cmp.Or(cfg.Interval, UsualInterval))
	var left []string
	for _, p := range cfg.Pathologies {
		other := !named && !atGateway(p) || len(cfg.Measured) > 0
		p.When.Leaves(func(c catalog.Cond) {
			for i := range segments {
				_, _, set := cfg.limitFinder(&segments[i])(c.Threshold)
				other = other || set
			}
		})
		if other {
			left = append(left, p.ID)
			continue
		}
		doc := testFile{RuleFiles: ruleFiles, EvaluationInterval: model.Duration(evaluation)}
		dir, err := fs.Sub(cases, strings.ReplaceAll(p.ID, "-", "")+"/testdata")
		if err != nil {
			return nil, nil, err
		}
		alert := AlertNames(&dialect.Deployment{Dialects: []dialect.Dialect{v1}}, p)[0]
		_, read := GroupsBehind(rules.Groups(), alert)
		for i, name := range []string{"fires", "nearmiss"} {
			c, err := history.Open(dir, name)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", p.ID, err)
			}
			t := stretchCase(c, read, target)
			t.Alert, t.Fires, t.Evaluation = alert, i == 0, evaluation
			doc.Tests = append(doc.Tests, t.newUnitTest(p.ID+" "+name, read))
		}
		content, err := YAML("", doc)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, File{p.ID + ".yaml", content})
	}
	if len(left) > 0 {
		notes = append(notes, "no unit tests of "+strings.Join(left, ", ")+
			": theirs are for vLLM's newest names and the thresholds of the catalogue")
	}
	return files, notes, nil
}

// exampleTarget returns labels of a target that the matchers of the deployment select.
func (cfg *RulesConfig) exampleTarget() (map[string]string, error) {
	target := map[string]string{"model_name": "m"}
	for _, m := range cfg.Deployment.Matchers {
		for _, candidate := range slices.Concat([]string{target[m.Name]}, m.SetMatches(), []string{m.Value, "a", "0"}) {
			if m.Matches(candidate) && (candidate != "" || m.Matches(target[m.Name])) {
				target[m.Name] = candidate
				break
			}
		}
		if !m.Matches(target[m.Name]) {
			return nil, hint.With(fmt.Errorf("--tests: no example of a server that %s matches was found", m),
				"leave --tests out")
		}
	}
	return target, nil
}

// stretchCase stretches a case in time, gives it the labels of the deployment, and leaves out what is not read.
func stretchCase(c *history.Case, read map[string]bool, target map[string]string) RuleCase {
	times := min(mostSlowed, max(1, int(testLength/testScrape)/c.Scrapes))
	c = c.Stretch(testScrape, times)
	t := RuleCase{Case: c, Series: map[string][]history.Series{}, Labels: map[string]string{}}
	for name, value := range target {
		if name != "model_name" && name != "instance" && value != "" {
			t.Labels[name] = value
		}
	}
	for instance, list := range c.Series() {
		t.Series[instance] = nil
		for _, s := range list {
			if !read[s.Labels.Get(labels.MetricName)] {
				continue
			}
			b := labels.NewBuilder(s.Labels)
			if s.Labels.Get("model_name") == "m" {
				b.Set("model_name", target["model_name"])
			}
			s.Labels = b.Labels()
			t.Series[instance] = append(t.Series[instance], s)
		}
	}
	return t
}

// metricName matches the names in an expression, labels and functions among them.
var metricName = regexp.MustCompile(`[a-zA-Z_:][\w:]*`)

// GroupsBehind reduces groups to an alert and the rules that it reads, directly or indirectly. It also returns the names
// of what these read.
func GroupsBehind(groups []rulefmt.RuleGroup, alert string) (behind []rulefmt.RuleGroup, read map[string]bool) {
	read = map[string]bool{}
	for grown := true; grown; {
		behind, grown = nil, false
		for _, g := range groups {
			g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r rulefmt.Rule) bool {
				return r.Alert != alert && !read[r.Record]
			})
			for _, r := range g.Rules {
				for _, name := range metricName.FindAllString(r.Expr, -1) {
					grown = grown || !read[name]
					read[name] = true
				}
			}
			if len(g.Rules) > 0 {
				behind = append(behind, g)
			}
		}
	}
	return behind, read
}

// newUnitTest writes a case as a unit test of promtool. want may include the series that a scrape itself adds.
func (t *RuleCase) newUnitTest(title string, want map[string]bool) unitTest {
	c := t.Case
	u := unitTest{Name: title, Interval: model.Duration(c.Every)}
	for _, instance := range slices.Sorted(maps.Keys(t.Series)) {
		for _, s := range t.Series[instance] {
			u.Series = append(u.Series, testSeries{
				t.formatSeries(s.Labels, instance), formatSamples(dropFailedScrapes(c, instance, sinceStart(s))),
			})
		}
		up, took := make([]float64, c.Scrapes), make([]float64, c.Scrapes)
		for i := range up {
			up[i], took[i] = 1, c.ScrapeDuration(instance, i).Seconds()
			if c.Down(instance, i) {
				up[i] = 0
			}
		}
		for _, own := range []struct {
			name   string
			values []float64
		}{{"up", up}, {"scrape_duration_seconds", took}} {
			if want[own.name] {
				u.Series = append(u.Series, testSeries{t.formatSeries(labels.FromStrings(labels.MetricName, own.name),
					instance), formatSamples(own.values)})
			}
		}
	}
	within := time.Duration(0)
	if t.Fires {
		within = testLength
	}
	u.Exprs = []exprTest{newFiringTest(t.Alert, c.At.Truncate(time.Second), within, t.Fires)}
	return u
}

// formatSeries writes the name and labels of a series in promtool's notation.
func (t *RuleCase) formatSeries(l labels.Labels, instance string) string {
	b := labels.NewBuilder(l).Set("instance", instance).Set("job", t.Job())
	for name, value := range t.Labels {
		b.Set(name, value)
	}
	return b.Labels().String()
}

// Job returns the label job of the case's servers.
func (t *RuleCase) Job() string { return cmp.Or(t.Labels["job"], testJob) }

// dropFailedScrapes drops the samples of failed scrapes.
func dropFailedScrapes(c *history.Case, instance string, vs []float64) []float64 {
	out := slices.Clone(vs)
	for i := range out {
		if c.Down(instance, i) {
			out[i] = math.NaN()
		}
	}
	return out
}

// sinceStart moves timestamps to the beginning of Unix time, where promtool's clock starts.
func sinceStart(s history.Series) []float64 {
	name := s.Labels.Get(labels.MetricName)
	if !strings.HasSuffix(name, "_created") && name != "process_start_time_seconds" {
		return s.Values
	}
	out := slices.Clone(s.Values)
	for i := range out {
		out[i] -= float64(history.Start.Unix())
	}
	return out
}

// formatSamples writes samples in promtool's notation: runs of equal steps.
func formatSamples(vs []float64) string {
	var parts []string
	for i := 0; i < len(vs); {
		if math.IsNaN(vs[i]) {
			n := i
			for n < len(vs) && math.IsNaN(vs[n]) {
				n++
			}
			parts = append(parts, fmt.Sprintf("_x%d", n-i))
			i = n
			continue
		}
		n, step := countEqualSteps(vs[i:])
		first := formatRounded(vs[i])
		switch {
		case n == 1:
			parts = append(parts, first)
		case step == 0:
			parts = append(parts, fmt.Sprintf("%sx%d", first, n-1))
		case step < 0:
			parts = append(parts, fmt.Sprintf("%s-%sx%d", first, formatRounded(-step), n-1))
		default:
			parts = append(parts, fmt.Sprintf("%s+%sx%d", first, formatRounded(step), n-1))
		}
		i += n
	}
	return strings.Join(parts, " ")
}

// countEqualSteps returns how many samples follow each other in equal steps, up to rounding errors.
func countEqualSteps(vs []float64) (n int, step float64) {
	if len(vs) == 1 || math.IsNaN(vs[1]) {
		return 1, 0
	}
	step = vs[1] - vs[0]
	n = 2
	for n < len(vs) && math.Abs(vs[n]-vs[0]-step*float64(n)) <= 1e-9*max(1, math.Abs(vs[n])) {
		n++
	}
	return n, step
}

func formatRounded(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }

// A testFile is an input file of "promtool test rules".
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []unitTest     `yaml:"tests"`
}

// A unitTest holds input series from time 0 on, and the expected results of expressions over these and over the
// series that the rules record.
type unitTest struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"` // between samples
	Series   []testSeries   `yaml:"input_series"`
	Exprs    []exprTest     `yaml:"promql_expr_test,omitempty"`
}

// A testSeries is one series in promtool's notation: "0+60x10".
type testSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// An exprTest is an expression and its expected samples at a time.
type exprTest struct {
	Expr    string         `yaml:"expr"`
	At      model.Duration `yaml:"eval_time"`
	Samples []exprSample   `yaml:"exp_samples"`
}

// An exprSample is one expected sample.
type exprSample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// newFiringTest expects an alert to fire at a time, or within a duration before it, or expects that it does not fire.
func newFiringTest(alert string, at, within time.Duration, fires bool) exprTest {
	firing := fmt.Sprintf("ALERTS{alertname=%q,alertstate=\"firing\"}", alert)
	if within > 0 {
		firing = fmt.Sprintf("max_over_time(%s[%s])", firing, formatDuration(within))
	}
	t := exprTest{
		Expr: fmt.Sprintf("group by (alertname) (%s)", firing), At: model.Duration(at), Samples: []exprSample{},
	}
	if fires {
		t.Samples = append(t.Samples, exprSample{fmt.Sprintf("{alertname=%q}", alert), 1})
	}
	return t
}
