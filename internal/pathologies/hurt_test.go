package pathologies_test

import (
	"os"
	"slices"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/history"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/pathologies/unexplained"
	"github.com/sixty-dev/sixty/internal/slo"
)

// diagnoseText diagnoses a history that is written in the words of package history.
func diagnoseText(t *testing.T, text string) diagnose.Diagnosis {
	t.Helper()
	c, err := history.Parse(os.DirFS("."), text)
	if err != nil {
		t.Fatal(err)
	}
	return diagnoseSeries(t, c)
}

// finding is what was found of a pathology.
func finding(t *testing.T, d *diagnose.Diagnosis, id string) diagnose.Finding {
	t.Helper()
	i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology.ID == id })
	if i < 0 {
		t.Fatalf("no finding of %s", id)
	}
	return d.Findings[i]
}

// TestWhoseErrorsTheyAre: what clients do wrong wakes nobody, what the server fails does.
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

// TestWhatMakesAnswersLateExplains: no cause is named beside users of whom it is said that
// none is known.
func TestWhatMakesAnswersLateExplains(t *testing.T) {
	for _, p := range pathologies.All() {
		if p.FollowsObjectives && p != unexplained.Pathology && !p.Inhibits(unexplained.Pathology) {
			t.Errorf("%s makes answers late and does not explain %s", p.ID, unexplained.Pathology.ID)
		}
	}
}

// TestByDesign: what a server always did, and hurts nobody, is no fault.
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

// TestWithoutBuckets: means are enough to see that a stream is three times as slow.
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

// TestEditorsCancel: of who says that it is code completion, clients may cancel most requests at
// once; of nobody else.
func TestEditorsCancel(t *testing.T) {
	for useCase, fires := range map[string]bool{"": true, "chat": true, "code-completion": false} {
		p := byID("client-cancellations")
		c := openCase(t, "clientcancellations/testdata", "fires", p)
		if useCase != "" {
			var err error
			if c.Promise, err = slo.ForUseCase(useCase); err != nil {
				t.Fatal(err)
			}
			c.Promise.TTFTP95, c.Promise.ITLP95, c.Promise.E2EP95 = 0, 0, 0
		}
		d := diagnoseSeries(t, c)
		got := slices.ContainsFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology == p && f.Status == diagnose.Firing })
		if got != fires {
			t.Errorf("%q: fires %v, want %v: %s", useCase, got, fires, d.Verdict.Summary)
		}
	}
}
