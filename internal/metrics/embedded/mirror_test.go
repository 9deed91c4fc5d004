package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

// asked counts what a server is asked.
type asked struct {
	metrics.Querier
	questions, reads, samples atomic.Int64
}

func (q *asked) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	q.questions.Add(1)
	return q.Querier.Evaluate(ctx, e, at)
}

func (q *asked) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	m, err := q.Querier.Samples(ctx, selector, at, span)
	q.reads.Add(1)
	for _, s := range m {
		q.samples.Add(int64(len(s.Values)))
	}
	return m, err
}

// TestAMirrorAnswersAsTheServer plays targets that restart, fail, come and go, whose samples come
// late, and one whose samples of minutes come all at once, and asks both at one moment in fourteen. Halfway
// two of them come into the scope.
func TestAMirrorAnswersAsTheServer(t *testing.T) {
	s := openStore(t, Config{})
	server := &asked{Querier: s}
	job, few := labels.MustNewMatcher(labels.MatchEqual, "job", "vllm"), indicator.Like("instance", "a|cutoff")
	const span = 4 * time.Minute
	compiled := func(scope []*labels.Matcher) (exprs []indicator.Expr) {
		rw := indicator.Rewriting{Window: time.Minute + 751*time.Millisecond, Short: 10 * time.Second, Past: 3 * time.Minute, Instance: []string{"job", "instance"}, Model: []string{"model_name"}, Matchers: scope}
		for _, sig := range indicator.All() {
			for _, e := range []indicator.Expr{sig.Expr, sig.Buckets(), sig.Observations()} {
				if e != nil {
					exprs = append(exprs, rw.Compile(e, sig.Scope))
				}
			}
		}
		return exprs
	}
	scope := []*labels.Matcher{job, few}
	exprs := compiled(scope)
	type page struct {
		target Target
		at     time.Time
		body   []byte
	}
	var held []page // those that come late
	add := func(p page) {
		var err error
		if p.body == nil {
			err = s.AppendFailure(p.target, p.at)
		} else {
			_, err = s.Append(p.target, p.at, p.body, "", time.Millisecond)
		}
		must.Succeed(t, err)
	}
	var m Mirror
	rnd, served, began, compared := rand.New(rand.NewPCG(3, 4)), map[string]int{}, time.Unix(100_000, 0), int64(0)
	for step := range 240 {
		at := began.Add(time.Duration(step) * 5 * time.Second)
		for i, name := range []string{"a", "b", "late", "cutoff", "other"} {
			p := page{Target{Instance: name, Job: "vllm"}, at.Add(time.Duration(i) * 731 * time.Millisecond), nil}
			if name == "other" {
				p.target.Job = "others"
			}
			served[name] += rnd.IntN(30)
			switch {
			case name == "b" && step%80 > 60: // it is gone
				continue
			case rnd.IntN(90) == 0:
				served[name] = 0 // a restart
			}
			if rnd.IntN(40) > 0 {
				p.body = metricstest.Page(1 + served[name])
			}
			if name == "late" || name == "cutoff" {
				held = append(held, p)
			} else {
				add(p)
			}
		}
		held = slices.DeleteFunc(held, func(p page) bool {
			if p.target.Instance == "late" && at.Sub(p.at) < 40*time.Second || p.target.Instance == "cutoff" && step%100 > 40 {
				return false
			}
			add(p)
			return true
		})
		if step < 20 || step%14 != 13 {
			continue
		}
		if len(scope) > 1 && step > 120 {
			scope = []*labels.Matcher{job}
			exprs = compiled(scope)
		}
		moment := at.Add(4 * time.Second)
		words := indicator.Selector("", append([]*labels.Matcher{indicator.Like(labels.MetricName, "up|vllm:time_to_first_token_seconds_bucket|vllm:generation_tokens_total")}, scope...)...)
		q := m.Over(server, scope, moment, span, 5*time.Second)
		got, err := q.Samples(t.Context(), words, moment, span)
		must.Succeed(t, err)
		want, err := s.Samples(t.Context(), words, moment, span)
		must.Succeed(t, err)
		if a, b := texts(got), texts(want); !slices.Equal(a, b) {
			t.Fatalf("at step %d:\n%s\nwant\n%s", step, strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
		ranged := metrics.Range{Start: moment.Add(-span), End: moment, Step: 20 * time.Second}
		got, err = q.QueryRange(t.Context(), words, ranged)
		must.Succeed(t, err)
		want, err = s.QueryRange(t.Context(), words, ranged)
		must.Succeed(t, err)
		if a, b := texts(got), texts(want); !slices.Equal(a, b) {
			t.Fatalf("at step %d, in a range:\n%s\nwant\n%s", step, strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
		var all errgroup.Group
		all.SetLimit(metrics.AtOnce)
		for _, e := range exprs {
			for _, ago := range []time.Duration{0, 20 * time.Second} {
				compared++
				all.Go(func() error {
					got, err := q.Evaluate(t.Context(), e, moment.Add(-ago))
					want, failed := s.Query(t.Context(), e.String(), moment.Add(-ago))
					if fmt.Sprint(err) != fmt.Sprint(failed) {
						return fmt.Errorf("%s: %w, want %w", e, err, failed)
					}
					compare(t, e.String(), got, want)
					return nil
				})
			}
		}
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
	// What looks back for a quarter of an hour is left to the server here. Each sample of a minute is read again for one that may have come late.
	t.Logf("%d compared; the server was asked %d questions and read %d times, %d samples", compared, server.questions.Load(), server.reads.Load(), server.samples.Load())
	if left := server.questions.Load(); 12*left > compared {
		t.Errorf("%d of %d questions were left to the server", left, compared)
	}
}

// TestAMirrorLeavesTheRestToTheServer asks what is not in the scope, or reaches too far back.
func TestAMirrorLeavesTheRestToTheServer(t *testing.T) {
	s := openStore(t, Config{})
	at := time.Unix(100_000, 0)
	for i := range 20 {
		if _, err := s.Append(Target{Instance: "a", Job: "vllm"}, at.Add(time.Duration(i)*5*time.Second), metricstest.Page(1+i), "", 0); err != nil {
			t.Fatal(err)
		}
	}
	at = at.Add(100 * time.Second)
	server := &asked{Querier: s}
	scope := labels.MustNewMatcher(labels.MatchEqual, "job", "vllm")
	var m Mirror
	q := m.Over(server, []*labels.Matcher{scope}, at, time.Minute, 5*time.Second)
	for _, c := range []struct {
		of   string
		expr indicator.Expr
		left bool
	}{
		{"held", indicator.Highest("up", scope).In(time.Minute), false},
		{"not in the scope", indicator.Highest("up").In(time.Minute), true},
		{"too far back", indicator.Highest("up", scope).In(10 * time.Minute), true},
		{"an instant", indicator.Now("up", scope), false},
		{"no metric", indicator.Aggregate{Op: "group", Labels: []string{labels.MetricName}, Of: indicator.Last("", scope).In(time.Minute)}, true},
	} {
		before := server.questions.Load()
		if _, err := q.Evaluate(t.Context(), c.expr, at); err != nil {
			t.Errorf("%s: %v", c.of, err)
		}
		if left := server.questions.Load() > before; left != c.left {
			t.Errorf("%s: left to the server: %t, want %t", c.of, left, c.left)
		}
	}
}
