package view

import (
	"strings"
	"testing"
)

func TestHealthOf(t *testing.T) {
	for _, tt := range []struct {
		status   Status
		severity string
		want     Health
	}{
		{Firing, "page", HealthFailing},
		{Down, "", HealthFailing},
		{Firing, "ticket", HealthDegraded},
		{Pending, "page", HealthUncertain},
		{Pending, "", HealthUncertain},
		{Pending, "info", HealthHealthy},
		{Firing, "info", HealthHealthy},
		{Healthy, "", HealthHealthy},
		{Idle, "", HealthHealthy},
		{Unknown, "", HealthUnknown},
		{Unknown, "info", HealthUnknown},
	} {
		if got := HealthOf(tt.status, tt.severity); got != tt.want {
			t.Errorf("%s, %q: %s, want %s", tt.status, tt.severity, got, tt.want)
		}
	}
}

// TestAModelIsToldInOneSentence: what is wrong and where or, where nothing fires, how it is.
func TestAModelIsToldInOneSentence(t *testing.T) {
	healthy, idle := Verdict{ID: "healthy", Status: Healthy}, Verdict{ID: "idle", Status: Healthy}
	firing := Verdict{ID: "engine-hung", Status: Firing, Severity: "page"}
	for _, tt := range []struct {
		verdict Verdict
		phase   Phase
		on, of  int
		state   State
		title   string
		health  Health
	}{
		{firing, Failing, 1, 4, OK, "Engine hung on 1 of 4 replicas of qwen in prod", HealthFailing},
		{firing, Failing, 4, 4, Partial, "Engine hung on all 4 replicas of qwen in prod", HealthFailing},
		{firing, Failing, 1, 1, OK, "Engine hung on qwen in prod", HealthFailing},
		{healthy, "", 0, 4, OK, "qwen in prod is healthy", HealthHealthy},
		{healthy, "", 0, 4, Partial, "qwen in prod is in an unknown state", HealthUnknown},
		{idle, "", 0, 4, OK, "qwen in prod is idle", HealthHealthy},
		{healthy, Quiet, 0, 4, OK, "qwen in prod is quiet, and its incident is not closed yet", HealthHealthy},
		{Verdict{ID: "engine-restart", Status: Firing, Severity: "info"}, Quiet, 4, 4, OK, "qwen in prod is quiet, and its incident is not closed yet", HealthHealthy},
		{healthy, Quiet, 0, 4, Stale, "qwen in prod is quiet, and its incident is not closed yet", HealthHealthy},
		{healthy, Failing, 0, 4, OK, "qwen in prod is failing: its incident is open", HealthFailing},
		{Verdict{ID: "not-certain", Status: Pending}, Quiet, 0, 4, OK, "Not certain yet whether qwen in prod is healthy", HealthUncertain},
		{Verdict{ID: "insufficient-data", Status: Unknown}, "", 0, 4, OK, "qwen in prod is in an unknown state", HealthUnknown},
	} {
		o := Overview{State: tt.state, Models: []Model{
			{Model: "qwen", Namespace: "prod", Verdict: tt.verdict, Phase: tt.phase}}}
		m := &o.Models[0]
		m.Describe("Engine hung", tt.on, tt.of)
		if o.Doubt(); m.Title != tt.title || m.Health != tt.health {
			t.Errorf("%q, %s; want %q, %s", m.Title, m.Health, tt.title, tt.health)
		}
		if doubted := strings.HasPrefix(m.Text, "Was: "); doubted != (tt.health == HealthUnknown &&
			tt.verdict.Status == Healthy) {
			t.Errorf("%q of a model that is %s", m.Text, m.Health)
		}
	}
}
