package planning

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// Targets are the required performance of the deployment. A zero value is no target.
type Targets struct {
	TTFTP95, ITLP95, E2EP95 time.Duration
	TokensPerSecond         float64 // output tokens, of the whole deployment
}

// Empty reports whether there are no targets.
func (t Targets) Empty() bool { return t == Targets{} }

// simLimits returns the latency targets as the limits of a simulation, which ends when it exceeds one.
func (t Targets) simLimits() sim.Limits {
	return sim.Limits{TTFT: t.TTFTP95, ITL: t.ITLP95, E2E: t.E2EP95}
}

// A latency is a target for a 95th percentile, with functions that read that percentile.
type latency struct {
	name      sim.Quantity
	want      time.Duration
	point     func(*Point) Seconds
	predicted func(*perfmodel.Prediction) perfmodel.Estimate // in seconds
	simulated func(*sim.Summary) time.Duration
}

// latencyTargets returns the latencies with targets.
func (t Targets) latencyTargets() []latency {
	return slices.DeleteFunc([]latency{
		{
			sim.TTFT, t.TTFTP95, func(p *Point) Seconds { return p.TTFT },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.TTFT.P95 },
			func(s *sim.Summary) time.Duration { return s.TTFT.P95 },
		},
		{
			sim.ITL, t.ITLP95, func(p *Point) Seconds { return p.ITL },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.ITL.P95 },
			func(s *sim.Summary) time.Duration { return s.ITL.P95 },
		},
		{
			sim.E2E, t.E2EP95, func(p *Point) Seconds { return p.E2E },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.E2E.P95 },
			func(s *sim.Summary) time.Duration { return s.E2E.P95 },
		},
	}, func(l latency) bool { return l.want <= 0 })
}

// Demand is the workload of the whole deployment.
type Demand struct {
	Rate                   float64 // requests per second
	MeanPrompt, MeanOutput float64 // tokens
	MaxTokens              int     // prompt and output of the longest request; 0 if unknown

	// Draw returns the requests that one engine gets when all engines get rate requests per second. All rates have the
	// same requests; only the times between them differ.
	Draw func(rate float64, engines, blockSize int) ([]sim.Request, error)
	Text string // describes the workload to the user
}

// MeanTokens returns how many tokens a request holds in the middle of its answer, on average.
func (d *Demand) MeanTokens() float64 { return d.MeanPrompt + d.MeanOutput/2 }

// A Plan is the input of Search.
type Plan struct {
	Offers  []*Offer
	Targets Targets
	Demand  Demand
	MaxGPUs int // for the whole deployment; 0 is 64

	// Check is called often; its error ends the search. A context's Err fits. Show reports progress. Both may be nil.
	Check func() error
	Show  func(format string, args ...any)
}

// A Choice is a kind of GPU.
type Choice struct {
	Device perfmodel.GPU
	Memory perfmodel.Estimate // bytes
}

// An Offer is a kind of GPU, with what is known about servers that run the model on it.
type Offer struct {
	Choice
	Model *modelconfig.Model
	Base  perfmodel.Settings // settings that are fixed; open ones are zero
	Args  engine.Config      // fixed settings for the scheduler that Base has no field for
	Price Price              // per GPU; zero if unknown

	// Fit is the calibration of a server that runs FitSettings. It is nil without measurements: then the data sheets
	// give the step times.
	Fit         *perfmodel.Calibration
	FitSettings perfmodel.Settings

	FixedKV *perfmodel.Observed // blocks that the server really has, for FitSettings' shape
}

// Knobs are the settings that a search varies.
type Knobs struct {
	TP                  int  `json:"tensor_parallel_size"`
	PP                  int  `json:"pipeline_parallel_size"`
	DP                  int  `json:"data_parallel_size"`
	Replicas            int  `json:"replicas"`
	MaxNumSeqs          int  `json:"max_num_seqs"`
	MaxNumBatchedTokens int  `json:"max_num_batched_tokens"`
	ChunkedPrefill      bool `json:"enable_chunked_prefill"`
}

// Seconds are a latency. If requests would wait forever it is +Inf, and null in JSON.
type Seconds float64

// Never reports whether requests would wait forever.
func (s Seconds) Never() bool { return math.IsInf(float64(s), 1) }

// MarshalJSON writes a number, or null for +Inf.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if s.Never() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// A Point is one configuration with its simulated performance.
type Point struct {
	GPUs int `json:"gpus"`
	Knobs
	Rate   float64           `json:"requests_per_second"` // for all replicas
	Blocks float64           `json:"num_gpu_blocks"`
	Ledger *perfmodel.Ledger `json:"-"`
	Offer  *Offer            `json:"-"`

	// 95th percentiles.
	TTFT Seconds `json:"ttft_p95"`
	ITL  Seconds `json:"itl_p95"`
	E2E  Seconds `json:"e2e_p95"`

	TokensPerSecond float64 `json:"output_tokens_per_second"` // for the whole deployment
	Running         float64 `json:"running"`                  // mean batch of a replica
	KVPeak          float64 `json:"kv_cache_peak"`            // share of the blocks in use at the peak
	Preemptions     int     `json:"preemptions_per_1000_requests"`

	// Misses describes the targets that the likeliest values miss. Doubts describes those that the slow ends of the
	// intervals miss.
	Misses []string `json:"misses,omitempty"`
	Doubts []string `json:"doubts,omitempty"`

	Prediction *perfmodel.Prediction  `json:"-"` // with intervals, for one replica
	Calibrated *perfmodel.Calibration `json:"-"`

	Sample  int `json:"-"` // simulated requests of an engine
	Failed  int `json:"-"` // requests that can never run
	Refused int `json:"-"` // requests whose prompt leaves no room below max-model-len

	exceeded sim.Quantity // the limit that ended the simulation early; "": all results are complete
	missed   sim.Quantity // the first latency that misses its target; "": none
	surely   bool         // the slow ends of all intervals meet the targets
	peak     sim.Work     // largest numbers of any step
	score    float64      // largest ratio of a latency to its target
}

// Met reports whether the likeliest values meet the targets.
func (p *Point) Met() bool { return p.exceeded == "" && len(p.Misses) == 0 }

// Cost returns the cost of the deployment at its load, or nil without a price.
func (p *Point) Cost(d *Demand) *Cost {
	hour := float64(p.GPUs) * p.Offer.Price.PerHour
	if hour == 0 {
		return nil
	}
	c := &Cost{Hour: hour}
	if tokens := p.TokensPerSecond; tokens > 0 {
		c.MillionOutput = hour / 3600 / tokens * 1e6
		c.MillionAllTokens = hour / 3600 / (tokens * (1 + d.MeanPrompt/max(d.MeanOutput, 1))) * 1e6
	}
	return c
}

// A Result is the outcome of a search.
type Result struct {
	Surely   *Point // the cheapest that meets the targets even at the slow ends of its intervals; nil if none does
	Likely   *Point // the cheapest that meets the targets at the likeliest step times; nil if none does
	Smallest *Point // the cheapest single replica that meets the targets, at its largest load; nil if none does
	Nearest  *Point // the one that comes closest, if none meets the targets

	Offers   []OfferResult // one for each offer of the plan
	Basis    string        // basis of the step times
	Doubtful []string      // why the step times may be wrong
	Notes    []string
	Explain  []string // why the targets cannot be met, and which targets could be
}

// Point returns the surest point, or nil if the model fits nowhere.
func (r *Result) Point() *Point {
	for _, p := range []*Point{r.Surely, r.Likely, r.Nearest} {
		if p != nil {
			return p
		}
	}
	return nil
}

// An OfferResult is the result of a search for one offer.
type OfferResult struct {
	*Offer
	Surely, Likely *Point // the cheapest points; nil for those dearer than another offer's
	AtLeast        int    // lower bound of the GPUs if Likely is nil; 0: no number of GPUs suffices
	Err            error  // why the offer is impossible: vLLM refuses it, or memory is short
}
