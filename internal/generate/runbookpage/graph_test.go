package runbookpage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// diamond is a → b → d, a → c → d, and a → d besides.
func diamond() *graph {
	g := &graph{}
	for _, name := range []string{"a", "b", "c", "d"} {
		g.add(name, name, name+".html")
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

func TestAListSaysWhatTheArrowsSay(t *testing.T) {
	g := diamond()
	g.reduce()
	want := "- [a](a.html) → [b](b.html), [c](c.html)\n- [b](b.html) → [d](d.html)\n- [c](c.html) → [d](d.html)\n"
	if diff := cmp.Diff(want, g.list()); diff != "" {
		t.Error(diff)
	}
}

func TestMermaidEscapesLabels(t *testing.T) {
	g := &graph{}
	g.add("say-x", "say \"x\"\nthen", "")
	if got := g.mermaid(); !strings.Contains(got, `say_x["say #quot;x#quot; then"]`) {
		t.Error(got)
	}
}
