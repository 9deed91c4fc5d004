package diagnose

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/metrics"
)

// A question is one instant query; several signals may need its answer.
type question struct {
	what string        // an expression
	of   string        // its layout, without the instances
	past time.Duration // how far back it looks, if that is all there is
	at   time.Time
}

// Answers are those to the questions of a diagnosis. The next one needs not ask again what is about the past.
type Answers map[question]*answer

// lookUp returns the known answers to queries, unless most of them are about others.
func (a Answers) lookUp(queries []query) Answers {
	out := Answers{}
	for _, q := range queries {
		if known := a[q.question]; known != nil && (known.of == nil || len(known.of) <= 2*len(q.named)) {
			out[q.question] = known
		}
	}
	return out
}

// settledBefore returns the answers that can no longer change.
func (a Answers) settledBefore(now time.Time) Answers {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(q question, _ *answer) bool { return q.at.After(now.Add(-metrics.Arrival)) })
	return out
}

// An answer holds the samples of some instances.
type answer struct {
	model.Vector
	of map[string]bool // nil means all
}

// lacksInstances returns of which instances an answer says nothing, of those that are named or, where none are, of all.
func (a *answer) lacksInstances(named []string) (missing []string, some bool) {
	if a == nil {
		return named, true
	}
	if a.of != nil {
		missing = slices.DeleteFunc(slices.Clone(named), func(n string) bool { return a.of[n] })
	}
	return missing, len(missing) > 0
}

// withSamples adds the samples of further instances; named nil means all.
func (a *answer) withSamples(v model.Vector, named []string) *answer {
	if named == nil {
		return &answer{Vector: v}
	}
	out := &answer{v, map[string]bool{}}
	if a != nil {
		out.Vector, out.of = append(a.Vector, v...), a.of
	}
	for _, n := range named {
		out.of[n] = true
	}
	return out
}
