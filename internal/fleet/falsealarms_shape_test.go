package fleet_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// A Shape is a kind of traffic and the deployment that serves it.
type Shape struct {
	Name     string
	Source   string // of its figures
	Replicas int
	Settings fleet.Settings
	Spec     workload.Spec

	// Peak is the requests a second at one replica at the busiest time of a day:
	// four fifths of what it can serve while clients are content.
	Peak float64
	// Hours is the mean rate in each hour of a day (UTC), relative to Peak. Weekend is the factor for Saturdays and
	// Sundays.
	Hours   [24]float64
	Weekend float64

	CV     float64       // of the times between arrivals
	Spread float64       // standard deviation of the logarithm of the rate, which wanders
	Wander time.Duration // two moments so far apart are correlated by 1/e
	// Bursts is the number of bursts an hour. In each, Surge times as many requests come for 20 seconds.
	Bursts, Surge float64
	Bad           float64 // share of requests that are refused

	// Limits are the latencies that clients accept.
	Limits Limits
}

// Limits are bounds that 95 of 100 requests of a minute must keep.
type Limits struct {
	TTFT time.Duration // until the first token
	TPOT time.Duration // mean time between two tokens of an answer
}

// step is the time for which a rate is constant.
const step = 20 * time.Second

// Arrivals is the traffic of all replicas from a time on.
func (s *Shape) Arrivals(began time.Time, length time.Duration, seed uint64) workload.Arrivals {
	rng := rand.New(rand.NewPCG(seed, 0x5a9e))
	a := workload.Arrivals{CV: s.CV}
	keep := math.Exp(-step.Seconds() / s.Wander.Seconds())
	wander := rng.NormFloat64()
	for at := time.Duration(0); at < length; at += step {
		wander = keep*wander + math.Sqrt(1-keep*keep)*rng.NormFloat64()
		rate := s.usual(began.Add(at)) * math.Exp(s.Spread*wander-s.Spread*s.Spread/2)
		rate = min(rate, s.Peak)
		if rng.Float64() < s.Bursts*step.Hours() {
			rate *= s.Surge
		}
		rate *= float64(s.Replicas)
		a.Profile = append(a.Profile, workload.Segment{Duration: step, From: rate, To: rate})
	}
	return a
}

// usual is the mean rate of a replica at a time of the week, linear between the
// middles of the hours.
func (s *Shape) usual(t time.Time) float64 {
	t = t.UTC()
	x := float64(t.Hour()) + float64(t.Minute())/60 + float64(t.Second())/3600 + 23.5
	h := int(x)
	share := x - float64(h)
	rate := s.Peak * ((1-share)*s.Hours[h%24] + share*s.Hours[(h+1)%24])
	if day := t.Weekday(); day == time.Saturday || day == time.Sunday {
		rate *= s.Weekend
	}
	return rate
}

// Rates by hour of a day, relative to their peak: of people in one time zone, from morning to night; of offices, with
// hardly any requests at night; of a service that is used all over the world.
var (
	conversations = [24]float64{.30, .22, .16, .13, .12, .14, .20, .30, .45, .58, .66, .70, .68, .70, .74, .76, .74,
		.70, .68, .70, .72, .66, .54, .42}
	offices = [24]float64{.01, 0, 0, 0, 0, .005, .02, .12, .40, .66, .74, .70, .52, .66, .76, .74, .66, .46, .22,
		.12, .08, .06, .04, .02}
	world = [24]float64{.42, .40, .38, .38, .40, .42, .46, .52, .58, .62, .64, .66, .68, .72, .76, .76, .74,
		.70, .66, .62, .58, .54, .50, .46}
)

// lengths parses a distribution of token counts. A mistake gives an invalid one, which its first use refuses.
func lengths(text string) workload.Lengths {
	l, _ := workload.ParseLengths(text)
	return l
}

// fast is of the order of an 8B model on an H100, large of a 70B model on four.
var (
	fast = sim.StepCost{Base: 7e-3, Mixed: 1e-3, PerSeq: 15e-6, PerToken: 25e-6, PerKV: 40e-9, PerPair: 4e-10,
		Knee: 384}
	large = sim.StepCost{Base: 28e-3, Mixed: 2e-3, PerSeq: 30e-6, PerToken: 110e-6, PerKV: 60e-9, PerPair: 2e-9,
		Knee: 256}
)

// Shapes lists the traffic that is measured. They are the caller's to change.
func Shapes() []Shape {
	return []Shape{
		{
			Name: "azure-conversation", Replicas: 4,
			Source: "Azure LLM inference trace 2023, conversations: lengths by mean and coefficient of variation (1155 and 0.96, 211 and 0.77), gaps of CV 1.1, a rate that wanders by 20 %; the day is an estimate",
			Spec: workload.Spec{
				Prompt: lengths("lognormal:1155,0.96:16-7000"), Output: lengths("lognormal:211,0.77:4-1000"),
				PrefixShare: 0.3, PrefixGroups: 12, CancelShare: 0.03,
			},
			Peak: 6, Hours: conversations, Weekend: 0.8, CV: 1.1, Spread: 0.2, Wander: 10 * time.Minute,
			Bursts: 1, Surge: 2, Bad: 0.004, Limits: Limits{2 * time.Second, 100 * time.Millisecond},
		},
		{
			Name: "azure-code", Replicas: 6,
			Source:   "Azure LLM inference trace 2023, code: lengths by mean and coefficient of variation (2048 and 0.96, 28 and 2.1), gaps of CV 13 over all its servers, a rate that varies by 40 % over five minutes; the day is an estimate",
			Settings: fleet.Settings{Cost: fast, NumBlocks: 12000, MaxNumBatchedTokens: 4096},
			Spec: workload.Spec{
				Prompt: lengths("lognormal:2048,0.96:16-7400"), Output: lengths("lognormal:28,2.1:2-1800"),
				PrefixShare: 0.2, PrefixGroups: 20, CancelShare: 0.04,
			},
			Peak: 10, Hours: offices, Weekend: 0.15, CV: 4, Spread: 0.4, Wander: 5 * time.Minute,
			Bursts: 2, Surge: 1.5, Bad: 0.003, Limits: Limits{3 * time.Second, 200 * time.Millisecond},
		},
		{
			Name: "mooncake", Replicas: 4,
			Source:   "Mooncake's conversation trace (FAST '25), prompts cut at 30,000 tokens: lengths by mean and coefficient of variation (10117 and 0.91, 343 and 0.73), 37 % of prompt blocks seen before, a rate that wanders by 9 %; the day is an estimate",
			Settings: fleet.Settings{Cost: fast, NumBlocks: 30000, MaxModelLen: 32768, MaxNumBatchedTokens: 8192},
			Spec: workload.Spec{
				Prompt: lengths("lognormal:10117,0.91:64-30000"), Output: lengths("lognormal:343,0.73:4-2000"),
				PrefixShare: 0.4, PrefixGroups: 16, CancelShare: 0.02,
			},
			Peak: 1.7, Hours: world, Weekend: 0.9, CV: 1.5, Spread: 0.09, Wander: 10 * time.Minute,
			Bursts: 1, Surge: 2, Bad: 0.002, Limits: Limits{6 * time.Second, 150 * time.Millisecond},
		},
		{
			Name: "bursty-chat", Replicas: 6,
			Source:   "after BurstGPT (Wang et al., arXiv 2401.17644): gaps gamma-distributed and overdispersed, here with a CV of 3; lengths and the day are estimates",
			Settings: fleet.Settings{Cost: large, NumBlocks: 8000},
			Spec: workload.Spec{
				Prompt: lengths("lognormal:620,1.1:10-6000"), Output: lengths("lognormal:260,0.9:4-1500"),
				PrefixShare: 0.5, PrefixGroups: 4, CancelShare: 0.05,
			},
			Peak: 7, Hours: conversations, Weekend: 0.7, CV: 3, Spread: 0.3, Wander: 8 * time.Minute,
			Bursts: 2, Surge: 2, Bad: 0.008, Limits: Limits{3 * time.Second, 150 * time.Millisecond},
		},
		{
			Name: "office-assistant", Replicas: 2,
			Source: "an estimate: a company's own assistant, one or two questions a second at noon, hardly any at night, long shared instructions",
			Spec: workload.Spec{
				Prompt: lengths("lognormal:1800,0.5:200-7000"), Output: lengths("lognormal:180,0.8:4-1000"),
				PrefixShare: 0.7, PrefixGroups: 3, CancelShare: 0.03,
			},
			Peak: 8, Hours: offices, Weekend: 0.05, CV: 1.3, Spread: 0.3, Wander: 15 * time.Minute,
			Bursts: 2, Surge: 1.5, Bad: 0.01, Limits: Limits{2 * time.Second, 100 * time.Millisecond},
		},
	}
}
