package identity

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Sightings remembers the series that were seen, so that the next search queries only the time since. The zero value
// has seen nothing, and a nil one remembers nothing. It is not safe for concurrent use.
type Sightings struct {
	selector string // selects the series that were seen
	seen     map[string]*sighting
	from, at time.Time // the start and the end of the queried time
}

type sighting struct {
	sample model.Sample
	at     time.Time
}

// knownSeries returns the distinct labels of a selector's series in the lookback. It remembers former results and
// queries only the time since.
func (s *Sightings) knownSeries(ctx context.Context, q metrics.Querier, of indicator.Samples, by []string, at time.Time,
	lookback time.Duration) (model.Vector, error) {
	of.Func = "last_over_time"
	ask := func(span time.Duration) (model.Vector, error) {
		return q.Evaluate(ctx, indicator.Aggregate{Op: "group", Labels: by, Of: of.In(span)}, at)
	}
	if s == nil {
		return ask(lookback)
	}
	from, selector := at.Add(-lookback), indicator.Aggregate{Labels: by, Of: of}.String()
	if s.selector != selector || at.Before(s.at) || from.Before(s.from) {
		s.selector, s.seen, s.at, s.from = selector, map[string]*sighting{}, time.Time{}, from
	}
	found, err := ask(min(lookback-metrics.Arrival, at.Sub(s.at)) + metrics.Arrival)
	if err != nil {
		return nil, err
	}
	s.at = at
	var key []byte
	for _, one := range found {
		key = AppendKey(key[:0], one.Metric, by)
		if was := s.seen[string(key)]; was != nil {
			was.at = at
			continue
		}
		s.seen[string(key)] = &sighting{model.Sample{Metric: one.Metric, Value: 1}, at}
	}
	silent := sync.OnceValue(func() map[[3]model.LabelValue]bool { return s.silentSince(from) })
	out := make(model.Vector, 0, len(s.seen))
	for k, one := range s.seen {
		if one.at.Before(from) && !silent()[scrapedAt(one.sample.Metric)] {
			delete(s.seen, k)
			continue
		}
		out = append(out, &one.sample)
	}
	return out, nil
}

// silentSince lists the servers that were scraped since a moment and showed nothing but "up". Their earlier series stay
// known while they are down.
func (s *Sightings) silentSince(from time.Time) map[[3]model.LabelValue]bool {
	out := map[[3]model.LabelValue]bool{}
	for _, one := range s.seen {
		if !one.at.Before(from) && one.sample.Metric[model.MetricNameLabel] == "up" {
			out[scrapedAt(one.sample.Metric)] = true
		}
	}
	for _, one := range s.seen {
		if !one.at.Before(from) && one.sample.Metric[model.MetricNameLabel] != "up" {
			delete(out, scrapedAt(one.sample.Metric))
		}
	}
	return out
}

// scrapedAt returns the labels that say where a series was scraped.
func scrapedAt(m model.Metric) [3]model.LabelValue {
	return [3]model.LabelValue{m["cluster"], m["job"], m["instance"]}
}
