package kvcachethrashing

import (
	"fmt"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// verify tells how to see that the cache holds the running requests again.
const verify = "no preemptions for five minutes, and KV cache usage stays below 90 %"

func refineFinding(p *catalog.Pass) {
	p.Summary = summarizeThrashing(p) + p.CrowdedRanks()
	p.Reason("When a running request needs a block and none is free, vLLM preempts the one that came last: it frees " +
		"its blocks, puts it back in the queue, and later computes its KV cache again from the first token.")
	p.Observe("What fills the cache", indicator.PromptTokens, indicator.OutputTokens, indicator.Running)
	if kv, ok := p.KV(); ok && kv.Hybrid {
		p.Reason("This model keeps its layers in several groups of blocks: %s.", kv.Line)
	}
	if p.Known(indicator.LoggedOutput) {
		p.Reason("vLLM's log tells no preemptions. They are taken from what they do: requests go back from the batch " +
			"to the queue although the cache is full, and output falls.")
	}
	p.Reason("Means are of finished requests only: treat them as estimates, and watch after each change. Preempted " +
		"requests are longer; prompts that share a prefix hold less.")
	p.Reason("No token counter counts recomputed tokens. The preemption counter lags by two to six seconds, and " +
		"before 0.27 the prefix cache hit ratio reads low meanwhile.")

	// Without a prediction more memory comes first, because it cannot hurt. A smaller batch hurts if its size is not
	// the fault.
	if times, ok := p.HeldMore(); ok && times > 1.5 { // states of fixed size need fewer requests, not room for tokens
		lowerConcurrency(p, false)
		p.GrowCache(verify)
	} else {
		p.GrowCache(verify)
		addCapacity(p)
		raiseWatermark(p)
		lowerConcurrency(p, true)
	}
	capOutput(p)
}

// raiseWatermark proposes the watermark, which keeps blocks free for those that run.
func raiseWatermark(p *catalog.Pass) {
	if w, ok := p.Setting(engine.Watermark); ok && w.V >= 0.05 {
		return
	}
	p.Fix(catalog.Fix{
		Summary:  "Keep 5 % of the blocks free at admission: --watermark 0.05",
		Changes:  []catalog.Change{{Flag: "--watermark", From: p.Config[engine.Watermark].Value, To: "0.05"}},
		Tradeoff: "new requests wait longer for their first token",
		Verify:   verify,
		MayHurt:  true,
	})
}

func summarizeThrashing(p *catalog.Pass) string {
	var b strings.Builder
	b.WriteString("The KV cache cannot hold the running requests")
	n, ok := p.Measured(indicator.Preemptions)
	switch lately, known := p.Measured(indicator.PreemptionsLately); {
	case !ok && p.Known(indicator.LoggedOutput):
		fmt.Fprintf(&b, ": at %s usage %s run where %s did, %s wait, and %s tokens/s come out instead of %s",
			indicator.FormatNumber(p.Value(indicator.KVUsage), indicator.Ratio),
			catalog.Whole(p.Value(indicator.Running)), catalog.Whole(p.Value(indicator.RunningPeak)),
			catalog.Whole(p.Value(indicator.Waiting)), catalog.Whole(p.Value(indicator.LoggedOutput)),
			catalog.Whole(p.Normal(indicator.LoggedOutput).Or(0)))
	case ok && n > someEvictions.Default:
		fmt.Fprintf(&b, ": %s preemptions", catalog.Whole(n))
		if share, ok := p.Measured(indicator.PreemptionsPerRequest); ok {
			fmt.Fprintf(&b, ", %s per request", catalog.Digits(share))
		}
	case known:
		fmt.Fprintf(&b, ": it is full, requests wait for its blocks, and %s were preempted lately",
			catalog.Whole(lately))
	}
	if grown, s := mostGrown(p); s != nil {
		fmt.Fprintf(&b, ", with %s at %s normal", strings.ToLower(s.Title),
			indicator.FormatNumber(grown, indicator.Times))
	}
	return b.String()
}

// mostGrown returns the quantity that grew most against normal, of those that fill the cache, and by which factor.
func mostGrown(p *catalog.Pass) (float64, *indicator.Signal) {
	best, most := 1.3, (*indicator.Signal)(nil)
	for _, s := range []*indicator.Signal{indicator.PromptTokens, indicator.OutputTokens, indicator.Running} {
		if g, ok := p.Grown(s); ok && g > best {
			best, most = g, s
		}
	}
	return best, most
}

// lowerConcurrency limits the batch. The number of requests that the cache holds on average is the smallest useful
// limit. A simulation finds the best one, because a small batch costs throughput and evictions cost work.
func lowerConcurrency(p *catalog.Pass, mayHurt bool) {
	const flag = "--max-num-seqs"
	to, lines, ok := p.SafeSeqs()
	peak, seen := p.Measured(indicator.RunningPeak)
	peak /= p.Engines()
	if !ok {
		p.Reason("How many requests the cache holds cannot be computed: its size or the lengths of "+
			"requests are not known; %s.", catalog.GiveConfig)
		return
	}
	now, known := p.Setting(engine.MaxNumSeqs)
	ceiling := peak
	if known {
		ceiling = min(now.V, max(peak, 1))
		if !seen {
			ceiling = now.V
		}
	}
	if held, _ := p.Measured(indicator.Running); ceiling > 0 && to >= ceiling && held > 0 {
		// The mean promises room that the evictions disprove.
		held /= p.Engines()
		to = max(1, math.Floor(held*catalog.KVHeadroom))
		lines = append(lines, fmt.Sprintf("but with %s running (%s) there were preemptions: lengths differ too "+
			"much for their mean to tell", catalog.Digits(held), indicator.Running.Title),
			fmt.Sprintf("max_num_seqs = floor(%s × %v) = %s", catalog.Digits(held), catalog.KVHeadroom,
				catalog.Whole(to)))
	}
	p.Shed(to*p.Engines(), verify, lines...)
	if known && to >= now.V {
		p.Reason("--max-num-seqs is %s already (%s): lowering it further would not help.", now.Flag(), now.Source)
		return
	}
	f := catalog.Fix{
		Summary:    fmt.Sprintf("Lower --max-num-seqs to %s", catalog.Whole(to)),
		Changes:    []catalog.Change{{Flag: flag, To: catalog.Whole(to)}},
		Arithmetic: lines,
		Tradeoff:   "more requests wait in the queue; those that run are no longer computed twice",
		Verify:     verify,
		MayHurt:    mayHurt,
	}
	if most := math.Ceil(ceiling) - 1; most > 1 {
		f.Search = &catalog.Search{Flag: flag, Least: int(fullLength(p, to)), Most: int(max(most, to))}
	}
	switch {
	case known:
		f.Summary = fmt.Sprintf("Lower --max-num-seqs from %s to %s", now.Flag(), catalog.Whole(to))
		f.Changes[0].From = now.Flag()
		f.Arithmetic = append(f.Arithmetic, fmt.Sprintf("present max_num_seqs = %s (%s)", now.Flag(), now.Source))
	case seen:
		f.Arithmetic = append(f.Arithmetic,
			fmt.Sprintf("present max_num_seqs is at least %s (inferred: %s); vLLM does not export it",
				catalog.Whole(peak), indicator.RunningPeak.Title))
	}
	p.Fix(f)
}

// fullLength returns how many requests the cache holds at their full length, at most most. A lower limit would leave
// part of the cache unused.
func fullLength(p *catalog.Pass, most float64) float64 {
	kv, ok1 := p.KV()
	length, _, ok2 := sequenceTokens(p)
	if !ok1 || !ok2 {
		return 1
	}
	return min(most, max(1, math.Floor(kv.Tokens*catalog.KVHeadroom/length)))
}

// addCapacity sizes the cache for everything that is in flight.
func addCapacity(p *catalog.Pass) {
	held, line, ok1 := p.HeldTokens()
	kv, ok2 := p.KV()
	running, ok3 := p.Measured(indicator.Running)
	if !ok1 || !ok2 || !ok3 {
		return
	}
	waiting, _ := p.Measured(indicator.Waiting)
	inFlight := running + waiting
	need := inFlight * held / catalog.KVHeadroom
	have := kv.Tokens * p.Engines()
	replicas := math.Ceil(need / have)
	if replicas < 2 {
		return
	}
	lines := []string{
		line, kv.Line,
		fmt.Sprintf("in flight = %s running + %s waiting = %s", catalog.Digits(running), catalog.Digits(waiting),
			catalog.Digits(inFlight)),
		fmt.Sprintf("needed = %s × %s / %v = %s tokens", catalog.Digits(inFlight), catalog.Digits(held),
			catalog.KVHeadroom, catalog.Whole(need)),
	}
	if kv.Blocks > 0 {
		lines = append(lines, fmt.Sprintf("that is %s blocks of %s tokens", catalog.Whole(math.Ceil(need/kv.BlockSize)),
			catalog.Whole(kv.BlockSize)))
	}
	p.AddReplicas(replicas, catalog.Fix{
		Arithmetic: append(lines, fmt.Sprintf("replicas = ceil(%s / %s) = %s", catalog.Whole(need), catalog.Whole(have),
			catalog.Whole(replicas))),
		Tradeoff: "more GPUs; new replicas start with a cold prefix cache",
		Verify:   verify,
	})
}

// capOutput proposes a cap where a few answers are much longer than the rest.
func capOutput(p *catalog.Pass) {
	mean, ok1 := p.Measured(indicator.OutputTokens)
	tail, ok2 := p.Measured(indicator.OutputTokensP95)
	limit, ok3 := p.Measured(indicator.MaxTokens)
	if !ok1 || !ok2 || !ok3 || limit <= 2*mean {
		return
	}
	if tail < 2*mean {
		p.Reason("Clients ask for up to %s output tokens and use %s. That costs nothing: vLLM allocates blocks "+
			"as tokens are generated.", catalog.Whole(limit), catalog.Whole(mean))
		return
	}
	p.Fix(catalog.Fix{
		Summary: fmt.Sprintf("Cap max_tokens at %s at the gateway; clients ask for %s", catalog.Whole(tail),
			catalog.Whole(limit)),
		Stops: true,
		Arithmetic: []string{
			fmt.Sprintf("answers: mean %s (%s), P95 %s (%s); asked for %s (%s)", catalog.Whole(mean),
				indicator.OutputTokens.Title, catalog.Whole(tail), indicator.OutputTokensP95.Title,
				catalog.Whole(limit), indicator.MaxTokens.Title),
			"only the longest answers become shorter: vLLM reserves no blocks for tokens that are not generated",
		},
		Tradeoff: "one answer in twenty is cut off",
		Verify:   verify,
		MayHurt:  true,
	})
}

// sequenceTokens returns the mean length of a finished request: the tokens that it holds in the KV cache when it
// ends.
func sequenceTokens(p *catalog.Pass) (tokens float64, line string, ok bool) {
	prompt, ok1 := p.Measured(indicator.PromptTokens)
	output, ok2 := p.Measured(indicator.OutputTokens)
	if !ok1 || !ok2 {
		return 0, "", false
	}
	return prompt + output, fmt.Sprintf("tokens per request = %s prompt (%s) + %s output (%s) = %s",
		catalog.Digits(prompt), indicator.PromptTokens.Title, catalog.Digits(output), indicator.OutputTokens.Title,
		catalog.Digits(prompt+output)), true
}
