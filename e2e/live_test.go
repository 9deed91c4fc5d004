//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// A liveCase runs a command while a scenario plays, and says what it must answer, and how soon.
type liveCase struct {
	scenario string
	phase    string   // run in this phase …
	after    float64  // … so many seconds into it
	args     []string // of the binary; URLS stands for the targets' /metrics, one argument each
	within   float64  // seconds until the command must have ended
	want     []string // accepted verdict ids; exit code 0 for healthy and idle, 1 for the others
}

var liveCases = []liveCase{
	{"engine-hung", "sick", 15, []string{"diagnose", "--output", "json", "URLS"}, 60, []string{"engine-hung"}},
	{"engine-hung", "healthy", 20, []string{"diagnose", "--output", "json", "URLS"}, 60, []string{"healthy"}},
	{"thrashing-deep", "sick", 20, []string{"diagnose", "--output", "json", "URLS"}, 60, []string{"kv-cache-thrashing"}},
	{"prefill-starvation-deep", "sick", 25, []string{"diagnose", "--output", "json", "URLS"}, 60, []string{"prefill-starvation"}},
	{"prefix-churn", "sick", 25, []string{"diagnose", "--output", "json", "URLS"}, 60, []string{"prefix-cache-misses"}},
	{"two-seats", "sick", 15, []string{"diagnose", "--output", "json", "URLS"}, 60, []string{"concurrency-limit"}},
	{"replica-imbalance", "sick", 15, []string{"diagnose", "--output", "json", "URLS"}, 60, []string{"replica-imbalance"}},
}

// TestLive plays scenarios and meanwhile runs the product against the servers. SIXTY_BIN names the binary; without it
// the test skips.
func TestLive(t *testing.T) {
	bin := product(t)
	fl := newFleet(t)
	for _, sc := range readScenarios(t) {
		cases := slices.DeleteFunc(slices.Clone(liveCases), func(c liveCase) bool { return c.scenario != sc.Name })
		if len(cases) == 0 {
			continue
		}
		t.Run(sc.Name, func(t *testing.T) {
			d := newDriver(fl.serve(t, &sc), sc.seed())
			err := play(fl.ctx, &sc, d, filepath.Join(fl.scratch, "live", sc.Name), newTruth(&sc),
				func(ctx context.Context, phase int) {
					for _, c := range cases {
						if sc.Phases[phase].Name == c.phase && sleep(ctx, seconds(c.after)) {
							c.check(ctx, t, bin, d.servers)
						}
					}
				})
			must.Succeed(t, err)
		})
	}
}

// check runs the command and compares its verdict and its exit code.
func (c *liveCase) check(ctx context.Context, t *testing.T, bin string, servers []*Server) {
	ctx, cancel := context.WithTimeout(ctx, seconds(c.within))
	defer cancel()
	var args []string
	for _, arg := range c.args {
		if arg != "URLS" {
			args = append(args, arg)
			continue
		}
		for _, s := range servers {
			args = append(args, s.URL()+"/metrics")
		}
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	err := cmd.Run()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Errorf("%s, %s: run %s: %v", c.scenario, c.phase, strings.Join(args, " "), err)
		return
	}
	var got struct{ Verdict struct{ ID string } }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Errorf("%s, %s: exit code %d, no diagnosis: %v\n%s", c.scenario, c.phase, code, err, errs.Bytes())
		return
	}
	t.Logf("%s, %s: %s after %v, exit code %d", c.scenario, c.phase, got.Verdict.ID,
		time.Since(begin).Round(time.Millisecond), code)
	if !slices.Contains(c.want, got.Verdict.ID) {
		t.Errorf("%s, %s: verdict %q, want one of %q", c.scenario, c.phase, got.Verdict.ID, c.want)
	}
	wantCode := 1
	if got.Verdict.ID == "healthy" || got.Verdict.ID == "idle" {
		wantCode = 0
	}
	if code != wantCode {
		t.Errorf("%s, %s: exit code %d for %s, want %d", c.scenario, c.phase, code, got.Verdict.ID, wantCode)
	}
}
