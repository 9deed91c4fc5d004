package generate

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/casefile"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// unitTests is a file of promtool test rules.
type unitTests struct {
	RuleFiles          []string   `yaml:"rule_files"`
	EvaluationInterval string     `yaml:"evaluation_interval"`
	Tests              []unitTest `yaml:"tests"`
}

type unitTest struct {
	Name     string        `yaml:"name"`
	Interval string        `yaml:"interval"`
	Input    []inputSeries `yaml:"input_series"`
	Expect   []exprTest    `yaml:"promql_expr_test"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type exprTest struct {
	Expr     string      `yaml:"expr"`
	EvalTime string      `yaml:"eval_time"`
	Samples  []expSample `yaml:"exp_samples"`
}

type expSample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// How the cases are told in unit tests: slowly, for the rules know a day as
// what is normal and wait for minutes before they fire.
const (
	testScrape     = 15 * time.Second
	testEvaluation = 2 * time.Minute
	testLength     = 4 * time.Hour
	// mostSlowed keeps what grows from growing too slowly to be seen.
	mostSlowed = 12
)

// RuleTests makes promtool unit tests of the pathologies' case files: a server
// on which the alert fires, and one that comes near and on which it does not.
// Cases holds a directory for each pathology, its id without hyphens; ruleFile
// is the rules' path as the tests see it. The cases are written in the newest
// names and for the usual thresholds.
func RuleTests(cfg RulesConfig, cases fs.FS, ruleFile string) ([]File, error) {
	v1, err := dialect.Named("vllm-v1")
	if err != nil {
		return nil, err
	}
	var files []File
	for _, p := range cfg.Pathologies {
		dir, err := fs.Sub(cases, strings.ReplaceAll(p.ID, "-", "")+"/testdata")
		if err != nil {
			return nil, err
		}
		doc := unitTests{RuleFiles: []string{ruleFile}, EvaluationInterval: duration(testEvaluation)}
		for _, name := range []string{"fires", "nearmiss"} {
			c, err := casefile.Open(dir, name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.ID, err)
			}
			doc.Tests = append(doc.Tests, ruleTest(p, c, name, wanted(p, v1)))
		}
		content, err := encodeYAML(doc)
		if err != nil {
			return nil, err
		}
		files = append(files, File{p.ID + ".yaml", content})
	}
	return files, nil
}

// wanted returns the names of the metrics that a pathology's condition reads.
func wanted(p *catalog.Pathology, dia dialect.Dialect) map[string]bool {
	names := map[string]bool{"vllm:num_requests_running": true}
	p.When.Signals(func(s *indicator.Signal) {
		expr, _ := dia.Expr(s)
		for _, e := range []string{expr, s.Guarded()} {
			list, err := indicator.Metrics(e)
			if err != nil {
				continue // the catalogue's own tests parse every expression
			}
			for _, n := range list {
				names[n] = true
			}
		}
	})
	return names
}

func ruleTest(p *catalog.Pathology, c *casefile.Case, name string, want map[string]bool) unitTest {
	times := min(mostSlowed, max(1, int(testLength/testScrape)/c.Scrapes))
	c = c.Stretch(testScrape, times)
	t := unitTest{Name: p.ID + " " + name, Interval: duration(testScrape)}
	for instance, series := range sorted(c.Series()) {
		for _, s := range series {
			if want[s.Labels.Get(labels.MetricName)] {
				t.Input = append(t.Input, inputSeries{describe(s.Labels, instance), values(scraped(c, instance, sinceStart(s)))})
			}
		}
		up, took := make([]float64, c.Scrapes), make([]float64, c.Scrapes)
		for i := range up {
			up[i], took[i] = 1, 0.01
			if c.Down(instance, i) {
				up[i] = 0
			}
		}
		for _, own := range []struct {
			name   string
			values []float64
		}{{"up", up}, {"scrape_duration_seconds", took}} {
			if want[own.name] {
				t.Input = append(t.Input, inputSeries{describe(labels.FromStrings(labels.MetricName, own.name), instance), values(own.values)})
			}
		}
	}
	end := time.Duration(c.Scrapes-1) * testScrape
	if c.At > 0 {
		end = c.At
	}
	e := exprTest{EvalTime: duration(end.Truncate(time.Second)), Samples: []expSample{}}
	firing := fmt.Sprintf("ALERTS{alertname=%q,alertstate=\"firing\"}", p.Alert)
	if name == "fires" {
		e.Expr = fmt.Sprintf("group by (alertname) (max_over_time(%s[%s]))", firing, duration(testLength))
		e.Samples = []expSample{{fmt.Sprintf("{alertname=%q}", p.Alert), 1}}
	} else {
		e.Expr = fmt.Sprintf("group by (alertname) (%s)", firing)
	}
	t.Expect = []exprTest{e}
	return t
}

// sorted yields a map's entries in the order of their keys.
func sorted(m map[string][]casefile.Series) func(func(string, []casefile.Series) bool) {
	return func(yield func(string, []casefile.Series) bool) {
		keys := make([]string, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// describe writes a series as promtool reads it.
func describe(l labels.Labels, instance string) string {
	b := labels.NewBuilder(l).Set("instance", instance).Set("job", "vllm")
	return b.Labels().String()
}

// scraped leaves out the samples of scrapes that fail.
func scraped(c *casefile.Case, instance string, vs []float64) []float64 {
	out := slices.Clone(vs)
	for i := range out {
		if c.Down(instance, i) {
			out[i] = math.NaN()
		}
	}
	return out
}

// sinceStart moves points in time to the beginning of Unix time, where
// promtool's clock starts.
func sinceStart(s casefile.Series) []float64 {
	name := s.Labels.Get(labels.MetricName)
	if !strings.HasSuffix(name, "_created") && name != "process_start_time_seconds" {
		return s.Values
	}
	out := slices.Clone(s.Values)
	for i := range out {
		out[i] -= float64(casefile.Start.Unix())
	}
	return out
}

// values writes samples in promtool's notation: runs of equal steps.
func values(vs []float64) string {
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
		n, step := run(vs[i:])
		first := round(vs[i])
		switch {
		case n == 1:
			parts = append(parts, first)
		case step == 0:
			parts = append(parts, fmt.Sprintf("%sx%d", first, n-1))
		case step < 0:
			parts = append(parts, fmt.Sprintf("%s-%sx%d", first, round(-step), n-1))
		default:
			parts = append(parts, fmt.Sprintf("%s+%sx%d", first, round(step), n-1))
		}
		i += n
	}
	return strings.Join(parts, " ")
}

// run returns how many samples follow each other in equal steps, rounding
// aside.
func run(vs []float64) (n int, step float64) {
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

func round(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
