package pathologies_test

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestRunbooksKeepTheStepsThatPeopleKnow lists what good guides to running
// vLLM tell people to look at and to do in these incidents, in key words that
// the page must hold in one paragraph or one item of a list.
func TestRunbooksKeepTheStepsThatPeopleKnow(t *testing.T) {
	for id, steps := range map[string][]string{
		"kv-cache-thrashing": {
			"preemptions climb", "usage swings 0.9 1", "TTFT P95 throughput falls", "usage above 0.95 10 evictions 3 s",
			"steady admitted load", "prompt lengths output limits concurrency", "controlled load test",
			"--max-num-seqs --max-num-batched-tokens trade-offs", "0.85 cache tokens per sequence",
			"--gpu-memory-utilization startup peak load headroom CUDA graphs communication buffers",
			"smaller quantized model --kv-cache-dtype", "replicas GPUs legitimate",
		},
		"prefill-starvation": {
			"5 s 50 ms 20 waiting", "long decodes keep the GPU", "--enable-chunked-prefill 2048", "--max-num-seqs 64 4096",
		},
		"gpu-underutilization": {
			"less than half batch below eight", "traffic is low", "--max-num-seqs", "KV cache few sequences fit",
		},
		"memory-leak": {
			"rises hours days", "complete normally killed memory", "success error timeout client disconnect free blocks", "run far longer abort",
		},
		"prefix-cache-misses": {
			"TTFT high prefix caching is on", "0.1", "system prompts diverse", "cache too small", "standardise system prompts",
			"group requests system prompt same replica", "larger KV cache",
		},
		"saturation": {
			"TTFT P95 queue time rise", "waiting stays above its normal", "load exceeds capacity", "prompts longer", "large prefills",
			"request rate prompt-length last healthy", "every replica comparable traffic", "queueing prefill decode",
			"admission control shed load", "scale out only relieves that bottleneck",
		},
		"slow-decode": {
			"ITL P95 P99 queue time close to normal", "generated tokens per second fall", "too many active sequences", "memory bandwidth",
			"clocks power temperature utilization hardware errors", "model vLLM configuration last healthy release",
			"representative load test --max-num-seqs --max-num-batched-tokens", "lower concurrency throughput queue",
			"communication tensor", "model kernel runtime", "attention matrix products communication idle gaps",
		},
		"slow-prefill":       {"TTFT high queue time low ITL stable", "prompt length computed tokens hit ratio"},
		"severe-degradation": {"TTFT queue time ITL all bad", "preemption recomputation", "infrastructure", "high high high shared deployment"},
		"http-errors": {
			"4xx 5xx rises", "timeouts client disconnects", "completion rate falls stays flat", "authentication quota", "gateway timeout",
			"malformed unsupported", "routing admission", "clients give up wait", "engine CUDA failures",
			"status codes timeout reasons upstream latency", "queue time TTFT", "logs vLLM GPU", "do not request_success_total",
		},
		"client-cancellations": {"status codes timeout reasons upstream latency", "queue time TTFT cancellations", "logs runtime hardware errors", "never request_success_total"},
		"workload-shift": {
			"arrivals prompt tokens per second output length TTFT queue time ITL running",
			"fewer requests shorter outputs longer prompts slower decode model configuration",
		},
	} {
		p := strings.ToLower(runbook(t, id))
		for _, step := range steps {
			if !held(p, strings.Fields(strings.ToLower(step))) {
				t.Errorf("%s: no paragraph with all of %q", id, step)
			}
		}
	}
}

func runbook(t *testing.T, id string) string {
	t.Helper()
	for _, p := range pathologies.All() {
		if p.ID == id {
			return p.Runbook
		}
	}
	t.Fatalf("no pathology %s", id)
	return ""
}

// held reports whether one paragraph, item or row has all words.
func held(page string, words []string) bool {
	var paragraph strings.Builder
	all := func() bool {
		for _, w := range words {
			if !strings.Contains(paragraph.String(), w) {
				return false
			}
		}
		return true
	}
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		begins := text == "" || strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "|") || len(text) > 2 && text[0] >= '0' && text[0] <= '9' && text[1] == '.'
		if begins && !strings.HasPrefix(text, "```") {
			if all() {
				return true
			}
			if text != "" || !strings.HasSuffix(strings.TrimSpace(paragraph.String()), ":") {
				paragraph.Reset() // code after a colon belongs to the text
			}
		}
		paragraph.WriteString(line)
	}
	return all()
}
