package published

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/stat"
)

// held reads the points and the predictions of those left out.
func held(t *testing.T) ([]Point, []Prediction, []*Entry) {
	t.Helper()
	points, err := Points()
	if err != nil {
		t.Fatal(err)
	}
	predictions, err := HeldOut()
	if err != nil {
		t.Fatal(err)
	}
	return points, predictions, Entries(points, predictions)
}

func TestEveryPointHasItsSource(t *testing.T) {
	points, predictions, _ := held(t)
	seen := map[string]bool{}
	for _, p := range points {
		if seen[p.Name] || !strings.HasPrefix(p.Source, "https://") || p.Measured == (Measures{}) || p.Host == "" || p.VLLM == "" {
			t.Errorf("%+v", p)
		}
		seen[p.Name] = true
	}
	times := map[string]int{}
	for _, p := range predictions {
		times[p.Name]++
	}
	for _, p := range points {
		if times[p.Name] != len(folds) {
			t.Errorf("%s: %d predictions that have not seen it; run make model-accuracy", p.Name, times[p.Name])
		}
	}
}

func TestThePageShowsThisData(t *testing.T) {
	points, predictions, _ := held(t)
	if *render {
		publish(t, perfmodel.Fitted(), predictions)
	}
	want, err := Page(points, predictions)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/model-accuracy.md is of other data: run make model-accuracy, or go test ./internal/perfmodel/published -run Page -render where only the page changed")
	}
}

// TestTheLineIsHeld fails where the held-out errors are worse than the limits.
func TestTheLineIsHeld(t *testing.T) {
	_, _, entries := held(t)
	if len(Limits) < 8 {
		t.Errorf("%d limits", len(Limits))
	}
	for _, l := range Limits {
		of := func(without string) Score {
			return ScoreOf(Select(entries, func(e *Entry) bool {
				return e.class == l.Class && e.Quantity == l.Quantity && e.Without == without
			}))
		}
		gpu, model := of("GPU"), of("model")
		if gpu.N == 0 || model.N == 0 {
			t.Errorf("%s, %s: no entries", l.Class, Quantities[l.Quantity])
		}
		if gpu.Median > l.GPU || model.Median > l.Model || min(gpu.Held, model.Held) < l.Held {
			t.Errorf("%s, %s: median %.1f %% without its GPU, %.1f %% without its model, intervals hold %.0f and %.0f %%; the limits are %.0f, %.0f and %.0f %%",
				l.Class, Quantities[l.Quantity], 100*gpu.Median, 100*model.Median, 100*gpu.Held, 100*model.Held, 100*l.GPU, 100*l.Model, 100*l.Held)
		}
	}
}

// TestWhatShipsIsFitted predicts every point with the parameters that ship, its host being
// unknown: they were fitted to it, so that it must be nearer than when it was left out.
func TestWhatShipsIsFitted(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	post := perfmodel.Fitted()
	errs := make([]float64, len(cases))
	if err := parallel(len(cases), func(i int) error {
		c := cases[i]
		v := post.Values(c.plain)
		m, err := c.Predict(c.plain.Cost(&v))
		errs[i] = -1
		if q := 4; c.Measured.Tokens > 0 && c.Fits {
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
