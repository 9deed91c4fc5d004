package burnrate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// inlined puts the expressions of recorded series where they are read, so that
// one query asks what a rule would record in its first evaluation.
func inlined(r Rules, slo, record string) string {
	exprs := map[string]string{}
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Record != "" && rule.Labels["slo"] == slo {
				exprs[rule.Record] = rule.Expr
			}
		}
	}
	expr := exprs[record]
	for name, e := range exprs {
		expr = strings.ReplaceAll(expr, name+`{slo="`+slo+`"}`, "("+e+")")
	}
	for name, e := range exprs { // one rule reads another that reads a third
		expr = strings.ReplaceAll(expr, name+`{slo="`+slo+`"}`, "("+e+")")
	}
	return expr
}

// TestRealServersHaveWhatIsCounted asks recordings of real servers for the
// series that the rules read: their names, edges, handlers and classes of status.
func TestRealServersHaveWhatIsCounted(t *testing.T) {
	const quiet, some, most = 0.02, 0.02, 0.3 // shares of bad events; the rate still holds what was before
	type share struct{ atLeast, atMost float64 }
	good, broken, free := share{0, quiet}, share{some, 1}, share{0, 1}
	for name, want := range map[string]map[slo.Quantity]share{
		"full-but-quiet":            {slo.TTFT: free, slo.ITL: free, slo.E2E: free, slo.Succeeded: good},
		"thrashing-deep":            {slo.TTFT: {most, 1}, slo.ITL: free, slo.E2E: free, slo.Succeeded: good},
		"thrashing-deep-v0.32":      {slo.TTFT: {most, 1}, slo.ITL: free, slo.E2E: free, slo.Succeeded: good},
		"http-errors-5xx":           {slo.TTFT: free, slo.Succeeded: broken},
		"http-errors":               {slo.TTFT: free, slo.Succeeded: good},
		"replica-imbalance":         {slo.TTFT: free, slo.Succeeded: good},
		"two-api-servers-thrashing": {slo.TTFT: {most, 1}, slo.Succeeded: good},
	} {
		t.Run(name, func(t *testing.T) {
			store, _, last := embeddedtest.Open(t, filepath.Join("..", "..", "..", "testdata", "recordings", name+".tar.zst"), nil)
			r, err := Groups(Config{Objectives: []slo.Objective{chat(t)}})
			must.Succeed(t, err)
			for _, family := range families {
				answer, err := store.Query(t.Context(), "group by (instance, le) (last_over_time("+family+"_bucket[1h]))", last)
				must.Succeed(t, err)
				if diff := cmp.Diff(vllm.Bounds(family, ""), EdgesOf(answer)); diff != "" {
					t.Errorf("edges of %s -usual +recorded:\n%s", family, diff)
				}
			}
			for q, want := range want {
				id := identifierOf(slo.Objective{}, slo.Promise{Quantity: q, Share: 0.95})
				value := func(record string) float64 {
					v, err := store.Query(t.Context(), inlined(r, id, record), last)
					if err != nil {
						t.Fatalf("%s of %s: %v", record, q, err)
					}
					if len(v) != 1 {
						t.Fatalf("%s of %s: %v", record, q, v)
					}
					if v[0].Metric["model_name"] == "" {
						t.Errorf("%s of %s has no model: %v", record, q, v[0].Metric)
					}
					return float64(v[0].Value)
				}
				events, bad := value(Events), value(BadEvents)
				t.Logf("%s: %.3g events/s, %.3g bad", q, events, bad)
				if ratio := bad / events; !(events > 0) || ratio < want.atLeast || ratio > want.atMost {
					t.Errorf("%s: %g of %g events are bad, want a share from %g to %g", q, bad, events, want.atLeast, want.atMost)
				}
			}
		})
	}
}
