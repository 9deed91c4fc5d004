package load

import (
	"runtime"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// Generator is what the load generator measured of itself.
type Generator struct {
	// ReceiveLag is from a packet's arrival in the kernel to its timestamp; empty where the
	// kernel does not tell.
	ReceiveLag Lag     `json:"receive_lag"`
	WakeLag    Lag     `json:"wake_lag"`    // of a timer that should fire every few ms: what any goroutine suffers
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

// lagOf sums up delays in seconds, which it sorts.
func lagOf(delays []float64) Lag {
	if len(delays) == 0 {
		return Lag{}
	}
	slices.Sort(delays)
	longest := delays[len(delays)-1]
	return Lag{int64(len(delays)), stat.Quantile(delays, 0.5), stat.Quantile(delays, 0.99), longest}
}

// judge measures the generator while a test runs.
type judge struct {
	cpu  time.Duration
	stop chan struct{}
	wake chan Lag
}

const probeEvery = 5 * time.Millisecond

func newJudge() *judge {
	j := &judge{cpu: processorTime(), stop: make(chan struct{}), wake: make(chan Lag, 1)}
	go j.probe()
	return j
}

// probe measures how long a goroutine that could run waits to run.
func (j *judge) probe() {
	var delays []float64
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case due := <-ticker.C:
			// The ticker's time is when the runtime fired it; the rest is how long
			// this goroutine waited to run.
			delays = append(delays, time.Since(due).Seconds())
		case <-j.stop:
			j.wake <- lagOf(delays)
			return
		}
	}
}

// end stops the measuring.
func (j *judge) end() Generator {
	close(j.stop)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return Generator{
		CPU: (processorTime() - j.cpu).Seconds(), Cores: runtime.GOMAXPROCS(0),
		HeapMB: float64(mem.HeapAlloc) / 1e6, ResidentMB: float64(residentPeak()) / 1e6,
		WakeLag: <-j.wake,
	}
}
