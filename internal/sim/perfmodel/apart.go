package perfmodel

import (
	"errors"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
)

// Prefill is disaggregated serving: some engines compute prompts, and send what the cache
// keeps of them to those that decode. Without Engines there is none.
type Prefill struct {
	Engines       int
	BytesPerToken float64 // that one GPU sends
	Rate          float64 // bytes per second of one GPU
}

// transfer is how long a prompt's part of the cache is under way. Links are taken to be
// free: what several prompts that are sent at once wait for each other is left out.
func (p Prefill) transfer(tokens int) time.Duration {
	return time.Duration(float64(tokens) * p.BytesPerToken / p.Rate * float64(time.Second))
}

// runApart simulates engines that compute prompts, and after them those that decode. The
// first token is the second engine's, as of vLLM's proxies; its steps have no arithmetic of
// prompts.
func (d Deployment) runApart(cost sim.StepCost, requests []sim.Request, o sim.Options) (*sim.Result, error) {
	if o.Clients > 0 {
		return nil, errors.New("a closed loop with separate prefill is not simulated: give a --rate")
	}
	prompts := slices.Clone(requests)
	for i := range prompts {
		prompts[i].OutputTokens = min(prompts[i].OutputTokens, 1)
	}
	first := d
	first.Prefill, first.Replicas = Prefill{}, d.Prefill.Engines
	brief := o
	brief.Brief = true
	computed, err := first.run(cost, prompts, brief)
	if err != nil {
		return nil, err
	}
	var decoded []sim.Request
	var at []int // where they stand among the requests
	for i, r := range requests {
		if rec := &computed.Records[i]; rec.Outcome == sim.Finished && r.OutputTokens > 0 {
			r.Arrival = rec.Arrival + rec.E2E() + d.Prefill.transfer(r.PromptTokens)
			decoded, at = append(decoded, r), append(at, i)
		}
	}
	if len(decoded) == 0 {
		return computed, nil
	}
	second := d
	second.Prefill = Prefill{}
	second.Config.MaxNumBatchedTokens = max(second.Config.MaxNumBatchedTokens, second.Config.MaxNumSeqs*second.Config.MaxModelLen)
	second.Config.LongPrefillTokenThreshold = 0
	cost.Mixed, cost.PerToken, cost.PerPair, cost.Knee = 0, 0, 0, 0
	brief.Frontend = sim.Frontend{} // which the request has passed
	out, err := second.run(cost, decoded, brief)
	if err != nil {
		return nil, err
	}
	records := computed.Records
	for i, rec := range out.Records {
		records[at[i]] = rec.After(decoded[i].Arrival - requests[at[i]].Arrival)
	}
	out.Records = records
	out.Replicas = append(computed.Replicas, out.Replicas...)
	return out, nil
}
