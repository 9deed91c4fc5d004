package pathologies_test

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// literalReadings maps signals to values; missing signals are unknown.
type literalReadings map[*indicator.Signal]float64

// A literalView is a catalog.View made of literals.
type literalView struct {
	Present, Past literalReadings
	Limits        map[string]float64 // by the threshold's name
}

// Now implements catalog.View.
func (v literalView) Now(s *indicator.Signal) indicator.Value { return v.Present.value(s) }

// Normal implements catalog.View.
func (v literalView) Normal(s *indicator.Signal) indicator.Value { return v.Past.value(s) }

// HasHistory implements catalog.View.
func (v literalView) HasHistory() bool { return v.Past != nil }

// MayHoldFault implements catalog.View.
func (v literalView) MayHoldFault() bool { return false }

// Peers implements catalog.View.
func (v literalView) Peers() (catalog.View, bool) { return nil, false }

// Limit implements catalog.View.
func (v literalView) Limit(t *catalog.Threshold) (float64, string, bool) {
	limit, ok := v.Limits[t.Name]
	return limit, "slo", ok
}

func (r literalReadings) value(s *indicator.Signal) indicator.Value {
	if v, ok := r[s]; ok {
		return indicator.Known(v)
	}
	return indicator.Unknown("not set")
}

// refineOf runs the pathology's Refine on the view, with the server's arguments as on its command line. Facts of the
// cache, which are no flags, are written the same way: "--num-gpu-blocks 100".
func refineOf(t *testing.T, p *catalog.Pathology, v catalog.View, args string) *catalog.Pass {
	t.Helper()
	pass := &catalog.Pass{View: v, Replicas: func(*indicator.Signal) map[string]float64 { return nil },
		Config: engine.ParseArgs(args, "--engine-args"), Flags: vllm.Engine.Flags, Summary: p.Title}
	pass.Parts = func(*indicator.Signal) map[string]float64 { return map[string]float64{"a": 1, "b": 1} }
	p.Refine(pass)
	for _, bad := range []string{"NaN", "Inf", "unknown (", "%!"} {
		if text := textOf(pass); strings.Contains(text, bad) {
			t.Errorf("the explanation contains %q, so a number is not known:\n%s", bad, text)
		}
	}
	return pass
}

// textOf returns all that Refine wrote, line by line.
func textOf(p *catalog.Pass) string {
	lines := append([]string{p.Summary}, p.Reasons...)
	for _, f := range p.Fixes {
		lines = append(lines, "fix: "+f.Summary)
		for _, c := range f.Changes {
			lines = append(lines, "change: "+c.Flag+" "+c.From+"→"+c.To)
		}
		lines = append(lines, f.Arithmetic...)
		lines = append(lines, "costs: "+f.Tradeoff, "verify: "+f.Verify)
	}
	return strings.Join(lines, "\n")
}
