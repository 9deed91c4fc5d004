package diagnose

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
)

// TestAnAnswerIsKeptByWhomItSpeaksOf: those who joined a group are asked about alone.
func TestAnAnswerIsKeptByWhomItSpeaksOf(t *testing.T) {
	said := func(name string) model.Vector {
		return model.Vector{{Metric: model.Metric{"instance": model.LabelValue(name)}}}
	}
	var a *answer
	for _, step := range []struct {
		named, want []string
		some        bool
	}{
		{[]string{"a", "b"}, []string{"a", "b"}, true},
		{[]string{"b"}, nil, false},
		{[]string{"a", "b", "c"}, []string{"c"}, true},
		{[]string{"a", "c"}, nil, false},
		{nil, nil, true},
		{[]string{"d"}, nil, false},
	} {
		if step.named == nil {
			a = nil // Memory gives no answer about some to who asks about all
		}
		got, some := a.lacksInstances(step.named)
		if !slices.Equal(got, step.want) || some != step.some {
			t.Errorf("of %v %v is lacking (%t), want %v (%t)", step.named, got, some, step.want, step.some)
		}
		if some {
			a = a.withSamples(said(strings.Join(got, "")), got)
		}
	}
	m := Answers{{name: "x"}: {said("a"), map[string]bool{"a": true}}}
	if got := m.lookUp([]query{{question: question{name: "x"}}}); len(got) != 0 {
		t.Errorf("who asks about all is told %v", got)
	}
}
