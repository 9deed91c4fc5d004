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

// A Surface is what the servers expose: the names, labels and bucket edges that rules and dashboards may use. It is
// read from metrics pages or a Prometheus server, or derived from the name of a dialect.
type Surface struct {
	Source            string // for people: "2 servers", "dialect vllm-0.10"
	Dialects          []dialect.Dialect
	Models, Instances []string      // empty if no server was read
	Interval          time.Duration // between two scrapes; 0 if unknown

	Live  bool // servers were read, so that their absent metrics and their number are known
	Whole bool // a Prometheus server was read, so that absent metrics of all other programs are known too

	// Exposed says where each kind of exposure was seen, for people, without the secret itself.
	Exposed map[Exposure][]string

	names map[string]bool
	edges map[string][]Edge // that were read, by histogram family
}

// NewSurface returns a surface on which nothing was seen yet.
func NewSurface(source string) *Surface {
	return &Surface{
		Source: source, names: map[string]bool{}, edges: map[string][]Edge{}, Exposed: map[Exposure][]string{},
	}
}

// SurfaceOf returns what servers of some dialects expose. Without a dialect it returns what the newest release of every
// engine exposes, behind any prefix.
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

// AddName adds a series' name and, for a bucket, its edge. le is "" for other series.
func (s *Surface) AddName(name, le string) {
	s.names[name] = true
	family, ok := strings.CutSuffix(name, "_bucket")
	v, err := strconv.ParseFloat(le, 64)
	if e := (Edge{v, le}); ok && err == nil && !math.IsInf(v, 1) && !slices.Contains(s.edges[family], e) {
		s.edges[family] = append(s.edges[family], e)
	}
}

// AddTarget adds a server with its dialect. The model and the instance are "" if unknown.
func (s *Surface) AddTarget(d dialect.Dialect, model, instance string) {
	if model != "" && !slices.Contains(s.Models, model) {
		s.Models = append(s.Models, model)
	}
	if instance != "" && !slices.Contains(s.Instances, instance) {
		s.Instances = append(s.Instances, instance)
	}
	s.Dialects = dialect.Distinct(append(s.Dialects, d))
}

// Exposes reports whether some server exposes a series of this name.
func (s *Surface) Exposes(name string) bool { return s.names[name] }

// EdgesOf returns the finite bucket edges of a histogram, ascending; nil if they are not known. Edges that were not
// read from servers are those of vLLM's release.
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

// An Edge is the upper bound of a bucket.
type Edge struct {
	Value float64
	Text  string // the value of its label le
}

// release returns the servers' release of vLLM; "" means the newest.
func (s *Surface) release() string {
	for _, d := range s.Dialects {
		if d.Engine == dialect.VLLM {
			first, _, _ := strings.Cut(d.Version, " ")
			return first
		}
	}
	return ""
}

// isGone reports whether a family has ended, or is hidden, in the servers' release.
func (s *Surface) isGone(f engine.Family) bool {
	r := s.release()
	if r == "" || !f.Gone() || f.Engine != vllm.ID {
		return f.Gone()
	}
	began := engine.Family{Since: f.Since}.Released(r)
	return began && !f.Released(r)
}

// Engines returns the dialects of inference servers, without GPU exporters and gateways.
func (s *Surface) Engines() []dialect.Dialect {
	return slices.DeleteFunc(slices.Clone(s.Dialects), func(d dialect.Dialect) bool { return !d.Serves() })
}
