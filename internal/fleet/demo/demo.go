// Package demo plays incidents on simulated servers in simulated time, and lets sixty diagnose each from nothing but
// the servers' metrics. It prints the play as it goes on. The command line hands in the pathologies.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// A Config selects what to play.
type Config struct {
	Scenarios   []fleet.Scenario
	Pathologies []*catalog.Pathology

	Next []Step // commands for the audience to try

	Out      io.Writer
	Terminal render.Options
}

// A Step is a command to try, with its purpose.
type Step struct{ Why, Command string }

// Run plays the scenarios and returns the number of wrong diagnoses.
func Run(ctx context.Context, c Config) (wrong int, err error) {
	d := &demo{Config: c, screen: &screen{c.Out, c.Terminal}}
	list := c.Scenarios
	d.screen.writeTitle("sixty demo")
	for _, p := range d.writeIntroduction(len(list)) {
		d.screen.writeParagraph(p)
		d.screen.writeLine("")
	}
	for i := range list {
		d.screen.writeTitle(fmt.Sprintf("%d of %d · %s", i+1, len(list), list[i].Title))
		if err := d.playScenario(ctx, &list[i]); err != nil {
			return d.wrong, fmt.Errorf("scenario %s: %w", list[i].Name, err)
		}
	}
	d.screen.writeTitle("Result")
	if d.wrong > 0 {
		d.screen.writeParagraph(fmt.Sprintf("%d of %d diagnoses were wrong.", d.wrong, d.diagnoses))
		return d.wrong, nil
	}
	d.screen.writeParagraph(fmt.Sprintf("%d of %[1]d diagnoses were right: each gave the expected verdict.",
		d.diagnoses))
	if len(c.Next) > 0 {
		d.screen.writeTitle("What to try next")
	}
	for _, n := range c.Next {
		d.screen.writeParagraph(n.Why + ":")
		d.screen.writeLine("    " + n.Command)
	}
	return 0, nil
}

// A demo is one performance.
type demo struct {
	Config
	screen *screen

	diagnoses, wrong int
}

// writeIntroduction explains the play, also for those who do not know vLLM.
func (d *demo) writeIntroduction(n int) []string {
	return []string{
		"vLLM serves large language models. It reads each prompt (prefill) and then generates the answer token by " +
			"token (decode), for many requests in one batch on a GPU. " +
			"What it has computed for the tokens of all running requests stays in GPU memory: the KV cache. " +
			"Users notice two latencies: TTFT, the time to the first token of an answer, and ITL, the time between " +
			"two tokens.",
		"vLLM exports about a hundred metrics. They do not say what is wrong; sixty does. Here a simulated server " +
			"fails " + render.Plural(n, "time") + ", in simulated time, and sixty sees only its /metrics page.",
	}
}

// playScenario plays a scenario, and diagnoses each of its phases at its end.
func (d *demo) playScenario(ctx context.Context, sc *fleet.Scenario) (err error) {
	began := time.Now().Truncate(time.Second)
	s, err := source.OpenPages(max(sc.Interval, source.DefaultInterval), embedded.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	take := func(p fleet.Scrape) error {
		body := scrape.Body{Raw: p.Body, ContentType: fleet.ContentType, At: p.At, Duration: 5 * time.Millisecond}
		return s.AddPage(p.Target, body)
	}
	phase := func(p fleet.Phase, at time.Time) error {
		d.screen.writeLine("")
		d.screen.writeLabelled("What happens", p.Tell)
		o, err := s.Options(ctx, at)
		if err != nil {
			return err
		}
		o.Pathologies = d.Pathologies
		got, err := s.Diagnose(ctx, o)
		if err != nil {
			return err
		}
		return d.printDiagnosis(&p, got)
	}
	return fleet.Play(ctx, *sc, fleet.DefaultRelease, demoSeed, began, take, phase)
}

// demoSeed makes every performance the same.
const demoSeed = 1

// printDiagnosis prints a diagnosis, and whether it is right.
func (d *demo) printDiagnosis(p *fleet.Phase, got diagnose.Diagnosis) error {
	d.diagnoses++
	d.screen.writeLabelled("Diagnosis", fmt.Sprintf("after %s:", p.For))
	d.screen.writeLine("")
	if err := d.screen.writeExcerpt(got); err != nil {
		return err
	}
	d.screen.writeLine("")
	right := got.Verdict.ID == p.Want || slices.Contains(p.Accept, got.Verdict.ID)
	if !right {
		d.wrong++
		d.screen.writeLabelled("Expected", p.Want+", so this diagnosis is wrong.")
		return nil
	}
	d.screen.writeLabelled("Why", p.Why)
	return nil
}

// A screen writes paragraphs as wide as the terminal, each as soon as it is known.
type screen struct {
	w io.Writer
	o render.Options
}

// writeText writes a layout.
func (s *screen) writeText(lay func(t *render.Text)) {
	t := render.NewText(s.o)
	lay(t)
	_, _ = t.WriteTo(s.w) // like all printing on the way
}

func (s *screen) writeLine(text string) { fmt.Fprintln(s.w, text) }

func (s *screen) writeTitle(text string) {
	s.writeText(func(t *render.Text) {
		head := "── " + text + " "
		t.Line("")
		t.Line(t.Paint(render.Bold, head+strings.Repeat("─", max(t.Width()-render.Cells(head), 3))))
	})
}

func (s *screen) writeParagraph(text string) {
	s.writeText(func(t *render.Text) { t.Paragraph("", "", text) })
}

// writeLabelled writes a paragraph after a label.
func (s *screen) writeLabelled(label, text string) {
	s.writeText(func(t *render.Text) { t.Item(14, t.Paint(render.Bold, label), text) })
}

// writeExcerpt shows the short answer of sixty diagnose, without the notes that every new server gets.
func (s *screen) writeExcerpt(d diagnose.Diagnosis) error {
	d.Notes = nil
	var b bytes.Buffer
	width := render.NewText(s.o).Width() - 2
	o := report.Options{Options: render.Options{Color: s.o.Color, Width: width}}
	if err := report.Text(&b, d, o); err != nil {
		return err
	}
	for l := range strings.Lines(b.String()) {
		s.writeLine(strings.TrimRight("  "+l, " \n"))
	}
	return nil
}

// Next lists commands to try after the demo. Program is the name of the command, last the id of the last verdict.
func Next(program, last string) []Step {
	return []Step{
		{Why: "Diagnose your own server", Command: program + " diagnose http://localhost:8000"},
		{Why: "Read the runbook of a failure mode", Command: program + " explain " + last},
		{
			Why:     "Keep such a server running, for dashboards and tests",
			Command: program + " simulate --serve :8000 --fault " + last,
		},
	}
}
