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
