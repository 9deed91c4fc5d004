package pathologies_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestASlowPageIsNoLostServer plays a server whose page takes seconds or exceeds the scrape timeout, while all requests
// are served.
func TestASlowPageIsNoLostServer(t *testing.T) {
	list := filesBeside(t)
	i := slices.IndexFunc(list, func(f string) bool { return filepath.Base(f) == "slow-metrics-page.tar.zst" })
	if i < 0 {
		t.Skip("needs the recording slow-metrics-page")
	}
	for _, interval := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second} {
		for shift := range 4 {
			offset := time.Duration(shift) * interval / 4
			t.Run(fmt.Sprint(interval, "+", offset), func(t *testing.T) {
				p := thin(t, list[i], interval, offset)
				slow := p.truth.Phases[1]
				noted, moments, cannot := 0, 0, 0
				for at := time.UnixMilli(slow.FromMS); !at.After(time.UnixMilli(slow.ToMS)); at = at.Add(5 * time.Second) {
					d := p.diagnose(t, at)
					moments++
					for _, f := range d.Findings {
						if f.Status == diagnose.Firing && f.InhibitedBy == "" && f.Severity > catalog.Info {
							t.Errorf("after %s: %s (%s): %s", at.Sub(time.UnixMilli(slow.FromMS)), f.Pathology.ID,
								f.Severity, f.Summary)
						}
						if f.Pathology.ID == "metrics-slow" && f.Status == diagnose.Firing {
							noted++
						}
					}
					if d.Verdict.ID == diagnose.InsufficientData {
						cannot++
					}
				}
				t.Logf("metrics-slow at %d of %d moments, insufficient data at %d", noted, moments, cannot)
				if end := p.diagnose(t, time.UnixMilli(slow.ToMS)); !quiet(end.Verdict.ID) &&
					(interval < 30*time.Second || end.Verdict.ID != diagnose.InsufficientData) { // two may have failed
					t.Errorf("at its end: %s: %s", end.Verdict.ID, end.Verdict.Summary)
				}
			})
		}
	}
}

// diagnoseAsMonitor diagnoses what a monitor has scraped.
func diagnoseAsMonitor(t *testing.T, store *embedded.Store, at time.Time) diagnose.Diagnosis {
	t.Helper()
	src := source.OfCollector("this monitor", store)
	o, err := src.Options(t.Context(), at)
	must.Succeed(t, err)
	return run(t, src, o)
}

// TestTwoScrapesThatTimeOutAreNoLostServer scrapes a busy server every 30 s. After two timeouts in a row its page may
// just be slow; after four it is down. A server that refuses connections is down at once.
func TestTwoScrapesThatTimeOutAreNoLostServer(t *testing.T) {
	for name, tc := range map[string]struct {
		took time.Duration
		want map[int]bool // by the number of scrapes that failed
	}{
		"timed out": {10 * time.Second, map[int]bool{2: false, 3: false, 4: true}},
		"refused":   {time.Millisecond, map[int]bool{2: true, 3: true, 4: true}},
	} {
		t.Run(name, func(t *testing.T) {
			store := embeddedtest.New(t)
			target := embedded.Target{Instance: "vllm-0:8000", Job: "vllm"}
			const good = 10
			for n := range good + 4 {
				at := history.Start.Add(time.Duration(n) * 30 * time.Second)
				if n < good {
					page := fmt.Sprintf("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 4\n"+
						"vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} %d\n", 900*n)
					embeddedtest.Append(t, store, target, at, page)
				} else {
					must.Succeed(t, store.AppendFailureAfter(target, at, tc.took))
				}
				want, judged := tc.want[n+1-good]
				if !judged {
					continue
				}
				d := diagnoseAsMonitor(t, store, at.Add(tc.took))
				if got := d.Verdict.ID == "target-down"; got != want || quiet(d.Verdict.ID) {
					t.Errorf("after %d failures: %s: %s", n+1-good, d.Verdict.ID, d.Verdict.Summary)
				}
			}
		})
	}
}

// TestAFleetThatNeverStarts scrapes servers that never answer: first they are starting, and after ten minutes that is a
// page.
func TestAFleetThatNeverStarts(t *testing.T) {
	store := embeddedtest.New(t)
	a := newSentAlerts("")
	for since := time.Duration(0); since <= 11*time.Minute; since += 15 * time.Second {
		at := history.Start.Add(since)
		for _, instance := range []string{"vllm-0:8000", "vllm-1:8000"} {
			must.Succeed(t, store.AppendFailure(embedded.Target{Instance: instance, Job: "vllm"}, at))
		}
		if since < 30*time.Second {
			continue
		}
		d := diagnoseAsMonitor(t, store, at)
		a.see(t, d, 15*time.Second)
		if sent := a.isActive("start-stuck"); sent != (since > 10*time.Minute) {
			t.Fatalf("after %s: %s: %s; sent: %t", since, d.Verdict.ID, d.Verdict.Summary, sent)
		}
	}
	if al := a.last["start-stuck"]; al.Labels["severity"] != "page" {
		t.Errorf("sent: %v", al)
	}
}

// TestAServerThatDiesWhileTheMonitorIsAway kills the only server of a model, an idle one, while its monitor is away. No
// staleness marker ends its samples, so that they seem current for five minutes.
func TestAServerThatDiesWhileTheMonitorIsAway(t *testing.T) {
	dir, target := t.TempDir(), embedded.Target{Instance: "vllm-0:8000", Job: "vllm"}
	open := func() *embedded.Store {
		store, err := embedded.Open(embedded.Config{Dir: dir})
		must.Succeed(t, err)
		return store
	}
	before, at := open(), history.Start
	for end := at.Add(time.Minute); at.Before(end); at = at.Add(time.Second) {
		page := fmt.Sprintf(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 4100
process_start_time_seconds %d
`, history.Start.Unix()-86400)
		if _, err := before.Append(target, at, []byte(page), "", time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, before.Close())
	after := open()
	defer after.Close()
	at = at.Add(10 * time.Second)
	for end := at.Add(30 * time.Second); at.Before(end); at = at.Add(time.Second) {
		must.Succeed(t, after.AppendFailure(target, at))
	}
	if v := diagnoseAsMonitor(t, after, at).Verdict; v.ID != "target-down" || v.Severity != catalog.Page {
		t.Errorf("%s (%s): %s", v.ID, v.Severity, v.Summary)
	}
}

// TestTheFirstPageShowsNoHang plays a server whose first page shows a running request and no token: one sample of a
// gauge does not show how long the request runs, although the counters are known to have begun at zero.
func TestTheFirstPageShowsNoHang(t *testing.T) {
	store := embeddedtest.New(t)
	target := embedded.Target{Instance: "vllm-0:8000", Job: "vllm"}
	at := history.Start
	for range 4 {
		must.Succeed(t, store.AppendFailure(target, at))
		at = at.Add(30 * time.Second)
	}
	began := at.Add(-12 * time.Second).Unix()
	page := fmt.Sprintf(`process_start_time_seconds %d
process_open_fds 34
vllm:num_requests_running{model_name="m",engine="0"} 1
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.01
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m",engine="0"} 0
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{model_name="m",engine="0"} %[1]d
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} 0
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} 0
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} 0
# TYPE vllm:time_to_first_token_seconds_created gauge
vllm:time_to_first_token_seconds_created{model_name="m",engine="0"} %[1]d
`, began)
	_, err := store.Append(target, at, []byte(page), "", 10*time.Millisecond)
	must.Succeed(t, err)
	if v := diagnoseAsMonitor(t, store, at.Add(3*time.Second)).Verdict; v.ID == "engine-hung" {
		t.Errorf("%s: %s", v.ID, v.Summary)
	}
}

// TestAServerThatHangsIsNotWell stops one of two servers, so that its scrapes time out. Until it is down the verdict
// must not be healthy.
func TestAServerThatHangsIsNotWell(t *testing.T) {
	const step, hangs = 5 * time.Second, 5 * time.Minute
	p := &played{store: embeddedtest.New(t)}
	var said []string
	for after := time.Duration(0); after < hangs+2*time.Minute; after += step {
		at := history.Start.Add(after)
		for i := range 2 {
			target := embedded.Target{Instance: fmt.Sprintf("vllm-%d:8000", i), Job: "vllm"}
			page := fmt.Sprintf(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.1
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} %[1]d00
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="0.1"} %[1]d0
vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="+Inf"} %[1]d0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} %[1]d
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} %[1]d0
process_start_time_seconds %d
`, int(after/step), history.Start.Unix()-86400-int64(i))
			if i == 1 && after >= hangs {
				page = ""
			}
			must.Succeed(t, p.take(target, at, []byte(page), map[bool]time.Duration{true: step}[page == ""]))
		}
		if after < hangs-step {
			continue
		}
		d := run(t, p.store, diagnose.Options{At: at, First: history.Start, Interval: step})
		since := after - hangs
		said = append(said, fmt.Sprintf("%s: %s", since, d.Verdict.ID))
		if quiet(d.Verdict.ID) && since > 20*time.Second || since >= 75*time.Second && d.Verdict.ID != "target-down" ||
			since < 0 && !quiet(d.Verdict.ID) {
			t.Errorf("%s after it stopped: %s: %s", since, d.Verdict.ID, d.Verdict.Summary)
		}
	}
	t.Log(said)
}

// TestClientsThatLeaveAHangAreNoFaultOfTheirOwn diagnoses a server that answers again after a hang. The clients that
// waited have all left between two scrapes.
func TestClientsThatLeaveAHangAreNoFaultOfTheirOwn(t *testing.T) {
	p := thin(t, recordings+"/sglang-retraction-then-hung.tar.zst", 15*time.Second, 11250*time.Millisecond)
	back := time.UnixMilli(p.truth.Phases[5].FromMS)
	for _, after := range []time.Duration{20 * time.Second, 30 * time.Second} {
		if d := p.diagnose(t, back.Add(after)); d.Status == diagnose.Firing {
			t.Errorf("%s after it answers again: %s: %s", after, d.Verdict.ID, d.Verdict.Summary)
		}
	}
}

// TestTheFirstLookAtAnEngineThatDoesNothing diagnoses such an engine without history. It is idle if its API server has
// as few open files as one without clients; otherwise it may hang.
func TestTheFirstLookAtAnEngineThatDoesNothing(t *testing.T) {
	for name, tt := range map[string]struct{ files, want string }{
		"few files":            {"process_open_fds 38\n", diagnose.Idle},
		"sixteen clients wait": {"process_open_fds 74\n", diagnose.NotCertain},
		"several API servers":  {"", diagnose.NotCertain},
	} {
		t.Run(name, func(t *testing.T) {
			store := embeddedtest.New(t)
			at := history.Start
			for range 15 {
				page := tt.files + `vllm:num_requests_running{engine="0",model_name="m"} 0
vllm:num_requests_waiting{engine="0",model_name="m"} 0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0
vllm:generation_tokens_total{engine="0",model_name="m"} 4100
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 41
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 4.1
`
				_, err := store.Append(embedded.Target{Instance: "vllm-0:8000", Job: "vllm"}, at, []byte(page), "",
					time.Millisecond)
				must.Succeed(t, err)
				at = at.Add(time.Second)
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: history.Start,
				Interval: time.Second, Pathologies: pathologies.All()})
			must.Succeed(t, err)
			if d.Verdict.ID != tt.want {
				t.Errorf("%s: %s, want %s", d.Verdict.ID, d.Verdict.Summary, tt.want)
			}
		})
	}
}
