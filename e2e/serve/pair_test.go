//go:build e2e

package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// How long two monitors may take to agree, and a new leader to notify: two evaluations of two seconds, and the time
// until the cluster notices that one is gone.
const (
	agreeWithin = 30 * time.Second
	tellWithin  = time.Minute
	quietFor    = 15 * time.Second // in which no notification is repeated
	saidWithin  = 2 * time.Second  // until the other knows of a notification; after a kill before that it is repeated
)

// TestPair kills each of two monitors in turn, under load. Each notification must be sent exactly once, and notes made
// at one monitor must be at the other.
func TestPair(t *testing.T) {
	people := newListener(t, func(*notice) {})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("people were told %q", people.seen(""))
		}
	})
	sick, well := map[string]func(){}, map[string]func(){}
	var targets []string
	for _, model := range []string{"first", "second", "third", "fourth"} {
		at := port(t)
		fl := fleetAt(t, at, model)
		targets = append(targets, at)
		sick[model] = func() { _ = fl.Close() }
		well[model] = func() { fl = fleetAt(t, at, model) }
		t.Cleanup(func() { _ = fl.Close() })
	}
	dir := t.TempDir()
	cluster := []string{port(t), port(t)}
	var monitors []*monitored
	for i := range 2 {
		file := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		content := fmt.Sprintf("global: {external_labels: {replica: \"%d\"}}\nsixty:\n  alerts: {keep_firing_for: 2s}\n  receivers:\n  - name: people\n    webhook_configs: [{url: %q, send_resolved: true}]\n", i, people.URL)
		must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
		monitors = append(monitors, sixtyServe(t, append([]string{
			"--data", filepath.Join(dir, fmt.Sprint(i)), "--config", file, "--interval", "1s", "--evaluation-interval", "2s", "--no-host-metrics",
			"--cluster-listen", cluster[i], "--cluster-peer", cluster[1-i],
		}, targets...)...))
	}
	stop := load(monitors)
	defer stop()
	for i, m := range monitors {
		m.until(2*time.Minute, fmt.Sprintf("monitor %d judges all", i),
			func() bool { o := m.overview(); return o.State == view.OK && len(o.Models) == 4 })
	}
	told := func(model string) []string {
		return slices.DeleteFunc(people.seen("VLLMTargetDown"), func(s string) bool {
			return !strings.HasPrefix(s, model+" ")
		})
	}
	once := func(model string) {
		t.Helper()
		monitors[0].until(tellWithin, "people are told of "+model, func() bool { return len(told(model)) > 0 })
	}

	sick["first"]()
	once("first")
	acknowledge(t, monitors[0], "first")
	monitors[1].until(agreeWithin, "the acknowledgement is at the other", func() bool {
		return acknowledged(monitors[1], "first") == "ann"
	})

	// The leader dies, and a fault begins while it is away.
	monitors[0].stop(syscall.SIGKILL)
	sick["second"]()
	monitors[1].until(tellWithin, "the other tells of the second", func() bool { return len(told("second")) > 0 })
	monitors[0].start()
	monitors[0].until(agreeWithin, "the first is back", func() bool { return len(monitors[0].overview().Models) == 4 })

	// Now the other leads, and dies.
	monitors[1].stop(syscall.SIGKILL)
	sick["third"]()
	once("third")
	monitors[1].start()
	monitors[1].until(agreeWithin, "the other is back", func() bool {
		return len(monitors[1].overview().Models) == 4 && acknowledged(monitors[1], "first") == "ann"
	})

	// It ends in an orderly way, as in an upgrade.
	monitors[0].stop(syscall.SIGTERM)
	sick["fourth"]()
	monitors[1].until(tellWithin, "the other tells of the fourth", func() bool { return len(told("fourth")) > 0 })
	monitors[0].start()
	<-time.After(quietFor)
	all := people.seen("VLLMTargetDown")
	t.Logf("RESULT told: %q", all)
	want := []string{"first VLLMTargetDown firing", "fourth VLLMTargetDown firing", "second VLLMTargetDown firing",
		"third VLLMTargetDown firing"}
	if !slices.Equal(all, want) {
		t.Errorf("people were told %q, want %q", all, want)
	}

	// All models recover, and the leader is killed after its first notification of that.
	for _, model := range []string{"first", "second"} {
		well[model]()
	}
	monitors[0].until(tellWithin, "the end of the first", func() bool { return len(told("first")) > 1 })
	<-time.After(saidWithin)
	leader := 1 // the other one came back last
	monitors[leader].stop(syscall.SIGKILL)
	for _, model := range []string{"third", "fourth"} {
		well[model]()
	}
	monitors[1-leader].until(tellWithin, "the ends of all", func() bool {
		return len(people.seen("VLLMTargetDown")) >= 2*len(targets)
	})
	monitors[leader].start()
	<-time.After(quietFor)
	for _, model := range []string{"first", "fourth", "second", "third"} {
		want = append(want, model+" VLLMTargetDown resolved")
	}
	slices.Sort(want)
	all = people.seen("VLLMTargetDown")
	t.Logf("RESULT told, ends too: %q", all)
	if !slices.Equal(all, want) {
		t.Errorf("people were told %q, want %q", all, want)
	}
}

// load queries monitors without a pause, until it is stopped.
func load(monitors []*monitored) (stop func()) {
	done := make(chan struct{})
	for _, m := range monitors {
		url := m.url
		for range 4 {
			go func() {
				for {
					select {
					case <-done:
						return
					default:
						if status, _ := ask(url + `/api/v1/query?query=count({__name__=~".%2B"})`); status != http.StatusOK {
							<-time.After(100 * time.Millisecond) // it was killed
						}
					}
				}
			}()
		}
	}
	return func() { close(done) }
}

// incidentOn returns the incident of a model, or nil.
func incidentOn(m *monitored, model string) *view.Summary {
	_, body := ask(m.url + "/api/v1/incidents?model=" + model)
	var list []view.Summary
	if json.Unmarshal([]byte(body), &list) != nil || len(list) == 0 {
		return nil
	}
	return &list[0]
}

func acknowledge(t *testing.T, m *monitored, model string) {
	t.Helper()
	var i *view.Summary
	m.until(agreeWithin, "an incident of "+model, func() bool { i = incidentOn(m, model); return i != nil })
	res, err := http.Post(m.url+"/api/v1/incidents/"+i.ID+"/acknowledge", "application/json", bytes.NewReader([]byte(`{"by":"ann"}`)))
	must.Succeed(t, err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("acknowledge: %s", res.Status)
	}
}

func acknowledged(m *monitored, model string) string {
	if i := incidentOn(m, model); i != nil && i.Acknowledged != nil {
		return i.Acknowledged.By
	}
	return ""
}
