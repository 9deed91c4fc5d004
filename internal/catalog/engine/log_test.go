package engine

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func parse(t *testing.T, log string) Log {
	t.Helper()
	l, err := ParseLog(strings.NewReader(log), now)
	must.Succeed(t, err)
	return l
}

func parseFile(t *testing.T, name string) Log {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "logs", name))
	must.Succeed(t, err)
	return parse(t, string(b))
}

// values is a Config without its source, which is always the log.
func values(t *testing.T, c Config) map[string]string {
	t.Helper()
	m := map[string]string{}
	for flag, s := range c {
		if m[flag] = s.Value; s.Source != logSource {
			t.Errorf("%s has source %q", flag, s.Source)
		}
	}
	return m
}

// The log is that of a real server whose engine process was killed at the end.
func TestARealLogOfV1(t *testing.T) {
	l := parseFile(t, "v0.23.0-crash.log")
	wantConfig := map[string]string{
		MaxNumSeqs: "32", MaxNumBatchedTokens: "512", MaxModelLen: "8192", ChunkedPrefill: "True",
		PrefixCaching: "True", KVCacheDtype: "auto", TensorParallelSize: "1", DataParallelSize: "1", KVTokens: "524288",
	}
	if diff := cmp.Diff(wantConfig, values(t, l.Config)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if l.Version != "0.23.0" || l.Model != "tiny" || l.KVTokens != 524288 || l.Starts != 0 {
		t.Errorf("version %q, model %q, %d tokens, %d starts", l.Version, l.Model, l.KVTokens, l.Starts)
	}
	want := LogStat{
		At: time.Date(2026, 11, 21, 6, 28, 23, 0, time.UTC), Engine: "0",
		PromptTokensPerSecond: 478.8, GenerationTokensPerSecond: 255.6, Running: 6, KVUsage: 0.015,
	}
	if diff := cmp.Diff(want, l.Stats[0], cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("first statistics (-want +got):\n%s", diff)
	}
	crash := time.Date(2026, 11, 21, 6, 34, 41, 0, time.UTC)
	wantErrors := []LogError{{ErrorEngineCrash, 1, crash}, {ErrorEngineDead, 1, crash}}
	if diff := cmp.Diff(wantErrors, l.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestALogOfV0(t *testing.T) {
	l := parseFile(t, "v0.6.6-preemption.log")
	wantConfig := map[string]string{
		MaxNumSeqs: "256", MaxModelLen: "8192", ChunkedPrefill: "False", PrefixCaching: "True",
		KVCacheDtype: "auto", TensorParallelSize: "2", GPUMemoryUtilization: "0.85", NumBlocks: "2789",
	}
	if diff := cmp.Diff(wantConfig, values(t, l.Config)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if l.Version != "0.6.6.post1" || l.Model != "org/chat-7b" || l.KVTokens != 0 {
		t.Errorf("version %q, model %q, %d tokens: a prompt was believed?", l.Version, l.Model, l.KVTokens)
	}
	want := []LogStat{
		{At: time.Date(2026, 7, 22, 3, 8, 5, 0, time.UTC), Engine: "0", PromptTokensPerSecond: 2411, GenerationTokensPerSecond: 247.2, Running: 35, Waiting: 5, KVUsage: .95, PrefixHitRate: .7973, Seen: LogCounts{Received: 1}},
		{At: time.Date(2026, 7, 22, 3, 8, 10, 0, time.UTC), Engine: "0", GenerationTokensPerSecond: 120, Running: 30, Waiting: 10, KVUsage: .991, PrefixHitRate: .79, Preemptions: 51, Seen: LogCounts{Received: 1}},
	}
	if diff := cmp.Diff(want, l.Stats, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if len(l.Errors) != 1 || l.Errors[0].Kind != ErrorPreemption {
		t.Errorf("errors %v, want the preemption alone", l.Errors)
	}
	if all := fmt.Sprintf("%+v", l); strings.Contains(all, "secret") || strings.Contains(all, "cmpl-") {
		t.Errorf("the log kept an API key or a request: %s", all)
	}
}

const stat = "INFO 11-21 06:28:23 [loggers.py:271] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs"

func TestLines(t *testing.T) {
	tests := map[string]struct {
		log   string
		check func(Log) bool
	}{
		"the capacity in one line, 0.28 and later": {
			"(EngineCore pid=1) INFO 11-21 06:28:23 [kv_cache_utils.py:2312] GPU KV cache size: 23,296 tokens, Maximum concurrency for 4,096 tokens per request: 5.69x",
			func(l Log) bool {
				return l.KVTokens == 23296 && l.Config[MaxModelLen].Value == "4096"
			},
		},
		"the memory for the KV cache": {
			"INFO 11-21 06:28:23 [gpu_worker.py:481] Available KV cache memory: 1.5 GiB",
			func(l Log) bool { return l.KVBytes == 1.5*(1<<30) },
		},
		"the memory of the weights": {
			"INFO 01-27 00:31:59 [gpu_model_runner.py:3905] Model loading took 64.38 GiB memory and 14.380607 seconds",
			func(l Log) bool { return l.WeightBytes == 64.38*(1<<30) },
		},
		"the memory of the weights, V0, in GB that are GiB": {
			"INFO 01-30 03:18:12 gpu_model_runner.py:848] Loading model weights took 67.7229 GB",
			func(l Log) bool { return l.WeightBytes == 67.7229*(1<<30) },
		},
		"colours, a container's name and CR LF": {
			"vllm-1  | \x1b[0;36m(EngineCore pid=1)\x1b[0;0m INFO 11-21 06:28:23 [x.py:1] GPU KV cache size: 16 tokens\r\n",
			func(l Log) bool { return l.KVTokens == 16 },
		},
		"deferred requests and an external cache in the statistics": {
			stat + ", Deferred: 2 reqs, Preemptions: 1, GPU KV cache usage: 50.0%, Prefix cache hit rate: 25.0%, External prefix cache hit rate: 75.0%",
			func(l Log) bool { return l.Stats[0].KVUsage == .5 && l.Stats[0].PrefixHitRate == .25 },
		},
		"of those that wait some are deferred": {
			stat + ", Deferred: 2 reqs, GPU KV cache usage: 50.0%", func(l Log) bool { return l.Stats[0].Waiting == 4 && l.Stats[0].Deferred == 2 },
		},
		"the year and a fraction in the time, as NIM and plug-ins write": {
			"[vllm-rbln] INFO 2026-10-07 22:01:17,796 [loggers.py:248] Engine 001: Avg prompt throughput: 4.1 tokens/s, Avg generation throughput: 6.2 tokens/s, Running: 7 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%\n" +
				"INFO 2026-10-07 22:01:22.957 metrics.py:386] Avg prompt throughput: 0.2 tokens/s, Avg generation throughput: 1.1 tokens/s, Max iteration time: 386.7 ms, Avg time/tok:149.4 ms, Running: 8 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 99.0%, CPU KV cache usage: 0.0%",
			func(l Log) bool {
				return l.Stats[0].Engine == "1" && l.Stats[1].Running == 8 && l.Stats[1].At.Equal(time.Date(2026, 10, 7, 22, 1, 22, 0, time.UTC)) && l.Interval() == logInterval
			},
		},
		"lines of the HTTP server, of requests to the engine alone": {
			"INFO:     10.0.0.7:1 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\nINFO:     10.0.0.7:1 - \"POST /v1/completions?x=1 HTTP/1.1\" 503 Service Unavailable\n" +
				"INFO:     10.0.0.7:1 - \"POST /tokenize HTTP/1.1\" 200 OK\nINFO:     10.0.0.7:1 - \"GET /metrics HTTP/1.1\" 200 OK\nx - \"POST /v1/completions HTTP/1.1\" 200 OK\n" +
				"(APIServer pid=1) INFO:     10.0.0.7:1 - \"POST /v1/embeddings HTTP/1.1\" 400 Bad Request\n" + stat,
			func(l Log) bool { return l.Stats[0].Seen.Answers == [3]int64{1, 1, 1} && l.Seen == l.Stats[0].Seen },
		},
		"the time of the end": {
			stat + "\n" + strings.Replace(stat, "06:28:23", "06:28:33", 1) + "\nINFO 11-21 06:31:00 [launcher.py:1] x\nINFO:     10.0.0.7:1 - \"GET /health HTTP/1.1\" 200 OK\n",
			func(l Log) bool { return l.End.Equal(time.Date(2026, 11, 21, 6, 31, 0, 0, time.UTC)) },
		},
		"an engine that died, and one that lives again": {
			stat + "\nERROR 11-21 06:30:00 [x.py:1] EngineDeadError: x\n" + strings.Replace(stat, "06:28", "06:40", 1),
			func(l Log) bool { return l.Died.IsZero() && len(l.Errors) == 1 },
		},
		"a worker that does not answer": {
			stat + "\nINFO 11-21 06:30:00 [x.py:1] No available shared memory broadcast block found in 60 seconds.\nWARNING 11-21 06:30:00 [x.py:1] No available shared memory broadcast block found in 60 seconds.",
			func(l Log) bool { return len(l.Errors) == 1 && l.Errors[0].Kind == ErrorStalled },
		},
		"statistics without a hit rate": {
			stat + ", GPU KV cache usage: 50.0%", func(l Log) bool { return math.IsNaN(l.Stats[0].PrefixHitRate) },
		},
		"a traceback without a prefix": {
			"(EngineCore pid=1) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
			func(l Log) bool { return len(l.Errors) == 1 && l.Errors[0].Kind == ErrorOutOfMemory },
		},
		"a prompt on lines of its own is no failure": {
			stat + "\nwhat to do when CUDA out of memory\n", func(l Log) bool { return len(l.Errors) == 0 },
		},
		"the last December, seen in January, and a time zone ahead of UTC": {
			strings.Replace(stat, "11-21 06:28:23", "12-01 13:00:00", 1) + "\n" + strings.Replace(stat, "11-21", "12-31", 1),
			func(l Log) bool { return l.Stats[0].At.Year() == 2026 && l.Stats[1].At.Year() == 2025 },
		},
		"a leap day": {
			strings.Replace(stat, "11-21", "02-29", 1), func(l Log) bool { return l.Stats[0].At.Year() == 2024 },
		},
		"a second start replaces what the first one said": {
			"INFO 11-21 06:00:00 [u.py:1] non-default args: {'max_num_seqs': 8, 'block_size': 32}\n" + stat +
				"\nINFO 11-21 07:00:00 [u.py:1] vLLM API server version 0.11.0\nINFO 11-21 07:00:00 [u.py:1] non-default args: {'max_num_seqs': 4}\n" + stat,
			func(l Log) bool {
				return l.Starts == 1 && len(l.Config) == 1 && l.Config[MaxNumSeqs].Value == "4" && l.Version == "0.11.0" && l.Stats[1].Run == 1
			},
		},
		"nested and quoted arguments are not taken": {
			`INFO 11-21 06:00:00 [u.py:1] non-default args: {'served_model_name': ['a', 'b'], 'x': {'max_num_seqs': 1}, 'y': "'max_num_seqs': 2, max_num_seqs=3", 'z': [{'max_num_seqs': 4}]}`,
			func(l Log) bool { return len(l.Config) == 0 && l.Model == "a" },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if l := parse(t, tt.log); !tt.check(l) {
				t.Errorf("%+v", l)
			}
		})
	}
}

// The lines are of 0.3, which has no day, of 0.5 with data-parallel ranks, and of a newer release.
func TestALogOfSGLang(t *testing.T) {
	l := parseFile(t, "sglang-0.5.log")
	wantConfig := map[string]string{
		MaxNumSeqs: "2048", MaxNumBatchedTokens: "8192", MaxModelLen: "131072", KVTokens: "417920",
		GPUMemoryUtilization: "0.88", TensorParallelSize: "2", DataParallelSize: "2", BlockSize: "1",
	}
	if diff := cmp.Diff(wantConfig, values(t, l.Config)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	at := func(s int) time.Time { return time.Date(2026, 5, 27, 20, 14, s, 0, time.UTC) }
	want := []LogStat{
		{At: at(40), Engine: "0", PromptTokensPerSecond: 1843.2, CachedTokensPerSecond: 51.2, GenerationTokensPerSecond: 600, Running: 18, Waiting: 3, KVUsage: .71, Seen: LogCounts{Begun: 2, Answers: [3]int64{1}}},
		{At: at(40), Engine: "1", GenerationTokensPerSecond: 0, Running: 4, KVUsage: .1, Seen: LogCounts{Begun: 2, Answers: [3]int64{1}}},
		{At: at(45), Engine: "0", GenerationTokensPerSecond: 5000. / 7, Running: 16, Waiting: 5, KVUsage: .99, Preemptions: 2, Seen: LogCounts{Begun: 2, Answers: [3]int64{1}}},
	}
	if diff := cmp.Diff(want, l.Stats, cmpopts.EquateApprox(0, 1e-9), cmpopts.IgnoreFields(LogStat{}, "PrefixHitRate")); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if l.Model != "org/chat-8b" || !l.SGLang || len(l.Errors) != 2 || l.Errors[1].Kind != ErrorStalled || strings.Contains(fmt.Sprintf("%+v", l), "secret") {
		t.Errorf("model %q, errors %v", l.Model, l.Errors)
	}
	if l := parse(t, "[04:40:55 TP0] Decode batch. #running-req: 2, #token: 4078, token usage: 0.25, gen throughput (token/s): 447.31, #queue-req: 0"); len(l.Stats) != 1 || l.Stats[0].KVUsage != .25 || l.Stats[0].At.Hour() != 4 {
		t.Errorf("%+v", l.Stats)
	}
}

func TestALogWithoutAKnownLineIsAnError(t *testing.T) {
	for _, log := range []string{"", "hello\n", strings.Repeat("x", 3*maxLine), "GET /metrics KV cache\n"} {
		if _, err := ParseLog(strings.NewReader(log), now); err == nil || hint.Of(err) == "" {
			t.Errorf("%.20q: error %v, hint %q", log, err, hint.Of(err))
		}
	}
}

func TestALineTooLongDoesNotHideTheNext(t *testing.T) {
	l := parse(t, strings.Repeat("KV cache ", maxLine)+"\n"+stat+"\n")
	if len(l.Stats) != 1 {
		t.Errorf("%d statistics, want 1", len(l.Stats))
	}
}

// endless gives lines of dots for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
		if i%1024 != 0 {
			p[i] = '.'
		}
	}
	return len(p), nil
}

func TestAnEndlessLogIsAnError(t *testing.T) {
	_, err := ParseLog(endless{}, now)
	if err == nil || !strings.Contains(err.Error(), "256 MiB") || hint.Of(err) == "" {
		t.Errorf("error %v, hint %q", err, hint.Of(err))
	}
}

func TestTheLatestStatisticsAreKept(t *testing.T) {
	l := parse(t, strings.Repeat(stat+"\n", maxLogStats)+strings.Replace(stat, "Running: 3", "Running: 9", 1))
	if len(l.Stats) != maxLogStats || l.Stats[maxLogStats-1].Running != 9 {
		t.Errorf("%d statistics, the last %+v", len(l.Stats), l.Stats[len(l.Stats)-1])
	}
}

func TestPagesIntegrateTheThroughputs(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	l := Log{Model: `a"b`, Stats: []LogStat{
		{At: at(0), Engine: "0", GenerationTokensPerSecond: 10, Running: 1, KVUsage: .5, PrefixHitRate: math.NaN()},
		{At: at(0), Engine: "1", GenerationTokensPerSecond: 1, PrefixHitRate: .5},
		{At: at(10), Engine: "0", GenerationTokensPerSecond: 10, PrefixHitRate: math.NaN()},
		{At: at(20), Engine: "0", GenerationTokensPerSecond: 10, PrefixHitRate: math.NaN()},
		{At: at(620), Engine: "0", GenerationTokensPerSecond: 10, PrefixHitRate: math.NaN()}, // after ten idle minutes
		{At: at(630), Run: 1, Engine: "0", GenerationTokensPerSecond: 7, PrefixHitRate: math.NaN()},
		{At: at(5), Run: 1, Engine: "0", PrefixHitRate: math.NaN()}, // the clock went back
	}}
	pages := l.Pages()
	var got []string
	for _, p := range pages {
		for line := range strings.Lines(string(p.Body)) {
			if strings.HasPrefix(line, "vllm:generation") {
				got = append(got, fmt.Sprintf("%v %s", p.At.Sub(now).Seconds(), strings.TrimSpace(line)))
			}
		}
	}
	want := []string{
		`0 vllm:generation_tokens_total{engine="0",model_name="a\"b"} 100`,
		`0 vllm:generation_tokens_total{engine="1",model_name="a\"b"} 10`,
		`10 vllm:generation_tokens_total{engine="0",model_name="a\"b"} 200`,
		`10 vllm:generation_tokens_total{engine="1",model_name="a\"b"} 10`,
		`20 vllm:generation_tokens_total{engine="0",model_name="a\"b"} 300`,
		`20 vllm:generation_tokens_total{engine="1",model_name="a\"b"} 10`,
		`620 vllm:generation_tokens_total{engine="0",model_name="a\"b"} 400`,
		`620 vllm:generation_tokens_total{engine="1",model_name="a\"b"} 10`,
		`630 vllm:generation_tokens_total{engine="0",model_name="a\"b"} 70`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	first := string(pages[0].Body)
	if !strings.Contains(first, `vllm:gpu_prefix_cache_hit_rate{engine="1",model_name="a\"b"} 0.5`) || strings.Contains(first, "NaN") || strings.Contains(first, "preemptions") {
		t.Errorf("page:\n%s", first)
	}
}

func TestPagesWithoutTimestampsAreTenSecondsApart(t *testing.T) {
	_, message, _ := strings.Cut(stat, "] ")
	pages := parse(t, message+"\n"+message+"\n").Pages()
	if len(pages) != 2 || pages[1].At.Sub(pages[0].At) != 10*time.Second || !strings.Contains(string(pages[1].Body), "vllm:generation_tokens_total{engine=\"0\",model_name=\"\"} 40\n") {
		t.Errorf("%d pages: %s", len(pages), pages)
	}
}

func FuzzParseLog(f *testing.F) {
	logs, _ := filepath.Glob("testdata/logs/*.log")
	for _, name := range logs {
		b, err := os.ReadFile(name)
		must.Succeed(f, err)
		for line := range bytes.Lines(b) {
			f.Add(line) // short seeds: the fuzzer is fast on them
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLog(bytes.NewReader(b), now)
		if err != nil {
			return
		}
		last := time.Time{}
		for _, p := range l.Pages() {
			if !p.At.After(last) {
				t.Fatalf("page at %s after one at %s", p.At, last)
			}
			last = p.At
		}
		for flag, s := range l.Config {
			if s.Value == "" {
				t.Errorf("%s is set to nothing", flag)
			}
		}
	})
}
