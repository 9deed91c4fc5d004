package engine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Bounds of a log. The rest of a longer line is skipped: request lines contain whole prompts, and relevant lines are
// far shorter.
const (
	maxLog      = 256 << 20 // bytes in all
	maxLine     = 64 << 10  // bytes of one line
	maxLogStats = 1000      // statistics kept, the latest: 2 h 45 min at one in 10 s
)

const logSource = "engine log"

// A Log holds the settings of vLLM's or SGLang's last start in a log, and its statistics. Requests, prompts, and
// arguments beyond Config are not kept.
type Log struct {
	SGLang      bool    // SGLang's, else vLLM's
	Config      Config  // source "engine log"
	Version     string  // vLLM's version, "" if the log does not reach back to the start
	Model       string  // the name served, "" when not logged
	KVTokens    int64   // KV capacity of one engine in tokens, 0 when not logged
	KVBytes     float64 // memory for the KV cache of one worker, 0 when not logged
	WeightBytes float64 // that loading the model took on one GPU, 0 when not logged
	Starts      int     // starts after the first one seen
	Stats       []LogStat
	Errors      []LogError // in the order of their first appearance
	End         time.Time  // time of the last line with a timestamp
	Asked       time.Time  // time of the last line of a generating request; zero for vLLM, whose lines lack it
	Seen        LogCounts  // in the whole log
	Died        time.Time  // when the engine ended, if it showed no life later
}

// LogCounts count the requests in a log, from its beginning on. 0 may mean that it does not log them.
type LogCounts struct {
	Received int64    // vLLM's --enable-log-requests
	Begun    int64    // sequences of SGLang's prefill batches, each counted once
	Answers  [3]int64 // lines of the HTTP server on generating requests, 2xx, 4xx and 5xx: when an answer begins
}

// A LogStat is one line of the statistics that vLLM writes every 10 s (VLLM_LOG_STATS_INTERVAL; V0 every 5 s) unless
// it idles, or the sum of SGLang's lines on batches over 10 s.
type LogStat struct {
	At     time.Time // zero when the log has no timestamps
	Run    int       // starts seen before the line
	Engine string    // data-parallel rank, "0" for the only one and for an aggregate of all

	// Throughputs are means since the line before. The prompt throughput excludes cached tokens
	// (vllm/v1/metrics/loggers.py, v0.23.0).
	PromptTokensPerSecond     float64
	GenerationTokensPerSecond float64
	CachedTokensPerSecond     float64 // cached prompt tokens; SGLang only

	Running       int
	Waiting       int
	Deferred      int     // deferred ones among the waiting; vLLM 0.20 and later, if above 0
	KVUsage       float64 // 0..1
	PrefixHitRate float64 // 0..1 over the last 1000 requests, NaN when not logged
	Preemptions   int64   // since the start; V0 and SGLang only: V1 does not log them
	Seen          LogCounts
}

// A LogError counts a kind of logged failure, without the log's words.
type LogError struct {
	Kind  string // one of the Error constants
	Count int    // lines; one failure may write several
	Last  time.Time
}

// The kinds of logged failures.
const (
	ErrorOutOfMemory = "CUDA out of memory"
	ErrorEngineDead  = "engine dead"             // EngineDeadError: requests fail until a restart
	ErrorEngineCrash = "engine crashed"          // the engine process ended by itself or was killed
	ErrorNoKVMemory  = "no KV memory"            // the model or its longest request leaves no room: no start
	ErrorStalled     = "no answer from a worker" // for a minute or more: it hangs, or is very slow
	ErrorPreemption  = "preemption (V0)"         // V0 warns of each 50th
	ErrorRetraction  = "KV cache full"           // SGLang takes requests out of the batch
)

// errorMarks match the lines of each kind. They are searched in lines of level WARNING or worse and in tracebacks,
// which may have no level.
var errorMarks = []struct{ mark, kind string }{
	{"CUDA out of memory", ErrorOutOfMemory},
	{"OutOfMemoryError", ErrorOutOfMemory},
	{"EngineDeadError", ErrorEngineDead},
	{"EngineCore encountered a fatal error", ErrorEngineCrash},
	{"EngineCore failed to start", ErrorEngineCrash},
	{"engine core exited unexpectedly", ErrorEngineCrash}, // killed, as by the kernel for want of memory
	{"died unexpectedly", ErrorEngineCrash},
	{"Engine background task failed", ErrorEngineCrash}, // V0
	{"No available memory for the cache blocks", ErrorNoKVMemory},
	{"larger than the maximum number of tokens that can be stored in KV cache", ErrorNoKVMemory}, // V0 and older V1
	{"larger than the available KV cache memory", ErrorNoKVMemory},
	{"No available shared memory broadcast block found in", ErrorStalled},
	{"RPC call to execute_model timed out", ErrorStalled},
	{"RPC call to sample_tokens timed out", ErrorStalled},
	{"Scheduler hit an exception", ErrorEngineCrash}, // SGLang
	{"Watchdog timeout", ErrorStalled},
	{"Health check failed. Server couldn't get a response", ErrorStalled},
}

// marks are substrings of the relevant lines. Lines without any of them are skipped before the regular expressions,
// because a log is mostly access lines.
var marks = append([][]byte{
	[]byte("throughput: "), []byte("Prefix cache hit rate: GPU"), []byte("args: "), []byte("KV cache"),
	[]byte(" engine (v"), []byte("version "), []byte("Maximum concurrency"), []byte("GPU blocks: "),
	[]byte("Chunked prefill is enabled"), []byte("Using max model len"), []byte("is preempted by"), []byte(" took "),
	[]byte("eceived request "), []byte(" batch"), []byte("Retract requests"), []byte("server_args=ServerArgs("),
	[]byte("max_total_num_tokens="),
}, listErrorMarks()...)

func listErrorMarks() (marks [][]byte) {
	for _, e := range errorMarks {
		marks = append(marks, []byte(e.mark))
	}
	return marks
}

var (
	escapes = regexp.MustCompile(`\x1b\[[0-9;]*m`)

	// prefix is vLLM's (vllm/logger.py): INFO 05-19 10:13:11 [loggers.py:271] …, without the bracket before 0.8, with
	// the year in NIM and plug-ins. A container runtime's prefix is skipped.
	prefix = regexp.MustCompile(`\b(DEBUG|INFO|WARNING|ERROR|CRITICAL) ((?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d{1,9})? \[?[\w./]+:\d+\] ?`)

	// processName matches vLLM's prefix of every line of a process since 0.11.
	processName = regexp.MustCompile(`^\(\w+( [^)]*)?\) `)

	versionLine = regexp.MustCompile(`^(?:vLLM API server version v?|Initializing an? (?:V\d )?LLM engine \(v|[ \x{2580}-\x{259F}]*[\x{2580}-\x{259F}] +version )(\d+\.[\w.+-]+)`)
	kvTokens    = regexp.MustCompile(`^GPU KV cache size: ([\d,]+) tokens`)
	concurrency = regexp.MustCompile(`^(?:GPU KV cache size: [\d,]+ tokens, )?Maximum concurrency for ([\d,]+) tokens per request: [\d.]+x`)
	kvMemory    = regexp.MustCompile(`^Available KV cache memory: (-?[\d.]+) GiB`)
	weightsTook = regexp.MustCompile(`^(?:Model loading took|Loading model weights took) ([\d.]{1,20}) (?:GiB|GB)`) // GB means GiB
	gpuBlocks   = regexp.MustCompile(`^# (?:GPU|cuda) blocks: (\d+)`)                                               // V0
	chunked     = regexp.MustCompile(`^Chunked prefill is enabled with max_num_batched_tokens=(\d+)`)
	maxModelLen = regexp.MustCompile(`^Using max model len (\d+)`)
	preempted   = regexp.MustCompile(`^Sequence group \S+ is preempted by .* total_num_cumulative_preemption=(\d+)`)
	hitRateV0   = regexp.MustCompile(`^Prefix cache hit rate: GPU: ([\d.]+)%`)
	statsLine   = regexp.MustCompile(`^(?:Engine (\d+): |\d+ Engines Aggregated: )?Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+) tokens/s, (?:[\w /]{1,30}: ?[\d.]+ ms, ?){0,2}Running: (\d+) reqs,(?: Swapped: \d+ reqs,)? (?:Waiting|Pending): (\d+) reqs(?:, Deferred: (\d+) reqs)?(.*)`)
	kvUsage     = regexp.MustCompile(`GPU KV cache usage: ([\d.]+)%`)
	hitRate     = regexp.MustCompile(`, Prefix cache hit rate: ([\d.]+)%`)
)

// ParseLog reads a log of vLLM, V0 or V1, or of SGLang, as the server or a container's runtime wrote it. Lines that
// it does not know are skipped; a log without any known line is an error, as is one of more than 256 MiB.
//
// vLLM's timestamps have neither year nor zone. They are taken as UTC, which containers run in, and as the latest
// year that does not put them after now. A line that begins with a full RFC 3339 timestamp, as "docker logs
// --timestamps" writes, has that one.
func ParseLog(r io.Reader, now time.Time) (Log, error) {
	p := logParser{log: Log{Config: Config{}}, now: now}
	if err := p.readLines(r); err != nil {
		return Log{}, fmt.Errorf("read engine log: %w", err)
	}
	if !p.known {
		return Log{}, hint.With(errors.New("read engine log: no log line of vLLM or SGLang in it"),
			"give the standard output and error of the server from its start, at log level INFO")
	}
	p.endBatches(time.Time{})
	p.log.End, p.log.Seen = p.timeOf(p.lastLines()...), p.seen
	if p.log.SGLang {
		p.log.Asked = p.timeOf(p.asked)
	}
	return p.log, nil
}

// logParser is the state of parsing a log.
type logParser struct {
	log     Log
	now     time.Time
	at      time.Time // time of the last relevant line with a timestamp
	known   bool      // any line was recognised
	last    [keptLines][]byte
	lines   int
	seen    LogCounts
	asked   []byte          // the last line on a request to the engine
	paths   map[string]bool // HTTP paths; true if the engine answers them
	batches batches

	ready       bool  // the engine of this start has been configured
	preemptions int64 // since this start
}

// readLines calls readLine with every line, cut to maxLine.
func (p *logParser) readLines(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: maxLog + 1}
	in := bufio.NewReaderSize(limited, maxLine)
	for {
		part, err := in.ReadSlice('\n')
		p.readLine(part)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if limited.N <= 0 {
			return hint.With(fmt.Errorf("more than %d MiB", maxLog>>20),
				"give its start and its end: (head -n 5000 LOG; tail -n 500000 LOG) > part.log")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// keptLines is how many lines before the end may have no time.
const keptLines = 50

// readLine reads one line of the log.
func (p *logParser) readLine(raw []byte) {
	slot := &p.last[p.lines%keptLines]
	*slot = append((*slot)[:0], raw[:min(len(raw), 200)]...)
	p.lines++
	if p.readAccess(raw) {
		return
	}
	if !slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Contains(raw, m) }) {
		return
	}
	text := strings.TrimRight(escapes.ReplaceAllLiteralString(string(raw), ""), "\r\n ")
	// Only a message that begins as vLLM's does is read, because prompts are logged too, within a message, and may
	// say anything.
	level, message := "", strings.TrimLeft(text, " ")
	if m := prefix.FindStringSubmatchIndex(text); m != nil {
		level, message = text[m[2]:m[3]], text[m[1]:]
		p.at = p.readTime(text, text[m[4]:m[5]])
	} else if m := sglangPrefix.FindStringSubmatch(text); m != nil {
		p.known = p.readSGLang(p.readTime(text, m[1]), m[2], text[len(m[0]):]) || p.known
		return
	}
	if p.readStats(message) || p.readSettings(message) || p.readCapacity(message) ||
		p.readPreemption(message) || p.readFailure(level, message) {
		p.known = true
	}
}

// readTime reads the time of a line, given vLLM's own stamp.
func (p *logParser) readTime(line, stamp string) time.Time {
	first, _, _ := strings.Cut(line, " ")
	if t, err := time.Parse(time.RFC3339Nano, first); err == nil {
		return t.UTC()
	}
	if t, err := time.Parse(time.DateTime, stamp); err == nil {
		return t
	}
	if t, err := time.Parse(time.TimeOnly, stamp); err == nil { // the latest such time before now
		day := p.now.UTC().Truncate(24 * time.Hour)
		t = day.Add(t.Sub(t.Truncate(24 * time.Hour)))
		for !t.Before(p.now) {
			t = t.Add(-24 * time.Hour)
		}
		return t
	}
	// Eight years, for the 29th of February.
	for year := p.now.UTC().Year() + 1; year > p.now.UTC().Year()-8; year-- {
		t, err := time.Parse("2006-01-02 15:04:05", strconv.Itoa(year)+"-"+stamp)
		// A day of grace: the zone may be up to 14 hours ahead of UTC.
		if err == nil && t.Before(p.now.Add(24*time.Hour)) {
			return t
		}
	}
	return time.Time{}
}

// noteStart notes that the server starts. Several lines say so, and only the first one after a server was up counts.
func (p *logParser) noteStart() {
	if !p.ready {
		return
	}
	p.ready, p.preemptions = false, 0
	l := &p.log
	l.Starts++
	l.Config, l.Version, l.Model, l.KVTokens, l.KVBytes, l.WeightBytes = Config{}, "", "", 0, 0, 0
	l.Died = time.Time{}
}

// readSettings reads the lines with arguments, version and resolved configuration.
func (p *logParser) readSettings(m string) bool {
	version := versionLine.FindStringSubmatch(m)
	if version != nil {
		if !strings.HasPrefix(m, "Initializing") {
			p.noteStart()
		}
		p.log.Version = strings.TrimRight(version[1], ".")
	}
	for _, before := range []string{"non-default args: ", "args: Namespace"} { // V1's and V0's
		if s, ok := strings.CutPrefix(m, before); ok {
			p.noteStart()
			p.readAssignments(s)
			return true
		}
	}
	if strings.HasPrefix(m, "Received request ") {
		p.seen.Received++
		return true
	}
	if version != nil {
		if _, s, ok := strings.Cut(m, " with config: "); ok {
			p.readAssignments(s)
		}
		return true
	}
	if s := chunked.FindStringSubmatch(m); s != nil {
		p.recordSetting(ChunkedPrefill, "True")
		p.recordSetting(MaxNumBatchedTokens, s[1])
		return true
	}
	if s := maxModelLen.FindStringSubmatch(m); s != nil {
		p.recordSetting(MaxModelLen, s[1])
		return true
	}
	return false
}

// readCapacity reads the lines on the capacity of memory.
func (p *logParser) readCapacity(m string) bool {
	l, found := &p.log, false
	if s := weightsTook.FindStringSubmatch(m); s != nil {
		l.WeightBytes = min(parseDigits(s[1]), 1<<20) * (1 << 30)
		return true
	}
	if s := kvTokens.FindStringSubmatch(m); s != nil {
		n := strings.ReplaceAll(s[1], ",", "")
		l.KVTokens, _ = strconv.ParseInt(n, 10, 64) // the greatest number if it is out of range
		p.recordSetting(KVTokens, n)
		found = true
	}
	if s := concurrency.FindStringSubmatch(m); s != nil {
		p.recordSetting(MaxModelLen, strings.ReplaceAll(s[1], ",", ""))
		found = true
	}
	if s := kvMemory.FindStringSubmatch(m); s != nil {
		l.KVBytes = parseDigits(s[1]) * (1 << 30)
		found = true
	}
	if s := gpuBlocks.FindStringSubmatch(m); s != nil {
		p.recordSetting(NumBlocks, s[1])
		found = true
	}
	p.ready = p.ready || found
	return found
}

// readStats reads a line of statistics, in V0's form or V1's.
func (p *logParser) readStats(m string) bool {
	if s := hitRateV0.FindStringSubmatch(m); s != nil {
		if n := len(p.log.Stats); n > 0 {
			p.log.Stats[n-1].PrefixHitRate = parseDigits(s[1]) / 100
		}
		return true
	}
	s := statsLine.FindStringSubmatch(m)
	if s == nil {
		return false
	}
	p.ready = true
	stat := LogStat{
		At: p.at, Run: p.log.Starts, Engine: "0",
		PromptTokensPerSecond: parseDigits(s[2]), GenerationTokensPerSecond: parseDigits(s[3]),
		Running: int(parseDigits(s[4])), Waiting: int(parseDigits(s[5])),
		Deferred: int(parseDigits(s[6])), PrefixHitRate: math.NaN(), Preemptions: p.preemptions, Seen: p.seen,
	}
	if s[1] != "" {
		stat.Engine = strconv.Itoa(int(parseDigits(s[1])))
	}
	if u := kvUsage.FindStringSubmatch(s[7]); u != nil {
		stat.KVUsage = parseDigits(u[1]) / 100
	}
	if h := hitRate.FindStringSubmatch(s[7]); h != nil {
		stat.PrefixHitRate = parseDigits(h[1]) / 100
	}
	p.keepStat(stat)
	return true
}

// keepStat appends statistics to the log.
func (p *logParser) keepStat(stat LogStat) {
	if len(p.log.Stats) == maxLogStats {
		copy(p.log.Stats, p.log.Stats[1:])
		p.log.Stats = p.log.Stats[:maxLogStats-1]
	}
	p.log.Stats = append(p.log.Stats, stat)
	if stat.PromptTokensPerSecond+stat.GenerationTokensPerSecond > 0 {
		p.log.Died = time.Time{}
	}
}

func (p *logParser) readPreemption(m string) bool {
	s := preempted.FindStringSubmatch(m)
	if s == nil {
		return false
	}
	p.preemptions = max(p.preemptions, int64(parseDigits(s[1])))
	p.countEvent(ErrorPreemption)
	return true
}

func (p *logParser) readFailure(level, m string) bool {
	if level == "INFO" || level == "DEBUG" {
		return false
	}
	if level == "" {
		// The last line of a traceback: the exception's name comes first.
		m, _, _ = strings.Cut(processName.ReplaceAllLiteralString(m, ""), " ")
	}
	for _, e := range errorMarks {
		if strings.Contains(m, e.mark) {
			p.countEvent(e.kind)
			p.ready = true // the next start is another process
			if (e.kind == ErrorEngineDead || e.kind == ErrorEngineCrash) && p.log.Died.IsZero() {
				p.log.Died = p.at
			}
			return true
		}
	}
	return false
}

func (p *logParser) countEvent(eventKind string) {
	for i := range p.log.Errors {
		if e := &p.log.Errors[i]; e.Kind == eventKind {
			e.Count++
			e.Last = p.at
			return
		}
	}
	p.log.Errors = append(p.log.Errors, LogError{Kind: eventKind, Count: 1, Last: p.at})
}

// parseDigits reads digits that a regular expression has found, 0 if they are no number after all. The result is
// bounded, so that it fits any integer type.
func parseDigits(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) {
		return 0
	}
	return min(max(f, -1<<31), 1<<31-1)
}

// recordSetting records a setting. Unlike Config.Set it replaces earlier values, because later lines of a start are
// closer to what the engine does.
func (p *logParser) recordSetting(flag, value string) {
	if value != "" && value != "None" {
		p.log.Config[flag] = Setting{Value: value, Source: logSource}
	}
}

// argumentFlags maps the names of arguments and configuration fields, as Python
// prints them, to flags. Nothing else is kept: arguments may hold secrets.
var argumentFlags = map[string]string{
	"max_num_seqs":            MaxNumSeqs,
	"max_num_batched_tokens":  MaxNumBatchedTokens,
	"max_model_len":           MaxModelLen,
	"max_seq_len":             MaxModelLen,
	"enable_chunked_prefill":  ChunkedPrefill,
	"chunked_prefill_enabled": ChunkedPrefill,
	"enable_prefix_caching":   PrefixCaching,
	"gpu_memory_utilization":  GPUMemoryUtilization,
	"kv_cache_dtype":          KVCacheDtype,
	"block_size":              BlockSize,
	"tensor_parallel_size":    TensorParallelSize,
	"data_parallel_size":      DataParallelSize,
	"num_gpu_blocks_override": NumBlocks,

	// SGLang's
	"max_running_requests": MaxNumSeqs,
	"chunked_prefill_size": MaxNumBatchedTokens,
	"context_length":       MaxModelLen,
	"context_len":          MaxModelLen,
	"mem_fraction_static":  GPUMemoryUtilization,
	"page_size":            BlockSize,
	"tp_size":              TensorParallelSize,
	"dp_size":              DataParallelSize,
	"max_total_num_tokens": KVTokens,
}

// readAssignments reads a line of arguments or of configuration.
func (p *logParser) readAssignments(s string) {
	model, served := "", ""
	scanAssignments(s, func(name, value string) {
		switch name {
		case "model", "model_path":
			model = value
		case "served_model_name":
			served = value
		default:
			if flag, ok := argumentFlags[name]; ok {
				p.recordSetting(flag, value)
			}
		}
	})
	if served == "" || served == "None" {
		served = model
	}
	if served != "" && p.log.Model == "" {
		p.log.Model = served
	}
}

// scanAssignments calls yield for each name and scalar in Python's print of a dictionary, {'a': 1}, a Namespace, (a=1),
// or a bare list, a=1. A list yields its first item. Nested structures are skipped, and quoted text is a name only if
// a colon follows.
func scanAssignments(s string, yield func(name, value string)) {
	base := 0 // brackets around the names wanted
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "(") {
		base = 1
	}
	depth, name := 0, ""       // name is the one whose value comes next
	token, isWord := "", false // the last word or quoted text
	finish := func() {
		if name != "" && token != "" {
			yield(name, token)
			name = ""
		}
		token = ""
		if depth <= base {
			name = ""
		}
	}
	for i := 0; i < len(s); {
		end := i + 1
		switch c := s[i]; c {
		case '\'', '"':
			end = skipQuoted(s, i)
			token, isWord = strings.Trim(s[i:end], `'"`), false
		case '(', '{', '[':
			if depth++; c != '[' && depth > base {
				name = "" // a structure
			}
			token = ""
		case ')', '}', ']':
			finish()
			depth--
		case '=', ':':
			if (c == '=') == isWord && token != "" {
				if name = ""; depth == base {
					name = token
				}
				token = ""
			}
		case ',':
			finish()
		case ' ':
		default:
			if n := strings.IndexAny(s[end:], " ,=(){}[]'\":"); n >= 0 {
				end += n
			} else {
				end = len(s)
			}
			token, isWord = s[i:end], true
		}
		i = end
	}
	finish()
}

// skipQuoted returns the index after the quoted text that begins at s[i].
func skipQuoted(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case s[i]:
			return j + 1
		}
	}
	return len(s)
}
