package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

// Config says what to measure.
type Config struct {
	From, To time.Time
	First    time.Time // of the first sample at hand; zero where that is not known
	Interval time.Duration
	Matchers []*labels.Matcher
	Every    bool // include targets that expose no engine metrics: the user named them
	Settings diagnose.Settings
	Price    Price
	// Now, which may be nil, is the diagnosis of the end of the span.
	Now *diagnose.Diagnosis
	// Incidents, nil where nobody kept any, are those of the span.
	Incidents []view.Summary
	// Rules is how many of sixty's alert rules are evaluated; nil where that is not known.
	Rules *int
}

// How finely a span is looked at.
const (
	points      = 96 // of each quantity over the span: a quarter of an hour of a day
	fewest      = 4  // scrapes that a value rests on
	concurrency = 4  // questions at once
	// of the span before one part in so many must be at hand to compare with it
	enough = 2
)

// Measure measures the health of all servers over a span.
func Measure(ctx context.Context, q metrics.Querier, c Config) (*Report, error) {
	span := c.To.Sub(c.From)
	least := max(fewest*c.Interval, 10*time.Second)
	if span < least {
		return nil, hint.With(fmt.Errorf("measure health: %s is too short, with a scrape every %s", span, c.Interval), "choose a longer one with --since")
	}
	targets, layout, err := diagnose.Discover(ctx, q, c.To, span+time.Second, c.Matchers, c.Every)
	if err != nil {
		return nil, err
	}
	step := max((span/points + time.Second - 1).Truncate(time.Second), least)
	g := grid{step: step, n: int(span / step)}
	g.split = 0
	if c.First.IsZero() || c.First.Before(c.From.Add(-span/enough)) {
		g.split = g.n
	}
	g.start = c.To.Add(-time.Duration(g.n+g.split-1) * step)
	m := &measuring{c: c, q: q, grid: g, pools: poolsOf(targets)}
	m.deployment = dialect.Deployment{
		Instance: layout.Instance, Model: layout.Model, Matchers: slices.Concat(c.Matchers, layout.Without), Window: step, Short: min(step, max(10*time.Second, 4*c.Interval)), Past: step,
	}
	for _, t := range targets {
		if t.Problem == "" {
			m.deployment.Dialects = append(m.deployment.Dialects, t.Dialect)
		}
	}
	m.deployment.Dialects = dialect.Distinct(m.deployment.Dialects)
	if err := m.fetchSignals(ctx); err != nil {
		return nil, err
	}
	if err := m.fetchTenants(ctx); err != nil {
		return nil, err
	}
	return m.report(targets), nil
}

// A grid is the moments of which values are asked; those before split are of the span
// before.
type grid struct {
	start    time.Time
	step     time.Duration
	n, split int
}

func (g *grid) at(i int) time.Time { return g.start.Add(time.Duration(i) * g.step) }

// index returns the place of a moment.
func (g *grid) index(t model.Time) (int, bool) {
	i := int(math.Round(float64(t.Time().Sub(g.start)) / float64(g.step)))
	return i, i >= 0 && i < g.n+g.split
}

// A pool is the servers of one model.
type pool struct {
	cluster, namespace, model string
	instances                 []string // the label
	labels                    map[string]string
}

func poolsOf(targets []diagnose.Target) []*pool {
	byKey := map[[3]string]*pool{}
	var out []*pool
	var nameless []diagnose.Target
	for _, t := range targets {
		if !t.Serves() {
			continue
		}
		if t.Labels["model_name"] == "" {
			nameless = append(nameless, t)
			continue
		}
		k := [3]string{t.Labels["cluster"], t.Labels["namespace"], t.Labels["model_name"]}
		if byKey[k] == nil {
			byKey[k] = &pool{cluster: k[0], namespace: k[1], model: k[2], labels: t.Labels}
			out = append(out, byKey[k])
		}
		byKey[k].instances = append(byKey[k].instances, t.Labels["instance"])
	}
	// Servers that do not say which model they serve are of the only one.
	if len(nameless) > 0 {
		if len(out) != 1 {
			out = append(out, &pool{labels: nameless[0].Labels})
		}
		p := out[len(out)-1]
		for _, t := range nameless {
			p.instances = append(p.instances, t.Labels["instance"])
		}
	}
	slices.SortFunc(out, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.model, b.model))
	})
	return out
}

// measuring is a report that is under way.
type measuring struct {
	c          Config
	q          metrics.Querier
	grid       grid
	pools      []*pool
	deployment dialect.Deployment
	answers    map[string]*answer            // by signal
	tenants    map[string]map[string]float64 // tokens at the gateway, by model and tenant
}

// An answer is the values of one signal.
type answer struct {
	problem string // why there are none
	// of each pool, by replica: values on the grid, NaN where there is none
	byReplica []map[string][]float64
	// of each pool: increments of buckets on the grid, by upper bound
	buckets []map[float64][]float64
}

// fetchSignals puts all questions.
func (m *measuring) fetchSignals(ctx context.Context) error {
	m.answers = map[string]*answer{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	want := func(s *indicator.Signal, it item) {
		if m.answers[s.Name] != nil {
			return
		}
		a := &answer{}
		m.answers[s.Name] = a
		g.Go(func() error { return m.fill(ctx, a, s, it) })
	}
	for _, area := range areas() {
		for _, it := range area.items {
			want(it.signal, it)
			if it.share != nil {
				want(it.share, item{signal: it.share, how: Total})
			}
		}
	}
	return g.Wait()
}

// fill asks for one signal. What a server cannot answer is said in its row.
func (m *measuring) fill(ctx context.Context, a *answer, s *indicator.Signal, it item) error {
	var missing []string
	there := false
	for _, d := range m.deployment.Dialects {
		if !d.Answers(s) {
			continue
		}
		if lacks := d.Missing(s); len(lacks) > 0 && !s.Optional {
			missing = lacks
		} else {
			there = true
		}
	}
	switch {
	case !there && len(missing) > 0:
		a.problem = "not exposed: " + strings.Join(missing, ", ")
		return nil
	case !there:
		a.problem = cmp.Or(s.Hint, "not exposed by any server")
		return nil
	}
	d := m.deployment
	if s.Name == indicator.Restarts.Name {
		d.Window += m.c.Interval // the scrape before belongs to it
	}
	var expr string
	var err error
	switch {
	case it.expr != "":
		expr, err = d.PromQL(it.expr)
	case s.Histogram != "":
		expr, err = d.PromQL(s.Compile(s.Buckets()).String())
	default:
		expr, err = d.Expr(s)
	}
	if err != nil {
		a.problem = err.Error()
		return nil
	}
	r := metrics.Range{Start: m.grid.start, End: m.c.To, Step: m.grid.step}
	answered, err := m.q.QueryRange(ctx, expr, r)
	if err != nil {
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		a.problem = err.Error()
		return nil
	}
	m.sortByPool(a, s, answered)
	return nil
}

// sortByPool sorts the values of a signal by pool.
func (m *measuring) sortByPool(a *answer, s *indicator.Signal, answered model.Matrix) {
	a.byReplica, a.buckets = make([]map[string][]float64, len(m.pools)), make([]map[float64][]float64, len(m.pools))
	for i := range m.pools {
		a.byReplica[i], a.buckets[i] = map[string][]float64{}, map[float64][]float64{}
	}
	size := m.grid.n + m.grid.split
	for _, stream := range answered {
		le, bucketed := stream.Metric[model.BucketLabel]
		bound, err := strconv.ParseFloat(string(le), 64)
		if bucketed && err != nil {
			continue
		}
		instance := string(stream.Metric[model.InstanceLabel])
		for _, i := range m.owners(s, stream.Metric) {
			var values []float64
			if bucketed {
				if a.buckets[i][bound] == nil {
					a.buckets[i][bound] = make([]float64, size)
				}
				values = a.buckets[i][bound]
			} else {
				if a.byReplica[i][instance] == nil {
					a.byReplica[i][instance] = slices.Repeat([]float64{math.NaN()}, size)
				}
				values = a.byReplica[i][instance]
			}
			for _, p := range stream.Values {
				v := float64(p.Value)
				if k, ok := m.grid.index(p.Timestamp); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
					if math.IsNaN(values[k]) {
						values[k] = 0
					}
					values[k] += v
				}
			}
		}
	}
}

// owners are the pools that a series is of: by its model, else by its server; of a GPU
// those with a server on its host.
func (m *measuring) owners(s *indicator.Signal, l model.Metric) (out []int) {
	host := func(instance string) string {
		if i := strings.LastIndexByte(instance, ':'); i >= 0 {
			return instance[:i]
		}
		return instance
	}
	instance := string(l[model.InstanceLabel])
	for i, p := range m.pools {
		if n := string(l["model_name"]); n != "" {
			if n == p.model && (l["namespace"] == "" || string(l["namespace"]) == p.namespace) && (l["cluster"] == "" || string(l["cluster"]) == p.cluster) {
				out = append(out, i)
			}
			continue
		}
		if slices.ContainsFunc(p.instances, func(own string) bool {
			return own == instance || s.Scope == indicator.GPU && host(own) == host(instance)
		}) {
			out = append(out, i)
		}
	}
	if len(out) == 0 && len(m.pools) == 1 {
		out = []int{0}
	}
	return out
}

// report puts the answers together.
func (m *measuring) report(targets []diagnose.Target) *Report {
	c := &m.c
	r := &Report{
		Schema: Schema, Tool: version.This(), At: c.To.UTC(), From: c.From.UTC(), To: c.To.UTC(), Models: []Model{}, Incidents: c.Incidents, IncidentsKnown: c.Incidents != nil, Notes: []string{},
	}
	if r.Incidents == nil {
		r.Incidents = []view.Summary{}
	}
	for _, t := range targets {
		if t.Problem != "" {
			r.Notes = append(r.Notes, t.Name+": "+t.Problem)
		}
	}
	for i, p := range m.pools {
		r.Models = append(r.Models, m.model(i, p))
	}
	if m.compared(r) {
		before := m.grid.at(0).Add(-m.grid.step).UTC()
		r.Compared = &before
	}
	m.present(r)
	r.Summary = summary(r)
	return r
}

// compared reports whether anything is known of the span before.
func (m *measuring) compared(r *Report) bool {
	return slices.ContainsFunc(r.Models, func(o Model) bool {
		return slices.ContainsFunc(o.Areas, func(a Area) bool {
			return slices.ContainsFunc(a.Rows, func(w Row) bool { return w.Previous != nil })
		})
	})
}

func (m *measuring) model(i int, p *pool) Model {
	out := Model{Model: p.model, Namespace: p.namespace, Cluster: p.cluster, Replicas: len(p.instances), Status: view.HealthUnknown, Areas: []Area{}, Course: []Line{}}
	limits := threshold.Sources{Set: m.c.Settings.Set, Measured: baseline.For(m.c.Settings.Baselines, p.model)}
	if o, ok := m.c.Settings.Objectives.For(p.labels); ok {
		limits.Objective = &o
	}
	out.Cost = m.cost(i, p, limits)
	for _, area := range areas() {
		a := Area{ID: area.id, Title: area.title, Asks: area.asks, Rows: []Row{}}
		for _, it := range area.items {
			row, line := m.row(i, it, limits)
			a.Rows = append(a.Rows, row)
			if it.course && len(line.Points) > 0 {
				out.Course = append(out.Course, line)
			}
		}
		if area.id == "operations" {
			a.Rows = m.operations(p, limits)
		}
		a.sum()
		out.Areas = append(out.Areas, a)
	}
	return out
}

// sum gives an area the worst state of its rows; it is unknown where all of them are.
func (a *Area) sum() {
	a.State = Missing
	if len(a.Rows) > 0 {
		a.Reason = a.Rows[0].Reason
	}
	for _, state := range []State{Measured, Fine, Worse, Breached} {
		if k := slices.IndexFunc(a.Rows, func(r Row) bool { return r.State == state }); k >= 0 {
			a.State, a.Reason = state, a.Rows[k].Reason
		}
	}
}

// row computes a row of one pool, and what is plotted of it.
func (m *measuring) row(i int, it item, limits threshold.Sources) (Row, Line) {
	s := it.signal
	r := Row{ID: s.Name, Title: cmp.Or(it.title, s.Title), Unit: string(s.Unit), How: it.how, State: Missing}
	l := Line{ID: s.Name, Title: s.Title, Unit: string(s.Unit), StepS: m.grid.step.Seconds(), Points: [][2]float64{}}
	a := m.answers[s.Name]
	if r.Reason = a.problem; r.Reason != "" {
		return r, l
	}
	var course []float64 // of the pool, on the grid
	var limit float64
	if k := slices.IndexFunc(threshold.Promises(), func(p threshold.Promise) bool { return p.Signal == s }); k >= 0 {
		if v, ok := limits.Limit(threshold.Promises()[k].Threshold); ok {
			limit = v.Value
			r.Limit, r.LimitSource = &limit, v.Source
			l.Limit = &limit
		}
	}
	switch it.how {
	case OfAll:
		course = m.quantiles(&r, a.buckets[i], s)
	default:
		course = m.values(&r, a.byReplica[i], it)
		if it.share != nil {
			m.share(&r, i, it)
		}
	}
	if r.Value == nil {
		r.Reason = cmp.Or(r.Reason, "no samples, or too few requests")
		return r, l
	}
	var kept, known float64
	for k, v := range course {
		if k < m.grid.split || math.IsNaN(v) {
			continue
		}
		at := m.grid.at(k)
		l.Points = append(l.Points, [2]float64{float64(at.UnixMilli()) / 1000, v})
		known++
		if v <= limit {
			kept++
		}
	}
	r.State = Measured
	switch {
	case r.Limit != nil && known > 0:
		share := kept / known
		r.State, r.Kept = Fine, &share
		if *r.Value > limit {
			r.State, r.Reason = Breached, fmt.Sprintf("%s: %s, objective %s", s.Title, r.Number("value", r.Value), format(limit, s.Unit))
		}
	case it.neutral:
	case it.how == Total && *r.Value == 0, s == indicator.Up && *r.Value == 1:
		r.State = Fine
	case r.Previous == nil:
	default:
		r.State = Fine
	}
	if it.neutral || r.Limit != nil || r.Previous == nil {
		return r, l
	}
	switch {
	case worse(*r.Value, *r.Previous, it):
		r.State, r.Reason = Worse, fmt.Sprintf("%s: %s, before %s", s.Title, r.Number("value", r.Value), r.Number("previous", r.Previous))
	}
	return r, l
}

func format(v float64, u indicator.Unit) string { return indicator.FormatNumber(v, u) }

// What is clearly worse than in the span before.
const (
	worseTimes  = 1.3
	lessTimes   = 0.8
	moreShare   = 0.01
	chance      = 3 // standard deviations of a count
	fewEvents   = 5
	fewMoments  = 0.005 // of time
	hardlyThere = 0.5   // requests
)

func worse(now, before float64, it item) bool {
	switch {
	case it.signal == indicator.Up:
		return now < before-fewMoments
	case it.low:
		return now < lessTimes*before
	case it.how == Total:
		return now > before+max(fewEvents, chance*math.Sqrt(max(before, 1)))
	case it.share != nil:
		return now > before+moreShare
	case it.signal.Unit == indicator.Requests:
		return now > worseTimes*before+hardlyThere
	}
	return now > worseTimes*before
}

// quantiles computes a percentile of all requests of a pool, and of each moment.
func (m *measuring) quantiles(r *Row, buckets map[float64][]float64, s *indicator.Signal) []float64 {
	var bounds []float64
	for b := range buckets {
		if !math.IsInf(b, 1) {
			bounds = append(bounds, b)
		}
	}
	slices.Sort(bounds)
	all, ok := buckets[math.Inf(1)]
	if !ok || len(bounds) == 0 {
		return nil
	}
	// of the requests between two places of the grid
	of := func(from, to int) indicator.Value {
		upTo := make([]float64, len(bounds))
		total := 0.0
		for k := from; k < to; k++ {
			total += all[k]
		}
		for b, bound := range bounds {
			for k := from; k < to; k++ {
				upTo[b] += buckets[bound][k]
			}
			if b > 0 {
				upTo[b] = max(upTo[b], upTo[b-1])
			}
		}
		if _, few := s.TooFew(total); few {
			return indicator.Value{}
		}
		return indicator.BucketValue(s.Quantile, bounds, upTo, total)
	}
	size := m.grid.n + m.grid.split
	r.Bounds = map[string]string{}
	put := func(name string, v indicator.Value) *float64 {
		if r.Bounds[name] = indicator.FormatBound(v, s.Unit); r.Bounds[name] == "" {
			delete(r.Bounds, name)
		}
		return known(v.Or(math.NaN()))
	}
	r.Value, r.Previous = put("value", of(m.grid.split, size)), put("previous", of(0, m.grid.split))
	course := make([]float64, size)
	for k := range course {
		v := of(k, k+1)
		course[k] = v.Or(math.NaN())
		if k >= m.grid.split && v.OK && (r.Worst == nil || v.V > *r.Worst) {
			m.updateWorst(r, v.V, k, "")
			put("worst", v)
		}
	}
	return course
}

func (m *measuring) updateWorst(r *Row, v float64, k int, on string) {
	at := m.grid.at(k).UTC()
	r.Worst, r.WorstAt, r.WorstOn = &v, &at, on
}

// values computes what is no percentile.
func (m *measuring) values(r *Row, byReplica map[string][]float64, it item) []float64 {
	size := m.grid.n + m.grid.split
	sums, most := slices.Repeat([]float64{math.NaN()}, size), slices.Repeat([]float64{math.NaN()}, size)
	var now, before []float64
	instances := make([]string, 0, len(byReplica))
	for instance := range byReplica {
		instances = append(instances, instance)
	}
	slices.Sort(instances)
	for _, instance := range instances {
		for k, v := range byReplica[instance] {
			if math.IsNaN(v) {
				continue
			}
			if math.IsNaN(sums[k]) {
				sums[k], most[k] = 0, v
			}
			sums[k] += v
			most[k] = max(most[k], v)
			if it.low {
				most[k] = min(most[k], v)
			}
			if k < m.grid.split {
				before = append(before, v)
				continue
			}
			now = append(now, v)
			if it.how != PerSecond && (r.Worst == nil || it.low && v < *r.Worst || !it.low && v > *r.Worst) {
				m.updateWorst(r, v, k, instance)
			}
		}
	}
	switch it.how {
	case Total:
		r.Value, r.Previous = known(total(now)), known(total(before))
		return sums
	case PerSecond:
		r.Value, r.Previous = known(average(sums[m.grid.split:])), known(average(sums[:m.grid.split]))
		for k, v := range sums {
			if k >= m.grid.split && !math.IsNaN(v) && (r.Worst == nil || v > *r.Worst) {
				m.updateWorst(r, v, k, "")
			}
		}
		return sums
	}
	if len(now) > 0 {
		r.Value = known(stat.Median(now))
	}
	if len(before) > 0 {
		r.Previous = known(stat.Median(before))
	}
	return most
}

// share makes a row a share of all requests that were answered.
func (m *measuring) share(r *Row, i int, it item) {
	part, all := m.answers[it.share.Name], m.answers[indicator.HTTPRate.Name]
	if part.problem != "" || all.problem != "" {
		return
	}
	of := func(a *answer, from, to int) float64 {
		n := 0.0
		for _, values := range a.byReplica[i] {
			for _, v := range values[from:to] {
				if !math.IsNaN(v) {
					n += v
				}
			}
		}
		return n
	}
	size := m.grid.n + m.grid.split
	ratio := func(from, to int) *float64 {
		n := of(all, from, to) * m.grid.step.Seconds()
		if n < 1 {
			return nil
		}
		return known(of(part, from, to) / n)
	}
	r.How, r.Value, r.Previous = OfAll, ratio(m.grid.split, size), ratio(0, m.grid.split)
}

func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func total(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	n := 0.0
	for _, v := range values {
		n += v
	}
	return n
}

func average(values []float64) float64 {
	n, sum := 0.0, 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			sum += v
		}
	}
	return sum / n
}

// operations says what is watched and what was done.
func (m *measuring) operations(p *pool, limits threshold.Sources) []Row {
	said := func(id, title, text string, state State, reason string) Row {
		return Row{ID: id, Title: title, How: Said, Text: text, State: state, Reason: reason}
	}
	var rows []Row
	promised := 0
	for _, promise := range threshold.Promises() {
		if _, ok := limits.Limit(promise.Threshold); ok {
			promised++
		}
	}
	good := Fine
	if promised == 0 {
		good = Measured // without objectives nothing can be called fine
	}
	if promised > 0 {
		rows = append(rows, said("objectives", "Objectives", fmt.Sprintf("for %d of %d latencies", promised, len(threshold.Promises())), good, ""))
	} else {
		rows = append(rows, said("objectives", "Objectives", "none", Missing, "set them with --use-case or --slo: without them, only comparisons with the past are possible"))
	}
	if limits.Measured != nil {
		rows = append(rows, said("measured", "Tested thresholds", limits.Measured.Source, good, ""))
	} else {
		rows = append(rows, said("measured", "Tested thresholds", "none", Missing, "measure normal values: sixty generate baseline, or sixty bench"))
	}
	switch {
	case m.c.Rules == nil && m.c.Incidents != nil:
		rows = append(rows, said("alerts", "Alerts", "sent by sixty serve, of what it finds", good, ""))
	case m.c.Rules == nil:
		rows = append(rows, said("alerts", "Alert rules", "not known", Missing, "only a Prometheus server can list its rules"))
	case *m.c.Rules == 0:
		rows = append(rows, said("alerts", "Alert rules", "none generated by sixty", Missing, "sixty generate rules"))
	default:
		rows = append(rows, said("alerts", "Alert rules", fmt.Sprintf("%d generated by sixty", *m.c.Rules), good, ""))
	}
	if m.c.Incidents == nil {
		return append(rows, said("incidents", "Incidents", "not stored", Missing, "sixty serve stores them"))
	}
	n, open, acknowledged := 0, 0, 0
	var took []time.Duration
	for i := range m.c.Incidents {
		s := &m.c.Incidents[i]
		if s.Model != "" && s.Model != p.model || s.Namespace != "" && s.Namespace != p.namespace || s.Cluster != "" && s.Cluster != p.cluster {
			continue
		}
		n++
		if s.Ended == nil {
			open++
		}
		if s.Acknowledged != nil {
			acknowledged++
			took = append(took, s.Acknowledged.At.Sub(s.Began))
		}
	}
	text, state, reason := "none", good, ""
	if n > 0 {
		text = fmt.Sprintf("%d, %d of them open, %d acknowledged", n, open, acknowledged)
		if len(took) > 0 {
			text += fmt.Sprintf(" after %s (median)", format(stat.Median(took).Seconds(), indicator.Seconds))
		}
	}
	if open > 0 {
		state, reason = Worse, "an incident is open"
	}
	return append(rows, said("incidents", "Incidents", text, state, reason))
}

// present adds what holds at the end of the span.
func (m *measuring) present(r *Report) {
	r.Status = view.HealthUnknown
	d := m.c.Now
	if d == nil {
		return
	}
	status := func(v *diagnose.Verdict) view.Health {
		return view.HealthOf(map[diagnose.Status]view.Status{diagnose.Firing: view.Firing, diagnose.Unknown: view.Unknown}[v.Status], v.Severity.String())
	}
	r.Status = status(&d.Verdict)
	verdictOf := map[string]*diagnose.Verdict{}
	labelsOf := map[string]map[string]string{}
	for i := range d.Targets {
		labelsOf[d.Targets[i].Name] = d.Targets[i].Labels
	}
	key := func(l map[string]string) string {
		return l["cluster"] + "\xff" + l["namespace"] + "\xff" + l["model_name"]
	}
	for i := range d.Verdicts {
		for _, t := range d.Verdicts[i].Targets {
			if k := key(labelsOf[t]); labelsOf[t]["model_name"] != "" && verdictOf[k] == nil {
				verdictOf[k] = &d.Verdicts[i]
			}
		}
	}
	var all now
	for k, p := range m.pools {
		o := &r.Models[k]
		v := verdictOf[p.cluster+"\xff"+p.namespace+"\xff"+p.model]
		if v == nil && len(d.Verdicts) == 1 {
			v = &d.Verdicts[0]
		}
		if v != nil {
			o.Status, o.Verdict, o.Summary = status(v), v.ID, v.Summary
		}
		var of now
		for i := range d.Targets {
			if l := d.Targets[i].Labels; d.Targets[i].Serves() && (key(l) == p.cluster+"\xff"+p.namespace+"\xff"+p.model || l["model_name"] == "" && slices.Contains(p.instances, l["instance"])) {
				of.add(d, i)
				all.add(d, i)
			}
		}
		o.Now = of.Now()
	}
	r.Now = all.Now()
}

// now gathers readings of replicas.
type now struct{ kv, waiting, running, gpu []float64 }

func (n *now) add(d *diagnose.Diagnosis, target int) {
	for _, x := range []struct {
		to     *[]float64
		signal *indicator.Signal
	}{{&n.kv, indicator.KVUsage}, {&n.waiting, indicator.Waiting}, {&n.running, indicator.Running}, {&n.gpu, indicator.GPUUtil}} {
		if v, _ := d.Reading(target, x.signal); v.OK {
			*x.to = append(*x.to, v.V)
		}
	}
}

// Now is what they come to.
func (n *now) Now() Now {
	out := Now{QueueDepth: known(total(n.waiting)), ActiveSequences: known(total(n.running)), GPUUtilization: known(average(n.gpu))}
	if len(n.kv) > 0 {
		out.KVCacheUtilization = known(slices.Max(n.kv))
	}
	return out
}

// summary is the report in a sentence or two.
func summary(r *Report) string {
	out := map[view.Health]string{view.HealthFailing: "Failing", view.HealthDegraded: "Degraded", view.HealthUnknown: "State unknown", view.HealthHealthy: "Healthy"}[r.Status] + " at the end"
	if !slices.ContainsFunc(r.Models, func(m Model) bool { return m.Verdict != diagnose.Idle }) && len(r.Models) > 0 {
		out = "Too little traffic at the end"
	}
	for i := range r.Models {
		if m := &r.Models[i]; (r.Status == view.HealthFailing || r.Status == view.HealthDegraded) && m.Status == r.Status {
			out += ": " + strings.TrimRight(m.Summary, ".")
			break
		}
	}
	if r.IncidentsKnown {
		n, took := IncidentTime(r)
		out += "; no incident"
		if n > 0 {
			out = fmt.Sprintf("%s; %s, in %s of the time", strings.TrimSuffix(out, "; no incident"), render.Plural(n, "incident"), render.Percent(took.Seconds()/r.To.Sub(r.From).Seconds()))
		}
	}
	var breached, worsened []string
	for i := range r.Models {
		for _, a := range r.Models[i].Areas {
			for _, row := range a.Rows {
				if row.State == Breached {
					breached = append(breached, row.Reason)
				}
				if row.State == Worse && row.How != Said {
					worsened = append(worsened, row.Title)
				}
			}
		}
	}
	if len(breached) > 0 {
		out += ". Objectives missed: " + breached[0]
		if more := len(breached) - 1; more > 0 {
			out += fmt.Sprintf(", and %d more", more)
		}
	}
	if len(worsened) > 0 {
		out += fmt.Sprintf(". Worse than in the period before: %s", strings.Join(worsened[:min(3, len(worsened))], ", "))
		if more := len(worsened) - 3; more > 0 {
			out += fmt.Sprintf(" and %d more", more)
		}
	}
	return out + "."
}

// IncidentTime counts the incidents of a report, and the time within its span in which one
// was open.
func IncidentTime(r *Report) (n int, took time.Duration) {
	type span struct{ from, to time.Time }
	var spans []span
	for i := range r.Incidents {
		s := &r.Incidents[i]
		to := r.To
		if s.Ended != nil && s.Ended.Before(to) {
			to = *s.Ended
		}
		from := s.Began
		if from.Before(r.From) {
			from = r.From
		}
		if from.Before(to) {
			spans = append(spans, span{from, to})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	end := r.From
	for _, s := range spans {
		if s.from.Before(end) {
			s.from = end
		}
		if s.from.Before(s.to) {
			took += s.to.Sub(s.from)
			end = s.to
		}
	}
	return len(spans), took
}
