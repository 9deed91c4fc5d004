package identity

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/period"
)

// TestALargeGroupIsNotNamed: a question names the servers of a small group, and those of a large one, whose names are
// longer than stores read, are taken from the answer.
func TestALargeGroupIsNotNamed(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	r := &Scope{Instance: []string{"instance"}}
	for i := range mostNamed + 11 {
		r.Targets = append(r.Targets, Target{Name: fmt.Sprint(i), Labels: map[string]string{"instance": fmt.Sprint(i)}})
	}
	few := period.Period{From: at.Add(-time.Minute), To: at}
	most := period.Period{From: at.Add(-2 * time.Minute), To: at}
	gs := r.Groups(func(i int) (Time, bool) {
		if i < 10 {
			return Time{Period: few}, true
		}
		return Time{Period: most}, true
	})
	if len(gs) != 2 {
		t.Fatalf("%d groups", len(gs))
	}
	for _, g := range gs {
		if named := len(g.Matchers) > 0; named != (len(g.Members) <= mostNamed) {
			t.Errorf("a group of %d is named: %t", len(g.Members), named)
		}
		if got := len(g.OwnersOf(model.Metric{"instance": "5"}, false)); got != map[bool]int{true: 1}[g.Period == few] {
			t.Errorf("a group of %d has %d owners of another one's series", len(g.Members), got)
		}
	}
}
