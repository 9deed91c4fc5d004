package tunereport

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

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

// Document reports the answer: whether it fits, and the command, come first. A screen shows little more.
func Document(a *Answer) *render.Document {
	d := &document{render.NewDocument("Configuration of " + a.Model.displayName()), a}
	d.More = "the memory line by line, and the result for every kind of GPU"
	if a.Result == nil {
		d.More = "the memory line by line"
	}
	d.addAnswer()
	d.ShowIn(render.Details)
	d.addOffers()
	d.addMemoryLines()
	d.addCache()
	d.addModel()
	return d.Document
}

// addAnswer shows the essential part.
func (d *document) addAnswer() {
	r, style := d.a.Result, render.Bad
	switch {
	case d.a.Met():
		style = render.Good
	case d.a.Status == statusLikely:
		style = render.Warning
	}
	d.Answer(style, "", d.a.summarize())
	if r == nil {
		d.Command(d.a.Command)
	} else {
		d.addRows(r)
		d.addCommands(dropRepeated(r.Rows))
	}
	rank := rankDoubt
	if d.a.Risk == riskLow {
		rank = rankBeside
	}
	d.Ranked(rank, "risk", d.a.Risk)
	if d.a.Targets != nil {
		d.Item("P95 targets", describeTargets(d.a.Targets)).In(render.Details)
	}
	d.Ranked(rankBeside, "workload", d.a.Workload)
	d.Ranked(rankMemory, "memory", d.a.describeMemory())
	d.addLimits(r)
	for i, x := range d.a.Remedies {
		rank := rankRemedy
		if i >= fewRemedies {
			rank = rankBeside
		}
		d.Ranked(rank, "fits with", fmt.Sprintf("%s: leaves %s for the KV cache", x.Change, render.GiB(x.Left.Value)))
	}
}

// addRows shows the configurations with their targeted quantities and intervals.
func (d *document) addRows(r *Result) {
	columns := []render.Column{{Left: true}, {Title: "GPUs", Left: true}}
	shown := dropRepeated(r.Rows)
	rows := make([][]string, len(shown))
	add := func(c render.Column, cell func(x *Row) string) {
		columns = append(columns, c)
		for i := range shown {
			rows[i] = append(rows[i], cell(&shown[i]))
		}
	}
	for i := range shown {
		rows[i] = []string{shown[i].Row, shown[i].describeGPUs()}
	}
	for k, m := range r.Rows[0].Predicted {
		if m.Target == nil && (!d.a.Targets.hasNoLatency() || k > 1) {
			continue
		}
		unit, times := "", 1.0
		if m.Unit == "s" {
			unit, times = ", ms", 1e3
			if slices.ContainsFunc(shown,
				func(x Row) bool { return k < len(x.Predicted) && x.Predicted[k].Value >= 1 }) {
				unit, times = ", s", 1
			}
		}
		add(render.Column{Title: m.Name + unit}, func(x *Row) string {
			if k >= len(x.Predicted) {
				return ""
			}
			return formatInterval(x.Predicted[k], times, x.Overload)
		})
	}
	add(render.Column{Title: "req/s", Rank: 1}, func(x *Row) string { return fmt.Sprintf("%.3g", x.Rate) })
	if slices.ContainsFunc(shown, func(x Row) bool { return x.Cost != nil }) {
		add(render.Column{Title: "$/h"},
			func(x *Row) string { return fmt.Sprintf("%.2f", cmp.Or(x.Cost, &planning.Cost{}).Hour) })
		add(render.Column{Title: "$/M out", Rank: 2},
			func(x *Row) string { return fmt.Sprintf("%.2f", cmp.Or(x.Cost, &planning.Cost{}).MillionOutput) })
	}
	d.Table(columns, rows)
}

// dropRepeated drops rows that repeat the configuration and the load of a surer one.
func dropRepeated(rows []Row) (out []Row) {
	for _, r := range rows {
		if !slices.ContainsFunc(out, func(o Row) bool {
			return o.Knobs == r.Knobs && o.GPU == r.GPU && o.Quantization == r.Quantization && o.Rate == r.Rate
		}) {
			out = append(out, r)
		}
	}
	return out
}

// hasNoLatency reports whether no target is a latency.
func (t *Targets) hasNoLatency() bool { return t.TTFTP95 == 0 && t.ITLP95 == 0 && t.E2EP95 == 0 }

func (r *Row) describeGPUs() string {
	text := fmt.Sprintf("%d × %s", r.GPUs, r.GPU)
	if r.Quantization != "" {
		text += ", " + r.Quantization
	}
	return text
}

// formatInterval writes a predicted value with its interval, in a unit of which a second has times many. It has two
// digits, or three if both ends would read the same. If the servers do not keep up with the load at the slow end,
// waits have no bound.
func formatInterval(m Metric, times float64, overload bool) string {
	digits := 2
	f := func(v float64) string {
		if v *= times; v < 0.995*math.Pow10(digits-1) {
			return fmt.Sprintf("%.*g", digits, v)
		}
		return render.Grouped(math.Round(v))
	}
	if f(m.Low) == f(m.High) {
		digits++
	}
	high := f(m.High)
	if overload && m.Unit == "s" {
		high = "∞"
	}
	if f(m.Low) == high {
		return high
	}
	return fmt.Sprintf("%s (%s–%s)", f(m.Value), f(m.Low), high)
}

// addCommands shows the commands of the rows, each once.
func (d *document) addCommands(rows []Row) {
	model := ""
	if strings.Contains(rows[0].Command, `"$MODEL"`) {
		model = "; MODEL is the weights' name or directory"
	}
	d.Section("One replica of each starts with", model)
	shown := map[string]bool{}
	for i, x := range rows {
		if shown[x.Command] {
			continue
		}
		shown[x.Command] = true
		var names []string
		for _, y := range rows {
			if y.Command == x.Command {
				name := y.Row + ", " + render.Plural(y.Replicas, "replica")
				if y.Row == rowSmallest {
					name = fmt.Sprintf("%s, for %.3g requests/s", y.Row, y.Rate)
				}
				names = append(names, name)
			}
		}
		if i > 0 {
			d.Rank(rankLabel)
		}
		d.Paragraph("", strings.Join(names, "; ")+":")
		if i > 0 {
			d.Rank(rankCommand)
		}
		d.Command(x.Command)
		d.Rank(0)
	}
}

// addLimits shows the basis of the answer, and what it ignores.
func (d *document) addLimits(r *Result) {
	if r != nil {
		basis, _, _ := strings.Cut(r.Basis, ";")
		d.ShowIn(render.Screen)
		d.Ranked(rankBasis, "basis", basis)
		d.ShowIn(render.Everywhere)
		d.Item("basis", r.Basis).In(render.Details)
	}
	d.Ranked(rankDoubt, "left out", strings.Join(d.a.LeftOut, "; "))
	if len(d.a.Idle) > 0 {
		d.Ranked(rankBeside, "no effect", strings.Join(d.a.Idle, ", ")+": the answer does not depend on it")
	}
	if u := d.a.Model.Unknown; len(u) > 0 {
		d.Ranked(rankDoubt, "note", "not understood of the model: "+strings.Join(u, "; "))
	}
	explained := d.a.Notes
	if r != nil && d.a.Status == statusNotMet {
		explained = slices.Concat(r.Explain[min(1, len(r.Explain)):], d.a.Notes)
	}
	for _, n := range explained {
		d.Ranked(rankNote, "note", n)
	}
}

// addOffers shows the outcome for each kind of GPU and weight format.
func (d *document) addOffers() {
	if d.a.Result == nil {
		return
	}
	var rows [][]string
	priced := ""
	for _, o := range d.a.Result.Offers {
		var says []string
		add := func(how string, n int) {
			if n > 0 {
				text := how + " " + render.Plural(n, "GPU")
				if o.GPUHour > 0 {
					text += fmt.Sprintf(", $%.2f an hour", float64(n)*o.GPUHour)
				}
				says = append(says, text)
			}
		}
		add("surely", o.Surely)
		add("likely", o.Likely)
		if len(says) == 0 {
			add("at least", o.AtLeast)
		}
		priced = cmp.Or(o.PriceFrom, priced)
		rows = append(rows, []string{
			o.GPU, cmp.Or(o.Quantization, "as it is"),
			cmp.Or(strings.Join(says, "; "), o.Impossible, "does not meet the targets"),
		})
	}
	d.Section("What each kind of GPU needs", "")
	d.Table(render.Words(render.Columns("GPU", "weights", "")), rows)
	if priced != "" {
		d.Paragraph("", "prices: "+priced+"; $/M out is dollars per million output tokens at the load of the row")
	}
	d.Paragraph("", render.Plural(d.a.Result.Evaluated, "configuration")+
		" simulated; more expensive options are not searched further")
}

// fewRemedies is the number of remedies that suffice on a screen.
const fewRemedies = 3

// summarize says in a sentence whether the model fits, and whether targets are met.
func (a *Answer) summarize() string {
	d := &a.Deployment
	gpu := cmp.Or(d.GPU, "GPU")
	name := a.Model.displayName() + " (" + render.Large(a.Model.Parameters) + " parameters)"
	if r := a.Result; r != nil {
		first := &r.Rows[0]
		switch a.Status {
		case statusFound:
			return fmt.Sprintf("%s surely meets the targets on %s.", name, first.describeGPUs())
		case statusLikely:
			return fmt.Sprintf("%s likely meets the targets, not surely, on %s.", name, first.describeGPUs())
		}
		text := "The targets cannot be met."
		if len(r.Explain) > 0 {
			text = "The targets cannot be met: " + strings.TrimSuffix(r.Explain[0], ".") + "."
		}
		return text + " What comes closest: " + first.describeGPUs() + "."
	}
	gpus := d.TensorParallel * d.PipelineParallel * d.DataParallel
	l := &a.Ledger
	if a.Met() {
		return fmt.Sprintf("It fits: %s on %d × %s, with a KV cache for %.3g requests of %s tokens.", name, gpus, gpu,
			l.Concurrency.Value, render.Grouped(float64(d.MaxModelLen)))
	}
	text := fmt.Sprintf("It does not fit: %s on %d × %s leaves no room for a request of %s tokens.", name, gpus, gpu,
		render.Grouped(float64(d.MaxModelLen)))
	if len(a.Remedies) == 0 {
		return text + " No single change makes it fit."
	}
	if a.Command == "" {
		return text
	}
	return text + " With " + a.Remedies[0].Change + " it does."
}

// describeMemory describes in a line what a GPU's memory holds.
func (a *Answer) describeMemory() string {
	var weights, rest, kv float64
	for _, l := range a.Ledger.Lines {
		switch l.ID {
		case perfmodel.LineWeights:
			weights = l.Bytes.Value
		case perfmodel.LineKV:
			kv = l.Bytes.Value
		case perfmodel.LineTotal, perfmodel.LineRequested:
		default:
			rest += l.Bytes.Value
		}
	}
	text := "of each GPU: weights " + render.GiB(weights)
	if rest > 0 {
		text += ", activations, graphs and the like " + render.GiB(rest)
	}
	if kv <= 0 {
		return text + ", which is " + render.GiB(-kv) + " more than available"
	}
	return text + fmt.Sprintf(", left for the KV cache %s: %s tokens", render.GiB(kv),
		render.Grouped(a.Ledger.Tokens.Value))
}

func (m *Model) displayName() string { return cmp.Or(m.Architecture, m.Type) }

func (d *document) addModel() {
	m := &d.a.Model
	d.Section("Model", "")
	text := fmt.Sprintf("%s: %s; %s", m.displayName(), m.Kind, m.DType)
	if m.Quantization != "none" {
		text += ", linear layers " + m.Quantization
	}
	text += "; " + render.Large(m.Parameters) + " parameters"
	if m.ActiveParameters < m.Parameters*0.999 {
		text += ", of which a token uses " + render.Large(m.ActiveParameters)
	}
	d.Paragraph("", text)
	for _, a := range m.Assumed {
		d.Paragraph("missing", fmt.Sprintf("%s, taken as %s (%s)", a.Field, a.Value, a.Source))
	}
	for _, u := range m.Unknown {
		d.Paragraph("not understood", u)
	}
}

func (d *document) addMemoryLines() {
	x := &d.a.Deployment
	parallel := fmt.Sprintf("TP %d", x.TensorParallel)
	if x.PipelineParallel > 1 {
		parallel += fmt.Sprintf(", PP %d", x.PipelineParallel)
	}
	if x.DataParallel > 1 {
		parallel += fmt.Sprintf(", DP %d", x.DataParallel)
	}
	d.Section("Memory of each GPU",
		fmt.Sprintf(": %s, %s, vLLM %s", cmp.Or(x.GPU, "no data sheet"), parallel, x.Release))
	for _, s := range x.Assumed {
		d.Paragraph("taken", s)
	}
	var sums [][]string
	for _, l := range d.a.Ledger.Lines {
		sums = append(sums, []string{l.Name, render.GiB(l.Bytes.Value), formatRange(l.Bytes, render.GiB)})
	}
	d.Table(render.Words(render.Columns("", "", "range")), sums)
	for _, l := range d.a.Ledger.Lines {
		d.Paragraph(l.Name, "= "+l.Formula+"; source: "+l.Source)
	}
}

func formatRange(r perfmodel.Estimate, f func(float64) string) string {
	if r.Low == r.High {
		return "exact"
	}
	return f(r.Low) + " to " + f(r.High)
}

func (d *document) addCache() {
	l := &d.a.Ledger
	d.Section("KV cache of one engine", "")
	d.Paragraph("", fmt.Sprintf("a block: %s bytes = %s", render.Grouped(l.BytesPerBlock), l.Formula))
	if len(l.Groups) > 1 {
		kinds := map[string]int{}
		for _, g := range l.Groups {
			kinds[g.Kind]++
		}
		var groups []string
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			groups = append(groups, fmt.Sprintf("%d of %s", kinds[k], k))
		}
		d.Paragraph("", fmt.Sprintf("%d groups of layers share the blocks: %s", len(l.Groups),
			strings.Join(groups, ", ")))
	}
	if l.BytesPerToken > 0 {
		d.Paragraph("", fmt.Sprintf("one more token of context: %s bytes on each GPU", render.Grouped(l.BytesPerToken)))
	}
	if l.StateBytes > 0 {
		d.Paragraph("", fmt.Sprintf("state of one request, whatever its length: %s on each GPU",
			render.GiB(l.StateBytes)))
	}
	row := func(name string, of perfmodel.Estimate, format func(float64) string) []string {
		return []string{name, format(of.Value), formatRange(of, format)}
	}
	d.Table(render.Words(render.Columns("", "", "")), [][]string{
		row("blocks (num_gpu_blocks)", l.Blocks, render.Grouped),
		row("capacity in tokens", l.Tokens, render.Grouped),
		row(fmt.Sprintf("requests of %s tokens", render.Grouped(float64(d.a.Deployment.MaxModelLen))), l.Concurrency,
			func(v float64) string { return fmt.Sprintf("%.2f", v) }),
		row("longest request that fits", l.MaxLen, render.Grouped),
	})
	var safe []string
	for _, s := range l.SafeConcurrency {
		safe = append(safe, fmt.Sprintf("%s of %s", render.Grouped(float64(s.Requests)),
			render.Grouped(float64(s.Tokens))))
	}
	d.Ranked(0, "without preemption", strings.Join(safe, ", ")+" tokens")
}

func describeTargets(t *Targets) string {
	text := render.Objective(t.TTFTP95, t.ITLP95, t.E2EP95)
	if t.TokensPerSecond > 0 {
		text = strings.TrimPrefix(text+", "+render.Grouped(t.TokensPerSecond)+" output tokens/s", ", ")
	}
	return text
}
