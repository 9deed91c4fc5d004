// Package demo plays incidents on simulated servers, and lets sixty diagnose each from nothing but the servers'
// metrics. It prints the play as it goes on. The command line hands in the pathologies.
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

	Next []Step // commands for the audience to try

	Out      io.Writer
	Terminal render.Options
	Status   func(line string) // shows a line while the audience waits; "" clears it
}

// A Step is a command to try, with its purpose.
type Step struct{ Why, Command string }

// Durations of the acts of a live demo.
const (
	demoWarm    = 3 * time.Minute  // served before the demo begins
	demoHealthy = 11 * time.Second // healthy time that is shown
	demoShort   = 3 * time.Second  // healthy time that is not shown
	demoBetween = 14 * time.Second // each phase between the first and the last
	demoMost    = 45 * time.Second // looking until "nothing found" counts
)

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
		if i > 0 && !c.Fast && len(list[i].Phases) > 1 {
			d.skipHealthy = true // once is enough
		}
		d.screen.writeTitle(fmt.Sprintf("%d of %d · %s", i+1, len(list), list[i].Title))
		if err := d.playScenario(ctx, list[i]); err != nil {
			return d.wrong, fmt.Errorf("scenario %s: %w", list[i].Name, err)
		}
	}
	d.screen.writeTitle("Result")
	if d.wrong > 0 {
		d.screen.writeParagraph(fmt.Sprintf("%d of %d diagnoses were wrong.", d.wrong, d.diagnoses))
		return d.wrong, nil
	}
	d.screen.writeParagraph(fmt.Sprintf("%d of %[1]d diagnoses were right: each named what had been staged.",
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

// demo is one performance.
type demo struct {
	Config
	screen      *screen
	skipHealthy bool

	diagnoses, wrong int
}

// writeIntroduction explains the play, also for those who do not know vLLM.
func (d *demo) writeIntroduction(n int) []string {
	out := []string{
		"vLLM serves large language models. It reads each prompt (prefill) and then generates the answer token by " +
			"token " +
			"(decode), for many requests in one batch on a GPU. " +
			"What it has computed for the tokens of all running requests lies in GPU memory: the KV cache. " +
			"Users notice two times: TTFT, until the first token of an answer, and ITL, between two tokens.",
		"vLLM exports about a hundred metrics. They do not say what is wrong; sixty does. ",
	}
	times := render.Plural(n, "time")
	if d.Fast {
		out[1] += fmt.Sprintf("Here a simulated server fails %s, in simulated time, "+
			"and sixty sees nothing but its /metrics page.", times)
	} else {
		out[1] += fmt.Sprintf("Simulated servers start on this machine now, serve traffic, and fail %s. "+
			"sixty sees nothing but their /metrics pages, scraped once a second.", times)
	}
	return out
}

// isDiagnosed reports whether a phase is diagnosed.
func (d *demo) isDiagnosed(phase int, sc *fleet.Scenario) bool {
	return phase > 0 || len(sc.Phases) == 1 || !d.skipHealthy
}

// playScenario plays a scenario live, or in simulated time.
func (d *demo) playScenario(ctx context.Context, sc fleet.Scenario) error {
	slow := sc.Interval > time.Second // too long to watch
	if d.Fast || slow {
		if slow && !d.Fast {
			d.screen.writeParagraph("This takes minutes in reality, so it happens in simulated time.")
		}
		return d.playSimulated(ctx, sc)
	}
	return d.playLive(ctx, sc)
}

// playSimulated plays a scenario in simulated time.
func (d *demo) playSimulated(ctx context.Context, sc fleet.Scenario) (err error) {
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

// demoSeed makes every performance the same, except for its timing.
const demoSeed = 1

// playLive plays a scenario on servers that listen, and scrapes them.
func (d *demo) playLive(ctx context.Context, sc fleet.Scenario) (err error) {
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
			where := strings.Join(fl.URLs(), ", ")
			d.screen.writeLabelled("Where", where+": look at its /metrics while this goes on, if you like.")
		}
		most := p.For
		switch {
		case i+1 == len(sc.Phases):
			most = demoMost
		case i == 0:
			most = demoHealthy
		}
		if err := d.watchServers(ctx, s, p, most); err != nil {
			return err
		}
	}
	return nil
}

// watchServers looks for up to most, and ends as sixty diagnose does, when three verdicts in a row
// name the same fault with confidence. A healthy verdict counts only at the end.
func (d *demo) watchServers(ctx context.Context, s *source.Source, p *fleet.Phase, most time.Duration) error {
	began := time.Now()
	o, err := s.Options(ctx, time.Time{})
	if err != nil {
		return err
	}
	o.Pathologies = d.Pathologies
	watching, stop := context.WithTimeout(ctx, most-time.Second)
	s.Watch(watching, o, source.Watch{Fault: true, Show: func(ran time.Duration, _ string) {
		d.Status(fmt.Sprintf("%3.0f s  %s", ran.Seconds(), formatGauges(ctx, s)))
	}})
	stop()
	d.Status("")
	if err := ctx.Err(); err != nil {
		return err
	}
	seen := formatGauges(ctx, s)
	got, err := s.Diagnose(ctx, o)
	if err != nil {
		return err
	}
	return d.printDiagnosis(p, got, fmt.Sprintf("after %.0f s (%s)", time.Since(began).Seconds(), seen))
}

// formatGauges shows a dashboard's present values.
func formatGauges(ctx context.Context, s *source.Source) string {
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

// announcePhase announces a phase's event.
func (d *demo) announcePhase(p *fleet.Phase) {
	d.screen.writeLine("")
	d.screen.writeLabelled("What happens", p.Tell)
}

// printDiagnosis prints a diagnosis, and whether it is right.
func (d *demo) printDiagnosis(p *fleet.Phase, got diagnose.Diagnosis, when string) error {
	d.diagnoses++
	d.screen.writeLabelled("Diagnosis", when+":")
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

// screen writes paragraphs as wide as the terminal, each at once, because the demo takes its time.
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
		t.Line(t.Style(render.Bold, head+strings.Repeat("─", max(t.Width()-render.Cells(head), 3))))
	})
}

func (s *screen) writeParagraph(text string) {
	s.writeText(func(t *render.Text) { t.Paragraph("", "", text) })
}

// writeLabelled writes a paragraph after a label.
func (s *screen) writeLabelled(label, text string) {
	s.writeText(func(t *render.Text) { t.Item(14, t.Style(render.Bold, label), text) })
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
	const incident = "testdata/incident.tar.zst"
	steps := []Step{{Why: "Diagnose your own server", Command: program + " diagnose http://localhost:8000"}}
	if _, err := os.Stat(incident); err == nil {
		steps = append(steps, Step{
			Why: "Diagnose the recorded incident of a real vLLM server", Command: program + " diagnose " + incident,
		})
	}
	return append(steps,
		Step{Why: "Read the runbook of a failure mode", Command: program + " explain " + last},
		Step{
			Why:     "Keep such a server running, for dashboards and tests",
			Command: program + " simulate --serve :8000 --fault " + last,
		})
}
