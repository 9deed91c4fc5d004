package capture

import (
	_ "embed"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/render"
)

//go:embed ways.yaml
var waysText []byte

// A Way is one way to take a trace: its purpose and its commands.
type Way struct {
	Tool     string // torch, nsys or own
	Title    string
	Since    engine.Release
	Commands []string
	Notes    []string
	Code     string // in Python
}

var ways = sync.OnceValue(func() (all []Way) {
	if err := yaml.UnmarshalStrict(waysText, &all); err != nil {
		panic(err) // the table is part of the program, and a test reads it
	}
	return all
})

// Ways returns the ways to trace a server of a release, and a program of one's own. The commands record a number of
// steps into dir.
func Ways(release engine.Release, model, dir string, steps int) (out []Way) {
	fill := strings.NewReplacer("{model}", model, "{dir}", path.Clean(dir), "{steps}", fmt.Sprint(steps))
	for _, w := range ways() {
		if n := len(out); n > 0 && out[n-1].Tool == w.Tool || w.Since != "" && !release.AtLeast(w.Since) {
			continue
		}
		filled := Way{Tool: w.Tool, Title: w.Title, Notes: w.Notes, Code: fill.Replace(w.Code)}
		for _, c := range w.Commands {
			filled.Commands = append(filled.Commands, fill.Replace(c))
		}
		out = append(out, filled)
	}
	return out
}

// How writes how to take a trace of a number of steps.
func How(w io.Writer, release engine.Release, model, dir string, steps int, o render.Options) error {
	t := render.NewText(o)
	t.Paragraph("", "", fmt.Sprintf("With vLLM %s, %d steps:", release, steps))
	for _, way := range Ways(release, model, dir, steps) {
		t.Heading(way.Title)
		for _, c := range way.Commands {
			t.Command("  ", c)
		}
		for _, n := range way.Notes {
			t.Paragraph("  * ", "    ", n)
		}
		for line := range strings.Lines(way.Code) {
			t.Line("  " + strings.TrimRight(line, "\n"))
		}
	}
	_, err := t.WriteTo(w)
	return err
}

const maxSteps = 10_000

// CheckSteps returns an error for a number of steps that makes no useful trace.
func CheckSteps(steps int) error {
	if steps < 1 || steps > maxSteps {
		return hint.With(fmt.Errorf("--steps: want 1 to %d", maxSteps),
			"twenty steps are enough for shares, two hundred for their spread")
	}
	return nil
}
