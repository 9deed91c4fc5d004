package fleet

import (
	"fmt"
	"math"
	"time"

	"github.com/sixty-dev/sixty/internal/sim"
)

// gpu is the device under a replica, as NVIDIA's dcgm-exporter shows it. What
// it says of load follows from the engine's steps; clocks, errors and
// temperature limits are set by a scenario, because no simulation has them.
type gpu struct {
	number int
	fault  GPUFault

	at   time.Duration // of the last sample
	busy time.Duration
	work sim.Work
	gpuSample
	replays, doubleBit float64
}

// gpuSample is what changes with the load.
type gpuSample struct {
	active, sm  float64 // 0 to 1
	clock       float64 // MHz
	watts       float64
	temperature float64 // °C
}

// A GPUFault is what a GPU reports of itself.
type GPUFault struct {
	ClockMHz    float64 `yaml:"clock_mhz"` // the SM clock under load; 0 is the highest
	Reasons     int     // bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS
	Temperature float64 // °C that cooling no longer keeps it from; 0 is healthy
	XID         int     // code of the last error
	DoubleBit   int     `yaml:"double_bit"` // uncorrectable memory errors
	Replays     float64 // PCIe retransmissions a second
}

// The device that is imitated: an A100 of 40 GB.
const (
	highestClock = 1410
	memoryClock  = 1215
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

// restart forgets the engine whose counters are gone.
func (g *gpu) restart(at time.Duration) { g.at, g.busy, g.work = at, 0, sim.Work{} }

// sample looks at what the engine did since the last sample.
func (g *gpu) sample(r *replica, at time.Duration) {
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

// reasons is the bit mask of why clocks are not at their highest.
func (g *gpu) reasons() float64 {
	if g.fault.Reasons == 0 && g.active == 0 {
		return reasonIdle
	}
	return float64(g.fault.Reasons)
}

// gpuFamilies are those of dcgm-exporter's default list (etc/default-counters.csv,
// 4.x) that say something about inference, and SM activity.
var gpuFamilies = []struct {
	name, help string
	kind       kind
	value      func(*gpu) float64
}{
	{"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", gauge, func(g *gpu) float64 { return g.clock }},
	{"DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", gauge, func(*gpu) float64 { return memoryClock }},
	{"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", gauge, func(g *gpu) float64 { return math.Round(g.temperature) }},
	{"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", gauge, func(g *gpu) float64 { return g.watts }},
	{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe retries.", counter, func(g *gpu) float64 { return math.Floor(g.replays) }},
	{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", gauge, func(g *gpu) float64 { return math.Round(100 * g.active) }},
	{"DCGM_FI_DEV_XID_ERRORS", "Last XID error.", gauge, func(g *gpu) float64 { return float64(g.fault.XID) }},
	{"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", gauge, func(*gpu) float64 { return memoryMiB - usedMiB }},
	{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", gauge, func(*gpu) float64 { return usedMiB }},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Double-bit memory errors.", counter, func(g *gpu) float64 { return g.doubleBit }},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows failed.", gauge, func(*gpu) float64 { return 0 }},
	{"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "NVLink flit CRC errors.", counter, func(*gpu) float64 { return 0 }},
	{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Why clocks are lowered (bit mask).", gauge, (*gpu).reasons},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Share of time the graphics engine is active.", gauge, func(g *gpu) float64 { return g.active }},
	{"DCGM_FI_PROF_SM_ACTIVE", "Share of cycles in which an SM has a warp resident.", gauge, func(g *gpu) float64 { return g.sm }},
}

// gpuPage writes the page of the exporter on the host that all replicas share.
func gpuPage(replicas []*replica, at time.Duration) []byte {
	for _, r := range replicas {
		r.gpu.sample(r, at)
	}
	var b []byte
	for i := range gpuFamilies {
		f := &gpuFamilies[i]
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, r := range replicas {
			n := r.gpu.number
			b = fmt.Appendf(b, "%s{gpu=\"%d\",UUID=\"GPU-00000000-0000-0000-0000-%012d\",pci_bus_id=\"00000000:%02X:00.0\",device=\"nvidia%d\",modelName=\"NVIDIA A100-SXM4-40GB (imitated)\",Hostname=\"fleet\"} %v\n",
				f.name, n, n, n+1, n, f.value(&r.gpu))
		}
	}
	return b
}
