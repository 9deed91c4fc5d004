// Package synonym lists other names of sixty's quantities: the words of guides, and their metrics. Explain, the
// linter, the glossary and the hints of errors share this table.
package synonym

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

//go:embed synonyms.csv
var table string

// A Synonym is another program's or author's name for a quantity.
type Synonym struct {
	Name, Meaning string
	Here          string // the word or the metric that sixty has for it
	Note          string // how its values differ; "" if they do not
	By            string // the program that exposes a metric of this name; "" for none
}

// All lists the synonyms: words, then metrics.
var All = sync.OnceValue(func() []Synonym {
	var out []Synonym
	for _, row := range engine.Rows(table) {
		out = append(out, Synonym{row[0], row[1], row[2], row[3], row[4]})
	}
	return out
})

// Of finds the synonym for a metric. Here keeps a histogram's suffix.
func Of(metric string) (Synonym, bool) {
	for _, s := range All() {
		suffix, ok := strings.CutPrefix(metric, s.Name)
		if ok && (suffix == "" || slices.Contains(engine.HistogramSuffixes, suffix)) {
			s.Name, s.Here = metric, s.Here+suffix
			return s, true
		}
	}
	return Synonym{}, false
}

// Exposed says which program exposes a metric, if any does; "" for a word.
func (s Synonym) Exposed() string {
	switch {
	case s.By != "":
		return "no release of vLLM exposes " + s.Name + ", only " + s.By + " does"
	case strings.Contains(s.Name, "_"):
		return "no server and no exporter exposes " + s.Name
	}
	return ""
}

// Advice returns what to query in a metric's place, without a final period.
func (s Synonym) Advice() string { return strings.TrimSuffix("write "+s.Here+", "+s.Note, ", ") }

// Translate replaces synonyms in a name by sixty's words: "tbt-p95" becomes "itl-p95".
func Translate(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' })
	for _, w := range words {
		for _, s := range All() {
			if s.Name == strings.ToLower(w) {
				name = strings.Replace(name, w, s.Here, 1)
			}
		}
	}
	return name
}
