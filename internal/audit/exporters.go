package audit

import (
	_ "embed" // the table
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
)

//go:embed exporters.csv
var exporterTable string

// exporters are metric families of programs beside inference servers, by name; Kind is the program.
var exporters = sync.OnceValue(func() map[string]engine.Family {
	out := map[string]engine.Family{}
	for _, row := range engine.Rows(exporterTable) {
		f := engine.Family{Name: row[0], Type: engine.Type(row[1]), Kind: row[2]}
		if row[3] != "" {
			f.Labels = slices.DeleteFunc(strings.Split(row[3], ";"), func(l string) bool { return l == "uid" }) // since kube-state-metrics 2
		}
		out[f.Name] = f
	}
	return out
})

// exporterFamily returns the family of an exporter that a sample's name belongs to.
func exporterFamily(name string) (engine.Family, bool) {
	if f, ok := exporters()[name]; ok {
		return f, true
	}
	for _, s := range engine.HistogramSuffixes {
		base, cut := strings.CutSuffix(name, s)
		if f := exporters()[base]; cut && (f.Type == engine.Histogram || f.Type == engine.Summary && s != "_bucket") {
			return f, true
		}
	}
	return engine.Family{}, false
}

// isExporters reports whether a family is of the table.
func isExporters(f engine.Family) bool { return exporters()[f.Name].Kind != "" && f.Engine == "" }

// namespaces are prefixes of exporters' names, of which the table has what people ask for.
var namespaces = []string{"node_", "kube_", "container_", "nv_", "tgi_", "process_", "probe_", "DCGM_FI_", "inference_", "envoy_", "istio_"}

// endings are what people forget, or add, at the end of a name.
var endings = []string{"_total", "_bytes", "_seconds", "_count", "_sum", "_bucket", "s", ""}

// misspelled returns the exporter's family that a name is meant to be: one that differs by an
// ending or by one character; "" where there is none, or where the name is known.
func misspelled(name string) string {
	if !slices.ContainsFunc(namespaces, func(n string) bool { return strings.HasPrefix(name, n) }) {
		return ""
	}
	if _, ok := exporterFamily(name); ok {
		return ""
	}
	for _, cut := range endings {
		base, ok := strings.CutSuffix(name, cut)
		for _, add := range endings {
			if f, known := exporterFamily(base + add); ok && known && base+add != name && f.Type != engine.Histogram {
				return base + add
			}
		}
	}
	const long = 12
	for other := range exporters() {
		if len(name) >= long && hint.Distance(name, other, 2) < 2 && !digitsDiffer(name, other) {
			return other
		}
	}
	return ""
}

// digitsDiffer reports whether two names differ in a digit, as node_load1 and node_load5 do.
func digitsDiffer(a, b string) bool {
	digits := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}
	return strings.Map(digits, a) != strings.Map(digits, b)
}
