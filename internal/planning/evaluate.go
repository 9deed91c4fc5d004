package planning

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A totalWork is the work of some requests for one engine.
type totalWork struct {
	n             float64 // requests
	tokens        float64 // of prompts and outputs
	outputs       float64 // tokens of outputs
	kv            float64 // tokens in the KV cache, summed over the steps of each output
	pairs         float64 // pairs of a prompt's tokens, for attention
	sharePrefixes bool    // the cache decides which of the prompts' tokens are computed and kept
}

// sumWork returns the work of requests. If they share prefixes, it is only the work of their outputs.
func sumWork(requests []sim.Request) (w totalWork) {
	for i := range requests {
		r := &requests[i]
		prompt, output := float64(r.PromptTokens), float64(r.OutputTokens)
		w.n++
		w.outputs += output
		w.tokens += prompt + output
		w.kv += output * (prompt + output/2)
		w.pairs += prompt * prompt / 2
		w.sharePrefixes = w.sharePrefixes || len(r.Blocks) > 0
	}
	if w.sharePrefixes {
		w.tokens, w.kv, w.pairs = w.outputs, 0, 0
	}
	return w
}

// leastSeconds returns a lower bound of the engine time per request, for a maximum batch, a cache size in tokens, and a
// limit of tokens per step. A server with less time per request cannot keep up.
func (w *totalWork) leastSeconds(c sim.StepCost, seqs, cache float64, stepTokens int) float64 {
	steps := max(w.outputs/max(seqs, 1), w.tokens/float64(stepTokens))
	if cache > 0 {
		steps = max(steps, w.kv/cache)
	}
	each := c.Base + c.Experts*c.TouchedShare(1)
	arithmetic := func(steps float64) float64 { return c.PerToken * max(w.tokens-float64(c.Knee)*steps, 0) }
	t := each*steps + arithmetic(steps)
	if c.Knee > 0 { // more steps overlap with more of the arithmetic
		many := max(steps, w.tokens/float64(c.Knee))
		t = min(t, each*many+arithmetic(many))
	}
	return (t + c.PerSeq*w.outputs + c.PerKV*w.kv + c.PerPair*w.pairs) / max(w.n, 1)
}

// prepareShape computes the state that all points of a shape share. Its error says why no point of the shape is
// possible.
func (x *shape) prepareShape() error {
	o := x.offer
	l, err := x.newLedger(x.knobsFor(1, 0))
	if err != nil {
		return err
	}
	if x.fit, err = o.calibrationFor(l, x.Demand.MeanTokens()); err != nil {
		return err
	}
	x.defaultTokens = l.Settings.MaxNumBatchedTokens
	lowest := o.Base
	lowest.TP, lowest.PP, lowest.DP = x.tp, x.pp, x.dp
	if lowest.MaxNumSeqs == 0 && lowest.MaxNumBatchedTokens == 0 {
		lowest.MaxNumSeqs, lowest.MaxNumBatchedTokens = 1, fewTokens
	}
	lowest.WholePrefills = false
	if l, err = perfmodel.NewLedger(o.Model, lowest); err != nil {
		return err
	}
	if l.SafeConcurrency(x.longestRequest(l)) < 1 {
		return l.TooLarge("--engine-args")
	}
	x.cacheTokens = float64(l.PlainBlocks(x.meanLength(), simBlock) * simBlock / x.pp)
	if o.FixedKV != nil { // these blocks may exceed the ledger's
		x.cacheTokens = 0
	}
	x.slowCost = x.slowestCost()
	return nil
}

// slowestCost returns the step cost at the slow end of the intervals: the 95th percentile of the samples by the time
// that the load takes.
func (x *shape) slowestCost() sim.StepCost {
	draws := slices.Clone(x.fit.Fit.Draws)
	if len(draws) == 0 {
		return x.fit.Fit.Cost
	}
	seconds := func(c sim.StepCost) float64 { return x.work.leastSeconds(c, mostSeqs, x.cacheTokens, mostTokens) }
	slices.SortFunc(draws, func(a, b sim.StepCost) int { return cmp.Compare(seconds(a), seconds(b)) })
	return draws[int(0.95*float64(len(draws)-1))]
}

func (s *search) meanLength() int { return max(int(s.Demand.MeanPrompt+s.Demand.MeanOutput), 1) }

// longestRequest returns the length of the longest request that a server accepts.
func (s *search) longestRequest(l *perfmodel.Ledger) int {
	return max(min(cmp.Or(s.Demand.MaxTokens, s.meanLength()), l.Settings.MaxModelLen), 1)
}

// newLedger returns the ledger for settings.
func (x *shape) newLedger(k Knobs) (*perfmodel.Ledger, error) {
	s := x.offer.Base
	s.TP, s.PP, s.DP = k.TP, k.PP, k.DP
	s.MaxNumSeqs, s.MaxNumBatchedTokens = k.MaxNumSeqs, k.MaxNumBatchedTokens
	if s.WholePrefills = !k.ChunkedPrefill; s.WholePrefills {
		s.MaxNumBatchedTokens = max(s.MaxNumBatchedTokens, s.MaxModelLen)
	}
	l, err := perfmodel.NewLedger(x.offer.Model, s)
	if err != nil {
		return nil, err
	}
	return x.offer.correctLedger(l)
}

// correctLedger adjusts the ledger of the measured shape to the number of blocks that the server really has, plus the
// ledger's difference between its settings and the server's.
func (f *Offer) correctLedger(l *perfmodel.Ledger) (*perfmodel.Ledger, error) {
	o := f.FixedKV
	if o == nil || o.NumBlocks < 2 || l.Settings.NumBlocksOverride > 0 || !f.isMeasuredShape(l) {
		return l, nil
	}
	adjusted := *o
	if fit, err := perfmodel.NewLedger(f.Model, f.FitSettings); err == nil && l.Settings.Memory.Value > 0 &&
		l.KV.BytesPerBlock > 0 {
		adjusted.NumBlocks = max(adjusted.NumBlocks+
			math.Round((l.Available.Value-fit.Available.Value)/l.KV.BytesPerBlock), 1)
	}
	return perfmodel.NewLedger(f.Model, l.Adopt(adjusted))
}

// isMeasuredShape reports whether a ledger has the shape of the measured server.
func (f *Offer) isMeasuredShape(l *perfmodel.Ledger) bool {
	return l.Settings.TP == max(f.FitSettings.TP, 1) && l.Settings.KVType == cmp.Or(f.FitSettings.KVType, "auto")
}

// calibrationFor returns the calibration of a shape: the measured one, transferred by the data sheets if the shape
// differs from the measured one.
func (f *Offer) calibrationFor(l *perfmodel.Ledger, meanTokens float64) (*perfmodel.Calibration, error) {
	if f.Fit == nil {
		sheet := l.StepCost(meanTokens)
		return perfmodel.Calibrate(perfmodel.Evidence{Prior: &sheet, HardwareFrom: l.StepTimesFrom()})
	}
	if f.isMeasuredShape(l) || l.Settings.Device.Bandwidth == 0 {
		return f.Fit, nil
	}
	base, err := perfmodel.NewLedger(f.Model, f.FitSettings)
	if err != nil {
		return f.Fit, nil
	}
	c := *f.Fit
	c.Fit = f.Fit.Fit.Transfer(base.StepCost(meanTokens), l.StepCost(meanTokens))
	return &c, nil
}

func (s *search) addNote(text string) {
	if !slices.Contains(s.res.Notes, text) {
		s.res.Notes = append(s.res.Notes, text)
	}
}

// drawRequests returns the requests of one engine of several.
func (s *search) drawRequests(engines int) ([]sim.Request, error) {
	if r, ok := s.drawn[engines]; ok {
		return r, nil
	}
	r, err := s.Demand.Draw(s.Demand.Rate, engines, simBlock)
	if err == nil && len(r) == 0 {
		err = fmt.Errorf("the workload has no requests")
	}
	if err == nil {
		s.drawn[engines] = r
	}
	return r, err
}

// simBlock is the block size of the simulation, in tokens. The simulation has no groups of blocks. A model with
// sliding windows or recurrent states gets as many blocks of this size as hold the same number of requests.
const simBlock = 16

// newConfig returns the simulator's configuration of an engine.
func (x *shape) newConfig(l *perfmodel.Ledger, k Knobs) (sim.Config, error) {
	settings := l.EngineConfig("the ledger")
	plain := l.PlainBlocks(x.meanLength(), simBlock)
	blocks := max(plain/x.pp, min(plain, x.Demand.MaxTokens/simBlock+2), 2)
	for flag, v := range map[string]any{
		engine.BlockSize: simBlock, engine.NumBlocksOverride: blocks,
		engine.MaxNumSeqs:     (l.Settings.MaxNumSeqs + x.pp - 1) / x.pp,
		engine.ChunkedPrefill: k.ChunkedPrefill,
	} {
		settings[flag] = engine.Setting{Value: fmt.Sprint(v), Source: "the search"}
	}
	settings.Merge(x.offer.Args)
	e, err := perfmodel.NewEngine(l.Settings.Release, settings, nil)
	if err != nil {
		return sim.Config{}, err
	}
	return e.Config, nil
}

// trimBlocks returns a deployment without the blocks that the requests can never use.
func trimBlocks(cfg sim.Config, requests []sim.Request) perfmodel.Deployment {
	all := 64
	for i := range requests {
		all += (requests[i].PromptTokens+requests[i].OutputTokens)/cfg.BlockSize + 2
	}
	all += all / 16 // for the watermark
	cfg.NumBlocks = min(cfg.NumBlocks, max(all, 2*cfg.MaxModelLen/cfg.BlockSize))
	return perfmodel.Deployment{Config: cfg}
}

// evaluatePoint simulates a configuration once, with as many samples as the level of confidence needs. It returns nil
// if the model or the longest request does not fit.
func (x *shape) evaluatePoint(k Knobs, l level) *Point {
	p, cached := x.evaluated[k]
	if x.checkInterrupt() != nil {
		return nil
	}
	requests, err := x.drawRequests(k.Replicas * x.countEngines())
	if err != nil {
		x.addNote(err.Error())
		return nil
	}
	if !cached {
		if p = x.simulatePoint(k, requests, x.Targets.simLimits()); p != nil {
			p.Rate = x.Demand.Rate
		}
		x.evaluated[k] = p
	}
	if l == surely && p != nil && p.Met() && !p.surely && p.Doubts == nil {
		x.makeSure(p, requests)
	}
	return p
}

// simulatePoint simulates a configuration with the likeliest step times. It returns nil if it is impossible.
func (x *shape) simulatePoint(k Knobs, requests []sim.Request, limits sim.Limits) *Point {
	l, err := x.newLedger(k)
	if err != nil || l.SafeConcurrency(x.longestRequest(l)) < 1 {
		return nil
	}
	full := k
	full.MaxNumSeqs, full.MaxNumBatchedTokens = l.Settings.MaxNumSeqs, l.Settings.MaxNumBatchedTokens
	p := &Point{
		Knobs: full, GPUs: k.Replicas * x.gpus(), Rate: x.Demand.Rate, Ledger: l, Offer: x.offer.Offer,
		Blocks: l.Blocks.Value, Calibrated: x.fit, Sample: len(requests),
	}
	cfg, err := x.newConfig(l, full)
	if err != nil {
		x.addNote(err.Error())
		return nil
	}
	span := requests[len(requests)-1].Arrival
	pred, err := x.fit.Fit.Predict(trimBlocks(cfg, requests), requests, 0,
		sim.Options{SampleEvery: max(span/200, 10*time.Millisecond), Limits: limits, Check: x.Check})
	if err != nil {
		x.addNote(err.Error())
		return nil
	}
	x.fillPoint(p, pred, span, cfg.NumBlocks)
	return p
}

// fillPoint sets a point's results. The requests arrived within span, and the engine has blocks KV blocks.
func (x *shape) fillPoint(p *Point, pred *perfmodel.Prediction, span time.Duration, blocks int) {
	res, sum := pred.Result, &pred.Summary
	p.exceeded, p.missed = res.Exceeded, res.Exceeded
	st, peak := &res.Replicas[0].Stats, 0
	for _, s := range res.Replicas[0].Samples {
		peak = max(peak, s.UsedBlocks)
	}
	p.peak, p.KVPeak = st.Peak, float64(peak)/float64(max(blocks-1, 1))
	p.Preemptions = int(math.Ceil(1000 * float64(st.Preemptions) / float64(p.Sample)))
	if st.Work.Steps > 0 {
		p.Running = float64(st.Work.Seqs) / float64(st.Work.Steps) * float64(x.pp)
	}
	finished := sum.Outcomes[sim.Finished]
	p.Refused = sum.Outcomes[sim.PromptTooLong]
	if p.exceeded != "" {
		return
	}
	p.Failed = p.Sample - finished - sum.Outcomes[sim.Cancelled] - p.Refused
	if finished == 0 {
		never := Seconds(math.Inf(1))
		p.TTFT, p.ITL, p.E2E = never, never, never
	} else {
		itl := sum.ITL
		if itl.Count == 0 {
			itl = sum.TPOT
		}
		p.TTFT, p.ITL, p.E2E = Seconds(sum.TTFT.P95.Seconds()), Seconds(itl.P95.Seconds()),
			Seconds(sum.E2E.P95.Seconds())
		each := steadyThroughput(res.Records, span, sum.OutputPerSecond)
		p.TokensPerSecond = each * float64(p.Replicas*x.countEngines())
	}
	x.judgePoint(p)
}

// throughputSlack is the share of a target throughput that counts as met. By chance, a sample of requests has fewer
// output tokens than the workload on average.
const throughputSlack = 0.95

// steadyThroughput returns the output tokens per second of requests that ended in the last three quarters of the
// arrivals, or otherwise if they are too few. At the beginning the batch fills, and at the end it empties.
func steadyThroughput(records []sim.Record, span time.Duration, otherwise float64) float64 {
	from, tokens, n := span/4, 0, 0
	for i := range records {
		r := &records[i]
		if finish := r.Arrival + r.E2E(); r.Outcome == sim.Finished && finish > from && finish <= span {
			tokens += int(r.OutputTokens)
			n++
		}
	}
	if n < 20 || span <= 0 {
		return otherwise
	}
	return float64(tokens) / (span - from).Seconds()
}

// judgePoint sets a point's Misses and its score.
func (s *search) judgePoint(p *Point) {
	t := s.Targets
	p.Misses, p.score = nil, 0
	for _, l := range t.latencyTargets() {
		got := float64(l.point(p))
		ratio := got / l.want.Seconds()
		p.score = max(p.score, ratio)
		if ratio > 1 {
			p.missed = cmp.Or(p.missed, l.name)
			p.Misses = append(p.Misses, fmt.Sprintf("%s P95 %s > %s", l.name, render.Seconds(got), l.want))
		}
	}
	if t.TokensPerSecond > 0 {
		ratio := t.TokensPerSecond * throughputSlack / max(p.TokensPerSecond, 1e-9)
		p.score = max(p.score, ratio)
		if ratio > 1 {
			p.Misses = append(p.Misses,
				fmt.Sprintf("%.0f output tokens/s < %.0f", p.TokensPerSecond, t.TokensPerSecond))
		}
	}
	if p.Failed > 0 {
		p.score++
		p.Misses = append(p.Misses, fmt.Sprintf("%d requests of the sample never fit", p.Failed))
	}
}

// intervalDraws is enough samples for the ends of an interval.
const intervalDraws = 8

// makeSure decides whether the slow ends of a point's intervals meet the targets. If they do not, the GPU's step times
// may be less well known than those of a GPU that is slower in every respect. If that one surely meets the targets, so
// does the point.
func (x *shape) makeSure(p *Point, requests []sim.Request) {
	within := func(pred *perfmodel.Prediction) bool {
		x.judgeInterval(p, pred)
		return len(p.Doubts) == 0
	}
	if p.Prediction, p.surely = x.predictInterval(p, x.fit, requests, within); p.surely || x.offer.Fit != nil {
		return
	}
	doubts := p.Doubts
	for g, ok := p.Ledger.Settings.Device.Slower(); ok; g, ok = g.Slower() {
		pred, sure := x.predictInterval(p, x.onSlower(g, p.Ledger), requests, within)
		if !sure && (pred == nil || pred.Draws == 0) {
			break // this GPU probably misses the targets, and slower GPUs too
		}
		if sure {
			p.surely, p.Doubts = true, nil
			p.Prediction, _ = x.predictInterval(p, x.fit, requests, nil)
			p.Prediction.NoSlowerThan(pred)
			return
		}
	}
	p.Doubts = doubts
}

// onSlower returns the calibration of the shape on another GPU.
func (x *shape) onSlower(g perfmodel.GPU, l *perfmodel.Ledger) *perfmodel.Calibration {
	if c, ok := x.slowerGPUs[g.Name]; ok {
		return c
	}
	other := *l
	other.Settings.Device = g
	c, err := x.offer.calibrationFor(&other, x.Demand.MeanTokens())
	if err != nil {
		c = x.fit
	}
	if x.slowerGPUs == nil {
		x.slowerGPUs = map[string]*perfmodel.Calibration{}
	}
	x.slowerGPUs[g.Name] = c
	return c
}

// predictPoint adds the full prediction to a point.
func (s *search) predictPoint(p *Point) {
	if p == nil || p.surely {
		return
	}
	x := s.shapeOf(p)
	requests, err := s.Demand.Draw(p.Rate, p.Replicas*x.countEngines(), simBlock)
	if err != nil {
		s.addNote(err.Error())
		return
	}
	if p.Prediction, _ = x.predictInterval(p, x.fit, requests, nil); p.Prediction != nil {
		s.judgeInterval(p, p.Prediction)
		if p.Doubts == nil && p.Rate == s.Demand.Rate && x.leastReplicas(surely) > p.Replicas {
			p.Doubts = []string{"beyond the simulated time it does not keep up with the load"}
		}
	}
}

func (s *search) shapeOf(p *Point) *shape {
	return s.shapes[slices.IndexFunc(s.shapes, func(x *shape) bool {
		return x.offer.Offer == p.Offer && x.tp == p.TP && x.pp == p.PP && x.dp == p.DP
	})]
}

// predictInterval predicts one engine of a point with the samples of a calibration. It stops when within returns false,
// and reports whether it always returned true. It returns nil if the prediction fails.
func (x *shape) predictInterval(
	p *Point, c *perfmodel.Calibration, requests []sim.Request, within func(*perfmodel.Prediction) bool,
) (*perfmodel.Prediction, bool) {
	cfg, err := x.newConfig(p.Ledger, p.Knobs)
	if err != nil {
		x.addNote(err.Error())
		return nil, false
	}
	o := sim.Options{Check: x.Check}
	if within != nil {
		o.Limits = x.Targets.simLimits()
	}
	pred, ok, err := c.Fit.PredictWithin(trimBlocks(cfg, requests), requests,
		min(intervalDraws, perfmodel.Draws(len(requests))), o, within)
	if err != nil {
		x.addNote(err.Error())
		return nil, false
	}
	return pred, ok
}

// judgeInterval sets a point's Doubts to the targets that the slow ends of a prediction's intervals miss.
func (s *search) judgeInterval(p *Point, pred *perfmodel.Prediction) {
	t := s.Targets
	p.Doubts = nil
	for _, l := range t.latencyTargets() {
		if high := l.predicted(pred).High; high > l.want.Seconds() {
			p.missed = cmp.Or(p.missed, l.name)
			p.Doubts = append(p.Doubts, fmt.Sprintf("%s P95 up to %s > %s", l.name, render.Seconds(high),
				render.Seconds(l.want.Seconds())))
		}
	}
	if o := pred.OutputPerSecond; t.TokensPerSecond > 0 && o.Value > 0 {
		if low := p.TokensPerSecond * o.Low / o.Value; low < t.TokensPerSecond*throughputSlack {
			p.Doubts = append(p.Doubts, fmt.Sprintf("down to %.0f output tokens/s < %.0f", low, t.TokensPerSecond))
		}
	}
	if pred.Overload() {
		p.Doubts = append(p.Doubts, "it does not keep up with the load")
	}
}

// describeBasis adds the basis and the caveats of the answer.
func (s *search) describeBasis(p *Point) {
	c, m := p.Calibrated, p.Ledger.Model
	s.res.Basis = c.Statement()
	s.res.Doubtful = slices.Clone(c.Notes)
	if p.Prediction != nil && c.Basis != perfmodel.DataSheet { // the statement has a data sheet's warnings
		for _, w := range p.Prediction.Warnings {
			s.addNote(w)
		}
	}
	if m.CountLayersWithWindow() > 0 || m.HasRecurrent() {
		s.addNote("sliding windows and recurrent states are not simulated: the cache is given as the blocks that " +
			"hold as many requests of mean length")
	}
	if m.Experts > 0 && p.Offer.Fit != nil {
		s.addNote(fmt.Sprintf("a step is assumed to read the experts that a batch of %d would", perfmodel.UsualBatch))
	}
	for _, text := range p.Ledger.Unvalidated() {
		s.addNote(text)
	}
}
