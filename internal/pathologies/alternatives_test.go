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

// withoutPage are alternatives that no case has a page for, each with where it is tested instead. None may be added: an
// alternative that nobody saw fire says nothing.
var withoutPage = map[string]string{
	"computed_prompt_tokens": "recordings of vLLM before 0.16, in TestVerdicts", "prefix_cache_hit_ratio": "pages of V0's engine, in package dialect",
	"gateway_picker_blind": "pages of llm-d 0.8, in package dialect", "gateway_picker_blind_now": "pages of llm-d 0.8, in package dialect",
	"met_busy_ranks": "recordings of two API servers, in TestVerdicts", "pool_start": "a job without a start that is known, in TestCases of start-stuck",
	"restarts": "recordings of two API servers, in TestVerdicts", "pd_decode_servers": "pairs before 0.16 are told by their transfers alone",
}

// TestEveryAlternativeFiresAndComesNear holds that a pathology that an alternative expression of a signal decides about
// fires with a page for which that expression is chosen, and is ruled out with another one. The pages are those of the
// pathology's cases, as they are or without the metric that the alternative does without.
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
						_ = c.Add("without " + family) // where it is there
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

// chooses reports whether the expression of a signal is e on a page of a case.
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
