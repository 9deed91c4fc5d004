package diagnose

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A series is what the labels of a series, or of a value that was computed from some, say to a diagnosis.
type series struct {
	metric model.Metric

	atInstance []int // the targets at its address
	ofModel    []int // and those of them whose model it names
	namesModel bool

	rank  string  // its data-parallel rank
	bound float64 // of its bucket; NaN without one
	owner string  // labels that buckets of one histogram have in common

	goes []destination // where a history takes its samples
}

// A resolver resolves what labels say. It does so once for all labels of a storage in this process, which gives the
// same labels as the same map each time. It is safe for concurrent use.
type resolver struct {
	targets  []Target
	instance []string         // labels that identify a scraped target
	model    []string         // and the replicas of one model
	members  map[string][]int // targets by the labels of their instance
	places   map[string]map[string][]held

	at        time.Time // of the last diagnosis
	diagnoses int

	mu    sync.Mutex
	known map[uintptr]*series // that were met since the last generation
	old   map[uintptr]*series // that were met in the one before
}

// generation is how many diagnoses make one: labels that are not met in two are forgotten. A server that is asked over
// the network gives new ones each time.
const generation = 4

// resolverOf returns the resolver of a request's targets: a remembered one, if they are the same.
func (m *Memory) resolverOf(r *Request) *resolver {
	if m == nil {
		return newResolver(r)
	}
	for _, known := range m.resolvers {
		if known.isOf(r) {
			known.startDiagnosis(r.At)
			return known
		}
	}
	// Two: of all targets, and of those that did not depart.
	m.resolvers = append(m.resolvers[max(0, len(m.resolvers)-1):], newResolver(r))
	return m.resolvers[len(m.resolvers)-1]
}

func newResolver(r *Request) *resolver {
	out := &resolver{
		targets: r.Targets, instance: r.Instance, model: r.Model, members: map[string][]int{},
		places: map[string]map[string][]held{}, known: map[uintptr]*series{},
	}
	for i := range r.Targets {
		key := labelKey(r.Targets[i].Labels, r.Instance)
		out.members[key] = append(out.members[key], i)
	}
	return out
}

// startDiagnosis counts a diagnosis, of which the resolver may be told more than once.
func (r *resolver) startDiagnosis(at time.Time) {
	if r.at.Equal(at) {
		return
	}
	r.at = at
	if r.diagnoses++; r.diagnoses%generation == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.known, r.old = make(map[uintptr]*series, len(r.known)), r.known
	}
}

// isOf reports whether a resolver is of a request's targets.
func (r *resolver) isOf(of *Request) bool {
	return slices.Equal(r.instance, of.Instance) && slices.Equal(r.model, of.Model) &&
		slices.EqualFunc(r.targets, of.Targets, func(a, b Target) bool {
			return maps.Equal(a.Labels, b.Labels) && a.Dialect.Key() == b.Dialect.Key()
		})
}

// seriesOf returns what labels say.
func (r *resolver) seriesOf(m model.Metric) *series {
	key := reflect.ValueOf(m).Pointer()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[key]
	if s != nil {
		return s
	}
	if s = r.old[key]; s == nil {
		s = r.resolveSeries(m)
	}
	r.known[key] = s
	return s
}

// resolveSeries is seriesOf for labels that were not met before.
func (r *resolver) resolveSeries(m model.Metric) *series {
	s := &series{metric: m, namesModel: m["model_name"] != "", bound: math.NaN()}
	if le, ok := parseBound(string(m[model.BucketLabel])); ok {
		s.bound = le
	}
	s.atInstance = r.members[labelKey(m, r.instance)]
	for _, i := range s.atInstance {
		if t := &r.targets[i]; sameMetric(m, t.Labels, t.Dialect.Identity) && sameMetric(m, t.Labels, r.model) {
			s.ofModel = append(s.ofModel, i)
		}
	}
	if len(s.atInstance) == 0 {
		return s
	}
	d := &r.targets[s.atInstance[0]].Dialect // of all at one address
	ranks := d.Rank
	if ranks == nil {
		ranks = indicator.Rank[1:]
	}
	s.rank = strings.ReplaceAll(strings.TrimSuffix(labelKey(m, ranks), "\xff"), "\xff", "/")
	s.owner = labelKey(m, slices.Concat(r.instance, d.Identity, r.model))
	for _, p := range r.placesIn(d)[string(m[model.MetricNameLabel])] {
		if to, ok := p.destinationOf(m, s.bound, d); ok {
			s.goes = append(s.goes, to)
		}
	}
	return s
}

// placesIn returns where samples go, by the names of a dialect.
func (r *resolver) placesIn(d *dialect.Dialect) map[string][]held {
	out := r.places[d.Key()]
	if out == nil {
		out = make(map[string][]held, len(places))
		for i := range places {
			s := places[i].seriesOf(d)
			out[s.Metric] = append(out[s.Metric], held{&places[i], slices.Concat(places[i].where, s.Where)})
		}
		r.places[d.Key()] = out
	}
	return out
}

// ownersIn returns the members of a group to which a series belongs: those at its address and, if models is set, of its
// model.
func (s *series) ownersIn(g *group, models bool) []int {
	owners := s.atInstance
	if models {
		owners = s.ofModel
	}
	if len(owners) == 1 && g.has[owners[0]] {
		return owners
	}
	var out []int
	for _, i := range owners {
		if g.has[i] {
			out = append(out, i)
		}
	}
	return out
}
