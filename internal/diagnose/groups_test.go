package diagnose

import (
	"fmt"
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
	gs := groups(r, func(i int) Range {
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
		if got := len(g.owners(r, model.Metric{"instance": "5"}, false)); got != map[bool]int{true: 1}[g.span == few] {
			t.Errorf("a group of %d has %d owners of another one's series", len(g.members), got)
		}
	}
}
