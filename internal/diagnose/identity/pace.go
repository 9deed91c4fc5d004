package identity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Pace is how a store's servers were scraped.
type Pace struct {
	// First is the first sample at hand within the longest past.
	First time.Time
	// Interval is the usual scrape interval of one server, UnknownInterval where
	// no server was scraped twice.
	Interval time.Duration
	// Scrapes is the largest number of scrapes of one server that the interval was read from.
	Scrapes int
}

// UnknownInterval is assumed if the interval cannot be seen. Most deployments of Prometheus scrape that often.
const UnknownInterval = 15 * time.Second

// LongestPast is how far back a diagnosis looks where no baseline is given.
const LongestPast = time.Hour

// Pulse matches the gauges that every inference server always exposes, under all their names. They are few series, one
// for each engine. A server that never answered has "up" only.
var Pulse = dialect.NamePattern("num_requests_running")

// paceSpan is how much of the past the interval is read from. A lost scrape or two do not move the median.
const paceSpan = 15 * time.Minute

// ReadPace reads how the servers that the matchers select were scraped before a time. It alone estimates the scrape
// interval; windows, rules and hints follow from it.
func ReadPace(ctx context.Context, q metrics.Querier, matchers []*labels.Matcher, at time.Time) (Pace, error) {
	p := Pace{Interval: UnknownInterval}
	for _, names := range []string{Pulse, "up"} {
		m, err := q.Samples(ctx, SelectorOf(names, matchers), at, paceSpan)
		if err != nil {
			return p, fmt.Errorf("find the scrape interval: %w", err)
		}
		var gaps []time.Duration
		for _, s := range m {
			var times []time.Time
			for _, v := range s.Values {
				times = append(times, v.Timestamp.Time())
			}
			if gap := UsualGap(times); gap > 0 {
				gaps = append(gaps, gap)
			}
			p.Scrapes = max(p.Scrapes, len(times))
		}
		if len(gaps) > 0 {
			slices.Sort(gaps)
			// The shortest interval of any job, apart from outliers.
			p.Interval = max(gaps[len(gaps)/10].Round(100*time.Millisecond), 100*time.Millisecond)
			break
		}
	}
	first, err := First(ctx, q, matchers, at.Add(-LongestPast), at)
	if err != nil {
		return p, err
	}
	p.First = cmp.Or(first, at.Add(-LongestPast))
	return p, nil
}

// First returns the time of a server's first sample within a span, exact in its first minute; zero without one.
func First(ctx context.Context, q metrics.Querier, matchers []*labels.Matcher, from, to time.Time) (time.Time, error) {
	step := max(time.Minute, to.Sub(from)/maxSteps)
	m, err := q.QueryRange(ctx, fmt.Sprintf("count(%s)", SelectorOf(Pulse, matchers)),
		metrics.Range{Start: from, End: to, Step: step})
	if err != nil {
		return time.Time{}, fmt.Errorf("find the first sample: %w", err)
	}
	if len(m) == 0 || len(m[0].Values) == 0 {
		return time.Time{}, nil
	}
	first := m[0].Values[0].Timestamp.Time()
	if !first.After(from) { // older samples do not matter
		return first, nil
	}
	before, err := q.Samples(ctx, SelectorOf(Pulse, matchers), first, time.Minute)
	if err != nil {
		return time.Time{}, fmt.Errorf("find the first sample: %w", err)
	}
	for _, s := range before {
		for _, v := range s.Values {
			if t := v.Timestamp.Time(); t.Before(first) {
				first = t
			}
		}
	}
	return first, nil
}

// maxSteps bounds the points of a query over a long time.
const maxSteps = 1000

// UsualGap returns the median scrape interval.
func UsualGap(at []time.Time) time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i].Sub(at[i-1]))
	}
	return stat.Median(gaps)
}
