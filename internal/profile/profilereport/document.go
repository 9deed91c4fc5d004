// Package profilereport writes a profile with its findings, and the comparison of two profiles.
//
// newDocument makes a render.Document, which is written as text with the answer first, or as a page. The JSON is
// written from the profile itself (json.go). diff.go writes comparisons in both forms. The package judges nothing and
// performs no I/O of its own.
package profilereport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/finding"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

const runbook = "sixty explain slow-decode"

// leastShare is the share of the wall time below which a part has no line on the screen.
const leastShare = 0.01

// Text writes a profile for a terminal, the answer first: one screen or, in full, all findings,
// steps, kernels, ranks and rates.
func Text(w io.Writer, p *profile.Profile, v *finding.Verdict, full bool, o render.Options) error {
	return newDocument(p, v).Text(w, o, full)
}

// HTML writes a self-contained page.
func HTML(w io.Writer, p *profile.Profile, v *finding.Verdict) error {
	return newDocument(p, v).HTML(w)
}

type document struct {
	*render.Document
	p *profile.Profile
	v *finding.Verdict
}

func newDocument(p *profile.Profile, v *finding.Verdict) *render.Document {
	id, severity, summary := makeHeadline(p, v)
	d := &document{render.NewDocument("Profile: " + id), p, v}
	style := render.Good
	if severity != "" {
		id += " (" + severity + ")"
		if severity != catalog.Info.String() {
			style = render.Warning
		}
	}
	if s := stepsLine(p); s != "" {
		summary += ". " + s
	}
	d.Answer(style, id, render.Sentence(summary))
	if f := v.Leading(); f != nil && len(f.Reasons) > 0 {
		d.Paragraph("", render.Sentence(f.Reasons[0])).In(render.Screen)
	}
	for _, s := range p.Partial {
		d.Paragraph("Partial", render.Sentence(s))
	}
	d.writeWallTime()
	d.ShowIn(render.Details)
	d.writeFindings()
	d.ShowIn(render.Everywhere)
	d.writeGaps()
	d.writeFixes()
	d.ShowIn(render.Details)
	d.writeSteps()
	d.writeKernels()
	d.writeRates()
	d.writeDevices()
	d.ShowIn(render.Page)
	if chart, ok := drawRoofline(p); ok {
		d.Section("Chart", "")
		d.Figures(chart)
	}
	d.writeFooter()
	return d.Document
}

// formatSeconds formats a time in nanoseconds.
func formatSeconds(ns int64) string { return render.Seconds(float64(ns) / 1e9) }

// addList adds a section with a table if it has rows. A column's title may end in a bar and marks: < aligns to the
// left, … clips the cells, and a digit drops the column if there is no room, the lowest first.
func (d *document) addList(title, of, columns string, rows [][]string) {
	if len(rows) > 0 {
		d.Section(title, of)
		d.Table(columnsOf(columns), rows)
	}
}

func columnsOf(text string) []render.Column {
	titles := strings.Split(text, ", ")
	marks := make([]string, len(titles))
	for i := range titles {
		titles[i], marks[i], _ = strings.Cut(titles[i], "|")
	}
	columns := render.Words(render.Columns(titles[0], titles[1:]...))
	for i, m := range marks {
		for _, c := range m {
			switch c {
			case '<':
				columns[i].Left = true
			case '…':
				columns[i].Clip = true
			default:
				columns[i].Rank = int(c - '0')
			}
		}
	}
	return columns
}

// makeHeadline returns the first finding, or a sentence for a profile without findings.
func makeHeadline(p *profile.Profile, v *finding.Verdict) (id, severity, summary string) {
	f := v.Leading()
	switch {
	case f != nil:
		return f.Kind.ID, f.Severity.String(), f.Summary
	case p.Devices == 0:
		return "no-activity", "", "The trace has no device or operator activity: another tool wrote it, " +
			"a PyTorch before 1.8.1, or the profiler recorded without activities. " +
			"sixty profile how prints the commands to take one"
	}
	largest := profile.Group(0)
	for g := range profile.Groups {
		if p.Group[g].Time > p.Group[largest].Time {
			largest = g
		}
	}
	return "nothing-dominates", "",
		fmt.Sprintf("The device is busy %s of the time and nothing stands out; the largest part is %s with %s",
			render.Percent(p.Share(p.Busy)), largest, render.Percent(p.Share(p.Group[largest].Time)))
}

// uneven is how many times the median the longest step takes if it is mentioned.
const uneven = 5

// stepsLine counts the steps, with the median duration of each phase; "" without steps.
func stepsLine(p *profile.Profile) string {
	var parts []string
	longest := ""
	for _, phase := range []profile.Phase{profile.Decode, profile.Mixed, profile.Prefill, profile.Unknown} {
		s := p.Steps[phase]
		if s.Count == 0 || phase == profile.Unknown && len(parts) > 0 {
			continue
		}
		name := strings.TrimPrefix(phase.String()+" step", "steps ")
		parts = append(parts, fmt.Sprintf("%s of %s", render.Plural(s.Count, name), render.Seconds(s.P50)))
		if s.Max > uneven*s.P50 {
			longest = ", the longest " + render.Seconds(p.Steps[profile.Unknown].Max)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return render.And(parts) + " (median" + longest + ")"
}

// A row is a part of the wall time: a group of kernels or a cause of idleness.
type row struct {
	Name  string
	Time  int64 // mean over devices
	Share float64
	More  []string // number of kernels, their mean, their rate, and the time of a step or the trace without this part
}

// listParts returns all parts of the wall time: first the groups, then the causes, the largest first.
func listParts(p *profile.Profile) []row {
	peak, _, _ := profile.Peaks(p.GPU())
	each, units := int64(max(p.Devices, 1)), int64(max(p.Steps[profile.Unknown].Count/max(len(p.Ranks), 1), 1))
	without := func(t int64) string { return formatSeconds((p.Wall - t) / each / units) }
	var groups, idle []row
	for g := range profile.Groups {
		x := p.Group[g]
		if x.Count == 0 {
			continue
		}
		rate, known := "", float64(max(x.Known, 1))/1e9
		switch {
		case x.Flops > 0 && peak > 0:
			rate = render.Percent(x.Flops/known/peak) + " MFU"
		case x.Flops > 0:
			rate = formatFlops(x.Flops / known)
		case x.Bytes > 0:
			rate = formatBandwidth(x.Bytes / known)
		}
		more := []string{
			render.Grouped(float64(x.Count)), formatSeconds(x.Sum / int64(x.Count)), rate,
			without(x.Alone),
		}
		groups = append(groups, row{g.String(), x.Time / each, p.Share(x.Time), more})
	}
	for c := range profile.Causes {
		if x := p.Idle[c]; x > 0 {
			idle = append(idle, row{"idle: " + c.String(), x / each, p.Share(x), []string{"", "", "", without(x)}})
		}
	}
	larger := func(a, b row) int { return byShare(b, a) }
	slices.SortStableFunc(groups, larger)
	slices.SortStableFunc(idle, larger)
	return append(groups, idle...)
}

func byShare(a, b row) int { return cmp.Compare(a.Share, b.Share) }

// mainParts returns the largest parts, about most, and sums up the others.
func mainParts(all []row, most int) (out []row) {
	smallest := max(leastShare, slices.SortedFunc(slices.Values(all), byShare)[max(0, len(all)-most)].Share)
	rest, n := row{}, 0
	for _, r := range all {
		if r.Share >= smallest {
			out = append(out, r)
			continue
		}
		rest = row{Name: r.Name, Time: rest.Time + r.Time, Share: rest.Share + r.Share}
		n++
	}
	if n > 1 {
		rest.Name = "the rest"
	}
	if rest.Time > 0 {
		out = append(out, rest)
	}
	return out
}

// writeWallTime writes where the wall time goes: its main parts on the screen, all parts in detail.
func (d *document) writeWallTime() {
	if d.p.Wall == 0 {
		return
	}
	all := listParts(d.p)
	few, longest := [][]string{}, slices.MaxFunc(all, byShare).Share
	for _, r := range mainParts(all, 5) {
		bar := strings.Repeat("█", int(r.Share/longest*20+0.5))
		few = append(few, []string{r.Name, render.Percent(r.Share), formatSeconds(r.Time), bar})
	}
	var cells [][]string
	for _, r := range all {
		cells = append(cells, append([]string{r.Name, render.Percent(r.Share), formatSeconds(r.Time)}, r.More...))
	}
	d.Section("Where the time goes", whereOf(d.p))
	d.Table(columnsOf(", , , |<"), few).In(render.Screen)
	d.ShowIn(render.Details)
	d.Table(columnsOf(", share, time|1, kernels, mean, rate, without it"), cells)
	unit := "the trace"
	if d.p.Steps[profile.Unknown].Count > 0 {
		unit = "a step"
	}
	hidden := ""
	if d.p.Hidden > 0 {
		hidden = fmt.Sprintf(" Communication takes %s more, hidden behind computation.",
			render.Percent(d.p.Share(d.p.Hidden)))
	}
	d.Paragraph("", fmt.Sprintf("Overlaps count once; the parts add up to the wall time.%s "+
		"Rates are for kernels with recorded shapes; MFU is their share of the GPU's 16-bit peak. "+
		"Without it: the minimum time of %s, if nothing else changed. %s kernels, %s of them replayed by graphs.",
		hidden, unit, render.Grouped(float64(d.p.KernelRuns)),
		render.Grouped(float64(d.p.GraphKernels)))).Style = render.Dim
}

// A gap is a profile.Gap with its device.
type gap struct {
	*profile.Gap
	device string
	first  int64 // start of the device's first activity
}

// longestGaps returns the longest gaps of all devices.
func longestGaps(p *profile.Profile) (out []gap) {
	for a, d := range p.EachDevice {
		for i := range d.Gaps {
			out = append(out, gap{&d.Gaps[i], a.DeviceName(d), d.From})
		}
	}
	slices.SortStableFunc(out, func(a, b gap) int { return cmp.Compare(b.Time, a.Time) })
	return out[:min(len(out), mostGaps)]
}

const mostGaps = 10

// writeGaps mentions one-time gaps, and lists the longest gaps in detail.
func (d *document) writeGaps() {
	list := longestGaps(d.p)
	once, longest := 0, (*profile.Gap)(nil)
	for _, g := range list {
		if g.Once {
			if once++; longest == nil {
				longest = g.Gap
			}
		}
	}
	if longest != nil {
		s := fmt.Sprintf("%s, %s of the time", render.Plural(once, "gap"), render.Percent(d.p.Share(d.p.OnceTime())))
		if once > 1 {
			s += fmt.Sprintf(", the longest %s", formatSeconds(longest.Time))
		}
		s += ": " + longest.Cause.String()
		if longest.Host != "" {
			s += ", in " + render.Clip(render.Clean(longest.Host), 48)
		}
		d.Paragraph("Once", render.Sentence(s))
	}
	d.ShowIn(render.Details)
	var cells [][]string
	for _, g := range list {
		cells = append(cells, []string{
			formatSeconds(g.Time), formatSeconds(g.From - g.first), map[bool]string{true: "once"}[g.Once],
			g.Cause.String(),
			render.Clip(render.Clean(g.Host), 70), render.Clip(render.Clean(g.Before), 70),
		})
	}
	d.addList("Longest gaps", "", "time, at|2, , cause|<, the host was in|<1, before|…", cells)
	d.ShowIn(render.Everywhere)
}

// whereOf says how long the trace is, and on which devices.
func whereOf(p *profile.Profile) string {
	s := ": " + render.Seconds(p.Seconds())
	if p.RecordedShare() < 0.9 {
		s += fmt.Sprintf(" of %s recorded", render.Seconds(p.Seconds()+float64(p.Before+p.After)/1e9))
	}
	s += " on " + render.Plural(p.Devices, "GPU")
	if name := p.GPU().Name; name != "" {
		s += " (" + render.Clean(name) + ")"
	}
	return s + ", busy " + render.Percent(p.Share(p.Busy))
}

// writeFixes writes the first fix and the other findings' names, for the screen.
func (d *document) writeFixes() {
	d.ShowIn(render.Screen)
	if f := d.v.Leading(); f != nil && len(f.Fixes) > 0 {
		fix := &f.Fixes[0]
		line := render.Sentence(fix.Summary)
		if args := fix.Args(); args != "" {
			line = fmt.Sprintf("%s (%s).", strings.TrimSuffix(fix.Summary, "."), args)
		}
		d.Section("Fix", "")
		d.Paragraph("", line)
	}
	var names []string
	for i := range d.v.Findings {
		if f := &d.v.Findings[i]; i > 0 {
			names = append(names, fmt.Sprintf("%s %s", f.Kind.ID, render.Percent(f.Cost)))
		}
	}
	if len(names) > 0 {
		d.Paragraph("Also", strings.Join(names, ", "))
	}
}

func (d *document) writeFindings() {
	for i := range d.v.Findings {
		f := &d.v.Findings[i]
		title := "Found"
		if i > 0 {
			title = "Also"
		}
		d.Section(title, fmt.Sprintf(": %s (%s, %s of the time)", f.Kind.ID, f.Severity, render.Percent(f.Cost)))
		if i > 0 {
			d.Paragraph("", render.Sentence(f.Summary))
		}
		for _, r := range f.Reasons {
			d.Paragraph("", render.Sentence(r))
		}
		var cells [][]string
		for _, e := range f.Evidence {
			cells = append(cells, []string{
				e.Signal.Title, indicator.Format(e.Value, e.Signal.Unit), e.Op.Text(e.Threshold, e.Signal.Unit), e.Name,
			})
		}
		d.Table(columnsOf("measured, , threshold, --set name"), cells)
		report.AddFixes(d.Document, f.Fixes)
		if d.p.Workload.Serves() {
			d.Paragraph("Runbook", runbook)
		}
	}
	for _, l := range []struct {
		head  string
		holds catalog.Truth
	}{{"Ruled out", catalog.False}, {"Not checked", catalog.Unknown}} {
		headed := false
		for i := range d.v.Others {
			f := &d.v.Others[i]
			k := slices.IndexFunc(f.Evidence, func(e catalog.Evidence) bool { return e.Holds == l.holds })
			if f.Holds != l.holds || k < 0 {
				continue
			}
			if !headed {
				d.Section(l.head, "")
				headed = true
			}
			e := &f.Evidence[k]
			text := fmt.Sprintf("%s: %s", e.Signal.Title, e.Value.Reason)
			if l.holds == catalog.False {
				text = fmt.Sprintf("%s %s, not %s", e.Signal.Title,
					indicator.Format(e.Value, e.Signal.Unit), e.Op.Text(e.Threshold, e.Signal.Unit))
			}
			d.Item(f.Kind.ID, text)
		}
	}
}

func (d *document) writeSteps() {
	var cells [][]string
	for _, phase := range []profile.Phase{profile.Prefill, profile.Mixed, profile.Decode, profile.Unknown} {
		s := d.p.Steps[phase]
		if s.Count == 0 {
			continue
		}
		name := phase.String()
		if phase == profile.Unknown {
			name = "all"
		}
		cells = append(cells, []string{
			name, fmt.Sprint(s.Count), render.Seconds(s.P50), render.Seconds(s.P95), render.Seconds(s.Max),
			render.Seconds(s.Period), render.Seconds(s.Busy), render.Seconds(s.Late), render.Number(s.Launches),
			render.Number(s.Kernels), render.Number(s.PrefillTokens), render.Number(s.Decodes),
		})
	}
	d.addList("Steps", ", detected by "+d.p.StepsBy, ", n, P50, P95, max|3, period, GPU work, host late, "+
		"launches|4, kernels|5, prefill tok|2, decodes|1", cells)
}

const mostKernels = 40

func (d *document) writeKernels() {
	var cells [][]string
	sum := int64(0)
	for i := range d.p.Kernels {
		sum += d.p.Kernels[i].Sum
	}
	for i := range d.p.Kernels[:min(len(d.p.Kernels), mostKernels)] {
		k := &d.p.Kernels[i]
		of := k.Group.String()
		if k.Below != "" {
			of += " in " + k.Below
		}
		cells = append(cells, []string{
			render.Percent(float64(k.Sum) / float64(max(sum, 1))), formatSeconds(k.Sum), fmt.Sprint(k.Count),
			formatSeconds(k.Sum / int64(max(k.Count, 1))), of, k.Library, render.Clip(render.Clean(k.Short), 140),
		})
	}
	d.addList("Kernels", ", the heaviest first", "share, time, runs, mean|1, for|<, of|<2, kernel|…", cells)
}

func (d *document) writeRates() {
	var cells [][]string
	for _, r := range d.p.Roofline[:min(len(d.p.Roofline), 16)] {
		rate, peak := formatFlops(r.Flops), "unknown"
		if r.Bound == "bandwidth" || r.Flops == 0 {
			rate = formatBandwidth(r.Bytes)
		}
		if r.PeakShare > 0 {
			peak = render.Percent(r.PeakShare) + " of " + r.Bound
		}
		cells = append(cells,
			[]string{formatSeconds(r.Time), fmt.Sprint(r.Count), rate, peak, r.Operator + " " + r.Dims})
	}
	d.addList("Rates", ", against the GPU's data sheet; of communication on the bus, waiting included",
		"time, runs|1, rate, peak|<, |…", cells)
}

// formatFlops formats operations per second; "" for zero.
func formatFlops(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g TF/s", perSecond/1e12)
}

func formatBandwidth(perSecond float64) string { return fmt.Sprintf("%.4g GB/s", perSecond/1e9) }

func (d *document) writeDevices() {
	if d.p.Devices < 2 {
		return
	}
	var cells [][]string
	for a, d := range d.p.EachDevice {
		row := []string{a.DeviceName(d), formatSeconds(d.Wall)}
		for _, t := range []int64{d.Busy, d.Compute, d.Exposed, d.ExposedCopies, d.IdleTime()} {
			row = append(row, render.Percent(d.Share(t)))
		}
		cells = append(cells, row)
	}
	d.addList("Devices", "", ", wall, busy, compute, comm, copies, idle", cells[:min(len(cells), mostDevices)])
	if n := len(cells) - mostDevices; n > 0 {
		d.Paragraph("", fmt.Sprintf("and %d more", n))
	}
	if s := d.p.Stragglers; s.Known {
		d.Paragraph("", fmt.Sprintf("Waiting for the slowest in %s: %s of the time.",
			render.Plural(s.Collectives, "collective"), render.Percent(s.Share)))
	}
}

const mostDevices = 32

func (d *document) writeFooter() {
	d.ShowIn(render.Everywhere)
	if d.p.WholeGraphs == 0 {
		d.ShowIn(render.Details) // a screen shows notes if a graph hides kernels
	}
	d.Rank(1)
	for _, s := range d.p.Notes {
		d.Paragraph("Note", render.Sentence(s))
	}
	d.Rank(0)
	d.ShowIn(render.Everywhere)
	var events int64
	for _, a := range d.p.Ranks {
		events += a.Events
	}
	source := render.Clean(d.p.Ranks[0].Source)
	if n := len(d.p.Ranks); n > 1 {
		source = fmt.Sprintf("%s and %d more", source, n-1)
	}
	d.Paragraph("Source", fmt.Sprintf("%s, %s events of %s", render.Clip(source, 40), render.Grouped(float64(events)),
		d.p.Ranks[0].Tool)).Style = render.Dim
	d.More = "all"
	if d.v.Leading() != nil && d.p.Workload.Serves() {
		d.More = "all; runbook: " + runbook
	}
}
