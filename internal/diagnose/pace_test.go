package diagnose_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

func TestPace(t *testing.T) {
	start := time.Unix(1795236000, 0)
	tests := map[string]struct {
		at   func(i int) time.Time // of scrape i; zero where it was lost
		want time.Duration
	}{
		"steady": {func(i int) time.Time { return start.Add(time.Duration(i) * 30 * time.Second) }, 30 * time.Second},
		"jittered": {func(i int) time.Time {
			return start.Add(time.Duration(i)*15*time.Second + time.Duration(i*i%7)*9*time.Millisecond)
		}, 15 * time.Second},
		"one in five lost":   {func(i int) time.Time { return lost(i%5 == 3, start.Add(time.Duration(i)*15*time.Second)) }, 15 * time.Second},
		"twice a minute off": {func(i int) time.Time { return start.Add(7*time.Second + time.Duration(i)*time.Minute) }, time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store := embeddedtest.New(t)
			var last time.Time
			for i := range 40 {
				at := tt.at(i)
				if at.IsZero() {
					continue
				}
				page := fmt.Sprintf("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} %d\n", i)
				embeddedtest.Append(t, store, embedded.Target{Instance: "a"}, at, page)
				last = at
			}
			got, err := identity.ReadPace(t.Context(), store, nil, last)
			if err != nil || got.Interval != tt.want || !got.First.Equal(tt.at(0)) {
				t.Errorf("%+v, %v; want every %s from %s", got, err, tt.want, start)
			}
			got, err = identity.ReadPace(t.Context(), store, nil, start.Add(-time.Hour))
			if err != nil || got.Interval != identity.UnknownInterval || got.Scrapes != 0 {
				t.Errorf("before anything was scraped: %+v, %v", got, err)
			}
		})
	}
}

func lost(is bool, at time.Time) time.Time {
	if is {
		return time.Time{}
	}
	return at
}
