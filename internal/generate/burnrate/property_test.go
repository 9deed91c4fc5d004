package burnrate

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// TestEveryGroupIsValid renders objectives of all kinds. Prometheus must read all groups that are not refused, and no
// two alerts or recorded series may collide.
func TestEveryGroupIsValid(t *testing.T) {
	pattern := rapid.SampledFrom([]string{"", "*", "a", "b*", "meta-llama/?[a-c]", `x"\\y`, "ü {{ .Labels }}"})
	target := rapid.SampledFrom([]time.Duration{0, 0, 300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second})
	percentile := rapid.Custom(func(t *rapid.T) slo.Percentile {
		return slo.Percentile{Share: rapid.SampledFrom([]float64{0.5, 0.9, 0.99, 0.9999}).Draw(t, "share"), Target: target.Draw(t, "target")}
	})
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			Period:   time.Duration(rapid.IntRange(7, 92).Draw(rt, "days")) * day,
			Interval: time.Duration(rapid.IntRange(1, 150).Draw(rt, "interval")) * time.Second,
			Runbook:  rapid.SampledFrom([]string{"", "https://example.com"}).Draw(rt, "runbook"),
			Matchers: rapid.SampledFrom([][]*labels.Matcher{nil, {labels.MustNewMatcher(labels.MatchNotEqual, "job", "x")}}).Draw(rt, "matchers"),
		}
		cfg.Objectives = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) slo.Objective {
			return slo.Objective{
				Name: pattern.Draw(t, "name"), Model: pattern.Draw(t, "model"), Namespace: pattern.Draw(t, "namespace"), Service: pattern.Draw(t, "service"),
				TTFTP95: target.Draw(t, "ttft"), ITLP95: target.Draw(t, "itl"), TTFT: percentile.Draw(t, "further"), E2E: percentile.Draw(t, "e2e"),
				Availability: rapid.SampledFrom([]float64{0, 0.9, 0.999, 0.99999}).Draw(t, "availability"),
			}
		}), 1, 4).Draw(rt, "objectives")
		r, err := Groups(cfg)
		if err != nil {
			if len(r.Groups) > 0 {
				rt.Errorf("%v, and half of the rules", err)
			}
			return
		}
		accepted++
		groups := parsed(rt, r.Groups) // names of groups are unique, or this fails
		seen := map[string]bool{}
		for _, g := range groups {
			for _, rule := range g.Rules {
				key := rule.Record + rule.Alert + labels.FromMap(rule.Labels).String()
				if seen[key] {
					rt.Errorf("two rules %s", key)
				}
				seen[key] = true
			}
		}
	})
	least := 20
	if testing.Short() {
		least = 4 // rapid makes a fifth of the checks
	}
	if accepted < least {
		t.Errorf("only %d sets of objectives were not refused", accepted)
	}
}
