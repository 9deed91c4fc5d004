package dialect_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/gateway"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

// readPage returns one of testdata/pages, the same page with counters at zero, and the names on it.
func readPage(t *testing.T, name string) (page, before string, names []string) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "testdata", "pages", name+".prom.gz"))
	must.Succeed(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.Succeed(t, err)
	text, err := io.ReadAll(z)
	must.Succeed(t, err)
	kind, seen := "", map[string]bool{}
	var zeros strings.Builder
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "# TYPE ") {
			kind = fields[3]
		} else if !strings.HasPrefix(line, "#") && len(fields) > 1 {
			if name := line[:strings.IndexAny(line, "{ ")]; !seen[name] {
				seen[name], names = true, append(names, name)
			}
			if kind != "gauge" {
				line = line[:strings.LastIndex(line, " ")] + " 0\n"
			}
		}
		zeros.WriteString(line)
	}
	return string(text), zeros.String(), names
}

// read plays a page whose counters began a minute ago, and returns what its signals read then.
func read(t *testing.T, name string) (dialect.Dialect, func(*indicator.Signal) float64) {
	t.Helper()
	page, before, names := readPage(t, name)
	d, ok := dialect.Detect(names)
	if !ok {
		t.Fatalf("%s: not detected", name)
	}
	store := embeddedtest.New(t)
	began := time.Unix(1_000_000, 0)
	for i, body := range []string{before, page} {
		if _, err := store.Append(embedded.Target{Instance: "a", Job: "j"}, began.Add(time.Duration(i)*time.Minute), []byte(body), "text/plain; version=0.0.4", 0); err != nil {
			t.Fatal(err)
		}
	}
	rw := d.Rewriting()
	rw.Window, rw.Short, rw.Past = time.Minute+time.Second, time.Minute+time.Second, time.Minute+time.Second
	return d, func(s *indicator.Signal) float64 {
		if missing := d.Missing(s); len(missing) > 0 {
			t.Logf("%s: %s lacks %s", name, s.Name, missing)
			return math.NaN()
		}
		v, err := store.Evaluate(t.Context(), rw.Compile(d.Expr(s), s.Scope), began.Add(time.Minute))
		must.Succeed(t, err)
		if len(v) != 1 {
			t.Logf("%s: %s has %d values", name, s.Name, len(v))
			return math.NaN()
		}
		return float64(v[0].Value)
	}
}

// TestDeadDeploymentsOfLiteLLM tells those that answer from a dead one and one that fails, and not by their state,
// which the page has twice.
func TestDeadDeploymentsOfLiteLLM(t *testing.T) {
	page, before, names := readPage(t, "litellm-1.110.2-one-dead-one-failing")
	d, _ := dialect.Detect(names)
	store := embeddedtest.New(t)
	began := time.Unix(1_000_000, 0)
	for i, body := range []string{before, page} {
		embeddedtest.Append(t, store, embedded.Target{Instance: "a", Job: "j"}, began.Add(time.Duration(i)*time.Minute), body)
	}
	rw := d.Rewriting()
	rw.Window, rw.Instance = time.Minute+time.Second, []string{"instance", d.Server}
	v, err := store.Evaluate(t.Context(), rw.Compile(d.Expr(indicator.GatewayDown), indicator.Gateway), began.Add(time.Minute))
	must.Succeed(t, err)
	down := map[string]float64{}
	for _, sample := range v {
		down[string(sample.Metric["api_base"])] = float64(sample.Value)
	}
	want := map[string]float64{
		"http://127.0.0.1:27600/v1/chat/completions": 0, "http://127.0.0.1:27699/v1": 0, "http://127.0.0.1:27601/v1": 0,
		"http://127.0.0.1:27699/v1/chat/completions": 1, "http://127.0.0.1:27601/v1/chat/completions": 1,
	}
	if !maps.Equal(down, want) {
		t.Errorf("down: %v, want %v", down, want)
	}
}

// TestModelFLOPsNeedTheOption reads a counter that vLLM shows at 0 without --enable-mfu-metrics, as the mean of its
// ranks.
func TestModelFLOPsNeedTheOption(t *testing.T) {
	const page = "# TYPE vllm:estimated_flops_per_gpu_total counter\n" +
		"vllm:estimated_flops_per_gpu_total{engine=\"0\",model_name=\"m\"} %v\n" +
		"vllm:estimated_flops_per_gpu_total{engine=\"1\",model_name=\"m\"} %v\n"
	for _, tc := range []struct{ first, second, want float64 }{{60e12, 180e12, 2}, {0, 0, math.NaN()}} {
		store := embeddedtest.New(t)
		began := time.Unix(1_000_000, 0)
		for i := range 2 {
			at, n := began.Add(time.Duration(i)*time.Minute), float64(i)
			embeddedtest.Append(t, store, embedded.Target{Instance: "a", Job: "j"}, at, fmt.Sprintf(page, n*tc.first, n*tc.second))
		}
		rw := indicator.Rewriting{Window: time.Minute + time.Second}
		v, err := store.Evaluate(t.Context(), rw.Compile(indicator.ModelFLOPs.Expr, indicator.Model), began.Add(time.Minute))
		must.Succeed(t, err)
		if known := len(v) == 1; known == math.IsNaN(tc.want) || known && math.Abs(float64(v[0].Value)-tc.want) > 0.1 {
			t.Errorf("%v: %v, want %v", tc.first, v, tc.want)
		}
	}
}

// reads are what signals read of a page, a minute after its counters began.
type reads map[*indicator.Signal]float64

// TestSignalsOfRealPages finds each quantity on the pages of engines, and counts nothing twice.
func TestSignalsOfRealPages(t *testing.T) {
	sum := func(n float64) float64 { return n / 60 }
	for page, want := range map[string]struct {
		engine engine.ID
		reads
	}{
		"sglang-0.5.23-real-cpu-tp1": {dialect.SGLang, reads{
			indicator.FirstTokens: 16, indicator.CompletionRate: sum(16), indicator.GenerationTokenRate: sum(640), indicator.PromptTokenRate: sum(2134),
			indicator.PromptTokens: 2134. / 16, indicator.ComputedTokens: 2134. / 16, indicator.OutputTokens: 40, indicator.PrefixHitRatio: 0,
			indicator.PrefixQueryRate: sum(2134), indicator.PrefillTimeMean: 0.3413430180016803 / 16, indicator.PrefillTimePerToken: 0.3413430180016803 / 2134,
			indicator.DecodeTimeMean: 3.0225320679992365 / 16, indicator.DecodeBatch: 1, indicator.Preemptions: 0, indicator.Abandoned: 0,
			indicator.HTTPRate: sum(16), indicator.ServerErrCount: 0, indicator.ClientErrs: 0, indicator.EngineProgress: sum(2134 + 624), indicator.StuckEngines: 0,
			indicator.QueueTimeMean: 0.010204131997852528 / 16, indicator.FrontendCPU: sum(1.69),
		}},
		"sglang-0.5.23-real-pd-prefill": {dialect.SGLang, reads{
			indicator.FirstTokens: 117, indicator.ComputedTokens: 15596. / 117, indicator.PrefixHitRatio: 12. / 15608, indicator.PrefillTimePerToken: 1.6788792900060798 / 15596, indicator.EngineProgress: sum(15608),
			indicator.TransferTime: 0.7257268350003869 / 117, indicator.TransfersFailed: 0, indicator.TransferFailShare: 0,
		}},
		"sglang-0.5.23-real-pd-decode": {dialect.SGLang, reads{
			indicator.FirstTokens: 117, indicator.GenerationTokenRate: sum(3371 + 117), indicator.ComputedTokens: 0,
		}},
		"sglang-0.5.23-real-pd-decode-prefill-dead": {dialect.SGLang, reads{
			indicator.TransfersFailed: 64, indicator.TransferFailShare: 64. / (131 + 52),
		}},
		"sglang-0.5.10-tp2": {dialect.SGLang, reads{ // the two processes of one rank
			indicator.Running: 1, indicator.Waiting: 1, indicator.KVUsage: 1, indicator.Preemptions: 1, indicator.EngineProgress: sum(1), indicator.GenerationTokenRate: sum(1 + 1),
		}},
		"sglang-0.5.10-dp2": {dialect.SGLang, reads{ // two ranks
			indicator.Running: 2, indicator.Waiting: 2, indicator.KVUsage: 1, indicator.Preemptions: 2, indicator.EngineProgress: sum(2), indicator.EngineSpread: 1,
		}},
		"trtllm-main-050f80d-declared-names": {"trtllm", reads{
			indicator.Running: 1, indicator.Waiting: 1, indicator.KVUsage: 1, indicator.FirstTokens: 1, indicator.PrefixHitRatio: 1, indicator.CutAnswers: 1,
			indicator.PromptTokens: 1, indicator.ComputedTokens: 0, indicator.OutputTokens: 1, indicator.PrefillTimeMean: 0.2, indicator.DecodeTimeMean: 0.2,
			indicator.TPOTMean: 0.2, indicator.QueueTimeMean: 0.2, indicator.ServerErrCount: 1, indicator.ServerErrs: 0.5, indicator.ClientErrCount: 0,
		}},
		"tgi-3.3.7-declared-names": {"tgi", reads{
			indicator.Running: 16, indicator.Waiting: 3, indicator.KVUsage: 0.75, indicator.CompletionRate: sum(120), indicator.GenerationTokenRate: sum(18000),
			indicator.DecodeBatch: 12, indicator.EngineProgress: sum(1540), indicator.StuckEngines: 0, indicator.ITLMean: 0.03, indicator.TPOTMean: 0.036, indicator.E2EMean: 6,
			indicator.QueueTimeMean: 0.5, indicator.TTFTMean: 0.7, indicator.PromptTokens: 500, indicator.OutputTokens: 150, indicator.MaxTokens: 512, indicator.HTTPRate: sum(128),
			indicator.ServerErrs: 2. / 128, indicator.ClientErrCount: 6, indicator.Abandoned: 0,
		}},
		"triton-trtllm-declared-names": {"triton", reads{ // an ensemble of three models
			indicator.Running: 16, indicator.Waiting: 2, indicator.KVUsage: 0.4875, indicator.CompletionRate: sum(96), indicator.FirstTokens: 90, indicator.TTFTMean: 0.45, indicator.TTFTP50: 0.4,
			indicator.E2EMean: 4.2, indicator.QueueTimeMean: 0.9 * 90 / 96, indicator.PromptTokens: 500, indicator.OutputTokens: 150, indicator.GenerationTokenRate: sum(13500),
			indicator.ServerErrCount: 6, indicator.Abandoned: 3,
		}},
		"lmcache-0.5.6-on-a-server": {dialect.VLLM, reads{
			indicator.TierHitRatio: 0.25, indicator.TierQueryRate: sum(12000), indicator.OffloadPace: 0.25, indicator.OffloadBytes: 1 << 30,
		}},
		"aibrix-gateway-0.7-declared-names": {dialect.Gateway, reads{
			indicator.GatewayOffered: sum(110), indicator.GatewayEnded: sum(95 + 10), indicator.GatewayOpen: 4, indicator.GatewayGivenUp: 3,
			indicator.GatewayRejected: 4, indicator.GatewayUpstreamErrs: 3,
		}},
		"production-stack-main-a6c01db-one-dead-server": {dialect.Gateway, reads{
			indicator.GatewayOffered: sum(40), indicator.GatewaySuccess: 0.5, indicator.GatewayUpstreamErrs: 20,
		}},
		"dynamo-1.6.1-mocker-worker": {dialect.VLLM, reads{
			indicator.FirstTokens: 60, indicator.Running: 0, indicator.ITLMean: (51.068208707999936 + 51.12558484999997) / 4740,
		}},
		"dynamo-1.6.1-frontend-worker-killed": {dialect.Gateway, reads{
			indicator.GatewayOffered: sum(656), indicator.GatewayEnded: sum(656), indicator.GatewaySuccess: 433. / 656, indicator.GatewayErrors: 7. / 440,
			indicator.GatewayGivenUp: 216, indicator.GatewayUpstreamErrs: 7, indicator.GatewayRetries: 7, indicator.GatewayQueued: 0, indicator.GatewayOpen: 0,
		}},
		"litellm-1.106.2-one-dead-deployment": {dialect.Gateway, reads{
			indicator.GatewayOffered: sum(24), indicator.GatewaySuccess: 11. / 24, indicator.GatewayUpstreamErrs: 13, indicator.GatewayOpen: 1,
		}},
		"litellm-1.110.2-one-dead-one-failing": {dialect.Gateway, reads{
			indicator.GatewayOffered: sum(100), indicator.GatewaySuccess: 0.94, indicator.GatewayUpstreamErrs: 6,
			indicator.GatewayOverhead: 5.0057312 / 94,
		}},
		"vllm-router-0.1.17": {dialect.Gateway, reads{
			indicator.GatewayOffered: sum(12), indicator.GatewaySuccess: 10. / 12, indicator.GatewayUpstreamErrs: 2, indicator.GatewayRetries: 8,
		}},
		"llm-d-router-epp-0.9main-flowcontrol": {dialect.Gateway, reads{
			indicator.GatewayOffered: sum(31), indicator.GatewaySuccess: 29. / 30, indicator.GatewayOpen: 0, indicator.GatewayQueued: 0,
			indicator.GatewayUpstreamErrs: 0, indicator.GatewayGivenUp: 1, // the client of the one that is called unavailable left
			indicator.PickerBlind: sum(2345), indicator.PickerStale: 0,
		}},
	} {
		t.Run(page, func(t *testing.T) {
			d, value := read(t, page)
			if d.Engine != want.engine {
				t.Errorf("a page of %s", d.Engine)
			}
			for s, n := range want.reads {
				if got := value(s); !(math.Abs(got-n) <= 1e-9+0.02*math.Abs(n)) {
					t.Errorf("%s: %v, want %v: %s", s.Name, got, n, d.Rewriting().Compile(d.Expr(s), s.Scope))
				}
			}
		})
	}
}

// TestEveryEngineIsToldByItsOwnTable takes each engine and router from what its table says that it exposes:
// it is told as itself, its expressions parse, and a signal that it does not lack is asked of its own names.
func TestEveryEngineIsToldByItsOwnTable(t *testing.T) {
	re := regexp.MustCompile("^(?:" + dialect.Selector + "|" + dialect.Foreign + ")$")
	pages := map[string][]string{}
	for _, f := range dialect.Families() {
		if f.Engine != "" && f.Engine != dialect.VLLM && f.Last == "" {
			pages[string(f.Engine)] = append(pages[string(f.Engine)], f.Samples(false)...)
		}
	}
	for _, p := range gateway.Others {
		pages[p.Title+", "+p.Main] = p.Names()
	}
	for of, names := range pages {
		t.Run(of, func(t *testing.T) {
			d, ok := dialect.Detect(names)
			if !ok || d.Engine != dialect.Gateway && string(d.Engine) != of {
				t.Fatalf("it is taken for %q", d.Engine)
			}
			told := 0
			for _, s := range indicator.All() {
				text := d.Rewriting().Compile(d.Expr(s), s.Scope).String()
				if _, err := indicator.Parse(text); err != nil {
					t.Errorf("%s: %v: %s", s.Name, err, text)
				}
				if d.Answers(s) && !s.Scrapes && !s.Optional && len(d.Missing(s)) == 0 {
					told++
				}
			}
			if told == 0 {
				t.Error("it tells no signal")
			}
			if !slices.ContainsFunc(names, re.MatchString) {
				t.Error("no server is found by its names")
			}
		})
	}
}

// FuzzDetect takes pages that hold some of the names of one engine and a few of all: whatever a page lacks,
// a dialect's expressions parse, and it says the same of itself twice.
func FuzzDetect(f *testing.F) {
	of := map[engine.ID][]string{}
	var all []string
	for _, family := range dialect.Families() {
		of[family.Engine] = append(of[family.Engine], family.Samples(true)...)
		all = append(all, family.Samples(true)...)
	}
	ids := slices.Sorted(maps.Keys(of))
	for i := range ids {
		f.Add(uint64(i), byte(i), byte(200), byte(1))
	}
	f.Fuzz(func(t *testing.T, seed uint64, which, own, others byte) {
		r := rand.New(rand.NewPCG(seed, 1))
		var names []string
		take := func(from []string, share byte) {
			for _, n := range from {
				if byte(r.UintN(256)) < share {
					names = append(names, n)
				}
			}
		}
		take(of[ids[int(which)%len(ids)]], own)
		take(all, others)
		d, ok := dialect.Detect(names)
		if again, also := dialect.Detect(names); ok != also || d.Key() != again.Key() {
			t.Fatalf("%q and then %q", d.ID, again.ID)
		}
		if !ok {
			return
		}
		for _, s := range indicator.All() {
			if text := d.Rewriting().Compile(d.Expr(s), s.Scope).String(); text != "" {
				if _, err := indicator.Parse(text); err != nil {
					t.Errorf("%s: %s: %v", d.ID, s.Name, err)
				}
			}
		}
	})
}
