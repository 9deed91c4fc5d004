// Package dcgm describes NVIDIA's dcgm-exporter.
package dcgm

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID names the exporter.
const ID engine.ID = "dcgm"

// Engine is the exporter: no engine, but detected and queried like one.
var Engine = engine.Engine{
	ID: ID, Alerts: "GPU", Selector: "DCGM_FI_.+", IDs: []string{"dcgm"},
	Detect:       detectPage,
	ReleaseNames: releaseNames,
}

func detectPage(has map[string]bool) (engine.Naming, bool) {
	for name := range has {
		if strings.HasPrefix(name, "DCGM_FI_") {
			return namePage(has), true
		}
	}
	return engine.Naming{}, false
}

func namePage(has map[string]bool) engine.Naming {
	n := engine.Naming{ID: string(ID), Prefix: engine.Canonical, Renamed: map[string]string{}}
	const reasons, older = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
	if !has[reasons] && has[older] {
		n.Renamed[reasons] = older
	}
	return n
}

// releaseNames returns the names that signals read. An exporter's counters file decides which of them it exports.
func releaseNames(id string) (names []string, release string, err error) {
	if id == string(ID) {
		names = indicator.ReadsOf(indicator.GPU)
	}
	return names, "", err
}

//go:embed fields.csv
var fieldsCSV string

// A Field is a quantity that DCGM reads.
type Field struct {
	// Type is "gauge", "counter", "code" for a number that is not a quantity, "text" for a field without a series, or
	// "" if it is unknown.
	Type string

	// Unit of its values as dcgm-exporter exposes them: "W", "C", "MiB", "%", "ratio" (0 to 1), "MHz", "Hz", "mJ", "J",
	// "B", "B/s", "KiB/s", or "" if it is unknown or has none.
	Unit string
}

var fields = sync.OnceValue(func() map[string]Field {
	out := map[string]Field{}
	for _, row := range engine.Rows(fieldsCSV) {
		out["DCGM_FI_"+row[0]] = Field{row[1], row[2]}
	}
	return out
})

var linkNumber = regexp.MustCompile(`((?:_L|LANE|LINK|HISTORY_))\d+`)

// FieldOf returns the DCGM field of a series' name; ok is false without one.
func FieldOf(series string) (f Field, ok bool) {
	if f, ok = fields()[series]; !ok {
		f, ok = fields()[linkNumber.ReplaceAllString(series, "${1}#")]
	}
	return f, ok
}
