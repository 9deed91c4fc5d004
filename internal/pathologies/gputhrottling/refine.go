package gputhrottling

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// lowered is the ratio to the highest clock below which a clock counts as lowered. Above it, differences are jitter.
const lowered = 0.97

const verify = "under load the SM clock is at the GPU's rated clock, and no throttle reason is set"

func refineFinding(p *catalog.Pass) {
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
		p.Summary += ": the SM clock is at " + indicator.FormatNumber(ratio, indicator.Ratio) + " of the highest seen"
		p.Reason("Prefill is bound by computation and takes about %s as long (1 / %s). Decode is bound by memory "+
			"bandwidth and suffers less.", indicator.FormatNumber(1/ratio, indicator.Times), catalog.Digits(ratio))
	default:
		p.Summary = "The driver reports that the GPU lowers its clocks" + because
		clock := "the SM clock"
		if mhz, ok := p.Measured(indicator.SMClock); ok {
			clock = "the SM clock, " + indicator.FormatNumber(mhz, indicator.Megahertz) + ","
		}
		p.Reason("By how much is not known: %s did not change while it was watched, so the throttling began earlier. "+
			"Compare with the GPU's rated clock (nvidia-smi --query-gpu=clocks.sm,clocks.max.sm --format=csv).", clock)
	}
	p.Observe("The GPU", indicator.GPUTemp, indicator.GPUPower, indicator.SMClock)
	p.Observe("What users notice", indicator.ITLP50, indicator.TTFTP50)
	if capped {
		p.Reason("A software power cap at full load is normal and costs little.")
	}
	addFixes(p, hot, brake, capped)
}

func addFixes(p *catalog.Pass, hot, brake, capped bool) {
	less := "Send this replica less traffic until its clocks are back"
	if ratio, ok := p.Measured(indicator.SMClockRatio); ok && ratio < lowered {
		less = fmt.Sprintf("Give this replica %s of its weight at the load balancer, as its clocks are",
			indicator.FormatNumber(ratio, indicator.Ratio))
	}
	p.Reroute(less, "TTFT and ITL of this replica return to normal")
	if hot {
		p.Fix(catalog.Fix{
			Summary:  "Cool the GPU: check fans, dust, inlet temperature and neighbours in the rack",
			Command:  "nvidia-smi -q -d TEMPERATURE,PERFORMANCE",
			Tradeoff: "none",
			Verify:   "GPU temperature falls, and there is no thermal slowdown; " + verify,
		})
	}
	if brake {
		p.Fix(catalog.Fix{
			Summary:  "Check the power supply: PSUs, cables, the rack's power limit, the board's external power brake",
			Command:  "nvidia-smi -q -d PERFORMANCE,POWER",
			Tradeoff: "none",
			Verify:   "no hardware slowdown or power brake; " + verify,
		})
	}
	if hot || brake {
		return
	}
	arithmetic := []string(nil)
	if w, ok := p.Measured(indicator.GPUPower); ok && capped {
		arithmetic = []string{
			fmt.Sprintf("it draws %s (%s) at its cap", indicator.FormatNumber(w, indicator.Watts),
				indicator.GPUPower.Title),
		}
	}
	p.Fix(catalog.Fix{
		Summary: "Check for a lowered power limit (nvidia-smi -pl sets it) and for locked clocks " +
			"(nvidia-smi -rgc resets them)",
		Command:    "nvidia-smi -q -d POWER,CLOCK",
		Arithmetic: arithmetic,
		Tradeoff:   "more power and heat",
		Verify:     verify,
	})
}
