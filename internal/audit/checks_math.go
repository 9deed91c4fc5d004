package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// aggregation returns the aggregation that makes a vector's values, seen through what
// keeps them; nil where there is none.
func aggregation(e parser.Expr) *parser.AggregateExpr {
	a, _ := value(e).(*parser.AggregateExpr)
	return a
}

// percentiles calls fn with every histogram_quantile.
func (p *pass) percentiles(fn func(c *parser.Call, path []parser.Node)) {
	p.walk(func(n parser.Node, path []parser.Node) {
		if c, ok := n.(*parser.Call); ok && c.Func.Name == "histogram_quantile" && len(c.Args) == 2 {
			fn(c, path)
		}
	})
}

func checkMissingLe(p *pass) {
	p.percentiles(func(c *parser.Call, _ []parser.Node) {
		a := aggregation(c.Args[1])
		if a == nil || slices.Contains(a.Grouping, "le") != a.Without {
			return
		}
		if !a.Without && p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start) || !onlyBuckets(a) {
			return
		}
		fix := advice("take le out of without")
		if edits, ok := p.groupBy(a, "le"); ok {
			fix = suggestion{"add le to by", edits}
		}
		p.report(a.PositionRange(), "histogram_quantile computes from the le label, and the aggregation drops it: the result is empty", fix)
	})
}

// onlyBuckets reports whether everything selected are classic buckets: native
// histograms need no le.
func onlyBuckets(n parser.Node) bool {
	all := selectors(n)
	return len(all) > 0 && !slices.ContainsFunc(all, func(v *parser.VectorSelector) bool { return !strings.HasSuffix(nameOf(v), "_bucket") })
}

// checkAddedBuckets finds the buckets of a histogram added up: each holds those below it.
func checkAddedBuckets(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		a, ok := n.(*parser.AggregateExpr)
		if !ok || a.Op != parser.SUM && a.Op != parser.AVG || slices.Contains(a.Grouping, "le") != a.Without || under(path, "histogram_quantile", "histogram_fraction") ||
			p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start) {
			return
		}
		v := plainSelector(value(a.Expr))
		if v != nil && strings.HasSuffix(nameOf(v), "_bucket") && p.isBuckets(nameOf(v)) && !selectsBy(v, "le") {
			p.report(a.PositionRange(), "buckets hold those below them: added up, a request is counted in many of them",
				advice(`select one, such as le="2.5", or take _count`))
		}
	})
}

func checkRawBuckets(p *pass) {
	p.percentiles(func(c *parser.Call, path []parser.Node) {
		for _, v := range selectors(c.Args[1]) {
			if p.isBuckets(nameOf(v)) && !p.rated(c.Args[1], v) {
				p.report(v.PositionRange(), "the buckets count since the server's start: the percentile is over its whole life and hardly moves", p.wrapRate(v, path))
				return
			}
		}
	})
}

// isBuckets reports whether a name is that of a histogram's buckets, an engine's or
// another program's, and not of a recording rule.
func (p *pass) isBuckets(name string) bool {
	if class, _ := classOf(name); class != unknownClass {
		return class == bucket
	}
	return strings.HasSuffix(name, "_bucket") && p.records[name] == nil && (!strings.Contains(name, ":") || ours(name))
}

// rated reports whether a selector stands under rate, increase or the like.
func (p *pass) rated(within parser.Node, v *parser.VectorSelector) bool {
	return p.ratedBy(within, v, append([]string{"delta", "idelta", "deriv", "resets", "changes"}, rates...)...)
}

// ratedBy reports whether a selector stands under one of some functions.
func (p *pass) ratedBy(within parser.Node, v *parser.VectorSelector, names ...string) bool {
	found := false
	parser.Inspect(within, func(n parser.Node, path []parser.Node) error {
		if n == v {
			found = under(path, names...)
		}
		return nil
	})
	return found
}

// wrapRate is the repair that puts a counter under rate.
func (p *pass) wrapRate(v *parser.VectorSelector, path []parser.Node) suggestion {
	for _, n := range path {
		if _, ok := n.(*parser.MatrixSelector); ok {
			return advice("take its rate")
		}
	}
	span := "5m"
	if p.role == panelRole && p.panel != nil {
		span = "$__rate_interval"
	}
	if v.OriginalOffset != 0 || v.Timestamp != nil || v.StartOrEnd != 0 {
		return advice("take its rate over [" + span + "]")
	}
	text := p.text(v)
	return suggestion{"take its rate over [" + span + "]", []edit{p.replace(v.PositionRange(), "rate("+text+"["+span+"])")}}
}

func checkQuantileRange(p *pass) {
	p.percentiles(func(c *parser.Call, _ []parser.Node) {
		q, lit, ok := number(c.Args[0])
		if !ok || q >= 0 && q <= 1 || p.opaque(c.Args[0].PositionRange().Start, c.Args[0].PositionRange().End) {
			return
		}
		fix := advice("write it between 0 and 1")
		if q > 1 && q < 100 {
			text := strconv.FormatFloat(q/100, 'g', -1, 64)
			fix = suggestion{"write " + text, []edit{p.replace(lit.PosRange, text)}}
		}
		p.report(c.Args[0].PositionRange(), "a quantile is between 0 and 1: this one gives infinity", fix)
	})
}

// isPercentile reports whether an expression is a percentile, also one that a
// recording rule made.
func (p *pass) isPercentile(e parser.Expr) bool {
	switch n := unscaled(e).(type) {
	case *parser.Call:
		if n.Func.Name == "histogram_quantile" {
			return true
		}
		if strings.HasSuffix(n.Func.Name, "_over_time") && len(n.Args) > 0 {
			return p.isPercentile(n.Args[len(n.Args)-1])
		}
	case *parser.SubqueryExpr:
		return p.isPercentile(n.Expr)
	case *parser.MatrixSelector:
		return p.isPercentile(n.VectorSelector)
	case *parser.VectorSelector:
		if r := p.records[nameOf(n)]; r != nil && r.tree != nil && r != p.query {
			_, ok := quantileIn(r.tree)
			return ok
		}
	}
	return false
}

func checkAverageOfPercentiles(p *pass) {
	const why = "percentiles cannot be averaged: the result is nobody's percentile"
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if (n.Op == parser.AVG || n.Op == parser.SUM) && p.isPercentile(n.Expr) {
				p.report(n.PositionRange(), why, advice("aggregate the buckets inside histogram_quantile, sum by (le, model_name) (rate(…_bucket[5m])), or take max for the worst replica"))
			}
		case *parser.BinaryExpr:
			l, ok1 := quantileIn(n.LHS)
			r, ok2 := quantileIn(n.RHS)
			if ok1 && ok2 && l.family != r.family && (n.Op == parser.ADD || n.Op == parser.SUB) {
				p.report(n.PositionRange(), "percentiles of two times cannot be added or subtracted: "+
					"the slowest requests of the one are not those of the other",
					advice("take the percentile of the time itself, or add and subtract means"))
			}
		case *parser.Call:
			if (n.Func.Name == "avg_over_time" || n.Func.Name == "sum_over_time") && p.isPercentile(n.Args[len(n.Args)-1]) {
				p.report(n.PositionRange(), why, advice("widen the range of the rate inside histogram_quantile instead"))
			}
		}
	})
}

// Words of labels: ofTargets of those that tell one scraped target from another, ofMany
// of those that tell apart groups of servers, of which each may serve several models.
var (
	ofTargets = []string{"instance", "pod", "server", "replica", "worker", "target", "container", "host", "hostname", "node"}
	ofMany    = []string{
		"version", "type", "group", "pool", "tier", "class", "namespace", "role", "component",
		"phase", "stage", "kind", "zone", "region", "cluster", "env", "environment",
	}
)

// A belief says whether something holds by what is in a file: a deployment gives its
// targets labels that no file of rules names.
type belief uint8

const (
	no belief = iota
	cannotTell
	yes
)

// tellsModels reports whether a label tells models apart. Labels of the metric itself, but
// for model_name, do not; any other was put there by the deployment, mostly one value for
// each server, and is taken to. Of those that tell groups of servers nobody knows.
func tellsModels(l string, own []string) belief {
	switch {
	case l == "model_name":
		return yes
	case l == labels.BucketLabel || l == labels.MetricName || slices.Contains(own, l):
		return no
	case labelSays(l, ofMany):
		return cannotTell
	}
	return yes
}

// labelSays reports whether one of the words of a label is one of some.
func labelSays(l string, words []string) bool {
	return slices.ContainsFunc(labelWords(l), func(w string) bool { return slices.Contains(words, w) })
}

// labelWords returns the words of a name, in lower case: of worker_id, WorkerId and
// GPUMemoryHigh alike.
func labelWords(l string) []string {
	var b strings.Builder
	for i, r := range l {
		upper := func(i int) bool { return i >= 0 && i < len(l) && l[i] >= 'A' && l[i] <= 'Z' }
		lower := i+1 < len(l) && l[i+1] >= 'a' && l[i+1] <= 'z'
		if upper(i) && i > 0 && (!upper(i-1) || lower) {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.FieldsFunc(strings.ToLower(b.String()), func(r rune) bool { return r == '_' || r == '-' || r == ' ' })
}

// fixes reports whether a matcher takes one value, also by a variable that stands for one.
func (p *pass) fixes(m *labels.Matcher) bool {
	switch {
	case m.Type == labels.MatchEqual:
		return m.Value != ""
	case m.Type != labels.MatchRegexp:
		return false
	case strings.Contains(m.Value, "$") || strings.Contains(m.Value, "[["):
		return !p.multi(m.Value)
	}
	return literal(m.Value)
}

// multi reports whether a matcher's value is a variable that stands for several
// values.
func (p *pass) multi(value string) bool {
	name := strings.Trim(value, "$[]{}^()")
	name, _, _ = strings.Cut(name, ":")
	v, declared := p.vars[name]
	return !declared || v.multi
}

func checkMixedModels(p *pass) {
	if p.surface.Live && len(p.surface.Models) == 1 && len(p.surface.Instances) > 0 && !p.surface.Whole {
		// One model now; the next one spoils the number.
		p.mixedModels(fmt.Sprintf("; only one model, %s, is served now", p.surface.Models[0]))
		return
	}
	p.mixedModels("")
}

// tellsModelsApart reports whether a query selects or groups by model_name, or asks for its
// values: who wrote it knows of several models.
func (q *query) tellsModelsApart() bool {
	if q.tree == nil {
		return false
	}
	found := q.role == variableRole && strings.Contains(q.node.value, "model_name")
	parser.Inspect(q.tree, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			found = found || !n.Without && slices.Contains(n.Grouping, "model_name")
		case *parser.VectorSelector:
			found = found || selectsBy(n, "model_name")
		}
		return nil
	})
	return found
}

// mixedModels reports percentiles and means over several models; but is what is known of
// the servers at hand.
func (p *pass) mixedModels(but string) {
	p.percentiles(func(c *parser.Call, _ []parser.Node) {
		a := aggregation(c.Args[1])
		if a == nil || p.mixes(a) == no {
			return
		}
		fix := advice("keep model_name")
		if edits, ok := p.groupBy(a, "model_name"); ok {
			fix = suggestion{"add model_name to by", edits}
		}
		p.mixed(a, p.mixes(a), "percentile", but, fix)
	})
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV || p.quantityOf(b).of != span {
			return
		}
		l, r := aggregation(unscaled(b.LHS)), aggregation(unscaled(b.RHS))
		if l == nil || r == nil || min(p.mixes(l), p.mixes(r)) == no {
			return
		}
		el, ok1 := p.groupBy(l, "model_name")
		er, ok2 := p.groupBy(r, "model_name")
		fix := advice("keep model_name on both sides")
		if ok1 && ok2 {
			fix = suggestion{"add by (model_name) on both sides", append(el, er...)}
		}
		p.mixed(b, min(p.mixes(l), p.mixes(r)), "mean", but, fix)
	})
}

func (p *pass) mixed(n parser.Node, sure belief, what, but string, fix suggestion) {
	why := "one " + what + " over all models: a fast one hides a slow one"
	switch {
	case but != "":
		p.reportAs(catalog.Info, n.PositionRange(), why+but, fix)
	case sure == cannotTell:
		p.doubt(n.PositionRange(), why, "it is none where each of the groups that are told apart serves one model", fix)
	case p.models || len(p.surface.Models) > 1:
		p.report(n.PositionRange(), why, fix)
	default:
		p.doubt(n.PositionRange(), why, "nothing here says whether there are several", fix)
	}
}

// mixes reports whether an aggregation throws models together.
func (p *pass) mixes(a *parser.AggregateExpr) belief {
	if a.Without && !slices.Contains(a.Grouping, "model_name") ||
		p.opaque(a.PosRange.Start, a.Expr.PositionRange().Start) || p.opaque(a.Expr.PositionRange().End, a.PosRange.End) {
		return no
	}
	out := no
	for _, v := range selectors(a) {
		_, n := classOf(nameOf(v))
		if !slices.Contains(n.Labels, "model_name") {
			continue
		}
		apart, several := no, false
		for _, l := range a.Grouping {
			if !a.Without {
				apart = max(apart, tellsModels(l, n.Labels))
			}
		}
		for _, m := range v.LabelMatchers {
			if p.fixes(m) {
				apart = max(apart, tellsModels(m.Name, n.Labels))
			}
			several = several || m.Name == "model_name" && strings.Contains(m.Value, "$") && !p.fixes(m)
		}
		if several && apart == cannotTell { // a variable that stands for several models
			apart = no
		}
		out = max(out, yes-apart)
	}
	return out
}

func checkRatioSummed(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		a, ok := n.(*parser.AggregateExpr)
		if !ok || a.Op != parser.SUM || p.ofTotals() || p.role == recordRole &&
			slices.Contains(strings.FieldsFunc(p.name, func(r rune) bool { return r == ':' || r == '_' }), "sum") ||
			p.quantityOf(a.Expr).of.additive() || p.quantityOf(a.Expr).of == code {
			return
		}
		if _, quotient := unparen(a.Expr).(*parser.BinaryExpr); quotient && averaged(path, a) || averaged(path, a) {
			return
		}
		if strings.HasPrefix(strings.Join(namesIn(a.Expr), ""), "inference_pool_") && slices.Contains(a.Grouping, "name") {
			return // one series for each pool
		}
		if (slices.ContainsFunc(a.Grouping, isEngineLabel) || oneGPU(a.Grouping)) && !a.Without {
			return // one engine or one GPU in each: nothing is added up
		}
		if slices.ContainsFunc(path, func(n parser.Node) bool {
			b, ok := n.(*parser.BinaryExpr)
			return ok && b.Op == parser.SUB && b.VectorMatching != nil &&
				!p.quantityOf(b.LHS).known() != !p.quantityOf(b.RHS).known()
		}) && p.quantityOf(a.Expr) == ratio {
			return // so many whole ones, of so many that are there
		}
		at := a.PositionRange()
		edits := []edit{{p.node, int(at.Start), int(at.Start) + len("sum"), "max"}}
		if of := p.quantityOf(a.Expr).of; of != share {
			p.report(at, fmt.Sprintf("%s of several GPUs is added up, and is nobody's", of),
				suggestion{"write max, or avg", edits})
			return
		}
		p.report(at, "a share of capacity cannot be added up: 40 % on each of two replicas becomes 80 %", suggestion{"write max for the fullest replica, or avg for the fleet", edits})
	})
}

// oneGPU reports whether some labels tell all GPUs apart: a unique one, or a number within a host
// beside the host.
func oneGPU(by []string) bool {
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(l string) bool { return slices.Contains(by, l) })
	}
	return has("UUID", "uuid", "gpu_uuid", "pci_bus_id") || has("gpu", "device", "minor_number", "index", "gpu_id") &&
		slices.ContainsFunc(by, func(l string) bool { return labelSays(l, ofTargets) })
}

// isEngineLabel reports whether a label tells one engine from another: the data-parallel
// ranks of one server, or Ray's workers, which hold one each.
func isEngineLabel(l string) bool {
	return l == "engine" || labelSays(l, []string{"worker", "replica"}) && !labelSays(l, ofMany)
}

// averaged reports whether a sum is the numerator of a hand-made mean:
// sum(x) / count(x).
func averaged(path []parser.Node, a *parser.AggregateExpr) bool {
	for i := len(path) - 1; i >= 0; i-- {
		switch n := path[i].(type) {
		case *parser.ParenExpr:
		case *parser.BinaryExpr:
			if n.VectorMatching == nil { // a number
				continue
			}
			if n.Op != parser.DIV {
				return false
			}
			c, ok := unscaled(n.RHS).(*parser.AggregateExpr)
			return ok && c != a && (c.Op == parser.COUNT || c.Op == parser.SUM)
		default:
			return false
		}
	}
	return false
}

func checkEngineLabel(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if n.Without || !slices.Contains(n.Grouping, "engine") || perTarget(n) ||
				!slices.ContainsFunc(selectors(n), func(v *parser.VectorSelector) bool {
					return hasEngine(v) &&
						!p.pinnedTarget(v)
				}) {
				return
			}
			fix := advice("group by instance too")
			if edits, ok := p.groupBy(n, "instance"); ok {
				fix = suggestion{"add instance to by", edits}
			}
			const why = "engine numbers the data-parallel ranks within one server: every server has a rank 0, and this throws them together"
			if p.surface.Live && len(p.surface.Instances) > 1 {
				p.report(n.PositionRange(), why, fix)
			} else {
				p.doubt(n.PositionRange(), why, "nothing here says whether there are several servers", fix)
			}
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if m.Name == "engine" && m.Type == labels.MatchEqual && strings.Trim(m.Value, "0123456789") == "" && m.Value != "" && hasEngine(n) {
					p.doubt(n.PositionRange(), "only one data-parallel rank is looked at: the others can be full or stuck unseen (kubernetes-sigs/gateway-api-inference-extension#2950)",
						"nothing here says whether there are others", advice("take the matcher out and aggregate: sum requests and tokens, max of usage"))
				}
			}
		}
	})
}

// groupLabels are words of labels that several servers share.
var groupLabels = append([]string{
	"job", "service", "deployment", "app", "application", "release", "isvc", "inferenceservice", "model",
}, ofMany...)

// isTargetLabel reports whether a label tells one scraped target from another, as far as
// is known: one that the metric does not have and that does not speak of groups was put
// there by the deployment, and may. own is nil for metrics whose labels nobody knows.
func isTargetLabel(l string, own []string) bool {
	if slices.Contains(own, l) || l == labels.BucketLabel || labelSays(l, ofMany) {
		return false
	}
	return labelSays(l, ofTargets) || own != nil && !labelSays(l, groupLabels)
}

// pinnedTarget reports whether a selector takes one server, by a label or by a variable
// that stands for one value.
func (p *pass) pinnedTarget(v *parser.VectorSelector) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name != labels.MetricName && isTargetLabel(m.Name, ownLabelsOf(v)) && p.fixes(m)
	})
}

// perTarget reports whether an aggregation keeps servers apart.
func perTarget(a *parser.AggregateExpr) bool {
	return !a.Without && slices.ContainsFunc(a.Grouping, func(l string) bool {
		return isTargetLabel(l, ownLabelsOf(a))
	})
}

// ownLabelsOf returns the labels that the metrics under a node have of their own.
func ownLabelsOf(n parser.Node) []string {
	var out []string
	for _, v := range selectors(n) {
		_, f := classOf(nameOf(v))
		if f.Engine == "" {
			return nil
		}
		out = append(out, f.Labels...)
	}
	return out
}

func hasEngine(v *parser.VectorSelector) bool {
	_, n := classOf(nameOf(v))
	return n.Engine == dialect.VLLM && slices.Contains(n.Labels, "engine")
}

func checkRateOnGauge(p *pass) {
	instead := map[string]string{"rate": "deriv", "irate": "deriv", "increase": "delta"}
	p.walk(func(n parser.Node, _ []parser.Node) {
		c, ok := n.(*parser.Call)
		if ok && c.Func.Name == "resets" {
			if v := plainSelector(c.Args[0]); v != nil && isGauge(nameOf(v)) {
				p.report(c.PositionRange(), nameOf(v)+" is a gauge: resets counts every time that it falls", advice("take resets of a counter of the same server, or changes of process_start_time_seconds"))
			}
			return
		}
		if !ok || !slices.Contains(rates, c.Func.Name) || len(c.Args) != 1 {
			return
		}
		for _, v := range selectors(c.Args[0]) {
			if ofSeries(nameOf(v)).of != code && !isGauge(nameOf(v)) {
				continue
			}
			at := c.PositionRange()
			if ofSeries(nameOf(v)).of == code {
				p.report(at, nameOf(v)+" is a code, as that of the last error, not a count: "+c.Func.Name+" of it means nothing",
					advice("compare the codes that are there with 0"))
				continue
			}
			if ofSeries(nameOf(v)).of == flow {
				p.report(at, nameOf(v)+" is per second already, a gauge: "+c.Func.Name+" takes every fall of it for a restart",
					advice("take it as it is, or avg_over_time of it"))
				continue
			}
			to := instead[c.Func.Name]
			edits := []edit{{p.node, int(at.Start), int(at.Start) + len(c.Func.Name), to}}
			p.report(at, fmt.Sprintf("%s is a gauge: %s takes every fall for a restart and adds it up", nameOf(v), c.Func.Name), suggestion{"write " + to + " for its slope, or avg_over_time for its level", edits})
		}
	})
}

// ofMemory are gauges of other programs by their names: how much memory is taken, or there.
var ofMemory = regexp.MustCompile(`_memory_\w*bytes$`)

// isGauge reports whether a name is that of a gauge, of an engine, of dcgm-exporter or of memory.
func isGauge(name string) bool {
	if f, ok := dcgm.FieldOf(name); ok {
		return f.Type == "gauge"
	}
	class, _ := classOf(name)
	return class == gauge || class == unknownClass && ofMemory.MatchString(name) // of an engine or an exporter, or by its name
}

func checkDeltaOnCounter(p *pass) {
	instead := map[string]string{"delta": "increase", "deriv": "rate"}
	p.walk(func(n parser.Node, _ []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || !slices.Contains([]string{"delta", "idelta", "deriv", "predict_linear"}, c.Func.Name) {
			return
		}
		for _, v := range selectors(c.Args[0]) {
			class, _ := classOf(nameOf(v))
			if !class.cumulative() || p.ratedBy(c.Args[0], v, rates...) {
				continue
			}
			at, fix := c.PositionRange(), advice("take increase over the range")
			if to := instead[c.Func.Name]; to != "" {
				fix = suggestion{"write " + to, []edit{{p.node, int(at.Start), int(at.Start) + len(c.Func.Name), to}}}
			}
			p.report(at, fmt.Sprintf("%s is a counter: %s takes a restart for a fall as deep as all that was counted",
				nameOf(v), c.Func.Name), fix)
			return
		}
	})
}

// harmless are the functions in which a counter's absolute value does not
// matter.
var harmless = append([]string{
	"absent", "absent_over_time", "present_over_time", "count_over_time", "sum_over_time", "resets", "changes",
	"timestamp", "delta", "idelta", "deriv", "last_over_time", "first_over_time", "info",
}, rates...)

func checkRawCounter(p *pass) {
	p.rawAdapter()
	if _, alias := unparen(p.tree).(*parser.VectorSelector); alias && p.role == recordRole || p.role == variableRole {
		return // another name for the same counter; the labels of its series
	}
	if p.role == panelRole && saysWholeLife.MatchString(p.words()) {
		return // which is what it is called
	}
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return
		}
		name := nameOf(v)
		class, family := classOf(name)
		if (class == unknownClass || isExporters(family)) && p.records[name] == nil {
			p.rawByName(v, name, path)
			return
		}
		if !class.cumulative() || under(path, harmless...) || isCount(path) || ownPast(path, v) || presence(path, v) ||
			under(path, "histogram_quantile") || family.Engine == "" && class != counter {
			return
		}
		switch {
		case class != counter && inQuotient(path):
			p.report(v.PositionRange(), "sum and count since the server's start: a mean over its whole life, which hardly moves", p.wrapRate(v, path))
		case class != counter:
			p.report(v.PositionRange(), name+" counts since the server's start: what happens now cannot be seen", p.wrapRate(v, path))
		case p.role == scalerRole:
			p.report(v.PositionRange(), name+" counts since the server's start: once past the threshold the replicas stay", advice("scale by its rate"))
		case compared(path):
			p.report(v.PositionRange(), name+" counts since the server's start: once past the threshold the alert stays until a restart", advice("compare increase("+name+"[10m]) or its rate"))
		case inQuotient(path):
			p.report(v.PositionRange(), "counters since the server's start: a share over its whole life, which hardly moves", p.wrapRate(v, path))
		default:
			p.reportAs(catalog.Info, v.PositionRange(), name+" counts since the server's start and falls to 0 with every restart", advice("show its rate, or increase over the range"))
		}
	})
}

// saysWholeLife are words of panels that show what counters hold since the server's start.
var saysWholeLife = regexp.MustCompile(`\b(?:cumulative|lifetime|all[- ]time|since (?:the )?(?:server'?s? )?(?:start|boot|launch)\w*)\b`)

// ofRequests are names of what happens often, so that a mean of its whole life hides what
// happens now; of what is loaded once it is the mean.
var ofRequests = regexp.MustCompile(`request|latency|ttft|token|queue`)

// rawByName reports what is another program's counter or histogram, by its name or since a
// query beside it takes its rate, where that matters: compared in an alert, divided, or
// shown as if it were per second.
func (p *pass) rawByName(v *parser.VectorSelector, name string, path []parser.Node) {
	if name == "" || under(path, harmless...) || isCount(path) || ownPast(path, v) || presence(path, v) || strings.Contains(name, ":") {
		return
	}
	if slices.ContainsFunc(path, func(n parser.Node) bool { b, ok := n.(*parser.BinaryExpr); return ok && isZeros(b) }) {
		return // joined for its labels
	}
	halves := (strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")) && ofRequests.MatchString(name)
	class, family := classOf(name)
	total := strings.HasSuffix(strings.ToLower(name), "_total") || strings.HasSuffix(name, "_COUNTER") || class == counter
	switch {
	case isExporters(family) && class == counter && inQuotient(path):
		p.report(v.PositionRange(), name+" is a counter: a share, or a mean, over its whole life, which hardly moves", p.wrapRate(v, path))
	case isExporters(family) && class == counter && p.role == panelRole && (ofCounter(name).of == cores || ofCounter(name).of == span || ofCounter(name).of == size):
		p.report(v.PositionRange(), name+" counts since the start: what happens now cannot be seen", p.wrapRate(v, path))
	case halves && inQuotient(path) && p.hasOtherHalf(name):
		p.report(v.PositionRange(), "sum and count since the start: a mean over a whole life, which hardly moves", p.wrapRate(v, path))
	case inQuotient(path) && !halves && p.ratedElsewhere(name):
		p.report(v.PositionRange(), name+" is a counter, of which a query beside this one takes the rate: a share over its whole life, which hardly moves", p.wrapRate(v, path))
	case total && p.role == panelRole && inQuotient(path) && ofEvents.MatchString(name) && p.allEvents():
		p.reportAs(catalog.Info, v.PositionRange(), name+" counts since the start, by its name: a share of a whole life, which hardly moves", p.wrapRate(v, path))
	case total && p.role == alertRole && compared(path) && !inQuotient(path) && !strings.HasPrefix(name, "DCGM_"): // faults of hardware stay
		p.report(v.PositionRange(), name+" counts since the start, by its name: once past the threshold the alert stays until a restart", advice("compare increase("+name+"[10m]) or its rate"))
	case total && p.role == panelRole && !arithmetic(path) && slices.Contains(perSecondUnits, p.panel.unit):
		p.report(v.PositionRange(), name+" counts since the start, by its name, and the panel's unit is per second", p.wrapRate(v, path))
	}
}

// ofEvents are names of counters of what happens: a gauge may end in _total too.
var ofEvents = regexp.MustCompile(`(request|error|fail|success|hit|miss|token|quer(y|ie))\w*_total$`)

// allEvents reports whether nothing but counters of events is asked for.
func (p *pass) allEvents() bool {
	return !slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool { return !ofEvents.MatchString(nameOf(v)) })
}

// ratedElsewhere reports whether a query of the file takes a series' rate.
func (p *pass) ratedElsewhere(name string) bool {
	return slices.ContainsFunc(p.beside.rated[name], func(q *query) bool { return q != p.query })
}

// hasOtherHalf reports whether the expression divides a histogram's sum by its count.
func (p *pass) hasOtherHalf(name string) bool {
	other, ok := strings.CutSuffix(name, "_sum")
	if other += "_count"; !ok {
		other = strings.TrimSuffix(name, "_count") + "_sum"
	}
	return slices.ContainsFunc(selectors(p.tree), func(v *parser.VectorSelector) bool { return nameOf(v) == other })
}

// ownPast reports whether a value is compared with its own past by hand: subtracted
// from, or taken from, the same series of another time.
func ownPast(path []parser.Node, v *parser.VectorSelector) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.SUB || b.VectorMatching == nil {
			return false
		}
		other := b.LHS
		if contains(b.LHS, v) {
			other = b.RHS
		}
		return slices.ContainsFunc(selectors(other), func(o *parser.VectorSelector) bool {
			return nameOf(o) == nameOf(v) && (o.OriginalOffset != v.OriginalOffset || o.Timestamp != v.Timestamp)
		})
	})
}

// presence reports whether a series only filters others: it stands on the right
// of a set operator.
func presence(path []parser.Node, v *parser.VectorSelector) bool {
	for _, n := range path {
		if b, ok := n.(*parser.BinaryExpr); ok && (b.Op == parser.LAND || b.Op == parser.LUNLESS) && contains(b.RHS, v) {
			return !slices.ContainsFunc(path, func(n parser.Node) bool {
				c, ok := n.(*parser.BinaryExpr)
				return ok && c.Op.IsComparisonOperator()
			})
		}
	}
	return false
}

func contains(n parser.Node, v *parser.VectorSelector) bool {
	return slices.Contains(selectors(n), v)
}

func compared(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && b.Op.IsComparisonOperator()
	})
}

func inQuotient(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && b.Op == parser.DIV && b.VectorMatching != nil
	})
}

func checkRateAfterSum(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || !slices.Contains(rates, c.Func.Name) || len(c.Args) != 1 {
			return
		}
		sub, ok := unparen(c.Args[0]).(*parser.SubqueryExpr)
		if !ok {
			p.rateOfRecordedSum(c)
			return
		}
		a, ok := unparen(sub.Expr).(*parser.AggregateExpr)
		if !ok {
			return
		}
		fix := advice("take the rate first, then the sum")
		if v, ok := unparen(a.Expr).(*parser.VectorSelector); ok && sub.OriginalOffset == 0 {
			fix = p.rateThenSum(c, a, v, sub)
		}
		p.report(c.PositionRange(), "a replica that restarts makes the sum fall, which "+c.Func.Name+" takes for a restart of the whole: a spike as high as all counters together", fix)
	})
}

func (p *pass) rateOfRecordedSum(c *parser.Call) {
	for _, v := range selectors(c.Args[0]) {
		r := p.records[nameOf(v)]
		if r == nil || r.tree == nil {
			continue
		}
		if a, ok := unparen(r.tree).(*parser.AggregateExpr); ok && a.Op == parser.SUM {
			if raw, ok := unparen(a.Expr).(*parser.VectorSelector); ok {
				if class, _ := classOf(nameOf(raw)); class.cumulative() {
					p.report(c.PositionRange(), "the recording rule "+nameOf(v)+" adds counters up before their rate is taken: a replica's restart looks like a restart of the whole", advice("record sum(rate(…)) instead"))
				}
			}
		}
	}
}

// rateThenSum rewrites rate(sum by (x) (c)[r:s]) as sum by (x) (rate(c[r])).
func (p *pass) rateThenSum(c *parser.Call, a *parser.AggregateExpr, v *parser.VectorSelector, sub *parser.SubqueryExpr) suggestion {
	expr := p.node.value
	outer, inner, selector := c.PositionRange(), a.PositionRange(), v.PositionRange()
	tail := expr[int(inner.End):int(sub.EndPos)]
	open := strings.IndexByte(tail, '[')
	if open < 0 {
		return advice("take the rate first, then the sum")
	}
	span := tail[open+1:]
	if end := strings.LastIndexByte(span, ':'); end > 0 {
		span = span[:end]
	}
	text := expr[inner.Start:selector.Start] + c.Func.Name + "(" + p.text(v) + "[" + span + "])" + expr[selector.End:inner.End]
	return suggestion{"take the rate first, then the sum", []edit{p.replace(outer, text)}}
}

// additive are histograms whose sum per second is a quantity of its own.
func additive(family string) bool {
	canonical, _ := vllm.Canonical(family)
	switch canonical {
	case "vllm:request_prompt_tokens", "vllm:request_generation_tokens", "vllm:iteration_tokens_total", "vllm:request_prefill_kv_computed_tokens", "vllm:request_num_preemptions":
		return true
	}
	return strings.Contains(canonical, "bytes") || strings.Contains(canonical, "_size")
}

// timesSpent are counters of other programs that add up how long each request took, such as Triton's.
var timesSpent = regexp.MustCompile(`_(duration|latency|time)_(us|ms|ns)$|_(seconds|milliseconds|ms|us)_sum$`)

func checkSumWithoutCount(p *pass) {
	if p.role == recordRole {
		return // it may be divided where it is used
	}
	p.walk(func(n parser.Node, path []parser.Node) {
		c, ok := n.(*parser.Call)
		if !ok || !slices.Contains(rates, c.Func.Name) || len(c.Args) != 1 || arithmetic(path) || filters(path, c) {
			return
		}
		m, ok := unparen(c.Args[0]).(*parser.MatrixSelector)
		if !ok {
			return
		}
		v, ok := m.VectorSelector.(*parser.VectorSelector)
		name := ""
		if ok {
			name = nameOf(v)
		}
		class, family := classOf(name)
		if (class == unknownClass || isExporters(family)) && timesSpent.MatchString(name) && p.role == panelRole &&
			p.says("time", "latency", "duration", "delay") && !p.says("cpu", "util", "busy") {
			p.report(c.PositionRange(),
				"the rate is the time of all requests together per second, by the name: it grows with the traffic and is nobody's latency",
				advice("divide by the rate of their number"))
			return
		}
		if class != sum || family.Engine == "" || additive(family.Name) {
			return
		}
		whole := parser.Node(c)
		for i := len(path) - 1; i >= 0; i-- {
			switch path[i].(type) {
			case *parser.AggregateExpr, *parser.ParenExpr:
				whole = path[i]
				continue
			}
			break
		}
		base, _ := strings.CutSuffix(name, "_sum")
		text := p.text(whole)
		edits := []edit{p.replace(whole.PositionRange(), text+" / "+strings.Replace(text, name, base+"_count", 1))}
		p.report(c.PositionRange(), "the sum's rate is "+what(family)+" of all requests together per second: it grows with the traffic and is nobody's latency", suggestion{"divide by the rate of " + base + "_count for the mean", edits})
	})
}

// filters reports whether a value only says whether there is any: it stands on the right
// of "and" or "unless", alone or compared with 0.
func filters(path []parser.Node, within parser.Node) bool {
	inner := selectors(within)
	at := slices.IndexFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && (b.Op == parser.LAND || b.Op == parser.LUNLESS) && len(inner) > 0 && contains(b.RHS, inner[0])
	})
	return at >= 0 && !slices.ContainsFunc(path[at+1:], func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		if !ok {
			return false
		}
		limit, _, _ := number(b.RHS)
		return b.Op.IsComparisonOperator() && limit != 0
	})
}

func what(n engine.Family) string {
	if ofFamily(n.Name).of == span {
		return "seconds"
	}
	return "the total"
}

// arithmetic reports whether a value is part of a calculation.
func arithmetic(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && b.VectorMatching != nil && !b.Op.IsSetOperator() && !b.Op.IsComparisonOperator() && !isJoin(b)
	})
}
