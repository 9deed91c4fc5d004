package monitor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestWhoWaitsIsShownAsUncertain: two endless answers hold the seats of one of two replicas while others
// queue. Neither the model nor that replica is healthy from 20 s on, the other one is, and soon after
// they are served again all is healthy.
func TestWhoWaitsIsShownAsUncertain(t *testing.T) {
	store := embeddedtest.New(t)
	const every, from, to, end = 5, 300, 420, 600
	began := time.Unix(1_800_000_000, 0).UTC()
	page := func(at int, starves bool) []byte {
		served, waiting := at, 0
		if starves && at > from {
			served, waiting = from+max(0, at-to), max(0, min(at, to)-from)/2
			waiting = max(0, waiting-max(0, at-to)*4)
		}
		l := `{model_name="m",engine="0"}`
		return fmt.Appendf(nil, "vllm:num_requests_running%[1]s 2\nvllm:num_requests_waiting%[1]s %[2]d\nvllm:kv_cache_usage_perc%[1]s 0.2\n"+
			"vllm:generation_tokens_total%[1]s %[3]d\nvllm:time_to_first_token_seconds_count%[1]s %[4]d\nvllm:time_to_first_token_seconds_sum%[1]s %[5]f\n"+
			"vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.25\"} %[4]d\nvllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"+Inf\"} %[4]d\n",
			l, waiting, 80*at, 2*served, 0.2*float64(served))
	}
	var memory diagnose.Memory
	said := map[string]bool{}
	for now := 0; now <= end; now += every {
		at := began.Add(time.Duration(now) * time.Second)
		for i, name := range []string{"a:8000", "b:8000"} {
			if _, err := store.Append(embedded.Target{Instance: name, Job: "vllm"}, at, page(now, i == 0), "",
				time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if now < 120 {
			continue
		}
		at = at.Add(100 * time.Millisecond)
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: began, Interval: every * time.Second, Memory: &memory, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		e := &Evaluation{At: at, Diagnosis: d}
		o := NewOverview(e, 15*time.Second, at, nil, nil)
		m := o.Models[0]
		a, b := view.HealthOf(m.Replicas[0].Status, m.Replicas[0].Severity),
			view.HealthOf(m.Replicas[1].Status, m.Replicas[1].Severity)
		whole := view.HealthOf(m.Verdict.Status, m.Verdict.Severity)
		said[m.Verdict.ID] = true
		switch sick := now >= from+20 && now <= to; {
		case sick && (whole == view.HealthHealthy || whole == view.HealthUnknown):
			t.Errorf("after %d s the model is %s: %+v", now, whole, m.Verdict)
		case sick && (a == view.HealthHealthy || a == view.HealthUnknown || m.Replicas[0].Reason == ""):
			t.Errorf("after %d s the replica that starves is %s: %+v", now, a, m.Replicas[0])
		case whole == view.HealthUncertain && (m.Verdict.ID != diagnose.NotCertain ||
			!strings.HasPrefix(m.Verdict.Summary, diagnose.NameOf(diagnose.NotCertain)+": ")):
			t.Errorf("after %d s: %+v", now, m.Verdict)
		case (now <= from || now > to+30) && (whole != view.HealthHealthy || a != view.HealthHealthy):
			t.Errorf("after %d s nobody waits, and the model is %s: %+v", now, whole, m.Verdict)
		case b != view.HealthHealthy && now < to:
			t.Errorf("after %d s the replica that serves is %s: %+v", now, b, m.Replicas[1])
		}
	}
	if !said[diagnose.NotCertain] {
		t.Errorf("verdicts: %v", said)
	}
}

// TestAServerThatMayHangIsNotHealthy: the API process of one of five replicas stands still, after another one was
// replaced. That one started lately leads no verdict meanwhile, and the four that are well make none of health.
func TestAServerThatMayHangIsNotHealthy(t *testing.T) {
	store := embeddedtest.New(t)
	const every, drained, restart, from, to = 5, 200, 240, 300, 355
	began := time.Unix(1_800_000_000, 0).UTC()
	for now := 0; now <= to; now += every {
		at := began.Add(time.Duration(now) * time.Second)
		for i := range 5 {
			target, born := embedded.Target{Instance: fmt.Sprintf("r%d:8000", i), Job: "vllm"}, 0
			switch {
			case i == 0 && now > from:
				must.Succeed(t, store.AppendFailureAfter(target, at, 5*time.Second))
				continue
			case i == 4 && now > drained && now <= restart:
				must.Succeed(t, store.AppendFailureAfter(target, at, time.Millisecond))
				continue
			case i == 4 && now > restart:
				born = restart
			}
			n, running := now-born, 2
			if i == 4 && now <= drained && now > drained-30 {
				n, running = drained-30, 0
			}
			page := fmt.Appendf(nil, "process_start_time_seconds %[3]d\nvllm:num_requests_running{%[1]s} %[6]d\nvllm:num_requests_waiting{%[1]s} 0\nvllm:kv_cache_usage_perc{%[1]s} 0.2\n"+
				"vllm:generation_tokens_total{%[1]s} %[4]d\nvllm:time_to_first_token_seconds_count{%[1]s} %[2]d\nvllm:time_to_first_token_seconds_sum{%[1]s} %[5]f\n"+
				"vllm:time_to_first_token_seconds_bucket{%[1]s,le=\"0.25\"} %[2]d\nvllm:time_to_first_token_seconds_bucket{%[1]s,le=\"+Inf\"} %[2]d\n",
				`model_name="m",engine="0"`, n, began.Unix()+int64(born), 80*n, 0.1*float64(n), running)
			if _, err := store.Append(target, at, page, "", time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if now < from {
			continue
		}
		at = at.Add(100 * time.Millisecond)
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: began, Interval: every * time.Second, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		if sick := now > from+20; sick != (d.Verdict.ID == diagnose.NotCertain) {
			t.Errorf("%d s after r0 stood still: %+v", now-from, d.Verdict)
		}
	}
}

// TestOneStreamAtHalfSpeed: one user has one stream, whose answers take two minutes. Three of them are a past to
// compare with, because a stream of thousands of tokens tells how fast tokens came. The third one slows down: no answer
// begins after that, and so no prefill explains it.
func TestOneStreamAtHalfSpeed(t *testing.T) {
	store := embeddedtest.New(t)
	const every, from, to, answer = 5, 240, 285, 3700
	began := time.Unix(1_800_000_000, 0).UTC()
	l, target := `model_name="m",engine="0"`, embedded.Target{Instance: "a:8000", Job: "vllm"}
	fast, slow := 1, 0
	var last diagnose.Diagnosis
	for now := 0; now <= to; now += every {
		at := began.Add(time.Duration(now) * time.Second)
		if now > from {
			slow += 15 * every
		} else {
			fast += 31 * every
		}
		page := fmt.Appendf(nil, "vllm:num_requests_running{%[1]s} 1\nvllm:num_requests_waiting{%[1]s} 0\nvllm:kv_cache_usage_perc{%[1]s} 0.1\n"+
			"vllm:generation_tokens_total{%[1]s} %[2]d\nvllm:iteration_tokens_total_count{%[1]s} %[2]d\nvllm:iteration_tokens_total_sum{%[1]s} %[2]d\nvllm:prompt_tokens_total{%[1]s} %[7]d\nvllm:inter_token_latency_seconds_count{%[1]s} %[2]d\nvllm:inter_token_latency_seconds_sum{%[1]s} %[4]f\n"+
			"vllm:inter_token_latency_seconds_bucket{%[1]s,le=\"0.025\"} 0\nvllm:inter_token_latency_seconds_bucket{%[1]s,le=\"0.05\"} %[3]d\n"+
			"vllm:inter_token_latency_seconds_bucket{%[1]s,le=\"0.075\"} %[2]d\nvllm:inter_token_latency_seconds_bucket{%[1]s,le=\"+Inf\"} %[2]d\n"+
			"vllm:time_to_first_token_seconds_count{%[1]s} %[5]d\nvllm:time_to_first_token_seconds_sum{%[1]s} %[6]f\n"+
			"vllm:time_to_first_token_seconds_bucket{%[1]s,le=\"0.1\"} %[5]d\nvllm:time_to_first_token_seconds_bucket{%[1]s,le=\"+Inf\"} %[5]d\n",
			l, fast+slow, fast, 0.032*float64(fast)+0.068*float64(slow), 1+(fast+slow)/answer,
			0.05*float64(1+(fast+slow)/answer), 100*(1+(fast+slow)/answer))
		if _, err := store.Append(target, at, page, "", time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if now < from-60 {
			continue
		}
		var err error
		last, err = diagnose.Run(t.Context(), store, diagnose.Options{
			At: at.Add(100 * time.Millisecond), First: began, Interval: every * time.Second,
			Pathologies: pathologies.All()})
		must.Succeed(t, err)
		if now <= from && last.Verdict.ID != diagnose.Healthy {
			t.Errorf("before the fault, at %d s: %+v", now, last.Verdict)
		}
	}
	if last.Verdict.ID != "slow-decode" {
		t.Errorf("%+v", last.Verdict)
	}
}

// TestWhatFiredIsNotResolvedWhileNothingIsCertain: an alert goes on while the verdict is not certain, and ends
// a while after it is healthy.
func TestWhatFiredIsNotResolvedWhileNothingIsCertain(t *testing.T) {
	p := &catalog.Pathology{ID: "saturation", Alert: "Saturation", Severity: catalog.Page}
	var ends time.Time
	a := &Alerter{Send: func(list ...collect.Alert) {
		for _, al := range list {
			ends = al.Ends
		}
	}}
	at := time.Unix(1_800_000_000, 0)
	see := func(v diagnose.Verdict, findings ...diagnose.Finding) {
		at = at.Add(15 * time.Second)
		v.Model, v.All = "m", []string{"a:1"}
		a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: diagnose.Diagnosis{
			At: at, Targets: []diagnose.Target{{Name: "a:1",
				Labels: map[string]string{"instance": "a:1", "model_name": "m"}}}, Verdicts: []diagnose.Verdict{v},
			Findings: findings,
		}})
	}
	for range 8 {
		see(diagnose.Verdict{ID: p.ID, Status: diagnose.Firing},
			diagnose.Finding{Pathology: p, Model: "m", Status: diagnose.Firing, Severity: p.Severity,
				Targets: []string{"a:1"}, Since: at})
	}
	for range 240 {
		see(diagnose.Verdict{ID: diagnose.NotCertain, Status: diagnose.Pending})
		if !ends.After(at) {
			t.Fatalf("ended at %s, though it is not certain that it is over", ends)
		}
	}
	for range 8 {
		see(diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK})
	}
	if ends.After(at) {
		t.Errorf("it goes on until %s, two minutes after all was healthy", ends)
	}
}

// TestAReplicaThatGetsNoRequestsIsNotGreen where others of its model do, and something is wrong.
func TestAReplicaThatGetsNoRequestsIsNotGreen(t *testing.T) {
	replica := func(rate float64) view.Replica {
		return view.Replica{Status: view.Healthy, Now: view.Numbers{RequestRate: &rate, RequestsRunning: new(float64)}}
	}
	for _, tt := range []struct {
		verdict view.Status
		rates   []float64
		want    view.Status // of the first
	}{
		{view.Firing, []float64{0, 2}, view.Pending},
		{view.Firing, []float64{0, 0}, view.Healthy},
		{view.Firing, []float64{1, 2}, view.Healthy},
		{view.Healthy, []float64{0, 2}, view.Healthy},
	} {
		m := view.Model{Verdict: view.Verdict{Status: tt.verdict}}
		for _, rate := range tt.rates {
			m.Replicas = append(m.Replicas, replica(rate))
		}
		if addReplicaDoubts(&m, nil); m.Replicas[0].Status != tt.want {
			t.Errorf("%s, %v requests/s: %s, want %s", tt.verdict, tt.rates, m.Replicas[0].Status, tt.want)
		}
	}
	for phase, want := range map[view.Phase]view.Status{view.Failing: view.Pending, view.Quiet: view.Healthy} {
		m := view.Model{Phase: phase, Replicas: []view.Replica{
			{Target: "a", Status: view.Healthy}, {Target: "b", Status: view.Healthy}}}
		if addReplicaDoubts(&m, &view.Summary{Affected: []string{"b"}}); m.Replicas[0].Status != view.Healthy ||
			m.Replicas[1].Status != want {
			t.Errorf("in a %s incident a is %s and b, on which it was found, %s", phase, m.Replicas[0].Status,
				m.Replicas[1].Status)
		}
	}
}
