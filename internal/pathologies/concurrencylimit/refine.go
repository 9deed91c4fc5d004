package concurrencylimit

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "the queue empties, mean queue time falls below 100 ms, while KV cache usage stays below 90 %"

func refineFinding(p *catalog.Pass) {
	now, ok := maxNumSeqs(p)
	if !ok {
		p.Reason("The present limit is not known: %s.", catalog.GiveConfig)
		return
	}
	p.Summary = fmt.Sprintf("Requests queue because at most %s may run at once", now.Flag())
	if w, ok := p.Measured(indicator.Waiting); ok {
		p.Summary += ": " + catalog.Waiting(w)
	}
	if kv, ok := p.Measured(indicator.KVUsagePeak); ok {
		p.Summary += fmt.Sprintf(", with KV cache usage at %s", indicator.FormatNumber(kv, indicator.Ratio))
	}
	if now.Inferred {
		p.Reason("vLLM does not export max_num_seqs. Never more than %s ran while requests waited and the KV cache "+
			"had room, so that is taken as max_num_seqs. To be sure, %s.", now.Flag(), catalog.GiveConfig)
	}
	p.Observe("A larger batch still pays off, because steps are short", indicator.ITLP50, indicator.DecodeBatch)
	if share, leaving := p.Leaving(); leaving {
		p.Summary += fmt.Sprintf("; %s of the clients leave before their answer",
			indicator.FormatNumber(share, indicator.Ratio))
		p.StopRetries()
		return
	}
	p.ShedQueue("TTFT P95 falls to its objective")
	raiseBatch(p, now)
}

// raiseBatch sizes the batch by the room in the KV cache and the objective for the inter-token latency. The demand is
// a lower bound, because waiting clients send nothing new; a simulation chooses in between.
func raiseBatch(p *catalog.Pass, now catalog.Quantity) {
	least, lines := sizeBatch(p, now.V)
	want := max(least, now.V+1)
	if room, more, ok := p.SafeSeqs(); ok {
		want = room
		lines = append(lines, more...)
	}
	if limit, text, ok := p.Objective(catalog.ITLObjective); ok {
		if most, line, ok := batchWithin(p, limit, text, now.V); ok && most < want {
			want = most
			lines = append(lines, line)
		}
	}
	if budget, ok := p.Setting(engine.MaxNumBatchedTokens); ok && budget.V < want {
		want = budget.V
		lines = append(lines, fmt.Sprintf("it may not exceed max_num_batched_tokens = %s (%s)", budget.Flag(),
			budget.Source))
	}
	lines = append(lines, fmt.Sprintf("present max_num_seqs = %s (%s)", now.Flag(), now.Source))
	if want <= now.V {
		p.Fix(catalog.Fix{
			Summary:    "Add a replica: a larger batch would overfill the KV cache or break the ITL objective",
			Replicas:   2,
			Arithmetic: lines,
			Tradeoff:   "more GPUs",
			Verify:     verify,
		})
		return
	}
	if far := farthest * now.V; want > far && least < want {
		want = max(far, least)
		lines = append(lines, fmt.Sprintf("demand fits into %s, and more than %s times the present limit was never "+
			"measured: %s as a first step", catalog.Whole(least), catalog.Digits(farthest), catalog.Whole(want)))
	}
	if _, line, ok := stepAt(p, want, now.V); ok {
		lines = append(lines, line)
	}
	p.Fix(catalog.Fix{
		Summary:    fmt.Sprintf("Raise --max-num-seqs from %s to %s", now.Flag(), catalog.Whole(want)),
		Changes:    []catalog.Change{{Flag: "--max-num-seqs", From: now.Flag(), To: catalog.Whole(want)}},
		Search:     &catalog.Search{Flag: "--max-num-seqs", Least: int(now.V) + 1, Most: int(want)},
		Arithmetic: lines,
		Tradeoff:   "ITL rises with the batch, and KV cache usage too",
		Verify:     verify,
	})
}

// farthest bounds a proposal beyond the demand, in multiples of the present limit: nothing measured shows how long the
// steps of larger batches take.
const farthest = 4

// sizeBatch returns the smallest batch that serves the arrivals: arrivals × time in the batch, where the decode time
// grows with the batch, and no fewer than the requests in flight.
func sizeBatch(p *catalog.Pass, now float64) (float64, []string) {
	n, lines := now+1, []string(nil)
	arrivals, _, more, ok1 := p.Demand()
	decode, ok2 := p.Measured(indicator.DecodeTimeMean)
	prefill, ok3 := p.Measured(indicator.PrefillTimeMean)
	if ok1 && ok2 && ok3 {
		arrivals /= p.Engines()
		k, _ := p.StepExponent()
		stretched := decode * math.Pow(math.Max(1, arrivals*(prefill+decode)/now), k)
		n = math.Ceil(arrivals * (prefill + stretched) / catalog.PlannedLoad)
		lines = append(more,
			fmt.Sprintf("time in the batch = %s prefill (%s) + %s decode (%s, stretched for the larger batch) = %s",
				formatSeconds(prefill), indicator.PrefillTimeMean.Title, formatSeconds(stretched),
				indicator.DecodeTimeMean.Title, formatSeconds(prefill+stretched)),
			fmt.Sprintf("batch needed (Little's law) = ceil(%s/s × %s / %v) = %s", catalog.Digits(arrivals),
				formatSeconds(prefill+stretched), catalog.PlannedLoad, catalog.Whole(n)))
	}
	if n > now && queueGrows(p) {
		return n, lines
	}
	// The queue does not grow: clients send nothing new while they wait, so arrivals understate the demand.
	running, ok1 := p.Measured(indicator.Running)
	waiting, ok2 := p.Measured(indicator.Waiting)
	if !ok1 || !ok2 {
		return max(n, 2*now), append(lines, "arrivals are not known yet: twice the present limit, as a first step")
	}
	all := math.Ceil((running + waiting) / p.Engines())
	return max(n, all, now+1),
		append(lines, fmt.Sprintf("arrivals keep pace with service, yet requests wait: the batch that takes them all "+
			"= %s running + %s waiting = %s", catalog.Digits(running), catalog.Digits(waiting), catalog.Whole(all)))
}

// queueGrows reports whether more arrives than is served.
func queueGrows(p *catalog.Pass) bool {
	arrivals, served, _, ok := p.Demand()
	return ok && arrivals > 1.02*served
}

// batchWithin returns the largest batch whose step keeps the objective.
func batchWithin(p *catalog.Pass, limit float64, text string, now float64) (float64, string, bool) {
	itl, ok := p.Measured(indicator.ITLP50)
	k, _ := p.StepExponent()
	if !ok || k < 0.1 {
		return 0, "", false
	}
	most := math.Floor(now * math.Pow(limit/itl, 1/k))
	return most, fmt.Sprintf("the ITL objective %s bounds it: floor(%s × (%s / %s)^(1/%s)) = %s",
			text, catalog.Whole(now), formatSeconds(limit), formatSeconds(itl), catalog.Digits(k), catalog.Whole(most)),
		true
}

// maxNumSeqs returns the limit of one engine's running batch: as configured, or the highest running count if requests
// waited although the KV cache had room. vLLM does not export the limit.
func maxNumSeqs(p *catalog.Pass) (catalog.Quantity, bool) {
	if q, ok := p.Setting(engine.MaxNumSeqs); ok {
		return q, true
	}
	peak, ok := p.Measured(indicator.RunningPeak)
	if !ok {
		return catalog.Quantity{}, false
	}
	peak = math.Round(peak / p.Engines())
	if _, waits := p.Measured(indicator.WaitingFloor); !waits || peak < 1 {
		return catalog.Quantity{}, false
	}
	if kv := p.Now(indicator.KVUsagePeak); kv.OK && kv.V > 0.9 {
		return catalog.Quantity{}, false // the cache may limit the batch
	}
	return catalog.Quantity{
		V: peak, Inferred: true,
		Source: fmt.Sprintf("inferred: never more than %s ran while requests waited", catalog.Whole(peak)),
	}, true
}

// stepAt estimates the median inter-token latency with a batch of n from the present one with a batch of from.
func stepAt(p *catalog.Pass, n, from float64) (itl float64, line string, ok bool) {
	now, ok := p.Measured(indicator.ITLP50)
	if !ok || !(n > 0) || !(from > 0) {
		return 0, "", false
	}
	k, source := p.StepExponent()
	itl = now * math.Pow(n/from, k)
	return itl, fmt.Sprintf("expected ITL P50 = %s (%s) × (%s / %s)^%s = %s; the exponent is %s",
		indicator.FormatNumber(now, indicator.Seconds), indicator.ITLP50.Title, catalog.Whole(n), catalog.Digits(from),
		catalog.Digits(k), indicator.FormatNumber(itl, indicator.Seconds), source), true
}

func formatSeconds(v float64) string { return indicator.FormatNumber(v, indicator.Seconds) }
