// Package servermetrics reads from an inference server's /metrics page what a
// load test lays beside its own measurements, and the workload that the server
// has seen. It judges nothing: that is the diagnosis' work.
package servermetrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/workload"
)

// Reader reads one server's page. It is used by one goroutine.
type Reader struct {
	client *scrape.Client
	target string
	last   *page
}

// New returns a Reader of a target's page.
func New(client *scrape.Client, target string) *Reader {
	return &Reader{client: client, target: target}
}

// page is what matters of one scrape.
type page struct {
	at      time.Time
	values  map[string]float64
	buckets map[string]map[float64]float64 // cumulative counts by upper bound
}

// how a metric's series of one page are put together.
type how uint8

const (
	sum how = iota
	highest
)

// taken are the metrics that are read, by their names on the page. Names are
// vLLM's (vllm/v1/metrics/loggers.py at 0.23, and the V0 engine's).
var taken = map[string]struct {
	key string
	how how
}{
	"vllm:num_requests_running":       {"running", sum},
	"vllm:num_requests_waiting":       {"waiting", sum},
	"vllm:kv_cache_usage_perc":        {"kv_cache_usage", highest},
	"vllm:gpu_cache_usage_perc":       {"kv_cache_usage", highest},
	"vllm:num_preemptions_total":      {"preemptions_total", sum},
	"vllm:prompt_tokens_total":        {"prompt_tokens_total", sum},
	"vllm:generation_tokens_total":    {"generation_tokens_total", sum},
	"vllm:prefix_cache_queries_total": {"prefix_queries_total", sum},
	"vllm:prefix_cache_hits_total":    {"prefix_hits_total", sum},
	"vllm:request_success_total":      {"requests_total", sum},
	"process_start_time_seconds":      {"start", highest},
	"DCGM_FI_DEV_GPU_UTIL":            {"gpu_percent", highest},
}

// histograms are those of the workload.
var histograms = []string{"vllm:request_prompt_tokens_bucket", "vllm:request_generation_tokens_bucket"}

func parse(body []byte, contentType string, at time.Time) (*page, error) {
	p := &page{at: at, values: map[string]float64{}, buckets: map[string]map[float64]float64{}}
	_, err := scrape.Parse(body, contentType, func(l labels.Labels, _ int64, v float64) {
		name := l.Get(labels.MetricName)
		if t, ok := taken[name]; ok && !math.IsNaN(v) {
			if t.how == highest {
				p.values[t.key] = max(p.values[t.key], v)
			} else {
				p.values[t.key] += v
			}
			return
		}
		if slices.Contains(histograms, name) {
			if le, err := strconv.ParseFloat(l.Get(labels.BucketLabel), 64); err == nil {
				if p.buckets[name] == nil {
					p.buckets[name] = map[float64]float64{}
				}
				p.buckets[name][le] += v
			}
		}
	})
	if len(p.values) == 0 && err == nil {
		err = errors.New("the page holds no metrics of an inference server")
	}
	return p, err
}

func (r *Reader) read(ctx context.Context) (*page, error) {
	b, err := r.client.Fetch(ctx, r.target)
	if err != nil {
		return nil, err
	}
	return parse(b.Raw, b.ContentType, b.At)
}

// Observe returns gauges as they are and counters as rates since the last call.
func (r *Reader) Observe(ctx context.Context) (map[string]float64, error) {
	p, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, k := range []string{"running", "waiting", "kv_cache_usage"} {
		if v, ok := p.values[k]; ok {
			out[k] = v
		}
	}
	if v, ok := p.values["gpu_percent"]; ok {
		out["gpu_utilization"] = v / 100
	}
	if q := r.last; q != nil {
		sec := p.at.Sub(q.at).Seconds()
		gain := func(key string) float64 { return max(p.values[key]-q.values[key], 0) }
		if sec > 0 {
			for key, name := range map[string]string{"preemptions_total": "preemption_rate", "generation_tokens_total": "server_output_tokens", "prompt_tokens_total": "server_prompt_tokens"} {
				if _, ok := p.values[key]; ok {
					out[name] = gain(key) / sec
				}
			}
		}
		if n := gain("prefix_queries_total"); n > 0 {
			out["prefix_cache_hit_ratio"] = min(gain("prefix_hits_total")/n, 1)
		}
	}
	r.last = p
	return out, nil
}

// Seen is the workload that a server has had.
type Seen struct {
	Spec     workload.Spec
	Rate     float64 // requests per second, 0 when it cannot be told
	Requests float64
}

// Workload reads the page twice, pause apart, and returns the lengths, the share
// of reusable prefixes and the rate that the server's histograms show. When too
// few requests ended in between, the lengths are those since its start.
func (r *Reader) Workload(ctx context.Context, pause time.Duration) (*Seen, error) {
	a, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	return between(a, b)
}

// Page is one scrape's raw body.
type Page struct {
	Raw []byte
	At  time.Time
}

// WorkloadBetween is Workload of two pages that were recorded.
func WorkloadBetween(first, last Page) (*Seen, error) {
	a, err := parse(first.Raw, "", first.At)
	if err != nil {
		return nil, fmt.Errorf("first page: %w", err)
	}
	b, err := parse(last.Raw, "", last.At)
	if err != nil {
		return nil, fmt.Errorf("last page: %w", err)
	}
	return between(a, b)
}

// minSeen is how many requests make a distribution.
const minSeen = 50

func between(a, b *page) (*Seen, error) {
	since := a
	gained := b.values["requests_total"] - a.values["requests_total"]
	if gained < minSeen {
		since = &page{values: map[string]float64{}} // the process' whole life
		gained = b.values["requests_total"]
		if start := b.values["start"]; start > 0 {
			since.at = time.Unix(0, int64(start*1e9))
		}
	}
	if gained < 1 {
		return nil, hint.With(errors.New("the server has answered no requests yet"), "give the lengths with --prompt-tokens and --output-tokens")
	}
	s := &Seen{Requests: gained}
	var err error
	if s.Spec.Prompt, err = lengths(since, b, histograms[0]); err != nil {
		return nil, err
	}
	if s.Spec.Output, err = lengths(since, b, histograms[1]); err != nil {
		return nil, err
	}
	if q := b.values["prefix_queries_total"] - since.values["prefix_queries_total"]; q > 0 {
		s.Spec.PrefixShare = min(max((b.values["prefix_hits_total"]-since.values["prefix_hits_total"])/q, 0), 1)
	}
	if sec := b.at.Sub(since.at).Seconds(); !since.at.IsZero() && sec > 0 {
		s.Rate = gained / sec
	}
	return s, nil
}

// lengths makes a distribution of what a histogram gained.
func lengths(a, b *page, name string) (workload.Lengths, error) {
	bounds := make([]float64, 0, len(b.buckets[name]))
	for le := range b.buckets[name] {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	var buckets []workload.Bucket
	below := 0.0
	for _, le := range bounds {
		if le <= 0 {
			continue
		}
		n := b.buckets[name][le] - a.buckets[name][le]
		buckets = append(buckets, workload.Bucket{UpperBound: le, Count: max(n-below, 0)})
		below = max(below, n)
	}
	l, err := workload.FromHistogram(buckets, 0)
	if err != nil {
		return l, fmt.Errorf("%s: %w", strings.TrimSuffix(name, "_bucket"), err)
	}
	return l, nil
}
