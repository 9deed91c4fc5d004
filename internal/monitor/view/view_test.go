package view

import "testing"

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
