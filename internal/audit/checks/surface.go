package checks

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Surface is what the servers expose: the names, labels and bucket edges that
// rules and dashboards may speak of. It is read from pages, from a Prometheus
// server, or derived from the name of a dialect.
type Surface struct {
	// Source says where it comes from, for people: "2 servers", "vLLM 0.10".
	Source string

	Dialects []dialect.Dialect

	// Live means that running servers were read, so that absent metrics and the number of servers are known.
	Live bool

	// Whole says that everything stored is known, as a Prometheus server tells
	// it, not the pages of inference servers alone.
	Whole bool

	// Models and Instances are those that were seen.
	Models, Instances []string

	// Interval is the time between two scrapes, 0 where it is not known.
	Interval time.Duration

	names map[string]bool
	edges map[string][]Edge // by histogram family, as they were seen

	Exposed map[Exposure][]string // what is exposed, for people, without secrets
}

// NewSurface returns a surface on which nothing was seen yet.
func NewSurface(source string) *Surface {
	return &Surface{Source: source, names: map[string]bool{}, edges: map[string][]Edge{}, Exposed: map[Exposure][]string{}}
}

// SurfaceOf returns what servers of dialects expose, by their names. Without one it returns what servers of the newest
// releases expose, behind any prefix: for files of which nobody said what they are for.
func SurfaceOf(ids ...string) (*Surface, error) {
	s := NewSurface("dialect " + strings.Join(ids, ","))
	if len(ids) == 0 {
		ids = []string{"vllm-v1", "vllm-v1-ray", "vllm-v1-kserve", "vllm-v1-normalized"}
		var others []string
		for _, e := range dialect.Others() {
			others = append(others, e.Title)
			ids = append(ids, e.IDs...)
		}
		s.Source = "the metrics of vLLM " + vllm.Newest + ", " + render.And(others)
	}
	for _, id := range ids {
		d, err := dialect.Named(id)
		if err != nil {
			return nil, err
		}
		s.Dialects = append(s.Dialects, d)
		for _, name := range d.Names() {
			s.names[name] = true
		}
	}
	return s, nil
}

// AddName adds a name and, if le is not "", one bucket bound.
func (s *Surface) AddName(name, le string) {
	s.names[name] = true
	family, ok := strings.CutSuffix(name, "_bucket")
	v, err := strconv.ParseFloat(le, 64)
	if e := (Edge{v, le}); ok && err == nil && !math.IsInf(v, 1) && !slices.Contains(s.edges[family], e) {
		s.edges[family] = append(s.edges[family], e)
	}
}

// AddTarget adds a server with its dialect. The model and the instance are "" where they are not known.
func (s *Surface) AddTarget(d dialect.Dialect, model, instance string) {
	if model != "" && !slices.Contains(s.Models, model) {
		s.Models = append(s.Models, model)
	}
	if instance != "" && !slices.Contains(s.Instances, instance) {
		s.Instances = append(s.Instances, instance)
	}
	s.Dialects = dialect.Distinct(append(s.Dialects, d))
}

// Exposes reports whether a series' name is there.
func (s *Surface) Exposes(name string) bool { return s.names[name] }

// EdgesOf returns the finite bucket edges of a histogram, ascending, and how
// they are written; nil where they are not known.
func (s *Surface) EdgesOf(family string) []Edge {
	out := slices.Clone(s.edges[family])
	if len(out) == 0 {
		for _, v := range vllm.Bounds(family, s.release()) {
			text := strconv.FormatFloat(v, 'f', -1, 64)
			if !strings.Contains(text, ".") {
				text += ".0" // as Python's client writes it
			}
			out = append(out, Edge{v, text})
		}
	}
	slices.SortFunc(out, func(a, b Edge) int { return cmp.Compare(a.Value, b.Value) })
	return slices.CompactFunc(out, func(a, b Edge) bool { return a.Value == b.Value })
}

// An Edge is where a bucket ends, and how that is written.
type Edge struct {
	Value float64
	Text  string
}

// release returns the release that a dialect by name stands for, "" for the
// newest.
func (s *Surface) release() string {
	for _, d := range s.Dialects {
		if d.Engine == dialect.VLLM {
			first, _, _ := strings.Cut(d.Version, " ")
			return first
		}
	}
	return ""
}

// isGone reports whether a family has ended, or is hidden, in the release that is served.
func (s *Surface) isGone(f engine.Family) bool {
	r := s.release()
	if r == "" || !f.Gone() || f.Engine != vllm.ID {
		return f.Gone()
	}
	began := engine.Family{Since: f.Since}.Released(r)
	return began && !f.Released(r)
}

// Engines returns the dialects that are of inference servers.
func (s *Surface) Engines() []dialect.Dialect {
	return slices.DeleteFunc(slices.Clone(s.Dialects), func(d dialect.Dialect) bool { return !d.Serves() })
}
