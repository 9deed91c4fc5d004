package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Request says what to fetch.
type Request struct {
	identity.Scope
	At time.Time

	// Spans holds each target's window and baseline; a zero Baseline means none.
	Spans []segments.Span
	// Baselines are baseline files of models; with any, the history is not queried for normal values.
	Baselines []*baseline.File

	// Interval is the scrape interval.
	Interval time.Duration
	// Past is how much history is at hand.
	Past time.Duration

	// Answers, which may be nil, holds the answers of the previous diagnosis. Fetch replaces them by its own.
	Answers *Answers
}

// shortSpan returns the shortest time for a group's rates. A gateway's holds two scrapes, as in alert rules, for
// conditions that must hold at both.
func (r *Request) shortSpan(d *dialect.Dialect) time.Duration {
	if d.Engine == dialect.Gateway {
		return segments.ShortestSpan(2*r.Interval+r.Interval/10) + segments.Edge
	}
	return r.shortestSpan()
}

// shortestSpan returns the shortest time over which a rate is meaningful and a freeze is more than a hiccup: ten
// seconds, or the time between two scrapes.
func (r *Request) shortestSpan() time.Duration {
	return segments.ShortestSpan(r.Interval+r.Interval/10) + segments.Edge
}

// Fetch asks for every signal of every target.
func Fetch(ctx context.Context, q metrics.Querier, r Request) (*Snapshot, error) {
	s := newSnapshot(r.Targets)
	s.At, s.Spans, s.interval = r.At, r.Spans, r.Interval
	queries, settled := planQueries(&r)
	if r.Answers == nil {
		r.Answers = new(Answers)
	}
	answers := r.Answers.lookUp(queries)
	err := runQueries(ctx, q, &r, queries, answers)
	*r.Answers = answers.settledBefore(r.At) // also if this diagnosis ran out of time: the next one continues from here
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
	s.replacePercentilesByMeans()
	s.readStranded()
	s.zeroStaleGauges()
	s.censorPercentiles()
	shareGPUReadings(s)
	s.readOutside()
	s.dropThinBaselines()
	s.dropInTurns()
	return s, nil
}

// processStart is the gauge of a process' start time. It jumps from scrape to scrape where several processes answer at
// one address.
const processStart = "process_start_time_seconds"

// dropInTurns drops the readings of targets at whose address several processes answer in turn, except whether they
// answer.
func (s *Snapshot) dropInTurns() {
	none := indicator.Unknown("several processes answer at this address in turn (its counters fall and rise from scrape to scrape), so rates are unknown: " +
		"scrape each pod or port separately")
	for i := range s.Spans {
		if !s.Spans[i].InTurns {
			continue
		}
		for _, sig := range indicator.All() {
			if !sig.Scrapes || strings.Contains(sig.PromQL(), processStart) {
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

// replacePercentilesByMeans replaces the percentiles of histograms whose buckets are not stored, which some people drop
// to save storage. The mean is a lower bound of a tail percentile, roughly.
func (s *Snapshot) replacePercentilesByMeans() {
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
				s.Targets[i].Notes = append(s.Targets[i].Notes,
					"no buckets of "+sig.Histogram+" are stored: the mean replaces percentiles, and a slow tail is not visible")
			}
		}
	}
}

// readStranded counts the connections that clients opened after the last token and still hold, see
// segments.Span.OpenedSince.
func (s *Snapshot) readStranded() {
	for i := range s.Spans {
		silence, stranded := s.Now(i, indicator.RankSilence), s.readings[i].of(indicator.StrandedClients)
		if s.Spans[i].OpenedSince == nil || !silence.OK || !stranded.now.OK {
			continue
		}
		if n, ok := s.Spans[i].OpenedSince(s.Spans[i].Window.To.Add(-time.Duration(silence.V * float64(time.Second)))); ok {
			stranded.now.V = n
		}
	}
}

// zeroStaleGauges sets the gauges of held requests to 0 where they are stale: nobody waits for those requests.
func (s *Snapshot) zeroStaleGauges() {
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

// censorPercentiles counts requests without a first token as later than all others: their waits are right-censored.
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

// dropThinBaselines drops normal values that rest on a handful of requests. A stream of many tokens tells how fast
// tokens came, however few streams there were.
func (s *Snapshot) dropThinBaselines() {
	for i := range s.Targets {
		span := &s.Spans[i]
		need := map[segments.BaselineSource]float64{segments.FromHistory: segments.MinHistoryRequests,
			segments.FromLifetime: segments.MinLifetimeRequests}[span.Source]
		if !s.Targets[i].Serves() || s.Normal(i, indicator.FirstTokens).Or(0) >= need {
			continue
		}
		streamed := span.Source == segments.FromHistory && s.Normal(i, indicator.ITLMean).OK
		if !streamed {
			span.Source, span.Baseline = segments.NoBaseline, period.Period{}
		}
		for _, sig := range indicator.All() {
			rd := s.readings[i].of(sig)
			// that there was hardly any traffic stays known, and the speed of streams
			if *rd == (reading{}) || sig == indicator.FirstTokens || sig == indicator.FirstTokenRate ||
				streamed && (sig == indicator.DecodeBatch || sig.Count == indicator.ITLMean.Count) {
				continue
			}
			rd.normal = indicator.Unknown("too few requests in the baseline")
		}
	}
}

// runQueries asks each question without an answer once, for the instances that lack one.
func runQueries(ctx context.Context, q metrics.Querier, r *Request, queries []query, answers Answers) error {
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
			naming[key] = r.MatchersOf(named)
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

// A query is a question for one signal, with the function that stores the answer.
type query struct {
	question
	signal  string
	named   []string // the instances to ask for; nil for all
	compile func([]*labels.Matcher) indicator.Expr
	store   func(*Snapshot, model.Vector)
}

// planQueries lists the queries of all signals, and the functions that settle the signals that need none.
func planQueries(r *Request) (out []query, settled []func(*Snapshot)) {
	now := planner{r: r, buckets: map[question]*[]*distribution{},
		slot: func(rd *reading) *indicator.Value { return &rd.now }}
	now.planSignals(r.Groups(func(i int) (identity.Time, bool) { return r.Spans[i].JudgedTime(), true }))
	normal := planner{r: r, buckets: now.buckets, slot: func(rd *reading) *indicator.Value { return &rd.normal }}
	normal.planSignals(r.Groups(func(i int) (identity.Time, bool) {
		return identity.Time{Period: r.Spans[i].Baseline}, !r.Spans[i].Baseline.From.IsZero()
	}))
	return slices.Concat(now.queries, normal.queries), slices.Concat(now.settled, normal.settled)
}

// planner lists the queries of one half of the readings: the window's or the baseline's.
type planner struct {
	r        *Request
	slot     func(*reading) *indicator.Value
	g        *identity.Group
	compiled string // identifies what the group's expressions are compiled for
	queries  []query
	settled  []func(*Snapshot)
	buckets  map[question]*[]*distribution // answers that percentiles share
}

// planSignals plans the queries of all signals.
func (p *planner) planSignals(gs []*identity.Group) {
	for _, p.g = range gs {
		p.compiled = fmt.Sprint(p.g.Lead.Dialect.Key(), p.g.Length(), p.g.Asked, p.g.Beyond, p.r.Interval, p.r.Instance,
			p.r.Model, p.r.Matchers)
		for _, s := range indicator.All() {
			if p.g.Lead.Dialect.Answers(s) {
				p.planSignal(s)
			}
		}
	}
}

// planSignal plans the queries of one signal, or settles it where it needs none.
func (p *planner) planSignal(s *indicator.Signal) {
	short, tooShort := s.TooShort(p.r.Past)
	switch missing := p.g.Lead.Dialect.Missing(s); {
	case len(missing) > 0 && s.Optional:
		p.settleSignal(s, indicator.Known(0))
	case len(missing) > 0:
		p.settleSignal(s, indicator.Unknown("not exposed: "+strings.Join(missing, ", ")))
	case tooShort:
		p.settleSignal(s, short)
	default:
		p.planReading(s)
	}
}

// settleSignal sets a signal on every member of the group without a query.
func (p *planner) settleSignal(s *indicator.Signal, v indicator.Value) {
	members := p.g.Members
	p.settled = append(p.settled, func(snap *Snapshot) {
		for _, i := range members {
			p.storeReading(snap.readings[i], s, v)
		}
	})
}

// storeReading stores a signal's value in readings.
func (p *planner) storeReading(to readings, s *indicator.Signal, v indicator.Value) {
	v.V = s.Natural(v.V)
	*p.slot(to.of(s)) = v
}

func (p *planner) planReading(s *indicator.Signal) {
	if s.Histogram != "" && !p.g.Lead.Dialect.Derives(s) {
		p.planBuckets(s)
		return
	}
	at := p.g.To
	if s.Scrapes {
		at = p.g.Asked
	}
	g := p.g
	p.addQuery(s, s.Name, at, g.Lead.Dialect.Expr(s), func(snap *Snapshot, v model.Vector) {
		for _, sample := range v {
			p.storeValue(snap, g, s, sample.Metric, indicator.Known(float64(sample.Value)))
		}
	})
	if s.Counted() {
		p.planCount(s)
	}
}

// storeValue stores a value in the readings of the targets that the labels belong to.
func (p *planner) storeValue(snap *Snapshot, g *identity.Group, s *indicator.Signal, m model.Metric,
	v indicator.Value) {
	for _, i := range g.OwnersOf(m, s.Scope == indicator.Model) {
		p.storeReading(snap.of(i, part{label: s.Per, name: namePart(&g.Lead.Dialect, s, m)}), s, v)
	}
}

// partLabels returns the labels by which a dialect names the parts that a signal has values for.
func partLabels(d *dialect.Dialect, s *indicator.Signal) []string {
	switch {
	case s.Per == "":
		return nil
	case s.Per == indicator.PerRank && d.Rank != nil:
		return d.Rank
	case s.Per == indicator.PerUpstream && d.Server != "":
		return []string{d.Server}
	}
	return []string{s.Per}
}

// namePart returns the name of the part that a signal's sample belongs to.
func namePart(d *dialect.Dialect, s *indicator.Signal, m model.Metric) string {
	return strings.ReplaceAll(strings.TrimSuffix(identity.LabelKey(m, partLabels(d, s)), "\xff"), "\xff", "/")
}

// planCount plans the query that says whether a mean rests on enough observations. Its answer is stored after the mean.
func (p *planner) planCount(s *indicator.Signal) {
	g := p.g
	p.addQuery(s, "observations of "+s.Name, g.To, s.Observations(), func(snap *Snapshot, v model.Vector) {
		for _, sample := range v {
			if few, ok := s.TooFew(float64(sample.Value)); ok {
				p.storeValue(snap, g, s, sample.Metric, few)
			}
		}
	})
}

// addQuery plans a query of a signal.
func (p *planner) addQuery(s *indicator.Signal, what string, at time.Time, expr indicator.Expr,
	store func(*Snapshot, model.Vector)) question {
	g, r := p.g, p.r
	q, named := question{name: what, compiled: p.compiled, at: at}, g.Named
	if s.Fleet {
		named = nil
	}
	expr.Each(func(s indicator.Samples) {
		if s.Span == indicator.PastMark {
			q.past = r.Past
		}
	})
	p.queries = append(p.queries,
		query{q, s.Name, named, func(ms []*labels.Matcher) indicator.Expr { return r.compileFor(g, s, expr, ms) },
			store})
	return q
}

// compileFor compiles a signal's expression for the group. A signal of fleets also reads other members, whose scrapes
// have another phase.
func (r *Request) compileFor(g *identity.Group, s *indicator.Signal, expr indicator.Expr,
	matchers []*labels.Matcher) indicator.Expr {
	rw := g.Lead.Dialect.Rewriting()
	rw.Window, rw.Short, rw.Past = g.Length(), r.shortSpan(&g.Lead.Dialect)+g.Beyond, max(r.Past, r.shortestSpan())
	rw.Instance, rw.Model, rw.Matchers = slices.Concat(r.Instance, g.Lead.Dialect.Identity), r.Model, matchers
	rw.Instance = append(rw.Instance, partLabels(&g.Lead.Dialect, s)...)
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
	names := slices.Concat(p.r.Instance, g.Lead.Dialect.Identity, p.r.Model)
	q := p.addQuery(s, "buckets of "+s.Histogram+s.Per, g.To, s.Buckets(), func(snap *Snapshot, v model.Vector) {
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

// gatherBuckets makes a distribution of each target's buckets. names are the labels that identify a target.
func gatherBuckets(v model.Vector, names []string) (out []*distribution) {
	byTarget := map[string]*distribution{}
	bounds := map[model.LabelValue]float64{}
	var key []byte
	for _, sample := range v {
		le := sample.Metric[model.BucketLabel]
		bound, known := bounds[le]
		if !known {
			var ok bool
			if bound, ok = segments.ParseBound(string(le)); !ok {
				continue
			}
			bounds[le] = bound
		}
		key = identity.AppendKey(key[:0], sample.Metric, names)
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
				*s.readings[i].of(sig) = reading{now: indicator.Unknown("no GPU exporter"),
					normal: indicator.Unknown("no GPU exporter")}
			}
		}
	}
}

// companions returns, by model server, the GPU exporter that belongs to it: the first
// one on the same host, the page of its own GPUs that was read beside it, or the only
// one where there is only one host to serve on.
func (s *Snapshot) companions() map[int]int {
	host := func(i int) string { return cmp.Or(s.Targets[i].HostName(), s.Targets[i].Labels["instance"]) }
	exporters, byHost, own, hosts := []int{}, map[string]int{}, map[string]int{}, map[string]bool{}
	for i := range s.Targets {
		if !s.Targets[i].IsGPU() {
			if s.Targets[i].Serves() {
				hosts[host(i)] = true
			}
			continue
		}
		if server, ok := dialect.ServerOf(s.Targets[i].Labels["instance"]); ok &&
			s.Targets[i].Dialect.Exposes(dialect.HostInfo) {
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
