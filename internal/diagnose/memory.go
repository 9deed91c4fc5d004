package diagnose

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Memory carries over, between diagnoses of the same servers, what does not change: answers about the past (half of
// all), seen series, histories, and onsets. It holds what the last diagnosis used. It is not safe for concurrent use.
// The zero value is empty.
type Memory struct {
	answers map[question]*answer

	selector string // selects the series that were seen
	seen     map[string]*sighting
	seenFrom time.Time // the start of the queried time
	seenAt   time.Time // and until

	histories map[string]*history // by target, as of the last diagnosis

	onsets map[onsetOf]*givenOnset
}

// An onsetOf identifies an onset: a pathology on a target, or on a part of it.
type onsetOf struct {
	target    string
	part      part
	pathology string
}

// A givenOnset is the reported onset of a continuing fault, and when it was reported first and last.
type givenOnset struct {
	Onset
	first, at time.Time
	said      time.Time // since when the onset is this one
	stands    bool
	normal    map[*indicator.Signal]indicator.Value // the trails' values before it
}

// goesOn is how long after it was seen last a fault is the same one when it comes back, or
// two intervals between scrapes where those are longer.
const goesOn = time.Minute

// confirming is how many intervals between scrapes later the same is said again of an onset that then stands.
const confirming = 2

// standingOnset returns the reported onset of a continuing fault, once it was reported twice.
func (m *Memory) standingOnset(of onsetOf, at time.Time, interval time.Duration) (o Onset, stands bool) {
	if m == nil || m.onsets[of] == nil {
		return o, false
	}
	said := m.onsets[of]
	if stands = said.stands && at.Sub(said.at) <= max(goesOn, 2*interval) && !at.Before(said.at); stands {
		said.at = at
	}
	return said.Onset, stands
}

// normalsBefore returns the normal values before a fault.
func (m *Memory) normalsBefore(of onsetOf) map[*indicator.Signal]indicator.Value {
	if m == nil || m.onsets[of] == nil {
		return map[*indicator.Signal]indicator.Value{}
	}
	if m.onsets[of].normal == nil {
		m.onsets[of].normal = map[*indicator.Signal]indicator.Value{}
	}
	return m.onsets[of].normal
}

// steadyOnset returns the onset that was reported before, unless the new one differs by more than a scrape interval. It
// never moves beyond the time at which the fault was first seen. A fault that fills the whole history says nothing
// new about an older onset.
func (m *Memory) steadyOnset(of onsetOf, o Onset, at time.Time, interval time.Duration) Onset {
	if m == nil {
		return o
	}
	said := m.onsets[of]
	if said == nil || at.Sub(said.at) > max(goesOn, 2*interval) || at.Before(said.at) {
		said = &givenOnset{Onset: o, first: at, said: at}
	}
	off := o.At.Sub(said.At)
	if off.Abs() > interval+interval/10 && !(off > 0 && (o.AtLeast || o.At.After(said.first))) {
		said.Onset, said.said = o, at
	} else if off.Abs() <= interval+interval/10 && at.Sub(said.said) >= confirming*interval {
		said.stands = true
	}
	said.at = at
	if m.onsets == nil {
		m.onsets = map[onsetOf]*givenOnset{}
	}
	m.onsets[of] = said
	return said.Onset
}

type sighting struct {
	sample model.Sample
	at     time.Time
}

// lookUp returns the answers that were given before, unless most of them are about others.
func (m *Memory) lookUp(queries []query) map[question]*answer {
	answers := map[question]*answer{}
	if m == nil {
		return answers
	}
	for _, q := range queries {
		if a := m.answers[q.question]; a != nil && (a.of == nil || len(a.of) <= 2*len(q.named)) {
			answers[q.question] = a
		}
	}
	return answers
}

// storeAnswers keeps the answers that can no longer change, in place of the remembered ones.
func (m *Memory) storeAnswers(answers map[question]*answer, now time.Time) {
	if m == nil {
		return
	}
	m.answers = maps.Clone(answers)
	maps.DeleteFunc(m.answers, func(q question, _ *answer) bool { return q.at.After(now.Add(-metrics.Arrival)) })
	maps.DeleteFunc(m.onsets, func(_ onsetOf, o *givenOnset) bool { return now.Sub(o.at) > LongestPast })
}

// keepHistories remembers the histories of the targets.
func (m *Memory) keepHistories(r *Request, hs []*history) {
	if m == nil {
		return
	}
	m.histories = make(map[string]*history, len(hs))
	for i, h := range hs {
		key := targetKey(r, i)
		if m.histories[key] != nil {
			h = &history{} // nobody's: two look like one
		}
		m.histories[key] = h
	}
}

// knownSeries returns the distinct labels of a selector's series in the lookback. It remembers former results and queries
// only the time since.
func (m *Memory) knownSeries(ctx context.Context, q metrics.Querier, of indicator.Samples, by []string, at time.Time, lookback time.Duration) (model.Vector, error) {
	of.Func = "last_over_time"
	ask := func(span time.Duration) (model.Vector, error) {
		return q.Evaluate(ctx, indicator.Aggregate{Op: "group", Labels: by, Of: of.In(span)}, at)
	}
	if m == nil {
		return ask(lookback)
	}
	from, selector := at.Add(-lookback), indicator.Aggregate{Labels: by, Of: of}.String()
	if m.selector != selector || at.Before(m.seenAt) || from.Before(m.seenFrom) {
		m.selector, m.seen, m.seenAt, m.seenFrom = selector, map[string]*sighting{}, time.Time{}, from
	}
	found, err := ask(min(lookback-metrics.Arrival, at.Sub(m.seenAt)) + metrics.Arrival)
	if err != nil {
		return nil, err
	}
	m.seenAt = at
	var key []byte
	for _, s := range found {
		key = appendKey(key[:0], s.Metric, by)
		if was := m.seen[string(key)]; was != nil {
			was.at = at
			continue
		}
		m.seen[string(key)] = &sighting{model.Sample{Metric: s.Metric, Value: 1}, at}
	}
	silent := sync.OnceValue(func() map[[3]model.LabelValue]bool { return m.silentSince(from) })
	out := make(model.Vector, 0, len(m.seen))
	for k, s := range m.seen {
		if s.at.Before(from) && !silent()[scrapedAt(s.sample.Metric)] {
			delete(m.seen, k)
			continue
		}
		out = append(out, &s.sample)
	}
	return out, nil
}

// silentSince lists the servers that were scraped since a moment and showed nothing else. A server that is down stays
// known for as long as it is missed.
func (m *Memory) silentSince(from time.Time) map[[3]model.LabelValue]bool {
	out := map[[3]model.LabelValue]bool{}
	for _, s := range m.seen {
		if !s.at.Before(from) && s.sample.Metric[model.MetricNameLabel] == "up" {
			out[scrapedAt(s.sample.Metric)] = true
		}
	}
	for _, s := range m.seen {
		if !s.at.Before(from) && s.sample.Metric[model.MetricNameLabel] != "up" {
			delete(out, scrapedAt(s.sample.Metric))
		}
	}
	return out
}

// scrapedAt is where a series comes from.
func scrapedAt(m model.Metric) [3]model.LabelValue {
	return [3]model.LabelValue{m["cluster"], m["job"], m["instance"]}
}
