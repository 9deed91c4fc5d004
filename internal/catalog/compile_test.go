package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// named compiles with signals by name, their baselines "offset 1h".
func named() Compilation {
	return Compilation{
		Query: func(s *indicator.Signal, baseline bool) (string, error) {
			if baseline {
				return s.Name + " offset 1h", nil
			}
			return s.Name, nil
		},
		Limit: func(*Threshold) (float64, string, bool) { return 0, "", false },
	}
}

func normals(m map[*indicator.Signal]float64) func(*indicator.Signal) (float64, bool) {
	return func(s *indicator.Signal) (float64, bool) { v, ok := m[s]; return v, ok }
}

// A condition without a number compiles to nothing: there is no rule for it.
func TestCompileOfWhatNeverHolds(t *testing.T) {
	c := All(Above(indicator.Running, &Threshold{Default: 1}), Above(indicator.ITLP95, &Threshold{Default: None}))
	if got, err := c.Compile(named()); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCompile(t *testing.T) {
	over := func(s *indicator.Signal, d float64) Cond { return Above(s, &Threshold{Name: "t", Default: d}) }
	double := &Relative{Factor: 2, Offset: 0.05}
	tests := map[string]struct {
		cond   Cond
		change func(*Compilation)
		want   string
	}{
		"a comparison with a default": {
			cond: over(indicator.Waiting, 10), want: `(waiting) > 10`,
		},
		"below": {
			cond: Below(indicator.KVUsage, &Threshold{Default: 0.6}), want: `(kv_cache_usage) < 0.6`,
		},
		"a limit known when the rule is written beats the baseline": {
			cond:   Above(indicator.TTFTP95, &Threshold{Default: 3, Objective: slo.TTFTP95, Baseline: double}),
			change: func(o *Compilation) { o.Limit = func(*Threshold) (float64, string, bool) { return 0.5, "chat", true } },
			want:   `(ttft_p95) > 0.5`,
		},
		"a baseline alone": {
			cond: Above(indicator.TTFTP50, &Threshold{Default: None, Baseline: double}),
			want: `(ttft_p50) > on (instance, model_name) (2 * (ttft_p50 offset 1h) + 0.05)`,
		},
		"a baseline, and the default where it has no sample": {
			cond: Above(indicator.TTFTP50, &Threshold{Default: 3, Baseline: &Relative{Factor: 2}}),
			want: `((ttft_p50) > on (instance, model_name) (2 * (ttft_p50 offset 1h))) or (((ttft_p50) > 3) unless on (instance, model_name) (2 * (ttft_p50 offset 1h)))`,
		},
		"a baseline less something stays above zero": {
			cond: Below(indicator.PrefixHitRatio, &Threshold{Default: None, Baseline: &Relative{Factor: 0.5, Offset: -0.05}}),
			want: `(prefix_cache_hit_ratio) < on (instance, model_name) (clamp_min(0.5 * (prefix_cache_hit_ratio offset 1h) - 0.05, 0))`,
		},
		"a baseline that cannot make a disaster normal": {
			cond: Above(indicator.ClientErrs, &Threshold{Default: None, Baseline: &Relative{Factor: 2, Offset: 0.05, Most: 0.3}}),
			want: `(http_4xx_share) > on (instance) (clamp_max(2 * (http_4xx_share offset 1h) + 0.05, 0.3))`,
		},
		"a baseline that grows with the batch": {
			cond: Above(indicator.ITLP50, &Threshold{Default: None, Baseline: &Relative{Factor: 1.5, Per: indicator.DecodeBatch, Exponent: 0.5}}),
			want: `(itl_p50) > on (instance, model_name) (1.5 * (itl_p50 offset 1h) * on (instance, model_name) clamp_min((decode_batch) / on (instance, model_name) ((decode_batch offset 1h) > 0), 1) ^ 0.5)`,
		},
		"all of one scope keep their order": {
			cond: All(over(indicator.Waiting, 1), over(indicator.Running, 2)),
			want: `((waiting) > 1) and on (instance, model_name) ((running) > 2)`,
		},
		"any": {
			cond: Any(over(indicator.Waiting, 1), over(indicator.Running, 2)),
			want: `((waiting) > 1) or on (instance, model_name) ((running) > 2)`,
		},
		"the finest scope of all leads, and gives the labels": {
			cond: All(over(indicator.Restarts, 1), over(indicator.Running, 2)),
			want: `((running) > 2) and on (instance) ((restarts) > 1)`,
		},
		"a GPU exporter is met on the labels that it shares": {
			cond:   All(over(indicator.GPUUtil, 0.5), over(indicator.Running, 2)),
			change: func(o *Compilation) { o.GPU = []string{"node"} },
			want:   `((running) > 2) and on (node) ((gpu_utilization) > 0.5)`,
		},
		"one of each shares none": {
			cond: All(over(indicator.GPUUtil, 0.5), over(indicator.Running, 2)),
			want: `((running) > 2) and on () ((gpu_utilization) > 0.5)`,
		},
		"a fleet's own labels": {
			cond: All(over(indicator.Waiting, 1), over(indicator.Running, 2)),
			change: func(o *Compilation) {
				o.Instance, o.Model = []string{"job", "pod"}, []string{"cluster", "model_name"}
			},
			want: `((waiting) > 1) and on (job, pod, cluster, model_name) ((running) > 2)`,
		},
		"what was measured is a number": {
			cond:   Above(indicator.TTFTP50, &Threshold{Default: None, Baseline: double}),
			change: func(o *Compilation) { o.Normal = normals(map[*indicator.Signal]float64{indicator.TTFTP50: 0.1}) },
			want:   `(ttft_p50) > 0.25`,
		},
		"a disaster that was measured is none the better": {
			cond:   Above(indicator.ClientErrs, &Threshold{Default: None, Baseline: &Relative{Factor: 2, Most: 0.3}}),
			change: func(o *Compilation) { o.Normal = normals(map[*indicator.Signal]float64{indicator.ClientErrs: 0.4}) },
			want:   `(http_4xx_share) > 0.3`,
		},
		"what was measured grows with something": {
			cond: Above(indicator.ITLMean, &Threshold{Default: 0.1, Baseline: &Relative{Factor: 2, Offset: -0.01, Per: indicator.DecodeBatch, Exponent: 0.5}}),
			change: func(o *Compilation) {
				o.Normal = normals(map[*indicator.Signal]float64{indicator.ITLMean: 0.02, indicator.DecodeBatch: 8})
			},
			want: `(itl_mean) > on (instance, model_name) (clamp_min(0.04 * clamp_min((decode_batch) / 8, 1) ^ 0.5 - 0.01, 0))`,
		},
		"what was not measured has its default": {
			cond:   Above(indicator.ITLMean, &Threshold{Default: 0.1, Baseline: double}),
			change: func(o *Compilation) { o.Normal = normals(nil) },
			want:   `(itl_mean) > 0.1`,
		},
		"what has no number never holds, and an any goes on without it": {
			cond: Any(Above(indicator.ITLP95, &Threshold{Default: None, Objective: "itl_p95"}), over(indicator.Waiting, 1), over(indicator.Running, 2)),
			want: `((waiting) > 1) or on (instance, model_name) ((running) > 2)`,
		},
		"an all never holds with it": {
			cond: Any(All(over(indicator.Waiting, 1), Above(indicator.ITLP95, &Threshold{Default: None})), over(indicator.Running, 2)),
			want: `((running) > 2)`,
		},
		"a limit has a name of its own": {
			cond: Above(indicator.TTFTP50, &Threshold{Name: "late", Default: 3, Baseline: double}),
			change: func(o *Compilation) {
				o.Record = func(c Cond, limit string) string { return "limit_" + c.Threshold.Name }
			},
			want: `((ttft_p50) > on (instance, model_name) (limit_late)) or (((ttft_p50) > 3) unless on (instance, model_name) (limit_late))`,
		},
		"a tree": {
			cond: All(over(indicator.Waiting, 1), Any(over(indicator.TTFTP95, 3), over(indicator.Restarts, 0))),
			want: `((waiting) > 1) and on (instance) (((ttft_p95) > 3) or on (instance) ((restarts) > 0))`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := named()
			if tt.change != nil {
				tt.change(&o)
			}
			got, err := tt.cond.Compile(o)
			must.Succeed(t, err)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if _, err := indicator.Parse(got); err != nil {
				t.Errorf("it does not parse: %v\n%s", err, got)
			}
		})
	}
}

func TestCompileGivesUpOnASignalThatCannotBeAsked(t *testing.T) {
	gone := errors.New("not in this dialect")
	grown := &Threshold{Default: None, Baseline: &Relative{Factor: 1, Per: indicator.DecodeBatch, Exponent: 1}}
	for name, tt := range map[string]struct {
		cond     Cond
		missing  *indicator.Signal
		baseline bool
	}{
		"now":                      {yes, indicator.Running, false},
		"in the baseline":          {Above(indicator.ITLP50, grown), indicator.ITLP50, true},
		"what it grows with, now":  {Above(indicator.ITLP50, grown), indicator.DecodeBatch, false},
		"what it grows with, then": {Above(indicator.ITLP50, grown), indicator.DecodeBatch, true},
		"deep in a tree":           {Any(All(dunno, yes)), indicator.Running, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := named()
			o.Query = func(s *indicator.Signal, baseline bool) (string, error) {
				if s == tt.missing && baseline == tt.baseline {
					return "", gone
				}
				return s.Name, nil
			}
			if got, err := tt.cond.Compile(o); !errors.Is(err, gone) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestCompiledConditionsParse compiles the shared conditions with the signals'
// real expressions, as rules have them.
func TestCompiledConditionsParse(t *testing.T) {
	o := named()
	o.Query = func(s *indicator.Signal, baseline bool) (string, error) {
		r := indicator.Rewriting{}
		if baseline {
			r.Offset = 24 * time.Hour
		}
		tree, err := indicator.Rewrite(s.Guarded(), r)
		if err != nil {
			return "", err
		}
		return tree.String(), nil
	}
	for name, c := range map[string]Cond{
		"FirstTokenLate": FirstTokenLate, "Queueing": Queueing, "NotQueueing": NotQueueing,
		"SamePrefill": SamePrefill, "DecodeFair": DecodeFair,
	} {
		got, err := c.Compile(o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := indicator.Parse(got); err != nil {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	if got, _ := DecodeFair.Compile(o); !strings.Contains(got, "offset 1d") {
		t.Errorf("no baseline in %s", got)
	}
}

// A server that lacks an optional metric counts as having zero of it: a condition that wants
// little of it holds there, for the diagnosis and for PromQL.
func TestAbsentOptionalMetricsHoldBelow(t *testing.T) {
	waiting := &Threshold{Name: "w", Default: 0.5}
	part := &Threshold{Name: "p", Default: 0.3}
	got, err := All(Below(indicator.DeferredShare, part), Above(indicator.WaitingFloor, waiting)).Compile(Compilation{
		Query: func(s *indicator.Signal, _ bool) (string, error) { return s.Name, nil },
		Limit: func(*Threshold) (float64, string, bool) { return 0, "", false },
	})
	must.Succeed(t, err)
	const want = "(((waiting_floor) > 0.5)) unless on (instance, model_name) ((waiting_deferred_share) > 0.3)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
