package audit

import (
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/hint"
)

// meant says what a name that no release has may stand for: another name, which is
// certain where only a counter's suffix is missing or too much, or else words.
func (p *pass) meant(name string) (better string, certain bool, words string) {
	canonical, prefix := vllm.Canonical(name)
	under := func(n string) string {
		if to := prefix + strings.TrimPrefix(n, engine.Canonical); prefix != "vllm_" || p.surface.Exposes(to) {
			return to
		}
		return n
	}
	for _, candidate := range []string{
		canonical + "_total", strings.TrimSuffix(canonical, "_total"),
		canonical + "_seconds", strings.TrimSuffix(canonical, "_bucket") + "_seconds_bucket",
	} {
		class, f := classOf(candidate)
		if class != unknownClass && class != bareHistogram && f.Engine != "" && f.Replacement == "" && f.Instead == "" {
			return under(candidate), p.surface.Exposes(under(candidate)) || !p.surface.Live, ""
		}
	}
	if words := measuredElsewhere(canonical); words != "" {
		return "", false, words
	}
	if n, _ := likest(canonical); n != "" {
		return under(n), false, ""
	}
	best, least := "", min(len(canonical)/4, 4)+1
	for _, c := range candidates() {
		suffixes := []string{""}
		if c.family.Type == engine.Histogram {
			suffixes = engine.HistogramSuffixes
		}
		for _, suffix := range suffixes {
			if d := hint.Distance(canonical, c.family.Name+suffix, least); d < least {
				best, least = under(c.family.Name+suffix), d
			}
		}
	}
	return best, false, ""
}

// A candidate is a family that vLLM's newest release exposes, with its name's words.
type candidate struct {
	family engine.Family
	words  []string
}

var candidates = sync.OnceValue(func() []candidate {
	var out []candidate
	for _, f := range dialect.Families() {
		if f.Engine == vllm.ID && !f.Gone() {
			out = append(out, candidate{f, wordsOf(f.Name)})
		}
	}
	return out
})

// measuredElsewhere says where a quantity is found that people look for among an
// engine's metrics, by the words of the name; "" where it is none of these.
func measuredElsewhere(canonical string) string {
	words := wordsOf(canonical)
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(w string) bool { return slices.Contains(words, w) })
	}
	switch {
	case has("failure", "error", "failed", "fail", "timeout") && !has("transfer", "nixl", "load", "store"):
		return `no engine counts failures: take HTTP statuses, http_requests_total{status=~"4xx|5xx"}, or the gateway's`
	case has("gpu") && has("memory") && !has("cache", "kv"):
		return "NVIDIA's dcgm-exporter measures GPUs: DCGM_FI_DEV_FB_USED and DCGM_FI_DEV_FB_FREE"
	case has("gpu") && has("temperature"):
		return "NVIDIA's dcgm-exporter measures GPUs: DCGM_FI_DEV_GPU_TEMP"
	case has("gpu") && has("usage") && !has("cache", "kv"):
		return "NVIDIA's dcgm-exporter measures GPUs: DCGM_FI_DEV_GPU_UTIL"
	case has("hit") && has("cache") && (strings.HasSuffix(canonical, "rate") || strings.HasSuffix(canonical, "ratio") ||
		strings.Contains(canonical, "rate_")):
		return "divide counters: rate(vllm:prefix_cache_hits_total[5m]) / rate(vllm:prefix_cache_queries_total[5m])"
	case has("miss", "misses") && has("cache"):
		return "misses are queries less hits: vllm:prefix_cache_queries_total - vllm:prefix_cache_hits_total"
	case slices.Equal(words, []string{"request"}):
		return "vllm:request_success_total counts the requests that finished, http_requests_total all of them by status"
	}
	return ""
}

// likest returns the name whose words are most like those of another, and its family;
// "" where none are. A histogram comes back with the suffix that was asked for.
func likest(canonical string) (string, engine.Family) {
	asked := ""
	for _, s := range engine.HistogramSuffixes {
		if strings.HasSuffix(canonical, s) {
			asked = s
		}
	}
	words := wordsOf(strings.TrimSuffix(canonical, asked))
	const enough = 0.6
	var best engine.Family
	most := enough
	for _, c := range candidates() {
		score := alike(words, c.words)
		switch {
		case score < most || asked == "_bucket" && c.family.Type != engine.Histogram:
		case score > most || best.Name == "" || engine.Release(c.family.Since).Compare(engine.Release(best.Since)) < 0:
			best, most = c.family, score
		}
	}
	if best.Type == engine.Histogram {
		return best.Name + asked, best
	}
	return best.Name, best
}

// alike is the share of words that two names have in common.
func alike(a, b []string) float64 {
	common := 0
	for _, w := range a {
		if slices.Contains(b, w) {
			common++
		}
	}
	if all := len(a) + len(b) - common; all > 0 {
		return float64(common) / float64(all)
	}
	return 0
}

// meanings are words that stand for others in the names of metrics; those that say
// nothing of the quantity stand for none.
var meanings = map[string][]string{
	"ttft": {"first", "token", "latency"}, "itl": {"inter", "token", "latency"}, "tbt": {"inter", "token", "latency"},
	"tpot": {"request", "token", "generation", "latency"}, "e2e": {"request", "latency"},
	"time": {"latency"}, "duration": {"latency"}, "seconds": {"latency"}, "ms": {"latency"},
	"milliseconds": {"latency"},
	"queue":        {"request", "waiting"}, "queued": {"request", "waiting"}, "pending": {"request", "waiting"},
	"wait":   {"waiting"},
	"active": {"running"}, "inflight": {"running"}, "processing": {"running"}, "requests": {"request"},
	"generated": {"generation"}, "completion": {"generation"}, "output": {"generation"}, "decoded": {"generation"},
	"input": {"prompt"}, "tokens": {"token"},
	"completed": {"success"}, "succeeded": {"success"}, "finished": {"success"}, "successful": {"success"},
	"hits": {"hit"}, "queries": {"query"}, "preemptions": {"preemption"}, "errors": {"error"}, "failures": {"failure"},
	"timeouts": {"timeout"},
	"perc":     {"usage"}, "percent": {"usage"}, "percentage": {"usage"}, "utilization": {"usage"}, "util": {"usage"},
	"temp": {"temperature"},
	"num":  nil, "number": nil, "total": nil, "current": nil, "avg": nil, "average": nil, "depth": nil, "length": nil,
	"size": nil, "count": nil,
	"to": nil, "of": nil, "by": nil, "per": nil, "the": nil, "rate": nil, "ratio": nil, "bytes": nil, "bucket": nil,
	"sum": nil,
}

// wordsOf returns the words of a name, sorted, without what says nothing.
func wordsOf(name string) []string {
	var out []string
	name = strings.Replace(strings.TrimPrefix(name, engine.Canonical), "gpu_cache", "kv_cache", 1) // as releases before 0.9.2 called it
	for w := range strings.SplitSeq(name, "_") {
		if m, ok := meanings[w]; ok {
			out = append(out, m...)
		} else if w != "" {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isRouters reports whether a family is of the router of vLLM's production-stack, which
// exposes it under the engine's prefix.
func isRouters(f engine.Family) bool { return f.Kind == "router" }

// taken reports whether a router's family may be taken for one of the engine's.
func taken(f engine.Family) bool {
	_, of := likest(f.Name)
	return of.Name != "" && of.Type == f.Type || measuredElsewhere(f.Name) != ""
}
