//go:build e2e

package e2e

import (
	"hash/fnv"
	"slices"
	"time"
)

// A Scenario is what is done to servers while they are scraped.
type Scenario struct {
	Name    string
	Servers []string // arguments of each server; neighbours in the table with equal ones share them
	Seed    uint64   // added to the one that the name gives
	Fresh   bool     // starts its own servers and does not warm them up
	Induced string   // what is done, for the truth
	// Accept are the verdicts that are defensible at the end, the verdict of
	// the last phase among them; MustNotBe those that would mislead.
	Accept    []string
	MustNotBe []string
	Phases    []Phase
}

// A Phase is a stretch of a scenario with its traffic and faults.
type Phase struct {
	Name    string
	Seconds float64 // 0: until the faults have run their course
	Traffic []Traffic
	Faults  []Fault
	Verdict string            // what an honest diagnosis says at its end
	Accept  []string          // other defensible verdicts at its end; of the last phase, Scenario.Accept
	Targets map[string]string // verdicts of the targets by themselves, where they differ
	Calls   []Calls
}

// Verdict returns the verdict at the end of the last phase.
func (sc *Scenario) Verdict() string { return sc.Phases[len(sc.Phases)-1].Verdict }

// seed differs by scenario, so that no prompt is found in the prefix cache of
// a server that scenarios share.
func (sc *Scenario) seed() uint64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(sc.Name))
	return uint64(h.Sum32()) + sc.Seed
}

func healthy(seconds float64, ts ...Traffic) Phase {
	return Phase{Name: "healthy", Seconds: seconds, Traffic: ts, Verdict: "healthy"}
}

func sick(verdict string, seconds float64, faults []Fault, ts ...Traffic) Phase {
	return Phase{Name: "sick", Seconds: seconds, Traffic: ts, Faults: faults, Verdict: verdict}
}

// Arguments of the servers.
const (
	roomy    = "--max-model-len 4096 --block-size 16 --max-num-seqs 16 --num-gpu-blocks-override 800"
	smallKV  = "--max-model-len 1024 --block-size 16 --max-num-seqs 16 --num-gpu-blocks-override 160"
	seats32  = "--max-model-len 4096 --block-size 16 --max-num-seqs 32 --num-gpu-blocks-override 2000"
	seats2   = "--max-model-len 4096 --block-size 16 --max-num-seqs 2"
	noChunks = "--max-model-len 8192 --block-size 16 --max-num-seqs 16 --max-num-batched-tokens 8192 --no-enable-chunked-prefill"
	noReuse  = "--max-model-len 4096 --block-size 16 --max-num-seqs 16 --no-enable-prefix-caching"
	twoAPIs  = smallKV + " --api-server-count 2"
	twoRanks = smallKV + " --data-parallel-size 2"
	fewKV    = "--max-model-len 2048 --block-size 16 --max-num-seqs 8 --num-gpu-blocks-override 220"
)

// light is traffic that leaves the engine idle most of the time.
func light(rate float64) Traffic {
	return Traffic{Rate: rate, Prompt: lognormal(100, 0.5, 30, 400), Output: lognormal(48, 0.4, 8, 128)}
}

// chat has longer answers, so that at a few requests a second some are always
// running.
func chat(rate float64) Traffic {
	return Traffic{Rate: rate, Prompt: lognormal(150, 0.5, 30, 600), Output: lognormal(160, 0.4, 24, 400)}
}

func with(t Traffic, change func(*Traffic)) Traffic {
	change(&t)
	return t
}

// rag has prompts that share one of n prefixes.
func rag(rate float64, key string, prefixes, tokens int, fraction float64) Traffic {
	return Traffic{
		Rate: rate, Prompt: uniform(24, 48), Output: uniform(20, 32),
		Shared: &Shared{Tokens: tokens, Fraction: fraction, Prefixes: prefixes, Key: key},
	}
}

func clients(n int, prompt, output Lengths) Traffic {
	return Traffic{Clients: n, Prompt: prompt, Output: output}
}

var scenarios = slices.Concat(shortScenarios, longScenarios)

var shortScenarios = []Scenario{
	{
		Name: "engine-hung", Servers: []string{roomy},
		Induced: "engine core stopped for 45 s under traffic; clients pile up",
		Accept:  []string{"engine-hung"}, MustNotBe: []string{"healthy", "idle", "saturation"},
		Phases: []Phase{healthy(55, chat(5)), sick("engine-hung", 45, []Fault{Hang("r0", 0)}, chat(5))},
	},
	{
		Name: "http-errors", Servers: []string{roomy},
		Induced: "30 % of the requests are refused: max_tokens -1 (400) or an unknown model (404)",
		Accept:  []string{"http-errors"},
		Phases: []Phase{healthy(50, light(2)), sick("http-errors", 65, nil, with(light(3), func(t *Traffic) {
			t.BadFraction, t.Bad = 0.3, []Badness{BadMaxTokens, BadModel}
		}))},
	},
	{
		Name: "engine-restart", Servers: []string{roomy},
		Induced: "server killed and started again under traffic; 70 s of the same traffic afterwards",
		Accept:  []string{"engine-restart"}, MustNotBe: []string{"engine-hung", "slow-prefill", "severe-degradation"},
		Phases: []Phase{
			healthy(50, light(2)),
			{Name: "restarting", Traffic: []Traffic{light(2)}, Faults: []Fault{Restart("r0", 3)}, Verdict: "target-down"},
			{Name: "back", Seconds: 70, Traffic: []Traffic{light(2)}, Verdict: "engine-restart"},
		},
	},
	{
		Name: "http-errors-5xx", Servers: []string{roomy},
		Induced: "25 % of the requests are bad: no prompt (the client gets 400, the server counts 5xx) or a token id that does not exist (an error chunk under status 200, counted 2xx)",
		Accept:  []string{"http-errors"},
		Phases: []Phase{healthy(50, light(2)), sick("http-errors", 65, nil, with(light(3), func(t *Traffic) {
			t.BadFraction, t.Bad = 0.25, []Badness{BadToken, BadEmptyBatch}
		}))},
	},
	{
		Name: "mass-cancel", Servers: []string{roomy},
		Induced: "12 clients with long outputs disconnect at once; no traffic for 45 s afterwards",
		Accept:  []string{"idle", "healthy"}, MustNotBe: []string{"engine-hung", "saturation", "kv-cache-thrashing"},
		Phases: []Phase{
			healthy(45, with(clients(12, uniform(150, 250), uniform(400, 500)), func(t *Traffic) { t.HangUp = true })),
			{Name: "quiet", Seconds: 45, Verdict: "idle"},
		},
	},
	{
		Name: "idle-after-load", Servers: []string{roomy},
		Induced: "traffic ends; one request in 50 s afterwards",
		Accept:  []string{"idle", "healthy"}, MustNotBe: []string{"engine-hung", "workload-shift"},
		Phases: []Phase{
			healthy(50, light(2)),
			{Name: "idle", Seconds: 60, Traffic: []Traffic{{Bursts: &Bursts{Every: 35, Size: 1}, Prompt: constant(80), Output: constant(30)}}, Verdict: "idle"},
		},
	},
	{
		Name: "engine-hung-while-idle", Servers: []string{roomy},
		Induced: "engine core stopped while nothing runs; then requests arrive and none is answered",
		Accept:  []string{"engine-hung", "idle", "insufficient-data"}, MustNotBe: []string{"healthy"},
		Phases: []Phase{
			healthy(45, light(1.5)),
			{Name: "quiet", Seconds: 12, Verdict: "idle", Accept: []string{"healthy"}},
			sick("engine-hung", 45, []Fault{Hang("r0", 0)}, light(1.5)),
		},
	},
	{
		Name: "target-down", Servers: []string{roomy},
		Induced: "server killed for the last 30 s; connections are refused",
		Accept:  []string{"target-down"}, MustNotBe: []string{"healthy", "idle", "engine-hung"},
		Phases: []Phase{healthy(60, light(2)), sick("target-down", 30, []Fault{Down("r0", 0)}, light(2))},
	},
	{
		Name: "just-started", Servers: []string{roomy}, Fresh: true,
		Induced: "first 70 s of a server's life with light traffic",
		Accept:  []string{"healthy", "engine-restart"}, MustNotBe: []string{"slow-prefill", "saturation", "severe-degradation", "workload-shift"},
		Phases: []Phase{healthy(70, light(1.5))},
	},
	{
		Name: "engine-crash", Servers: []string{roomy},
		Induced: "engine core killed under traffic; the API server leaves by itself",
		Accept:  []string{"target-down"}, MustNotBe: []string{"healthy", "idle"},
		Phases: []Phase{healthy(50, chat(4)), sick("target-down", 40, []Fault{Crash("r0", 0)}, chat(4))},
	},
	{
		Name: "thrashing-deep", Servers: []string{smallKV},
		Induced: "160 blocks of 16 tokens; 14 clients with 120-token prompts and 400-token outputs",
		Accept:  []string{"kv-cache-thrashing"}, MustNotBe: []string{"saturation", "healthy"},
		Phases: []Phase{healthy(50, light(1.2)), sick("kv-cache-thrashing", 70, nil, clients(14, uniform(100, 140), uniform(350, 450)))},
	},
	{
		Name: "thrashing-mild", Servers: []string{smallKV},
		Induced: "160 blocks of 16 tokens; 8 clients need a little more than there is",
		Accept:  []string{"kv-cache-thrashing"},
		Phases:  []Phase{healthy(50, light(1.2)), sick("kv-cache-thrashing", 75, nil, clients(8, uniform(100, 140), uniform(300, 400)))},
	},
	{
		Name: "full-but-quiet", Servers: []string{smallKV},
		Induced: "KV cache usage steady near 0.8 with steady traffic, no queue, no preemption",
		Accept:  []string{"healthy"}, MustNotBe: []string{"kv-cache-thrashing", "saturation", "concurrency-limit"},
		Phases: []Phase{healthy(110, clients(6, uniform(230, 250), uniform(150, 190)))},
	},
	{
		Name: "occasional-preemption", Servers: []string{smallKV},
		Induced: "usage near 0.8; now and then a burst makes one or two preemptions",
		Accept:  []string{"healthy"}, MustNotBe: []string{"kv-cache-thrashing"},
		Phases: []Phase{healthy(110, clients(5, uniform(230, 250), uniform(150, 190)), Traffic{Bursts: &Bursts{Every: 40, Size: 4}, Prompt: uniform(100, 140), Output: uniform(150, 200)})},
	},
	{
		Name: "thrashing-and-http-errors", Servers: []string{smallKV},
		Induced: "two faults: 13 clients thrash, and as many requests again are refused with 400",
		Accept:  []string{"kv-cache-thrashing", "http-errors"}, MustNotBe: []string{"healthy"},
		Phases: []Phase{healthy(50, light(1.2)), sick("kv-cache-thrashing", 70, nil,
			clients(13, uniform(100, 140), uniform(350, 450)),
			with(light(2), func(t *Traffic) { t.BadFraction, t.Bad = 1, []Badness{BadMaxTokens} }))},
	},
	{
		Name: "mass-cancel-while-thrashing", Servers: []string{smallKV},
		Induced: "14 clients thrash, then disconnect at once; no traffic for 45 s afterwards",
		Accept:  []string{"idle", "healthy"}, MustNotBe: []string{"engine-hung", "saturation"},
		Phases: []Phase{
			healthy(45, light(1.2)),
			sick("kv-cache-thrashing", 35, nil, with(clients(14, uniform(100, 140), uniform(350, 450)), func(t *Traffic) { t.HangUp = true })),
			{Name: "quiet", Seconds: 50, Verdict: "idle"},
		},
	},
	{
		Name: "slow-decode-throttled", Servers: []string{roomy},
		Induced: "model stopped 45 ms of every 60 ms; same traffic",
		Accept:  []string{"slow-decode"}, MustNotBe: []string{"workload-shift", "saturation"},
		Phases: []Phase{healthy(50, chat(1.5)), sick("slow-decode", 70, []Fault{Throttle("r0", 45*time.Millisecond, 15*time.Millisecond)}, chat(1.5))},
	},
	{
		Name: "slow-decode-mild", Servers: []string{roomy},
		Induced: "model stopped 4 ms of every 8 ms; same traffic: decode about twice as slow, every sensible objective holds",
		Accept:  []string{"slow-decode"}, MustNotBe: []string{"workload-shift", "saturation", "severe-degradation"},
		Phases: []Phase{healthy(55, chat(2)), sick("slow-decode", 70, []Fault{Throttle("r0", 4*time.Millisecond, 4*time.Millisecond)}, chat(2))},
	},
	{
		Name: "slow-decode-and-cancellations", Servers: []string{roomy},
		Induced: "two faults: model stopped 45 ms of every 60 ms, and half of the clients disconnect after 1 to 10 tokens",
		Accept:  []string{"slow-decode", "client-cancellations"}, MustNotBe: []string{"workload-shift", "healthy"},
		Phases: []Phase{healthy(50, chat(1.5)), sick("slow-decode", 70, []Fault{Throttle("r0", 45*time.Millisecond, 15*time.Millisecond)}, with(chat(1.8), func(t *Traffic) {
			t.CancelFraction, t.CancelAfter = 0.5, &[2]int{1, 10}
		}))},
	},
	{
		Name: "severe-degradation", Servers: []string{roomy},
		Induced: "load near capacity and the model stopped 40 ms of every 60 ms: TTFT, queue and ITL all up",
		Accept:  []string{"severe-degradation", "slow-decode", "saturation"}, MustNotBe: []string{"healthy", "workload-shift"},
		Phases: []Phase{healthy(50, chat(4)), sick("severe-degradation", 75, []Fault{Throttle("r0", 40*time.Millisecond, 20*time.Millisecond)}, chat(6))},
	},
	{
		Name: "short-bursts", Servers: []string{roomy},
		Induced: "bursts of 24 requests every 20 s over 16 seats: queues that clear within seconds",
		Accept:  []string{"healthy"}, MustNotBe: []string{"saturation", "concurrency-limit", "engine-hung"},
		Phases: []Phase{healthy(110, chat(2), Traffic{Bursts: &Bursts{Every: 20, Size: 26}, Prompt: uniform(40, 100), Output: uniform(60, 120)})},
	},
	{
		Name: "queue-timeouts", Servers: []string{roomy},
		Induced: "more load than the server can carry; clients leave when no first token came within 1.5 s",
		Accept:  []string{"saturation", "client-cancellations", "concurrency-limit"}, MustNotBe: []string{"healthy", "engine-hung"},
		Phases: []Phase{healthy(50, chat(4)), sick("saturation", 70, nil, with(chat(24), func(t *Traffic) { t.Patience = 1.5 }))},
	},
	{
		Name: "longer-outputs", Servers: []string{roomy},
		Induced: "outputs five times longer at the same rate; the server carries it",
		Accept:  []string{"healthy", "workload-shift"}, MustNotBe: []string{"slow-decode", "saturation"},
		Phases: []Phase{healthy(50, light(2.5)), {Name: "changed", Seconds: 70, Traffic: []Traffic{with(light(2.5), func(t *Traffic) { t.Output = lognormal(240, 0.3, 100, 500) })}, Verdict: "workload-shift"}},
	},
	{
		Name: "higher-rate", Servers: []string{roomy},
		Induced: "three times the requests; the server carries it",
		Accept:  []string{"healthy", "workload-shift"}, MustNotBe: []string{"slow-decode", "saturation"},
		Phases: []Phase{healthy(50, chat(1.5)), {Name: "changed", Seconds: 70, Traffic: []Traffic{chat(5)}, Verdict: "healthy"}},
	},
	{
		Name: "replica-imbalance", Servers: []string{roomy, roomy},
		Induced: "two replicas: equal traffic, then 92 to 8",
		Accept:  []string{"replica-imbalance"}, MustNotBe: []string{"healthy"},
		Phases: []Phase{healthy(50, chat(12)), sick("replica-imbalance", 70, nil, with(chat(12), func(t *Traffic) { t.Weights = []float64{0.92, 0.08} }))},
	},
	{
		Name: "straggler", Servers: []string{roomy, roomy},
		Induced: "two replicas with equal traffic; the model of r1 stopped 45 ms of every 60 ms",
		Accept:  []string{"slow-decode", "severe-degradation"}, MustNotBe: []string{"replica-imbalance", "workload-shift"},
		Phases: []Phase{healthy(50, chat(4)), sick("slow-decode", 70, []Fault{Throttle("r1", 45*time.Millisecond, 15*time.Millisecond)}, chat(4))},
	},
	{
		Name: "one-replica-down", Servers: []string{roomy, roomy},
		Induced: "two replicas with equal traffic; r1 killed for the last 30 s, its clients get refused",
		Accept:  []string{"target-down"}, MustNotBe: []string{"replica-imbalance"},
		Phases: []Phase{healthy(45, chat(4)), sick("target-down", 30, []Fault{Down("r1", 0)}, chat(4))},
	},
	{
		Name: "saturation-long-prompts", Servers: []string{seats32},
		Induced: "32 seats; prompts of about 600 tokens faster than the engine computes them: ITL grows with the batch",
		Accept:  []string{"saturation"}, MustNotBe: []string{"concurrency-limit", "kv-cache-thrashing", "healthy"},
		Phases: []Phase{healthy(50, chat(2)), sick("saturation", 70, nil, Traffic{Rate: 22, Prompt: lognormal(600, 0.4, 200, 1500), Output: lognormal(60, 0.3, 20, 128)})},
	},
	{
		Name: "saturation-closed-loop", Servers: []string{seats32},
		Induced: "32 seats and 60 clients that send again as soon as they are answered",
		Accept:  []string{"saturation", "concurrency-limit"}, MustNotBe: []string{"kv-cache-thrashing", "healthy", "engine-hung"},
		Phases: []Phase{healthy(50, chat(2)), sick("saturation", 65, nil, clients(60, lognormal(200, 0.4, 50, 600), lognormal(80, 0.3, 20, 160)))},
	},
	{
		Name: "two-seats", Servers: []string{seats2},
		Induced: "--max-num-seqs 2 with an engine that could do much more",
		Accept:  []string{"concurrency-limit"}, MustNotBe: []string{"saturation", "kv-cache-thrashing"},
		Phases: []Phase{healthy(50, light(1.5)), sick("concurrency-limit", 65, nil, chat(6))},
	},
	{
		Name: "prefill-starvation-deep", Servers: []string{noChunks},
		Induced: "no chunked prefill; prompts of 5000 to 7000 tokens at 0.8/s beside small traffic",
		Accept:  []string{"prefill-starvation"}, MustNotBe: []string{"healthy", "slow-decode", "engine-hung"},
		Phases: []Phase{healthy(50, chat(3)), sick("prefill-starvation", 75, nil, chat(3), Traffic{Rate: 0.8, Prompt: uniform(5000, 7000), Output: constant(8)})},
	},
	{
		Name: "prefill-starvation", Servers: []string{noChunks},
		Induced: "no chunked prefill; prompts of 5000 to 7000 tokens at 0.35/s beside small traffic; seats stay free",
		Accept:  []string{"prefill-starvation"}, MustNotBe: []string{"healthy", "slow-decode", "engine-hung", "saturation"},
		Phases: []Phase{healthy(50, chat(2)), sick("prefill-starvation", 75, nil, chat(2), Traffic{Rate: 0.35, Prompt: uniform(5000, 7000), Output: constant(8)})},
	},
	{
		Name: "prefix-churn", Servers: []string{fewKV},
		Induced: "220 blocks; one prefix of 512 tokens, then 24 of them in turn: they push each other out of the cache",
		Accept:  []string{"prefix-cache-misses"}, MustNotBe: []string{"kv-cache-thrashing", "healthy"},
		Phases: []Phase{healthy(50, rag(2, "churn-one", 1, 512, 0.95)), sick("prefix-cache-misses", 75, nil, rag(2, "churn-many", 24, 512, 0.95))},
	},
	{
		Name: "prefix-caching-off", Servers: []string{noReuse},
		Induced: "--no-enable-prefix-caching with prompts that share 512 tokens all along; nothing changes",
		Accept:  []string{"healthy", "prefix-cache-misses"},
		Phases:  []Phase{healthy(100, rag(2, "off", 1, 512, 0.95))},
	},
	{
		Name: "two-api-servers-thrashing", Servers: []string{twoAPIs},
		Induced: "--api-server-count 2, so no process_ and _created series; 160 blocks, 14 clients with 400-token outputs",
		Accept:  []string{"kv-cache-thrashing"}, MustNotBe: []string{"saturation", "healthy"},
		Phases: []Phase{healthy(50, chat(1)), sick("kv-cache-thrashing", 65, nil, clients(14, uniform(100, 140), uniform(350, 450)))},
	},
	{
		Name: "two-api-servers-hung", Servers: []string{twoAPIs},
		Induced: "--api-server-count 2, so no process_ and _created series; engine core stopped under traffic",
		Accept:  []string{"engine-hung"}, MustNotBe: []string{"healthy", "idle", "engine-restart"},
		Phases: []Phase{healthy(50, chat(4)), sick("engine-hung", 45, []Fault{Hang("r0", 0)}, chat(4))},
	},
	{
		Name: "two-ranks-one-hung", Servers: []string{twoRanks},
		Induced: "--data-parallel-size 2; the first rank's engine core stopped under traffic, the second goes on",
		Accept:  []string{"engine-hung"}, MustNotBe: []string{"healthy", "idle"},
		Phases: []Phase{healthy(50, chat(4)), sick("engine-hung", 45, []Fault{HangRank("r0", 0)}, chat(4))},
	},
}
