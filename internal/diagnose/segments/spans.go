package segments

import (
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/base/period"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
)

// A Span says which time of one target is judged, and against which.
type Span struct {
	Window, Baseline period.Period
	Source           BaselineSource
	Timeline         Timeline // the timeline of a serving target
	// Observed is when the observation of the target began.
	Observed time.Time
	// Unchanged means that nothing changed between the baseline and the window. A fault that was there all along is in
	// both.
	Unchanged bool
	// Failing means that the last scrape failed, and the last good one is too old to describe the present.
	Failing bool
	// InTurns means that several processes answer at the address in turn, so that counters give no rate.
	InTurns bool
	// Asked is the time of the last scrape, failed or not: the window's end, or later if the page is slow.
	Asked time.Time

	Silence time.Duration // how long ago the last page was when the last scrape failed

	LastWait float64 // mean TTFT of the last requests, see History.lastWait

	Steadiness  Steadiness
	OpenedSince func(time.Time) (float64, bool) // see History.openedConnections; nil for targets that do not serve
	// the source of onsets, nil once they are read; nil for targets that do not serve
	Course *Course
	before time.Time     // the last scrape before the window, zero where no scrape was seen
	beyond time.Duration // by how much a shared window ends after the target's last scrape
	// the window holds all scrapes, and before is one interval before the first, or before the window
	Whole bool
}

// JudgedTime returns the window as a time to query.
func (s *Span) JudgedTime() identity.Time {
	return identity.Time{Period: s.Window, Asked: s.Asked, Beyond: s.beyond}
}

// How many requests make a baseline. A lifetime needs more of them, because it holds the unusual requests of the
// warm-up.
const (
	MinHistoryRequests  = 10
	MinLifetimeRequests = 100
)

// Lengths of windows and of the past.
const (
	usualWindow = time.Minute
	// usualIntervals is how many scrape intervals make a window if a minute has fewer.
	usualIntervals = 3
	// thinWindow is how far a window is doubled, as long as nothing changed, until it
	// holds enough requests.
	thinWindow     = 5 * time.Minute
	enoughRequests = 20
	// minLifetime is the shortest process lifetime whose totals make a baseline.
	minLifetime = time.Minute
)

// UsualWindow returns the length of a window that holds enough requests, for a scrape interval.
func UsualWindow(interval time.Duration) time.Duration {
	return max(usualWindow, usualIntervals*interval+interval/2)
}

// A Choice says how to choose spans.
type Choice struct {
	// At is the moment of the diagnosis.
	At time.Time
	// Created is when the servers' counters began, zero where that is not known.
	Created time.Time
	// Interval is the scrape interval.
	Interval time.Duration
	// Window and Baseline override the chosen ones where they are set.
	Window   time.Duration
	Baseline period.Period
	// FromFile means that normal values come from baseline files.
	FromFile bool
	// Limits are the thresholds that were set by hand.
	Limits Limits
}

// chooseSpan chooses the window and the baseline of one target. The window lies after the latest change, so that an
// incident is undiluted, and is as short as its content allows. The baseline is the latest earlier segment that is no
// worse than those before it.
func (o *Choice) chooseSpan(t *identity.Target, h *History, past period.Period) Span {
	step := o.Interval
	if !t.Serves() || t.Problem != "" {
		return o.spanWithoutHistory(t, past)
	}
	s := Span{Source: NoBaseline, Observed: past.From}
	usual := UsualWindow(step)
	l := o.Limits
	late := h.lateButThere(l)
	s.Silence, s.LastWait = h.failingFor(), h.lastWait()
	s.endWindow(o.At, h, late, step)
	s.Failing = !late && s.Silence >= ShortestSpan(step)*9/10
	s.InTurns = h.answersInTurns()
	s.Timeline = h.divideHistory(l)
	segs := s.Timeline.answeredSegments()
	now := run(nil)
	if n := len(segs); n > 0 && (late || h.isAnswering()) {
		now, segs = segs[n-1].run, segs[:n-1]
	}
	normal, rest := l.normalSegment(segs, h.serviceIn(now))
	now = h.extendIncident(l, normal, rest, now)
	if len(rest) > 0 && len(now) > 0 && now[0].from >= rest[len(rest)-1].run[0].to {
		now = h.withStall(rest[len(rest)-1].run, now)
	}
	s.Window.From = h.windowFrom(now, s.Window.To, usual, step/10)
	if normal == nil && len(segs) == 0 {
		// Nothing changed: the time before the window is as good as the window.
		earlier := now
		for len(earlier) > 0 && h.at[earlier[len(earlier)-1].to].After(s.Window.From.Add(Edge)) {
			earlier = earlier[:len(earlier)-1]
		}
		if s.Unchanged = !o.lifetimeIsBetter(h, earlier, s.Window); s.Unchanged {
			normal, now = earlier, earlier
		}
	}
	s.Course, s.OpenedSince = h.courseOf(normal, now), h.openedConnections
	if len(normal) > 0 && h.spanOf(normal).Length() >= minHistory {
		s.Baseline, s.Source = alignToStep(h.spanOf(normal)), FromHistory
		if s.Unchanged { // otherwise it would grow with every diagnosis
			s.Baseline.To = s.Baseline.To.Truncate(s.Baseline.Length() / 4 / growthStep * growthStep)
		}
	}
	s.Steadiness = h.measureSteadiness(normal, now)
	o.applyOverrides(&s, h)
	s.Steadiness.Once = h.cameOnce(s.Window)
	s.markBefore(h, step)
	return s
}

// endWindow ends the window with the last scrape or, if the last ones are late, with the last page.
func (s *Span) endWindow(at time.Time, h *History, late bool, step time.Duration) {
	s.Window.To = at
	if n := len(h.at); n > 0 {
		s.Observed = h.at[0]
		if at.Sub(h.at[n-1]) <= 5*step/2 {
			s.Window.To = h.at[n-1]
		}
	}
	s.Asked = s.Window.To
	if late {
		s.Window.To = h.at[len(h.at)-1].Add(-s.Silence)
	}
}

// markBefore notes the last scrape before the window, or that the window holds all of the history. That may be a single
// scrape in a window of the usual length.
func (s *Span) markBefore(h *History, step time.Duration) {
	if len(h.at) > 0 {
		s.before, s.Whole = h.at[0].Add(-step), true
		if s.Window.From.Before(s.before) {
			s.before = s.Window.From.Add(-step)
		}
	}
	for _, at := range h.at {
		if at.Before(s.Window.From) {
			s.before, s.Whole = at, false
		}
	}
}

// spanWithoutHistory chooses the window and the baseline of a gateway, an exporter, or a server that cannot be read.
func (o *Choice) spanWithoutHistory(t *identity.Target, past period.Period) Span {
	step := o.Interval
	s := Span{Source: NoBaseline, Observed: past.From}
	usual := UsualWindow(step)
	// the past may have begun just now
	s.Window = period.Period{From: o.At.Add(-max(min(usual, past.Length()), step)), To: o.At}
	// a gateway's own counters tell how much of the window they cover
	if t.IsGateway() {
		s.Window.From, s.Unchanged = o.At.Add(-usual), true
		s.Observed = s.Window.From // where conditions without a trail begin
	}
	if b := (period.Period{From: past.From, To: s.Window.From}); b.Length() >= minHistory {
		s.Baseline, s.Source = alignToStep(b), FromHistory
	}
	o.applyOverrides(&s, &History{})
	return s
}

// growthStep is the minimum step by which a continuing baseline grows; the maximum is a quarter of its length. Normal
// values are queried again after each step.
const growthStep = 30 * time.Second

// alignToStep returns the part of a long baseline between multiples of a step. Targets then have the same baseline, and
// the answers about it are valid until the next step.
func alignToStep(r period.Period) period.Period {
	for _, s := range []struct{ least, from, to time.Duration }{
		{LongHistory + 20*time.Minute, 10 * time.Minute, 10 * time.Minute},
		{LongHistory + 10*time.Minute, 5 * time.Minute, 5 * time.Minute},
		{16 * time.Minute, time.Minute, 4 * time.Minute},
		{8 * time.Minute, time.Minute, 2 * time.Minute},
	} {
		if r.Length() >= s.least {
			return period.Period{From: r.From.Add(s.from - 1).Truncate(s.from), To: r.To.Truncate(s.to)}
		}
	}
	return r
}

// applyOverrides applies what the user asked for, and the lifetime where there is nothing
// better.
func (o *Choice) applyOverrides(s *Span, h *History) {
	if o.Window > 0 {
		s.Window.From = s.Window.To.Add(-o.Window)
		// Spans before the first sample are not queried: their rates would be empty.
		if len(h.at) > 0 && h.at[0].After(o.At.Add(-identity.LongestPast+o.Interval)) && h.at[0].After(s.Window.From) {
			s.Window.From = h.at[0].Add(-Edge)
		}
	}
	switch {
	case o.FromFile:
		s.Baseline, s.Source = period.Period{}, FromFile
	case !o.Baseline.From.IsZero():
		s.Baseline, s.Source, s.Unchanged = o.Baseline, FromHistory, false
	case s.Source == NoBaseline && o.lifetimeBefore(h).Length() >= minLifetime:
		s.Baseline, s.Source = o.lifetimeBefore(h), FromLifetime
	}
}

// lifetimeBefore returns the time before the first scrape that the counters cover, zero if it is unknown.
func (o *Choice) lifetimeBefore(h *History) period.Period {
	if o.Created.IsZero() || len(h.at) == 0 {
		return period.Period{}
	}
	return period.Period{From: o.Created.Add(-time.Second), To: h.at[0]}
}

// lifetimeIsBetter reports whether the totals before the first scrape are a better baseline than the observed history,
// in which nothing changed and which may be all fault. They are if they cover more time, and so many requests that the
// window is a small part. Otherwise a fault from the beginning would become normal after some time of watching.
func (o *Choice) lifetimeIsBetter(h *History, past run, window period.Period) bool {
	if len(past) == 0 || o.lifetimeBefore(h).Length() <= h.spanOf(past).Length() {
		return false
	}
	requests := 0.0
	for _, iv := range h.intervalsIn(window) {
		requests += h.countOf(firstTokens, iv)
	}
	return h.gaugeAt(firstTokens.count(), 0) >= max(MinLifetimeRequests, ManyTimes*requests)
}

// windowFrom returns the beginning of the window that ends at a given time and lies in the run now. Scrapes may be late
// or early by jitter.
func (h *History) windowFrom(now run, to time.Time, usual, jitter time.Duration) time.Time {
	if len(now) == 0 {
		if k := h.pageUpTo(len(h.at) - 1); k >= 0 {
			return h.at[k].Add(-Edge)
		}
		return to.Add(-usual)
	}
	from, requests, length := to, 0.0, usual
	for i := len(now) - 1; i >= 0 && to.Sub(h.at[now[i].from]) <= max(usual, thinWindow)+jitter; i-- {
		if to.Sub(from) >= length-jitter {
			if requests >= enoughRequests || requests < few && !h.servesStreams(now[len(now)-1]) {
				break
			}
			length = min(2*length, thinWindow)
		}
		from = h.at[now[i].from]
		requests += h.countOf(firstTokens, now[i])
	}
	return from.Add(-Edge)
}

// servesStreams reports whether the few running requests are served: tokens come, and nobody waits.
func (h *History) servesStreams(iv interval) bool {
	return h.increase(tokensOut, iv) > 0 && !(h.gaugeAt(waiting, iv.to) > 0)
}

// longestTest is the longest duration of a load test: longer traffic is the users'.
const longestTest = 10 * time.Minute

// Fewer than few requests do not say how users were served. One stream can: a hundred gaps between tokens, which vary
// as much as they are long, give the mean to a tenth.
const few, fewGaps = 5, 100

// normalSegment returns the latest segment that is no worse than any earlier one and no short exception from them,
// joined with similar earlier segments. rest holds the segments after it. Without such a segment, normal is nil. A
// better segment is an exception too if it was shorter than all before it, no longer than a load test, and the present
// is like the time before it.
func (l Limits) normalSegment(segs []Segment, now service) (normal run, rest []Segment) {
	for i := len(segs) - 1; i >= 0; i-- {
		s := &segs[i]
		if !s.service.isConclusive() || l.isSick(s.service) {
			continue
		}
		worse, returned, worseBefore := l.compareWithEarlier(s.service, segs[:i], now)
		if worse || l.isException(s.service, worseBefore) || returned && s.service.seconds < min(worseBefore.seconds,
			longestTest.Seconds()) {
			continue
		}
		out := s.run
		for e := i - 1; e >= 0 && !l.isWorse(s.service, segs[e].service, clearly) &&
			!l.isWorse(segs[e].service, s.service, clearly); e-- {
			out = slices.Concat(segs[e].run, out)
		}
		return out, segs[i+1:]
	}
	return nil, segs
}

// compareWithEarlier compares a segment with the earlier ones. worse: it served worse than one of them. returned: it
// served better than all of them, and the present is like them again. worseBefore: the time and the requests that were
// served worse.
func (l Limits) compareWithEarlier(s service, earlier []Segment, now service) (worse, returned bool,
	worseBefore service) {
	returned = now.requests >= few
	for i := range earlier {
		before := &earlier[i].service
		improved := l.isWorse(*before, s, clearly)
		if before.isConclusive() {
			worse = worse || l.isWorse(s, *before, clearly)
			returned = returned && improved && !l.isWorse(now, *before, clearly)
		}
		if improved && !l.isSick(*before) {
			worseBefore.requests += before.requests
			worseBefore.seconds += before.seconds
		}
	}
	return worse, returned, worseBefore
}

// extendIncident adds the earlier segments of the same incident to the last segment, if that is worse than normal. They
// are worse than normal too, and the last one is not much worse than they are.
func (h *History) extendIncident(l Limits, normal run, rest []Segment, now run) run {
	if len(normal) == 0 || len(now) == 0 {
		return now
	}
	usual, last := h.serviceIn(normal), h.serviceIn(now)
	if !l.isWorse(last, usual, clearly) {
		return now
	}
	for i := len(rest) - 1; i >= 0; i-- {
		if v := rest[i].service; !l.isWorse(v, usual, clearly) || l.isWorse(last, v, muchWorse) {
			break
		}
		now = slices.Concat(rest[i].run, now)
	}
	return now
}

// withStall adds to a segment the intervals right before it in which the engine held requests and produced nothing.
// The requests that came meanwhile are served now, and would otherwise inflate the arrival rate.
func (h *History) withStall(before, now run) run {
	n := len(before)
	for n > 0 && h.isStalled(before[n-1]) {
		n--
	}
	return slices.Concat(before[n:], now)
}

// shareable is the number of scrape intervals in a shared window: rate() and increase() extrapolate by up to an
// interval, which is little in a long window.
const shareable = 3

// mostSpans is the number of different windows, and of different baselines, up to which each has a set of queries of
// its own. Beyond it their number depends on the time that they cover, not on the number of targets.
const mostSpans = 6

// shareSpans lets targets share windows if each window keeps its scrapes: targets with the same scrape interval differ
// in phase only. With many targets, baselines that differ by a scrape are shared too.
func shareSpans(spans []Span, step time.Duration) {
	windows, baselines := map[period.Period]bool{}, map[period.Period]bool{}
	for i := range spans {
		windows[spans[i].Window] = true
		baselines[spans[i].Baseline] = true
	}
	var ss []*Span
	for i := range spans {
		s := &spans[i]
		if !s.before.IsZero() && (len(windows) > mostSpans || s.Window.Length() >= shareable*step && !s.Whole) {
			ss = append(ss, s)
		}
	}
	shareWindows(ss)
	if len(baselines) > mostSpans {
		shareBaselines(spans, step)
	}
}

func shareWindows(ss []*Span) {
	slices.SortFunc(ss, func(a, b *Span) int { return a.Window.From.Compare(b.Window.From) })
	for from := 0; from < len(ss); {
		common, before, to := ss[from].Window, ss[from].before, from
		for to < len(ss) && (to == from || ss[to].before.Before(common.From)) {
			if ss[to].Window.To.After(common.To) {
				common.To = ss[to].Window.To
			}
			if ss[to].before.After(before) {
				before = ss[to].before
			}
			to++
		}
		if to > from+1 {
			// The same length each time, so that the queries stay the same.
			if earlier := common.To.Add(-common.Length().Truncate(time.Second) - time.Second); before.Before(earlier) {
				common.From = earlier
			}
		}
		for _, s := range ss[from:to] {
			if s.Asked.Equal(s.Window.To) {
				s.Asked = common.To
			}
			s.beyond = common.To.Sub(s.Window.To)
			s.Window = common
		}
		from = to
	}
}

// shareBaselines aligns baselines to the scrape grid, so that those that begin and end in the same intervals are one. A
// long one is cut to the time between those intervals: it loses at most a scrape at either end, and a target that joins
// causes no new queries about the others. A short one, which has no scrape to lose, and a lifetime are extended to the
// ends of the intervals, where no other scrape lies.
func shareBaselines(spans []Span, step time.Duration) {
	for i := range spans {
		s := &spans[i]
		from, to := s.Baseline.From.Add(Edge).Truncate(step), s.Baseline.To.Truncate(step)
		switch {
		case s.Source == FromLifetime:
			s.Baseline.To = to.Add(step - Edge)
		case s.Source == FromHistory && s.Baseline.Length() > shareable*step:
			s.Baseline = period.Period{From: from.Add(step - Edge), To: to}
		case s.Source == FromHistory:
			s.Baseline = period.Period{From: from.Add(-Edge), To: to.Add(step - Edge)}
		}
	}
}

// ShortestSpan returns the shortest time over which a rate is meaningful and a freeze is more than a hiccup: ten
// seconds, or the time between two scrapes.
func ShortestSpan(interval time.Duration) time.Duration { return max(10*time.Second, interval) }

// Lifetime totals are a baseline if they cover this time and this multiple of the window's requests, so that a fault
// of the last minutes is a small part.
const (
	LongLife  = time.Hour
	ManyTimes = 20
	// LongHistory is a past so long that an incident is a small part of it.
	LongHistory = 30 * time.Minute
)

// BaselineSource says what the baseline is made of.
type BaselineSource string

// The sources of a baseline.
const (
	NoBaseline   BaselineSource = "none"
	FromHistory  BaselineSource = "history"  // earlier samples of the same server
	FromLifetime BaselineSource = "lifetime" // the totals of its counters at the first scrape
	FromFile     BaselineSource = "file"     // given by the user
)

// lastWait returns the mean time to the first token of the last requests that got one, in seconds; 0 if none did within
// the usual window.
func (h *History) lastWait() float64 {
	last := h.pageUpTo(len(h.at) - 1)
	for k := last; k > 0 && h.at[last].Sub(h.at[k]) < usualWindow; k-- {
		before := h.pageUpTo(k - 1)
		if before < 0 || !h.ok[k] || h.restartedBetween(before, k) {
			continue
		}
		if n := h.countOf(firstTokens, interval{before, k}); n > 0 {
			return h.increase(firstTokens.sum(), interval{before, k}) / n
		}
	}
	return 0
}

// BeganChanging returns when the segments under judgement began.
func (s *Span) BeganChanging() Onset {
	if s.Course != nil && len(s.Course.normal) > 0 && len(s.Course.now) > 0 {
		began := s.Course.at[s.Course.now[0].from]
		for i := len(s.Timeline) - 1; i >= 0; i-- {
			if seg := &s.Timeline[i]; seg.From.Before(began) {
				if seg.To.Before(began) {
					began = seg.To
				}
				return Onset{At: began}
			}
		}
	}
	return Onset{At: s.Observed, AtLeast: true}
}
