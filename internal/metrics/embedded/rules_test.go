package embedded

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestRulesRecordWaitAndFire(t *testing.T) {
	s, err := Open(Config{})
	must.Succeed(t, err)
	defer s.Close()
	r, err := s.Rules([]rulefmt.RuleGroup{{Name: "g", Interval: model.Duration(10 * time.Second), Rules: []rulefmt.Rule{
		{Record: "job:depth:sum", Expr: "sum by (job) (depth)"},
		{
			Alert: "Deep", Expr: "job:depth:sum > 5", For: model.Duration(20 * time.Second),
			Labels: map[string]string{"severity": "page"}, Annotations: map[string]string{"summary": "depth {{ $value }}"},
		},
	}}})
	must.Succeed(t, err)
	start := time.Unix(1_700_000_000, 0)
	var states []string
	for i, depth := range []int{1, 9, 9, 9, 2} {
		at := start.Add(time.Duration(i) * 10 * time.Second)
		page := fmt.Sprintf("# TYPE depth gauge\ndepth %d\n", depth)
		if _, err := s.Append(Target{Instance: "a:1", Job: "j"}, at, []byte(page), "", time.Millisecond); err != nil {
			t.Fatal(err)
		}
		must.Succeed(t, r.Eval(t.Context(), at))
		state := "none"
		for _, a := range r.Alerts() {
			state = fmt.Sprintf("%v %s %s since %s", a.Firing, a.Labels["severity"], a.Annotations["summary"], a.Since.Sub(start))
		}
		states = append(states, state)
	}
	want := []string{"none", "false page depth 9 since 10s", "false page depth 9 since 10s", "true page depth 9 since 10s", "none"}
	must.Equal(t, want, states)
}

func TestRulesSayWhichOneFails(t *testing.T) {
	s, err := Open(Config{})
	must.Succeed(t, err)
	defer s.Close()
	if _, err := s.Rules([]rulefmt.RuleGroup{{Name: "g", Rules: []rulefmt.Rule{{Record: "x", Expr: "rate("}}}}); err == nil {
		t.Error("PromQL that does not parse was loaded")
	}
}
