package load

import (
	"strconv"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestScenarios(t *testing.T) {
	want := map[string]string{
		"low-load": "1×50 512/256", "saturation": "64×500 512/256", "long-prompts": "8×50 8192/256", "long-outputs": "16×50 256/4096", "burst": "128×200 512/256",
	}
	got := map[string]string{}
	for _, s := range Scenarios() {
		got[s.Name] = strconv.Itoa(s.Concurrency) + "×" + strconv.Itoa(s.Requests) + " " + s.Workload.Prompt.String() + "/" + s.Workload.Output.String()
	}
	must.Equal(t, want, got)
	s, err := FindScenario("burst")
	must.Succeed(t, err)
	if s, err = s.Scale(0.01); err != nil || s.Concurrency != 1 || s.Requests != 2 || s.Workload.Prompt.String() != "5" || s.Workload.Output.String() != "3" {
		t.Errorf("scaled to a hundredth: %+v, %v", s, err)
	}
	if _, err := FindScenario("x"); err == nil {
		t.Error("an unknown scenario was found")
	}
}
