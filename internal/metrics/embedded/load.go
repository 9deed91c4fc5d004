package embedded

import (
	"context"
	"fmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// Load appends a recording. The function name says which labels a target of the recording gets; nil makes its name
// the instance. Pages that cannot be parsed count as failed scrapes; a recording without any other page is an error.
func (s *Store) Load(ctx context.Context, rec *recording.Recording, name func(target string) Target) error {
	if name == nil {
		name = func(target string) Target { return Target{Instance: target} }
	}
	targets := make(map[string]Target)
	for _, t := range rec.Targets() {
		targets[t] = name(t)
	}
	good, failed := 0, 0
	var unread error
	err := rec.Scrapes(func(sc recording.Scrape) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(sc.Body) == 0 {
			failed++
			return s.AppendFailureAfter(targets[sc.Target], sc.At, sc.Took)
		}
		_, err := s.Append(targets[sc.Target], sc.At, sc.Body, "", sc.Took)
		if IsPageFault(err) {
			failed++
			unread = err
			return nil
		}
		good++
		return err
	})
	if err != nil {
		return fmt.Errorf("load recording: %w", err)
	}
	if good == 0 && unread != nil {
		return fmt.Errorf("load recording: none of %d pages can be read: %w", failed, unread)
	}
	if good == 0 {
		return hint.With(fmt.Errorf("load recording: all %d scrapes failed", failed), "record again while the server "+
			"is reachable")
	}
	return nil
}
