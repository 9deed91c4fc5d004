package diagnose

import (
	"math"
	"slices"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
)

// TestDeployment recognises prefill and decode servers by the KV caches that they receive, or by
// their job, and puts a finding to the hop that it is about.
func TestDeployment(t *testing.T) {
	server := func(instance, job string) identity.Target {
		return identity.Target{Name: instance, Dialect: dialect.Dialect{Engine: dialect.VLLM}, Labels: map[string]string{"instance": instance, "job": job}}
	}
	s := newSnapshot([]identity.Target{
		server("d:8000", "vllm"), server("p:8000", "vllm"), server("q:8000", "llm-d-prefill"),
		{Name: "epp:9090", Dialect: dialect.Dialect{Engine: dialect.Gateway}, Labels: map[string]string{"instance": "epp:9090"}},
	})
	set := func(i int, now map[*indicator.Signal]float64) {
		for sig, v := range now {
			*s.readings[i].of(sig) = reading{now: indicator.Known(v)}
		}
	}
	set(0, map[*indicator.Signal]float64{
		indicator.TransfersPerRequest: 1, indicator.OutputTokens: 100, indicator.Waiting: 3, indicator.TTFTMean: 0.5, indicator.FirstTokenRate: 2,
		indicator.TransferTime: 0.3, indicator.TransferFailShare: 0.25,
	})
	set(1, map[*indicator.Signal]float64{
		indicator.TransfersPerRequest: 0, indicator.OutputTokens: 1, indicator.TTFTMean: 0.1, indicator.FirstTokenRate: 3, indicator.Waiting: 1,
	})
	set(2, map[*indicator.Signal]float64{indicator.TTFTMean: 0.2, indicator.FirstTokenRate: 1})
	failing := &catalog.Pathology{ID: "kv-transfer-failing", Hop: catalog.HopTransfer}
	d := &Diagnosis{
		Targets:  slices.Clone(s.Targets),
		Verdicts: []Verdict{{ID: failing.ID, Status: Firing, All: []string{"d:8000", "p:8000", "q:8000"}}},
		Findings: []Finding{
			{Pathology: failing, Status: Firing, Targets: []string{"d:8000"}},
			{Pathology: &catalog.Pathology{ID: "target-down"}, Status: Firing, Targets: []string{"q:8000"}},
		},
	}
	d.Targets[2].Life = identity.LifeLost
	d.Deployments = findDeployments(s, d)
	if len(d.Deployments) != 1 {
		t.Fatalf("%d deployments, want 1", len(d.Deployments))
	}
	w := d.Deployments[0]
	var got []engine.Role
	for _, st := range w.Stages {
		got = append(got, st.Role)
	}
	if !slices.Equal(got, []engine.Role{engine.Router, engine.Prefill, engine.Decode}) {
		t.Fatalf("stages %v, want router, prefill and decode", got)
	}
	prefill, link := w.Stages[1], w.Links[1]
	if !slices.Equal(prefill.Targets, []string{"p:8000", "q:8000"}) || prefill.Lost != 1 || prefill.Waiting != 1 || math.Abs(prefill.Seconds-0.125) > 1e-9 {
		t.Errorf("prefill stage %+v", prefill)
	}
	if !slices.Equal(prefill.Found, []string{"target-down"}) || link.Carries != "KV cache" || link.Seconds != 0.3 || link.FailShare != 0.25 || !slices.Equal(link.Found, []string{failing.ID}) {
		t.Errorf("found %v on prefill, link %+v", prefill.Found, link)
	}
	if math.Abs(w.FirstToken-0.625) > 1e-9 {
		t.Errorf("first token after %v s, want 0.125 + 0.5", w.FirstToken)
	}
	if hop := d.Hop(&d.Verdicts[0]); hop != "KV cache from prefill to decode" {
		t.Errorf("hop %q", hop)
	}
	s.Targets, d.Verdicts[0].All = s.Targets[:1], []string{"d:8000"}
	if one := findDeployments(s, d); len(one) > 0 {
		t.Errorf("a single role is a deployment: %+v", one)
	}
}
