package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/render"
)

// partsOfWholes are series of which others are the whole.
var partsOfWholes = map[string][]string{
	"node_memory_MemAvailable_bytes": {"node_memory_MemTotal_bytes"}, "node_memory_MemFree_bytes": {"node_memory_MemTotal_bytes"},
	"node_memory_SwapFree_bytes":   {"node_memory_SwapTotal_bytes"},
	"node_filesystem_avail_bytes":  {"node_filesystem_size_bytes"},
	"node_filesystem_free_bytes":   {"node_filesystem_size_bytes"},
	"node_filesystem_files_free":   {"node_filesystem_files"},
	"node_filefd_allocated":        {"node_filefd_maximum"},
	"process_open_fds":             {"process_max_fds"},
	"DCGM_FI_DEV_FB_USED":          {"DCGM_FI_DEV_FB_TOTAL"},
	"DCGM_FI_DEV_FB_FREE":          {"DCGM_FI_DEV_FB_TOTAL"},
	"nv_gpu_memory_used_bytes":     {"nv_gpu_memory_total_bytes"},
	"nv_cpu_memory_used_bytes":     {"nv_cpu_memory_total_bytes"},
	"nvidia_smi_memory_used_bytes": {"nvidia_smi_memory_total_bytes"},
	"nvidia_smi_memory_free_bytes": {"nvidia_smi_memory_total_bytes"},
	"nv_inference_request_failure": {"nv_inference_request_success"},
	"ray_node_mem_used":            {"ray_node_mem_total"},
	"ray_node_mem_available":       {"ray_node_mem_total"},
	"tgi_request_success":          {"tgi_request_count"},
	"tgi_request_failure":          {"tgi_request_count"},
	"container_memory_working_set_bytes": {
		"container_spec_memory_limit_bytes", "kube_pod_container_resource_limits", "kube_pod_container_resource_requests",
	},
	"container_memory_usage_bytes": {
		"container_spec_memory_limit_bytes", "kube_pod_container_resource_limits", "kube_pod_container_resource_requests",
	},
}

// isPartOf reports whether what one selector takes is a part of what another takes.
func isPartOf(part, whole *parser.VectorSelector) bool {
	p, _ := vllm.Canonical(nameOf(part))
	w, _ := vllm.Canonical(nameOf(whole))
	return isPart(part, whole) || wholes[p] != "" && wholes[p] == w || slices.Contains(partsOfWholes[p], w)
}

// sidesOf returns the only selectors of a quotient's sides.
func sidesOf(b *parser.BinaryExpr) (l, r *parser.VectorSelector, ok bool) {
	left, right := selectors(b.LHS), selectors(b.RHS)
	if b.Op != parser.DIV || b.VectorMatching == nil || len(left) != 1 || len(right) != 1 {
		return nil, nil, false
	}
	return left[0], right[0], true
}

// quotients calls fn with every quotient of two vectors of one series each.
func (p *pass) quotients(fn func(b *parser.BinaryExpr, l, r *parser.VectorSelector)) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		if b, ok := n.(*parser.BinaryExpr); ok {
			if l, r, ok := sidesOf(b); ok {
				fn(b, l, r)
			}
		}
	})
}

// checkUpsideDown finds quotients of a whole over a part, and of a number over a sum, where the
// panel, the alert or the name says that a share or a mean is meant.
func checkUpsideDown(p *pass) {
	p.quotients(func(b *parser.BinaryExpr, l, r *parser.VectorSelector) {
		family, isSum := strings.CutSuffix(nameOf(r), "_sum")
		switch {
		case isSum && nameOf(l) == family+"_count" && ofFamily(family).known() && p.meansMean(ofFamily(family).of):
			p.report(b.PositionRange(), "the number over the sum is the mean upside down", advice("divide _sum by _count"))
		case isPartOf(r, l) && !isPartOf(l, r) && p.meansShare():
			p.report(b.PositionRange(), "the whole over its part is never below 1, and no share", advice("divide the part by the whole"))
		}
	})
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV || b.VectorMatching == nil {
			return
		}
		whole, ok := unparen(b.LHS).(*parser.BinaryExpr)
		part := p.text(unparen(b.RHS))
		if ok && whole.Op == parser.ADD && whole.VectorMatching != nil && (p.text(unparen(whole.LHS)) == part || p.text(unparen(whole.RHS)) == part) && p.meansShare() {
			p.report(b.PositionRange(), "all over a part of it is never below 1, and no share", advice("divide the part by their sum"))
		}
	})
}

// meanWords are words for how long or how large something is.
var meanWords = regexp.MustCompile(`(?i)latency|duration|\btime\b|\bttft\b|\btpot\b|\bitl\b|average|\bavg\b|\bmean\b|length|延迟|耗时|平均`)

// meansMean reports whether what is around a query says that its values are a time or a mean.
func (p *pass) meansMean(of dimension) bool {
	return p.panelUnit().of == of || meanWords.MatchString(strings.Join(labelWords(strings.ReplaceAll(p.name, ":", "_")), " ")+" "+p.words())
}

// panelUnit is the quantity that the panel's unit says, unknown elsewhere.
func (p *pass) panelUnit() quantity {
	if p.panel == nil {
		return quantity{}
	}
	return panelUnits[p.panel.unit]
}

// meansShare reports whether what is around a query says that its values are shares: the
// panel's unit, the number that it is compared with, or the name that it is recorded under.
func (p *pass) meansShare() bool {
	if p.panelUnit().of == share || p.role == recordRole && (strings.Contains(p.name, "ratio") || strings.Contains(p.name, "rate")) {
		return true
	}
	below := false
	p.comparisons(func(c comparison) {
		f := factor(c.expr)
		below = below || c.limit > 0 && (c.limit < 1 || c.limit <= 100 && f == 100)
	})
	return below && p.role == alertRole
}

// checkOtherFamily finds quotients of two histograms' series that are meant for one: the sum of one time over
// how many another was observed for, the bucket of one over the count of another.
func checkOtherFamily(p *pass) {
	p.quotients(func(b *parser.BinaryExpr, l, r *parser.VectorSelector) {
		lc, lf := classOf(nameOf(l))
		rc, rf := classOf(nameOf(r))
		if lf.Type != engine.Histogram || rf.Type != engine.Histogram {
			return
		}
		finished := func(f engine.Family) bool { return slices.Contains(finishedCounts, f.Name+"_count") }
		switch {
		case lc == bucket && rc == sum && selectsBy(l, "le"):
			p.report(b.PositionRange(), "a number of requests over their times is no share", advice("divide by _count"))
		case rc == count && lf.Name != rf.Name && !(finished(lf) && finished(rf)) && (lc == bucket && selectsBy(l, "le") || lc == sum && ofFamily(lf.Name).of == span):
			p.report(b.PositionRange(), nameOf(r)+" counts other events than those that "+nameOf(l)+" is of", advice("divide by "+lf.Name+"_count"))
		}
	})
}

// checkOtherSpans finds quotients whose sides look at different spans of time, or of which one is
// per second and the other over a range.
func checkOtherSpans(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.DIV || b.VectorMatching == nil {
			return
		}
		l, r := p.ratedAlike(b.LHS), p.ratedAlike(b.RHS)
		if l == nil || r == nil {
			return
		}
		if growth := slices.ContainsFunc(l.of, func(v *parser.VectorSelector) bool {
			return slices.ContainsFunc(r.of, func(o *parser.VectorSelector) bool {
				return nameOf(v) == nameOf(o) && (len(v.LabelMatchers) == len(o.LabelMatchers) || v.OriginalOffset != o.OriginalOffset)
			})
		}); growth {
			return
		}
		switch {
		case l.fn == r.fn && (l.over != r.over || l.written != r.written):
			p.report(b.PositionRange(), fmt.Sprintf("the left side looks at %s, the right one at %s: what one holds the other does not",
				otherwise(l.written, render.Span(l.over)), otherwise(r.written, render.Span(r.over))), advice("take one range for both"))
		case l.fn != r.fn && (l.fn == "increase" || r.fn == "increase") && !p.scaledBySpan(l.over, r.over):
			p.report(b.PositionRange(), fmt.Sprintf("%s over %s: the one is per second, the other over the whole range", l.fn, r.fn),
				advice("take rate on both sides"))
		}
	})
}

// ratedSide is one side of a quotient of rates.
type ratedSide struct {
	fn   string
	over time.Duration
	of   []*parser.VectorSelector

	written string // where the span is one of Grafana's own variables
}

// ratedAlike returns by which function, and over which span, all counters of a side are rated; nil
// where they differ, or where it cannot be told.
func (p *pass) ratedAlike(e parser.Expr) *ratedSide {
	var out *ratedSide
	same := true
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			v, _ := n.VectorSelector.(*parser.VectorSelector)
			c, ok := path[len(path)-1].(*parser.Call)
			written := p.grafanas(n)
			if v == nil || !ok || !slices.Contains(rates, c.Func.Name) ||
				written == "" && p.opaque(n.PositionRange().Start, n.PositionRange().End) ||
				out != nil && (out.fn != c.Func.Name || out.over != n.Range || out.written != written) {
				same = false
				return nil
			}
			if out == nil {
				out = &ratedSide{fn: c.Func.Name, over: n.Range, written: written}
			}
			out.of = append(out.of, v)
		case *parser.SubqueryExpr:
			same = false
		}
		return nil
	})
	if !same {
		return nil
	}
	return out
}

// grafanas returns the variable of Grafana's own that a range is, "" for any other.
func (p *pass) grafanas(m *parser.MatrixSelector) string {
	for _, at := range p.mentions {
		if at.start >= int(m.PositionRange().Start) && at.end <= int(m.PositionRange().End) && strings.Contains(p.node.value[at.start:at.end], "$__") {
			return p.node.value[at.start:at.end]
		}
	}
	return ""
}

// scaledBySpan reports whether a number around a quotient makes up for a range.
func (p *pass) scaledBySpan(spans ...time.Duration) bool {
	return slices.ContainsFunc(spans, func(d time.Duration) bool { return p.comparesWith(d.Seconds()) || p.comparesWith(d.Seconds()*60) })
}

// checkSame finds a vector divided by itself, or taken from itself.
func checkSame(p *pass) {
	same := func(e parser.Expr) string { return strings.Join(strings.Fields(p.text(unscaled(e))), "") }
	p.walk(func(n parser.Node, path []parser.Node) {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.VectorMatching == nil || b.Op != parser.DIV && b.Op != parser.SUB || same(b.LHS) != same(b.RHS) {
			return
		}
		if len(path) == 0 {
			path = []parser.Node{n}
		}
		if outer, ok := path[len(path)-1].(*parser.BinaryExpr); ok && outer != b && (outer.Op == parser.ADD || outer.Op == parser.SUB) {
			return // precedence
		}
		is := map[parser.ItemType]string{parser.DIV: "the quotient is always 1", parser.SUB: "the difference is always 0"}[b.Op]
		p.report(b.PositionRange(), "both sides are the same: "+is, advice("correct the one or the other"))
	})
}

// A leaning is which of two parts of a whole a value is: what is taken or what is left, what failed or
// what went well.
type leaning uint8

const (
	neither leaning = iota
	inUse
	notInUse
	failed
	fine
)

var opposite = map[leaning]leaning{inUse: notInUse, notInUse: inUse, failed: fine, fine: failed}

// leanings are words for them, and names of series.
var leanings = []struct {
	leaning
	words *regexp.Regexp
	names *regexp.Regexp
}{
	{inUse, regexp.MustCompile(`(?i)\b(used|usage|utili[sz]ation|util|busy|in use|consumption|pressure|full|使用率|利用率)\b|使用率|利用率`), regexp.MustCompile(`_FB_USED$|_GPU_UTIL$|_mem(ory)?_used|_memory_(working_set|usage|rss)(_bytes)?$|_resident_memory_bytes$|_usage_perc$|:token_usage$|_utilization$|_filefd_allocated$`)},
	{notInUse, regexp.MustCompile(`(?i)\b(free|available|avail|idle|remaining|left|headroom|unused)\b|剩余|可用`), regexp.MustCompile(`_Mem(Available|Free)(_bytes)?$|_SwapFree_bytes$|filesystem_(avail|free)_bytes$|_FB_FREE$|_mem_available$|_memory_free_bytes$`)},
	{failed, regexp.MustCompile(`(?i)\b(errors?|fail(ed|ures?|ing)?|5xx)\b|错误|失败`), nil},
	{fine, regexp.MustCompile(`(?i)\b(success(es|ful)?|availability|ok|good)\b|成功|可用性`), nil},
}

// leaningOf returns which part of a whole a value is, by the series of which it is made.
func leaningOf(e parser.Expr) leaning {
	e = unscaled(e)
	b, ok := e.(*parser.BinaryExpr)
	if ok && b.Op == parser.SUB {
		if v, isNumber := constant(b.LHS); isNumber && (v == 1 || v == 100) {
			return opposite[leaningOf(b.RHS)]
		}
		l, r := selectors(b.LHS), selectors(b.RHS) // all less what is left
		if len(l) == 1 && len(r) == 1 && isPartOf(r[0], l[0]) {
			return opposite[leaningOf(b.RHS)]
		}
		return neither
	}
	if ok && b.Op == parser.DIV {
		if l, r, single := sidesOf(b); single && selectsBy(l, "le") && isPart(l, r) {
			return fine // fast enough
		}
		if l, r, single := sidesOf(b); single && (nameOf(l) == nameOf(r) || isPartOf(l, r)) || len(selectors(b.LHS)) == 1 && b.VectorMatching == nil ||
			len(selectors(b.LHS)) == 1 && slices.ContainsFunc(selectors(b.RHS), func(v *parser.VectorSelector) bool { return strings.HasPrefix(nameOf(v), "DCGM_FI_DEV_FB_") }) {
			return leaningOf(b.LHS)
		}
		if inner, sub := unparen(b.LHS).(*parser.BinaryExpr); sub && inner.Op == parser.SUB {
			return leaningOf(inner)
		}
		return neither
	}
	if a, ok := e.(*parser.AggregateExpr); ok && a.Op != parser.COUNT && a.Op != parser.GROUP {
		return leaningOf(a.Expr)
	}
	if v := plainSelector(e); v != nil {
		return leaningOfSeries(v)
	}
	return neither
}

func isBinary(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		b, ok := n.(*parser.BinaryExpr)
		found = found || ok && b.VectorMatching != nil
		return nil
	})
	return found
}

func leaningOfSeries(v *parser.VectorSelector) leaning {
	for _, m := range v.LabelMatchers {
		positive := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
		switch {
		case m.Name == "mode" && strings.HasSuffix(nameOf(v), "cpu_seconds_total"):
			switch {
			case positive && m.Value == "idle":
				return notInUse
			case !positive && strings.Contains(m.Value, "idle"):
				return inUse
			}
		case slices.Contains([]string{"status", "code", "status_code", "response_code", "envoy_response_code_class"}, m.Name):
			bad := m.Matches("500") || m.Matches("5xx") || m.Matches("503") || m.Matches("5")
			good := m.Matches("200") || m.Matches("2xx") || m.Matches("2")
			switch {
			case bad && !good:
				return failed
			case good && !bad:
				return fine
			}
		}
	}
	for _, l := range leanings {
		if l.names != nil && l.names.MatchString(nameOf(v)) {
			return l.leaning
		}
	}
	return neither
}

// leaningSaid returns which part a text names, neither where it names both or none, and how
// many it names.
func leaningSaid(text string) (said leaning, n int) {
	said = neither
	for _, l := range leanings {
		if l.words.MatchString(text) {
			said, n = l.leaning, n+1
		}
	}
	if n > 1 {
		return neither, n
	}
	return said, n
}

// checkOtherPart finds texts that name one part of a whole beside a query for the other: what is left for
// what is taken, what went well for what failed.
func checkOtherPart(p *pass) {
	is := leaningOf(p.tree)
	if is == neither {
		return
	}
	texts := []string{strings.Join(labelWords(strings.ReplaceAll(p.name, ":", "_")), " ")}
	switch p.role {
	case panelRole:
		texts = []string{labelsLegends.ReplaceAllString(p.panel.legend, " "), p.panel.title}
		if p.severalQueries() {
			texts = texts[:1]
		}
	case alertRole:
		if c, ok := p.decisive(); !ok || c.op != parser.GTR && c.op != parser.GTE {
			return // little of the one is much of the other
		}
		for _, f := range p.rule.get("annotations").all() {
			if f.key == "summary" {
				texts = append(texts, labelsNamed.ReplaceAllString(f.value.str(), " "))
			}
		}
	case recordRole:
	default:
		return
	}
	for _, text := range texts {
		said, n := leaningSaid(text)
		switch {
		case n > 1:
			return
		case n == 0:
			continue
		}
		if p.role == alertRole && (said == notInUse || said == fine) {
			return // little is left, when much is taken
		}
		if said == opposite[is] {
			p.report(p.tree.PositionRange(), fmt.Sprintf("%q is written beside it, and the query asks for the rest of the whole",
				strings.TrimSpace(text)), advice("take 1 - … of it, or write what it is"))
		}
		return
	}
}
