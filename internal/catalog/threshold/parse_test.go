package threshold

import (
	"math"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestParse(t *testing.T) {
	limit := func(name string, u indicator.Unit) catalog.Cond {
		return catalog.Cond{Threshold: &catalog.Threshold{Name: name, Unit: u}, Signal: indicator.TTFTP95}
	}
	all := []*catalog.Pathology{
		{When: limit("ttft_objective", indicator.Seconds), Supports: []catalog.Cond{limit("kv_cache_full", indicator.Ratio)}},
		{When: limit("growth", indicator.BytesPerSecond)},
		{When: limit("queue", indicator.Requests)},
	}
	for _, tt := range []struct {
		text string
		want float64
		err  string // in the error and its way out
	}{
		{"ttft_objective=500ms", 0.5, ""},
		{"ttft_objective=0.5", 0.5, ""},
		{" ttft_objective = 2m ", 120, ""},
		{"kv_cache_full=95%", 0.95, ""},
		{"kv_cache_full=0.95", 0.95, ""},
		{"growth=2MiB/s", 2 << 20, ""},
		{"growth=1 MB", 1e6, ""},
		{"queue=5", 5, ""},
		{"kv_cache_full=95", 0, "not between 0 and 100 %"},
		{"kv_cache_full=500ms", 0, "write 5%"},
		{"ttft_objective=95%", 0, "500ms"},
		{"ttft_objective=-1s", 0, "is negative"},
		{"ttft_objective=NaN", 0, "not a number"},
		{"ttft_objective=", 0, "write 500ms"},
		{"queue=5s", 0, "a number of requests"},
		{"growth=GiB", 0, "not a number"},
		{"ttft_objectiv=1s", 0, "did you mean ttft_objective"},
		{"kv_seconds=1s", 0, "did you mean kv_cache_full?"},
		{"nothing=1s", 0, "one of growth, kv_cache_full"},
		{"queue", 0, "not name=value"},
	} {
		set, err := Parse([]string{tt.text}, all)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error()+" try: "+hint.Of(err), tt.err) {
				t.Errorf("%q: %v (try: %s), want %q", tt.text, err, hint.Of(err), tt.err)
			}
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSpace(tt.text), "=")
		if err != nil || math.Abs(set[strings.TrimSpace(name)]-tt.want) > 1e-12 || len(set) != 1 {
			t.Errorf("%q: %v, %v", tt.text, set, err)
		}
	}
}
