// Package shard divides the servers of a store among monitors by model, so that the replicas of one model are judged
// together. It queries the store for the servers.
package shard

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Shard is one of several parts of the servers. It is safe for concurrent use.
type Shard struct {
	Part, Of uint64 // Part counts from 1

	mu   sync.Mutex
	last census
}

// Parse reads a shard as --shard takes it: 2/5 is the second of five.
func Parse(text string) (*Shard, error) {
	part, of, ok := strings.Cut(text, "/")
	i, err1 := strconv.ParseUint(part, 10, 32)
	n, err2 := strconv.ParseUint(of, 10, 32)
	if !ok || err1 != nil || err2 != nil || n < 1 || i < 1 || i > n {
		return nil, hint.With(fmt.Errorf("--shard: %q is not a shard", text),
			"write it like 2/5, for the second of five")
	}
	return &Shard{Part: i, Of: n}, nil
}

// has reports whether what a name stands for is in the shard.
func (s *Shard) has(name string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()%s.Of == s.Part-1
}

// relist is how often the store is asked which servers there are.
const relist = time.Minute

// Metrics with few series that show the servers: engines with their models, gateways with the models behind them, and
// GPUs.
var (
	engines  = regexp.MustCompile("^(?:" + dialect.NamePattern("num_requests_running") + ")$")
	gateways = "sixty_gateway_upstream_up"
	gpus     = "DCGM_FI_DEV_GPU_TEMP|(amd_)?gpu_(junction|edge)_temperature"
	showing  = dialect.NamePattern("num_requests_running") + "|" + gateways + "|" + gpus
)

// A place is where series were scraped: the values of these labels.
type place [4]string

func placeOf(m model.Metric) (p place) {
	for i, n := range dialect.UsualInstance {
		p[i] = string(m[model.LabelName(n)])
	}
	return p
}

func (p place) job() string { return strings.Join(p[:3], "\xff") }

// host returns the host of an address.
func (p place) host() string { return p[3][:max(0, strings.LastIndexByte(p[3], ':'))] }

// A census is of the servers that were seen.
type census struct {
	at   time.Time // when they were asked for
	seen map[place]*server

	match  *labels.Matcher // selects the servers of the shard
	others map[place]bool  // that it lets in too
}

type server struct {
	last   time.Time
	models []string // that its engines serve
	behind []string // models and addresses that stand behind a gateway
	gpus   bool
}

// Narrow returns the source, at one time, restricted to the servers of the shard.
func (s *Shard) Narrow(ctx context.Context, from *source.Source, at time.Time) (*source.Source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.last
	if at.Before(c.at) {
		c = &census{} // the history's servers
	}
	if c.match == nil || at.Sub(c.at) >= relist {
		if err := c.ask(ctx, from, at); err != nil {
			return nil, fmt.Errorf("find the servers of shard %d/%d: %w", s.Part, s.Of, err)
		}
		mine, others := s.divide(c.seen)
		c.match, c.others = separate(mine, others)
	}
	if c.match == nil {
		return nil, hint.With(fmt.Errorf("shard %d/%d has none of the %d servers in the store", s.Part, s.Of,
			len(c.seen)),
			"models are divided by their names: make fewer shards, or check --match")
	}
	out := from.WithMatcher(c.match)
	if len(c.others) > 0 {
		out.Querier = &own{out.Querier, c.others}
	}
	return out, nil
}

// ask adds who was there since the last time, and forgets who left long ago.
func (c *census) ask(ctx context.Context, from *source.Source, at time.Time) error {
	span := min(identity.LongestPast, at.Sub(c.at)) + metrics.Arrival
	if c.seen == nil {
		c.seen = map[place]*server{}
	}
	by := append([]string{labels.MetricName, "model_name", indicator.PerModel, indicator.PerUpstream},
		dialect.UsualInstance...)
	ask := func(names string, more ...*labels.Matcher) (model.Vector, error) {
		of := indicator.Now("", slices.Concat([]*labels.Matcher{indicator.Like(labels.MetricName, names)}, more,
			from.Matchers())...).In(span)
		of.Func = "last_over_time"
		return from.Evaluate(ctx, indicator.Aggregate{Op: "group", Labels: by, Of: of}, at)
	}
	v, err := ask(showing)
	if err != nil {
		return err
	}
	jobs := []string{identity.GatewayJob}
	for _, s := range v {
		c.add(s.Metric, at)
		jobs = append(jobs, regexp.QuoteMeta(string(s.Metric["job"])))
	}
	slices.Sort(jobs)
	// Servers that never answered, or expose none of these metrics.
	if v, err = ask("up", indicator.Like("job", strings.Join(slices.Compact(jobs), "|"))); err != nil {
		return err
	}
	for _, s := range v {
		c.add(s.Metric, at)
	}
	c.at = at
	maps.DeleteFunc(c.seen, func(_ place, m *server) bool { return at.Sub(m.last) > identity.LongestPast })
	return nil
}

// add takes a series for what it says of its server.
func (c *census) add(m model.Metric, at time.Time) {
	p := placeOf(m)
	of := c.seen[p]
	if of == nil {
		of = &server{}
		c.seen[p] = of
	}
	of.last = at
	note := func(list *[]string, v model.LabelValue) {
		if v != "" && !slices.Contains(*list, string(v)) {
			*list = append(*list, string(v))
		}
	}
	switch name := string(m[model.MetricNameLabel]); {
	case engines.MatchString(name):
		note(&of.models, m["model_name"])
	case name == gateways:
		note(&of.behind, m[indicator.PerModel])
		note(&of.behind, m[indicator.PerUpstream])
	case name != "up":
		of.gpus = true
	}
}

// divide returns the servers of the shard, and the other servers. Models of one server are judged together. A gateway
// belongs to every model behind it, a GPU exporter to the models on its host, and a server without a model to its
// job's first model. Servers without any model belong to one shard.
func (s *Shard) divide(seen map[place]*server) (mine, others map[place]bool) {
	lead := map[string]string{} // first model, by name, of those judged together
	of := func(name string) string {
		for lead[name] != "" && lead[name] != name {
			name = lead[name]
		}
		return name
	}
	for _, srv := range seen {
		for _, name := range srv.models {
			a, b := of(name), of(srv.models[0])
			lead[max(a, b)] = min(a, b)
		}
	}
	at := map[string][]string{} // leads by the names of models and by addresses, hosts and jobs
	for p, srv := range seen {
		for _, name := range srv.models {
			for _, key := range []string{name, p[3], p.host(), p.job()} {
				at[key] = append(at[key], of(name))
			}
		}
	}
	mine, others = map[place]bool{}, map[place]bool{}
	for p, srv := range seen {
		var leads []string
		switch {
		case len(srv.models) > 0:
			leads = []string{of(srv.models[0])}
		case srv.gpus:
			leads = at[p.host()]
		case len(srv.behind) > 0:
			for _, key := range srv.behind {
				leads = append(leads, at[key]...)
			}
		case len(at[p.job()]) > 0:
			leads = []string{slices.Min(at[p.job()])}
		}
		if len(leads) == 0 {
			leads = []string{p[2] + p.host()}
		}
		if slices.ContainsFunc(leads, s.has) {
			mine[p] = true
		} else {
			others[p] = true
		}
	}
	return mine, others
}

// separate returns a matcher that selects some servers and no others, nil without servers. It uses a label that
// excludes all other servers, because such a label stays the same when replicas come and go, or else addresses. Other
// servers with the same addresses, as in overlapping networks of clusters, are returned.
func separate(mine, others map[place]bool) (*labels.Matcher, map[place]bool) {
	for i, n := range dialect.UsualInstance {
		values := map[string]bool{}
		for p := range mine {
			values[p[i]] = true
		}
		alike := maps.Clone(others)
		maps.DeleteFunc(alike, func(p place, _ bool) bool { return !values[p[i]] })
		if len(mine) > 0 && (len(alike) == 0 && !values[""] || n == "instance") {
			var texts []string
			for v := range values {
				texts = append(texts, regexp.QuoteMeta(v))
			}
			slices.Sort(texts)
			return indicator.Like(n, strings.Join(texts, "|")), alike
		}
	}
	return nil, nil
}

// own is a Querier that leaves out what others show.
type own struct {
	metrics.Querier
	others map[place]bool
}

func (q *own) isOthers(m model.Metric) bool { return q.others[placeOf(m)] }

// Query implements metrics.Querier.
func (q *own) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	v, err := q.Querier.Query(ctx, expr, at)
	return slices.DeleteFunc(v, func(s *model.Sample) bool { return q.isOthers(s.Metric) }), err
}

// Evaluate implements metrics.Querier.
func (q *own) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	v, err := q.Querier.Evaluate(ctx, e, at)
	return slices.DeleteFunc(v, func(s *model.Sample) bool { return q.isOthers(s.Metric) }), err
}

// QueryRange implements metrics.Querier.
func (q *own) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	m, err := q.Querier.QueryRange(ctx, expr, r)
	return slices.DeleteFunc(m, func(s *model.SampleStream) bool { return q.isOthers(s.Metric) }), err
}

// Samples implements metrics.Querier.
func (q *own) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	m, err := q.Querier.Samples(ctx, selector, at, span)
	return slices.DeleteFunc(m, func(s *model.SampleStream) bool { return q.isOthers(s.Metric) }), err
}
