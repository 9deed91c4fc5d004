package dialect

import (
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/beside"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// families are the metric families of all engines and of programs beside them.
var families = sync.OnceValue(func() []engine.Family {
	var all []engine.Family
	for _, e := range engines {
		if e.Families != nil {
			all = append(all, e.Families()...)
		}
	}
	return append(all, beside.Families()...)
})

var byName = sync.OnceValue(func() map[string]engine.Family {
	m := map[string]engine.Family{}
	for _, f := range families() {
		m[f.Name] = f
	}
	return m
})

// Families lists every metric family that is known, sorted by engine and name.
func Families() []engine.Family { return slices.Clone(families()) }

// Known looks up the family that a sample's name belongs to: the name as exposed, also with a histogram's suffix or
// _created, and under any of the prefixes that an engine's metrics are met with.
func Known(sample string) (engine.Family, bool) {
	name, _ := vllm.Canonical(sample)
	for _, e := range Others() {
		if own, ok := e.Canonical(name); ok {
			name = own
		}
	}
	if f, ok := byName()[name]; ok {
		return f, true
	}
	for _, s := range engine.HistogramSuffixes {
		if base, ok := strings.CutSuffix(name, s); ok {
			f, ok := byName()[base]
			if ok && (f.Type == engine.Histogram || f.Type == engine.Summary && s != "_bucket") {
				return f, true
			}
		}
	}
	if base, ok := strings.CutSuffix(name, "_created"); ok {
		for _, family := range []string{base, base + "_total"} {
			if f, ok := byName()[family]; ok && f.Type != engine.Gauge {
				return f, true
			}
		}
	}
	return engine.Family{}, false
}
