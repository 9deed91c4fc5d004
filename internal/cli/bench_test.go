package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/campaign"
)

// startFleet serves a simulated vLLM in this process until the test ends, and returns its address.
func startFleet(t *testing.T) string {
	t.Helper()
	f, err := fleet.Start(fleet.Config{})
	must.Succeed(t, err)
	t.Cleanup(func() { f.Close() })
	return f.URL(0)
}

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil { // load tests wait more than they compute
		panic(err)
	}
	os.Exit(m.Run())
}

func TestBenchWritesEveryKindOfResult(t *testing.T) {
	url := startFleet(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	// The generator may be spoiled on a busy machine: that is its own test.
	out, _, err := sixty(t, "bench", url, "--scenario", "saturation", "--scale", "0.05", "--use-case", "chat", "--assert", "error_rate<=0", "-v",
		"--save", file("a.json"), "--csv", file("a.csv"))
	if err != nil && !errors.Is(err, campaign.ErrSpoiled) {
		t.Fatal(err)
	}
	if !strings.Contains(out, "closed loop of 3 streams, 25 requests") || !strings.Contains(out, "output 13 (requested 13)") {
		t.Errorf("summary:\n%s", out)
	}
	raw := must.ReadFile(t, file("a.json"))
	var res load.Result
	if err := json.Unmarshal(raw, &res); err != nil || res.Schema != load.Schema || res.Requests.Complete != 25 || res.Name != "saturation" {
		t.Errorf("result %+v, error %v", res.Requests, err)
	}
	if _, _, err := sixty(t, "bench", url, "--concurrency", "1", "--requests", "30", "--output-tokens", "2", "--out", file("a.html")); err != nil && !errors.Is(err, campaign.ErrSpoiled) {
		t.Error(err)
	}
	for _, name := range []string{"a.html", "a.csv"} {
		if info, err := os.Stat(file(name)); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, _, err = sixty(t, "bench", "compare", file("a.json"), file("a.json")); err != nil || !strings.Contains(out, "same") {
		t.Errorf("comparison with itself: %v\n%s", err, out)
	}
	must.Succeed(t, os.WriteFile(file("list.json"), fmt.Appendf(nil, "[%s,%s]", raw, raw), 0o600))
	if _, _, err := sixty(t, "bench", "compare", file("a.json"), file("list.json")); err == nil ||
		!strings.Contains(err.Error(), "several results") {
		t.Errorf("comparison with a list: %v", err)
	}
}

func TestBenchExitCodes(t *testing.T) {
	url := startFleet(t)
	if _, errs, err := sixty(t, "bench", url, "--concurrency", "1", "--requests", "5", "--assert", "ttft_p50<1ms"); !errors.Is(err, errFound) && !errors.Is(err, campaign.ErrSpoiled) || !strings.Contains(errs, "ttft_p50<1ms failed") {
		t.Errorf("an assertion that does not hold: %v\n%s", err, errs)
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	if _, _, err := sixty(t, "bench", broken.URL, "--model", "m", "--concurrency", "1", "--requests", "5"); err == nil || errors.Is(err, errFound) {
		t.Errorf("a server that fails at once: %v", err)
	}
}

// The objective is beyond what a busy machine breaks: the search is what is tested.
func TestBenchSearch(t *testing.T) {
	url := startFleet(t)
	objective := filepath.Join(t.TempDir(), "slo.yaml")
	must.Succeed(t, os.WriteFile(objective, []byte("objectives: [{ttft_p95: 30s}]\n"), 0o600))
	args := []string{"bench", url, "--search", "concurrency", "--slo", objective, "--duration", "300ms", "--search-to", "4", "--prompt-tokens", "8"}
	out, _, err := sixty(t, args...)
	for range 20 { // what the generator spoiled is tried again
		if !errors.Is(err, campaign.ErrSpoiled) {
			break
		}
		out, _, err = sixty(t, args...)
	}
	if err != nil || !strings.Contains(out, "Highest load within the objective: 4 streams") {
		t.Fatalf("search: %v\n%s", err, out)
	}
}
