package diagnose

import (
	"maps"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// Names of the factors in JSON, and their signals. The first group is the users' demand; the second is the server's
// behaviour.
var workloadFactors = []struct {
	name    string
	signal  *indicator.Signal
	traffic bool
}{
	{"request_rate", indicator.FirstTokenRate, true},
	{"prompt_tokens", indicator.PromptTokens, true},
	{"output_tokens", indicator.OutputTokens, true},
	{"max_tokens", indicator.MaxTokens, true},
	{"prefix_cache_hit_ratio", indicator.PrefixHitRatio, false}, // a cache that was reset is no other traffic
	{"computed_prompt_tokens", indicator.ComputedTokens, false},
	{"queue_time", indicator.QueueTimeMean, false},
	{"prefill_time_per_token", indicator.PrefillTimePerToken, false},
	{"decode_step_time", indicator.ITLMean, false},
	{"decode_batch", indicator.DecodeBatch, false},
}

// changedBy is the factor by which a quantity of the traffic must differ from
// the baseline to be called changed.
const changedBy = 1.5

// A rise of the mean TTFT that is worth an explanation.
const (
	laterBy      = 0.05 // seconds
	laterByShare = 0.2
)

// queueGrew is by how many requests the queue must exceed its usual length to explain late first tokens that no
// finished request explains yet.
const queueGrew = 1

// compareWorkload compares a target with its own baseline and says which factors
// explain a later first token and another output rate.
func compareWorkload(j *judgement) Workload {
	v := j.view
	w := Workload{Target: j.name()}
	if v.span().Source == segments.NoBaseline {
		return w
	}
	for _, f := range workloadFactors {
		now, normal := v.Now(f.signal), v.Normal(f.signal)
		if !now.OK || !normal.OK {
			continue
		}
		w.Known = true
		w.Factors = append(w.Factors, Factor{Signal: f.signal, Name: f.name, Value: now.V, Baseline: normal.V,
			ShareOfTTFTChange: -1, ShareOfOutputChange: -1})
		w.Changed = w.Changed || f.traffic && hasChanged(now.V, normal.V)
	}
	w.attributeTTFT(v.view)
	w.attributeOutput(v.view)
	return w
}

func hasChanged(now, normal float64) bool {
	return normal > 0 && (now > changedBy*normal || now*changedBy < normal)
}

// attributeTTFT divides a rise of the mean TTFT among its causes. TTFT is queue + prefill + the rest. Prefill is
// prompt length × uncached share × cost per token, so its rise is divided in proportion to the logarithms of the
// three quotients. Factors that pull the other way get no share.
//
// Queue and prefill are known for requests that ended, the first token for requests that began. A rise that the
// former do not explain yet is the queue's, if the queue grew.
func (w *Workload) attributeTTFT(v view) {
	rise := func(s *indicator.Signal) float64 { return v.Now(s).Or(math.NaN()) - v.Normal(s).Or(math.NaN()) }
	total := rise(indicator.TTFTMean)
	if !(total > laterBy && total > laterByShare*v.Normal(indicator.TTFTMean).V) {
		return
	}
	parts := map[string]float64{"queue_time": rise(indicator.QueueTimeMean)}
	quotient := func(now, normal float64) float64 { return math.Log(now / normal) }
	tokens := quotient(v.Now(indicator.PromptTokens).Or(math.NaN()), v.Normal(indicator.PromptTokens).Or(math.NaN()))
	reuse := 0.0
	if now, normal := v.Now(indicator.PrefixHitRatio), v.Normal(indicator.PrefixHitRatio); now.OK && normal.OK &&
		now.V < 1 && normal.V < 1 {
		reuse = quotient(1-now.V, 1-normal.V)
	}
	cost := quotient(v.Now(indicator.PrefillTimePerToken).Or(math.NaN()),
		v.Normal(indicator.PrefillTimePerToken).Or(math.NaN()))
	prefill := rise(indicator.PrefillTimeMean)
	if sum := max(0, tokens) + max(0, reuse) + max(0, cost); prefill > 0 && sum > 0 {
		parts["prompt_tokens"] = prefill * max(0, tokens) / sum
		parts["prefix_cache_hit_ratio"] = prefill * max(0, reuse) / sum
		parts["prefill_time_per_token"] = prefill * max(0, cost) / sum
	}
	rest := total - orZero(parts["queue_time"]) - orZero(prefill)
	if rest > 0 && rise(indicator.Waiting) > queueGrew {
		parts["queue_time"] = orZero(parts["queue_time"]) + rest
	}
	w.shareAmongFactors(parts, total, func(f *Factor) *float64 { return &f.ShareOfTTFTChange })
}

// attributeOutput divides a change of the output rate between the number of requests and the length of answers.
// Slower steps show in the queue and in the number of requests.
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
	for name, s := range map[string]*indicator.Signal{"request_rate": indicator.FirstTokenRate,
		"output_tokens": indicator.OutputTokens} {
		a, b := v.Now(s), v.Normal(s)
		if a.OK && b.OK && a.V > 0 && b.V > 0 {
			parts[name] = math.Log(a.V/b.V) / direction
		}
	}
	w.shareAmongFactors(parts, 0, func(f *Factor) *float64 { return &f.ShareOfOutputChange })
}

// shareAmongFactors sets each factor's share: its part divided by the sum of the positive parts, or by the whole if
// that is more.
func (w *Workload) shareAmongFactors(parts map[string]float64, whole float64, slot func(*Factor) *float64) {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(parts)) { // always the same order, for the last digit
		sum += orZero(parts[name])
	}
	if sum = max(sum, whole); sum == 0 {
		return
	}
	for i := range w.Factors {
		if p, ok := parts[w.Factors[i].Name]; ok && !math.IsNaN(p) {
			*slot(&w.Factors[i]) = max(0, p) / sum
		}
	}
}

func orZero(v float64) float64 {
	if v > 0 {
		return v
	}
	return 0
}
