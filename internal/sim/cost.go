package sim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Work counts what model executions did. It is additive: the work of a request's prefill, of a scrape interval or of a
// whole run is the sum over its steps. A duration is therefore linear in Work, and StepCost can be fitted to any of
// these sums.
type Work struct {
	Steps    int64 // model executions
	Mixed    int64 // executions with prefill: no full CUDA graph covers them
	Seqs     int64 // requests, summed over steps
	Tokens   int64 // tokens computed
	Excess   int64 // tokens beyond StepCost.Knee, step by step
	KVTokens int64 // context tokens whose keys and values attention read
	Pairs    int64 // query-key pairs of prefill attention
	Experts  int64 // the share of all experts that a step reads, in millionths, summed over steps
}

// Add adds o to w.
func (w *Work) Add(o Work) {
	w.Steps += o.Steps
	w.Mixed += o.Mixed
	w.Seqs += o.Seqs
	w.Tokens += o.Tokens
	w.Excess += o.Excess
	w.KVTokens += o.KVTokens
	w.Pairs += o.Pairs
	w.Experts += o.Experts
}

// Sub returns w − o.
func (w Work) Sub(o Work) Work {
	return Work{
		Steps:    w.Steps - o.Steps,
		Mixed:    w.Mixed - o.Mixed,
		Seqs:     w.Seqs - o.Seqs,
		Tokens:   w.Tokens - o.Tokens,
		Excess:   w.Excess - o.Excess,
		KVTokens: w.KVTokens - o.KVTokens,
		Pairs:    w.Pairs - o.Pairs,
		Experts:  w.Experts - o.Experts,
	}
}

// raiseTo raises the largest step's numbers to those of a step.
func (w *Work) raiseTo(step Work) {
	w.Seqs = max(w.Seqs, step.Seqs)
	w.Tokens = max(w.Tokens, step.Tokens)
	w.KVTokens = max(w.KVTokens, step.KVTokens)
}

// addTokens adds n new tokens of a request that has computed tokens in the cache.
func (w *Work) addTokens(n, computed int) {
	w.Seqs++
	w.Tokens += int64(n)
	w.KVTokens += int64(computed + n)
	if n > 1 {
		w.Pairs += int64(n)*int64(computed) + int64(n)*int64(n+1)/2
		w.Mixed = 1
	}
}

// StepCost is the duration of a step as a physical model, in seconds per unit of Work. Package perfmodel fits it.
//
// Up to Knee tokens a step takes as long as reading the weights, which is part of Base, and the arithmetic overlaps
// with it. Beyond, each token costs its arithmetic (the roofline of Williams, Waterman and Patterson, 2009).
type StepCost struct {
	Base     float64 `json:"base"`      // every step: launch, sampling, reading the weights
	Mixed    float64 `json:"mixed"`     // additionally, a step with prefill
	PerSeq   float64 `json:"per_seq"`   // every request of the step
	PerToken float64 `json:"per_token"` // every token beyond Knee
	PerKV    float64 `json:"per_kv"`    // every context token read
	PerPair  float64 `json:"per_pair"`  // every query-key pair of prefill
	Knee     int     `json:"knee"`      // tokens

	// Experts is the time to read all experts of a mixture. A token uses ExpertShare of all; a step reads the experts
	// that any of its tokens uses.
	Experts     float64 `json:"experts,omitempty"`
	ExpertShare float64 `json:"expert_share,omitempty"`
}

// Seconds returns the duration of work.
func (c StepCost) Seconds(w Work) float64 {
	return c.Base*float64(w.Steps) + c.Mixed*float64(w.Mixed) + c.PerSeq*float64(w.Seqs) +
		c.PerToken*float64(w.Excess) + c.PerKV*float64(w.KVTokens) + c.PerPair*float64(w.Pairs) +
		c.Experts*float64(w.Experts)/1e6
}

// TouchedShare is the share of the experts that this many tokens use, each choosing on its own.
func (c StepCost) TouchedShare(tokens float64) float64 { return 1 - math.Pow(1-c.ExpertShare, tokens) }

// Fold moves the experts that a step of this many tokens reads into the base. The cost is then linear in all work but
// Excess, for such steps.
func (c StepCost) Fold(tokens float64) StepCost {
	c.Base += c.Experts * c.TouchedShare(tokens)
	c.Experts, c.ExpertShare = 0, 0
	return c
}

// Scale multiplies every constant by the same constant of another cost; the knee stays.
func (c StepCost) Scale(by StepCost) StepCost {
	c.Base *= by.Base
	c.Mixed *= by.Mixed
	c.PerSeq *= by.PerSeq
	c.PerToken *= by.PerToken
	c.PerKV *= by.PerKV
	c.PerPair *= by.PerPair
	c.Experts *= by.Base
	return c
}

// Uniform returns constants with which Scale makes every step this many times as long.
func Uniform(times float64) StepCost {
	return StepCost{Base: times, Mixed: times, PerSeq: times, PerToken: times, PerKV: times, PerPair: times}
}

// longestStep limits a step, in seconds, so that sums of times do not overflow.
const longestStep = 1e6

// timeStep returns the duration of one step and completes its work.
func (c StepCost) timeStep(w *Work) time.Duration { return c.timeStepAmong(w, w.Tokens) }

// timeStepAmong is timeStep for experts that serve this many tokens, including those of other ranks.
func (c StepCost) timeStepAmong(w *Work, tokens int64) time.Duration {
	w.Steps = 1
	w.Excess = max(0, w.Tokens-int64(c.Knee))
	if c.ExpertShare > 0 {
		w.Experts = int64(math.Round(1e6 * c.TouchedShare(float64(tokens))))
	}
	return time.Duration(math.Round(min(c.Seconds(*w), longestStep) * 1e9))
}

// Validate reports constants that cannot be a cost, or that make a step free.
func (c StepCost) Validate() error {
	for _, v := range []float64{c.Base, c.Mixed, c.PerSeq, c.PerToken, c.PerKV, c.PerPair, c.Experts, c.ExpertShare} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("step cost %+v: every constant must be finite and not negative", c)
		}
	}
	if c.Base < 1e-9 {
		return errors.New("step cost: a step without base cost would take no time")
	}
	if c.ExpertShare > 1 {
		return fmt.Errorf("step cost: a token takes %v times all experts", c.ExpertShare)
	}
	if c.Knee < 0 {
		return fmt.Errorf("step cost: the knee is %d tokens", c.Knee)
	}
	return nil
}
