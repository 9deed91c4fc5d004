package monitor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// slowly is a store whose answers take a time each, one after the other.
type slowly struct {
	metrics.Querier
	each *time.Duration
	turn chan struct{}
}

func (s slowly) wait(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	select {
	case <-time.After(*s.each):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowly) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Querier.Query(ctx, expr, at)
}

func (s slowly) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Querier.Evaluate(ctx, e, at)
}

// TestASlowStoreIsWaitedFor: what cannot be judged between two evaluations is judged in a longer one, and
// where a store does not answer at all nobody waits for it.
func TestASlowStoreIsWaitedFor(t *testing.T) {
	store := embeddedtest.New(t)
	synctest.Test(t, func(t *testing.T) {
		began, each := time.Now(), time.Millisecond
		for i := range 120 {
			page := strings.ReplaceAll(`
vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} N00
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} N
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} N
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} N
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} N
`, "N", fmt.Sprint(i))
			embeddedtest.Append(t, store, embedded.Target{Instance: "a:8000", Job: "vllm"},
				began.Add(time.Duration(i)*5*time.Second), page)
		}
		<-time.After(10 * time.Minute)
		m := New(Options{
			Source:   source.OfCollector("a slow store", slowly{store, &each, make(chan struct{}, 1)}),
			Diagnose: diagnose.Options{Pathologies: pathologies.All()},
			Log:      slog.New(slog.DiscardHandler),
		})
		evaluate := func() (state view.State, took time.Duration) {
			m.Evaluate(t.Context(), time.Now())
			e := m.Latest()
			return NewOverview(e, m.Every(), time.Now(), nil, nil).State, e.Took
		}
		if state, took := evaluate(); state != view.OK || took > m.Every() {
			t.Fatalf("a fast store: %s after %s", state, took)
		}
		each = 300 * time.Millisecond
		for i, want := range []view.State{view.Partial, view.Partial, view.OK, view.OK} { // 15, 30 and at most 60 s
			state, took := evaluate()
			if state != want || took > time.Minute {
				t.Errorf("evaluation %d of a slow store: %s after %s, want %s", i+1, state, took, want)
			}
			<-time.After(took)
		}
		each = time.Hour
		for i := range 3 {
			if state, took := evaluate(); state == view.OK || i > 0 && took > m.Every() {
				t.Errorf("evaluation %d of a store that does not answer: %s after %s", i+1, state, took)
			}
		}
	})
}
