package runbookpage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// diamond is a → b → d, a → c → d, and a → d besides.
func diamond() *graph {
	g := &graph{title: "diamond"}
	for _, name := range []string{"a", "b", "c", "d"} {
		g.add(name, name+".html", 0)
	}
	for _, e := range [][2]int{{0, 1}, {1, 3}, {0, 2}, {2, 3}, {0, 3}} {
		g.connect(e[0], e[1])
	}
	return g
}

func TestReduceDropsWhatALongerPathImplies(t *testing.T) {
	g := diamond()
	g.reduce()
	if diff := cmp.Diff([][2]int{{0, 1}, {1, 3}, {0, 2}, {2, 3}}, g.edges); diff != "" {
		t.Error(diff)
	}
}

func TestRanksFollowTheArrows(t *testing.T) {
	g := diamond()
	g.rank()
	var got []int
	for _, n := range g.nodes {
		got = append(got, n.rank)
	}
	if diff := cmp.Diff([]int{0, 1, 1, 2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRoutedArrowsPassOneRankEach(t *testing.T) {
	g := diamond() // with the arrow from a to d, which passes a rank
	g.rank()
	r := g.routed()
	for _, e := range r.edges {
		if r.nodes[e[1]].rank != r.nodes[e[0]].rank+1 {
			t.Errorf("an arrow leads from rank %d to rank %d", r.nodes[e[0]].rank, r.nodes[e[1]].rank)
		}
	}
	if len(r.nodes) != 5 || !r.nodes[4].via {
		t.Errorf("nodes: %+v", r.nodes)
	}
	if len(g.nodes) != 4 {
		t.Error("routing changed the graph")
	}
}

func TestBoxesDoNotOverlapAndStayInside(t *testing.T) {
	down, across := diamond(), diamond()
	down.rank()
	for i := range across.nodes {
		across.nodes[i].rank = i % 2
	}
	for _, g := range []*graph{down.routed(), across} {
		boxes, width, height := g.layout()
		for i, a := range boxes {
			if a.x < 0 || a.y < 0 || a.x+a.w > width+0.01 || a.y+boxHeight > height+0.01 {
				t.Errorf("box %d at %+v leaves %.0f × %.0f", i, a, width, height)
			}
			for j, b := range boxes[:i] {
				if a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+boxHeight && b.y < a.y+boxHeight {
					t.Errorf("boxes %d and %d overlap", i, j)
				}
			}
		}
	}
}

func TestMermaidEscapesLabels(t *testing.T) {
	g := &graph{}
	g.add("say \"x\"\nthen", "", 0)
	if got := g.mermaid(); !strings.Contains(got, `n0["say #quot;x#quot; then"]`) {
		t.Error(got)
	}
}
