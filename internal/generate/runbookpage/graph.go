package runbookpage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A graph is a small directed graph without circles, drawn in ranks.
type graph struct {
	title string
	nodes []node
	edges [][2]int
	down  bool // ranks from top to bottom; else from left to right
}

type node struct {
	label, href string
	rank        int
	via         bool // no node, but where an arrow passes a rank
}

func (g *graph) add(label, href string, rank int) int {
	g.nodes = append(g.nodes, node{label: label, href: href, rank: rank})
	return len(g.nodes) - 1
}

func (g *graph) connect(from, to int) { g.edges = append(g.edges, [2]int{from, to}) }

// reaches reports whether a path leads from one node to another, over at least
// one edge other than the one left out.
func (g *graph) reaches(from, to int, without [2]int) bool {
	return slices.ContainsFunc(g.edges, func(e [2]int) bool {
		return e[0] == from && e != without && (e[1] == to || g.reaches(e[1], to, without))
	})
}

// reduce drops the edges that a longer path implies.
func (g *graph) reduce() {
	g.edges = slices.DeleteFunc(slices.Clone(g.edges), func(e [2]int) bool { return g.reaches(e[0], e[1], e) })
}

// rank puts every node below all that lead to it, and orders each rank so that
// arrows are short: a few sweeps, each node to the mean place of its neighbours.
func (g *graph) rank() {
	g.down = true
	for range g.nodes {
		for _, e := range g.edges {
			g.nodes[e[1]].rank = max(g.nodes[e[1]].rank, g.nodes[e[0]].rank+1)
		}
	}
}

// order returns the nodes of each rank in the order in which they are drawn.
func (g *graph) order() [][]int {
	var ranks [][]int
	for i, n := range g.nodes {
		for len(ranks) <= n.rank {
			ranks = append(ranks, nil)
		}
		ranks[n.rank] = append(ranks[n.rank], i)
	}
	if !g.down {
		return ranks
	}
	place := make([]float64, len(g.nodes))
	settle := func() {
		for _, r := range ranks {
			for i, n := range r {
				place[n] = float64(i) - float64(len(r)-1)/2
			}
		}
	}
	settle()
	for range 8 {
		for _, r := range ranks {
			slices.SortStableFunc(r, func(a, b int) int { return cmp.Compare(g.pull(a, place), g.pull(b, place)) })
		}
		settle()
	}
	return ranks
}

// routed returns the graph with a place in every rank that an arrow passes, so
// that it leads between boxes rather than behind them.
func (g *graph) routed() *graph {
	out := &graph{title: g.title, down: g.down, nodes: slices.Clone(g.nodes)}
	for _, e := range g.edges {
		from := e[0]
		for r := g.nodes[from].rank + 1; r < g.nodes[e[1]].rank; r++ {
			next := out.add("", "", r)
			out.nodes[next].via = true
			out.connect(from, next)
			from = next
		}
		out.connect(from, e[1])
	}
	return out
}

// pull is the mean place of a node's neighbours, or its own.
func (g *graph) pull(n int, place []float64) float64 {
	sum, count := 0.0, 0.0
	for _, e := range g.edges {
		switch n {
		case e[0]:
			sum, count = sum+place[e[1]], count+1
		case e[1]:
			sum, count = sum+place[e[0]], count+1
		}
	}
	if count == 0 {
		return place[n]
	}
	return sum / count
}

// mermaid returns the graph in Mermaid's language.
func (g *graph) mermaid() string {
	var b strings.Builder
	direction := "LR"
	if g.down {
		direction = "TB"
	}
	fmt.Fprintf(&b, "flowchart %s\n", direction)
	for i, n := range g.nodes {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, strings.NewReplacer(`"`, "#quot;", "\n", " ").Replace(n.label))
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "  n%d --> n%d\n", e[0], e[1])
	}
	for i, n := range g.nodes {
		if n.href == "" {
			fmt.Fprintf(&b, "  style n%d stroke-width:3px\n", i)
		}
	}
	return b.String()
}

// Sizes of a drawing, in pixels at its natural width.
const (
	boxHeight = 30
	boxPad    = 12
	charWidth = 7.1 // of 13px sans-serif, on average and a little more
	gapAcross = 14  // between boxes of one rank
	gapAlong  = 46  // between ranks
)

type box struct{ x, y, w float64 }

// layout places the boxes and returns the size of the drawing.
func (g *graph) layout() (boxes []box, width, height float64) {
	boxes = make([]box, len(g.nodes))
	widest := 0.0
	for i, n := range g.nodes {
		if n.via {
			continue
		}
		boxes[i].w = math.Ceil(float64(utf8.RuneCountInString(n.label))*charWidth + 2*boxPad)
		widest = max(widest, boxes[i].w)
	}
	ranks := g.order()
	for _, r := range ranks {
		across := -float64(gapAcross)
		for _, n := range r {
			if g.down {
				across += boxes[n].w + gapAcross
			} else {
				boxes[n].w = widest
				across += boxHeight + gapAcross
			}
		}
		if g.down {
			width = max(width, across)
		} else {
			height = max(height, across)
		}
	}
	for i, r := range ranks {
		at := 0.0 // of the next box in the rank
		for _, n := range r {
			at += g.across(boxes[n]) + gapAcross
		}
		if g.down {
			at = (width - at + gapAcross) / 2
		} else {
			at = (height - at + gapAcross) / 2
		}
		for _, n := range r {
			if g.down {
				boxes[n].x, boxes[n].y = at, float64(i)*(boxHeight+gapAlong)
			} else {
				boxes[n].x, boxes[n].y = float64(i)*(widest+2*gapAlong), at
			}
			at += g.across(boxes[n]) + gapAcross
		}
	}
	if g.down {
		height = float64(len(ranks))*(boxHeight+gapAlong) - gapAlong
	} else {
		width = float64(len(ranks))*(widest+2*gapAlong) - 2*gapAlong
	}
	return boxes, width, height
}

// across is how much of its rank a box takes.
func (g *graph) across(b box) float64 {
	if g.down {
		return b.w
	}
	return boxHeight
}

// svg draws the graph. Its colours come from the page's style sheet.
func (g *graph) svg() string {
	g = g.routed()
	boxes, width, height := g.layout()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg role="img" aria-label="%s" viewBox="-4 -4 %.0f %.0f" style="max-width:%.0fpx">`, escapeHTML(g.title), width+8, height+8, width+8)
	fmt.Fprintf(&b, "\n<title>%s</title>\n", escapeHTML(g.title))
	b.WriteString(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>` + "\n")
	for _, e := range g.edges {
		b.WriteString(g.curve(boxes[e[0]], boxes[e[1]], g.nodes[e[1]].via))
	}
	for i, n := range g.nodes {
		box := boxes[i]
		if n.via {
			fmt.Fprintf(&b, "<path class=\"edge\" d=\"M%.1f %.1fv%d\"/>\n", box.x, box.y, boxHeight)
			continue
		}
		shape := fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="6"/><text x="%.1f" y="%.1f">%s</text>`,
			box.x, box.y, box.w, boxHeight, box.x+box.w/2, box.y+boxHeight/2+4.5, escapeHTML(n.label))
		if n.href == "" {
			fmt.Fprintf(&b, "<g class=\"self\">%s</g>\n", shape)
		} else {
			fmt.Fprintf(&b, "<a href=\"%s\">%s</a>\n", escapeHTML(n.href), shape)
		}
	}
	b.WriteString("</svg>")
	return b.String()
}

// curve draws an arrow from one box to another of a later rank, without its
// head where it only passes.
func (g *graph) curve(from, to box, passes bool) string {
	head := ` marker-end="url(#tip)"`
	if passes {
		head = ""
	}
	x1, y1, x2, y2 := from.x+from.w/2, from.y+boxHeight, to.x+to.w/2, to.y
	if g.down {
		mid := (y1 + y2) / 2
		return fmt.Sprintf("<path class=\"edge\"%s d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", head, x1, y1, x1, mid, x2, mid, x2, y2)
	}
	x1, y1, x2, y2 = from.x+from.w, from.y+boxHeight/2, to.x, to.y+boxHeight/2
	mid := (x1 + x2) / 2
	return fmt.Sprintf("<path class=\"edge\"%s d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", head, x1, y1, mid, y1, mid, y2, x2, y2)
}
