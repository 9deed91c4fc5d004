// Command modelaccuracy fits the parameters of perfmodel's prediction from data sheets to
// what others measured of vLLM servers and published, each time leaving out what it then
// predicts, and writes docs/lab/model-accuracy.md, which says how far off it is:
//
//	make model-accuracy
//
// The measurements are facts with their sources (points/points.json); the models'
// configurations have the fields that decide about work and memory. It is a module of its own, which
// the program is built and tested without; go.work lets it use the code and the versions beside it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// What is written, from this folder.
const (
	pageFile      = "../../docs/lab/model-accuracy.md"
	posteriorFile = "../../internal/sim/perfmodel/posterior.json"
	heldOutFile   = "heldout.json"
)

func main() {
	render := flag.Bool("page", false, "write the page of the predictions at hand, without a fit")
	steps := flag.Int("steps", 2, "steps of the fit at most; it begins from the parameters at hand")
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

// fitAll fits the parameters and predicts what was left out.
func fitAll(steps int) (*perfmodel.Posterior, []prediction, error) {
	cases, err := prepareAll()
	if err != nil {
		return nil, nil, err
	}
	f := newFitter(cases)
	use := func(c *prepared) bool { return c.fits }
	if err := f.fit(use, steps, func(step int, objective float64) { fmt.Printf("step %d: objective %.0f\n", step, objective) }); err != nil {
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
