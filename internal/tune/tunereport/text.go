package tunereport

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/planning"
)

// JSON writes the answer, indented.
func JSON(w io.Writer, a *Answer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(a)
}

// Text writes the answer for a terminal of a width.
func Text(w io.Writer, a *Answer, width int) error {
	t := &text{w: w, width: max(width, 60)}
	t.model(&a.Model)
	t.memory(a)
	t.check(a.Check)
	if a.Result != nil {
		t.result(a)
	}
	t.list("Notes", a.Notes)
	return t.err
}

// text prints and keeps the first error.
type text struct {
	w     io.Writer
	width int
	err   error
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

func (t *text) head(name string) {
	t.line("")
	t.wrap("", "  ", name)
}

// wrap prints words behind a first and then further indents.
func (t *text) wrap(first, rest, s string) {
	line := first
	used := false
	for _, word := range strings.Fields(s) {
		if used && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > t.width {
			t.line("%s", line)
			line, used = rest, false
		}
		if used {
			line += " "
		}
		line += word
		used = true
	}
	t.line("%s", line)
}

func (t *text) list(name string, items []string) {
	if len(items) == 0 {
		return
	}
	t.head(name)
	for _, s := range items {
		t.wrap("  * ", "    ", s)
	}
}

// pad fills to a width counted in characters.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0))
}

func left(s string, n int) string {
	return strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0)) + s
}

func (t *text) model(m *Model) {
	t.line("Model")
	name := m.Architecture
	if name == "" {
		name = m.Type
	}
	t.wrap("  ", "  ", fmt.Sprintf("%s: %s; %s", name, m.Kind, m.DType+quantized(m)))
	active := ""
	if m.ActiveParameters < m.Parameters*0.999 {
		active = fmt.Sprintf(", of which a token uses %s", perfmodel.Count(m.ActiveParameters))
	}
	t.wrap("  ", "  ", fmt.Sprintf("%s parameters%s", perfmodel.Count(m.Parameters), active))
	for _, p := range m.Parts {
		t.wrap(fmt.Sprintf("  %s %s  ", pad(p.Name, 20), left(perfmodel.Count(p.Parameters), 14)), strings.Repeat(" ", 39), "= "+p.Formula)
	}
	for _, a := range m.Assumed {
		t.wrap("  missing: ", "    ", fmt.Sprintf("%s, taken as %s (%s)", a.Field, a.Value, a.Source))
	}
	for _, u := range m.Unknown {
		t.wrap("  not understood: ", "    ", u)
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
	t.head(fmt.Sprintf("Memory of each GPU: %s, %s, vLLM %s", where, parallel, d.Release))
	for _, s := range d.Assumed {
		t.wrap("  taken: ", "    ", s)
	}
	for _, l := range a.Ledger.Lines {
		t.line("  %s %s  %s", pad(l.Name, 34), left(perfmodel.GiB(l.Bytes.Value), 10), doubt(l.Bytes, perfmodel.GiB))
		t.wrap("      = ", "        ", l.Formula)
		t.wrap("      source: ", "        ", l.Source)
	}
	t.ledger(&a.Ledger, d.MaxModelLen)
	if len(a.Remedies) > 0 {
		t.head("What would fit")
		for _, r := range a.Remedies {
			t.wrap("  * ", "    ", fmt.Sprintf("%s: leaves %s for the KV cache (%s)", r.Change, perfmodel.GiB(r.Left.Value), doubt(r.Left, perfmodel.GiB)))
		}
	} else if a.Ledger.MaxConcurrency.Value < 1 {
		t.line("")
		t.wrap("  ", "  ", "No single change was found with which it fits.")
	}
}

// doubt shows a range, or that there is none.
func doubt(r Range, f func(float64) string) string {
	if r.exact() {
		return "exact"
	}
	return f(r.Low) + " to " + f(r.High)
}

func (t *text) ledger(l *Ledger, maxLen int) {
	t.head("KV cache of one engine")
	t.wrap("  ", "    ", fmt.Sprintf("a block: %s bytes = %s", grouped(l.BytesPerBlock), l.BlockFormula))
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
		t.wrap("  ", "    ", fmt.Sprintf("%d groups of layers share the blocks: %s", len(l.Groups), strings.Join(parts, ", ")))
	}
	if l.BytesPerToken > 0 {
		t.wrap("  ", "    ", fmt.Sprintf("one more token of context: %s bytes on each GPU", grouped(l.BytesPerToken)))
	}
	if l.StateBytes > 0 {
		t.wrap("  ", "    ", fmt.Sprintf("state of one request, whatever its length: %s on each GPU", perfmodel.GiB(l.StateBytes)))
	}
	row := func(name string, r Range, f func(float64) string) {
		t.line("  %s %s  %s", pad(name, 34), left(f(r.Value), 10), doubt(r, f))
	}
	row("blocks (num_gpu_blocks)", l.Blocks, grouped)
	row("capacity in tokens", l.Tokens, grouped)
	row(fmt.Sprintf("requests of %s tokens", grouped(float64(maxLen))), l.MaxConcurrency, func(v float64) string { return fmt.Sprintf("%.2f", v) })
	row("longest request that fits", l.LongestRequest, grouped)
	if len(l.SafeConcurrency) > 0 {
		var parts []string
		for _, s := range l.SafeConcurrency {
			parts = append(parts, fmt.Sprintf("%s of %s", grouped(float64(s.Requests)), grouped(float64(s.Tokens))))
		}
		t.wrap("  ", "    ", "without preemption, requests of so many tokens: "+strings.Join(parts, ", "))
	}
}

func (t *text) check(c *Check) {
	if c == nil {
		return
	}
	t.head("The ledger of the server's settings beside " + c.Source)
	for _, x := range c.Comparisons {
		f := grouped
		if x.Unit == "bytes" {
			f = perfmodel.GiB
		}
		verdict := "agrees"
		if !x.Within {
			verdict = "OFF"
		}
		t.wrap("  ", "    ", fmt.Sprintf("%s: %s here (%s), %s there: %s, %s", x.Name, f(x.Ledger.Value), doubt(x.Ledger, f), f(x.Server), off(x.Off), verdict))
		if !x.Within && x.Says != "" {
			t.wrap("    look at: ", "      ", x.Says)
		}
	}
}

// off writes a relative error.
func off(v float64) string {
	if math.Abs(v) < 0.0005 {
		return "no difference"
	}
	return fmt.Sprintf("%+.1f %%", 100*v)
}

// grouped writes a whole number with its thousands apart.
func grouped(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if neg {
		return "-" + s
	}
	return s
}

func (t *text) result(a *Answer) {
	r := a.Result
	p := r.Best
	t.head("Workload and targets")
	t.wrap("  ", "    ", a.Workload)
	t.wrap("  ", "    ", targets(a.Targets))
	if p != nil {
		t.head("Configuration")
	} else {
		p = r.Nearest
		t.head("The targets cannot be met")
		for _, s := range r.Explain {
			t.wrap("  * ", "    ", s)
		}
		t.head("What comes closest")
	}
	t.wrap("  ", "    ", fmt.Sprintf("%s: %s of %d each", many(p.GPUs, "GPU"), many(p.Replicas, "replica"), p.GPUs/max(p.Replicas, 1)))
	t.line("")
	for line := range strings.SplitSeq(r.Command, "\n") {
		t.line("  %s", line)
	}
	t.line("")
	t.predicted(r, p)
	t.marginal(r, p)
	t.front(r, p)
	t.usual(a, p)
}

func targets(t *Targets) string {
	var parts []string
	add := func(name string, v float64) {
		if v > 0 {
			parts = append(parts, fmt.Sprintf("%s P95 ≤ %s", name, planning.Seconds(v)))
		}
	}
	add("TTFT", t.TTFTP95)
	add("ITL", t.ITLP95)
	add("E2E", t.E2EP95)
	if t.TokensPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%s output tokens/s", grouped(t.TokensPerSecond)))
	}
	return "targets: " + strings.Join(parts, ", ")
}

func (t *text) predicted(r *Result, p *Point) {
	t.line("  %s %s  %s %s", pad("predicted", 18), left("value", 9), pad("interval", 22), "target")
	for _, m := range r.Predicted {
		f := planning.Seconds
		if m.Unit != "s" {
			f = grouped
		}
		goal := ""
		if m.Target != nil {
			goal = f(*m.Target)
			if m.Unit == "s" && m.Value > *m.Target || m.Unit != "s" && m.Value < *m.Target*0.95 {
				goal += "  MISSED"
			}
		}
		t.line("  %s %s  %s %s", pad(m.Name, 18), left(f(m.Value), 9), pad(f(m.Low)+" to "+f(m.High), 22), goal)
	}
	t.wrap("  ", "    ", fmt.Sprintf("per GPU %s output tokens/s; %.3g requests in a batch on average; KV cache at most %.0f %% full; %d preemptions in 1000 requests",
		grouped(p.PerGPU), p.Running, 100*p.KVPeak, p.Preemptions))
	t.wrap("  basis: ", "    ", r.Basis)
}

func seconds(v *float64) string {
	if v == nil {
		return "never"
	}
	return planning.Seconds(*v)
}

// knobWidth is that of the longest knob with its value.
const knobWidth = 30

func (t *text) marginal(r *Result, p *Point) {
	t.head("What one step of each knob costs")
	t.line("  %s %s %s %s %s", pad("95th percentiles", knobWidth), left("TTFT", 9), left("ITL", 9), left("E2E", 9), left("tok/s/GPU", 9))
	t.line("  %s %s %s %s %s", pad("as above", knobWidth), left(seconds(p.TTFTP95), 9), left(seconds(p.ITLP95), 9), left(seconds(p.E2EP95), 9), left(grouped(p.PerGPU), 9))
	for _, m := range r.Marginal {
		name := fmt.Sprintf("%s %s", strings.TrimPrefix(m.Knob, "--"), m.To)
		if m.Point == nil {
			t.line("  %s %s", pad(name, knobWidth), m.Impossible)
			continue
		}
		verdict := ""
		if !m.Point.Met {
			verdict = "misses"
		}
		t.line("  %s %s %s %s %s %s", pad(name, knobWidth), left(change(m.Point.TTFTP95, p.TTFTP95), 9), left(change(m.Point.ITLP95, p.ITLP95), 9),
			left(change(m.Point.E2EP95, p.E2EP95), 9), left(change(&m.Point.PerGPU, &p.PerGPU), 9), verdict)
	}
	t.wrap("  ", "  ", "= is less than half a percent")
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

// Size of the plot in characters.
const plotRows = 12

// front draws throughput per GPU against ITL, both logarithmic.
func (t *text) front(r *Result, best *Point) {
	if len(r.Pareto) < 2 {
		return
	}
	t.head("Throughput per GPU against latency")
	columns := min(t.width-15, 100)
	xlo, xhi, ylo, yhi := math.Inf(1), 0.0, math.Inf(1), 0.0
	all := r.Points
	for _, p := range all {
		if p.ITLP95 == nil || *p.ITLP95 <= 0 || p.PerGPU <= 0 {
			continue
		}
		xlo, xhi = min(xlo, *p.ITLP95), max(xhi, *p.ITLP95)
		ylo, yhi = min(ylo, p.PerGPU), max(yhi, p.PerGPU)
	}
	if !(xhi > xlo) || !(yhi > ylo) {
		return
	}
	grid := make([][]rune, plotRows)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", columns))
	}
	at := func(v, lo, hi float64, n int) int {
		return int(math.Round(math.Log(v/lo) / math.Log(hi/lo) * float64(n-1)))
	}
	put := func(p *Point, mark rune) {
		if p.ITLP95 != nil && *p.ITLP95 > 0 && p.PerGPU > 0 {
			grid[plotRows-1-at(p.PerGPU, ylo, yhi, plotRows)][at(*p.ITLP95, xlo, xhi, columns)] = mark
		}
	}
	for i := range all {
		put(&all[i], '·')
	}
	for i := range r.Pareto {
		put(&r.Pareto[i], 'o')
	}
	put(best, '#')
	for i, row := range grid {
		label := ""
		switch i {
		case 0:
			label = grouped(yhi)
		case plotRows - 1:
			label = grouped(ylo)
		}
		t.line("  %s │%s", left(label, 9), string(row))
	}
	t.line("  %s └%s", "tok/s/GPU", strings.Repeat("─", columns))
	t.line("  %s  %s", pad("", 9), pad(planning.Seconds(xlo), columns-20)+left("ITL P95 "+planning.Seconds(xhi), 20))
	t.wrap("  ", "  ", "# the configuration above, o not beaten by any other in throughput per GPU, ITL and TTFT, · the others")
	t.line("")
	t.line("  %s %s %s %s %s %s", left("GPUs", 4), pad("arrangement", 36), left("tok/s/GPU", 9), left("TTFT P95", 8), left("ITL P95", 8), "")
	for _, p := range r.Pareto {
		met := ""
		if !p.Met {
			met = "misses"
		}
		t.line("  %s %s %s %s %s %s", left(fmt.Sprint(p.GPUs), 4), pad(arrangement(&p), 36), left(grouped(p.PerGPU), 9), left(seconds(p.TTFTP95), 8), left(seconds(p.ITLP95), 8), met)
	}
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
	t.head("The usual arithmetic, as a first approximation")
	if u.MaxNumSeqs == 0 {
		t.wrap("  ", "    ", fmt.Sprintf("memory × 0.9 − weights = %s: nothing fits", perfmodel.GiB(u.KVBytes)))
		return
	}
	t.wrap("  ", "    ", fmt.Sprintf("memory × 0.9 − weights = %s for %s tokens; over the mean length of a request, max-num-seqs %d (here %d), with the cache of the ledger %s tokens",
		perfmodel.GiB(u.KVBytes), grouped(u.Tokens), u.MaxNumSeqs, p.MaxNumSeqs, grouped(a.Ledger.Tokens.Value)))
}

// many writes a number with its noun.
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
