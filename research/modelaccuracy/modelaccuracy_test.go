package main

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// read reads the points and the predictions of those left out.
func read(t *testing.T) ([]Point, []prediction) {
	t.Helper()
	points, err := load[Point]("points/points.json")
	if err != nil {
		t.Fatal(err)
	}
	predictions, err := load[prediction]("heldout.json")
	if err != nil {
		t.Fatal(err)
	}
	return points, predictions
}

func TestEveryPointHasItsSource(t *testing.T) {
	points, predictions := read(t)
	seen := map[string]bool{}
	for _, p := range points {
		if seen[p.Name] || !strings.HasPrefix(p.Source, "https://") || p.Measured == (Measures{}) || p.Host == "" ||
			p.VLLM == "" {
			t.Errorf("%+v", p)
		}
		seen[p.Name] = true
	}
	times := map[string]int{}
	for _, p := range predictions {
		times[p.Name]++
	}
	for _, p := range points {
		ways := 1 // in sample
		for _, key := range levels {
			if key(&p) != "" {
				ways++
			}
		}
		if times[p.Name] != ways {
			t.Errorf("%s: %d predictions that have not seen it; run make model-accuracy", p.Name, times[p.Name])
		}
	}
}

func TestThePageShowsThisData(t *testing.T) {
	points, predictions := read(t)
	want, err := renderPage(points, predictions)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/lab/model-accuracy.md is of other data: run make model-accuracy, or go run . -page where only the page changed")
	}
}

// TestTheLineIsHeld compares the held-out errors with their limits.
func TestTheLineIsHeld(t *testing.T) {
	entries := entriesOf(read(t))
	limits, err := load[limit]("limits.json")
	if err != nil || len(limits) < 16 {
		t.Errorf("%d limits, %v", len(limits), err)
	}
	for _, l := range limits {
		of := func(without string) score { return scoreWithout(entries, l.Class, l.Quantity, without) }
		gpu, model, publisher := of("GPU"), of("model"), of("publisher")
		if gpu.n == 0 || model.n == 0 || publisher.n == 0 {
			t.Errorf("%s, %s: no entries", l.Class, l.Quantity)
		}
		if gpu.median > l.GPU || model.median > l.Model || publisher.median > l.Publisher ||
			min(gpu.held, model.held, publisher.held) < l.Held {
			t.Errorf("%s, %s: median %.1f %% without its GPU, %.1f %% without its model, %.1f %% without its publisher, intervals hold %.0f, %.0f and %.0f %%; the limits are %.0f, %.0f, %.0f and %.0f %%",
				l.Class, l.Quantity, 100*gpu.median, 100*model.median, 100*publisher.median, 100*gpu.held, 100*model.held, 100*publisher.held, 100*l.GPU, 100*l.Model, 100*l.Publisher, 100*l.Held)
		}
	}
}

// TestNoIntervalEndsBeyondPhysics holds that no interval on the page ends beyond what the GPU can do.
func TestNoIntervalEndsBeyondPhysics(t *testing.T) {
	for _, e := range entriesOf(read(t)) {
		fastest := e.of.Fastest.values()[e.quantity]
		if e.without == inSample || fastest == 0 {
			continue
		}
		i := e.widened()
		if kinds[e.quantity] == perfmodel.Tokens && i.High > fastest*1.001 || kinds[e.quantity] != perfmodel.Tokens &&
			i.Low < fastest*0.999 {
			t.Errorf("%s without its %s: %s from %g to %g, and its data sheet allows %g", e.point.Name, e.without,
				quantities[e.quantity], i.Low, i.High, fastest)
		}
	}
}

// TestWhatShipsIsFitted predicts every point, as one on an unknown host, with the parameters that ship. They were
// fitted to it, so that it must be nearer than when it was left out.
func TestWhatShipsIsFitted(t *testing.T) {
	cases, err := prepareAll()
	if err != nil {
		t.Fatal(err)
	}
	post := perfmodel.Fitted()
	errs := make([]float64, len(cases))
	if err := parallel(len(cases), func(i int) error {
		c := cases[i]
		v := post.Values(c.plain)
		m, err := c.simulate(&v)
		errs[i] = -1
		if q := 4; c.Measured.Tokens > 0 && c.fits {
			errs[i] = math.Abs(m.values()[q]/c.Measured.Tokens - 1)
		} else if c.Measured.E2E > 0 {
			errs[i] = math.Abs(m.E2E/c.Measured.E2E - 1)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var known []float64
	for _, e := range errs {
		if e >= 0 {
			known = append(known, e)
		}
	}
	if m := stat.Median(known); m > 0.2 || len(known) < 150 {
		t.Errorf("median error %.1f %% of %d points", 100*m, len(known))
	}
}

// TestAFitFollowsTheMeasurements fits to a few servers. The parameters must explain these better than before, with
// samples around the solution.
func TestAFitFollowsTheMeasurements(t *testing.T) {
	cases, err := prepareAll()
	if err != nil {
		t.Fatal(err)
	}
	var few []*prepared
	for _, c := range cases {
		if c.fits && c.Load.Rate == 0 && len(c.requests) <= 200 && len(few) < 6 {
			few = append(few, c)
		}
	}
	all := func(*prepared) bool { return true }
	f := newFitter(few)
	var objectives []float64
	if err := f.fit(all, 2, func(_ int, objective float64) { objectives = append(objectives, objective) }); err != nil {
		t.Fatal(err)
	}
	if n := len(objectives); n < 2 || !(objectives[n-1] < objectives[0]) {
		t.Errorf("objectives %v", objectives)
	}
	p, err := f.posterior(all)
	if err != nil {
		t.Fatal(err)
	}
	for key, m := range p.Fitted {
		if math.Abs(stat.Median(m.Draws)-m.Mean) > 1 || len(m.Draws) != perfmodel.PosteriorDraws {
			t.Errorf("%s: mean %g, %d samples around %g", key, m.Mean, len(m.Draws), stat.Median(m.Draws))
		}
	}
}

// TestEachPublisherCountsOnce predicts one of several publishers badly. It must determine the widening while there are
// too few others, and not once there are enough, however many points it has.
func TestEachPublisherCountsOnce(t *testing.T) {
	var entries []*entry
	add := func(publisher string, points int, standing float64) {
		for range points {
			entries = append(entries, &entry{without: "publisher", quantity: 1, left: publisher, standing: standing})
		}
	}
	widened := func() float64 {
		slices.SortStableFunc(entries, func(a, b *entry) int { return cmp.Compare(a.standing, b.standing) })
		return widening(entries, perfmodel.Tokens, "publisher", func(*entry) bool { return true })
	}
	add("bad", 1000, 0.5)
	for i := range 17 {
		add(strconv.Itoa(i), 18, 0.1)
		add(strconv.Itoa(i), 2, 2)
	}
	if got := widened(); got != 0.5 {
		t.Errorf("18 publishers: widened by %g, want what holds the worst of them", got)
	}
	add("17", 1, -0.3)
	if got := widened(); got != 0.1 {
		t.Errorf("19 publishers: widened by %g, want what holds nine in ten points of 18", got)
	}
	if got := widening(entries, perfmodel.TTFT, "publisher", func(*entry) bool { return true }); got != 0 {
		t.Errorf("TTFT is widened by %g, and nothing was found of it", got)
	}
}
