package load

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// synthetic returns a result of n requests with the latencies of a healthy server, multiplied by factor.
func synthetic(seed uint64, n int, factor float64) *Result {
	rng := rand.New(rand.NewPCG(seed, 0))
	rec := &Recording{
		Start: time.Unix(1_700_000_000, 0), SliceWidth: firstSlice, Errors: map[Outcome][]string{},
		Generator: Generator{Cores: 2, CPU: 1},
	}
	at := time.Duration(0)
	for range n {
		at += time.Duration(rng.ExpFloat64() * float64(100*time.Millisecond))
		first := time.Duration(factor * (200 + 50*rng.NormFloat64()) * float64(time.Millisecond))
		rest := time.Duration(factor * (900 + 50*rng.NormFloat64()) * float64(time.Millisecond))
		*rec.records.addRecord() = Record{
			Scheduled: at, Sent: at, FirstByte: at + first, First: at + first, Last: at + first + rest, End: at + first + rest,
			WantPrompt: 100, PromptTokens: 100, WantOutput: 31, OutputTokens: 31, FirstTokens: 1, Status: 200, Outcome: Complete,
		}
		rec.Dispatched, rec.Duration = at, max(rec.Duration, at+first+rest)
	}
	a := workload.Constant(10)
	a.CV = 1
	return Summarize(rec, Settings{Target: Asked{Model: "m", API: Chat}, Load: Shape{Arrivals: &a}, Warmup: 0})
}

func TestCompare(t *testing.T) {
	tests := map[string]struct {
		a, b *Result
		want string // verdict of ttft_mean and e2e_mean
	}{
		"the same server twice":                    {synthetic(1, 600, 1), synthetic(2, 600, 1), "same"},
		"a server a fifth slower":                  {synthetic(1, 600, 1), synthetic(2, 600, 1.2), "worse"},
		"a server a fifth faster":                  {synthetic(1, 600, 1), synthetic(2, 600, 0.8), "better"},
		"a difference that is too small to matter": {synthetic(1, 20_000, 1), synthetic(2, 20_000, 1.01), "same"},
		"one request against many":                 {synthetic(1, 1, 1), synthetic(2, 600, 1), "unknown"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Compare(tt.a, tt.b, 0.02)
			must.Succeed(t, err)
			seen := 0
			for _, x := range c.Changes {
				if x.Quantity == "ttft_mean" || x.Quantity == "e2e_mean" {
					seen++
					if x.Verdict != tt.want {
						t.Errorf("%s is %s, want %s: %+v", x.Quantity, x.Verdict, tt.want, x)
					}
				}
			}
			if seen != 2 || c.Worse() != (tt.want == "worse") {
				t.Errorf("%d quantities, worse %v", seen, c.Worse())
			}
			if _, err := json.Marshal(c); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFalseAlarmsAreRare(t *testing.T) {
	alarms := 0
	for i := range uint64(40) {
		c, err := Compare(synthetic(2*i, 300, 1), synthetic(2*i+1, 300, 1), 0)
		must.Succeed(t, err)
		if c.Worse() {
			alarms++
		}
	}
	if alarms > 4 {
		t.Errorf("%d of 40 comparisons of equal servers found one worse, want at most 5 %% and some chance", alarms)
	}
}

func TestResultsSurviveJSON(t *testing.T) {
	raw, err := json.Marshal(synthetic(1, 200, 1))
	must.Succeed(t, err)
	got, err := readResult(raw)
	must.Succeed(t, err)
	again, err := json.Marshal(got)
	must.Succeed(t, err)
	if diff := cmp.Diff(string(raw), string(again)); diff != "" {
		t.Errorf("reading and writing changes a result:\n%s", diff)
	}
	for name, bad := range map[string]string{
		"nothing": "", "another schema": `{"schema":"x"}`, "several results": " [{}]", "null": "null",
		"a latency without values": `{"schema":"` + Schema + `","latency":{"ttft":null}}`,
	} {
		if _, err := readResult([]byte(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzReadResult(f *testing.F) {
	f.Add([]byte(`{"schema":"sixty.bench/v1","latency":{"ttft":{"count":3,"mean":1,"quantiles":[{"q":0.5,"value":1}]}},"throughput":{"requests":3}}`))
	f.Add([]byte(`{"schema":"sixty.bench/v1","requests":{"errors":{"http_503":4}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readResult(raw)
		if err != nil {
			return
		}
		if _, err := Compare(r, r, 0.02); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAssertions(t *testing.T) {
	r := synthetic(1, 500, 1)
	tests := map[string]struct {
		text  string
		holds bool
		err   string
	}{
		"a percentile below":        {"ttft_p95<500ms", true, ""},
		"a percentile above":        {" e2e_p50 >= 2 s ", false, ""},
		"a mean in seconds":         {"e2e_mean<1.5", true, ""},
		"a rate":                    {"requests>5", true, ""},
		"a share in percent":        {"error_rate<=1%", true, ""},
		"goodput without objective": {"goodput>0.5", false, ""},
		"an unknown quantity":       {"foo_p95<5ms", false, "unknown quantity"},
		"an unknown percentile":     {"ttft_p42<5ms", false, "unknown quantity"},
		"no comparison":             {"ttft_p95", false, "cannot be read"},
		"no number":                 {"ttft_p95<e", false, "not a number"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, err := ParseAssertion(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			must.Succeed(t, err)
			if v, holds := a.Check(r); holds != tt.holds {
				t.Errorf("%s with %v: %v", a, v, holds)
			}
		})
	}
}

func TestGoodputAndObjective(t *testing.T) {
	chat, err := slo.ForUseCase("chat")
	must.Succeed(t, err)
	fast, slow := synthetic(1, 300, 1), synthetic(1, 300, 4)
	if err := fast.Meets(&chat); err == nil {
		t.Error("an objective for inter-token latency was met by a result without any")
	}
	chat.ITLP95 = 0
	if err := fast.Meets(&chat); err != nil {
		t.Error(err)
	}
	if err := slow.Meets(&chat); err == nil || !strings.Contains(err.Error(), "ttft_scheduled") {
		t.Errorf("error %v, want the missed latency", err)
	}
}

func TestBaseline(t *testing.T) {
	chat, _ := slo.ForUseCase("chat")
	r := synthetic(1, 500, 1)
	p95, _ := r.Latency[E2E].At(0.95)
	inside := r.Window.From + 0.1
	r.Server = &Server{
		Series: []ServerPoint{{inside, map[string]float64{"waiting": 4, "preemption_rate": 0}}, {inside + 1, map[string]float64{"waiting": 2}}, {r.Window.To + 9, map[string]float64{"waiting": 90}}},
		Normal: map[string]float64{"e2e_p95": 2 * p95.High, "kv_cache_usage": 0.4},
	}
	b, err := NewBaseline(r, &chat, 12, time.Unix(0, 0))
	must.Succeed(t, err)
	got := map[string]float64{}
	for _, x := range b.Thresholds {
		got[x.Signal] = x.Value
	}
	want := map[string]float64{"ttft_p95": 0.5, "e2e_p95": baseline.Headroom * 2 * p95.High, "waiting": 6}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("thresholds (-want +got): the objective where it is near, else the measurement with baseline.Headroom\n%s", diff)
	}
	first, _ := r.Latency[TTFT].At(0.95)
	half, _ := r.Latency[TTFT].At(0.5)
	whole, _ := r.Latency[E2E].At(0.5)
	normal := map[string]float64{"e2e_p95": 2 * p95.High, "kv_cache_usage": 0.4, "ttft_p95": first.Value, "ttft_p50": half.Value, "e2e_p50": whole.Value}
	if diff := cmp.Diff(normal, b.Normal); diff != "" {
		t.Errorf("normal (-want +got): the server's own value, and the client's where it has none\n%s", diff)
	}
	r.Generator.Spoiled = true
	if _, err := NewBaseline(r, nil, 0, time.Unix(0, 0)); err == nil {
		t.Error("a spoiled result made thresholds")
	}
}

func TestSteadyState(t *testing.T) {
	shape := func(n int, latency func(i int) time.Duration) *Recording {
		rec := &Recording{SliceWidth: firstSlice, Errors: map[Outcome][]string{}, Generator: Generator{Cores: 1}}
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range n {
			at := time.Duration(i) * 50 * time.Millisecond
			d := latency(i) + time.Duration(rng.IntN(int(10*time.Millisecond)))
			*rec.records.addRecord() = Record{Scheduled: at, Sent: at, First: at + d/2, Last: at + d, End: at + d, OutputTokens: 2, FirstTokens: 1, Outcome: Complete}
			rec.Dispatched, rec.Duration = at, max(rec.Duration, at+d)
		}
		return rec
	}
	constant := func(int) time.Duration { return 100 * time.Millisecond }
	tests := map[string]struct {
		rec    *Recording
		steady bool
		why    string
	}{
		"constant":         {shape(400, constant), true, "excluded as warm-up"},
		"growing queues":   {shape(400, func(i int) time.Duration { return time.Duration(100+10*i) * time.Millisecond }), false, "exceeds the server's capacity"},
		"too few":          {shape(20, constant), false, "too few to tell"},
		"all sent at once": {func() *Recording { r := shape(100, constant); r.Dispatched = r.Duration / 10; return r }(), false, "were sent in the first 10 %"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Summarize(tt.rec, Settings{Load: Shape{Arrivals: &workload.Arrivals{Profile: []workload.Segment{{From: 20, To: 20}}}}, Warmup: AutoWarmup})
			if res.Window.Steady != tt.steady || !strings.Contains(res.Window.Why, tt.why) {
				t.Errorf("window %+v, want steady %v because %q", res.Window, tt.steady, tt.why)
			}
		})
	}
}
