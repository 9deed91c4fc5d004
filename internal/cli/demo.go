package cli

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

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/live"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/report"
)

// demoFlags are the flags of demo as they were given.
type demoFlags struct {
	scenarios []string
	phases    []string
	fast      bool
	color     string
}

const demoLong = `Starts make-believe vLLM servers inside this process, lets users ask them things, makes
them sick in several ways, and lets sixty find out each time what is wrong, from nothing
but the servers' metrics. It takes about a minute, needs no GPU and no network, and
listens on the loopback interface only.

The servers compute no language model. A simulation of vLLM's scheduler decides what runs,
what waits and what is thrown out of the cache, so that a fault shows in the metrics as it
would in a real server's.

Exit codes: 0 every diagnosis was what had been staged, 1 one was not, 2 an error.`

const demoExample = `  sixty demo
  sixty demo --scenario replica-imbalance,prefill-starvation
  sixty demo --fast --scenario memory-leak`

func newDemoCommand() *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Watch make-believe servers fall ill and be diagnosed",
		Long:    demoLong,
		Example: demoExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	s := cmd.Flags()
	s.StringSliceVar(&f.scenarios, "scenario", []string{"kv-cache-thrashing", "engine-hung", "gpu-throttling"}, "what to stage, by the `names` of pathologies (all: every one)")
	s.StringSliceVar(&f.phases, "phases", []string{"healthy", "sick"}, "which phases to diagnose: healthy, sick")
	s.BoolVar(&f.fast, "fast", false, "in simulated time, without servers and without waiting")
	s.StringVar(&f.color, "color", "auto", "auto, always or never")
	return cmd
}

// How long the acts of a live demo last.
const (
	demoWarm    = 3 * time.Minute  // that the servers have served when the curtain rises
	demoHealthy = 11 * time.Second // of health on stage
	demoShort   = 3 * time.Second  // of health that nobody is shown
	demoBetween = 14 * time.Second // of a phase between the first and the last
	demoMost    = 45 * time.Second // of looking before nothing found counts as nothing there
)

func (f *demoFlags) stages() ([]fleet.Scenario, error) {
	if !slices.Contains([]string{"auto", "always", "never"}, f.color) {
		return nil, fmt.Errorf("--color: %q is none of auto, always and never", f.color)
	}
	for _, p := range f.phases {
		if p != "healthy" && p != "sick" {
			return nil, fmt.Errorf("--phases: %q is neither healthy nor sick", p)
		}
	}
	if slices.Equal(f.scenarios, []string{"all"}) {
		return fleet.Scenarios(pathologies.All())
	}
	var list []fleet.Scenario
	for _, name := range f.scenarios {
		sc, err := fleet.FindScenario(pathologies.All(), name)
		if err != nil {
			return nil, fmt.Errorf("--scenario: %w", err)
		}
		list = append(list, sc)
	}
	return list, nil
}

func runDemo(ctx context.Context, stdout, stderr io.Writer, f *demoFlags) error {
	list, err := f.stages()
	if err != nil {
		return err
	}
	d := &demo{flags: f, screen: newScreen(stdout, f.color), line: newProgress(stderr)}
	d.screen.title("sixty demo")
	d.screen.paragraph(d.introduction(len(list)))
	for i := range list {
		if i > 0 && !f.fast && len(list[i].Phases) > 1 {
			d.skipHealthy = true // once is enough
		}
		d.screen.title(fmt.Sprintf("%d of %d · %s", i+1, len(list), list[i].Title))
		if err := d.play(ctx, list[i]); err != nil {
			if ctx.Err() != nil {
				return errInterrupted
			}
			return fmt.Errorf("scenario %s: %w", list[i].Name, err)
		}
	}
	d.screen.title("Result")
	if d.wrong > 0 {
		d.screen.paragraph(fmt.Sprintf("Wrong: %d of %d. The rest was what had been staged.", d.wrong, d.diagnoses))
		return errFound
	}
	d.screen.paragraph(fmt.Sprintf("Right: %d of %[1]d. Each diagnosis named what had been staged. To try your own server: sixty diagnose http://HOST:8000. "+
		"To keep such servers running, for dashboards or tests: sixty simulate --serve :8000 --scenario %[2]s.", d.diagnoses, list[len(list)-1].Name))
	return nil
}

// demo is one performance.
type demo struct {
	flags       *demoFlags
	screen      *screen
	line        *progress
	skipHealthy bool

	diagnoses, wrong int
}

func (d *demo) introduction(n int) string {
	s := "vLLM is a program that serves large language models. Users send it prompts; it reads each prompt (prefill) and then writes the answer token by token (decode), " +
		"for many users in one batch on one GPU. What it has read and written so far of every answer is kept in GPU memory, the KV cache. " +
		"It shows some hundred metrics, and when something goes wrong it does not say what. sixty does. "
	if d.flags.fast {
		return s + "What follows happens in simulated time."
	}
	return s + fmt.Sprintf("Make-believe servers start on this machine now, get traffic, and are made sick %s; sixty sees nothing but their metrics pages, once a second.", times(n))
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// shows reports whether a phase is diagnosed.
func (d *demo) shows(phase int, sc *fleet.Scenario) bool {
	if phase == 0 && len(sc.Phases) > 1 {
		return slices.Contains(d.flags.phases, "healthy") && !d.skipHealthy
	}
	return slices.Contains(d.flags.phases, "sick")
}

// play stages a scenario.
func (d *demo) play(ctx context.Context, sc fleet.Scenario) error {
	slow := sc.Interval > time.Second // it takes too long to watch
	if d.flags.fast || slow {
		if slow && !d.flags.fast {
			d.screen.paragraph("This takes minutes in reality, so it happens in simulated time.")
		}
		return d.simulated(ctx, sc)
	}
	return d.live(ctx, sc)
}

// simulated plays a scenario in simulated time.
func (d *demo) simulated(ctx context.Context, sc fleet.Scenario) (err error) {
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	began := time.Now().Truncate(time.Second)
	interval := max(sc.Interval, time.Second)
	take := func(p fleet.Page) error {
		t := embedded.Target{Instance: p.Target}
		if p.Body == nil {
			return store.AppendFailure(t, p.At)
		}
		_, err := store.Append(t, p.At, p.Body, fleet.ContentType, 5*time.Millisecond)
		return err
	}
	n := 0
	phase := func(p fleet.Phase, at time.Time) error {
		i := n
		n++
		if !d.shows(i, &sc) {
			return nil
		}
		d.announce(&p)
		got, err := diagnose.Run(ctx, store, diagnose.Options{
			At: at, First: began, Created: firstCreated(store), Interval: interval, Every: true, Pathologies: pathologies.All(),
		})
		if err != nil {
			return err
		}
		return d.tell(&p, got, fmt.Sprintf("after %s", p.For))
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
	if d.shows(0, &sc) {
		sc.Phases[0].For = demoWarm + demoHealthy
	}
	fl, err := fleet.Start(fleet.Config{Scenario: sc, Exporter: ":0", Seed: demoSeed, Warm: demoWarm})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fl.Close(), fl.Err()) }()
	r, err := newWatch(append(fl.URLs(), fl.ExporterURL()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	ctx, stop := context.WithCancel(ctx)
	var scraping sync.WaitGroup
	defer scraping.Wait()
	defer stop()
	for i := range r.targets {
		r.learn(ctx, i)
	}
	scraping.Go(func() { live.Run(ctx, r.client, r.targets, time.Second, r.take) })
	for i := range sc.Phases {
		if err := fl.Wait(ctx, i); err != nil {
			return err
		}
		if !d.shows(i, &sc) {
			continue
		}
		p := &sc.Phases[i]
		d.announce(p)
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
		if err := d.watch(ctx, r, p, most); err != nil {
			return err
		}
	}
	return nil
}

// newWatch is a live run of a diagnosis that goes on for as long as the demo
// wants.
func newWatch(urls []string) (*liveRun, error) {
	targets, err := live.Targets(urls)
	if err != nil {
		return nil, err
	}
	client, err := scrape.New(scrape.Config{})
	if err != nil {
		return nil, err
	}
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &liveRun{client: client, store: store, targets: targets, states: make([]liveState, len(targets))}, nil
}

func (r *liveRun) close() error {
	r.client.Close()
	return r.store.Close()
}

// watch looks for up to most, and ends as sixty diagnose does, when three
// verdicts in a row name the same trouble and are sure of themselves. That all
// is well is believed only at the end.
func (d *demo) watch(ctx context.Context, r *liveRun, p *fleet.Phase, most time.Duration) error {
	began := time.Now()
	tick := time.NewTicker(evaluateEvery)
	defer tick.Stop()
	defer d.line.clear()
	o := diagnose.Options{Interval: time.Second, Every: true, Annotate: r.annotate, Pathologies: pathologies.All()}
	before, same := "", 0
	for same < agreeing && time.Since(began)+evaluateEvery < most {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		d.line.show("%s", cut(fmt.Sprintf("%3.0f s  %s", time.Since(began).Seconds(), r.gauges(ctx)), d.screen.width-1))
		if time.Since(began) < soonest-evaluateEvery/2 {
			continue
		}
		got, err := r.diagnose(ctx, o)
		if err != nil {
			return err
		}
		if got.Verdict.ID != before || got.Verdict.Confidence < sure || got.Status != diagnose.Firing {
			before, same = got.Verdict.ID, 0
		}
		if got.Verdict.Confidence >= sure && got.Status == diagnose.Firing {
			same++
		}
	}
	d.line.clear()
	seen := r.gauges(ctx)
	got, err := r.diagnose(ctx, o)
	if err != nil {
		return err
	}
	return d.tell(p, got, fmt.Sprintf("after %.0f s (%s)", time.Since(began).Seconds(), seen))
}

// gauges is what a dashboard would show now.
func (r *liveRun) gauges(ctx context.Context) string {
	_, at, ok := r.store.Times()
	if !ok {
		return "no scrape yet"
	}
	var parts []string
	for _, g := range []struct{ format, expr string }{
		{"running %.0f", `sum(vllm:num_requests_running)`},
		{"waiting %.0f", `sum(vllm:num_requests_waiting)`},
		{"KV cache %.0f %%", `100 * max(vllm:kv_cache_usage_perc)`},
		{"%.0f tokens/s", `sum(rate(vllm:generation_tokens_total[5s]))`},
		{"evicted %.0f", `sum(increase(vllm:num_preemptions_total[10s])) > 0`},
		{"GPU %.0f MHz", `min(DCGM_FI_DEV_SM_CLOCK) < 1400`},
	} {
		if v, err := r.store.Query(ctx, g.expr, at); err == nil && len(v) == 1 {
			parts = append(parts, fmt.Sprintf(g.format, float64(v[0].Value)))
		}
	}
	if len(parts) == 0 {
		return "nobody answers"
	}
	return strings.Join(parts, " · ")
}

// cut shortens a line to a terminal's width, so that it can be written over.
func cut(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:width])
	}
	return line
}

// announce says what is done.
func (d *demo) announce(p *fleet.Phase) {
	d.screen.line("")
	d.screen.labelled("What happens", p.Tell)
}

// tell shows a diagnosis, and whether it is right.
func (d *demo) tell(p *fleet.Phase, got diagnose.Diagnosis, when string) error {
	d.diagnoses++
	d.screen.labelled("sixty says", when+":")
	d.screen.line("")
	if err := d.screen.excerpt(got); err != nil {
		return err
	}
	d.screen.line("")
	right := got.Verdict.ID == p.Want || slices.Contains(p.Accept, got.Verdict.ID)
	if !right {
		d.wrong++
		d.screen.labelled("Staged was", p.Want+", so this diagnosis is wrong.")
		return nil
	}
	d.screen.labelled("Why", p.Why)
	return nil
}

// screen writes paragraphs as wide as the terminal.
type screen struct {
	w     io.Writer
	width int
	color bool
}

func newScreen(w io.Writer, color string) *screen {
	s := &screen{w: w, width: report.DefaultWidth, color: color == "always"}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.color = s.color || color == "auto" && os.Getenv("NO_COLOR") == ""
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width >= 40 {
			s.width = min(width, 120)
		}
	}
	return s
}

func (s *screen) bold(text string) string {
	if !s.color {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

func (s *screen) line(text string) { fmt.Fprintln(s.w, text) }

func (s *screen) title(text string) {
	s.line("")
	s.line(s.bold("── " + text + " " + strings.Repeat("─", max(s.width-len([]rune(text))-4, 3))))
}

func (s *screen) paragraph(text string) {
	for _, l := range fill(text, s.width) {
		s.line(l)
	}
}

// labelled writes a paragraph behind a word.
func (s *screen) labelled(label, text string) {
	const indent = 14
	for i, l := range fill(text, s.width-indent) {
		head := strings.Repeat(" ", indent)
		if i == 0 {
			head = s.bold(label) + strings.Repeat(" ", indent-len(label))
		}
		s.line(head + l)
	}
}

// excerpt shows the verdict, its evidence and the first remedy, as sixty
// diagnose does, which shows more.
func (s *screen) excerpt(d diagnose.Diagnosis) error {
	d.Notes, d.Coverage, d.Workload = nil, nil, diagnose.Workload{}
	if d.Status == diagnose.Firing && len(d.Findings) > 0 {
		lead := d.Findings[0]
		lead.Fixes = lead.Fixes[:min(len(lead.Fixes), 1)]
		lead.Reasons = nil
		d.Findings = []diagnose.Finding{lead}
	}
	var b bytes.Buffer
	if err := report.Text(&b, d, report.Options{Color: s.color, Width: s.width - 2}); err != nil {
		return err
	}
	text := strings.TrimRight(b.String(), "\n")
	if i := strings.LastIndex(text, "\n\n"); i >= 0 {
		text = text[:i] // the targets and the window
	}
	for l := range strings.Lines(text) {
		s.line(strings.TrimRight("  "+l, " \n"))
	}
	return nil
}

// fill breaks a text into lines.
func fill(text string, width int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(w)) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}
