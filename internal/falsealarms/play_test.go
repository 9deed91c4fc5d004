package falsealarms

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// busy is reported whenever something runs, which is no fault.
var busy = &catalog.Pathology{
	ID: "busy", Alert: "VLLMBusy", Title: "Something runs", Severity: catalog.Page,
	When: catalog.Above(indicator.Running, &catalog.Threshold{Name: "anything", Unit: indicator.Requests, Default: 0, Why: "a test"}),
}

// noon is the busiest hour of the offices' day, with two replicas.
func noon(t *testing.T, length time.Duration) Options {
	t.Helper()
	i := slices.IndexFunc(Shapes(), func(s Shape) bool { return s.Name == "office-assistant" })
	return Options{
		Shape: Shapes()[i], From: monday.Add(10 * time.Hour), For: length, Seed: 1, Scrapes: fleet.OrdinaryScrapes,
		Pathologies: []*catalog.Pathology{busy},
	}
}

func play1(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAFalseAlarmIsCountedAndRecorded(t *testing.T) {
	o := noon(t, 15*time.Minute)
	o.Dir, o.MaxRecordings = t.TempDir(), 1
	r := play1(t, o)
	if r.Runs != 60 || r.Evaluated != 120 || r.Requests == 0 {
		t.Errorf("%d runs, %d evaluations, %d requests", r.Runs, r.Evaluated, r.Requests)
	}
	var recorded *Episode
	evaluations := 0
	for _, e := range r.Episodes {
		evaluations += e.Length
		if e.Pathology != "busy" || !e.False() || !e.Alarm() || e.By[False] != e.Length {
			t.Errorf("%+v", e)
		}
		if e.Recording != "" {
			recorded = e
		}
	}
	// The gauge of a single moment may be 0 even at noon, but not often.
	if evaluations < r.Evaluated*9/10 || evaluations > r.Evaluated {
		t.Errorf("reported %d times in %d evaluations", evaluations, r.Evaluated)
	}
	if recorded == nil {
		t.Fatal("nothing was recorded")
	}
	store, first, last := embeddedtest.Open(t, recorded.Recording, nil)
	if last.Before(recorded.At.Add(later / 2)) {
		t.Errorf("recorded to %s, the alarm was at %s", last, recorded.At)
	}
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: recorded.At, First: first, Interval: o.Scrapes.Interval, Every: true, Pathologies: o.Pathologies})
	if err != nil {
		t.Fatal(err)
	}
	if again := alarms(&d); len(again) != 1 || again[0].id != "busy" || !slices.Contains(again[0].targets, recorded.Target) {
		t.Errorf("the recording gives %+v", again)
	}
}

func TestTheSameSeedGivesTheSameAlarms(t *testing.T) {
	o := noon(t, 5*time.Minute)
	o.Noise = fleet.OrdinaryNoise
	var times [2][]time.Time
	for i := range times {
		for _, e := range play1(t, o).Episodes {
			times[i] = append(times[i], e.From)
		}
	}
	if len(times[0]) == 0 || !slices.Equal(times[0], times[1]) {
		t.Errorf("%v, then %v", times[0], times[1])
	}
}

func TestAnAlarmIsTrueWhileClientsAreBadlyServed(t *testing.T) {
	o := noon(t, 12*time.Minute)
	o.Noise.StallsPerDay = 24 * 60 // a stall of seconds each minute
	r := play1(t, o)
	if r.Bad == 0 || r.Degraded < r.Moments/3 {
		t.Errorf("%d of %d requests badly served, %d of %d evaluations excused", r.Bad, r.Requests, r.Degraded, r.Moments)
	}
	degraded := 0
	for _, e := range r.Episodes {
		degraded += e.By[Degraded]
	}
	if degraded < r.Degraded*3/4 {
		t.Errorf("%d evaluations count as true", degraded)
	}
}

func TestADeploymentIsNoFalseAlarm(t *testing.T) {
	o := noon(t, 40*time.Minute)
	o.Every = 30 * time.Second
	o.Deployments = []time.Time{o.From.Add(20 * time.Minute)}
	o.Pathologies = slices.DeleteFunc(pathologies.All(), func(p *catalog.Pathology) bool { return p.ID != "target-down" && p.ID != "engine-restart" })
	reported := map[string]int{}
	for _, e := range play1(t, o).Episodes {
		reported[e.Pathology] += e.By[Restart]
		if e.False() {
			t.Errorf("%s on %s, %s after the deployment, is false", e.Pathology, e.Target, e.At.Sub(o.Deployments[0]))
		}
	}
	if reported["engine-restart"] == 0 {
		t.Errorf("reported %v", reported)
	}
}

func TestTrafficHasItsShape(t *testing.T) {
	for _, s := range Shapes() {
		a := s.Arrivals(monday, week, 1)
		if err := a.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if err := s.Spec.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		peak := s.Peak * float64(s.Replicas)
		noon, night := a.Rate(14*time.Hour+30*time.Minute), a.Rate(3*time.Hour)
		if noon < 0.3*peak || noon > peak*s.Surge || night > noon {
			t.Errorf("%s: %.2f a second in the afternoon and %.2f at night, at a peak of %.2f", s.Name, noon, night, peak)
		}
		mean := a.Expected(week) / week.Seconds()
		if mean < 0.1*peak || mean > 0.7*peak {
			t.Errorf("%s: a mean of %.2f a second at a peak of %.2f", s.Name, mean, peak)
		}
	}
}

func TestIntervalIsGarwoods(t *testing.T) {
	// From the quantiles of the chi-square distribution: qchisq(.025, 2n)/2 and
	// qchisq(.975, 2n+2)/2; of none the rule of three.
	for _, tc := range []struct {
		n      int
		lo, hi float64
	}{{0, 0, 2.9957}, {1, 0.0253, 5.5716}, {3, 0.6187, 8.7673}, {10, 4.7954, 18.3904}, {100, 81.3639, 121.6279}} {
		lo, hi := interval(tc.n)
		if math.Abs(lo-tc.lo) > 1e-4*max(1, lo) || math.Abs(hi-tc.hi) > 1e-4*hi {
			t.Errorf("of %d: %.4f to %.4f, want %.4f to %.4f", tc.n, lo, hi, tc.lo, tc.hi)
		}
	}
}
