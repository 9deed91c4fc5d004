// Package demo plays incidents on simulated servers and lets sixty find out each time
// what is wrong, from nothing but the servers' metrics. It prints the play as it goes on.
// The command line hands the pathologies in.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
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

// Config says what to play.
type Config struct {
	Scenarios   []fleet.Scenario
	Fast        bool // in simulated time, without starting servers
	Pathologies []*catalog.Pathology

	Next []Step // what the audience may try for itself

	Out      io.Writer
	Terminal render.Options
	Status   func(line string) // what to show while the audience waits; "" clears it
}

// A Step is a command to try, and what for.
type Step struct{ Why, Command string }

// How long the acts of a live demo last.
const (
	demoWarm    = 3 * time.Minute  // that the servers have served when the curtain rises
	demoHealthy = 11 * time.Second // of health on stage
	demoShort   = 3 * time.Second  // of health that nobody is shown
	demoBetween = 14 * time.Second // of a phase between the first and the last
	demoMost    = 45 * time.Second // of looking before nothing found counts as nothing there
)

// Run plays the scenarios and returns how many diagnoses were not what had been staged.
func Run(ctx context.Context, c Config) (wrong int, err error) {
	d := &demo{Config: c, screen: &screen{c.Out, c.Terminal}}
	list := c.Scenarios
	d.screen.title("sixty demo")
	for _, p := range d.introduction(len(list)) {
		d.screen.paragraph(p)
		d.screen.line("")
	}
	for i := range list {
		if i > 0 && !c.Fast && len(list[i].Phases) > 1 {
			d.skipHealthy = true // once is enough
		}
		d.screen.title(fmt.Sprintf("%d of %d · %s", i+1, len(list), list[i].Title))
		if err := d.playScenario(ctx, list[i]); err != nil {
			return d.wrong, fmt.Errorf("scenario %s: %w", list[i].Name, err)
		}
	}
	d.screen.title("Result")
	if d.wrong > 0 {
		d.screen.paragraph(fmt.Sprintf("%d of %d diagnoses were wrong.", d.wrong, d.diagnoses))
		return d.wrong, nil
	}
	d.screen.paragraph(fmt.Sprintf("%d of %[1]d diagnoses were right: each named what had been staged.", d.diagnoses))
	if len(c.Next) > 0 {
		d.screen.title("What to try next")
	}
	for _, n := range c.Next {
		d.screen.paragraph(n.Why + ":")
		d.screen.line("    " + n.Command)
	}
	return 0, nil
}

// demo is one performance.
type demo struct {
	Config
	screen      *screen
	skipHealthy bool

	diagnoses, wrong int
}

// introduction says what is about to be seen, for those who do not know vLLM either.
func (d *demo) introduction(n int) []string {
	out := []string{
		"vLLM serves large language models. It reads each prompt (prefill) and then generates the answer token by token (decode), for many requests in one batch on a GPU. " +
			"What it has computed for the tokens of all running requests lies in GPU memory: the KV cache. " +
			"Users notice two times: TTFT, until the first token of an answer, and ITL, between two tokens.",
		"vLLM exports about a hundred metrics. They do not say what is wrong; sixty does. ",
	}
	if d.Fast {
		out[1] += fmt.Sprintf("Here a simulated server fails %s, in simulated time, and sixty sees nothing but its /metrics page.", render.Plural(n, "time"))
	} else {
		out[1] += fmt.Sprintf("Simulated servers start on this machine now, serve traffic, and fail %s. sixty sees nothing but their /metrics pages, scraped once a second.", render.Plural(n, "time"))
	}
	return out
}

// isDiagnosed reports whether a phase is diagnosed.
func (d *demo) isDiagnosed(phase int, sc *fleet.Scenario) bool {
	return phase > 0 || len(sc.Phases) == 1 || !d.skipHealthy
}

// playScenario stages a scenario.
func (d *demo) playScenario(ctx context.Context, sc fleet.Scenario) error {
	slow := sc.Interval > time.Second // it takes too long to watch
	if d.Fast || slow {
		if slow && !d.Fast {
			d.screen.paragraph("This takes minutes in reality, so it happens in simulated time.")
		}
		return d.simulated(ctx, sc)
	}
	return d.live(ctx, sc)
}

// simulated plays a scenario in simulated time.
func (d *demo) simulated(ctx context.Context, sc fleet.Scenario) (err error) {
	began := time.Now().Truncate(time.Second)
	s, err := source.OpenPages(max(sc.Interval, source.DefaultInterval), embedded.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	take := func(p fleet.Scrape) error {
		return s.AddPage(p.Target, scrape.Body{Raw: p.Body, ContentType: fleet.ContentType, At: p.At, Duration: 5 * time.Millisecond})
	}
	n := 0
	phase := func(p fleet.Phase, at time.Time) error {
		i := n
		n++
		if !d.isDiagnosed(i, &sc) {
			return nil
		}
		d.announcePhase(&p)
		o, err := s.Options(ctx, at)
		if err != nil {
			return err
		}
		o.Pathologies = d.Pathologies
		got, err := s.Diagnose(ctx, o)
		if err != nil {
			return err
		}
		return d.printDiagnosis(&p, got, fmt.Sprintf("after %s", p.For))
	}
	return fleet.Play(ctx, sc, fleet.DefaultRelease, demoSeed, began, take, phase)
}

// demoSeed makes every performance the same, but for the time that passes.
const demoSeed = 1

// live plays a scenario on servers that listen, and scrapes them.
func (d *demo) live(ctx context.Context, sc fleet.Scenario) (err error) {
	sc.Phases = slices.Clone(sc.Phases)
	for i := range sc.Phases {
		sc.Phases[i].For = demoBetween
	}
	sc.Phases[0].For = demoWarm + demoShort
	if d.isDiagnosed(0, &sc) {
		sc.Phases[0].For = demoWarm + demoHealthy
	}
	fl, err := fleet.Start(fleet.Config{Scenario: sc, Exporter: ":0", Seed: demoSeed, Warm: demoWarm})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fl.Close(), fl.Err()) }()
	s, err := source.Open(ctx, source.Spec{URLs: append(fl.URLs(), fl.ExporterURL())})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	var scraping sync.WaitGroup
	defer scraping.Wait()
	defer stop()
	s.Live.FetchFacts(ctx)
	scraping.Go(func() { s.Live.Run(ctx) })
	for i := range sc.Phases {
		if err := fl.Wait(ctx, i); err != nil {
			return err
		}
		if !d.isDiagnosed(i, &sc) {
			continue
		}
		p := &sc.Phases[i]
		d.announcePhase(p)
		if i == 0 {
			d.screen.labelled("Where", strings.Join(fl.URLs(), ", ")+": look at its /metrics while this goes on, if you like.")
		}
		most := p.For
		switch {
		case i+1 == len(sc.Phases):
			most = demoMost
		case i == 0:
			most = demoHealthy
		}
		if err := d.watch(ctx, s, p, most); err != nil {
			return err
		}
	}
	return nil
}

// watch looks for up to most, and ends as sixty diagnose does, when three
// verdicts in a row name the same trouble and are sure of themselves. That all
// is well is believed only at the end.
func (d *demo) watch(ctx context.Context, s *source.Source, p *fleet.Phase, most time.Duration) error {
	began := time.Now()
	o, err := s.Options(ctx, time.Time{})
	if err != nil {
		return err
	}
	o.Pathologies = d.Pathologies
	watching, stop := context.WithTimeout(ctx, most-time.Second)
	s.Watch(watching, o, source.Watch{Fault: true, Show: func(ran time.Duration, _ string) {
		d.Status(fmt.Sprintf("%3.0f s  %s", ran.Seconds(), gauges(ctx, s)))
	}})
	stop()
	d.Status("")
	if err := ctx.Err(); err != nil {
		return err
	}
	seen := gauges(ctx, s)
	got, err := s.Diagnose(ctx, o)
	if err != nil {
		return err
	}
	return d.printDiagnosis(p, got, fmt.Sprintf("after %.0f s (%s)", time.Since(began).Seconds(), seen))
}

// gauges is what a dashboard would show now.
func gauges(ctx context.Context, s *source.Source) string {
	at := s.Span().Last
	if at.IsZero() {
		return "no scrape yet"
	}
	var parts []string
	for _, g := range []struct{ format, expr string }{
		{"running %.0f", `sum(vllm:num_requests_running)`},
		{"waiting %.0f", `sum(vllm:num_requests_waiting)`},
		{"KV cache %.0f %%", `100 * max(vllm:kv_cache_usage_perc)`},
		{"%.0f tokens/s", `sum(rate(vllm:generation_tokens_total[5s]))`},
		{"%.0f preempted", `sum(increase(vllm:num_preemptions_total[10s])) > 0`},
		{"GPU %.0f MHz", `min(DCGM_FI_DEV_SM_CLOCK) < 1400`},
	} {
		if v, err := s.Query(ctx, g.expr, at); err == nil && len(v) == 1 {
			parts = append(parts, fmt.Sprintf(g.format, float64(v[0].Value)))
		}
	}
	if len(parts) == 0 {
		return "no server answers"
	}
	return strings.Join(parts, " · ")
}

// announcePhase says what is done.
func (d *demo) announcePhase(p *fleet.Phase) {
	d.screen.line("")
	d.screen.labelled("What happens", p.Tell)
}

// printDiagnosis shows a diagnosis, and whether it is right.
func (d *demo) printDiagnosis(p *fleet.Phase, got diagnose.Diagnosis, when string) error {
	d.diagnoses++
	d.screen.labelled("Diagnosis", when+":")
	d.screen.line("")
	if err := d.screen.excerpt(got); err != nil {
		return err
	}
	d.screen.line("")
	right := got.Verdict.ID == p.Want || slices.Contains(p.Accept, got.Verdict.ID)
	if !right {
		d.wrong++
		d.screen.labelled("Expected", p.Want+", so this diagnosis is wrong.")
		return nil
	}
	d.screen.labelled("Why", p.Why)
	return nil
}

// screen writes paragraphs as wide as the terminal, each at once: the demo takes
// its time.
type screen struct {
	w io.Writer
	o render.Options
}

// show writes what is laid out.
func (s *screen) show(lay func(t *render.Text)) {
	t := render.NewText(s.o)
	lay(t)
	_, _ = t.WriteTo(s.w) // as with all that is printed on the way
}

func (s *screen) line(text string) { fmt.Fprintln(s.w, text) }

func (s *screen) title(text string) {
	s.show(func(t *render.Text) {
		head := "── " + text + " "
		t.Line("")
		t.Line(t.Style(render.Bold, head+strings.Repeat("─", max(t.Width()-render.Cells(head), 3))))
	})
}

func (s *screen) paragraph(text string) {
	s.show(func(t *render.Text) { t.Paragraph("", "", text) })
}

// labelled writes a paragraph behind a word.
func (s *screen) labelled(label, text string) {
	s.show(func(t *render.Text) { t.Item(14, t.Style(render.Bold, label), text) })
}

// excerpt shows the short answer of sixty diagnose, less the remarks that every server
// gets which was started a moment ago.
func (s *screen) excerpt(d diagnose.Diagnosis) error {
	d.Notes = nil
	var b bytes.Buffer
	if err := report.Text(&b, d, report.Options{Options: render.Options{Color: s.o.Color, Width: render.NewText(s.o).Width() - 2}}); err != nil {
		return err
	}
	for l := range strings.Lines(b.String()) {
		s.line(strings.TrimRight("  "+l, " \n"))
	}
	return nil
}

// Next is what to try after the demo, with the program as it was called and what was seen
// last.
func Next(program, last string) []Step {
	const incident = "testdata/incident.tar.zst"
	steps := []Step{{Why: "Diagnose your own server", Command: program + " diagnose http://localhost:8000"}}
	if _, err := os.Stat(incident); err == nil {
		steps = append(steps, Step{Why: "Diagnose the recorded incident of a real vLLM server", Command: program + " diagnose " + incident})
	}
	return append(steps,
		Step{Why: "Read the runbook of a failure mode", Command: program + " explain " + last},
		Step{Why: "Keep such a server running, for dashboards and tests", Command: program + " simulate --serve :8000 --fault " + last})
}
