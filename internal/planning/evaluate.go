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

// settings are the ledger's for some knobs.
func (s *search) settings(k Knobs) perfmodel.Settings {
	x := s.Base
	x.TP, x.KVType, x.Utilization = k.TP, k.KVType, k.Utilization
	x.MaxNumSeqs, x.MaxNumBatchedTokens = k.MaxNumSeqs, k.MaxNumBatchedTokens
	caching := k.PrefixCaching
	x.PrefixCaching = &caching
	if x.WholePrefills = !k.ChunkedPrefill; x.WholePrefills {
		x.MaxNumBatchedTokens = max(x.MaxNumBatchedTokens, x.MaxModelLen)
	}
	return x
}

// eval simulates one configuration, once. It returns nil for one that cannot be:
// the model or the longest request does not fit.
func (s *search) eval(k Knobs) *Point {
	if p, ok := s.seen[k]; ok {
		return p
	}
	if s.check() != nil {
		return nil
	}
	p := s.point(k)
	s.seen[k] = p
	return p
}

func (s *search) point(k Knobs) *Point {
	x := s.settings(k)
	l, err := perfmodel.NewLedger(s.Model, x)
	if err != nil {
		return nil
	}
	if l, err = s.corrected(l); err != nil {
		return nil
	}
	need := s.Demand.MaxTokens
	if need == 0 {
		need = int(s.Demand.MeanPrompt + s.Demand.MeanOutput)
	}
	if l.SafeConcurrency(max(min(need, l.Settings.MaxModelLen), 1)) < 1 {
		return nil
	}
	// A configuration that was asked for by its limits and one that has them by
	// default are the same.
	full := k
	full.KVType = orAuto(k.KVType)
	full.MaxNumSeqs, full.MaxNumBatchedTokens, full.Utilization = l.Settings.MaxNumSeqs, l.Settings.MaxNumBatchedTokens, l.Settings.Utilization
	if p, ok := s.seen[full]; ok {
		return p
	}
	requests, err := s.drawRequests(k.Replicas)
	if err != nil {
		s.addNote(err.Error())
		return nil
	}
	p := s.simulateUnder(requests, &Point{Knobs: full, GPUs: full.Replicas * s.perReplica(full.TP), Ledger: l, Blocks: l.Blocks.Value})
	if p != nil {
		s.seen[full] = p
	}
	return p
}

// simulateUnder is a point's configuration, simulated and judged under other requests; nil when it
// cannot be simulated.
func (s *search) simulateUnder(requests []sim.Request, p *Point) *Point {
	q := &Point{Knobs: p.Knobs, GPUs: p.GPUs, Ledger: p.Ledger, Blocks: p.Blocks}
	if !s.simulate(q, requests) {
		return nil
	}
	s.judge(q)
	return q
}

// corrected gives a ledger of the shape that was measured the blocks that the
// server really has, and the ledger's difference between its settings and these.
func (s *search) corrected(l *perfmodel.Ledger) (*perfmodel.Ledger, error) {
	o := s.FixedKV
	if o == nil || o.NumBlocks < 2 || l.Settings.NumBlocksOverride > 0 || l.Settings.TP != max(s.FitSettings.TP, 1) || orAuto(l.Settings.KVType) != orAuto(s.FitSettings.KVType) {
		return l, nil
	}
	measured := *o
	if fit, err := perfmodel.NewLedger(s.Model, s.FitSettings); err == nil && l.Settings.Memory.Value > 0 && l.KV.BytesPerBlock > 0 {
		measured.NumBlocks = max(measured.NumBlocks+math.Round((l.Available.Value-fit.Available.Value)/l.KV.BytesPerBlock), 1)
	}
	adopted, ok := l.Adopt(measured)
	if !ok {
		return l, nil
	}
	return perfmodel.NewLedger(s.Model, adopted)
}

func orAuto(t string) string {
	if t == "" {
		return "auto"
	}
	return t
}

func (s *search) addNote(text string) {
	for _, n := range s.res.Notes {
		if n == text {
			return
		}
	}
	s.res.Notes = append(s.res.Notes, text)
}

// drawRequests returns the requests of one replica.
func (s *search) drawRequests(replicas int) ([]sim.Request, error) {
	if r, ok := s.requests[replicas]; ok {
		return r, nil
	}
	r, err := s.Demand.Draw(s.Demand.Rate, replicas*s.batches(), simBlock)
	if err == nil {
		s.requests[replicas] = r
	}
	return r, err
}

// simBlock is the block size of the simulation, which knows no groups: the
// capacity of models with windows or states is given to it as that of blocks of
// this size that hold as many requests.
const simBlock = 16

// batches is how many batches of its own a replica has: its data-parallel ranks and, of
// each of them, one for every stage of a pipeline, which follow each other through the
// stages (v1/engine/core.py, step_with_batch_queue). Such a batch takes all stages' time for
// a step, has its share of the requests and of the cache, and waits for none of the others.
func (s *search) batches() int { return max(s.Base.DP, 1) * max(s.Base.PP, 1) }

// config makes the simulator's configuration of a point.
func (s *search) config(p *Point) (sim.Config, error) {
	l := p.Ledger
	known := l.EngineConfig("the ledger")
	length, pp := max(int(s.Demand.MeanPrompt+s.Demand.MeanOutput), 1), max(s.Base.PP, 1)
	blocks := max(l.PlainBlocks(length, simBlock)/pp, min(l.PlainBlocks(length, simBlock), s.Demand.MaxTokens/simBlock+2), 2)
	for flag, v := range map[string]any{
		engine.BlockSize: simBlock, engine.NumBlocksOverride: blocks, engine.MaxNumSeqs: (l.Settings.MaxNumSeqs + pp - 1) / pp,
		engine.ChunkedPrefill: p.Knobs.ChunkedPrefill, engine.PrefixCaching: p.Knobs.PrefixCaching,
	} {
		known[flag] = engine.Setting{Value: fmt.Sprint(v), Source: "the search"}
	}
	known.Merge(s.Args)
	e, err := perfmodel.Config(l.Settings.Release, known, nil)
	if err != nil {
		return sim.Config{}, err
	}
	return e.Config, nil
}

// prepared is what a point is simulated with.
func (s *search) prepared(p *Point) (sim.Config, *perfmodel.Calibration, error) {
	cfg, err := s.config(p)
	if err != nil {
		return cfg, nil, err
	}
	c, err := s.calibrationFor(p)
	return cfg, c, err
}

// calibrationFor is the calibration for a point: the measured one, carried over by the data
// sheets where the point differs from what was measured.
func (s *search) calibrationFor(p *Point) (*perfmodel.Calibration, error) {
	if s.Fit == nil {
		sheet := p.Ledger.StepCost(s.Demand.MeanTokens())
		return perfmodel.Calibrate(perfmodel.Evidence{Prior: &sheet, HardwareFrom: p.Ledger.StepTimesFrom()})
	}
	same := s.FitModel == nil && p.Knobs.TP == max(s.FitSettings.TP, 1) && p.Knobs.KVType == orAuto(s.FitSettings.KVType)
	if same || p.Ledger.Settings.Device.Bandwidth == 0 {
		return s.Fit, nil
	}
	base, err := perfmodel.NewLedger(cmp.Or(s.FitModel, s.Model), s.FitSettings)
	if err != nil {
		return s.Fit, nil
	}
	mean := s.Demand.MeanTokens()
	c := *s.Fit
	c.Fit = s.Fit.Fit.Transfer(base.StepCost(mean), p.Ledger.StepCost(mean))
	return &c, nil
}

// simulate fills in what a run gives; false when it cannot be simulated.
func (s *search) simulate(p *Point, requests []sim.Request) bool {
	every := max(requests[len(requests)-1].Arrival/200, 10*time.Millisecond)
	cfg, c, err := s.prepared(p)
	if err != nil {
		s.addNote(err.Error())
		return false
	}
	pred, err := c.Fit.Predict(perfmodel.Deployment{Config: cfg}, requests, 0, sim.Options{SampleEvery: every, Check: s.Check})
	if err != nil {
		s.addNote(err.Error())
		return false
	}
	res, sum := pred.Result, pred.Summary
	finished := sum.Outcomes[sim.Finished]
	p.Refused = sum.Outcomes[sim.PromptTooLong]
	p.Failed = len(requests) - finished - sum.Outcomes[sim.Cancelled] - p.Refused
	p.Sample = len(requests)
	if finished == 0 {
		never := Seconds(math.Inf(1))
		p.TTFT, p.ITL, p.E2E = never, never, never
		return true
	}
	itl := sum.ITL
	if itl.Count == 0 {
		itl = sum.TPOT
	}
	p.TTFT, p.ITL, p.E2E = Seconds(sum.TTFT.P95.Seconds()), Seconds(itl.P95.Seconds()), Seconds(sum.E2E.P95.Seconds())
	engines := float64(p.Knobs.Replicas * s.batches())
	p.TokensPerSecond = steady(res.Records, requests[len(requests)-1].Arrival, sum.OutputPerSecond) * engines
	p.PerGPU = p.TokensPerSecond / float64(max(p.GPUs, 1))
	p.Preemptions = int(math.Round(1000 * float64(sum.Preemptions) / float64(len(requests))))
	st := res.Replicas[0].Stats
	peak := 0
	for _, x := range res.Replicas[0].Samples {
		peak = max(peak, x.UsedBlocks)
	}
	p.KVPeak = float64(peak) / float64(max(cfg.NumBlocks-1, 1))
	if st.Work.Steps > 0 {
		p.Running = float64(st.Work.Seqs) / float64(st.Work.Steps) * float64(max(s.Base.PP, 1))
	}
	return true
}

// throughputSlack forgives what a sample of requests misses of a throughput.
const throughputSlack = 0.95

// steady is the output tokens per second of requests that ended in the last three
// quarters of the arrivals: neither the beginning, when the batch fills, nor the
// end, when it empties, are what a server does all day.
func steady(records []sim.Record, span time.Duration, otherwise float64) float64 {
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

// judge compares a point with the targets.
func (s *search) judge(p *Point) {
	t := s.Targets
	p.Misses, p.score = nil, 0
	for _, l := range t.latencies() {
		got := float64(l.point(p))
		ratio := got / l.want.Seconds()
		p.score = max(p.score, ratio)
		if ratio > 1 {
			p.Misses = append(p.Misses, fmt.Sprintf("%s P95 %s > %s", l.name, render.Seconds(got), l.want))
		}
	}
	if t.TokensPerSecond > 0 {
		ratio := t.TokensPerSecond * throughputSlack / max(p.TokensPerSecond, 1e-9)
		p.score = max(p.score, ratio)
		if ratio > 1 {
			p.Misses = append(p.Misses, fmt.Sprintf("%.0f output tokens/s < %.0f", p.TokensPerSecond, t.TokensPerSecond))
		}
	}
	if p.Failed > 0 {
		p.score += 1
		p.Misses = append(p.Misses, fmt.Sprintf("%d requests of the sample never fit", p.Failed))
	}
	p.Met = len(p.Misses) == 0
}

// predict adds the interval that the calibration implies.
func (s *search) predict(p *Point) {
	c, pred, err := s.interval(p)
	if c == nil {
		return
	}
	s.res.Basis = c.Statement()
	if err != nil {
		s.addNote(err.Error())
		return
	}
	s.res.Prediction = pred
	s.res.Doubtful = slices.Clone(c.Notes)
	if s.FitModel != nil {
		s.res.Doubtful = append(s.res.Doubtful, fmt.Sprintf("step times were measured of another model (%s) and carried over by what data sheets and others' measurements say of both; a load test of this model narrows the answer", s.FitModel.Architecture))
	}
	for _, w := range pred.Warnings {
		if c.Basis != perfmodel.DataSheet { // whose statement says so
			s.addNote(w)
		}
	}
	m := p.Ledger.Model
	if m.CountLayersWithWindow() > 0 || m.HasRecurrent() {
		s.addNote("the simulator knows no windows and no states: the cache is given to it as blocks that hold as many requests of the mean length")
	}
	if m.HasRecurrent() && p.Knobs.PrefixCaching {
		s.addNote(fmt.Sprintf("with recurrent layers prefixes are found in whole blocks of %d tokens, and vLLM calls it experimental; the simulator finds them in blocks of %d", p.Ledger.KV.BlockTokens, simBlock))
	}
	if m.Experts > 0 && s.Fit != nil {
		s.addNote(fmt.Sprintf("a step is taken to read the experts that a batch of %d would", perfmodel.UsualBatch))
	}
	for _, text := range p.Ledger.Unvalidated() {
		s.addNote(text)
	}
	if p.Knobs.KVType == "fp8" && s.Base.KVType == "" {
		s.addNote("an FP8 cache changes the model's answers a little: check them before it serves users; what it is worth stands among the knobs")
	}
}
