package serve

import (
	"context"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics"
)

// hostJob is the job label of this machine's metrics.
const hostJob = "sixty-host"

// readMachine stores metrics of this machine's GPUs and operating system until the context ends, if servers of the
// flags run on it.
func (s *server) readMachine(ctx context.Context) {
	if s.cfg.NoHost || s.cfg.Prometheus.Prometheus != "" {
		return
	}
	targets, err := source.Targets(append(append([]string(nil), s.cfg.Targets...), s.cfg.GPUTargets...))
	if err != nil {
		return // reported by the scraper
	}
	exporters, _ := source.Targets(s.cfg.GPUTargets)
	var servers []hostmetrics.Server
	for _, t := range targets {
		servers = append(servers, hostmetrics.Server{Name: t.Instance, URL: t.URL})
	}
	m := hostmetrics.New(servers, time.Duration(s.collector.Config().GlobalConfig.ScrapeInterval))
	for _, t := range exporters {
		m.Exported(t.Instance)
	}
	told := 0
	m.Run(ctx, func(p hostmetrics.Page) {
		_, err := s.collector.Append(embedded.Target{Instance: p.Instance(), Job: hostJob}, p.At, p.Body, "", p.Took)
		if err != nil {
			s.cfg.Log.Debug("a metrics page of this machine was not stored", "err", err)
		}
		if notes := m.Notes(); p.Server == "" && len(notes) > told {
			s.cfg.Log.Warn(notes[len(notes)-1])
			told = len(notes)
		}
	})
}
