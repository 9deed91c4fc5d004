package pathologies_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/pathologies/unexplained"
)

// diagnoseText diagnoses a history in the format of package history.
func diagnoseText(t *testing.T, text string) diagnose.Diagnosis {
	t.Helper()
	c, err := history.Parse(os.DirFS("."), text)
	must.Succeed(t, err)
	return diagnoseSeries(t, c)
}

// finding returns a diagnosis' finding of a pathology.
func finding(t *testing.T, d *diagnose.Diagnosis, id string) diagnose.Finding {
	t.Helper()
	i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology.ID == id })
	if i < 0 {
		t.Fatalf("no finding of %s", id)
	}
	return d.Findings[i]
}

// TestWhoseErrorsTheyAre holds that errors of the server are a page, and errors of clients are not.
func TestWhoseErrorsTheyAre(t *testing.T) {
	const of = `rate http_requests_total{handler="/v1/chat/completions",method="POST",status=`
	for name, tt := range map[string]struct {
		lines string
		want  catalog.Severity
	}{
		"a client's ten mistakes":       {of + `"4xx"} 0x100,0.8`, catalog.Info},
		"a key that expired":            {of + `"4xx"} 0x60,1.5`, catalog.Ticket},
		"the server fails one in three": {of + `"5xx"} 0x60,1`, catalog.Page},
		"both":                          {of + `"5xx"} 0x60,1` + "\n" + of + `"4xx"} 0x60,1.5`, catalog.Page},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnoseText(t, "every 1s for 120s\nlike healthy\n\n"+tt.lines+"\n")
			if f := finding(t, &d, "http-errors"); f.Status != diagnose.Firing || f.Severity != tt.want {
				t.Errorf("%s, %s; want firing, %s\n%s", f.Status, f.Severity, tt.want, explain(d, f))
			}
		})
	}
}

// TestWhatMakesAnswersLateExplains holds that every cause of latency explains unexplained latency.
func TestWhatMakesAnswersLateExplains(t *testing.T) {
	for _, p := range pathologies.All() {
		if p.FollowsObjectives && p != unexplained.Pathology && !p.Inhibits(unexplained.Pathology) {
			t.Errorf("%s makes answers late and does not explain %s", p.ID, unexplained.Pathology.ID)
		}
	}
}

// passedOver is a server with priorities: requests with the low one wait for half a minute and leave, and the others
// are served at once.
const passedOver = `every 1s for 180s
like healthy

vllm:num_requests_running{model_name="m",engine="0"} 4x59 16x119
vllm:num_requests_waiting{model_name="m",engine="0"} 0x59 10x119
rate vllm:generation_tokens_total{model_name="m",engine="0"} 200x60,400
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 2x60,4
rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2x60,4.35
hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06x60,0.3 rate=2x60,4
hist vllm:inter_token_latency_seconds{model_name="m",engine="0"} mean=0.02x60,0.04 rate=198x60,396
`

// TestWhoGetsNothingCounts holds that percentiles of TTFT count requests without a first token as later than all
// others.
func TestWhoGetsNothingCounts(t *testing.T) {
	d := diagnoseText(t, passedOver)
	f := finding(t, &d, "saturation")
	if d.Verdict.ID != "saturation" || !strings.Contains(f.Summary, "wait while") {
		t.Errorf("%s: %s\n%s", d.Verdict.ID, d.Verdict.Summary, explain(d, f))
	}
	p50, _ := d.Reading(0, indicator.TTFTP50)
	p95, _ := d.Reading(0, indicator.TTFTP95)
	if p50.V > 0.5 || p50.AtLeast || p95.V < 10 || !p95.AtLeast || p95.Unanswered < 0.05 || p95.Unanswered > 0.2 {
		t.Errorf("P50 %+v, P95 %+v", p50, p95)
	}
	d = diagnoseText(t, strings.Replace(passedOver, "16x119", "60x119", 1)) // as if every scrape met a burst
	if f := finding(t, &d, "saturation"); f.Status != diagnose.OK {
		t.Errorf("every scrape meets a burst: %s\n%s", f.Status, explain(d, f))
	}
}

// TestRetryStorm plays clients nearly all of whom leave before their answer. It must be a page although the objective
// on first tokens is met, no such client counts as served, and no larger batch is proposed.
func TestRetryStorm(t *testing.T) {
	c, err := history.Parse(nil, `every 1s for 180s
like healthy

vllm:num_requests_running{model_name="m",engine="0"} 4x59 8x119
vllm:num_requests_waiting{model_name="m",engine="0"} 0x59 45x119
rate vllm:generation_tokens_total{model_name="m",engine="0"} 200x60,340
rate vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 2x60,0.2
rate http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 2x60,12.9
hist vllm:time_to_first_token_seconds{model_name="m",engine="0"} mean=0.06x60,3.6 sigma=0.2 rate=2x60,12.2
hist vllm:inter_token_latency_seconds{model_name="m",engine="0"} mean=0.02x60,0.024 rate=198x60,328
hist vllm:request_prefill_time_seconds{model_name="m",engine="0"} mean=0.04 rate=2x60,0.2
hist vllm:request_decode_time_seconds{model_name="m",engine="0"} mean=2 rate=2x60,0.2
`)
	must.Succeed(t, err)
	d := diagnoseSeries(t, c, slo.Objective{TTFTP95: 20 * time.Second})
	f := d.LeadingFinding(&d.Verdict)
	if f == nil || f.Severity != catalog.Page || d.Verdict.ID != "concurrency-limit" && d.Verdict.ID != "saturation" {
		t.Fatalf("%s: %s, %+v", d.Verdict.ID, d.Verdict.Summary, f)
	}
	for _, id := range []string{"concurrency-limit", "saturation"} {
		f := finding(t, &d, id)
		if f.Status != diagnose.Firing || f.Severity != catalog.Page ||
			!strings.Contains(f.Summary, "leave before their answer") ||
			strings.Contains(f.Summary, "12.2 req/s are served") {
			t.Errorf("%s: %s, %s", id, f.Severity, f.Summary)
		}
		for _, fix := range f.Fixes {
			if strings.Contains(fix.Args(), "--max-num-seqs") || strings.Contains(fix.Summary, "replica") {
				t.Errorf("%s proposes: %s", id, fix.Summary)
			}
		}
	}
}

// TestByDesign holds that what a server did from its first second on, and hurts nobody, is no fault.
func TestByDesign(t *testing.T) {
	const completed = `rate vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} `
	for name, tt := range map[string]struct{ lines, id string }{
		"six in ten completions are cancelled from the first second on": {completed + "0.8", "client-cancellations"},
		"prompts that never shared anything": {`rate vllm:prefix_cache_hits_total{model_name="m",engine="0"} 0
rate vllm:prompt_tokens_by_source_total{model_name="m",engine="0",source="local_compute"} 2000`, "prefix-cache-misses"},
	} {
		for _, length := range []string{"20s", "120s"} {
			t.Run(name+", "+length, func(t *testing.T) {
				d := diagnoseText(t, "every 1s for "+length+"\nlike healthy\n\n"+tt.lines+"\n")
				if f := finding(t, &d, tt.id); f.Status == diagnose.Firing || f.Status == diagnose.Pending {
					t.Errorf("%s is %s\n%s", tt.id, f.Status, explain(d, f))
				}
			})
		}
	}
}

// TestWithoutBuckets holds that means alone show a stream that is three times slower.
func TestWithoutBuckets(t *testing.T) {
	d := diagnoseText(t, `every 1s for 120s
like healthy
without vllm:inter_token_latency_seconds|vllm:time_to_first_token_seconds

rate vllm:inter_token_latency_seconds_sum{model_name="m",engine="0"} 3.5x60,11.4
rate vllm:inter_token_latency_seconds_count{model_name="m",engine="0"} 198
rate vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} 0.12
rate vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} 2
`)
	if d.Verdict.ID != "slow-decode" {
		f := finding(t, &d, "slow-decode")
		t.Errorf("%s: %s\n%s", d.Verdict.ID, d.Verdict.Summary, explain(d, f))
	}
	if len(d.Targets[0].Notes) == 0 {
		t.Error("no note says that buckets are missing")
	}
}

// TestEditorsCancel holds that clients may cancel most of their requests if the use case is code completion, and only
// then.
func TestEditorsCancel(t *testing.T) {
	for useCase, fires := range map[string]bool{"": true, "chat": true, "code-completion": false} {
		p := byID("client-cancellations")
		c := openCase(t, "clientcancellations/testdata", "fires", p)
		var promised []slo.Objective
		if useCase != "" {
			o, err := slo.ForUseCase(useCase)
			must.Succeed(t, err)
			o.TTFTP95, o.ITLP95, o.E2EP95 = 0, 0, 0
			promised = append(promised, o)
		}
		d := diagnoseSeries(t, c, promised...)
		got := slices.ContainsFunc(d.Findings, func(f diagnose.Finding) bool {
			return f.Pathology == p && f.Status == diagnose.Firing
		})
		if got != fires {
			t.Errorf("%q: fires %v, want %v: %s", useCase, got, fires, d.Verdict.Summary)
		}
	}
}
