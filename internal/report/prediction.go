package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/render"
)

// headline lists the quantities of a short prediction. The full text and JSON have all.
var headline = []*indicator.Signal{indicator.TTFTP95, indicator.ITLMean, indicator.E2EMean,
	indicator.GenerationTokenRate, indicator.Preemptions}

// predictionLines describes a fix's prediction: measured and predicted values, the benefit, how well the simulation
// reproduces the present, and caveats.
func predictionLines(p *catalog.Prediction, verbose bool) []string {
	switch {
	case p == nil:
		return nil
	case p.Reason != "" && p.Needs > 0:
		return []string{"No prediction yet: " + render.Sentence(p.Reason) + fmt.Sprintf(" Watch for another %s",
			p.Needs)}
	case p.Reason != "":
		return []string{"No prediction: " + render.Sentence(p.Reason)}
	}
	var parts []string
	for _, e := range p.Effects {
		if verbose || slices.Contains(headline, e.Signal) {
			parts = append(parts, effectText(e))
		}
	}
	lines := []string{"Predicted: " + strings.Join(parts, ", "), benefitText(p)}
	var now []string
	for _, e := range p.Effects {
		if e.Measured.OK && (verbose || e.Signal == indicator.TTFTP95 || e.Signal == indicator.Preemptions) {
			now = append(now, fmt.Sprintf("%s %s (measured %s)", e.Signal.Title, indicator.FormatNumber(e.Before.Value,
				e.Signal.Unit), indicator.Format(e.Measured, e.Signal.Unit)))
		}
	}
	if len(now) > 0 {
		lines = append(lines, "Simulated as it is now: "+strings.Join(now, ", "))
	}
	for _, c := range p.Caveats {
		lines = append(lines, "Caveat: "+c)
	}
	if verbose {
		for _, b := range p.Basis {
			lines = append(lines, "Basis: "+b)
		}
	}
	return lines
}

// benefitText compares a fix with no change, in which latencies may grow further.
func benefitText(p *catalog.Prediction) string {
	text := "Benefit over no change: " + estimated(p.Benefit, indicator.Times)
	if e, ok := p.Effect(indicator.TTFTP95); ok {
		text += fmt.Sprintf("; without it, %s is %s", e.Signal.Title, indicator.FormatNumber(e.Unchanged.Value,
			e.Signal.Unit))
	}
	return text
}

// effectText describes the change of one quantity.
func effectText(e catalog.Effect) string {
	from := indicator.FormatNumber(e.Before.Value, e.Signal.Unit)
	if e.Measured.OK {
		from = indicator.Format(e.Measured, e.Signal.Unit)
	}
	return fmt.Sprintf("%s %s → %s", e.Signal.Title, from, estimated(e.After, e.Signal.Unit))
}

func estimated(e catalog.Estimate, u indicator.Unit) string {
	return render.WithInterval(indicator.FormatNumber(e.Value, u), indicator.FormatNumber(e.Low, u),
		indicator.FormatNumber(e.High, u))
}

// predictionShort returns the latencies that users will feel, and the first caveat. It is "" without a prediction.
func predictionShort(p *catalog.Prediction) string {
	if p == nil || p.Reason != "" {
		return strings.Join(predictionLines(p, false), " ")
	}
	out := "Predicted: " + feltText(p, true) + "."
	if len(p.Caveats) > 0 {
		var kinds []string
		for _, c := range p.Caveats {
			if kind, _, _ := strings.Cut(c, ": "); !slices.Contains(kinds, kind) { // the full text has the numbers
				kinds = append(kinds, kind)
			}
		}
		out += " Caveat: " + strings.Join(kinds, "; ") + "."
	}
	return out
}

// predictionBrief returns a prediction in a few words, "" without one.
func predictionBrief(p *catalog.Prediction) string {
	if p == nil || p.Reason != "" {
		return ""
	}
	return "predicted: " + feltText(p, false)
}

// feltText describes the predicted latencies that users feel, with or without intervals.
func feltText(p *catalog.Prediction, intervals bool) string {
	var parts []string
	for _, s := range []*indicator.Signal{indicator.TTFTP95, indicator.E2EMean} {
		e, ok := p.Effect(s)
		if !ok {
			continue
		}
		if !intervals {
			e.After.Low, e.After.High = e.After.Value, e.After.Value
		}
		parts = append(parts, effectText(e))
	}
	return strings.Join(parts, ", ")
}
