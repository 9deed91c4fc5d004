package audit

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

var wrongRatio = Check{
	ID: "wrong-ratio", Severity: page, Title: "a quotient of two metrics of the catalogue that is not what it is taken for",
	Doc: "GPU memory used over *free*: 0.9 is 47 % full. Cache hits over hits plus queries, which hold the hits already. Tokens of all requests over " +
		"completed ones. The sum of one histogram over the count of another. Finished requests over finished requests.",
	Bad: "DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE", Good: "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
	binary: func(p *pass, b *parser.BinaryExpr) {
		if b.Op != parser.DIV && b.Op != parser.SUB || b.VectorMatching == nil {
			return
		}
		l := canonicalOf(b.LHS)
		var by []string
		for _, v := range selectors(b.RHS) {
			name, _ := vllm.Canonical(nameOf(v))
			by = append(by, name)
		}
		slices.Sort(by)
		r := strings.Join(by, " ")
		for _, q := range wrongQuotients {
			if b.Op == parser.DIV && l == q.part && r == q.by && (!q.share || p.role == panelRole && panelUnits[p.panel.unit].of == share) {
				p.reportAs(q.severity, b.PositionRange(), q.why, advice(q.fix))
				return
			}
		}
		const finished = "vllm:request_success_total"
		whole := func(e parser.Expr) bool { return !selectsBy(selectors(e)[0], "finished_reason") }
		if l == finished && slices.Contains(finishedCounts, r) && whole(b.LHS) || r == finished && slices.Contains(finishedCounts, l) && whole(b.RHS) {
			p.report(b.PositionRange(), "both sides count the finished requests, failed ones among them: the quotient is always 1, the difference 0 (vllm-project/vllm#9346)", advice("take HTTP statuses, of the gateway or of http_requests_total"))
			return
		}
		lc, lf := classOf(l)
		rc, rf := classOf(r)
		if b.Op == parser.DIV && lc == sum && rc == count && lf.Name != rf.Name && unitOfFamily(lf.Name).of == span && !slices.Contains(finishedCounts, r) {
			p.reportAs(ticket, b.PositionRange(), "the sum of one histogram is divided by the count of another: "+lf.Name+" is not observed as often as "+rf.Name, advice("divide by "+lf.Name+"_count"))
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
		"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "used divided by free is no share of the whole: 0.9 is 47 % full, and it has no upper bound",
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
