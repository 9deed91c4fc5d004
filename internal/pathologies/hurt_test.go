package pathologies_test

import (
	"os"
	"slices"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/history"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/pathologies/unexplained"
)

// diagnoseText diagnoses a history that is written in the words of package history.
func diagnoseText(t *testing.T, text string) diagnose.Diagnosis {
	t.Helper()
	c, err := history.Parse(os.DirFS("."), text)
	if err != nil {
		t.Fatal(err)
	}
	return diagnoseSeries(t, c)
}

// finding is what was found of a pathology.
func finding(t *testing.T, d *diagnose.Diagnosis, id string) diagnose.Finding {
	t.Helper()
	i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology.ID == id })
	if i < 0 {
		t.Fatalf("no finding of %s", id)
	}
	return d.Findings[i]
}

// TestWhoseErrorsTheyAre: what clients do wrong wakes nobody, what the server fails does.
func TestWhoseErrorsTheyAre(t *testing.T) {
	const of = `rate http_requests_total{handler="/v1/chat/completions",method="POST",status=`
	for name, tt := range map[string]struct {
		lines string
		want  catalog.Severity
	}{
		"a client's ten mistakes":       {of + `"4xx"} 0x100,0.8`, catalog.Info},
		"a key that expired":            {of + `"4xx"} 0x60,1.5`, catalog.Ticket},
		"the server fails one in three": {of + `"5xx"} 0x60,1`, catalog.Page},
		"both":                          {of + `"5xx"} 0x60,1` + "\n" + of + `"4xx"} 0x60,1.5`, catalog.Page},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnoseText(t, "every 1s for 120s\nlike healthy\n\n"+tt.lines+"\n")
			if f := finding(t, &d, "http-errors"); f.Status != diagnose.Firing || f.Severity != tt.want {
				t.Errorf("%s, %s; want firing, %s\n%s", f.Status, f.Severity, tt.want, explain(d, f))
			}
		})
	}
}

// TestWhatMakesAnswersLateExplains: no cause is named beside users of whom it is said that
// none is known.
func TestWhatMakesAnswersLateExplains(t *testing.T) {
	for _, p := range pathologies.All() {
		if p.FollowsObjectives && p != unexplained.Pathology && !p.Inhibits(unexplained.Pathology) {
			t.Errorf("%s makes answers late and does not explain %s", p.ID, unexplained.Pathology.ID)
		}
	}
}
