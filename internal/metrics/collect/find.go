package collect

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/scrape"
)

// A Candidate is a discovered address, which relabelling may keep or drop.
type Candidate struct {
	Job        string
	Discovered labels.Labels // before relabelling
	Target     labels.Labels // empty if it was dropped
	Dropped    *relabel.Config
}

// FindTargets runs the discoveries of a configuration once, and scrapes nothing. It ends when every job has found a
// target or failed, or after the given time, and also returns the failures until then.
func FindTargets(
	ctx context.Context, cfg *config.Config, within time.Duration, log *slog.Logger,
) ([]Candidate, []DiscoveryProblem, error) {
	jobs, err := cfg.GetScrapeConfigs()
	if err != nil {
		return nil, nil, err
	}
	registry := prometheus.NewRegistry()
	if err := discovery.RegisterK8sClientMetricsWithPrometheus(registry); err != nil {
		return nil, nil, err
	}
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.NewTimer(within)
	defer late.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	m := discovery.NewManager(ctx, log, registry, metrics, discovery.Updatert(100*time.Millisecond))
	if m == nil {
		return nil, nil, errors.New("service discovery: registering its metrics failed")
	}
	watch, find, byName := newDiscoveries(log, nil), map[string]discovery.Configs{}, map[string]*config.ScrapeConfig{}
	for _, job := range jobs {
		find[job.JobName], byName[job.JobName] = watch.watchConfigs(job.ServiceDiscoveryConfigs), job
	}
	go func() { _ = m.Run() }()
	if err := m.ApplyConfig(find); err != nil {
		return nil, nil, err
	}
	found := map[string][]Candidate{}
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-late.C:
			waiting = false
		case <-look.C:
			waiting = slices.ContainsFunc(jobs, func(j *config.ScrapeConfig) bool {
				return len(found[j.JobName]) == 0 && !watch.jobFails(j.JobName)
			})
		case groups := <-m.SyncCh():
			for job, gs := range groups {
				var all []Candidate
				b := labels.NewBuilder(labels.EmptyLabels())
				for _, g := range gs {
					for _, t := range g.Targets {
						scrape.PopulateDiscoveredLabels(b, byName[job], t, g.Labels)
						all = append(all, relabelTarget(byName[job], b.Labels()))
					}
				}
				found[job] = all
			}
		}
	}
	problems := watch.listProblems()
	var out []Candidate
	for _, job := range jobs {
		slices.SortFunc(found[job.JobName], func(a, b Candidate) int {
			return labels.Compare(a.Discovered, b.Discovered)
		})
		out = append(out, found[job.JobName]...)
	}
	return out, problems, nil
}

// relabelTarget applies a job's relabelling to its discovered targets.
func relabelTarget(job *config.ScrapeConfig, discovered labels.Labels) Candidate {
	c, b := Candidate{Job: job.JobName, Discovered: discovered}, labels.NewBuilder(discovered)
	for _, step := range job.RelabelConfigs {
		if !relabel.ProcessBuilder(b, step) {
			c.Dropped = step
			return c
		}
	}
	if b.Get("instance") == "" {
		b.Set("instance", b.Get("__address__"))
	}
	c.Target = b.Labels()
	return c
}
