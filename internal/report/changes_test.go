package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
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
		must.Succeed(t, c.Observe(&diagnose.Diagnosis{At: at, Verdicts: []diagnose.Verdict{v}}))
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
// ones, is no line but at the end, where it decides.
func TestWhatIsNotCertainIsToldOnceWithItsEnd(t *testing.T) {
	h := diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK, Summary: "so"}
	n := diagnose.Verdict{ID: diagnose.NotCertain, Status: diagnose.Pending, Summary: "Not certain yet: 14 requests wait"}
	const healthy, uncertain = "\x1b[1;32mHealthy\x1b[m: so.\n", "\x1b[1;35mNot certain yet\x1b[m: 14 requests wait.\n"
	for name, tt := range map[string]struct {
		verdicts  []diagnose.Verdict
		want      string
		uncertain bool
	}{
		"it ends well":           {[]diagnose.Verdict{h, n, h, n, h, n, n, n, h, n, h, n, n, h, h, h}, "08:00:00 " + healthy + "08:05:00 " + uncertain + "08:13:00 " + healthy, false},
		"it goes on":             {[]diagnose.Verdict{h, n, n, h}, "08:00:00 " + healthy + "08:01:00 " + uncertain, true},
		"it has just begun":      {[]diagnose.Verdict{h, h, n}, "08:00:00 " + healthy + "08:02:00 " + uncertain, true},
		"from the beginning on":  {[]diagnose.Verdict{n, n}, "08:00:00 " + uncertain, true},
		"a moment in the middle": {[]diagnose.Verdict{h, n, h}, "08:00:00 " + healthy, false},
	} {
		var out bytes.Buffer
		c := NewChanges(&out, false, render.Options{Color: true})
		for i, v := range tt.verdicts {
			at := time.Date(2026, 3, 2, 8, i, 0, 0, time.UTC)
			must.Succeed(t, c.Observe(&diagnose.Diagnosis{At: at, Verdicts: []diagnose.Verdict{v}}))
		}
		got, err := c.End()
		if text := strings.ReplaceAll(out.String(), "2026-03-02 ", ""); err != nil || got != tt.uncertain || text != tt.want || c.Seen || !c.Known {
			t.Errorf("%s: uncertain %t, error %v\n%qwant\n%q", name, got, err, text, tt.want)
		}
	}
}
