package loadreport

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// measure makes a small real result.
func measure(t *testing.T) (*load.Result, *load.Recording) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1)%10 == 0 {
			http.Error(w, `{"error":{"message":"scripted"}}`, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			<-time.After(time.Millisecond)
			finish := "null"
			if i == 4 {
				finish = `"length"`
			}
			fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":%s}],"usage":{"prompt_tokens":8,"completion_tokens":%d}}`+"\n\n", finish, i+1)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer s.Close()
	g, err := workload.NewGenerator(workload.Spec{Prompt: workload.Fixed(8), Output: workload.Fixed(5)}, 1)
	must.Succeed(t, err)
	r, err := load.New(load.Config{Target: load.Target{URL: s.URL, Model: "<m>"}, Source: g, Concurrency: 4, MaxRequests: 60})
	must.Succeed(t, err)
	rec, err := r.Run(context.Background(), time.Second, nil)
	must.Succeed(t, err)
	o, _ := slo.ForUseCase("chat")
	res := load.Summarize(rec, load.Settings{Name: "try", Target: load.Asked{URL: s.URL, Model: "<m>", API: load.Chat}, Load: load.Shape{Concurrency: 4}, Objective: &o, Warmup: load.AutoWarmup})
	res.Server = &load.Server{
		Series: []load.ServerPoint{{At: 0, Values: map[string]float64{"waiting": 3}}, {At: 1, Values: map[string]float64{"waiting": 5}}},
		Phases: []load.Phase{{
			Name: "the window", To: 1, Status: "firing", Verdict: "kv-cache-thrashing", Summary: "Requests push each other out <b>of</b> the KV cache", Unchecked: []string{"memory-leak"},
			Findings: []load.FiredPathology{
				{ID: "kv-cache-thrashing", Title: "KV cache thrashing", Severity: "page", Summary: "Requests push each other out <b>of</b> the KV cache", Evidence: []string{"Preemptions 2/s > 0.1/s (default)"}, Fixes: []string{"Lower the batch (--max-num-seqs 8)", "Another way"}},
				{ID: "ttft-degraded", Title: "First tokens are late", Severity: "ticket", ExplainBy: "kv-cache-thrashing"},
			},
		}}, Notes: []string{"what is normal could not be told"},
	}
	return res, rec
}

func TestTextShowsWhatMatters(t *testing.T) {
	res, _ := measure(t)
	var b bytes.Buffer
	must.Succeed(t, Document(nil, "", res).Text(&b, render.Options{Width: 120}, true))
	for _, want := range []string{
		"try: <m> at http", "54 complete, 6 failed", "6 × http_503: scripted", "TTFT ", "ITL (per token)", "goodput", "at most: Waiting requests 5", "generator",
		"kv-cache-thrashing: Requests push", "Preemptions 2/s > 0.1/s", "try: Lower the batch (--max-num-seqs 8)", "symptom: First tokens are late", "what is normal could not be told", "steady state",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "%!") {
		t.Errorf("broken numbers in\n%s", b.String())
	}
}

// A first screen is at most 20 lines of 80 columns, and tells what became other first.
func TestShortTextsFitTheScreen(t *testing.T) {
	res, _ := measure(t)
	res.Generator.Spoiled = false // by whatever else runs
	for range 12 {
		res.Notes = append(res.Notes, strings.Repeat("a note that goes on ", 8))
	}
	res.Server.Phases[0].Findings[0].Evidence = strings.Split(strings.Repeat("Preemptions 2/s > 0.1/s;", 12), ";")
	comparison := &load.Comparison{Notes: []string{strings.Repeat("what makes it doubtful ", 8)}}
	for i := range 24 {
		verdict := load.Same
		if i%12 == 11 {
			verdict = load.Worse
		}
		comparison.Changes = append(comparison.Changes, load.Change{Quantity: "q" + strings.Repeat("x", i), Unit: "s", A: 1, B: 2, Relative: 1, Verdict: verdict})
	}
	for begins, write := range map[string]func(io.Writer) error{
		"Objective m":           func(w io.Writer) error { return Document(nil, "", res).Text(w, render.Options{}, false) },
		"B is worse than A in ": func(w io.Writer) error { return Comparison(comparison).Text(w, render.Options{}, false) },
	} {
		var b bytes.Buffer
		must.Succeed(t, write(&b))
		if n := strings.Count(b.String(), "\n"); n > 20 || !strings.HasPrefix(b.String(), begins) || !strings.Contains(b.String(), "--full shows") {
			t.Errorf("%d lines:\n%s", n, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if n := render.Cells(strings.TrimSuffix(line, "\n")); n > render.DefaultWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestCSVHasALinePerRequest(t *testing.T) {
	_, rec := measure(t)
	var b bytes.Buffer
	must.Succeed(t, CSV(&b, rec))
	rows, err := csv.NewReader(&b).ReadAll()
	must.Succeed(t, err)
	if len(rows) != 61 {
		t.Fatalf("%d lines, want a header and 60", len(rows))
	}
	failed := 0
	for _, r := range rows[1:] {
		if r[len(r)-1] == "http_503" {
			failed++
			if r[4] != "" || r[8] != "" {
				t.Errorf("a failed request has a first token: %v", r)
			}
		}
	}
	if failed != 6 {
		t.Errorf("%d failed, want 6", failed)
	}
}

func TestHTMLIsWholeAndSafe(t *testing.T) {
	res, _ := measure(t)
	found := &load.Found{Best: &load.Trial{Level: 3, Met: true, Result: res}, Above: 4, Why: "done", Trials: []load.Trial{{Level: 3, Met: true, Result: res}, {Level: 4, Why: "no", Result: res}}}
	res.Target.Model = "<script>alert(1)</script><m>"
	var b bytes.Buffer
	must.Succeed(t, Document(found, "requests/s", res, &load.Result{}).HTML(&b))
	page := b.String()
	for _, bad := range []string{"<script", "<m>", "NaN", "%!", "ZgotmplZ", "src=", "href=", "url(", "<b>of</b>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, want := range []string{
		"<td>kv-cache-thrashing: Requests push", "try: Lower the batch", "try: Another way", "symptom: First tokens are late", "not checked, no metrics: memory-leak",
		"<p>Bottleneck beyond that load: kv-cache-thrashing", `<td class="l">kv-cache-thrashing</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
