// Package amd describes AMD's device-metrics-exporter. The names come from docs/configuration/metricslist.md in
// ROCm/device-metrics-exporter, in lower case. They have not been compared with a real page yet.
package amd

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the exporter.
const ID engine.ID = "amd"

// Engine is the exporter: no engine, but detected and queried like one. No rules or panels are generated in its names,
// because only its page shows which names it has.
var Engine = engine.Engine{
	ID: ID, Alerts: "GPU", Selector: "(amd_)?(" + strings.Join(names, "|") + ")",
	Detect:       detectPage,
	ReleaseNames: func(string) ([]string, string, error) { return nil, "", nil },
}

// Names of metrics. The GPU and the exporter's configuration decide which of them a page has: MI200 has average power
// and edge temperature; only MI300 has the time during which a limit held the clocks down.
const (
	activity     = "gpu_gfx_activity" // percent
	used, whole  = "gpu_used_vram", "gpu_total_vram"
	clock        = "gpu_clock" // MHz, of several clocks, and of each die
	power        = "gpu_package_power"
	averagePower = "gpu_average_package_power"
	junction     = "gpu_junction_temperature"
	edge         = "gpu_edge_temperature"
	uncorrected  = "gpu_ecc_uncorrect_total"
	replays      = "pcie_replay_count"

	boardHot   = "gpu_violation_processor_hot_residency_percentage"
	powerCap   = "gpu_violation_ppt_residency_percentage"
	socketHot  = "gpu_violation_socket_thermal_residency_percentage"
	voltageHot = "gpu_violation_vr_thermal_residency_percentage"
	memoryHot  = "gpu_violation_hbm_thermal_residency_percentage"
)

var names = []string{
	activity, used, whole, clock, power, averagePower, junction, edge, uncorrected, replays, boardHot, powerCap, socketHot, voltageHot, memoryHot,
}

// detectPage recognizes the exporter's page. Its configuration may add a prefix, such as the example's amd_.
func detectPage(has map[string]bool) (engine.Naming, bool) {
	for _, prefix := range []string{"", "amd_"} {
		if has[prefix+activity] || has[prefix+used] {
			return namePage(prefix, has), true
		}
	}
	return engine.Naming{}, false
}

func namePage(prefix string, has map[string]bool) engine.Naming {
	first := func(names ...string) string { // the first name that the page has
		for _, n := range names {
			if has[prefix+n] {
				return prefix + n
			}
		}
		return prefix + names[0]
	}
	// fastest returns each GPU's compute clock: the clock of its fastest die.
	fastest := func(of indicator.Samples) indicator.Expr {
		of.Where = append(of.Where, indicator.Is("clock_type", "GPU_CLOCK_TYPE_SYSTEM"))
		return indicator.Max(of).By(indicator.Own, "hostname", "gpu_id")
	}
	// held returns 1 if a limit held the clocks down at all, by the last scrape.
	held := func(name string) indicator.Expr {
		return indicator.Test(indicator.Max(indicator.Last(prefix+name).In(indicator.ShortMark)), ">", indicator.Number(0))
	}
	now := fastest(indicator.Mean(prefix + clock))
	exprs := map[string]indicator.Expr{
		indicator.GPUUtil.Name:       indicator.Div(indicator.Avg(indicator.Mean(prefix+activity)), indicator.Number(100)),
		indicator.GPUMemoryUsed.Name: indicator.Max(indicator.Div(indicator.Mean(prefix+used), indicator.Mean(prefix+whole))),
		indicator.GPUMemGrowth.Name: indicator.Mul(
			indicator.Max(indicator.Slope(prefix+used).In(indicator.PastMark)), indicator.Number(1<<20)),
		indicator.GPUPower.Name: indicator.Max(indicator.Mean(first(power, averagePower))),
		indicator.GPUTemp.Name:  indicator.Max(indicator.Highest(first(junction, edge))),
		indicator.SMClock.Name:  indicator.Min(now),
		indicator.SMClockRatio.Name: indicator.Min(indicator.Div(
			now, fastest(indicator.Highest(prefix+clock).In(indicator.PastMark)))),
		indicator.ThermalReason.Name:  indicator.Add(indicator.Add(held(socketHot), held(voltageHot)), held(memoryHot)),
		indicator.PowerReason.Name:    held(boardHot),
		indicator.PowerCapReason.Name: held(powerCap),
		indicator.ECCErrors.Name:      indicator.Max(indicator.Increase(prefix + uncorrected).In(indicator.PastMark)),
		indicator.PCIeReplays.Name:    indicator.Max(indicator.Rate(prefix + replays)),
	}
	return engine.Naming{ID: string(ID), Exprs: exprs, Lacks: map[string]string{
		indicator.XID.Name: "XID errors, which are NVIDIA's", indicator.XIDChanges.Name: "XID errors, which are NVIDIA's",
		indicator.RemapFailures.Name: "remapped rows, which are NVIDIA's", indicator.NVLinkErrors.Name: "NVLink, which is NVIDIA's",
		indicator.SMActive.Name: "the activity of SMs, which are NVIDIA's", indicator.EngineActive.Name: "DCGM's profiling, which is NVIDIA's",
	}}
}
