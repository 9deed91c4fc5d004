package generate

import (
	"cmp"
	_ "embed" // of the template
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/generate/history"
)

// Time in unit tests is stretched: the rules take a day as normal, and wait for minutes before they fire.
const (
	testScrape = 15 * time.Second
	testLength = 4 * time.Hour
	// CaseEvaluation is the longest interval at which rules are evaluated over a case: a restart lasts two minutes in it.
	CaseEvaluation = 90 * time.Second
	// mostSlowed bounds the stretching, so that growth stays fast enough to be seen.
	mostSlowed = 12
)

//go:embed ruletest.yaml.tmpl
var ruleTestTemplate string

// A unitTest is told by promtool's input series from time 0 on.
type unitTest struct {
	Name   string
	Fires  bool // expect the alert to fire at some time until At; otherwise, not to fire then
	At     string
	Series []testSeries
}

// A testSeries is one series in promtool's notation: "0+60x10".
type testSeries struct{ Name, Values string }

// RuleTests makes promtool unit tests from the case files of pathologies: a server on which the alert fires, and a
// near miss. The rules are those of the configuration. cases holds a directory for each pathology, named by its id
// without hyphens. ruleFiles are the paths of the rules relative to the tests.
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
	evaluation := min(CaseEvaluation, 3*cmp.Or(cfg.Interval, UsualInterval))
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
		alert := AlertNames(&dialect.Deployment{Dialects: []dialect.Dialect{v1}}, p)[0]
		_, seriesRead := GroupsBehind(rules.Groups(), alert)
		dir, err := fs.Sub(cases, strings.ReplaceAll(p.ID, "-", "")+"/testdata")
		if err != nil {
			return nil, nil, err
		}
		var tests []unitTest
		for i, name := range []string{"fires", "nearmiss"} {
			c, err := OpenCase(dir, name)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", p.ID, err)
			}
			tests = append(tests, unitTest{
				p.ID + " " + name, i == 0, formatDuration(c.At.Truncate(time.Second)),
				listTestSeries(c, seriesRead, target),
			})
		}
		content, err := render(ruleTestTemplate, map[string]any{
			"RuleFiles": ruleFiles, "Evaluation": formatDuration(evaluation), "Scrape": formatDuration(testScrape),
			"Alert": alert, "Length": formatDuration(testLength), "Tests": tests,
		})
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

// OpenCase reads the case file NAME.txt and slows it down to the pace at which servers are scraped, so that rules that
// wait for minutes fire.
func OpenCase(dir fs.FS, name string) (*history.Case, error) {
	c, err := history.Open(dir, name)
	if err != nil {
		return nil, err
	}
	return c.Stretch(testScrape, min(mostSlowed, max(1, int(testLength/testScrape)/c.Scrapes))), nil
}

// exampleTarget returns labels of a target that the matchers of the deployment select.
func (cfg *RulesConfig) exampleTarget() (map[string]string, error) {
	target := map[string]string{"model_name": "m", "job": "vllm"}
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

// metricName matches the names in an expression, labels and functions among them.
var metricName = regexp.MustCompile(`[a-zA-Z_:][\w:]*`)

// GroupsBehind reduces groups to an alert and the rules that it reads, directly or indirectly. It also returns the
// names of what these read.
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

// listTestSeries lists the series of a case that are read, with the labels of the deployment.
func listTestSeries(c *history.Case, seriesRead map[string]bool, target map[string]string) (out []testSeries) {
	series := c.Series()
	for _, instance := range slices.Sorted(maps.Keys(series)) {
		for _, s := range series[instance] {
			if !seriesRead[s.Name()] {
				continue
			}
			b := labels.NewBuilder(s.Labels)
			for name, value := range target {
				if value != "" && (name != "model_name" || s.Labels.Get(name) == "m") {
					b.Set(name, value)
				}
			}
			b.Set("instance", instance)
			out = append(out, testSeries{b.Labels().String(), formatSamples(sinceStart(s))})
		}
	}
	return out
}

// sinceStart moves timestamps to the beginning of Unix time, where promtool's clock starts.
func sinceStart(s history.Series) []float64 {
	if !strings.HasSuffix(s.Name(), "_created") && s.Name() != "process_start_time_seconds" {
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
	for len(vs) > 0 {
		n, step := countEqualSteps(vs)
		part := formatRounded(vs[0])
		switch {
		case math.IsNaN(vs[0]):
			part = fmt.Sprintf("_x%d", n)
		case step != 0:
			part += fmt.Sprintf("%+.12gx%d", step, n-1)
		case n > 1:
			part += fmt.Sprintf("x%d", n-1)
		}
		parts, vs = append(parts, part), vs[n:]
	}
	return strings.Join(parts, " ")
}

// countEqualSteps returns how many samples follow each other in equal steps, up to rounding errors, or are missing.
func countEqualSteps(vs []float64) (n int, step float64) {
	continues := func(v float64) bool { return math.IsNaN(vs[0]) && math.IsNaN(v) }
	if len(vs) > 1 && !math.IsNaN(vs[0]) && !math.IsNaN(vs[1]) {
		step = vs[1] - vs[0]
		continues = func(v float64) bool {
			return math.Abs(v-vs[0]-step*float64(n)) <= 1e-9*max(1, math.Abs(v))
		}
	}
	for n = 1; n < len(vs) && continues(vs[n]); n++ {
	}
	return n, step
}

func formatRounded(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
