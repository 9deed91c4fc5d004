package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A pod is a server that is scraped from a time on until it is not any more.
type pod struct {
	name                    string
	found, serves, ends     int  // seconds; it never serves where serves is 0, and does not end where ends is 0
	left                    int  // when discovery drops it; 0 is never
	drains                  int  // when it gets its last request; 0 is not before it ends
	hangs                   int  // from when on its engine gives nothing; 0 is never
	quick                   bool // no page shows a request: they are over between two
	slowFrom, slowTo, every int  // scrapes of which every so many brings a page
}

func (p *pod) page(at int) []byte {
	if p.serves == 0 || at < p.serves || p.ends > 0 && at >= p.ends {
		return nil
	}
	work, running := at-p.serves, 2
	if p.quick {
		running = 0
	}
	if p.drains > 0 && at >= p.drains {
		work, running = p.drains-p.serves, 0
	}
	if p.hangs > 0 {
		work = min(work, p.hangs-p.serves)
	}
	l := `{model_name="m",engine="0"}`
	born := float64(1_800_000_000+p.serves) + float64(p.name[0])/1000 // no two at once
	return fmt.Appendf(nil,
		"vllm:num_requests_running%[1]s %[2]d\nvllm:num_requests_waiting%[1]s 0\nvllm:kv_cache_usage_perc%[1]s 0.2\n"+
			"vllm:generation_tokens_total%[1]s %[3]d\nvllm:generation_tokens_created%[1]s %[4]f\nprocess_start_time_seconds %[5]f\n"+
			"vllm:time_to_first_token_seconds_count%[1]s %[6]d\nvllm:time_to_first_token_seconds_sum%[1]s %[7]f\n",
		l, running, 50*work, born, born-30, 2*work, 0.1*float64(work))
}

// TestAlertsOfALivingFleet lets pods live, with scrapes each 15 s and an evaluation after
// each, and lists what Alertmanager is told above info.
func TestAlertsOfALivingFleet(t *testing.T) {
	old := func(names ...string) (out []pod) {
		for _, n := range names {
			out = append(out, pod{name: n, serves: 1})
		}
		return out
	}
	upgrade := []pod{
		{name: "a1", serves: 1, drains: 300, ends: 331, left: 345},
		{name: "b1", serves: 1, drains: 450, ends: 481, left: 495},
		{name: "c1", serves: 1, drains: 600, ends: 631, left: 645},
		{name: "a2", found: 240, serves: 291},
		{name: "b2", found: 390, serves: 441},
		{name: "c2", found: 540, serves: 591},
	}
	never := slices.Concat(old("a", "b"), []pod{{name: "new", found: 300}})
	slow := slices.Concat(old("a"), []pod{{name: "slow", serves: 1, slowFrom: 300, slowTo: 900, every: 2}})
	again := slices.Concat(old("a", "b"), []pod{{name: "c", serves: 1, drains: 310, ends: 341, left: 342},
		{name: "c", found: 342, serves: 441}})
	replaced := slices.Concat(old("a", "b"), []pod{{name: "c", serves: 1, ends: 301, left: 302},
		{name: "c", found: 302, serves: 406}})
	for name, tc := range map[string]struct {
		pods []pod
		want map[string]int // by alert and severity: seconds before which it is there
		step int            // seconds between scrapes; 0 is 15
	}{
		"scale out": {slices.Concat(old("a"),
			[]pod{{name: "new", found: 300, serves: 391}, {name: "more", found: 300, serves: 401}}), nil, 0},
		"scale in": {slices.Concat(old("a", "b"),
			[]pod{{name: "c", serves: 1, drains: 300, ends: 331, left: 361}}), nil, 0},
		"gone without a word": {slices.Concat(old("a", "b"), []pod{{name: "c", serves: 1, left: 301}}), nil,
			0},
		"rolling upgrade":      {upgrade, nil, 0},
		"one that never comes": {never, map[string]int{"VLLMStartStuck ticket": 960}, 0},
		"slow pages":           {slow, nil, 0},
		"a replica dies": {slices.Concat(old("a", "b"), []pod{{name: "c", serves: 1, ends: 301}}),
			map[string]int{"VLLMTargetDown ticket": 345, "VLLMTargetDown page": 570}, 0},
		"the only one dies": {[]pod{{name: "c", serves: 1, ends: 301}},
			map[string]int{"VLLMTargetDown page": 345}, 0},
		"replaced between two pages": {replaced, map[string]int{
			"VLLMTargetDown ticket": 345, "VLLMEngineRestart ticket": 435}, 0},
		"a node dies, with two": {slices.Concat(old("a"),
			[]pod{{name: "b", serves: 1, ends: 301}, {name: "c", serves: 1, ends: 301}}),
			map[string]int{"VLLMTargetDown page": 345}, 0},
		"one of quick requests": {slices.Concat(old("a", "b"),
			[]pod{{name: "c", serves: 1, quick: true, ends: 301}}), map[string]int{"VLLMTargetDown ticket": 345}, 0},
		"a drained one is gone": {slices.Concat(old("a", "b"),
			[]pod{{name: "c", serves: 1, drains: 300, ends: 341}}), map[string]int{"VLLMTargetDown ticket": 960}, 0},
		"started again, seldom scraped": {again, nil, 60},
		"a replica dies, seldom scraped": {slices.Concat(old("a", "b"), []pod{{name: "c", serves: 1, ends: 301}}),
			map[string]int{"VLLMTargetDown page": 601}, 60},
		"an engine hangs, seldom scraped": {slices.Concat(old("a", "b", "c"),
			[]pod{{name: "d", serves: 1, hangs: 300}}), map[string]int{"VLLMEngineHung page": 391}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			store := embeddedtest.New(t)
			step := cmp.Or(tc.step, 15)
			began := time.Unix(1_800_000_000, 0).UTC()
			first, ends := map[string]int{}, map[string]time.Time{}
			now := 0
			alerter := &Alerter{Send: func(alerts ...collect.Alert) {
				for _, a := range alerts {
					if s := a.Labels["severity"]; s != "info" {
						if key := a.Labels["alertname"] + " " + s; first[key] == 0 {
							first[key] = now
						}
						ends[a.Labels["alertname"]] = a.Ends
						if since := a.Began.Sub(began).Seconds(); a.Labels["pathology"] == "start-stuck" &&
							(since < 280 || since > 320) {
							t.Errorf("it starts since %.0f s, want since 300 s", since)
						}
						if a.Labels["model_name"] != "m" {
							t.Errorf("%v lacks the model", a.Labels)
						}
					}
				}
			}}
			var memory diagnose.Memory
			for now = 0; now <= 1000; now += step {
				for i, p := range tc.pods {
					if now < p.found || p.left > 0 && now >= p.left {
						continue
					}
					target := embedded.Target{Instance: p.name + ":8000", Job: "vllm"}
					phase := time.Duration(i*step) * 113 * time.Millisecond // of its scrapes
					at, body, took := began.Add(time.Duration(now)*time.Second+phase), p.page(now), time.Millisecond
					if p.every > 0 && now >= p.slowFrom && now < p.slowTo && (now/step)%p.every > 0 {
						body, took = nil, 10*time.Second
					}
					if body == nil {
						must.Succeed(t, store.AppendFailureAfter(target, at, took))
					} else {
						_, err := store.Append(target, at, body, "", took)
						must.Succeed(t, err)
					}
				}
				if now < 120 {
					continue
				}
				at := began.Add(time.Duration(now)*time.Second + 100*time.Millisecond)
				d, err := diagnose.Run(t.Context(), store, diagnose.Options{
					At: at, First: began, Interval: time.Duration(step) * time.Second, Memory: &memory,
					Pathologies: pathologies.All(),
				})
				must.Succeed(t, err)
				alerter.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
			}
			for key, at := range first {
				if by, ok := tc.want[key]; !ok {
					t.Errorf("%s after %d s", key, at)
				} else if at > by {
					t.Errorf("%s after %d s, want it by %d", key, at, by)
				}
			}
			if end, hangs := ends["VLLMEngineHung"]; hangs && end.Before(began.Add(time.Duration(now)*time.Second)) {
				t.Errorf("it hangs to the end, and the alert ended at %s", end)
			}
			for key := range tc.want {
				if first[key] == 0 {
					t.Errorf("no %s", key)
				}
			}
		})
	}
}
