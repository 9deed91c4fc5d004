package load

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// spec is a small workload.
func spec(prompt, output int) workload.Spec {
	return workload.Spec{Prompt: workload.Fixed(prompt), Output: workload.Fixed(output)}
}

// run runs cfg against a scripted server and returns the recording.
func run(t *testing.T, script script, sp workload.Spec, cfg Config) (*Recording, []truth) {
	t.Helper()
	s := startScripted(script)
	defer s.Close()
	cfg.Target.URL = s.URL()
	if cfg.Target.Model == "" {
		cfg.Target.Model = "scripted"
	}
	g, err := workload.NewGenerator(sp, 1)
	must.Succeed(t, err)
	cfg.Source = g
	r, err := New(cfg)
	must.Succeed(t, err)
	rec, err := r.Run(context.Background(), time.Second, nil)
	must.Succeed(t, err)
	return rec, s.Truths()
}

func TestExchangeMeasuresWhatTheServerDid(t *testing.T) {
	base := script{TTFT: 20 * time.Millisecond, ITL: 4 * time.Millisecond, Tokens: scripted}
	tests := map[string]struct {
		script func(*script)
		target func(*Target)
		// perGap is the tokens of one pause between writes.
		perGap    int
		estimated bool
	}{
		"one token an event":                       {perGap: 1},
		"chat":                                     {target: func(t *Target) { t.API = Chat }, perGap: 1},
		"an early empty role chunk is no token":    {script: func(s *script) { s.RoleChunk = true }, target: func(t *Target) { t.API = Chat }, perGap: 1},
		"a role chunk without any usage":           {script: func(s *script) { s.RoleChunk, s.NoUsage = true, true }, target: func(t *Target) { t.API = Chat }, perGap: 1, estimated: true},
		"four tokens in an event":                  {script: func(s *script) { s.TokensPerChunk = 4 }, perGap: 4},
		"four tokens in an event, told at the end": {script: func(s *script) { s.TokensPerChunk = 4 }, target: func(t *Target) { t.FinalUsage = true }, perGap: 4, estimated: true},
		"three events in a packet":                 {script: func(s *script) { s.ChunksPerWrite = 3 }, perGap: 3},
		"packets that split events":                {script: func(s *script) { s.SplitWrites = true }, perGap: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			script, cfg := base, Config{Concurrency: 4, MaxRequests: 12}
			cfg.Target = Target{API: Completions}
			if tt.script != nil {
				tt.script(&script)
			}
			if tt.target != nil {
				tt.target(&cfg.Target)
			}
			// A machine that stalls spoils a measurement, a mistake in measuring spoils all.
			var off []string
			for range 8 {
				if off = mismeasured(t, script, cfg, tt.perGap, tt.estimated); len(off) == 0 {
					return
				}
			}
			t.Error(off)
		})
	}
}

// scripted is how many tokens the answers of TestExchangeMeasuresWhatTheServerDid have.
const scripted = 24

// mismeasured runs a dozen requests and returns the measurements that differ from the truth.
func mismeasured(t *testing.T, script script, cfg Config, perGap int, estimated bool) (off []string) {
	t.Helper()
	const tokens = scripted
	add := func(format string, args ...any) { off = append(off, fmt.Sprintf(format, args...)) }
	rec, truths := run(t, script, spec(16, scripted), cfg)
	if rec.Len() != 12 || len(truths) != 12 {
		t.Fatalf("%d records, %d truths; want 12", rec.Len(), len(truths))
	}
	var firsts, gaps, trueFirsts, trueGaps []float64
	for _, tr := range truths {
		trueFirsts = append(trueFirsts, tr.First.Seconds())
		trueGaps = append(trueGaps, tr.Gaps.Seconds()/float64(tokens-perGap))
	}
	for r := range rec.Records() {
		if r.Outcome != Complete || r.OutputTokens != tokens || r.Estimated != estimated || int(r.FirstTokens) < perGap {
			t.Fatalf("record %+v of outcome %s, errors %v", *r, r.Outcome, rec.Errors)
		}
		firsts = append(firsts, r.TTFT().Seconds())
		gaps = append(gaps, r.TPOT().Seconds())
	}
	// The minimum and the median, because the test machine may stall; a wrong first token or token count would affect
	// all.
	first, trueFirst, gap, trueGap := slices.Min(firsts), slices.Min(trueFirsts), median(gaps), median(trueGaps)
	if first < trueFirst-0.001 || first > trueFirst+0.010 {
		add("TTFT %.2f ms, the server's truth is %.2f ms", 1e3*first, 1e3*trueFirst)
	}
	if math.Abs(gap-trueGap) > 0.25*trueGap {
		add("time per token %.3f ms, the server's truth is %.3f ms", 1e3*gap, 1e3*trueGap)
	}
	res := Summarize(rec, Settings{})
	// The mean or the median of the gaps: events that come together because the
	// machine stalled spoil the one, a stall within the window the other, and
	// gaps that are counted wrongly both.
	whole := mean(trueGaps)
	if itl := res.Latency[ITL]; itl == nil || itl.Count > int64(12*(tokens-perGap)) || itl.Count < 6*(tokens-int64(perGap)) ||
		math.Abs(itl.Mean-whole) > 0.25*whole && math.Abs(itl.Quantiles[0].Value-trueGap) > 0.25*trueGap {
		add("inter-token latency %+v, want %d gaps of %.3f ms", itl, 12*(tokens-perGap), 1e3*whole)
	}
	return off
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x / float64(len(v))
	}
	return sum
}

func median(v []float64) float64 {
	slices.Sort(v)
	return stat.Quantile(v, 0.5)
}

func TestOpenLoopDoesNotWaitForTheServer(t *testing.T) {
	a := workload.Constant(100)
	rec, _ := run(t, script{TTFT: 50 * time.Millisecond, Tokens: 1}, spec(4, 1),
		Config{Target: Target{API: Completions}, Arrivals: &a, MaxRequests: 40})
	if want := 390 * time.Millisecond; rec.Dispatched.Round(time.Millisecond) != want || rec.Len() != 40 {
		t.Errorf("%d requests, the last due after %s; want 40 within %s", rec.Len(), rec.Dispatched, want)
	}
	for r := range rec.Records() {
		if r.Sent < r.Scheduled {
			t.Errorf("sent %s before it was due", r.Scheduled-r.Sent)
		}
	}
}

func TestOpenLoopEndsWithTooManyStreams(t *testing.T) {
	a := workload.Constant(100)
	g, _ := workload.NewGenerator(spec(4, 1), 1)
	r, err := New(Config{Target: Target{URL: "http://127.0.0.1:1", Model: "m"}, Source: g, Arrivals: &a, MaxRequests: 40})
	must.Succeed(t, err)
	r.queue.running = maxStreams
	rec, err := r.Run(context.Background(), time.Second, nil)
	must.Succeed(t, err)
	res := Summarize(rec, Settings{})
	if !res.Interrupted || !strings.Contains(strings.Join(res.Notes, " "), "10000 requests were open at once") {
		t.Errorf("interrupted %v, notes %q", res.Interrupted, res.Notes)
	}
}

func TestCancelledContextKeepsWhatWasMeasured(t *testing.T) {
	s := startScripted(script{TTFT: time.Millisecond, ITL: 20 * time.Millisecond, Tokens: 10})
	defer s.Close()
	g, _ := workload.NewGenerator(spec(4, 10), 1)
	r, err := New(Config{Target: Target{URL: s.URL(), Model: "m"}, Source: g, Concurrency: 4, MaxRequests: 1_000_000})
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	rec, err := r.Run(ctx, time.Second, nil)
	must.Succeed(t, err)
	res := Summarize(rec, Settings{})
	if !res.Interrupted || res.Requests.Complete < 4 || res.Requests.Unfinished == 0 || res.Requests.Failed != 0 {
		t.Errorf("interrupted %v, requests %+v", res.Interrupted, res.Requests)
	}
}

func TestKeptConnectionsThatDiedAreReplaced(t *testing.T) {
	rec, _ := run(t, script{TTFT: time.Millisecond, Tokens: 2, CloseEachTime: true}, spec(4, 2),
		Config{Target: Target{API: Completions}, Concurrency: 1, MaxRequests: 5})
	for r := range rec.Records() {
		if r.Outcome != Complete {
			t.Errorf("%s: %v", r.Outcome, rec.Errors)
		}
	}
	if rec.Connections < 5 {
		t.Errorf("%d connections, though the server closed each unasked", rec.Connections)
	}
}

func TestAServerThatDiesIsToldFromOneThatRefuses(t *testing.T) {
	s := startScripted(script{TTFT: time.Millisecond, ITL: time.Millisecond})
	g, err := workload.NewGenerator(spec(4, 4), 1)
	must.Succeed(t, err)
	r, err := New(Config{Target: Target{URL: s.URL(), Model: "m"}, Source: g, Arrivals: &workload.Arrivals{Profile: []workload.Segment{{From: 100, To: 100}}}, Duration: time.Second})
	must.Succeed(t, err)
	time.AfterFunc(400*time.Millisecond, func() { s.Close() })
	rec, err := r.Run(context.Background(), time.Second, nil)
	must.Succeed(t, err)
	res := Summarize(rec, Settings{})
	if res.Requests.Complete < 5 || res.Gone < 0.2 || res.Gone > 0.9 {
		t.Errorf("gone at %g s after %+v", res.Gone, res.Requests)
	}
	if rate := float64(res.Requests.Complete) / res.Gone; math.Abs(res.Throughput.Requests-rate) > 0.1*rate {
		t.Errorf("throughput %g requests/s, want that of the time until then, %g", res.Throughput.Requests, rate)
	}
}

func TestWayToConnect(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EMFILE: "ulimit -n", syscall.EADDRNOTAVAIL: "local ports", syscall.ECONNREFUSED: "server runs",
	} {
		if got := wayToConnect(fmt.Errorf("connect: %w", err)); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestServerDown(t *testing.T) {
	s := startScripted(script{})
	url := s.URL()
	s.Close()
	g, _ := workload.NewGenerator(spec(4, 2), 1)
	r, err := New(Config{Target: Target{URL: url, Model: "m"}, Source: g, Concurrency: 2, MaxRequests: 4})
	must.Succeed(t, err)
	if _, err = r.Run(context.Background(), time.Second, nil); err == nil || !strings.Contains(err.Error(), "connect to") {
		t.Errorf("error %v, want one that names the connection", err)
	}
}

func TestFurtherFieldsOfTheBody(t *testing.T) {
	turn := workload.Turn{OutputTokens: 7, Parts: []workload.PromptPart{{Seed: 1, Tokens: 2}}}
	for name, tt := range map[string]struct {
		extra         map[string]any
		with, without []string
	}{
		"none":                           {nil, []string{`"ignore_eos":true`, `"min_tokens":7`, `"max_tokens":7`}, nil},
		"the model may end its answers":  {map[string]any{"ignore_eos": nil, "min_tokens": nil}, []string{`"max_tokens":7`}, []string{"ignore_eos", "min_tokens"}},
		"a shortest answer of one's own": {map[string]any{"min_tokens": 3, "top_p": 0.9}, []string{`"min_tokens":3`, `"top_p":0.9`}, []string{`"min_tokens":7`}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newEndpoint(Target{URL: "http://a", Model: "m", IgnoreEOS: true, Extra: tt.extra}, DefaultVocabulary())
			must.Succeed(t, err)
			body := string(e.appendBody(nil, &turn))
			for _, want := range tt.with {
				if !strings.Contains(body, want) {
					t.Errorf("%s is missing in %s", want, body)
				}
			}
			for _, not := range tt.without {
				if strings.Contains(body, not) {
					t.Errorf("%s is in %s", not, body)
				}
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	g, _ := workload.NewGenerator(spec(4, 2), 1)
	a := workload.Constant(5)
	ok := Target{URL: "http://localhost:1", Model: "m"}
	tests := map[string]struct {
		cfg Config
		err string
	}{
		"no workload":                       {Config{Target: ok, Concurrency: 1, MaxRequests: 1}, "no workload"},
		"no load":                           {Config{Target: ok, Source: g, MaxRequests: 1}, "one of a concurrency"},
		"two loads":                         {Config{Target: ok, Source: g, Concurrency: 1, Arrivals: &a, MaxRequests: 1}, "one of a concurrency"},
		"no end":                            {Config{Target: ok, Source: g, Concurrency: 1}, "no end"},
		"no end of an open loop":            {Config{Target: ok, Source: g, Arrivals: &a}, "no end"},
		"no URL":                            {Config{Target: Target{URL: "localhost:8000"}, Source: g, Concurrency: 1, MaxRequests: 1}, "not an http"},
		"another API":                       {Config{Target: Target{URL: "http://a", API: "embeddings"}, Source: g, Concurrency: 1, MaxRequests: 1}, "want chat or completions"},
		"API against URL":                   {Config{Target: Target{URL: "http://a/v1/completions", API: Chat}, Source: g, Concurrency: 1, MaxRequests: 1}, "but --api is"},
		"a header with a line end":          {Config{Target: Target{URL: "http://a", Headers: http.Header{"X-A": {"b\r\nc: d"}}}, Source: g, Concurrency: 1, MaxRequests: 1}, "cannot be sent"},
		"an extra field that the test sets": {Config{Target: Target{URL: "http://a", Extra: map[string]any{"stream": true}}, Source: g, Concurrency: 1, MaxRequests: 1}, "set by the test"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}
