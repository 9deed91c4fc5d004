package cli

import (
	"encoding/csv"
	"fmt"
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
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// counters are a server's counters, by name and, where they have one, reason.
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

// since is what every counter gained.
func since(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range after {
		out[k] = v - before[k]
	}
	return out
}

// csvRows are the requests of a --csv file, by column.
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
// simulated vLLM counts tokens, looks prefixes up in its cache block by block and
// hears of clients that leave, as a real one does.
func TestBenchSendsWhatWasAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds of real time")
	}
	const tenants = `scenarios:
  - name: tenants
    concurrency: 8
    requests: 200
    workload:
      prompt: "200"
      output: "8"
      tenants:
        - {name: free, weight: 3}
        - {name: paid, weight: 1, prompt: "400"}
`
	const conversations = `scenarios:
  - name: conversations
    concurrency: 2
    requests: 80
    workload: {prompt: "160", output: "64", turns: "4"}
`
	const leaving = `scenarios:
  - name: leaving
    concurrency: 8
    requests: 300
    workload: {prompt: "64", output: "200", cancel_share: 0.33}
`
	dir := t.TempDir()
	scenario := func(name, text string) []string {
		file := filepath.Join(dir, name+".yaml")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		return []string{"--scenario", file}
	}
	near := func(t *testing.T, what string, got, want, within float64) {
		t.Helper()
		if math.IsNaN(got) || math.Abs(got-want) > within {
			t.Errorf("%s %.4g, want %.4g ± %.4g", what, got, want, within)
		}
	}
	hits := func(c map[string]float64) float64 {
		return c["vllm:prefix_cache_hits_total"] / c["vllm:prefix_cache_queries_total"]
	}
	for name, tt := range map[string]struct {
		args  []string
		check func(t *testing.T, c map[string]float64, res *load.Result, rows []map[string]string)
	}{
		"half of each prompt is its group's": {
			args: []string{"--concurrency", "4", "--requests", "200", "--prompt-tokens", "640", "--output-tokens", "8", "--prefix-share", "0.5", "--prefix-groups", "4"},
			check: func(t *testing.T, c map[string]float64, _ *load.Result, _ []map[string]string) {
				// Blocks of 16 tokens: up to one is lost to the border, and each group's
				// first prompts find nothing.
				near(t, "share of prompt tokens found in the cache", hits(c), 0.5, 0.04)
			},
		},
		"a system prompt that all begin with": {
			args: []string{"--concurrency", "4", "--requests", "200", "--prompt-tokens", "1280", "--output-tokens", "8", "--system-tokens", "960"},
			check: func(t *testing.T, c map[string]float64, _ *load.Result, _ []map[string]string) {
				near(t, "share of prompt tokens found in the cache", hits(c), 0.75, 0.04)
			},
		},
		"nothing is shared unless asked": {
			args: []string{"--concurrency", "4", "--requests", "100", "--prompt-tokens", "640", "--output-tokens", "8"},
			check: func(t *testing.T, c map[string]float64, _ *load.Result, _ []map[string]string) {
				near(t, "share of prompt tokens found in the cache", hits(c), 0, 0.03)
			},
		},
		"each turn repeats the conversation": {
			args: scenario("conversations", conversations),
			check: func(t *testing.T, c map[string]float64, _ *load.Result, rows []map[string]string) {
				byTurn := map[string][]float64{}
				for _, r := range rows {
					byTurn[r["turn"]] = append(byTurn[r["turn"]], number(r["prompt_tokens"]))
				}
				if len(byTurn) != 4 {
					t.Fatalf("turns %v", byTurn)
				}
				// A turn adds the question, the answer before it, and what the template
				// puts around both. The prompt before it is found in the cache; the answer
				// is not, because its text does not give the tokens again that it was
				// generated as.
				total, found := 0.0, 0.0
				first := mean(byTurn["0"])
				for k := range 4 {
					prompt := mean(byTurn[strconv.Itoa(k)])
					near(t, fmt.Sprintf("prompt of turn %d", k), prompt, first+float64(k)*(160+64), 16*float64(1+k))
					if total += prompt; k < 3 {
						found += prompt
					}
				}
				near(t, "share of prompt tokens found in the cache", hits(c), found/total, 0.04)
			},
		},
		"a third of the clients leave": {
			args: scenario("leaving", leaving),
			check: func(t *testing.T, c map[string]float64, res *load.Result, rows []map[string]string) {
				near(t, "share of clients that left", float64(res.Requests.Cancelled)/300, 0.33, 0.08)
				// Some answers end before the server, twenty times as fast as a real one,
				// hears that their client left.
				if ended := c["vllm:request_success_totallength"]; ended < float64(res.Requests.Complete) || ended > float64(res.Requests.Complete+res.Requests.Cancelled/2) {
					t.Errorf("the server ended %g requests by itself; %d were complete and %d left", ended, res.Requests.Complete, res.Requests.Cancelled)
				}
				received := 0.0
				for _, r := range rows {
					received += number(r["output_tokens"])
				}
				near(t, "tokens that the server generated", c["vllm:generation_tokens_total"], received, 0.15*received)
			},
		},
		"three free requests for a paid one": {
			args: scenario("tenants", tenants),
			check: func(t *testing.T, _ map[string]float64, res *load.Result, rows []map[string]string) {
				prompts := map[string][]float64{} // by what was asked for
				for _, r := range rows {
					prompts[r["prompt_asked"]] = append(prompts[r["prompt_asked"]], number(r["prompt_tokens"]))
				}
				near(t, "requests of the free tenant", float64(len(prompts["200"])), 150, 20)
				near(t, "prompt of the paid tenant", mean(prompts["400"]), 400, 8)
				near(t, "prompt of the free tenant", mean(prompts["200"]), 200, 8)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := makeBelieve(t, "--accelerate", "20")
			rows := filepath.Join(t.TempDir(), "requests.csv")
			before := counters(t, url)
			res := benchResult(t, append([]string{url, "--metrics", "none", "--csv", rows}, tt.args...)...)
			requests := csvRows(t, rows)
			c := since(before, counters(t, url))
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
			if res.Requests.Cancelled == 0 {
				near(t, "prompt tokens", prompt, c["vllm:prompt_tokens_total"], 0.02*c["vllm:prompt_tokens_total"])
				near(t, "output tokens", output, c["vllm:generation_tokens_total"], 0.02*c["vllm:generation_tokens_total"])
			}
			tt.check(t, c, res, requests)
			if strings.Contains(strings.Join(res.Notes, " "), "NaN") {
				t.Errorf("notes %q", res.Notes)
			}
		})
	}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x / float64(len(v))
	}
	return sum
}
