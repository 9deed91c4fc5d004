package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Page is a body of Prometheus text format and the time it stands for.
type Page struct {
	At   time.Time
	Body []byte
}

// logInterval is the time between two lines of statistics unless the lines tell
// otherwise (VLLM_LOG_STATS_INTERVAL's default).
const logInterval = 10 * time.Second

// Pages renders the statistics as the pages that /metrics might have given at
// those times, in vLLM's names, so that a log can stand in for a recording.
// Every page has the last line of every engine. Token counters are integrated
// from the throughputs, so they grow by what was logged and start near 0; they
// start again when the server did. The prompt counter lacks cached tokens. What
// a log does not tell has no series, least of all the latencies.
//
// Times strictly increase. Statistics without a timestamp are put 10 s after
// the one before, the first at the beginning of 1970; those that a clock put
// back are left out.
func (l Log) Pages() []Page {
	interval := l.interval()
	preemptions := slices.ContainsFunc(l.Stats, func(s LogStat) bool { return s.Preemptions > 0 })
	engines := map[string]*engineTotals{}
	var pages []Page
	for i, s := range l.Stats {
		if s.At.IsZero() {
			s.At = time.Unix(0, 0).UTC()
			if len(pages) > 0 {
				s.At = pages[len(pages)-1].At.Add(logInterval)
			}
		}
		if len(pages) > 0 && s.At.Before(pages[len(pages)-1].At) {
			continue
		}
		if i > 0 && s.Run != l.Stats[i-1].Run {
			clear(engines)
		}
		e := engines[s.Engine]
		if e == nil {
			e = &engineTotals{}
			engines[s.Engine] = e
		}
		e.add(s, interval)
		body := l.renderPage(engines, preemptions)
		if n := len(pages); n > 0 && pages[n-1].At.Equal(s.At) {
			pages[n-1].Body = body // another engine's line of the same second
			continue
		}
		pages = append(pages, Page{At: s.At, Body: body})
	}
	return pages
}

// engineTotals is an engine's last line and its counters.
type engineTotals struct {
	last               LogStat
	prompt, generation float64
}

// add integrates the line's throughputs over the time that they are means of.
// That is the time since the line before, unless lines are missing: an idle
// server writes none, but begins a new mean all the same.
func (e *engineTotals) add(s LogStat, interval time.Duration) {
	d := interval
	if gap := s.At.Sub(e.last.At); !e.last.At.IsZero() && gap < interval*3/2 {
		d = gap
	}
	e.prompt += s.PromptTokensPerSecond * d.Seconds()
	e.generation += s.GenerationTokensPerSecond * d.Seconds()
	e.last = s
}

// interval is the median time between two lines of one engine.
func (l Log) interval() time.Duration {
	last := map[string]time.Time{}
	var gaps []time.Duration
	for _, s := range l.Stats {
		if gap := s.At.Sub(last[s.Engine]); !last[s.Engine].IsZero() && gap > 0 {
			gaps = append(gaps, gap)
		}
		last[s.Engine] = s.At
	}
	if len(gaps) == 0 {
		return logInterval
	}
	slices.Sort(gaps)
	return min(gaps[(len(gaps)-1)/2], time.Minute)
}

// pageMetrics are the families of a page, in order. A value of NaN is left out.
var pageMetrics = []struct {
	name, kind string
	value      func(*engineTotals) float64
}{
	{"vllm:num_requests_running", "gauge", func(e *engineTotals) float64 { return float64(e.last.Running) }},
	{"vllm:num_requests_waiting", "gauge", func(e *engineTotals) float64 { return float64(e.last.Waiting) }},
	{"vllm:kv_cache_usage_perc", "gauge", func(e *engineTotals) float64 { return e.last.KVUsage }},
	// The only name that vLLM had for a ratio; the counters of hits cannot be
	// worked out from one.
	{"vllm:gpu_prefix_cache_hit_rate", "gauge", func(e *engineTotals) float64 { return e.last.PrefixHitRate }},
	{"vllm:prompt_tokens_total", "counter", func(e *engineTotals) float64 { return math.Round(e.prompt) }},
	{"vllm:generation_tokens_total", "counter", func(e *engineTotals) float64 { return math.Round(e.generation) }},
	{"vllm:num_preemptions_total", "counter", func(e *engineTotals) float64 { return float64(e.last.Preemptions) }},
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (l Log) renderPage(engines map[string]*engineTotals, preemptions bool) []byte {
	var b bytes.Buffer
	ids := slices.Sorted(maps.Keys(engines))
	for _, m := range pageMetrics {
		if m.name == "vllm:num_preemptions_total" && !preemptions {
			continue
		}
		typed := false
		for _, id := range ids {
			v := m.value(engines[id])
			if math.IsNaN(v) {
				continue
			}
			if !typed {
				fmt.Fprintf(&b, "# TYPE %s %s\n", m.name, m.kind)
				typed = true
			}
			fmt.Fprintf(&b, "%s{engine=\"%s\",model_name=\"%s\"} %v\n", m.name, id, escapeLabel.Replace(l.Model), v)
		}
	}
	return b.Bytes()
}
