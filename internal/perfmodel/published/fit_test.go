package published

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"github.com/sixty-dev/sixty/internal/perfmodel"
)

var (
	update = flag.Bool("update", false, "fit anew (minutes), and write the parameters, the predictions and docs/model-accuracy.md")
	coarse = flag.Int("coarse", 4, "steps of the fit to some of the points, before")
	steps  = flag.Int("steps", 4, "steps of the fit at most; it begins from the parameters at hand")
	render = flag.Bool("render", false, "write docs/model-accuracy.md of the predictions at hand")
)

const pageFile = "../../../docs/model-accuracy.md"

// write writes what a fit makes.
func write(t *testing.T, file string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFit fits the parameters and predicts what was left out:
//
//	go test ./internal/perfmodel/published -run Fit -timeout 60m -v -update
func TestFit(t *testing.T) {
	if !*update {
		t.Skip("it takes minutes: run it with -update")
	}
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	f := NewFitter(cases)
	fits := func(c *Case) bool { return c.Fits }
	// Most of the way some of the points show: of each deployment a few.
	number := map[string]int{}
	some := map[*Case]bool{}
	for _, c := range cases {
		number[c.deployment()]++
		some[c] = c.Fits && number[c.deployment()]%5 < 2
	}
	tell := func(step int, objective float64) { println("step", step, "objective", int(objective)) }
	if err := f.Fit(func(c *Case) bool { return some[c] }, *coarse, tell); err != nil {
		t.Fatal(err)
	}
	if err := f.Fit(fits, *steps, func(step int, objective float64) {
		println("step", step, "objective", int(objective))
		if step == 0 {
			return
		}
		if p, err := f.Posterior(fits); err == nil {
			write(t, "../posterior.json", p) // so that a run that is interrupted goes on from here
		}
	}); err != nil {
		t.Fatal(err)
	}
	f.report(t)
	post, err := f.Posterior(fits)
	if err != nil {
		t.Fatal(err)
	}
	write(t, "../posterior.json", post)
	held, err := f.Folds()
	if err != nil {
		t.Fatal(err)
	}
	write(t, "heldout.json", held)
	publish(t, post, held)
}

// publish widens the posterior's intervals by what the predictions of what was left out
// missed, and writes the page.
func publish(t *testing.T, post *perfmodel.Posterior, held []Prediction) {
	t.Helper()
	points, err := Points()
	if err != nil {
		t.Fatal(err)
	}
	post.Widen = Widen(Entries(points, held))
	write(t, "../posterior.json", post)
	page, err := Page(points, held)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pageFile, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// report shows the parameters and what is left of each point's errors.
func (f *Fitter) report(t *testing.T) {
	for j, u := range f.unknowns {
		v, off := math.Exp(f.x[j]), (f.x[j]-u.start)/u.sd
		if j < len(perfmodel.Parameters()) {
			p := perfmodel.Parameters()[j]
			if p.Share {
				v = 1 / (1 + math.Exp(-f.x[j]))
			}
			t.Logf("%-20s %10.3g (guess %.3g; %+.1f sd)", u.key, v, p.Guess, off)
			continue
		}
		t.Logf("%-60s × %.3f (%+.1f sd)", u.key, v, off)
	}
	for i, c := range f.cases {
		if f.linear[i] == nil {
			continue
		}
		a, m := f.linear[i].at.values(), c.Measured.values()
		e := func(q int) float64 {
			if m[q] == 0 {
				return 0
			}
			return 100 * (a[q]/m[q] - 1)
		}
		t.Logf("%-50s TTFT %+6.0f%% TPOT %+6.0f%% ITL %+6.0f%% E2E %+6.0f%% tok/s %+6.0f%%", c.Name, e(0), e(1), e(2), e(3), e(4))
	}
}
