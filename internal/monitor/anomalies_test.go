package monitor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
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
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: began, Interval: interval, Every: true})
		must.Succeed(t, err)
		a.Observe(t.Context(), &Evaluation{At: at, Diagnosis: d})
	}
	a := &Anomalies{Catalogue: pathologies.All()}
	for i := range 10 {
		look(a, i)
	}
	if a.Latest() != nil {
		t.Errorf("it is off, and says %+v", a.Latest())
	}
	a.Switch(true)
	for i := 10; i < 50; i++ {
		look(a, i)
	}
	if got := a.Latest(); got == nil || len(got) > 0 {
		t.Errorf("of what alternates it says %+v", got)
	}
	look(a, 50)
	if got := a.Latest(); len(got) == 0 || got[0].Target != "a:8000" || got[0].Metric != "num_running" || got[0].Z == nil || !strings.Contains(got[0].Text, "unusually high") {
		t.Errorf("of what jumps it says %+v", got)
	}
	a.Switch(false)
	look(a, 51)
	if a.Latest() != nil {
		t.Errorf("it is off again, and says %+v", a.Latest())
	}
}
