package tunereport

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// Ranks of the parts of the answer: the lowest leave a small screen first.
const (
	rankBeside = iota + 1
	rankNote
	rankMemory
	rankBasis
	rankLabel
	rankCommand
	rankRemedy
	rankDoubt
)

type document struct {
	*render.Document
	a *Answer
}

// Document reports the answer. It begins with whether the model fits, and the command; a screen shows little more.
func Document(a *Answer) *render.Document {
	d := &document{render.NewDocument("Configuration of " + a.Model.Name), a}
	d.More = "the memory line by line"
	style := render.Bad
	switch {
	case a.Met():
		style = render.Good
	case a.Status == statusLikely:
		style = render.Warning
	}
	d.Answer(style, "", a.summarize())
	if a.Result == nil {
		d.Command(a.Command)
	} else {
		d.More += ", and the result for every kind of GPU"
		d.addRows(a.Result.Rows)
		d.addCommands(a.Result.Rows)
	}
	d.addLimits()
	for i, x := range a.Remedies {
		rank := rankRemedy
		if i >= fewRemedies {
			rank = rankBeside
		}
		d.Ranked(rank, "fits with", fmt.Sprintf("%s: leaves %s for the KV cache", x.Change, render.GiB(x.Left.Value)))
	}
	d.ShowIn(render.Details)
	if a.Result != nil {
		d.addOffers(a.Result)
	}
	d.addLedger()
	return d.Document
}

// fewRemedies is the number of remedies that suffice on a screen.
const fewRemedies = 3

// summarize says in a sentence whether the model fits, and whether targets are met.
func (a *Answer) summarize() string {
	modelName := a.Model.Name + " (" + render.Large(a.Model.Parameters) + " parameters)"
	if r := a.Result; r != nil {
		first := r.Rows[0].Hardware()
		switch a.Status {
		case statusFound:
			return fmt.Sprintf("%s surely meets the targets on %s.", modelName, first)
		case statusLikely:
			return fmt.Sprintf("%s likely meets the targets, not surely, on %s.", modelName, first)
		}
		text := "The targets cannot be met"
		if len(r.Explain) > 0 {
			text += ": " + strings.TrimSuffix(r.Explain[0], ".")
		}
		return text + ". What comes closest: " + first + "."
	}
	l := &a.Ledger
	on := fmt.Sprintf("%s on %d × %s", modelName, l.GPUs, cmp.Or(l.GPU, "GPU"))
	longest := render.Grouped(float64(l.MaxModelLen)) + " tokens"
	if a.Met() {
		return fmt.Sprintf("It fits: %s, with a KV cache for %.3g requests of %s.", on, l.Concurrency.Value, longest)
	}
	text := fmt.Sprintf("It does not fit: %s leaves no room for a request of %s.", on, longest)
	switch {
	case len(a.Remedies) == 0:
		return text + " No single change makes it fit."
	case a.Command == "":
		return text
	}
	return text + " With " + a.Remedies[0].Change + " it does."
}

// addRows shows the configurations with TTFT, ITL and the other quantities with a target.
func (d *document) addRows(shown []Row) {
	columns := []render.Column{{Left: true}, {Title: "GPUs", Left: true}}
	var rows [][]string
	for i := range shown {
		rows = append(rows, []string{shown[i].Row, shown[i].Hardware()})
	}
	target := []string{"target", ""}
	add := func(c render.Column, aim string, cell func(x *Row) string) {
		columns, target = append(columns, c), append(target, aim)
		for i := range shown {
			rows[i] = append(rows[i], cell(&shown[i]))
		}
	}
	for k, q := range shown[0].Predicted {
		if q.Target == nil && k > 1 {
			continue
		}
		unit, times := "", 1.0
		if q.Unit == indicator.Seconds {
			unit, times = ", ms", 1e3
			isLong := func(x Row) bool { return k < len(x.Predicted) && x.Predicted[k].Value >= 1 }
			if slices.ContainsFunc(shown, isLong) {
				unit, times = ", s", 1
			}
		}
		aim := ""
		if q.Target != nil {
			aim = render.Number(*q.Target * times)
		}
		add(render.Column{Title: q.Name + unit}, aim, func(x *Row) string {
			if k >= len(x.Predicted) {
				return ""
			}
			return formatInterval(x.Predicted[k], times, x.Overload)
		})
	}
	if slices.ContainsFunc(shown, func(x Row) bool { return x.Cost != nil }) {
		free := &planning.Cost{}
		add(render.Column{Title: "$/h"}, "",
			func(x *Row) string { return fmt.Sprintf("%.2f", cmp.Or(x.Cost, free).Hour) })
		add(render.Column{Title: "$/M out", Rank: 1}, "",
			func(x *Row) string { return fmt.Sprintf("%.2f", cmp.Or(x.Cost, free).MillionOutput) })
	}
	d.Table(columns, append(rows, target))
}

// formatInterval writes a predicted value with its interval, in a unit of which a second has times many, with two
// digits or more. If the servers do not keep up with the load at the slow end, waits have no bound.
func formatInterval(q planning.Quantity, times float64, overload bool) string {
	f := func(v float64) string {
		if v *= times; v < 9.95 {
			return fmt.Sprintf("%.2g", v)
		}
		return render.Grouped(math.Round(v))
	}
	high := f(q.High)
	if overload && q.Unit == indicator.Seconds {
		high = "∞"
	}
	if f(q.Low) == high {
		return high
	}
	return fmt.Sprintf("%s (%s–%s)", f(q.Value), f(q.Low), high)
}

// addCommands shows the commands of the rows, each once.
func (d *document) addCommands(rows []Row) {
	var commands []string
	uses := map[string][]string{}
	for _, x := range rows {
		if uses[x.Command] == nil {
			commands = append(commands, x.Command)
		}
		uses[x.Command] = append(uses[x.Command], fmt.Sprintf("%s: %s, %.3g requests/s each", x.Row,
			render.Plural(x.Replicas, "replica"), x.Rate/float64(x.Replicas)))
	}
	model := ""
	if strings.Contains(commands[0], `"$MODEL"`) {
		model = "; MODEL is the weights' name or directory"
	}
	d.Section("Start each replica with", model)
	for i, c := range commands {
		if i > 0 {
			d.Rank(rankLabel)
		}
		d.Paragraph("", strings.Join(uses[c], "; ")+":")
		if i > 0 {
			d.Rank(rankCommand)
		}
		d.Command(c)
		d.Rank(0)
	}
}

// addLimits shows the risk and the basis of the answer, and the effects that it ignores.
func (d *document) addLimits() {
	a := d.a
	rank := rankDoubt
	if a.Risk == riskLow {
		rank = rankBeside
	}
	d.Ranked(rank, "risk", a.Risk)
	d.Ranked(rankBeside, "workload", a.Workload)
	d.Ranked(rankMemory, "memory", a.Ledger.describe())
	notes := a.Notes
	if r := a.Result; r != nil {
		basis, _, _ := strings.Cut(r.Basis, ";")
		d.ShowIn(render.Screen)
		d.Ranked(rankBasis, "basis", basis)
		d.ShowIn(render.Everywhere)
		d.Item("basis", r.Basis).In(render.Details)
		if a.Status == statusNotMet {
			notes = slices.Concat(r.Explain[min(1, len(r.Explain)):], notes)
		}
	}
	d.Ranked(rankDoubt, "left out", strings.Join(a.LeftOut, "; "))
	if len(a.Idle) > 0 {
		d.Ranked(rankBeside, "no effect", strings.Join(a.Idle, ", ")+": the answer does not depend on it")
	}
	if u := a.Model.Unknown; len(u) > 0 {
		d.Ranked(rankDoubt, "note", "not understood of the model: "+strings.Join(u, "; "))
	}
	for _, n := range notes {
		d.Ranked(rankNote, "note", n)
	}
}

// describe summarizes a GPU's memory in one line.
func (l *Ledger) describe() string {
	var parts []string
	for _, x := range l.Lines {
		if x.ID != perfmodel.LineTotal && x.ID != perfmodel.LineRequested {
			parts = append(parts, x.Name+" "+render.GiB(x.Bytes.Value))
		}
	}
	return "of each GPU: " + strings.Join(parts, ", ") + ": " + render.Grouped(l.Tokens.Value) + " tokens"
}

// addOffers shows how many of each kind of GPU are needed.
func (d *document) addOffers(r *Result) {
	count := func(n, atLeast int) string {
		switch {
		case n > 0:
			return strconv.Itoa(n)
		case atLeast > 0:
			return "≥ " + strconv.Itoa(atLeast)
		}
		return "–"
	}
	var rows [][]string
	for _, o := range r.Offers {
		row := []string{
			o.GPU, count(o.Surely, 0), count(o.Likely, o.AtLeast), fmt.Sprintf("%.2f", o.GPUHour),
		}
		if o.Impossible != "" {
			row = []string{o.GPU, o.Impossible}
		}
		rows = append(rows, row)
	}
	d.Section("What each kind of GPU needs", "")
	d.Table(render.Columns("GPU", "surely", "likely", "$/h of one"), rows)
}

// addLedger shows the memory line by line, and the capacity of the KV cache.
func (d *document) addLedger() {
	l, m := &d.a.Ledger, &d.a.Model
	d.Section("Memory of each GPU",
		fmt.Sprintf(": %d × %s, vLLM %s", l.GPUs, cmp.Or(l.GPU, "no data sheet"), l.Release))
	model := fmt.Sprintf("%s: %s; %s", m.Name, m.Kind, m.Weights)
	if m.ActiveParameters < m.Parameters*0.999 {
		model += "; a token uses " + render.Large(m.ActiveParameters) + " parameters"
	}
	d.Paragraph("model", model)
	for _, s := range l.Assumed {
		d.Paragraph("taken", s)
	}
	var rows [][]string
	add := func(name string, of perfmodel.Estimate, format func(float64) string) {
		within := "exact"
		if of.Low != of.High {
			within = format(of.Low) + " to " + format(of.High)
		}
		rows = append(rows, []string{name, format(of.Value), within})
	}
	for _, x := range l.Lines {
		add(x.Name, x.Bytes, render.GiB)
	}
	add("blocks (num_gpu_blocks)", l.Blocks, render.Grouped)
	add("capacity in tokens", l.Tokens, render.Grouped)
	add("requests of "+render.Grouped(float64(l.MaxModelLen))+" tokens", l.Concurrency,
		func(v float64) string { return fmt.Sprintf("%.2f", v) })
	add("longest request that fits", l.MaxLen, render.Grouped)
	d.Table(render.Words(render.Columns("", "", "range")), rows)
	for _, x := range l.Lines {
		d.Paragraph(x.Name, "= "+x.Formula+"; source: "+x.Source)
	}
	d.Paragraph("a block of the KV cache", render.Grouped(l.BytesPerBlock)+" bytes = "+l.Formula)
}
