package cli

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

func TestALiveRunGoesOnForWhatIsMissing(t *testing.T) {
	fixes := func(needs ...time.Duration) []diagnose.Finding {
		f := []catalog.Fix{{Summary: "Look"}}
		for _, n := range needs {
			f = append(f, catalog.Fix{Predicted: &catalog.Prediction{Reason: "too few requests", Needs: n}})
		}
		return []diagnose.Finding{{Fixes: f}}
	}
	for _, tt := range []struct {
		name string
		d    diagnose.Diagnosis
		want time.Duration
	}{
		{"the longest of what is missing", diagnose.Diagnosis{Status: diagnose.Firing, Findings: fixes(3*time.Second, 8*time.Second, 0)}, 8 * time.Second},
		{"what time does not bring", diagnose.Diagnosis{Status: diagnose.Firing, Findings: fixes(0)}, 0},
		{"nothing fires", diagnose.Diagnosis{Status: diagnose.OK, Findings: fixes(3 * time.Second)}, 0},
		{"no diagnosis", diagnose.Diagnosis{}, 0},
	} {
		if got := needs(&tt.d); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
