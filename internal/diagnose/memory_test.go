package diagnose_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// counted counts questions.
type counted struct {
	metrics.Querier
	asked atomic.Int64
}

func (c *counted) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	c.asked.Add(1)
	return c.Querier.Query(ctx, expr, at)
}

func (c *counted) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	c.asked.Add(1)
	return c.Querier.Evaluate(ctx, e, at)
}

// With a memory fewer questions are asked, and the answers are the same.
func TestMemory(t *testing.T) {
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const interval = 15 * time.Second
	began := time.Unix(1_800_000_000, 0).UTC()
	at := began
	tokens := 0
	scrape := func() {
		at = at.Add(interval)
		tokens += 3000
		for _, instance := range []string{"a:8000", "b:8000"} {
			page := strings.NewReplacer("N", fmt.Sprint(tokens), "R", fmt.Sprint(tokens/100)).Replace(`
vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} N
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} R
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} R
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} R
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} R
`)
			if _, err := store.Append(embedded.Target{Instance: instance}, at, []byte(page), "", 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 400 {
		scrape()
	}
	var memory diagnose.Memory
	q := &counted{Querier: store}
	run := func(m *diagnose.Memory) (diagnose.Diagnosis, int) {
		q.asked.Store(0)
		d, err := diagnose.Run(t.Context(), q, diagnose.Options{At: at, First: began, Interval: interval, Every: true, Memory: m})
		if err != nil {
			t.Fatal(err)
		}
		return d, int(q.asked.Load())
	}
	run(&memory)
	all, fewer := 0, 0
	for range 20 {
		scrape()
		without, n := run(nil)
		all += n
		with, n := run(&memory)
		fewer += n
		if diff := cmp.Diff(without.Verdict, with.Verdict, cmp.AllowUnexported(diagnose.Verdict{})); diff != "" {
			t.Fatalf("at %s, with a memory (-without +with):\n%s", at, diff)
		}
	}
	if fewer > all*3/4 {
		t.Errorf("%d questions with a memory, %d without: want a quarter fewer", fewer, all)
	}
}

// TestADeadServerIsKnown: one that died is known whenever the first look is, as soon as a
// minute later, and for as long as it is scraped in vain.
func TestADeadServerIsKnown(t *testing.T) {
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const interval = 15 * time.Second
	began := time.Unix(1_800_000_000, 0).UTC()
	const page = "vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 4\n"
	var memory diagnose.Memory
	looks := 0
	for i := range 5 * 60 * 2 {
		at := began.Add(time.Duration(i) * interval)
		for _, instance := range []string{"a:8000", "b:8000"} {
			target := embedded.Target{Instance: instance}
			if instance == "b:8000" && i >= 3 {
				err = store.AppendFailure(target, at)
			} else {
				_, err = store.Append(target, at, []byte(page), "", 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if i < 7 || i > 20 && i%20 > 0 {
			continue
		}
		// As a monitor looks, which was told of no server.
		pace, err := diagnose.ReadPace(t.Context(), store, nil, at)
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range map[string]*diagnose.Memory{"at first": {}, "again": &memory} {
			if name == "at first" && at.Sub(began) > 55*time.Minute {
				continue // nobody knows any more what was there
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: pace.First, Interval: pace.Interval, Memory: m, Pathologies: pathologies.All(), Annotate: func(ts []diagnose.Target) {
				for i := range ts {
					ts[i].Failure = map[string]string{"b:8000": "connection refused"}[ts[i].Labels["instance"]]
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(d.Verdict.Summary, "connection refused") {
				t.Fatalf("why it does not answer is not said: %s", d.Verdict.Summary)
			}
			if len(d.Targets) != 2 || d.Verdict.ID != "target-down" {
				t.Fatalf("%s, looked at %s: %d servers are known, want 2, and the verdict is %s", at.Sub(began), name, len(d.Targets), d.Verdict.ID)
			}
			looks++
		}
	}
	if looks < 50 {
		t.Fatalf("looked %d times", looks)
	}
}
