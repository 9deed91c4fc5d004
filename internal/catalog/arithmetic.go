package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Margins of sized fixes.
const (
	// KVHeadroom is the share of the KV cache that a plan fills: requests
	// differ in length, and a full cache preempts.
	KVHeadroom = 0.85
	// PlannedLoad is the share of a replica's capacity that a plan uses: queues
	// grow without bound as the load nears one.
	PlannedLoad = 0.8
	// stepExponent is the growth of a decode step with its batch, for servers whose readings do not show it: between
	// 0 (bound by reading the weights) and 1 (bound by computation or by reading the KV cache).
	stepExponent = 0.65
)

// GiveConfig is the hint for settings that no metric exports.
const GiveConfig = "give the server's command line with --engine-args, or its start-up log with --engine-log"

// Measured returns a reading that arithmetic can rest on: known, finite and greater than zero.
func (p *Pass) Measured(s *indicator.Signal) (float64, bool) { return positiveValue(p.Now(s)) }

// Usual is Measured for the signal's normal value.
func (p *Pass) Usual(s *indicator.Signal) (float64, bool) { return positiveValue(p.Normal(s)) }

func positiveValue(v indicator.Value) (float64, bool) {
	if !isFinite(v) || v.V <= 0 {
		return 0, false
	}
	return v.V, true
}

// Known reports whether there is a finite reading, zero included: one that a sentence can show.
func (p *Pass) Known(s *indicator.Signal) bool { return isFinite(p.Now(s)) }

func isFinite(v indicator.Value) bool { return v.OK && !math.IsInf(v.V, 0) && !math.IsNaN(v.V) }

// Grown returns how many times its normal a signal reads.
func (p *Pass) Grown(s *indicator.Signal) (times float64, ok bool) {
	now, ok1 := p.Measured(s)
	usual, ok2 := p.Usual(s)
	if !ok1 || !ok2 {
		return 0, false
	}
	return now / usual, true
}

// asNormal is the share by which a reading may differ from its normal value and still counts as the same.
const asNormal = 0.02

// Text writes a signal's reading, and its normal where it is known: "4.2 s (normally 0.31 s)".
func (p *Pass) Text(s *indicator.Signal) string {
	return p.formatMeasured(s, func(v indicator.Value) string { return indicator.Format(v, s.Unit) })
}

func (p *Pass) formatMeasured(s *indicator.Signal, format func(indicator.Value) string) string {
	now, normal := p.Now(s), p.Normal(s)
	if !isFinite(now) {
		return "unknown"
	}
	text := format(now)
	if now.Unanswered > 0 {
		text += fmt.Sprintf(", because %s have none", indicator.FormatNumber(now.Unanswered, indicator.Ratio))
	}
	if !isFinite(normal) {
		return text
	}
	usual := format(normal)
	if math.Abs(now.V-normal.V) <= asNormal*math.Abs(normal.V) {
		return text + " (as normal)"
	}
	if now.Bucket == normal.Bucket && usual == text && indicator.FormatBound(now, s.Unit) != "" &&
		!now.AtMost && !now.AtLeast {
		// One wide bucket holds both: only the interpolated values tell them apart.
		return s.Point(now.V) + " (normally " + s.Point(normal.V) + ", both interpolated within " + text + ")"
	}
	return text + " (normally " + usual + ")"
}

// Observe adds a sentence with the known signals, or nothing if none is known.
func (p *Pass) Observe(intro string, signals ...*indicator.Signal) {
	var parts []string
	for _, s := range signals {
		if p.Known(s) {
			parts = append(parts, s.Title+" "+p.formatMeasured(s, s.Text))
		}
	}
	if len(parts) > 0 {
		p.Reason("%s: %s.", intro, strings.Join(parts, "; "))
	}
}

// Fix adds a remedy after those that are there.
func (p *Pass) Fix(f Fix) { p.Fixes = append(p.Fixes, f) }

// Objective returns a threshold that somebody set; the text names the number and who set it: "50 ms (chat)".
func (p *Pass) Objective(t *Threshold) (limit float64, text string, ok bool) {
	limit, source, ok := p.Limit(t)
	if !ok || !(limit > 0) || math.IsInf(limit, 0) {
		return 0, "", false
	}
	return limit, fmt.Sprintf("%s (%s)", indicator.FormatNumber(limit, t.Unit), source), true
}

// A Quantity is a number with its source.
type Quantity struct {
	V        float64
	Source   string
	Inferred bool // inferred from measurements, not from the configuration
}

// Flag returns the quantity as the From of a Change.
func (q Quantity) Flag() string { return Whole(q.V) }

// Whole writes a number as an integer.
func Whole(v float64) string { return strconv.FormatFloat(math.Round(v), 'f', 0, 64) }

// Requests writes a mean number of requests as people count them.
func Requests(v float64) string {
	switch n := math.Round(v); {
	case n < 1:
		return "less than 1 request"
	case n == 1:
		return "1 request"
	default:
		return Whole(n) + " requests"
	}
}

// Digits writes a number without a unit, to three significant digits.
func Digits(v float64) string { return indicator.FormatNumber(v, indicator.Count) }

// Setting returns a positive numeric setting of the server.
func (p *Pass) Setting(flag string) (Quantity, bool) {
	v, source, ok := p.Config.Number(flag)
	if !ok || !(v > 0) || math.IsInf(v, 0) {
		return Quantity{}, false
	}
	return Quantity{V: v, Source: source}, true
}

// Engines returns the number of data-parallel ranks behind the target, each of
// which has its own scheduler and KV cache.
func (p *Pass) Engines() float64 {
	if q, ok := p.Setting(engine.DataParallelSize); ok {
		return q.V
	}
	return 1
}

// RaiseTokenBudget proposes a larger token budget if a small one splits prompts into many steps that are mostly
// overhead.
func (p *Pass) RaiseTokenBudget(verify string) {
	const enough, to = 1024, "2048"
	now, ok1 := p.Setting(engine.MaxNumBatchedTokens)
	computed, ok2 := p.Measured(indicator.ComputedTokens)
	if !ok1 || !ok2 || now.V >= enough || computed <= now.V {
		return
	}
	p.Fix(Fix{
		Summary: "Raise --max-num-batched-tokens from " + now.Flag() + " to " + to + ": a prompt takes fewer steps",
		Changes: []Change{{Flag: "--max-num-batched-tokens", From: now.Flag(), To: to}},
		Arithmetic: []string{Whole(computed) + " computed tokens (" + indicator.ComputedTokens.Title +
			") in steps of " + now.Flag() + " (" + now.Source + ")"},
		Tradeoff: "longer steps delay the tokens of running requests",
		Verify:   verify,
	})
}

// HeldTokens returns what a running request holds in the KV cache on average over time. While an answer of O tokens
// is made, step by step, its request holds the prompt P and on average half of the answer, for a time in proportion
// to O. The mean over time weighs requests by how long they are there (H = λG: Brumelle, Journal of Applied
// Probability 8, 1971; the inspection paradox: Cox, Renewal Theory, 1962), so it is P + E[O²] / 2E[O] = P + E[O]/2 ×
// (1 + cv²). Prefill is taken to be short, and lengths of prompts and answers not to depend on each other.
func (p *Pass) HeldTokens() (held float64, line string, ok bool) {
	prompt, ok1 := p.Measured(indicator.PromptTokens)
	output, ok2 := p.Measured(indicator.OutputTokens)
	if !ok1 || !ok2 {
		return 0, "", false
	}
	square, text := 0.0, ""
	if tail, ok := p.Measured(indicator.OutputTokensP95); ok {
		square = squaredVariation(tail / output)
		text = fmt.Sprintf(" × (1 + %s for their spread, %s %s)",
			Digits(square), indicator.OutputTokensP95.Title, Digits(tail))
	}
	held = prompt + output/2*(1+square)
	return held, fmt.Sprintf("a running request holds %s prompt (%s) + half of %s output (%s)%s = %s tokens on average",
		Digits(prompt), indicator.PromptTokens.Title, Digits(output), indicator.OutputTokens.Title, text, Digits(held)), true
}

// squaredVariation returns the squared coefficient of variation of a lognormal distribution whose P95 is so many
// times its mean: with σ of its logarithm, ln(P95 / mean) = 1.645 σ − σ²/2, of which the smaller root is taken.
func squaredVariation(tail float64) float64 {
	const z, mostSigma = 1.645, 1.0
	if !(tail > 1) {
		return 0
	}
	sigma := mostSigma
	if root := z*z - 2*math.Log(tail); root > 0 {
		sigma = min(z-math.Sqrt(root), mostSigma)
	}
	return math.Expm1(sigma * sigma)
}

// A KVCapacity is the KV cache of one engine.
type KVCapacity struct {
	Tokens    float64
	Blocks    float64 // 0 where tokens cannot be counted in blocks
	BlockSize float64
	Line      string // the numbers with their sources
	Hybrid    bool   // blocks × block size is not the capacity
}

// KV returns the size of one engine's KV cache. The number that the server works out itself is preferred, for
// with sliding windows, state-space layers or sparse attention, blocks × block size is not the capacity
// (vllm-project/vllm#42966).
func (p *Pass) KV() (KVCapacity, bool) {
	tokens, knowTokens := p.Setting(engine.KVTokens)
	blocks, ok1 := p.Setting(engine.NumBlocks)
	size, ok2 := p.Setting(engine.BlockSize)
	knowBlocks := ok1 && ok2
	switch {
	case knowTokens && knowBlocks && math.Abs(blocks.V*size.V/tokens.V-1) <= 0.05, !knowTokens && knowBlocks:
		return KVCapacity{
			Tokens: blocks.V * size.V, Blocks: blocks.V, BlockSize: size.V,
			Line: fmt.Sprintf("KV cache = %s blocks (%s) × %s tokens (%s) = %s tokens",
				Whole(blocks.V), blocks.Source, Whole(size.V), size.Source, Whole(blocks.V*size.V)),
		}, true
	case knowTokens:
		c := KVCapacity{Tokens: tokens.V, Line: fmt.Sprintf("KV cache = %s tokens (%s)", Whole(tokens.V), tokens.Source)}
		if knowBlocks {
			c.Hybrid = true
			c.Line += fmt.Sprintf("; not %s blocks × %s tokens, because not all layers of this model keep every token",
				Whole(blocks.V), Whole(size.V))
		}
		return c, true
	}
	return KVCapacity{}, false
}

// SafeSeqs returns how many requests of the measured lengths one engine's KV cache holds within KVHeadroom, from the
// tokens that a request holds on average and the size of the cache, or from the usage by the running requests if the
// size is unknown. It is at least 1.
func (p *Pass) SafeSeqs() (n float64, lines []string, ok bool) {
	kv, ok1 := p.KV()
	held, line, ok2 := p.HeldTokens()
	if !ok1 || !ok2 {
		return p.heldSeqs()
	}
	n = max(1, math.Floor(kv.Tokens*KVHeadroom/kv.roundToBlocks(held)))
	needs := Digits(held)
	if kv.BlockSize > 0 {
		needs = fmt.Sprintf("(%s + half a block of %s)", needs, Digits(kv.BlockSize))
	}
	lines = []string{
		line, kv.Line,
		fmt.Sprintf("max_num_seqs that the cache holds = floor(%s × %v / %s) = %s",
			Whole(kv.Tokens), KVHeadroom, needs, Whole(n)),
	}
	if times, measured := p.HeldMore(); measured && times > disagree {
		seats, more, _ := p.heldSeqs()
		more = append(more, fmt.Sprintf("by their lengths it would be %s: a request holds %s as much as its tokens need, so what was measured counts",
			Whole(n), indicator.FormatNumber(times, indicator.Times)))
		return seats, more, true
	}
	return n, lines, true
}

// disagree is the factor by which two estimates of one number may differ.
const disagree = 1.5

// HeldMore returns by which factor the running requests hold more of the KV cache than their tokens need: a model whose
// layers keep a state of fixed size holds many times as much, and shared prefixes less.
func (p *Pass) HeldMore() (times float64, ok bool) {
	kv, ok1 := p.KV()
	held, _, ok2 := p.HeldTokens()
	running, ok3 := p.Measured(indicator.Running)
	usage, ok4 := p.Measured(indicator.KVUsage)
	if !ok1 || !ok2 || !ok3 || !ok4 || running < 1 || usage < 0.2 {
		return 0, false
	}
	return usage * kv.Tokens / (running / p.Engines() * kv.roundToBlocks(held)), true
}

// roundToBlocks returns the tokens of cache that one request takes: its last block is half full on average.
func (c KVCapacity) roundToBlocks(tokens float64) float64 { return tokens + c.BlockSize/2 }

// heldSeqs is SafeSeqs from the present usage by the running requests.
func (p *Pass) heldSeqs() (n float64, lines []string, ok bool) {
	running, ok1 := p.Measured(indicator.Running)
	usage, ok2 := p.Measured(indicator.KVUsage)
	if !ok1 || !ok2 || usage < 0.02 {
		return 0, nil, false
	}
	running /= p.Engines()
	n = max(1, math.Floor(running*KVHeadroom/usage))
	return n, []string{
		fmt.Sprintf("%s running requests (%s) fill %s of the KV cache (%s)",
			Digits(running), indicator.Running.Title,
			indicator.FormatNumber(usage, indicator.Ratio), indicator.KVUsage.Title),
		fmt.Sprintf("max_num_seqs that the cache holds = floor(%s × %v / %s) = %s",
			Digits(running), KVHeadroom, Digits(usage), Whole(n)),
	}, true
}

// Leaving returns the share of clients that leave before their answer is complete, if it is more than the few that
// always do.
func (p *Pass) Leaving() (share float64, ok bool) {
	share, ok = p.Measured(indicator.AbandonedShare)
	n, _ := p.Measured(indicator.Abandoned)
	return share, ok && share > AbandonedShare.Default && n > SomeAbandoned.Default
}

// CrowdedRanks names the data-parallel ranks that hold the queue, "" unless they are a minority of the ranks.
func (p *Pass) CrowdedRanks() string {
	waits, usage := p.Parts(indicator.WaitingOnRank), p.Parts(indicator.KVUsageOfRank)
	ranks, all, there := slices.Collect(maps.Keys(waits)), 0.0, 0.0
	for _, n := range waits {
		all += n
	}
	ranks = slices.DeleteFunc(ranks, func(r string) bool { return waits[r] <= all/float64(len(waits)) })
	slices.SortFunc(ranks, func(a, b string) int { return cmp.Or(cmp.Compare(waits[b], waits[a]), cmp.Compare(a, b)) })
	var each []string
	for _, r := range ranks {
		there += waits[r]
		each = append(each, fmt.Sprintf("%s on rank %s (KV cache at %s)",
			Whole(waits[r]), r, indicator.FormatNumber(usage[r], indicator.Ratio)))
	}
	if there < 1 || there < 0.8*all || 2*len(ranks) > len(waits) {
		return ""
	}
	return fmt.Sprintf("; of the %s that wait, %s, of %d ranks", Whole(all), strings.Join(each, ", "), len(waits))
}

// StopRetries proposes to finish the answers that were begun, because a larger batch or a longer queue delays each
// answer beyond the clients' patience.
func (p *Pass) StopRetries() {
	p.Reason("Clients that leave and retry add to the load, and the work done for them is lost. A larger batch makes each answer take even longer, so none is proposed.")
	p.Fix(Fix{
		Summary:  "Stop the retries: a retry budget and exponential backoff in the gateway and in clients; then diagnose again",
		Tradeoff: "clients see errors that a retry would have hidden",
		Stops:    true,
		Verify:   "the share of abandoned requests falls, and completed requests per second rise",
	})
	p.Fix(Fix{
		Summary:  "Reject at once what cannot be answered within the clients' timeout: --max-num-queued-reqs (0.29 and later), or a limit at the gateway",
		Tradeoff: "some requests are rejected immediately instead of timing out",
		Verify:   "the share of abandoned requests falls, and completed requests per second rise",
	})
}

// Drain is the summary of a fix that stops the bleeding if other servers of the model are healthy.
const Drain = "Drain this replica: take it out of the load balancer"

// Reroute adds a fix that sends this server fewer requests, at once and without a restart. It needs other servers that
// can take them.
func (p *Pass) Reroute(summary, verify string) {
	p.Fix(Fix{Summary: summary, Tradeoff: "the other replicas carry its load", Verify: verify, Stops: true, Others: true})
}

// Shed proposes to cap the requests in flight at each server of the model, at once and without a restart. It proposes
// nothing if this server holds no more than that.
func (p *Pass) Shed(each float64, verify string, arithmetic ...string) {
	if each = math.Floor(each); !(each >= 1) ||
		p.Known(indicator.Running) && each >= p.Value(indicator.Running)+p.Value(indicator.Waiting) {
		return
	}
	all := each
	if n, ok := p.Measured(indicator.Replicas); ok && n > 1 {
		all *= n
		arithmetic = append(arithmetic, fmt.Sprintf("%s on each of %s = %s", Whole(each), countReplicas(n), Whole(all)))
	}
	p.Fix(Fix{
		Summary:    "Cap this model at " + Requests(all) + " in flight at the gateway, and reject the rest",
		Arithmetic: arithmetic, Tradeoff: "rejected clients get HTTP 429, and must retry later", Verify: verify, Stops: true,
	})
}

// ShedQueue proposes to cap the requests in flight at those that run, and those that can still get their first token in
// time.
func (p *Pass) ShedQueue(verify string) {
	due, source, promised := p.Objective(TTFTObjective)
	if !promised {
		due, source = TTFTObjective.Default, indicator.FormatNumber(TTFTObjective.Default, indicator.Seconds)+" (no objective is set: the default)"
	}
	served := p.Value(indicator.FirstTokenRate)
	if running, ok := p.Measured(indicator.Running); ok {
		p.Shed(running+served*due, verify, fmt.Sprintf("%s run (%s), and %s/s (%s) × %s until the first token is due = %s may wait", Whole(running),
			indicator.Running.Title, Digits(served), indicator.FirstTokenRate.Title, source, Whole(math.Floor(served*due))))
	}
}

// Demand returns the arrival rate and the service rate, in requests per second. Other requests join the queue or
// leave. A client that leaves after the first token is not served.
func (p *Pass) Demand() (arrivals, served float64, lines []string, ok bool) {
	served, ok = p.Measured(indicator.FirstTokenRate)
	if !ok {
		return 0, 0, nil, false
	}
	growth, _ := p.Measured(indicator.WaitingGrowth)
	if growth < served/100 {
		growth = 0 // the slope of a level queue is noise
	}
	arrivals = served + growth
	line := fmt.Sprintf("arrivals = %s first tokens/s (%s) + %s/s growth of the queue (%s)",
		Digits(served), indicator.FirstTokenRate.Title, Digits(growth), indicator.WaitingGrowth.Title)
	if _, leaving := p.Leaving(); leaving && p.Value(indicator.FirstTokens) > 0 {
		second := served / p.Value(indicator.FirstTokens) // seconds per request of the window
		left, early := p.Value(indicator.Abandoned), p.Value(indicator.LeftEarly)
		arrivals += early * second
		served = max(served-(left-early)*second, p.Value(indicator.CompletionRate))
		line += fmt.Sprintf(" + %s/s that leave without one (%s)", Digits(early*second), indicator.LeftEarly.Title)
	}
	return arrivals, served, []string{line + fmt.Sprintf(" = %s/s", Digits(arrivals))}, served > 0
}

// StepExponent returns k in step time ∝ batch^k: fitted to this server's baseline and window if the batch grew enough
// to tell, else a middle value.
func (p *Pass) StepExponent() (k float64, source string) {
	batch, ok1 := p.Grown(indicator.DecodeBatch)
	step, ok2 := p.Grown(indicator.ITLP50)
	if ok1 && ok2 && batch >= 1.5 {
		return min(1, max(0, math.Log(step)/math.Log(batch))), "fitted to this server's baseline and window"
	}
	return stepExponent, "assumed"
}

// GrowCache proposes settings that enlarge a server's KV cache. If an override limits the cache, removing it comes
// first, because a larger share of GPU memory would have no effect.
func (p *Pass) GrowCache(verify string, arithmetic ...string) {
	setting := func(flag string) string { return p.Config[flag].Value }
	o, fixed := p.Setting(engine.NumBlocksOverride)
	if fixed {
		p.Fix(Fix{
			Summary:    "Remove --num-gpu-blocks-override: memory allows a larger KV cache",
			Changes:    []Change{{Flag: "--num-gpu-blocks-override", From: o.Flag()}},
			Arithmetic: arithmetic,
			Tradeoff:   "none, unless another process needs the memory",
			Verify:     verify,
		})
	}
	p.addFP8Cache(verify)
	switch u, known := p.Setting(engine.GPUMemoryUtilization); {
	case fixed:
	case setting(engine.KVCacheMemoryBytes) != "":
		p.Reason("--kv-cache-memory-bytes %s sets the size of the KV cache: raise it if the GPU has memory to spare.",
			setting(engine.KVCacheMemoryBytes))
	case known && u.V < 0.95:
		to := math.Min(0.95, u.V+0.03)
		p.Fix(Fix{
			Summary:    fmt.Sprintf("Raise --gpu-memory-utilization from %v to %.2f", u.V, to),
			Changes:    []Change{{Flag: "--gpu-memory-utilization", From: strconv.FormatFloat(u.V, 'g', -1, 64), To: strconv.FormatFloat(to, 'f', 2, 64)}},
			Arithmetic: append(slices.Clone(arithmetic), fmt.Sprintf("all of the added %s of GPU memory goes to the KV cache; the start-up log shows how many tokens that is", indicator.FormatNumber(to-u.V, indicator.Ratio))),
			Tradeoff:   "less headroom for CUDA graphs, communication buffers and allocation peaks: test start-up and peak load first",
			Verify:     verify,
			Risk:       true,
		})
	}
}

// addFP8Cache proposes an FP8 KV cache, unless the cache has eight bits or fewer already.
func (p *Pass) addFP8Cache(verify string) {
	dtype := p.Config[engine.KVCacheDtype].Value
	if strings.HasPrefix(dtype, "fp8") || strings.Contains(dtype, "fp4") || dtype == "int8" {
		return
	}
	p.Fix(Fix{
		Summary:    "Use an FP8 KV cache: it holds about twice the tokens",
		Changes:    []Change{{Flag: "--kv-cache-dtype", From: dtype, To: "fp8"}},
		Arithmetic: []string{"1 byte instead of 2 for each element: the same memory holds twice the tokens of a 16-bit cache"},
		Tradeoff:   "answers may change: check their quality, and that the attention kernels support it",
		Verify:     verify,
		Risk:       true,
	})
}

// AddReplicas proposes the number of replicas for the pool's load. needed is the number that this server's own load
// needs; the server has a share of the pool's load. If the pool is large enough and the load is uneven, it proposes to
// balance the load instead.
func (p *Pass) AddReplicas(needed float64, f Fix) {
	pool, share := 1.0, 1.0
	if n, ok := p.Measured(indicator.Replicas); ok && n > 1 {
		pool = n
		// A share below 1 may be another kind of load, which says nothing about the others' load.
		if v, ok := p.Measured(indicator.ArrivalShare); ok && v > 1 {
			share = v
		}
	}
	f.Replicas = int(needed)
	add := math.Ceil(pool*needed/share) - pool
	switch {
	case pool > 1 && share == 1:
		f.Arithmetic = append(f.Arithmetic, fmt.Sprintf("the pool has %s, each with this load at most: %s × %s − %s = %s to add",
			countReplicas(pool), Whole(pool), Whole(needed), Whole(pool), Whole(max(add, 0))))
	case pool > 1:
		f.Arithmetic = append(f.Arithmetic, fmt.Sprintf("the pool has %s, and this one gets %s of their mean: ceil(%s × %s / %s) − %s = %s to add",
			countReplicas(pool), indicator.FormatNumber(share, indicator.Times), Whole(pool), Whole(needed), Digits(share), Whole(pool), Whole(max(add, 0))))
	}
	f.Summary = "If this traffic is here to stay, add " + countReplicas(add)
	switch {
	case add < 1:
		f.Summary = fmt.Sprintf("Spread the load evenly over the %s, which can carry it together", countReplicas(pool))
	case pool > 1:
		f.Summary = fmt.Sprintf("If this traffic is here to stay, scale from %s to %s",
			Whole(pool), countReplicas(pool+add))
	}
	p.Fix(f)
}

func countReplicas(n float64) string {
	if Whole(n) == "1" {
		return "1 replica"
	}
	return Whole(n) + " replicas"
}
