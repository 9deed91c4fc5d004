package perfmodel

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/workload"
)

// A Scrape is what a live server's metrics say of the time between two scrapes:
// increases of counters and histogram sums, means of gauges. Signals are named as
// in vLLM 0.23.0.
type Scrape struct {
	Seconds          float64 // between the scrapes
	Running          float64 // vllm:num_requests_running, mean
	KVTokens         float64 // vllm:kv_cache_usage_perc, mean, times the cache's tokens
	Waiting          float64 // vllm:num_requests_waiting, mean
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

	// QueueSeconds and QueueCount are sum and count of
	// vllm:request_queue_time_seconds, TTFTSeconds is the sum of
	// vllm:time_to_first_token_seconds over Prefills requests; 0 if unknown.
	QueueSeconds, QueueCount, TTFTSeconds float64
}

// ScrapesOf returns what was measured of all engines, each with that configuration, as
// a calibration takes it.
func ScrapesOf(m *workload.Measured, cfg sim.Config) []Scrape {
	var out []Scrape
	capacity := float64(cfg.Tokens())
	known := func(v float64) float64 {
		if math.IsNaN(v) {
			return 0
		}
		return v
	}
	for _, e := range m.Ranks {
		for _, i := range e.Intervals {
			if math.IsNaN(i.Generated) || math.IsNaN(i.Running) || math.IsNaN(i.KVUsage) {
				continue
			}
			out = append(out, Scrape{
				Seconds: i.Seconds, Running: i.Running, KVTokens: i.KVUsage * capacity, GenerationTokens: i.Generated, Steps: known(i.Steps),
				PrefillTokens: known(i.Computed), Prefills: known(i.FirstTokens),
				ITLSeconds: known(i.ITLSum), ITLCount: known(i.ITLCount),
				PrefillSeconds: known(i.PrefillSum), PrefillCount: known(i.PrefillCount),
				Waiting:      known(i.Waiting),
				QueueSeconds: known(i.QueueSum), QueueCount: known(i.QueueCount), TTFTSeconds: known(i.TTFTSum),
			})
		}
	}
	return out
}

// FromScrapes fits to a live server's metrics or to a recording of them. It
// knows means per interval only, not single steps: overhead of steps with
// prefill and the knee come out rougher than from requests. Check is that of
// FromRequests.
func FromScrapes(cfg sim.Config, scrapes []Scrape, prior *Prior, check func() error) (*Fit, error) {
	best, others, err := overKnees(cfg, prior, func(knee int) (*point, error) {
		var obs []Observation
		for _, s := range scrapes {
			obs = append(obs, s.observations(cfg, shapeOf(knee, prior))...)
		}
		if len(obs) == 0 {
			return nil, hint.With(errors.New("calibrate: the server was idle in every interval"), "choose a time with load")
		}
		return solve(obs, knee, prior, check)
	})
	if err != nil {
		return nil, err
	}
	f, err := best.fit(others, check)
	if err != nil {
		return nil, err
	}
	f.frontend(cfg, scrapes)
	return f, nil
}

// frontend estimates the API server's time: what is left of the time to first token
// beside queue and prefill. A request that comes while a step is in execution waits
// for its end, which vLLM counts in neither (the engine takes requests between steps,
// EngineCore.run_busy_loop in v1/engine/core.py@v0.23.0) and the simulator has in its
// queue; the time until the end of the step is, on average over time, half the sum of
// the squares of the steps' durations by the time. Intervals in which requests queued
// tell nothing, unless there are no others. The sums of an interval are not of the same
// requests, which evens out over several; a queue that was missed does not, and is kept
// from deciding.
func (f *Fit) frontend(cfg sim.Config, scrapes []Scrape) {
	calm := slices.DeleteFunc(slices.Clone(scrapes), func(s Scrape) bool {
		queued := s.Waiting > 0 || s.QueueSeconds*s.Prefills > s.TTFTSeconds*s.QueueCount/5
		return !(s.Prefills+s.PrefillCount > 0) || queued || (s.TTFTSeconds > 0) != (s.Prefills > 0)
	})
	var left []float64 // of stretches of neighbouring intervals
	first := 0.0
	for _, s := range calm {
		first += s.Prefills
	}
	stretches := min(frontendStretches, int(first/2))
	for i := range stretches {
		var sum Scrape
		var residual float64
		for _, s := range calm[i*len(calm)/stretches : (i+1)*len(calm)/stretches] {
			sum.Prefills, sum.TTFTSeconds = sum.Prefills+s.Prefills, sum.TTFTSeconds+s.TTFTSeconds
			sum.QueueCount, sum.QueueSeconds = sum.QueueCount+s.QueueCount, sum.QueueSeconds+s.QueueSeconds
			sum.PrefillCount, sum.PrefillSeconds = sum.PrefillCount+s.PrefillCount, sum.PrefillSeconds+s.PrefillSeconds
			residual += s.residual(cfg, f.Cost) * s.Prefills
		}
		if sum.Prefills >= 1 && sum.QueueCount >= 1 && sum.PrefillCount >= 1 {
			l := (sum.TTFTSeconds-residual)/sum.Prefills - sum.QueueSeconds/sum.QueueCount - sum.PrefillSeconds/sum.PrefillCount
			if math.Abs(l) <= time.Hour.Seconds() { // else the counters are no measurement
				left = append(left, l)
			}
		}
	}
	if len(left) < fewestStretches {
		return
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the same input gives the same interval
	draws, sample := make([]float64, bootstrapDraws), make([]float64, len(left))
	for i := range draws {
		for k := range sample {
			sample[k] = left[rng.IntN(len(left))]
		}
		draws[i] = max(middle(sample), 0)
		f.FrontendDraws = append(f.FrontendDraws, sim.Frontend{PerRequest: draws[i]})
	}
	slices.Sort(draws)
	f.setFrontend(max(middle(left), 0), draws[bootstrapDraws*25/1000], draws[bootstrapDraws*975/1000])
}

// frontendStretches are enough to leave some out, and fewestStretches to do without one.
const (
	frontendStretches = 20
	fewestStretches   = 4
)

// middle is the mean without the highest and the lowest fifth.
func middle(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	s = s[len(s)/5 : len(s)-len(s)/5]
	sum := 0.0
	for _, x := range s {
		sum += x
	}
	return sum / float64(len(s))
}

// residual is how long a request that comes at any time waits for the end of the
// step in execution, on average.
func (s Scrape) residual(cfg sim.Config, cost sim.StepCost) float64 {
	steps, mixed, ok := s.steps(cfg)
	if !ok {
		return 0
	}
	squares := 0.0
	for _, part := range []struct{ steps, mixed, prefill float64 }{{steps - mixed, 0, 0}, {mixed, mixed, s.PrefillTokens}} {
		if part.steps >= 1 {
			one := cost.Seconds(s.work(part.steps, part.mixed, part.prefill, cost)) / part.steps
			squares += part.steps * one * one
		}
	}
	return min(squares/(2*s.Seconds), s.Seconds)
}

// steps is how many steps the interval had, and how many of them with prefill.
func (s *Scrape) steps(cfg sim.Config) (steps, mixed float64, ok bool) {
	steps = s.GenerationTokens / s.Running // each step gives each running request a token
	if s.Steps > 0 {
		steps = s.Steps
		s.Running = max(s.GenerationTokens/s.Steps, 1)
	}
	budget := max(float64(cfg.MaxNumBatchedTokens)-s.Running, 1)
	mixed = min(max(s.Prefills, s.PrefillTokens/budget), steps)
	return steps, mixed, s.Running >= 1 && steps >= 1 && !math.IsInf(steps, 0) && s.Seconds > 0
}

func (s Scrape) observations(cfg sim.Config, shape sim.StepCost) []Observation {
	steps, mixed, ok := s.steps(cfg)
	if !ok {
		return nil
	}
	seconds := s.Seconds
	if s.ITLCount > 0 {
		seconds = min(s.ITLSeconds/s.ITLCount*steps, s.Seconds)
	}
	if !(seconds > 0) {
		return nil
	}
	obs := []Observation{{Work: s.work(steps, mixed, s.PrefillTokens, shape), Seconds: seconds}}
	if s.PrefillCount > 0 && s.PrefillSeconds > 0 && s.Prefills > 0 {
		// A prefill waits for the step in execution, under asynchronous scheduling,
		// and takes its own.
		prompt := s.PrefillTokens / s.Prefills
		own := math.Ceil(prompt / max(float64(cfg.MaxNumBatchedTokens)-s.Running, 1))
		steps := own
		if cfg.AsyncScheduling {
			steps++
		}
		obs = append(obs, Observation{
			Work:    s.work(steps, own, prompt, shape),
			Seconds: s.PrefillSeconds / s.PrefillCount,
			Weight:  prefillWeight,
		})
	}
	return obs
}

// work is that of some steps of the interval's mean batch, of which mixed share
// some prefill tokens.
func (s Scrape) work(steps, mixed, prefill float64, shape sim.StepCost) sim.Work {
	prompt := 0.0
	if s.Prefills > 0 {
		prompt = s.PrefillTokens / s.Prefills
	}
	knee := float64(shape.Knee)
	room := max(knee-s.Running, 0) // tokens that a step takes for nothing
	return sim.Work{
		Steps:    int64(math.Round(steps)),
		Mixed:    int64(math.Round(mixed)),
		Seqs:     int64(s.Running*steps + mixed),
		Tokens:   int64(s.Running*steps + prefill),
		Excess:   int64(max(prefill-mixed*room, 0) + max(s.Running-knee, 0)*steps),
		KVTokens: int64(s.KVTokens * steps),
		Pairs:    int64(prefill * prompt / 2),
		Experts:  int64(1e6 * steps * shape.Touched(s.Running+prefill/max(steps, 1))),
	}
}
