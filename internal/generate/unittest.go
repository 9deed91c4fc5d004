package generate

import "github.com/prometheus/common/model"

// A TestFile is what "promtool test rules" reads.
type TestFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []UnitTest     `yaml:"tests"`
}

// A UnitTest is one unit test: series from time 0 on, the alerts that fire at some time,
// and what expressions return.
type UnitTest struct {
	SLO      string         `yaml:"-"` // of a burn rate, the label slo: one file each is a good split
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"` // between samples
	Series   []TestSeries   `yaml:"input_series"`
	Alerts   []AlertTest    `yaml:"alert_rule_test,omitempty"`
	Exprs    []ExprTest     `yaml:"promql_expr_test,omitempty"`
}

// TestSeries is one series in promtool's notation: "0+60x10".
type TestSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// AlertTest says which alerts of a name fire at a time; none, when Firing is empty.
type AlertTest struct {
	At     model.Duration `yaml:"eval_time"`
	Alert  string         `yaml:"alertname"`
	Firing []Firing       `yaml:"exp_alerts,omitempty"`
}

// Firing is one alert that fires, with all its labels and annotations.
type Firing struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
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
