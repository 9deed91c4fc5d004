package pathologies_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
)

// A timeline is a server that serves for some minutes, and what happens then: testdata/progress.yaml.
type timeline struct {
	Name, Lines   string
	Every         []time.Duration
	Before, After time.Duration
	Want, Never   string
}

// text returns the timeline as a history at a scrape interval.
func (sc *timeline) text(every time.Duration, blocks map[string]string) string {
	n, m, k := int(sc.Before/every), int(sc.After/every), int(time.Minute/every)
	lines := sc.Lines
	for name, block := range blocks {
		lines = strings.ReplaceAll(lines, "{"+name+"}\n", block)
	}
	r := strings.NewReplacer("{n}", fmt.Sprint(n), "{m}", fmt.Sprint(m), "{n-1}", fmt.Sprint(n-1), "{n-2}", fmt.Sprint(n-2), "{m-1}", fmt.Sprint(m-1), "{rest}", fmt.Sprint(n+m-1), "{rest-1}", fmt.Sprint(n+m-2), "{m-3}", fmt.Sprint(m-3), "{k}", fmt.Sprint(k), "{m-k-1}", fmt.Sprint(m-k-1),
		"{last}", fmt.Sprint(n+m-1), "{last-1}", fmt.Sprint(n+m-2), "{s}", fmt.Sprintf("%g", every.Seconds()))
	return sums(r.Replace(fmt.Sprintf("every %s for %s\nlike healthy\n%s", every, time.Duration(n+m)*every, lines)))
}

// TestProgress tells hangs and outages from what looks like them, at scrape intervals from a second to those of
// production.
func TestProgress(t *testing.T) {
	text, err := os.ReadFile("testdata/progress.yaml")
	must.Succeed(t, err)
	var file struct {
		Blocks    map[string]string
		Timelines []timeline
	}
	must.Succeed(t, yaml.Unmarshal(text, &file))
	if len(file.Timelines) == 0 {
		t.Fatal("no timelines")
	}
	for _, sc := range file.Timelines {
		for _, every := range sc.Every {
			t.Run(fmt.Sprint(sc.Name, "/", every), func(t *testing.T) {
				t.Parallel()
				text := sc.text(every, file.Blocks)
				c, err := history.Parse(os.DirFS("."), text)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				d := diagnoseSeries(t, c)
				if sc.Want != "" && sc.Want != d.Verdict.ID {
					t.Errorf("%s (%s), want %s", d.Verdict.ID, d.Verdict.Summary, sc.Want)
				}
				for _, f := range d.Findings {
					if sc.Never == f.Pathology.ID && f.Status == diagnose.Firing {
						t.Errorf("%s: %s", f.Pathology.ID, explain(d, f))
					}
					if t.Failed() && (sc.Want == f.Pathology.ID || f.Status >= diagnose.Pending) {
						t.Logf("%s %s: %s", f.Pathology.ID, f.Status, explain(d, f))
					}
				}
			})
		}
	}
}

// sums replaces products such as 1.4*15 by their value.
func sums(text string) string {
	words := strings.Fields(text)
	for _, w := range words {
		i := strings.LastIndexByte(w, '+')
		j := strings.IndexByte(w, 'x')
		if i < 0 || j < i || !strings.Contains(w[i:j], "*") {
			continue
		}
		var a, b float64
		if _, err := fmt.Sscanf(strings.Replace(w[i+1:j], "*", " ", 1), "%g %g", &a, &b); err == nil {
			text = strings.Replace(text, w[i+1:j], fmt.Sprintf("%g", a*b), 1)
		}
	}
	return text
}
