package planning

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/modelconfig"
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

// A latency is a target of a 95th percentile, and where a point, a prediction and a
// simulation have it, in seconds.
type latency struct {
	name      string
	want      time.Duration
	point     func(*Point) Seconds
	predicted func(*perfmodel.Prediction) perfmodel.Estimate
	simulated func(*sim.Summary) time.Duration
}

// latencies are those that are asked for.
func (t Targets) latencies() []latency {
	return slices.DeleteFunc([]latency{
		{
			"TTFT", t.TTFTP95, func(p *Point) Seconds { return p.TTFT },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.TTFTP95 }, func(s *sim.Summary) time.Duration { return s.TTFT.P95 },
		},
		{
			"ITL", t.ITLP95, func(p *Point) Seconds { return p.ITL },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.ITLP95 }, func(s *sim.Summary) time.Duration { return s.ITL.P95 },
		},
		{
			"E2E", t.E2EP95, func(p *Point) Seconds { return p.E2E },
			func(p *perfmodel.Prediction) perfmodel.Estimate { return p.E2EP95 }, func(s *sim.Summary) time.Duration { return s.E2E.P95 },
		},
	}, func(l latency) bool { return l.want <= 0 })
}

// Demand is the workload of the whole deployment.
type Demand struct {
	Rate                   float64   // requests per second
	MeanPrompt, MeanOutput float64   // tokens
	MaxTokens              int       // of the longest request, prompt and output; 0 is unknown
	Lengths                [2]string // of prompts and outputs as they were described; "" where they were measured

	// Draw returns the requests that one of some replicas gets when so many a second
	// come to all of them, for blocks of a size. It is called for many rates.
	Draw func(rate float64, replicas, blockSize int) ([]sim.Request, error)
	Text string // for people
}

// MeanTokens is what a request holds on average, in the middle of its answer.
func (d *Demand) MeanTokens() float64 { return d.MeanPrompt + d.MeanOutput/2 }

// Plan is a question to Search.
type Plan struct {
	Model   *modelconfig.Model
	Base    perfmodel.Settings // what is given; what may be searched is zero
	Args    engine.Config      // likewise, of which the scheduler reads what Base has no place for
	Targets Targets
	Demand  Demand
	MaxGPUs int // of the whole deployment; 0 is 64

	// Fit is the calibration of a server that runs FitSettings, nil where nothing
	// was measured: data sheets then give the step times.
	Fit         *perfmodel.Calibration
	FitSettings perfmodel.Settings
	FitModel    *modelconfig.Model // that the server had, where it is another

	// Check, which may be nil, is asked now and then whether to go on, as a context's
	// Err: its error ends the search.
	Check func() error

	FixedKV *perfmodel.Observed // blocks that the server really has, for FitSettings' shape
}

// Knobs are the settings that a search moves.
type Knobs struct {
	TP                  int     `json:"tensor_parallel_size"`
	Replicas            int     `json:"replicas"`
	MaxNumSeqs          int     `json:"max_num_seqs"`
	MaxNumBatchedTokens int     `json:"max_num_batched_tokens"`
	Utilization         float64 `json:"gpu_memory_utilization"`
	KVType              string  `json:"kv_cache_dtype"`
	PrefixCaching       bool    `json:"enable_prefix_caching"`
	ChunkedPrefill      bool    `json:"enable_chunked_prefill"`
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
	Blocks float64           `json:"num_gpu_blocks"`
	Ledger *perfmodel.Ledger `json:"-"`

	// 95th percentiles.
	TTFT Seconds `json:"ttft_p95"`
	ITL  Seconds `json:"itl_p95"`
	E2E  Seconds `json:"e2e_p95"`

	TokensPerSecond float64  `json:"output_tokens_per_second"` // of the whole deployment
	PerGPU          float64  `json:"output_tokens_per_second_per_gpu"`
	Running         float64  `json:"running"`       // mean batch of a replica
	KVPeak          float64  `json:"kv_cache_peak"` // share of the blocks in use at the peak
	Preemptions     int      `json:"preemptions_per_1000_requests"`
	Met             bool     `json:"met"`
	Misses          []string `json:"misses,omitempty"` // targets that are not met, in words

	Sample  int `json:"-"` // requests that were simulated for a replica
	Failed  int `json:"-"` // of them, those that could never run
	Refused int `json:"-"` // of them, those whose prompt leaves no room below max-model-len
	score   float64
}

// A Marginal is what one step of one knob changes.
type Marginal struct {
	Knob       string `json:"knob"`
	From       string `json:"from"`
	To         string `json:"to"`
	Point      *Point `json:"point,omitempty"`
	Impossible string `json:"impossible,omitempty"` // why there is no point
}

// Result is the answer.
type Result struct {
	Best     *Point       `json:"best,omitempty"`    // meets the targets at the slow ends of its intervals too; nil when none does
	Nearest  *Point       `json:"nearest,omitempty"` // then: the one that comes closest
	Likely   *Point       `json:"likely,omitempty"`  // meets them at the likeliest step times, where Best is another or none does
	Doubts   []string     `json:"doubts,omitempty"`  // which targets Likely misses at the slow ends, in words
	Measure  *Measurement `json:"-"`                 // the load test that would narrow the answer most; nil where none would
	Points   []*Point     `json:"points"`
	Pareto   []*Point     `json:"pareto"` // throughput per GPU against ITL and TTFT
	Marginal []Marginal   `json:"marginal"`

	Prediction *perfmodel.Prediction `json:"-"`     // of Best, or Nearest, with intervals
	Basis      string                `json:"basis"` // what the step times rest on
	Doubtful   []string              `json:"-"`     // why that may be wrong
	Notes      []string              `json:"-"`
	Explain    []string              `json:"explain,omitempty"` // why targets cannot be met, and what could be
	Evaluated  int                   `json:"evaluated"`
	Usual      Usual                 `json:"usual_arithmetic"`
}

// Usual is the usual arithmetic, which knows neither activations nor the
// scheduler: memory × 0.9 − weights, over the KV bytes of a token, over an average
// length. It is shown beside the result as the first approximation.
type Usual struct {
	KVBytes             float64 `json:"kv_bytes"`
	Tokens              float64 `json:"tokens"`
	MaxNumSeqs          int     `json:"max_num_seqs"`
	MaxNumBatchedTokens int     `json:"max_num_batched_tokens,omitempty"` // 0: left alone
}

// NewUsual computes it for one GPU of a ledger's tensor-parallel group, in the
// decimal units and with the thresholds that it is usually written with: sequences
// are capped at 512, at 64 when less than 50 ms between tokens are asked for, and
// chunks are of 2048 tokens when less than a second to the first is.
func NewUsual(memory, weights, kvPerToken, averageTokens float64, t Targets) Usual {
	u := Usual{KVBytes: memory*0.90 - weights}
	if u.KVBytes <= 0 || kvPerToken <= 0 || averageTokens <= 0 {
		return u
	}
	u.Tokens = math.Floor(u.KVBytes / kvPerToken)
	u.MaxNumSeqs = int(min(math.Floor(u.Tokens/averageTokens), 512))
	if t.TTFTP95 > 0 && t.TTFTP95 < time.Second {
		u.MaxNumBatchedTokens = 2048
	}
	if t.ITLP95 > 0 && t.ITLP95 < 50*time.Millisecond {
		u.MaxNumSeqs = min(u.MaxNumSeqs, 64)
	}
	return u
}

// ErrNothingFits is the end of a search in which no arrangement of the GPUs has
// room for the model and its longest request.
var ErrNothingFits = errors.New("no arrangement of the GPUs holds the model and one request")

// MaxPoints bounds a search.
const MaxPoints = 120

// search holds what Search works out on its way.
type search struct {
	*Plan
	res      Result
	seen     map[Knobs]*Point
	requests map[int][]sim.Request // of one replica, by how many there are
	maxGPUs  int
	tps      []int
}

// Search looks for the smallest deployment that meets the targets, and among
// those of its size for the settings that keep the largest distance from them.
//
// It goes from coarse to fine: for each tensor parallelism that fits, the least
// number of replicas with vLLM's defaults; for the best of them, each knob in
// turn, by factors of two and then of √2; then one step of every knob from the
// result, which is its marginal price.
func (p *Plan) Search() (*Result, error) {
	if p.Targets.Empty() {
		return nil, hint.With(errors.New("no target is given"), "pass --use-case chat, or --ttft-p95, --itl-p95, --e2e-p95, --throughput")
	}
	if !(p.Demand.Rate > 0) || p.Demand.Draw == nil {
		return nil, hint.With(errors.New("no workload is given"), "pass --rate with --prompt-tokens and --output-tokens, or the address or recording of a server under load")
	}
	if p.Fit == nil && p.Base.Device.Bandwidth == 0 {
		return nil, hint.With(errors.New("nothing says how long a step takes"), "name the GPU (--gpu H100), or give the address or recording of a server under load")
	}
	s := &search{Plan: p, seen: map[Knobs]*Point{}, requests: map[int][]sim.Request{}, maxGPUs: cmp.Or(p.MaxGPUs, 64)}
	if err := s.shapes(); err != nil {
		return nil, err
	}
	start := s.coarse()
	if err := s.check(); err != nil {
		return nil, err
	}
	if start == nil {
		return nil, hint.With(ErrNothingFits, "see the ledger (without targets): more GPUs for each replica (--max-gpus), smaller weights, or a shorter --max-model-len")
	}
	if start.Refused == start.Sample {
		return nil, hint.With(fmt.Errorf("all prompts are longer than --max-model-len %d leaves room for", start.Ledger.Settings.MaxModelLen),
			"raise --max-model-len, or ask for shorter prompts")
	}
	best := s.refine(start)
	if best.Met {
		sure, doubts := s.findSurelyMet(best)
		if sure != best {
			s.res.Likely, s.res.Doubts = best, doubts
			s.res.Measure = s.measurement(best)
		}
		if sure == nil {
			s.res.Nearest = best
		} else {
			s.res.Best, best = sure, sure
		}
	} else {
		s.res.Nearest = best
		s.explain(best)
		if s.Fit == nil {
			s.res.Measure = s.measurement(best)
		}
	}
	s.marginal(best)
	s.predict(best)
	if err := s.check(); err != nil {
		return nil, err
	}
	if best.Refused > 0 { // by any deployment
		s.res.Notes = slices.Insert(s.res.Notes, 0, fmt.Sprintf(
			"%d of %d requests are refused: their prompts leave no room below --max-model-len %d; the targets are of the others",
			best.Refused, best.Sample, best.Ledger.Settings.MaxModelLen))
	}
	s.res.Points = s.points()
	s.res.Pareto = pareto(append([]*Point{best}, s.res.Points...)) // of equals, the one that is proposed
	s.res.Evaluated = len(s.res.Points)
	l := best.Ledger
	weights := 0.0
	if x, ok := l.Line(perfmodel.LineWeights); ok {
		weights = x.Bytes.Value
	}
	s.res.Usual = NewUsual(l.Settings.Memory.Value, weights, l.ReadPerToken(1), p.Demand.MeanPrompt+p.Demand.MeanOutput, p.Targets)
	return &s.res, nil
}

// check asks whether to go on. Without leave no point is evaluated, so that every
// part of the search soon comes to its end.
func (s *search) check() error {
	if s.Check == nil {
		return nil
	}
	return s.Check()
}

// shapes lists the tensor parallelisms to try.
func (s *search) shapes() error {
	if s.Base.TP > 0 {
		s.tps = []int{s.Base.TP}
		if n := s.perReplica(s.Base.TP); n > s.maxGPUs {
			return hint.With(fmt.Errorf("one replica takes %d GPUs, and there are %d", n, s.maxGPUs), "raise --max-gpus or lower --tp")
		}
		return nil
	}
	for tp := 1; tp <= min(8, s.maxGPUs); tp *= 2 {
		if s.Model.Heads%tp == 0 {
			s.tps = append(s.tps, tp)
		}
	}
	return nil
}

// perReplica is how many GPUs a replica takes.
func (s *search) perReplica(tp int) int { return tp * s.batches() }

// knobs are the defaults for a shape.
func (s *search) knobs(tp, replicas int) Knobs {
	b := &s.Base
	return Knobs{
		TP: tp, Replicas: replicas, MaxNumSeqs: b.MaxNumSeqs, MaxNumBatchedTokens: b.MaxNumBatchedTokens,
		Utilization: b.Utilization, KVType: cmp.Or(b.KVType, "auto"),
		PrefixCaching: b.PrefixCaching == nil && !s.Model.HasRecurrent() || b.PrefixCaching != nil && *b.PrefixCaching, ChunkedPrefill: !b.WholePrefills,
	}
}

// coarse finds, for each shape, the least replicas that meet the targets, and
// returns the best point.
func (s *search) coarse() *Point {
	var best *Point
	for _, tp := range s.tps {
		limit := s.maxGPUs / s.perReplica(tp)
		if limit < 1 {
			continue
		}
		var first *Point
		// Twice as many until one number meets them, then halfway between it and the
		// largest that does not.
		for n, lo, hi := 1, 1, 0; ; {
			p := s.eval(s.knobs(tp, n))
			if p == nil {
				break
			}
			first = better(first, p)
			if p.Met {
				hi = n
			} else if lo = n + 1; hi == 0 && (n == limit || s.unattainable(p)) {
				break
			}
			if n = min(2*n, limit); hi > 0 {
				if lo >= hi || len(s.seen) >= MaxPoints/2 {
					break
				}
				n = (lo + hi) / 2
			}
		}
		best = better(best, first)
	}
	return best
}

// unattainable reports whether more replicas cannot help: a request alone misses.
func (s *search) unattainable(p *Point) bool {
	floor := s.floor(p)
	return floor != nil && !floor.Met
}

// floor is the same configuration for a trickle of requests, each alone.
func (s *search) floor(p *Point) *Point {
	requests, err := s.drawRequests(p.Replicas)
	if err != nil {
		return nil
	}
	alone := slices.Clone(requests[:min(len(requests), 200)])
	for i := range alone {
		alone[i].Arrival = time.Duration(i) * 10 * time.Minute
		alone[i].CancelAfter = 0
	}
	q := s.simulateUnder(alone, p)
	if q != nil {
		q.TokensPerSecond = math.Inf(1) // not what is asked of one request
		s.judge(q)
	}
	return q
}

// better chooses between two points: one that meets the targets, then the smaller
// deployment, then the larger distance from the targets; where none meets them,
// the one that comes closest.
func better(a, b *Point) *Point {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.Met != b.Met:
		if a.Met {
			return a
		}
		return b
	case a.Met && a.GPUs != b.GPUs:
		if a.GPUs < b.GPUs {
			return a
		}
		return b
	}
	if b.score < a.score*0.98 { // a simulation's last percent is noise
		return b
	}
	return a
}

// refine moves one knob at a time from a start.
func (s *search) refine(p *Point) *Point {
	best := p
	for _, factor := range []float64{2, math.Sqrt2} {
		for range 3 {
			before := best
			for _, limit := range []struct {
				knob  string
				given int
			}{{maxNumSeqs, s.Base.MaxNumSeqs}, {maxNumBatchedTokens, s.Base.MaxNumBatchedTokens}} {
				for _, x := range steps(best, factor) {
					if x.knob == limit.knob && limit.given == 0 && len(s.seen) < MaxPoints*2/3 {
						best = better(best, s.eval(x.to))
					}
				}
			}
			if best == before {
				break
			}
		}
	}
	if s.Base.KVType == "" && !best.Met && s.Base.Device.FP8 > 0 {
		k := best.Knobs
		k.KVType = "fp8"
		best = better(best, s.eval(k))
	}
	best = s.switches(best)
	for best.Met {
		smaller := s.findSmaller(best)
		if smaller == nil {
			break
		}
		best = smaller
	}
	return s.lowerMaxNumSeqs(best)
}

// switches tries what is on or off: more of the memory where the cache is full,
// and prefix caching where vLLM leaves it off.
func (s *search) switches(best *Point) *Point {
	if s.Base.Utilization == 0 && best.KVPeak > fullCache && best.Ledger.Settings.Memory.Value > 0 {
		k := best.Knobs
		k.Utilization = 0.95
		best = better(best, s.eval(k))
	}
	if s.Base.PrefixCaching == nil && !best.Knobs.PrefixCaching {
		k := best.Knobs
		k.PrefixCaching = true
		best = better(best, s.eval(k))
	}
	return best
}

// fullCache is the share of the blocks above which more of them may help.
const fullCache = 0.9

// findSmaller looks for a smaller deployment that meets the targets too, with steps of
// other sizes: of the deployments that vLLM's defaults are too slow for.
func (s *search) findSmaller(best *Point) *Point {
	if s.Base.MaxNumBatchedTokens > 0 {
		return nil
	}
	var found *Point
	for _, tp := range s.tps {
		n := (best.GPUs - 1) / s.perReplica(tp)
		if n < 1 {
			continue
		}
		try := func(tokens int) *Point {
			k := s.knobs(tp, n)
			k.MaxNumBatchedTokens = tokens
			if len(s.seen) >= MaxPoints*2/3 {
				return nil
			}
			p := s.eval(k)
			if p != nil && p.Met {
				found = better(found, p)
			}
			return p
		}
		var last, near *Point
		for _, tokens := range []int{4096, 2048, 1024, 512} {
			p := try(tokens)
			if p == nil {
				break
			}
			// Long steps miss the gaps between tokens, short ones the first token: where
			// both come near, what lies between may meet both.
			if last != nil && !last.Met && !p.Met && min(last.score, p.score) < between {
				try(round64(float64(tokens) * math.Sqrt2))
			}
			last, near = p, better(near, p)
		}
		if near != nil && !near.Met && near.score < between && s.Base.KVType == "" && s.Base.Device.FP8 > 0 {
			k := near.Knobs
			k.KVType = "fp8"
			for _, tokens := range []int{k.MaxNumBatchedTokens, round64(float64(k.MaxNumBatchedTokens) * math.Sqrt2)} {
				k.MaxNumBatchedTokens = tokens
				if p := s.eval(k); p != nil && p.Met {
					found = better(found, p)
				}
			}
		}
	}
	return found
}

// between is the distance from the targets within which a step size between two
// that miss them is tried.
const between = 1.6

// lowerMaxNumSeqs lowers max_num_seqs to what the cache holds of requests of the mean
// length, where that costs nothing: a burst then waits instead of thrashing.
func (s *search) lowerMaxNumSeqs(best *Point) *Point {
	safe := best.Ledger.SafeConcurrency(int(s.Demand.MeanPrompt+s.Demand.MeanOutput)) / 8 * 8
	if s.Base.MaxNumSeqs > 0 || safe < 8 || safe >= best.Knobs.MaxNumSeqs || float64(safe) < 2*best.Running {
		return best
	}
	k := best.Knobs
	k.MaxNumSeqs = safe
	if p := s.eval(k); p != nil && p.Met == best.Met && p.score <= best.score*1.02 {
		return p
	}
	return best
}

// Limits are round numbers: of 8 above 16, and of 64 tokens.
func round8(v float64) int {
	if v < 16 {
		return int(math.Round(v))
	}
	return int(math.Round(v/8)) * 8
}

func round64(v float64) int { return int(math.Round(v/64)) * 64 }

// points are all that were evaluated, in a stable order.
func (s *search) points() []*Point {
	var out []*Point
	for _, p := range s.seen {
		if p != nil && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.score, b.score), cmp.Compare(fmt.Sprint(a.Knobs), fmt.Sprint(b.Knobs)))
	})
	return out
}

// alike reports whether two numbers are within 1 %.
func alike[T ~float64](a, b T) bool { return max(a, b)-min(a, b) <= 0.01*max(a, b) }

// pareto keeps the points that no other beats in throughput per GPU, ITL and TTFT.
func pareto(points []*Point) []*Point {
	var out []*Point
	for _, p := range points {
		if p.TTFT.Never() || slices.Contains(out, p) {
			continue
		}
		dominated := slices.ContainsFunc(points, func(q *Point) bool {
			return q != p && q.PerGPU >= p.PerGPU*1.001 && q.ITL <= p.ITL && q.TTFT <= p.TTFT ||
				q != p && q.PerGPU >= p.PerGPU && q.ITL <= p.ITL*0.99 && q.TTFT <= p.TTFT ||
				q != p && q.PerGPU >= p.PerGPU && q.ITL <= p.ITL && q.TTFT <= p.TTFT*0.99
		})
		same := slices.ContainsFunc(out, func(q *Point) bool {
			return q.GPUs == p.GPUs && alike(q.PerGPU, p.PerGPU) && alike(q.ITL, p.ITL) && alike(q.TTFT, p.TTFT)
		})
		if !dominated && !same {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b *Point) int { return cmp.Compare(b.PerGPU, a.PerGPU) })
	return out
}
