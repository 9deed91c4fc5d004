package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

// questions are what a monitor asks: every signal, its observations, and what discovery and
// histories read.
func questions(window time.Duration) []indicator.Expr {
	type E = indicator.Expr
	const n = indicator.Number(1)
	up, held := indicator.Now("up"), indicator.Now("vllm:num_requests_running")
	by := func(a indicator.Aggregate, names ...string) E { return a.By(names...) }
	then := up
	then.Offset = time.Minute
	exprs := []E{
		indicator.Aggregate{Op: "group", Labels: []string{"__name__", "instance", "model_name"}, Of: indicator.Last("",
			indicator.Like("__name__", "vllm:.+|up|process_.+"), labels.MustNewMatcher(labels.MatchNotRegexp, "__name__", ".+_bucket")).In(75 * time.Second)},
		indicator.Now("", indicator.Like("__name__", "vllm:num_requests_running|sglang:.+")),
		indicator.Where(by(indicator.Max(indicator.Highest("up").In(2*time.Minute)), "instance"), "==", indicator.Number(0)),
		indicator.Test(up, "==", n), indicator.Sub(n, up), by(indicator.Sum(up)), indicator.Avg(up).But("job"), indicator.Test(indicator.Number(3), ">", indicator.Number(2)), then,
		indicator.Where(indicator.Mul(indicator.Number(2), up), ">", n), indicator.Unless(by(indicator.Sum(up), "instance"), up), indicator.Where(indicator.Number(0), "<", up),
		indicator.Mul(by(indicator.Sum(up), "job"), up).On("job").Right(), indicator.Mul(up, indicator.Now("process_open_fds")).On("instance").Left(), indicator.Add(up, held),
		indicator.Mul(up, held).On("job"), indicator.Sub(up, held).Ignoring("model_name", "engine"), indicator.Where(up, ">=", held).Ignoring("model_name", "engine"),
		indicator.Add(indicator.Now("nothing"), up), indicator.Or(indicator.Now("up", indicator.Like("instance", "a|b")), up),
		indicator.Now("up", indicator.Unlike("instance", "a|b")), indicator.Now("up", indicator.Like("instance", "a|b"), indicator.Unlike("instance", "b|c")),
		indicator.Now("up", indicator.Like("instance", "a|b"), indicator.Like("instance", "b|c")), by(indicator.Avg(indicator.Now("vllm:kv_cache_usage_perc")), "model_name"),
		indicator.First("vllm:num_requests_running").In(3 * time.Minute), indicator.LastAbove("up").In(2 * time.Minute), indicator.BeforeGap("vllm:num_requests_running").In(4 * time.Minute),
		indicator.Floor(indicator.Mod(held, indicator.Number(2))), indicator.GaugeQuantile(0.9, "vllm:num_requests_running").In(window),
		indicator.Aggregate{Op: "count_values", Into: "n", Of: up},
	}
	for _, s := range indicator.All() {
		rw := indicator.Rewriting{Window: window, Short: 10 * time.Second, Past: 4 * time.Minute, Instance: []string{"job", "instance"}, Model: []string{"model_name"}}
		for _, e := range []indicator.Expr{s.Expr, s.Buckets(), s.Observations()} {
			if e != nil {
				exprs = append(exprs, rw.Compile(e, s.Scope))
			}
		}
	}
	return exprs
}

// TestTheStoreEvaluatesAsTheEngineDoes plays targets that restart, fail, hang, come late and come
// and go, and asks everything of both at one moment in seven.
func TestTheStoreEvaluatesAsTheEngineDoes(t *testing.T) {
	s := openStore(t, Config{})
	rnd := rand.New(rand.NewPCG(1, 2))
	asked := questions(64*time.Second + 751*time.Millisecond)
	selectors := []string{`{__name__=~"up|vllm:num_requests_running"}`, `{__name__=~"vllm:time_to_first_token_seconds_bucket|vllm:generation_tokens_total",instance=~"a|c"}`}
	began := time.Unix(100_000, 0)
	served := map[string]int{}
	quick, engine, paced := 0, 0, 0
	for step := range 240 {
		at := began.Add(time.Duration(step) * 5 * time.Second)
		for i, name := range []string{"a", "b", "c", "d"} {
			target, now := Target{Instance: name, Job: "vllm"}, at.Add(time.Duration(i)*731*time.Millisecond)
			switch {
			case name == "b" && step%50 > 40, name == "d" && (step < 60 || step > 170): // it is gone
				continue
			case name == "c" && step%37 > 33, rnd.IntN(40) == 0:
				must.Succeed(t, s.AppendFailure(target, now))
				continue
			case rnd.IntN(50) == 0:
				now = now.Add(-7 * time.Second) // late, and dropped
			case rnd.IntN(60) == 0:
				served[name] = 0 // a restart
			}
			served[name] += rnd.IntN(30)
			page := metricstest.Page(1 + served[name])
			if rnd.IntN(30) == 0 {
				page = bytes.ReplaceAll(page, []byte(`finished_reason="stop"`), fmt.Appendf(nil, `finished_reason="r%d"`, step))
			}
			if _, err := s.Append(target, now, page, "", time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if step%7 != 6 {
			continue
		}
		for _, ago := range []time.Duration{0, []time.Duration{20 * time.Second, 4 * time.Minute}[step%2]} {
			moment := at.Add(4*time.Second - ago)
			for _, e := range asked {
				expr := e.String()
				got, err := s.recent.evaluateExpr(t.Context(), e, moment.UnixMilli())
				if err == nil {
					quick++
				} else {
					engine++
				}
				q, failed := s.engine.NewInstantQuery(t.Context(), s.db, nil, expr, moment)
				want, failed := runQuery(t.Context(), expr, q, failed, copyVector)
				switch {
				case errors.Is(err, errEngine):
				case failed != nil:
					t.Errorf("%s at %s: the engine says %v", expr, moment, failed)
				default:
					compare(t, expr, got, want)
				}
			}
			for _, sel := range selectors {
				ms, err := promQL.ParseMetricSelector(sel)
				must.Succeed(t, err)
				const span = 2 * time.Minute
				for _, pace := range []time.Duration{0, 7 * time.Second} {
					got, err := s.recent.selectStreams(t.Context(), ms, span.Milliseconds(), moment.UnixMilli(), pace.Milliseconds())
					if err != nil {
						continue
					}
					expr := metrics.RangeSelector(sel, span)
					q, err := s.engine.NewInstantQuery(t.Context(), s.db, nil, expr, moment)
					if pace > 0 {
						expr = sel
						q, err = s.engine.NewRangeQuery(t.Context(), s.db, nil, expr, moment.Add(-span), moment, pace)
						paced++
					}
					want, err := runQuery(t.Context(), expr, q, err, copyMatrix)
					must.Succeed(t, err)
					if a, b := texts(got), texts(want); !slices.Equal(a, b) {
						t.Errorf("%s at %s, each %s:\n%s\nwant\n%s", sel, moment, pace, strings.Join(a, "\n"), strings.Join(b, "\n"))
					}
				}
			}
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
	t.Logf("%d evaluated, %d left to the engine", quick, engine)
	if paced == 0 || 100*engine > 15*quick {
		t.Errorf("%d questions were left to the engine, %d were not", engine, quick)
	}
}

func texts(m model.Matrix) (out []string) {
	for _, s := range m {
		out = append(out, s.String())
	}
	slices.Sort(out)
	return out
}

// compare compares answers; sums in another order may differ in the last digits.
func compare(t *testing.T, expr string, got, want model.Vector) {
	t.Helper()
	byLabels := map[string]float64{}
	for _, s := range got {
		byLabels[s.Metric.String()] = float64(s.Value)
	}
	if len(got) != len(want) || len(byLabels) != len(got) {
		t.Errorf("%s:\n%v\nwant\n%v", expr, got, want)
		return
	}
	for _, s := range want {
		v, ok := byLabels[s.Metric.String()]
		w := float64(s.Value)
		if !ok || math.IsNaN(v) != math.IsNaN(w) || math.Abs(v-w) > 1e-12*math.Abs(w) {
			t.Errorf("%s: %s is %v (%t), want %v", expr, s.Metric, v, ok, w)
		}
	}
}
