package audit

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// oneNumber are kinds of panels that make one number of each of a query's series.
var oneNumber = []string{"stat", "gauge", "bargauge", "singlestat", "piechart", "StatChart", "GaugeChart", "BarChart"}

// overTime are kinds of panels that draw a query's series over time.
var overTime = []string{"timeseries", "graph", "TimeSeriesChart"}

// reducers are former and Perses' names of the ways to make one number of a series.
var reducers = map[string]string{
	"avg": "mean", "current": "lastNotNull", "total": "sum", "last-number": "lastNotNull", "last": "lastNotNull", "first-number": "first",
}

// isInstant reports whether a query asks for one moment, or its panel for a table's rows: nothing is
// reduced over time.
func (c *panelContext) isInstant() bool {
	return c.target.get("instant").scalar() == "true" && c.target.get("range").scalar() != "true" ||
		c.target.get("format").str() == "table"
}

// calcs are the ways in which the panel makes one number of each series, by Grafana's names, and
// where they stand; none where it does not.
func (c *panelContext) calcs() ([]string, *node) {
	if !slices.Contains(oneNumber, c.kind) || c.isInstant() {
		return nil, nil
	}
	options := c.node.at("options", "reduceOptions")
	if options.get("values").scalar() == "true" {
		return nil, nil
	}
	var out []string
	at := c.node.get("valueName") // the panel of old
	if at == nil {
		at = c.node.get("calculation") // Perses'
	}
	if list := options.get("calcs").elements(); len(list) > 0 {
		at = list[0]
		for _, n := range list {
			out = append(out, n.str())
		}
	} else if at.str() != "" {
		out = []string{at.str()}
	}
	for i, calc := range out {
		out[i] = otherwise(reducers[calc], calc)
	}
	return out, at
}

// drawnOverTime reports whether every moment of the query is drawn.
func (c *panelContext) drawnOverTime() bool {
	return slices.Contains(overTime, c.kind) && !c.isInstant()
}

// column returns the name that a panel's transformations or overrides give to a query's value, by
// the query's letter; "" where they give none.
func (c *panelContext) column(refID string) string {
	if refID == "" {
		return ""
	}
	value := "Value #" + refID
	for _, t := range c.node.get("transformations").elements() {
		if t.get("disabled").scalar() == "true" {
			continue
		}
		if name := t.at("options", "renameByName", value).str(); name != "" {
			return name
		}
	}
	for _, o := range c.overrides.elements() {
		id, option := o.at("matcher", "id").str(), o.at("matcher", "options").str()
		if (id != "byName" || option != value) && (id != "byFrameRefID" || option != refID) {
			continue
		}
		for _, property := range o.get("properties").elements() {
			if property.get("id").str() == "displayName" {
				return property.get("value").str()
			}
		}
	}
	return ""
}

// claims are what the panel says of this query, in lower case and without labels: its legend, and
// its title where no other query may be meant by it.
func (p *pass) claims() string {
	text := labelsLegends.ReplaceAllString(p.panel.legend, " ")
	if text == "__auto" {
		text = ""
	}
	if !p.severalNames() {
		text += " " + p.panel.title
	}
	return metricNames.ReplaceAllString(strings.ToLower(text), " ")
}

// canonicals are the canonical names that are selected under a node.
func canonicals(n parser.Node) []string {
	names := namesIn(n)
	for i, name := range names {
		names[i], _ = vllm.Canonical(name)
	}
	return names
}

// statisticsOf returns the ways in which an expression makes few values of many, over series and
// over time, from the outside in, and what they are made of.
func statisticsOf(e parser.Expr) (ops []string, of parser.Expr) {
	for {
		e = unscaled(e)
		switch n := e.(type) {
		case *parser.AggregateExpr:
			ops = append(ops, n.Op.String())
			e = n.Expr
		case *parser.SubqueryExpr:
			e = n.Expr
		case *parser.Call:
			name, ok := strings.CutSuffix(n.Func.Name, "_over_time")
			if !ok || len(n.Args) == 0 {
				return ops, e
			}
			ops = append(ops, name)
			if e = unparen(n.Args[len(n.Args)-1]); e.Type() == parser.ValueTypeMatrix {
				if m, ok := e.(*parser.MatrixSelector); ok {
					e = m.VectorSelector
				}
			}
		default:
			return ops, e
		}
	}
}

// A direction says which values of a quantity are good.
type direction int8

const (
	highIsBad  direction = -1
	undirected direction = 0
	highIsGood direction = 1
)

// directions are those of gauges and of counters' rates, by their canonical names. Of load,
// throughput and lengths neither is good by itself.
var directions = map[string]direction{
	"up": highIsGood, "probe_success": highIsGood,
	"vllm:num_requests_waiting": highIsBad, "vllm:num_requests_swapped": highIsBad, "vllm:kv_cache_usage_perc": highIsBad,
	"vllm:gpu_cache_usage_perc": highIsBad, "vllm:num_preemptions_total": highIsBad, "vllm:corrupted_requests_total": highIsBad,
	"vllm:gpu_prefix_cache_hit_rate": highIsGood, "vllm:spec_decode_draft_acceptance_rate": highIsGood,
	"sglang:num_queue_reqs": highIsBad, "sglang:cache_hit_rate": highIsGood, "sglang:token_usage": highIsBad,
	"sglang:spec_accept_length": highIsGood, "DCGM_FI_DEV_XID_ERRORS": highIsBad,
	"kube_pod_container_status_restarts_total": highIsBad,
}

// directionOf infers which values of an expression are good.
func (p *pass) directionOf(e parser.Expr) direction {
	switch n := value(e).(type) {
	case *parser.VectorSelector:
		name, _ := vllm.Canonical(nameOf(n))
		if d := directions[name]; d != undirected {
			return d
		}
		if p.quantityOf(n).of == temperature {
			return highIsBad
		}
	case *parser.AggregateExpr:
		switch n.Op {
		case parser.SUM, parser.AVG, parser.MAX, parser.MIN, parser.TOPK, parser.BOTTOMK, parser.QUANTILE:
			return p.directionOf(n.Expr)
		}
	case *parser.Call:
		if q, ok := quantileIn(n); ok && ofFamily(q.family).of == span {
			return highIsBad
		}
		if _, of := statisticsOf(n); of != n && n.Func.Name != "count_over_time" {
			return p.directionOf(of)
		}
		if v := plainSelector(n); v != nil && slices.Contains(rates, n.Func.Name) {
			return p.directionOf(v)
		}
	case *parser.BinaryExpr:
		if _, ok := constant(n.RHS); ok && (n.Op == parser.MUL || n.Op == parser.DIV) {
			return p.directionOf(n.LHS)
		}
		if v, ok := constant(n.LHS); ok {
			switch {
			case n.Op == parser.MUL:
				return p.directionOf(n.RHS)
			case n.Op == parser.SUB && (v == 1 || v == 100):
				return -p.directionOf(n.RHS)
			}
			return undirected
		}
		if n.Op != parser.DIV {
			return undirected
		}
		if isMean(n) && p.quantityOf(n).of == span {
			return highIsBad
		}
		l, r := selectors(n.LHS), selectors(n.RHS)
		if len(l) != 1 || len(r) != 1 {
			return undirected
		}
		part, _ := vllm.Canonical(nameOf(l[0]))
		whole, _ := vllm.Canonical(nameOf(r[0]))
		if wholes[part] != "" && wholes[part] == whole { // hits among lookups, accepted among drafted tokens
			return highIsGood
		}
	}
	return undirected
}
