package generate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/generate/replaytest"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// TestServersThatVanishAreMissed lets the pods of a model leave discovery, one and then all,
// and kube-state-metrics say how many there should be.
func TestServersThatVanishAreMissed(t *testing.T) {
	cfg := usual(t)
	cfg.Absences = generate.Absences()
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(cfg.Interval)
	cfg.Pathologies = nil
	healthy, err := history.Parse(os.DirFS("."), "every 15s for 180s\nlike healthy\n")
	must.Succeed(t, err)
	page := replaytest.NewPages(healthy.Series()[history.UsualInstance]).At(3)
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
			store := embeddedtest.New(t)
			rules, err := store.Rules(rulesOf(t, cfg).Groups())
			must.Succeed(t, err)
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
				must.Succeed(t, rules.Eval(t.Context(), at))
				for _, a := range rules.Alerts() {
					if a.Firing && !slices.Contains(fired[a.Name], minute) {
						fired[a.Name] = append(fired[a.Name], minute)
					}
				}
			}
			if n := len(fired["VLLMWatchdog"]); n != 90 {
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

// TestAnAutoscalerThatDoesNotSeeTheLoad lets requests wait for a quarter of an hour while the autoscaler of their
// workload wants no more replicas, for one of three reasons. An autoscaler that does, another workload's, and one
// without a queue cause no alert.
func TestAnAutoscalerThatDoesNotSeeTheLoad(t *testing.T) {
	cfg := usual(t)
	cfg.Absences, cfg.Pathologies = []string{"autoscaler-stuck"}, nil
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(cfg.Interval)
	rules := rulesOf(t, cfg).Groups()
	for name, tt := range map[string]struct {
		waiting, current, desired, most int
		active                          bool
		kind, owner, of                 string // of the pods, and whose autoscaler it is
		want                            string
	}{
		"at its maximum":              {9, 4, 4, 4, true, "ReplicaSet", "llm-5d9f", "llm", "It is at its maximum of 4"},
		"it cannot read its metric":   {9, 4, 4, 8, false, "ReplicaSet", "llm-5d9f", "llm", "It cannot read its metric"},
		"it does not see the load":    {9, 4, 4, 8, true, "ReplicaSet", "llm-5d9f", "llm", "does not show the queue"},
		"it takes replicas away":      {9, 4, 2, 8, true, "StatefulSet", "llm", "llm", "does not show the queue"},
		"it asks for more":            {9, 4, 6, 8, true, "ReplicaSet", "llm-5d9f", "llm", ""},
		"nobody waits":                {0, 4, 4, 4, true, "ReplicaSet", "llm-5d9f", "llm", ""},
		"one request always waits":    {1, 4, 4, 4, true, "ReplicaSet", "llm-5d9f", "llm", ""},
		"another workload's":          {9, 4, 4, 4, true, "ReplicaSet", "llm-5d9f", "chat", ""},
		"one whose name is a part":    {9, 4, 4, 4, true, "ReplicaSet", "llm-large-5d9f", "llm", ""},
		"a pod that nobody scales up": {9, 4, 4, 4, true, "Node", "llm", "llm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := embeddedtest.New(t)
			eval, err := store.Rules(rules)
			must.Succeed(t, err)
			kube := fmt.Sprintf(`kube_pod_info{namespace="prod",pod="llm-0",created_by_kind=%q,created_by_name=%q} 1
kube_horizontalpodautoscaler_info{namespace="prod",horizontalpodautoscaler="hpa",scaletargetref_kind="Deployment",scaletargetref_name=%q} 1
kube_horizontalpodautoscaler_status_current_replicas{namespace="prod",horizontalpodautoscaler="hpa"} %d
kube_horizontalpodautoscaler_status_desired_replicas{namespace="prod",horizontalpodautoscaler="hpa"} %d
kube_horizontalpodautoscaler_spec_max_replicas{namespace="prod",horizontalpodautoscaler="hpa"} %d
kube_horizontalpodautoscaler_status_condition{namespace="prod",horizontalpodautoscaler="hpa",condition="ScalingActive",status="false"} %d
`, tt.kind, tt.owner, tt.of, tt.current, tt.desired, tt.most, map[bool]int{false: 1}[tt.active])
			page := fmt.Sprintf("vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 8\nvllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} %d\n", tt.waiting)
			text := ""
			for half := range 2 * 20 {
				at := history.Start.Add(time.Duration(half) * 30 * time.Second)
				for _, s := range []struct {
					target embedded.Target
					page   string
				}{
					{embedded.Target{Instance: "10.0.0.1:8000", Job: "vllm", Labels: map[string]string{"namespace": "prod", "pod": "llm-0"}}, page},
					{embedded.Target{Instance: "ksm:8080", Job: "kube-state-metrics"}, kube},
				} {
					if _, err := store.Append(s.target, at, []byte(s.page), "", time.Millisecond); err != nil {
						t.Fatal(err)
					}
				}
				must.Succeed(t, eval.Eval(t.Context(), at))
				for _, a := range eval.Alerts() {
					if a.Firing {
						text = a.Name + " " + a.Annotations["description"]
					}
				}
			}
			if (tt.want == "") != (text == "") || !strings.Contains(text, tt.want) || text != "" && !strings.HasPrefix(text, "VLLMAutoscalerStuck ") {
				t.Errorf("%q, want %q", text, tt.want)
			}
		})
	}
}
