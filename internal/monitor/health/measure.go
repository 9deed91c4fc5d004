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
	Every    bool // include targets that expose no engine metrics: the user named them
	Settings diagnose.Settings
	Price    Price
	// Now are the models at the end of the span, the worst first, as a monitor's overview has them.
	Now []view.Model
	// Incidents are the span's incidents; nil if none are kept.
	Incidents []view.Summary
}

// How finely a span is looked at.
const (
	points      = 96 // per quantity: one for each quarter of an hour of a day
	fewest      = 4  // scrapes that a value rests on
	concurrency = 4  // questions at once
)

// Measure measures the health of all servers over a span.
func Measure(ctx context.Context, q metrics.Querier, c Config) (*Report, error) {
	pools, targets, err := begin(ctx, q, c)
	if err != nil {
		return nil, err
	}
	items := []item{answering}
	for _, area := range areas() {
		items = append(items, area.items...)
	}
	r := newReport(&c, targets)
	for _, m := range pools {
		if err := m.ask(ctx, items...); err != nil {
			return nil, err
		}
		r.Models = append(r.Models, m.reportModel())
	}
	c.judge(r)
	r.Summary = summary(r)
	return r, nil
}

// least is how long a span is at the least.
func (c *Config) least() time.Duration { return max(fewest*c.Interval, 10*time.Second) }

// begin discovers the targets to measure, by model.
func begin(ctx context.Context, q metrics.Querier, c Config) ([]*measuring, []diagnose.Target, error) {
	span, least := c.To.Sub(c.From), c.least()
	if span < least {
		return nil, nil, hint.With(fmt.Errorf("measure health: %s is too short, with a scrape every %s", span,
			c.Interval), "choose a longer one with --since")
	}
	targets, layout, err := identity.Discover(ctx, q, identity.Search{At: c.To, Lookback: span + time.Second,
		Matchers: c.Matchers, Every: c.Every})
	if err != nil {
		return nil, nil, err
	}
	asked := dialect.Deployment{Instance: []string{}, Model: []string{}, Matchers: slices.Concat(c.Matchers,
		layout.Without)}
	for _, t := range targets {
		if t.Problem == "" {
			asked.Dialects = append(asked.Dialects, t.Dialect)
		}
	}
	asked.Dialects = dialect.Distinct(asked.Dialects)
	step := max((span/points + time.Second - 1).Truncate(time.Second), least)
	var out []*measuring
	for _, p := range poolsOf(targets) {
		out = append(out, &measuring{
			c: c, q: q, pool: p, deployment: asked, step: step, n: int(span / step), answers: map[string]*answer{},
		})
	}
	return out, targets, nil
}

// A pool is the servers of one model.
type pool struct {
	cluster, namespace, model string
	instances                 []string // the label
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
	// Servers that do not say which model they serve are of the only one.
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

// series selects a signal's series that belong to the pool's servers or to the GPUs of their hosts. A server may serve
// several models.
func (p *pool) series(s indicator.Scope) []*labels.Matcher {
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

// measuring is the measurement of one model that is under way.
type measuring struct {
	c Config
	q metrics.Querier
	*pool
	deployment dialect.Deployment
	// Quantities are looked at n times over the span, a step apart.
	step    time.Duration
	n       int
	past    bool               // the span before is asked too
	answers map[string]*answer // by item.key
}

// An answer holds the values of one item.
type answer struct {
	problem     string    // why there are none
	course      []float64 // NaN where it is not known
	now, before over      // over the whole span, and the one before
}

// over is a quantity over a whole span: one number, or a histogram's increments by upper bound.
type over struct {
	value   *float64
	buckets map[float64]float64
}

func (it *item) key() string { return it.signal.Name + it.expr }

func (m *measuring) at(k int) time.Time { return m.c.To.Add(-time.Duration(m.n-1-k) * m.step) }

// ask puts all questions.
func (m *measuring) ask(ctx context.Context, asked ...item) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, it := range asked {
		a := &answer{problem: m.problem(it.signal), course: slices.Repeat([]float64{math.NaN()}, m.n)}
		if m.answers[it.key()] = a; a.problem != "" {
			continue
		}
		g.Go(func() error {
			err := m.fill(ctx, a, it)
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

// problem says why no server answers a signal, "" where one does.
func (m *measuring) problem(s *indicator.Signal) string {
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

// fill asks for one item.
func (m *measuring) fill(ctx context.Context, a *answer, it item) error {
	d := m.deployment
	d.Matchers = slices.Concat(d.Matchers, m.series(it.signal.Scope))
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
	course, err := m.q.QueryRange(ctx, ql, metrics.Range{Start: m.at(0), End: m.c.To, Step: m.step})
	if err != nil {
		return err
	}
	for _, stream := range course {
		for _, p := range stream.Values {
			k := m.n - 1 - int(math.Round(float64(m.c.To.Sub(p.Timestamp.Time()))/float64(m.step)))
			if v := known(float64(p.Value)); v != nil && k >= 0 && k < m.n {
				a.course[k] = *v
			}
		}
	}
	if it.how != OfAll && it.how != Total {
		return nil
	}
	if ql, err = expr(m.c.To.Sub(m.c.From).Truncate(time.Second), true); err != nil {
		return err
	}
	if err := m.count(ctx, ql, m.c.To, &a.now); err != nil || !m.past {
		return err
	}
	return m.count(ctx, ql, m.c.From, &a.before)
}

// count asks for a quantity over the whole span before a moment.
func (m *measuring) count(ctx context.Context, ql string, at time.Time, to *over) error {
	answered, err := m.q.Query(ctx, ql, at)
	for _, sample := range answered {
		v := known(float64(sample.Value))
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

// newReport is a report without models.
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

// findLimits returns the objectives that hold for the model.
func (m *measuring) findLimits() threshold.Sources {
	set := &m.c.Settings
	limits := threshold.Sources{Set: set.Set, Measured: baseline.For(set.Baselines, m.pool.model)}
	if o, ok := set.Objectives.For(m.labels); ok {
		limits.Objective = &o
	}
	return limits
}

// reportModel puts the answers together.
func (m *measuring) reportModel() Model {
	p, limits := m.pool, m.findLimits()
	out := Model{
		Model: p.model, Namespace: p.namespace, Cluster: p.cluster, Replicas: len(p.instances),
		Status: view.HealthUnknown, Areas: []Area{}, Cost: m.cost(),
		Now: Now{m.last(indicator.KVUsage), m.last(indicator.Waiting), m.last(indicator.Running),
			m.last(indicator.GPUUtil)},
	}
	for _, area := range areas() {
		a := Area{ID: area.id, Title: area.title, Asks: area.asks, Rows: []Row{}}
		for _, it := range area.items {
			a.Rows = append(a.Rows, m.row(it, limits))
		}
		out.Areas = append(out.Areas, a)
	}
	return out
}

// last is a signal's value at the end of the span.
func (m *measuring) last(s *indicator.Signal) *float64 {
	if a := m.answers[s.Name]; a.problem == "" {
		return known(a.course[m.n-1])
	}
	return nil
}

// row computes a row.
func (m *measuring) row(it item, limits threshold.Sources) Row {
	s, a := it.signal, m.answers[it.key()]
	r := Row{ID: s.Name, Title: cmp.Or(it.title, s.Title), Unit: string(s.Unit), How: it.how, Reason: a.problem}
	limit, promised := threshold.Limit{}, false
	if k := slices.IndexFunc(threshold.Promises(), func(p threshold.Promise) bool { return p.Signal == s }); k >= 0 {
		limit, promised = limits.Limit(threshold.Promises()[k].Threshold)
	}
	if promised { // even if the value is unknown
		r.Limit = &limit.Value
	}
	if a.problem != "" {
		return r
	}
	sum, times := add(a.course)
	r.Value = known(sum / times)
	if it.how == OfAll || it.how == Total {
		r.Value, r.ValueText = a.now.whole(s)
	}
	if r.Value == nil {
		r.Reason = "no samples, or too few requests"
		return r
	}
	kept := 0.0
	for k, v := range a.course {
		if math.IsNaN(v) {
			continue
		}
		if r.Worst == nil || it.low && v < *r.Worst || !it.low && v > *r.Worst {
			at := m.at(k).UTC()
			r.Worst, r.WorstAt = &v, &at
		}
		if v <= limit.Value {
			kept++
		}
	}
	if promised {
		r.Kept = known(kept / times)
	}
	return r
}

// whole returns a value over a span, nil if it is unknown or rests on too few requests, and how it is written if only a
// percentile's bucket is known.
func (o *over) whole(s *indicator.Signal) (value *float64, text string) {
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
	return known(v.Or(math.NaN())), indicator.FormatBound(v, s.Unit)
}

func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// add adds up the known values, and counts them.
func add(values []float64) (sum, n float64) {
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			sum += v
		}
	}
	return sum, n
}
