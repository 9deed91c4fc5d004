// Command modelaccuracy fits the parameters of package perfmodel to published measurements of vLLM servers, and writes
// docs/lab/model-accuracy.md:
//
//	make model-accuracy
//
// The page has the errors of held-out predictions: each point is predicted by fits without the points of its GPU, of
// its model, of its publisher, or of its release.
//
// fit.go fits (nonlinear least squares with priors), heldout.go leaves points out and widens intervals until they hold
// what was measured, points.go reads and simulates the points, page.go renders the page. The measurements are facts
// with their sources (points/points.json); the models' configurations contain only the fields that determine work and
// memory. It is a module of its own, without which the program is built and tested; go.work makes it use the code
// beside it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// The files that are written, relative to this folder.
const (
	pageFile      = "../../docs/lab/model-accuracy.md"
	posteriorFile = "../../internal/sim/perfmodel/posterior.json"
	heldOutFile   = "heldout.json"
)

func main() {
	render := flag.Bool("page", false, "write the page from the present predictions, without a fit")
	steps := flag.Int("steps", 2, "largest number of steps of the fit; it begins at the present parameters")
	flag.Parse()
	if err := run(*render, *steps); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(render bool, steps int) error {
	posterior := perfmodel.Fitted()
	predictions, err := load[prediction]("heldout.json")
	if err != nil {
		return err
	}
	if !render {
		if posterior, predictions, err = fitAll(steps); err != nil {
			return err
		}
	}
	points, err := load[Point]("points/points.json")
	if err != nil {
		return err
	}
	entries := entriesOf(points, predictions)
	posterior.Widen, posterior.WidenUnmeasured = widen(entries, "publisher"), widen(entries, "GPU")
	if err := write(posteriorFile, posterior); err != nil {
		return err
	}
	page, err := renderPage(points, predictions)
	if err != nil {
		return err
	}
	return os.WriteFile(pageFile, []byte(page), 0o644)
}

// fitAll fits the parameters to all points, and makes the held-out predictions.
func fitAll(steps int) (*perfmodel.Posterior, []prediction, error) {
	cases, err := prepareAll()
	if err != nil {
		return nil, nil, err
	}
	f := newFitter(cases)
	use := func(c *prepared) bool { return c.fits }
	report := func(step int, objective float64) { fmt.Printf("step %d: objective %.0f\n", step, objective) }
	if err := f.fit(use, steps, report); err != nil {
		return nil, nil, err
	}
	if err := f.relinearize(use); err != nil {
		return nil, nil, err
	}
	posterior, err := f.posterior(use)
	if err != nil {
		return nil, nil, err
	}
	predictions, err := f.folds()
	if err != nil {
		return nil, nil, err
	}
	return posterior, predictions, write(heldOutFile, predictions)
}

func write(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
