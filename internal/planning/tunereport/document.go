package tunereport

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// How long parts of the answer stay where there is no room for all of them: what is asked
// for last leaves first.
const (
	rankBeside = iota + 1
	rankNote
	rankMeasure
	rankLikely
	rankMemory
	rankCost
	rankBasis
	rankRemedy
	rankDoubt
)

type document struct {
	*render.Document
	a *Answer
}

// Document says the answer: whether it fits and the command come first, and on a screen
// little more.
func Document(a *Answer) *render.Document {
	d := &document{render.NewDocument("Configuration of " + a.Model.name()), a}
	d.More = "the memory line by line and what else was tried"
	if a.Result != nil && a.Result.Measure != nil {
		d.More = "the memory line by line, what else was tried, and what to measure"
	}
	d.answer()
	d.ShowIn(render.Details)
	d.result()
	d.memoryLines()
	d.cache()
	d.check()
	d.model()
	return d.Document
}

// answer is what most people want to know.
func (d *document) answer() {
	r, style := d.a.Result, render.Bad
	switch {
	case d.a.Met():
		style = render.Good
	case d.a.Status == statusLikely:
		style = render.Warning
	}
	d.Answer(style, "", d.a.verdict())
	d.Command(strings.ReplaceAll(d.a.Command, " \\\n  ", " "))
	if r != nil {
		if len(d.a.Comparison) > 0 {
			d.Rank(rankBeside)
		}
		d.predicted(r)
		d.Rank(0)
	}
	d.comparison()
	d.Ranked(rankDoubt, "risk", d.a.Risk)
	if c := d.a.Cost; c != nil && (d.a.Met() || d.a.Status == statusLikely) {
		d.addBriefAndFull(rankCost, "cost", c.text(false), c.text(true))
	}
	if d.a.Targets != nil {
		d.ShowIn(render.Details)
		d.Ranked(0, "targets", targets(d.a.Targets))
		d.ShowIn(render.Everywhere)
	}
	d.Ranked(rankBeside, "workload", d.a.Workload)
	if p := chosen(d.a); p != nil {
		d.ShowIn(render.Details)
		d.Ranked(0, "busy", fmt.Sprintf("per GPU %s output tokens/s; %.3g requests in a batch on average; KV cache at most %.0f %% full; %d preemptions in 1000 requests",
			render.Grouped(p.PerGPU), p.Running, 100*p.KVPeak, p.Preemptions))
		d.ShowIn(render.Everywhere)
	}
	d.Ranked(rankMemory, "memory", d.a.memory())
	d.writeLimits(r)
	for i, x := range d.a.Remedies {
		rank := rankRemedy
		if i >= fewRemedies {
			rank = rankBeside
		}
		d.Ranked(rank, "fits with", fmt.Sprintf("%s: leaves %s for the KV cache", x.Change, render.GiB(x.Left.Value)))
	}
	d.measure(r)
}

// writeLimits says what the answer rests on, and what is left out of it.
func (d *document) writeLimits(r *Result) {
	if r != nil {
		basis, _, _ := strings.Cut(r.Basis, ";")
		d.addBriefAndFull(rankBasis, "basis", basis, r.Basis)
		if r.Likely != nil && r.Best != nil {
			d.Ranked(rankLikely, "likely", fmt.Sprintf("%s would do at the likeliest step times; at the slow end: %s", render.Plural(r.Likely.GPUs, "GPU"), strings.Join(r.Doubts, ", ")))
		}
	}
	if c := d.a.Check; c != nil && len(c.Comparisons) > 0 {
		var off []string
		for _, x := range c.Comparisons {
			if !x.Within {
				off = append(off, fmt.Sprintf("%s is off by %s", x.Name, offBy(x.Off)))
			}
		}
		d.Ranked(rankDoubt, "check", cmp.Or(strings.Join(off, "; "), "the memory agrees with "+c.Source))
	}
	d.Ranked(rankDoubt, "left out", strings.Join(d.a.LeftOut, "; "))
	if len(d.a.Idle) > 0 {
		d.Ranked(rankBeside, "no effect", strings.Join(d.a.Idle, ", ")+": nothing here depends on it")
	}
	if u := d.a.Model.Unknown; len(u) > 0 {
		d.Ranked(rankDoubt, "note", "not understood of the model: "+strings.Join(u, "; "))
	}
	explained := d.a.Notes
	if r != nil && r.Best == nil {
		explained = slices.Concat(r.Explain[min(1, len(r.Explain)):], d.a.Notes)
	}
	for _, n := range explained {
		d.Ranked(rankNote, "note", n)
	}
}

// measure says which load test would tell most.
func (d *document) measure(r *Result) {
	if r == nil || r.Measure == nil {
		return
	}
	m := r.Measure
	d.Ranked(rankMeasure, "measure", fmt.Sprintf("two minutes of %s tell most: %s, known within a factor of %s, would be within %s. Start one replica, then",
		m.Load, m.Widest, factor(m.Factor), factor(m.Reduced)))
	d.Rank(rankMeasure)
	for _, c := range m.Commands[min(1, len(m.Commands)):] {
		d.Command(c)
	}
	d.Rank(0)
}

// addBriefAndFull adds a short text for a screen, and a longer one.
func (d *document) addBriefAndFull(rank int, name, brief, full string) {
	d.ShowIn(render.Screen)
	d.Ranked(rank, name, brief)
	d.ShowIn(render.Details)
	d.Ranked(0, name, full)
	d.ShowIn(render.Everywhere)
}

// factor writes how far apart the ends of an interval are.
func factor(f float64) string {
	if f > 100 {
		return "more than 100"
	}
	return fmt.Sprintf("%.2g", f)
}

// fewRemedies is how many changes with which the model fits say enough.
const fewRemedies = 3

// verdict says in a sentence whether it fits, and whether targets are met.
func (a *Answer) verdict() string {
	d := &a.Deployment
	gpu := cmp.Or(d.GPU, "GPU")
	name := a.Model.name() + " (" + render.Large(a.Model.Parameters) + " parameters)"
	if p := chosen(a); p != nil {
		with := fmt.Sprintf("%d × %s", p.GPUs, gpu)
		if p.Replicas > 1 {
			with += fmt.Sprintf(" in %d replicas, each started so", p.Replicas)
		}
		if a.Met() {
			return "It fits and meets the targets: " + name + " on " + with + "."
		}
		if a.Status == statusLikely {
			return "It fits and likely meets the targets, not surely: " + name + " on " + with + ". At the slow end of what is known: " + strings.Join(a.Result.Doubts, ", ") + "."
		}
		text := "The targets cannot be met."
		if len(a.Result.Explain) > 0 {
			text = "The targets cannot be met: " + strings.TrimSuffix(a.Result.Explain[0], ".") + "."
		}
		return text + " What comes closest: " + with + "."
	}
	gpus := d.TensorParallel * d.PipelineParallel * d.DataParallel
	l := &a.Ledger
	if a.Met() {
		return fmt.Sprintf("It fits: %s on %d × %s, with a KV cache for %.3g requests of %s tokens.", name, gpus, gpu, l.Concurrency.Value, render.Grouped(float64(d.MaxModelLen)))
	}
	text := fmt.Sprintf("It does not fit: %s on %d × %s leaves no room for a request of %s tokens.", name, gpus, gpu, render.Grouped(float64(d.MaxModelLen)))
	if len(a.Remedies) == 0 {
		return text + " No single change was found with which it does."
	}
	if a.Command == "" {
		return text
	}
	return text + " With " + a.Remedies[0].Change + " it does."
}

// memory says in a line what a GPU's memory holds.
func (a *Answer) memory() string {
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
		return text + ", which is " + render.GiB(-kv) + " more than there is"
	}
	return text + fmt.Sprintf(", left for the KV cache %s: %s tokens", render.GiB(kv), render.Grouped(a.Ledger.Tokens.Value))
}

// name is what people call a model.
func (m *Model) name() string { return cmp.Or(m.Architecture, m.Type) }

func (d *document) model() {
	m := &d.a.Model
	d.Section("Model", "")
	said := m.DType
	if m.Quantization != "none" {
		said += ", linear layers " + m.Quantization
	}
	d.Paragraph("", fmt.Sprintf("%s: %s; %s", m.name(), m.Kind, said))
	said = render.Large(m.Parameters) + " parameters"
	if m.ActiveParameters < m.Parameters*0.999 {
		said += fmt.Sprintf(", of which a token uses %s", render.Large(m.ActiveParameters))
	}
	d.Paragraph("", said)
	var parts [][]string
	for _, p := range m.Parts {
		parts = append(parts, []string{p.Name, render.Large(p.Parameters), "= " + p.Formula})
	}
	d.Table(render.Words(render.Columns("", "", "")), parts)
	for _, a := range m.Assumed {
		d.Paragraph("missing", fmt.Sprintf("%s, taken as %s (%s)", a.Field, a.Value, a.Source))
	}
	for _, u := range m.Unknown {
		d.Paragraph("not understood", u)
	}
}

// memoryLines is the ledger of a GPU: each line with its range, its sum and where that is from.
func (d *document) memoryLines() {
	x := &d.a.Deployment
	parallel := fmt.Sprintf("TP %d", x.TensorParallel)
	if x.PipelineParallel > 1 {
		parallel += fmt.Sprintf(", PP %d", x.PipelineParallel)
	}
	if x.DataParallel > 1 {
		parallel += fmt.Sprintf(", DP %d", x.DataParallel)
	}
	d.Section("Memory of each GPU", fmt.Sprintf(": %s, %s, vLLM %s", cmp.Or(x.GPU, "no data sheet"), parallel, x.Release))
	for _, s := range x.Assumed {
		d.Paragraph("taken", s)
	}
	var rows, sums [][]string
	for _, l := range d.a.Ledger.Lines {
		row := []string{l.Name, render.GiB(l.Bytes.Value), formatRange(l.Bytes, render.GiB)}
		sums, rows = append(sums, row), append(rows, append(row[:3:3], l.Formula, l.Source))
	}
	columns := render.Words(render.Columns("", "", "range", "formula", "source"))
	columns[3].Left = true
	d.ShowIn(render.Page)
	d.Table(columns, rows)
	d.ShowIn(render.Full)
	d.Table(render.Words(render.Columns("", "", "range")), sums)
	for _, l := range d.a.Ledger.Lines {
		d.Paragraph(l.Name, "= "+l.Formula+"; source: "+l.Source)
	}
	d.ShowIn(render.Details)
}

// formatRange shows a range, or that there is none.
func formatRange(r perfmodel.Estimate, f func(float64) string) string {
	if r.Low == r.High {
		return "exact"
	}
	return f(r.Low) + " to " + f(r.High)
}

// cache is what the memory that is left for it holds.
func (d *document) cache() {
	l := &d.a.Ledger
	d.Section("KV cache of one engine", "")
	d.Paragraph("", fmt.Sprintf("a block: %s bytes = %s", render.Grouped(l.BytesPerBlock), l.Formula))
	if len(l.Groups) > 1 {
		kinds := map[string]int{}
		var order []string
		for _, g := range l.Groups {
			if kinds[g.Kind]++; kinds[g.Kind] == 1 {
				order = append(order, g.Kind)
			}
		}
		for i, k := range order {
			order[i] = fmt.Sprintf("%d of %s", kinds[k], k)
		}
		d.Paragraph("", fmt.Sprintf("%d groups of layers share the blocks: %s", len(l.Groups), strings.Join(order, ", ")))
	}
	if l.BytesPerToken > 0 {
		d.Paragraph("", fmt.Sprintf("one more token of context: %s bytes on each GPU", render.Grouped(l.BytesPerToken)))
	}
	if l.StateBytes > 0 {
		d.Paragraph("", fmt.Sprintf("state of one request, whatever its length: %s on each GPU", render.GiB(l.StateBytes)))
	}
	var rows [][]string
	for _, x := range []struct {
		name   string
		of     perfmodel.Estimate
		format func(float64) string
	}{
		{"blocks (num_gpu_blocks)", l.Blocks, render.Grouped},
		{"capacity in tokens", l.Tokens, render.Grouped},
		{fmt.Sprintf("requests of %s tokens", render.Grouped(float64(d.a.Deployment.MaxModelLen))), l.Concurrency, func(v float64) string { return fmt.Sprintf("%.2f", v) }},
		{"longest request that fits", l.MaxLen, render.Grouped},
	} {
		rows = append(rows, []string{x.name, x.format(x.of.Value), formatRange(x.of, x.format)})
	}
	d.Table(render.Words(render.Columns("", "", "")), rows)
	var safe []string
	for _, s := range l.SafeConcurrency {
		safe = append(safe, fmt.Sprintf("%s of %s", render.Grouped(float64(s.Requests)), render.Grouped(float64(s.Tokens))))
	}
	if len(safe) > 0 {
		d.Paragraph("", "without preemption, requests of so many tokens: "+strings.Join(safe, ", "))
	}
}

func (d *document) check() {
	c := d.a.Check
	if c == nil {
		return
	}
	d.Section("The ledger of the server's settings", " beside "+c.Source)
	for _, x := range c.Comparisons {
		f := render.Grouped
		if x.Unit == "bytes" {
			f = render.GiB
		}
		verdict := "agrees"
		if !x.Within {
			verdict = "OFF"
		}
		d.Paragraph("", fmt.Sprintf("%s: %s here (%s), %s there: %s, %s", x.Name, f(x.Ledger.Value), formatRange(x.Ledger, f), f(x.Server), offBy(x.Off), verdict))
		if !x.Within && x.Says != "" {
			d.Paragraph("  look at", x.Says)
		}
	}
}

// offBy writes a relative error.
func offBy(v float64) string {
	if math.Abs(v) < 0.0005 {
		return "no difference"
	}
	return fmt.Sprintf("%+.1f %%", 100*v)
}

func targets(t *Targets) string {
	var parts []string
	add := func(name string, v float64) {
		if v > 0 {
			parts = append(parts, fmt.Sprintf("%s P95 ≤ %s", name, render.Seconds(v)))
		}
	}
	add("TTFT", t.TTFTP95)
	add("ITL", t.ITLP95)
	add("E2E", t.E2EP95)
	if t.TokensPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%s output tokens/s", render.Grouped(t.TokensPerSecond)))
	}
	return strings.Join(parts, ", ")
}

func (d *document) predicted(r *Result) {
	var rows [][]string
	for _, m := range r.Predicted {
		f := render.Seconds
		if m.Unit != "s" {
			f = render.Grouped
		}
		goal := ""
		if m.Target != nil {
			goal = f(*m.Target)
			if m.Unit == "s" && m.Value > *m.Target || m.Unit != "s" && m.Value < *m.Target*0.95 {
				goal += "  MISSED"
			}
		}
		high := f(m.High)
		if r.Overload && m.Unit == "s" {
			high = "overload"
		}
		rows = append(rows, []string{m.Name, f(m.Value), f(m.Low) + " to " + high, goal})
	}
	d.Table(render.Words(render.Columns("predicted", "value", "interval", "target")), rows)
}

func seconds(v planning.Seconds) string {
	if v.Never() {
		return "never"
	}
	return render.Seconds(float64(v))
}

// result tells of the configuration that was found and of those beside it.
func (d *document) result() {
	p := chosen(d.a)
	if p == nil {
		return
	}
	r := d.a.Result
	d.Section("What one step of each knob costs", "")
	rows := [][]string{{"as above", seconds(p.TTFT), seconds(p.ITL), seconds(p.E2E), render.Grouped(p.PerGPU), ""}}
	for _, m := range r.Marginal {
		name := fmt.Sprintf("%s %s", strings.TrimPrefix(m.Knob, "--"), m.To)
		if m.Point == nil {
			rows = append(rows, []string{name, m.Impossible})
			continue
		}
		rows = append(rows, []string{name, change(m.Point.TTFT, p.TTFT), change(m.Point.ITL, p.ITL), change(m.Point.E2E, p.E2E), change(m.Point.PerGPU, p.PerGPU), misses(m.Point)})
	}
	d.Table(render.Words(render.Columns("95th percentiles", "TTFT", "ITL", "E2E", "tok/s/GPU", "")), rows)
	d.Paragraph("", "= is less than half a percent")
	d.listPareto(p)
	u := r.Usual
	if u.KVBytes <= 0 && d.a.Ledger.Blocks.Value > 0 {
		return // the memory is not known, or it is not one GPU's
	}
	d.Section("The usual arithmetic", ", as a first approximation")
	if u.MaxNumSeqs == 0 {
		d.Paragraph("", fmt.Sprintf("memory × 0.9 − weights = %s: nothing fits", render.GiB(u.KVBytes)))
		return
	}
	d.Paragraph("", fmt.Sprintf("memory × 0.9 − weights = %s for %s tokens; over the mean length of a request, max-num-seqs %d (here %d), with the cache of the ledger %s tokens",
		render.GiB(u.KVBytes), render.Grouped(u.Tokens), u.MaxNumSeqs, p.MaxNumSeqs, render.Grouped(d.a.Ledger.Tokens.Value)))
}

func misses(p *planning.Point) string {
	if p.Met {
		return ""
	}
	return "misses"
}

// change writes a relative difference.
func change[T ~float64](to, from T) string {
	switch {
	case math.IsInf(float64(to), 1):
		return "never"
	case math.IsInf(float64(from), 1) || from == 0:
		return "?"
	}
	d := float64(to/from) - 1
	switch {
	case math.Abs(d) < 0.005:
		return "="
	case d > 9.99:
		return fmt.Sprintf("×%.0f", 1+d)
	}
	return fmt.Sprintf("%+.0f %%", 100*d)
}

// listPareto lists what no other configuration beats, and draws all of them.
func (d *document) listPareto(best *planning.Point) {
	if len(d.a.Result.Pareto) < 2 {
		return
	}
	var rows [][]string
	for _, p := range d.a.Result.Pareto {
		rows = append(rows, []string{arrangement(p), fmt.Sprint(p.GPUs), render.Grouped(p.PerGPU), seconds(p.TTFT), seconds(p.ITL), seconds(p.E2E), misses(p)})
	}
	columns := render.Words(render.Columns("arrangement", "GPUs", "tok/s/GPU", "TTFT P95", "ITL P95", "E2E P95", ""))
	columns[5].Rank = 1
	d.Section("Throughput per GPU against latency", "")
	d.Table(columns, rows)
	d.Paragraph("", "not beaten by any other in throughput per GPU, ITL and TTFT")
	for _, x := range []struct {
		name string
		of   func(*planning.Point) planning.Seconds
	}{{"ITL P95", func(p *planning.Point) planning.Seconds { return p.ITL }}, {"TTFT P95", func(p *planning.Point) planning.Seconds { return p.TTFT }}} {
		gather := func(name string, list []*planning.Point) render.Series {
			l := render.Series{Name: name, Dots: true, Loose: true}
			for _, p := range list {
				if v := x.of(p); !v.Never() {
					l.X, l.Y = append(l.X, p.PerGPU), append(l.Y, float64(v))
					l.Label = append(l.Label, arrangement(p))
				}
			}
			return l
		}
		d.Figures(render.Draw("Each dot is a configuration that was simulated.", render.Chart{
			Title: x.name + " against throughput per GPU", XName: "output tokens/s per GPU", LogY: true, Format: render.Seconds,
			Series: []render.Series{gather("simulated", d.a.Result.Points), gather("not beaten", d.a.Result.Pareto), gather("chosen", []*planning.Point{best})},
		}))
	}
}

func arrangement(p *planning.Point) string {
	s := fmt.Sprintf("%d × TP %d, %d seqs, %d tok", p.Replicas, p.TP, p.MaxNumSeqs, p.MaxNumBatchedTokens)
	if p.KVType != "auto" {
		s += ", " + p.KVType
	}
	return s
}

func chosen(a *Answer) *planning.Point {
	switch {
	case a.Result == nil:
		return nil
	case a.Result.Best != nil:
		return a.Result.Best
	}
	return a.Result.Nearest
}

// comparison writes the alternatives as a table.
func (d *document) comparison() {
	var rows, brief [][]string
	for _, x := range d.a.Comparison {
		name := x.GPU
		if x.GPUs > 1 {
			name = fmt.Sprintf("%d × %s", x.GPUs, x.GPU)
		}
		if x.Best {
			name = "→ " + name
		}
		cost := ""
		if c := x.Cost; c != nil && (x.Met || x.Says == saysLikely) {
			cost = fmt.Sprintf("%.2f", c.Hour)
			if c.MillionOutput > 0 {
				cost = fmt.Sprintf("%.2f", c.MillionOutput)
			}
		}
		first, gap, says := "", "", x.Says
		switch says {
		case saysMeets:
			says = "yes"
		case saysLikely:
			says = "likely"
		}
		if x.TTFTP95 > 0 || x.ITLP95 > 0 {
			first, gap = seconds(x.TTFTP95), seconds(x.ITLP95)
		}
		if r := []rune(says); len(r) > 60 {
			says = string(r[:60]) + "…"
		}
		row := []string{name, cmp.Or(x.Quantization, "as it is"), first, gap, cost, says}
		rows = append(rows, row)
		if missed := missedTargets(x.Says); missed != "" {
			says = "no: " + missed
		}
		brief = append(brief, append(row[:5:5], says))
	}
	columns := render.Words(render.Columns("GPUs", "weights", "TTFT P95", "ITL P95", "an hour", ""))
	if d.a.Result != nil {
		columns[4].Title, columns[5].Title = "per M out", "meets them"
	}
	d.ShowIn(render.Screen)
	d.Table(columns, brief)
	d.ShowIn(render.Details)
	d.Table(columns, rows)
	d.ShowIn(render.Everywhere)
}

// missedTargets names the quantities that miss their targets: "TTFT P95 2 s > 500ms; E2E P95 …" is
// "TTFT, E2E". It is "" where something else is said.
func missedTargets(says string) string {
	var names []string
	for one := range strings.SplitSeq(says, "; ") {
		name, _, ok := strings.Cut(one, " P95 ")
		if !ok {
			return ""
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
