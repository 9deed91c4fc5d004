package load

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// Settings configure the summary of a Recording.
type Settings struct {
	Name      string
	Target    Asked
	Load      Shape
	Workload  any
	Objective *slo.Objective // for goodput; nil for none
	// Warmup is excluded at the beginning. AutoWarmup detects it.
	Warmup time.Duration
}

// AutoWarmup detects the warm-up.
const AutoWarmup = time.Duration(-1)

// Summarize computes a Result from a Recording. It is pure.
func Summarize(rec *Recording, set Settings) *Result {
	s := &summary{rec: rec, set: set, res: &Result{
		Schema: Schema, Tool: version.This(), Name: set.Name, Started: rec.Start, Target: set.Target, Load: set.Load,
		Workload: set.Workload,
		Duration: rec.Duration.Seconds(), Interrupted: rec.Interrupted, Latency: map[Metric]*Distribution{},
	}}
	s.sortRequests()
	s.countOutcomes()
	s.checkServerAlive()
	s.chooseWindow()
	s.addLatencies()
	s.addThroughput()
	s.addTokens()
	s.addGoodput()
	s.addStreams()
	s.res.Generator = s.judgeGenerator()
	s.addNotes()
	return s.res
}

// A summary is a Result in progress.
type summary struct {
	rec *Recording
	set Settings
	res *Result

	bySent []*Record // all requests, in the order in which they were sent
	inside []*Record // requests within the window
	from   time.Duration
	to     time.Duration
}

func (s *summary) sortRequests() {
	s.bySent = make([]*Record, 0, s.rec.Len())
	for r := range s.rec.Records() {
		s.bySent = append(s.bySent, r)
	}
	slices.SortStableFunc(s.bySent, func(a, b *Record) int { return cmp.Compare(a.Sent, b.Sent) })
}

func (s *summary) countOutcomes() {
	q := &s.res.Requests
	*q = Requests{
		Sent: s.rec.Len(), Errors: map[string]int{}, Messages: map[string][]string{},
		Connections: s.rec.Connections, Resent: s.rec.Retried,
	}
	for _, r := range s.bySent {
		switch {
		case r.Outcome == Complete:
			q.Complete++
		case r.Outcome == Unfinished:
			q.Unfinished++
		default:
			q.Failed++
			q.Errors[r.Outcome.String()]++
		}
	}
	for o, m := range s.rec.Errors {
		if o != Unfinished {
			q.Messages[o.String()] = m
		}
	}
}

// Parameters of the steady state.
const (
	wavesForWarmup  = 3   // a closed loop of at least this many waves drops its first wave of requests
	minSteadyShare  = 0.5 // a load that covers less of the test is a burst
	growthUnsettled = 0.5 // relative growth of latency beyond which it never settled
	minForSteady    = 50  // requests needed for a verdict
)

// chooseWindow chooses the part of the test to report.
func (s *summary) chooseWindow() {
	w := &s.res.Window
	s.from, s.to = 0, s.rec.Dispatched
	switch {
	case s.res.Gone > 0:
		s.to = time.Duration(s.res.Gone * float64(time.Second))
		w.Why = "no steady state: the server went away; the whole time until then is reported"
	case s.rec.Duration > 0 && s.to.Seconds() < minSteadyShare*s.rec.Duration.Seconds():
		s.to = s.rec.Duration
		w.Why = fmt.Sprintf("no steady state: all requests were sent in the first %.0f %% of the test, so all of "+
			"it is reported", 100*s.rec.Dispatched.Seconds()/s.rec.Duration.Seconds())
	case s.set.Warmup >= 0:
		s.from = min(s.set.Warmup, s.to)
		w.Steady, w.Why = true, fmt.Sprintf("the requested warm-up of %s is excluded", s.set.Warmup)
	default:
		s.detectSteadyState(w)
	}
	for _, r := range s.bySent {
		if r.Scheduled >= s.from {
			s.inside = append(s.inside, r)
		}
	}
	w.Excluded = len(s.bySent) - len(s.inside)
	w.From, w.To = s.from.Seconds(), s.to.Seconds()
}

// detectSteadyState detects the warm-up, and whether the load settled.
func (s *summary) detectSteadyState(w *Window) {
	if len(s.bySent) < minForSteady {
		w.Why = fmt.Sprintf("no steady state: %d requests are too few to tell, so all of them are reported",
			len(s.bySent))
		s.to = s.rec.Duration
		return
	}
	skip := 0
	if c := s.set.Load.Concurrency; c > 1 && len(s.bySent) >= wavesForWarmup*c {
		skip = c
	}
	var latency, first []float64
	var at []time.Duration
	for _, r := range s.bySent[skip:] {
		if r.Outcome == Complete {
			latency, at = append(latency, r.E2E().Seconds()), append(at, r.Scheduled)
			if r.First > 0 {
				first = append(first, (r.First - r.Scheduled).Seconds())
			}
		}
	}
	if len(latency) < minForSteady/2 {
		w.Why = "no steady state: too few complete requests to tell, so all of them are reported"
		s.to = s.rec.Duration
		return
	}
	s.from = s.bySent[skip].Scheduled
	drop, settled := dropWarmup(latency)
	growth, certain := measureTrend(first)
	switch {
	case s.set.Load.variesByPlan():
		w.Why = "no steady state: the load itself changes, so all of it is reported"
		s.from = 0
	case certain && growth > growthUnsettled:
		w.Why = fmt.Sprintf("no steady state: time to first token grew by %.0f %% from the first quarter to the "+
			"last, so the load exceeds the server's capacity", 100*growth)
	case !settled:
		w.Why = "no steady state: latencies were still changing in the second half"
	default:
		s.from = at[drop]
		w.Steady = true
		w.Why = fmt.Sprintf("the first %d requests are excluded as warm-up, and the throughput ends when the last "+
			"request was sent", skip+drop)
	}
}

// collectLatencies collects a latency of requests in order. The latency function returns false for requests without
// one.
func collectLatencies(records []*Record, f func(*Record) (time.Duration, bool)) []float64 {
	var v []float64
	for _, r := range records {
		if d, ok := f(r); ok {
			v = append(v, d.Seconds())
		}
	}
	return v
}

// latencyFunc returns the function that computes a metric from a record.
func latencyFunc(m Metric) func(*Record) (time.Duration, bool) {
	return func(r *Record) (time.Duration, bool) {
		if m == Connect {
			return r.Connect, r.Connect > 0
		}
		if r.Outcome != Complete {
			return 0, false
		}
		switch m {
		case TTFT:
			return r.TTFT(), true
		case TTFTScheduled:
			return r.First - r.Scheduled, true
		case TPOT:
			return r.TPOT(), r.TPOT() > 0
		case Stall:
			return r.MaxGap, r.MaxGap > 0
		case E2E:
			return r.E2E(), true
		case E2EScheduled:
			return r.End - r.Scheduled, true
		}
		return 0, false
	}
}

func (s *summary) addLatencies() {
	for _, m := range Metrics() {
		if m == ITL {
			if d := s.summarizeGaps(); d != nil {
				s.res.Latency[m] = d
			}
			continue
		}
		if v := collectLatencies(s.inside, latencyFunc(m)); len(v) > 0 {
			s.res.Latency[m] = summarizeValues(v)
		}
	}
}

// summarizeValues summarizes values that are in the order of time.
func summarizeValues(v []float64) *Distribution {
	mean, variance := moments(v)
	d := &Distribution{
		Count: int64(len(v)), Effective: float64(len(v)) / designEffect(v), Mean: mean,
		Deviation: math.Sqrt(variance),
	}
	d.MeanLow, d.MeanHigh = finiteMeanInterval(mean, variance, d.Effective)
	sorted := slices.Sorted(slices.Values(v))
	d.Min, d.Max = sorted[0], sorted[len(sorted)-1]
	d.setQuantiles(func(share float64) float64 { return stat.Quantile(sorted, share) })
	return d
}

// setQuantiles sets the quantiles and their intervals. valueAt returns the value that a share of all values does not
// exceed.
func (d *Distribution) setQuantiles(valueAt func(share float64) float64) {
	for _, q := range quantiles() {
		lowRank, highRank, few := quantileRanks(q, d.Effective)
		d.Quantiles = append(d.Quantiles, Quantile{q, valueAt(q), valueAt(lowRank), valueAt(highRank), few})
	}
}

// finiteMeanInterval is meanInterval limited to finite, positive numbers, as JSON needs them.
func finiteMeanInterval(mean, variance, effective float64) (low, high float64) {
	low, high = meanInterval(mean, variance, effective)
	if math.IsInf(low, 0) || math.IsNaN(low) {
		return mean, mean
	}
	return max(low, 0), high
}

// summarizeGaps returns the distribution of inter-token latencies in the slices of the window. Tokens of a request are
// correlated; the means of the slices show how many independent values there are.
func (s *summary) summarizeGaps() *Distribution {
	gaps := map[uint32]int64{}
	var means []float64
	var sum, squares, n float64
	for i := range s.rec.Slices {
		at := time.Duration(i) * s.rec.SliceWidth
		if at+s.rec.SliceWidth <= s.from || at > s.rec.Duration {
			continue
		}
		var sliceSum, sliceN float64
		for b, count := range s.rec.Slices[i].Gaps {
			gaps[b] += count
			gap := float64(gapValue(b)) / 1e6
			sliceSum += gap * float64(count)
			squares += gap * gap * float64(count)
			sliceN += float64(count)
		}
		if sliceN > 0 {
			means = append(means, sliceSum/sliceN)
		}
		sum, n = sum+sliceSum, n+sliceN
	}
	if n == 0 {
		return nil
	}
	mean := sum / n
	variance := max(squares/n-mean*mean, 0)
	d := &Distribution{Count: int64(n), Effective: n, Mean: mean, Deviation: math.Sqrt(variance)}
	if _, between := moments(means); len(means) >= minBatches && between > 0 && variance > 0 {
		d.Effective = min(max(variance/between*float64(len(means)), 1), n)
	}
	d.MeanLow, d.MeanHigh = finiteMeanInterval(mean, variance, d.Effective)
	d.Min, d.Max = gapQuantile(gaps, 0), gapQuantile(gaps, 1)
	d.setQuantiles(func(share float64) float64 { return gapQuantile(gaps, share) })
	return d
}

func (s *summary) addThroughput() {
	t := &s.res.Throughput
	length := (s.to - s.from).Seconds()
	if length <= 0 {
		length, s.to = s.rec.Duration.Seconds(), s.rec.Duration
	}
	if length <= 0 {
		return
	}
	var done, offered, input float64
	batches := make([]float64, s.rateBatches(length))
	for _, r := range s.bySent {
		if r.Scheduled >= s.from && r.Scheduled < s.to {
			offered++
		}
		if r.Outcome == Complete && r.End >= s.from && r.End < s.to {
			done++
			input += float64(r.PromptTokens)
			batches[min(int(float64(len(batches))*(r.End-s.from).Seconds()/length), len(batches)-1)]++
		}
	}
	t.Requests, t.Offered, t.InputTokens = done/length, offered/length, input/length
	t.RequestsLow, t.RequestsHigh = rateInterval(batches, length)
	var outputTokens float64
	var perSlice []float64
	for i, sl := range s.rec.Slices {
		at := time.Duration(i) * s.rec.SliceWidth
		if at < s.from || at+s.rec.SliceWidth > s.to && s.to < s.rec.Duration {
			continue
		}
		outputTokens += float64(sl.Tokens)
		perSlice = append(perSlice, float64(sl.Tokens))
	}
	covered := float64(len(perSlice)) * s.rec.SliceWidth.Seconds()
	if s.to >= s.rec.Duration {
		covered = min(covered, length) // the last slice is cut off
	}
	if covered > 0 {
		t.OutputTokens = outputTokens / covered
		t.OutputLow, t.OutputHigh = rateInterval(perSlice, covered)
	}
}

// rateBatches returns the number of parts from which a rate's interval is estimated. A part lasts at least as long as
// a request: the streams of a closed loop end together in waves, which shorter parts would take for chance.
func (s *summary) rateBatches(length float64) int {
	n := float64(maxBatches)
	if d := s.res.Latency[E2E]; d != nil && d.Mean > 0 {
		n = min(n, length/d.Mean)
	}
	return max(int(n), 3)
}

// rateInterval returns the interval of a rate from counts in equal parts of the time.
func rateInterval(batches []float64, length float64) (low, high float64) {
	mean, variance := moments(batches)
	effective := float64(len(batches)) / designEffect(batches)
	lo, hi := finiteMeanInterval(mean, variance, effective)
	scale := float64(len(batches)) / length
	return lo * scale, hi * scale
}

func (s *summary) addTokens() {
	t := &s.res.Tokens
	var n, promptTokens, cachedTokens float64
	for _, r := range s.inside {
		if r.Outcome != Complete {
			continue
		}
		n++
		t.PromptAsked += float64(r.WantPrompt)
		t.OutputAsked += float64(r.WantOutput)
		t.Output += float64(r.OutputTokens)
		promptTokens += float64(r.PromptTokens)
		cachedTokens += float64(r.CachedTokens)
		if r.Turn == 0 && r.WantPrompt > 0 {
			t.PromptWorst = max(t.PromptWorst, math.Abs(float64(r.PromptTokens-r.WantPrompt))/float64(r.WantPrompt))
		}
		if r.OutputTokens < r.WantOutput {
			t.Short++
		}
		if r.Estimated {
			t.Estimated++
		}
	}
	if n == 0 {
		return
	}
	t.PromptAsked, t.OutputAsked, t.Output, t.Prompt = t.PromptAsked/n, t.OutputAsked/n, t.Output/n, promptTokens/n
	if promptTokens > 0 {
		t.CachedShare = cachedTokens / promptTokens
	}
	var all float64
	for _, sl := range s.rec.Slices {
		all += float64(sl.Tokens)
	}
	if s.rec.Events > 0 {
		t.PerEvent = all / float64(s.rec.Events)
		t.EventsOfRead = float64(s.rec.Events) / float64(s.rec.Reads)
	}
}

func (s *summary) addGoodput() {
	o := s.set.Objective
	if o == nil {
		return
	}
	g := &Goodput{Objective: o.Source(), TTFT: o.TTFTP95.Seconds(), ITL: o.ITLP95.Seconds(), E2E: o.E2EP95.Seconds()}
	good, all := 0.0, 0.0
	for _, r := range s.inside {
		if r.Outcome == Unfinished {
			continue
		}
		all++
		if r.Outcome == Complete && meetsObjective(r, o) {
			good++
		}
	}
	if all > 0 {
		g.Share = good / all
	}
	if length := (s.to - s.from).Seconds(); length > 0 {
		g.Requests = g.Share * s.res.Throughput.Requests
	}
	g.Met = s.res.Meets(o) == nil
	s.res.Goodput = g
}

// meetsObjective reports whether a request kept the objective. Latencies count from the schedule, because a user
// waits from then on.
func meetsObjective(r *Record, o *slo.Objective) bool {
	if o.TTFTP95 > 0 && r.First-r.Scheduled > o.TTFTP95 {
		return false
	}
	if o.ITLP95 > 0 && r.TPOT() > o.ITLP95 {
		return false
	}
	return o.E2EP95 == 0 || r.End-r.Scheduled <= o.E2EP95
}

// addStreams computes the mean number of requests in flight.
func (s *summary) addStreams() {
	var held time.Duration
	for _, r := range s.bySent {
		held += max(min(r.End, s.to)-max(r.Sent, s.from), 0)
	}
	if s.to > s.from {
		s.res.Streams.Mean = held.Seconds() / (s.to - s.from).Seconds()
	}
}

// minGone is how many successive connections must fail before the server counts as gone.
const minGone = 3

// checkServerAlive detects that the server died during the test.
func (s *summary) checkServerAlive() {
	var answered time.Duration
	for _, r := range s.bySent {
		if r.FirstByte > 0 {
			answered = max(answered, r.End)
		}
	}
	refused := 0
	for _, r := range s.bySent {
		if r.Outcome == ConnectFail && r.End > answered {
			refused++
		}
	}
	if answered > 0 && refused >= minGone {
		s.res.Gone = answered.Seconds()
	}
}

// gapQuantile returns a quantile of gaps in seconds.
func gapQuantile(gaps map[uint32]int64, q float64) float64 {
	total := int64(0)
	for _, n := range gaps {
		total += n
	}
	rank := max(int64(math.Ceil(q*float64(total))), 1)
	// Buckets ascend with their values.
	for _, b := range slices.Sorted(maps.Keys(gaps)) {
		if rank -= gaps[b]; rank <= 0 {
			return float64(gapValue(b)) / 1e6
		}
	}
	return 0
}
