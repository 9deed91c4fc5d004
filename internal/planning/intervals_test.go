package planning

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// horizon is the length of the predicted time, and of the measured time before it.
const horizon = 20 * time.Second

// A forecast is a quantity that was predicted from one part of a recording and measured in the next. Nobody changed
// anything in between.
type forecast struct {
	recording              string
	quantity               int
	low, value, high, came float64
}

// forecastRecording predicts parts of a recording from the parts before them.
func forecastRecording(t *testing.T, file string, every time.Duration) []forecast {
	t.Helper()
	r := openRecording(t, file)
	var out []forecast
	for _, phase := range r.truth.Phases {
		from, end := time.UnixMilli(phase.FromMS), time.UnixMilli(phase.ToMS)
		// The phase's beginning is no steady load.
		for at := from.Add(10 * time.Second).Add(horizon); !at.Add(horizon).After(end); at = at.Add(every) {
			var p *predictor
			var values []indicator.Value
			run := func(at time.Time, then func(context.Context, metrics.Querier, diagnose.Request,
				*diagnose.Snapshot)) {
				_, err := diagnose.Run(t.Context(), r.store, diagnose.Options{
					At: at, First: r.first, Interval: time.Second, Window: horizon, Every: true,
					Pathologies: pathologies.All(),
					Annotate:    r.annotate,
					Predict: func(ctx context.Context, q metrics.Querier, r diagnose.Request, s *diagnose.Snapshot,
						_ *diagnose.Diagnosis) {
						then(ctx, q, r, s)
					},
				})
				must.Succeed(t, err)
			}
			var err error
			run(at, func(ctx context.Context, q metrics.Querier, r diagnose.Request, s *diagnose.Snapshot) {
				if len(s.Targets) == 1 {
					p, err = newPredictor(ctx, q, &r, s, s.Targets[0].Name, nil)
				}
			})
			if p == nil || err != nil || p.traffic.clients == 0 && p.measured[quantityIndex(indicator.Waiting)].V > 2 {
				continue // nothing is predicted, or a queue grows
			}
			run(at.Add(horizon), func(_ context.Context, _ metrics.Querier, _ diagnose.Request, s *diagnose.Snapshot) {
				for _, q := range quantities {
					values = append(values, s.Now(0, q.signal))
				}
			})
			outcomes, err := p.simulateUnchanged()
			must.Succeed(t, err)
			for i, e := range widenEstimates(estimateQuantities(outcomes, float64(p.traffic.ranks),
				p.traffic.length.Seconds())) {
				if values[i].OK && values[i].V > 0 && e.Value > 0 {
					out = append(out, forecast{filepath.Base(file), i, e.Low, e.Value, e.High, values[i].V})
				}
			}
		}
	}
	return out
}

// TestIntervalsHoldWhatComes compares predictions without a change with the measurements that followed, on every
// third recording, or on every one with SIXTY_ACCURACY=full. SIXTY_RECORDINGS names a directory with more recordings;
// the table in docs/lab/predictions.md is the output.
func TestIntervalsHoldWhatComes(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates every recording")
	}
	t.Parallel()
	files, err := filepath.Glob("../../testdata/recordings/*.tar.zst")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	every := time.Hour // once in a phase
	if dir := os.Getenv("SIXTY_RECORDINGS"); dir != "" {
		more, err := filepath.Glob(dir + "/*.tar.zst")
		if err != nil || len(more) == 0 {
			t.Fatalf("no recordings in %s: %v", dir, err)
		}
		files, every = append(files, more...), horizon
	}
	var all []forecast
	for i, file := range files {
		if i%3 != 0 && os.Getenv("SIXTY_RECORDINGS") == "" && os.Getenv("SIXTY_ACCURACY") != "full" {
			continue
		}
		all = append(all, forecastRecording(t, file, every)...)
	}
	within := 0
	for i, q := range quantities {
		var off []float64
		hits := 0
		for _, f := range all {
			if f.quantity != i {
				continue
			}
			off = append(off, math.Exp(math.Abs(math.Log(f.came/f.value))))
			if f.low <= f.came && f.came <= f.high {
				hits++
			}
		}
		if len(off) == 0 {
			continue
		}
		within += hits
		slices.Sort(off)
		share := float64(hits) / float64(len(off))
		t.Logf("| %s | %d | %.0f %% | %.2f | %.2f | %.2f |", q.signal.Title, len(off), 100*share, off[len(off)/2],
			off[len(off)*9/10], q.futureError)
		if len(off) >= 10 && share < 0.75 {
			t.Errorf("%s: %.0f %% of what came lies within the intervals, want most", q.signal.Name, 100*share)
		}
	}
	if share := float64(within) / float64(max(len(all), 1)); len(all) < 100 || share < 0.85 {
		t.Errorf("%.0f %% of %d quantities lie within their intervals, want 85 %%", 100*share, len(all))
	}
}
