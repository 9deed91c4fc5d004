package report

import (
	"bytes"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

func TestAChangeIsPrintedOnceItStays(t *testing.T) {
	var out bytes.Buffer
	c := NewChanges(&out, false, render.Options{})
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for _, id := range []string{"healthy", "healthy", "a", "healthy", "a", "a", "a", "b", "a", "b", "b", "healthy", "healthy"} {
		v := diagnose.Verdict{ID: id, Status: diagnose.OK, Summary: "so"}
		if id != "healthy" {
			v.Status, v.Severity, v.Since, v.Targets = diagnose.Firing, catalog.Page, at, []string{"x"}
		}
		if err := c.Observe(&diagnose.Diagnosis{At: at, Verdicts: []diagnose.Verdict{v}}); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Minute)
	}
	want := `2026-03-02 08:00:00 Healthy: so.
2026-03-02 08:04:00 a (page), x, since 08:05:00: so.
2026-03-02 08:09:00 b (page), x, since 08:10:00: so.
2026-03-02 08:11:00 Healthy: so.
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestWhatIsNotCertainIsToldOnceWithItsEnd: a moment of doubt among healthy ones, or of health among doubtful
// ones, is no line; the last state decides.
func TestWhatIsNotCertainIsToldOnceWithItsEnd(t *testing.T) {
	h, n := diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK, Summary: "so"}, diagnose.Verdict{ID: diagnose.NotCertain, Status: diagnose.Pending, Summary: "Not certain yet: 14 requests wait"}
	var out bytes.Buffer
	c := NewChanges(&out, false, render.Options{Color: true})
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for i, v := range []diagnose.Verdict{h, n, h, n, h, n, n, n, h, n, h, n, n, h, h, h} {
		if err := c.Observe(&diagnose.Diagnosis{At: at, Verdicts: []diagnose.Verdict{v}}); err != nil {
			t.Fatal(err)
		}
		if want := v.ID == diagnose.NotCertain || i >= 6 && i < 14; c.Uncertain() != want || c.Seen || !c.Known {
			t.Errorf("after %d diagnoses it is uncertain: %t, want %t", i+1, c.Uncertain(), want)
		}
		at = at.Add(time.Minute)
	}
	want := "2026-03-02 08:00:00 \x1b[1;32mHealthy\x1b[m: so.\n2026-03-02 08:05:00 \x1b[1;35mNot certain yet\x1b[m: 14 requests wait.\n2026-03-02 08:13:00 \x1b[1;32mHealthy\x1b[m: so.\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}
