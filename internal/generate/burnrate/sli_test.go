package burnrate

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// TestMostRequestsLatePageWithinFiveMinutes plays an hour of health and then a burn, a
// sample every 30 s: how soon the page and the ticket come.
func TestMostRequestsLatePageWithinFiveMinutes(t *testing.T) {
	never := time.Duration(-1)
	for name, tt := range map[string]struct {
		objective    slo.Objective
		bad          int // of 30 in half a minute
		page, ticket time.Duration
	}{
		"all late":                     {slo.Objective{TTFTP95: time.Second}, 30, 5 * time.Minute, time.Hour},
		"two of three late":            {slo.Objective{TTFTP95: time.Second}, 20, 5 * time.Minute, time.Hour},
		"most late, of gaps":           {slo.Objective{ITLP95: 100 * time.Millisecond}, 18, 5 * time.Minute, time.Hour},
		"one in five late":             {slo.Objective{TTFTP95: time.Second}, 6, never, time.Hour},
		"as many as promised":          {slo.Objective{TTFTP95: time.Second}, 1, never, never},
		"a quarter fails":              {slo.Objective{Availability: 0.999}, 8, 5 * time.Minute, time.Hour},
		"one in thirty fails":          {slo.Objective{Availability: 0.999}, 1, time.Hour, time.Hour},
		"most late beyond the P99":     {slo.Objective{TTFT: slo.Percentile{Share: 0.99, Target: 2500 * time.Millisecond}}, 20, 5 * time.Minute, time.Hour},
		"a fifth late beyond the P99":  {slo.Objective{TTFT: slo.Percentile{Share: 0.99, Target: 2500 * time.Millisecond}}, 6, time.Hour, time.Hour},
		"all late, median promised":    {slo.Objective{TTFT: slo.Percentile{Share: 0.5, Target: time.Second}}, 30, never, 3 * time.Hour},
		"a third late, median alright": {slo.Objective{TTFT: slo.Percentile{Share: 0.5, Target: time.Second}}, 10, never, never},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Groups(Config{Objectives: []slo.Objective{tt.objective}, By: []string{modelName}, Interval: 30 * time.Second})
			must.Succeed(t, err)
			promise := tt.objective.Promises()[0]
			s := &sli{cfg: &Config{Metrics: []func(string) string{func(n string) string { return n }}}, promise: promise, edge: promise.Target}
			const half, burn = 60, 200 * 2 // half minutes
			load := "load 30s\n"
			for series, values := range s.series(map[string]string{modelName: "m", "instance": "a", "job": "j"}, []phase{{minutes: 2 * half, events: 30, all: 30}, {minutes: burn, events: 30, bad: int64(tt.bad), all: 30}}) {
				load += "  " + series + " " + values + "\n"
			}
			e := newEvaluation(t, r.Groups[:1], load)
			first := map[string]time.Duration{}
			begin := 2 * half * 30 * time.Second
			for at := time.Duration(0); at <= begin+max(tt.page, tt.ticket, 70*time.Minute); at += 30 * time.Second {
				for _, a := range e.eval(t, time.Unix(0, 0).Add(at)) {
					if _, seen := first[a.Labels.Get("severity")]; !seen {
						first[a.Labels.Get("severity")] = at - begin
					}
				}
			}
			for severity, within := range map[string]time.Duration{"page": tt.page, "ticket": tt.ticket} {
				after, fired := first[severity]
				t.Logf("%s after %s (%v)", severity, after, fired)
				if fired != (within != never) || fired && (after > within || after < 0) {
					t.Errorf("the %s comes after %s (%v), want within %s", severity, after, fired, within)
				}
			}
		})
	}
}

// recorded evaluates all rules over a load for so many minutes, and returns
// what a query then gives, by series. Values are rounded to six digits.
func recorded(t *testing.T, cfg Config, load string, minutes int, query string) map[string]float64 {
	t.Helper()
	r, err := Groups(cfg)
	must.Succeed(t, err)
	e := newEvaluation(t, r.Groups, load)
	for m := range minutes + 1 {
		e.eval(t, time.Unix(int64(m*60), 0))
	}
	answer, err := e.ask(t.Context(), query, time.Unix(int64(minutes*60), 0))
	must.Succeed(t, err)
	out := map[string]float64{}
	for _, s := range answer {
		out[s.Metric.String()] = math.Round(s.F*1e6) / 1e6
	}
	return out
}

func ttft(target time.Duration) []slo.Objective { return []slo.Objective{{TTFTP95: target}} }

func TestWhatCountsAsAnEvent(t *testing.T) {
	const second = time.Second
	v1, _ := dialect.Detect([]string{"vllm:num_requests_running"})
	ray, _ := dialect.Detect([]string{"ray_vllm_num_requests_running"})
	old, _ := dialect.Detect([]string{"vllm:num_requests_running", "vllm:time_per_output_token_seconds_bucket", "vllm:time_per_output_token_seconds_count"})
	available := []slo.Objective{{Availability: 0.999}}
	for name, tt := range map[string]struct {
		cfg   Config
		load  string
		query string
		want  map[string]float64
	}{
		"ranks and replicas add up, whichever way an edge is written": {
			Config{Objectives: ttft(second), By: []string{modelName}},
			`vllm:time_to_first_token_seconds_count{model_name="m",instance="a",engine="0"} 0+60x20
			vllm:time_to_first_token_seconds_count{model_name="m",instance="a",engine="1"} 0+60x20
			vllm:time_to_first_token_seconds_count{model_name="m",instance="b",engine="0"} 0+60x20
			vllm:time_to_first_token_seconds_bucket{model_name="m",instance="a",engine="0",le="1.0"} 0+30x20
			vllm:time_to_first_token_seconds_bucket{model_name="m",instance="a",engine="1",le="1.0"} 0+60x20
			vllm:time_to_first_token_seconds_bucket{model_name="m",instance="b",engine="0",le="1"} 0+60x20`,
			`{__name__=~"slo:vllm_(bad_)?events:rate5m"}`,
			map[string]float64{
				`{__name__="slo:vllm_events:rate5m", model_name="m", slo="ttft-p95"}`:     3,
				`{__name__="slo:vllm_bad_events:rate5m", model_name="m", slo="ttft-p95"}`: 0.5,
			},
		},
		"replicas of one model under two dialects add up": {
			Config{Objectives: ttft(second), By: []string{modelName}, Metrics: []func(string) string{v1.Metric, ray.Metric}},
			`vllm:time_to_first_token_seconds_count{model_name="m",instance="a"} 0+60x20
			ray_vllm_time_to_first_token_seconds_count{model_name="m",instance="b"} 0+60x20
			vllm:time_to_first_token_seconds_bucket{model_name="m",instance="a",le="1.0"} 0+60x20
			ray_vllm_time_to_first_token_seconds_bucket{model_name="m",instance="b",le="1.0"} 0+15x20`,
			`slo:vllm_error:ratio_rate5m`,
			map[string]float64{`{__name__="slo:vllm_error:ratio_rate5m", model_name="m", slo="ttft-p95"}`: 0.375},
		},
		"a server that exposes an old and a new name counts once": {
			Config{Objectives: []slo.Objective{{ITLP95: 50 * time.Millisecond}}, By: []string{modelName}, Metrics: []func(string) string{v1.Metric, old.Metric}},
			`vllm:inter_token_latency_seconds_count{model_name="m",instance="a"} 0+60x20
			vllm:time_per_output_token_seconds_count{model_name="m",instance="a"} 0+60x20
			vllm:inter_token_latency_seconds_bucket{model_name="m",instance="a",le="0.05"} 0+30x20
			vllm:time_per_output_token_seconds_bucket{model_name="m",instance="a",le="0.05"} 0+30x20
			vllm:time_to_first_token_seconds_count{model_name="m",instance="a"} 0+6x20`,
			`{__name__=~"slo:vllm_(bad_)?(events|requests):rate5m"}`,
			map[string]float64{
				`{__name__="slo:vllm_events:rate5m", model_name="m", slo="itl-p95"}`:     1,
				`{__name__="slo:vllm_bad_events:rate5m", model_name="m", slo="itl-p95"}`: 0.5,
				`{__name__="slo:vllm_requests:rate5m", model_name="m", slo="itl-p95"}`:   0.1,
			},
		},
		"5xx are bad, 4xx are no events, lists of models no requests": {
			Config{Objectives: available},
			`vllm:num_requests_running{model_name="m",instance="a",job="j"} 0x20
			vllm:request_success_total{model_name="m",instance="a",job="j",finished_reason="stop"} 0+48x20
			http_requests_total{instance="a",job="j",handler="/v1/completions",status="2xx"} 0+48x20
			http_requests_total{instance="a",job="j",handler="/v1/completions",status="5xx"} 0+12x20
			http_requests_total{instance="a",job="j",handler="/v1/completions",status="4xx"} 0+600x20
			http_requests_total{instance="a",job="j",handler="/v1/models",status="5xx"} 0+600x20`,
			`{__name__=~"slo:vllm_(bad_)?events:rate5m"}`,
			map[string]float64{
				`{__name__="slo:vllm_events:rate5m", model_name="m", slo="availability"}`:     1,
				`{__name__="slo:vllm_bad_events:rate5m", model_name="m", slo="availability"}`: 0.2,
			},
		},
		"an error after streaming began is bad, one that HTTP knows too counts once": {
			Config{Objectives: available},
			`vllm:num_requests_running{model_name="m",instance="a",job="j"} 0x20
			vllm:num_requests_running{model_name="m",instance="b",job="j"} 0x20
			http_requests_total{instance="a",job="j",handler="/v1/completions",status="2xx"} 0+60x20
			http_requests_total{instance="b",job="j",handler="/v1/completions",status="503"} 0+60x20
			vllm:request_success_total{model_name="m",instance="a",job="j",finished_reason="error"} 0+6x20
			vllm:admission_rejections_total{model_name="m",instance="b",job="j",reason="queue"} 0+60x20`,
			`{__name__=~"slo:vllm_(bad_)?events:rate5m"}`,
			map[string]float64{
				`{__name__="slo:vllm_events:rate5m", model_name="m", slo="availability"}`:     2,
				`{__name__="slo:vllm_bad_events:rate5m", model_name="m", slo="availability"}`: 1.1,
			},
		},
		"without HTTP's counters the engine's are taken, with what it refused": {
			Config{Objectives: available},
			`vllm:num_requests_running{model_name="m",instance="a",job="j"} 0x20
			vllm:request_success_total{model_name="m",instance="a",job="j",finished_reason="stop"} 0+48x20
			vllm:request_success_total{model_name="m",instance="a",job="j",finished_reason="error"} 0+6x20
			vllm:admission_rejections_total{model_name="m",instance="a",job="j",reason="queue"} 0+6x20`,
			`{__name__=~"slo:vllm_(bad_)?events:rate5m"}`,
			map[string]float64{
				`{__name__="slo:vllm_events:rate5m", model_name="m", slo="availability"}`:     1,
				`{__name__="slo:vllm_bad_events:rate5m", model_name="m", slo="availability"}`: 0.2,
			},
		},
		"of a target with two models each has the engine's counters": {
			Config{Objectives: available},
			`vllm:num_requests_running{model_name="m",instance="a",job="j"} 0x20
			vllm:num_requests_running{model_name="n",instance="a",job="j"} 0x20
			vllm:request_success_total{model_name="m",instance="a",job="j",finished_reason="stop"} 0+60x20
			vllm:request_success_total{model_name="n",instance="a",job="j",finished_reason="error"} 0+60x20
			http_requests_total{instance="a",job="j",handler="/v1/completions",status="2xx"} 0+120x20`,
			`slo:vllm_error:ratio_rate5m`,
			map[string]float64{
				`{__name__="slo:vllm_error:ratio_rate5m", model_name="m", slo="availability"}`: 0,
				`{__name__="slo:vllm_error:ratio_rate5m", model_name="n", slo="availability"}`: 1,
			},
		},
		"the first objective that matches is the target's": {
			Config{Objectives: []slo.Objective{
				{Model: "meta-llama/*", Namespace: "prod", TTFTP95: second},
				{Model: "meta-llama/*", Availability: 0.99},
				{TTFTP95: 5 * second},
			}},
			`vllm:time_to_first_token_seconds_count{model_name="meta-llama/8B",namespace="prod",instance="a"} 0+60x20
			vllm:time_to_first_token_seconds_count{model_name="meta-llama/8B",namespace="test",instance="b"} 0+60x20
			vllm:time_to_first_token_seconds_count{model_name="qwen",namespace="prod",instance="c"} 0+60x20`,
			`slo:vllm_events:rate5m`,
			map[string]float64{
				`{__name__="slo:vllm_events:rate5m", model_name="meta-llama/8B", namespace="prod", slo="meta-llama-prod-ttft-p95"}`: 1,
				`{__name__="slo:vllm_events:rate5m", model_name="qwen", namespace="prod", slo="ttft-p95"}`:                          1,
			},
		},
		"only what the deployment's matchers select": {
			Config{Objectives: available, Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "job", "j")}},
			`vllm:num_requests_running{model_name="m",instance="a",job="j"} 0x20
			vllm:num_requests_running{model_name="m",instance="a",job="k"} 0x20
			http_requests_total{instance="a",job="j",handler="/v1/completions",status="2xx"} 0+60x20
			http_requests_total{instance="a",job="k",handler="/v1/completions",status="2xx"} 0+60x20`,
			`slo:vllm_events:rate5m`,
			map[string]float64{`{__name__="slo:vllm_events:rate5m", model_name="m", slo="availability"}`: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := recorded(t, tt.cfg, "load 1m\n"+tt.load+"\n", 20, tt.query)
			must.Equal(t, tt.want, got)
		})
	}
}

func TestTheBudgetRemembersReplicasThatAreGone(t *testing.T) {
	// One replica fails everything for half an hour and is replaced; the other
	// serves as many requests for the half hour that follows.
	load := `load 1m
	vllm:time_to_first_token_seconds_count{model_name="m",instance="a"} 0+60x30 stale
	vllm:time_to_first_token_seconds_bucket{model_name="m",instance="a",le="0.5"} 0x30 stale
	vllm:time_to_first_token_seconds_count{model_name="m",instance="b"} _x30 0+60x30
	vllm:time_to_first_token_seconds_bucket{model_name="m",instance="b",le="0.5"} _x30 0+60x30
`
	got := recorded(t, Config{Objectives: ttft(500 * time.Millisecond)}, load, 60, `{__name__=~"slo:vllm_(error_budget_remaining:ratio|burn_rate:ratio_rate30d|sli:ratio_rate30d|error:ratio_rate30m)"}`)
	want := map[string]float64{
		`{__name__="slo:vllm_sli:ratio_rate30d", model_name="m", slo="ttft-p95"}`:            0.5,
		`{__name__="slo:vllm_error:ratio_rate30m", model_name="m", slo="ttft-p95"}`:          0.05, // what the last rates over five minutes still hold
		`{__name__="slo:vllm_burn_rate:ratio_rate30d", model_name="m", slo="ttft-p95"}`:      10,
		`{__name__="slo:vllm_error_budget_remaining:ratio", model_name="m", slo="ttft-p95"}`: -9,
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 0.1*max(1, math.Abs(b)) })
	must.Equal(t, want, got, near)
}

func TestGroupsRefuses(t *testing.T) {
	chat := chat(t)
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no objectives":                   {Config{}, "no objectives"},
		"an empty objective":              {Config{Objectives: []slo.Objective{{}}}, "objective 1 has no target"},
		"an availability of all":          {Config{Objectives: []slo.Objective{chat, {Availability: 1}}}, "objective 2: availability of 100 % leaves no error budget"},
		"a percentile of all":             {Config{Objectives: []slo.Objective{{TTFT: slo.Percentile{Share: 1, Target: 1}}}}, "ttft of 100 % leaves no error budget"},
		"a budget beyond what is counted": {Config{Objectives: []slo.Objective{{Availability: 1 - 1e-12}}}, "leaves no error budget"},
		"a period of an hour":             {Config{Objectives: []slo.Objective{chat}, Period: time.Hour}, "want whole days"},
		"a matcher that is no glob":       {Config{Objectives: []slo.Objective{{Model: "[", TTFTP95: 1}}}, `matcher "["`},
		"an evaluation every hour":        {Config{Objectives: []slo.Objective{chat}, Interval: time.Hour}, "evaluation interval of 1h"},
		"a target beyond all buckets":     {Config{Objectives: ttft(time.Hour), Edges: map[string][]float64{"vllm:time_to_first_token_seconds": {1, 2}}}, "no bucket edge near a target of 1h"},
		"edges that nobody knows":         {Config{Objectives: ttft(time.Second), Metrics: []func(string) string{func(n string) string { return "triton:" + strings.TrimPrefix(n, "vllm:") }}}, "bucket edges of triton:time_to_first_token_seconds are not known"},
		"a histogram without buckets":     {Config{Objectives: ttft(time.Second), Edges: map[string][]float64{"vllm:time_to_first_token_seconds": nil}}, "no bucket edges"},
		"a label that is none":            {Config{Objectives: []slo.Objective{chat}, Labels: map[string]string{"a-b": "c"}}, `"a-b" is not a label name`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Groups(tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if len(r.Groups) > 0 {
				t.Error("and half of the rules")
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	own := map[string][]float64{"vllm:time_to_first_token_seconds": {.5, .75, 1}, "vllm:e2e_request_latency_seconds": {10}, "vllm:inter_token_latency_seconds": {.05}}
	for name, tt := range map[string]struct {
		cfg  Config
		want []string
	}{
		"none":                    {Config{Objectives: []slo.Objective{chat(t)}, Edges: own}, nil},
		"an edge that moved":      {Config{Objectives: ttft(800 * time.Millisecond), Edges: own}, []string{"ttft-p95: the target 800ms is not a bucket edge of vllm:time_to_first_token_seconds (read from the server): counted at the bucket edge 750ms, 50ms stricter: requests between that and 800ms count as late although they meet the target"}},
		"edges that nobody read":  {Config{Objectives: ttft(time.Second)}, []string{"bucket edges of vllm:time_to_first_token_seconds: the engines' defaults, not read from a server"}},
		"a level out of reach":    {Config{Objectives: []slo.Objective{{TTFT: slo.Percentile{Share: .6, Target: time.Second}}}, Edges: own}, []string{"ttft-p60: no alert at 14.4 times the budget of 40 % over 1h: that would be more than all events", "ttft-p60: no alert at 3 times the budget of 40 % over 1h: that would be more than all events", "ttft-p60: no alert at 6 times the budget of 40 % over 6h: that would be more than all events"}},
		"an objective never used": {Config{Objectives: append(ttft(time.Second), slo.Objective{Model: "m", TTFTP95: 1}), Edges: own}, []string{"objective 2 is never used: objective 1 before it matches everything"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Groups(tt.cfg)
			must.Succeed(t, err)
			must.Equal(t, tt.want, r.Warnings)
		})
	}
}

func TestAlertsSayWhatMoved(t *testing.T) {
	r, err := Groups(Config{Objectives: ttft(800 * time.Millisecond), Runbook: "https://example.com/slo", Labels: map[string]string{"team": "ml"}, Annotations: map[string]string{"dashboard_url": "https://example.com/d"}})
	must.Succeed(t, err)
	for _, name := range []string{"VLLMErrorBudgetBurnTTFTP95", "VLLMErrorBudgetBurnTTFTP95Ticket"} {
		rule := find(t, r, name)
		for key, want := range map[string]string{
			"bucket_edge":   "50ms stricter",
			"thresholds":    "TTFT P95 within 800ms (objective set by the user; bucket edges: the engines' defaults, not read from a server)",
			"runbook_url":   "https://example.com/slo",
			"dashboard_url": "https://example.com/d",
			"caveat":        "never gets a first token",
			"description":   "TTFT P95 within 800ms, over 30d",
			"summary":       "{{ $value | humanizePercentage }} of requests waited longer than 750ms",
		} {
			if got := rule.Annotations[key]; !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
		if rule.Labels["team"] != "ml" || rule.Labels["slo"] != "ttft-p95" {
			t.Errorf("%s: labels %v", name, rule.Labels)
		}
	}
}

func find(t *testing.T, r Rules, alert string) rulefmt.Rule {
	t.Helper()
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Alert == alert {
				return rule
			}
		}
	}
	t.Fatalf("no alert %s", alert)
	return rulefmt.Rule{}
}

func TestRecordedNamesAreThoseThatTheFunctionsGive(t *testing.T) {
	r, err := Groups(Config{Objectives: []slo.Objective{chat(t)}})
	must.Succeed(t, err)
	have := map[string]bool{}
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			have[rule.Record] = true
		}
	}
	for _, name := range []string{
		Events, BadEvents, Requests, ServedModel, Objective, ErrorBudget, Remaining,
		ErrorRatio(Base), ErrorRatio(time.Hour), ErrorRatio(3 * day), ErrorRatio(30 * day), BurnRate(time.Hour), BurnRate(30 * day), SLI(30 * day),
	} {
		if !have[name] {
			t.Errorf("%s is not recorded", name)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the example in docs/burn-rates.md")

// TestTheDocumentedAlertIsTheGeneratedOne keeps docs/burn-rates.md's example fresh.
func TestTheDocumentedAlertIsTheGeneratedOne(t *testing.T) {
	r, err := Groups(Config{Objectives: []slo.Objective{chat(t)}})
	must.Succeed(t, err)
	want, err := yaml.Marshal(find(t, r, "VLLMErrorBudgetBurnTTFTP95"))
	must.Succeed(t, err)
	const page = "../../../docs/burn-rates.md"
	content := must.ReadFile(t, page)
	before, rest, ok := strings.Cut(string(content), "for the use case `chat`:\n\n```yaml\n")
	got, after, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("docs/burn-rates.md has no example")
	}
	if *update {
		fresh := before + "for the use case `chat`:\n\n```yaml\n" + string(want) + "```" + after
		must.Succeed(t, os.WriteFile(page, []byte(fresh), 0o644))
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test ./internal/generate/burnrate -run Documented -update; -generated +documented:\n%s", diff)
	}
}
