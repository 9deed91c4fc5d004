package health

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// measured is an hour of two replicas in three parts; the second replica answered in one of them.
func measured(price Price) *measurement {
	m := &measurement{c: Config{Price: price}, step: 20 * time.Minute, steps: 3, answers: map[string]*answer{}}
	put := func(it item, course ...float64) { m.answers[it.key()] = &answer{values: course} }
	put(answering, 1, 2, 1)
	put(item{signal: indicator.PromptTokenRate}, 1000, 2000, 1000)
	put(item{signal: indicator.GenerationTokenRate}, 250, 500, 250)
	return m
}

func TestCost(t *testing.T) {
	m := measured(Price{GPU: "H100 SXM", PerHour: 3, From: "--price", GPUs: 2})
	c := m.newCost()
	// Four thirds of an hour of a replica with two GPUs; 1250 tokens a second of each in that time.
	for what, x := range map[string]struct{ got, want float64 }{
		"GPU hours":             {*c.GPUHours, 8.0 / 3},
		"dollars":               {*c.Dollars, 8},
		"tokens":                {*c.Tokens, 6e6},
		"output":                {*c.OutputTokens, 1.2e6},
		"per million":           {*c.PerMillion, 8.0 / 6},
		"per million of output": {*c.PerMillionOutput, 8 / 1.2},
	} {
		if math.Abs(x.got-x.want) > 1e-9*x.want {
			t.Errorf("%s: %g, want %g", what, x.got, x.want)
		}
	}
	if text := c.Text(); !strings.Contains(text, "$1.33 per million tokens") {
		t.Error(text)
	}
}

func TestCostThatIsNotKnown(t *testing.T) {
	if c := measured(Price{}).newCost(); c.PerMillion != nil || !strings.Contains(c.Reason, "--price") ||
		c.Text() != "" {
		t.Errorf("without a price: %+v, %q", c, c.Text())
	}
	m := measured(Price{PerHour: 3, GPUs: 1})
	m.answers[answering.key()] = &answer{problem: "not measured"}
	if c := m.newCost(); c.Dollars != nil || !strings.Contains(c.Reason, "up is not measured") {
		t.Errorf("without up: %+v", c)
	}
	m = measured(Price{PerHour: 3, GPUs: 1})
	m.answers[indicator.GenerationTokenRate.Name] = &answer{problem: "not measured"}
	if c := m.newCost(); c.PerMillion != nil || c.Dollars == nil || !strings.Contains(c.Reason, "no tokens") {
		t.Errorf("without tokens: %+v", c)
	}
}
