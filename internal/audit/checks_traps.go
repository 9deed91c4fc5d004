package audit

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// A trap is a metric that does not say what people take it for.
type trap struct {
	metric *regexp.Regexp // by its canonical name
	when   func(p *pass, v *parser.VectorSelector, path []parser.Node) bool
	why    string
	fix    string
}

// textMatches reports whether the texts around a query match.
func (p *pass) textMatches(re *regexp.Regexp) bool { return re.MatchString(p.words()) }

// hasMatcher reports whether a selector leaves out what has an empty label, or takes one value of it.
func hasMatcher(v *parser.VectorSelector, names ...string) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return slices.Contains(names, m.Name) && !m.Matches("") })
}

// selectsBy reports whether a selector has a matcher of a label.
func selectsBy(v *parser.VectorSelector, name string) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == name })
}

var (
	saysInUse       = regexp.MustCompile(`\b(usage|used|in use|utili[sz]ation|pressure|full)\b|使用率`)
	saysIdle        = regexp.MustCompile(`\b(idle|no (traffic|requests?)|had no request|without (traffic|requests?)|not? (being )?used)\b|without_?traffic|notraffic`)
	saysSome        = regexp.MustCompile(`\b(some|one of|one or more|at least one|any of|any) (the )?\w*\s*(replicas?|servers?|pods?|instances?|targets?|engines?)\b`)
	saysOtherMemory = regexp.MustCompile(`engine.?core|\bworkers?\b|whole pod|all processes`)
	saysFiring      = regexp.MustCompile(`\bfiring\b`)
	saysTotal       = regexp.MustCompile(`\btotal\b|\ball\b|\bsum\b|:total\b`)
	saysHTTPErrors  = regexp.MustCompile(`\b[45]xx\b|http errors?|rejected`)
	saysCompletions = regexp.MustCompile(`chat.?completions?\b|completion requests|chat requests|generation requests`)
	saysMeanOver    = regexp.MustCompile(`\b(avg|average|mean|moyenne|mittel)\w*\b[^.]{0,12}?\b\d+\s*m(in(ute)?s?)?\b|\b\d+\s*-?\s*m(in(ute)?s?)?\s+(avg|average|mean|moyenne)`)
)

// traps are facts about metrics; each says what they are taken for.
var traps = []trap{
	{
		regexp.MustCompile(`^node_memory_MemFree(_bytes)?$`),
		func(p *pass, _ *parser.VectorSelector, _ []parser.Node) bool {
			return p.role != variableRole && len(selectors(p.tree)) == 2 && leaningOf(p.tree) == inUse && p.textMatches(saysInUse)
		},
		"the page cache, which is given back when memory is needed, is not free: a host that has read a model's files seems full",
		"take node_memory_MemAvailable_bytes",
	},
	{
		regexp.MustCompile(`^kube_pod_container_status_last_terminated_reason$`),
		func(p *pass, v *parser.VectorSelector, path []parser.Node) bool {
			return p.role == alertRole && len(namesIn(p.tree)) == 1 && !under(path, "changes", "increase", "delta", "rate", "time")
		},
		"it stays 1 for as long as the pod lives: after one termination the alert fires for ever",
		"add: and on (namespace, pod, container) increase(kube_pod_container_status_restarts_total[30m]) > 0",
	},
	{
		regexp.MustCompile(`^container_(memory_(working_set|rss|usage|cache)(_bytes)?|cpu_usage_seconds_total)$`),
		func(p *pass, v *parser.VectorSelector, path []parser.Node) bool {
			return !hasMatcher(v, "container", "image", "id", "name", "container_name") && !p.selectsContainer(path) && added(path) && p.inPods(v, path)
		},
		"the pod's control group, which holds all its containers, has a series of its own (container=\"\"): everything is counted twice",
		`select container!=""`,
	},
	{
		regexp.MustCompile(`^container_start_time_seconds$`),
		func(_ *pass, _ *parser.VectorSelector, path []parser.Node) bool { return under(path, "changes") },
		"it is when the container was made, and each one has a series of its own: a restart in place does not change it (google/cadvisor#2169)",
		"count restarts with kube_pod_container_status_restarts_total, or the program's process_start_time_seconds",
	},
	{
		regexp.MustCompile(`^process_resident_memory_bytes$`),
		func(p *pass, _ *parser.VectorSelector, _ []parser.Node) bool {
			return p.role != variableRole && p.textMatches(saysOtherMemory) && p.says("vllm", "engine")
		},
		"it is of the API server's process alone: the engine core and the workers have processes of their own",
		"take container_memory_working_set_bytes of the pod's container",
	},
	{
		regexp.MustCompile(`^ALERTS$`),
		func(p *pass, v *parser.VectorSelector, _ []parser.Node) bool {
			return p.role == panelRole && !selectsBy(v, "alertstate") && p.textMatches(saysFiring) && !strings.Contains(p.panel.legend, "alertstate")
		},
		"it has the pending alerts too", `select alertstate="firing"`,
	},
	{
		regexp.MustCompile(`^inference_pool_average_queue_size$`),
		func(p *pass, _ *parser.VectorSelector, _ []parser.Node) bool {
			return !isBinary(p.tree) && (p.textMatches(saysTotal) || saysTotal.MatchString(p.name))
		},
		"it is the mean over the pool's pods already, and no total", "multiply with inference_pool_ready_pods, or add up vllm:num_requests_waiting",
	},
	{
		regexp.MustCompile(`^vllm:request_success_total$`),
		func(p *pass, _ *parser.VectorSelector, _ []parser.Node) bool {
			return p.role == panelRole && !isBinary(p.tree) && p.textMatches(saysHTTPErrors)
		},
		"requests that are answered with 4xx or 5xx are not in it: it counts those that the engine finished",
		`take http_requests_total{status=~"4xx|5xx"}`,
	},
	{
		regexp.MustCompile(`^http_request_duration_highr_seconds_(bucket|sum|count)$`),
		func(p *pass, _ *parser.VectorSelector, _ []parser.Node) bool {
			return p.textMatches(saysCompletions) || saysCompletions.MatchString(strings.ReplaceAll(p.name, "_", " "))
		},
		"it has no handler: requests to all paths are in it", "take http_request_duration_seconds of the handler, or vllm:e2e_request_latency_seconds",
	},
	{
		regexp.MustCompile(`^http_requests_total$`),
		func(p *pass, v *parser.VectorSelector, _ []parser.Node) bool {
			return p.role == panelRole && p.isEngines(v) == yes && !selectsBy(v, "handler") && !selectsBy(v, "path") && p.textMatches(saysCompletions) &&
				!slices.ContainsFunc(p.groupings(), func(l string) bool { return l == "handler" })
		},
		"it counts requests to every path, those for the list of models and for tokens too", `select handler=~"/v1/(chat/)?completions"`,
	},
	{
		regexp.MustCompile(`^vllm:(num_requests_(running|waiting)|kv_cache_usage_perc)$`),
		func(p *pass, _ *parser.VectorSelector, path []parser.Node) bool {
			return p.role == alertRole && under(path, "absent", "absent_over_time") && saysIdle.MatchString(p.words())
		},
		"an idle server has this series too, of value 0: absent says that no server is there at all",
		"compare sum(increase(vllm:request_success_total[2h])) with 0",
	},
	{
		regexp.MustCompile(`.`),
		func(p *pass, _ *parser.VectorSelector, path []parser.Node) bool {
			return p.role == alertRole && isCall(unparen(p.tree), "absent", "absent_over_time") && p.textMatches(saysSome)
		},
		"absent says that none of them is there: as long as one is, this does not fire", "compare count(…) with the number that should be there, or take up == 0",
	},
	{
		regexp.MustCompile(`^vllm:(external_)?prefix_cache_hits_total$`),
		func(p *pass, _ *parser.VectorSelector, _ []parser.Node) bool {
			c, ok := p.decisive()
			return ok && p.role == alertRole && len(selectors(p.tree)) == 1 && c.limit == 0 && (c.op == parser.EQLC || c.op == parser.LTE)
		},
		"without requests, or with prompts that share nothing, there are no hits either: this fires on every idle server",
		"add: and … rate(vllm:prefix_cache_queries_total[30m]) > 0; whether it is switched on says vllm:cache_config_info",
	},
	{
		regexp.MustCompile(`^container_last_seen$`),
		func(p *pass, _ *parser.VectorSelector, path []parser.Node) bool {
			c, ok := p.decisive()
			back := longestRange(path)
			return ok && back > 0 && c.op == parser.GTR && c.limit >= back.Seconds()
		},
		"a sample that old is no longer in the range: the series is gone before this can hold", "take a longer range, or absent of the container",
	},
	{
		regexp.MustCompile(`^DCGM_FI_DEV_FB_USED$`),
		func(p *pass, _ *parser.VectorSelector, _ []parser.Node) bool {
			c, ok := p.decisive()
			q := p.quantityOf(p.tree)
			return ok && p.role == alertRole && q.of == share && (c.op == parser.GTR || c.op == parser.GTE) && c.limit*q.scale <= 0.9 && p.ofServers()
		},
		"vLLM takes 0.9 of a GPU's memory when it starts (--gpu-memory-utilization), and keeps it: this fires on every server that is well",
		"alert on vllm:kv_cache_usage_perc, or go above what the servers are given",
	},
}

// longestRange is the longest range of the selectors that lead to a node.
func longestRange(path []parser.Node) (longest time.Duration) {
	for _, n := range path {
		if m, ok := n.(*parser.MatrixSelector); ok {
			longest = max(longest, m.Range)
		}
	}
	return longest
}

// ofServers reports whether the file asks for an engine's metrics, or speaks of vLLM.
func (p *pass) ofServers() bool { return p.vllm || p.says("vllm") }

// groupings are the labels by which anything in a query is grouped.
func (p *pass) groupings() (out []string) {
	p.walk(func(n parser.Node, _ []parser.Node) {
		if a, ok := n.(*parser.AggregateExpr); ok && !a.Without {
			out = append(out, a.Grouping...)
		}
	})
	return out
}

// selectsContainer reports whether what leads to a node keeps containers apart.
func (p *pass) selectsContainer(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			return n.Without || slices.ContainsFunc(n.Grouping, func(l string) bool {
				return slices.Contains([]string{"container", "name", "id", "image", "container_name"}, l)
			})
		case *parser.BinaryExpr:
			return n.VectorMatching != nil && slices.Contains(n.VectorMatching.MatchingLabels, "container")
		}
		return false
	})
}

// added reports whether series are added up on the way to a node.
func added(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool { a, ok := n.(*parser.AggregateExpr); return ok && a.Op == parser.SUM })
}

// inPods reports whether a cAdvisor series is Kubernetes': selected or grouped by pod or namespace.
func (p *pass) inPods(v *parser.VectorSelector, path []parser.Node) bool {
	return selectsBy(v, "pod") || selectsBy(v, "namespace") || slices.ContainsFunc(path, func(n parser.Node) bool {
		a, ok := n.(*parser.AggregateExpr)
		return ok && (slices.Contains(a.Grouping, "pod") || slices.Contains(a.Grouping, "namespace"))
	})
}

// checkTraps finds metrics that are taken for what they do not say.
func checkTraps(p *pass) {
	if p.role == variableRole {
		return
	}
	done := map[string]bool{}
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok || nameOf(v) == "" {
			return
		}
		name, _ := vllm.Canonical(nameOf(v))
		for _, t := range traps {
			if !done[t.why] && t.metric.MatchString(name) && t.when(p, v, path) {
				done[t.why] = true
				p.report(v.PositionRange(), t.why, advice(t.fix))
			}
		}
	})
	c, ok := unwrapped(unscaledRest(p.tree)).(*parser.Call)
	if ok && c.Func.Name == "irate" && saysMeanOver.MatchString(p.words()) && p.role == alertRole {
		p.report(c.PositionRange(), "irate looks at the last two scrapes alone, whatever the range: it is no mean over it", advice("take rate"))
	}
}

// unscaledRest sees through factors and through what is left of 1 or 100.
func unscaledRest(e parser.Expr) parser.Expr {
	for {
		e = unscaled(e)
		b, ok := e.(*parser.BinaryExpr)
		if !ok || b.Op != parser.SUB {
			return e
		}
		if _, number := constant(b.LHS); !number {
			return e
		}
		e = b.RHS
	}
}
