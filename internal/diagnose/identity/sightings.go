package identity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// Sightings remembers the series that were seen, so that the next search queries only the time since, and what they say
// about the servers, until a series comes or goes. The zero value has seen nothing. It is not safe for concurrent use.
type Sightings struct {
	engines, gateways seenSeries
	discovery         *discovery // what they say; nil if they changed since
}

// update looks for the series of engines and of gateways in the lookback.
func (s *Sightings) update(ctx context.Context, q metrics.Querier, engines, gateways indicator.Samples, by []string,
	at time.Time, lookback time.Duration) error {
	var cameOrWent [2]bool
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if cameOrWent[0], err = s.engines.update(ctx, q, engines, by, at, lookback); err != nil {
			err = fmt.Errorf("find targets: %w", err)
		}
		return err
	})
	g.Go(func() (err error) {
		if cameOrWent[1], err = s.gateways.update(ctx, q, gateways, by, at, lookback); err != nil {
			err = fmt.Errorf("find gateways: %w", err)
		}
		return err
	})
	err := g.Wait()
	if cameOrWent[0] || cameOrWent[1] {
		s.discovery = nil
	}
	return err
}

// seenSeries are the series of one selector.
type seenSeries struct {
	selector string
	seen     map[string]*sighting
	from, at time.Time // the start and the end of the queried time
}

type sighting struct {
	labels model.Metric
	at     time.Time
}

// update looks for series in the lookback, by their labels. It queries only the time since the last update, and reports
// whether a series came or went.
func (s *seenSeries) update(ctx context.Context, q metrics.Querier, of indicator.Samples, by []string, at time.Time,
	lookback time.Duration) (changed bool, err error) {
	of.Func = "last_over_time"
	from, selector := at.Add(-lookback), indicator.Aggregate{Labels: by, Of: of}.String()
	if s.selector != selector || at.Before(s.at) || from.Before(s.from) {
		*s, changed = seenSeries{selector: selector, seen: map[string]*sighting{}, from: from}, true
	}
	of.Span = min(lookback-metrics.Arrival, at.Sub(s.at)) + metrics.Arrival
	found, err := q.Evaluate(ctx, indicator.Aggregate{Op: "group", Labels: by, Of: of}, at)
	if err != nil {
		return changed, err
	}
	s.at = at
	var key []byte
	for _, one := range found {
		key = AppendKey(key[:0], one.Metric, by)
		if was := s.seen[string(key)]; was != nil {
			was.at = at
			continue
		}
		s.seen[string(key)], changed = &sighting{one.Metric, at}, true
	}
	silent := sync.OnceValue(func() map[[3]model.LabelValue]bool { return s.silentSince(from) })
	for k, one := range s.seen {
		if one.at.Before(from) && !silent()[scrapedAt(one.labels)] {
			delete(s.seen, k)
			changed = true
		}
	}
	return changed, nil
}

// appendLabels appends the labels of the series, in the same order each time.
func (s *seenSeries) appendLabels(to []model.Metric) []model.Metric {
	for _, k := range slices.Sorted(maps.Keys(s.seen)) {
		to = append(to, s.seen[k].labels)
	}
	return to
}

// silentSince lists the servers that were scraped since a moment and showed nothing but "up". Their earlier series stay
// known while they are down.
func (s *seenSeries) silentSince(from time.Time) map[[3]model.LabelValue]bool {
	out := map[[3]model.LabelValue]bool{}
	for _, one := range s.seen {
		if !one.at.Before(from) && one.labels[model.MetricNameLabel] == "up" {
			out[scrapedAt(one.labels)] = true
		}
	}
	for _, one := range s.seen {
		if !one.at.Before(from) && one.labels[model.MetricNameLabel] != "up" {
			delete(out, scrapedAt(one.labels))
		}
	}
	return out
}

// scrapedAt returns the labels that say where a series was scraped.
func scrapedAt(m model.Metric) [3]model.LabelValue {
	return [3]model.LabelValue{m["cluster"], m["job"], m["instance"]}
}
