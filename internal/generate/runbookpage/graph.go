package runbookpage

import (
	"fmt"
	"slices"
	"strings"
)

// A graph holds pathologies by id, and edges from causes to symptoms. It has no cycles.
type graph struct {
	ids   []string
	edges [][2]string
}

func (g *graph) addEdge(from, to string) { g.edges = append(g.edges, [2]string{from, to}) }

// hasOtherPath reports whether a path leads from one node to another that does not use the edge without.
func (g *graph) hasOtherPath(from, to string, without [2]string) bool {
	return slices.ContainsFunc(g.edges, func(e [2]string) bool {
		return e[0] == from && e != without && (e[1] == to || g.hasOtherPath(e[1], to, without))
	})
}

// dropImplied drops the edges that a longer path implies.
func (g *graph) dropImplied() {
	g.edges = slices.DeleteFunc(slices.Clone(g.edges), func(e [2]string) bool { return g.hasOtherPath(e[0], e[1], e) })
}

// renderMermaid returns the graph as a Mermaid block. Edges run from left to right ("LR") or from top to bottom ("TB").
// Nodes are named by their ids, so that a new node changes no other line. The node self, unless it is "", is
// highlighted.
func (g *graph) renderMermaid(direction, self string, titles map[string]string) string {
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
