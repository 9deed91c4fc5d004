package runbookpage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReduceDropsWhatALongerPathImplies(t *testing.T) {
	g := &graph{ids: []string{"a", "b", "c", "d"}}
	for _, e := range [][2]string{{"a", "b"}, {"b", "d"}, {"a", "c"}, {"c", "d"}, {"a", "d"}} {
		g.addEdge(e[0], e[1])
	}
	g.dropImplied()
	if diff := cmp.Diff([][2]string{{"a", "b"}, {"b", "d"}, {"a", "c"}, {"c", "d"}}, g.edges); diff != "" {
		t.Error(diff)
	}
}

func TestMermaidEscapesLabels(t *testing.T) {
	g := &graph{ids: []string{"say-x"}}
	if got := g.renderMermaid("LR", "", map[string]string{"say-x": "say \"x\"\nthen"}); !strings.Contains(got, `say_x["say #quot;x#quot; then"]`) {
		t.Error(got)
	}
}
