package diagnose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Layout is how a deployment labels its series.
type Layout struct {
	Instance []string // labels that identify a scraped target
	Model    []string // labels that identify the replicas of one model
}

// Labels that may identify a target or a fleet, where they occur.
var (
	instanceLabels = []string{"cluster", "namespace", "job", "instance"}
	modelLabels    = []string{"cluster", "namespace", "model_name"}
	identityLabels = []string{"ReplicaId", "WorkerId"}
)

// Discover finds the targets whose engine metrics a Querier holds, and how
// they are labelled. With every, targets that expose no engine metrics but
// were scraped are returned too, with their Problem: the user named them.
func Discover(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, matchers []*labels.Matcher, every bool) ([]Target, Layout, error) {
	selector := append([]*labels.Matcher{
		labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, dialect.Selector+"|up|http_requests_total|process_.+|python_info|container_memory_working_set_bytes"),
		labels.MustNewMatcher(labels.MatchNotRegexp, labels.MetricName, ".+_bucket"),
	}, matchers...)
	by := slices.Concat([]string{labels.MetricName}, instanceLabels, modelLabels, identityLabels)
	slices.Sort(by)
	var texts []string
	for _, m := range selector {
		texts = append(texts, m.String())
	}
	expr := fmt.Sprintf("group by (%s) (last_over_time({%s}[%s]))", strings.Join(slices.Compact(by), ", "), strings.Join(texts, ","), model.Duration(lookback))
	v, err := q.Query(ctx, expr, at)
	if err != nil {
		return nil, Layout{}, fmt.Errorf("find targets: %w", err)
	}
	d := discovery{layout: layoutOf(v), servers: map[string]*server{}}
	for _, sample := range v {
		d.add(sample.Metric)
	}
	targets := d.targets(every)
	if len(targets) == 0 {
		return nil, d.layout, hint.With(fmt.Errorf("no inference server's metrics found at %s or in the %s before", at.UTC().Format(time.RFC3339), lookback),
			"check --match and --at; the server must scrape vLLM's /metrics")
	}
	return targets, d.layout, configure(ctx, q, at, lookback, matchers, targets, d.layout)
}

func layoutOf(v model.Vector) Layout {
	occurs := func(name string) bool {
		return slices.ContainsFunc(v, func(s *model.Sample) bool { return s.Metric[model.LabelName(name)] != "" })
	}
	var l Layout
	for _, n := range instanceLabels {
		if n == "instance" || occurs(n) {
			l.Instance = append(l.Instance, n)
		}
	}
	for _, n := range modelLabels {
		if n == "model_name" || occurs(n) {
			l.Model = append(l.Model, n)
		}
	}
	return l
}

// discovery gathers metric names by scraped target.
type discovery struct {
	layout  Layout
	servers map[string]*server
}

type server struct {
	labels map[string]string
	names  map[string]bool
	models map[string]map[string]string // by model_name and identity: the labels
}

func (d *discovery) add(m model.Metric) {
	key, lset := pick(m, d.layout.Instance)
	srv := d.servers[key]
	if srv == nil {
		srv = &server{labels: lset, names: map[string]bool{}, models: map[string]map[string]string{}}
		d.servers[key] = srv
	}
	srv.names[string(m[model.MetricNameLabel])] = true
	if m["model_name"] != "" {
		k, l := pick(m, slices.Concat(d.layout.Instance, []string{"model_name"}, identityLabels))
		srv.models[k] = l
	}
}

// pick returns the labels of the given names and a key made of them.
func pick(m model.Metric, names []string) (string, map[string]string) {
	var key strings.Builder
	l := map[string]string{}
	for _, n := range names {
		v := string(m[model.LabelName(n)])
		key.WriteString(v + "\xff")
		if v != "" {
			l[n] = v
		}
	}
	return key.String(), l
}

func (d *discovery) targets(every bool) []Target {
	var out []Target
	for _, k := range slices.Sorted(maps.Keys(d.servers)) {
		srv := d.servers[k]
		dia, ok := dialect.Detect(slices.Sorted(maps.Keys(srv.names)))
		switch {
		case !ok && every:
			out = append(out, Target{Name: srv.labels["instance"], Labels: srv.labels, Problem: unknownEngine(srv.names)})
		case !ok:
		case len(srv.models) == 0:
			out = append(out, Target{Name: srv.labels["instance"], Labels: srv.labels, Dialect: dia, Version: dia.Version})
		default:
			out = append(out, modelTargets(srv, dia)...)
		}
	}
	return out
}

func modelTargets(srv *server, dia dialect.Dialect) []Target {
	var out []Target
	for _, k := range slices.Sorted(maps.Keys(srv.models)) {
		l := srv.models[k]
		name := l["instance"]
		if len(srv.models) > 1 {
			name += "/" + l["model_name"]
			for _, id := range dia.Identity {
				if l[id] != "" {
					name += "/" + l[id]
				}
			}
		}
		out = append(out, Target{Name: name, Labels: l, Dialect: dia, Version: dia.Version})
	}
	return out
}

// unknownEngine says why a scraped target is none that can be judged.
func unknownEngine(names map[string]bool) string {
	switch {
	case names["python_info"] || names["process_start_time_seconds"]:
		return "it exposes only process metrics: vLLM was started with --disable-log-stats, or this is another program"
	case names["up"]:
		return "it was scraped but exposes no metric of an inference server"
	}
	return "it exposes no metric of an inference server"
}

// configure reads what the servers tell of their configuration.
func configure(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, matchers []*labels.Matcher, targets []Target, l Layout) error {
	asked := map[string]model.Vector{}
	for i := range targets {
		t := &targets[i]
		t.Config = engine.Config{}
		if t.Dialect.Engine != dialect.VLLM {
			continue
		}
		name := t.Dialect.Metric("vllm:cache_config_info")
		if _, ok := asked[name]; !ok {
			tree, err := indicator.Rewrite(fmt.Sprintf(`last_over_time({__name__=%q}[%s])`, name, model.Duration(lookback)), indicator.Rewriting{Matchers: matchers})
			if err != nil {
				return err
			}
			v, err := q.Query(ctx, tree.String(), at)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			asked[name] = v
		}
		for _, sample := range asked[name] {
			if _, mine := pick(sample.Metric, l.Instance); sameLabels(mine, t.Labels, l.Instance) {
				info := map[string]string{}
				for k, v := range sample.Metric {
					info[string(k)] = string(v)
				}
				t.Config.Merge(engine.FromCacheConfigInfo(info))
			}
		}
	}
	return nil
}

func sameLabels(a, b map[string]string, names []string) bool {
	for _, n := range names {
		if a[n] != b[n] {
			return false
		}
	}
	return true
}
