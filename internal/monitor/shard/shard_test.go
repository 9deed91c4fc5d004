package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/shard"
)

// A store answers every question with the series that it holds: who is up where that is asked, else the rest.
type store struct {
	metrics.Querier
	series []model.Metric
	asked  int
}

func (q *store) Evaluate(_ context.Context, e indicator.Expr, _ time.Time) (v model.Vector, _ error) {
	q.asked++
	for _, m := range q.series {
		if (m["__name__"] == "up") == strings.Contains(e.String(), `"up"`) {
			v = append(v, &model.Sample{Metric: m, Value: 1})
		}
	}
	return v, nil
}

func (q *store) Samples(context.Context, string, time.Time, time.Duration) (m model.Matrix, _ error) {
	for _, s := range q.series {
		m = append(m, &model.SampleStream{Metric: s})
	}
	return m, nil
}

func (q *store) add(name, cluster, job, instance, served string) {
	m := model.Metric{"__name__": model.LabelValue(name), "cluster": model.LabelValue(cluster),
		"job": model.LabelValue(job), "instance": model.LabelValue(instance)}
	if served != "" {
		m["model_name"] = model.LabelValue(served)
	}
	q.series = append(q.series, m)
}

const (
	engine = "vllm:num_requests_running"
	gpu    = "DCGM_FI_DEV_GPU_TEMP"
)

var at = time.Unix(1_795_000_000, 0)

const shards = 5

// seenBy returns, by cluster and address, the shards in which a server is.
func seenBy(t *testing.T, q *store) map[string][]int {
	t.Helper()
	out := map[string][]int{}
	for n := range shards {
		s, err := shard.Parse(fmt.Sprintf("%d/%d", n+1, shards))
		must.Succeed(t, err)
		part, err := s.Narrow(t.Context(), source.OfCollector("store", q), at)
		if err != nil {
			continue // it has no model
		}
		match := part.Matchers()[0]
		m, err := part.Samples(t.Context(), "", at, time.Minute)
		must.Succeed(t, err)
		for _, x := range m {
			key := string(x.Metric["cluster"] + " " + x.Metric["instance"])
			if match.Matches(string(x.Metric[model.LabelName(match.Name)])) && !slices.Contains(out[key], n) {
				out[key] = append(out[key], n)
			}
		}
	}
	return out
}

// TestReplicasOfAModelAreInOneShard: each server is in one shard, with all others of its model.
func TestReplicasOfAModelAreInOneShard(t *testing.T) {
	for name, job := range map[string]func(served int) string{
		"a job for each model": func(served int) string { return fmt.Sprint("vllm-", served) },
		"one job":              func(int) string { return "vllm" },
	} {
		t.Run(name, func(t *testing.T) {
			q := &store{}
			served := map[string]int{}
			for i := range 400 {
				// Of the two clusters both have these addresses.
				cluster, instance, m := fmt.Sprint("c", i%2), fmt.Sprintf("10.0.0.%d:8000", i/2), i%37
				served[cluster+" "+instance] = m
				q.add(engine, cluster, job(m), instance, fmt.Sprint("model-", m))
				q.add("up", cluster, job(m), instance, "")
			}
			of, used := map[int]int{}, map[int]bool{}
			for key, in := range seenBy(t, q) {
				m := served[key]
				if len(in) != 1 {
					t.Fatalf("%s is in the shards %v, want one", key, in)
				}
				if was, ok := of[m]; ok && was != in[0] {
					t.Errorf("model %d is in the shards %d and %d", m, was, in[0])
				}
				of[m], used[in[0]] = in[0], true
			}
			if len(of) != 37 || len(used) != shards {
				t.Errorf("%d models are in %d shards, want 37 in %d", len(of), len(used), shards)
			}
		})
	}
}

// TestWhatStandsBesideServersIsInTheirShard: gateways and GPU exporters, and servers without a model.
func TestWhatStandsBesideServersIsInTheirShard(t *testing.T) {
	q := &store{}
	const models = 12
	for m := range models {
		for r := range 2 {
			q.add(engine, "c", fmt.Sprint("vllm-", m), fmt.Sprintf("10.0.%d.%d:8000", m, r), fmt.Sprint("model-", m))
		}
		q.add("up", "c", fmt.Sprint("vllm-", m), fmt.Sprintf("10.0.%d.9:8000", m), "") // it never answered
		q.add(gpu, "c", "dcgm", fmt.Sprintf("10.0.%d.0:9400", m), "")
	}
	q.add(gpu, "c", "dcgm", "10.9.0.0:9400", "") // on no server's host
	q.add("sixty_gateway_upstream_up", "c", "gateway", "10.8.0.0:9000", "")
	q.series[len(q.series)-1]["upstream"] = "10.0.1.0:8000"
	q.add(engine, "c", "both", "10.0.7.7:8000", "model-2")
	q.add(engine, "c", "both", "10.0.7.7:8000", "model-3")
	in := seenBy(t, q)
	same := func(a, b string) {
		t.Helper()
		if len(in["c "+a]) != 1 || !slices.Equal(in["c "+a], in["c "+b]) {
			t.Errorf("%s is in the shards %v, %s in %v; want the same one", a, in["c "+a], b, in["c "+b])
		}
	}
	for m := range models {
		same(fmt.Sprintf("10.0.%d.0:8000", m), fmt.Sprintf("10.0.%d.9:8000", m))
		same(fmt.Sprintf("10.0.%d.0:8000", m), fmt.Sprintf("10.0.%d.0:9400", m))
	}
	same("10.0.1.0:8000", "10.8.0.0:9000")
	same("10.0.2.0:8000", "10.0.3.0:8000")
	same("10.0.2.0:8000", "10.0.7.7:8000")
	if len(in["c 10.9.0.0:9400"]) != 1 {
		t.Errorf("the exporter on no server's host is in the shards %v, want one", in["c 10.9.0.0:9400"])
	}
}

// TestTheStoreIsAskedOnceAMinute, and who left is remembered for an hour.
func TestTheStoreIsAskedOnceAMinute(t *testing.T) {
	q := &store{}
	q.add(engine, "", "old", "a:8000", "m")
	s := &shard.Shard{Part: 1, Of: 1}
	for _, step := range []struct {
		after time.Duration
		jobs  string
		asked int // who shows numbers, and who is up
	}{
		{0, "old", 2},
		{59 * time.Second, "old", 2},
		{60 * time.Second, "new|old", 4},
		{-time.Hour, "new", 6}, // a moment of the past is asked for by itself
		{60 * time.Minute, "new|old", 8},
		{61 * time.Minute, "new", 10},
	} {
		part, err := s.Narrow(t.Context(), source.OfCollector("store", q), at.Add(step.after))
		must.Succeed(t, err)
		if m := part.Matchers()[0]; m.Name != "job" || m.Value != step.jobs || q.asked != step.asked {
			t.Errorf("after %s: %s after %d questions, want job=~%q after %d", step.after, m, q.asked, step.jobs,
				step.asked)
		}
		q.series = nil
		q.add(engine, "", "new", "b:8000", "m")
	}
}

func TestParse(t *testing.T) {
	for _, wrong := range []string{"", "3", "0/2", "3/2", "a/2", "1/b", "1/0"} {
		if s, err := shard.Parse(wrong); err == nil {
			t.Errorf("%q is taken for %v", wrong, s)
		}
	}
}
