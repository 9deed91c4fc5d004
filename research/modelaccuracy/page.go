package main

import (
	"cmp"
	_ "embed" // page.md
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/template"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// pageText is docs/lab/model-accuracy.md without its tables.
//
//go:embed page.md
var pageText string

// page has the rows of each table.
type page struct {
	points  []Point
	entries []*entry

	Points                            int
	Classes, Intervals, Peers, GPUs   []string
	Models, Publishers, Worst, Memory []string
	Tuned, Bursts                     []string // of the deployments
	Limits                            []string
}

// renderPage renders docs/lab/model-accuracy.md from the points and their predictions.
func renderPage(points []Point, predictions []prediction) (string, error) {
	p := &page{points: points, Points: len(points), entries: entriesOf(points, predictions)}
	p.GPUs = p.byLevel("GPU", func(e *entry) string { return e.point.chip() })
	p.Models = p.byLevel("model", func(e *entry) string { return e.point.architecture() })
	p.Publishers = p.byLevel("publisher", func(e *entry) string { return e.point.publisher() })
	p.byClass()
	p.peers()
	p.worst()
	if err := p.deployments(); err != nil {
		return "", err
	}
	limits, err := load[limit]("limits.json")
	if err != nil {
		return "", err
	}
	for _, l := range limits {
		p.Limits = append(p.Limits, row(l.Class, l.Quantity, percent(l.GPU), percent(l.Model), percent(l.Publisher),
			percent(l.Held)))
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, p)
	return out.String(), err
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
func signed(v float64) string  { return fmt.Sprintf("%+.0f %%", 100*v) }
func digits(v float64) string  { return fmt.Sprintf("%.4g", v) }

// A score is the error and the coverage of some entries.
type score struct {
	n                   int
	median, bias, worst float64 // of the absolute relative errors; the median with its sign; the largest
	held                float64 // the share within their intervals
	each                float64 // the same, with every publisher counted once
	width               float64 // the median of the high end over the low end
}

// scoreOf scores the entries that satisfy a condition.
func scoreOf(entries []*entry, is func(*entry) bool) score {
	var errs, sizes, widths []float64
	held, of := map[string]float64{}, map[string]float64{} // points of each publisher
	for _, e := range entries {
		if !is(e) {
			continue
		}
		errs, sizes = append(errs, e.off()), append(sizes, math.Abs(e.off()))
		i := e.widened()
		widths = append(widths, i.High/i.Low)
		of[e.point.publisher()]++
		if e.held() {
			held[e.point.publisher()]++
		}
	}
	if len(errs) == 0 {
		return score{}
	}
	all, each := 0.0, 0.0
	for _, publisher := range slices.Sorted(maps.Keys(of)) {
		all += held[publisher]
		each += held[publisher] / of[publisher]
	}
	return score{len(errs), stat.Median(sizes), stat.Median(errs), slices.Max(sizes), all / float64(len(errs)),
		each / float64(len(of)), stat.Median(widths)}
}

// A limit bounds the errors of a class. Limits allow for differences between fits: a class' median moves by two to six
// percentage points, and by more if half of the points are left out.
type limit struct {
	Class    string  `json:"class"`
	Quantity string  `json:"quantity"`
	GPU      float64 `json:"gpu"`
	Model    float64 `json:"model"`

	Publisher float64 `json:"publisher"`
	Held      float64 `json:"held"`
}

// scoreWithout scores a quantity of a class, of points that were left out at a level.
func scoreWithout(entries []*entry, class, quantity, without string) score {
	return scoreOf(entries, func(e *entry) bool {
		return e.point.class() == class && quantities[e.quantity] == quantity && e.without == without
	})
}

// byClass compares each class in sample with its points left out at each level. The class that is worst without its
// publisher is first.
func (p *page) byClass() {
	type line struct {
		text string
		by   float64
	}
	var lines []line
	for _, class := range []string{"moderate load", "moderate load, tensor parallel", "saturated",
		"saturated, tensor parallel"} {
		for _, quantity := range quantities {
			of := func(without string) score { return scoreWithout(p.entries, class, quantity, without) }
			seen, publisher := of(inSample), of("publisher")
			if publisher.n == 0 {
				continue
			}
			cells := []string{class, quantity, fmt.Sprint(publisher.n), percent(seen.median)}
			for _, without := range []string{"model", "GPU", "publisher", "release"} {
				s := of(without)
				if s.n == 0 {
					cells = append(cells, "", "", "")
					continue
				}
				cells = append(cells, "**"+percent(s.median)+"** ("+signed(s.bias)+")", percent(s.worst),
					percent(s.held))
			}
			lines = append(lines, line{row(cells...), publisher.median})
			cells = []string{class, quantity}
			for _, s := range []score{publisher, of("release")} {
				if s.n == 0 {
					cells = append(cells, "", "", "", "")
					continue
				}
				cells = append(cells, fmt.Sprint(s.n), percent(s.held), percent(s.each), fmt.Sprintf("%.1f", s.width))
			}
			p.Intervals = append(p.Intervals, row(cells...))
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.by, a.by) })
	for _, l := range lines {
		p.Classes = append(p.Classes, l.text)
	}
}

// columns are the quantities that share a column in narrow tables.
var columns = [][]int{{0}, {1, 2}, {3}, {4}}

// peers compares others' predictions with ours on the same points.
func (p *page) peers() {
	names := map[string]bool{}
	for _, x := range p.points {
		for n := range x.Peers {
			names[n] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		of := map[*Point]bool{}
		theirs := make([][]float64, len(columns))
		ours := make([][]float64, len(columns))
		for i := range p.points {
			x := &p.points[i]
			peer, ok := x.Peers[name]
			if !ok {
				continue
			}
			of[x] = true
			v, m := peer.values(), x.Measured.values()
			for c, column := range columns {
				for _, q := range column {
					if v[q] > 0 && m[q] > 0 {
						theirs[c] = append(theirs[c], math.Abs(v[q]/m[q]-1))
					}
				}
			}
		}
		for _, e := range p.entries {
			if of[e.point] && e.without == "model" && e.point.Peers[name].values()[e.quantity] > 0 {
				c := slices.IndexFunc(columns, func(column []int) bool { return slices.Contains(column, e.quantity) })
				ours[c] = append(ours[c], math.Abs(e.off()))
			}
		}
		for i, errs := range [][][]float64{theirs, ours} {
			cells, worst := []string{[]string{name, "sixty, on these"}[i], fmt.Sprint(len(of))}, 0.0
			for _, v := range errs {
				cell := ""
				if len(v) > 0 {
					cell = fmt.Sprintf("%.1f %%", 100*stat.Median(v))
					worst = max(worst, slices.Max(v))
				}
				cells = append(cells, cell)
			}
			p.Peers = append(p.Peers, row(append(cells, percent(worst))...))
		}
	}
}

// byLevel scores each group of a level: each GPU, or each model.
func (p *page) byLevel(without string, of func(*entry) string) (rows []string) {
	points := map[string]map[*Point]bool{}
	for _, e := range p.entries {
		if points[of(e)] == nil {
			points[of(e)] = map[*Point]bool{}
		}
		points[of(e)][e.point] = true
	}
	for _, level := range slices.Sorted(maps.Keys(points)) {
		own := func(quantities ...int) score {
			return scoreOf(p.entries, func(e *entry) bool {
				return e.without == without && of(e) == level && slices.Contains(quantities, e.quantity)
			})
		}
		cells := []string{level, fmt.Sprint(len(points[level]))}
		for _, column := range columns {
			cell := ""
			if s := own(column...); s.n > 0 {
				cell = percent(s.median) + " (" + signed(s.bias) + ")"
			}
			cells = append(cells, cell)
		}
		worst := ""
		if tokens := own(4); tokens.n > 0 {
			worst = percent(tokens.worst)
		}
		rows = append(rows, row(append(cells, worst, percent(own(0, 1, 2, 3, 4).held))...))
	}
	return rows
}

// worstShown is the number of worst predictions on the page.
const worstShown = 15

func (p *page) worst() {
	var all []*entry
	for _, e := range p.entries {
		if e.without == "publisher" && (e.quantity == 4 || e.quantity == 3 && e.point.Measured.Tokens == 0) {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *entry) int {
		return cmp.Compare(math.Abs(math.Log1p(b.off())), math.Abs(math.Log1p(a.off())))
	})
	for _, e := range all[:min(len(all), worstShown)] {
		w := e.widened()
		held := ""
		if !e.held() {
			held = " missed"
		}
		p.Worst = append(p.Worst, row(e.point.Name, quantities[e.quantity], digits(e.measured),
			digits(e.interval.Value),
			fmt.Sprintf("%.3g – %.3g%s", w.Low, w.High, held), signed(e.off())))
	}
}

// A tuning is the answer of `sixty tune` for a deployment at a multiple of the measured request rate. A test of package
// cli makes it.
type tuning struct {
	Name   string  `json:"name"`
	Times  float64 `json:"times"`
	Status string  `json:"status"`
	Values map[string]struct {
		Value, Low, High float64
	} `json:"predicted"`
}

// deployments shows the predictions for servers whose owners published their capacity. Nothing was fitted to these.
func (p *page) deployments() error {
	deployments, err := load[Point]("points/deployments.json")
	if err != nil {
		return err
	}
	tunings, err := load[tuning]("points/tuned.json")
	if err != nil {
		return err
	}
	words := map[string]string{"found": "carries it", "likely": "likely carries it", "not_met": "does not"}
	for i := range deployments {
		x := &deployments[i]
		var low, high tuning
		for _, t := range tunings {
			switch {
			case t.Name == x.Name && t.Times < 1:
				low = t
			case t.Name == x.Name:
				high = t
			}
		}
		of, err := x.burst()
		if err != nil {
			return err
		}
		m := x.Measured.values()
		verdict := "right as far as was measured"
		switch {
		case low.Status == "not_met" || m[4] < of[4].Low || m[4] > of[4].High:
			verdict = "**wrong**"
		case high.Status == "not_met":
			verdict = "right"
		case low.Status == "likely":
			verdict = "not sure"
		}
		_, output := x.Load.means()
		there := high.Values["output tokens/s"]
		p.Tuned = append(p.Tuned, row(fmt.Sprintf("[%s](%s)", x.Name, x.Source), x.VLLM,
			fmt.Sprintf("%.2f", m[4]/output),
			cmp.Or(words[low.Status], low.Status), cmp.Or(words[high.Status], high.Status),
			fmt.Sprintf("%.4g (%.3g – %.3g)", there.Value, there.Low, there.High), digits(m[4]), verdict))
		cells := []string{x.Name}
		for _, q := range []int{0, 1, 4} {
			if m[q] == 0 || q == 0 && x.Cached {
				cells = append(cells, "", "")
				continue
			}
			held := ""
			if m[q] < of[q].Low || m[q] > of[q].High {
				held = ", missed"
			}
			cells = append(cells, digits(m[q]),
				fmt.Sprintf("%.4g (%.3g – %.3g%s), %s", of[q].Value, of[q].Low, of[q].High, held,
					signed(of[q].Value/m[q]-1)))
		}
		p.Bursts = append(p.Bursts, row(cells...))
	}
	return p.memory(slices.Concat(p.points, deployments))
}

// burst predicts the load that a deployment's owner sent, with the parameters that ship.
func (p *Point) burst() (of [5]perfmodel.Estimate, err error) {
	c, err := p.prepare()
	if err != nil {
		return of, err
	}
	at, err := c.interval(perfmodel.Fitted(), nil)
	if err != nil {
		return of, err
	}
	w := perfmodel.Fitted().Widen
	for q := range of {
		of[q] = at.physical(q, at.of(q).Widened(w[kinds[q]]))
	}
	return of, nil
}

// memory compares the memory ledger with servers whose number of blocks was published.
func (p *page) memory(points []Point) error {
	seen := map[string]bool{}
	for _, x := range points {
		key := x.Model + x.GPU + x.Args
		if seen[key] {
			continue
		}
		seen[key] = true
		l, _, blocks, err := x.ledger(false)
		if err != nil {
			return err
		}
		if blocks == 0 {
			continue
		}
		args, _, _ := strings.Cut(x.Args, "--num-gpu-blocks-override")
		b, within := l.Blocks, ""
		if float64(blocks) < b.Low || float64(blocks) > b.High {
			within = ", outside"
		}
		p.Memory = append(p.Memory, row(x.Model+", "+x.GPU, x.VLLM, strings.TrimSpace(args), fmt.Sprint(blocks),
			fmt.Sprintf("%.0f (%.0f – %.0f)", b.Value, b.Low, b.High), fmt.Sprintf("%+.1f %%%s",
				100*(b.Value/float64(blocks)-1), within)))
	}
	return nil
}
