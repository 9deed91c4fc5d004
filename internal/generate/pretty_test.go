package generate

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// shape writes an expression with parentheses around every operation and none
// elsewhere: equal shapes mean the same.
func shape(t *testing.T, expr string) string {
	t.Helper()
	tree, err := indicator.Parse(expr)
	if err != nil {
		t.Fatalf("%v\n%s", err, expr)
	}
	return full(tree).String()
}

func full(e parser.Expr) parser.Expr {
	switch n := e.(type) {
	case *parser.ParenExpr:
		return full(n.Expr)
	case *parser.UnaryExpr:
		n.Expr = full(n.Expr)
		return &parser.ParenExpr{Expr: n}
	case *parser.BinaryExpr:
		n.LHS, n.RHS = full(n.LHS), full(n.RHS)
		return &parser.ParenExpr{Expr: n}
	case *parser.AggregateExpr:
		n.Expr = full(n.Expr)
	case *parser.Call:
		for i := range n.Args {
			n.Args[i] = full(n.Args[i])
		}
	}
	return e
}

func TestPrettyKeepsTheMeaning(t *testing.T) {
	for expr, want := range map[string]string{
		"((a) > 1) and ((b) > 2)":                                  "a > 1 and b > 2",
		"((a) and (b)) or ((c) unless (d))":                        "a and b or c unless d",
		"(a or b) and c":                                           "(a or b) and c",
		"a - (b - c)":                                              "a - (b - c)",
		"(a - b) - c":                                              "a - b - c",
		"a / (b * c)":                                              "a / (b * c)",
		"(a ^ b) ^ c":                                              "(a ^ b) ^ c",
		"a ^ (b ^ c)":                                              "a ^ (b ^ c)",
		"(-a) ^ 2":                                                 "(-a) ^ 2",
		"sum by (x) ((rate(a[5m])))":                               "sum by (x) (rate(a[5m]))",
		"(a > 1) > on (x) (2 * (b))":                               "a > 1 > on (x) 2 * b",
		"a and on (x) ((b) and on (x) (c))":                        "a and on (x) (b and on (x) c)",
		"(a) * on (x) group_left (y) ((b) + (c))":                  "a * on (x) group_left (y) (b + c)",
		"((max_over_time((a > 1)[5m:1m])))":                        "max_over_time((a > 1)[5m:1m])",
		"clamp_min(((a) / (b)), 1) ^ 0.4 * ((c))":                  "clamp_min(a / b, 1) ^ 0.4 * c",
		"(a) > bool (b == bool c)":                                 "a > bool (b == bool c)",
		"((histogram_quantile(0.9, (sum(a)))))":                    "histogram_quantile(0.9, sum(a))",
		"(a unless b) unless (c unless d)":                         "a unless b unless (c unless d)",
		"1 - (sum(a) / (sum(b) > 0))":                              "1 - sum(a) / (sum(b) > 0)",
		"(a > 0.5) and (b < (1 - 0.999) * 14.4)":                   "a > 0.5 and b < (1 - 0.999) * 14.4",
		"(vector(1)) or (label_replace((a),\"x\",\"\",\"\",\"\"))": "vector(1) or label_replace(a, \"x\", \"\", \"\", \"\")",
	} {
		got := prettifyPromQL(expr)
		if got != want {
			t.Errorf("%s becomes %s, want %s", expr, got, want)
		}
		if a, b := shape(t, expr), shape(t, got); a != b {
			t.Errorf("%s means %s, %s means %s", expr, a, got, b)
		}
	}
}

func FuzzPretty(f *testing.F) {
	f.Add("(a or b) and (c - (d - e)) ^ (-f)")
	f.Add("a > bool (b == bool on (x) group_left () c)")
	f.Add("-(a) ^ -(2)")
	f.Fuzz(func(t *testing.T, expr string) {
		if len(expr) > 500 {
			return
		}
		if _, err := indicator.Parse(expr); err != nil {
			return
		}
		if a, b := shape(t, expr), shape(t, prettifyPromQL(expr)); a != b {
			t.Errorf("%s means %s, and %s means %s", expr, a, prettifyPromQL(expr), b)
		}
	})
}
