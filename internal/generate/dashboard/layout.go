package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// IDs of panels are never reused, because alerts and bookmarks link to them. An ID has three digits: the first is the
// dashboard's, and those of rows end in 0. Panels of several signals are declared here; a panel of a single signal
// may be declared with the signal (indicator.Panel).

// layouts returns the dashboards in the order in which somebody on call opens them. A period adds the panels of its
// error budgets.
func layouts(period time.Duration) ([]layout, error) {
	gateway := gatewayLayout
	if period > 0 {
		budget, err := budgetRow(period)
		if err != nil {
			return nil, err
		}
		gateway.rows = append([]row{budget}, gateway.rows...)
	}
	return addDeclaredPanels(startLayout, servingLayout, incidentLayout, fleetLayout,
		optionsLayout, gpuLayout, hostLayout, gateway), nil
}

// byDetail returns the dashboards in the order in which a link to a signal prefers them.
func byDetail() []layout {
	return addDeclaredPanels(incidentLayout, servingLayout, fleetLayout,
		optionsLayout, gpuLayout, hostLayout, gatewayLayout, startLayout)
}

// addDeclaredPanels adds the panels that signals declare for themselves to the ends of rows.
func addDeclaredPanels(ls ...layout) []layout {
	for i := range ls {
		ls[i].rows = slices.Clone(ls[i].rows)
		for k := range ls[i].rows {
			r := &ls[i].rows[k]
			r.panels = slices.Clone(r.panels)
			for _, s := range indicator.All() {
				if p := s.Panel; p != nil && p.Row == r.id {
					r.panels = append(r.panels, panel{
						id: p.ID, title: cmp.Or(p.Title, s.Title), width: p.Width, max: p.Max, doc: p.Doc,
						queries: levelOf(s).plot("", s),
					})
				}
			}
		}
	}
	return ls
}

// levelOf returns the level at which a signal has its own panel.
func levelOf(s *indicator.Signal) level {
	return map[indicator.Scope]level{
		indicator.Model: perModel, indicator.Instance: perServer, indicator.GPU: perGPU, indicator.Gateway: perGateway,
	}[s.Scope]
}

// plot returns queries of signals at a level. named alternates between a legend and a signal.
func (l level) plot(named ...any) []query {
	var out []query
	for i := 0; i+1 < len(named); i += 2 {
		out = append(out, query{legend: named[i].(string), signal: named[i+1].(*indicator.Signal), level: l})
	}
	return out
}

// withVolume adds the number of requests behind queries, on an axis of its own.
func withVolume(volume *indicator.Signal, queries []query) []query {
	return append(queries, query{signal: volume, level: perModel, legend: "requests", right: true})
}

// Thresholds of the panels. No alert uses kvSteps and queueSteps: a full cache or a queue alone is no fault.
var (
	ttftSteps = []step{{threshold: catalog.TTFTObjective, level: Critical}}
	itlSteps  = []step{{threshold: catalog.ITLObjective, level: Critical}}
	e2eSteps  = []step{{threshold: catalog.E2EObjective, level: Critical}}
	kvSteps   = []step{
		{value: 0.9, level: Warning, why: "little room for the next prompt; not a fault while nothing queues or is preempted"},
		{value: 0.98, level: Critical, why: "new requests wait for running ones to finish; check preemptions and queue time"},
	}
	queueSteps = []step{
		{value: 10, level: Warning, why: "a queue after a burst clears within seconds"},
		{value: 50, level: Critical, why: "more than most servers clear before users notice"},
	}
	queueTimeSteps = []step{{threshold: catalog.QueueTimeLong, level: Critical}}
)

var startLayout = layout{
	uid: "sixty-start", title: "vLLM / Start here",
	doc: "Are users served? Three numbers distinguish most incidents: the wait for the first token, KV cache usage, and the queue.",
	rows: []row{
		{id: 100, title: "Now", panels: []panel{
			{id: 101, title: "TTFT P95", kind: Stat, width: 8, steps: ttftSteps, queries: perModel.plot("", indicator.TTFTP95)},
			{id: 102, title: "KV cache usage", kind: Stat, width: 8, max: 1, steps: kvSteps, queries: perModel.plot("", indicator.KVUsage)},
			{id: 103, title: "Queue depth", kind: Stat, width: 8, steps: queueSteps, queries: perModel.plot("", indicator.Waiting)},
		}},
		{id: 110, title: "Over time", panels: []panel{
			{
				id: 111, title: "TTFT P95 and requests", width: 24, steps: ttftSteps, queries: withVolume(indicator.FirstTokenRate, perModel.plot("P95", indicator.TTFTP95)),
				doc: "Late first tokens with a queue: too much work, or a cache that thrashes. Late without a queue: prefill is slow, or prompts grew. Go to *Incident* for the cause.",
			},
			{id: 112, title: "KV cache usage", width: 12, max: 1, steps: kvSteps, queries: perModel.plot("", indicator.KVUsage)},
			{id: 113, title: "Queue depth", width: 12, steps: queueSteps, queries: perModel.plot("", indicator.Waiting)},
		}},
	},
}

// optionsLayout has only the panels that its signals declare.
var optionsLayout = layout{
	uid: "sixty-options", title: "vLLM / Prefill, decode, speculation",
	doc: "For some deployments: KV transfers between prefill and decode servers, speculative decoding, checked outputs.",
	rows: []row{
		{id: 800, title: "KV caches between servers", panels: []panel{
			{
				id: 807, title: "Prefill and decode servers", width: 8,
				queries: perReplica.plot("wait for prefill", indicator.PrefillQueue, "wait for decode", indicator.DecodeQueue),
			},
		}},
		{id: 810, title: "Speculative decoding, checked outputs, estimated work"},
	},
}

var servingLayout = layout{
	uid: "sixty-serving", title: "vLLM / Serving",
	doc: "How is the service doing, from user experience down to the cache?",
	rows: []row{
		{id: 200, title: "User-facing latency", panels: []panel{
			{
				id: 201, title: "Time to first token", width: 8, steps: ttftSteps,
				queries: withVolume(indicator.FirstTokenRate, perModel.plot("P50", indicator.TTFTP50, "P95", indicator.TTFTP95, "P99", indicator.TTFTP99)),
			},
			{
				id: 202, title: "Inter-token latency", width: 8, steps: itlSteps,
				queries: withVolume(indicator.FirstTokenRate, perModel.plot("P50", indicator.ITLP50, "P95", indicator.ITLP95)),
				doc:     "Percentiles hide a pause of seconds among thousands of normal gaps: see the gaps over one second on *Incident*.",
			},
			{
				id: 203, title: "End-to-end latency", width: 8, steps: e2eSteps,
				queries: withVolume(indicator.CompletionRate, perModel.plot("P50", indicator.E2EP50, "P95", indicator.E2EP95)),
			},
			{
				id: 204, title: "Output token throughput", width: 8, queries: perModel.plot("", indicator.GenerationTokenRate),
				doc: "Compare with the number and the length of answers: it also falls when users send less.",
			},
			{
				id: 205, title: "Requests", width: 8, queries: perModel.plot("first tokens", indicator.FirstTokenRate, "completed", indicator.CompletionRate),
				doc: "A lasting difference between first tokens and completions is requests that clients cancelled.",
			},
			{id: 206, title: "Requested and delivered output", width: 8, queries: perModel.plot("delivered, mean", indicator.OutputTokens, "max_tokens, mean", indicator.MaxTokens)},
		}},
		{id: 210, title: "System health", panels: []panel{
			{id: 211, title: "KV cache utilization", width: 8, max: 1, steps: kvSteps, queries: perModel.plot("", indicator.KVUsage)},
			{
				id: 212, title: "GPU activity", width: 8, max: 1, queries: perGPU.plot("SM active", indicator.SMActive, "utilization", indicator.GPUUtil),
				doc: "All devices of the cluster: an exporter's series have no model label.",
			},
			{id: 213, title: "GPU memory used", width: 8, max: 1, queries: perGPU.plot("", indicator.GPUMemoryUsed)},
			{id: 214, title: "Host memory", width: 8, queries: perServer.plot("API server", indicator.ResidentMemory, "container", indicator.ContainerMemory)},
			{id: 215, title: "API server CPU use", width: 8, queries: perServer.plot("", indicator.FrontendCPU)},
			{
				id: 216, title: "Scrape duration", width: 8, queries: perServer.plot("", indicator.ScrapeDuration),
				doc:    "A slow metrics page is a symptom by itself: the API server's event loop is busy.",
				noData: "no server matches the variables, or the samples come from a recording, which has no scrape durations",
			},
		}},
		{id: 220, title: "Queue and scheduling", panels: []panel{
			{
				id: 221, title: "Queue depth", width: 8, steps: queueSteps, queries: perModel.plot("waiting", indicator.Waiting, "always waiting", indicator.WaitingFloor),
				doc: "Short queues are normal under bursts; a queue that never clears is not.",
			},
			{id: 222, title: "Running requests", width: 8, queries: perModel.plot("running", indicator.Running, "highest in the time shown", indicator.RunningPeak)},
			{
				id: 223, title: "Decode batch size", width: 8,
				queries: append(
					perModel.plot("decoded per step", indicator.DecodeBatch, "running P50", indicator.RunningP50),
					query{
						legend: "running P95", signal: indicator.Running,
						expr: "sum by (instance, model_name) (quantile_over_time(0.95, vllm:num_requests_running[5m]))",
					}),
				doc: "vLLM has no histogram of its batch: the mean is exact, from tokens over steps.",
			},
			{
				id: 224, title: "Queue time", width: 8, steps: queueTimeSteps,
				queries: withVolume(indicator.CompletionRate, perModel.plot("P95", indicator.QueueTimeP95, "mean", indicator.QueueTimeMean)),
			},
			{id: 225, title: "Preemptions", width: 8, queries: perModel.plot("", indicator.PreemptionRate)},
			{id: 226, title: "Tokens per step", width: 8, queries: perModel.plot("", indicator.StepTokens)},
			{
				id: 227, title: "Waiting requests by reason", width: 12, stack: true, unit: indicator.Requests, queries: []query{{
					level: perModel, shows: []string{"reason"}, signal: indicator.Deferred,
					expr: "sum by (reason, instance, model_name) (avg_over_time(vllm:num_requests_waiting_by_reason[5m]))",
				}},
				doc: "Those that wait for capacity profit from a larger batch or more blocks, deferred ones from neither.",
			},
			{
				id: 228, title: "Time of a request by stage", width: 12,
				queries: withVolume(indicator.CompletionRate, perModel.plot(
					"queue", indicator.QueueTimeMean, "prefill", indicator.PrefillTimeMean, "decode", indicator.DecodeTimeMean)),
				doc: "Means of finished requests. Decode grows with the length of answers, prefill with that of prompts.",
			},
		}},
		{id: 230, title: "Cache efficiency", panels: []panel{
			{id: 231, title: "Prefix cache hit ratio", width: 8, max: 1, queries: perModel.plot("", indicator.PrefixHitRatio)},
			{id: 232, title: "Prefix cache look-ups", width: 8, queries: perModel.plot("", indicator.PrefixQueryRate)},
			{
				id: 233, title: "Computed prompt tokens per request", width: 8, queries: perModel.plot("prompt", indicator.PromptTokens, "computed", indicator.ComputedTokens),
				doc: "The distance between the two lines is what the prefix cache saves.",
			},
			{id: 234, title: "KV cache usage, highest", width: 8, max: 1, steps: kvSteps, queries: perModel.plot("", indicator.KVUsagePeak)},
			{id: 235, title: "Preemptions per request", width: 8, queries: perModel.plot("", indicator.PreemptionsPerRequest)},
		}},
	},
}

var incidentLayout = layout{
	uid: "sixty-incident", title: "vLLM / Incident",
	doc: "What do users experience, do requests queue, is the engine short of memory, and did the workload change?",
	rows: []row{
		{id: 300, title: "1 – 5: what users experience", panels: []panel{
			{
				id: 301, title: "1. Incoming requests and HTTP errors", width: 8, unit: indicator.RequestsPerSecond,
				doc: "Counted at the API server when a request ends. Requests rejected by a gateway in front are not included.",
				queries: []query{
					{level: perJob, legend: "all", signal: indicator.HTTPRate},
					{level: perJob, legend: "", shows: []string{"status"}, expr: `sum by (instance, status) (rate(http_requests_total{status=~"[45].*"}[5m]))`},
				},
			},
			{id: 302, title: "2. Time to first token", width: 8, steps: ttftSteps, queries: withVolume(indicator.FirstTokenRate, perModel.plot("P95", indicator.TTFTP95, "P99", indicator.TTFTP99))},
			{id: 303, title: "3. Inter-token latency", width: 8, steps: itlSteps, queries: withVolume(indicator.FirstTokenRate, perModel.plot("mean", indicator.ITLMean, "P95", indicator.ITLP95, "P99", indicator.ITLP99))},
			{
				id: 304, title: "4. Time per output token of a request", width: 8, queries: withVolume(indicator.CompletionRate, perModel.plot("P95", indicator.TPOTP95)),
				doc: "The mean over one answer. It hides single stalls, which the inter-token latency shows.",
			},
			{id: 305, title: "5. End-to-end latency", width: 8, steps: e2eSteps, queries: withVolume(indicator.CompletionRate, perModel.plot("P95", indicator.E2EP95))},
		}},
		{id: 320, title: "6 – 8: do requests queue, is the engine short of memory, and what is the throughput?", panels: []panel{
			{
				id: 321, title: "6. Queue time and waiting requests", width: 8, steps: queueTimeSteps,
				queries: append(perModel.plot("P95", indicator.QueueTimeP95, "mean", indicator.QueueTimeMean), perModel.plot("waiting", indicator.Waiting)...),
			},
			{
				id: 331, title: "7. KV cache usage and preemptions", width: 8, steps: kvSteps,
				queries: append(perModel.plot("usage", indicator.KVUsage, "highest", indicator.KVUsagePeak), perModel.plot("preemptions", indicator.PreemptionRate)...),
				doc:     "A full cache without preemptions is not a fault. With continuing preemptions it is: the same work is repeated.",
			},
			{id: 322, title: "8. Token throughput", width: 8, queries: perModel.plot("prompt", indicator.PromptTokenRate, "generated", indicator.GenerationTokenRate)},
		}},
		{id: 310, title: "9: did the traffic change?", repeat: "model", panels: []panel{
			{id: 311, title: "9. Prompt length", kind: Heatmap, width: 8, unit: indicator.Tokens, queries: bucketQuery(indicator.PromptTokensP50)},
			{id: 312, title: "9. Output length", kind: Heatmap, width: 8, unit: indicator.Tokens, queries: bucketQuery(indicator.OutputTokensP95)},
			{
				id: 313, title: "9. Lengths", width: 8, unit: indicator.Tokens, queries: withVolume(indicator.CompletionRate, perModel.plot(
					"prompt P50", indicator.PromptTokensP50, "prompt P99", indicator.PromptTokensP99, "output mean", indicator.OutputTokens, "output P95", indicator.OutputTokensP95)),
				doc: "Longer prompts delay first tokens, longer outputs keep batch and cache full for longer; neither is a fault of the server.",
			},
		}},
		{id: 330, title: "10: is work reused, and where does the time go?", panels: []panel{
			{id: 332, title: "10. Prefix cache hit ratio", width: 8, max: 1, queries: perModel.plot("", indicator.PrefixHitRatio)},
			{
				id: 323, title: "Where first tokens wait", width: 8, queries: withVolume(indicator.FirstTokenRate, perModel.plot(
					"TTFT, mean", indicator.TTFTMean, "queue", indicator.QueueTimeMean, "prefill", indicator.PrefillTimeMean, "neither", indicator.UnseenWait)),
				doc: "TTFT is counted at the first token, the other lines when requests end, so they follow later. Queue: load or cache. Prefill: prompts, reuse or a slow GPU. Neither: a long step that blocks the engine, such as another request's prefill without chunks.",
			},
			{id: 333, title: "Running and decoded", width: 8, queries: perModel.plot("running", indicator.Running, "decoded per step", indicator.DecodeBatch)},
		}},
		{id: 340, title: "11: GPU", panels: []panel{
			{id: 341, title: "11. GPU activity and memory", width: 8, max: 1, queries: perGPU.plot("SM active", indicator.SMActive, "utilization", indicator.GPUUtil, "memory", indicator.GPUMemoryUsed)},
			{id: 342, title: "11. Power", width: 4, queries: perGPU.plot("", indicator.GPUPower)},
			{id: 343, title: "11. SM clock", width: 4, queries: perGPU.plot("", indicator.SMClock)},
			{
				id: 344, title: "11. Throttling and hardware errors", width: 8, unit: indicator.Count,
				queries: perGPU.plot("thermal", indicator.ThermalReason, "hardware or brake", indicator.PowerReason, "power cap", indicator.PowerCapReason, "XID", indicator.XIDChanges, "ECC", indicator.ECCErrors),
			},
		}},
	},
}

// bucketQuery returns the query of a heatmap of a percentile's histogram.
func bucketQuery(s *indicator.Signal) []query {
	return []query{{level: perModel, signal: s, expr: "sum by (le) (increase(" + s.Histogram + "_bucket[5m]))"}}
}

var fleetLayout = layout{
	uid: "sixty-fleet", title: "vLLM / Fleet",
	doc: "Is one replica, or one data-parallel rank, worse than the others? Fleet totals and percentiles hide it.",
	rows: []row{
		{id: 400, title: "Imbalance", panels: []panel{
			{id: 401, title: "Replicas of the model", kind: Stat, width: 6, queries: []query{{
				level: perFleet, signal: indicator.Replicas,
				expr: "count by (model_name) (sum by (instance, model_name) (vllm:num_requests_running))",
			}}, unit: indicator.Count},
			{
				id: 402, title: "Arrivals against the fleet's mean", width: 9, queries: perReplica.plot("", indicator.ArrivalShare),
				doc: "1 is a fair share. One line above and others below: routing. All at 1 with unequal latency: a slow replica.",
			},
			{id: 403, title: "Requests held against the fleet's mean", width: 9, queries: perReplica.plot("", indicator.LoadShare)},
		}},
		{id: 410, title: "Per replica", panels: []panel{
			{id: 411, title: "First tokens", width: 8, queries: perReplica.plot("", indicator.FirstTokenRate)},
			{id: 412, title: "TTFT P95", width: 8, steps: ttftSteps, queries: perReplica.plot("", indicator.TTFTP95)},
			{id: 413, title: "ITL mean", width: 8, queries: perReplica.plot("", indicator.ITLMean)},
			{id: 414, title: "Running requests", width: 8, queries: perReplica.plot("", indicator.Running)},
			{id: 415, title: "Waiting requests", width: 8, steps: queueSteps, queries: perReplica.plot("", indicator.Waiting)},
			{id: 416, title: "KV cache usage", width: 8, max: 1, steps: kvSteps, queries: perReplica.plot("", indicator.KVUsage)},
			{id: 417, title: "Preemptions", width: 8, queries: perReplica.plot("", indicator.PreemptionRate)},
			{id: 418, title: "Prefix cache hit ratio", width: 8, max: 1, queries: perReplica.plot("", indicator.PrefixHitRatio)},
			{id: 419, title: "Generated tokens", width: 8, queries: perReplica.plot("", indicator.GenerationTokenRate)},
		}},
		{id: 420, title: "Data-parallel ranks", panels: []panel{
			{
				id: 421, title: "Requests held per rank", width: 8, unit: indicator.Requests, queries: []query{{
					level: perEngine, legend: "rank", shows: []string{"engine"}, signal: indicator.EngineSpread,
					expr: "sum by (engine, instance, model_name) (avg_over_time(vllm:num_requests_running[5m]) + avg_over_time(vllm:num_requests_waiting[5m]))",
				}},
				doc: "A rank with many requests while another is idle, or one that never changes while the others do: routing, or a stuck rank.",
			},
			{id: 422, title: "Generated tokens per rank", width: 8, unit: indicator.TokensPerSecond, queries: []query{{
				level: perEngine, legend: "rank", shows: []string{"engine"}, signal: indicator.GenerationTokenRate,
				expr: "sum by (engine, instance, model_name) (rate(vllm:generation_tokens_total[5m]))",
			}}},
			{
				id: 423, title: "KV cache usage per rank", width: 8, max: 1, unit: indicator.Ratio, steps: kvSteps, queries: []query{{
					level: perEngine, legend: "rank", shows: []string{"engine"}, signal: indicator.KVUsage,
					expr: "max by (engine, instance, model_name) (avg_over_time(vllm:kv_cache_usage_perc[5m]))",
				}},
				doc: "Averages over ranks hide one that is full.",
			},
			{id: 424, title: "Busiest rank against the mean", width: 8, queries: perReplica.plot("", indicator.EngineSpread)},
			{id: 425, title: "Stuck engines", width: 8, queries: perReplica.plot("", indicator.StuckEngines)},
			{id: 426, title: "Heaviest rank against the mean", width: 8, queries: perReplica.plot("", indicator.RankSkew)},
		}},
		{id: 430, title: "Lives", panels: []panel{
			{id: 431, title: "Scrapes that succeeded", width: 8, max: 1, queries: perServer.plot("", indicator.Up)},
			{id: 432, title: "Time since the engine began to serve", width: 8, queries: perServer.plot("", indicator.ServingAge)},
			{id: 434, title: "How long the start took", width: 8, queries: perServer.plot("", indicator.StartTook)},
		}},
	},
}

var gpuLayout = layout{
	uid: "sixty-gpu", title: "vLLM / GPU", gpuOnly: true,
	doc: "Is the hardware busy, at full clock, and free of errors? From NVIDIA's dcgm-exporter.",
	rows: []row{
		{id: 500, title: "Work", panels: []panel{
			{id: 501, title: "SM activity", width: 8, max: 1, queries: perGPU.plot("", indicator.SMActive)},
			{id: 502, title: "Engine activity", width: 8, max: 1, queries: perGPU.plot("", indicator.EngineActive)},
			{id: 503, title: "GPU utilization", width: 8, max: 1, queries: perGPU.plot("", indicator.GPUUtil)},
		}},
		{id: 510, title: "Memory", panels: []panel{
			{id: 511, title: "Memory used", width: 12, max: 1, queries: perGPU.plot("", indicator.GPUMemoryUsed)},
		}},
		{id: 520, title: "Clocks, power, heat", panels: []panel{
			{id: 521, title: "SM clock", width: 6, queries: perGPU.plot("", indicator.SMClock)},
			{id: 522, title: "SM clock against its highest", width: 6, max: 1, queries: perGPU.plot("", indicator.SMClockRatio)},
			{id: 523, title: "Power", width: 6, queries: perGPU.plot("", indicator.GPUPower)},
			{id: 524, title: "Temperature", width: 6, queries: perGPU.plot("", indicator.GPUTemp)},
			{id: 525, title: "Reasons for lower clocks", width: 24, max: 2, queries: perGPU.plot("thermal", indicator.ThermalReason, "hardware or brake", indicator.PowerReason, "power cap", indicator.PowerCapReason)},
		}},
		{id: 530, title: "Errors", panels: []panel{
			{id: 531, title: "XID errors", width: 8, queries: perGPU.plot("last code", indicator.XID, "new in the time shown", indicator.XIDChanges)},
			{id: 532, title: "Memory errors", width: 8, queries: perGPU.plot("uncorrectable in the time shown", indicator.ECCErrors, "row remapping failed", indicator.RemapFailures)},
			{id: 533, title: "Link errors", width: 8, queries: perGPU.plot("NVLink CRC", indicator.NVLinkErrors, "PCIe replays", indicator.PCIeReplays)},
		}},
	},
}

var gatewayLayout = layout{
	uid: "sixty-gateway", title: "vLLM / Gateway and SLO",
	doc: "Do requests succeed at the HTTP boundary, and are the objectives met?",
	rows: []row{
		{id: 630, title: "As clients see it, at a gateway", panels: []panel{
			{
				id: 631, title: "Time to first token", width: 8, steps: ttftSteps,
				queries: perGateway.plot("P50", indicator.GatewayTTFTP50, "P95", indicator.GatewayTTFTP95, "P99", indicator.GatewayTTFTP99),
			},
			{id: 632, title: "Time between tokens", width: 8, steps: itlSteps, queries: perGateway.plot("P50", indicator.GatewayITLP50, "P95", indicator.GatewayITLP95)},
			{id: 633, title: "Whole request", width: 8, steps: e2eSteps, queries: perGateway.plot("P50", indicator.GatewayE2EP50, "P95", indicator.GatewayE2EP95)},
			{
				id: 634, title: "Offered load", width: 8, queries: perGateway.plot("arrive", indicator.GatewayOffered, "end", indicator.GatewayEnded),
				doc: "Requests that arrive but do not end pile up, here or behind.",
			},
			{
				id: 635, title: "How requests end", width: 8, max: 1,
				queries: perGateway.plot("well", indicator.GatewaySuccess, "failed", indicator.GatewayErrors, "refused as wrong", indicator.GatewayClientErrs, "given up by clients", indicator.GatewayGaveUp),
			},
			{
				id: 636, title: "In flight", width: 8,
				queries: perGateway.plot("at the servers", indicator.GatewayOpen, "before them", indicator.GatewayQueued, "held by no engine", indicator.GatewayMissing, "held by the engine alone", indicator.GatewayExcess),
			},
			{id: 637, title: "Wait before the upstream", width: 8, queries: perGateway.plot("P95", indicator.GatewayQueueP95)},
			{id: 638, title: "Retries and limits in the time shown", width: 8, queries: perGateway.plot("retries", indicator.GatewayRetries, "ended by a limit", indicator.GatewayTimeouts)},
			{id: 639, title: "Suspected leaks, servers that are down or unknown", width: 8, queries: perGateway.plot("open for too long", indicator.GatewayLeaks, "down", indicator.GatewayDown, "of unknown load", indicator.PickerStale)},
			{
				id: 640, title: "Time outside the engine", width: 12, queries: perGateway.plot("mean", indicator.GatewayOutside),
				doc: "In the gateway, on the network, in routers and in the API server: not in the engine's metrics.",
			},
			{id: 641, title: "Busiest server against the others", width: 12, queries: perGateway.plot("times their mean", indicator.GatewayBusiest)},
		}},
		{id: 600, title: "HTTP boundary", panels: []panel{
			{id: 601, title: "Requests by status", width: 8, stack: true, unit: indicator.RequestsPerSecond, queries: []query{{
				level: perJob, shows: []string{"status"}, signal: indicator.HTTPRate,
				expr: `sum by (status, instance) (rate(http_requests_total{handler=~"/v1/.*|/pooling|/generate.*|none"}[5m]))`,
			}}},
			{id: 602, title: "Requests by endpoint", width: 8, stack: true, unit: indicator.RequestsPerSecond, queries: []query{{
				level: perJob, shows: []string{"handler"}, signal: indicator.HTTPRate,
				expr: `sum by (handler, instance) (rate(http_requests_total[5m]))`,
			}}},
			{id: 603, title: "Share of errors", width: 8, queries: perJob.plot("5xx", indicator.ServerErrs, "4xx", indicator.ClientErrs)},
			{id: 604, title: "Requests cancelled by clients", width: 8, queries: perJob.plot("", indicator.AbandonedShare)},
			{
				id: 605, title: "How requests finished", width: 8, stack: true, unit: indicator.RequestsPerSecond, queries: []query{{
					level: perModel, shows: []string{"finished_reason"}, signal: indicator.CompletionRate,
					expr: `sum by (finished_reason, instance, model_name) (rate(vllm:request_success_total[5m]))`,
				}},
				doc: "Engine completions, not the service's success rate: failures before the engine and clients that disconnect are not included.",
			},
			{id: 606, title: "Refused or failed in the engine", width: 8, queries: perModel.plot("refused at admission", indicator.AdmissionRejections, "engine error", indicator.EngineErrors)},
		}},
	},
}

const (
	noHost = "no node_exporter is scraped, or none matches the variables"
	noPod  = "no kube-state-metrics is scraped, or it has no pod with an image of an inference server"
)

// servers selects the pods that serve models by their images, for kube-state-metrics knows nothing of models.
var servers = ` and on (cluster, namespace, pod) group by (cluster, namespace, pod) (kube_pod_container_info{image=~".*(` + dialect.Images() + `|dynamo).*"})`

// hostPanel is a panel of machines, pod one of pods.
func hostPanel(id int, title string, unit indicator.Unit, doc string, named ...string) panel {
	return exporterPanel(perHost, id, title, unit, doc, noHost, named)
}

func podPanel(id int, title string, unit indicator.Unit, doc string, named ...string) panel {
	return exporterPanel(perPod, id, title, unit, doc, noPod, named)
}

// exporterPanel is a panel of other exporters' metrics: pairs of a legend and PromQL.
func exporterPanel(l level, id int, title string, unit indicator.Unit, doc, noData string, named []string) panel {
	p := panel{id: id, title: title, width: 8, unit: unit, doc: doc, noData: noData}
	for i := 0; i+1 < len(named); i += 2 {
		p.queries = append(p.queries, query{level: l, legend: named[i], expr: named[i+1]})
	}
	return p
}

var hostLayout = layout{
	uid: "sixty-host", title: "vLLM / Host and Kubernetes", hosts: true,
	doc: "Is the servers' machine short of a resource, and what is the state of their pods? From node_exporter and kube-state-metrics.",
	rows: []row{
		{id: 700, title: "Processor and memory", panels: []panel{
			hostPanel(701, "CPU use", indicator.Ratio, "The API server tokenizes and streams on the CPU: above 90 % first tokens wait for it, regardless of the GPU.",
				"busy", `1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))`,
				"waiting for disks", `avg by (instance) (rate(node_cpu_seconds_total{mode="iowait"}[5m]))`),
			hostPanel(702, "Load per processor", indicator.Times, "Running and waiting tasks per CPU: well above 1 the engine's own threads wait.",
				"", `max by (instance) (node_load5) / count by (instance) (node_cpu_seconds_total{mode="idle"})`),
			hostPanel(703, "Memory in use", indicator.Ratio, "Without reclaimable memory. Loading a model needs room for its weights; a machine that swaps cannot serve.",
				"", `1 - max by (instance) (node_memory_MemAvailable_bytes) / max by (instance) (node_memory_MemTotal_bytes)`),
		}},
		{id: 710, title: "Network and disks", panels: []panel{
			hostPanel(711, "Network", indicator.BytesPerSecond, "Tensor parallelism over several machines, and KV transfers between them, depend on it.",
				"in", `sum by (instance) (rate(node_network_receive_bytes_total{device!~"lo|veth.*|cali.*|cni.*|docker.*"}[5m]))`,
				"out", `sum by (instance) (rate(node_network_transmit_bytes_total{device!~"lo|veth.*|cali.*|cni.*|docker.*"}[5m]))`),
			hostPanel(712, "Network drops and errors", indicator.PerSecond, "Packets lost at the interface.",
				"drops", `sum by (instance) (rate(node_network_receive_drop_total[5m]) + rate(node_network_transmit_drop_total[5m]))`,
				"errors", `sum by (instance) (rate(node_network_receive_errs_total[5m]) + rate(node_network_transmit_errs_total[5m]))`),
			hostPanel(713, "Disk busy", indicator.Ratio, "Share of time in which the busiest disk was busy: it limits the loading of models.",
				"", `max by (instance) (rate(node_disk_io_time_seconds_total[5m]))`),
			hostPanel(714, "Disk throughput", indicator.BytesPerSecond, "",
				"read", `sum by (instance) (rate(node_disk_read_bytes_total[5m]))`,
				"written", `sum by (instance) (rate(node_disk_written_bytes_total[5m]))`),
			hostPanel(715, "File systems in use", indicator.Ratio, "The fullest one: weights, compile caches and logs fill it, and a full one prevents the next start.",
				"", `1 - min by (instance) (node_filesystem_avail_bytes{fstype!~"tmpfs|overlay|squashfs"} / node_filesystem_size_bytes{fstype!~"tmpfs|overlay|squashfs"})`),
		}},
		{id: 720, title: "Pods", panels: []panel{
			podPanel(721, "Ready", indicator.Count, "1 while the pod is ready, and routed to.",
				"", `max by (cluster, namespace, pod) (kube_pod_status_ready{condition="true"})`+servers),
			podPanel(722, "Container restarts", indicator.Count, "In the time shown. Engine restarts within the container are not included.",
				"", `sum by (cluster, namespace, pod) (increase(kube_pod_container_status_restarts_total[1h]))`+servers),
			podPanel(723, "Why containers wait or ended", indicator.Count, "CrashLoopBackOff, ImagePullBackOff, OOMKilled and their like.",
				"waits", `max by (cluster, namespace, pod, reason) (kube_pod_container_status_waiting_reason)`+servers,
				"ended", `max by (cluster, namespace, pod, reason) (kube_pod_container_status_last_terminated_reason)`+servers),
			podPanel(724, "Pending", indicator.Count, "1 while the pod is not scheduled, or its images are pulled.",
				"", `max by (cluster, namespace, pod) (kube_pod_status_phase{phase="Pending"})`+servers),
			podPanel(725, "GPUs requested", indicator.Count, "",
				"", `sum by (cluster, namespace, pod) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"})`+servers),
			podPanel(726, "Memory limit", indicator.Bytes, "Beyond it the kernel kills the container: OOMKilled.",
				"", `sum by (cluster, namespace, pod) (kube_pod_container_resource_limits{resource="memory"})`+servers),
		}},
	},
}
