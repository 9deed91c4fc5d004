package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Page is a page in Prometheus' text format, and its time. Without a body, the engine was dead.
type Page struct {
	At   time.Time
	Body []byte
}

// logInterval is the time between two lines of statistics unless the lines tell
// otherwise (VLLM_LOG_STATS_INTERVAL's default).
const logInterval = 10 * time.Second

// mostSilent is how much of a time without lines becomes pages. It is the last part, because no diagnosis looks back
// further.
const mostSilent = time.Hour

// Pages renders the statistics as the pages that /metrics would have given at those times, in canonical names, so
// that a log replaces a recording. Every page has the last line of every engine. Token counters integrate the logged
// throughputs, and restart with the server. The prompt counter lacks cached tokens.
//
// If requests are logged, first tokens are counted and the queue time is the integral of the queue (Little's law:
// Operations Research 9, 1961); otherwise first tokens are the minimum that the lines imply. Latencies and other
// metrics that a log lacks have no series. NamingOfLog says how such pages are read.
//
// An idle engine writes no lines, and neither does a hanging one of vLLM before 0.14. Such a time becomes pages if the
// last line, or requests that came meanwhile, tell which of the two it is. Times strictly increase. Statistics without
// a timestamp are 10 s apart, from the beginning of 1970 on; those before the last time are dropped.
func (l Log) Pages() []Page {
	w := pageWriter{Log: &l, interval: l.Interval(), engines: map[string]*engineTotals{}}
	w.preempts = slices.ContainsFunc(l.Stats, func(s LogStat) bool { return s.Preemptions > 0 })
	for i, s := range l.Stats {
		last := w.lastTime()
		if s.At.IsZero() {
			s.At = time.Unix(0, 0).UTC()
			if !last.IsZero() {
				s.At = last.Add(logInterval)
			}
		}
		if s.At.Before(last) {
			continue
		}
		if i > 0 && s.Run != l.Stats[i-1].Run {
			clear(w.engines)
		} else {
			w.addSilentPages(s.At.Add(-w.interval/2), l.SGLang || s.Seen != w.seen)
		}
		w.addStat(s)
		w.writePage(s.At)
	}
	last := w.lastTime()
	switch {
	case last.IsZero():
	case !l.Died.IsZero():
		died := l.Died
		if died.Before(last) {
			died = last
		}
		for i := range afterDeath {
			w.pages = append(w.pages, Page{At: died.Add(time.Duration(i+1) * w.interval)})
		}
	default:
		w.addSilentPages(l.End, l.Seen != w.seen && (l.Asked.IsZero() || l.Asked.Sub(last) > 2*w.interval))
	}
	return w.pages
}

// afterDeath is how many pages without a body follow an engine's death.
const afterDeath = 4

// Interval returns the median time between two lines of one engine.
func (l Log) Interval() time.Duration {
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

// A pageWriter makes pages from statistics.
type pageWriter struct {
	*Log
	interval time.Duration
	preempts bool
	engines  map[string]*engineTotals
	seen     LogCounts // by the last line
	counted  int64     // first tokens of logged requests
	pages    []Page
}

// engineTotals holds an engine's last line and its counters.
type engineTotals struct {
	last                       LogStat
	prompt, cached, generation float64
	firsts, waited             float64 // first tokens, and seconds that all requests spent in the queue
}

func (w *pageWriter) lastTime() time.Time {
	if len(w.pages) == 0 {
		return time.Time{}
	}
	return w.pages[len(w.pages)-1].At
}

// requestsLogged reports whether the log shows each request.
func (l *Log) requestsLogged() bool { return l.Seen.Received+l.Seen.Begun+l.Seen.Answers[0] > 0 }

// addStat integrates the line's throughputs over the time of which they are means. That is the time since the line
// before, unless lines are missing: an idle server writes none, but begins a new mean all the same.
func (w *pageWriter) addStat(s LogStat) {
	e := w.engines[s.Engine]
	if e == nil {
		e = &engineTotals{}
		w.engines[s.Engine] = e
	}
	d := w.interval
	if gap := s.At.Sub(e.last.At); !e.last.At.IsZero() && gap < w.interval*3/2 {
		d = gap
	}
	e.prompt += s.PromptTokensPerSecond * d.Seconds()
	e.cached += s.CachedTokensPerSecond * d.Seconds()
	e.generation += s.GenerationTokensPerSecond * d.Seconds()
	e.waited += float64(s.Waiting+e.last.Waiting) / 2 * d.Seconds()
	e.firsts += w.countFirstTokens(&s, &e.last)
	e.last = s
	w.seen = s.Seen
}

// countFirstTokens returns how many requests got their first token since the line before. Without any progress none
// did, even if the HTTP server wrote a line, because it writes when a stream begins.
func (w *pageWriter) countFirstTokens(s, before *LogStat) float64 {
	progress := s.PromptTokensPerSecond+s.CachedTokensPerSecond+s.GenerationTokensPerSecond > 0
	if !progress {
		return 0
	}
	if w.requestsLogged() {
		have := cmp.Or(s.Seen.Begun, s.Seen.Answers[0])
		if s.Seen.Received > 0 {
			have = s.Seen.Received - int64(s.Waiting)
		}
		n := max(0, have-w.counted)
		w.counted += n
		return float64(n)
	}
	n := max(0, s.Running-before.Running, before.Waiting-s.Waiting)
	if s.PromptTokensPerSecond > 0 {
		n = max(1, n)
	}
	return float64(n)
}

// addSilentPages adds pages up to a time, if the engine's state is known. came means that requests arrived meanwhile.
func (w *pageWriter) addSilentPages(until time.Time, came bool) {
	last := w.lastTime()
	if last.IsZero() || until.Sub(last) < w.interval {
		return
	}
	for _, e := range w.engines {
		if s := e.last; s.PromptTokensPerSecond+s.CachedTokensPerSecond+s.GenerationTokensPerSecond > 0 && !came {
			return
		}
	}
	if first := until.Add(-mostSilent); last.Before(first) {
		last = first
	}
	for at := last.Add(w.interval); !at.After(until); at = at.Add(w.interval) {
		for _, e := range w.engines {
			e.waited += float64(e.last.Waiting) * w.interval.Seconds()
		}
		w.writePage(at)
	}
}

// pageMetrics are the families of a page, in order. A value of NaN is left out.
var pageMetrics = []struct {
	name, kind, labels string
	valueOf            func(*pageWriter, *engineTotals) float64
}{
	{"vllm:num_requests_running", "gauge", "", func(_ *pageWriter, e *engineTotals) float64 { return float64(e.last.Running) }},
	{"vllm:num_requests_waiting", "gauge", "", func(_ *pageWriter, e *engineTotals) float64 { return float64(e.last.Waiting) }},
	{"vllm:num_requests_waiting_by_reason", "gauge", `,reason="deferred"`, func(_ *pageWriter, e *engineTotals) float64 { return float64(e.last.Deferred) }},
	{"vllm:kv_cache_usage_perc", "gauge", "", func(_ *pageWriter, e *engineTotals) float64 { return e.last.KVUsage }},
	// The only name that vLLM had for a ratio, from which the counters of hits cannot be computed.
	{"vllm:gpu_prefix_cache_hit_rate", "gauge", "", func(_ *pageWriter, e *engineTotals) float64 { return e.last.PrefixHitRate }},
	{"vllm:prefix_cache_queries_total", "counter", "", func(w *pageWriter, e *engineTotals) float64 {
		return valueIf(w.SGLang, math.Round(e.prompt+e.cached))
	}},
	{"vllm:prefix_cache_hits_total", "counter", "", func(w *pageWriter, e *engineTotals) float64 { return valueIf(w.SGLang, math.Round(e.cached)) }},
	{"vllm:prompt_tokens_total", "counter", "", func(_ *pageWriter, e *engineTotals) float64 { return math.Round(e.prompt) }},
	{"vllm:generation_tokens_total", "counter", "", func(_ *pageWriter, e *engineTotals) float64 { return math.Round(e.generation) }},
	{"vllm:num_preemptions_total", "counter", "", func(w *pageWriter, e *engineTotals) float64 {
		return valueIf(w.preempts || w.SGLang, float64(e.last.Preemptions))
	}},
	{firstTokens, "counter", "", func(_ *pageWriter, e *engineTotals) float64 { return e.firsts }},
	{queueTimes + "_sum", "counter", "", func(w *pageWriter, e *engineTotals) float64 { return valueIf(w.requestsLogged(), e.waited) }},
	{queueTimes + "_count", "counter", "", func(w *pageWriter, e *engineTotals) float64 { return valueIf(w.requestsLogged(), e.firsts) }},
}

func valueIf(is bool, v float64) float64 {
	if !is {
		return math.NaN()
	}
	return v
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// writePage adds a page of the present state, or replaces the page of the same time.
func (w *pageWriter) writePage(at time.Time) {
	var b bytes.Buffer
	ids := slices.Sorted(maps.Keys(w.engines))
	for _, m := range pageMetrics {
		typed := false
		for _, id := range ids {
			v := m.valueOf(w, w.engines[id])
			if math.IsNaN(v) {
				continue
			}
			if !typed {
				fmt.Fprintf(&b, "# TYPE %s %s\n", m.name, m.kind)
				typed = true
			}
			fmt.Fprintf(&b, "%s{engine=\"%s\",model_name=\"%s\"%s} %v\n",
				m.name, id, escapeLabel.Replace(w.Model), m.labels, v)
		}
	}
	if w.Seen.Answers != [3]int64{} {
		b.WriteString("# TYPE http_requests_total counter\n")
		for i, n := range w.seen.Answers {
			fmt.Fprintf(&b, "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"%s\"} %d\n",
				[]string{"2xx", "4xx", "5xx"}[i], n)
		}
	}
	fmt.Fprintf(&b, "# TYPE %[1]s gauge\n%[1]s 1\n", logMark(w.SGLang))
	if n := len(w.pages); n > 0 && w.pages[n-1].At.Equal(at) {
		w.pages[n-1].Body = b.Bytes() // another engine's line of the same second
		return
	}
	w.pages = append(w.pages, Page{At: at, Body: b.Bytes()})
}

const (
	firstTokens = "vllm:time_to_first_token_seconds_count"
	queueTimes  = "vllm:request_queue_time_seconds"
)

// logMark returns the name of the series that marks pages made from a log.
func logMark(sglang bool) string {
	if sglang {
		return "vllm:sixty_log_of_sglang"
	}
	return "vllm:sixty_log_of_vllm"
}

// NamingOfLog returns the Naming of pages made from a log, whether the log is SGLang's, and whether names are of such a
// page at all.
func NamingOfLog(has map[string]bool) (n Naming, sglang, ok bool) {
	sglang = has[logMark(true)]
	if !sglang && !has[logMark(false)] {
		return n, false, false
	}
	n = Naming{ID: "vllm-log", Prefix: Canonical, Log: true, Renamed: map[string]string{}, Lacks: map[string]string{}}
	if sglang {
		n.ID = "sglang-log"
	}
	// First tokens count logged requests, which may be none while an engine works. Prompts count with their first
	// tokens.
	work := map[string]string{firstTokens: "vllm:prompt_tokens_total", "vllm:prefix_cache_queries_total": "vllm:generation_tokens_total"}
	n.Exprs = map[string]indicator.Expr{
		indicator.EngineProgress.Name: InNames(indicator.EngineProgress, work),
		indicator.StuckEngines.Name:   InNames(indicator.StuckEngines, work),
		indicator.DecodeBatch.Name:    indicator.SumMean("vllm:num_requests_running"),
	}
	counted := has[queueTimes+"_count"]
	for _, s := range indicator.All() {
		for _, name := range indicator.Reads(s.Expr) {
			latency := strings.HasPrefix(name, strings.TrimSuffix(firstTokens, "_count")) && name != firstTokens
			// The HTTP server counts when answers begin.
			compares := name == "http_requests_total" && len(indicator.Reads(s.Expr)) > 1
			perRequest := name == firstTokens && !counted && !slices.Contains([]*indicator.Signal{
				indicator.FirstTokens, indicator.FirstTokenRate, indicator.EngineProgress, indicator.StuckEngines, indicator.KVPerRequest, indicator.WaitingAge,
			}, s)
			if latency || compares || perRequest {
				n.Lacks[s.Name] = "time_to_first_token_seconds, which no log tells"
			}
		}
	}
	n.Lacks[indicator.PromptTokens.Name] = "request_prompt_tokens, which no log tells" // including cached tokens
	return n, sglang, true
}
