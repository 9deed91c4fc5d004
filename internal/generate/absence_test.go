package generate_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
)

// TestServersThatVanishAreMissed lets the pods of a model leave discovery, one and then all,
// and kube-state-metrics say how many there should be.
func TestServersThatVanishAreMissed(t *testing.T) {
	cfg := usual(t)
	cfg.Absences = generate.Absences()
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(cfg.Interval)
	cfg.Pathologies = nil
	healthy, err := history.Parse(os.DirFS("."), "every 15s for 180s\nlike healthy\n")
	if err != nil {
		t.Fatal(err)
	}
	page := history.NewPages(healthy.Series()[history.UsualInstance]).At(3)
	const first, all = 30, 70 // minutes: when the first pod leaves, and all
	for name, tt := range map[string]struct {
		kube    bool
		desired func(minute int) int
		missing []int // minutes at which a replica is missing
	}{
		"without kube-state-metrics": {false, nil, nil},
		"a pod is lost":              {true, func(int) int { return 2 }, []int{55, 65}},
		"the fleet is scaled down":   {true, func(minute int) int { return map[bool]int{true: 2, false: 1}[minute < first] }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := embedded.Open(embedded.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			rules, err := store.Rules(rulesOf(t, cfg).Groups())
			if err != nil {
				t.Fatal(err)
			}
			fired := map[string][]int{}
			for half := range 2 * 90 {
				minute := half / 2
				at := history.Start.Add(time.Duration(half) * 30 * time.Second)
				kube := ""
				for pod := range 2 {
					there := minute < first || minute < all && pod == 0
					if !there {
						continue
					}
					kube += fmt.Sprintf("kube_pod_info{namespace=\"prod\",pod=\"vllm-%d\",created_by_kind=\"ReplicaSet\",created_by_name=\"vllm-5d\"} 1\n", pod)
					target := embedded.Target{Instance: fmt.Sprintf("10.0.0.%d:8000", pod), Job: "vllm", Labels: map[string]string{"namespace": "prod", "pod": fmt.Sprintf("vllm-%d", pod)}}
					if _, err := store.Append(target, at, page, "", time.Millisecond); err != nil {
						t.Fatal(err)
					}
				}
				if tt.kube {
					kube += fmt.Sprintf("kube_replicaset_spec_replicas{namespace=\"prod\",replicaset=\"vllm-5d\"} %d\n", tt.desired(minute))
					if _, err := store.Append(embedded.Target{Instance: "ksm:8080", Job: "kube-state-metrics"}, at, []byte(kube), "", time.Millisecond); err != nil {
						t.Fatal(err)
					}
				}
				if err := rules.Eval(t.Context(), at); err != nil {
					t.Fatal(err)
				}
				for _, a := range rules.Alerts() {
					if a.Firing && !slices.Contains(fired[a.Name], minute) {
						fired[a.Name] = append(fired[a.Name], minute)
					}
				}
			}
			if n := len(fired[generate.WatchdogAlert]); n != 90 {
				t.Errorf("the watchdog fires in %d of 90 minutes", n)
			}
			// Without markers of staleness a series is there for five minutes more.
			if absent := fired["VLLMServersAbsent"]; len(absent) == 0 || absent[0] < all+5 || absent[0] > all+11 {
				t.Errorf("no server is left after %d minutes, and that fires at %v", all, absent)
			}
			for _, minute := range tt.missing {
				if !slices.Contains(fired["VLLMReplicasMissing"], minute) {
					t.Errorf("a replica is missing, and nothing says so at %d: %v", minute, fired["VLLMReplicasMissing"])
				}
			}
			if got := fired["VLLMReplicasMissing"]; len(tt.missing) == 0 && len(got) > 0 && got[0] < all {
				t.Errorf("no replica is missing, and the alert fires at %v", got)
			}
		})
	}
}
