package calibrate

import (
	"errors"
	"math"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A Scrape is what a live server's metrics say of the time between two scrapes:
// increases of counters and histogram sums, means of gauges. Signals are named as
// in vLLM 0.23.0.
type Scrape struct {
	Seconds          float64 // between the scrapes
	Running          float64 // vllm:num_requests_running, mean
	KVTokens         float64 // vllm:kv_cache_usage_perc, mean, times the cache's tokens
	GenerationTokens float64 // vllm:generation_tokens_total

	// Steps are those that gave a token (count of vllm:iteration_tokens_total); 0 is
	// not known, and then the running requests, of which few moments are known,
	// stand for the batch.
	Steps float64

	// PrefillTokens are prompt tokens computed, without those from the prefix
	// cache (vllm:request_prefill_kv_computed_tokens), of Prefills requests.
	PrefillTokens, Prefills float64

	// ITLSeconds and ITLCount are sum and count of vllm:inter_token_latency_seconds.
	// Without a count the server is taken to have been busy all the time. Their mean
	// holds the gaps of preempted requests too, but no steps can have taken longer
	// than there was time.
	ITLSeconds, ITLCount float64

	// PrefillSeconds and PrefillCount are sum and count of
	// vllm:request_prefill_time_seconds; 0 if unknown.
	PrefillSeconds, PrefillCount float64
}

// FromScrapes fits to a live server's metrics or to a recording of them. It
// knows means per interval only, not single steps: overhead of steps with
// prefill and the knee come out rougher than from requests.
func FromScrapes(cfg sim.Config, scrapes []Scrape, prior *sim.StepCost) (*Fit, error) {
	var best *point
	for _, knee := range knees(cfg, prior) {
		var obs []Observation
		for _, s := range scrapes {
			obs = append(obs, s.observations(cfg, knee)...)
		}
		if len(obs) == 0 {
			return nil, hint.With(errors.New("calibrate: the server was idle in every interval"), "choose a time with load")
		}
		p, err := solve(obs, knee, prior)
		if errors.Is(err, ErrUndetermined) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if best == nil || p.loss < best.loss {
			best = p
		}
	}
	if best == nil {
		return nil, ErrUndetermined
	}
	return best.fit(), nil
}

func (s Scrape) observations(cfg sim.Config, knee int) []Observation {
	steps := s.GenerationTokens / s.Running // each step gives each running request a token
	if s.Steps > 0 {
		steps = s.Steps
		s.Running = max(s.GenerationTokens/s.Steps, 1)
	}
	if !(s.Running >= 1) || !(steps >= 1) || math.IsInf(steps, 0) || !(s.Seconds > 0) {
		return nil
	}
	seconds := s.Seconds
	if s.ITLCount > 0 {
		seconds = min(s.ITLSeconds/s.ITLCount*steps, s.Seconds)
	}
	if !(seconds > 0) {
		return nil
	}
	budget := max(float64(cfg.MaxNumBatchedTokens)-s.Running, 1)
	mixed := min(max(s.Prefills, s.PrefillTokens/budget), steps)
	obs := []Observation{{Work: s.work(steps, mixed, s.PrefillTokens, knee), Seconds: seconds}}
	if s.PrefillCount > 0 && s.PrefillSeconds > 0 && s.Prefills > 0 {
		// A prefill waits for the step in execution, under asynchronous scheduling,
		// and takes its own.
		prompt := s.PrefillTokens / s.Prefills
		own := math.Ceil(prompt / budget)
		steps := own
		if cfg.AsyncScheduling {
			steps++
		}
		obs = append(obs, Observation{
			Work:    s.work(steps, own, prompt, knee),
			Seconds: s.PrefillSeconds / s.PrefillCount,
			Weight:  prefillWeight,
		})
	}
	return obs
}

// work is that of some steps of the interval's mean batch, of which mixed share
// some prefill tokens.
func (s Scrape) work(steps, mixed, prefill float64, knee int) sim.Work {
	prompt := 0.0
	if s.Prefills > 0 {
		prompt = s.PrefillTokens / s.Prefills
	}
	room := max(float64(knee)-s.Running, 0) // tokens that a step takes for nothing
	return sim.Work{
		Steps:    int64(math.Round(steps)),
		Mixed:    int64(math.Round(mixed)),
		Seqs:     int64(s.Running*steps + mixed),
		Tokens:   int64(s.Running*steps + prefill),
		Excess:   int64(max(prefill-mixed*room, 0) + max(s.Running-float64(knee), 0)*steps),
		KVTokens: int64(s.KVTokens * steps),
		Pairs:    int64(prefill * prompt / 2),
	}
}
