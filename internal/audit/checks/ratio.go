package checks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

var wrongRatio = Check{
	ID: "wrong-ratio", Severity: page, Title: "a quotient of two metrics of the catalogue that does not mean what it suggests",
	Doc: "GPU memory used over *free*: 0.9 is 47 % full. Cache hits over hits plus queries, which already include the hits. Tokens of all " +
		"requests over completed ones. The sum of one histogram over the count of another. Finished requests over finished requests.",
	Bad: "DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE", Good: "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
	binary: func(p *pass, b *parser.BinaryExpr) {
		if b.Op != parser.DIV && b.Op != parser.SUB || b.VectorMatching == nil {
			return
		}
		l := canonicalOf(b.LHS)
		var by []string
		for _, v := range Selectors(b.RHS) {
			name, _ := vllm.Canonical(NameOf(v))
			by = append(by, name)
		}
		slices.Sort(by)
		r := strings.Join(by, " ")
		for _, q := range wrongQuotients {
			if b.Op == parser.DIV && l == q.part && r == q.by && (!q.share || p.Role == files.InPanel && panelUnits[p.Panel.Unit].of == share) {
				p.reportAs(q.severity, b.PositionRange(), q.why, q.fix)
				return
			}
		}
		const finished = "vllm:request_success_total"
		whole := func(e parser.Expr) bool { return !selectsBy(Selectors(e)[0], "finished_reason") }
		if l == finished && slices.Contains(finishedCounts, r) && whole(b.LHS) || r == finished && slices.Contains(finishedCounts, l) && whole(b.RHS) {
			p.report(b.PositionRange(), "both sides count the finished requests, failed ones among them: the quotient is always 1, the difference 0 (vllm-project/vllm#9346)", "take HTTP statuses, of the gateway or of http_requests_total")
			return
		}
		lc, lf := classOf(l)
		rc, rf := classOf(r)
		if b.Op == parser.DIV && lc == sum && rc == count && lf.Name != rf.Name && unitOfFamily(lf.Name).of == span && !slices.Contains(finishedCounts, r) {
			p.reportAs(ticket, b.PositionRange(), "the sum of one histogram is divided by the count of another: "+lf.Name+" is not observed as often as "+rf.Name, "divide by "+lf.Name+"_count")
		}
	},
}

// wrongQuotients are quotients by what they divide; share where only a panel in percent takes them for a share.
var wrongQuotients = []struct {
	part, by, why, fix string
	severity           catalog.Severity
	share              bool
}{
	{
		"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "used divided by free is not a share of the total: 0.9 is 47 % full, and it has no upper bound",
		"divide by their sum: DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)", page, false,
	},
	{
		"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits_total vllm:prefix_cache_queries_total",
		"the queries hold the hits already: added to them, every hit counts twice in the divisor, and 100 % reads 50 %", "divide by the queries alone", page, false,
	},
	{
		"vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_drafts_total", "a draft holds several tokens: accepted tokens over drafts is a length and goes above 1",
		"for a share divide by vllm:spec_decode_num_draft_tokens_total", page, true,
	},
	{
		"vllm:spec_decode_num_accepted_tokens_per_pos_total", "vllm:spec_decode_num_draft_tokens_total",
		"a draft has one token at each position: divided by all of its tokens every position reads as many times too low as a draft is long",
		"divide by vllm:spec_decode_num_drafts_total", page, false,
	},
	{
		"vllm:prompt_tokens_total", "vllm:request_success_total", "abandoned requests are in the tokens and not in the completions: the mean rises when clients leave (vllm-project/vllm#31503)",
		"divide by vllm:time_to_first_token_seconds_count, which is counted with the prompt", ticket, false,
	},
	{
		"vllm:generation_tokens_total", "vllm:request_success_total", "abandoned requests are in the tokens and not in the completions: the mean rises when clients leave (vllm-project/vllm#31503)",
		"divide the rate of vllm:request_generation_tokens_sum by that of _count", ticket, false,
	},
}

var shareFloor = Check{
	ID: "share-floor", Severity: ticket, Title: "a share whose divisor is clamped at a rate that quiet servers do not reach",
	Doc: "`errors / clamp_min(rate(requests), 1)`: below one request per second the divisor stays at 1, and a server that fails all of a " +
		"few requests looks healthy. Info if the divisor is a rate of tokens.",
	Bad:  `sum(rate(http_requests_total{status="5xx"}[5m])) / clamp_min(sum(rate(http_requests_total[5m])), 1)`,
	Good: `sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(http_requests_total[5m]))`,
	binary: func(p *pass, b *parser.BinaryExpr) {
		c, ok := unparen(b.RHS).(*parser.Call)
		if b.Op != parser.DIV || !ok || c.Func.Name != "clamp_min" || p.Opaque(c.Args[1].PositionRange().Start, c.Args[1].PositionRange().End) {
			return
		}
		floor, ok := constant(c.Args[1])
		v := rated(c.Args[0])
		if !ok || floor < 0.1 || v == nil || rated(b.LHS) == nil || calls(c.Args[0], "increase") {
			return
		}
		severity := p.check.Severity
		if n := NameOf(v); !strings.HasSuffix(n, "_count") && (strings.Contains(n, "token") || strings.Contains(n, "prefix_cache")) {
			severity = info
		}
		p.reportAs(severity, c.PosRange, fmt.Sprintf("below %s per second the divisor stays at %s, and the quotient is too small: at one request in 20 s it is %.2g of what it should be",
			short(floor), short(floor), min(1, 0.05/floor)), "write a floor far below one request, such as 1e-9, or leave it out")
	},
}

var sumWithoutCount = Check{
	ID: "sum-without-count", Severity: ticket, Title: "the rate of a histogram's _sum shown as if it were a mean",
	Doc: "vLLM's own dashboard shows queue, prefill and decode time in this way: seconds of all requests together, per second. It grows " +
		"with traffic and is not a latency.",
	Bad:   shownIn("s", "rate(vllm:request_queue_time_seconds_sum[5m])"),
	Good:  shownIn("s", "rate(vllm:request_queue_time_seconds_sum[5m]) / rate(vllm:request_queue_time_seconds_count[5m])"),
	roles: []files.Role{files.InPanel},
	query: func(p *pass) {
		v := rated(p.Tree)
		c, f := classOf(NameOf(v))
		is, limits := p.inferFact(p.Tree).unit, strings.Contains(f.Name, "_max_") // what may be asked for is no work done
		shown := panelUnits[p.Panel.Unit].of == span || slices.Contains([]string{"", "none", "short"}, p.Panel.Unit)
		if c != sum || f.Type != engine.Histogram || is.of != busy && is.of != span && !limits || !shown {
			return
		}
		p.report(p.Tree.PositionRange(), "the sum's rate is the total of all requests together per second: it grows with traffic and is not a latency",
			"divide by the rate of "+f.Name+"_count for the mean")
	},
}

var wrongUnit = Check{
	ID: "wrong-unit", Severity: ticket, Title: "a wrong unit: seconds shown as milliseconds, a ratio as percent",
	Doc: "In Grafana, `percent` is for values from 0 to 100 and `percentunit` for those from 0 to 1. Also `humanizePercentage` and " +
		"`humanizeDuration` in an alert's text, which take ratios and seconds. Only if the catalogue proves the unit.",
	Bad: shownIn("percent", "max(vllm:kv_cache_usage_perc)"), Good: shownIn("percentunit", "max(vllm:kv_cache_usage_perc)"),
	roles: []files.Role{files.InPanel, files.Alert},
	query: func(p *pass) {
		is := p.inferFact(p.Tree).unit
		if p.Role == files.Alert {
			p.unitOfText(is)
			return
		}
		shown, ok := panelUnits[p.Panel.Unit]
		switch {
		case !ok || !is.known() || shown.is(is) || is.of == tokens || is.of == busy || is.of == requests && shown.of == requestRate:
		case is.of == cores && shown.of == share && is.scale == shown.scale, is.of == cores && shown.of == span:
		case is.of == share && shown.of == requestRate: // a rate by its name
		case shown.of == is.of, is.of == cores && shown.of == share:
			why := fmt.Sprintf("the values are %s and the panel's unit is %s: off by a factor of %s", is, shown, times(is, shown))
			if to := p.unitName(is); to != "" {
				p.reportText(p.Panel.UnitNode, why, "write "+to)
				p.showIn(is, to)
			} else {
				p.reportText(p.Panel.UnitNode, why, "multiply or divide in the query")
			}
		default:
			p.reportText(p.Panel.UnitNode, fmt.Sprintf("the values are %s and the panel's unit is for %s", is, shown), "correct the unit, or the query")
		}
	},
}

// showIn says in which of Grafana's or Perses' units a panel shows its values, as the repair of the finding
// that was added last where all queries of the panel have the unit.
func (p *pass) showIn(is unit, to string) {
	others := slices.ContainsFunc(p.PanelQueries(), func(q *files.Query) bool { return q.Tree == nil || p.infer(q, q.Tree).unit != is })
	if n := p.Panel.UnitNode; n != nil && !others && panelUnits[to].is(is) {
		p.repair(files.Edit{Node: n, End: len(n.Value), Text: to})
	}
}

// unitName is what Grafana or Perses call a unit, "" where they have no word for it.
func (p *pass) unitName(is unit) string {
	for _, w := range unitWords {
		if to := map[bool]string{false: w.grafana, true: w.perses}[p.Panel.Perses]; to != "" && w.is(is) {
			return to
		}
	}
	return ""
}

// unitsOfText are functions and signs by which an annotation writes a value in a unit.
var unitsOfText = []struct {
	unit
	as *regexp.Regexp
}{
	{percent, regexp.MustCompile(`\{\{-?\s*(?:printf\s+"[^"]*"\s+|humanize\s+)?\$value(?:\s*\|\s*(?:printf\s+"[^"]*"|humanize))?\s*-?\}\}\s*%|printf\s+"[^"]*%%"\s+\$value|\$value\s*\|\s*printf\s+"[^"]*%%"`)},
	{ratio, regexp.MustCompile(`\$value\s*\|\s*humanizePercentage|humanizePercentage\s+\$value`)},
	{seconds, regexp.MustCompile(`\$value\s*\|\s*humanizeDuration|humanizeDuration\s+\$value`)},
}

// unitOfText judges the unit that an alert's annotations give its value.
func (p *pass) unitOfText(is unit) {
	if !is.known() || is.of == code || is.of == cores || is.of == busy || is.of == moment {
		return
	}
	for _, f := range p.Rule.Get("annotations").Fields() {
		for _, u := range unitsOfText {
			if u.as.MatchString(f.Value.Str()) && !u.is(is) {
				p.reportText(f.Value, fmt.Sprintf("the value is %s, and the text writes it as %s", is, u.unit),
					cmp.Or(map[unit]string{ratio: "write {{ $value | humanizePercentage }}", percent: "write {{ $value | humanize }}%", seconds: "write {{ $value | humanizeDuration }}"}[is],
						"write {{ $value | humanize }} and the unit that it has"))
			}
		}
	}
}
