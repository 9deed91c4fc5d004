package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Request says what to fetch.
type Request struct {
	Targets []Target
	At      time.Time

	// Spans holds each target's window and baseline; a zero Baseline means none.
	Spans []Span
	// Baselines are baseline files of models; with any, the history is not queried for normal values.
	Baselines []*baseline.File

	// Interval is the scrape interval.
	Interval time.Duration
	// Past is how much history is at hand.
	Past time.Duration

	// Instance and Model are the labels that identify a target and a fleet.
	Instance, Model []string
	// Matchers restrict every selector to what the user asked for.
	Matchers []*labels.Matcher

	// Memory, which may be nil, is what the diagnosis before asked and was told.
	Memory *Memory
}

// shortSpan returns the shortest time for a group's rates. A gateway's holds two scrapes, as in alert rules, for
// conditions that must hold at both.
func (r *Request) shortSpan(d *dialect.Dialect) time.Duration {
	if d.Engine == dialect.Gateway {
		return shortestSpanAt(2*r.Interval+r.Interval/10) + edge
	}
	return r.shortestSpan()
}

// shortestSpan returns the shortest time over which a rate is meaningful and a freeze is more than a hiccup: ten seconds,
// or the time between two scrapes.
func (r *Request) shortestSpan() time.Duration {
	return shortestSpanAt(r.Interval+r.Interval/10) + edge
}

func shortestSpanAt(interval time.Duration) time.Duration { return max(10*time.Second, interval) }

// Fetch asks for every signal of every target.
func Fetch(ctx context.Context, q metrics.Querier, r Request) (*Snapshot, error) {
	s := newSnapshot(r.Targets)
	s.At, s.Spans, s.interval, s.memory = r.At, r.Spans, r.Interval, r.Memory
	queries, settled := planQueries(&r)
	answers := r.Memory.lookUp(queries)
	err := runQueries(ctx, q, &r, queries, answers)
	r.Memory.storeAnswers(answers, r.At) // also if this diagnosis ran out of time: the next one continues from here
	if err != nil {
		return nil, err
	}
	for _, query := range queries {
		query.store(s, answers[query.question].Vector)
	}
	for _, store := range settled {
		store(s)
	}
	s.readBaselines(r.Baselines)
	s.standIn()
	s.readStranded()
	s.dropStale()
	s.censorPercentiles()
	shareGPUReadings(s)
	s.readOutside()
	s.dropThinBaselines()
	s.dropInTurns()
	return s, nil
}

// dropInTurns drops the readings of several processes behind one address, except whether they answer.
func (s *Snapshot) dropInTurns() {
	none := indicator.Unknown("several processes answer at this address in turn (its counters fall and rise from scrape to scrape), so rates are unknown: " +
		"scrape each pod or port separately")
	for i := range s.Spans {
		if !s.Spans[i].InTurns {
			continue
		}
		for _, sig := range indicator.All() {
			if !sig.Scrapes || strings.Contains(sig.PromQL(), columnNames[started]) {
				*s.readings[i].of(sig) = reading{now: none, normal: none}
			}
		}
	}
}

// readBaselines takes normal values from files.
func (s *Snapshot) readBaselines(files []*baseline.File) {
	if len(files) == 0 {
		return
	}
	for i := range s.Targets {
		f := baseline.For(files, s.Targets[i].Labels["model_name"])
		for _, sig := range indicator.All() {
			rd := s.readings[i].of(sig)
			rd.normal = indicator.Unknown("not in the baseline file")
			if v, ok := f.Signal(sig); ok {
				rd.normal = indicator.Known(v)
			}
		}
	}
}

// standIn takes the mean for the percentiles of histograms whose buckets are dropped, as
// some do to save storage. A tail is at least its mean, more or less.
func (s *Snapshot) standIn() {
	for i := range s.Targets {
		for _, sig := range indicator.All() {
			mean := sig.Mean()
			if mean == nil || !s.Targets[i].Serves() {
				continue
			}
			rd, by := *s.readings[i].of(sig), *s.readings[i].of(mean)
			if rd.now != (indicator.Value{}) || rd.normal != (indicator.Value{}) || !by.now.OK {
				continue
			}
			by.now.AtLeast, by.normal.AtLeast = sig.Quantile > 0.5, sig.Quantile > 0.5
			*s.readings[i].of(sig) = by
			if sig == indicator.TTFTP50 || sig == indicator.ITLP50 {
				s.Targets[i].Notes = append(s.Targets[i].Notes, "no buckets of "+sig.Histogram+" are stored: the mean replaces percentiles, and a slow tail is not visible")
			}
		}
	}
}

// readStranded says how many connections clients have opened since the last token and hold, see history.openedConnections.
func (s *Snapshot) readStranded() {
	for i := range s.Spans {
		silence, stranded := s.Now(i, indicator.RankSilence), s.readings[i].of(indicator.StrandedClients)
		if s.Spans[i].opened == nil || !silence.OK || !stranded.now.OK {
			continue
		}
		if n, ok := s.Spans[i].opened(s.Spans[i].Window.To.Add(-time.Duration(silence.V * float64(time.Second)))); ok {
			stranded.now.V = n
		}
	}
}

// dropStale drops the requests that gauges show and nobody waits for.
func (s *Snapshot) dropStale() {
	for _, readings := range s.readings {
		if !(readings.of(indicator.StaleGauges).now.Or(0) > 0) {
			continue
		}
		for _, sig := range indicator.All() {
			if sig.Held {
				readings.of(sig).now = indicator.Known(0)
			}
		}
	}
}

// censorPercentiles counts those that got no first token as later than the others.
func (s *Snapshot) censorPercentiles() {
	for _, readings := range s.readings {
		wait, share := readings.of(indicator.UnansweredWait), readings.of(indicator.UnansweredShare)
		for _, sig := range indicator.All() {
			if rd := readings.of(sig); sig.Censored {
				rd.now = sig.AtLeast(rd.now, wait.now, share.now)
				if rd.normal.OK {
					rd.normal = sig.AtLeast(rd.normal, wait.normal, share.normal)
				}
			}
		}
	}
}

// How many requests make a baseline. A server's whole life counts for less:
// it holds the warm-up, whose requests are like no others.
const (
	minHistoryRequests  = 10
	minLifetimeRequests = 100
)

// dropThinBaselines drops normal values that rest on a handful of requests. A stream of many tokens tells how fast
// tokens came, however few streams there were.
func (s *Snapshot) dropThinBaselines() {
	for i := range s.Targets {
		span := &s.Spans[i]
		need := map[BaselineSource]float64{History: minHistoryRequests, Lifetime: minLifetimeRequests}[span.Source]
		if !s.Targets[i].Serves() || s.Normal(i, indicator.FirstTokens).Or(0) >= need {
			continue
		}
		streamed := span.Source == History && s.Normal(i, indicator.ITLMean).OK
		if !streamed {
			span.Source, span.Baseline = NoBaseline, Range{}
		}
		for _, sig := range indicator.All() {
			rd := s.readings[i].of(sig)
			if *rd == (reading{}) || sig == indicator.FirstTokens || sig == indicator.FirstTokenRate || // hardly any traffic
				streamed && (sig == indicator.DecodeBatch || sig.Count == indicator.ITLMean.Count) {
				continue
			}
			rd.normal = indicator.Unknown("too few requests in the baseline")
		}
	}
}

// runQueries asks each question without an answer once, for the instances that lack one.
func runQueries(ctx context.Context, q metrics.Querier, r *Request, queries []query, answers map[question]*answer) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(metrics.AtOnce)
	asked, naming := map[question]bool{}, map[string][]*labels.Matcher{}
	for _, query := range queries {
		mu.Lock()
		named, some := answers[query.question].lacksInstances(query.named)
		mu.Unlock()
		if !some || asked[query.question] {
			continue
		}
		asked[query.question] = true
		key := strings.Join(named, "\xff")
		if naming[key] == nil {
			naming[key] = r.matchersOf(named)
		}
		matchers := naming[key]
		g.Go(func() error {
			v, err := q.Evaluate(ctx, query.compile(matchers), query.at)
			if err != nil {
				return fmt.Errorf("query %s: %w", query.signal, err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[query.question] = answers[query.question].withSamples(v, named)
			return nil
		})
	}
	return g.Wait()
}

// An answer holds the samples of some instances.
type answer struct {
	model.Vector
	of map[string]bool // nil means all
}

// lacksInstances returns of which instances an answer says nothing, of those that are named or, where none are, of all.
func (a *answer) lacksInstances(named []string) (missing []string, some bool) {
	if a == nil {
		return named, true
	}
	if a.of != nil {
		missing = slices.DeleteFunc(slices.Clone(named), func(n string) bool { return a.of[n] })
	}
	return missing, len(missing) > 0
}

// withSamples adds the samples of further instances; named nil means all.
func (a *answer) withSamples(v model.Vector, named []string) *answer {
	if named == nil {
		return &answer{Vector: v}
	}
	out := &answer{v, map[string]bool{}}
	if a != nil {
		out.Vector, out.of = append(a.Vector, v...), a.of
	}
	for _, n := range named {
		out.of[n] = true
	}
	return out
}

// A question is one instant query; several signals may need its answer.
type question struct {
	what string        // an expression
	of   string        // its layout, without the instances
	past time.Duration // how far back it looks, if that is all there is
	at   time.Time
}

// A query is a question of one signal and what becomes of the answer.
type query struct {
	question
	signal  string
	named   []string // the instances that it is about; nil for all
	compile func([]*labels.Matcher) indicator.Expr
	store   func(*Snapshot, model.Vector)
}

// group is a set of targets that are asked in the same words.
type group struct {
	lead     *Target // whose dialect it is
	span     Range
	asked    time.Time     // time of the last scrapes
	beyond   time.Duration // by how much its span ends after the last scrape of any member, at most
	matchers []*labels.Matcher
	named    []string // the instances of its members, where the matchers name them
	members  []int
	by       map[string][]int // members by the labels of their instance
	said     string           // key of what its expressions are compiled for
}

// groupTargets puts targets of one dialect and span together, because they share queries. Targets that cannot or need not
// be queried are in no group.
func groupTargets(r *Request, span func(target int) Range, ask func(target int) bool) []*group {
	type key struct {
		dialect string
		span    Range
		asked   time.Time
	}
	var gs []*group
	keys := map[key]*group{}
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Problem != "" || !ask(i) {
			continue
		}
		k := key{t.Dialect.Key(), span(i), span(i).To}
		if i < len(r.Spans) && k.span == r.Spans[i].Window && !r.Spans[i].Asked.IsZero() {
			k.asked = r.Spans[i].Asked
		}
		g := keys[k]
		if g == nil {
			g = &group{lead: t, span: k.span, asked: k.asked, matchers: r.Matchers, by: map[string][]int{}}
			keys[k] = g
			gs = append(gs, g)
		}
		if i < len(r.Spans) && k.span == r.Spans[i].Window {
			g.beyond = max(g.beyond, r.Spans[i].beyond)
		}
		g.members = append(g.members, i)
		instance := labelKey(t.Labels, r.Instance)
		g.by[instance] = append(g.by[instance], i)
	}
	if len(gs) < 2 {
		return gs
	}
	for _, g := range gs {
		if len(g.members) <= mostNamed {
			g.restrictToOwn(r)
		}
	}
	return gs
}

// mostNamed is how many targets a question names at most. A larger group asks about all and takes its own from the
// answer: a thousand names in each of twenty selectors are longer than a store reads (VictoriaMetrics'
// -search.maxQueryLen).
const mostNamed = 200

// restrictToOwn asks for the group's own instances only.
func (g *group) restrictToOwn(r *Request) {
	g.named = nil
	for _, m := range g.members {
		g.named = append(g.named, r.Targets[m].Labels["instance"])
	}
	slices.Sort(g.named)
	g.named = slices.Compact(g.named)
	g.matchers = r.matchersOf(g.named)
}

// matchersOf returns the matchers of some instances, of all where none are named.
func (r *Request) matchersOf(instances []string) []*labels.Matcher {
	if instances == nil {
		return r.Matchers
	}
	quoted := make([]string, len(instances))
	for i, name := range instances {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return append(slices.Clone(r.Matchers), indicator.Like("instance", strings.Join(quoted, "|")))
}

// ownersOf returns the members to which a series belongs: members of its instance and, if models is set, of its model.
func (g *group) ownersOf(r *Request, m model.Metric, models bool) []int {
	var room [128]byte
	members := g.by[string(appendKey(room[:0], m, r.Instance))]
	if !models || len(members) == 0 {
		return members
	}
	var out []int
	for _, i := range members {
		if t := &r.Targets[i]; sameMetric(m, t.Labels, t.Dialect.Identity) && sameMetric(m, t.Labels, r.Model) {
			out = append(out, i)
		}
	}
	return out
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

// labelKey joins the values of labels.
func labelKey[M ~map[N]V, N, V ~string](l M, names []string) string {
	return string(appendKey(nil, l, names))
}

// appendKey is labelKey into a buffer.
func appendKey[M ~map[N]V, N, V ~string](b []byte, l M, names []string) []byte {
	for _, n := range names {
		b = append(append(b, l[N(n)]...), 0xff)
	}
	return b
}

// planQueries lists the queries of all signals, and settles the signals that need none.
func planQueries(r *Request) (out []query, settled []func(*Snapshot)) {
	now := planner{r: r, buckets: map[question]*[]*distribution{}, slot: func(rd *reading) *indicator.Value { return &rd.now }}
	now.planSignals(groupTargets(r, func(i int) Range { return r.Spans[i].Window }, func(int) bool { return true }))
	normal := planner{r: r, buckets: now.buckets, slot: func(rd *reading) *indicator.Value { return &rd.normal }}
	normal.planSignals(groupTargets(r, func(i int) Range { return r.Spans[i].Baseline }, func(i int) bool { return !r.Spans[i].Baseline.From.IsZero() }))
	return slices.Concat(now.queries, normal.queries), slices.Concat(now.settled, normal.settled)
}

// planner lists the queries of one part of the readings.
type planner struct {
	r       *Request
	slot    func(*reading) *indicator.Value
	g       *group
	queries []query
	settled []func(*Snapshot)
	buckets map[question]*[]*distribution // answers that percentiles share
}

// planSignals plans the queries of all signals.
func (p *planner) planSignals(gs []*group) {
	for _, p.g = range gs {
		for _, s := range indicator.All() {
			if p.g.lead.Dialect.Answers(s) {
				p.planSignal(s)
			}
		}
	}
}

// planSignal plans the queries of one signal, or notes why it cannot be had.
func (p *planner) planSignal(s *indicator.Signal) {
	short, tooShort := s.TooShort(p.r.Past)
	switch missing := p.g.lead.Dialect.Missing(s); {
	case len(missing) > 0 && s.Optional:
		p.setKnown(s, indicator.Known(0))
	case len(missing) > 0:
		p.setKnown(s, indicator.Unknown("not exposed: "+strings.Join(missing, ", ")))
	case tooShort:
		p.setKnown(s, short)
	default:
		p.planReading(s)
	}
}

// setKnown sets a signal on every member without a query.
func (p *planner) setKnown(s *indicator.Signal, v indicator.Value) {
	members := p.g.members
	p.settled = append(p.settled, func(snap *Snapshot) {
		for _, i := range members {
			p.setReading(snap.readings[i], s, v)
		}
	})
}

// setReading takes a value into readings.
func (p *planner) setReading(to readings, s *indicator.Signal, v indicator.Value) {
	v.V = s.Natural(v.V)
	*p.slot(to.of(s)) = v
}

func (p *planner) planReading(s *indicator.Signal) {
	if s.Histogram != "" && !p.g.lead.Dialect.Derives(s) {
		p.planBuckets(s)
		return
	}
	at := p.g.span.To
	if s.Scrapes {
		at = p.g.asked
	}
	g := p.g
	p.addQuery(s, s.Name, at, g.lead.Dialect.Expr(s), func(snap *Snapshot, v model.Vector) {
		for _, sample := range v {
			p.storeValue(snap, g, s, sample.Metric, indicator.Known(float64(sample.Value)))
		}
	})
	if s.Counted() {
		p.planCount(s)
	}
}

// storeValue takes a value into the readings of those that the labels belong to.
func (p *planner) storeValue(snap *Snapshot, g *group, s *indicator.Signal, m model.Metric, v indicator.Value) {
	for _, i := range g.ownersOf(p.r, m, s.Scope == indicator.Model) {
		of := part{label: s.Per, name: string(m[model.LabelName(s.Per)])}
		if of.label == indicator.PerRank {
			names := g.lead.Dialect.Rank
			if names == nil {
				names = indicator.Rank[1:]
			}
			of.name = strings.ReplaceAll(strings.TrimSuffix(labelKey(m, names), "\xff"), "\xff", "/")
		}
		p.setReading(snap.of(i, of), s, v)
	}
}

// planCount plans the query that says whether a mean rests on enough
// observations; it runs after the mean's own.
func (p *planner) planCount(s *indicator.Signal) {
	g := p.g
	p.addQuery(s, "observations of "+s.Name, g.span.To, s.Observations(), func(snap *Snapshot, v model.Vector) {
		for _, sample := range v {
			if few, ok := s.TooFew(float64(sample.Value)); ok {
				p.storeValue(snap, g, s, sample.Metric, few)
			}
		}
	})
}

// addQuery plans a query of a signal.
func (p *planner) addQuery(s *indicator.Signal, what string, at time.Time, expr indicator.Expr, store func(*Snapshot, model.Vector)) question {
	g, r := p.g, p.r
	if g.said == "" {
		g.said = fmt.Sprint(g.lead.Dialect.Key(), g.span.Length(), g.asked, g.beyond, r.Interval, r.Instance, r.Model, r.Matchers)
	}
	q, named := question{what: what, of: g.said, at: at}, g.named
	if s.Fleet {
		named = nil
	}
	expr.Each(func(s indicator.Samples) {
		if s.Span == indicator.PastMark {
			q.past = r.Past
		}
	})
	p.queries = append(p.queries, query{q, s.Name, named, func(ms []*labels.Matcher) indicator.Expr { return g.compileFor(r, s, expr, ms) }, store})
	return q
}

// compileFor compiles a signal's expression for the group. A signal of fleets also reads other members, whose scrapes
// have another phase.
func (g *group) compileFor(r *Request, s *indicator.Signal, expr indicator.Expr, matchers []*labels.Matcher) indicator.Expr {
	rw := g.lead.Dialect.Rewriting()
	rw.Window, rw.Short, rw.Past = g.span.Length(), r.shortSpan(&g.lead.Dialect)+g.beyond, max(r.Past, r.shortestSpan())
	rw.Instance, rw.Model, rw.Matchers = slices.Concat(r.Instance, g.lead.Dialect.Identity), r.Model, matchers
	if s.Per != "" {
		rw.Instance = append(rw.Instance, s.Per)
	}
	if s.Fleet {
		rw.Window, rw.Matchers = rw.Window+r.Interval, r.Matchers
	}
	return rw.Compile(expr, s.Scope)
}

// A distribution is a histogram of one target.
type distribution struct {
	histogram
	metric  model.Metric
	buckets []bucket
}

// planBuckets plans the query of a percentile's histogram. Percentiles of one histogram
// share the answer.
func (p *planner) planBuckets(s *indicator.Signal) {
	g, all := p.g, new([]*distribution)
	names := slices.Concat(p.r.Instance, g.lead.Dialect.Identity, p.r.Model)
	q := p.addQuery(s, "buckets of "+s.Histogram+s.Per, g.span.To, s.Buckets(), func(snap *Snapshot, v model.Vector) {
		if *all == nil {
			*all = gatherBuckets(v, names)
		}
		for _, d := range *all {
			value := d.quantileReading(s.Quantile)
			if few, ok := s.TooFew(d.count); ok && value.OK {
				value = few
			}
			p.storeValue(snap, g, s, d.metric, value)
		}
	})
	if p.buckets[q] != nil {
		all = p.buckets[q]
	}
	p.buckets[q] = all
}

// gatherBuckets gathers buckets by target, whose labels these are.
func gatherBuckets(v model.Vector, names []string) (out []*distribution) {
	byTarget := map[string]*distribution{}
	bounds := map[model.LabelValue]float64{}
	var key []byte
	for _, sample := range v {
		le := sample.Metric[model.BucketLabel]
		bound, known := bounds[le]
		if !known {
			var ok bool
			if bound, ok = parseBound(string(le)); !ok {
				continue
			}
			bounds[le] = bound
		}
		key = appendKey(key[:0], sample.Metric, names)
		d := byTarget[string(key)]
		if d == nil {
			d = &distribution{metric: sample.Metric, buckets: make([]bucket, 0, 24)}
			byTarget[string(key)] = d
			out = append(out, d)
		}
		d.buckets = append(d.buckets, bucket{bound, float64(sample.Value)})
	}
	for _, d := range out {
		d.histogram = histogramOf(d.buckets)
	}
	return out
}

// shareGPUReadings gives the model servers the readings of the GPU exporter beside them.
func shareGPUReadings(s *Snapshot) {
	beside := s.companions()
	for i := range s.Targets {
		if !s.Targets[i].Serves() {
			continue
		}
		g, ok := beside[i]
		for _, sig := range indicator.All() {
			switch {
			case sig.Scope != indicator.GPU:
			case ok:
				*s.readings[i].of(sig) = *s.readings[g].of(sig)
			default:
				*s.readings[i].of(sig) = reading{now: indicator.Unknown("no GPU exporter"), normal: indicator.Unknown("no GPU exporter")}
			}
		}
	}
}

// companions returns, by model server, the GPU exporter that belongs to it: the first
// one on the same host, the page of its own GPUs that was read beside it, or the only
// one where there is only one host to serve on.
func (s *Snapshot) companions() map[int]int {
	host := func(i int) string { return cmp.Or(s.Targets[i].hostName(), s.Targets[i].Labels["instance"]) }
	exporters, byHost, own, hosts := []int{}, map[string]int{}, map[string]int{}, map[string]bool{}
	for i := range s.Targets {
		if !s.Targets[i].isGPU() {
			if s.Targets[i].Serves() {
				hosts[host(i)] = true
			}
			continue
		}
		if server, ok := dialect.ServerOf(s.Targets[i].Labels["instance"]); ok && s.Targets[i].Dialect.Exposes(dialect.HostInfo) {
			own[server] = i
			continue
		}
		exporters = append(exporters, i)
		if _, ok := byHost[host(i)]; !ok {
			byHost[host(i)] = i
		}
	}
	out := map[int]int{}
	for i := range s.Targets {
		g, ok := byHost[host(i)]
		if !ok {
			g, ok = own[s.Targets[i].Labels["instance"]]
		}
		if !ok && len(exporters) == 1 && len(hosts) == 1 {
			g, ok = exporters[0], true
		}
		if ok && s.Targets[i].Serves() {
			out[i] = g
		}
	}
	return out
}
