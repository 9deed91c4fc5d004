// Package shard splits the servers of a large store among monitors, by a hash of the model's name, so that the replicas
// of one model are judged together.
//
// Once a minute a [Shard] takes a census: it queries the store for the servers and their models. It then narrows the
// monitor's source to its own servers, by a label matcher where one exists.
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

// A Shard is one part of the servers. It is safe for concurrent use.
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

// owns reports whether a name belongs to the shard.
func (s *Shard) owns(name string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()%s.Of == s.Part-1
}

// censusEvery is the time between two censuses.
const censusEvery = time.Minute

// Names of metrics with few series that show the servers: engines and their models, gateways and the models behind
// them, and GPUs.
var (
	engineName  = regexp.MustCompile("^(?:" + dialect.NamePattern("num_requests_running") + ")$")
	gatewayName = "sixty_gateway_upstream_up"
	gpuNames    = "DCGM_FI_DEV_GPU_TEMP|(amd_)?gpu_(junction|edge)_temperature"
	censusNames = dialect.NamePattern("num_requests_running") + "|" + gatewayName + "|" + gpuNames
)

// A place identifies a scraped target: the values of dialect.UsualInstance.
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

// A census holds the servers that were seen lately.
type census struct {
	at   time.Time // of the last query
	seen map[place]*server

	matcher   *labels.Matcher // selects the shard's servers
	ambiguous map[place]bool  // other servers that match too
}

type server struct {
	lastSeen time.Time
	models   []string // served by its engines
	behind   []string // models and addresses behind a gateway
	gpus     bool
}

// Narrow returns the source, at one time, restricted to the servers of the shard.
func (s *Shard) Narrow(ctx context.Context, from *source.Source, at time.Time) (*source.Source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.last
	if at.Before(c.at) {
		c = &census{} // a time before the last census needs one of its own
	}
	if c.matcher == nil || at.Sub(c.at) >= censusEvery {
		if err := c.update(ctx, from, at); err != nil {
			return nil, fmt.Errorf("find the servers of shard %d/%d: %w", s.Part, s.Of, err)
		}
		mine, others := s.splitServers(c.seen)
		c.matcher, c.ambiguous = matcherOf(mine, others)
	}
	if c.matcher == nil {
		return nil, hint.With(fmt.Errorf("shard %d/%d has none of the %d servers in the store", s.Part, s.Of,
			len(c.seen)),
			"models are divided by their names: make fewer shards, or check --match")
	}
	out := from.WithMatcher(c.matcher)
	if len(c.ambiguous) > 0 {
		out.Querier = &filteredQuerier{out.Querier, c.ambiguous}
	}
	return out, nil
}

// update adds the servers since the last census, and forgets those that left long ago.
func (c *census) update(ctx context.Context, from *source.Source, at time.Time) error {
	span := min(identity.LongestPast, at.Sub(c.at)) + metrics.Arrival
	if c.seen == nil {
		c.seen = map[place]*server{}
	}
	by := append([]string{labels.MetricName, "model_name", indicator.PerModel, indicator.PerUpstream},
		dialect.UsualInstance...)
	query := func(names string, more ...*labels.Matcher) (model.Vector, error) {
		latest := indicator.Now("", slices.Concat([]*labels.Matcher{indicator.Like(labels.MetricName, names)}, more,
			from.Matchers())...).In(span)
		latest.Func = "last_over_time"
		return from.Evaluate(ctx, indicator.Aggregate{Op: "group", Labels: by, Of: latest}, at)
	}
	v, err := query(censusNames)
	if err != nil {
		return err
	}
	jobs := []string{identity.GatewayJob}
	for _, s := range v {
		c.addSeries(s.Metric, at)
		jobs = append(jobs, regexp.QuoteMeta(string(s.Metric["job"])))
	}
	slices.Sort(jobs)
	// Servers that never answered, or expose none of these metrics.
	if v, err = query("up", indicator.Like("job", strings.Join(slices.Compact(jobs), "|"))); err != nil {
		return err
	}
	for _, s := range v {
		c.addSeries(s.Metric, at)
	}
	c.at = at
	maps.DeleteFunc(c.seen, func(_ place, m *server) bool { return at.Sub(m.lastSeen) > identity.LongestPast })
	return nil
}

// addSeries notes the server of a series, with its model or the models behind it.
func (c *census) addSeries(m model.Metric, at time.Time) {
	p := placeOf(m)
	srv := c.seen[p]
	if srv == nil {
		srv = &server{}
		c.seen[p] = srv
	}
	srv.lastSeen = at
	note := func(list *[]string, v model.LabelValue) {
		if v != "" && !slices.Contains(*list, string(v)) {
			*list = append(*list, string(v))
		}
	}
	switch name := string(m[model.MetricNameLabel]); {
	case engineName.MatchString(name):
		note(&srv.models, m["model_name"])
	case name == gatewayName:
		note(&srv.behind, m[indicator.PerModel])
		note(&srv.behind, m[indicator.PerUpstream])
	case name != "up":
		srv.gpus = true
	}
}

// splitServers returns the servers of the shard, and the other servers. Models of one server are judged together. A
// gateway belongs to every model behind it, a GPU exporter to the models on its host, and a server without a model to
// its job's first model. A server without any of these belongs to the shard of its job and host.
func (s *Shard) splitServers(seen map[place]*server) (mine, others map[place]bool) {
	lead := map[string]string{} // an earlier one, by name, of the models that are judged together
	leadOf := func(name string) string {
		for lead[name] != "" && lead[name] != name {
			name = lead[name]
		}
		return name
	}
	for _, srv := range seen {
		for _, name := range srv.models {
			a, b := leadOf(name), leadOf(srv.models[0])
			lead[max(a, b)] = min(a, b)
		}
	}
	at := map[string][]string{} // leads by the names of models and by addresses, hosts and jobs
	for p, srv := range seen {
		for _, name := range srv.models {
			for _, key := range []string{name, p[3], p.host(), p.job()} {
				at[key] = append(at[key], leadOf(name))
			}
		}
	}
	mine, others = map[place]bool{}, map[place]bool{}
	for p, srv := range seen {
		var leads []string
		switch {
		case len(srv.models) > 0:
			leads = []string{leadOf(srv.models[0])}
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
		if slices.ContainsFunc(leads, s.owns) {
			mine[p] = true
		} else {
			others[p] = true
		}
	}
	return mine, others
}

// matcherOf returns a matcher for the shard's servers, nil without servers. It matches a label that excludes all other
// servers, because such a label stays the same when replicas come and go. Without such a label it matches instances;
// ambiguous are then the other servers with the same instance labels, as in overlapping networks of clusters.
func matcherOf(mine, others map[place]bool) (matcher *labels.Matcher, ambiguous map[place]bool) {
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

// filteredQuerier is a Querier without the series of hidden servers.
type filteredQuerier struct {
	metrics.Querier
	hidden map[place]bool
}

func (q *filteredQuerier) isHidden(m model.Metric) bool { return q.hidden[placeOf(m)] }

// Query implements metrics.Querier.
func (q *filteredQuerier) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	v, err := q.Querier.Query(ctx, expr, at)
	return slices.DeleteFunc(v, func(s *model.Sample) bool { return q.isHidden(s.Metric) }), err
}

// Evaluate implements metrics.Querier.
func (q *filteredQuerier) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	v, err := q.Querier.Evaluate(ctx, e, at)
	return slices.DeleteFunc(v, func(s *model.Sample) bool { return q.isHidden(s.Metric) }), err
}

// QueryRange implements metrics.Querier.
func (q *filteredQuerier) QueryRange(ctx context.Context, expr string, r metrics.Range) (model.Matrix, error) {
	m, err := q.Querier.QueryRange(ctx, expr, r)
	return slices.DeleteFunc(m, func(s *model.SampleStream) bool { return q.isHidden(s.Metric) }), err
}

// Samples implements metrics.Querier.
func (q *filteredQuerier) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix,
	error) {
	m, err := q.Querier.Samples(ctx, selector, at, span)
	return slices.DeleteFunc(m, func(s *model.SampleStream) bool { return q.isHidden(s.Metric) }), err
}
