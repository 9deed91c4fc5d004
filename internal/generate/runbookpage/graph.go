package runbookpage

import (
	"fmt"
	"slices"
	"strings"
)

// A graph is a small directed graph without circles.
type graph struct {
	nodes []node
	edges [][2]int
	down  bool // from top to bottom; else from left to right
}

// A node is a pathology; the one that a page is about has no address.
type node struct{ id, label, href string }

func (g *graph) add(id, label, href string) int {
	g.nodes = append(g.nodes, node{id, label, href})
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

// mermaid returns the graph in Mermaid's language. Nodes are named by their ids, so that one that
// is added changes no line of another.
func (g *graph) mermaid() string {
	var b strings.Builder
	direction := "LR"
	if g.down {
		direction = "TB"
	}
	fmt.Fprintf(&b, "flowchart %s\n", direction)
	name := func(n node) string { return strings.ReplaceAll(n.id, "-", "_") }
	for _, n := range g.nodes {
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", name(n), strings.NewReplacer(`"`, "#quot;", "\n", " ").Replace(n.label))
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "  %s --> %s\n", name(g.nodes[e[0]]), name(g.nodes[e[1]]))
	}
	for _, n := range g.nodes {
		if n.href == "" {
			fmt.Fprintf(&b, "  style %s stroke-width:3px\n", name(n))
		}
	}
	return b.String()
}

// list returns the graph as a list in Markdown, of what each node leads to: for pages
// that hold no diagram, because they have no scripts to draw one.
func (g *graph) list() string {
	var b strings.Builder
	for i, n := range g.nodes {
		var to []string
		for _, e := range g.edges {
			if e[0] == i {
				to = append(to, g.nodes[e[1]].link())
			}
		}
		if len(to) > 0 {
			fmt.Fprintf(&b, "- %s → %s\n", n.link(), strings.Join(to, ", "))
		}
	}
	return b.String()
}
