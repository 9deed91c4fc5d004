package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics/api"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// withRecording opens a recording, loads it into a storage of its own, and
// hands that to fn.
func withRecording(ctx context.Context, stderr io.Writer, path string, fn func(*played) error) (err error) {
	rec, err := recording.OpenContext(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	notes(stderr, rec.Warnings())
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Load(ctx, rec, nil); err != nil {
		return hint.With(err, firstHint(err, "check that the files are answers of /metrics"))
	}
	notes(stderr, store.Warnings())
	p := &played{Store: store}
	p.first, p.last = rec.Times()
	pace, err := diagnose.ReadPace(ctx, store, nil, p.last)
	if err != nil {
		return err
	}
	p.interval = pace.Interval
	return fn(p)
}

// played is a recording that has been loaded.
type played struct {
	*embedded.Store
	span
	interval time.Duration // between two scrapes
}

// withPrometheus opens a Prometheus-compatible server and hands it to fn.
// Partial answers are noted in the end.
func withPrometheus(stderr io.Writer, url string, http *httpFlags, fn func(*tolerant) error) error {
	c, err := http.config()
	if err != nil {
		return err
	}
	client, err := api.New(api.Config{URL: url, HTTP: c})
	if err != nil {
		return err
	}
	defer client.Close()
	q := &tolerant{next: client, seen: map[string]bool{}}
	defer func() { notes(stderr, slices.Concat(q.partial, client.Warnings())) }()
	return fn(q)
}

// parseMatches reads the selectors of --match.
func parseMatches(texts []string) ([]*labels.Matcher, error) {
	var out []*labels.Matcher
	for _, text := range texts {
		m, err := parseMatch(text)
		if err != nil {
			return nil, err
		}
		out = append(out, m...)
	}
	return out, nil
}
