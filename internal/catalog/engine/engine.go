package engine

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// ID is the kind of program behind an endpoint, as in JSON: "vllm", "sglang", "dcgm".
type ID string

// An Engine is what is known of one kind of program: how it is told by the names on
// its metrics page, what it calls the canonical metrics and flags, which are vLLM's,
// and which names a page has where none is at hand. Each is a directory beneath this
// package, and an entry in the list of package dialect.
type Engine struct {
	ID       ID
	Selector string // regular expression of its metric names

	// Like returns a regular expression of the names under which its servers show a canonical
	// metric, which is given without prefix; nil of what is no inference server.
	Like func(name string) string

	// Detect returns how a page with these names names the canonical metrics, and
	// whether it is a page of this engine at all.
	Detect func(names map[string]bool) (Naming, bool)

	// Page returns the names on the page of a server that is not at hand, and the
	// release that was asked for, "" for the newest; nil where the id is not one of
	// this engine's. IDs lists those that it knows, for messages.
	Page func(id string) (names []string, release string, err error)
	IDs  []string

	Families func() []Family // nil where they are not known
	Flags    Flags
}

// A Naming says how one endpoint names the canonical metrics.
type Naming struct {
	ID string // of the dialect: "vllm-v1", "vllm-v0", "vllm-v1-ray", "sglang", "dcgm", …

	// Version is the range of releases that the set of names fits, such as
	// "0.20 to 0.22", or "" where nothing can be said.
	Version string

	// Identity lists labels beside "instance" that tell apart the servers behind one
	// scraped endpoint, as Ray's replicas.
	Identity []string

	Prefix  string                    // replaces "vllm:"
	Renamed map[string]string         // canonical name, without prefix where it has one, → name without prefix
	Exprs   map[string]indicator.Expr // by signal: in names of its own, with canonical labels
	Lacks   map[string]string         // signal that its metrics cannot tell → what they would need
}

// Canonical is the prefix of the canonical names of metrics, which are vLLM's.
const Canonical = "vllm:"

// HistogramSuffixes end the names of a classic histogram's series.
var HistogramSuffixes = []string{"_bucket", "_sum", "_count"}

// HasPrefix returns a Detect of pages with a name that begins with a prefix.
func HasPrefix(prefix string, naming func(names map[string]bool) Naming) func(map[string]bool) (Naming, bool) {
	return func(names map[string]bool) (Naming, bool) {
		for n := range names {
			if strings.HasPrefix(n, prefix) {
				return naming(names), true
			}
		}
		return Naming{}, false
	}
}
