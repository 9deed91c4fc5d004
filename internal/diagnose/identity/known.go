package identity

import (
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// Known is what the user says about the servers' configuration. It takes precedence over what the metrics say.
type Known struct {
	Config  engine.Config
	Version string
	Notes   []string
}

// AddLog adds the facts of a server's log. Earlier facts take precedence.
func (k *Known) AddLog(log *engine.Log) {
	k.Config = k.Config.Or(log.Config)
	k.Version = log.Version
	for _, e := range log.Errors {
		when := ""
		if !e.Last.IsZero() {
			when = ", last at " + e.Last.UTC().Format(time.RFC3339)
		}
		k.Notes = append(k.Notes, fmt.Sprintf("the engine log reports: %s (%d lines%s)", e.Kind, e.Count, when))
	}
	if log.Starts > 0 {
		k.Notes = append(k.Notes, fmt.Sprintf("the engine log shows %d restarts", log.Starts))
	}
}

// Annotate adds the known facts to the targets.
func (k *Known) Annotate(targets []Target) {
	for i := range targets {
		t := &targets[i]
		if !t.Serves() {
			continue
		}
		t.Config = t.Dialect.Flags.Canonical(k.Config).Or(t.Config)
		if k.Version != "" {
			t.Version = k.Version
		}
		t.Notes = append(t.Notes, k.Notes...)
	}
}
