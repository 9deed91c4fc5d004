package generate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// TestServersThatVanishAreMissed lets the pods of a model leave discovery, one and then all.
func TestServersThatVanishAreMissed(t *testing.T) {
	cfg := usual(t)
	cfg.Absences = generate.Absences()
	cfg.Deployment.Window, cfg.Deployment.Short = generate.Windows(cfg.Interval)
	cfg.Pathologies = nil
	healthy, err := history.Parse(nil, "every 15s for 180s\nlike healthy\n")
	must.Succeed(t, err)
	page := pageOf(healthy.Series()[history.UsualInstance], 3)
	const first, all = 30, 70 // minutes: when the first pod leaves, and all
	store := embeddedtest.New(t)
	rules, err := store.Rules(rulesOf(t, cfg).Groups())
	must.Succeed(t, err)
	fired := map[string][]int{}
	for half := range 2 * 90 {
		minute := half / 2
		at := history.Start.Add(time.Duration(half) * 30 * time.Second)
		for pod := range 2 {
			if minute >= first && (minute >= all || pod > 0) {
				continue
			}
			target := embedded.Target{Instance: fmt.Sprintf("10.0.0.%d:8000", pod), Job: "vllm"}
			if _, err := store.Append(target, at, page, "", time.Millisecond); err != nil {
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
