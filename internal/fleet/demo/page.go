package demo

import (
	"errors"
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/fleet"
)

// A Cast has the simulated servers of two models, for a monitor to watch. The servers of one model stay healthy; those
// of the other have a fault after a minute.
type Cast struct {
	URLs   []string
	fleets []*fleet.Fleet
}

// NewCast starts the servers; the caller closes them.
func NewCast(pathologies []*catalog.Pathology) (*Cast, error) {
	ill, err := fleet.FindScenario(pathologies, "kv-cache-thrashing")
	if err != nil {
		return nil, err
	}
	well := ill
	well.Phases = ill.Phases[:1] // the healthy phase, which then goes on
	c := &Cast{}
	for _, cfg := range []fleet.Config{
		{Addr: "127.0.0.1:0", Model: "llama-8b", Replicas: 6, Scenario: well},
		{Addr: "127.0.0.1:0", Model: "qwen-32b", Scenario: ill},
	} {
		f, err := fleet.Start(cfg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("servers of %s: %w", cfg.Model, err), c.Close())
		}
		c.fleets = append(c.fleets, f)
		c.URLs = append(c.URLs, f.URLs()...)
	}
	return c, nil
}

// Close ends the servers.
func (c *Cast) Close() error {
	var err error
	for _, f := range c.fleets {
		err = errors.Join(err, f.Close(), f.Err())
	}
	return err
}
