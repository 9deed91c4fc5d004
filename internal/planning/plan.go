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

// Targets are what the deployment must reach. A zero value is no target.
type Targets struct {
	TTFTP95, ITLP95, E2EP95 time.Duration
	TokensPerSecond         float64 // output tokens, of the whole deployment
}

// Empty reports whether nothing is asked for.
func (t Targets) Empty() bool { return t == Targets{} }

// limits are the latencies, for simulations that end where one is exceeded.
func (t Targets) limits() sim.Limits {
	return sim.Limits{TTFT: t.TTFTP95, ITL: t.ITLP95, E2E: t.E2EP95}
}

// A latency is a target of a 95th percentile, and where a point, a prediction and a
// simulation have it, in seconds.
type latency struct {
	name      sim.Quantity
	want      time.Duration
	point     func(*Point) Seconds
	predicted func(*perfmodel.Prediction) perfmodel.Estimate
	simulated func(*sim.Summary) time.Duration
}

// latencies are those that are asked for.
func (t Targets) latencies() []latency {
	return slices.DeleteFunc([]latency{
		{
			sim.TTFT, t.TTFTP95, func(p *Point) Seconds { return p.TTFT },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.TTFT.P95 }, func(s *sim.Summary) time.Duration { return s.TTFT.P95 },
		},
		{
			sim.ITL, t.ITLP95, func(p *Point) Seconds { return p.ITL },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.ITL.P95 }, func(s *sim.Summary) time.Duration { return s.ITL.P95 },
		},
		{
			sim.E2E, t.E2EP95, func(p *Point) Seconds { return p.E2E },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.E2E.P95 }, func(s *sim.Summary) time.Duration { return s.E2E.P95 },
		},
	}, func(l latency) bool { return l.want <= 0 })
}

// Demand is the workload of the whole deployment.
type Demand struct {
	Rate                   float64 // requests per second
	MeanPrompt, MeanOutput float64 // tokens
	MaxTokens              int     // of the longest request, prompt and output; 0 is unknown

	// Draw returns the requests that one of some engines gets when so many a second come
	// to all of them, for blocks of a size. It is called for many rates, and gives all of
	// them the same requests: those of other rates come more or less closely.
	Draw func(rate float64, engines, blockSize int) ([]sim.Request, error)
	Text string // for people
}

// MeanTokens is what a request holds on average, in the middle of its answer.
func (d *Demand) MeanTokens() float64 { return d.MeanPrompt + d.MeanOutput/2 }

// Plan is a question to Search.
type Plan struct {
	Offers  []*Offer
	Targets Targets
	Demand  Demand
	MaxGPUs int // of the whole deployment; 0 is 64

	// Check, which may be nil, is asked now and then whether to go on, as a context's
	// Err: its error ends the search. Show, which may be nil, is told how far it is.
	Check func() error
	Show  func(format string, args ...any)
}

// A Choice is a kind of GPU and a form of the weights, "" for that of the checkpoint.
type Choice struct {
	Device       perfmodel.GPU
	Memory       perfmodel.Estimate
	Quantization string
}

// An Offer is a choice with what is known of servers with it.
type Offer struct {
	Choice
	Model *modelconfig.Model
	Base  perfmodel.Settings // what is given; what may be searched is zero
	Args  engine.Config      // likewise, of which the scheduler reads what Base has no place for
	Price Price              // of a GPU; zero where it is not known

	// Fit is the calibration of a server that runs FitSettings, nil where nothing
	// was measured: data sheets then give the step times.
	Fit         *perfmodel.Calibration
	FitSettings perfmodel.Settings

	FixedKV *perfmodel.Observed // blocks that the server really has, for FitSettings' shape
}

// Knobs are the settings that a search moves.
type Knobs struct {
	TP                  int  `json:"tensor_parallel_size"`
	PP                  int  `json:"pipeline_parallel_size"`
	DP                  int  `json:"data_parallel_size"`
	Replicas            int  `json:"replicas"`
	MaxNumSeqs          int  `json:"max_num_seqs"`
	MaxNumBatchedTokens int  `json:"max_num_batched_tokens"`
	ChunkedPrefill      bool `json:"enable_chunked_prefill"`
}

// Seconds are a latency. Where requests would wait for ever it is +Inf, and null in JSON.
type Seconds float64

// Never reports whether requests would wait for ever.
func (s Seconds) Never() bool { return math.IsInf(float64(s), 1) }

// MarshalJSON writes a number or null.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if s.Never() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// A Point is one configuration with what the simulation says of it.
type Point struct {
	GPUs int `json:"gpus"`
	Knobs
	Rate   float64           `json:"requests_per_second"` // that all replicas get
	Blocks float64           `json:"num_gpu_blocks"`
	Ledger *perfmodel.Ledger `json:"-"`
	Offer  *Offer            `json:"-"`

	// 95th percentiles.
	TTFT Seconds `json:"ttft_p95"`
	ITL  Seconds `json:"itl_p95"`
	E2E  Seconds `json:"e2e_p95"`

	TokensPerSecond float64 `json:"output_tokens_per_second"` // of the whole deployment
	Running         float64 `json:"running"`                  // mean batch of a replica
	KVPeak          float64 `json:"kv_cache_peak"`            // share of the blocks in use at the peak
	Preemptions     int     `json:"preemptions_per_1000_requests"`

	// Misses are targets that the likeliest values miss, and Doubts those that the slow ends
	// of the intervals do, in words.
	Misses []string `json:"misses,omitempty"`
	Doubts []string `json:"doubts,omitempty"`

	Prediction *perfmodel.Prediction  `json:"-"` // of one replica, with intervals
	Calibrated *perfmodel.Calibration `json:"-"`

	Sample  int `json:"-"` // requests that were simulated for an engine
	Failed  int `json:"-"` // of them, those that could never run
	Refused int `json:"-"` // of them, those whose prompt leaves no room below max-model-len

	exceeded sim.Quantity // what ended the simulation; "": nothing, and all of the above is known
	missed   sim.Quantity // the first of the targets that is missed; "": none of the latencies
	surely   bool         // the slow ends of all intervals meet the targets
	peak     sim.Work     // the largest numbers of any step
	score    float64      // the largest share of a target that is used up
}

// Met reports whether the likeliest values meet the targets.
func (p *Point) Met() bool { return p.exceeded == "" && len(p.Misses) == 0 }

// Cost is what the deployment costs at its load; nil where the price is not known.
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

// Result is the answer.
type Result struct {
	Surely   *Point // the cheapest that meets the targets at the slow ends of its intervals too; nil when none does
	Likely   *Point // the cheapest that meets them at the likeliest step times
	Smallest *Point // the cheapest single replica that meets them, at the largest load with which it does
	Nearest  *Point // where none meets them: the one that comes closest

	Offers    []Offered // what came of each of the plan's
	Basis     string    // what the step times of Point rest on
	Doubtful  []string  // why that may be wrong
	Notes     []string
	Explain   []string // why targets cannot be met, and what could be
	Evaluated int
}

// Point is the surest that was found.
func (r *Result) Point() *Point {
	for _, p := range []*Point{r.Surely, r.Likely, r.Nearest} {
		if p != nil {
			return p
		}
	}
	return nil
}

// Offered is what came of an offer.
type Offered struct {
	*Offer
	Surely, Likely *Point // the cheapest that was looked for: what is dearer than another offer's is not
	AtLeast        int    // GPUs that it takes to meet the targets likely, where Likely is nil; 0: no number does
	Err            error  // why it cannot be: what vLLM refuses, or the memory
}
