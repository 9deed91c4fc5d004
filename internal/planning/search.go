package planning

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// ErrNothingFits means that no arrangement of the GPUs holds the model and its longest request.
var ErrNothingFits = errors.New("no arrangement of the GPUs holds the model and one request")

// A level is the required confidence that targets are met.
type level int

const (
	likely level = iota // at the likeliest step times
	surely              // also at the slow ends of the intervals
)

// A search holds the state of Plan.Search.
type search struct {
	*Plan
	res     Result
	shapes  []*shape
	drawn   map[int][]sim.Request // the requests of one engine, by the number of engines
	work    totalWork             // of the requests of one engine
	maxGPUs int
	priced  bool // every offer has a price
}

// A division divides a model into tensor parallelism, pipeline stages, and data-parallel ranks.
type division struct{ tp, pp, dp int }

// gpus returns the GPUs of a replica.
func (d division) gpus() int { return d.tp * d.pp * d.dp }

// A shape is an offer and a division of the model. The number of replicas and the scheduler's limits are open.
type shape struct {
	*search
	division
	offer         *OfferResult
	unit          float64 // cost of a replica, in money or GPUs
	evaluated     map[Knobs]*Point
	fit           *perfmodel.Calibration
	slowerGPUs    map[string]*perfmodel.Calibration // the calibration for slower GPUs, by name
	slowCost      sim.StepCost                      // at the slow end of the intervals
	defaultTokens int                               // default of max-num-batched-tokens
	cacheTokens   float64                           // of an engine's KV cache with the lowest limits; 0: unknown
}

// Search finds the cheapest deployments that meet the targets surely and likely, over all offers, divisions of the
// model, numbers of replicas and limits of the scheduler.
//
// It is a branch and bound. A shape needs at least as many replicas as keep up with the load if steps take the shortest
// time that the arriving work can take. The search takes shapes in the order of the cost of this bound, and never
// simulates a shape whose bound costs more than the best deployment so far. For each other shape it first simulates
// the largest number of replicas that would be cheaper than the best, under every limit of the scheduler. If this
// misses the targets, fewer replicas miss them too. All simulations get the same requests, and each ends as soon as
// more than one in twenty requests missed a target.
func (p *Plan) Search() (*Result, error) {
	s, err := p.newSearch()
	if err != nil {
		return nil, err
	}
	r := &s.res
	if r.Likely = s.findCheapest(likely); r.Likely != nil {
		r.Surely = s.findCheapest(surely)
		if r.Surely != nil && r.Surely.totalPrice(s) <= r.Likely.totalPrice(s) {
			r.Likely = r.Surely // sure implies likely
		}
		r.Smallest = s.findSmallest()
		if r.Smallest == nil || r.Smallest.totalPrice(s) >= r.Likely.totalPrice(s) {
			r.Smallest = r.Likely // Likely is a single replica
		}
	} else {
		r.Smallest = s.findSmallest()
		r.Nearest = s.findNearest()
		s.explainMisses()
	}
	for _, p := range []*Point{r.Surely, r.Likely, r.Smallest, r.Nearest} {
		s.predictPoint(p)
	}
	if err := s.checkInterrupt(); err != nil {
		return nil, err
	}
	best := r.Point()
	switch {
	case best == nil:
		return nil, hint.With(ErrNothingFits, "see the ledger (without targets): more GPUs for each replica "+
			"(--max-gpus), smaller weights, or a shorter --max-model-len")
	case best.Refused == best.Sample:
		limit := best.Ledger.Settings.MaxModelLen
		return nil, hint.With(fmt.Errorf("all prompts are longer than --max-model-len %d leaves room for", limit),
			"raise --max-model-len, or ask for shorter prompts")
	case best.Refused > 0: // every deployment refuses these
		s.addNote(fmt.Sprintf("%d of %d requests are rejected: their prompts leave no room below --max-model-len "+
			"%d; the targets apply to the others",
			best.Refused, best.Sample, best.Ledger.Settings.MaxModelLen))
	}
	s.describeBasis(best)
	return r, nil
}

// newSearch validates the plan and computes the state that all simulations share.
func (p *Plan) newSearch() (*search, error) {
	if p.Targets.Empty() {
		return nil, hint.With(errors.New("no target is given"),
			"pass --use-case chat, or --ttft-p95, --itl-p95, --e2e-p95, --throughput")
	}
	if !(p.Demand.Rate > 0) || p.Demand.Draw == nil {
		return nil, hint.With(errors.New("no workload is given"), "pass --rate with --prompt-tokens and "+
			"--output-tokens, or the address or recording of a server under load")
	}
	s := &search{Plan: p, drawn: map[int][]sim.Request{}, maxGPUs: cmp.Or(p.MaxGPUs, 64), priced: true}
	sample, err := s.drawRequests(1)
	if err != nil {
		return nil, err
	}
	s.work = sumWork(sample)
	for _, o := range p.Offers {
		s.priced = s.priced && o.Price.PerHour > 0
	}
	var last error
	for _, o := range p.Offers {
		if o.Fit == nil && o.Base.Device.Bandwidth == 0 {
			return nil, hint.With(errors.New("step times are unknown"),
				"name the GPU (--gpu H100), or give the address or recording of a server under load")
		}
		s.res.Offers = append(s.res.Offers, OfferResult{Offer: o})
	}
	for i := range s.res.Offers {
		o := &s.res.Offers[i]
		if o.Err = s.addShapes(o); o.Err != nil {
			last = o.Err
		}
	}
	if len(s.shapes) == 0 {
		return nil, last
	}
	slices.SortStableFunc(s.shapes, func(a, b *shape) int {
		return cmp.Or(cmp.Compare(a.boundCost(likely), b.boundCost(likely)), cmp.Compare(a.gpus(), b.gpus()),
			cmp.Compare(a.pp*a.dp, b.pp*b.dp))
	})
	return s, nil
}

// checkInterrupt returns the error that ends the search. After it no point is evaluated, so that every part of the
// search soon ends.
func (s *search) checkInterrupt() error {
	if s.Check == nil {
		return nil
	}
	return s.Check()
}

// possibleDivisions returns the possible divisions of a model, with the user's settings fixed. Tensor parallelism and
// ranks stay within a machine; a pipeline spans at most two. Only models with experts have ranks: other models have
// replicas instead. Measurements of a server can be transferred to another tensor parallelism, but not to another
// pipeline or other ranks.
func (o *Offer) possibleDivisions() (out []division) {
	upTo := func(given, most int) (sizes []int) {
		if given > 0 {
			return []int{given}
		}
		for n := 1; n <= most; n *= 2 {
			sizes = append(sizes, n)
		}
		return sizes
	}
	node := o.Device.NodeSize()
	stages, ranks := 8, 1
	if o.Model.Experts > 0 {
		ranks = node
	}
	if o.Fit != nil {
		stages, ranks = 1, 1
	}
	for _, tp := range upTo(o.Base.TP, min(node, 8)) {
		for _, pp := range upTo(o.Base.PP, stages) {
			for _, dp := range upTo(o.Base.DP, ranks) {
				given := o.Base.TP > 0 && o.Base.PP > 0 && o.Base.DP > 0
				if given || tp*dp <= max(node, o.Base.TP, o.Base.DP) &&
					tp*pp*dp <= max(2*node, o.Base.TP, o.Base.PP, o.Base.DP) {
					out = append(out, division{tp, pp, dp})
				}
			}
		}
	}
	return out
}

// addShapes adds the shapes of an offer. If there is none, it returns the first reason.
func (s *search) addShapes(o *OfferResult) error {
	var refused error
	unit, n := 1.0, len(s.shapes)
	if s.priced {
		unit = o.Price.PerHour
	}
	for _, d := range o.possibleDivisions() {
		x := &shape{
			search: s, division: d, offer: o, unit: unit * float64(d.gpus()), evaluated: map[Knobs]*Point{},
		}
		if d.gpus() > s.maxGPUs {
			refused = cmp.Or(refused, hint.With(fmt.Errorf("one replica takes %d GPUs, and there are %d", d.gpus(),
				s.maxGPUs), "raise --max-gpus, or lower --tensor-parallel-size or --pipeline-parallel-size"))
			continue
		}
		if err := x.prepareShape(); err != nil {
			refused = cmp.Or(refused, err)
			continue
		}
		s.shapes = append(s.shapes, x)
	}
	if len(s.shapes) > n {
		return nil
	}
	return refused
}

// countEngines returns how many engines simulate a replica: one for each pipeline stage of each data-parallel rank. A
// rank has as many concurrent batches as stages, which follow each other through the stages (v1/engine/core.py,
// step_with_batch_queue). Each batch is simulated as an engine: its step takes the time of all stages, it has its share
// of the requests and of the cache, and it waits for no other batch.
func (x *shape) countEngines() int { return x.pp * x.dp }

// leastReplicas returns a lower bound of the replicas that keep up with the load.
func (x *shape) leastReplicas(l level) int {
	cost := x.fit.Fit.Cost
	if l == surely {
		cost = x.slowCost
	}
	seqs := cmp.Or(x.offer.Base.MaxNumSeqs, mostSeqs)
	seconds := x.work.leastSeconds(cost, float64(seqs)/float64(x.pp), x.cacheTokens,
		cmp.Or(x.offer.Base.MaxNumBatchedTokens, mostTokens))
	return max(int(math.Ceil(x.Demand.Rate*seconds/float64(x.countEngines())-1e-9)), 1)
}

// boundCost returns a lower bound of a shape's cost.
func (x *shape) boundCost(l level) float64 { return float64(x.leastReplicas(l)) * x.unit }

// totalPrice returns the cost of a point in the unit of shapes.
func (p *Point) totalPrice(s *search) float64 {
	if s.priced {
		return float64(p.GPUs) * p.Offer.Price.PerHour
	}
	return float64(p.GPUs)
}

// findCheapest returns the cheapest point of all shapes that meets the targets, or nil.
func (s *search) findCheapest(l level) (best *Point) {
	for _, x := range s.shapes {
		low, high := x.leastReplicas(l), s.maxGPUs/x.gpus()
		if best != nil {
			high = min(high, int(best.totalPrice(s)/x.unit+1e-9))
		}
		p := x.findFewest(l, low, high)
		switch {
		case p != nil:
			if best == nil || p.totalPrice(s) < best.totalPrice(s)*(1-1e-9) ||
				cmp.Or(cmp.Compare(p.PP*p.DP, best.PP*best.DP), cmp.Compare(p.score, best.score)) < 0 {
				best = p // at equal cost the simplest, then the farthest from its targets
			}
			of := &x.offer.Likely
			if l == surely {
				of = &x.offer.Surely
			}
			if *of == nil || p.GPUs < (*of).GPUs {
				*of = p
			}
		case l == likely:
			if n := x.gpus() * max(low, high+1); n <= s.maxGPUs {
				x.offer.AtLeast = min(n, cmp.Or(x.offer.AtLeast, n))
			}
		}
		if s.Show != nil && best != nil {
			s.Show("%s so far, %d × %s", render.Plural(s.countEvaluated(), "configuration"), best.GPUs,
				best.Offer.Device.Name)
		}
	}
	return best
}

func (s *search) countEvaluated() (n int) {
	for _, x := range s.shapes {
		n += len(x.evaluated)
	}
	return n
}

// findFewest returns the point with the fewest replicas in a range that meets the targets, or nil. It tries the largest
// number first.
func (x *shape) findFewest(l level, low, high int) *Point {
	if low > high {
		return nil
	}
	best := x.firstMeeting(high, l)
	if best == nil {
		return nil
	}
	// The answer is seldom far above the bound: go up in doubling steps.
	for step := 1; low < high; {
		n := min(low+step-1, (low+high)/2)
		if p := x.firstMeeting(n, l); p != nil {
			best, high, step = p, n, 1
		} else {
			low, step = n+1, 2*step
		}
	}
	return best
}

// knobsFor returns the settings of a number of replicas with a max-num-batched-tokens, 0 for vLLM's default.
func (x *shape) knobsFor(replicas, batchTokens int) Knobs {
	b := &x.offer.Base
	return Knobs{
		TP: x.tp, PP: x.pp, DP: x.dp, Replicas: replicas, MaxNumSeqs: b.MaxNumSeqs,
		MaxNumBatchedTokens: batchTokens, ChunkedPrefill: !b.WholePrefills,
	}
}

// The range of limits that are tried, in factors of two.
const (
	mostSeqs   = 1024
	mostTokens = 16384
	fewTokens  = 512
)

// tokenLimits returns the values of max-num-batched-tokens to try: vLLM's default, then smaller ones, then larger ones.
func (x *shape) tokenLimits() (out []int) {
	b := &x.offer.Base
	if b.MaxNumBatchedTokens > 0 || b.WholePrefills {
		return []int{b.MaxNumBatchedTokens}
	}
	out = []int{0}
	for n := mostTokens; n >= fewTokens; n /= 2 {
		if n < x.defaultTokens {
			out = append(out, n)
		}
	}
	for n := fewTokens; n <= mostTokens; n *= 2 {
		if n > x.defaultTokens {
			out = append(out, n)
		}
	}
	return out
}

// knobsToTry returns the settings of a number of replicas to try: with each token limit and, finally, without chunked
// prefill.
func (x *shape) knobsToTry(replicas int) (out []Knobs) {
	for _, tokens := range x.tokenLimits() {
		out = append(out, x.knobsFor(replicas, tokens))
	}
	b := &x.offer.Base
	if _, given := x.offer.Args.Bool(engine.ChunkedPrefill); given || b.WholePrefills || b.MaxNumBatchedTokens > 0 {
		return out
	}
	k := x.knobsFor(replicas, 0)
	k.ChunkedPrefill = false
	return append(out, k)
}

// firstMeeting returns the first point with a number of replicas, over the scheduler's limits, that meets the
// targets, or nil.
func (x *shape) firstMeeting(replicas int, l level) *Point {
	b := &x.offer.Base
	unlimited := math.MaxInt // a token limit that no step reaches
	for i, k := range x.knobsToTry(replicas) {
		if i > 0 && k.ChunkedPrefill && k.MaxNumBatchedTokens >= unlimited {
			continue
		}
		for {
			p := x.evaluatePoint(k, l)
			if p != nil && p.meetsAt(l) {
				return p
			}
			if p != nil && k.MaxNumSeqs == b.MaxNumSeqs && k.ChunkedPrefill && p.cacheSuffices() &&
				p.peak.Tokens < int64(p.MaxNumBatchedTokens) {
				unlimited = min(unlimited, int(p.peak.Tokens))
			}
			if b.MaxNumSeqs > 0 {
				break
			}
			if k.MaxNumSeqs = x.fewerSeqs(k, p); k.MaxNumSeqs == 0 {
				break
			}
		}
	}
	return nil
}

func (p *Point) meetsAt(l level) bool { return p.Met() && (l == likely || p.surely) }

// fullCache is the share of used blocks above which more blocks may help.
const fullCache = 0.9

// cacheSuffices reports whether more KV blocks would change nothing.
func (p *Point) cacheSuffices() bool { return p.Preemptions == 0 && p.KVPeak < fullCache }

// fewerSeqs returns the next lower max-num-seqs that may help a point that misses, or 0. A smaller batch has shorter
// steps and holds less of the cache. It does not help first tokens that come too late.
func (x *shape) fewerSeqs(k Knobs, p *Point) int {
	most := cmp.Or(k.MaxNumSeqs, mostSeqs)
	if p != nil {
		if p.missed == sim.TTFT && p.cacheSuffices() {
			return 0
		}
		most = min(p.MaxNumSeqs, int(p.peak.Seqs)*x.pp)
	}
	n := 1
	for 2*n < most {
		n *= 2
	}
	if n >= most {
		return 0
	}
	rate := x.Demand.Rate / float64(k.Replicas*x.countEngines())
	if rate*x.work.leastSeconds(x.fit.Fit.Cost, float64(n)/float64(x.pp), x.cacheTokens, mostTokens) > 1 {
		return 0
	}
	return n
}

// findSmallest returns the cheapest single replica that meets the targets, at its largest load, or nil if it cannot
// even serve single requests in time.
func (s *search) findSmallest() *Point {
	byUnit := slices.SortedStableFunc(slices.Values(s.shapes),
		func(a, b *shape) int { return cmp.Compare(a.unit, b.unit) })
	var best *Point
	for _, x := range byUnit {
		if best != nil && x.unit > best.totalPrice(s)*(1+1e-9) {
			break
		}
		for _, tokens := range x.tokenLimits() {
			if p := x.findLargestLoad(x.knobsFor(1, tokens), best); p != nil {
				best = p
			}
		}
	}
	return best
}

// findLargestLoad returns a replica at the largest load at which it meets the targets, or nil if that load is not
// larger than the one of another point.
func (x *shape) findLargestLoad(k Knobs, other *Point) (best *Point) {
	at := func(rate float64) *Point {
		requests, err := x.Demand.Draw(rate, x.countEngines(), simBlock)
		if err != nil {
			return nil
		}
		p := x.simulatePoint(k, requests, x.Targets.simLimits())
		if p == nil || !p.Met() {
			return nil
		}
		p.Rate = rate
		return p
	}
	high := min(x.Demand.Rate,
		float64(x.countEngines())/x.work.leastSeconds(x.fit.Fit.Cost, mostSeqs, x.cacheTokens, mostTokens))
	low := high / 16 // a lower load is of no use
	if other != nil {
		low = other.Rate * 1.03
	}
	if low > high {
		return nil
	}
	if best = at(low); best == nil {
		return nil
	}
	for range 6 {
		middle := math.Sqrt(low * high)
		if p := at(middle); p != nil {
			best, low = p, middle
		} else {
			high = middle
		}
	}
	return best
}

// findNearest returns the point that comes closest to the targets with all GPUs.
func (s *search) findNearest() (best *Point) {
	for _, x := range s.shapes {
		k := x.knobsFor(s.maxGPUs/x.gpus(), x.offer.Base.MaxNumBatchedTokens)
		requests, err := s.drawRequests(k.Replicas * x.countEngines())
		if err != nil {
			continue
		}
		if p := x.simulatePoint(k, requests, sim.Limits{}); p != nil && (best == nil || p.score < best.score) {
			best = p
		}
	}
	return best
}

// explainMisses describes which targets cannot be met, and which could be.
func (s *search) explainMisses() {
	add := func(format string, args ...any) { s.res.Explain = append(s.res.Explain, fmt.Sprintf(format, args...)) }
	t := s.Targets
	offered := s.Demand.Rate * s.Demand.MeanOutput
	if t.TokensPerSecond > offered*1.001 {
		add("the workload is %.0f output tokens/s (%.4g requests/s × %.0f tokens), below the target of %.0f. With "+
			"that workload the target can be at most %.0f",
			offered, s.Demand.Rate, s.Demand.MeanOutput, t.TokensPerSecond, offered)
	}
	if r := s.res.Smallest; r != nil && len(s.res.Explain) == 0 {
		add("%s are too few for %.4g requests/s within the targets: %s handles %.3g requests/s",
			render.Plural(s.maxGPUs, "GPU"), s.Demand.Rate, r.Hardware(), r.Rate)
		return
	}
	alone := s.simulateSingleRequests()
	for _, l := range t.latencyTargets() {
		if len(alone) == 0 {
			break
		}
		fastest := slices.MinFunc(alone, func(a, b *Point) int { return cmp.Compare(l.point(a), l.point(b)) })
		if v := float64(l.point(fastest)); v > l.want.Seconds() {
			add("%s P95 ≤ %s is not attainable: a single request on %s has %s. Attainable with this model: %s or "+
				"more, or shorter requests, or a faster GPU",
				l.name, l.want, fastest.Hardware(), render.Seconds(v), render.Seconds(v))
		}
	}
	if len(s.res.Explain) == 0 {
		add("a replica meets no load within the targets: each is met, but not all together")
	}
}

// Hardware names what a point runs on.
func (p *Point) Hardware() string {
	return fmt.Sprintf("%d × %s", p.GPUs, cmp.Or(p.Offer.Device.Name, "GPU"))
}

// simulateSingleRequests returns a point for every shape at which each request runs alone.
func (s *search) simulateSingleRequests() (out []*Point) {
	for _, x := range s.shapes {
		requests, err := s.drawRequests(x.countEngines())
		if err != nil {
			return nil
		}
		alone := slices.Clone(requests[:min(len(requests), 200)])
		for i := range alone {
			alone[i].Arrival, alone[i].CancelAfter = time.Duration(i)*10*time.Minute, 0
		}
		if p := x.simulatePoint(x.knobsFor(1, x.offer.Base.MaxNumBatchedTokens), alone, sim.Limits{}); p != nil {
			out = append(out, p)
		}
	}
	return out
}
