package tunereport

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/render"
)

// Text writes the answer for a terminal: whether it fits and the command come first, and
// without full little more.
func Text(w io.Writer, a *Answer, full bool, o render.Options) error {
	t := &text{render.NewText(o)}
	t.answer(a, full)
	if full {
		t.model(&a.Model)
		t.memory(a)
		t.check(a.Check)
		if a.Result != nil {
			t.result(a)
		}
	}
	_, err := t.WriteTo(w)
	return err
}

// answer is what most people want to know.
func (t *text) answer(a *Answer, full bool) {
	t.Styled(render.Bold, "", "", a.verdict())
	if a.Command != "" {
		t.Line("")
		t.Command("  ", strings.ReplaceAll(a.Command, " \\\n  ", " "))
	}
	if a.Result != nil {
		if len(a.Comparison) > 0 {
			t.Part(rankBeside)
		}
		t.Line("")
		t.predicted(a.Result)
		t.Part(0)
	}
	t.comparison(a, full)
	t.Line("")
	item := func(rank int, name, text string) {
		t.Part(rank)
		t.Item(10, name, text)
	}
	if a.Risk != "" {
		item(rankDoubt, "risk", a.Risk)
	}
	if a.Cost != nil && (a.Met() || a.Status == statusLikely) {
		item(rankCost, "cost", a.Cost.text(full))
	}
	if a.Workload != "" {
		item(rankBeside, "workload", a.Workload)
	}
	item(rankMemory, "memory", a.memory())
	if a.Result != nil {
		basis := a.Result.Basis
		if !full {
			basis, _, _ = strings.Cut(basis, ";")
		}
		item(rankBasis, "basis", basis)
		if r := a.Result; r.Likely != nil && r.Best != nil {
			item(rankLikely, "likely", fmt.Sprintf("%s would do at the likeliest step times; at the slow end: %s", render.Plural(r.Likely.GPUs, "GPU"), strings.Join(r.Doubts, ", ")))
		}
		t.Part(rankMeasure)
		t.measure(a.Result.Measure)
	}
	if c := a.Check; c != nil && len(c.Comparisons) > 0 {
		var off []string
		for _, x := range c.Comparisons {
			if !x.Within {
				off = append(off, fmt.Sprintf("%s is off by %s", x.Name, offBy(x.Off)))
			}
		}
		if len(off) == 0 {
			off = []string{"the memory agrees with " + c.Source}
		}
		item(rankDoubt, "check", strings.Join(off, "; "))
	}
	if len(a.LeftOut) > 0 {
		item(rankDoubt, "left out", strings.Join(a.LeftOut, "; "))
	}
	if len(a.Idle) > 0 {
		item(rankBeside, "no effect", strings.Join(a.Idle, ", ")+": nothing here depends on it")
	}
	explained := a.Notes
	if r := a.Result; r != nil && r.Best == nil {
		explained = slices.Concat(r.Explain[min(1, len(r.Explain)):], a.Notes)
	}
	if u := a.Model.Unknown; len(u) > 0 {
		item(rankDoubt, "note", "not understood of the model: "+strings.Join(u, "; "))
	}
	for _, n := range explained {
		item(rankNote, "note", n)
	}
	for i, r := range a.Remedies {
		rank := rankRemedy
		if i >= fewRemedies {
			rank = rankBeside
		}
		item(rank, "fits with", fmt.Sprintf("%s: leaves %s for the KV cache", r.Change, render.GiB(r.Left.Value)))
	}
	if full {
		return
	}
	t.Fit(2)
	t.Line("")
	rest := " and what else was tried"
	if a.Result != nil && a.Result.Measure != nil {
		rest = ", what else was tried, and what to measure"
	}
	t.Brief(1, "", "", "--full shows the memory line by line"+rest+".")
}

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

// measure says what would make the answer firmer.
func (t *text) measure(m *Measurement) {
	if m == nil {
		return
	}
	t.Item(10, "measure", fmt.Sprintf("two minutes of %s tell most: %s, known within a factor of %s, would be within %s. Start one replica, then",
		m.Load, m.Quantity, factor(m.Factor), factor(m.Then)))
	for _, c := range m.Commands[min(1, len(m.Commands)):] {
		t.Command("  ", c)
	}
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
	gpu := d.GPU
	if gpu == "" {
		gpu = "GPU"
	}
	name := a.Model.Architecture
	if name == "" {
		name = a.Model.Type
	}
	name += " (" + render.Large(a.Model.Parameters) + " parameters)"
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
		return fmt.Sprintf("It fits: %s on %d × %s, with a KV cache for %.3g requests of %s tokens.", name, gpus, gpu, l.MaxConcurrency.Value, render.Grouped(float64(d.MaxModelLen)))
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

type text struct{ *render.Text }

func (t *text) model(m *Model) {
	t.Heading("Model")
	name := m.Architecture
	if name == "" {
		name = m.Type
	}
	t.Paragraph("  ", "  ", fmt.Sprintf("%s: %s; %s", name, m.Kind, m.DType+quantized(m)))
	active := ""
	if m.ActiveParameters < m.Parameters*0.999 {
		active = fmt.Sprintf(", of which a token uses %s", render.Large(m.ActiveParameters))
	}
	t.Paragraph("  ", "  ", fmt.Sprintf("%s parameters%s", render.Large(m.Parameters), active))
	var parts [][]string
	for _, p := range m.Parts {
		parts = append(parts, []string{p.Name, render.Large(p.Parameters), "= " + p.Formula})
	}
	if len(parts) > 0 {
		t.Table(render.Words(render.Columns("", "", "")), parts)
	}
	for _, a := range m.Assumed {
		t.Paragraph("  missing: ", "    ", fmt.Sprintf("%s, taken as %s (%s)", a.Field, a.Value, a.Source))
	}
	for _, u := range m.Unknown {
		t.Paragraph("  not understood: ", "    ", u)
	}
}

func quantized(m *Model) string {
	if m.Quantization == "none" {
		return ""
	}
	return ", linear layers " + m.Quantization
}

func (t *text) memory(a *Answer) {
	d := &a.Deployment
	where := d.GPU
	if where == "" {
		where = "no data sheet"
	}
	parallel := fmt.Sprintf("TP %d", d.TensorParallel)
	if d.PipelineParallel > 1 {
		parallel += fmt.Sprintf(", PP %d", d.PipelineParallel)
	}
	if d.DataParallel > 1 {
		parallel += fmt.Sprintf(", DP %d", d.DataParallel)
	}
	t.Heading(fmt.Sprintf("Memory of each GPU: %s, %s, vLLM %s", where, parallel, d.Release))
	for _, s := range d.Assumed {
		t.Paragraph("  taken: ", "    ", s)
	}
	for _, l := range a.Ledger.Lines {
		t.amount(l.Name, l.Bytes, render.GiB)
		t.Paragraph("      = ", "        ", l.Formula)
		t.Paragraph("      source: ", "        ", l.Source)
	}
	t.ledger(&a.Ledger, d.MaxModelLen)
}

// amount writes a line of a sum with its range.
func (t *text) amount(name string, r perfmodel.Estimate, f func(float64) string) {
	t.Paragraph("  "+render.Pad(name, 34)+" "+render.Right(f(r.Value), 10)+"  ", "    ", doubt(r, f))
}

// doubt shows a range, or that there is none.
func doubt(r perfmodel.Estimate, f func(float64) string) string {
	if r.Low == r.High {
		return "exact"
	}
	return f(r.Low) + " to " + f(r.High)
}

func (t *text) ledger(l *Ledger, maxLen int) {
	t.Heading("KV cache of one engine")
	t.Paragraph("  ", "    ", fmt.Sprintf("a block: %s bytes = %s", render.Grouped(l.BytesPerBlock), l.BlockFormula))
	kinds := map[string]int{}
	var order []string
	for _, g := range l.Groups {
		if kinds[g.Kind] == 0 {
			order = append(order, g.Kind)
		}
		kinds[g.Kind]++
	}
	if len(l.Groups) > 1 {
		var parts []string
		for _, k := range order {
			parts = append(parts, fmt.Sprintf("%d of %s", kinds[k], k))
		}
		t.Paragraph("  ", "    ", fmt.Sprintf("%d groups of layers share the blocks: %s", len(l.Groups), strings.Join(parts, ", ")))
	}
	if l.BytesPerToken > 0 {
		t.Paragraph("  ", "    ", fmt.Sprintf("one more token of context: %s bytes on each GPU", render.Grouped(l.BytesPerToken)))
	}
	if l.StateBytes > 0 {
		t.Paragraph("  ", "    ", fmt.Sprintf("state of one request, whatever its length: %s on each GPU", render.GiB(l.StateBytes)))
	}
	t.amount("blocks (num_gpu_blocks)", l.Blocks, render.Grouped)
	t.amount("capacity in tokens", l.Tokens, render.Grouped)
	t.amount(fmt.Sprintf("requests of %s tokens", render.Grouped(float64(maxLen))), l.MaxConcurrency, func(v float64) string { return fmt.Sprintf("%.2f", v) })
	t.amount("longest request that fits", l.LongestRequest, render.Grouped)
	if len(l.SafeConcurrency) > 0 {
		var parts []string
		for _, s := range l.SafeConcurrency {
			parts = append(parts, fmt.Sprintf("%s of %s", render.Grouped(float64(s.Requests)), render.Grouped(float64(s.Tokens))))
		}
		t.Paragraph("  ", "    ", "without preemption, requests of so many tokens: "+strings.Join(parts, ", "))
	}
}

func (t *text) check(c *Check) {
	if c == nil {
		return
	}
	t.Heading("The ledger of the server's settings beside " + c.Source)
	for _, x := range c.Comparisons {
		f := render.Grouped
		if x.Unit == "bytes" {
			f = render.GiB
		}
		verdict := "agrees"
		if !x.Within {
			verdict = "OFF"
		}
		t.Paragraph("  ", "    ", fmt.Sprintf("%s: %s here (%s), %s there: %s, %s", x.Name, f(x.Ledger.Value), doubt(x.Ledger, f), f(x.Server), offBy(x.Off), verdict))
		if !x.Within && x.Says != "" {
			t.Paragraph("    look at: ", "      ", x.Says)
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

func (t *text) result(a *Answer) {
	p := chosen(a)
	t.marginal(a.Result, p)
	t.front(a.Result, p)
	t.usual(a, p)
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
	return "targets: " + strings.Join(parts, ", ")
}

func (t *text) predicted(r *Result) {
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
	t.Table(render.Words(render.Columns("predicted", "value", "interval", "target")), rows)
}

func seconds(v *float64) string {
	if v == nil {
		return "never"
	}
	return render.Seconds(*v)
}

func (t *text) marginal(r *Result, p *Point) {
	t.Heading("How busy it is")
	t.Paragraph("  ", "    ", fmt.Sprintf("per GPU %s output tokens/s; %.3g requests in a batch on average; KV cache at most %.0f %% full; %d preemptions in 1000 requests",
		render.Grouped(p.PerGPU), p.Running, 100*p.KVPeak, p.Preemptions))
	t.Heading("What one step of each knob costs")
	rows := [][]string{{"as above", seconds(p.TTFTP95), seconds(p.ITLP95), seconds(p.E2EP95), render.Grouped(p.PerGPU), ""}}
	for _, m := range r.Marginal {
		name := fmt.Sprintf("%s %s", strings.TrimPrefix(m.Knob, "--"), m.To)
		if m.Point == nil {
			rows = append(rows, []string{name, m.Impossible})
			continue
		}
		verdict := ""
		if !m.Point.Met {
			verdict = "misses"
		}
		rows = append(rows, []string{name, change(m.Point.TTFTP95, p.TTFTP95), change(m.Point.ITLP95, p.ITLP95), change(m.Point.E2EP95, p.E2EP95), change(&m.Point.PerGPU, &p.PerGPU), verdict})
	}
	t.Table(render.Words(render.Columns("95th percentiles", "TTFT", "ITL", "E2E", "tok/s/GPU", "")), rows)
	t.Paragraph("  ", "  ", "= is less than half a percent")
}

// change writes a relative difference.
func change(to, from *float64) string {
	switch {
	case to == nil:
		return "never"
	case from == nil || *from == 0:
		return "?"
	}
	d := *to / *from - 1
	switch {
	case math.Abs(d) < 0.005:
		return "="
	case d > 9.99:
		return fmt.Sprintf("×%.0f", 1+d)
	}
	return fmt.Sprintf("%+.0f %%", 100*d)
}

// front draws throughput per GPU against ITL.
func (t *text) front(r *Result, best *Point) {
	if len(r.Pareto) < 2 {
		return
	}
	var dots []render.Dot
	put := func(p *Point, mark rune) {
		if p.ITLP95 != nil && *p.ITLP95 > 0 && p.PerGPU > 0 {
			dots = append(dots, render.Dot{X: *p.ITLP95, Y: p.PerGPU, Mark: mark})
		}
	}
	for i := range r.Points {
		put(&r.Points[i], '·')
	}
	for i := range r.Pareto {
		put(&r.Pareto[i], 'o')
	}
	put(best, '#')
	t.Heading("Throughput per GPU against latency")
	if !t.Scatter(dots, "ITL P95", "tok/s/GPU", render.Seconds, render.Grouped) {
		return
	}
	t.Paragraph("  ", "  ", "# the configuration above, o not beaten by any other in throughput per GPU, ITL and TTFT, · the others")
	t.Line("")
	var rows [][]string
	for i := range r.Pareto {
		p := &r.Pareto[i]
		met := ""
		if !p.Met {
			met = "misses"
		}
		rows = append(rows, []string{arrangement(p), fmt.Sprint(p.GPUs), render.Grouped(p.PerGPU), seconds(p.TTFTP95), seconds(p.ITLP95), met})
	}
	t.Table(render.Words(render.Columns("arrangement", "GPUs", "tok/s/GPU", "TTFT P95", "ITL P95", "")), rows)
}

func arrangement(p *Point) string {
	s := fmt.Sprintf("%d × TP %d, %d seqs, %d tok", p.Replicas, p.TensorParallel, p.MaxNumSeqs, p.MaxNumBatchedTokens)
	if p.KVCacheDtype != "auto" {
		s += ", " + p.KVCacheDtype
	}
	return s
}

func (t *text) usual(a *Answer, p *Point) {
	u := a.Result.Usual
	if u.KVBytes <= 0 && a.Ledger.Blocks.Value > 0 {
		return // the memory is not known, or it is not one GPU's
	}
	t.Heading("The usual arithmetic, as a first approximation")
	if u.MaxNumSeqs == 0 {
		t.Paragraph("  ", "    ", fmt.Sprintf("memory × 0.9 − weights = %s: nothing fits", render.GiB(u.KVBytes)))
		return
	}
	t.Paragraph("  ", "    ", fmt.Sprintf("memory × 0.9 − weights = %s for %s tokens; over the mean length of a request, max-num-seqs %d (here %d), with the cache of the ledger %s tokens",
		render.GiB(u.KVBytes), render.Grouped(u.Tokens), u.MaxNumSeqs, p.MaxNumSeqs, render.Grouped(a.Ledger.Tokens.Value)))
}
