// Package dialect knows which names an inference server uses for the canonical
// metrics of package indicator: vLLM's V1 and V0 engines by what changed when,
// Ray Serve's and KServe's prefixes, stores that forbid colons, SGLang, and
// NVIDIA's dcgm-exporter beside them.
//
// A dialect is detected from the names that an endpoint really exposes, never
// from a version string. Where no endpoint is at hand, Named derives one from a
// table of what every release exposes; Known looks names up in it. The package
// performs no I/O.
package dialect

import (
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// Engine is the kind of program behind an endpoint.
type Engine string

// A Dialect says how one endpoint names the canonical metrics.
type Dialect struct {
	ID     string // in JSON: "vllm-v1", "vllm-v0", "vllm-v1-ray", "sglang", "dcgm", …
	Engine Engine

	// Version is the range of releases that the set of names fits, such as
	// "0.20 to 0.22", or "" where nothing can be said.
	Version string

	// Identity lists labels beside "instance" that tell apart the servers
	// behind one scraped endpoint, as Ray's replicas.
	Identity []string

	prefix  string            // replaces "vllm:"
	renamed map[string]string // canonical name without prefix → name without prefix
	exprs   map[string]string // signal name → PromQL, canonical labels, names already of this dialect
	derived map[string]string // signal name → PromQL of indicator.Alternative, in canonical names
	has     map[string]bool   // names exposed
	key     string            // see Key
}

// canonical is the prefix of vLLM's metrics in package indicator.
const canonical = "vllm:"

var histogramSuffixes = []string{"_bucket", "_sum", "_count"}

// Detect finds the dialect of an endpoint from the names that it exposes. The
// second result is false when the names are of no engine that sixty knows.
func Detect(names []string) (Dialect, bool) {
	d, ok := detect(names)
	if ok {
		d.key = d.tell()
	}
	return d, ok
}

func detect(names []string) (Dialect, bool) {
	has := make(map[string]bool, len(names))
	for _, n := range names {
		has[n] = true
	}
	for _, e := range engines {
		if d, ok := e.detect(names, has); ok {
			return d, true
		}
	}
	return Dialect{}, false
}

// A program is one kind of endpoint: how it is told by the names on its page, and which
// those are where no page is at hand. Each stands in a file of its own.
type program struct {
	engine   Engine
	selector string // regular expression of its metric names
	detect   func(names []string, has map[string]bool) (Dialect, bool)
	page     func() []string // names of the newest release, for Named; nil where releases are told apart
}

// engines are tried in this order.
var engines = []program{vllmServer, sglangServer, dcgmExporter}

// Selector is the regular expression of the metric names that any dialect
// exposes: what to ask a Prometheus server for to find the targets.
var Selector = selector()

func selector() string {
	var out []string
	for _, e := range engines {
		out = append(out, e.selector)
	}
	return strings.Join(out, "|")
}

// hasPrefix returns a detector of pages with a name that begins with a prefix.
func hasPrefix(prefix string, of func(has map[string]bool) Dialect) func([]string, map[string]bool) (Dialect, bool) {
	return func(names []string, has map[string]bool) (Dialect, bool) {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) }) {
			return Dialect{}, false
		}
		return of(has), true
	}
}

// rename asks for a name under the one that came before it, where the endpoint exposes
// that alone. A server that exposes both during a deprecation is asked under the new
// one: they carry the same values (vLLM 0.9.2 to 0.11).
func (d *Dialect) rename(now, old string) {
	if !d.has[d.prefix+now] && d.has[d.prefix+old] {
		d.renamed[now] = old
	}
}

// derive takes the expressions of signals for what the endpoint does not expose.
func (d *Dialect) derive() {
	d.derived = map[string]string{}
	exposes := func(name string) bool { return d.has[d.Metric(name)] }
	for _, s := range indicator.All() {
		i := slices.IndexFunc(s.Otherwise, func(a indicator.Alternative) bool {
			return !exposes(a.Without) && (a.With == "" || exposes(a.With))
		})
		if i >= 0 {
			d.derived[s.Name] = s.Otherwise[i].Expr
		}
	}
}

// Metric returns the name under which the endpoint exposes a canonical metric,
// whether or not it does expose it.
func (d Dialect) Metric(name string) string {
	rest, ok := strings.CutPrefix(name, canonical)
	if !ok {
		if r, renamed := d.renamed[name]; renamed {
			return r
		}
		return name
	}
	if r, renamed := d.renamed[rest]; renamed {
		rest = r
	}
	return d.prefix + rest
}

// Expr returns the signal's expression for this dialect: the canonical one
// (whose names Metric translates), or another one with names already of this
// dialect where the metric does not exist; own says which.
func (d Dialect) Expr(s *indicator.Signal) (expr string, own bool) {
	if e, ok := d.exprs[s.Name]; ok {
		return e, true
	}
	if e, ok := d.derived[s.Name]; ok {
		return e, false
	}
	return s.PromQL(), false
}

// Missing returns the metrics, in the dialect's names, that the signal needs
// and the endpoint does not expose.
func (d Dialect) Missing(s *indicator.Signal) []string {
	expr, own := d.Expr(s)
	names, err := indicator.Metrics(expr)
	if err != nil {
		return nil
	}
	var missing []string
	for _, n := range names {
		if !own {
			n = d.Metric(n)
		}
		if b, ok := strings.CutSuffix(n, "_bucket"); ok {
			n = b + "_count"
		}
		// up and scrape_* are the scraper's own; the endpoint never has them.
		if !d.Exposes(n) && n != "up" && !strings.HasPrefix(n, "scrape_") {
			missing = append(missing, n)
		}
	}
	return missing
}

// newer reports whether release a comes after release b; any release comes
// after "".
func newer(a, b string) bool { return engine.FindRelease(a).Compare(engine.FindRelease(b)) > 0 }

// Names lists the names that the endpoint exposes, sorted.
func (d Dialect) Names() []string { return slices.Sorted(maps.Keys(d.has)) }

// Exposes reports whether the endpoint exposes a name. Where a histogram has a
// count, it has buckets.
func (d Dialect) Exposes(name string) bool {
	if b, ok := strings.CutSuffix(name, "_bucket"); ok {
		name = b + "_count"
	}
	return d.has[name]
}

// Key tells apart dialects that need different queries.
func (d Dialect) Key() string { return d.key }

func (d Dialect) tell() string {
	var b strings.Builder
	b.WriteString(d.prefix)
	for _, m := range []map[string]string{d.renamed, d.exprs, d.derived} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			b.WriteString("|" + k + "=" + m[k])
		}
	}
	for _, s := range indicator.All() {
		if len(d.Missing(s)) > 0 {
			b.WriteString("|-" + s.Name)
		}
	}
	return b.String()
}
