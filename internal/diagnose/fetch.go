package diagnose

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/baseline"
	"github.com/sixty-dev/sixty/internal/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Request says what to fetch.
type Request struct {
	Targets []Target
	At      time.Time

	// Spans say, by target, which time is judged and against which; a zero Baseline
	// means that there is none.
	Spans []Span
	// Baselines are what was measured of models; with any, the past is not asked.
	Baselines []*baseline.File

	// Interval is the time between two scrapes.
	Interval time.Duration
	// Past is how much history is at hand.
	Past time.Duration

	// Instance and Model are the labels that identify a target and a fleet.
	Instance, Model []string
	// Matchers restrict every selector to what the user asked for.
	Matchers []*labels.Matcher
}

// shortest returns the shortest time over which a rate can be told and a freeze is
// no hiccup: ten seconds, or what lies between two scrapes.
func (r *Request) shortest() time.Duration {
	return shortest(r.Interval+r.Interval/10) + edge
}

func shortest(interval time.Duration) time.Duration { return max(10*time.Second, interval) }

// concurrency bounds the queries that are under way at once: enough to hide a
// remote server's latency, few enough not to be an incident of its own.
const concurrency = 8

// Fetch asks for every signal of every target.
func Fetch(ctx context.Context, q metrics.Querier, r Request) (*Snapshot, error) {
	s := newSnapshot(r.Targets)
	s.At, s.Spans = r.At, r.Spans
	queries, settled := plan(&r)
	answers, err := ask(ctx, q, queries)
	if err != nil {
		return nil, err
	}
	for _, query := range queries {
		query.store(s, &r, answers[query.question])
	}
	for _, store := range settled {
		store(s)
	}
	s.readBaselines(r.Baselines)
	lendGPUs(s)
	s.dropThinBaselines()
	return s, nil
}

// readBaselines takes what is normal from files.
func (s *Snapshot) readBaselines(files []*baseline.File) {
	if len(files) == 0 {
		return
	}
	for i := range s.Targets {
		f := baseline.For(files, s.Targets[i].Labels["model_name"])
		for _, sig := range indicator.All() {
			rd := s.readings[i][sig.Name]
			rd.normal = indicator.Unknown("not in the baseline file")
			if v, ok := f.Signal(sig); ok {
				rd.normal = indicator.Known(v)
			}
			s.readings[i][sig.Name] = rd
		}
	}
}

// How many requests make a baseline. A server's whole life counts for less:
// it holds the warm-up, whose requests are like no others.
const (
	minHistoryRequests  = 10
	minLifetimeRequests = 100
)

// dropThinBaselines forgets what was normal where it rests on a handful of
// requests.
func (s *Snapshot) dropThinBaselines() {
	for i := range s.Targets {
		need := map[BaselineSource]float64{History: minHistoryRequests, Lifetime: minLifetimeRequests}[s.Spans[i].Source]
		if s.Targets[i].IsGPU() || s.Normal(i, indicator.FirstTokens).Or(0) >= need {
			continue
		}
		s.Spans[i].Source, s.Spans[i].Baseline = NoBaseline, Range{}
		for name, rd := range s.readings[i] {
			if name == indicator.FirstTokens.Name || name == indicator.FirstTokenRate.Name {
				continue // that there was hardly any traffic is known
			}
			rd.normal = indicator.Unknown("too few requests in the baseline")
			s.readings[i][name] = rd
		}
	}
}

// ask puts every distinct question once.
func ask(ctx context.Context, q metrics.Querier, queries []query) (map[question]model.Vector, error) {
	answers := map[question]model.Vector{}
	asked := map[question]bool{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, query := range queries {
		if asked[query.question] {
			continue
		}
		asked[query.question] = true
		g.Go(func() error {
			v, err := q.Query(ctx, query.expr, query.at)
			if err != nil {
				return fmt.Errorf("query %s: %w", query.signal, err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[query.question] = v
			return nil
		})
	}
	return answers, g.Wait()
}

// A question is one instant query; several signals may need its answer.
type question struct {
	expr string
	at   time.Time
}

// A query is a question of one signal and what becomes of the answer.
type query struct {
	question
	signal string
	store  func(*Snapshot, *Request, model.Vector)
}

// group is a set of targets that are asked in the same words.
type group struct {
	lead     *Target // whose dialect it is
	span     Span
	matchers []*labels.Matcher
	members  []int
}

// groups gathers the targets that are asked in the same words: of one dialect and,
// where spans are given, of the same time.
func groups(r *Request, spans []Span) []group {
	var gs []group
	type key struct {
		dialect          string
		window, baseline Range
	}
	keys := map[key]int{}
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Problem != "" {
			continue
		}
		k, span := key{dialect: t.Dialect.Key()}, Span{}
		if spans != nil {
			span = spans[i]
			k.window, k.baseline = span.Window, span.Baseline
		}
		g, ok := keys[k]
		if !ok {
			g = len(gs)
			keys[k] = g
			gs = append(gs, group{lead: t, span: span, matchers: r.Matchers})
		}
		gs[g].members = append(gs[g].members, i)
	}
	if len(gs) < 2 {
		return gs
	}
	for i := range gs {
		var instances []string
		for _, m := range gs[i].members {
			instances = append(instances, regexp.QuoteMeta(r.Targets[m].Labels["instance"]))
		}
		slices.Sort(instances)
		m, err := labels.NewMatcher(labels.MatchRegexp, "instance", strings.Join(slices.Compact(instances), "|"))
		if err == nil {
			gs[i].matchers = append(slices.Clone(r.Matchers), m)
		}
	}
	return gs
}

// rewriting returns how the group's targets are asked for a span of time.
func (g *group) rewriting(r *Request, span time.Duration) indicator.Rewriting {
	return indicator.Rewriting{
		Window: span, Short: r.shortest(), Past: max(r.Past, r.shortest()),
		Instance: append(slices.Clone(r.Instance), g.lead.Dialect.Identity...), Model: r.Model,
		Matchers: g.matchers,
	}
}

// plan lists the queries of all signals and, for signals that need none, what
// is known of them without asking.
func plan(r *Request) (out []query, settled []func(*Snapshot)) {
	for _, g := range groups(r, r.Spans) {
		p := planner{r: r, g: g}
		for _, s := range indicator.All() {
			if (s.Scope == indicator.GPU) == g.lead.IsGPU() {
				p.signal(s)
			}
		}
		out = append(out, p.queries...)
		settled = append(settled, p.settled...)
	}
	return out, settled
}

type planner struct {
	r       *Request
	g       group
	queries []query
	settled []func(*Snapshot)
}

// signal plans the queries of one signal, or notes why it cannot be had.
func (p *planner) signal(s *indicator.Signal) {
	switch missing := p.g.lead.Dialect.Missing(s); {
	case len(missing) > 0 && s.Optional:
		p.settle(s, indicator.Known(0))
		return
	case len(missing) > 0:
		p.settle(s, indicator.Unknown("not exposed: "+strings.Join(missing, ", ")))
		return
	case p.r.Past < s.MinPast:
		p.settle(s, indicator.Unknown(fmt.Sprintf("needs %s of history", s.MinPast)))
		return
	}
	p.ask(s, p.g.span.Window, func(rd *reading) *indicator.Value { return &rd.now })
	if !p.g.span.Baseline.From.IsZero() {
		p.ask(s, p.g.span.Baseline, func(rd *reading) *indicator.Value { return &rd.normal })
	}
}

// settle records what is known of a signal on every member without asking.
func (p *planner) settle(s *indicator.Signal, v indicator.Value) {
	members := p.g.members
	p.settled = append(p.settled, func(snap *Snapshot) {
		for _, i := range members {
			snap.readings[i][s.Name] = reading{now: v, normal: v}
		}
	})
}

func (p *planner) ask(s *indicator.Signal, span Range, slot func(*reading) *indicator.Value) {
	expr, own := p.g.lead.Dialect.Expr(s)
	if s.Histogram != "" {
		expr = s.Buckets()
	}
	q, err := p.translate(s, expr, own, span)
	if err != nil {
		p.settle(s, indicator.Unknown(err.Error()))
		return
	}
	members := p.g.members
	p.queries = append(p.queries, query{question{q, span.To}, s.Name, func(snap *Snapshot, r *Request, v model.Vector) {
		if s.Histogram != "" {
			snap.storeQuantile(r, members, s, v, slot)
			return
		}
		for _, sample := range v {
			snap.each(r, members, s.Scope, sample.Metric, func(rd map[string]reading) {
				cur := rd[s.Name]
				*slot(&cur) = indicator.Known(float64(sample.Value))
				rd[s.Name] = cur
			})
		}
	}})
	if s.Histogram == "" && s.MinCount > 0 {
		p.askCount(s, span, slot)
	}
}

// askCount plans the query that says whether a mean rests on enough
// observations; it runs after the mean's own.
func (p *planner) askCount(s *indicator.Signal, span Range, slot func(*reading) *indicator.Value) {
	q, err := p.translate(s, s.Observations(), false, span)
	if err != nil {
		return
	}
	members := p.g.members
	p.queries = append(p.queries, query{question{q, span.To}, s.Name, func(snap *Snapshot, r *Request, v model.Vector) {
		for _, sample := range v {
			if n := float64(sample.Value); n < s.MinCount {
				snap.each(r, members, s.Scope, sample.Metric, func(rd map[string]reading) {
					cur := rd[s.Name]
					*slot(&cur) = tooFew(n, s.MinCount)
					rd[s.Name] = cur
				})
			}
		}
	}})
}

func tooFew(n, need float64) indicator.Value {
	return indicator.Unknown(fmt.Sprintf("too few observations: %.0f, want %.0f", math.Floor(n), need))
}

func (p *planner) translate(s *indicator.Signal, expr string, own bool, span Range) (string, error) {
	rw := p.g.rewriting(p.r, span.Length())
	if s.Fleet {
		// The others are what it is compared with, and theirs is another phase of the
		// scrape grid.
		rw.Matchers, rw.Window = p.r.Matchers, rw.Window+p.r.Interval
	}
	if !own {
		rw.Metric = p.g.lead.Dialect.Metric
	}
	tree, err := indicator.Rewrite(expr, rw)
	if err != nil {
		return "", err
	}
	return tree.String(), nil
}

func (s *Snapshot) storeQuantile(r *Request, members []int, sig *indicator.Signal, v model.Vector, slot func(*reading) *indicator.Value) {
	type series struct {
		metric  model.Metric
		buckets []bucket
	}
	byTarget := map[model.Fingerprint]*series{}
	for _, sample := range v {
		bound, ok := parseBound(string(sample.Metric[model.BucketLabel]))
		if !ok {
			continue
		}
		m := sample.Metric.Clone()
		delete(m, model.BucketLabel)
		fp := m.Fingerprint()
		if byTarget[fp] == nil {
			byTarget[fp] = &series{metric: m}
		}
		byTarget[fp].buckets = append(byTarget[fp].buckets, bucket{bound, float64(sample.Value)})
	}
	for _, h := range byTarget {
		value := quantile(sig.Quantile, h.buckets)
		if n := h.buckets[len(h.buckets)-1].count; value.OK && n < sig.MinCount {
			value = tooFew(n, sig.MinCount)
		}
		s.each(r, members, sig.Scope, h.metric, func(rd map[string]reading) {
			cur := rd[sig.Name]
			*slot(&cur) = value
			rd[sig.Name] = cur
		})
	}
}

// each calls fn with the readings of every member that the labels belong to.
func (s *Snapshot) each(r *Request, members []int, scope indicator.Scope, m model.Metric, fn func(map[string]reading)) {
	for _, i := range members {
		if r.owns(i, scope, m) {
			fn(s.readings[i])
		}
	}
}

// owns reports whether a result with these labels belongs to the target.
func (r *Request) owns(target int, scope indicator.Scope, m model.Metric) bool {
	t := &r.Targets[target]
	if !sameMetric(m, t.Labels, r.Instance) {
		return false
	}
	return scope != indicator.Model || sameMetric(m, t.Labels, t.Dialect.Identity) && sameMetric(m, t.Labels, r.Model)
}

// sameMetric reports whether a series and a target have the same values of labels.
func sameMetric(m model.Metric, l map[string]string, names []string) bool {
	for _, n := range names {
		if string(m[model.LabelName(n)]) != l[n] {
			return false
		}
	}
	return true
}

// lendGPUs gives the model servers the readings of the GPU exporter beside
// them.
func lendGPUs(s *Snapshot) {
	var gpus []int
	for i := range s.Targets {
		if s.Targets[i].IsGPU() {
			gpus = append(gpus, i)
		}
	}
	for i := range s.Targets {
		if s.Targets[i].IsGPU() {
			continue
		}
		for _, sig := range indicator.All() {
			switch {
			case sig.Scope != indicator.GPU:
			default:
				s.readings[i][sig.Name] = reading{now: indicator.Unknown("no GPU exporter"), normal: indicator.Unknown("no GPU exporter")}
				if g, ok := companion(s, i, gpus); ok {
					s.readings[i][sig.Name] = s.readings[g][sig.Name]
				}
			}
		}
	}
}

// companion returns the GPU exporter that belongs to a model server: the one
// on the same host, or the only one where there is only one host to serve on.
func companion(s *Snapshot, server int, gpus []int) (int, bool) {
	hosts := map[string]bool{}
	for i := range s.Targets {
		if !s.Targets[i].IsGPU() {
			hosts[host(s.Targets[i].Labels["instance"])] = true
		}
	}
	for _, g := range gpus {
		if host(s.Targets[g].Labels["instance"]) == host(s.Targets[server].Labels["instance"]) {
			return g, true
		}
	}
	if len(gpus) == 1 && len(hosts) == 1 {
		return gpus[0], true
	}
	return 0, false
}

func host(instance string) string {
	if h, _, ok := strings.Cut(instance, ":"); ok {
		return h
	}
	return instance
}
