package engine

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID is the kind of program behind an endpoint, as in JSON: "vllm", "sglang", "dcgm".
type ID string

// An Engine describes one kind of program: how its metrics page is recognized, its names for the canonical metrics
// and flags, which are vLLM's, and the names of a page by release. Each is a directory below this package, and an
// entry in the list of package dialect.
type Engine struct {
	ID       ID
	Title    string // for people: "SGLang"
	Selector string // regular expression of its metric names
	Alerts   string // prefix of the alerts about it: "SGLang"; it never changes, because people route by it

	// Prefix is the prefix of all its metrics; "" if there are several.
	Prefix string
	// Port is the usual port of its metrics, and Enable says how to enable them, a sentence. Both are "" for programs
	// that are no inference servers, and for vLLM, which has several frontends.
	Port, Enable string
	// Images is a regular expression for a part of its image names; "" for programs that are no inference servers.
	Images string
	// Releases names the known releases, and Tried the evidence for them, for docs/engine-tables.md.
	Releases, Tried string

	// Like returns a regular expression of its servers' names for a canonical metric, given without prefix. It is nil
	// for programs that are no inference servers.
	Like func(name string) string

	// Detect returns the Naming of a page with these metric names, and whether it is a page of this engine at all.
	Detect func(names map[string]bool) (Naming, bool)

	// ReleaseNames returns the names on a release's page without a server at hand, and the release in the id, "" for
	// the newest; nil if the id belongs to another engine. IDs lists the ids that it knows, apart from releases.
	ReleaseNames func(id string) (names []string, release string, err error)
	IDs          []string

	Families func() []Family // nil if they are not known
	Flags    Flags
}

// A Naming maps the canonical metrics to one endpoint's names.
type Naming struct {
	ID string // the dialect: "vllm-v1", "vllm-v0", "vllm-v1-ray", "sglang", "dcgm", …

	// Version is the range of releases that the set of names fits, such as "0.20 to 0.22", or "" if it is unknown.
	Version string

	// Identity lists labels beside "instance" that distinguish the servers behind one scraped endpoint, such as Ray's
	// replicas.
	Identity []string

	Prefix  string                       // replaces "vllm:"
	Renamed map[string]string            // canonical name, without prefix where it has one, → name without prefix
	Only    map[string][]*labels.Matcher // canonical name, without prefix → matchers of its series
	Exprs   map[string]indicator.Expr    // by signal: in names of its own, with canonical labels
	Lacks   map[string]string            // signal that its metrics cannot yield → what they lack

	// HTTP is the counter of answers by handler and status, if it is not vLLM's http_requests_total.
	HTTP Answers

	Rank   []string        // labels of a data-parallel rank, if not "engine"
	Server string          // label of a gateway's upstream, if not "upstream"
	Copies []string        // labels of duplicate series, one for each process of a rank
	Later  map[string]bool // names, with prefix, that a page has only after their first event
	Log    bool            // made of an engine's log: see NamingOfLog
}

// Answers is a counter of HTTP answers, with the labels that hold the handler and the status.
type Answers struct{ Metric, Handler, Status string }

// Canonical is the prefix of the canonical names of metrics, which are vLLM's.
const Canonical = "vllm:"

// HistogramSuffixes end the names of a classic histogram's series.
var HistogramSuffixes = []string{"_bucket", "_sum", "_count"}

// InNames returns a signal's expression with some metrics replaced by an engine's own equivalent metrics.
func InNames(s *indicator.Signal, own map[string]string) indicator.Expr {
	rw := indicator.Rewriting{
		Series: func(name string) indicator.Series { return indicator.Series{Metric: cmp.Or(own[name], name)} },
	}
	return rw.Compile(s.Expr, s.Scope)
}

// RenameHistograms maps canonical histograms to an engine's names; their series match where.
func (n *Naming) RenameHistograms(own map[string]string, where ...*labels.Matcher) {
	for canonical, name := range own {
		for _, s := range HistogramSuffixes {
			n.Renamed[canonical+s] = name + s
			if where != nil {
				n.Only[canonical+s] = where
			}
		}
	}
}

// serving are canonical names, without prefix, of the request path: one of them must be on a page, so that another
// program's names with the same prefix are not mistaken for a server's.
var serving = []string{
	"num_requests_running", "num_requests_waiting", "generation_tokens_total", "time_to_first_token_seconds_count",
	"request_success_total",
}

// OfPrefix completes an engine whose metrics begin with its Prefix: naming returns the page's names for the canonical
// metrics, from its names without prefix; table lists its families.
func OfPrefix(e Engine, naming func(prefix string, has func(name string) bool) Naming, table string) Engine {
	e.Families = sync.OnceValue(func() []Family {
		all := ParseFamilies(table)
		for i := range all {
			all[i].Engine = e.ID
		}
		return all
	})
	for i := range e.metricPrefixes() {
		e.IDs = append(e.IDs, string(e.ID)+[]string{"", "-normalized"}[i])
	}
	// pageOf returns the names of a release, "" for the newest, with its features at their defaults.
	pageOf := func(prefix, release string) (names []string) {
		for _, f := range e.Families() {
			if f.Needs == "" && (release == "" && f.Last == "" || release != "" && f.Released(release)) {
				for _, name := range f.Samples(false) {
					names = append(names, prefix+strings.TrimPrefix(name, e.Prefix))
				}
			}
		}
		return names
	}
	own := sync.OnceValue(func() map[string]string { // the newest release's names
		page := pageOf("", "")
		return naming(e.Prefix, func(name string) bool { return slices.Contains(page, name) }).Renamed
	})
	start := strings.Replace(e.Prefix, ":", "[:_]", 1)
	e.Selector = start + ".+"
	e.Like = func(name string) string { return start + cmp.Or(own()[name], name) }
	e.Detect = func(names map[string]bool) (Naming, bool) {
		for i, prefix := range e.metricPrefixes() {
			if slices.ContainsFunc(serving, func(m string) bool { return names[prefix+cmp.Or(own()[m], m)] }) {
				n := naming(prefix, func(name string) bool { return names[prefix+name] })
				n.ID, n.Prefix = e.IDs[i], prefix
				return n, true
			}
		}
		return Naming{}, false
	}
	e.ReleaseNames = func(id string) (names []string, release string, err error) {
		if i := slices.Index(e.IDs, id); i >= 0 {
			return pageOf(e.metricPrefixes()[i], ""), "", nil
		}
		rest, ok := strings.CutPrefix(id, string(e.ID)+"-")
		if r, err := ParseRelease(rest); ok && err == nil {
			return pageOf(e.Prefix, string(r)), string(r), nil
		}
		return nil, "", nil
	}
	return e
}

// metricPrefixes lists the prefixes that the engine's metrics may have. A scraper that asks for OpenMetrics without
// escaping=allow-utf-8 gets underscores from prometheus_client 0.25 and later, as do stores that forbid colons.
func (e Engine) metricPrefixes() []string {
	if stem, ok := strings.CutSuffix(e.Prefix, ":"); ok {
		return []string{e.Prefix, stem + "_"}
	}
	return []string{e.Prefix}
}

// Canonical returns a metric's name with the engine's Prefix, whichever of its prefixes it has; false if it has none.
func (e Engine) Canonical(name string) (string, bool) {
	if strings.HasPrefix(name, e.Prefix) {
		return name, true
	}
	for _, prefix := range e.metricPrefixes()[1:] {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return e.Prefix + rest, true
		}
	}
	return name, false
}
