//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// monitored is an hour of mixed load with two faults.
var monitored = Scenario{
	Name: "monitored", Servers: []string{smallKV}, Accept: []string{"healthy"},
	Phases: []Phase{
		healthy(360, light(1.2)),
		healthy(300, leaving(light(1), 0.04), refused(light(0.4), 0.02, BadMaxTokens)),
		{Name: "quiet", Seconds: 150, Verdict: "idle"},
		healthy(300, light(1.2)),
		sick("kv-cache-thrashing", 150, nil, clients(14, uniform(100, 140), uniform(350, 450))),
		healthy(420, light(1.2)),
		healthy(300, clients(2, uniform(60, 120), uniform(60, 120))),
		sick("engine-hung", 90, []Fault{Hang("r0", 0)}, light(1.2)),
		healthy(420, light(1.2)),
		{Name: "few", Seconds: 150, Traffic: []Traffic{light(0.08)}, Verdict: "idle"},
		healthy(300, light(1.2)),
	},
}

// TestServeHour lets sixty serve watch a real vLLM for an hour of mixed load with two faults. Each must be an incident
// that begins within half a minute and ends, and there must be no other. It needs SIXTY_VLLM and SIXTY_BIN.
func TestServeHour(t *testing.T) {
	bin := product(t)
	fl := newFleet(t)
	servers := fl.serve(t, &monitored)
	d := newDriver(servers, monitored.seed())
	addr := freePort(t)
	serve := exec.Command(bin, "serve", servers[0].URL(), "--data", t.TempDir(), "--listen", addr, "--no-host-metrics")
	serve.Stderr = os.Stderr
	must.Succeed(t, serve.Start())
	defer func() {
		if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := serve.Wait(); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	base := "http://" + addr
	var faults []time.Time
	var seen []incident
	err := play(fl.ctx, &monitored, d, filepath.Join(fl.scratch, "monitored"), newTruth(&monitored),
		func(ctx context.Context, phase int) {
			ph := &monitored.Phases[phase]
			began := time.Now()
			t.Logf("%s phase %d, %s", began.Format(time.TimeOnly), phase, ph.Name)
			fault := !slices.Contains([]string{"healthy", "idle"}, ph.Verdict)
			if fault {
				faults = append(faults, began)
			}
			shown := time.Time{}
			for sleep(ctx, 2*time.Second) {
				list, err := incidents(base)
				if err != nil {
					t.Error(err)
					return
				}
				for _, i := range list {
					known := slices.IndexFunc(seen, func(s incident) bool { return s.ID == i.ID })
					if known < 0 {
						t.Logf("  incident %s (%s): %s", i.ID, i.Severity, i.Summary)
						seen = append(seen, i)
					} else {
						if seen[known].Pathology != i.Pathology || seen[known].Ended == nil && i.Ended != nil {
							t.Logf("  incident %s is %s now, ended %v: %s", i.ID, i.Pathology, i.Ended, i.Summary)
						}
						seen[known] = i
					}
					if fault && i.Pathology == ph.Verdict && i.Ended == nil && shown.IsZero() {
						shown = time.Now()
						t.Logf("  RESULT %s: shown %.0f s after it began", ph.Verdict, shown.Sub(began).Seconds())
					}
				}
			}
			if fault && shown.IsZero() {
				t.Errorf("%s was not shown", ph.Verdict)
			}
		})
	must.Succeed(t, err)
	want := map[string]bool{"kv-cache-thrashing": true, "engine-hung": true}
	for _, i := range seen {
		if !want[i.Pathology] {
			t.Errorf("incident %s (%s) was no fault: %s", i.ID, i.Severity, i.Summary)
		}
		if i.Ended == nil {
			t.Errorf("incident %s did not end", i.ID)
		}
	}
	if len(seen) != len(faults) {
		t.Errorf("%d incidents of %d faults", len(seen), len(faults))
	}
}

type incident struct {
	ID, Pathology, Severity, Summary string
	Ended                            *time.Time
}

func incidents(base string) (list []incident, err error) {
	resp, err := http.Get(base + "/api/v1/incidents")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("incidents: %s", resp.Status)
	}
	return list, json.NewDecoder(resp.Body).Decode(&list)
}
