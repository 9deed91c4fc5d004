package profilereport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/finding"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// Options says how to write for people.
type Options struct {
	render.Options
	Full bool // all findings, steps, kernels, ranks and rates
}

// A share below least is not worth a line.
const least = 0.01

// Text writes a profile for a terminal. The first line is the answer.
func Text(w io.Writer, p *profile.Profile, v *finding.Verdict, o Options) error {
	t := &text{render.NewText(o.Options), p, v, o}
	t.verdict()
	t.where()
	if o.Full {
		t.findings()
	} else {
		t.also()
	}
	if o.Full {
		t.steps()
		t.kernels(25)
		t.rates()
		t.devices()
	}
	t.footer()
	_, err := t.WriteTo(w)
	return err
}

type text struct {
	*render.Text
	p *profile.Profile
	v *finding.Verdict
	o Options
}

// seconds writes nanoseconds.
func seconds(ns int64) string { return render.Seconds(float64(ns) / 1e9) }

// headline is the answer in a sentence.
func headline(p *profile.Profile, v *finding.Verdict) (id, severity, summary string) {
	f := v.Leading()
	switch {
	case f != nil:
		return f.Kind.ID, f.Severity.String(), f.Summary
	case p.Devices == 0:
		return "no-activity", "", "The trace holds nothing that a device or an operator did: another tool wrote it, or the profiler recorded without activities. sixty profile how says how to take one"
	}
	g := p.Heaviest()
	return "nothing-dominates", "", fmt.Sprintf("The device is busy %s of the time and nothing stands out; %s leads with %s",
		render.Percent(p.Share(p.Busy)), g, render.Percent(p.Share(p.Group[g].Time)))
}

func (t *text) verdict() {
	id, severity, summary := headline(t.p, t.v)
	head := id
	style := render.Good
	if severity != "" {
		head += " (" + severity + ")"
		if severity != catalog.Info.String() {
			style = render.Warning
		}
	}
	if s := stepsLine(t.p); s != "" {
		summary += ". " + s
	}
	lines := render.Wrap(head+": "+render.Sentence(summary), t.Width(), "  ")
	for i, line := range lines {
		if i == 0 && strings.HasPrefix(line, head) {
			line = t.Style(style, head) + line[len(head):]
		}
		t.Line(line)
	}
	if f := t.v.Leading(); f != nil && !t.o.Full && len(f.Reasons) > 0 {
		t.Paragraph("  ", "  ", render.Sentence(f.Reasons[0]))
	}
}

// uneven is how many times the median the longest step takes that is worth telling.
const uneven = 5

// stepsLine says what the steps took.
func stepsLine(p *profile.Profile) string {
	var parts []string
	longest := ""
	add := func(name string, s profile.StepTimes) {
		parts = append(parts, fmt.Sprintf("%s of %s", render.Plural(s.Count, name), render.Seconds(s.P50)))
		if s.Max > uneven*s.P50 {
			longest = ", the longest " + render.Seconds(p.Steps[profile.Unknown].Max)
		}
	}
	for _, phase := range []profile.Phase{profile.Decode, profile.Mixed, profile.Prefill} {
		if s := p.Steps[phase]; s.Count > 0 {
			add(phase.String()+" step", s)
		}
	}
	if s := p.Steps[profile.Unknown]; len(parts) == 0 && s.Count > 0 {
		add("step", s)
	}
	if len(parts) == 0 {
		return ""
	}
	return render.And(parts) + " (median" + longest + ")"
}

// row is a part of the wall time.
type row struct {
	Name  string
	Time  int64
	Share float64
	Note  string
}

// rows are all parts of a device's wall time; they add up to it.
func rows(p *profile.Profile) []row {
	var out []row
	each := int64(max(p.Devices, 1))
	for g := range profile.Groups {
		if x := p.Group[g]; x.Time > 0 {
			note := render.Plural(x.Count, "kernel")
			switch {
			case g == profile.Communication:
				note = fmt.Sprintf("exposed; %s more hidden behind computation", render.Percent(p.Share(p.Comm-p.Exposed)))
			case g == profile.Copies:
				note = "exposed"
			case p.CPU:
				note = render.Plural(x.Count, "operator")
			}
			out = append(out, row{g.String(), x.Time / each, p.Share(x.Time), note})
		}
	}
	slices.SortStableFunc(out, func(a, b row) int { return cmp.Compare(b.Share, a.Share) })
	var idle []row
	for c := range profile.Causes {
		if x := p.Idle[c]; x > 0 {
			name := "idle: " + c.String()
			if p.CPU && c == profile.HostLate {
				name = "idle: outside operators"
			}
			idle = append(idle, row{name, x / each, p.Share(x), ""})
		}
	}
	slices.SortStableFunc(idle, func(a, b row) int { return cmp.Compare(b.Share, a.Share) })
	return append(out, idle...)
}

// shown keeps the rows that matter and adds the others up.
func shown(all []row, most int) []row {
	kept := slices.Clone(all)
	slices.SortStableFunc(kept, func(a, b row) int { return cmp.Compare(b.Share, a.Share) })
	if len(kept) > most {
		kept = kept[:most]
	}
	kept = slices.DeleteFunc(kept, func(r row) bool { return r.Share < least })
	var out []row
	rest := row{Name: "the rest"}
	n := 0
	for _, r := range all {
		if slices.ContainsFunc(kept, func(k row) bool { return k.Name == r.Name }) {
			out = append(out, r)
			continue
		}
		rest.Time += r.Time
		rest.Share += r.Share
		n++
	}
	if n == 1 {
		for _, r := range all {
			if !slices.ContainsFunc(kept, func(k row) bool { return k.Name == r.Name }) {
				rest.Name = r.Name
			}
		}
	}
	if rest.Time > 0 {
		out = append(out, rest)
	}
	return out
}

func (t *text) where() {
	if t.p.Wall == 0 {
		return
	}
	t.Heading(whereHead(t.p))
	list := rows(t.p)
	if !t.o.Full {
		list = shown(list, 5)
	}
	var cells [][]string
	longest := 0.0
	for _, r := range list {
		longest = max(longest, r.Share)
	}
	for _, r := range list {
		bar := strings.Repeat("█", int(r.Share/longest*20+0.5))
		line := []string{r.Name, render.Percent(r.Share), seconds(r.Time), bar}
		if t.o.Full {
			line[3] = r.Note
		}
		cells = append(cells, line)
	}
	t.Table(render.Words(render.Columns("", "", "", "")), cells)
}

const whereTitle = "WHERE THE TIME GOES: "

func whereHead(p *profile.Profile) string {
	noun := "GPU"
	if p.CPU {
		noun = "thread"
	}
	s := whereTitle + fmt.Sprintf("%s on %s", render.Seconds(p.Seconds()), render.Plural(p.Devices, noun))
	if len(p.Ranks) == 1 && len(p.Ranks[0].Devices) > 0 && p.Ranks[0].Devices[0].Name != "" {
		s += " (" + render.Clean(p.Ranks[0].Devices[0].Name) + ")"
	}
	return s + ", busy " + render.Percent(p.Share(p.Busy))
}

// also shows the leading finding's fix and names the others.
func (t *text) also() {
	if f := t.v.Leading(); f != nil && len(f.Fixes) > 0 {
		t.Heading("FIX")
		fix := &f.Fixes[0]
		line := render.Sentence(fix.Summary)
		if args := fix.Args(); args != "" {
			line = fmt.Sprintf("%s (%s).", strings.TrimSuffix(fix.Summary, "."), args)
		}
		t.Paragraph("  ", "  ", render.Clean(line))
	}
	var names []string
	for i := range t.v.Findings {
		if i > 0 {
			f := &t.v.Findings[i]
			names = append(names, fmt.Sprintf("%s %s", f.Kind.ID, render.Percent(f.Cost)))
		}
	}
	if len(names) > 0 {
		t.Paragraph("  Also: ", "    ", strings.Join(names, ", "))
	}
}

func (t *text) findings() {
	for i := range t.v.Findings {
		f := &t.v.Findings[i]
		if i > 0 {
			t.Heading(fmt.Sprintf("ALSO: %s (%s, %s of the time)", f.Kind.ID, f.Severity, render.Percent(f.Cost)))
			t.Paragraph("  ", "  ", render.Sentence(f.Summary))
		}
		t.Heading("EVIDENCE")
		var cells [][]string
		for _, e := range f.Evidence {
			cells = append(cells, []string{e.Signal.Title, indicator.Format(e.Value, e.Signal.Unit), e.Op.Text(e.Threshold, e.Signal.Unit), e.Name})
		}
		t.Table(render.Words(render.Columns("measured", "", "threshold", "--set name")), cells)
		for k, r := range f.Reasons {
			if k == 0 {
				t.Heading("WHY")
			}
			t.Paragraph("  ", "  ", render.Sentence(r))
		}
		report.WriteFixes(t.Text, f.Fixes, true)
		t.Paragraph("  Runbook: ", "    ", "sixty explain "+f.Kind.Leads)
	}
	var unknown, ruledOut [][]string
	for i := range t.v.Others {
		f := &t.v.Others[i]
		if f.Holds == catalog.Unknown {
			unknown = append(unknown, []string{f.Kind.ID, reason(f)})
		} else {
			ruledOut = append(ruledOut, []string{f.Kind.ID, against(f)})
		}
	}
	for _, l := range []struct {
		head string
		rows [][]string
	}{{"RULED OUT", ruledOut}, {"NOT CHECKED", unknown}} {
		if len(l.rows) > 0 {
			t.Heading(l.head)
			t.Pairs(l.rows)
		}
	}
}

// against is the comparison that rules a finding out.
func against(f *finding.Finding) string {
	for _, e := range f.Evidence {
		if e.Holds == catalog.False {
			return fmt.Sprintf("%s %s, not %s", e.Signal.Title, indicator.Format(e.Value, e.Signal.Unit), e.Op.Text(e.Threshold, e.Signal.Unit))
		}
	}
	return ""
}

// reason says what a finding could not be judged for.
func reason(f *finding.Finding) string {
	for _, e := range f.Evidence {
		if e.Holds == catalog.Unknown {
			return fmt.Sprintf("%s: %s", e.Signal.Title, e.Value.Reason)
		}
	}
	return ""
}

func (t *text) steps() {
	if t.p.Steps[profile.Unknown].Count == 0 {
		return
	}
	t.Heading("STEPS, told apart by " + t.p.StepsBy)
	var cells [][]string
	for _, phase := range []profile.Phase{profile.Prefill, profile.Mixed, profile.Decode, profile.Unknown} {
		s := t.p.Steps[phase]
		if s.Count == 0 {
			continue
		}
		name := phase.String()
		if phase == profile.Unknown {
			name = "all"
		}
		cells = append(cells, []string{
			name, fmt.Sprint(s.Count), render.Seconds(s.P50), render.Seconds(s.P95), render.Seconds(s.Max), render.Seconds(s.Busy), render.Seconds(s.Late),
			render.Number(s.Launches), render.Number(s.Kernels), render.Number(s.PrefillTokens), render.Number(s.Decodes),
		})
	}
	columns := render.Columns("", "n", "P50", "P95", "max", "GPU work", "host late", "launches", "kernels", "prefill tok", "decodes")
	for i, rank := range []int{0, 0, 0, 0, 3, 0, 0, 4, 5, 2, 1} {
		columns[i].Rank = rank
	}
	t.Table(columns, cells)
}

func (t *text) kernels(most int) {
	if len(t.p.Kernels) == 0 {
		return
	}
	t.Heading("KERNELS, the heaviest first")
	var cells [][]string
	sum := int64(0)
	for i := range t.p.Kernels {
		sum += t.p.Kernels[i].Sum
	}
	for i := range t.p.Kernels {
		if i == most {
			break
		}
		k := &t.p.Kernels[i]
		cells = append(cells, []string{
			render.Percent(float64(k.Sum) / float64(max(sum, 1))), seconds(k.Sum), fmt.Sprint(k.Count), seconds(k.Sum / int64(max(k.Count, 1))), k.Group.String(),
			render.Clip(render.Clean(k.Short), max(t.Width()-52, 24)),
		})
	}
	columns := render.Words(render.Columns("share", "time", "runs", "mean", "for", "kernel"))
	columns[4].Left = true
	columns[3].Rank = 1
	t.Table(columns, cells)
}

func (t *text) rates() {
	if len(t.p.Roofline) == 0 {
		return
	}
	t.Heading("MATRIX PRODUCTS, against the GPU's data sheet")
	var cells [][]string
	for i, r := range t.p.Roofline {
		if i == 12 {
			break
		}
		peak := "unknown"
		if r.Peak > 0 {
			peak = render.Percent(r.Peak) + " of arithmetic"
			if r.MemoryBound {
				peak = render.Percent(r.Peak) + " of bandwidth"
			}
		}
		cells = append(cells, []string{r.Operator + " " + r.Dims, fmt.Sprint(r.Count), seconds(r.Time), fmt.Sprintf("%.3g TFLOP/s", r.Flops/1e12), fmt.Sprintf("%.3g TB/s", r.Bytes/1e12), peak})
	}
	t.Table(render.Words(render.Columns("m×k×n", "runs", "time", "", "", "peak")), cells)
}

func (t *text) devices() {
	if t.p.Devices < 2 {
		return
	}
	t.Heading("DEVICES")
	var cells [][]string
	for _, a := range t.p.Ranks {
		for _, d := range a.Devices {
			if len(cells) == 32 {
				continue
			}
			cells = append(cells, []string{a.DeviceName(d), seconds(d.Wall), render.Percent(d.Share(d.Busy)), render.Percent(d.Share(d.Compute)), render.Percent(d.Share(d.Exposed)), render.Percent(d.Share(d.ExposedCopies)), render.Percent(d.Share(d.IdleTime()))})
		}
	}
	t.Table(render.Columns("", "wall", "busy", "compute", "comm", "copies", "idle"), cells)
	if t.p.Devices > 32 {
		t.Line(fmt.Sprintf("  and %d more", t.p.Devices-32))
	}
	if s := t.p.Straggle; s.Known {
		t.Paragraph("  ", "  ", fmt.Sprintf("Waiting for the slowest in %s: %s of the time.", render.Plural(s.Collectives, "collective"), render.Percent(s.Share)))
	}
}

func (t *text) footer() {
	for _, s := range t.p.Partial {
		t.Paragraph("  Partial: ", "    ", render.Sentence(s))
	}
	notes := t.p.Notes
	if !t.o.Full && t.p.WholeGraphs == 0 {
		notes = nil // but where a graph hides what matters
	}
	for _, s := range notes {
		t.Part(1)
		t.Paragraph("  Note: ", "    ", render.Sentence(s))
	}
	if !t.o.Full {
		t.Fit(3)
	}
	t.Line("")
	var events int64
	for _, a := range t.p.Ranks {
		events += a.Events
	}
	source := render.Clean(t.p.Ranks[0].Source)
	if n := len(t.p.Ranks); n > 1 {
		source = fmt.Sprintf("%s and %d more", source, n-1)
	}
	line := fmt.Sprintf("%s, %s events of %s", render.Clip(source, 40), render.Grouped(float64(events)), t.p.Ranks[0].Tool)
	if f := t.v.Leading(); f != nil && !t.o.Full {
		line += "; runbook: sixty explain " + f.Kind.Leads
	}
	if !t.o.Full {
		line += "; --full shows all"
	}
	t.Styled(render.Dim, "", "  ", line)
}
