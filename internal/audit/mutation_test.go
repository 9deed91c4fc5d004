package audit

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// A mutation makes one fault that people make. At most one of its functions is set.
type mutation struct {
	name string
	expr func(q *query, e parser.Expr) parser.Expr // of a part of the expression; nil where it does not apply
	text func(q *query) map[*node]string           // of strings of the panel, the rule or the expression
}

func selector(fn func(q *query, v *parser.VectorSelector) bool) func(*query, parser.Expr) parser.Expr {
	return func(q *query, e parser.Expr) parser.Expr {
		v, ok := e.(*parser.VectorSelector)
		if !ok || !fn(q, v) {
			return nil
		}
		return v
	}
}

func selectorTo(fn func(q *query, v *parser.VectorSelector) parser.Expr) func(*query, parser.Expr) parser.Expr {
	return func(q *query, e parser.Expr) parser.Expr {
		if v, ok := e.(*parser.VectorSelector); ok {
			return fn(q, v)
		}
		return nil
	}
}

func rename(pairs ...string) func(*query, parser.Expr) parser.Expr {
	return selector(func(_ *query, v *parser.VectorSelector) bool {
		for i := 0; i+1 < len(pairs); i += 2 {
			if strings.Contains(v.Name, pairs[i]) {
				v.Name = strings.Replace(v.Name, pairs[i], pairs[i+1], 1)
				for _, m := range v.LabelMatchers {
					if m.Name == labels.MetricName {
						m.Value = v.Name
					}
				}
				return true
			}
		}
		return false
	})
}

func called(names []string, fn func(q *query, c *parser.Call) parser.Expr) func(*query, parser.Expr) parser.Expr {
	return func(q *query, e parser.Expr) parser.Expr {
		if c, ok := e.(*parser.Call); ok && slices.Contains(names, c.Func.Name) {
			return fn(q, c)
		}
		return nil
	}
}

func function(from []string, to map[string]string) func(*query, parser.Expr) parser.Expr {
	return called(from, func(_ *query, c *parser.Call) parser.Expr {
		c.Func = parser.Functions[to[c.Func.Name]]
		return c
	})
}

func binary(fn func(q *query, b *parser.BinaryExpr) parser.Expr) func(*query, parser.Expr) parser.Expr {
	return func(q *query, e parser.Expr) parser.Expr {
		if b, ok := e.(*parser.BinaryExpr); ok {
			return fn(q, b)
		}
		return nil
	}
}

func aggregate(fn func(q *query, a *parser.AggregateExpr) parser.Expr) func(*query, parser.Expr) parser.Expr {
	return func(q *query, e parser.Expr) parser.Expr {
		if a, ok := e.(*parser.AggregateExpr); ok {
			return fn(q, a)
		}
		return nil
	}
}

// scaledBy multiplies what an alert compares with.
func scaledBy(by float64) func(*query, parser.Expr) parser.Expr {
	return binary(func(q *query, b *parser.BinaryExpr) parser.Expr {
		n, ok := b.RHS.(*parser.NumberLiteral)
		if !ok || !b.Op.IsComparisonOperator() || n.Val == 0 || q.role != alertRole {
			return nil
		}
		n.Val *= by
		return b
	})
}

// told are the texts that readers of an alert or a panel see.
func told(q *query) []*node {
	var out []*node
	for _, f := range q.rule.get("annotations").all() {
		if f.value.kind == text && !strings.Contains(f.key, "url") {
			out = append(out, f.value)
		}
	}
	return out
}

// worded replaces the first match in the texts of a rule.
func worded(pattern string, to func(m []string) string) func(*query) map[*node]string {
	re := regexp.MustCompile(pattern)
	return func(q *query) map[*node]string {
		for _, n := range told(q) {
			if m := re.FindStringSubmatch(n.value); m != nil {
				return map[*node]string{n: strings.Replace(n.value, m[0], to(m), 1)}
			}
		}
		return nil
	}
}

func units(pairs ...string) func(*query) map[*node]string {
	return func(q *query) map[*node]string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if q.panel != nil && q.panel.unitNode != nil && q.panel.unit == pairs[i] {
				return map[*node]string{q.panel.unitNode: pairs[i+1]}
			}
		}
		return nil
	}
}

// namedLabelsOf are the labels that texts and legends write.
func namedLabelsOf(q *query) []string {
	var out []string
	for _, n := range told(q) {
		for _, m := range labelsNamed.FindAllStringSubmatch(n.value, -1) {
			out = append(out, m[1]+m[2])
		}
	}
	if q.panel != nil {
		for _, m := range labelsLegends.FindAllStringSubmatch(q.panel.legend, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

func matcherOf(v *parser.VectorSelector) *labels.Matcher {
	for _, m := range v.LabelMatchers {
		if m.Name != labels.MetricName {
			return m
		}
	}
	return nil
}

var mutations = []mutation{
	{name: "le dropped", expr: aggregate(func(_ *query, a *parser.AggregateExpr) parser.Expr {
		return withoutLabel(a, func(l string) bool { return l == "le" })
	})},
	{name: "rate dropped", expr: called(rates, func(_ *query, c *parser.Call) parser.Expr {
		if m, ok := c.Args[0].(*parser.MatrixSelector); ok {
			return m.VectorSelector
		}
		return nil
	})},
	{name: "share summed", expr: aggregate(func(q *query, a *parser.AggregateExpr) parser.Expr {
		if a.Op == parser.SUM || (algebra{}).of(a.Expr, 0).of.additive() || !(algebra{}).of(a.Expr, 0).known() || oneGPU(a.Grouping) {
			return nil
		}
		a.Op = parser.SUM
		return a
	})},
	{name: "percentile averaged", expr: called([]string{"histogram_quantile"}, func(_ *query, c *parser.Call) parser.Expr {
		return &parser.AggregateExpr{Op: parser.AVG, Expr: c}
	})},
	{name: "rate of sum", expr: aggregate(func(_ *query, a *parser.AggregateExpr) parser.Expr {
		c, ok := a.Expr.(*parser.Call)
		if !ok || a.Op != parser.SUM || !isCall(c, rates...) {
			return nil
		}
		m, ok := c.Args[0].(*parser.MatrixSelector)
		if !ok {
			return nil
		}
		a.Expr = m.VectorSelector
		c.Args[0] = &parser.SubqueryExpr{Expr: a, Range: m.Range}
		return c
	})},
	{name: "sibling metric", expr: rename("time_to_first_token_seconds", "inter_token_latency_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
		"e2e_request_latency_seconds", "time_to_first_token_seconds", "request_queue_time", "request_prefill_time", "vllm:prompt_tokens", "vllm:generation_tokens", "vllm:generation_tokens", "vllm:prompt_tokens",
		"num_requests_waiting", "num_requests_running", "num_requests_running", "num_requests_waiting", "request_prompt_tokens", "request_generation_tokens",
		"GPU_UTIL", "GPU_TEMP", "GPU_TEMP", "POWER_USAGE", "POWER_USAGE", "GPU_UTIL", "FB_USED", "FB_FREE", "MemAvailable", "MemTotal", "receive_bytes", "transmit_bytes",
		"filesystem_avail", "filesystem_size", "container_memory_working_set_bytes", "container_cpu_usage_seconds_total", "container_cpu_usage_seconds_total", "container_memory_working_set_bytes",
		"num_queue_reqs", "num_running_reqs", "queue_duration_us", "compute_infer_duration_us", "kv_cache_usage_perc", "num_requests_running")},
	{name: "bucket to sum", expr: rename("_bucket", "_sum")},
	{name: "sum to count", expr: rename("seconds_sum", "seconds_count", "tokens_sum", "tokens_count")},
	{name: "count to sum", expr: rename("seconds_count", "seconds_sum", "tokens_count", "tokens_sum")},
	{name: "other quantile", expr: called([]string{"histogram_quantile"}, func(q *query, c *parser.Call) parser.Expr {
		n, ok := c.Args[0].(*parser.NumberLiteral)
		if !ok || !percentileNamed.MatchString(fmt.Sprint(q.name, q.panel, told(q))+textsOf(q)) {
			return nil
		}
		n.Val = map[bool]float64{true: 0.95, false: 0.5}[n.Val == 0.5]
		return c
	})},
	{name: "quantile as percent", expr: called([]string{"histogram_quantile"}, func(_ *query, c *parser.Call) parser.Expr {
		if n, ok := c.Args[0].(*parser.NumberLiteral); ok {
			n.Val *= 100
			return c
		}
		return nil
	})},
	{name: "other unit, same kind", text: units("s", "ms", "ms", "s", "percentunit", "percent", "percent", "percentunit", "mbytes", "bytes", "bytes", "mbytes", "µs", "s", "decbytes", "decgbytes")},
	{name: "other unit, other kind", text: units("s", "percentunit", "percentunit", "bytes", "percent", "celsius", "watt", "celsius", "celsius", "percent", "reqps", "s", "Bps", "percent", "mbytes", "percent", "bytes", "s", "µs", "reqps")},
	{name: "threshold times 100", expr: scaledBy(100)},
	{name: "threshold times 1000", expr: scaledBy(1000)},
	{name: "threshold by 100", expr: scaledBy(0.01)},
	{name: "direction", expr: binary(func(q *query, b *parser.BinaryExpr) parser.Expr {
		n, ok := b.RHS.(*parser.NumberLiteral)
		if !ok || q.role != alertRole || n.Val == 0 || mirrored[b.Op] == b.Op || mirrored[b.Op] == 0 {
			return nil
		}
		b.Op = mirrored[b.Op]
		return b
	})},
	{name: "text says the other direction", text: worded(`(?i)\b(above|below|more than|less than)\b`, func(m []string) string {
		return map[string]string{"above": "below", "below": "above", "more than": "less than", "less than": "more than"}[strings.ToLower(m[1])]
	})},
	{name: "text says another number", text: worded(`(above|below|(?:[Mm]ore|[Ll]ess) than) (\d+(?:\.\d+)?)`, func(m []string) string {
		v, _ := strconv.ParseFloat(m[2], 64)
		return m[1] + " " + short(v*3+7)
	})},
	{name: "text says another duration", text: worded(`(\d+) minutes`, func(m []string) string { return m[1] + "7 minutes" })},
	{name: "text writes another unit", text: worded(`\{\{ \$value( \| humanize\w+)? \}\}(s|%|°C)?`, func(m []string) string {
		switch {
		case m[1] == " | humanizePercentage":
			return "{{ $value }}%"
		case m[2] == "%", m[2] == "°C":
			return "{{ $value | humanizePercentage }}"
		case m[2] == "s":
			return "{{ $value }}ms"
		case strings.Contains(m[1], "Duration"):
			return "{{ $value }}%"
		}
		return m[0]
	})},
	{name: "label typo, matcher", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		m := matcherOf(v)
		if m != nil && len(m.Name) > 3 {
			m.Name = m.Name[:len(m.Name)-2] + m.Name[len(m.Name)-1:]
		}
		return m != nil && len(m.Name) > 3
	})},
	{name: "label typo, grouping", expr: aggregate(func(_ *query, a *parser.AggregateExpr) parser.Expr {
		for i, l := range a.Grouping {
			if len(l) > 3 {
				a.Grouping[i] = l[:len(l)-2] + l[len(l)-1:]
				return a
			}
		}
		return nil
	})},
	{name: "label of another metric", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		m := matcherOf(v)
		to := "finished_reason"
		if m == nil || strings.Contains(v.Name, "request_success") {
			to = "mode"
		}
		if m == nil {
			m = labels.MustNewMatcher(labels.MatchEqual, to, "idle")
			v.LabelMatchers = append(v.LabelMatchers, m)
		}
		m.Name = to
		return true
	})},
	{name: "grouped by another's label", expr: aggregate(func(_ *query, a *parser.AggregateExpr) parser.Expr {
		if a.Without || !slices.ContainsFunc(selectors(a), func(v *parser.VectorSelector) bool { return !strings.HasPrefix(v.Name, "DCGM") }) {
			return nil
		}
		for i, l := range a.Grouping {
			if l != "le" {
				a.Grouping[i] = "UUID"
				return a
			}
		}
		return nil
	})},
	{name: "label dropped on one side", expr: binary(func(_ *query, b *parser.BinaryExpr) parser.Expr {
		a := aggregation(unscaled(b.LHS))
		if b.VectorMatching == nil || b.VectorMatching.On || a == nil || len(a.Grouping) == 0 || b.Op == parser.LOR {
			return nil
		}
		if withoutLabel(a, func(l string) bool { return l == a.Grouping[0] }) == nil {
			return nil
		}
		return b
	})},
	{name: "other label value", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		values := map[string]string{"finished_reason": "5xx", "status": "stop", "mode": "Running", "phase": "running", "resource": "gpu", "le": "2.7", "sleep_state": "on"}
		for _, m := range v.LabelMatchers {
			if to := values[m.Name]; to != "" {
				*m = *labels.MustNewMatcher(labels.MatchEqual, m.Name, to)
				return true
			}
		}
		return false
	})},
	{name: "label that the text needs lost", expr: aggregate(func(q *query, a *parser.AggregateExpr) parser.Expr {
		return withoutLabel(a, func(l string) bool { return slices.Contains(namedLabelsOf(q), l) })
	})},
	{name: "quotient upside down", expr: binary(func(_ *query, b *parser.BinaryExpr) parser.Expr {
		if b.Op != parser.DIV || b.VectorMatching == nil || len(b.VectorMatching.MatchingLabels) > 0 {
			return nil
		}
		b.LHS, b.RHS = b.RHS, b.LHS
		return b
	})},
	{name: "one side's range", expr: binary(func(_ *query, b *parser.BinaryExpr) parser.Expr {
		if b.Op != parser.DIV || b.VectorMatching == nil {
			return nil
		}
		found := false
		parser.Inspect(b.RHS, func(n parser.Node, _ []parser.Node) error {
			if m, ok := n.(*parser.MatrixSelector); ok {
				m.Range *= 6
				found = true
			}
			return nil
		})
		if !found {
			return nil
		}
		return b
	})},
	{name: "increase on one side", expr: binary(func(_ *query, b *parser.BinaryExpr) parser.Expr {
		if b.Op != parser.DIV || b.VectorMatching == nil {
			return nil
		}
		found := false
		parser.Inspect(b.RHS, func(n parser.Node, _ []parser.Node) error {
			if c, ok := n.(*parser.Call); ok && c.Func.Name == "rate" {
				c.Func = parser.Functions["increase"]
				found = true
			}
			return nil
		})
		if !found {
			return nil
		}
		return b
	})},
	{name: "rate to increase", expr: called([]string{"rate"}, func(q *query, c *parser.Call) parser.Expr {
		if v := plainSelector(c); v == nil || isCall(c, "increase") || q.role != panelRole || !perSecondWords.MatchString(q.panel.title) && q.panel.unit != "reqps" && q.panel.unit != "Bps" {
			return nil
		}
		c.Func = parser.Functions["increase"]
		return c
	})},
	{name: "increase to rate", expr: function([]string{"increase"}, map[string]string{"increase": "rate"})},
	{name: "rate to delta", expr: function([]string{"rate", "increase"}, map[string]string{"rate": "deriv", "increase": "delta"})},
	{name: "rate of a gauge", expr: selectorTo(func(q *query, v *parser.VectorSelector) parser.Expr {
		if ofSeries(v.Name).of == "" || !isGauge(v.Name) {
			return nil
		}
		return &parser.Call{Func: parser.Functions["rate"], Args: parser.Expressions{&parser.MatrixSelector{VectorSelector: v, Range: 5 * time.Minute}}}
	})},
	{name: "zero without labels", expr: binary(func(_ *query, b *parser.BinaryExpr) parser.Expr {
		a, ok := b.LHS.(*parser.AggregateExpr)
		if b.Op != parser.DIV || !ok || len(a.Grouping) == 0 {
			return nil
		}
		zero, _ := parser.NewParser(parser.Options{}).ParseExpr("vector(0)")
		b.LHS = &parser.ParenExpr{Expr: &parser.BinaryExpr{Op: parser.LOR, LHS: a, RHS: zero, VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany}}}
		return b
	})},
	{name: "count compared with 0", expr: called([]string{"absent"}, func(_ *query, c *parser.Call) parser.Expr {
		c.Args[0] = &parser.AggregateExpr{Op: parser.COUNT, Expr: c.Args[0]}
		return &parser.BinaryExpr{Op: parser.EQLC, LHS: c.Args[0], RHS: &parser.NumberLiteral{Val: 0}}
	})},
	{name: "matchers that exclude each other", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName && m.Type == labels.MatchEqual {
				v.LabelMatchers = append(v.LabelMatchers, labels.MustNewMatcher(labels.MatchEqual, m.Name, m.Value+"2"))
				return true
			}
		}
		return false
	})},
	{name: "pattern behind =", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName && m.Type == labels.MatchEqual && !strings.Contains(m.Value, "$") {
				m.Value += ".*"
				return true
			}
		}
		return false
	})},
	{name: "variable renamed", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		for _, m := range v.LabelMatchers {
			if strings.HasPrefix(m.Value, "$") {
				m.Value += "s"
				return true
			}
		}
		return false
	})},
	{name: "variable behind =", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		for _, m := range v.LabelMatchers {
			if strings.HasPrefix(m.Value, "$") && m.Type == labels.MatchRegexp {
				m.Type = labels.MatchEqual
				return true
			}
		}
		return false
	})},
	{name: "variable of another label", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		for _, m := range v.LabelMatchers {
			if m.Value == "$model" || m.Value == "$instance" {
				m.Value = map[string]string{"$model": "$instance", "$instance": "$model"}[m.Value]
				return true
			}
		}
		return false
	})},
	{name: "metric of V0", expr: rename("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "inter_token_latency_seconds", "time_per_output_token_seconds", "vllm:prefix_cache", "vllm:gpu_prefix_cache")},
	{name: "metric with a typo", expr: rename("_seconds_", "_second_", "_total", "_totals", "_bytes", "_byte", "num_", "nums_", "_UTIL", "_UTILS", "_perc", "_percs", "_TEMP", "_TEMPS", "_success", "_succes")},
	{name: "total dropped", expr: rename("_total", "")},
	{name: "state dropped", expr: selector(func(_ *query, v *parser.VectorSelector) bool {
		before := len(v.LabelMatchers)
		v.LabelMatchers = slices.DeleteFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "mode" || m.Name == "phase" || m.Name == "resource" })
		return len(v.LabelMatchers) < before
	})},
	{name: "rest not taken", expr: binary(func(_ *query, b *parser.BinaryExpr) parser.Expr {
		if v, _, ok := number(b.LHS); ok && b.Op == parser.SUB && v == 1 {
			return b.RHS
		}
		return nil
	})},
	{name: "hundred dropped", expr: binary(func(_ *query, b *parser.BinaryExpr) parser.Expr {
		if v, _, ok := number(b.RHS); ok && b.Op == parser.MUL && v == 100 {
			return b.LHS
		}
		if v, _, ok := number(b.LHS); ok && b.Op == parser.MUL && v == 100 {
			return b.RHS
		}
		return nil
	})},
	{name: "comparison dropped", expr: binary(func(q *query, b *parser.BinaryExpr) parser.Expr {
		if _, ok := b.RHS.(*parser.NumberLiteral); !ok || !b.Op.IsComparisonOperator() || q.role != alertRole {
			return nil
		}
		return b.LHS
	})},
	{name: "steps times 100", text: func(q *query) map[*node]string {
		if q.panel == nil {
			return nil
		}
		for _, s := range stepsAboveZero(q.panel.defaults.at("thresholds", "steps").elements()) {
			n := s.get("value")
			if v, err := strconv.ParseFloat(n.scalar(), 64); err == nil {
				return map[*node]string{n: short(v * map[bool]float64{true: 0.01, false: 1000}[q.panel.unit == "percent"])}
			}
		}
		return nil
	}},
	{name: "recorded under another window", text: recordedAs("5m", "1h")},
	{name: "recorded under another aggregation", text: recordedAs("p95", "p99", "max", "sum", "_ratio", "_percent", "_seconds", "_ms")},
}

func recordedAs(pairs ...string) func(*query) map[*node]string {
	return func(q *query) map[*node]string {
		for i := 0; i+1 < len(pairs) && q.role == recordRole; i += 2 {
			if n := q.rule.get("record"); strings.Contains(n.value, pairs[i]) {
				return map[*node]string{n: strings.Replace(n.value, pairs[i], pairs[i+1], 1)}
			}
		}
		return nil
	}
}

func textsOf(q *query) string {
	out := ""
	for _, n := range told(q) {
		out += " " + n.value
	}
	if q.panel != nil {
		out += " " + q.panel.title + " " + q.panel.legend
	}
	return out
}

func withoutLabel(a *parser.AggregateExpr, which func(string) bool) parser.Expr {
	i := slices.IndexFunc(a.Grouping, which)
	if a.Without || i < 0 {
		return nil
	}
	a.Grouping = slices.Delete(slices.Clone(a.Grouping), i, i+1)
	return a
}

// rewritten applies fn to the at-th part of an expression to which it applies.
func rewritten(q *query, fn func(*query, parser.Expr) parser.Expr, at int) (string, bool) {
	tree, _, err := standIn(q.node.value)
	if err != nil {
		return "", false
	}
	done := false
	var walk func(e parser.Expr) parser.Expr
	walk = func(e parser.Expr) parser.Expr {
		switch n := e.(type) {
		case *parser.ParenExpr:
			n.Expr = walk(n.Expr)
		case *parser.AggregateExpr:
			n.Expr = walk(n.Expr)
		case *parser.Call:
			for i, a := range n.Args {
				n.Args[i] = walk(a)
			}
		case *parser.BinaryExpr:
			n.LHS, n.RHS = walk(n.LHS), walk(n.RHS)
		case *parser.UnaryExpr:
			n.Expr = walk(n.Expr)
		case *parser.SubqueryExpr:
			n.Expr = walk(n.Expr)
		case *parser.MatrixSelector:
			if to, ok := walk(n.VectorSelector).(*parser.VectorSelector); ok {
				n.VectorSelector = to
			} else { // a range of something else needs a subquery
				done, at = false, 1<<20
			}
		}
		if done {
			return e
		}
		before := e.String()
		if to := fn(q, e); to != nil && (to != e || to.String() != before) {
			if at == 0 {
				done = true
				return to
			}
			at--
			back, err := parser.NewParser(parser.Options{}).ParseExpr(before) // undo what was done in place
			if err != nil {
				return e
			}
			return back
		}
		return e
	}
	tree = walk(tree)
	return tree.String(), done
}

// mutants are the files that a mutation makes of one query.
func (m mutation) mutants(f *File, q *query) (out []*File) {
	write := func(changes map[*node]string) {
		var all []splice
		for n, to := range changes {
			if n.kind == text {
				s, ok := spliced(f.Data, n, []edit{{n, 0, len(n.value), to}})
				if !ok {
					return
				}
				all = append(all, s...)
			} else {
				all = append(all, splice{n.offset, n.offset + len(n.value), to})
			}
		}
		if data, ok := spliceAll(f.Data, all); ok {
			out = append(out, &File{Name: f.Name, Data: data, Kind: f.Kind})
		}
	}
	if m.text != nil {
		if changes := m.text(q); len(changes) > 0 {
			write(changes)
		}
		return out
	}
	for at := range 4 {
		to, ok := rewritten(q, m.expr, at)
		if !ok {
			break
		}
		write(map[*node]string{q.node: to})
	}
	return out
}

func said(t *testing.T, s *Surface, f File) (map[string]int, bool) {
	all, errs := Lint([]File{f}, s)
	if len(errs) > 0 {
		return nil, false
	}
	out := map[string]int{}
	for _, x := range all {
		if !x.Doubt {
			out[x.Check]++
		}
	}
	return out, true
}

// TestMutants makes one realistic fault after the other in files that are right, and counts
// those that the linter sees.
func TestMutants(t *testing.T) {
	s, err := AnySurface()
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"testdata/right/alerts.yaml", "testdata/right/board.yaml"}
	if dir := os.Getenv("AUDIT_MUTATE"); dir != "" {
		paths = nil
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				paths = append(paths, path)
			}
			return nil
		})
	}
	killed, made := map[string]int{}, map[string]int{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := File{Name: path, Data: data, Kind: KindOf(data)}
		d, err := read(&f)
		if err != nil || len(d.queries) > 80 {
			continue
		}
		before, _ := said(t, s, f)
		if os.Getenv("AUDIT_MUTATE") == "" && len(before) > 0 {
			t.Errorf("%s is not right: %v", path, before)
		}
		for _, q := range d.queries {
			if q.err != nil || q.role == variableRole {
				continue
			}
			for _, m := range mutations {
				for _, mutant := range m.mutants(&f, q) {
					after, ok := said(t, s, *mutant)
					if !ok {
						continue
					}
					made[m.name]++
					if slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(c string) bool { return after[c] > before[c] }) {
						killed[m.name]++
					} else if os.Getenv("AUDIT_SURVIVORS") != "" {
						fmt.Printf("SURVIVES\t%s\t%s\t%s\t%s\n", m.name, q.where, strings.Join(strings.Fields(q.node.value), " "), changedLine(f.Data, mutant.Data))
					}
				}
			}
		}
	}
	all, of := 0, 0
	for _, m := range mutations {
		all, of = all+killed[m.name], of+made[m.name]
		t.Logf("%-36s %3d of %3d", m.name, killed[m.name], made[m.name])
	}
	t.Logf("%-36s %3d of %3d", "all", all, of)
	const enough = 0.95
	if os.Getenv("AUDIT_MUTATE") == "" && float64(all) < enough*float64(of) {
		t.Errorf("%d of %d mutants are found, want %.0f %%", all, of, 100*enough)
	}
}

func changedLine(a, b []byte) string {
	la, lb := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(la), len(lb)) {
		if la[i] != lb[i] {
			return strings.TrimSpace(lb[i])
		}
	}
	return ""
}
