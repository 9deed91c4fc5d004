package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

func TestNeedsIsTheLongestOfWhatIsMissing(t *testing.T) {
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
		if got := tt.d.WatchNeeded(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A fault that goes on is not forgotten for a moment that looks healthy, nor does it
// hide a new one.
func TestAVerdictHasHysteresis(t *testing.T) {
	start := time.Unix(1_795_000_000, 0)
	at := func(second int, id string) *diagnose.Diagnosis {
		d := &diagnose.Diagnosis{At: start.Add(time.Duration(second) * time.Second), Verdict: diagnose.Verdict{ID: id, Confidence: 0.9}, Status: diagnose.OK}
		if id != diagnose.Healthy {
			d.Status = diagnose.Firing
		}
		return d
	}
	for _, test := range []struct {
		name    string
		interim []string // a second apart; "" is none
		final   *diagnose.Diagnosis
		want    string
		note    string
	}{
		{"a quiet moment", []string{"slow-decode", "slow-decode", "slow-decode", "healthy"}, at(4, "healthy"), "slow-decode", "too short to resolve it"},
		{"quiet for long", append([]string{"slow-decode", "slow-decode", "slow-decode"}, make([]string, 12)...), at(15, "healthy"), "healthy", "slow-decode was found from"},
		{"seen once", []string{"slow-decode", "healthy", "healthy"}, at(3, "healthy"), "healthy", ""},
		{"another fault", []string{"slow-decode", "slow-decode", "slow-decode"}, at(3, "engine-hung"), "engine-hung", ""},
		{"one that comes and goes", []string{"slow-decode", "healthy", "slow-decode", "healthy", "slow-decode"}, at(5, "healthy"), "slow-decode", "too short"},
	} {
		var h diagnose.Hysteresis
		for second, id := range test.interim {
			if id != "" {
				h.Observe(at(second, id))
			}
		}
		h.RestoreVerdict(test.final)
		if got := test.final.Verdict.ID; got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if notes := strings.Join(test.final.Notes, "; "); test.note == "" && notes != "" || !strings.Contains(notes, test.note) {
			t.Errorf("%s: notes %q, want %q", test.name, notes, test.note)
		}
	}
}
