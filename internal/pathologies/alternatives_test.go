package pathologies_test

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// withoutPage are the signals with an alternative that no case's page needs, and where it is tested instead. Add none:
// an alternative that never fired in a test proves nothing.
var withoutPage = map[string]string{
	"computed_prompt_tokens": "recordings of vLLM before 0.16, in TestVerdicts", "prefix_cache_hit_ratio": "pages of V0's engine, in package dialect",
	"gateway_picker_blind": "pages of llm-d 0.8, in package dialect", "gateway_picker_blind_now": "pages of llm-d 0.8, in package dialect",
	"met_busy_ranks": "recordings of two API servers, in TestVerdicts", "pool_start": "a job without a start that is known, in TestCases of start-stuck",
	"restarts": "recordings of two API servers, in TestVerdicts", "pd_decode_servers": "pairs before 0.16 are told by their transfers alone",
}

// TestEveryAlternativeFiresAndComesNear takes each alternative expression of a signal of a condition. On one page for
// which the expression is chosen the pathology must fire, and on another one it must be ruled out. The pages are those
// of the pathology's cases, with or without the metric that the alternative replaces.
func TestEveryAlternativeFiresAndComesNear(t *testing.T) {
	if testing.Short() {
		t.Skip("some hundred diagnoses")
	}
	type alternative struct {
		signal *indicator.Signal
		index  int
	}
	deciding := map[alternative][]*catalog.Pathology{}
	for _, p := range pathologies.All() {
		p.When.Signals(func(s *indicator.Signal) {
			for i := range s.Otherwise {
				deciding[alternative{s, i}] = append(deciding[alternative{s, i}], p)
			}
		})
	}
	for a, ps := range deciding {
		for kind, want := range map[string]diagnose.Status{"fires": diagnose.Firing, "nearmiss": diagnose.OK} {
			otherwise := a.signal.Otherwise[a.index]
			t.Run(a.signal.Name+" without "+otherwise.Without+" "+kind, func(t *testing.T) {
				t.Parallel()
				for _, p := range ps {
					dir := strings.ReplaceAll(p.ID, "-", "") + "/testdata"
					for _, name := range casesOf(t, dir, kind) {
						c := openCase(t, dir, name, p)
						family := strings.TrimSuffix(strings.TrimSuffix(otherwise.Without, "_count"), "_sum")
						_ = c.Add("without " + family) // fails if the page lacks it already
						if !chooses(c, a.signal, otherwise.Expr) {
							continue
						}
						d := diagnoseSeries(t, c)
						for _, f := range d.Findings {
							if f.Pathology == p && f.Status == want {
								return
							}
						}
					}
				}
				if withoutPage[a.signal.Name] == "" {
					t.Errorf("no such page with %q", otherwise.With)
				}
			})
		}
	}
}

// chooses reports whether a page of the case makes e the signal's expression.
func chooses(c *history.Case, s *indicator.Signal, e indicator.Expr) bool {
	for _, page := range c.Series() {
		var names []string
		for _, series := range page {
			names = append(names, series.Labels.Get(labels.MetricName))
		}
		d, known := dialect.Detect(names)
		if known && d.Derives(s) && s.Compile(d.Expr(s)).String() == s.Compile(e).String() && len(d.Missing(s)) == 0 {
			return true
		}
	}
	return false
}
