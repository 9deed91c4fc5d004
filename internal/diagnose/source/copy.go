package source

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/pages"
)

// mostCopied bounds the text of the copied pages, in bytes.
const mostCopied = 128 << 20

// copyPast copies a Prometheus server's samples of a span, and of the past that its first diagnosis compares with, into
// a storage of this process. A diagnosis sends some two hundred queries, and a replay sends them for every moment. It
// returns nil if there are too many samples to copy, or if only a part of them came. The caller then queries the server
// itself.
func (s *Source) copyPast(ctx context.Context, from, to time.Time) (*Source, error) {
	pace, err := s.Pace(ctx, to)
	if err != nil {
		return nil, err
	}
	from = from.Add(-identity.LongestPast)
	found, _, err := identity.Discover(ctx, s, identity.Search{At: to, Lookback: to.Sub(from), Matchers: s.matchers})
	if err != nil {
		return nil, err
	}
	var instances []string
	for _, t := range found {
		if name := t.Labels[model.InstanceLabel]; name != "" && !slices.Contains(instances, name) {
			instances = append(instances, name)
		}
	}
	type page struct {
		target string
		at     time.Time
		body   []byte
		took   time.Duration
	}
	var all []page
	res, err := pages.Write(ctx, s, pages.Request{Instances: instances, Matchers: s.matchers, From: from, To: to,
		MaxBytes: mostCopied},
		func(target string, at time.Time, body []byte, took time.Duration) error {
			all = append(all, page{target, at, slices.Clone(body), took})
			return nil
		})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil || res.Stride > 1 || s.partial != nil && len(s.partial()) > 0:
		return nil, nil //nolint:nilerr,nilnil // the caller queries the server itself
	}
	slices.SortStableFunc(all, func(a, b page) int { return a.at.Compare(b.at) })
	out, err := OpenPages(pace.Interval, embedded.Config{})
	if err != nil {
		return nil, err
	}
	out.Name, out.matchers = s.Name, s.matchers
	for _, p := range all {
		t := embedded.Target{Labels: map[string]string{}}
		for name, value := range res.Labels[p.target] {
			switch name {
			case model.InstanceLabel:
				t.Instance = string(value)
			case model.JobLabel:
				t.Job = string(value)
			default:
				t.Labels[string(name)] = string(value)
			}
		}
		if err := out.appendPage(t, p.at, p.body, p.took); err != nil {
			return nil, errors.Join(err, out.Close())
		}
	}
	return out, nil
}

// appendPage stores a page. A page without text is a scrape that failed after the time it took.
func (s *Source) appendPage(t embedded.Target, at time.Time, body []byte, took time.Duration) error {
	if len(body) == 0 {
		return s.store.AppendFailureAfter(t, at, took)
	}
	_, err := s.store.Append(t, at, body, "", 0)
	return err
}
