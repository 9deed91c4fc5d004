package cli

import (
	"bytes"
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
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/campaign"
)

// bench runs the command line as a user does, and returns what it printed.
func runCLI(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot(&out, &errs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// imitated serves a simulated vLLM until the test ends.
func imitated(t *testing.T) string {
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
	url := imitated(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	// The generator may be spoiled on a busy machine: that is its own test.
	out, _, err := runCLI(t, "bench", url, "--scenario", "saturation", "--scale", "0.05", "--use-case", "chat", "--assert", "error_rate<=0", "-v",
		"--save", file("a.json"), "--csv", file("a.csv"))
	if err != nil && !errors.Is(err, campaign.ErrSpoiled) {
		t.Fatal(err)
	}
	if !strings.Contains(out, "closed loop of 3 streams, 25 requests") || !strings.Contains(out, "output 13 (requested 13)") {
		t.Errorf("summary:\n%s", out)
	}
	raw, err := os.ReadFile(file("a.json"))
	must.Succeed(t, err)
	var res load.Result
	if err := json.Unmarshal(raw, &res); err != nil || res.Schema != load.Schema || res.Requests.Complete != 25 || res.Name != "saturation" {
		t.Errorf("result %+v, error %v", res.Requests, err)
	}
	if _, _, err := runCLI(t, "bench", url, "--concurrency", "1", "--requests", "30", "--output-tokens", "2", "--out", file("a.html")); err != nil && !errors.Is(err, campaign.ErrSpoiled) {
		t.Error(err)
	}
	for _, name := range []string{"a.html", "a.csv"} {
		if info, err := os.Stat(file(name)); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, _, err = runCLI(t, "bench", "compare", file("a.json"), file("a.json")); err != nil || !strings.Contains(out, "same") {
		t.Errorf("comparison with itself: %v\n%s", err, out)
	}
	must.Succeed(t, os.WriteFile(file("list.json"), fmt.Appendf(nil, "[%s,%s]", raw, raw), 0o600))
	if _, _, err := runCLI(t, "bench", "compare", file("a.json"), file("list.json")); err == nil ||
		!strings.Contains(err.Error(), "several results") {
		t.Errorf("comparison with a list: %v", err)
	}
}

func TestBenchExitCodes(t *testing.T) {
	url := imitated(t)
	if _, errs, err := runCLI(t, "bench", url, "--concurrency", "1", "--requests", "5", "--assert", "ttft_p50<1ms"); !errors.Is(err, errFound) && !errors.Is(err, campaign.ErrSpoiled) || !strings.Contains(errs, "ttft_p50<1ms failed") {
		t.Errorf("an assertion that does not hold: %v\n%s", err, errs)
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	if _, _, err := runCLI(t, "bench", broken.URL, "--model", "m", "--concurrency", "1", "--requests", "5"); err == nil || errors.Is(err, errFound) {
		t.Errorf("a server that fails at once: %v", err)
	}
}

// The objective is beyond what a busy machine breaks: the search is what is tested.
func TestBenchSearch(t *testing.T) {
	url := imitated(t)
	objective := filepath.Join(t.TempDir(), "slo.yaml")
	must.Succeed(t, os.WriteFile(objective, []byte("objectives: [{ttft_p95: 30s}]\n"), 0o600))
	args := []string{"bench", url, "--search", "concurrency", "--slo", objective, "--duration", "300ms", "--search-to", "4", "--prompt-tokens", "8"}
	out, _, err := runCLI(t, args...)
	for range 20 { // what the generator spoiled is tried again
		if !errors.Is(err, campaign.ErrSpoiled) {
			break
		}
		out, _, err = runCLI(t, args...)
	}
	if err != nil || !strings.Contains(out, "Highest load within the objective: 4 streams") {
		t.Fatalf("search: %v\n%s", err, out)
	}
}

func TestBenchRefuses(t *testing.T) {
	tests := map[string]struct {
		args      []string
		err, hint string
	}{
		"no load":               {[]string{"http://localhost:1"}, "no load was asked for", "--scenario"},
		"two loads":             {[]string{"http://localhost:1", "--rate", "5", "--concurrency", "3"}, "exclude each other", "pass one"},
		"a search for nothing":  {[]string{"http://localhost:1", "--search", "rate"}, "needs an objective", "--use-case chat"},
		"a server that is down": {[]string{"http://127.0.0.1:1", "--concurrency", "1", "--requests", "1"}, "connection refused", "check that the server runs"},
		"a bad assertion":       {[]string{"http://localhost:1", "--concurrency", "1", "--assert", "fast"}, "cannot be read", "ttft_p95<500ms"},
		"a bad length":          {[]string{"http://localhost:1", "--concurrency", "1", "--prompt-tokens", "many"}, "--prompt-tokens", "512"},
		"no URL":                {[]string{"ftp://localhost:8000", "--concurrency", "1"}, "not an http or https URL", "http://host:8000"},
		"csv of many tests":     {[]string{"http://localhost:1", "--scenario", "all", "--csv", "x"}, "single test", ""},
		"lengths of a scenario": {[]string{"http://localhost:1", "--scenario", "burst", "--prompt-tokens", "9"}, "--prompt-tokens has no effect", "synthetic workload"},
		"scale of no scenario":  {[]string{"http://localhost:1", "--rate", "5", "--scale", "0.1"}, "--scale has no effect", "--scenario"},
		"a limit of streams":    {[]string{"http://localhost:1", "--rate", "5", "--max-concurrency", "9"}, "--max-concurrency of sixty bench was removed", "open loop"},
		"a scenario file":       {[]string{"http://localhost:1", "--scenario", "my.yaml"}, "unknown scenario", "--trace"},
		"an unwritable file":    {[]string{"http://localhost:1", "--rate", "5", "--save", "/no/such/directory/x.json"}, "--save /no/such/directory/x.json: no such file", "existing, writable directory"},
		"a recording":           {[]string{"../../testdata/incident.tar.zst", "--rate", "5"}, "is a file: a load test needs a server", "sixty simulate"},
		"an unknown scenario":   {[]string{"http://localhost:1", "--scenario", "brust"}, "unknown scenario", "low-load"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := runCLI(t, append([]string{"bench"}, tt.args...)...)
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(hint.Of(err), tt.hint) {
				t.Errorf("error %v with hint %q; want %q and %q", err, hint.Of(err), tt.err, tt.hint)
			}
		})
	}
}
