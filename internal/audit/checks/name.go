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
	Doc: "A counter without `_total`, or a time without `_seconds`, is certain; any other name outside the catalogue of vLLM and SGLang " +
		"is a doubt, because another program or a recording rule may create it.",
	look: on(judgeName),
}

var removedMetric = Check{
	ID: "removed-metric", Severity: page, Title: "the metric was renamed or removed in the release that is served",
	Doc: "Such as `gpu_cache_usage_perc`, which is `kv_cache_usage_perc` from 0.9.2 on. V0's ratios and throughputs have no successor: the " +
		"finding says what to divide. For a server that is older than the removal, the finding gives the reason why *it* lacks the name.",
}

var notExposed = Check{
	ID: "not-exposed", Severity: ticket, Title: "the metric exists, but these servers do not expose it",
	Doc: "Another prefix (Ray Serve, KServe, stores without colons), a newer release, another engine, a feature that is off.",
}

var histogramName = Check{
	ID: "histogram-name", Severity: page, Title: "a histogram is queried without _bucket, _sum or _count",
	Doc: "`vllm:iteration_tokens_total` is a histogram despite its ending.",
}

// judgeName reports a name of an inference server, or of a program beside one, that is not exposed and that no
// recording rule makes, by the reason for it.
func judgeName(p *pass, v *parser.VectorSelector) {
	name, at := NameOf(v), v.PositionRange()
	if p.recorded(name) || p.surface.Exposes(name) || p.Opaque(at.Start, at.Start+posrange.Pos(len(v.Name))) {
		return
	}
	if ownerOf(name) == "" || p.hasAlternative(v) {
		return
	}
	f, known := dialect.Known(name)
	t, _ := p.typeOf(name)
	guess, isGuess := synonym.Of(name)
	native := p.insideCall("histogram_avg", "histogram_count", "histogram_sum", "histogram_fraction")
	switch {
	case isGuess:
		better := guess.Advice()
		if guess.By != "" {
			better += ", or audit with the URL of " + guess.By
		}
		p.report(at, guess.Exposed(), better)
	case !known:
		p.reportUnknown(v)
	case strings.HasSuffix(name, "_created"), t == engine.Histogram && f.Kind == "router":
	case t == engine.Histogram && native && p.surface.Live && !p.surface.Whole:
	case t == engine.Histogram:
		p.check = &histogramName
		p.report(at, name+" is a histogram: only "+name+"_bucket, _sum and _count exist",
			"divide the rate of "+name+"_sum by that of "+name+"_count for a mean, or take histogram_quantile of "+name+
				"_bucket")
	case f.Engine == "" && f.Replacement != "": // of a program whose release is not known
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

// ownerOf returns the title of the inference server, or of the program beside one, in whose name space a name is; ""
// without one.
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

// hasAlternative reports whether a selector is for servers of another release: on one side of an "or" whose other side
// is there, or beside a query of the same panel for the name that carries the values now.
func (p *pass) hasAlternative(v *parser.VectorSelector) bool {
	asks := func(e parser.Node, is func(name string) bool) bool {
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
		if asks(other, p.surface.Exposes) {
			return true
		}
	}
	heir := p.renamed(NameOf(v))
	return heir != "" && p.Role == files.InPanel && slices.ContainsFunc(p.Doc.Queries, func(q *files.Query) bool {
		return q.Role == files.InPanel && q.Name == p.Name && q.Tree != nil &&
			asks(q.Tree, func(name string) bool { return name == heir })
	})
}

// renamed returns the metric's present name on the servers at hand, or "".
func (p *pass) renamed(name string) (better string) {
	f, ok := dialect.Known(name)
	if !ok {
		return ""
	}
	canonical, prefix := vllm.Canonical(name)
	now := cmp.Or(f.Replacement, f.Name) + strings.TrimPrefix(canonical, f.Name)
	ofItsEngine := func(d dialect.Dialect) bool { return d.Engine == f.Engine }
	own := slices.ContainsFunc(p.surface.Dialects, ofItsEngine) // another engine's name is for deployments without it
	for _, d := range p.surface.Dialects {
		to := d.Metric(now)
		_, other := vllm.Canonical(to)
		akin := strings.TrimRight(other, ":_") == strings.TrimRight(prefix, ":_") && // Ray's changed from a colon
			(prefix == "" || prefix[0] != 'v' || prefix == other)
		switch {
		case to == name || !p.surface.Exposes(to) || own && !ofItsEngine(d):
		case akin:
			return to
		case better == "":
			better = to
		}
	}
	return better
}

// reportUnknown reports a name that no release has. Where it may be another program's it is a doubt.
func (p *pass) reportUnknown(v *parser.VectorSelector) {
	name, fix := NameOf(v), "look at /metrics for the name that it has"
	better, sure := intendedName(name)
	if better != "" {
		fix = "perhaps " + better + " is meant"
	}
	why := ownerOf(name) + " is not known to have " + name
	if _, prefix := vllm.Canonical(name); prefix != "" {
		why = fmt.Sprintf("no release of vLLM (0.2.7 to %s) has %s", vllm.Newest, name)
	}
	told := p.surface.Live && strings.Count(name, ":") < 2 // a recording rule's name has more
	if (sure || told) && !strings.HasPrefix(name, "vllm_") {
		p.report(v.PositionRange(), why, fix)
		return
	}
	p.addDoubt(v.PositionRange(), why, "a newer one, another program or a recording rule of another file may", fix)
}

// intendedName returns the name that one of no release may stand for; sure where only an ending is missing or too
// much. It is "" where none is near.
func intendedName(name string) (better string, sure bool) {
	canonical, prefix := vllm.Canonical(name)
	under := func(to string) string {
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
				return under(series), true
			}
			if d := hint.Distance(canonical, series, least); d < least {
				better, least = under(series), d
			}
		}
	}
	return better, false
}

// reportGone reports a metric that ended before the release that is served.
func (p *pass) reportGone(v *parser.VectorSelector, f engine.Family) {
	p.check = &removedMetric
	name := NameOf(v)
	why := fmt.Sprintf("%s ended with %s %s", name, ownerOf(name), f.Last)
	if f.Hidden != "" {
		why = fmt.Sprintf("%s is hidden since vLLM %s and ended with %s", name, f.Hidden, f.Last)
	}
	if to := p.renamed(name); to != "" {
		p.reportRename(v, why+"; "+to+" carries the same values", to)
		return
	}
	p.report(v.PositionRange(), why, cmp.Or(f.Instead, "remove the query: nothing measures it since then"))
}

// reportAbsent reports a metric that exists, and that the servers at hand do not expose.
func (p *pass) reportAbsent(v *parser.VectorSelector, f engine.Family) {
	p.check = &notExposed
	at, to, engines, source := v.PositionRange(), p.renamed(NameOf(v)), p.surface.Engines(), p.surface.Source
	switch {
	case to != "":
		p.reportRename(v, "these servers ("+source+") expose it as "+to, to)
	case !slices.ContainsFunc(engines, func(d dialect.Dialect) bool { return d.Engine == f.Engine }):
		p.report(at, fmt.Sprintf("these servers (%s) are %s's", source, engines[0].Engine),
			"ask for that engine's metric")
	case f.Needs != "" && !p.surface.Live: // enabled features are unknown
	case !f.Released(p.surface.release()):
		found := p.report(at, fmt.Sprintf("it came with vLLM %s; these servers (%s) are %s", f.Since, source,
			cmp.Or(engines[0].Version, "older")), "upgrade, or take the query out")
		if p.Role == files.Record { // for servers of several releases
			found.Severity = info
		}
	case f.Needs != "":
		p.report(at, "it is there only with "+f.Needs, "switch it on, or take the query out").Severity = info
	default:
		p.report(at, "these servers ("+source+") do not expose it",
			"take the query out, or find out what switched it off").Severity = info
	}
}
