package monitor

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/anomaly"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestAnomalies: the plain detector says nothing unless it is switched on, then names a value
// that jumps, and forgets all when it is switched off.
func TestAnomalies(t *testing.T) {
	store := embeddedtest.New(t)
	const interval = 15 * time.Second
	began := time.Unix(1_800_000_000, 0).UTC()
	look := func(a *Anomalies, i int) {
		t.Helper()
		at := began.Add(time.Duration(i) * interval)
		running := 4 + i%2
		if i == 50 {
			running = 90
		}
		page := fmt.Sprintf("vllm:num_requests_running{model_name=\"m\",engine=\"0\"} %d\nvllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 0\n", running)
		embeddedtest.Append(t, store, embedded.Target{Instance: "a:8000"}, at, page)
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: began, Interval: interval, Every: true})
		must.Succeed(t, err)
		a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
	}
	var told []collect.Alert
	a := &Anomalies{
		Catalogue: pathologies.All(), Send: func(alerts ...collect.Alert) { told = append(told, alerts...) },
		Settings: func() AlertSettings {
			return AlertSettings{Labels: map[string]string{"team": "ml"},
				Severities: map[string]string{"ticket": "warning"}}
		},
	}
	for i := range 10 {
		look(a, i)
	}
	if a.Latest() != nil {
		t.Errorf("it is off, and says %+v", a.Latest())
	}
	a.SetSettings(AnomalySettings{On: true, Notify: "ticket"})
	for i := 10; i < 50; i++ {
		look(a, i)
	}
	if got := a.Latest(); got == nil || len(got)+len(told)+len(a.Samples()) > 0 {
		t.Errorf("of what alternates it says %+v", got)
	}
	look(a, 50)
	if got := a.Latest(); len(got) == 0 || got[0].Target != "a:8000" || got[0].Metric != "num_running" ||
		got[0].Z == nil || !strings.Contains(got[0].Text, "unusually high") {
		t.Errorf("of what jumps it says %+v", got)
	}
	want := map[string]string{"alertname": "SixtyAnomaly", "severity": "warning", "team": "ml", "metric": "num_running",
		"instance": "a:8000", "model_name": "m"}
	jumped := began.Add(50 * interval)
	if i := slices.IndexFunc(told, func(a collect.Alert) bool { return maps.Equal(a.Labels, want) }); i < 0 ||
		!told[i].Began.Equal(jumped) {
		t.Errorf("people are told %+v, want %v", told, want)
	}
	if i := slices.IndexFunc(a.Samples(), func(
		s collect.Sample) bool {
		return s.Labels["metric"] == "num_running"
	}); i < 0 ||
		a.Samples()[i].Value < anomaly.Z || a.Samples()[i].Labels["__name__"] != "sixty_anomaly" {
		t.Errorf("gauges %+v", a.Samples())
	}
	// It is over, and known with its times, also where the limits change.
	look(a, 51)
	a.SetSettings(AnomalySettings{On: true, Limits: anomaly.Limits{Window: 10, Z: 4}})
	look(a, 52)
	past := a.Latest()
	if i := slices.IndexFunc(past, func(v view.Anomaly) bool { return v.Metric == "num_running" }); i < 0 ||
		!past[i].At.Equal(jumped) || past[i].Ended == nil || !past[i].Ended.Equal(jumped.Add(2*interval)) {
		t.Errorf("what is over: %+v", past)
	}
	a.SetSettings(AnomalySettings{})
	look(a, 53)
	if a.Latest() != nil {
		t.Errorf("it is off again, and says %+v", a.Latest())
	}
}

func TestAnomalySettings(t *testing.T) {
	for text, want := range map[string]string{
		"true": "", "false": "", "{}": "", "{window: 30, z: 2.5, least: 5, notify: ticket}": "",
		"{window: 1}": "sixty.anomalies.window", "{window: 10, least: 11}": "sixty.anomalies.least",
		"{z: -1}": "sixty.anomalies.z", "{z: .inf}": "sixty.anomalies.z",
		"{notify: info}": "sixty.anomalies.notify", "{windows: 5}": "field windows not found", "maybe": "maybe",
	} {
		c, err := ParseConfig([]byte("sixty:\n  anomalies: "+text+"\n"), 0, slog.New(slog.DiscardHandler))
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || want == "" &&
			(err != nil || c.Sixty.Anomalies.On != (text != "false")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
