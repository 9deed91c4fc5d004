package generate

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// A TestFile is an input file of "promtool test rules".
type TestFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []UnitTest     `yaml:"tests"`
}

// A UnitTest holds input series from time 0 on, and the expected results of expressions over these and over the
// series that the rules record.
type UnitTest struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"` // between samples
	Series   []TestSeries   `yaml:"input_series"`
	Exprs    []ExprTest     `yaml:"promql_expr_test,omitempty"`
}

// A TestSeries is one series in promtool's notation: "0+60x10".
type TestSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// An ExprTest is an expression and its expected samples at a time.
type ExprTest struct {
	Expr    string         `yaml:"expr"`
	At      model.Duration `yaml:"eval_time"`
	Samples []ExprSample   `yaml:"exp_samples"`
}

// An ExprSample is one expected sample.
type ExprSample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// FiringTest expects an alert to fire at a time, or within a duration before it, or expects that it does not fire.
// labels, such as `,slo="a"`, select one of several alerts of that name.
func FiringTest(alert, labels string, at, within time.Duration, fires bool) ExprTest {
	firing := fmt.Sprintf("ALERTS{alertname=%q,alertstate=\"firing\"%s}", alert, labels)
	if within > 0 {
		firing = fmt.Sprintf("max_over_time(%s[%s])", firing, formatDuration(within))
	}
	t := ExprTest{
		Expr: fmt.Sprintf("group by (alertname) (%s)", firing), At: model.Duration(at), Samples: []ExprSample{},
	}
	if fires {
		t.Samples = append(t.Samples, ExprSample{fmt.Sprintf("{alertname=%q}", alert), 1})
	}
	return t
}
