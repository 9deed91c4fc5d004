package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/outputtest"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/campaign"
)

// serveSimulated runs sixty simulate --serve, with a GPU exporter, until the test ends. It returns the two addresses.
func serveSimulated(t *testing.T, args ...string) (server, exporter string) {
	t.Helper()
	var out outputtest.Buffer
	root := newRoot(&out, &out)
	root.SetArgs(append([]string{"simulate", "--serve", "127.0.0.1:0", "--gpu-exporter", "127.0.0.1:0"}, args...))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	address := regexp.MustCompile(`(?:replica 0|GPU exporter) +(http://[^\s/]+)`)
	var found [][]string
	if !polltest.True(func() bool { found = address.FindAllStringSubmatch(out.String(), -1); return len(found) == 2 }) {
		t.Fatalf("no server:\n%s", out.String())
	}
	return found[0][1], found[1][1]
}

// benchResult runs bench with --save added. A busy machine may spoil a result,
// which is not what these tests are about.
func benchResult(t *testing.T, args ...string) *load.Result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	out, errs, err := sixty(t, append([]string{"bench"}, append(args, "--save", file)...)...)
	if err != nil && !errors.Is(err, campaign.ErrSpoiled) && !errors.Is(err, errFound) {
		t.Fatalf("bench: %v\n%s\n%s", err, out, errs)
	}
	raw := must.ReadFile(t, file)
	var res load.Result
	must.Succeed(t, json.Unmarshal(raw, &res))
	return &res
}

func TestBenchLaysTheServersMetricsBesideAndDiagnoses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute of real time")
	}
	t.Parallel()
	// A cache of 4,000 tokens holds few of the second step's requests at a time.
	url, exporter := serveSimulated(t, "--engine-args", "--num-gpu-blocks-override 250 --max-model-len 2048")
	res := benchResult(t, url, "--metrics", "auto,"+exporter, "--rate", "steps:2,25:12s", "--prompt-tokens", "300", "--output-tokens", "300", "--request-timeout", "10s")
	if len(res.Server.Series) < 20 || res.Server.Missed > 2 || len(res.Server.Notes) > 0 {
		t.Fatalf("%d points, %d missed, notes %q", len(res.Server.Series), res.Server.Missed, res.Server.Notes)
	}
	most := map[string]float64{}
	for _, p := range res.Server.Series {
		for k, v := range p.Values {
			most[k] = max(most[k], v)
		}
	}
	if most["kv_cache_usage"] < 0.8 || most["waiting"] < 5 || most["gpu_utilization"] <= 0 || most["generation_token_rate"] <= 0 {
		t.Errorf("highest values %v: want a full cache, a queue, and the GPU's", most)
	}
	got := map[string]string{}
	for _, p := range res.Server.Phases {
		got[p.Name] = p.Status
	}
	if diff := cmp.Diff(map[string]string{"2 requests/s": "ok", "25 requests/s": "firing"}, got); diff != "" {
		t.Fatalf("a verdict on each step (-want +got):\n%s", diff)
	}
	if f := res.Server.Phases[1].Findings; len(f) == 0 || len(f[0].Evidence) == 0 || len(f[0].Fixes) == 0 {
		t.Errorf("findings %+v: want the evidence and a remedy", f)
	}
}

func TestBenchBaselineHoldsTheServersOwnSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute of real time")
	}
	t.Parallel()
	url, _ := serveSimulated(t)
	file := filepath.Join(t.TempDir(), "baseline.json")
	args := []string{"bench", url, "--rate", "8", "--duration", "25s", "--prompt-tokens", "200", "--output-tokens", "40", "--save-baseline", file}
	if _, errs, err := sixty(t, args...); errors.Is(err, campaign.ErrSpoiled) || err != nil && strings.Contains(err.Error(), "distorted") {
		if _, err := os.Stat(file); err == nil { // on a machine that is too busy to measure
			t.Error("a test that the generator spoiled left a baseline")
		}
		return
	} else if err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	raw := must.ReadFile(t, file)
	b, err := baseline.Parse(file, raw)
	must.Succeed(t, err)
	for _, s := range []string{"ttft_p95", "itl_p95", "e2e_p95", "running", "kv_cache_usage", "first_token_rate", "prompt_tokens", "prefill_time_mean"} {
		if _, ok := b.Normal[s]; !ok {
			t.Errorf("normal lacks %s: %v", s, b.Normal)
		}
	}
	if rate := b.Normal["first_token_rate"]; rate < 6 || rate > 10 {
		t.Errorf("normal rate of first tokens %g, want about 8", rate)
	}
	// The file is what the other verbs take.
	out, errs, err := sixty(t, "generate", "rules", "--from", file)
	if err != nil || !strings.Contains(out, "measured:") {
		t.Errorf("rules: %v\n%s", err, errs)
	}
	if out, _, err := sixty(t, "diagnose", url, "--baseline", file, "--duration", "5s"); err != nil && !errors.Is(err, errFound) && !errors.Is(err, errCannotTell) {
		t.Errorf("diagnose: %v\n%s", err, out)
	}
}

func TestBenchTakesTheWorkloadFromAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute of real time")
	}
	t.Parallel()
	prod, _ := serveSimulated(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = sixty(t, "bench", prod, "--metrics", "none", "--rate", "10", "--duration", "22s", "--prompt-tokens", "400", "--output-tokens", "30", "--prefix-share", "0.5")
	}()
	defer func() { <-done }()
	polltest.Until(t, "requests come", func() bool {
		resp, err := http.Get(prod + "/load")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && !strings.Contains(string(body), `"server_load":0`)
	})
	recording := filepath.Join(t.TempDir(), "prod.tar.zst")
	if _, errs, err := sixty(t, "record", prod, "--duration", "16s", "--out", recording); err != nil {
		t.Fatalf("record: %v\n%s", err, errs)
	}
	test, _ := serveSimulated(t)
	res := benchResult(t, test, "--metrics", "none", "--workload-from", recording, "--requests", "60")
	if res.Tokens.PromptAsked < 360 || res.Tokens.PromptAsked > 440 || res.Tokens.OutputAsked < 26 || res.Tokens.OutputAsked > 34 {
		t.Errorf("prompts of %.0f and answers of %.0f tokens, want about 400 and 30", res.Tokens.PromptAsked, res.Tokens.OutputAsked)
	}
	spec, _ := json.Marshal(res.Workload)
	var w struct {
		PrefixShare float64 `json:"prefix_share"`
	}
	if err := json.Unmarshal(spec, &w); err != nil || w.PrefixShare < 0.35 || w.PrefixShare > 0.6 {
		t.Errorf("prefix share %v (%v), want about a half: %s", w.PrefixShare, err, spec)
	}
	requests, seconds := 0.0, 0.0
	for _, p := range res.Load.Arrivals.Profile {
		requests += p.From * p.Duration.Seconds()
		seconds += p.Duration.Seconds()
	}
	if rate := requests / seconds; rate < 8 || rate > 12 {
		t.Errorf("asked %.1f requests/s, want about 10: %+v", rate, res.Load.Arrivals)
	}
}
