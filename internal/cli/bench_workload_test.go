package cli

import (
	"encoding/csv"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// counters returns a server's counters by name, followed by the finished_reason if they have one.
func counters(t *testing.T, url string) map[string]float64 {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	must.Succeed(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must.Succeed(t, err)
	out := map[string]float64{}
	if _, err := scrape.Parse(body, resp.Header.Get("Content-Type"), func(l labels.Labels, _ int64, v float64) {
		out[l.Get(labels.MetricName)+l.Get("finished_reason")] += v
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// increases returns by how much each counter grew.
func increases(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range after {
		out[k] = v - before[k]
	}
	return out
}

// csvRows returns the requests of a --csv file, each by column.
func csvRows(t *testing.T, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	must.Succeed(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	must.Succeed(t, err)
	var out []map[string]string
	for _, r := range rows[1:] {
		m := map[string]string{}
		for i, name := range rows[0] {
			m[name] = r[i]
		}
		out = append(out, m)
	}
	return out
}

func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

// TestBenchSendsWhatWasAsked compares workloads with what a server saw of them: a
// simulated vLLM counts tokens, looks prefixes up in its cache block by block, as a
// real one does.
func TestBenchSendsWhatWasAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds of real time")
	}
	near := func(t *testing.T, what string, got, want, within float64) {
		t.Helper()
		if math.IsNaN(got) || math.Abs(got-want) > within {
			t.Errorf("%s %.4g, want %.4g ± %.4g", what, got, want, within)
		}
	}
	for name, tt := range map[string]struct {
		args  []string
		share float64 // of the prompt tokens, found in the cache
	}{
		"half of each prompt is its group's": {
			args:  []string{"--concurrency", "4", "--requests", "200", "--prompt-tokens", "640", "--output-tokens", "8", "--prefix-share", "0.5", "--prefix-groups", "4"},
			share: 0.5, // blocks of 16 tokens: up to one is lost to the border, and each group's first prompts find nothing
		},
		"a system prompt that all begin with": {
			args:  []string{"--concurrency", "4", "--requests", "200", "--prompt-tokens", "1280", "--output-tokens", "8", "--system-tokens", "960"},
			share: 0.75,
		},
		"nothing is shared unless asked": {
			args: []string{"--concurrency", "4", "--requests", "100", "--prompt-tokens", "640", "--output-tokens", "8"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serveSimulated(t, "--accelerate", "20")
			rows := filepath.Join(t.TempDir(), "requests.csv")
			before := counters(t, url)
			res := benchResult(t, append([]string{url, "--metrics", "none", "--csv", rows}, tt.args...)...)
			requests := csvRows(t, rows)
			c := increases(before, counters(t, url))
			sent, prompt, output := 0.0, 0.0, 0.0
			for _, r := range requests {
				if r["outcome"] == "complete" {
					output += number(r["output_tokens"])
				}
				prompt += number(r["prompt_tokens"])
				sent++
			}
			if res.Requests.Failed > 0 || float64(res.Requests.Sent) != sent {
				t.Fatalf("requests %+v, %g lines", res.Requests, sent)
			}
			// The probe's requests came before the test's. Prompts are counted by the
			// client from usage, the server's own count.
			near(t, "prompt tokens", prompt, c["vllm:prompt_tokens_total"], 0.02*c["vllm:prompt_tokens_total"])
			near(t, "output tokens", output, c["vllm:generation_tokens_total"], 0.02*c["vllm:generation_tokens_total"])
			hits := c["vllm:prefix_cache_hits_total"] / c["vllm:prefix_cache_queries_total"]
			near(t, "share of prompt tokens found in the cache", hits, tt.share, 0.04)
			if strings.Contains(strings.Join(res.Notes, " "), "NaN") {
				t.Errorf("notes %q", res.Notes)
			}
		})
	}
}
