package runbookpage

import (
	"fmt"
	"slices"
	"strings"
)

// A graph is what explains what: pathologies by their ids, and arrows from causes to symptoms,
// without circles.
type graph struct {
	ids   []string
	edges [][2]string
}

func (g *graph) connect(from, to string) { g.edges = append(g.edges, [2]string{from, to}) }

// reaches reports whether a path leads from one node to another, over at least
// one edge other than the one left out.
func (g *graph) reaches(from, to string, without [2]string) bool {
	return slices.ContainsFunc(g.edges, func(e [2]string) bool {
		return e[0] == from && e != without && (e[1] == to || g.reaches(e[1], to, without))
	})
}

// reduce drops the edges that a longer path implies.
func (g *graph) reduce() {
	g.edges = slices.DeleteFunc(slices.Clone(g.edges), func(e [2]string) bool { return g.reaches(e[0], e[1], e) })
}

// mermaid returns the graph as a block of Mermaid in Markdown, its arrows from left to right
// ("LR") or from top to bottom ("TB"). Nodes are named by their ids, so that one that is added
// changes no line of another; the one that a page is about stands out, unless that is "".
func (g *graph) mermaid(direction, self string, titles map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n```mermaid\nflowchart %s\n", direction)
	name := func(id string) string { return strings.ReplaceAll(id, "-", "_") }
	for _, id := range g.ids {
		label := strings.NewReplacer(`"`, "#quot;", "\n", " ").Replace(titles[id])
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", name(id), label)
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "  %s --> %s\n", name(e[0]), name(e[1]))
	}
	if self != "" {
		fmt.Fprintf(&b, "  style %s stroke-width:3px\n", name(self))
	}
	b.WriteString("```\n")
	return b.String()
}
