package burnrate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

func TestPlaceOn(t *testing.T) {
	const ms = time.Millisecond
	edges := []float64{math.Inf(1), 1, .25, .5, .75, .75, 2.5}
	for name, tt := range map[string]struct {
		target, want time.Duration
		moved        string
	}{
		"an edge":                         {500 * ms, 500 * ms, ""},
		"nearer the lower edge":           {550 * ms, 500 * ms, "50ms stricter"},
		"nearer the upper edge":           {800 * ms, 750 * ms, "50ms stricter"},
		"looser":                          {900 * ms, 1000 * ms, "100ms looser"},
		"below all edges":                 {200 * ms, 250 * ms, "50ms looser"},
		"above all edges":                 {4 * time.Second, 2500 * ms, "1.5s stricter"},
		"just past halfway in proportion": {1581139 * time.Microsecond, 2500 * ms, "looser"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := placeTarget(tt.target, edges)
			must.Succeed(t, err)
			if got.edge != tt.want || !strings.Contains(got.moved, tt.moved) || (tt.moved == "") != (got.moved == "") {
				t.Errorf("%s is counted at %s: %q", tt.target, got.edge, got.moved)
			}
		})
	}
}

func TestATargetWithNoEdgeNearIsRefused(t *testing.T) {
	for target, edges := range map[time.Duration][]float64{
		100 * time.Millisecond: {.3, .5, 1},
		time.Minute:            {.3, 5, 10},
		time.Second:            {math.Inf(1)},
	} {
		_, err := placeTarget(target, edges)
		if err == nil || hint.Of(err) == "" {
			t.Errorf("%s among %v: %v, try: %q", target, edges, err, hint.Of(err))
		}
	}
}

func TestNoEdgeIsNearerThanTheOneChosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edges := rapid.SliceOfN(rapid.Float64Range(0.001, 100), 1, 30).Draw(t, "edges")
		target := time.Duration(rapid.Int64Range(1e6, 1e11).Draw(t, "target"))
		p, err := placeTarget(target, edges)
		if err != nil {
			for _, e := range edges {
				if r := e / target.Seconds(); r > 0.51 && r < 1.99 {
					t.Errorf("%g is near %s, but %v", e, target, err)
				}
			}
			return
		}
		if (p.moved == "") != (p.edge == target) {
			t.Errorf("%s to %s: %q", target, p.edge, p.moved)
		}
		for _, e := range edges {
			if distanceBetween(e, target.Seconds()) < distanceBetween(p.edge.Seconds(), target.Seconds())-1e-6 {
				t.Errorf("%s is counted at %s, but %g is nearer", target, p.edge, e)
			}
		}
	})
}

func TestTheUseCasesFitVLLMsBuckets(t *testing.T) {
	for _, name := range slo.UseCases() {
		o, err := slo.ForUseCase(name)
		must.Succeed(t, err)
		if _, err := Groups(Config{Objectives: []slo.Objective{o}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommonEdges(t *testing.T) {
	got := CommonEdges([]float64{1, .5, 2, math.Inf(1)}, []float64{.5, 2, 4}, []float64{2, .5})
	must.Equal(t, []float64{.5, 2}, got)
	if got := CommonEdges(); got != nil {
		t.Errorf("no server has %v", got)
	}
}

func TestAnEdgeIsFoundHoweverItIsWritten(t *testing.T) {
	for edge, forms := range map[float64][]string{
		1: {"1", "1.0"}, .5: {"0.5"}, 2560: {"2560", "2560.0"}, .001: {"0.001"}, 1e6: {"1000000", "1000000.0", "1e+06"}, 1e-5: {"1e-05", "0.00001"},
	} {
		m := edgeMatcher(edge)
		for _, form := range forms {
			if !m.Matches(form) {
				t.Errorf("%s does not match %s", m, form)
			}
		}
		if m.Matches("10") || m.Matches("1x0") || m.Matches("0x5") {
			t.Errorf("%s matches another edge", m)
		}
	}
}

func TestEdgesOf(t *testing.T) {
	answer := model.Vector{}
	for _, e := range []struct{ instance, le string }{{"a", "0.5"}, {"a", "1.0"}, {"a", "+Inf"}, {"b", "+Inf"}, {"b", "1"}, {"b", "2"}, {"b", "?"}} {
		answer = append(answer, &model.Sample{Metric: model.Metric{"instance": model.LabelValue(e.instance), "le": model.LabelValue(e.le)}})
	}
	must.Equal(t, []float64{1}, EdgesOf(answer))
	if got := EdgesOf(nil); got != nil {
		t.Errorf("nothing has edges at %v", got)
	}
}

// TestUsualEdgesOfSeveralEngines: vLLM and SGLang in one fleet have their common edges.
func TestUsualEdgesOfSeveralEngines(t *testing.T) {
	canonical := func(n string) string { return n }
	c := Config{Metrics: []func(string) string{canonical, func(n string) string { return strings.Replace(n, "vllm:", "sglang:", 1) }}}
	for family, want := range map[string][]float64{
		"vllm:time_to_first_token_seconds": {.1, 1, 10, 20, 40, 80},
		"vllm:inter_token_latency_seconds": {.01, .025, .1, .2, .4, 1},
		"vllm:e2e_request_latency_seconds": {.8, 1, 2, 10, 20, 40, 60},
	} {
		got, known := c.usualEdges(family)
		if diff := cmp.Diff(want, got); !known || diff != "" {
			t.Errorf("edges of %s, known %v, -want +got:\n%s", family, known, diff)
		}
	}
	if _, known := c.usualEdges("vllm:request_success_total"); known {
		t.Error("edges of a counter")
	}
}
