package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

// Config says what to measure.
type Config struct {
	From, To time.Time
	Interval time.Duration
	Matchers []*labels.Matcher
	Every    bool // include targets without engine metrics: the user named them
	Settings diagnose.Settings
	Price    Price
	// Now are the models of a monitor's overview at the end of the span, the worst first.
	Now []view.Model
	// Incidents are the span's incidents; nil if none are kept.
	Incidents []view.Summary
}

// The resolution of a measurement.
const (
	maxPoints   = 96 // values of a quantity over the span: a day has one each quarter of an hour
	minScrapes  = 4  // scrapes behind one value
	concurrency = 4  // queries at once
)

// Measure measures the health of all servers over a span.
func Measure(ctx context.Context, q metrics.Querier, c Config) (*Report, error) {
	pools, targets, err := discoverPools(ctx, q, c)
	if err != nil {
		return nil, err
	}
	items := []item{answering}
	for _, area := range sevenAreas() {
		items = append(items, area.items...)
	}
	r := newReport(&c, targets)
	for _, m := range pools {
		if err := m.measureItems(ctx, items...); err != nil {
			return nil, err
		}
		r.Models = append(r.Models, m.reportModel())
	}
	c.setStatus(r)
	r.Summary = summarize(r)
	return r, nil
}

// minSpan returns the shortest span that can be measured.
func (c *Config) minSpan() time.Duration { return max(minScrapes*c.Interval, 10*time.Second) }

// discoverPools finds the targets, and prepares a measurement for each model.
func discoverPools(ctx context.Context, q metrics.Querier, c Config) ([]*measurement, []diagnose.Target, error) {
	span, least := c.To.Sub(c.From), c.minSpan()
	if span < least {
		return nil, nil, hint.With(fmt.Errorf("measure health: %s is too short, with a scrape every %s", span,
			c.Interval), "choose a longer one with --since")
	}
	targets, layout, err := identity.Discover(ctx, q, identity.Search{At: c.To, Lookback: span + time.Second,
		Matchers: c.Matchers, Every: c.Every})
	if err != nil {
		return nil, nil, err
	}
	deployment := dialect.Deployment{Instance: []string{}, Model: []string{}, Matchers: slices.Concat(c.Matchers,
		layout.Without)}
	for _, t := range targets {
		if t.Problem == "" {
			deployment.Dialects = append(deployment.Dialects, t.Dialect)
		}
	}
	deployment.Dialects = dialect.Distinct(deployment.Dialects)
	step := max((span/maxPoints + time.Second - 1).Truncate(time.Second), least)
	var out []*measurement
	for _, p := range poolsOf(targets) {
		out = append(out, &measurement{
			c: c, q: q, pool: p, deployment: deployment, step: step, steps: int(span / step),
			answers: map[string]*answer{},
		})
	}
	return out, targets, nil
}

// A pool is the servers of one model.
type pool struct {
	cluster, namespace, model string
	instances                 []string // instance labels of the servers
	labels                    map[string]string
}

func poolsOf(targets []diagnose.Target) []*pool {
	byKey := map[[3]string]*pool{}
	for _, t := range targets {
		if !t.Serves() {
			continue
		}
		k := [3]string{t.Labels["cluster"], t.Labels["namespace"], t.Labels["model_name"]}
		if k[2] == "" {
			k = [3]string{}
		}
		if byKey[k] == nil {
			byKey[k] = &pool{cluster: k[0], namespace: k[1], model: k[2], labels: t.Labels}
		}
		byKey[k].instances = append(byKey[k].instances, t.Labels["instance"])
	}
	// Servers without a model label belong to the only model.
	if nameless := byKey[[3]string{}]; nameless != nil && len(byKey) == 2 {
		delete(byKey, [3]string{})
		for _, p := range byKey {
			p.instances = append(p.instances, nameless.instances...)
		}
	}
	return slices.SortedFunc(maps.Values(byKey), func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.model, b.model))
	})
}

// matchers selects a signal's series that belong to the pool's servers or to the GPUs of their hosts. A server may
// serve several models.
func (p *pool) matchers(s indicator.Scope) []*labels.Matcher {
	names := make([]string, len(p.instances))
	for i, instance := range p.instances {
		names[i] = regexp.QuoteMeta(instance)
		if k := strings.LastIndexByte(instance, ':'); k >= 0 && s == indicator.GPU {
			names[i] = regexp.QuoteMeta(instance[:k]) + "(:.*)?"
		}
	}
	out := []*labels.Matcher{indicator.Like(model.InstanceLabel, strings.Join(names, "|"))}
	if s == indicator.Model {
		for name, v := range map[string]string{"model_name": p.model, "namespace": p.namespace, "cluster": p.cluster} {
			out = append(out, indicator.Like(name, regexp.QuoteMeta(v)+"|"))
		}
	}
	return out
}

// A measurement collects the values of one model.
type measurement struct {
	c Config
	q metrics.Querier
	*pool
	deployment dialect.Deployment
	// Each quantity has a value at this number of times in the span, a step apart.
	step       time.Duration
	steps      int
	withBefore bool               // the span before is asked too
	answers    map[string]*answer // by item.key
}

// An answer holds the values of one item. Unknown values are NaN.
type answer struct {
	problem     string    // why there are no values; "" if there are
	values      []float64 // one for each step
	now, before wholeSpan // the value over the span, and over the span before
}

// A wholeSpan is a quantity over a whole span: one number, or the increments of a histogram's buckets by upper bound.
type wholeSpan struct {
	value   *float64
	buckets map[float64]float64
}

func (it *item) key() string { return it.signal.Name + it.expr }

func (m *measurement) timeOf(k int) time.Time {
	return m.c.To.Add(-time.Duration(m.steps-1-k) * m.step)
}

// measureItems puts all questions.
func (m *measurement) measureItems(ctx context.Context, asked ...item) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, it := range asked {
		a := &answer{problem: m.problem(it.signal), values: slices.Repeat([]float64{math.NaN()}, m.steps)}
		if m.answers[it.key()] = a; a.problem != "" {
			continue
		}
		g.Go(func() error {
			err := m.measureItem(ctx, a, it)
			if err != nil && ctx.Err() != nil {
				return errors.Join(context.Cause(ctx), err)
			}
			if err != nil {
				a.problem = err.Error()
			}
			return nil
		})
	}
	return g.Wait()
}

// problem says why no server exposes a signal. It returns "" if one does.
func (m *measurement) problem(s *indicator.Signal) string {
	var missing []string
	for _, d := range m.deployment.Dialects {
		if !d.Answers(s) {
			continue
		}
		lacks := d.Missing(s)
		if len(lacks) == 0 || s.Optional {
			return ""
		}
		missing = lacks
	}
	if len(missing) > 0 {
		return "not exposed: " + strings.Join(missing, ", ")
	}
	return cmp.Or(s.Hint, "not exposed by any server")
}

// measureItem asks for one item.
func (m *measurement) measureItem(ctx context.Context, a *answer, it item) error {
	d := m.deployment
	d.Matchers = slices.Concat(d.Matchers, m.matchers(it.signal.Scope))
	expr := func(window time.Duration, whole bool) (string, error) {
		d.Window, d.Short, d.Past = window, min(window, max(10*time.Second, 4*m.c.Interval)), window
		switch {
		case it.expr != "":
			return d.PromQL(it.expr)
		case whole && it.signal.Histogram != "":
			return d.PromQL(it.signal.Compile(it.signal.Buckets()).String())
		}
		return d.Expr(it.signal)
	}
	ql, err := expr(m.step, false)
	if err != nil {
		return err
	}
	course, err := m.q.QueryRange(ctx, ql, metrics.Range{Start: m.timeOf(0), End: m.c.To, Step: m.step})
	if err != nil {
		return err
	}
	for _, stream := range course {
		for _, p := range stream.Values {
			k := m.steps - 1 - int(math.Round(float64(m.c.To.Sub(p.Timestamp.Time()))/float64(m.step)))
			if v := finite(float64(p.Value)); v != nil && k >= 0 && k < m.steps {
				a.values[k] = *v
			}
		}
	}
	if it.how != OfAll && it.how != Total {
		return nil
	}
	if ql, err = expr(m.c.To.Sub(m.c.From).Truncate(time.Second), true); err != nil {
		return err
	}
	if err := m.queryWhole(ctx, ql, m.c.To, &a.now); err != nil || !m.withBefore {
		return err
	}
	return m.queryWhole(ctx, ql, m.c.From, &a.before)
}

// queryWhole asks for a quantity over the whole span before a moment.
func (m *measurement) queryWhole(ctx context.Context, ql string, at time.Time, to *wholeSpan) error {
	answered, err := m.q.Query(ctx, ql, at)
	for _, sample := range answered {
		v := finite(float64(sample.Value))
		bound, wrong := strconv.ParseFloat(string(sample.Metric[model.BucketLabel]), 64)
		switch {
		case v == nil:
		case wrong != nil:
			to.value = v
		case to.buckets == nil:
			to.buckets = map[float64]float64{bound: *v}
		default:
			to.buckets[bound] += *v
		}
	}
	return err
}

// newReport returns a report without models.
func newReport(c *Config, targets []diagnose.Target) *Report {
	r := &Report{
		Schema: Schema, Tool: version.This(), At: c.To.UTC(), From: c.From.UTC(), To: c.To.UTC(), Models: []Model{},
		Incidents: c.Incidents, IncidentsKnown: c.Incidents != nil, Notes: []string{},
	}
	if r.Incidents == nil {
		r.Incidents = []view.Summary{}
	}
	for _, t := range targets {
		if t.Problem != "" {
			r.Notes = append(r.Notes, t.Name+": "+t.Problem)
		}
	}
	return r
}

// findLimits returns the objectives of the model.
func (m *measurement) findLimits() threshold.Sources {
	set := &m.c.Settings
	limits := threshold.Sources{Set: set.Set, Measured: baseline.For(set.Baselines, m.pool.model)}
	if o, ok := set.Objectives.For(m.labels); ok {
		limits.Objective = &o
	}
	return limits
}

// reportModel makes the model's part of the report from the answers.
func (m *measurement) reportModel() Model {
	p, limits := m.pool, m.findLimits()
	out := Model{
		Model: p.model, Namespace: p.namespace, Cluster: p.cluster, Replicas: len(p.instances),
		Status: view.HealthUnknown, Areas: []Area{}, Cost: m.newCost(),
		Now: Now{m.lastValue(indicator.KVUsage), m.lastValue(indicator.Waiting), m.lastValue(indicator.Running),
			m.lastValue(indicator.GPUUtil)},
	}
	for _, area := range sevenAreas() {
		a := Area{ID: area.id, Title: area.title, Asks: area.asks, Rows: []Row{}}
		for _, it := range area.items {
			a.Rows = append(a.Rows, m.newRow(it, limits))
		}
		out.Areas = append(out.Areas, a)
	}
	return out
}

// lastValue returns a signal's value at the end of the span, or nil.
func (m *measurement) lastValue(s *indicator.Signal) *float64 {
	if a := m.answers[s.Name]; a.problem == "" {
		return finite(a.values[m.steps-1])
	}
	return nil
}

// newRow computes the row of an item.
func (m *measurement) newRow(it item, limits threshold.Sources) Row {
	s, a := it.signal, m.answers[it.key()]
	r := Row{ID: s.Name, Title: cmp.Or(it.title, s.Title), Unit: string(s.Unit), How: it.how, Reason: a.problem}
	limit, promised := promisedLimit(s, limits)
	if promised { // even if the value is unknown
		r.Limit = &limit
	}
	if a.problem != "" {
		return r
	}
	sum, n := sumKnown(a.values)
	r.Value = finite(sum / n)
	if it.how == OfAll || it.how == Total {
		r.Value, r.ValueText = a.now.valueOf(s)
	}
	if r.Value == nil {
		r.Reason = "no samples, or too few requests"
		return r
	}
	met := 0.0
	for k, v := range a.values {
		if math.IsNaN(v) {
			continue
		}
		if r.Worst == nil || it.lowIsWorst && v < *r.Worst || !it.lowIsWorst && v > *r.Worst {
			r.Worst, r.WorstAt = &v, new(m.timeOf(k).UTC())
		}
		if v <= limit {
			met++
		}
	}
	if promised {
		r.Kept = finite(met / n)
	}
	return r
}

// promisedLimit returns the objective of a signal, if it has one.
func promisedLimit(s *indicator.Signal, limits threshold.Sources) (limit float64, ok bool) {
	promises := threshold.Promises()
	k := slices.IndexFunc(promises, func(p threshold.Promise) bool { return p.Signal == s })
	if k < 0 {
		return 0, false
	}
	l, ok := limits.Limit(promises[k].Threshold)
	return l.Value, ok
}

// valueOf returns the value of a signal over the span, or nil if it is unknown or has too few requests. text is how a
// percentile is written of which only the bucket is known.
func (o *wholeSpan) valueOf(s *indicator.Signal) (value *float64, text string) {
	if s.Histogram == "" {
		return o.value, ""
	}
	var bounds, upTo []float64
	for b := range o.buckets {
		if !math.IsInf(b, 1) {
			bounds = append(bounds, b)
		}
	}
	slices.Sort(bounds)
	most := 0.0
	for _, b := range bounds {
		most = max(most, o.buckets[b])
		upTo = append(upTo, most)
	}
	total := o.buckets[math.Inf(1)]
	if _, few := s.TooFew(total); few || len(bounds) == 0 {
		return nil, ""
	}
	v := indicator.BucketValue(s.Quantile, bounds, upTo, total)
	return finite(v.Or(math.NaN())), indicator.FormatBound(v, s.Unit)
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// sumKnown adds up and counts the values that are not NaN.
func sumKnown(values []float64) (sum, n float64) {
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			sum += v
		}
	}
	return sum, n
}
