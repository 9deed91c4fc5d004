package checks

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
)

var scalerSeries = Check{
	ID: "scaler-series", Severity: page, Title: "an autoscaler whose query returns several series",
	Doc:   "KEDA accepts one and fails if the query returns one per replica (\"prometheus query returned multiple elements\").",
	Bad:   scaling("vllm:num_requests_waiting", ""),
	Good:  scaling("sum(vllm:num_requests_waiting)", ""),
	roles: []files.Role{files.Scaler},
	query: func(p *pass) {
		l := p.inferFact(p.Tree).labels
		var by []string
		for _, name := range l.names {
			if slices.Contains(ofTargets, name) && !slices.ContainsFunc(Selectors(p.Tree), func(v *parser.VectorSelector) bool { return p.pins(v, name) }) {
				by = append(by, name)
			}
		}
		all := Selectors(p.Tree)
		raw := l.known && !l.exact && len(all) == 1 && !slices.ContainsFunc(ofTargets, func(t string) bool { return p.pins(all[0], t) }) && p.Scaler.At("spec", "maxReplicaCount").Scalar() != "1"
		if len(by) > 0 && l.known && l.exact || raw {
			p.report(p.Tree.PositionRange(), "KEDA takes one series, and there is one for each "+cmp.Or(strings.Join(by, ", "), "replica")+": with two replicas it fails", "write sum(…)")
		}
	},
}

var scalerAverage = Check{
	ID: "scaler-average", Severity: ticket, Title: "an average, a percentile or a quotient that KEDA treats as a total",
	Doc: "KEDA divides the value by the threshold to get the number of replicas, unless `metricType: Value` is set: with `avg(…)` the " +
		"number does not depend on the total load, and a sum divided by the replicas is divided twice.",
	Bad:   scaling("avg(vllm:num_requests_waiting)", ""),
	Good:  scaling("sum(vllm:num_requests_waiting)", ""),
	roles: []files.Role{files.Scaler},
	query: func(p *pass) {
		if t := p.Trigger.Get("metricType").Str(); t != "" && t != "AverageValue" {
			return
		}
		what := ""
		_, percentile := quantileIn(unscaled(p.Tree))
		switch n := unscaled(p.Tree).(type) {
		case *parser.AggregateExpr:
			if slices.Contains([]parser.ItemType{parser.AVG, parser.MAX, parser.MIN, parser.QUANTILE}, n.Op) {
				what = n.Op.String()
			}
		case *parser.BinaryExpr:
			if n.Op == parser.DIV && len(Selectors(n.LHS)) > 0 && len(Selectors(n.RHS)) > 0 {
				what = "a quotient of totals"
			}
		}
		if percentile {
			what = "a percentile"
		}
		if what != "" {
			p.report(p.Tree.PositionRange(), "KEDA divides the value by the threshold for the number of replicas (metricType AverageValue, the default): "+what+
				" does not grow with them, and the same number is wanted whatever each of them has", "write metricType: Value, or scale by a sum")
		}
	},
}

var scaleFromZero = Check{
	ID: "scale-from-zero", Severity: page, Title: "an autoscaler to zero that reads only its own replicas",
	Doc:   "With none left, nothing exposes the metric, and nothing scales up again.",
	Bad:   scaling("sum(vllm:num_requests_waiting)", "  minReplicaCount: 0\n"),
	Good:  scaling("sum(vllm:num_requests_waiting)", "  minReplicaCount: 1\n"),
	roles: []files.Role{files.Scaler},
	query: func(p *pass) {
		if p.Scaler.At("spec", "idleReplicaCount") == nil && cmp.Or(p.Scaler.At("spec", "minReplicaCount").Scalar(), "0") != "0" {
			return
		}
		for _, t := range p.Scaler.At("spec", "triggers").Items() {
			if t.Get("type").Str() != "prometheus" {
				return
			}
		}
		var names []string
		for _, q := range p.Doc.Queries {
			if q.Scaler != p.Scaler {
				continue
			}
			if q.Tree == nil || len(Selectors(q.Tree)) == 0 {
				return
			}
			for _, v := range Selectors(q.Tree) {
				_, f := classOf(NameOf(v))
				ofGPUs := f.Engine == dialect.DCGM && !selectsBy(v, "pod") && !selectsBy(v, "exported_pod") // of all GPUs, also of those that are free
				if f.Engine == "" || ofGPUs {
					return
				}
				names = append(names, NameOf(v))
			}
		}
		p.report(p.Tree.PositionRange(), "with no replica left nothing exposes "+strings.Join(names, ", ")+": this never scales up from 0", "write minReplicaCount: 1, or add a trigger on what waits at the gateway")
	},
}

var scalingWrong = Check{
	ID: "scaling-wrong", Severity: ticket, Title: "an autoscaler on a metric that does not show whether another replica would help",
	Doc: "A compute-bound server may be saturated with a third of its KV cache in use: KV usage alone adds no replica. GPU utilization is " +
		"100 % with one request: it alone adds replicas while all are nearly idle. A range of more than five minutes counts the requests " +
		"of replicas that are gone.",
	Bad:   scaling("sum(vllm:kv_cache_usage_perc)", ""),
	Good:  scaling("sum(vllm:num_requests_running) + sum(vllm:num_requests_waiting)", ""),
	roles: []files.Role{files.Scaler},
	query: func(p *pass) {
		const fix = "scale on the requests in flight: sixty generate autoscaling"
		only := map[string]bool{}
		for _, q := range p.Doc.Queries {
			if q.Scaler == p.Scaler && (q.Tree == nil || len(Selectors(q.Tree)) == 0) {
				return // nobody knows what it is
			}
			if q.Scaler == p.Scaler {
				for _, v := range Selectors(q.Tree) {
					only[misleading(NameOf(v))] = true
				}
			}
		}
		for _, t := range p.Scaler.At("spec", "triggers").Items() {
			if t.Get("type").Str() != "prometheus" {
				return
			}
		}
		switch {
		case only[""]: // something else is among them
		case only[ofCache]:
			p.addDoubt(p.Tree.PositionRange(), "nothing but KV cache usage is looked at: servers that are saturated by computing, by --max-num-seqs or by prefill have a part of it free, and nothing is added",
				"where the KV cache is what these servers run out of first, it is right", fix)
		case only[ofGPU]:
			p.report(p.Tree.PositionRange(), "nothing but GPU utilization is looked at, which is 100 % with a single request: replicas are added while all are nearly idle", fix)
		}
	},
	call: func(p *pass, c *parser.Call) {
		if m, ok := rangeOf(c); ok && strings.HasSuffix(c.Func.Name, "_over_time") && m.Range > 5*time.Minute {
			p.report(c.PositionRange(), "over "+m.Range.String()+" the series of replicas that are gone still count", "write 1m to 5m")
		}
	},
}

// What of a server is misleading for an autoscaler.
const ofCache, ofGPU = "cache", "GPU"

// misleading says which of them a metric is, "" for none.
func misleading(name string) string {
	_, f := classOf(name)
	switch {
	case strings.HasSuffix(f.Name, "cache_usage_perc") || f.Name == "token_usage":
		return ofCache
	case f.Name == "DCGM_FI_DEV_GPU_UTIL":
		return ofGPU
	}
	return ""
}

// rangeOf is the range that a call looks at.
func rangeOf(c *parser.Call) (*parser.MatrixSelector, bool) {
	for _, a := range c.Args {
		if m, ok := a.(*parser.MatrixSelector); ok {
			return m, true
		}
	}
	return nil, false
}

var scalerConflict = Check{
	ID: "scaler-conflict", Severity: page, Title: "two autoscalers of one workload",
	Doc:   "KEDA creates its own HorizontalPodAutoscaler: a second one on the same Deployment undoes the first one's changes.",
	Bad:   scaling("sum(vllm:num_requests_waiting)", "") + "---\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n  scaleTargetRef: {kind: Deployment, name: llm}\n",
	Good:  scaling("sum(vllm:num_requests_waiting)", "") + "---\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n  scaleTargetRef: {kind: Deployment, name: web}\n",
	roles: []files.Role{files.Scaler},
	query: func(p *pass) {
		for _, d := range p.docs {
			for _, other := range d.Scalers {
				if t := files.ScaleTarget(p.Scaler); other != p.Scaler && t != "" && files.ScaleTarget(other) == t {
					p.report(p.Tree.PositionRange(), other.Get("kind").Str()+" "+other.At("metadata", "name").Str()+" scales the same "+p.Scaler.At("spec", "scaleTargetRef", "name").Str()+": each undoes what the other does",
						"keep one of them")
					return
				}
			}
		}
	},
}

var alertCondition = Check{
	ID: "alert-condition", Severity: page, Title: "a Grafana-managed alert whose condition decides nothing, or is rejected",
	Doc: "The condition is the query itself, and every value except 0 fires; or it names no step; or a threshold is applied to a range of " +
		"values without a reduce step. Query and threshold are checked as one expression, like any alert.",
	Bad:  managedExample("false"),
	Good: managedExample("true"),
	query: func(p *pass) {
		m := p.Managed
		switch {
		case m == nil:
		case m.Missing:
			p.reportText(m.Rule.Get("condition"), "no query or expression has this letter: Grafana refuses the rule", "name the one that decides")
		case m.Unreduced != nil:
			p.reportText(m.Unreduced.Get("refId"), "the threshold looks at a range of values, and only one can be compared: Grafana fails with \"looks like time series data\"",
				"put a reduce before it, or make the query instant")
		case m.Direct && !decides(p.Tree, false) && m.HasOthers:
			p.reportText(m.Rule.Get("condition"), "the condition is the query itself, and every value but 0 fires: the threshold beside it decides nothing", "name the threshold's letter")
		case m.Direct && !decides(p.Tree, false):
			p.reportText(m.Rule.Get("condition"), "the condition is a query without a comparison: every value but 0 fires", "add a threshold, and name its letter")
		}
	},
}

func managedExample(instant string) string {
	return "groups:\n- name: g\n  rules:\n  - title: A\n    condition: C\n    data:\n    - {refId: A, datasourceUid: prometheus, model: {expr: 'sum(vllm:num_requests_waiting)', instant: " + instant + "}}\n" +
		"    - {refId: C, datasourceUid: __expr__, model: {type: threshold, expression: A, conditions: [{evaluator: {type: gt, params: [5]}}]}}\n"
}
