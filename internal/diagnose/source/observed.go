package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// defaultPast is how much of a Prometheus server's past is read.
const defaultPast = 15 * time.Minute

// Observe reads the workload and the step times of the vLLM servers of one model, "" for the only one, in the window
// that ends at a moment. A window of 0 means all that a source holds, and fifteen minutes of a Prometheus server. Live
// servers must have been scraped before; all of their samples are read. Replicas on which one of the pathologies is
// found are left out while others are healthy, because their steps and queues say nothing about a healthy server.
func (s *Source) Observe(ctx context.Context, model string, at time.Time, window time.Duration,
	pathologies []*catalog.Pathology) (*workload.Measured, error) {
	span := s.Span()
	if s.Live != nil {
		switch err := s.Live.Answered(); {
		case isPermanent(err):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("no server answered: %w", err)
		}
		at = span.Last
	}
	from := span.First
	if from.IsZero() {
		window = cmp.Or(window, defaultPast)
	}
	if start := at.Add(-window); window > 0 && start.After(from) {
		from = start
	}
	pace, err := s.Pace(ctx, at)
	if err != nil {
		return nil, err
	}
	faulty, err := s.findFaulty(ctx, at, pathologies)
	if err != nil {
		return nil, err
	}
	o, err := s.measureModel(ctx, model, from, at, pace.Interval, faulty)
	if err != nil {
		return nil, err
	}
	if s.Live != nil {
		o.Release = cmp.Or(engine.FindRelease(s.Live.FactsOf(0).Version), o.Release)
		for _, m := range s.Live.FactsOf(0).Models {
			if m.MaxModelLen > 0 && (o.Model == "" || m.ID == o.Model) {
				o.Config.Set(engine.MaxModelLen, strconv.Itoa(m.MaxModelLen), "/v1/models")
			}
		}
	}
	return o, nil
}

// findFaulty returns the faulty servers at one time, each with the name of its fault. Faults that compare replicas,
// such as an uneven load, make no server faulty.
func (s *Source) findFaulty(ctx context.Context, at time.Time, pathologies []*catalog.Pathology) (map[string]string,
	error) {
	if len(pathologies) == 0 {
		return nil, nil
	}
	o, err := s.Options(ctx, at)
	if err != nil {
		return nil, err
	}
	o.Pathologies = pathologies
	d, err := s.Diagnose(ctx, o)
	if err != nil {
		return nil, err
	}
	faulty := map[string]string{}
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Status != diagnose.Firing || f.Note || f.InhibitedBy != "" || f.Severity < catalog.Ticket ||
			comparesReplicas(f.Pathology) {
			continue
		}
		for _, name := range f.Targets {
			faulty[name] = cmp.Or(faulty[name], f.Pathology.Name())
		}
	}
	return faulty, nil
}

// comparesReplicas reports whether a pathology holds a replica against the others.
func comparesReplicas(p *catalog.Pathology) (found bool) {
	p.When.Signals(func(s *indicator.Signal) { found = found || s.Fleet })
	return found
}

// measureModel discovers the servers and measures one model's. It leaves faulty servers out unless all are faulty.
func (s *Source) measureModel(ctx context.Context, model string, from, to time.Time, interval time.Duration,
	faulty map[string]string) (*workload.Measured, error) {
	found, _, err := identity.Discover(ctx, s, identity.Search{At: to, Lookback: max(to.Sub(from), 5*interval),
		Matchers: s.matchers})
	if err != nil {
		return nil, err
	}
	if s.noted != nil {
		s.annotateTargets(found)
	}
	what := workload.Measurement{From: from, To: to, Interval: interval}
	var release engine.Release
	models := map[string]bool{}
	found = slices.DeleteFunc(found, func(t diagnose.Target) bool {
		return t.Problem != "" || t.Dialect.Engine != dialect.VLLM
	})
	if len(found) == 0 {
		return nil, hint.With(errors.New("no vLLM server found"),
			"only vLLM's scheduler is simulated; check what is selected, and the time")
	}
	if found, err = OfModel(found, model); err != nil {
		return nil, err
	}
	for _, t := range found {
		models[t.Labels["model_name"]] = true
		target := workload.Server{Name: t.Name, Series: t.Dialect.Series, Config: t.Config,
			Matchers: slices.Clone(s.matchers)}
		for label, value := range t.Labels {
			target.Matchers = append(target.Matchers, labels.MustNewMatcher(labels.MatchEqual, label, value))
		}
		what.Servers = append(what.Servers, target)
		release = cmp.Or(release, engine.FindRelease(t.Version))
	}
	var leftOut []string
	healthy := slices.DeleteFunc(slices.Clone(what.Servers), func(t workload.Server) bool {
		if faulty[t.Name] != "" {
			leftOut = append(leftOut, fmt.Sprintf("%s (%s)", t.Name, faulty[t.Name]))
		}
		return faulty[t.Name] != ""
	})
	if len(healthy) == 0 {
		healthy, leftOut = what.Servers, nil
	}
	what.Servers = healthy
	m, err := workload.Measure(ctx, s, what)
	if err != nil {
		return nil, err
	}
	m.LeftOut = leftOut
	m.Source, m.Release, m.Config = s.Name, release, engine.Config{}
	for name := range models {
		m.Model = name
	}
	for _, r := range m.Ranks {
		m.Config.Merge(r.Config)
	}
	return m, nil
}

// OfModel returns the servers of one model. The name is the full CLUSTER/NAMESPACE/MODEL or its last parts, if they are
// unique; "" is the only model. The error lists the models.
func OfModel(targets []diagnose.Target, name string) ([]diagnose.Target, error) {
	found := map[string][]diagnose.Target{}
	for i := range targets {
		if l := targets[i].Labels; targets[i].Serves() && (l["model_name"] != "" || name == "") {
			full := strings.Trim(strings.Join([]string{l["cluster"], l["namespace"], l["model_name"]}, "/"), "/")
			found[full] = append(found[full], targets[i])
		}
	}
	all := slices.Sorted(maps.Keys(found))
	named := slices.DeleteFunc(slices.Clone(all), func(full string) bool {
		return name != "" && full != name && !strings.HasSuffix(full, "/"+name)
	})
	switch {
	case found[name] != nil:
		return found[name], nil
	case len(named) == 1:
		return found[named[0]], nil
	case len(named) > 1 && name == "":
		return nil, fmt.Errorf("there are servers of %d models, name one: %s", len(all), strings.Join(all, ", "))
	case len(named) > 1:
		return nil, fmt.Errorf("several models are named %q: %s", name, strings.Join(named, ", "))
	}
	return nil, fmt.Errorf("no server has the model %q: there are %s", name, cmp.Or(strings.Join(all, ", "), "none"))
}
