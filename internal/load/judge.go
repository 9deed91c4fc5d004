package load

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"
)

// Generator is what the load generator measured of itself.
type Generator struct {
	ReceiveLag Lag     `json:"receive_lag"` // from a packet's arrival in the kernel to its timestamp; empty where the kernel does not tell
	WakeLag    Lag     `json:"wake_lag"`    // of a timer that should fire every few ms: what any goroutine suffers
	SchedDelay Lag     `json:"sched_delay"` // runnable goroutines waiting for a processor, by the Go runtime
	GCPauses   Lag     `json:"gc_pauses"`
	CPU        float64 `json:"cpu"`         // processor seconds used during the test
	Cores      int     `json:"cores"`       // that it may use (GOMAXPROCS)
	HeapMB     float64 `json:"heap_mb"`     // at the end
	ResidentMB float64 `json:"resident_mb"` // the process' highest
}

// Lag is a distribution of delays in a few numbers, in seconds.
type Lag struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// judge measures the generator while a test runs.
type judge struct {
	cpu    time.Duration
	before [2]*metrics.Float64Histogram
	stop   chan struct{}
	wake   chan Lag
}

const probeEvery = 5 * time.Millisecond

var lagMetrics = [2]string{"/sched/latencies:seconds", "/sched/pauses/total/gc:seconds"}

func newJudge() *judge {
	j := &judge{cpu: processorTime(), stop: make(chan struct{}), wake: make(chan Lag, 1)}
	for i, h := range runtimeHistograms() {
		j.before[i] = clone(h)
	}
	go j.probe()
	return j
}

// probe measures how long a goroutine that could run waits to run.
func (j *judge) probe() {
	lags := newSketch()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case due := <-ticker.C:
			// The ticker's time is when the runtime fired it; the rest is how long
			// this goroutine waited to run.
			lags.add(time.Since(due), 1)
		case <-j.stop:
			j.wake <- lags.lag()
			return
		}
	}
}

// end stops the measuring.
func (j *judge) end() Generator {
	close(j.stop)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	after := runtimeHistograms()
	return Generator{
		CPU: (processorTime() - j.cpu).Seconds(), Cores: runtime.GOMAXPROCS(0), HeapMB: float64(mem.HeapAlloc) / 1e6, ResidentMB: float64(residentPeak()) / 1e6,
		WakeLag: <-j.wake, SchedDelay: lagOf(j.before[0], after[0]), GCPauses: lagOf(j.before[1], after[1]),
	}
}

func runtimeHistograms() (h [2]*metrics.Float64Histogram) {
	samples := []metrics.Sample{{Name: lagMetrics[0]}, {Name: lagMetrics[1]}}
	metrics.Read(samples)
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindFloat64Histogram {
			h[i] = s.Value.Float64Histogram()
		}
	}
	return h
}

func clone(h *metrics.Float64Histogram) *metrics.Float64Histogram {
	if h == nil {
		return nil
	}
	return &metrics.Float64Histogram{Counts: append([]uint64(nil), h.Counts...), Buckets: h.Buckets}
}

// lagOf summarizes what a runtime histogram gained, by the buckets' upper ends.
func lagOf(before, after *metrics.Float64Histogram) Lag {
	if before == nil || after == nil || len(before.Counts) != len(after.Counts) {
		return Lag{}
	}
	var l Lag
	for i := range after.Counts {
		l.Count += int64(after.Counts[i] - before.Counts[i])
	}
	seen := int64(0)
	for i := range after.Counts {
		n := int64(after.Counts[i] - before.Counts[i])
		if n == 0 {
			continue
		}
		end := after.Buckets[i+1]
		if math.IsInf(end, 0) {
			end = after.Buckets[i]
		}
		if seen*2 < l.Count {
			l.P50 = end
		}
		if seen*100 < l.Count*99 {
			l.P99 = end
		}
		l.Max = end
		seen += n
	}
	return l
}
