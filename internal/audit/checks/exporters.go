package checks

import (
	_ "embed" // the table
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/engine"
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
