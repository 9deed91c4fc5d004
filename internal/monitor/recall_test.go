package monitor

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/diagnose"
)

// TestADeadServerKeepsItsModel: when its series are gone it still belongs to the model that it
// served, and not to the only one that is left.
func TestADeadServerKeepsItsModel(t *testing.T) {
	m := New(Options{})
	of := func(instance, model string) diagnose.Target {
		l := map[string]string{"job": "vllm", "instance": instance}
		if model != "" {
			l["model_name"] = model
		}
		return diagnose.Target{Labels: l}
	}
	m.restoreModels([]diagnose.Target{of("a:1", "llama"), of("b:1", "qwen"), of("c:1", "one"), of("c:1", "two")})
	for range 3 {
		later := []diagnose.Target{of("a:1", "llama"), of("b:1", ""), of("c:1", ""), of("d:1", "")}
		m.restoreModels(later)
		for i, want := range []string{"llama", "qwen", "", ""} {
			if got := later[i].Labels["model_name"]; got != want {
				t.Errorf("%s: %q, want %q", later[i].Labels["instance"], got, want)
			}
		}
	}
}
