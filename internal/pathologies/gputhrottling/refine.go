package gputhrottling

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// lowered is a clock that is lower than it was seen to be, beyond its jitter.
const lowered = 0.97

const verify = "gpu_sm_clock under load is at the GPU's rated clock, and no throttle reason is set"

func refine(p *catalog.Pass) {
	var why []string
	_, hot := p.Measured(indicator.ThermalReason)
	_, brake := p.Measured(indicator.PowerReason)
	_, capped := p.Measured(indicator.PowerCapReason)
	if hot {
		why = append(why, "temperature")
	}
	if brake {
		why = append(why, "a hardware slowdown or power brake")
	}
	if capped && len(why) == 0 {
		why = append(why, "the software power cap")
	}
	because := ""
	if len(why) > 0 {
		because = " because of " + strings.Join(why, " and ")
	}
	p.Summary = "The GPU lowers its clocks" + because
	ratio, known := p.Measured(indicator.SMClockRatio)
	switch {
	case !known:
	case ratio < lowered:
		p.Summary += ": the SM clock is at " + indicator.FormatNumber(ratio, indicator.Ratio) + " of the highest that was seen"
		p.Reason("Prefill, which is bound by computation, then takes about %s as long (1 / %s); decode, bound by memory bandwidth, somewhat less.", indicator.FormatNumber(1/ratio, indicator.Times), catalog.Digits(ratio))
	default:
		p.Summary = "The driver says that the GPU lowers its clocks" + because
		clock := "the SM clock"
		if mhz, ok := p.Measured(indicator.SMClock); ok {
			clock = "the SM clock, " + indicator.FormatNumber(mhz, indicator.Megahertz) + ","
		}
		p.Reason("By how much cannot be told: %s did not change while it was watched, so the throttling began before. Compare with the GPU's rated clock (nvidia-smi --query-gpu=clocks.sm,clocks.max.sm --format=csv).", clock)
	}
	p.Observe("The GPU", indicator.GPUTemp, indicator.GPUPower, indicator.SMClock)
	p.Observe("What users feel of it", indicator.ITLP50, indicator.TTFTP50)
	if capped {
		p.Reason("A software power cap at full load is normal and costs little; that it is set is no fault in itself.")
	}
	fixes(p, hot, brake, capped)
}

func fixes(p *catalog.Pass, hot, brake, capped bool) {
	if hot {
		p.Fix(catalog.Fix{
			Summary:  "Cool it: fans, dust, inlet temperature, neighbours in the rack; move load away until then",
			Tradeoff: "the other replicas carry its load",
			Verify:   "gpu_temperature falls and gpu_thermal_throttle is 0; " + verify,
		})
	}
	if brake {
		p.Fix(catalog.Fix{
			Summary:  "Check the power supply: PSUs, cables, the rack's power limit, the board's external power brake (nvidia-smi -q -d PERFORMANCE,POWER)",
			Tradeoff: "none",
			Verify:   "gpu_power_brake is 0; " + verify,
		})
	}
	if hot || brake {
		return
	}
	arithmetic := []string(nil)
	if w, ok := p.Measured(indicator.GPUPower); ok && capped {
		arithmetic = []string{fmt.Sprintf("it draws %s (%s) at its cap", indicator.FormatNumber(w, indicator.Watts), indicator.GPUPower.Name)}
	}
	p.Fix(catalog.Fix{
		Summary:    "Check for a lowered power limit (nvidia-smi -q -d POWER; nvidia-smi -pl sets it) and locked clocks (nvidia-smi -rgc resets them)",
		Arithmetic: arithmetic,
		Tradeoff:   "more power and heat",
		Verify:     verify,
	})
}
