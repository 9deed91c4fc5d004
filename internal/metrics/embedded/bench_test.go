package embedded

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
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
