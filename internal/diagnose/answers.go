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
	name     string        // identifies the expression
	compiled string        // what the expression is compiled for, apart from the instances
	past     time.Duration // the whole history, if it looks back over all of it; else 0
	at       time.Time
}

// Answers holds the answers to the questions of a diagnosis. The next diagnosis reuses those about the past.
type Answers map[question]*answer

// lookUp returns the known answers to queries, except an answer that is mostly about instances that its query does not
// name.
func (a Answers) lookUp(queries []query) Answers {
	out := Answers{}
	for _, q := range queries {
		if known := a[q.question]; known != nil && (known.instances == nil || len(known.instances) <= 2*len(q.named)) {
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
	instances map[string]bool // nil means all
}

// lacksInstances returns the named instances that an answer lacks, and whether it lacks any. With named nil, all
// instances are meant.
func (a *answer) lacksInstances(named []string) (missing []string, some bool) {
	if a == nil {
		return named, true
	}
	if a.instances != nil {
		missing = slices.DeleteFunc(slices.Clone(named), func(n string) bool { return a.instances[n] })
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
		out.Vector, out.instances = append(a.Vector, v...), a.instances
	}
	for _, n := range named {
		out.instances[n] = true
	}
	return out
}
