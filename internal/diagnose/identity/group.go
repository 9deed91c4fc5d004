package identity

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Scope says which targets to query, and how their series are labelled.
type Scope struct {
	Targets []Target

	// Instance and Model are the labels that identify a target and a fleet.
	Instance, Model []string
	// Matchers restrict every selector to what the user asked for.
	Matchers []*labels.Matcher
}

// A Time is the period over which a target is queried.
type Time struct {
	period.Period
	Asked  time.Time     // when it was scraped last, with or without success; zero means the end of the period
	Beyond time.Duration // by how much the period ends after the last scrape
}

// A Group is a set of targets that share queries.
type Group struct {
	Lead     *Target // the target whose dialect the group has
	Time             // Beyond is the maximum over the members
	Matchers []*labels.Matcher
	Named    []string // the members' instances, if the matchers name them
	Members  []int

	scope *Scope
	by    map[string][]int // members by the labels of their instance
}

// Groups puts targets of one dialect and time together, because they share queries. Targets that cannot or need not
// be queried are in no group.
func (s *Scope) Groups(when func(target int) (of Time, ask bool)) []*Group {
	type key struct {
		dialect string
		period  period.Period
		asked   time.Time
	}
	var gs []*Group
	keys := map[key]*Group{}
	for i := range s.Targets {
		t := &s.Targets[i]
		of, ask := when(i)
		if t.Problem != "" || !ask {
			continue
		}
		if of.Asked.IsZero() {
			of.Asked = of.To
		}
		k := key{t.Dialect.Key(), of.Period, of.Asked}
		g := keys[k]
		if g == nil {
			g = &Group{Lead: t, Time: of, Matchers: s.Matchers, scope: s, by: map[string][]int{}}
			keys[k] = g
			gs = append(gs, g)
		}
		g.Beyond = max(g.Beyond, of.Beyond)
		g.Members = append(g.Members, i)
		instance := LabelKey(t.Labels, s.Instance)
		g.by[instance] = append(g.by[instance], i)
	}
	if len(gs) < 2 {
		return gs
	}
	for _, g := range gs {
		if len(g.Members) <= mostNamed {
			g.RestrictToOwn()
		}
	}
	return gs
}

// mostNamed is how many targets a query names at most. A larger group queries all targets and picks its own from the
// answer: a thousand names in each of twenty selectors exceed the query length of some stores (VictoriaMetrics'
// -search.maxQueryLen).
const mostNamed = 200

// RestrictToOwn restricts the group's matchers to its own instances.
func (g *Group) RestrictToOwn() {
	g.Named = nil
	for _, m := range g.Members {
		g.Named = append(g.Named, g.scope.Targets[m].Labels["instance"])
	}
	slices.Sort(g.Named)
	g.Named = slices.Compact(g.Named)
	g.Matchers = g.scope.MatchersOf(g.Named)
}

// MatchersOf returns the matchers of the named instances, or of all if instances is nil.
func (s *Scope) MatchersOf(instances []string) []*labels.Matcher {
	if instances == nil {
		return s.Matchers
	}
	quoted := make([]string, len(instances))
	for i, name := range instances {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return append(slices.Clone(s.Matchers), indicator.Like("instance", strings.Join(quoted, "|")))
}

// OwnersOf returns the members to which a series belongs: members of its instance and, if models is set, of its model.
func (g *Group) OwnersOf(m model.Metric, models bool) []int {
	var room [128]byte
	members := g.by[string(AppendKey(room[:0], m, g.scope.Instance))]
	if !models || len(members) == 0 {
		return members
	}
	var out []int
	for _, i := range members {
		if t := &g.scope.Targets[i]; hasSameLabels(m, t.Labels, t.Dialect.Identity) &&
			hasSameLabels(m, t.Labels, g.scope.Model) {
			out = append(out, i)
		}
	}
	return out
}

// hasSameLabels reports whether a series and a target have the same values of labels.
func hasSameLabels(m model.Metric, l map[string]string, names []string) bool {
	for _, n := range names {
		if string(m[model.LabelName(n)]) != l[n] {
			return false
		}
	}
	return true
}

// LabelKey joins the values of labels.
func LabelKey[M ~map[N]V, N, V ~string](l M, names []string) string {
	return string(AppendKey(nil, l, names))
}

// AppendKey appends the LabelKey to a buffer.
func AppendKey[M ~map[N]V, N, V ~string](b []byte, l M, names []string) []byte {
	for _, n := range names {
		b = append(append(b, l[N(n)]...), 0xff)
	}
	return b
}
