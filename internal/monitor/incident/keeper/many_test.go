package keeper

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// Of thirty servers, the recording has the failing one and 23 others. The number that is left out is known after a
// restart. Servers of another cluster at the same addresses are not recorded.
func TestARecordingOfManyServersIsBounded(t *testing.T) {
	store := embeddedtest.New(t)
	const replicas, sick = 30, 29
	began := time.Unix(1_800_000_000, 0).UTC()
	dir := t.TempDir()
	open := func() *Keeper {
		k, err := Open(t.Context(), Config{Dir: dir, Catalogue: pathologies.All(),
			Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		must.Succeed(t, err)
		return k
	}
	k := open()
	for i := range 24 {
		at := began.Add(time.Duration(i) * 5 * time.Second)
		for c, cluster := range []string{"a", "b"} {
			for r := range replicas {
				target := embedded.Target{Instance: fmt.Sprintf("10.0.0.%d:8000", r), Job: "vllm",
					Labels: map[string]string{"cluster": cluster}}
				page := fmt.Sprintf("vllm:num_requests_running{model_name=\"m%d\",engine=\"0\"} 1\nvllm:num_requests_waiting{model_name=\"m%[1]d\",engine=\"0\"} 0\nvllm:generation_tokens_total{model_name=\"m%[1]d\",engine=\"0\"} %d\nprocess_start_time_seconds %d.5\n",
					c, 1000*r+i+100_000*c, 1_700_000_000+100*c+r)
				if cluster == "b" && r == sick && i > 12 {
					must.Succeed(t, store.AppendFailure(target, at))
				} else {
					embeddedtest.Append(t, store, target, at, page)
				}
			}
		}
		if i < 6 {
			continue
		}
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{
			At: at, First: began, Interval: 5 * time.Second, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		must.Succeed(t, k.Observe(&d, store))
		must.Succeed(t, k.WaitForEvidence(t.Context()))
	}
	must.Succeed(t, k.Close(t.Context()))
	k = open()
	defer k.Close(t.Context())
	all := k.List(Query{})
	if len(all) != 1 || all[0].Pathology != "target-down" || all[0].LeftOut != replicas-maxInstances {
		t.Fatalf("%+v", all)
	}
	path, _, err := k.Recording(all[0].ID, access.Everybody)
	must.Succeed(t, err)
	again, _, last := embeddedtest.Open(t, path, nil)
	v, err := again.Query(t.Context(), "last_over_time(up[5m])", last)
	must.Succeed(t, err)
	var names []string
	down := false
	for _, s := range v {
		names = append(names, string(s.Metric["instance"]))
		down = down || s.Metric["instance"] == sickAt && s.Value == 0
	}
	if len(names) != maxInstances || !down {
		t.Errorf("%d servers, the sick one among them: %t; %s", len(names), down, strings.Join(names, " "))
	}
	other, err := again.Query(t.Context(), `count(last_over_time(vllm:num_requests_running{model_name="m0"}[5m]))`,
		last)
	if err != nil || len(other) > 0 {
		t.Errorf("servers of the other cluster: %v, %v", other, err)
	}
}

const sickAt = "10.0.0.29:8000"
