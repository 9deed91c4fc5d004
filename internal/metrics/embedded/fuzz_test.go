package embedded

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

// FuzzAppend appends three pages made of arbitrary bytes at arbitrary times and
// checks that nothing panics, that errors leave a usable store, and that what
// was stored can be asked for.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("# TYPE a_total counter\na_total 1\na_created 0.5\n"), []byte("a_b 1\na_b 2\n"), int64(1000), int64(2000))
	f.Add([]byte("up 5\ninstance_{instance=\"a\",exported_instance=\"b\"} NaN\n"), []byte{}, int64(1), int64(1))
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum -1\nprocess_start_time_seconds 1e300\n"), []byte("{\"a b\"} 1\n"), int64(-5), int64(1<<62))
	f.Add(metricstest.Page(1), metricstest.Page(2), int64(2_000_000), int64(2_001_000))
	f.Fuzz(func(t *testing.T, one, two []byte, at, later int64) {
		s := openStore(t, Config{})
		s.maxSeries = 10_000
		for _, x := range []struct {
			body []byte
			at   int64
		}{{one, at}, {two, later}, {one, later + 1}} {
			when := time.UnixMilli(x.at)
			_, err := s.Append(vllm, when, x.body, "", time.Second)
			if st := s.targetState(vllm); err == nil && st.good && st.lastGood == x.at {
				v, err := s.Query(t.Context(), `sum(up)`, when)
				if err != nil || len(v) != 1 || v[0].Value != 1 {
					t.Errorf("up after a good page is %v, %v", v, err)
				}
			}
			if _, err := s.Query(t.Context(), `count({__name__=~".+"})`, time.Unix(5000, 0)); err != nil {
				t.Error(err)
			}
		}
		s.Warnings()
	})
}
