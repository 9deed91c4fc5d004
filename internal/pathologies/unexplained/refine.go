package unexplained

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "TTFT P95 and ITL are back to normal and within the objectives"

// felt are the signals that users feel, with their limits.
var felt = []struct {
	signal, tail, half *indicator.Signal // P95, P90 and P50, or the nearest that there is
	objective          *catalog.Threshold
	worse              *catalog.Threshold // against normal
}{
	{indicator.TTFTP95, indicator.TTFTP90, indicator.TTFTP50, catalog.TTFTObjective, tailWorse},
	{indicator.ITLP95, indicator.ITLMean, indicator.ITLP50, catalog.ITLObjective, streamWorse},
	{indicator.E2EP95, indicator.E2EP95, indicator.E2EP50, catalog.E2EObjective, nil},
	{indicator.TPOTMean, indicator.TPOTMean, indicator.TPOTMean, nil, answerWorse},
}

func refineFinding(p *catalog.Pass) {
	missed := findBrokenObjective(p)
	slower, who := findWorse(p)
	if n, ok := p.Measured(indicator.FirstTokens); ok && who != "" {
		p.Reason("It affects %s (%s in the window).", who, catalog.Requests(n))
	}
	var parts []string
	for _, part := range []string{missed, slower} {
		if part != "" && (len(parts) == 0 || !strings.HasPrefix(part, strings.SplitN(parts[0], " is ", 2)[0])) {
			parts = append(parts, part)
		}
	}
	if len(parts) > 0 {
		p.Summary = strings.Join(parts, "; ") + "; no known cause fits"
	}
	p.Observe("Where the time goes, of finished requests, as far as the engine reports", indicator.TTFTMean,
		indicator.QueueTimeMean, indicator.PrefillTimeMean, indicator.UnseenWait, indicator.TPOTMean)
	addReason(p, "Ruled out: %s.", p.RuledOut)
	addReason(p, "Suspected, but not certain yet: %s.", p.Suspected)
	addReason(p, "Not checked: %s; the report says what to enable.", p.Unseen)
	if !p.HasHistory() {
		p.Reason("No past to compare with: --baseline or --prometheus shows whether it was ever better.")
	}
	p.Reroute(catalog.Drain+", or lower its weight there", verify)
	p.Fix(catalog.Fix{
		Summary: "Check what no metric here counts: the log since then (KV connector and its transfers, tools, " +
			"images, grammars, adapters, retries), the last change of model, release or flags, and a gateway's " +
			"view of the same requests",
		Command:  "grep -iE 'error|warn|timeout|transfer|connector' vllm.log | tail -50",
		Tradeoff: "none",
		Verify:   verify,
	})
	p.Fix(catalog.Fix{
		Summary: "Measure where the time goes: sixty profile capture shows what the GPU waits for, sixty bench with " +
			"one fixed request whether the server or the traffic changed",
		Tradeoff: "a profile slows the server while it is taken",
		Verify:   verify,
	})
}

// findBrokenObjective describes the first objective that is not met, or returns "".
func findBrokenObjective(p *catalog.Pass) string {
	for _, f := range felt {
		if f.objective == nil {
			continue
		}
		breached, evidence := catalog.Breached(f.signal, f.objective).Eval(p)
		if e := evidence[0]; breached == catalog.True {
			return fmt.Sprintf("%s is %s, over the objective of %s (%s)", f.signal.Title,
				indicator.Format(e.Value, f.signal.Unit), indicator.FormatNumber(e.Threshold, f.signal.Unit), e.Source)
		}
	}
	return ""
}

// findWorse describes the first signal that is worse than normal, and how many requests it affects.
func findWorse(p *catalog.Pass) (what, who string) {
	above := func(s *indicator.Signal, t *catalog.Threshold) bool {
		truth, _ := catalog.Above(s, t).Eval(p)
		return truth == catalog.True
	}
	for _, f := range felt {
		if f.worse == nil {
			continue
		}
		half := above(f.half, f.worse) || f.half == indicator.TTFTP50 && above(f.half, medianWorse)
		if !half && !above(f.tail, f.worse) {
			continue
		}
		who = "one request in ten, or more"
		if half {
			who = "every second request, or more"
		}
		return f.signal.Title + " is " + p.Text(f.signal), who
	}
	return "", ""
}

func addReason(p *catalog.Pass, format string, ids []string) {
	if len(ids) > 0 {
		p.Reason(format, strings.Join(ids, ", "))
	}
}
