package pathologies_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// A logLine is the content of one line of statistics, of ten seconds.
type logLine struct {
	prompt, output   float64 // tokens/s
	running, waiting int
	kv               float64 // percent
	deferred         int
	requests         int // access log lines before it
}

// logMaker makes the lines of a varying load.
type logMaker struct{ *rand.Rand }

func newLogMaker() logMaker { return logMaker{rand.New(rand.NewPCG(1, 2))} }

func (m logMaker) about(v, share float64) float64 { return v * (1 - share + 2*share*m.Float64()) }

// good returns n lines of a healthy server.
func (m logMaker) good(n int) (out []logLine) {
	for range n {
		out = append(out, logLine{
			prompt: m.about(1700, .3), output: m.about(780, .1), running: int(m.about(28, .1)),
			kv: m.about(35, .15), requests: 30,
		})
	}
	return out
}

// then appends n lines.
func (m logMaker) then(before []logLine, n int, line func(k int) logLine) []logLine {
	for k := range n {
		before = append(before, line(k))
	}
	return before
}

// The formats of lines in some releases.
const (
	lineV1     = "(APIServer pid=1) INFO %s [loggers.py:271] Engine %03d: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs,%s GPU KV cache usage: %.1f%%, Prefix cache hit rate: 61.0%%\n"
	lineV1Old  = "INFO %s [loggers.py:116] Engine %03d: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs,%s GPU KV cache usage: %.1f%%, Prefix cache hit rate: 61.0%%\n"
	lineV0     = "INFO %[1]s metrics.py:455] Avg prompt throughput: %.1[3]f tokens/s, Avg generation throughput: %.1[4]f tokens/s, Running: %[5]d reqs, Swapped: 0 reqs, Pending: %[6]d reqs, GPU KV cache usage: %.1[8]f%%, CPU KV cache usage: 0.0%%.\n"
	accessLine = "(APIServer pid=1) INFO:     10.0.0.7:40%03d - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n"
)

var logsBegin = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// writeLog returns the log of data-parallel ranks in a release's format, with or without access log lines.
func writeLog(form string, interval time.Duration, access bool, ranks ...[]logLine) string {
	var b strings.Builder
	b.WriteString("INFO 11-20 08:40:00 [utils.py:233] non-default args: {'model': 'org/chat-8b', 'max_model_len': 16384}\n")
	for k := range ranks[0] {
		for rank, lines := range ranks {
			l := lines[k]
			for i := range l.requests {
				if access {
					fmt.Fprintf(&b, accessLine, i)
				}
			}
			deferred := ""
			if l.deferred > 0 {
				deferred = fmt.Sprintf(" Deferred: %d reqs,", l.deferred)
			}
			fmt.Fprintf(&b, form, logsBegin.Add(time.Duration(k)*interval).Format("01-02 15:04:05"), rank, l.prompt,
				l.output, l.running, l.waiting, deferred, l.kv)
		}
	}
	return b.String()
}

// writeSGLang returns SGLang's log: a line about the batch every second, and one about prompts every other second.
func writeSGLang(separator string, lines []logLine) string {
	var b strings.Builder
	b.WriteString("[2026-11-20 08:58:00] server_args=ServerArgs(model_path='org/chat-8b', mem_fraction_static=0.88, max_running_requests=None, chunked_prefill_size=8192, tp_size=1, api_key='secret')\n" +
		"[2026-11-20 08:58:40 TP0] max_total_num_tokens=417920, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=131072, available_gpu_mem=8.27 GB\n")
	for k, l := range lines {
		for s := range 10 {
			at := logsBegin.Add(time.Duration(10*k+s) * time.Second).Format(time.DateTime)
			if l.output > 0 {
				fmt.Fprintf(&b, "[%s TP0] Decode batch%s #running-req: %d, #token: 9, token usage: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: %d, \n",
					at, separator, l.running, l.kv/100, l.output, l.waiting)
			}
			if s%2 == 0 && l.prompt > 0 {
				fmt.Fprintf(&b, "[%s TP0] Prefill batch%s #new-seq: 1, #new-token: %.0f, #cached-token: 100, token usage: %.2f, #running-req: %d, #queue-req: %d, \n",
					at, separator, 2*l.prompt, l.kv/100, l.running-1, l.waiting)
			}
			if s < l.requests {
				fmt.Fprintf(&b, "[%s] INFO:     10.0.0.7:40%03d - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n",
					at, s)
			}
		}
	}
	return b.String()
}

func TestLogs(t *testing.T) {
	m := newLogMaker()
	hung := func(k int) logLine { return logLine{running: 28, waiting: 3 + k, kv: 36.2} }
	full := func(k int) logLine {
		return logLine{prompt: m.about(2000, .2), output: m.about(800, .05), running: 32, waiting: min(200, 3+4*k),
			kv: m.about(55, .1), requests: 40}
	}
	fills := func(k int) logLine {
		return logLine{prompt: m.about(1700, .3), output: m.about(1000, .05), running: 40, kv: 60 + 3*float64(k),
			requests: 40}
	}
	thrashes := func(k int) logLine {
		return logLine{
			prompt: m.about(900, .2), output: m.about(820-28*float64(k), .05), running: max(9, 40-2*k),
			waiting: min(60, 3+3*k), kv: 97 + 3*m.Float64(), requests: 10,
		}
	}
	flood := func(int) logLine {
		return logLine{prompt: m.about(14000, .1), output: m.about(130, .2), running: int(m.about(30, .1)), waiting: 4,
			kv: m.about(70, .1), requests: 25}
	}
	leaks := m.then(nil, 91, func(k int) logLine {
		return logLine{prompt: m.about(1700, .2), output: m.about(780, .05), running: 16, kv: 3 + float64(k),
			requests: 30}
	})
	nobody := func(int) logLine { return logLine{} }
	tests := map[string]struct {
		log, want string
		says      []string
	}{
		"hung, V1": {writeLog(lineV1, 10*time.Second, false, m.then(m.good(20), 12, hung)), "engine-hung", []string{"41 requests in flight, no token for 120 s"}},
		"hung with nothing running": {
			writeLog(lineV1, 10*time.Second, false, m.then(m.good(20), 12, func(int) logLine { return logLine{waiting: 6} })), "engine-hung", []string{"6 requests in flight, no token for 120 s"},
		},
		"hung, an older V1 that writes no more lines then": {
			writeLog(lineV1Old, 10*time.Second, false, m.then(m.good(20), 1, hung)) +
				"INFO 11-20 09:05:00 [logger.py:39] Received request chatcmpl-1: prompt: 'x'\nINFO 11-20 09:06:00 [logger.py:39] Received request chatcmpl-2: prompt: 'x'\n",
			"engine-hung",
			[]string{"31 requests in flight, no token for 170 s"},
		},
		"hung, V0": {writeLog(lineV0, 5*time.Second, false, m.then(m.good(40), 20, hung)), "engine-hung", nil},
		"hung, SGLang, whose lines stop while requests come": {
			writeSGLang(",", m.then(m.good(30), 12, func(int) logLine { return logLine{requests: 2} })), "engine-hung", nil,
		},
		"one of two ranks hung": {
			writeLog(lineV1, 10*time.Second, false, m.good(30),
				m.then(m.good(20), 10, func(int) logLine { return logLine{running: 20, waiting: 5, kv: 30} })),
			"engine-hung",
			[]string{"One rank holds requests, and no token for 100 s"},
		},
		"no token for ten seconds": {writeLog(lineV1, 10*time.Second, false, m.then(m.good(20), 1, hung)), "not-certain", nil},

		"saturated": {writeLog(lineV1, 10*time.Second, false, m.then(m.good(20), 30, full)), "saturation", []string{"wait behind a batch of 32"}},
		"saturated all the while, without a start, an older V1": {
			writeLog(lineV1Old, 10*time.Second, false, m.then(nil, 30, func(int) logLine { return full(15) })), "saturation", []string{"wait behind a batch of 32"},
		},
		"saturated, with a line for each request": {
			writeLog(lineV1, 10*time.Second, true, m.then(m.good(20), 30, full)), "saturation", []string{"req/s arrive and"},
		},
		"saturated, V0":     {writeLog(lineV0, 5*time.Second, false, m.then(m.good(40), 60, full)), "saturation", nil},
		"saturated, SGLang": {writeSGLang(".", m.then(m.good(20), 30, full)), "saturation", []string{"req/s arrive and"}},
		"deferred requests": {
			writeLog(lineV1, 10*time.Second, false, m.then(m.good(20), 20, func(k int) logLine {
				return logLine{output: m.about(30, .1), running: 2, waiting: 3 + k, deferred: 3 + k, kv: 3}
			})), "saturation", []string{"passes over 100 % of them"},
		},

		"thrashing": {writeLog(lineV1, 10*time.Second, false, m.then(m.then(m.good(10), 12, fills), 20, thrashes)), "kv-cache-thrashing", []string{"where 40 did"}},
		"thrashing, with a line for each request": {writeLog(lineV1, 10*time.Second, true, m.then(m.then(m.good(10), 12, fills), 20, thrashes)), "kv-cache-thrashing", nil},
		"thrashing, SGLang":                       {writeSGLang(".", m.then(m.then(m.good(10), 12, fills), 20, thrashes)), "kv-cache-thrashing", nil},

		"a flood of prompts": {writeLog(lineV1, 10*time.Second, false, m.then(m.good(25), 12, flood)), "prefill-starvation", []string{"Prompts take the engine"}},
		"a flood of prompts, with a line for each request": {writeLog(lineV1, 10*time.Second, true, m.then(m.good(25), 12, flood)), "prefill-starvation", nil},
		"a flood of prompts, SGLang":                       {writeSGLang(",", m.then(m.good(25), 12, flood)), "prefill-starvation", nil},

		"blocks that nobody frees":                               {writeLog(lineV1, 10*time.Second, false, leaks), "memory-leak", []string{"is not freed"}},
		"blocks that nobody frees, with a line for each request": {writeLog(lineV1, 10*time.Second, true, leaks), "memory-leak", nil},
		"blocks that nobody frees, SGLang":                       {writeSGLang(".", leaks), "memory-leak", nil},

		"the engine died": {
			writeLog(lineV1, 10*time.Second, true, m.good(20)) + "(APIServer pid=1) ERROR 11-20 09:03:14 [async_llm.py:704] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n",
			"target-down", nil,
		},

		"healthy":                               {writeLog(lineV1, 10*time.Second, false, m.good(40)), "healthy", nil},
		"healthy, with a line for each request": {writeLog(lineV1, 10*time.Second, true, m.good(40)), "healthy", nil},
		"healthy, V0":                           {writeLog(lineV0, 5*time.Second, false, m.good(60)), "healthy", nil},
		"healthy, SGLang":                       {writeSGLang(".", m.good(40)), "healthy", nil},
		"healthy, two ranks":                    {writeLog(lineV1, 10*time.Second, false, m.good(40), m.good(40)), "healthy", nil},
		"healthy, few lines":                    {writeLog(lineV1, 10*time.Second, false, m.good(7)), "healthy", nil},
		"queues that clear": {
			writeLog(lineV1, 10*time.Second, false, m.then(nil, 40, func(k int) logLine {
				l := m.good(1)[0]
				l.waiting = []int{0, 0, 8, 0, 3}[k%5]
				return l
			})), "healthy", nil,
		},
		"embeddings": {
			writeLog(lineV1, 10*time.Second, false, m.then(nil, 40, func(int) logLine {
				return logLine{prompt: m.about(30000, .1), running: m.IntN(5), kv: .2}
			})), "healthy", nil,
		},
		"one long answer": {
			writeLog(lineV1, 10*time.Second, false, m.then(nil, 60, func(k int) logLine {
				return logLine{output: m.about(47, .02), running: 1, kv: 1 + float64(k)}
			})), "healthy", nil,
		},
		"a long prompt in chunks": {
			writeLog(lineV1, 10*time.Second, false,
				append(m.then(m.good(10), 4, func(k int) logLine { return logLine{running: 1, kv: 5 + 3*float64(k)} }),
					logLine{prompt: 9000, output: 40, running: 1, kv: 18})), "healthy", nil,
		},
		"a batch job that is done": {
			writeLog(lineV1, 10*time.Second, false,
				m.then(m.then(m.then(nil, 25, func(k int) logLine { return full((25 - k) * 2) }), 3,
					func(k int) logLine {
						return logLine{output: m.about(300, .1), running: 20 - 8*k, kv: 20}
					}), 8, nobody)), "idle", nil,
		},
		"idle": {
			writeLog(lineV1, 10*time.Second, false, m.then(m.good(6), 2, nobody)) +
				"(APIServer pid=1) INFO 11-20 09:09:00 [api_server.py:1] x\n", "idle", nil,
		},
		"idle, SGLang": {
			writeSGLang(".", m.good(6)) + "[2026-11-20 09:01:01] INFO:     10.0.0.7:40001 - \"GET /health HTTP/1.1\" 200 OK\n", "healthy", nil,
		},
		"a restart": {
			writeLog(lineV1, 10*time.Second, false, m.good(20)) +
				strings.ReplaceAll(writeLog(lineV1, 10*time.Second, false, m.good(30)), "11-20 09:0", "11-20 09:1"),
			"healthy", nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := diagnoseLog(t, tt.log)
			if d.Verdict.ID != tt.want {
				t.Errorf("%s: %s, want %s", d.Verdict.ID, d.Verdict.Summary, tt.want)
			}
			for _, w := range tt.says {
				if !strings.Contains(d.Verdict.Summary, w) {
					t.Errorf("%q does not say %q", d.Verdict.Summary, w)
				}
			}
			for _, f := range d.Findings {
				if f.Status != diagnose.Firing {
					continue
				}
				for _, e := range f.Evidence {
					if e.Value.OK && (strings.HasPrefix(e.Signal.Name, "ttft") ||
						strings.HasPrefix(e.Signal.Name, "itl")) {
						t.Errorf("%s: evidence of %s, which no log tells", f.Pathology.ID, e.Signal.Name)
					}
				}
			}
		})
	}
}

func diagnoseLog(t *testing.T, text string) diagnose.Diagnosis {
	t.Helper()
	log, err := engine.ParseLog(strings.NewReader(text), logsBegin.Add(24*time.Hour))
	must.Succeed(t, err)
	s, err := source.OpenLog(t.Context(), "vllm.log", &log)
	must.Succeed(t, err)
	defer s.Close()
	known := identity.Known{}
	known.AddLog(&log)
	o := diagnose.Options{Pathologies: pathologies.All(), Annotate: known.Annotate}
	must.Succeed(t, s.Complete(t.Context(), &o, "", ""))
	d, err := s.Diagnose(t.Context(), o)
	must.Succeed(t, err)
	return d
}
