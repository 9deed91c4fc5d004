package load

import (
	"runtime"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
)

// Generator holds the load generator's measurements of itself.
type Generator struct {
	// ReceiveLag is the time from a packet's arrival in the kernel to its reading; empty if the kernel does not
	// timestamp packets.
	ReceiveLag Lag     `json:"receive_lag"`
	WakeLag    Lag     `json:"wake_lag"`    // delay of a timer that fires every few ms; other goroutines wait as long
	CPU        float64 `json:"cpu"`         // processor seconds used during the test
	Cores      int     `json:"cores"`       // processors that it may use (GOMAXPROCS)
	HeapMB     float64 `json:"heap_mb"`     // at the end
	ResidentMB float64 `json:"resident_mb"` // highest of the process
}

// A Lag summarizes a distribution of delays, in seconds.
type Lag struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// lagOf summarizes delays in seconds. It sorts them.
func lagOf(delays []float64) Lag {
	if len(delays) == 0 {
		return Lag{}
	}
	slices.Sort(delays)
	longest := delays[len(delays)-1]
	return Lag{int64(len(delays)), stat.Quantile(delays, 0.5), stat.Quantile(delays, 0.99), longest}
}

// A selfMeasurement measures the generator while a test runs.
type selfMeasurement struct {
	cpu  time.Duration
	stop chan struct{}
	wake chan Lag
}

const probeEvery = 5 * time.Millisecond

func measureSelf() *selfMeasurement {
	j := &selfMeasurement{cpu: processorTime(), stop: make(chan struct{}), wake: make(chan Lag, 1)}
	go j.measureWakeLag()
	return j
}

// measureWakeLag measures how long a runnable goroutine waits for a processor.
func (j *selfMeasurement) measureWakeLag() {
	var delays []float64
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case tick := <-ticker.C:
			// The ticker's time is when the runtime fired it. The rest is the wait of this goroutine.
			delays = append(delays, time.Since(tick).Seconds())
		case <-j.stop:
			j.wake <- lagOf(delays)
			return
		}
	}
}

// stopAndMeasure ends the measurement.
func (j *selfMeasurement) stopAndMeasure() Generator {
	close(j.stop)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return Generator{
		CPU: (processorTime() - j.cpu).Seconds(), Cores: runtime.GOMAXPROCS(0),
		HeapMB: float64(mem.HeapAlloc) / 1e6, ResidentMB: float64(residentPeak()) / 1e6,
		WakeLag: <-j.wake,
	}
}
