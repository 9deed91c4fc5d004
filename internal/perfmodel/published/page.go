package published

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/stat"
)

// A Score is the error and the coverage of some entries.
type Score struct {
	N                   int
	Median, Bias, Worst float64 // of the absolute relative errors; the median with its sign; the largest
	Held                float64 // share within their intervals
}

// ScoreOf scores entries.
func ScoreOf(entries []*Entry) Score {
	var errs, sizes []float64
	held := 0
	for _, e := range entries {
		errs = append(errs, e.Error())
		sizes = append(sizes, math.Abs(e.Error()))
		if e.Held() {
			held++
		}
	}
	if len(errs) == 0 {
		return Score{}
	}
	return Score{len(errs), stat.Median(sizes), stat.Median(errs), slices.Max(sizes), float64(held) / float64(len(errs))}
}

// Select returns the entries that satisfy a condition.
func Select(entries []*Entry, is func(*Entry) bool) []*Entry {
	var out []*Entry
	for _, e := range entries {
		if is(e) {
			out = append(out, e)
		}
	}
	return out
}

// classes in the order of the page.
var classes = []string{"moderate load", "moderate load, tensor parallel", "saturated", "saturated, tensor parallel"}

// page is the text of docs/model-accuracy.md.
type page struct {
	strings.Builder
	points  []Point
	entries []*Entry
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Page renders docs/model-accuracy.md of the points and the predictions of them.
func Page(points []Point, predictions []Prediction) (string, error) {
	deployments, err := Deployments()
	if err != nil {
		return "", err
	}
	tunings, err := Tunings()
	if err != nil {
		return "", err
	}
	p := &page{points: points, entries: Entries(points, predictions)}
	p.line(`# How far off the performance model is

Every number of this page is rendered from data in this repository by

    make model-accuracy

which fits the model anew, leaving out in turn each GPU and each model, predicts what it left out, and writes this page. A test in CI fails where the page, the
fitted parameters or the limits at its end no longer agree. The %d measurements are of others, each with its source, in
[points.json](../internal/perfmodel/published/points/points.json); none was made for this page. What is predicted is what a user gets who names the model, the GPU and the
arguments of `+"`vllm serve`"+` and has measured nothing: basis `+"`data-sheet`"+`. After a two-minute load test of your own server the errors are others: [simulator.md](simulator.md).

An error is predicted over measured, minus one. *Held* is the share of measurements within the 90 %% interval. "Without its GPU": no measurement of that GPU was fitted to; "without its model": none of that model, quantized or not. In neither case is anything
of the host known, though the same publisher's other servers were fitted to; of releases from 0.14 on too few hosts were measured to tell what is theirs. The interval is widened or narrowed
by what was found of all others that were left out in the same way: of servers whose GPU was measured, and of GPUs that were not.
`, len(points))
	p.headline()
	if err := p.before(); err != nil {
		return "", err
	}
	p.peers()
	p.byLevel("GPU", func(e *Entry) string { return e.Point.chip() })
	p.byLevel("model", func(e *Entry) string { return e.Point.architecture() })
	p.worst()
	if err := p.tuned(deployments, tunings); err != nil {
		return "", err
	}
	if err := p.memory(deployments); err != nil {
		return "", err
	}
	p.all()
	p.notes()
	return p.String(), nil
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
func signed(v float64) string  { return fmt.Sprintf("%+.0f %%", 100*v) }

func (p *page) headline() {
	p.line("## By class\n")
	p.line("| class | quantity | points | without its GPU: median | bias | worst | held | without its model: median | bias | worst | held |")
	p.line("|---|---|---|---|---|---|---|---|---|---|---|")
	for _, class := range classes {
		for q, name := range Quantities {
			of := func(without string) Score {
				return ScoreOf(Select(p.entries, func(e *Entry) bool {
					return e.class == class && e.Quantity == q && e.Without == without
				}))
			}
			g, m := of("GPU"), of("model")
			if g.N == 0 {
				continue
			}
			p.line("| %s | %s | %d | **%s** | %s | %s | %s | **%s** | %s | %s | %s |", class, name, g.N,
				percent(g.Median), signed(g.Bias), percent(g.Worst), percent(g.Held), percent(m.Median), signed(m.Bias), percent(m.Worst), percent(m.Held))
		}
	}
	p.line("")
}

// before shows what was predicted of points when they were found, by the parameters of then.
func (p *page) before() error {
	content, err := files.ReadFile("points/before.json")
	if err != nil {
		return err
	}
	var first []Prediction
	if err := json.Unmarshal(content, &first); err != nil {
		return fmt.Errorf("before.json: %w", err)
	}
	points := map[string]*Point{}
	for i := range p.points {
		points[p.points[i].Name] = &p.points[i]
	}
	type errors struct {
		sizes, signed []float64
		held          int
	}
	of := map[string]*[5]errors{}
	var hosts []string
	for _, f := range first {
		x := points[f.Name]
		if x == nil {
			return fmt.Errorf("before.json: no point is named %q", f.Name)
		}
		if of[x.Host] == nil {
			of[x.Host] = &[5]errors{}
			hosts = append(hosts, x.Host)
		}
		m, v, low, high := x.Measured.values(), f.Predicted.values(), f.Low.values(), f.High.values()
		for q := range m {
			if x.noise(q) == 0 || x.noise(q) > 0.5 {
				continue
			}
			e := &of[x.Host][q]
			e.sizes, e.signed = append(e.sizes, math.Abs(v[q]/m[q]-1)), append(e.signed, v[q]/m[q]-1)
			if low[q] <= m[q] && m[q] <= high[q] {
				e.held++
			}
		}
	}
	p.line(`## Before they were fitted to

%d of the measurements were found last. They were predicted before anything was fitted to them, with the parameters that shipped then, which knew no measurement of an L40S, an RTX 5090 or an H100 PCIe, none of
BLIS' A100, and none of vLLM 0.8.5: the median absolute error, the median error, and how many the 90 %% interval held. What was learned from them is in what follows and precedes.
`, len(first))
	p.line("| servers | TTFT | TPOT, ITL | E2E | tokens/s |\n|---|---|---|---|---|")
	for _, h := range hosts {
		line := "| " + h
		for _, quantities := range [][]int{{0}, {1, 2}, {3}, {4}} {
			var all errors
			for _, q := range quantities {
				e := of[h][q]
				all.sizes, all.signed, all.held = append(all.sizes, e.sizes...), append(all.signed, e.signed...), all.held+e.held
			}
			line += " | "
			if n := len(all.sizes); n > 0 {
				line += fmt.Sprintf("%s (%s), held %d of %d", percent(stat.Median(all.sizes)), signed(stat.Median(all.signed)), all.held, n)
			}
		}
		p.line("%s |", line)
	}
	p.line("")
	return nil
}

// peers sets the others' predictions beside ours on the same points.
func (p *page) peers() {
	p.line(`## Beside other simulators

On the points for which another simulator's authors, or BLIS' on its behalf, published a prediction: the median absolute error of TTFT / ITL or TPOT / E2E, each on the same points, and the worst.
Ours are those without the point's model. BLIS' authors fitted BLIS to other points of the same host; LLMServingSim measures the kernels of the very GPU and model beforehand.
AIConfigurator 0.12.0 was run for this page (` + "`aiconfigurator cli estimate`" + `, its data of vLLM 0.24 or 0.14): it estimates a steady state of as many requests as were under way at once,
which is not a burst; on A100 it has no data for gpt-oss.
`)
	p.line("| simulator | points | TTFT | ITL, TPOT | E2E | tokens/s | worst |\n|---|---|---|---|---|---|---|")
	names := map[string]bool{}
	for _, x := range p.points {
		for n := range x.Peers {
			names[n] = true
		}
	}
	var order []string
	for n := range names {
		order = append(order, n)
	}
	slices.Sort(order)
	for _, name := range order {
		var theirs, ours [4][]float64
		n := 0
		for i := range p.points {
			x := &p.points[i]
			peer, ok := x.Peers[name]
			if !ok {
				continue
			}
			n++
			v, m := peer.values(), x.Measured.values()
			for q := range v {
				if v[q] > 0 && m[q] > 0 {
					c := [5]int{0, 1, 1, 2, 3}[q]
					theirs[c] = append(theirs[c], math.Abs(v[q]/m[q]-1))
					for _, e := range p.entries {
						if e.Point == x && e.Quantity == q && e.Without == "model" {
							ours[c] = append(ours[c], math.Abs(e.Error()))
						}
					}
				}
			}
		}
		row := func(who string, errs [4][]float64) {
			cell := func(v []float64) string {
				if len(v) == 0 {
					return ""
				}
				return fmt.Sprintf("%.1f %%", 100*stat.Median(v))
			}
			worst := 0.0
			for _, v := range errs {
				for _, x := range v {
					worst = max(worst, x)
				}
			}
			p.line("| %s | %d | %s | %s | %s | %s | %s |", who, n, cell(errs[0]), cell(errs[1]), cell(errs[2]), cell(errs[3]), percent(worst))
		}
		row(name, theirs)
		row("sixty, on these", ours)
	}
	p.line("")
}

func (p *page) byLevel(what string, of func(*Entry) string) {
	p.line("## Without each %s\n", what)
	p.line("| %s | points | TTFT median | TPOT, ITL median | E2E median | tokens/s median | tokens/s worst | held |\n|---|---|---|---|---|---|---|---|", what)
	var levels []string
	for _, e := range p.entries {
		if l := of(e); !slices.Contains(levels, l) {
			levels = append(levels, l)
		}
	}
	slices.Sort(levels)
	for _, l := range levels {
		own := Select(p.entries, func(e *Entry) bool { return e.Without == what && of(e) == l })
		if len(own) == 0 {
			continue
		}
		points := map[*Point]bool{}
		for _, e := range own {
			points[e.Point] = true
		}
		cell := func(quantities ...int) string {
			s := ScoreOf(Select(own, func(e *Entry) bool { return slices.Contains(quantities, e.Quantity) }))
			if s.N == 0 {
				return ""
			}
			return percent(s.Median) + " (" + signed(s.Bias) + ")"
		}
		tokens := ScoreOf(Select(own, func(e *Entry) bool { return e.Quantity == 4 }))
		worst := ""
		if tokens.N > 0 {
			worst = percent(tokens.Worst)
		}
		p.line("| %s | %d | %s | %s | %s | %s | %s | %s |", l, len(points), cell(0), cell(1, 2), cell(3), cell(4), worst, percent(ScoreOf(own).Held))
	}
	p.line("")
}

// worstShown are enough to see where the model fails.
const worstShown = 15

func (p *page) worst() {
	p.line("## The worst\n\nThe points whose tokens a second, or whose E2E where only that is known, are furthest off without their GPU.\n")
	p.line("| point | quantity | measured | predicted | 90 %% interval | error |\n|---|---|---|---|---|---|")
	es := Select(p.entries, func(e *Entry) bool {
		return e.Without == "GPU" && (e.Quantity == 4 || e.Quantity == 3 && e.Point.Measured.Tokens == 0)
	})
	slices.SortStableFunc(es, func(a, b *Entry) int {
		return cmp.Compare(math.Abs(math.Log1p(b.Error())), math.Abs(math.Log1p(a.Error())))
	})
	for _, e := range es[:min(len(es), worstShown)] {
		p.entry(e)
	}
	p.line("")
}

func (p *page) entry(e *Entry) {
	w := e.Interval.Widened(e.Widen)
	held := ""
	if !e.Held() {
		held = " missed"
	}
	p.line("| %s | %s | %.4g | %.4g | %.3g – %.3g%s | %s |", e.Point.Name, Quantities[e.Quantity], e.Measured, e.Interval.Value, w.Low, w.High, held, signed(e.Error()))
}

// memory compares the ledger with servers whose blocks are published.
func (p *page) memory(deployments []Point) error {
	p.line(`## The memory ledger

Servers whose KV cache is published, each once: blocks of 16 tokens, as the ledger has them from the model's configuration, the GPU and the arguments alone. More servers are in [tune.md](tune.md).

| server | vLLM | arguments | blocks measured | ledger | off |
|---|---|---|---|---|---|`)
	seen := map[string]bool{}
	for _, x := range slices.Concat(p.points, deployments) {
		if key := x.Model + x.GPU + x.Args; seen[key] {
			continue
		} else {
			seen[key] = true
		}
		l, blocks, err := x.Memory()
		if err != nil {
			return err
		}
		if blocks == 0 {
			continue
		}
		args, _, _ := strings.Cut(x.Args, "--num-gpu-blocks-override")
		within := ""
		if float64(blocks) < l.Blocks.Low || float64(blocks) > l.Blocks.High {
			within = ", outside"
		}
		p.line("| %s, %s | %s | %s | %d | %.0f (%.0f – %.0f) | %+.1f %%%s |", x.Model, x.GPU, x.VLLM, strings.TrimSpace(args), blocks, l.Blocks.Value, l.Blocks.Low, l.Blocks.High,
			100*(l.Blocks.Value/float64(blocks)-1), within)
	}
	p.line("")
	return nil
}

func (p *page) all() {
	p.line("## Every point\n\nWithout its model. Milliseconds, and tokens a second; in the order of the file.\n")
	p.line("| point | vLLM | quantity | measured | predicted | 90 %% interval | error |\n|---|---|---|---|---|---|---|")
	for i := range p.points {
		x := &p.points[i]
		for _, e := range Select(p.entries, func(e *Entry) bool { return e.Point == x && e.Without == "model" && e.Quantity != 2 }) {
			w := e.Interval.Widened(e.Widen)
			held := ""
			if !e.Held() {
				held = " missed"
			}
			name := fmt.Sprintf("[%s](%s)", x.Name, x.Source)
			p.line("| %s | %s | %s | %.4g | %.4g | %.3g – %.3g%s | %s |", name, x.VLLM, Quantities[e.Quantity], e.Measured, e.Interval.Value, w.Low, w.High, held, signed(e.Error()))
		}
	}
	p.line("")
}

func (p *page) notes() {
	p.line(`## What to know

* **ShareGPT's lengths** are known by their means only, and drawn from a distribution of that shape.
* **BLIS' loads** are evenly spaced requests of equal length. The configuration that inference-perf wrote beside its results has 10 groups of 10 prompts; that release knew no other names for
  their number than those, and sends its prompts in turn, again and again: the lengths of the 12,000 prompts of a stage are those of 100. From a prompt's second time on all of it is in the prefix
  cache. It is taken to be so in the validation set, too, whose configurations are not published; its rates are those that the means of its stages imply.
* **A burst** comes to the engine when the API server has read all of it: its event loop takes every request in turn, twice. vLLM 0.11.0, and no other release, parsed the chat template for every
  chat request ([#25794](https://github.com/vllm-project/vllm/pull/25794), mended by [#26227](https://github.com/vllm-project/vllm/pull/26227)): 1000 at once wait for 5 to 15 seconds by the model.
  An earlier release that did so took 6 to 8 ([#20065](https://github.com/vllm-project/vllm/pull/20065)).
* **The KV cache** is the ledger's where a publication does not tell its blocks. Points whose blocks the ledger knows within ±20 %% only are shown and not fitted to: they test the ledger.
* **Prompts of earlier tests** may have been in the prefix cache of dennislee22's servers, whose logs show hits of 20 to 54 %%: their time to first token is neither fitted to nor scored.
* **ITL** of BLIS' training and evaluation sets is (E2E − TTFT) by the tokens after the first: its streams have several tokens in a chunk. The validation set's ITL of Llama 2 7B is left out: it divides by the
  tokens that the client's tokenizer found in the text, 194 of the 247 that the engine made.
* **dennislee22's A100** have no peer-to-peer access, as the log says ("Custom allreduce is disabled because your platform lacks GPU P2P capability"): they are taken for the PCIe board.
* **Two publications contradict themselves** and were left out: GLM 4.5 Air on H100 with random prompts repeats the A100's numbers to the last digit, and a gpt-oss-20b row whose command
  names gpt-oss-120b. Tests in which requests failed were left out too, and those over two nodes.
* **io.net's servers** got the same 200 ShareGPT prompts at 32, 16, 8, 4 and 1 requests a second, in that order: from the second rate on all are in the prefix cache as far as it holds them, which
  is simulated. Their tokens a second are not scored: they depend on the one longest answer of a test that ends with it. Tests whose load does not fit the memory that vLLM's defaults leave
  were left out, as what was set is not told, and those with RTX 4090s whose time to first token grows when the load falls.
* **CloudRift's servers** ran vLLM's latest image of 7 to 16 October 2025, which is taken for 0.11.0. Two L40S were two servers behind a proxy: the point is one of them, with half of the load.
* **BLIS' evaluation set** has the server at --max-num-batched-tokens 1024 slower than that at 2048 by 5 and 13 %%, where no step holds 1024 tokens: two machines of one kind differ by as much.
  Its reasoning workloads were left out, as their rates are not told, and those with offloading, which repeat others.
* **gpustack's H100** reached two thirds of the arithmetic that their A100 and others' H100 let one expect. GLM-4.6-FP8 on eight of them is the extreme: its times to first token mean that prompts were computed at
  some 3 %% of the peak; SGLang was a fifth faster on the same machine. It is not the KV cache, which holds all 1000 requests by the ledger. Why is not known.
* **Without a GPU of a chip, the other chips' hosts decide**: H100 is left out together with half of all measurements and nearly all of vLLM from 0.14 on; BLIS' servers with A100 and L40S are slower than
  their data sheets let one expect from its H100 by a fifth.
* **Not covered by any point**: data-centre Blackwell, AMD, Gaudi, NVFP4, pipeline parallelism, speculative decoding, LoRA. There the parameters are those of relatives, or physics' guesses,
  and the interval is as wide as their spread.

## The line that CI holds

A test compares the medians and the coverage above with these limits: no change of the model may be worse.

| class | quantity | median without its GPU ≤ | median without its model ≤ | held ≥ |
|---|---|---|---|---|`)
	for _, l := range Limits {
		p.line("| %s | %s | %s | %s | %s |", l.Class, Quantities[l.Quantity], percent(l.GPU), percent(l.Model), percent(l.Held))
	}
}

// A Limit is what the errors of a class may not exceed.
type Limit struct {
	Class            string
	Quantity         int
	GPU, Model, Held float64
}

// Limits are the line that CI holds. They leave room for what one fit differs from the next:
// medians of a class move by two to six points, and by more where half of the points are left out.
var Limits = []Limit{
	{"moderate load", 0, 0.40, 0.12, 0.60},
	{"moderate load", 1, 0.24, 0.11, 0.80},
	{"moderate load", 2, 0.24, 0.07, 0.92},
	{"moderate load", 3, 0.26, 0.07, 0.93},
	{"moderate load", 4, 0.10, 0.08, 0.93},
	{"moderate load, tensor parallel", 0, 0.36, 0.09, 0.70},
	{"moderate load, tensor parallel", 1, 0.18, 0.14, 0.83},
	{"moderate load, tensor parallel", 2, 0.38, 0.10, 0.88},
	{"moderate load, tensor parallel", 3, 0.38, 0.10, 0.86},
	{"moderate load, tensor parallel", 4, 0.14, 0.14, 0.87},
	{"saturated", 0, 0.36, 0.20, 0.72},
	{"saturated", 1, 0.22, 0.16, 0.85},
	{"saturated", 4, 0.26, 0.14, 0.82},
	{"saturated, tensor parallel", 0, 0.18, 0.25, 0.85},
	{"saturated, tensor parallel", 1, 0.17, 0.14, 0.85},
	{"saturated, tensor parallel", 4, 0.13, 0.14, 0.86},
}
