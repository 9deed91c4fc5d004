package saturation

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const (
	verify = "the queue shrinks until it is empty"
	inTime = "TTFT P95 falls to its objective"
)

func refineFinding(p *catalog.Pass) {
	if share, ok := p.Measured(indicator.DeferredShare); ok && share > catalog.MostlyDeferred.Default {
		refineDeferred(p, share)
		return
	}
	if p.Known(indicator.LoggedQueue) && !p.Known(indicator.QueueAge) {
		refineLogged(p)
		return
	}
	if refineBlocked(p) {
		return
	}
	arrivals, served, lines, ok := p.Demand()
	if !ok {
		p.Reason("No request reached its first token in the window, so capacity cannot be told from demand.")
		return
	}
	waiting, queued := p.Measured(indicator.Waiting)
	_, leaving := p.Leaving()
	summarizeLoad(p, arrivals, served)
	if queued {
		p.Summary += ": " + catalog.Waiting(waiting)
	}
	p.Summary += p.CrowdedRanks()
	what, blocks := findShortage(p)
	if what != "" {
		p.Summary += ". " + what
	}
	if queued {
		p.Reason("At the present rate the queue alone takes %s.",
			formatSeconds(waiting/p.Value(indicator.FirstTokenRate)))
	}
	if n, ok := p.Measured(indicator.Preemptions); ok && n > 2.5 {
		p.Reason("The KV cache limits the batch (%s preemptions, KV cache usage up to %s), but %s requests wait for "+
			"each that runs: a larger cache alone does not clear the queue.",
			catalog.Whole(n), indicator.FormatNumber(p.Value(indicator.KVUsagePeak), indicator.Ratio),
			catalog.Digits(p.Value(indicator.QueueBatches)))
	}
	if g, ok := p.Grown(indicator.FirstTokenRate); ok && g > 1.2 {
		p.Reason("Demand rose: it serves %s as many requests as normally.", indicator.FormatNumber(g, indicator.Times))
	}
	p.Reason("Arrivals are the requests that get a first token or are known to leave without one, plus " +
		"the growth of the queue.")
	p.Reason("vLLM counts queue time when a request ends, so it reads low while a queue builds " +
		"up; TTFT shows it first.")
	if explainBound(p) {
		p.RaiseTokenBudget(verify)
	}
	if blocks {
		p.GrowCache(verify)
	}
	if leaving {
		p.StopRetries()
		p.ShedQueue(inTime)
		limitQueue(p, p.Value(indicator.FirstTokenRate))
		return // arrivals are no demand: clients that leave come again
	}
	p.ShedQueue(inTime)
	limitQueue(p, served)
	addReplicas(p, arrivals, served, waiting, lines)
}

// summarizeLoad compares the arrivals with the requests that are served, both in requests per second.
func summarizeLoad(p *catalog.Pass, arrivals, served float64) {
	share, leaving := p.Leaving()
	starve, _ := othersFirst.Eval(p)
	switch {
	case starve == catalog.True:
		summarizeStarving(p)
	case leaving:
		p.Summary = fmt.Sprintf("%s of the clients leave before their answer: %s req/s arrive, and %s req/s are served",
			indicator.FormatNumber(share, indicator.Ratio), catalog.Digits(arrivals), catalog.Digits(served))
	case arrivals > 1.02*served:
		p.Summary = fmt.Sprintf("%s req/s arrive and %s req/s are served", catalog.Digits(arrivals),
			catalog.Digits(served))
	default:
		p.Summary = fmt.Sprintf("The server is at its capacity of %s req/s", catalog.Digits(served))
	}
}

// refineBlocked refines the finding if nothing is admitted although nothing runs: the first request of the queue needs
// more blocks than there are, and the others wait behind it. It reports whether that is so.
func refineBlocked(p *catalog.Pass) bool {
	running, usage, age := p.Now(indicator.Running), p.Now(indicator.KVUsage), p.Now(indicator.WaitingAge)
	if !running.OK || !usage.OK || running.V > 0 || usage.V > 0.1 || age.Or(0) <= 0 {
		return false
	}
	p.Summary = fmt.Sprintf("%s, nothing runs, and the KV cache is empty: the first of the queue is never admitted, "+
		"and the others are behind it", catalog.Waiting(p.Value(indicator.Waiting)))
	p.Reason("The scheduler runs: its queue changes. It admits a prompt only when the KV cache has room for all of " +
		"it, in the order of arrival.")
	fix := catalog.Fix{
		Summary: "Let the client of the longest prompt that waits disconnect; the next one like " +
			"it blocks the queue again",
		Tradeoff: "that request is lost",
		Verify:   verify,
		Stops:    true,
	}
	kv, ok1 := p.KV()
	longest, ok2 := p.Setting(engine.MaxModelLen)
	if ok1 && ok2 && kv.Tokens < longest.V {
		to := catalog.Whole(kv.Tokens)
		p.Summary += fmt.Sprintf("; the cache holds %s tokens, and max_model_len allows %s", to, longest.Flag())
		p.Fix(catalog.Fix{
			Summary: fmt.Sprintf("Lower --max-model-len from %s to %s: longer prompts are then refused "+
				"instead of blocking everybody", longest.Flag(), to),
			Changes: []catalog.Change{{Flag: "--max-model-len", From: longest.Flag(), To: to}},
			Arithmetic: []string{
				kv.Line, fmt.Sprintf("%s tokens < max_model_len = %s (%s)", to, longest.Flag(), longest.Source),
			},
			Tradeoff: "prompts that are longer get an error at once",
			Verify:   verify,
		})
	}
	p.Fix(fix)
	return true
}

// findShortage tells which resource the next request waits for, if the configuration is known, and whether that is KV
// blocks.
func findShortage(p *catalog.Pass) (what string, blocks bool) {
	running, ok1 := p.Measured(indicator.RunningP50)
	usage, ok2 := p.Measured(indicator.KVUsagePeak)
	seats, known := p.Setting(engine.MaxNumSeqs)
	running /= p.Engines()
	switch {
	case !ok1 || !ok2 || !known:
		return "", false
	case running >= 0.95*seats.V:
		return fmt.Sprintf("All %s seats are taken (max_num_seqs, %s), with KV cache usage at %s", seats.Flag(),
			seats.Source, indicator.FormatNumber(usage, indicator.Ratio)), false
	case running >= 1 && usage*(running+1)/running > 1:
		return fmt.Sprintf("KV blocks are short: %s of %s seats are taken, KV cache usage is %s, and "+
				"one more request needs %s", catalog.Digits(running), seats.Flag(),
				indicator.FormatNumber(usage, indicator.Ratio), indicator.FormatNumber(usage/running, indicator.Ratio)),
			true
	}
	return "", false
}

// summarizeStarving describes requests that starve. No metric says which ones: vLLM labels no metric with a priority or
// a length, and names running adapters only.
func summarizeStarving(p *catalog.Pass) {
	p.Summary = fmt.Sprintf("%s while %s others are served", catalog.Waiting(p.Value(indicator.PassedOver)),
		catalog.Whole(p.Value(indicator.FirstTokens)))
	if wait, ok := p.Measured(indicator.UnansweredWait); ok {
		p.Summary += ": they have waited " + formatSeconds(wait) + " on average"
	}
	policy := p.Config["scheduling-policy"].Value
	p.Reason("In order of arrival, no served request would wait for less time than the standing queue takes. Those "+
		"served wait %s on average, so others are passed over (%s).", formatSeconds(p.Value(indicator.TTFTMean)),
		indicator.PassedOver.Title)
	p.Reason("No metric says which ones. Requests come last because of a low priority (--scheduling-policy%s), "+
		"because they wait for a LoRA slot, a grammar or a KV transfer, or because their rank is overloaded.",
		map[bool]string{true: " is " + policy, false: " priority"}[policy != ""])
	nameStarving(p)
	p.Fix(catalog.Fix{
		Summary:  "Limit the prioritised requests at the gateway",
		Tradeoff: "prioritised requests wait at their peaks",
		Stops:    true,
		Verify:   "no request is passed over, and the share without a first token falls to 0",
	})
}

// refineDeferred refines the finding for a queue for something other than capacity. The fix is the missing resource.
func refineDeferred(p *catalog.Pass, share float64) {
	waiting, _ := p.Measured(indicator.Waiting)
	p.Summary = fmt.Sprintf("%s, and the scheduler passes over %s of them", catalog.Waiting(waiting),
		indicator.FormatNumber(share, indicator.Ratio))
	p.Reason("Deferred requests wait for a LoRA slot, a KV transfer or a grammar, not for a place in the batch or KV " +
		"blocks: a larger batch or KV cache does not help.")
	p.Reason("Later requests overtake them, so TTFT percentiles show the requests that were served; those that " +
		"wait are not counted yet.")
	p.Observe("How long they wait, and what runs meanwhile", indicator.QueueAge, indicator.QueueTimeMean,
		indicator.Running, indicator.KVUsagePeak)
	nameStarving(p)
	adapters, used := p.Setting(engine.Adapters)
	slots, limited := p.Setting(engine.MaxLoRAs)
	if used && limited && adapters.V > slots.V {
		p.Summary += fmt.Sprintf(": %s adapters share %s", adapters.Flag(), slotsOf(slots))
		p.Reroute("Send the requests of each adapter to one replica", verify)
		p.Fix(catalog.Fix{
			Summary: fmt.Sprintf("Raise --max-loras from %s to %s", slots.Flag(), adapters.Flag()),
			Changes: []catalog.Change{{Flag: "--max-loras", From: slots.Flag(), To: adapters.Flag()}},
			Arithmetic: []string{
				fmt.Sprintf("a step computes at most max_loras = %s adapters (%s)", slots.Flag(), slots.Source),
				fmt.Sprintf("requests of the last hour asked for %s of them (%s)", adapters.Flag(), adapters.Source),
			},
			Tradeoff: "each slot reserves memory for an adapter of the largest rank, which the KV cache loses",
			Verify:   verify,
		})
		return
	}
	p.Fix(catalog.Fix{
		Summary: "Find what they wait for: LoRA adapters (more of them in use than --max-loras), the KV connector " +
			"(its transfers and their errors), or structured output (new or very large schemas)",
		Command:  "grep -iE 'lora|kv.?(connector|transfer)|grammar|xgrammar|structured' vllm.log | tail",
		Tradeoff: "none",
		Verify:   verify,
	})
}

// nameStarving names the adapters that get nothing, the one class that has a label.
func nameStarving(p *catalog.Pass) {
	if names := p.Config[engine.StarvingAdapters].Value; names != "" {
		p.Reason("Of the adapters, %s waited in the last minute and did not run (vllm:lora_requests_info).", names)
	}
}

func slotsOf(q catalog.Quantity) string {
	if q.V == 1 {
		return "one LoRA slot"
	}
	return q.Flag() + " LoRA slots"
}

// explainBound says whether prefill or decode fills the engine, and reports true for prefill.
func explainBound(p *catalog.Pass) (prefill bool) {
	computed, ok1 := p.Measured(indicator.ComputedTokens)
	if !ok1 {
		computed, ok1 = p.Measured(indicator.PromptTokens)
	}
	rate, ok2 := p.Measured(indicator.FirstTokenRate)
	output, ok3 := p.Measured(indicator.GenerationTokenRate)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	prompt := computed * rate
	kind := "decode: more KV cache, more memory bandwidth and shorter answers help"
	budget, known := p.Setting(engine.MaxNumBatchedTokens)
	step, stepKnown := p.Measured(indicator.StepTokens)
	full := known && stepKnown && step > 0.7*budget.V
	if prefill = full || prompt > 10*output; prefill {
		kind = "prefill: prefix reuse, shorter prompts or separate prefill servers help; a larger decode batch does not"
	}
	p.Reason("The engine computes %s prompt tokens and generates %s output tokens per second, so "+
		"it is mainly bound by %s.", catalog.Whole(prompt), catalog.Whole(output), kind)
	if stepKnown {
		p.Observe("An engine step", indicator.StepTokens, indicator.DecodeBatch)
	}
	return prefill
}

func limitQueue(p *catalog.Pass, served float64) {
	objective, text, ok := p.Objective(catalog.TTFTObjective)
	if !ok {
		objective, text = catalog.TTFTObjective.Default, formatSeconds(catalog.TTFTObjective.Default)+
			" (no objective is set: the default)"
	}
	limit := math.Floor(served * objective)
	if limit < 1 {
		p.Reason("No queue meets the objective: one request takes longer than that to be served.")
		return
	}
	if now, ok := p.Setting(engine.MaxQueuedRequests); ok && now.V <= limit {
		p.Reason("--max-num-queued-reqs %s bounds the queue already.", now.Flag())
		return
	}
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("Limit the queue of each server to %s", catalog.Requests(limit)),
		Changes: []catalog.Change{
			{Flag: "--max-num-queued-reqs", From: p.Config[engine.MaxQueuedRequests].Value, To: catalog.Whole(limit)},
		},
		Arithmetic: []string{
			fmt.Sprintf("a queue of n takes n / %s served/s (%s)", catalog.Digits(served),
				indicator.FirstTokenRate.Title),
			fmt.Sprintf("the first token is due within %s: n = floor(%s × %s) = %s", text, catalog.Digits(served),
				formatSeconds(objective), catalog.Whole(limit)),
		},
		Tradeoff: "the rest get HTTP 503 and must retry",
		Verify:   inTime + "; admission rejections (0.32 and later) count what is refused",
		MayHurt:  true, // without a prediction
	})
}

func addReplicas(p *catalog.Pass, arrivals, served, waiting float64, lines []string) {
	replicas := math.Ceil(arrivals / served / catalog.PlannedLoad)
	lines = append(lines, fmt.Sprintf("replicas = ceil(%s / %s / %v) = %s per present replica",
		catalog.Digits(arrivals), catalog.Digits(served), catalog.PlannedLoad, catalog.Whole(replicas)))
	if spare := replicas*served - arrivals; spare > 0 && waiting > 0 {
		lines = append(lines, fmt.Sprintf("the queue then drains in %s / (%s × %s − %s) = %s", catalog.Digits(waiting),
			catalog.Whole(replicas), catalog.Digits(served), catalog.Digits(arrivals), formatSeconds(waiting/spare)))
	}
	p.AddReplicas(replicas, catalog.Fix{
		Arithmetic: lines,
		Tradeoff:   "more GPUs; a new replica takes minutes to load the model and starts with a cold prefix cache",
		Verify:     verify,
	})
}

func formatSeconds(v float64) string { return indicator.FormatNumber(v, indicator.Seconds) }
