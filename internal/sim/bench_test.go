package sim_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim"
)

// testCost is of the order of an 8B model on a large GPU.
var testCost = sim.StepCost{
	Base: 10e-3, Mixed: 1e-3, PerSeq: 20e-6, PerToken: 60e-6, PerKV: 80e-9, PerPair: 1e-9, Knee: 256,
}

func testConfig() sim.Config {
	cfg, err := sim.Defaults("0.23.0")
	if err != nil {
		panic(err)
	}
	cfg.MaxModelLen, cfg.NumBlocks = 8192, 20000
	return cfg
}

// poisson returns requests of exponential gaps and lengths.
func poisson(seed uint64, rate float64, during time.Duration, prompt, output float64) []sim.Request {
	rng := rand.New(rand.NewPCG(seed, 0))
	var requests []sim.Request
	for at := 0.0; ; {
		at += rng.ExpFloat64() / rate
		if at >= during.Seconds() {
			return requests
		}
		requests = append(requests, sim.Request{
			Arrival:      time.Duration(at * 1e9),
			PromptTokens: min(1+int(rng.ExpFloat64()*prompt), 4000),
			OutputTokens: min(1+int(rng.ExpFloat64()*output), 4000),
		})
	}
}

// BenchmarkHour simulates an hour at ten requests a second.
func BenchmarkHour(b *testing.B) {
	requests := poisson(1, 10, time.Hour, 800, 250)
	tight := testConfig()
	tight.NumBlocks = 2000
	for _, bc := range []struct {
		name string
		cfg  sim.Config
	}{{"ample KV cache", testConfig()}, {"KV cache exhausted", tight}} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				res, err := sim.Run(bc.cfg, testCost, requests, sim.Options{SampleEvery: time.Second})
				must.Succeed(b, err)
				b.ReportMetric(float64(res.Replicas[0].Stats.Work.Steps), "steps")
				b.ReportMetric(float64(res.Replicas[0].Stats.Preemptions), "preemptions")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(requests)), "ns/request")
		})
	}
}

// A brief simulation allocates little more than its records.
func TestABriefRunAllocatesItsRecordsOnly(t *testing.T) {
	requests := poisson(1, 10, time.Hour, 800, 250)
	cfg := testConfig()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := sim.Run(cfg, testCost, requests, sim.Options{Brief: true})
	runtime.ReadMemStats(&after)
	must.Succeed(t, err)
	if each := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(res.Records)); each > 120 {
		t.Errorf("%.0f bytes allocated for each of %d requests", each, len(requests))
	}
}
