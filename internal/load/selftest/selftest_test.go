package selftest

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/load/loadtest"
	"github.com/sixty-dev/sixty/internal/render"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inProcess serves in this process: the numbers are then only roughly right.
func inProcess(_ context.Context, s loadtest.Script) (string, func(), error) {
	srv, err := loadtest.Start(s)
	if err != nil {
		return "", nil, err
	}
	return srv.URL(), func() { srv.Close() }, nil
}

func TestRunComparesWithTheTruth(t *testing.T) {
	cases := Cases(0.5, []int{8})
	if len(cases) != 4 {
		t.Fatalf("%d cases, want 4", len(cases))
	}
	var outcomes []*Outcome
	for _, c := range cases {
		o, err := Run(context.Background(), c, inProcess)
		if err != nil {
			t.Fatal(err)
		}
		if o.Requests == 0 || o.Failed > 0 || o.TTFTP50 < -0.002 || o.TTFTP50 > 0.050 {
			t.Errorf("%+v", *o)
		}
		outcomes = append(outcomes, o)
	}
	if o := outcomes[0]; o.Requests != 8 || o.OfIdeal < 0.5 || o.OfIdeal > 1.01 {
		t.Errorf("8 streams of 0.68 s within 0.5 s: %d requests, %.2f of the ideal throughput", o.Requests, o.OfIdeal)
	}
	var b bytes.Buffer
	if err := Write(&b, outcomes, render.Options{Width: 240}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(b.String(), "\n"); lines != 5 {
		t.Errorf("table of %d lines, want a head and 4", lines)
	}
}

// TestCompareSeesADifference guards against a comparison that always agrees.
func TestCompareSeesADifference(t *testing.T) {
	reported := &load.Distribution{Count: 3, Mean: 0.011, Quantiles: []load.Quantile{{Q: 0.5, Value: 0.060}, {Q: 0.99, Value: 0.090}}}
	res := &load.Result{Duration: 2, Latency: map[load.Metric]*load.Distribution{load.TTFT: reported, load.ITL: reported}}
	res.Requests.Complete = 3
	truths := []loadtest.Truth{
		{First: 50 * time.Millisecond, Gaps: 90 * time.Millisecond, Tokens: 10},
		{First: 50 * time.Millisecond, Gaps: 90 * time.Millisecond, Tokens: 10},
		{First: 70 * time.Millisecond, Gaps: 90 * time.Millisecond, Tokens: 10},
		{First: time.Hour, Aborted: true},
	}
	o := compare(Case{}, &load.Recording{}, res, truths)
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
	if !near(o.TTFTP50, 0.010) || !near(o.TTFTP99, 0.020) || !near(o.ITLMean, 0.001) || !near(o.RequestsPS, 1.5) {
		t.Errorf("%+v: want errors of 10, 20 and 1 ms, aborted requests left out", *o)
	}
}
