package source

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timed answers after the time that its map gives, or never.
type timed map[string]time.Duration

const never = time.Hour

func (f timed) Fetch(ctx context.Context, target string) (scrape.Body, error) {
	b := scrape.Body{At: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case <-ctx.Done():
		return b, ctx.Err()
	case <-time.After(f[target]):
		return b, nil
	}
}

func TestASlowServerDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := timed{"fast": 10 * time.Millisecond, "slow": 2500 * time.Millisecond, "hanging": never}
		targets := []Target{{URL: "fast"}, {URL: "slow"}, {URL: "hanging"}}
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		var mu sync.Mutex
		times, failures := make([][]time.Duration, 3), make([]int, 3)
		began := time.Now()
		runScrapes(ctx, f, targets, time.Second, func(p Scrape) {
			mu.Lock()
			defer mu.Unlock()
			times[p.Target] = append(times[p.Target], p.Body.At.Sub(began).Truncate(time.Second))
			if errors.Is(p.Err, context.DeadlineExceeded) {
				failures[p.Target]++
			}
		})
		if took := time.Since(began); took != 9500*time.Millisecond {
			t.Errorf("ran for %s", took)
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s}, times[0]); diff != "" {
			t.Errorf("fast server (-want +got):\n%s", diff)
		}
		if n := len(times[1]); n != 3 {
			t.Errorf("slow server was scraped %d times, want 3: never twice at once, and the last one was cut short", n)
		}
		if failures[2] != 1 || len(times[2]) != 1 {
			t.Errorf("hanging server: %d failures of %d, want the one that ended in time", failures[2], len(times[2]))
		}
	})
}

func TestTargets(t *testing.T) {
	got, err := Targets([]string{"vllm-0:8000", "http://user:pass@vllm-1:8000/metrics?key=1", "http://vllm-0:8000/metrics", "vllm-1:8000/other", "vllm-0:8000?key=1", "vllm-0:8000?key=2"})
	must.Succeed(t, err)
	want := []Target{
		{URL: "http://vllm-0:8000/metrics", Instance: "vllm-0:8000"},
		{URL: "http://user:pass@vllm-1:8000/metrics?key=1", Instance: "vllm-1:8000"},
		{URL: "http://vllm-1:8000/other", Instance: "vllm-1:8000/other"},
		{URL: "http://vllm-0:8000/metrics?key=1", Instance: "vllm-0:8000/metrics"},
		{URL: "http://vllm-0:8000/metrics?key=2", Instance: "vllm-0:8000/metrics#2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if name := got[1].Name(); name != "http://vllm-1:8000/metrics" {
		t.Errorf("name %q shows secrets", name)
	}
	if _, err := Targets([]string{"vllm-0:8000", "ftp://x"}); err == nil {
		t.Error("ftp was accepted")
	}
}
