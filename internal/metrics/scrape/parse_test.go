package scrape

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/metricstest"
)

// parsed lists a page's samples as "series value@timestamp".
func parsed(t *testing.T, body, contentType string) ([]string, Info) {
	t.Helper()
	var got []string
	info, err := Parse([]byte(body), contentType, func(l labels.Labels, ts int64, v float64) {
		line := fmt.Sprintf("%s %v", l, v)
		if ts != 0 {
			line += fmt.Sprintf("@%d", ts)
		}
		got = append(got, line)
	})
	must.Succeed(t, err)
	if info.Samples != len(got) {
		t.Errorf("Info says %d samples, the callback saw %d", info.Samples, len(got))
	}
	return got, info
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		body, contentType string
		format            Format
		skipped           int
		refused           bool
		want              []string
	}{
		"the text format": {
			body:        "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 2.0\nb 3 1500\n",
			contentType: "text/plain; version=0.0.4; charset=utf-8",
			format:      Text,
			want:        []string{`{__name__="a_total", x="1"} 2`, `{__name__="b"} 3@1500`},
		},
		"OpenMetrics by its content type, exemplars ignored": {
			body:        "# TYPE a counter\na_total{x=\"1\"} 2.0 # {trace_id=\"abc\"} 1 1.5\na_created{x=\"1\"} 10\n# EOF\n",
			contentType: "application/openmetrics-text; version=1.0.0; charset=utf-8",
			format:      OpenMetrics,
			want:        []string{`{__name__="a_total", x="1"} 2`, `{__name__="a_created", x="1"} 10`},
		},
		"OpenMetrics by its last line": {
			body:   "# TYPE a unknown\na 1 1.5\n# EOF\n",
			format: OpenMetrics,
			want:   []string{`{__name__="a"} 1@1500`},
		},
		"a body without a line feed at its end": {
			body: "a 1\nb 2", format: Text,
			want: []string{`{__name__="a"} 1`, `{__name__="b"} 2`},
		},
		"NaN and infinities": {
			body: "a NaN\nb +Inf\nc -Inf\n", format: Text,
			want: []string{`{__name__="a"} NaN`, `{__name__="b"} +Inf`, `{__name__="c"} -Inf`},
		},
		"bounds of buckets are written one way": {
			body: "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\n", format: Text,
			want: []string{`{__name__="a_bucket", le="1.0"} 1`, `{__name__="a_bucket", le="+Inf"} 1`},
		},
		"bounds of buckets after a damaged line are written the same way": {
			body: "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"2\"\na_bucket{le=\"4\"} 1\n", format: Text,
			skipped: 1, refused: true,
			want: []string{`{__name__="a_bucket", le="1.0"} 1`, `{__name__="a_bucket", le="4.0"} 1`},
		},
		"a page pasted into prose": {
			body: "Metrics of version 2\n\n    # TYPE a_b gauge\n    a_b{x=\"y\"} 1\n\n    c_d 2   \n    ...\nVersion 2\n", format: Text,
			skipped: 3, refused: true,
			want: []string{`{__name__="a_b", x="y"} 1`, `{__name__="c_d"} 2`},
		},
		"line ends of Windows": {
			body: "# TYPE a_b gauge\r\na_b 1\r\nc_d 2\r\n", format: Text,
			refused: true,
			want:    []string{`{__name__="a_b"} 1`, `{__name__="c_d"} 2`},
		},
		"a page cut off in a line": {
			body: "a_b 1\nc_d{x=\"", format: Text,
			skipped: 1, refused: true,
			want: []string{`{__name__="a_b"} 1`},
		},
		"an OpenMetrics page cut off": {
			body:        "# TYPE a counter\na_total 1\na_tot",
			contentType: "application/openmetrics-text",
			format:      OpenMetrics,
			skipped:     1, refused: true,
			want: []string{`{__name__="a_total"} 1`},
		},
		"two pages glued together, the second after an EOF": {
			body:   "a_b 1\n# EOF\nc_d 2\n# EOF\n",
			format: OpenMetrics, refused: true,
			want: []string{`{__name__="a_b"} 1`, `{__name__="c_d"} 2`},
		},
		"a series that comes twice is passed on twice": {
			body: "a 1\na 2\n", format: Text,
			want: []string{`{__name__="a"} 1`, `{__name__="a"} 2`},
		},
		"names of Ray Serve and of other engines": {
			body: "ray_vllm:num_requests_running{ReplicaId=\"a\"} 1\nray_vllm_x 2\nsglang:y 3\n", format: Text,
			want: []string{`{ReplicaId="a", __name__="ray_vllm:num_requests_running"} 1`, `{__name__="ray_vllm_x"} 2`, `{__name__="sglang:y"} 3`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, info := parsed(t, tc.body, tc.contentType)
			must.Equal(t, tc.want, got)
			if info.Format != tc.format || info.Skipped != tc.skipped || (info.Refused != nil) != tc.refused {
				t.Errorf("format %s, skipped %d, refused %v; want %s, %d, %v", info.Format, info.Skipped, info.Refused, tc.format, tc.skipped, tc.refused)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ body, hint string }{
		"an empty page":           {"", "empty"},
		"an HTML page":            {"<!DOCTYPE html><html><body>hello</body></html>", "HTML"},
		"JSON":                    {`{"detail": "Not Found"}`, "JSON"},
		"prose":                   {"Hello there.\nNothing to see.\n", "text format"},
		"declarations, no values": {"# HELP a_b A.\n# TYPE a_b counter\n", "request"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.body), "", func(labels.Labels, int64, float64) {})
			if !errors.Is(err, ErrNotExposition) {
				t.Fatalf("error %v, want ErrNotExposition", err)
			}
			if !strings.Contains(hint.Of(err), tc.hint) {
				t.Errorf("hint %q does not speak of %q", hint.Of(err), tc.hint)
			}
		})
	}
}

func TestTypeOf(t *testing.T) {
	_, info := parsed(t, `# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total 1
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{le="+Inf"} 1
# TYPE pods_created gauge
pods_created 1
# TYPE rpc summary
rpc{quantile="0.5"} 1
`, "")
	for metric, want := range map[string]model.MetricType{
		"vllm:prompt_tokens_total":         model.MetricTypeCounter,
		"vllm:iteration_tokens_total_sum":  model.MetricTypeHistogram,
		"vllm:iteration_tokens_total":      model.MetricTypeHistogram,
		"pods_created":                     model.MetricTypeGauge,
		"rpc":                              model.MetricTypeSummary,
		"rpc_count":                        model.MetricTypeSummary,
		"nobody_declared_this_total":       model.MetricTypeUnknown,
		"vllm:iteration_tokens_total_what": model.MetricTypeUnknown,
	} {
		if got := info.TypeOf(metric); got != want {
			t.Errorf("TypeOf(%s) = %s, want %s", metric, got, want)
		}
	}
}

func TestParseLeavesTheBodyAlone(t *testing.T) {
	array := []byte("a 1\nb 2\nREST")
	if _, err := Parse(array[:8], "", func(labels.Labels, int64, float64) {}); err != nil {
		t.Fatal(err)
	}
	if got := string(array); got != "a 1\nb 2\nREST" {
		t.Errorf("the caller's array became %q", got)
	}
}

// FuzzParse checks that any bytes are parsed without a panic, and that the
// lenient pass gives nothing that the strict parser would not have given: what
// is kept must parse strictly.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a 1\n", "# TYPE a counter\na_total 1 # {x=\"y\"} 1\n# EOF\n", "a{b=\"c\\\"d\"} NaN 12\n", "prose\n  a_b 1\n", "{\"a.b\",c=\"d\"} 1\n",
		"a{b=\"x\ny\"} 1\n#\n", "# TYPE a histogram\na_bucket{le=\"1\"} 1\nbad{\na_bucket{le=\"2\"} 2\n", "\xff\x00", "# EOF", "a{le=\"1\",le=\"2\"} 1\n",
	} {
		f.Add([]byte(s), "")
	}
	f.Add([]byte("# TYPE a counter\na_total 1\na_created 2\n# EOF\n"), "application/openmetrics-text")
	f.Add(metricstest.Page(3), "text/plain")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		before := string(body)
		n := 0
		info, err := Parse(body, contentType, func(l labels.Labels, _ int64, _ float64) {
			n++
			if l.IsEmpty() {
				t.Error("a sample without labels")
			}
		})
		if string(body) != before {
			t.Error("the body was changed")
		}
		if lines := strings.Count(before, "\n") + 1; n > lines {
			t.Errorf("%d samples in %d lines: some came twice", n, lines)
		}
		if info.Samples != n {
			t.Errorf("%d samples were passed on, Info says %d", n, info.Samples)
		}
		if err == nil && n == 0 {
			t.Error("no sample and no error")
		}
		if lines := strings.Count(before, "\n") + 1; info.Skipped > lines {
			t.Errorf("%d of %d lines skipped", info.Skipped, lines)
		}
	})
}
