//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sixty-dev/sixty/internal/base/must"
	codes "github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/fleet"
)

// exitsElsewhere are the rows of the table of exit codes that other tests check.
var exitsElsewhere = map[string]string{
	"130 ":               "TestEveryVerbEndsWhenInterrupted",
	"0 record":           "TestEveryVerbEndsWhenInterrupted",
	"0 simulate --serve": "TestEveryVerbEndsWhenInterrupted",
	"0 serve":            "TestEveryVerbEndsWhenInterrupted",
	"0 mcp":              "TestEveryVerbEndsWhenInterrupted",
	"2 bench":            "needs a machine that is too slow: package load",
	"1 demo":             "needs a diagnosis that is wrong: package demo",
}

// exitRow matches a row of the table of exit codes.
var exitRow = regexp.MustCompile("(?m)^\\| (\\d+) \\| (every command|`.*`) \\| (.*) \\|$")

// readExits returns the rows of the table of exit codes in docs/install.md: meanings by code and verb, "" for all
// verbs.
func readExits(t *testing.T) map[string]string {
	t.Helper()
	rows := map[string]string{}
	page := must.ReadFile(t, filepath.Join("..", "..", "docs", "install.md"))
	for _, m := range exitRow.FindAllStringSubmatch(string(page), -1) {
		for _, verb := range strings.Split(strings.ReplaceAll(strings.TrimSuffix(m[2], "every command"), "`", ""), ", ") {
			rows[m[1]+" "+verb] = m[3]
		}
	}
	return rows
}

// TestExitCodes compares the table of exit codes in docs/install.md with what the commands do.
func TestExitCodes(t *testing.T) {
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
		<-r.Context().Done()
	}))
	t.Cleanup(mute.Close)
	worse := filepath.Join(t.TempDir(), "worse.json")
	b := must.ReadFile(t, "testdata/bench.json")
	must.Succeed(t, os.WriteFile(worse, tenTimes(t, b), 0o600))
	const recordings = "../../testdata/recordings/"
	const model = "--model-config ../../internal/modelconfig/testdata/llama-3.1-8b.json "
	traces := t.TempDir()
	script, err := txtar.ParseFile("testdata/script/profile.txtar")
	must.Succeed(t, err)
	for _, f := range script.Files {
		must.Succeed(t, os.WriteFile(filepath.Join(traces, f.Name), f.Data, 0o600))
	}
	tried := map[string]string{ // by row
		"0 ":              "diagnose " + recordings + "full-but-quiet.tar.zst",
		"1 diagnose":      "diagnose " + recordings + "thrashing-deep.tar.zst",
		"1 audit":         "audit --rules testdata/removed.yaml",
		"1 bench":         "bench " + loadServer(t) + " --concurrency 1 --requests 20 --assert ttft_p50>3600s --metrics none",
		"1 bench compare": "bench compare testdata/bench.json " + worse,
		"1 profile":       "profile " + traces + "/trace.json",
		"1 profile diff":  "profile diff --gate 3% " + traces + "/trace.json " + traces + "/slower.json",
		"1 simulate":      "simulate " + model + "--gpu H100 --rate 5 --requests 20 --prompt-tokens 900 --engine-args=--max-model-len=200",
		"1 top --once":    "top --once " + recordings + "thrashing-deep.tar.zst",
		"1 tune":          "tune " + model + "--gpu 2GiB",
		"3 diagnose":      "diagnose ../../testdata/incident.tar.zst --at +20s",
		"3 top --once":    "top --once ../../testdata/incident.tar.zst --at +20s",
		"2 ":              "diagnose nowhere.tar.zst",
		"2 simulate":      "simulate " + recordings + "engine-hung.tar.zst",
		"2 diagnose":      "diagnose --prometheus " + mute.URL + " --timeout 1s",
	}
	rows := readExits(t)
	for row := range tried {
		if rows[row] == "" {
			t.Errorf("the table has no row %q", row)
		}
	}
	for row, meaning := range rows {
		args, ok := tried[row]
		if !ok {
			if exitsElsewhere[row] == "" {
				t.Errorf("no command shows row %q: %s", row, meaning)
			}
			continue
		}
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			cmd, out := command(t, strings.Fields(args)...)
			code := wait(t, cmd)
			if row == "1 bench" && code == codes.ExitCannotCheck && strings.Contains(out.String(), "distorted") {
				row = "2 bench" // the machine is too busy for a load test, which then says so
			}
			if !strings.HasPrefix(row, fmt.Sprint(code)+" ") {
				t.Errorf("exit code %d of: sixty %s\n%s", code, args, out)
			}
		})
	}
}

// tenTimes returns a load test's result with ten times the latencies.
func tenTimes(t *testing.T, result []byte) []byte {
	t.Helper()
	var r map[string]any
	must.Succeed(t, json.Unmarshal(result, &r))
	var slower func(v any) any
	slower = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if k != "count" && k != "effective" && k != "q" {
					v[k] = slower(x)
				}
			}
		case []any:
			for i, x := range v {
				v[i] = slower(x)
			}
		case float64:
			return 10 * v
		}
		return v
	}
	slower(r["latency"])
	out, err := json.Marshal(r)
	must.Succeed(t, err)
	return out
}

// loadServer starts a server for a load test.
func loadServer(t *testing.T) string {
	t.Helper()
	s, err := fleet.Start(fleet.Config{})
	must.Succeed(t, err)
	t.Cleanup(func() { s.Close() })
	return s.URL(0)
}
