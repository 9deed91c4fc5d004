package indicator

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/stat"
)

func TestEverySignalParsesAndIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if seen[s.Name] {
			t.Errorf("signal %q is declared twice", s.Name)
		}
		seen[s.Name] = true
		if s.Title == "" || s.Unit == "" || s.Doc == "" {
			t.Errorf("signal %q lacks a title, a unit or a doc", s.Name)
		}
		for _, expr := range []string{s.PromQL(), s.Guarded()} {
			if _, err := Parse(expr); err != nil {
				t.Errorf("signal %q: %v\n%s", s.Name, err, expr)
			}
		}
	}
}

func TestRewrite(t *testing.T) {
	tests := map[string]struct {
		expr string
		r    Rewriting
		want string
	}{
		"nothing asked, nothing changed": {
			expr: `sum by (instance, model_name) (rate(vllm:prompt_tokens_total[5m]))`,
			want: `sum by (instance, model_name) (rate(vllm:prompt_tokens_total[5m]))`,
		},
		"the window, the shortest time and the past become durations of this deployment": {
			expr: `rate(a[5m]) + rate(b[1m]) + max_over_time(c[1h]) + rate(d[2m])`,
			r:    Rewriting{Window: 15 * time.Second, Short: 4 * time.Second, Past: 10 * time.Minute},
			want: `rate(a[15s]) + rate(b[4s]) + max_over_time(c[10m]) + rate(d[2m])`,
		},
		"groupings and matchings get the labels of a target and of a fleet": {
			expr: `sum by (le, instance, model_name) (x) / on (model_name) group_left () avg by (model_name) (y)`,
			r:    Rewriting{Instance: []string{"job", "instance"}, Model: []string{"cluster", "model_name"}},
			want: `sum by (le, job, instance, cluster, model_name) (x) / on (cluster, model_name) group_left () avg by (cluster, model_name) (y)`,
		},
		"a metric takes the name that the server gives it": {
			expr: `rate(vllm:prompt_tokens_total{engine="0"}[5m])`,
			r:    Rewriting{Series: func(s string) Series { return Series{Metric: "ray_vllm_" + s[len("vllm:"):]} }},
			want: `rate(ray_vllm_prompt_tokens_total{engine="0"}[5m])`,
		},
		"matchers and an offset reach every selector": {
			expr: `a / rate(b[5m])`,
			r:    Rewriting{Offset: time.Hour, Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "namespace", "prod")}},
			want: `a{namespace="prod"} offset 1h / rate(b{namespace="prod"}[5m] offset 1h)`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Rewrite(tt.expr, tt.r)
			must.Succeed(t, err)
			if got.String() != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if _, err := Rewrite("rate(", Rewriting{}); err == nil {
		t.Error("an expression that does not parse was rewritten")
	}
}

func TestAPercentileOfAWideBucketIsWrittenAsTheBucket(t *testing.T) {
	for want, v := range map[string]Value{
		"10–25 ms":     {V: 0.0243, OK: true, Bucket: stat.Bucket{Low: 0.01, High: 0.025}},
		"500 ms–1.1 s": {V: 0.9, OK: true, Bucket: stat.Bucket{Low: 0.5, High: 1.1}},
		"830 ms":       {V: 0.83, OK: true, Bucket: stat.Bucket{Low: 0.75, High: 1}},
		"≤ 10 ms":      {V: 0.004, OK: true, AtMost: true, Bucket: stat.Bucket{Low: 0, High: 0.01}},
		"≥ 80 s":       {V: 80, OK: true, AtLeast: true, Bucket: stat.Bucket{Low: 80, High: math.Inf(1)}},
		"12 ms":        {V: 0.012, OK: true},
		"?":            {},
	} {
		if got := Format(v, Seconds); got != want {
			t.Errorf("%+v is written %s, want %s", v, got, want)
		}
	}
}
