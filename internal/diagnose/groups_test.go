package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// TestALargeGroupIsNotNamed: a question names the servers of a small group, and those of a large one, whose names are
// longer than stores read, are taken from the answer.
func TestALargeGroupIsNotNamed(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	r := &Request{Instance: []string{"instance"}}
	for i := range mostNamed + 11 {
		r.Targets = append(r.Targets, Target{Name: fmt.Sprint(i), Labels: map[string]string{"instance": fmt.Sprint(i)}})
	}
	few := Range{From: at.Add(-time.Minute), To: at}
	most := Range{From: at.Add(-2 * time.Minute), To: at}
	gs := groupTargets(r, func(i int) Range {
		if i < 10 {
			return few
		}
		return most
	}, func(int) bool { return true })
	if len(gs) != 2 {
		t.Fatalf("%d groups", len(gs))
	}
	for _, g := range gs {
		if named := len(g.matchers) > 0; named != (len(g.members) <= mostNamed) {
			t.Errorf("a group of %d is named: %t", len(g.members), named)
		}
		if got := len(g.ownersOf(r, model.Metric{"instance": "5"}, false)); got != map[bool]int{true: 1}[g.span == few] {
			t.Errorf("a group of %d has %d owners of another one's series", len(g.members), got)
		}
	}
}

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
	m := Memory{answers: map[question]*answer{{what: "x"}: {said("a"), map[string]bool{"a": true}}}}
	if got := m.lookUp([]query{{question: question{what: "x"}}}); len(got) != 0 {
		t.Errorf("who asks about all is told %v", got)
	}
}

// TestSharedBaselinesDoNotDependOnTheOthers: what one target is compared with is the same, whoever else is there.
func TestSharedBaselinesDoNotDependOnTheOthers(t *testing.T) {
	at, step := time.Unix(1_700_000_000, 0), 5*time.Second
	spans := func(phases ...time.Duration) (out []Span) {
		for _, p := range phases {
			out = append(out, Span{Source: History, Baseline: Range{at.Add(p - edge), at.Add(p + time.Minute)}})
		}
		return out
	}
	few, more := spans(2*time.Second, 3*time.Second), spans(2*time.Second, 0, 4900*time.Millisecond, 4*time.Second, time.Second, 1500*time.Millisecond)
	shareBaselines(few, step)
	shareBaselines(more, step)
	want := Range{at.Add(step - edge), at.Add(time.Minute)}
	for _, s := range append(few, more...) {
		if s.Baseline != want {
			t.Errorf("%v, want %v", s.Baseline, want)
		}
	}
}
