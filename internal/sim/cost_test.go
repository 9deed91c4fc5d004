package sim

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

func TestParseStepCost(t *testing.T) {
	c, err := ParseStepCost("base=8ms, per-token=50us,per-kv=70ns,per-pair=2e-10,knee=256")
	if err != nil || c.Base != 8e-3 || c.PerToken != 50e-6 || c.PerPair != 2e-10 || c.Knee != 256 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "base", "base=fast", "base=0", "base=8ms,knee=x", "base=NaN", "tokens=1ms"} {
		if _, err := ParseStepCost(bad); err == nil || hint.Of(err) == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
