package checks

import (
	"cmp"
	"fmt"
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
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
)

var unknownMetric = Check{
	ID: "unknown-metric", Severity: page, Title: "no release has a metric of this name",
	Doc: "A counter without `_total`, or a time without `_seconds`, is certain; any other name outside the catalogue " +
		"of vLLM and SGLang is a doubt, because another program or a recording rule may create it.",
	look: on(checkName),
}

var removedMetric = Check{
	ID: "removed-metric", Severity: page, Title: "the metric was renamed or removed in the release that is served",
	Doc: "Such as `gpu_cache_usage_perc`, which is `kv_cache_usage_perc` from 0.9.2 on. V0's ratios and throughputs " +
		"have no successor: the finding says what to divide. For a server that is older than the removal, the " +
		"finding gives the reason why *it* lacks the name.",
}

var notExposed = Check{
	ID: "not-exposed", Severity: ticket, Title: "the metric exists, but these servers do not expose it",
	Doc: "Another prefix (Ray Serve, KServe, stores without colons), a newer release, another engine, a feature that " +
		"is off.",
}

var histogramName = Check{
	ID: "histogram-name", Severity: page, Title: "a histogram is queried without _bucket, _sum or _count",
	Doc: "`vllm:iteration_tokens_total` is a histogram despite its ending.",
}

// checkName reports a name of an inference server, or of a program beside one, that neither the servers expose nor a
// recording rule makes. The reason decides on the check that reports it.
func checkName(p *pass, v *parser.VectorSelector) {
	name, at := NameOf(v), v.PositionRange()
	if p.isRecorded(name) || p.surface.Exposes(name) || p.Opaque(at.Start, at.Start+posrange.Pos(len(v.Name))) ||
		ownerOf(name) == "" || p.hasAlternative(v) {
		return
	}
	f, known := dialect.Known(name)
	t, _ := p.typeOf(name)
	other, isSynonym := synonym.Of(name)
	switch {
	case isSynonym:
		fix := other.Advice()
		if other.By != "" {
			fix += ", or audit with the URL of " + other.By
		}
		p.report(at, other.Exposed(), fix)
	case !known:
		p.reportUnknown(v)
	case strings.HasSuffix(name, "_created"):
	case t == engine.Histogram:
		p.reportBareHistogram(v, f)
	case f.Engine == "" && f.Replacement != "": // the program's release is not known
		p.check = &removedMetric
		to := f.Replacement + strings.TrimPrefix(name, f.Name)
		p.report(at, name+" is deprecated: "+to+" carries the same values",
			"write "+to+" where the release has it").Severity = ticket
	case p.surface.isGone(f):
		p.reportGone(v, f)
	case f.Engine != "" && len(p.surface.Engines()) > 0:
		p.reportAbsent(v, f)
	}
}

// reportBareHistogram reports a histogram's name without a suffix, unless it may be a native histogram: a metrics page
// does not show whether a server has it.
func (p *pass) reportBareHistogram(v *parser.VectorSelector, f engine.Family) {
	native := p.insideCall("histogram_avg", "histogram_count", "histogram_sum", "histogram_fraction")
	if f.Kind == "router" || native && p.surface.Live && !p.surface.Whole {
		return
	}
	p.check = &histogramName
	name := NameOf(v)
	p.report(v.PositionRange(), name+" is a histogram: only "+name+"_bucket, _sum and _count exist",
		"divide the rate of "+name+"_sum by that of "+name+"_count for a mean, or take histogram_quantile of "+
			name+"_bucket")
}

// ownerOf returns the title of the inference server, or of the program beside one, whose prefix a name has; "" for
// other names.
func ownerOf(name string) string {
	if server, ok := dialect.OtherOf(name); ok {
		return server.Title
	}
	if program, ok := beside.Of(name); ok {
		return program.Title
	}
	if _, prefix := vllm.Canonical(name); prefix != "" {
		return vllm.Engine.Title
	}
	return ""
}

// hasAlternative reports whether the file also asks for a name that the servers expose: on the other side of an "or",
// or for the present name in a query of the same panel. The selector is then for servers of another release.
func (p *pass) hasAlternative(v *parser.VectorSelector) bool {
	asksFor := func(e parser.Node, is func(name string) bool) bool {
		return slices.ContainsFunc(Selectors(e), func(v *parser.VectorSelector) bool { return is(NameOf(v)) })
	}
	for _, n := range p.path {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LOR {
			continue
		}
		other := b.LHS
		if slices.Contains(Selectors(b.LHS), v) {
			other = b.RHS
		}
		if asksFor(other, p.surface.Exposes) {
			return true
		}
	}
	now := p.presentName(NameOf(v))
	return now != "" && p.Role == files.InPanel && slices.ContainsFunc(p.Doc.Queries, func(q *files.Query) bool {
		return q.Role == files.InPanel && q.Name == p.Name && q.Tree != nil &&
			asksFor(q.Tree, func(name string) bool { return name == now })
	})
}

// presentName returns the name under which the servers expose a metric of another release, prefix or engine; "" if they
// do not, or under the same name. A name with the old name's prefix is preferred.
func (p *pass) presentName(name string) (present string) {
	f, ok := dialect.Known(name)
	if !ok {
		return ""
	}
	canonical, prefix := vllm.Canonical(name)
	successor := cmp.Or(f.Replacement, f.Name) + strings.TrimPrefix(canonical, f.Name)
	isOfEngine := func(d dialect.Dialect) bool { return d.Engine == f.Engine }
	hasEngine := slices.ContainsFunc(p.surface.Dialects, isOfEngine) // if not, another engine's name is taken
	for _, d := range p.surface.Dialects {
		to := d.Metric(successor)
		_, otherPrefix := vllm.Canonical(to)
		// Ray's prefix once ended in a colon. vLLM's own must be the same.
		samePrefix := strings.TrimRight(otherPrefix, ":_") == strings.TrimRight(prefix, ":_") &&
			(prefix == "" || prefix[0] != 'v' || prefix == otherPrefix)
		switch {
		case to == name || !p.surface.Exposes(to) || hasEngine && !isOfEngine(d):
		case samePrefix:
			return to
		case present == "":
			present = to
		}
	}
	return present
}

// reportUnknown reports a name that no release has. It is a doubt if another program may have it.
func (p *pass) reportUnknown(v *parser.VectorSelector) {
	name, fix := NameOf(v), "look at /metrics for the right name"
	intended, sure := intendedName(name)
	if intended != "" {
		fix = "perhaps " + intended + " is meant"
	}
	why := ownerOf(name) + " is not known to have " + name
	if _, prefix := vllm.Canonical(name); prefix != "" {
		why = fmt.Sprintf("no release of vLLM (0.2.7 to %s) has %s", vllm.Newest, name)
	}
	absent := p.surface.Live && strings.Count(name, ":") < 2 // names of recording rules have more colons
	if (sure || absent) && !strings.HasPrefix(name, "vllm_") {
		p.report(v.PositionRange(), why, fix)
		return
	}
	p.reportDoubt(v.PositionRange(), why, "a newer one, another program or a recording rule of another file may", fix)
}

// intendedName returns the series' name that is most similar to an unknown one; "" if none is similar. It is sure if
// the two differ only in the ending of a counter or a time.
func intendedName(name string) (intended string, sure bool) {
	canonical, prefix := vllm.Canonical(name)
	withPrefix := func(to string) string {
		if prefix == "vllm_" || prefix == "" {
			return to
		}
		return prefix + strings.TrimPrefix(to, engine.Canonical)
	}
	least := min(len(canonical)/4, 4) + 1
	for _, f := range dialect.Families() {
		if f.Gone() || f.Kind == "router" {
			continue
		}
		for _, series := range f.Samples(false) {
			switch series {
			case canonical + "_total", strings.TrimSuffix(canonical, "_total"), canonical + "_seconds",
				strings.TrimSuffix(canonical, "_bucket") + "_seconds_bucket":
				return withPrefix(series), true
			}
			if d := hint.Distance(canonical, series, least); d < least {
				intended, least = withPrefix(series), d
			}
		}
	}
	return intended, false
}

// reportGone reports a metric that ended, or is hidden, in the servers' release.
func (p *pass) reportGone(v *parser.VectorSelector, f engine.Family) {
	p.check = &removedMetric
	name := NameOf(v)
	why := fmt.Sprintf("%s ended with %s %s", name, ownerOf(name), f.Last)
	if f.Hidden != "" {
		why = fmt.Sprintf("%s is hidden since vLLM %s and ended with %s", name, f.Hidden, f.Last)
	}
	if to := p.presentName(name); to != "" {
		p.reportRename(v, why+"; "+to+" carries the same values", to)
		return
	}
	p.report(v.PositionRange(), why, cmp.Or(f.Instead, "remove the query: nothing measures it since then"))
}

// reportAbsent reports a metric of some release that the servers do not expose.
func (p *pass) reportAbsent(v *parser.VectorSelector, f engine.Family) {
	p.check = &notExposed
	at, to, engines, source := v.PositionRange(), p.presentName(NameOf(v)), p.surface.Engines(), p.surface.Source
	switch {
	case to != "":
		p.reportRename(v, "these servers ("+source+") expose it as "+to, to)
	case !slices.ContainsFunc(engines, func(d dialect.Dialect) bool { return d.Engine == f.Engine }):
		p.report(at, fmt.Sprintf("these servers (%s) run %s, which does not have it", source, engines[0].Engine),
			"ask for that engine's metric")
	case f.Needs != "" && !p.surface.Live: // enabled features are unknown
	case !f.Released(p.surface.release()):
		finding := p.report(at, fmt.Sprintf("it came with vLLM %s; these servers (%s) are %s", f.Since, source,
			cmp.Or(engines[0].Version, "older")), "upgrade, or take the query out")
		if p.Role == files.Record { // the rule may be for servers of several releases
			finding.Severity = info
		}
	case f.Needs != "":
		p.report(at, "it is exposed only with "+f.Needs, "switch it on, or take the query out").Severity = info
	default:
		p.report(at, "these servers ("+source+") do not expose it",
			"take the query out, or find out what switched it off").Severity = info
	}
}
