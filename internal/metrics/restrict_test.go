package metrics_test

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/metrics"
)

var team = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "team", "a")}

func TestEverySelectorIsRestricted(t *testing.T) {
	for expr, want := range map[string]string{
		`up`:                          `up{team="a"}`,
		`up{team="b"}`:                `up{team="a",team="b"}`,
		`{__name__=~".+"}`:            `{__name__=~".+",team="a"}`,
		`a / on(x) sum(rate(b[5m:]))`: `a{team="a"} / on (x) sum(rate(b{team="a"}[5m:]))`,
		`absent(up offset 5m) or max_over_time(rate(x[1m] @ end())[5m:1m])`: `absent(up{team="a"} offset 5m) or max_over_time(rate(x{team="a"}[1m] @ end())[5m:1m])`,
		`label_replace(up, "team", "a", "", "")`:                            `label_replace(up{team="a"}, "team", "a", "", "")`,
		`{"a.b", x="1"}`:                                                    `{__name__="a.b",team="a",x="1"}`,
		`1`:                                                                 `1`,
	} {
		got, err := metrics.RestrictExpr(expr, team)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", expr, got, err, want)
		}
	}
	for _, expr := range []string{"", "up{", `info(up)`, "\xff"} { // info reads series that no selector names
		if got, err := metrics.RestrictExpr(expr, team); err == nil {
			t.Errorf("%q was taken: %s", expr, got)
		}
	}
}

func FuzzRestrictExpr(f *testing.F) {
	for _, s := range []string{`up`, `a{b="c"} + sum by (x) (rate(d[5m:1m] offset 1h))`, `{"a.b"} @ 3`, `-{__name__!=""}`} {
		f.Add(s)
	}
	p := parser.NewParser(parser.Options{})
	f.Fuzz(func(t *testing.T, expr string) {
		out, err := metrics.RestrictExpr(expr, team)
		if err != nil {
			return
		}
		e, err := p.ParseExpr(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", expr, out, err)
		}
		for _, set := range parser.ExtractSelectors(e) {
			found := false
			for _, m := range set {
				found = found || m.Name == "team" && m.Type == labels.MatchEqual && m.Value == "a"
			}
			if !found {
				t.Fatalf("%q became %q, which selects others' series", expr, out)
			}
		}
	})
}
