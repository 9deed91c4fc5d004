package engine

import (
	"bytes"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Lines of SGLang (python/sglang/srt/managers/scheduler_metrics_mixin.py, before 0.5 scheduler.py).
var (
	// sglangPrefix is the time, without the day before 0.4, and which process it is: [2025-05-27 20:14:38 DP0 TP0].
	sglangPrefix = regexp.MustCompile(`^.{0,200}?\[((?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)((?: [A-Z]+\d+)*)\] ?`)
	rankOf       = regexp.MustCompile(`DP(\d{1,5})`)
	otherTP      = regexp.MustCompile(`TP[1-9]`)
	retracted    = regexp.MustCompile(`^KV cache pool is full\. Retract requests\. #retracted_reqs: (\d+)`)
	capacityLine = regexp.MustCompile(`^max_total_num_tokens=\d`)
)

// batchSpan is the time over which batch lines are summed up.
const batchSpan = logInterval

// mostRanks bounds the ranks of a log.
const mostRanks = 1024

// batches accumulate the batch lines since the last statistics.
type batches struct {
	began  time.Time // start of their span
	latest time.Time
	seen   LogCounts // as of the last of them
	ranks  map[string]*rankBatches
}

type rankBatches struct {
	LogStat
	prompt, cached, generated float64   // tokens
	decoding                  float64   // seconds of generating them, part of which may lie in the span before
	decoded                   time.Time // the last line on decoding
	chunk                     bool      // the last prefill ended within a prompt, which the next one counts again
	updated                   bool      // this span has a line
}

// readSGLang reads a line that SGLang wrote.
func (p *logParser) readSGLang(at time.Time, process, m string) bool {
	p.at = at
	switch kind, rest, _ := strings.Cut(m, " batch"); {
	case (kind == "Decode" || kind == "Prefill") && len(rest) > 2:
		p.addBatch(at, process, kind == "Prefill", batchFields(rest[2:]))
		return true
	case capacityLine.MatchString(m):
		p.log.SGLang, p.ready = true, true
		p.readAssignments(m)
		tokens, _, _ := p.log.Config.Number(KVTokens)
		p.log.KVTokens = int64(min(tokens, 1<<50))
		return true
	}
	if s, ok := strings.CutPrefix(m, "server_args=ServerArgs"); ok {
		p.endBatches(time.Time{})
		p.noteStart()
		p.log.SGLang = true
		p.readAssignments(s)
		return true
	}
	if s := retracted.FindStringSubmatch(m); s != nil {
		if r := p.rankTotals(at, process); r != nil {
			r.Preemptions += int64(parseDigits(s[1]))
		}
		p.countEvent(ErrorRetraction)
		return true
	}
	for _, e := range errorMarks {
		if strings.HasPrefix(m, e.mark) { // a prompt may be logged too, within a message
			return p.readFailure("ERROR", e.mark)
		}
	}
	return false
}

// batchFields reads "#running-req: 5, #token: 10, token usage: 0.01, …".
func batchFields(s string) map[string]float64 {
	out := map[string]float64{}
	for len(out) < 64 && s != "" {
		var field string
		field, s, _ = strings.Cut(s, ",")
		if name, value, ok := strings.Cut(strings.TrimSpace(field), ": "); ok {
			out[name] = parseDigits(value)
		}
	}
	return out
}

// addBatch adds a line on a batch to the totals of its rank.
func (p *logParser) addBatch(at time.Time, process string, prefill bool, f map[string]float64) {
	if otherTP.MatchString(process) && !strings.Contains(process, "DP") {
		return // another GPU's line on the same batch
	}
	p.log.SGLang, p.ready = true, true
	r := p.rankTotals(at, process)
	if r == nil {
		return
	}
	r.updated = true
	r.Running, r.Waiting = int(f["#running-req"]), int(f["#queue-req"])
	r.KVUsage = max(f["token usage"], f["full token usage"])
	if !prefill {
		if gap := at.Sub(r.decoded); !r.decoded.IsZero() && gap > 0 {
			r.generated += f["gen throughput (token/s)"] * gap.Seconds()
			r.decoding += gap.Seconds()
		}
		r.decoded, p.batches.seen = at, p.seen
		return
	}
	begun := int64(f["#new-seq"])
	r.Running += int(begun)
	r.prompt += f["#new-token"]
	r.cached += f["#cached-token"]
	if r.chunk {
		begun--
	}
	budget, _, known := p.log.Config.Number(MaxNumBatchedTokens)
	r.chunk = known && f["#new-token"] >= budget
	p.seen.Begun += max(0, begun)
	p.batches.seen = p.seen
}

// rankTotals returns the totals of a line's rank in the line's span; nil if there are too many ranks.
func (p *logParser) rankTotals(at time.Time, process string) *rankBatches {
	if p.batches.ranks == nil || at.Before(p.batches.latest.Add(-batchSpan)) {
		// the clock was put back, or another log begins
		p.endBatches(time.Time{})
		p.batches.ranks = map[string]*rankBatches{}
	}
	switch {
	case p.batches.began.IsZero():
		p.batches.began = at.Truncate(batchSpan)
	case !at.Before(p.batches.began.Add(batchSpan)):
		p.endBatches(p.batches.began.Add(batchSpan))
		p.batches.began = at.Truncate(batchSpan)
	}
	p.batches.latest = at
	name := "0"
	if m := rankOf.FindStringSubmatch(process); m != nil {
		name = m[1]
	}
	r := p.batches.ranks[name]
	if r == nil {
		if len(p.batches.ranks) >= mostRanks {
			return nil
		}
		r = &rankBatches{}
		p.batches.ranks[name] = r
	}
	return r
}

// endBatches makes statistics for each rank at the end of a span, or at the last line if the end is zero.
func (p *logParser) endBatches(end time.Time) {
	for _, name := range slices.Sorted(maps.Keys(p.batches.ranks)) {
		r := p.batches.ranks[name]
		if !r.updated {
			continue
		}
		at := end
		if at.IsZero() {
			at = p.batches.latest
		}
		seconds := max(1, at.Sub(p.batches.began).Seconds())
		s := r.LogStat
		s.At, s.Run, s.Engine, s.PrefixHitRate = at, p.log.Starts, name, math.NaN()
		s.PromptTokensPerSecond, s.CachedTokensPerSecond, s.GenerationTokensPerSecond = r.prompt/seconds,
			r.cached/seconds, r.generated/max(seconds, r.decoding)
		s.Seen = p.batches.seen
		p.keepStat(s)
		r.prompt, r.cached, r.generated, r.decoding, r.updated = 0, 0, 0, 0, false
	}
	if end.IsZero() {
		p.batches = batches{}
	}
}

var generating = regexp.MustCompile("^(?:" + indicator.Generating + ")$")

// readAccess reads a line of the HTTP server (uvicorn), which tells neither a time nor how long a request took.
func (p *logParser) readAccess(raw []byte) bool {
	const asks = ` - "POST `
	i := bytes.Index(raw, []byte(asks))
	if i < 0 || !bytes.Contains(raw[:i], []byte("INFO:")) {
		return false
	}
	path, rest, ok := bytes.Cut(raw[i+len(asks):], []byte(" HTTP/"))
	path, _, _ = bytes.Cut(path, []byte("?"))
	_, status, told := bytes.Cut(rest, []byte(`" `))
	if !ok || !told || len(status) == 0 || len(path) > 100 {
		return false
	}
	engine, known := p.paths[string(path)]
	if !known {
		engine = generating.Match(path)
		if p.paths == nil || len(p.paths) > 100 {
			p.paths = map[string]bool{}
		}
		p.paths[string(path)] = engine
	}
	class := slices.Index([]byte("245"), status[0])
	if !engine || class < 0 {
		return true
	}
	p.seen.Answers[class]++
	p.asked = append(p.asked[:0], raw[:min(len(raw), 200)]...)
	return true
}

// lastLines returns the last lines, the latest first.
func (p *logParser) lastLines() (out [][]byte) {
	for n := range min(p.lines, keptLines) {
		out = append(out, p.last[(p.lines-1-n)%keptLines])
	}
	return out
}

// timeOf returns the time of the first line with a timestamp, no earlier than the last relevant line's, because a
// logged prompt may contain another timestamp.
func (p *logParser) timeOf(lines ...[]byte) time.Time {
	for _, line := range lines {
		text := escapes.ReplaceAllLiteralString(string(line), "")
		stamp := "" // only where the line begins with a full time
		if m := prefix.FindStringSubmatch(text); m != nil {
			stamp = m[2]
		} else if m := sglangPrefix.FindStringSubmatch(text); m != nil {
			stamp = m[1]
		}
		if t := p.readTime(text, stamp); !t.IsZero() && !t.Before(p.at) {
			return t
		}
	}
	return p.at
}
