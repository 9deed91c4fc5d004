package indicator

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/base/must"
)

var update = flag.Bool("update", false, "rewrite testdata/promql.txt")

// TestPromQL compares the PromQL of every signal with that in testdata/promql.txt, where the
// first of it was written by hand: as syntax trees, for parentheses that change nothing.
func TestPromQL(t *testing.T) {
	var b strings.Builder
	for _, s := range All() {
		line := func(part, expr string) { fmt.Fprintf(&b, "%s%s\t%s\n", s.Name, part, expr) }
		line("", s.PromQL())
		for i, a := range s.Otherwise {
			line(fmt.Sprintf("/%d", i), s.Compile(a.Expr).String())
		}
		if e := s.Buckets(); e != nil {
			line("/buckets", s.Compile(e).String())
		}
		if s.Counted() {
			line("/guarded", s.Guarded())
		}
	}
	const path = "testdata/promql.txt"
	if *update {
		must.Succeed(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	must.Succeed(t, err)
	got, wanted := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	if len(got) != len(wanted) {
		t.Fatalf("%d lines, want %d: make generate, and read the difference of %s", len(got), len(wanted), path)
	}
	for i := range got[:len(got)-1] {
		name, expr, _ := strings.Cut(got[i], "\t")
		wantName, wantExpr, _ := strings.Cut(wanted[i], "\t")
		if name != wantName || tree(t, expr) != tree(t, wantExpr) {
			t.Errorf("%s is\n\t%s\nwant %s\n\t%s", name, expr, wantName, wantExpr)
		}
	}
}

// tree prints PromQL with parentheses around every operator, and no others.
func tree(t *testing.T, expr string) string {
	t.Helper()
	e, err := Parse(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var full func(parser.Expr) parser.Expr
	full = func(e parser.Expr) parser.Expr {
		switch n := e.(type) {
		case *parser.ParenExpr:
			return full(n.Expr)
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
	return full(e).String()
}

// TestExprPrintsAsPrometheusDoes parses what is printed, and prints it again.
func TestExprPrintsAsPrometheusDoes(t *testing.T) {
	for _, s := range All() {
		e, err := Parse(s.PromQL())
		must.Succeed(t, err)
		if e.String() != s.PromQL() {
			t.Errorf("%s is printed as\n%s\nand by Prometheus as\n%s", s.Name, s.PromQL(), e)
		}
	}
}
