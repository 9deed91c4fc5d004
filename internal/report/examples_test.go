package report

import (
	"math"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

var (
	at = time.Date(2026, 3, 14, 3, 12, 40, 250e6, time.UTC)

	thrashing  = &catalog.Pathology{ID: "kv-cache-thrashing", Runbook: "# KV cache thrashing\n", Title: "The KV cache cannot hold the running requests: they are evicted and recomputed", Severity: catalog.Page, FollowsObjectives: true}
	saturation = &catalog.Pathology{ID: "saturation", Runbook: "# Saturation\n", Title: "More work arrives than the server can do: requests queue", Severity: catalog.Page, FollowsObjectives: true}
	slowDecode = &catalog.Pathology{ID: "slow-decode", Runbook: "# Slow decode\n", Title: "Decode steps take longer than their batch explains", Severity: catalog.Page, FollowsObjectives: true}
	leak       = &catalog.Pathology{ID: "memory-leak", Runbook: "# Memory leak\n", Title: "The API server's memory grows without end", Severity: catalog.Ticket}
	httpErrors = &catalog.Pathology{ID: "http-errors", Runbook: "# HTTP errors\n", Title: "Requests end in server errors", Severity: catalog.Page}
	throttling = &catalog.Pathology{ID: "gpu-throttling", Runbook: "# GPU throttling\n", Title: "The GPU runs below its clock", Severity: catalog.Page}
	hardware   = &catalog.Pathology{ID: "gpu-hardware-errors", Runbook: "# GPU hardware errors\n", Title: "The GPU reports hardware errors", Severity: catalog.Page}
	targetDown = &catalog.Pathology{ID: "target-down", Runbook: "# Target down\n", Title: "The target does not answer", Severity: catalog.Page}
	imbalance  = &catalog.Pathology{ID: "replica-imbalance", Runbook: "# Replica imbalance\n", Title: "One replica gets more than its share", Severity: catalog.Ticket}
)

func evidence(s *indicator.Signal, op catalog.Op, now, normal, threshold float64, source, name string, holds catalog.Truth) catalog.Evidence {
	return catalog.Evidence{
		Signal: s, Op: op, Value: indicator.Known(now), Baseline: indicator.Known(normal),
		Threshold: threshold, Source: source, Name: name, Holds: holds,
	}
}

var dcgm = []diagnose.Gap{
	{ID: "gpu-throttling", Missing: []string{"not exposed: DCGM_FI_DEV_SM_CLOCK"}, Hint: "run NVIDIA's dcgm-exporter next to the server and give its URL too"},
	{ID: "gpu-hardware-errors", Missing: []string{"not exposed: DCGM_FI_DEV_XID_ERRORS", "not exposed: DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"}, Hint: "run NVIDIA's dcgm-exporter next to the server and give its URL too"},
}

func notThere(p *catalog.Pathology, e catalog.Evidence) diagnose.Finding {
	return diagnose.Finding{Pathology: p, Status: diagnose.OK, Severity: p.Severity, Targets: []string{"vllm-0:8000"}, Summary: p.Title, Evidence: []catalog.Evidence{e}, RuledOutBy: &e}
}

func unchecked(p *catalog.Pathology) diagnose.Finding {
	return diagnose.Finding{Pathology: p, Status: diagnose.Unknown, Severity: p.Severity, Targets: []string{"vllm-0:8000"}, Summary: p.Title}
}

func server(name string) diagnose.Target {
	return diagnose.Target{
		Name: name, Dialect: dialect.Dialect{Naming: engine.Naming{ID: "vllm-v1"}, Engine: dialect.VLLM}, Version: "0.23.0",
		Config: engine.Config{engine.MaxNumSeqs: {Value: "256", Source: "--engine-args"}, engine.BlockSize: {Value: "16", Source: "cache_config_info"}},
	}
}

// firing returns KV cache thrashing after prompts became longer.
func firing() diagnose.Diagnosis {
	late := evidence(indicator.TTFTP95, catalog.GreaterThan, 30, 0.28, 3, "default", "ttft_objective", catalog.True)
	late.Value.AtLeast = true
	heavy := evidence(indicator.PreemptionsPerRequest, catalog.GreaterThan, 1.34, 0, 0.5, "default", "preemptions_per_request_heavy", catalog.True)
	itl := evidence(indicator.ITLP95, catalog.GreaterThan, 0.09, 0.03, math.NaN(), "", "itl_objective", catalog.Unknown)
	f := diagnose.Finding{
		Pathology: thrashing, Status: diagnose.Firing, Severity: catalog.Page, Targets: []string{"vllm-0:8000"}, Since: at.Add(-90 * time.Second), Confidence: 0.93,
		Summary: "The KV cache cannot hold the running requests: 61 preemptions in a minute, 1.34 for every request that ends",
		Evidence: []catalog.Evidence{
			evidence(indicator.KVUsagePeak, catalog.GreaterThan, 0.998, 0.41, 0.9, "default", "kv_cache_full", catalog.True),
			evidence(indicator.Preemptions, catalog.GreaterThan, 61, 0, 2.5, "default", "preemptions_some", catalog.True),
			evidence(indicator.PreemptionsPerRequest, catalog.GreaterThan, 1.34, 0, 0.1, "default", "preemptions_per_request", catalog.True),
			late, evidence(indicator.TTFTP50, catalog.GreaterThan, 11.2, 0.11, 0.27, "baseline", "ttft_worse", catalog.True),
			itl, heavy, late,
		},
		Reasons: []string{
			"A request holds 2.1k tokens on average (490 of prompt, the rest of answer); 256 of them need 537k tokens, the cache holds 86k",
			"Each eviction throws away the blocks of a request that was half answered; its prompt and its answer so far are computed again.",
		},
		Fixes: []catalog.Fix{
			{
				Summary: "Lower --max-num-seqs from 256 to 41", Changes: []catalog.Change{{Flag: "--max-num-seqs", From: "256", To: "41"}},
				Arithmetic: []string{"86,016 tokens of KV cache = 5,376 blocks × 16 (vllm:cache_config_info)", "÷ 2,097 tokens a request at its end (mean prompt 490 + mean output 1,607, window)", "= 41 requests"},
				Tradeoff:   "Requests wait in the queue instead of being computed twice", Verify: "Preemptions per request falls below 0.1 and TTFT P95 below 3 s within five minutes",
				Predicted: predicted(),
			},
			{
				Summary: "Give the cache more memory", Changes: []catalog.Change{{Flag: "--gpu-memory-utilization", From: "0.85", To: "0.92"}},
				Predicted: &catalog.Prediction{Reason: "how many KV blocks that is is not in the metrics"},
			},
			{Summary: "Add a replica."},
		},
	}
	queue := diagnose.Finding{Pathology: saturation, Status: diagnose.Firing, Severity: catalog.Page, Targets: []string{"vllm-0:8000"}, Summary: saturation.Title, InhibitedBy: "kv-cache-thrashing", Confidence: 0.8}
	memory := diagnose.Finding{Pathology: leak, Status: diagnose.Firing, Severity: catalog.Ticket, Targets: []string{"vllm-0:8000"}, Summary: "The API server's memory grows by 4.1 MiB/s", Confidence: 0.7}
	return single(diagnose.Diagnosis{
		At: at, Status: diagnose.Firing,
		Verdict: diagnose.Verdict{ID: "kv-cache-thrashing", Severity: catalog.Page, Summary: f.Summary, Targets: f.Targets, Since: f.Since, Confidence: f.Confidence},
		Findings: []diagnose.Finding{
			f, memory, queue, unchecked(throttling), unchecked(hardware),
			notThere(slowDecode, evidence(indicator.ITLP50, catalog.GreaterThan, 0.031, 0.029, 0.0435, "baseline", "decode_slower", catalog.False)),
			notThere(httpErrors, evidence(indicator.ServerErrCount, catalog.GreaterThan, 0, 0, 0.5, "default", "http_errors", catalog.False)),
		},
		Workload: diagnose.Workload{Known: true, Changed: true, Factors: []diagnose.Factor{
			{Signal: indicator.FirstTokenRate, Name: "request_rate", Value: 3.9, Baseline: 4, ShareOfTTFTChange: -1, ShareOfOutputChange: -1},
			{Signal: indicator.PromptTokens, Name: "prompt_tokens", Value: 490, Baseline: 80, ShareOfTTFTChange: 0.08, ShareOfOutputChange: -1},
			{Signal: indicator.PrefixHitRatio, Name: "prefix_cache_hit_ratio", Value: 0.12, Baseline: 0.63, ShareOfTTFTChange: 0.02, ShareOfOutputChange: -1},
			{Signal: indicator.QueueTimeMean, Name: "queue_time", Value: 9.8, Baseline: 0, ShareOfTTFTChange: 0.9, ShareOfOutputChange: -1},
		}},
		Coverage: dcgm,
		Targets:  []diagnose.Target{server("vllm-0:8000")},
		Window:   period.Period{From: at.Add(-time.Minute), To: at},
		Baseline: period.Period{From: at.Add(-time.Hour), To: at.Add(-90 * time.Second)}, Source: segments.FromHistory,
	})
}

// single completes the diagnosis of targets that serve one model.
func single(d diagnose.Diagnosis) diagnose.Diagnosis {
	d.Verdict.Status, d.Verdict.Workload = d.Status, d.Workload
	d.Verdicts = []diagnose.Verdict{d.Verdict}
	return d
}

// predicted is what a simulation might say of the first fix.
func predicted() *catalog.Prediction {
	effect := func(s *indicator.Signal, measured, before, after, low, high float64) catalog.Effect {
		return catalog.Effect{
			Signal: s, Measured: indicator.Known(measured),
			Before: catalog.Estimate{Value: before, Low: 0.9 * before, High: 1.1 * before}, Unchanged: catalog.Estimate{Value: 1.2 * before, Low: before, High: 1.5 * before}, After: catalog.Estimate{Value: after, Low: low, High: high},
		}
	}
	return &catalog.Prediction{
		Benefit: catalog.Estimate{Value: 2.8, Low: 2.1, High: 3.4},
		Effects: []catalog.Effect{
			effect(indicator.TTFTP95, 9.8, 9.4, 1.2, 0.9, 1.6), effect(indicator.ITLP50, 0.021, 0.02, 0.018, 0.017, 0.019),
			effect(indicator.GenerationTokenRate, 2010, 2050, 2900, 2750, 3010), effect(indicator.Preemptions, 61, 66, 0, 0, 0),
		},
		Basis:   []string{"the 234 requests that arrived in the window of 1m0s", "step times fitted to metrics of the last 10m0s"},
		Caveats: []string{"extrapolated: batches below 60 requests were never measured, for 200 of 210 requests"},
	}
}

func healthy() diagnose.Diagnosis {
	d := firing()
	d.Status = diagnose.OK
	d.Verdict = diagnose.Verdict{ID: diagnose.Healthy, Summary: "Nothing is wrong: TTFT P95 280 ms, ITL P95 31 ms", Targets: []string{"vllm-0:8000"}, Confidence: 0.9}
	d.Findings = append(d.Findings[3:], notThere(saturation, evidence(indicator.WaitingFloor, catalog.GreaterThan, 0, 0, 0.5, "default", "queue_always", catalog.False)))
	d.Workload.Factors = d.Workload.Factors[1:2]
	d.Workload.Factors[0].ShareOfTTFTChange = -1
	return single(d)
}

func idle() diagnose.Diagnosis {
	return single(diagnose.Diagnosis{
		At: at, Status: diagnose.OK,
		Verdict:  diagnose.Verdict{ID: diagnose.Idle, Summary: "Nobody is served, and nobody waits", Targets: []string{"vllm-0:8000"}, Confidence: 0.9},
		Findings: []diagnose.Finding{notThere(saturation, evidence(indicator.WaitingFloor, catalog.GreaterThan, 0, 0, 0.5, "default", "queue_always", catalog.False))},
		Targets:  []diagnose.Target{server("vllm-0:8000")},
		Window:   period.Period{From: at.Add(-15 * time.Second), To: at},
	})
}

// uncertain returns a server on which requests wait and get nothing, for a shorter time than a verdict needs.
func uncertain() diagnose.Diagnosis {
	d := idle()
	d.Status = diagnose.Pending
	d.Verdict.ID, d.Verdict.Status, d.Verdict.Confidence = diagnose.NotCertain, diagnose.Pending, 0.5
	d.Verdict.Summary = "Not certain yet: 14 requests wait, and nobody got a first token for 20 s on vllm-0:8000"
	d.Doubts = []diagnose.Doubt{{Target: "vllm-0:8000", Reason: "14 requests wait, and nobody got a first token for 20 s on vllm-0:8000"}}
	return single(d)
}

func unknown() diagnose.Diagnosis {
	return single(diagnose.Diagnosis{
		At:       at,
		Verdict:  diagnose.Verdict{ID: diagnose.InsufficientData, Summary: "Cannot tell: shop:9000: exposes 212 metrics, none of an inference server", Targets: []string{}, Confidence: math.NaN()},
		Findings: []diagnose.Finding{unchecked(saturation), unchecked(slowDecode)},
		Coverage: []diagnose.Gap{
			{ID: "saturation", Missing: []string{"Minimum queue length: no samples"}},
			{ID: "slow-decode", Missing: []string{"ITL P50: no samples", "ITL mean: no samples", "TTFT P95: no samples"}},
		},
		Targets:  []diagnose.Target{{Name: "shop:9000", Problem: "exposes 212 metrics, none of an inference server"}},
		Unjudged: []diagnose.Unjudged{{Target: "shop:9000", Reason: "exposes 212 metrics, none of an inference server"}},
		Window:   period.Period{From: at.Add(-15 * time.Second), To: at},
		Notes:    []string{"Is that the address of the model server, and not of its gateway?"},
	})
}

// fleet returns a slow decode on replicas whose objectives hold. One replica is down, and the label of another has
// escape sequences for the terminal.
func fleet() diagnose.Diagnosis {
	slow := []string{"vllm-0:8000", "vllm-1:8000", "vllm-2:8000", "vllm-3:8000", "vllm-4:8000"}
	f := diagnose.Finding{
		Pathology: slowDecode, Status: diagnose.Firing, Severity: catalog.Ticket, Targets: slow, Since: at.Add(-26 * time.Hour), Confidence: 0.66, Summary: slowDecode.Title,
		Evidence: []catalog.Evidence{
			evidence(indicator.ITLP50, catalog.GreaterThan, 0.041, 0.019, 0.0285, "baseline", "decode_slower", catalog.True),
			evidence(indicator.ITLP95, catalog.GreaterThan, 0.048, 0.02, 0.05, "chat", "itl_objective", catalog.False),
		},
		Fixes: []catalog.Fix{{Summary: "Look at the GPUs' clocks", Verify: "ITL P50 returns to 19 ms"}},
	}
	down := diagnose.Finding{Pathology: imbalance, Status: diagnose.Firing, Severity: catalog.Ticket, Targets: slow[:1], Summary: imbalance.Title}
	wait := diagnose.Finding{Pathology: saturation, Status: diagnose.Pending, Severity: catalog.Page, Targets: slow[1:2], Summary: saturation.Title}
	gone := diagnose.Finding{Pathology: targetDown, Status: diagnose.Firing, Severity: catalog.Page, Targets: []string{"vllm-5:8000"}, Summary: targetDown.Title}
	d := diagnose.Diagnosis{
		At: at, Status: diagnose.Firing,
		Verdict:  diagnose.Verdict{ID: "slow-decode", Severity: catalog.Ticket, SinceAtLeast: true, Summary: f.Summary, Targets: slow, Since: f.Since, Confidence: f.Confidence},
		Findings: []diagnose.Finding{f, down, gone, wait},
		Window:   period.Period{From: at.Add(-5 * time.Minute), To: at},
		Source:   segments.FromFile,
		Workload: diagnose.Workload{Known: true, Factors: []diagnose.Factor{
			{Signal: indicator.ITLMean, Name: "decode_step_time", Value: 0.042, Baseline: 0.02, ShareOfTTFTChange: -1, ShareOfOutputChange: -1},
			{Signal: indicator.PrefillTimePerToken, Name: "prefill_time_per_token", Value: 0.00042, Baseline: 0.0002, ShareOfTTFTChange: 1, ShareOfOutputChange: -1},
		}},
	}
	for _, name := range append(slow, "vllm-5:8000") {
		d.Targets = append(d.Targets, server(name))
	}
	d.Targets[1].Version = "0.24\x1b[2J.0<b>|`"
	return single(d)
}

// company returns a Prometheus server with several models: two have different findings, one is healthy except for a
// target that cannot be judged, and of one nothing is known.
func company() diagnose.Diagnosis {
	d := firing()
	page := d.Verdict
	page.Model = "llama-70b"
	for i := range d.Findings {
		d.Findings[i].Model = page.Model
	}
	slow := diagnose.Finding{
		Pathology: slowDecode, Model: "mistral-7b", Status: diagnose.Firing, Severity: catalog.Ticket, Targets: []string{"vllm-2:8000", "vllm-1:8000"},
		Since: at.Add(-14 * time.Second), SinceAtLeast: true, Confidence: 0.7, Summary: slowDecode.Title,
		Evidence: []catalog.Evidence{evidence(indicator.ITLP50, catalog.GreaterThan, 0.041, 0.019, 0.0285, "baseline", "decode_slower", catalog.True)},
		Fixes:    []catalog.Fix{{Summary: "Look at the GPUs' clocks", Verify: "ITL P50 returns to 19 ms"}, {Summary: "Restart the server"}},
	}
	hangUp := &catalog.Pathology{ID: "client-cancellations", Runbook: "# Client cancellations\n", Title: "Clients hang up before they are answered", Severity: catalog.Ticket}
	d.Findings = append(d.Findings, slow, diagnose.Finding{Pathology: hangUp, Model: "mistral-7b", Status: diagnose.Firing, Severity: catalog.Ticket, Targets: []string{"vllm-1:8000"}, Summary: hangUp.Title})
	ticket := diagnose.Verdict{
		ID: "slow-decode", Status: diagnose.Firing, Severity: catalog.Ticket, Model: "mistral-7b", Summary: slow.Summary, Targets: slow.Targets, Since: slow.Since, SinceAtLeast: true, Confidence: slow.Confidence,
		Workload: diagnose.Workload{Target: "vllm-2:8000", Known: true, Factors: []diagnose.Factor{
			{Signal: indicator.ITLMean, Name: "decode_step_time", Value: 0.042, Baseline: 0.02, ShareOfTTFTChange: -1, ShareOfOutputChange: -1},
		}},
	}
	page.Workload.Target = "vllm-0:8000"
	well := diagnose.Verdict{ID: diagnose.Healthy, Status: diagnose.OK, Model: "qwen-3", Targets: []string{"vllm-3:8000", "vllm-4:8000"}, Confidence: 0.38, Summary: "Nothing is wrong; 1 of 2 targets could not be judged: vllm-4:8000: it exposes only process metrics"}
	dark := diagnose.Verdict{ID: diagnose.InsufficientData, Model: "phi-4", Targets: []string{"vllm-5:8000"}, Summary: "Cannot tell: vllm-5:8000: no recent samples"}
	for _, name := range []string{"vllm-1:8000", "vllm-2:8000", "vllm-3:8000", "vllm-4:8000", "vllm-5:8000"} {
		d.Targets = append(d.Targets, server(name))
	}
	d.Unjudged = []diagnose.Unjudged{{Target: "vllm-4:8000", Reason: "it exposes only process metrics"}, {Target: "vllm-5:8000", Reason: "no recent samples"}}
	d.Verdict, d.Verdicts, d.Workload = page, []diagnose.Verdict{page, ticket, dark, well}, page.Workload
	return d
}
