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

// ErrNothingFits is the end of a search in which no arrangement of the GPUs has
// room for the model and its longest request.
var ErrNothingFits = errors.New("no arrangement of the GPUs holds the model and one request")

// A level is how sure it must be that targets are met.
type level int

const (
	likely level = iota // at the likeliest step times
	surely              // at the slow ends of the intervals too
)

// search holds what Search works out on its way.
type search struct {
	*Plan
	res      Result
	shapes   []*shape
	requests map[int][]sim.Request // of one engine, by how many there are
	load     load
	maxGPUs  int
	priced   bool // every offer has a price
}

// A shape is what a replica is made of, whose number and limits are open: an offer and how
// the model is divided.
type shape struct {
	*search
	offered     *Offered
	tp, pp, dp  int
	gpus        int     // of a replica
	unit        float64 // what a replica costs, in money or GPUs
	seen        map[Knobs]*Point
	fit         *perfmodel.Calibration
	slower      map[string]*perfmodel.Calibration // with GPUs that are slower
	slow        sim.StepCost                      // at the slow end of what is known
	usualTokens int                               // max-num-batched-tokens where nobody sets it
	roomy       float64                           // tokens that the KV cache of an engine holds with the lowest limits
}

// Search looks for the cheapest deployments that meet the targets surely and likely, over
// all offers, divisions of the model, numbers of replicas and limits of the scheduler.
//
// It is a branch and bound. A shape needs at least the replicas whose time suffices for the
// work that arrives (Little's law, with the least time that work takes). Shapes are taken in
// the order of what that costs, and a shape whose bound is dearer than what was found is
// never simulated. Of the others, first the largest number of replicas that would be cheaper
// than what was found is simulated, under every limit; where none meets the targets there,
// fewer replicas do not either. All simulations get the same requests, and each ends
// as soon as more than one in twenty has missed a target.
func (p *Plan) Search() (*Result, error) {
	s, err := p.begin()
	if err != nil {
		return nil, err
	}
	s.res.Likely = s.cheapest(likely)
	if s.res.Likely != nil {
		if s.res.Surely = s.cheapest(surely); s.res.Surely != nil && s.res.Surely.price(s) <= s.res.Likely.price(s) {
			s.res.Likely = s.res.Surely // which is likely too
		}
		if s.res.Smallest = s.smallest(); s.res.Smallest == nil || s.res.Smallest.price(s) >= s.res.Likely.price(s) {
			s.res.Smallest = s.res.Likely // which is a single one
		}
		for _, q := range []*Point{s.res.Surely, s.res.Likely, s.res.Smallest} {
			s.predict(q)
		}
	} else {
		s.res.Smallest = s.smallest()
		s.predict(s.res.Smallest)
		s.res.Nearest = s.nearest()
		s.predict(s.res.Nearest)
		s.explain()
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.res.Evaluated = s.evaluated()
	best := s.res.Point()
	switch {
	case best == nil:
		return nil, hint.With(ErrNothingFits, "see the ledger (without targets): more GPUs for each replica (--max-gpus), smaller weights, or a shorter --max-model-len")
	case best.Refused == best.Sample:
		return nil, hint.With(fmt.Errorf("all prompts are longer than --max-model-len %d leaves room for", best.Ledger.Settings.MaxModelLen),
			"raise --max-model-len, or ask for shorter prompts")
	case best.Refused > 0: // by any deployment
		s.addNote(fmt.Sprintf("%d of %d requests are rejected: their prompts leave no room below --max-model-len %d; the targets apply to the others",
			best.Refused, best.Sample, best.Ledger.Settings.MaxModelLen))
	}
	s.describe(best)
	return &s.res, nil
}

// begin checks the question and works out what all simulations share.
func (p *Plan) begin() (*search, error) {
	if p.Targets.Empty() {
		return nil, hint.With(errors.New("no target is given"), "pass --use-case chat, or --ttft-p95, --itl-p95, --e2e-p95, --throughput")
	}
	if !(p.Demand.Rate > 0) || p.Demand.Draw == nil {
		return nil, hint.With(errors.New("no workload is given"), "pass --rate with --prompt-tokens and --output-tokens, or the address or recording of a server under load")
	}
	s := &search{Plan: p, requests: map[int][]sim.Request{}, maxGPUs: cmp.Or(p.MaxGPUs, 64), priced: true}
	sample, err := s.drawRequests(1)
	if err != nil {
		return nil, err
	}
	s.load = loadOf(sample)
	for _, o := range p.Offers {
		s.priced = s.priced && o.Price.PerHour > 0
	}
	var last error
	for _, o := range p.Offers {
		if o.Fit == nil && o.Base.Device.Bandwidth == 0 {
			return nil, hint.With(errors.New("step times are unknown"), "name the GPU (--gpu H100), or give the address or recording of a server under load")
		}
		s.res.Offers = append(s.res.Offers, Offered{Offer: o})
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
		return cmp.Or(cmp.Compare(a.bound(likely), b.bound(likely)), cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.pp*a.dp, b.pp*b.dp))
	})
	return s, nil
}

// check asks whether to go on. Without leave no point is evaluated, so that every
// part of the search soon comes to its end.
func (s *search) check() error {
	if s.Check == nil {
		return nil
	}
	return s.Check()
}

// divisions are how a model may be divided, as far as nobody has fixed it: tensor parallelism
// and data-parallel ranks within a machine, a pipeline over two at most. Ranks have experts
// to share, else they are replicas; of measured servers nothing tells what another division
// than another tensor parallelism takes.
func (o *Offer) divisions() (out [][3]int) {
	upTo := func(given, most int) (list []int) {
		if given > 0 {
			return []int{given}
		}
		for n := 1; n <= most; n *= 2 {
			list = append(list, n)
		}
		return list
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
				if given || tp*dp <= max(node, o.Base.TP, o.Base.DP) && tp*pp*dp <= max(2*node, o.Base.TP, o.Base.PP, o.Base.DP) {
					out = append(out, [3]int{tp, pp, dp})
				}
			}
		}
	}
	return out
}

// addShapes adds an offer's, and says why there are none.
func (s *search) addShapes(o *Offered) error {
	var refused error
	unit, n := 1.0, len(s.shapes)
	if s.priced {
		unit = o.Price.PerHour
	}
	for _, d := range o.divisions() {
		x := &shape{search: s, offered: o, tp: d[0], pp: d[1], dp: d[2], gpus: d[0] * d[1] * d[2], seen: map[Knobs]*Point{}}
		x.unit = unit * float64(x.gpus)
		if x.gpus > s.maxGPUs {
			refused = cmp.Or(refused, hint.With(fmt.Errorf("one replica takes %d GPUs, and there are %d", x.gpus, s.maxGPUs), "raise --max-gpus, or lower --tensor-parallel-size or --pipeline-parallel-size"))
			continue
		}
		if err := x.prepare(); err != nil {
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

// engines are the batches of a replica: its data-parallel ranks and, of each of them, one for
// every stage of a pipeline, which follow each other through the stages (v1/engine/core.py,
// step_with_batch_queue). Such a batch takes all stages' time for a step, has its share of
// the requests and of the cache, and waits for none of the others.
func (x *shape) engines() int { return x.pp * x.dp }

// least is the least number of replicas that keep up with the load.
func (x *shape) least(l level) int {
	cost := x.fit.Fit.Cost
	if l == surely {
		cost = x.slow
	}
	seqs := cmp.Or(x.offered.Base.MaxNumSeqs, mostSeqs)
	work := x.load.seconds(cost, float64(seqs)/float64(x.pp), x.roomy, cmp.Or(x.offered.Base.MaxNumBatchedTokens, mostTokens))
	return max(int(math.Ceil(x.Demand.Rate*work/float64(x.engines())-1e-9)), 1)
}

// bound is what a shape costs at least.
func (x *shape) bound(l level) float64 { return float64(x.least(l)) * x.unit }

// price is what a point costs, in the unit of shapes.
func (p *Point) price(s *search) float64 {
	if s.priced {
		return float64(p.GPUs) * p.Offer.Price.PerHour
	}
	return float64(p.GPUs)
}

// cheapest is the cheapest point of all shapes, nil where none meets the targets.
func (s *search) cheapest(l level) (best *Point) {
	for _, x := range s.shapes {
		low, high := x.least(l), s.maxGPUs/x.gpus
		if best != nil {
			high = min(high, int(best.price(s)/x.unit+1e-9))
		}
		p := x.fewest(l, low, high)
		switch {
		case p != nil:
			if best == nil || p.price(s) < best.price(s)*(1-1e-9) || cmp.Or(cmp.Compare(p.PP*p.DP, best.PP*best.DP), cmp.Compare(p.score, best.score)) < 0 {
				best = p // of those that cost as much, the plainest, and then the farthest from its targets
			}
			of := &x.offered.Likely
			if l == surely {
				of = &x.offered.Surely
			}
			if *of == nil || p.GPUs < (*of).GPUs {
				*of = p
			}
		case l == likely:
			if n := x.gpus * max(low, high+1); n <= s.maxGPUs {
				x.offered.AtLeast = min(n, cmp.Or(x.offered.AtLeast, n))
			}
		}
		if s.Show != nil && best != nil {
			s.Show("%s so far, %d × %s", render.Plural(s.evaluated(), "configuration"), best.GPUs, best.Offer.Device.Name)
		}
	}
	return best
}

func (s *search) evaluated() (n int) {
	for _, x := range s.shapes {
		n += len(x.seen)
	}
	return n
}

// fewest is a shape's smallest number of replicas in a range that meets the targets: the
// largest is tried first.
func (x *shape) fewest(l level, low, high int) *Point {
	if low > high {
		return nil
	}
	best := x.under(high, l)
	if best == nil {
		return nil
	}
	// From the bound up, in steps that double: it is seldom far off.
	for step := 1; low < high; {
		n := min(low+step-1, (low+high)/2)
		if p := x.under(n, l); p != nil {
			best, high, step = p, n, 1
		} else {
			low, step = n+1, 2*step
		}
	}
	return best
}

// knobs are so many replicas of a shape with a max-num-batched-tokens, 0 for vLLM's default.
func (x *shape) knobs(replicas, tokens int) Knobs {
	b := &x.offered.Base
	return Knobs{TP: x.tp, PP: x.pp, DP: x.dp, Replicas: replicas, MaxNumSeqs: b.MaxNumSeqs, MaxNumBatchedTokens: tokens, ChunkedPrefill: !b.WholePrefills}
}

// The limits that are tried lie between these, by factors of two.
const (
	mostSeqs   = 1024
	mostTokens = 16384
	fewTokens  = 512
)

// limits are the values of max-num-batched-tokens in the order in which they are tried: vLLM's
// default, then fewer, then more.
func (x *shape) limits() (out []int) {
	b := &x.offered.Base
	if b.MaxNumBatchedTokens > 0 || b.WholePrefills {
		return []int{b.MaxNumBatchedTokens}
	}
	out = []int{0}
	for n := mostTokens; n >= fewTokens; n /= 2 {
		if n < x.usualTokens {
			out = append(out, n)
		}
	}
	for n := fewTokens; n <= mostTokens; n *= 2 {
		if n > x.usualTokens {
			out = append(out, n)
		}
	}
	return out
}

// under is the first point of so many replicas, over the scheduler's limits, that meets the
// targets; nil where none does.
func (x *shape) under(replicas int, l level) *Point {
	b := &x.offered.Base
	unlimited := math.MaxInt // tokens of a step that are so many that none of its kind has more
	for i, tokens := range append(x.limits(), -1) {
		k := x.knobs(replicas, tokens)
		if tokens < 0 { // last, whole prompts
			if _, given := x.offered.Args.Bool(engine.ChunkedPrefill); given || b.WholePrefills || b.MaxNumBatchedTokens > 0 {
				break
			}
			k.MaxNumBatchedTokens, k.ChunkedPrefill = 0, false
		} else if i > 0 && tokens >= unlimited {
			continue
		}
		for {
			p := x.eval(k, l)
			switch {
			case p != nil && p.holds(l):
				return p
			case p != nil && k.MaxNumSeqs == b.MaxNumSeqs && p.Preemptions == 0 && p.KVPeak < fullCache && p.peak.Tokens < int64(p.MaxNumBatchedTokens) && k.ChunkedPrefill:
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

// holds reports whether a point meets the targets so surely.
func (p *Point) holds(l level) bool { return p.Met() && (l == likely || p.surely) }

// fullCache is the share of the blocks above which their number may matter.
const fullCache = 0.9

// fewerSeqs is the next lower max-num-seqs that may help where a point misses, 0 for none: a
// smaller batch shortens its steps, and holds less of the cache. That first tokens come too
// late it does not mend.
func (x *shape) fewerSeqs(k Knobs, p *Point) int {
	most := cmp.Or(k.MaxNumSeqs, mostSeqs)
	if p != nil {
		if p.missed == sim.TTFT && p.Preemptions == 0 && p.KVPeak < fullCache {
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
	rate := x.Demand.Rate / float64(k.Replicas*x.engines())
	if rate*x.load.seconds(x.fit.Fit.Cost, float64(n)/float64(x.pp), x.roomy, mostTokens) > 1 {
		return 0
	}
	return n
}

// smallest is the cheapest replica that meets the targets, at the largest load with which it
// does; nil where none does for a request alone.
func (s *search) smallest() *Point {
	byUnit := slices.SortedStableFunc(slices.Values(s.shapes), func(a, b *shape) int { return cmp.Compare(a.unit, b.unit) })
	var best *Point
	for _, x := range byUnit {
		if best != nil && x.unit > best.price(s)*(1+1e-9) {
			break
		}
		for _, tokens := range x.limits() {
			if p := x.carries(x.knobs(1, tokens), best); p != nil {
				best = p
			}
		}
	}
	return best
}

// carries is a replica at the largest load with which it meets the targets, nil where that is
// no more than another one's.
func (x *shape) carries(k Knobs, than *Point) (best *Point) {
	at := func(rate float64) *Point {
		requests, err := x.Demand.Draw(rate, x.engines(), simBlock)
		if err != nil {
			return nil
		}
		p := x.point(k, requests, x.Targets.limits())
		if p == nil || !p.Met() {
			return nil
		}
		p.Rate = rate
		return p
	}
	high := min(x.Demand.Rate, float64(x.engines())/x.load.seconds(x.fit.Fit.Cost, mostSeqs, x.roomy, mostTokens))
	low := high / 16 // what meets the targets with even less is of no use
	if than != nil {
		low = than.Rate * 1.03
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

// nearest is what comes closest to the targets, with as many GPUs as there may be.
func (s *search) nearest() (best *Point) {
	for _, x := range s.shapes {
		k := x.knobs(s.maxGPUs/x.gpus, x.offered.Base.MaxNumBatchedTokens)
		requests, err := s.drawRequests(k.Replicas * x.engines())
		if err != nil {
			continue
		}
		if p := x.point(k, requests, sim.Limits{}); p != nil && (best == nil || p.score < best.score) {
			best = p
		}
	}
	return best
}

// explain says which targets cannot be met, and what could be.
func (s *search) explain() {
	add := func(format string, args ...any) { s.res.Explain = append(s.res.Explain, fmt.Sprintf(format, args...)) }
	t := s.Targets
	offered := s.Demand.Rate * s.Demand.MeanOutput
	if t.TokensPerSecond > offered*1.001 {
		add("the workload is %.0f output tokens/s (%.4g requests/s × %.0f tokens), below the target of %.0f. With that workload the target can be at most %.0f",
			offered, s.Demand.Rate, s.Demand.MeanOutput, t.TokensPerSecond, offered)
	}
	if r := s.res.Smallest; r != nil && len(s.res.Explain) == 0 {
		add("%s are too few for %.4g requests/s within the targets: %s handles %.3g requests/s", render.Plural(s.maxGPUs, "GPU"), s.Demand.Rate, r.short(), r.Rate)
		return
	}
	alone := s.alone()
	for _, l := range t.latencies() {
		if len(alone) == 0 {
			break
		}
		fastest := slices.MinFunc(alone, func(a, b *Point) int { return cmp.Compare(l.point(a), l.point(b)) })
		if v := float64(l.point(fastest)); v > l.want.Seconds() {
			add("%s P95 ≤ %s is not attainable: a single request on %s has %s. Attainable with this model: %s or more, or shorter requests, or a faster GPU",
				l.name, l.want, fastest.short(), render.Seconds(v), render.Seconds(v))
		}
	}
	if len(s.res.Explain) == 0 {
		add("a replica meets no load within the targets: each is met, but not all together")
	}
}

// short names what a point runs on.
func (p *Point) short() string {
	text := fmt.Sprintf("%d × %s", p.GPUs, cmp.Or(p.Offer.Device.Name, "GPU"))
	if p.Offer.Quantization != "" {
		text += " with " + p.Offer.Quantization
	}
	return text
}

// alone is a request by itself on every shape.
func (s *search) alone() (out []*Point) {
	for _, x := range s.shapes {
		requests, err := s.drawRequests(x.engines())
		if err != nil {
			return nil
		}
		alone := slices.Clone(requests[:min(len(requests), 200)])
		for i := range alone {
			alone[i].Arrival, alone[i].CancelAfter = time.Duration(i)*10*time.Minute, 0
		}
		if p := x.point(x.knobs(1, x.offered.Base.MaxNumBatchedTokens), alone, sim.Limits{}); p != nil {
			out = append(out, p)
		}
	}
	return out
}
