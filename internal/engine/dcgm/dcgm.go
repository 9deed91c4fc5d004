// Package dcgm is what is known of NVIDIA's dcgm-exporter.
package dcgm

import (
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// ID names the exporter.
const ID engine.ID = "dcgm"

// Engine is the exporter: no engine, but found and asked like one.
var Engine = engine.Engine{
	ID: ID, Selector: "DCGM_FI_.+", IDs: []string{"dcgm"},
	Detect: engine.HasPrefix("DCGM_FI_", naming),
	Page:   page,
}

func naming(has map[string]bool) engine.Naming {
	n := engine.Naming{ID: string(ID), Prefix: engine.Canonical, Renamed: map[string]string{}}
	const reasons, older = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
	if !has[reasons] && has[older] {
		n.Renamed[reasons] = older
	}
	return n
}

// page returns what the signals of package indicator ask of an exporter: which fields
// one really exports depends on its counters file.
func page(id string) (names []string, release string, err error) {
	if id != string(ID) {
		return nil, "", nil
	}
	for _, s := range indicator.All() {
		if s.Scope != indicator.GPU {
			continue
		}
		of, err := indicator.Metrics(s.PromQL())
		if err != nil {
			return nil, "", err
		}
		names = append(names, of...)
	}
	return names, "", nil
}
