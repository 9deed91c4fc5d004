package api

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// answering returns a client of a server that gives one answer.
func answering(b *testing.B, body string) *Client {
	b.Helper()
	s := httptest.NewServer(answer(200, body))
	b.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL})
	must.Succeed(b, err)
	b.Cleanup(c.Close)
	return c
}

// BenchmarkQuery reads answers about 1,000 replicas: a vector of the buckets of a histogram, and its samples over a while.
func BenchmarkQuery(b *testing.B) {
	series := func(value string) string {
		var all []string
		for i := range 22_000 {
			all = append(all, fmt.Sprintf(`{"metric":{"__name__":"vllm:time_to_first_token_seconds_bucket","cluster":"c1","namespace":"inference","job":"vllm-01","instance":"10.0.%d.%d:8000","model_name":"model-01","engine":"0","le":"%d"},%s}`, i/22/250, i/22%250, i%22, value))
		}
		return strings.Join(all, ",")
	}
	vector := answering(b, `{"status":"success","data":{"resultType":"vector","result":[`+series(`"value":[1700000000.5,"12345.25"]`)+`]}}`)
	matrix := answering(b, `{"status":"success","data":{"resultType":"matrix","result":[`+series(`"values":[[1700000000.5,"12345"],[1700000015.5,"12346"],[1700000030.5,"12347"]]`)+`]}}`)
	b.Run("vector", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if v, err := vector.Query(b.Context(), "up", at); err != nil || len(v) != 22_000 {
				b.Fatal(len(v), err)
			}
		}
	})
	b.Run("matrix", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if v, err := matrix.Samples(b.Context(), "up", at, time.Minute); err != nil || len(v) != 22_000 {
				b.Fatal(len(v), err)
			}
		}
	})
}
