package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

func checkNoComparison(p *pass) {
	if p.role != alertRole {
		return
	}
	decides := len(selectors(p.tree)) == 0 // vector(1) is to fire always: a dead man's switch
	for _, v := range selectors(p.tree) {
		if r := p.records[nameOf(v)]; r != nil || !ours(nameOf(v)) {
			decides = true // it may hold the comparison
		}
	}
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			decides = decides || n.Op.IsComparisonOperator() && !n.ReturnBool || n.Op == parser.LUNLESS
		case *parser.Call:
			decides = decides || n.Func.Name == "absent" || n.Func.Name == "absent_over_time"
		}
	})
	if !decides {
		p.report(p.tree.PositionRange(),
			"an alert fires for every series that its expression returns, also for one of value 0: this one always does", advice("compare it with a threshold, such as > 10"))
	}
}

func checkNoFor(p *pass) {
	if p.role != alertRole || p.hold != "" && p.hold != "0" && p.hold != "0s" && p.hold != "0m" ||
		p.rule.get("data") != nil {
		return
	}
	longest := time.Duration(0)
	windows := 0
	relevant := false
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			longest = max(longest, n.Range)
			windows++
		case *parser.VectorSelector:
			relevant = relevant || ours(nameOf(n)) || known(nameOf(n))
		}
	})
	if !relevant || longest >= 10*time.Minute || windows >= 4 { // long windows hold by themselves, as burn rates do
		return
	}
	p.report(p.tree.PositionRange(),
		"without for, one evaluation is enough: a burst or a single slow scrape pages somebody",
		advice("add for: 5m, or what you can wait"))
}

// labelsNamed are the labels that an annotation's template asks for, and those that a
// panel's legend does.
var (
	labelsNamed   = regexp.MustCompile(`(?:\$labels|\.Labels)\.([a-zA-Z_]\w*)|index \$labels "([a-zA-Z_]\w*)"`)
	labelsLegends = regexp.MustCompile(`\{\{\s*([a-zA-Z_]\w*)\s*\}\}`)
)

// checkLostLabel finds annotations and legends that name a label which the expression
// has aggregated away: they are empty where the name should stand.
func checkLostLabel(p *pass) {
	has := p.labelsOf(p.tree)
	if !has.known || !has.exact {
		return
	}
	kept := "no labels"
	if len(has.names) > 0 {
		kept = "only " + strings.Join(has.names, ", ")
	}
	if p.role == panelRole {
		if lost := lostIn(p.panel.legend, labelsLegends, has); len(lost) > 0 {
			p.reportAs(catalog.Info, p.tree.PositionRange(),
				fmt.Sprintf("the legend names %s, and the series have %s: it is empty there", strings.Join(lost, ", "),
					kept), advice("group by it too, or take it out of the legend"))
		}
		return
	}
	if p.role != alertRole {
		return
	}
	for _, part := range []string{"annotations", "labels"} {
		for _, f := range p.rule.get(part).all() {
			if lost := lostIn(f.value.str(), labelsNamed, has); len(lost) > 0 {
				at := labelsNamed.FindStringIndex(f.value.str())
				p.reportText(f.value, at[0], at[1],
					fmt.Sprintf("%s names %s, and the alert has %s: whoever is woken reads nothing there", f.key,
						strings.Join(lost, ", "), kept), "group the expression by it too, or take it out of the text")
				return
			}
		}
	}
}

// lostIn returns the labels that a text names and a vector lacks.
func lostIn(text string, named *regexp.Regexp, has labelSet) []string {
	var out []string
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		label := strings.Join(m[1:], "")
		if !slices.Contains(has.names, label) && !slices.Contains(out, label) && label != labels.MetricName {
			out = append(out, label)
		}
	}
	return out
}

// checkCountIsZero finds counts of series compared with zero: of nothing there is no
// count, so that the comparison never holds.
func checkCountIsZero(p *pass) {
	p.comparisons(func(c comparison) {
		never := c.limit == 0 && (c.op == parser.EQLC || c.op == parser.LTE) || c.limit > 0 && c.limit <= 1 &&
			c.op == parser.LSS || c.limit > 0 && c.limit < 1 && c.op == parser.LTE
		if !never {
			return
		}
		switch n := unparen(c.expr).(type) {
		case *parser.AggregateExpr:
			if n.Op != parser.COUNT || slices.ContainsFunc(alternatives(n.Expr),
				func(*parser.BinaryExpr) bool { return true }) {
				return
			}
		case *parser.Call:
			if n.Func.Name != "count_over_time" {
				return
			}
		default:
			return
		}
		p.report(c.at, "where there is nothing to count there is no result, not 0: this never holds",
			advice("write absent(…), or (… or vector(0)) before the comparison"))
	})
}

// states are gauges of 0 and 1 for which people count series.
var states = []string{"up", "vllm:healthy_pods_total", "vllm:engine_sleep_state"}

// checkCountOfStates finds series counted, whatever they say, where those are meant that
// say 1: a target that is down has a series too.
func checkCountOfStates(p *pass) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		a, ok := n.(*parser.AggregateExpr)
		if !ok || a.Op != parser.COUNT || !p.says("healthy", "available", "alive", "running", "ready", " up",
			"active") {
			return
		}
		v, ok := unparen(a.Expr).(*parser.VectorSelector)
		if name, _ := vllm.Canonical(nameOfOrNone(v)); ok && slices.Contains(states, name) {
			at := a.PositionRange()
			p.report(at, "count counts the series of those that are down too",
				suggestion{"write sum", []edit{{p.node, int(at.Start), int(at.Start) + len("count"), "sum"}}})
		}
	})
}

func nameOfOrNone(v *parser.VectorSelector) string {
	if v == nil {
		return ""
	}
	return nameOf(v)
}

// alternatives returns the "or" operators under a node.
func alternatives(n parser.Node) []*parser.BinaryExpr {
	var out []*parser.BinaryExpr
	parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
		if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.LOR {
			out = append(out, b)
		}
		return nil
	})
	return out
}

// work are counters of what is done, which stand still where nobody asks.
var work = []string{
	"vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:request_success_total",
	"vllm:iteration_tokens_total_sum", "vllm:avg_generation_throughput_toks_per_s",
	"vllm:avg_prompt_throughput_toks_per_s",
}

// checkFiresWhenIdle finds alerts on low throughput that nothing limits to times with
// requests.
func checkFiresWhenIdle(p *pass) {
	if p.role != alertRole {
		return
	}
	tree, ok := unparen(p.tree).(*parser.BinaryExpr)
	if !ok {
		return
	}
	p.comparisons(func(c comparison) {
		if c.at != tree.PositionRange() || c.op != parser.LSS && c.op != parser.LTE || c.limit <= 0 {
			return
		}
		all := selectors(c.expr)
		if len(all) != 1 {
			return
		}
		name, _ := vllm.Canonical(nameOf(all[0]))
		if slices.Contains(work, name) {
			p.report(c.at, "nothing is done where nobody asks: this fires at night, and on every idle server",
				advice("add: and on (instance) vllm:num_requests_running > 0, grouped as the left side is"))
		}
	})
}
