// Package beside describes the metrics of programs beside inference servers that people write rules about: llm-d's
// endpoint picker, with both generations of its names, LMCache and AIBrix.
package beside

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

//go:embed families.csv
var table string

// InServers matches metrics of programs on the page of their server: LMCache, which names the model by its path.
const InServers = "lmcache:.+"

// Families returns their metric families; Kind is the program.
var Families = sync.OnceValue(func() []engine.Family { return engine.ParseFamilies(table) })

// A Program has metrics that begin with one of its prefixes.
type Program struct {
	Kind, Title string
	prefixes    []string
}

var programs = []Program{
	{"llm-d", "llm-d's endpoint picker", []string{"llm_d_epp_", "llm_d_inference_scheduler_", "inference_objective_", "inference_pool_", "inference_extension_"}},
	{"lmcache", "LMCache", []string{"lmcache:", "lmcache_mp_", "lmcache_blend_"}},
	{"aibrix", "AIBrix", []string{"aibrix_"}},
}

// Of finds the program that exposes a metric.
func Of(name string) (Program, bool) {
	i := slices.IndexFunc(programs, func(p Program) bool {
		return slices.ContainsFunc(p.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	if i < 0 {
		return Program{}, false
	}
	return programs[i], true
}
