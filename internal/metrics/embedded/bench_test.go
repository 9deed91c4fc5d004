package embedded

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

func openStore(tb testing.TB, cfg Config) *Store {
	tb.Helper()
	s, err := Open(cfg)
	must.Succeed(tb, err)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// BenchmarkAppend is one page of one target, its series known.
func BenchmarkAppend(b *testing.B) {
	s := openStore(b, Config{})
	target := Target{Instance: "a", Job: "vllm"}
	pages := make([][]byte, 64)
	for i := range pages {
		pages[i] = metricstest.Page(1000 + i)
	}
	b.SetBytes(int64(len(pages[0])))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := s.Append(target, time.Unix(2000+int64(i), 0), pages[i%len(pages)], "text/plain", 0); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// twoEngines makes n pages of 570 samples, as of two data-parallel ranks.
func twoEngines(n int) [][]byte {
	pages := make([][]byte, n)
	for i := range pages {
		page := metricstest.Page(1000 + 7*i)
		pages[i] = append(page, bytes.ReplaceAll(page, []byte(`engine="0"`), []byte(`engine="1"`))...)
	}
	return pages
}

// BenchmarkFourMinutes is a recording of 240 pages, from an empty store on.
func BenchmarkFourMinutes(b *testing.B) {
	pages := twoEngines(240)
	b.ReportAllocs()
	for b.Loop() {
		s := openStore(b, Config{})
		for i, page := range pages {
			if _, err := s.Append(Target{Instance: "a"}, time.Unix(2000+int64(i), 0), page, "", 0); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkFleet is 20 pages of each of 100 targets, of which a part is asked for.
func BenchmarkFleet(b *testing.B) {
	pages := twoEngines(20)
	asked := indicator.Sum(indicator.Increase("", indicator.Like("__name__", "vllm:time_to_first_token_seconds_bucket|vllm:num_requests_.+")).In(10 * time.Second))
	for b.Loop() {
		s := openStore(b, Config{})
		for i, page := range pages {
			for t := range 100 {
				if _, err := s.Append(Target{Instance: fmt.Sprint(t)}, time.Unix(2000+int64(i), 0), page, "", 0); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := s.Evaluate(b.Context(), asked, time.Unix(2000+int64(i), 0)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkAskPart is a question about a part of 200 servers, over a window of another length each
// time, and of other servers each hundred times, as where some of them fell ill.
func BenchmarkAskPart(b *testing.B) {
	s := openStore(b, Config{})
	page := func(i int) time.Time { return time.Unix(2000+5*int64(i), 0) }
	for i, body := range twoEngines(30) {
		for t := range 200 {
			if _, err := s.Append(Target{Instance: fmt.Sprintf("10.0.0.%d:8000", t)}, page(i), body, "", 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, metric := range []string{"vllm:prompt_tokens_total", "vllm:time_to_first_token_seconds_bucket"} {
		b.Run(metric, func(b *testing.B) {
			b.ReportAllocs()
			i, part := 0, []string(nil)
			for b.Loop() {
				if i%100 == 0 {
					part = nil
					for t := range 100 {
						part = append(part, fmt.Sprintf(`10\.0\.0\.%d:8000`, t+i/100%100))
					}
				}
				i++
				window := time.Minute + time.Duration(i)*time.Millisecond
				expr := indicator.Sum(indicator.Increase(metric, indicator.Like("instance", strings.Join(part, "|"))).In(window)).By("instance", "le")
				if v, err := s.Evaluate(b.Context(), expr, page(29-i%2)); err != nil || len(v) == 0 {
					b.Fatal(v, err)
				}
			}
		})
	}
}

// BenchmarkLoad reads a real recording from its file into a store.
func BenchmarkLoad(b *testing.B) {
	files, err := filepath.Glob(filepath.Join(metricstest.Shared(b, "recordings"), "*.tar.zst"))
	if err != nil || len(files) == 0 {
		b.Skip("no recordings")
	}
	for _, path := range files {
		b.Run(filepath.Base(path), func(b *testing.B) {
			var n int
			for b.Loop() {
				rec, err := recording.Open(b.Context(), path)
				must.Succeed(b, err)
				s := openStore(b, Config{})
				must.Succeed(b, s.Load(b.Context(), rec, nil))
				n = rec.Len()
				rec.Close()
			}
			b.ReportMetric(float64(n), "pages")
		})
	}
}
