package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/render"
)

//go:embed page.html
var pageHTML string

// HTML writes a diagnosis as a page to send: it needs nothing but itself. It shows the
// plots that diagnose.Diagnosis.Plot has fetched, or none.
func HTML(w io.Writer, d diagnose.Diagnosis, o Options) error {
	v, err := newPage(&d, o)
	if err != nil {
		return err
	}
	return render.HTML(w, pageHTML, nil, v)
}

// What page.html is given. Lists are bounded: a page of a large fleet is still one to
// send.
type (
	htmlPage struct {
		Title                 string
		Verdicts              []htmlVerdict
		OthersHead            string
		Others                []string
		RuledOutHead          string
		RuledOut              [][]string
		Tally                 string
		Doubts, Basis, Config [][2]string
	}
	htmlVerdict struct {
		render.Banner
		ID            int
		Links         []htmlLink
		From          string // the target that evidence is from, where there are several
		Evidence      [][]string
		Comparisons   [][]string
		Over          string // what the plots show
		Figures       []render.Figure
		Fixes         []htmlFix
		Changes       htmlChanges
		Reasons       []string
		Findings      []htmlFindings
		Runbook       template.HTML
		RunbookTitle  string
		RunbookSource string
	}
	htmlLink struct {
		To   int
		Text string
	}
	htmlFix struct {
		Summary, Command, Cost, Verify string
		Predicted                      string
		Beside, Arithmetic, Basis      []string
	}
	htmlChanges struct {
		Head, Intro string
		Rows        [][]string
	}
	htmlFindings struct {
		Head string
		List [][2]string
	}
)

// manyTold is how many verdicts a page tells in full, and how many lines its lists have.
const manyTold, manyListed = 12, 60

func newPage(d *diagnose.Diagnosis, o Options) (*htmlPage, error) {
	out := &htmlPage{Title: head(d, &d.Verdict) + d.At.UTC().Format(" at 2006-01-02 15:04 UTC"), OthersHead: othersHead(d)}
	all := told(d)
	for i, v := range all {
		if i == manyTold {
			more := fmt.Sprintf("%d more models on which something fires: choose one with --match.", len(all)-i)
			out.Others = append(out.Others, more)
			break
		}
		hv, err := newHTMLVerdict(d, v, o)
		if err != nil {
			return nil, err
		}
		hv.ID = i + 1
		out.Verdicts = append(out.Verdicts, hv)
	}
	for i := range out.Verdicts[1:] {
		out.Verdicts[0].Links = append(out.Verdicts[0].Links, htmlLink{i + 2, out.Verdicts[i+1].Head})
	}
	for _, v := range others(d) {
		out.Others = append(out.Others, otherLine(d, v, o.Full))
	}
	out.Others = few(out.Others)
	out.RuledOutHead = "Ruled out" + ofModel(&d.Verdict)
	for _, f := range selected(d, &d.Verdict, ruledOut) {
		out.RuledOut = append(out.RuledOut, []string{f.Pathology.ID, ruledOutLine(f)})
	}
	out.Tally = tally(d)
	for _, n := range d.Notes {
		out.Doubts = append(out.Doubts, [2]string{"Note", render.Sentence(n)})
	}
	for _, g := range gaps(d.Coverage) {
		out.Doubts = append(out.Doubts, [2]string{"Not checked", g.line(false, o.Full)})
	}
	for _, row := range footer(d, false) {
		out.Basis = append(out.Basis, [2]string{row[0], row[1]})
	}
	for i := range d.Targets {
		if len(out.Config) < manyListed {
			out.Config = append(out.Config, configRows(&d.Targets[i])...)
		}
	}
	return out, nil
}

// few bounds a list.
func few(list []string) []string {
	if len(list) > manyListed {
		list = append(list[:manyListed:manyListed], fmt.Sprintf("and %d more", len(list)-manyListed))
	}
	return list
}

// class is the colour of a verdict.
func class(d *diagnose.Diagnosis, v *diagnose.Verdict) string {
	switch f := d.Lead(v); {
	case f != nil && f.Severity == catalog.Page:
		return "critical"
	case f != nil && f.Severity == catalog.Ticket:
		return "warning"
	case v.Status == diagnose.OK:
		return "good"
	}
	return "plain"
}

// Banners are the answers of the verdicts that are told in full, for the head of a page.
func Banners(d *diagnose.Diagnosis) (verdicts []*diagnose.Verdict, banners []render.Banner) {
	verdicts = told(d)
	for _, v := range verdicts {
		banners = append(banners, banner(d, v))
	}
	return verdicts, banners
}

// banner is the answer of a verdict at the head of a page.
func banner(d *diagnose.Diagnosis, v *diagnose.Verdict) render.Banner {
	b := render.Banner{Class: class(d, v), Head: head(d, v), Text: []string{render.Sentence(v.Summary)}}
	at := "Diagnosed at " + d.At.UTC().Format("2006-01-02 15:04:05 UTC") + "."
	for _, s := range []string{strings.TrimSpace(whereSince(d, v, false) + " " + at), objectivesLine(d.Lead(v))} {
		if s != "" {
			b.Text = append(b.Text, s)
		}
	}
	return b
}

func newHTMLVerdict(d *diagnose.Diagnosis, v *diagnose.Verdict, o Options) (htmlVerdict, error) {
	out := htmlVerdict{Banner: banner(d, v)}
	f := d.Lead(v)
	out.Figures, out.Over = figures(d, v, f)
	intro, rows := changes(d, &v.Workload, o.Full)
	out.Changes = htmlChanges{Head: "What changed" + whose(d, &v.Workload), Intro: intro, Rows: rows}
	for _, group := range []struct {
		head string
		keep func(*diagnose.Finding) bool
	}{{"Also firing", alsoFiring}, {"Explained by " + v.ID, explained}, {"Not yet long enough to be believed", pending}} {
		fs := htmlFindings{Head: group.head}
		for _, f := range selected(d, v, group.keep) {
			fs.List = append(fs.List, [2]string{f.Pathology.ID, summaryOf(d, f)})
		}
		if len(fs.List) > 0 {
			out.Findings = append(out.Findings, fs)
		}
	}
	if f == nil {
		return out, nil
	}
	if len(d.Targets) > 1 {
		out.From = render.Clean(f.Targets[0])
	}
	out.Evidence, out.Comparisons = evidenceRows(f.Evidence, false), evidenceRows(f.Evidence, true)
	for _, r := range slices.Concat(out.Evidence, out.Comparisons) {
		r[len(r)-1] = strings.Replace(r[len(r)-1], " ", "\u00a0", 1) // "> 2 s" stays in one line
	}
	for _, r := range f.Reasons {
		out.Reasons = append(out.Reasons, render.Sentence(r))
	}
	for i := range f.Fixes {
		out.Fixes = append(out.Fixes, newHTMLFix(&f.Fixes[i], first(f.Targets), o.Full))
	}
	out.RunbookTitle, out.RunbookSource = render.Clean(f.Pathology.Title), o.runbook(f.Pathology)
	var err error
	out.Runbook, err = render.MarkdownHTML(withoutTitle(f.Pathology.Runbook))
	return out, err
}

// withoutTitle leaves out the title of a runbook: the page has one.
func withoutTitle(markdown string) string {
	if _, rest, ok := strings.Cut(markdown, "\n"); ok && strings.HasPrefix(markdown, "# ") {
		return rest
	}
	return markdown
}

func newHTMLFix(f *catalog.Fix, target string, verbose bool) htmlFix {
	out := htmlFix{Summary: render.Sentence(f.Summary)}
	lines := commandLines(f, target)
	if f.Args() != "" || f.Command != "" {
		out.Command, lines = lines[0], lines[1:]
	}
	out.Beside = lines
	for _, a := range f.Arithmetic {
		out.Arithmetic = append(out.Arithmetic, render.Clean(a))
	}
	out.Cost, out.Verify = render.Sentence(f.Tradeoff), render.Sentence(f.Verify)
	for i, line := range predictionLines(f.Predicted, verbose) {
		if i == 0 {
			out.Predicted = render.Sentence(line)
		} else {
			out.Basis = append(out.Basis, render.Sentence(line))
		}
	}
	return out
}

// Size of a figure in pixels: narrow, for a phone shows it at its natural size.
const figureWidth, figureHeight = 420, 190

// figures draws the plots of a verdict, and says what they show.
func figures(d *diagnose.Diagnosis, v *diagnose.Verdict, f *diagnose.Finding) (figs []render.Figure, over string) {
	if len(v.Plots) == 0 {
		return nil, ""
	}
	from, to := shownTime(d, v)
	var shown []string
	for i := range v.Plots {
		p := &v.Plots[i]
		c := chart(v, p, f)
		c.Range = [2]float64{render.Moment(from), render.Moment(to)}
		figs = append(figs, render.Draw(caption(p, f), c))
		for _, l := range p.Lines {
			if name := render.Clean(l.Target); !slices.Contains(shown, name) {
				shown = append(shown, name)
			}
		}
	}
	counted := ""
	for _, p := range v.Plots {
		if p.Signal.Sums() {
			counted = " (of " + length(p.Over) + " where events are counted)"
		} else {
			over = length(p.Over)
		}
	}
	over = "Each point is of the " + over + " before it" + counted + "."
	if len(shown) > 1 {
		over += " In colour: " + shown[0] + "; in grey: " + render.And(shown[1:]) + "."
	}
	over += " Shaded in grey: the time that was judged"
	if v.Plots[0].Baseline.To.After(from) {
		over += "; in green: the time that is called normal"
	}
	return figs, over + "."
}

// shownTime returns the time that the plots of a verdict show.
func shownTime(d *diagnose.Diagnosis, v *diagnose.Verdict) (from, to time.Time) {
	for _, p := range v.Plots {
		for _, l := range p.Lines {
			if first := l.At[0]; from.IsZero() || first.Before(from) {
				from = first
			}
			if last := l.At[len(l.At)-1]; last.After(to) {
				to = last
			}
		}
	}
	if d.At.After(to) {
		to = d.At
	}
	return from, to
}

// plotLimit is what a plot's quantity was compared with: by the finding, as evidence, or
// else by what was promised; NaN where by neither.
func plotLimit(p *diagnose.Plot, f *diagnose.Finding) (value float64, op catalog.Op, evidence bool) {
	if f != nil {
		for _, e := range farthest(f.Evidence, false) {
			if e.Signal == p.Signal && !math.IsNaN(e.Threshold) {
				return e.Threshold, e.Op, true
			}
		}
	}
	return p.Promised, catalog.GreaterThan, false
}

// limitText writes the limit of a plot; "" where it has none.
func limitText(p *diagnose.Plot, f *diagnose.Finding) (value float64, text string) {
	value, op, _ := plotLimit(p, f)
	if !math.IsNaN(value) {
		text = op.Text(value, p.Signal.Unit)
	}
	return value, text
}

func caption(p *diagnose.Plot, f *diagnose.Finding) string {
	parts := []string{"no value now"}
	if p.Now.OK {
		parts[0] = "now " + indicator.Format(p.Now, p.Signal.Unit)
	}
	if p.Normal.OK {
		parts = append(parts, "normal "+indicator.Format(p.Normal, p.Signal.Unit))
	}
	if _, text := limitText(p, f); text != "" {
		parts = append(parts, "threshold "+text)
	}
	return strings.Join(parts, " · ")
}

func chart(v *diagnose.Verdict, p *diagnose.Plot, f *diagnose.Finding) render.Chart {
	unit := p.Signal.Unit
	c := render.Chart{
		Title: p.Signal.Title, Width: figureWidth, Height: figureHeight, NoLegend: true, Clock: true,
	}
	c.In(unit)
	for _, l := range slices.Backward(p.Lines) { // the first one on top
		s := render.Series{Name: render.Clean(l.Target), Y: l.Value, Faint: l.Target != p.Lines[0].Target}
		for _, at := range l.At {
			s.X = append(s.X, render.Moment(at))
		}
		c.Add(s)
	}
	for _, b := range []struct {
		r           diagnose.Range
		class, name string
	}{{p.Baseline, "normal", "the time that is called normal"}, {p.Window, "window", "the time that was judged"}} {
		if !b.r.From.IsZero() {
			from, to := render.Moment(b.r.From), render.Moment(b.r.To)
			c.Bands = append(c.Bands, render.Band{From: from, To: to, Class: b.class, Name: b.name})
		}
	}
	if p.Normal.OK {
		label := "normal " + indicator.Format(p.Normal, unit)
		c.Levels = append(c.Levels, render.Level{Value: p.Normal.V, Class: "good", Why: "what was normal", Label: label})
	}
	if value, text := limitText(p, f); text != "" {
		l := render.Level{Value: value, Class: "critical", Why: "threshold " + text}
		if v.Status == diagnose.Firing {
			l.Label = "threshold " + text
		}
		c.Levels = append(c.Levels, l)
	}
	if v.Status == diagnose.Firing && !v.Since.IsZero() && !v.SinceAtLeast {
		c.Marks = []render.Mark{{
			At: render.Moment(v.Since), Name: "since " + v.Since.UTC().Format(time.TimeOnly), Onset: true,
		}}
	}
	return c
}
