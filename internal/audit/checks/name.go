package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine/beside"
	"github.com/sixty-dev/sixty/internal/catalog/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/catalog/engine/gateway"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
)

var unknownMetric = Check{
	ID: "unknown-metric", Severity: page, Title: "no release has a metric of this name",
	Doc: "A counter without `_total`, or a time without `_seconds`, is certain; any other name outside the catalogue of vLLM, SGLang and " +
		"NVIDIA's fields is a doubt, because another program or a recording rule may create it.",
	node: on(func(p *pass, v *parser.VectorSelector) {
		name, at := NameOf(v), v.PositionRange()
		if p.recorded(name) || name == "" || p.surface.Exposes(name) || p.Opaque(at.Start, at.Start+1) {
			return
		}
		if s, ok := synonym.Of(name); ok && p.missing(v) {
			better := s.Advice()
			if s.By != "" {
				better += ", or audit with the URL of " + s.By
			}
			p.report(at, s.Exposed(), better)
			return
		}
		const elsewhere = "a newer one, another program or a recording rule of another file may"
		look := "look at /metrics for the name that it has"
		text, field := dcgm.FieldOf(name)
		_, known := dialect.Known(name)
		switch {
		case text.Type == "text" && p.Role != files.InVariable:
			p.report(at, name+" is a text or a list, which dcgm-exporter exposes as a label at most, never as a series",
				"take the query out")
		case known || field:
		case ofGateway(name + "_total"):
			p.report(at, name+" is a counter, which its client library exposes as "+name+"_total",
				"write "+name+"_total")
		case strings.HasPrefix(name, "DCGM_FI_"):
			p.addDoubt(at, "DCGM has no field "+name+" (2.2 to 4.6)", "a newer release may", look)
		case !isEngineName(name):
		case p.missing(v):
			better, sure := intendedName(name)
			if better != "" {
				look = "perhaps " + better + " is meant"
			}
			why := fmt.Sprintf("no release of vLLM (0.2.7 to %s) has %s", vllm.Newest, name)
			if other, ok := dialect.OtherOf(name); ok {
				why = other.Title + " is not known to have " + name
			} else if other, ok := beside.Of(name); ok {
				why = other.Title + " is not known to have " + name
			}
			told := p.surface.Live && strings.Count(name, ":") < 2 // a recording rule's name has more
			if (sure || told) && !strings.HasPrefix(name, "vllm_") {
				p.report(at, why, look)
			} else {
				p.addDoubt(at, why, elsewhere, look)
			}
		}
	}),
}

// ofGateway reports whether a gateway's request counters, as the diagnosis reads them, have a name.
func ofGateway(name string) bool {
	return slices.ContainsFunc(gateway.Others, func(g gateway.Product) bool { return slices.Contains(g.Names(), name) })
}

var removedMetric = Check{
	ID: "removed-metric", Severity: page, Title: "the metric was renamed or removed in the release that is served",
	Doc: "Such as `gpu_cache_usage_perc`, which is `kv_cache_usage_perc` from 0.9.2 on. V0's ratios and throughputs have no successor: the " +
		"finding says what to divide. For a server that is older than the removal, the finding gives the reason why *it* lacks the name.",
	node: on(func(p *pass, v *parser.VectorSelector) {
		name := NameOf(v)
		n, ok := dialect.Known(name)
		if ok && n.Engine == "" && n.Replacement != "" && p.missing(v) {
			to := n.Replacement + strings.TrimPrefix(name, n.Name)
			p.report(v.PositionRange(), name+" is deprecated: "+to+" carries the same values",
				"write "+to+" where the release has it").Severity = ticket
			return
		}
		if c, _ := classOf(name); !ok || !p.surface.isGone(n) || c == bareHistogram || c == created || !p.missing(v) {
			return
		}
		of, _ := dialect.OtherOf(name)
		why := fmt.Sprintf("%s ended with %s %s", name, cmp.Or(of.Title, "vLLM"), n.Last)
		if n.Hidden != "" {
			why = fmt.Sprintf("%s is hidden since vLLM %s and ended with %s", name, n.Hidden, n.Last)
		}
		if to := p.renamed(name); to != "" {
			p.reportRename(v, why+"; "+to+" carries the same values", to)
			return
		}
		p.report(v.PositionRange(), why, cmp.Or(n.Instead, "remove the query: nothing measures it since then"))
	}),
}

var notExposed = Check{
	ID: "not-exposed", Severity: ticket, Title: "the metric exists, but these servers do not expose it",
	Doc: "Another prefix (Ray Serve, KServe, stores without colons), a newer release, another engine, a feature that is off. In a fleet of " +
		"two releases also a name that only some servers have: the others are silently left out.",
	node: on(func(p *pass, v *parser.VectorSelector) {
		name, at := NameOf(v), v.PositionRange()
		n, ok := dialect.Known(name)
		engines := p.surface.Engines()
		if !ok || n.Engine == "" || len(engines) == 0 {
			return
		}
		if p.surface.Exposes(name) {
			p.notEverywhere(v)
			return
		}
		c, _ := classOf(name)
		if p.surface.isGone(n) || c == bareHistogram || c == created || !p.missing(v) {
			return
		}
		source := p.surface.Source
		switch to := p.renamed(name); {
		case to != "":
			p.reportRename(v, "these servers ("+source+") expose it as "+to, to)
		case !slices.ContainsFunc(engines, func(d dialect.Dialect) bool { return d.Engine == n.Engine }):
			p.report(at, fmt.Sprintf("these servers (%s) are %s's", source, engines[0].Engine),
				"ask for that engine's metric")
		case n.Needs != "" && !p.surface.Live: // enabled features are unknown
		case !n.Released(p.surface.release()) && p.Role == files.Record: // for servers of several releases
			p.report(at, fmt.Sprintf("it came with vLLM %s: nothing is recorded for these servers (%s)", n.Since,
				source), "leave it for the upgrade, or take the rule out").Severity = info
		case n.Needs != "":
			p.report(at, "it is there only with "+n.Needs, "switch it on, or take the query out").Severity = info
		case !n.Released(p.surface.release()):
			p.report(at, fmt.Sprintf("it came with vLLM %s; these servers (%s) are %s", n.Since, source,
				cmp.Or(engines[0].Version, "older")), "upgrade, or take the query out")
		default:
			p.report(at, "these servers ("+source+") do not expose it",
				"take the query out, or find out what switched it off").Severity = info
		}
	}),
}

// notEverywhere reports a name that some of the servers at hand have under another one.
func (p *pass) notEverywhere(v *parser.VectorSelector) {
	name := NameOf(v)
	n, _ := dialect.Known(name)
	to := p.renamed(name)
	if !p.surface.Live || to == "" || p.hasAlternative(v) {
		return
	}
	for _, d := range p.surface.Engines() {
		if d.Engine == n.Engine && !d.Exposes(name) && d.Exposes(to) {
			p.report(v.PositionRange(), fmt.Sprintf("the servers of %s %s expose it as %s: they are left out", d.ID,
				d.Version, to), "ask for both: "+name+" or "+to)
			return
		}
	}
}

var histogramName = Check{
	ID: "histogram-name", Severity: page, Title: "a histogram is queried without _bucket, _sum or _count",
	Doc: "`vllm:iteration_tokens_total` is a histogram despite its ending.",
	node: on(func(p *pass, v *parser.VectorSelector) {
		name := NameOf(v)
		c, f := classOf(name)
		switch {
		case p.recorded(name) || f.Kind == "router":
		case c != bareHistogram || p.surface.Exposes(name),
			// native ones, where a store makes them
			p.insideCall("histogram_avg", "histogram_count", "histogram_sum", "histogram_fraction") && p.surface.Live &&
				!p.surface.Whole:
		default:
			p.report(v.PositionRange(), name+" is a histogram: only "+name+"_bucket, _sum and _count exist",
				"divide the rate of "+name+"_sum by that of "+name+"_count for a mean, or take histogram_quantile of "+name+"_bucket")
		}
	}),
}
