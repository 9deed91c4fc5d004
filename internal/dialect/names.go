package dialect

import (
	_ "embed"
	"encoding/csv"
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/engine"
)

// namesCSV is the table behind Known and Named; its head says where it was
// read.
//
//go:embed names.csv
var namesCSV string

// Type is the type of a metric family.
type Type string

// The types of families.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram" // classic: _bucket, _sum and _count
	Summary   Type = "summary"   // without quantiles, as Python's client makes them: _sum and _count
)

// The kinds of a Name that are no engine.
const (
	httpNames    = "http"    // of vLLM's HTTP frontend, prometheus_fastapi_instrumentator
	processNames = "process" // of the frontend's process, Python's client
	v0Names      = "vllm-v0" // families that only the V0 engine has
	v1Names      = "vllm-v1" // families that only the V1 engine has
	bothNames    = "vllm"
	sglangNamed  = "sglang"
	routerNames  = "router" // of vLLM's production-stack, under the engine's prefix
)

// Newest is the newest release of vLLM whose names are known.
const Newest = "0.33.0"

// A Name is what is known of one metric family.
type Name struct {
	Name   string // as a server exposes it, without a histogram's suffix: "vllm:prompt_tokens_total"
	Type   Type
	Engine Engine // VLLM or SGLang; "" for families of the frontend's HTTP server or process

	// Since and Last are the first and the last release that have it, by the
	// releases that were read; Last is "" where the newest one has it. From
	// Hidden on it is there only with --show-hidden-metrics-for-version.
	Since, Last, Hidden string

	Labels []string // beside those of the scraper; "*" stands for many
	Needs  string   // the option or feature without which the family is not there

	// Replacement is the family that carries the same values now, and Instead
	// says what to ask where no family does; both are "" for names in use.
	Replacement string
	Instead     string

	kind string
}

// table parses the embedded table, once. The file is this package's own and
// tests read it whole, so a row that does not parse is left out.
var table = sync.OnceValue(func() []Name {
	r := csv.NewReader(strings.NewReader(namesCSV))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 {
		return nil
	}
	var out []Name
	for _, f := range rows[1:] {
		n := Name{Name: f[0], Type: Type(f[1]), kind: f[2], Since: f[3], Last: f[4], Hidden: f[5], Needs: f[7], Replacement: f[8], Instead: f[9]}
		if f[6] != "" {
			n.Labels = strings.Split(f[6], ";")
		}
		switch n.kind {
		case bothNames, v0Names, v1Names:
			n.Engine = VLLM
		case sglangNamed:
			n.Engine = SGLang
		case routerNames, httpNames, processNames: // of no engine
		}
		out = append(out, n)
	}
	return out
})

var byName = sync.OnceValue(func() map[string]Name {
	m := map[string]Name{}
	for _, n := range table() {
		m[n.Name] = n
	}
	return m
})

// Names lists every family that is known, sorted by engine and name.
func Names() []Name { return slices.Clone(table()) }

// Known looks up the family that a sample's name belongs to: the name as
// exposed, also with a histogram's suffix or _created, and under any of the
// prefixes that vLLM's metrics are met with.
func Known(sample string) (Name, bool) {
	name, _ := Canonical(sample)
	if n, ok := byName()[name]; ok {
		return n, true
	}
	for _, s := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, s); ok {
			if n, ok := byName()[base]; ok && (n.Type == Histogram || n.Type == Summary && s != "_bucket") {
				return n, true
			}
		}
	}
	if base, ok := strings.CutSuffix(name, "_created"); ok {
		for _, family := range []string{base, base + "_total"} {
			if n, ok := byName()[family]; ok && n.Type != Gauge {
				return n, true
			}
		}
	}
	return Name{}, false
}

// Canonical returns a vLLM name under the prefix "vllm:", and the prefix that
// it had; other names come back as they are, with the prefix "".
func Canonical(name string) (canonicalName, prefix string) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(name, p.prefix); ok {
			return canonical + rest, p.prefix
		}
	}
	return name, ""
}

// Gone reports whether no server of the newest release exposes the family.
func (n Name) Gone() bool { return n.Last != "" || n.Hidden != "" }

// In reports whether a V1 engine of a release, such as "0.10" or "0.10.2",
// exposes the family without being asked to; features that it Needs aside. A
// release without a patch stands for all of its patches.
func (n Name) In(release string) bool {
	return n.kind != v0Names && n.released(release)
}

func (n Name) released(release string) bool {
	r := engine.Release(release)
	compare := func(other string) int {
		o := engine.Release(other)
		if r.Minor() == r {
			o = o.Minor()
		}
		return o.Compare(r)
	}
	return compare(n.Since) <= 0 && (n.Last == "" || compare(n.Last) >= 0) && (n.Hidden == "" || compare(n.Hidden) > 0)
}

// samples returns the names of the family's series on a page.
func (n Name) samples(created bool) []string {
	var out []string
	switch n.Type {
	case Histogram:
		out = []string{n.Name + "_bucket", n.Name + "_sum", n.Name + "_count"}
	case Summary:
		out = []string{n.Name + "_sum", n.Name + "_count"}
	default:
		out = []string{n.Name}
	}
	switch {
	case !created || n.kind == processNames:
	case n.Type == Counter:
		out = append(out, strings.TrimSuffix(n.Name, "_total")+"_created")
	case n.Type != Gauge:
		out = append(out, n.Name+"_created")
	}
	return out
}
