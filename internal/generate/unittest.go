package generate

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// A TestFile is what "promtool test rules" reads.
type TestFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []UnitTest     `yaml:"tests"`
}

// A UnitTest is one unit test: series from time 0 on, and what expressions over them and over
// what the rules made of them return.
type UnitTest struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"` // between samples
	Series   []TestSeries   `yaml:"input_series"`
	Exprs    []ExprTest     `yaml:"promql_expr_test,omitempty"`
}

// TestSeries is one series in promtool's notation: "0+60x10".
type TestSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// ExprTest says what an expression returns at a time.
type ExprTest struct {
	Expr    string         `yaml:"expr"`
	At      model.Duration `yaml:"eval_time"`
	Samples []ExprSample   `yaml:"exp_samples"`
}

// ExprSample is one sample of it.
type ExprSample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// FiringTest says that an alert fires at a time, or has fired within so much time before it, or
// that it does not. Labels, such as `,slo="a"`, tell it from others of its name.
func FiringTest(alert, labels string, at, within time.Duration, fires bool) ExprTest {
	firing := fmt.Sprintf("ALERTS{alertname=%q,alertstate=\"firing\"%s}", alert, labels)
	if within > 0 {
		firing = fmt.Sprintf("max_over_time(%s[%s])", firing, duration(within))
	}
	t := ExprTest{Expr: fmt.Sprintf("group by (alertname) (%s)", firing), At: model.Duration(at), Samples: []ExprSample{}}
	if fires {
		t.Samples = append(t.Samples, ExprSample{fmt.Sprintf("{alertname=%q}", alert), 1})
	}
	return t
}
