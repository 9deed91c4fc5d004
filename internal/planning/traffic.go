package planning

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A traffic holds the requests of one target in a window, and its state when the window began. Its ranks share the
// requests evenly.
type traffic struct {
	spec                       workload.Spec
	observed                   *workload.Observed
	arrivals                   []time.Duration // since the window's beginning
	length                     time.Duration   // of the window
	ranks                      int
	running, waiting           float64       // requests in all ranks at the beginning
	clients                    float64       // clients in a closed loop; 0: an open loop
	pause                      time.Duration // from an answer until the client's next request is in the engine
	held                       float64       // used share of the KV cache at the beginning
	heldPerRequest             float64       // mean share of an engine's KV cache per running request; 0: unknown
	ended                      float64       // number of requests behind the lengths of answers
	promptFactor, outputFactor float64       // factors of the measured lengths; 0 is 1
	left                       float64       // clients that left before the end of their answer
	unanswered                 float64       // clients that left without a token
}

// minArrivals is how many requests a window needs for its traffic to be repeated.
const minArrivals = 10

// minEnded is how many requests must have ended before lengths are drawn. With few, intervals are wide.
const minEnded = 5

// A tooSoon is an error that more observation would resolve.
type tooSoon struct {
	error
	needs time.Duration // the missing time
}

// estimateWait adds to an error how long it takes until the needed number is reached, after so many came in a time.
func estimateWait(came float64, needed int, in time.Duration, err error) error {
	seconds := (float64(needed) - came) * in.Seconds() / max(came, 1)
	return tooSoon{err, time.Duration(math.Ceil(min(seconds, longestWait.Seconds()))) * time.Second}
}

// longestWait bounds the time that users are asked to wait.
const longestWait = time.Minute

// newTraffic returns the measured traffic of one target. left is the number of clients that left before the end of
// their answer, unanswered the number of those without a token.
func newTraffic(f *workload.Measured, left, unanswered float64) (*traffic, error) {
	t := &traffic{
		observed: &f.Workload, length: f.To.Sub(f.From), ranks: max(len(f.Ranks), 1), ended: f.Workload.Requests(),
	}
	if mean := f.Workload.Prompt.Mean(); mean > maxModelLen {
		return nil, fmt.Errorf("measured prompts of %.0f tokens are too long to simulate here", mean)
	}
	if left >= catalog.SomeAbandoned.Default {
		t.left, t.unanswered = left, unanswered
	}
	var err error
	if t.spec, err = f.Workload.SpecOf(minEnded); err != nil {
		if t.ended < minEnded {
			err = estimateWait(t.ended, minEnded, t.length, err)
		}
		return nil, err
	}
	var held, running float64
	for i := range f.Ranks {
		t.addRank(f.From, f.Ranks[i].Intervals, t.unanswered/float64(t.ranks), uint64(i))
		for _, v := range f.Ranks[i].Intervals {
			if v.KVUsage > 0 && v.Running >= 1 {
				held, running = held+v.KVUsage, running+v.Running
			}
		}
	}
	if running > 0 {
		t.heldPerRequest = held / running
	}
	slices.Sort(t.arrivals)
	if t.running+t.waiting > maxInFlight || len(t.arrivals) > maxArrivals {
		return nil, fmt.Errorf("measured workload: %.0f requests in flight and %d arrivals are too many to "+
			"simulate here", t.running+t.waiting, len(t.arrivals))
	}
	if len(t.arrivals) < minArrivals {
		return nil, estimateWait(float64(len(t.arrivals)), minArrivals, t.length,
			fmt.Errorf("measured workload: %d requests arrived in that time, want %d or more", len(t.arrivals),
				minArrivals))
	}
	t.clients, t.pause = float64(f.Workload.Loop.Clients), f.Workload.Loop.Pause
	return t, nil
}

// maxArrivals bounds the requests of a window.
const maxArrivals = 200_000

// addRank adds the arrivals of a rank. In the counters of an interval, a preempted request looks like an arrival; a
// later interval takes it back. So only the sum over all intervals gives the number of arrivals. Requests that left
// unanswered are added to it, because no counter has them. The intervals give the times of the arrivals.
func (t *traffic) addRank(from time.Time, intervals []workload.Interval, unanswered float64, seed uint64) {
	total, counted := unanswered, 0.0
	for _, v := range intervals {
		if !math.IsNaN(v.Arrived) && !math.IsNaN(v.Joined) && !math.IsNaN(v.FirstTokens) {
			total += v.FirstTokens + v.Joined
			counted += v.Arrived
		}
	}
	if len(intervals) > 0 {
		t.running += orZero(intervals[0].Running)
		t.waiting += orZero(intervals[0].Waiting)
		t.held += orZero(intervals[0].KVUsage) / float64(t.ranks)
	}
	if !(total > 0) || !(counted > 0) {
		return
	}
	rng := rand.New(rand.NewPCG(seed, 0xa771))
	came, placed := 0.0, 0
	for _, v := range intervals {
		came = min(came+orZero(v.Arrived)*total/counted, maxArrivals+1)
		for ; placed < int(math.Round(came)); placed++ {
			// Users are independent, so arrivals are random within an interval.
			at := v.End.Sub(from).Seconds() - v.Seconds*rng.Float64()
			t.arrivals = append(t.arrivals, time.Duration(max(at, 0)*float64(time.Second)))
		}
	}
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// poolSize is how many lengths are drawn for a simulation, which takes them in turn.
const poolSize = 2000

// drawPool draws requests that an engine can serve. If few answers ended, their mean length is uncertain: some draws
// have longer answers, others shorter ones.
func (t *traffic) drawPool(cfg sim.Config, draw int) ([]sim.Request, error) {
	source, err := workload.NewGenerator(t.spec, uint64(draw))
	if err != nil {
		return nil, err
	}
	drawn, err := Draw(source, nil, cfg.BlockSize, poolSize, 0)
	if err != nil {
		return nil, err
	}
	if longer := math.Exp(normalSpread(draw) * relativeError(drawn, t.ended)); longer != 1 {
		for i := range drawn {
			drawn[i].OutputTokens = max(int(math.Round(float64(drawn[i].OutputTokens)*longer)), 1)
		}
	}
	pairLengths(drawn, t.heldPerRequest*float64(cfg.Tokens())-float64(cfg.BlockSize)/2,
		rand.New(rand.NewPCG(uint64(draw), 0x9a12)))
	t.scaleLengths(drawn, cfg.BlockSize)
	// Measured requests fitted; only combinations of their lengths may not.
	fits := slices.DeleteFunc(drawn, func(r sim.Request) bool {
		return r.PromptTokens >= cfg.MaxModelLen || !cfg.Fits(r.PromptTokens, r.OutputTokens)
	})
	if len(fits) < poolSize/2 {
		return nil, fmt.Errorf("most requests of the measured lengths do not fit into %d tokens or %d blocks",
			cfg.MaxModelLen, cfg.NumBlocks)
	}
	return fits, nil
}

// scaleLengths scales prompts and answers by the traffic's factors. Shared prefixes keep their length.
func (t *traffic) scaleLengths(rs []sim.Request, blockSize int) {
	if cmp.Or(t.promptFactor, 1) == 1 && cmp.Or(t.outputFactor, 1) == 1 {
		return
	}
	scale := func(n int, by float64) int { return max(int(math.Round(float64(n)*cmp.Or(by, 1))), 1) }
	for i := range rs {
		r := &rs[i]
		r.PromptTokens, r.OutputTokens = scale(r.PromptTokens, t.promptFactor), scale(r.OutputTokens, t.outputFactor)
		r.Blocks = r.Blocks[:min(len(r.Blocks), r.PromptTokens/blockSize)]
	}
}

// scaleLoad returns the traffic with factor times as many arrivals or clients.
func (t traffic) scaleLoad(factor float64) *traffic {
	t.clients, t.running, t.waiting = t.clients*factor, t.running*factor, t.waiting*factor
	t.length = time.Duration(float64(t.length) / factor)
	t.arrivals = slices.Clone(t.arrivals)
	for i := range t.arrivals {
		t.arrivals[i] = time.Duration(float64(t.arrivals[i]) / factor)
	}
	return &t
}

// pairLengths gives longer prompts longer answers until running requests hold target tokens, the measured number, on
// average. The histograms do not show which prompt has which answer, and long chats get long answers. If the
// measured number is lower than by chance, shared prefixes may explain it, and nothing changes.
func pairLengths(rs []sim.Request, target float64, rng *rand.Rand) {
	if !(target > 0) || tokensHeld(rs) >= target {
		return
	}
	n := len(rs)
	byPrompt, answers, chance := make([]int, n), make([]int, n), make([]float64, n)
	for i := range rs {
		byPrompt[i], answers[i], chance[i] = i, rs[i].OutputTokens, rng.Float64()
	}
	slices.SortStableFunc(byPrompt, func(a, b int) int { return cmp.Compare(rs[a].PromptTokens, rs[b].PromptTokens) })
	slices.Sort(answers)
	rank := make([]float64, n)
	for at, i := range byPrompt {
		rank[i] = float64(at) / float64(n)
	}
	low, high := 0.0, 1.0 // weight of the prompt's rank
	for range 8 {
		weight := (low + high) / 2
		order := slices.Clone(byPrompt)
		key := func(i int) float64 { return weight*rank[i] + (1-weight)*chance[i] }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key(a), key(b)) })
		for at, i := range order {
			rs[i].OutputTokens = answers[at]
		}
		if tokensHeld(rs) < target {
			low = weight
		} else {
			high = weight
		}
	}
}

// tokensHeld returns how many tokens a running request holds on average. Requests with long answers run, and hold
// their prompts, for longer.
func tokensHeld(rs []sim.Request) float64 {
	var tokens, steps float64
	for _, r := range rs {
		o := float64(r.OutputTokens)
		tokens, steps = tokens+o*(float64(r.PromptTokens)+o/2), steps+o
	}
	return tokens / max(steps, 1)
}

// relativeError returns the relative standard error of the mean length of n answers.
func relativeError(rs []sim.Request, n float64) float64 {
	var sum, squares float64
	for _, r := range rs {
		v := float64(r.OutputTokens)
		sum += v
		squares += v * v
	}
	mean := sum / float64(len(rs))
	if !(mean > 0) || !(n > 0) {
		return 0
	}
	return math.Sqrt(max(squares/float64(len(rs))/(mean*mean)-1, 0) / n)
}

// normalSpread returns 0 for the first draw, and values spread like a standard normal distribution for the others.
func normalSpread(draw int) float64 {
	return math.Sqrt2 * math.Erfinv(2*evenSpread(draw)-1)
}

// evenSpread returns 0.5 for the first draw, and values spread evenly from 0 to 1 for the others.
func evenSpread(draw int) float64 {
	const golden = 0.6180339887498949
	_, part := math.Modf(0.5 + float64(draw)*golden)
	return part
}

// arrivalsOf returns the arrivals of one of n engines that get them in turn.
func (t *traffic) arrivalsOf(n int) []time.Duration {
	var out []time.Duration
	for i := 0; i < len(t.arrivals); i += n {
		out = append(out, t.arrivals[i])
	}
	return out
}

func (t *traffic) arrivalRate() float64 { return float64(len(t.arrivals)) / t.length.Seconds() }
