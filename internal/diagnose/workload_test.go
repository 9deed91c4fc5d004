package diagnose

import (
	"math"
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// comparison compares one target's readings with what was normal.
func comparison(readings map[*indicator.Signal][2]float64) Workload {
	s := newSnapshot([]identity.Target{{Name: "a"}})
	s.Spans[0].Source = segments.FromHistory
	for sig, v := range readings {
		*s.readings[0].of(sig) = reading{normal: indicator.Known(v[0]), now: indicator.Known(v[1])}
	}
	return compareWorkload(&judgement{view: datedView{view: newView(s, 0, part{}, Settings{})}})
}

func TestWorkloadComparison(t *testing.T) {
	type values map[*indicator.Signal][2]float64 // normal, now
	tests := map[string]struct {
		readings values
		changed  bool
		ttft     map[string]float64 // shares; others must not be computed
	}{
		"microseconds in the queue are no cause": {
			values{indicator.TTFTMean: {0.0100, 0.0101}, indicator.QueueTimeMean: {11.7e-6, 16.1e-6}}, false, nil,
		},
		"a rise of less than a fifth is none": {
			values{indicator.TTFTMean: {1, 1.15}, indicator.QueueTimeMean: {0.5, 0.6}}, false, nil,
		},
		"nor is the queue the cause of what it has no part in": {
			values{indicator.TTFTMean: {0.1, 2.1}, indicator.QueueTimeMean: {0, 0.02}}, false, map[string]float64{"queue_time": 0.01},
		},
		"a cache that was reset is no other traffic": {
			values{
				indicator.TTFTMean: {0.1, 0.4}, indicator.PrefillTimeMean: {0.08, 0.38}, indicator.QueueTimeMean: {0, 0}, indicator.PromptTokens: {500, 500},
				indicator.PrefixHitRatio: {0.9, 0.05}, indicator.PrefillTimePerToken: {2e-4, 2e-4}, indicator.FirstTokenRate: {3, 3},
			}, false, map[string]float64{"prefix_cache_hit_ratio": 1, "queue_time": 0, "prompt_tokens": 0, "prefill_time_per_token": 0},
		},
		"just after the onset those that wait have not ended": {
			values{
				indicator.TTFTMean: {0.1, 3.1}, indicator.PrefillTimeMean: {0.05, 0.08}, indicator.QueueTimeMean: {0, 0}, indicator.PromptTokens: {500, 800},
				indicator.PrefillTimePerToken: {1e-4, 1e-4}, indicator.Waiting: {0, 60}, indicator.FirstTokenRate: {3, 3},
			}, true, map[string]float64{"queue_time": 0.99, "prompt_tokens": 0.01, "prefill_time_per_token": 0},
		},
		"longer prompts": {
			values{
				indicator.TTFTMean: {0.1, 0.9}, indicator.PrefillTimeMean: {0.09, 0.89}, indicator.QueueTimeMean: {0, 0}, indicator.PromptTokens: {500, 5000},
				indicator.PrefillTimePerToken: {2e-4, 2e-4}, indicator.Waiting: {0, 0}, indicator.FirstTokenRate: {3, 3},
			}, true, map[string]float64{"prompt_tokens": 1, "queue_time": 0, "prefill_time_per_token": 0},
		},
	}
	for name, tt := range tests {
		w := comparison(tt.readings)
		if w.Changed != tt.changed || w.Target != "a" {
			t.Errorf("%s: changed %v on %q", name, w.Changed, w.Target)
		}
		for _, f := range w.Factors {
			want, ok := tt.ttft[f.Name]
			if !ok {
				want = -1
			}
			if math.Abs(f.ShareOfTTFTChange-want) > 0.005 {
				t.Errorf("%s: %s explains %.3f, want %.3f", name, f.Name, f.ShareOfTTFTChange, want)
			}
		}
	}
}
