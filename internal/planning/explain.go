package planning

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/render"
)

// explain says which targets cannot be met, and what could be.
func (s *search) explain(p *Point) {
	t := s.Targets
	offered := s.Demand.Rate * s.Demand.MeanOutput
	if t.TokensPerSecond > offered*1.001 {
		s.addExplanation("the workload offers %.0f output tokens/s (%.4g requests/s × %.0f tokens): a throughput of %.0f contradicts it. With that workload, at most %.0f can be asked for",
			offered, s.Demand.Rate, s.Demand.MeanOutput, t.TokensPerSecond, offered)
	}
	alone := s.alone()
	for _, l := range t.latencies() {
		if len(alone) == 0 {
			break
		}
		fastest := slices.MinFunc(alone, func(a, b *Point) int { return cmp.Compare(l.point(a), l.point(b)) })
		if v := float64(l.point(fastest)); v > l.want.Seconds() {
			s.addExplanation("%s P95 ≤ %s is out of reach: a request alone on TP %d has %s. Attainable with this model and GPU: %s or more, or shorter requests, or a faster GPU",
				l.name, l.want, fastest.Knobs.TP, render.Seconds(v), render.Seconds(v))
		}
	}
	if t.ITLP95 > 0 && t.E2EP95 > 0 && s.Demand.MeanOutput > 1 {
		if least := t.E2EP95.Seconds() / s.Demand.MeanOutput; least < t.ITLP95.Seconds()/4 {
			s.addExplanation("E2E P95 ≤ %s for %.0f tokens on average leaves %s for each: the ITL target of %s is not the one that binds",
				t.E2EP95, s.Demand.MeanOutput, render.Seconds(least), t.ITLP95)
		}
	}
	s.contradiction()
	if len(s.res.Explain) == 0 {
		s.capacity(p)
	}
}

func (s *search) addExplanation(format string, args ...any) {
	s.res.Explain = append(s.res.Explain, fmt.Sprintf(format, args...))
}

// alone is a request by itself on every shape.
func (s *search) alone() []*Point {
	var out []*Point
	for _, tp := range s.tps {
		if p := s.eval(s.knobs(tp, 1)); p != nil {
			if f := s.floor(p); f != nil {
				out = append(out, f)
			}
		}
	}
	return out
}

// contradiction finds two targets that are met apart and not together.
func (s *search) contradiction() {
	t := s.Targets
	if t.TTFTP95 <= 0 || t.ITLP95 <= 0 || len(s.res.Explain) > 0 {
		return
	}
	var first, gaps *Point
	for _, p := range s.points() {
		if p.TTFT <= Seconds(t.TTFTP95.Seconds()) && (first == nil || p.ITL < first.ITL) {
			first = p
		}
		if p.ITL <= Seconds(t.ITLP95.Seconds()) && (gaps == nil || p.TTFT < gaps.TTFT) {
			gaps = p
		}
	}
	if first != nil && gaps != nil && first != gaps {
		s.addExplanation("TTFT P95 ≤ %s and ITL P95 ≤ %s are each met, but not together on %d GPUs: with %s the ITL is %s; with %s the TTFT is %s",
			t.TTFTP95, t.ITLP95, s.maxGPUs, short(first), render.Seconds(float64(first.ITL)), short(gaps), render.Seconds(float64(gaps.TTFT)))
	}
}

func short(p *Point) string {
	return fmt.Sprintf("%d × TP %d, max-num-seqs %d, max-num-batched-tokens %d", p.Knobs.Replicas, p.Knobs.TP, p.Knobs.MaxNumSeqs, p.Knobs.MaxNumBatchedTokens)
}

// capacity says what load the GPUs carry within the targets, over arrangements
// of all of them.
func (s *search) capacity(p *Point) {
	best, at := 0.0, (*Point)(nil)
	try := func(q *Point) {
		if q == nil || q.GPUs > s.maxGPUs {
			return
		}
		if rate := s.maxRate(q, best); rate > best {
			best, at = rate, q
		}
	}
	try(p)
	for _, tp := range s.tps {
		if n := s.maxGPUs / s.perReplica(tp); n > 0 {
			k := s.knobs(tp, n)
			try(s.eval(k))
			if s.Base.MaxNumBatchedTokens == 0 {
				k.MaxNumBatchedTokens = 512
				try(s.eval(k))
			}
		}
	}
	if at == nil {
		s.addExplanation("no load was found that %d GPUs carry within the targets", s.maxGPUs)
		return
	}
	s.addExplanation("%d GPUs are too few for %.4g requests/s within the targets: attainable are %.3g requests/s with %s", s.maxGPUs, s.Demand.Rate, best, short(at))
}

// maxRate bisects the highest rate with which a point meets the targets, 0 where
// it is not above least.
func (s *search) maxRate(p *Point, least float64) float64 {
	meets := func(rate float64) bool {
		requests, err := s.Demand.Draw(rate, p.Knobs.Replicas*s.batches(), simBlock)
		if err != nil {
			return false
		}
		q := s.simulateUnder(requests, p)
		return q != nil && q.Met
	}
	if least > 0 && !meets(least*1.05) {
		return 0
	}
	lo, hi := least, s.Demand.Rate
	for range 7 {
		if mid := (lo + hi) / 2; meets(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// marginal evaluates one step of every knob from the result.
func (s *search) marginal(p *Point) {
	for _, x := range steps(p, 2) {
		switch {
		case x.knob == gpuMemoryUtilization && (s.Base.KVBytes > 0 || s.Base.NumBlocksOverride > 0 || !(p.Ledger.Settings.Memory.Value > 0)),
			x.knob == tensorParallelSize && (s.Base.Device.Bandwidth == 0 || s.Model.Heads%x.to.TP != 0):
			continue
		}
		m := Marginal{Knob: x.knob, From: x.from, To: x.value, Point: s.eval(x.to)}
		if m.Point == nil {
			m.Impossible = "does not fit"
		}
		s.res.Marginal = append(s.res.Marginal, m)
	}
}
