package fleet

import (
	"fmt"
	"math"
	"time"

	host "github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A gpu is the device of a replica, as NVIDIA's dcgm-exporter shows it. Its load follows from the engine's steps. A
// scenario sets clocks, errors and temperature limits, because the simulation has none.
type gpu struct {
	number int
	fault  GPUFault

	at   time.Duration // time of the last sample
	busy time.Duration
	work sim.Work
	gpuSample
	replays, doubleBit float64
}

// A gpuSample is the part that changes with the load.
type gpuSample struct {
	active, sm  float64 // 0 to 1
	clock       float64 // MHz
	watts       float64
	temperature float64 // °C
}

// A GPUFault is the health that a GPU reports.
type GPUFault struct {
	ClockMHz    float64 `yaml:"clock_mhz"` // the SM clock under load; 0 is the highest
	Reasons     int     // bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS
	Temperature float64 // °C in spite of cooling; 0 is healthy
	XID         int     // code of the last error
	DoubleBit   int     `yaml:"double_bit"` // uncorrectable memory errors
	Replays     float64 // PCIe retransmissions a second
}

// The imitated device: an A100 of 40 GB.
const (
	highestClock = 1410
	memoryMiB    = 40960
	usedMiB      = 37400
	idleWatts    = 58
	mostWatts    = 400
	idleCelsius  = 34
	fullCelsius  = 71
	// Bits of nvmlClocksEventReason (nvml.h).
	reasonIdle = 0x1
	fullBatch  = 256 // tokens a step that keep every SM busy
)

func newGPU(number int) gpu {
	return gpu{number: number, gpuSample: gpuSample{clock: highestClock, watts: idleWatts, temperature: idleCelsius}}
}

// restart resets the counters for a new engine.
func (g *gpu) restart(at time.Duration) { g.at, g.busy, g.work = at, 0, sim.Work{} }

// takeSample updates the GPU from the engine's work since the last sample.
func (g *gpu) takeSample(r *replica, at time.Duration) {
	d := at - g.at
	if d < 500*time.Millisecond {
		return
	}
	s := sim.Stats{Busy: g.busy, Work: g.work}
	if r.up && !r.hung {
		s = r.engine.Stats()
	}
	steps := s.Work.Steps - g.work.Steps
	busy := s.Busy - g.busy - time.Duration(steps)*r.cfg.HostTime
	g.active = min(max(busy.Seconds()/d.Seconds(), 0), 1)
	g.sm = 0
	if steps > 0 {
		batch := float64(s.Work.Tokens-g.work.Tokens) / float64(steps)
		// Decode waits for memory with a warp resident on most SMs.
		g.sm = g.active * (0.75 + 0.2*min(batch/fullBatch, 1))
	}
	g.clock = highestClock
	if g.fault.ClockMHz > 0 {
		g.clock = g.fault.ClockMHz
	}
	speed := g.clock / highestClock
	g.watts = idleWatts + (mostWatts-idleWatts)*(0.35*g.active+0.6*g.sm)*speed
	target := max(idleCelsius+(fullCelsius-idleCelsius)*g.active, g.fault.Temperature)
	g.temperature += (target - g.temperature) * (1 - math.Exp(-d.Seconds()/8))
	g.replays += g.fault.Replays * d.Seconds()
	g.doubleBit = float64(g.fault.DoubleBit)
	g.at, g.busy, g.work = at, s.Busy, s.Work
}

// clockReasons is the bit mask of the reasons for lowered clocks.
func (g *gpu) clockReasons() float64 {
	if g.fault.Reasons == 0 && g.active == 0 {
		return reasonIdle
	}
	return float64(g.fault.Reasons)
}

// makeReading returns the exporter's values for the GPU, from its default list if they concern inference
// (etc/default-counters.csv, 4.x), and SM activity.
func (g *gpu) makeReading() host.Reading {
	n := g.number
	return host.Reading{
		Index: n, UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", n),
		Bus:    fmt.Sprintf("00000000:%02X:00.0", n+1),
		Device: fmt.Sprintf("nvidia%d", n), Model: "NVIDIA A100-SXM4-40GB (imitated)",
		Values: map[string]float64{
			host.SMClock: g.clock, host.Reasons: g.clockReasons(),
			host.Temperature: math.Round(g.temperature), host.Power: g.watts,
			host.Utilization: math.Round(100 * g.active), host.EngineActive: g.active, host.SMActive: g.sm,
			host.MemoryFree: memoryMiB - usedMiB, host.MemoryUsed: usedMiB,
			host.XID: float64(g.fault.XID), host.DoubleBit: g.doubleBit, host.RemapFailure: 0,
			host.LinkErrors: 0, host.PCIeReplays: math.Floor(g.replays),
		},
	}
}

// gpuPage writes the page of the exporter for the host of all replicas.
func gpuPage(replicas []*replica, at time.Duration) []byte {
	var readings []host.Reading
	for _, r := range replicas {
		r.gpu.takeSample(r, at)
		readings = append(readings, r.gpu.makeReading())
	}
	return host.Exposition("fleet", readings)
}
