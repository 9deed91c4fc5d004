package threshold

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
)

// Parse parses thresholds that are set by hand, name=value: ttft_objective=500ms, kv_cache_full=95%. The names are
// the thresholds of the pathologies' conditions and some others. A number without a unit is in the threshold's own
// unit.
func Parse(texts []string, all []*catalog.Pathology, further ...*catalog.Threshold) (map[string]float64, error) {
	known := slices.Clone(further)
	for _, p := range all {
		note := func(c catalog.Cond) { known = append(known, c.Threshold) }
		for _, c := range p.Conditions() {
			c.Leaves(note)
		}
	}
	return ParseNamed(texts, known)
}

// ParseNamed is Parse with the names of a list.
func ParseNamed(texts []string, known []*catalog.Threshold) (map[string]float64, error) {
	units := map[string]indicator.Unit{}
	for _, t := range known {
		units[t.Name] = t.Unit
	}
	names := slices.Sorted(maps.Keys(units))
	set := map[string]float64{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, hint.With(fmt.Errorf("%q is not name=value", text), "write it as "+names[0]+"=1.5")
		}
		name = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), "-", "_"))
		unit, ok := units[name]
		if !ok {
			return nil, hint.With(fmt.Errorf("there is no threshold %q", name),
				suggestNames(synonym.Translate(name), names))
		}
		v, err := indicator.ParseNumber(value, unit)
		if err == nil && v < 0 {
			err = fmt.Errorf("%q is negative", value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		set[name] = v
	}
	return set, nil
}

// few is up to how many names an error lists them all, if none is near.
const few = 40

// suggestNames returns the hint for an unknown name: the nearest names, names with the same beginning, or where to
// look.
func suggestNames(name string, names []string) string {
	for more := true; more; {
		if near := hint.DidYouMean(name, names); near != "" {
			return near
		}
		end := strings.LastIndexByte(name, '_')
		if more = end > 0; more {
			name = name[:end]
		}
	}
	if len(names) <= few {
		return "one of " + strings.Join(names, ", ")
	}
	return "the runbook of each failure mode lists its own (docs/pathologies)"
}
