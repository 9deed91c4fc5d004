package load

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestScenarios(t *testing.T) {
	want := map[string]string{
		"low-load": "1×50 512/256", "saturation": "64×500 512/256", "long-prompts": "8×50 8192/256", "long-outputs": "16×50 256/4096", "burst": "128×200 512/256",
	}
	got := map[string]string{}
	for _, s := range Scenarios() {
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
		got[s.Name] = strconv.Itoa(s.Concurrency) + "×" + strconv.Itoa(s.Requests) + " " + s.Workload.Prompt.String() + "/" + s.Workload.Output.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
	s, err := FindScenario("burst")
	must.Succeed(t, err)
	if s, err = s.Scale(0.01); err != nil || s.Concurrency != 1 || s.Requests != 2 || s.Workload.Prompt.String() != "5" || s.Workload.Output.String() != "3" {
		t.Errorf("scaled to a hundredth: %+v, %v", s, err)
	}
	if _, err := FindScenario("x"); err == nil {
		t.Error("an unknown scenario was found")
	}
}

func TestReadScenarios(t *testing.T) {
	list, err := ReadScenarios(strings.NewReader(`
scenarios:
  - name: mix
    goal: two kinds of users
    rate: "steps:5,10:30s"
    cv: 0
    workload:
      prompt: lognormal:800,1.2:10-4000
      output: uniform:50-200
      turns: "3"
      think_time: 2s
      prefix_share: 0.4
      tenants:
        - {name: free, weight: 3}
        - {name: paid, weight: 1, prompt: "2000", cancel_share: 0.1}
`))
	must.Succeed(t, err)
	s := list[0]
	a, err := s.Arrivals()
	if err != nil || len(a.Profile) != 2 || a.CV != 0 || s.Workload.ThinkTime != 2*time.Second || *s.Workload.Tenants[1].CancelShare != 0.1 {
		t.Errorf("scenario %+v, arrivals %+v, error %v", s, a, err)
	}
	for name, tt := range map[string]struct{ yaml, err string }{
		"an unknown key":              {"scenarios:\n  - name: x\n    concurency: 3", "line 3"},
		"no scenarios":                {"scenarios: []", "has none"},
		"no load":                     {"scenarios:\n  - name: x\n    workload: {prompt: 5, output: 5}", "either a concurrency or a rate"},
		"two loads":                   {"scenarios:\n  - name: x\n    rate: 5\n    concurrency: 2\n    workload: {prompt: 5, output: 5}", "either a concurrency or a rate"},
		"no prompt":                   {"scenarios:\n  - name: x\n    rate: 5\n    workload: {output: 5}", "no prompt length"},
		"a share beyond one":          {"scenarios:\n  - name: x\n    rate: 5\n    workload: {prompt: 5, output: 5, prefix_share: 2}", "not between 0 and 1"},
		"a distribution that is none": {"scenarios:\n  - name: x\n    rate: 5\n    workload: {prompt: zipf, output: 5}", "zipf"},
		"no YAML":                     {"\t", "read scenarios"},
	} {
		if _, err := ReadScenarios(strings.NewReader(tt.yaml)); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", name, err, tt.err)
		}
	}
}
