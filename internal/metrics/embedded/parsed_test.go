package embedded

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

// TestAnExpressionIsParsedOnce asks each kind of expression again and again, at several
// moments and at once: what the engine writes into a tree must not reach the next query.
func TestAnExpressionIsParsedOnce(t *testing.T) {
	s := openStore(t, Config{})
	for i := range 60 {
		if _, err := s.Append(Target{Instance: fmt.Sprint("i", i%2)}, time.Unix(2000+int64(i), 0), metricstest.Page(1000+7*i), "text/plain", 0); err != nil {
			t.Fatal(err)
		}
	}
	exprs := []string{
		`1 + 2`,
		`-(up)`,
		`{__name__=~"up|scrape_.+",instance!="x"}`,
		`sum by (instance) (rate({__name__=~"vllm:prompt_tokens_total|nothing"}[20s]))`,
		`max_over_time(sum(up)[20s:5s] offset 3s)`,
		`max_over_time(sum(up)[20s:5s] @ end())`,
		`up @ start() + on (instance) group_left () scrape_samples_scraped offset 2s`,
		`label_replace(up, "host", "$1", "instance", "(.)(.*)") and on (instance) up == bool 1`,
		`topk(1, scrape_samples_scraped) unless ignoring (job) vector(time())`,
		`quantile_over_time(0.5, scrape_samples_scraped[30s]) or absent(nothing)`,
	}
	several := ""
	for i := range 100 {
		several += fmt.Sprintf(`|127\\\\.0\\\\.0\\\\.1:%d`, i)
	}
	exprs = append(exprs,
		`rate(vllm:prompt_tokens_total{instance=~"i0`+several+`"}[20s]) / on (instance) up{instance=~"i1|i0`+several+`"}`,
		`label_replace(up, "host", "=~", "instance", "(.)(.*)") or up{instance=~"i0`+several+`",instance!~"i1`+several+`"}`,
	)
	var wait sync.WaitGroup
	for _, expr := range exprs {
		for i := range 20 {
			wait.Go(func() {
				at := time.Unix(2030+int64(i%3)*10, 0)
				got, err := s.Query(t.Context(), expr, at)
				if err != nil {
					t.Errorf("%s: %v", expr, err)
					return
				}
				plain := parser.NewParser(parser.Options{})
				tree, err := plain.ParseExpr(expr)
				if err != nil {
					t.Error(err)
					return
				}
				// Other words for the same question, which nobody asked before.
				want, err := s.Query(t.Context(), fmt.Sprintf("(%s) # %d", tree, i), at)
				if err != nil {
					t.Error(err)
					return
				}
				if len(got) == 0 && len(want) == 0 {
					t.Errorf("%s at %s: no answer", expr, at)
				}
				if a, b := byLabels(got), byLabels(want); !reflect.DeepEqual(a, b) {
					t.Errorf("%s at %s: %v, want %v", expr, at, a, b)
				}
			})
		}
	}
	wait.Wait()
}

// TestParticularsComeBack: what is taken out of an expression, so that another one is the same but
// for it, is in its tree again.
func TestParticularsComeBack(t *testing.T) {
	p := newParsed()
	names := strings.Repeat("vllm|", 10)
	for _, expr := range []string{
		`rate(vllm:prompt_tokens_total[1m2s5ms]) / rate(vllm:prompt_tokens_total[1h])`,
		`rate(vllm:prompt_tokens_total[1h]) / rate(vllm:prompt_tokens_total[1m2s5ms])`,
		`rate(vllm:prompt_tokens_total[1ms]) / rate(vllm:prompt_tokens_total[2ms])`,
		`max_over_time(rate(vllm:prompt_tokens_total[2ms])[1h:1ms])`,
		`rate(vllm:prompt_tokens_total{instance=~"` + names + `a",le="[5m]"}[5m]) + ` +
			`rate(vllm:prompt_tokens_total{instance=~"` + names + `b"}[3m] offset 2ms)`,
		`rate(vllm:prompt_tokens_total{le="a\\"}[5m])`,
		`rate(vllm:prompt_tokens_total{le="a\"[1m]"}[5m])`,
	} {
		for range 2 {
			tree, err := p.ParseExpr(expr)
			if err != nil || tree.String() != expr {
				t.Errorf("%v, %v, want %s", tree, err, expr)
			}
		}
	}
	short, _ := shorten(`rate(vllm:prompt_tokens_total{instance=~"` + names + `"}[5m])`)
	if other, _ := shorten(`rate(vllm:prompt_tokens_total{instance=~"` + names + `b"}[1m1ms])`); other != short {
		t.Errorf("%s and %s are not parsed once", short, other)
	}
}

func TestForgetExpressions(t *testing.T) {
	p := newParsed()
	for i := range 5 * mostParsed {
		for _, expr := range []string{"up", fmt.Sprint("up + ", i)} {
			tree, err := p.ParseExpr(expr)
			if err != nil || tree.String() != expr {
				t.Fatal(tree, err)
			}
		}
	}
	if n := len(p.now) + len(p.old); n > 2*mostParsed {
		t.Errorf("%d expressions are remembered", n)
	}
	if _, ok := p.recall("up"); !ok {
		t.Error("what is asked all the time was forgotten")
	}
	for i := range 5 * mostMatchers {
		expr := fmt.Sprintf(`up{instance=~"%0300d"}`, i)
		if tree, err := p.ParseExpr(expr); err != nil || tree.String() != expr {
			t.Fatal(tree, err)
		}
	}
	if n := len(p.matchers); n > mostMatchers {
		t.Errorf("%d matchers are remembered", n)
	}
	if _, err := p.ParseExpr(`up{instance=~"` + strings.Repeat("(", 300) + `"}`); err == nil {
		t.Error("no error")
	}
	for _, wrong := range []string{"up +", "rate(vllm:prompt_tokens_total[0s])", "rate(vllm:prompt_tokens_total[5x])"} {
		if _, err := p.ParseExpr(wrong); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
	if _, ok := p.recall("up +"); ok {
		t.Error("what does not parse is remembered")
	}
}

func byLabels(v model.Vector) map[string]float64 {
	out := map[string]float64{}
	for _, s := range v {
		out[s.Metric.String()] = float64(s.Value)
	}
	return out
}
