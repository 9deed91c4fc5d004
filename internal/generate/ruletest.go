package generate

import (
	"cmp"
	_ "embed"
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

// Unit tests stretch the cases, which last for minutes: rules wait for minutes before they fire, and compare with
// hours.
const (
	testScrape = 15 * time.Second
	testLength = 4 * time.Hour
	// CaseEvaluation is the longest evaluation interval of rules over a case, so that a restart, which lasts two
	// minutes there, is not missed.
	CaseEvaluation = 90 * time.Second
	// maxStretch bounds the stretching, so that growth stays fast enough to be detected.
	maxStretch = 12
)

//go:embed ruletest.yaml.tmpl
var ruleTestTemplate string

// A unitTest is a unit test of promtool. Its series begin at time 0.
type unitTest struct {
	Name   string
	Fires  bool   // whether the alert must fire at some time until At, or must not
	At     string // a duration
	Series []testSeries
}

// A testSeries is one series in promtool's notation: "0+60x10".
type testSeries struct{ Name, Values string }

// RuleTests makes promtool unit tests from the case files of pathologies: a server on which the alert fires, and a
// near miss. cases holds a directory for each pathology, named by its id without hyphens. ruleFiles are the paths of
// the rules relative to the tests.
//
// The cases have vLLM's newest names and the default thresholds; the tests add the deployment's labels. A pathology
// that the deployment judges by other names or thresholds gets no test, and a note lists it.
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
	hasV1 := slices.ContainsFunc(cfg.Deployment.Dialects, func(d dialect.Dialect) bool { return d.Key() == v1.Key() })
	// The normal value needs a number of evaluations: rules with a shorter interval need a finer test.
	evaluation := min(CaseEvaluation, 3*cmp.Or(cfg.Interval, UsualInterval))
	var untested []string
	for _, p := range cfg.Pathologies {
		differs := !hasV1 && !atGateway(p) || len(cfg.Measured) > 0
		p.When.Leaves(func(c catalog.Cond) {
			for i := range segments {
				_, _, isSet := cfg.limitFinder(&segments[i])(c.Threshold)
				differs = differs || isSet
			}
		})
		if differs {
			untested = append(untested, p.ID)
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
	if len(untested) > 0 {
		notes = append(notes, "no unit tests of "+strings.Join(untested, ", ")+
			": theirs are for vLLM's newest names and the thresholds of the catalogue")
	}
	return files, notes, nil
}

// OpenCase reads the case file NAME.txt and stretches it to a realistic scrape interval, so that rules that wait for
// minutes fire.
func OpenCase(dir fs.FS, name string) (*history.Case, error) {
	c, err := history.Open(dir, name)
	if err != nil {
		return nil, err
	}
	return c.Stretch(testScrape, min(maxStretch, max(1, int(testLength/testScrape)/c.Scrapes))), nil
}

// exampleTarget returns labels of a target that the deployment's matchers select.
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

// identifier matches names of metrics, labels and functions in an expression.
var identifier = regexp.MustCompile(`[a-zA-Z_:][\w:]*`)

// GroupsBehind reduces groups to an alert and the recording rules that it reads, directly or indirectly. It also
// returns all names in their expressions.
func GroupsBehind(groups []rulefmt.RuleGroup, alert string) (behind []rulefmt.RuleGroup, read map[string]bool) {
	read = map[string]bool{}
	for grown := true; grown; {
		behind, grown = nil, false
		for _, g := range groups {
			g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r rulefmt.Rule) bool {
				return r.Alert != alert && !read[r.Record]
			})
			for _, r := range g.Rules {
				for _, name := range identifier.FindAllString(r.Expr, -1) {
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

// sinceStart returns the values of a series. If they are Unix times, it makes them relative to the start of the case:
// promtool's clock starts at 0.
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

// formatSamples writes samples in promtool's notation, as runs of equal steps: "0+60x10".
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

// countEqualSteps returns how many samples at the beginning have equal steps, up to rounding errors, and the step; or
// how many are missing.
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
