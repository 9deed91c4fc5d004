package monitor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestEveryOutageIsToldByItself: a server that is killed three times, minutes apart, is told of three times, each since
// it died, and each ends before the next begins, although the incident goes on and the server has just restarted
// meanwhile. Its history has all three.
func TestEveryOutageIsToldByItself(t *testing.T) {
	store := embeddedtest.New(t)
	const interval = 5 * time.Second
	first := time.Unix(1_800_000_000, 0).UTC()
	var at, born time.Time
	var last *incident.Record
	tracker := incident.NewTracker(pathologies.All(), nil, nil)
	type told struct{ began, ended time.Time }
	var all []told
	a := &Alerter{
		Incident: func(string) *view.Summary { return &last.Summary },
		Send: func(list ...collect.Alert) {
			for _, al := range list {
				if al.Labels["pathology"] != "target-down" {
					continue
				}
				if n := len(all); n == 0 || !all[n-1].began.Equal(al.Began) {
					all = append(all, told{began: al.Began})
				}
				if !al.Ends.After(at) {
					all[len(all)-1].ended = al.Ends
				}
			}
		},
	}
	down := func(at time.Time) (killed time.Time, is bool) { // for 100 s of 240
		since := at.Sub(first.Add(5 * time.Minute))
		killed = at.Add(-since % (4 * time.Minute))
		return killed, since >= 0 && since < 12*time.Minute && since%(4*time.Minute) < 100*time.Second
	}
	target, memory, since := embedded.Target{Instance: "10.0.0.1:8000", Job: "vllm"}, &diagnose.Memory{}, 0
	born = first.Add(-time.Hour)
	for i := range 20 * 60 / 5 {
		at = first.Add(time.Duration(i) * interval)
		if _, is := down(at); is {
			born = at.Add(interval)
			must.Succeed(t, store.AppendFailure(target, at))
		} else {
			since = int(at.Sub(born).Seconds())
			embeddedtest.Append(t, store, target, at, strings.NewReplacer("N", fmt.Sprint(400*since), "R", fmt.Sprint(4*since), "B", fmt.Sprint(born.Unix())).Replace(`
vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} N
vllm:generation_tokens_created{model_name="m",engine="0"} B
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} R
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} R
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} R
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} R
process_start_time_seconds B
`))
		}
		if i%3 > 0 || i < 12 {
			continue
		}
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: first, Interval: interval, Memory: memory, Scraper: true, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		for _, e := range tracker.Observe(&d) {
			last = e.Record
		}
		tracker.Conform(&d)
		a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
	}
	for i, x := range all {
		killed := first.Add(5*time.Minute + time.Duration(i)*4*time.Minute)
		if off := x.began.Sub(killed); off < -interval || off > 0 {
			t.Errorf("outage %d is told to have begun %s after it did", i+1, off)
		}
		if recovered := killed.Add(100 * time.Second); x.ended.Before(recovered) ||
			x.ended.Sub(recovered) > 100*time.Second {
			t.Errorf("outage %d is told to have ended %s after it did", i+1, x.ended.Sub(recovered))
		}
	}
	if len(all) != 3 || last == nil {
		t.Fatalf("%d outages are told, want 3", len(all))
	}
	found := 0
	for _, turn := range last.Evolution {
		found += strings.Count(turn.ID, "target-down")
	}
	if since := last.Since["target-down"]; !since.Equal(all[2].began) || found != 3 {
		t.Errorf("its incident has %d outages, the last since %s; want 3, and %s", found, since, all[2].began)
	}
}
