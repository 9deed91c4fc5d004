package diagnose

import (
	"math"

	"github.com/sixty-dev/sixty/internal/indicator"
)

// Names of the factors in JSON, and the signals behind them. The first group
// is what users ask for; the second is what the server makes of it.
var workloadFactors = []struct {
	name    string
	signal  *indicator.Signal
	traffic bool
}{
	{"request_rate", indicator.FirstTokenRate, true},
	{"prompt_tokens", indicator.PromptTokens, true},
	{"output_tokens", indicator.OutputTokens, true},
	{"max_tokens", indicator.MaxTokens, true},
	{"prefix_cache_hit_ratio", indicator.PrefixHitRatio, true},
	{"computed_prompt_tokens", indicator.ComputedTokens, false},
	{"queue_time", indicator.QueueTimeMean, false},
	{"prefill_time_per_token", indicator.PrefillTimePerToken, false},
	{"decode_step_time", indicator.ITLMean, false},
	{"decode_batch", indicator.DecodeBatch, false},
}

// changedBy is the factor by which a quantity of the traffic must differ from
// the baseline to be called changed; hit ratios are compared by difference.
const (
	changedBy      = 1.5
	changedByRatio = 0.2
)

// compareWorkload compares the busiest target with its own baseline and says
// which factors explain a later first token and a lower output rate.
func compareWorkload(s *Snapshot, judged []judgement) Workload {
	var w Workload
	busiest := -1
	for i, j := range judged {
		if s.Targets[j.target].IsGPU() || !j.view.Now(indicator.FirstTokenRate).OK {
			continue
		}
		if busiest < 0 || j.view.Now(indicator.FirstTokenRate).V > judged[busiest].view.Now(indicator.FirstTokenRate).V {
			busiest = i
		}
	}
	if busiest < 0 || judged[busiest].view.span().Source == NoBaseline {
		return w
	}
	v := judged[busiest].view
	for _, f := range workloadFactors {
		now, normal := v.Now(f.signal), v.Normal(f.signal)
		if !now.OK || !normal.OK {
			continue
		}
		w.Known = true
		w.Factors = append(w.Factors, Factor{Signal: f.signal, Name: f.name, Value: now.V, Baseline: normal.V, ShareOfTTFTChange: -1, ShareOfOutputChange: -1})
		w.Changed = w.Changed || f.traffic && changed(f.signal, now.V, normal.V)
	}
	w.attributeTTFT(v)
	w.attributeOutput(v)
	return w
}

func changed(s *indicator.Signal, now, normal float64) bool {
	if s.Unit == indicator.Ratio {
		return math.Abs(now-normal) > changedByRatio
	}
	return normal > 0 && (now > changedBy*normal || now*changedBy < normal)
}

// attributeTTFT divides the rise of the mean TTFT among its causes. TTFT is
// queue + prefill + the rest, and prefill is prompt length × share not cached ×
// cost of a token, so the rise of prefill is divided in proportion to the
// logarithms of the three quotients. What pulls the other way gets no share.
func (w *Workload) attributeTTFT(v view) {
	rise := func(s *indicator.Signal) float64 { return v.Now(s).Or(math.NaN()) - v.Normal(s).Or(math.NaN()) }
	if total := rise(indicator.TTFTMean); !(total > 0) {
		return
	}
	parts := map[string]float64{"queue_time": rise(indicator.QueueTimeMean)}
	quotient := func(now, normal float64) float64 { return math.Log(now / normal) }
	tokens := quotient(v.Now(indicator.PromptTokens).Or(math.NaN()), v.Normal(indicator.PromptTokens).Or(math.NaN()))
	reuse := 0.0
	if now, normal := v.Now(indicator.PrefixHitRatio), v.Normal(indicator.PrefixHitRatio); now.OK && normal.OK && now.V < 1 && normal.V < 1 {
		reuse = quotient(1-now.V, 1-normal.V)
	}
	cost := quotient(v.Now(indicator.PrefillTimePerToken).Or(math.NaN()), v.Normal(indicator.PrefillTimePerToken).Or(math.NaN()))
	if prefill, sum := rise(indicator.PrefillTimeMean), max(0, tokens)+max(0, reuse)+max(0, cost); prefill > 0 && sum > 0 {
		parts["prompt_tokens"] = prefill * max(0, tokens) / sum
		parts["prefix_cache_hit_ratio"] = prefill * max(0, reuse) / sum
		parts["prefill_time_per_token"] = prefill * max(0, cost) / sum
	}
	w.share(parts, func(f *Factor) *float64 { return &f.ShareOfTTFTChange })
}

// attributeOutput divides a change of the output rate between fewer or more
// requests and shorter or longer answers; what a slower step does to it shows
// in the queue and in the number of requests.
func (w *Workload) attributeOutput(v view) {
	now, normal := v.Now(indicator.GenerationTokenRate), v.Normal(indicator.GenerationTokenRate)
	if !now.OK || !normal.OK || now.V <= 0 || normal.V <= 0 {
		return
	}
	direction := math.Log(now.V / normal.V)
	if math.Abs(direction) < 0.1 {
		return
	}
	parts := map[string]float64{}
	for name, s := range map[string]*indicator.Signal{"request_rate": indicator.FirstTokenRate, "output_tokens": indicator.OutputTokens} {
		a, b := v.Now(s), v.Normal(s)
		if a.OK && b.OK && a.V > 0 && b.V > 0 {
			parts[name] = math.Log(a.V/b.V) / direction
		}
	}
	w.share(parts, func(f *Factor) *float64 { return &f.ShareOfOutputChange })
}

// share writes each part over the sum of the positive parts.
func (w *Workload) share(parts map[string]float64, slot func(*Factor) *float64) {
	sum := 0.0
	for _, p := range parts {
		if p > 0 {
			sum += p
		}
	}
	if sum == 0 {
		return
	}
	for i := range w.Factors {
		if p, ok := parts[w.Factors[i].Name]; ok {
			*slot(&w.Factors[i]) = max(0, p) / sum
			if math.IsNaN(p) {
				*slot(&w.Factors[i]) = -1
			}
		}
	}
}
