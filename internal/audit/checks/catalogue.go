package checks

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/beside"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// missing reports whether a selector asks for a name of an inference server that is not exposed, that no
// recording rule makes, and beside which nothing stands in for it.
func (p *pass) missing(v *parser.VectorSelector) bool {
	name := NameOf(v)
	if name == "" || p.recorded(name) || !isEngineName(name) || p.surface.Exposes(name) || p.hasAlternative(v) ||
		p.besideItsHeir(name) {
		return false
	}
	at := v.PosRange.Start
	return v.Name == "" || !p.Opaque(at, at+posrange.Pos(len(v.Name)))
}

// hasAlternative reports whether a selector is one side of an "or" whose other side is there: written for
// servers of several releases.
func (p *pass) hasAlternative(v *parser.VectorSelector) bool {
	for _, n := range p.path {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LOR {
			continue
		}
		other := b.LHS
		if slices.Contains(Selectors(b.LHS), v) {
			other = b.RHS
		}
		if slices.ContainsFunc(Selectors(other),
			func(v *parser.VectorSelector) bool { return p.surface.Exposes(NameOf(v)) }) {
			return true
		}
	}
	return false
}

// besideItsHeir reports whether another query of the panel asks for the name that carries the values now:
// written for servers of several releases.
func (p *pass) besideItsHeir(name string) bool {
	to := p.renamed(name)
	return to != "" && p.Role == files.InPanel && slices.ContainsFunc(p.PanelQueries(), func(q *files.Query) bool {
		return q != p.Query && q.Tree != nil && slices.ContainsFunc(Selectors(q.Tree),
			func(v *parser.VectorSelector) bool { return NameOf(v) == to })
	})
}

// renamed returns the metric's present name on the servers at hand, or "".
func (p *pass) renamed(name string) string {
	n, ok := dialect.Known(name)
	if !ok {
		return ""
	}
	canonical, prefix := vllm.Canonical(name)
	now := cmp.Or(n.Replacement, n.Name) + strings.TrimPrefix(canonical, n.Name)
	ofItsEngine := func(d dialect.Dialect) bool { return d.Engine == n.Engine }
	own := slices.ContainsFunc(p.surface.Dialects, ofItsEngine) // another engine's name is for deployments without it
	better := ""
	for _, d := range p.surface.Dialects {
		to := d.Metric(now)
		if to == name || !p.surface.Exposes(to) || own && !ofItsEngine(d) {
			continue
		}
		_, other := vllm.Canonical(to)
		akin := strings.TrimRight(other, ":_") == strings.TrimRight(prefix, ":_") &&
			(prefix == "" || prefix[0] != 'v' || prefix == other)
		if better == "" || akin { // Ray's prefix changed from a colon to an underscore
			better = to
		}
		if akin {
			break
		}
	}
	return better
}

// intendedName returns the name that one of no release may stand for; sure where only an ending is missing or too
// much. It is "" where none is near.
func intendedName(name string) (better string, sure bool) {
	canonical, prefix := vllm.Canonical(name)
	under := func(to string) string {
		if prefix == "vllm_" || to == "" {
			return to
		}
		return prefix + strings.TrimPrefix(to, engine.Canonical)
	}
	other, others := dialect.OtherOf(name)
	program, near := beside.Of(name)
	if others {
		canonical, under = name, func(to string) string { return to }
	}
	for _, to := range []string{canonical + "_total", strings.TrimSuffix(canonical, "_total"), canonical + "_seconds",
		strings.TrimSuffix(canonical, "_bucket") + "_seconds_bucket"} {
		if c, f := classOf(to); to != canonical && c != unknownClass && c != bareHistogram && f.Engine != "" &&
			!f.Gone() {
			return under(to), true
		}
	}
	least := min(len(canonical)/4, 4) + 1
	own := func(f engine.Family) bool {
		return f.Engine == vllm.ID && strings.HasPrefix(canonical, engine.Canonical) || others &&
			f.Engine == other.ID || near && f.Kind == program.Kind
	}
	for _, f := range dialect.Families() {
		if !own(f) || f.Gone() {
			continue
		}
		suffixes := []string{""}
		if f.Type == engine.Histogram {
			suffixes = []string{"_bucket", "_sum", "_count"}
		}
		for _, suffix := range suffixes {
			if d := hint.Distance(canonical, f.Name+suffix, least); d < least {
				better, least = under(f.Name+suffix), d
			}
		}
	}
	return better, false
}

// states are gauges of 0 and 1: a target that is down has a series too.
var states = []string{"up", "probe_success", "vllm:healthy_pods_total", "vllm:engine_sleep_state"}

// isState reports whether a series is there with value 0 where what it says does not hold.
func isState(name string) bool {
	canonical, _ := vllm.Canonical(name)
	return slices.Contains(states, canonical)
}
