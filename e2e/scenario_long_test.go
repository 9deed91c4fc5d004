//go:build e2e

package e2e

import "time"

// Arguments of the servers of long scenarios. Most differ a little, so that a
// server's counters do not hold the fault of the scenario before.
const (
	longThrash    = "--max-model-len 2048 --block-size 16 --max-num-seqs 20 --num-gpu-blocks-override 150"
	longRecovered = "--max-model-len 2048 --block-size 16 --max-num-seqs 16 --num-gpu-blocks-override 170"
	longSaturated = "--max-model-len 4096 --block-size 16 --max-num-seqs 24 --num-gpu-blocks-override 1500"
	longCreeping  = "--max-model-len 4096 --block-size 16 --max-num-seqs 20 --num-gpu-blocks-override 1300"
	seats3        = "--max-model-len 4096 --block-size 16 --max-num-seqs 3"
	seats12       = "--max-model-len 4096 --block-size 16 --max-num-seqs 12 --num-gpu-blocks-override 900"
	seats14       = "--max-model-len 4096 --block-size 16 --max-num-seqs 14 --num-gpu-blocks-override 900"
	seats18       = "--max-model-len 4096 --block-size 16 --max-num-seqs 18 --num-gpu-blocks-override 900"
	seats20       = "--max-model-len 4096 --block-size 16 --max-num-seqs 20 --num-gpu-blocks-override 900"
	seats24       = "--max-model-len 4096 --block-size 16 --max-num-seqs 24 --num-gpu-blocks-override 900"
	longNoChunks  = "--max-model-len 8192 --block-size 16 --max-num-seqs 20 --max-num-batched-tokens 8192 --no-enable-chunked-prefill"
	fewKV240      = "--max-model-len 2048 --block-size 16 --max-num-seqs 8 --num-gpu-blocks-override 240"
	another       = " --served-model-name another"
	resettable    = "VLLM_SERVER_DEV_MODE=1 --max-model-len 2048 --block-size 16 --max-num-seqs 12 --num-gpu-blocks-override 600"
)

// story has answers that take one to four seconds.
func story(rate float64) Traffic {
	return Traffic{Rate: rate, Prompt: lognormal(120, 0.5, 30, 500), Output: lognormal(750, 0.4, 250, 1600)}
}

// leaving is traffic of which a fraction of the clients hang up after a second.
func leaving(t Traffic, fraction float64) Traffic {
	t.CancelFraction, t.CancelSeconds = fraction, 1
	return t
}

// refused is traffic of which a fraction is refused.
func refused(t Traffic, fraction float64, bad ...Badness) Traffic {
	t.BadFraction, t.Bad = fraction, bad
	return t
}

// only sends traffic to one of two servers.
func only(server int, ts ...Traffic) []Traffic {
	for i := range ts {
		ts[i].Weights = []float64{float64(1 - server), float64(server)}
	}
	return ts
}

// mixed is what an assistant sees: chats, questions about a few documents, now
// and then a long prompt or a handful of requests at once.
func mixed(rate float64) []Traffic {
	return []Traffic{
		chat(rate),
		rag(rate/2, "mixed", 3, 256, 0.9),
		{Rate: 0.08, Prompt: uniform(1200, 2200), Output: uniform(20, 60)},
		{Bursts: &Bursts{Every: 47, Size: 5}, Prompt: uniform(60, 200), Output: uniform(60, 200)},
	}
}

// bursty is traffic with more requests at once than there are seats.
func bursty() []Traffic {
	return []Traffic{light(1.5), {Bursts: &Bursts{Every: 15, Size: 22}, Prompt: uniform(40, 100), Output: uniform(30, 70)}}
}

func models(target string) []Calls { return []Calls{{"GET", "/v1/models", 3, target}} }

// polled is a phase with calls beside the traffic.
func polled(ph Phase, calls ...Calls) Phase {
	ph.Calls = calls
	return ph
}

// apart is a phase of two servers with verdicts of their own.
func apart(ph Phase, r0, r1 string) Phase {
	ph.Targets = map[string]string{"r0": r0, "r1": r1}
	return ph
}

// long scenarios are for scrapes that are far between: minutes of each phase.
var longScenarios = []Scenario{
	{
		Name: "thrashing-recovered-long", Servers: []string{longRecovered},
		Induced: "170 blocks of 16 tokens; 13 clients with 110-token prompts and 380-token outputs for three minutes, then the traffic from before",
		Accept:  []string{"healthy"}, MustNotBe: []string{"kv-cache-thrashing", "saturation"},
		Phases: []Phase{
			healthy(210, light(1.4)),
			sick("kv-cache-thrashing", 200, nil, clients(13, uniform(90, 130), uniform(330, 430))),
			{Name: "recovered", Seconds: 270, Traffic: []Traffic{light(1.4)}, Verdict: "healthy"},
		},
	},
	{
		Name: "saturation-long", Servers: []string{longSaturated},
		Induced: "24 seats; more requests than the engine can serve: the queue grows all along",
		Accept:  []string{"saturation", "concurrency-limit"}, MustNotBe: []string{"healthy", "kv-cache-thrashing", "engine-hung"},
		Phases: []Phase{healthy(210, chat(3)), sick("saturation", 220, nil, with(chat(26), func(t *Traffic) { t.Prompt = lognormal(300, 0.4, 60, 900) }))},
	},
	{
		Name: "slow-decode-neighbour-long", Servers: []string{seats14},
		Induced: "noisy neighbour: 6 busy loops on the server's two cores; same traffic, which then is more than the server can carry",
		Accept:  []string{"slow-decode", "severe-degradation"}, MustNotBe: []string{"healthy", "workload-shift", "saturation"},
		Phases: []Phase{healthy(210, chat(3)), sick("slow-decode", 220, []Fault{Neighbours("r0", 6)}, chat(3))},
	},
	{
		Name: "company-bursty-and-cancellations-long", Servers: []string{roomy, seats20 + another},
		Induced: "two servers with different traffic: r0 takes bursts of 22 every 15 s all along, well; of r1's clients 40 % hang up after a second",
		Accept:  []string{"client-cancellations"}, MustNotBe: []string{"healthy", "replica-imbalance", "saturation"},
		Phases: []Phase{
			healthy(270, append(only(0, bursty()...), only(1, story(1))...)...),
			apart(sick("client-cancellations", 270, nil, append(only(0, bursty()...), only(1, leaving(story(1), 0.48))...)...), "healthy", "client-cancellations"),
		},
	},
	{
		Name: "company-mixed-and-http-errors-long", Servers: []string{seats12, seats18 + another},
		Induced: "two servers with different traffic: r0 has mixed load all along; of r1's requests a third is refused (400 or 404)",
		Accept:  []string{"http-errors"}, MustNotBe: []string{"healthy", "replica-imbalance"},
		Phases: []Phase{
			healthy(230, append(only(0, mixed(0.9)...), only(1, light(1.5))...)...),
			apart(sick("http-errors", 210, nil, append(only(0, mixed(0.9)...), only(1, refused(light(2), 0.33, BadMaxTokens, BadModel))...)...), "healthy", "http-errors"),
		},
	},
	{
		Name: "company-hung-and-longer-prompts-long", Servers: []string{seats14, roomy + another},
		Induced: "two servers with different traffic: r0's engine core stopped under traffic for three minutes; r1's prompts become six times longer, which it carries",
		Accept:  []string{"engine-hung"}, MustNotBe: []string{"healthy", "idle", "replica-imbalance", "saturation"},
		Phases: []Phase{
			healthy(210, append(only(0, story(1.5)), only(1, light(3))...)...),
			apart(sick("engine-hung", 180, []Fault{Hang("r0", 0)}, append(only(0, story(1.5)), only(1, with(light(3), func(t *Traffic) { t.Prompt = lognormal(650, 0.4, 250, 1500) }))...)...), "engine-hung", "workload-shift"),
		},
	},
	{
		Name: "company-prefix-misses-long", Servers: []string{fewKV, fewKV240 + another},
		Induced: "two servers with prompts that share a prefix: on r0 one of 512 tokens becomes 24 that push each other out; on r1 96 random tokens come in front of it",
		Accept:  []string{"prefix-cache-misses"}, MustNotBe: []string{"healthy", "kv-cache-thrashing", "replica-imbalance"},
		Phases: []Phase{
			healthy(170, append(only(0, rag(1.5, "long-churn", 1, 512, 0.95)), only(1, rag(1.5, "long-front", 1, 448, 0.95))...)...),
			apart(sick("prefix-cache-misses", 200, nil, append(only(0, rag(1.5, "long-churn", 24, 512, 0.95)), only(1, with(rag(1.5, "long-front", 1, 448, 0.95), func(t *Traffic) {
				t.Shared.Front, t.Prompt = 96, uniform(120, 144)
			}))...)...), "prefix-cache-misses", "prefix-cache-misses"),
		},
	},
	{
		Name: "company-frozen-and-three-seats-long", Servers: []string{seats18, seats3 + another},
		Induced: "two servers with different traffic: r0's API server stopped for 60 s and continued; r1 has --max-num-seqs 3 and more requests than that serves",
		Accept:  []string{"concurrency-limit"}, MustNotBe: []string{"healthy", "replica-imbalance"},
		Phases: []Phase{
			healthy(150, append(only(0, chat(2.5)), only(1, light(1.5))...)...),
			apart(Phase{Name: "frozen", Seconds: 60, Faults: []Fault{Freeze("r0", 0)}, Traffic: append(only(0, chat(2.5)), only(1, chat(12))...), Verdict: "target-down", Accept: []string{"concurrency-limit"}}, "target-down", "concurrency-limit"),
			apart(Phase{Name: "resumed", Seconds: 130, Traffic: append(only(0, chat(2.5)), only(1, chat(12))...), Verdict: "concurrency-limit"}, "healthy", "concurrency-limit"),
		},
	},
	{
		Name: "prefill-starvation-long", Servers: []string{longNoChunks},
		Induced: "no chunked prefill; prompts of 5000 to 7000 tokens at 0.5/s beside small traffic; seats stay free",
		Accept:  []string{"prefill-starvation"}, MustNotBe: []string{"healthy", "slow-decode", "engine-hung", "saturation"},
		Phases: []Phase{healthy(170, chat(3)), sick("prefill-starvation", 200, nil, chat(3), Traffic{Rate: 0.5, Prompt: uniform(5000, 7000), Output: constant(8)})},
	},
	{
		Name: "creeping-load-long", Servers: []string{longCreeping},
		Induced: "20 seats; the requests a second creep up over seven and a half minutes, past what the server can carry",
		Accept:  []string{"saturation", "concurrency-limit"}, MustNotBe: []string{"healthy", "engine-hung", "kv-cache-thrashing"},
		Phases: []Phase{healthy(45, chat(1.5)), {Name: "creeping", Seconds: 450, Traffic: []Traffic{with(chat(1.5), func(t *Traffic) { t.RateTo = 36 })}, Verdict: "saturation"}},
	},
	{
		Name: "company-idle-hang-polled-and-resets", Servers: []string{seats24, resettable + another},
		Induced: "two servers with different traffic: r0's engine core stopped while nothing runs, then requests arrive and none is answered, and /v1/models is asked every 3 s all along; on r1 POST /reset_prefix_cache three times a second, the traffic the same",
		Accept:  []string{"engine-hung"}, MustNotBe: []string{"healthy", "idle", "workload-shift", "replica-imbalance"},
		Phases: []Phase{
			polled(healthy(120, append(only(0, light(1.2)), only(1, rag(2, "resets", 1, 512, 0.95))...)...), models("r0")...),
			polled(apart(Phase{Name: "quiet", Seconds: 20, Traffic: only(1, rag(2, "resets", 1, 512, 0.95)), Verdict: "healthy", Accept: []string{"idle"}}, "idle", "healthy"), models("r0")...),
			polled(apart(sick("engine-hung", 190, []Fault{Hang("r0", 0)}, append(only(0, light(1.2)), only(1, rag(2, "resets", 1, 512, 0.95))...)...), "engine-hung", "prefix-cache-misses"),
				append(models("r0"), Calls{"POST", "/reset_prefix_cache", 0.33, "r1"})...),
		},
	},
	{
		Name: "company-hang-polled-and-cancellations-all-along", Servers: []string{seats20, seats12 + another},
		Induced: "two servers with different traffic: r0's engine core stopped under traffic, and /v1/models asked every 3 s all along; on r1 40 % of the clients hang up after a second, from the first request on",
		Accept:  []string{"engine-hung"}, MustNotBe: []string{"healthy", "idle", "slow-decode", "replica-imbalance"},
		Phases: []Phase{
			polled(apart(sick("client-cancellations", 120, nil, append(only(0, story(1.5)), only(1, leaving(story(1), 0.48))...)...), "healthy", "client-cancellations"), models("r0")...),
			polled(apart(Phase{Name: "hung", Seconds: 190, Verdict: "engine-hung", Faults: []Fault{Hang("r0", 0)}, Traffic: append(only(0, story(1.5)), only(1, leaving(story(1), 0.48))...)}, "engine-hung", "client-cancellations"), models("r0")...),
		},
	},
	{
		Name: "two-ranks-one-hung-while-idle", Servers: []string{twoRanks},
		Induced: "--data-parallel-size 2; the first rank's engine core stopped while nothing runs; then requests arrive and the second rank answers its share",
		Accept:  []string{"engine-hung"}, MustNotBe: []string{"healthy", "idle"},
		Phases: []Phase{
			healthy(100, light(1.2)),
			{Name: "quiet", Seconds: 20, Verdict: "idle", Accept: []string{"healthy"}},
			sick("engine-hung", 150, []Fault{HangRank("r0", 0)}, light(1.2)),
		},
	},
	{
		Name: "slow-decode-all-along", Servers: []string{seats18},
		Induced: "noisy neighbour from the first request on: 2 busy loops on the server's two cores",
		Accept:  []string{"slow-decode", "severe-degradation", "insufficient-data"}, MustNotBe: []string{"workload-shift", "engine-hung"},
		Phases: []Phase{sick("slow-decode", 160, []Fault{Neighbours("r0", 2)}, chat(1.5))},
	},
	{
		Name: "thrashing-and-http-errors-long", Servers: []string{longThrash},
		Induced: "two faults: 14 clients thrash in 150 blocks, and as many requests again are refused with 400",
		Accept:  []string{"kv-cache-thrashing", "http-errors"}, MustNotBe: []string{"healthy", "saturation"},
		Phases: []Phase{healthy(130, light(1.2)), sick("kv-cache-thrashing", 180, nil,
			clients(14, uniform(90, 130), uniform(330, 430)), refused(light(1.5), 1, BadMaxTokens))},
	},
	{
		Name: "slow-decode-and-cancellations-long", Servers: []string{seats24},
		Induced: "two faults: model stopped 36 ms of every 50 ms, and 45 % of the clients hang up after a second",
		Accept:  []string{"slow-decode", "client-cancellations"}, MustNotBe: []string{"healthy", "workload-shift"},
		Phases: []Phase{healthy(130, story(0.8)), sick("slow-decode", 180, []Fault{Throttle("r0", 36*time.Millisecond, 14*time.Millisecond)}, leaving(story(0.8), 0.45))},
	},
	{
		Name: "engine-restart-long", Servers: []string{roomy},
		Induced: "server killed and started again under traffic; three minutes of the same traffic afterwards",
		Accept:  []string{"healthy", "engine-restart"}, MustNotBe: []string{"engine-hung", "slow-prefill", "severe-degradation", "target-down"},
		Phases: []Phase{
			healthy(130, light(1.8)),
			{Name: "restarting", Traffic: []Traffic{light(1.8)}, Faults: []Fault{Restart("r0", 2)}, Verdict: "target-down"},
			{Name: "back", Seconds: 190, Traffic: []Traffic{light(1.8)}, Verdict: "healthy"},
		},
	},
}
