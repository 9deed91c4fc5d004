// Package amd is what is known of AMD's device-metrics-exporter, of its names as
// docs/configuration/metricslist.md of ROCm/device-metrics-exporter lists them: there in capitals, on the
// page in small letters. No page of a real exporter was compared with it yet.
package amd

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the exporter.
const ID engine.ID = "amd"

// Engine is the exporter: no engine, but found and asked like one. No rules or panels are made in its
// names, so that none can be named without a page at hand.
var Engine = engine.Engine{
	ID: ID, Alerts: "GPU", Selector: "(amd_)?(" + strings.Join(names, "|") + ")",
	Detect:       detect,
	ReleaseNames: func(string) ([]string, string, error) { return nil, "", nil },
}

// The names that are read. Which of them are on a page depends on the GPU and on the exporter's
// configuration: of MI200 the power is an average, and the temperature that of the edge; the share of time
// in which a limit held the clocks down is known of MI300 alone.
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

// detect finds the exporter's page. Its configuration may put something before the names; amd_ is that of
// the example.
func detect(has map[string]bool) (engine.Naming, bool) {
	for _, prefix := range []string{"", "amd_"} {
		if has[prefix+activity] || has[prefix+used] {
			return naming(prefix, has), true
		}
	}
	return engine.Naming{}, false
}

func naming(prefix string, has map[string]bool) engine.Naming {
	first := func(names ...string) string { // of those that the page has
		for _, n := range names {
			if has[prefix+n] {
				return prefix + n
			}
		}
		return prefix + names[0]
	}
	// fastest is the compute clock of each GPU: that of its fastest die.
	fastest := func(of indicator.Samples) indicator.Expr {
		of.Where = append(of.Where, indicator.Is("clock_type", "GPU_CLOCK_TYPE_SYSTEM"))
		return indicator.Max(of).By(indicator.Own, "hostname", "gpu_id")
	}
	// held is 1 while a limit held the clocks down for any time at the last scrape.
	held := func(name string) indicator.Expr {
		return indicator.Test(indicator.Max(indicator.Last(prefix+name).In(indicator.ShortMark)), ">", indicator.Number(0))
	}
	now := fastest(indicator.Mean(prefix + clock))
	exprs := map[*indicator.Signal]indicator.Expr{
		indicator.GPUUtil:       indicator.Div(indicator.Avg(indicator.Mean(prefix+activity)), indicator.Number(100)),
		indicator.GPUMemoryUsed: indicator.Max(indicator.Div(indicator.Mean(prefix+used), indicator.Mean(prefix+whole))),
		indicator.GPUMemGrowth: indicator.Mul(
			indicator.Max(indicator.Slope(prefix+used).In(indicator.PastMark)), indicator.Number(1<<20)),
		indicator.GPUPower: indicator.Max(indicator.Mean(first(power, averagePower))),
		indicator.GPUTemp:  indicator.Max(indicator.Highest(first(junction, edge))),
		indicator.SMClock:  indicator.Min(now),
		indicator.SMClockRatio: indicator.Min(indicator.Div(
			now, fastest(indicator.Highest(prefix+clock).In(indicator.PastMark)))),
		indicator.ThermalReason:  indicator.Add(indicator.Add(held(socketHot), held(voltageHot)), held(memoryHot)),
		indicator.PowerReason:    held(boardHot),
		indicator.PowerCapReason: held(powerCap),
		indicator.ECCErrors:      indicator.Max(indicator.Increase(prefix + uncorrected).In(indicator.PastMark)),
		indicator.PCIeReplays:    indicator.Max(indicator.Rate(prefix + replays)),
	}
	n := engine.Naming{ID: string(ID), Exprs: map[string]indicator.Expr{}, Lacks: map[string]string{
		indicator.XID.Name: "XID errors, which are NVIDIA's", indicator.XIDChanges.Name: "XID errors, which are NVIDIA's",
		indicator.RemapFailures.Name: "remapped rows, which are NVIDIA's", indicator.NVLinkErrors.Name: "NVLink, which is NVIDIA's",
		indicator.SMActive.Name: "the activity of SMs, which are NVIDIA's", indicator.EngineActive.Name: "DCGM's profiling, which is NVIDIA's",
	}}
	for s, e := range exprs {
		n.Exprs[s.Name] = e
	}
	return n
}
