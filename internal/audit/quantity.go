package audit

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
)

// A dimension is what values are amounts of.
type dimension string

const (
	span        dimension = "time"
	share       dimension = "a share"
	size        dimension = "memory or data"
	flow        dimension = "data per second"
	energy      dimension = "energy"
	power       dimension = "power"
	temperature dimension = "temperature"
	frequency   dimension = "frequency"
	requests    dimension = "requests"
	requestRate dimension = "requests per second"
	tokens      dimension = "tokens"
	tokenRate   dimension = "tokens per second"
	code        dimension = "a code"
	moment      dimension = "a Unix time"
	calls       dimension = "operations per second"
	things      dimension = "a number of things"
	cores       dimension = "processors"
)

// additive reports whether amounts of several servers add up to one of them all.
func (d dimension) additive() bool {
	return !slices.Contains([]dimension{share, temperature, frequency, code}, d)
}

// counted reports whether amounts are numbers of things: a first token is one of both.
func (d dimension) counted() bool {
	return slices.Contains([]dimension{requests, requestRate, tokens, tokenRate, things}, d)
}

// A quantity is what the values of a vector are amounts of, and in which unit: as many of
// the dimension's first unit as scale says, which are seconds, 1 (for shares), bytes, joules,
// watts, degrees Celsius, hertz, requests and tokens. The zero value is unknown.
type quantity struct {
	of    dimension
	scale float64
}

var (
	seconds      = quantity{span, 1}
	milliseconds = quantity{span, 0.001}
	ratio        = quantity{share, 1}
	percent      = quantity{share, 0.01}
)

const mebi = 1 << 20

// known reports whether anything is known of a quantity.
func (q quantity) known() bool { return q.of != "" }

// is reports whether two quantities are the same, or nearly: megabytes and mebibytes are.
func (q quantity) is(o quantity) bool {
	const near = 1.12
	return q.of == o.of && (q.scale == o.scale || q.scale < near*o.scale && o.scale < near*q.scale)
}

// unitWords are the units by which quantities are told, the first for people, then Grafana's
// and Perses' names.
var unitWords = []struct {
	quantity
	words, grafana, perses string
}{
	{seconds, "seconds", "s", "seconds"},
	{milliseconds, "milliseconds", "ms", "milliseconds"},
	{quantity{span, 1e-6}, "microseconds", "µs", "milliseconds"},
	{quantity{span, 60}, "minutes", "m", "minutes"},
	{quantity{span, 3600}, "hours", "h", "hours"},
	{ratio, "ratios from 0 to 1", "percentunit", "percent-decimal"},
	{percent, "percent from 0 to 100", "percent", "percent"},
	{quantity{size, 1}, "bytes", "bytes", "bytes"},
	{quantity{size, 1 << 10}, "kibibytes", "kbytes", "bytes"},
	{quantity{size, mebi}, "mebibytes", "mbytes", "bytes"},
	{quantity{size, 1 << 30}, "gibibytes", "gbytes", "bytes"},
	{quantity{flow, 1}, "bytes per second", "Bps", "bytes/sec"},
	{quantity{flow, 1 << 10}, "kilobytes per second", "KBs", "bytes/sec"},
	{quantity{flow, mebi}, "megabytes per second", "MBs", "bytes/sec"},
	{quantity{energy, 1}, "joules", "joule", ""},
	{quantity{energy, 0.001}, "millijoules", "", ""},
	{quantity{power, 1}, "watts", "watt", ""},
	{quantity{power, 0.001}, "milliwatts", "mwatt", ""},
	{quantity{power, 1000}, "kilowatts", "kwatt", ""},
	{quantity{temperature, 1}, "degrees Celsius", "celsius", ""},
	{quantity{frequency, 1e6}, "megahertz", "rotmhz", ""},
	{quantity{frequency, 1}, "hertz", "hertz", ""},
	{quantity{requests, 1}, "requests", "short", ""},
	{quantity{requestRate, 1}, "requests per second", "reqps", "requests/sec"},
	{quantity{tokens, 1}, "tokens", "short", ""},
	{quantity{tokenRate, 1}, "tokens per second", "", ""},
	{quantity{moment, 1}, "a Unix time in seconds", "", ""},
	{quantity{moment, 0.001}, "a Unix time in milliseconds", "dateTimeAsIso", ""},
	{quantity{cores, 1}, "processors kept busy", "short", ""},
	{quantity{cores, 0.01}, "percent of one processor", "percent", "percent"},
}

func (q quantity) String() string {
	for _, w := range unitWords {
		if q.is(w.quantity) {
			return w.words
		}
	}
	return string(q.of)
}

// panelUnits are quantities by Grafana's and Perses' names of units.
var panelUnits = map[string]quantity{
	"s": seconds, "seconds": seconds, "dtdurations": seconds, "clocks": seconds, "m": {span, 60}, "minutes": {span, 60},
	"h": {span, 3600}, "hours": {span,
		3600}, "ms": milliseconds, "milliseconds": milliseconds, "dtdurationms": milliseconds,
	"clockms": milliseconds, "µs": {span, 1e-6}, "ns": {span, 1e-9},
	"percent": percent, "percentunit": ratio, "percent-decimal": ratio,
	"bytes": {size, 1}, "decbytes": {size, 1}, "kbytes": {size, 1 << 10}, "deckbytes": {size, 1e3}, "mbytes": {size, mebi},
	"decmbytes": {size, 1e6}, "gbytes": {size, 1 << 30}, "decgbytes": {size, 1e9}, "tbytes": {size,
		1 << 40}, "dectbytes": {size, 1e12},
	"B": {size, 1}, "Bps": {flow, 1}, "binBps": {flow, 1}, "bytes/sec": {flow, 1}, "decbytes/sec": {flow, 1},
	"KBs": {flow, 1e3}, "KiBs": {flow, 1 << 10}, "MBs": {flow, 1e6}, "MiBs": {flow, mebi}, "GBs": {flow,
		1e9}, "GiBs": {flow, 1 << 30},
	"bps": {flow, 0.125}, "binbps": {flow, 0.125},
	"watt": {power, 1}, "mwatt": {power, 0.001}, "kwatt": {power, 1000}, "joule": {energy, 1}, "watth": {energy, 3600},
	"kwatth": {energy, 3.6e6}, "celsius": {temperature, 1}, "fahrenheit": {temperature, 5. / 9}, "hertz": {frequency, 1},
	"rothz": {frequency, 1}, "rotmhz": {frequency, 1e6}, "reqps": {requestRate, 1}, "requests/sec": {requestRate, 1},
	"ops": {calls, 1}, "iops": {calls, 1}, "wps": {calls, 1}, "rps": {calls, 1},
	"dateTimeAsIso": {moment, 0.001}, "dateTimeAsUS": {moment, 0.001}, "dateTimeAsLocal": {moment, 0.001},
	"dateTimeAsSystem": {moment, 0.001}, "dateTimeFromNow": {moment, 0.001}, "dateTimeAsIsoNoDateIfToday": {moment, 0.001},
	"dateTimeAsUSNoDateIfToday": {moment, 0.001}, "dateTimeAsLocalNoDateIfToday": {moment, 0.001},
}

// ratios are the gauges between 0 and 1; the suffix _perc of others misleads.
func isRatio(name string) bool {
	canonical, _ := vllm.Canonical(name)
	switch canonical {
	case "sglang:token_usage", "sglang:cache_hit_rate", "vllm:spec_decode_draft_acceptance_rate",
		"sglang:full_token_usage", "sglang:swa_token_usage", "sglang:mamba_usage", "sglang:spec_accept_rate",
		"sglang:utilization":
		return true
	}
	if strings.HasSuffix(name, "_ratio") && !strings.Contains(name, ":") || strings.HasPrefix(name, "sglang:") &&
		strings.HasSuffix(name, "_ratio") {
		return true // Prometheus' convention for values from 0 to 1
	}
	if strings.HasPrefix(name, "dynamo_") && strings.HasSuffix(name, "gpu_cache_usage_percent") {
		return true // from 0 to 1 despite its name (ai-dynamo/dynamo, docs/observability/metrics.md)
	}
	return strings.HasPrefix(canonical, "vllm:") && (strings.HasSuffix(canonical, "_usage_perc") ||
		strings.HasSuffix(canonical, "_hit_rate") || strings.HasSuffix(canonical, "_hit_ratio"))
}

// fieldUnits are quantities by the units in package dcgm.
var fieldUnits = map[string]quantity{
	"%": percent, "ratio": ratio, "MiB": {size, mebi}, "B": {size, 1}, "W": {power, 1}, "mJ": {energy,
		0.001}, "J": {energy, 1},
	"C": {temperature, 1}, "MHz": {frequency, 1e6}, "Hz": {frequency, 1}, "B/s": {flow, 1}, "KiB/s": {flow, 1 << 10},
}

// named are quantities of metrics whose names do not say them, by their canonical names: of
// nvidia_gpu_exporter, of GKE's exporter, of dcgm-exporter before 2.0 (its file
// 1.x-compatibility-metrics.csv), of vLLM and of SGLang.
var named = map[string]quantity{
	"nvidia_gpu_duty_cycle": percent, "dcgm_gpu_utilization": percent, "dcgm_mem_copy_utilization": percent,
	"dcgm_fb_used": {size, mebi}, "dcgm_fb_free": {size, mebi}, "dcgm_gpu_temp": {temperature,
		1}, "dcgm_memory_temp": {temperature, 1},
	"dcgm_power_usage": {power, 1}, "dcgm_xid_errors": {code, 1}, "nvidia_smi_temperature_gpu": {temperature, 1},
	"process_open_fds": {things, 1}, "process_max_fds": {things, 1},
	"vllm:num_requests_running": {requests, 1}, "vllm:num_requests_waiting": {requests,
		1}, "vllm:num_requests_swapped": {requests, 1},
	"sglang:num_running_reqs": {requests, 1}, "sglang:num_queue_reqs": {requests,
		1}, "sglang:gen_throughput": {tokenRate, 1},
	"vllm:avg_generation_throughput_toks_per_s": {tokenRate, 1}, "vllm:avg_prompt_throughput_toks_per_s": {tokenRate, 1},
	"nv_gpu_utilization": ratio, "nv_cpu_utilization": ratio, "nv_gpu_power_usage": {power, 1}, "nv_gpu_power_limit": {power, 1},
	"tgi_queue_size": {requests, 1}, "inference_pool_average_kv_cache_utilization": ratio,
	"inference_extension_flow_control_pool_saturation": ratio,
	"ray_node_cpu_utilization":                         percent, "ray_node_disk_utilization_percentage": percent,
	"ray_node_mem_used": {size, 1}, "ray_node_mem_available": {size, 1}, "ray_node_mem_total": {size, 1},
	"ray_node_gram_used": {size, mebi}, "ray_node_gram_available": {size, mebi},
}

// bySuffix are quantities by the endings that Prometheus' conventions give to the names of gauges.
var bySuffix = []struct {
	ending string
	quantity
}{
	{"_celsius", quantity{temperature, 1}}, {"_watts", quantity{power, 1}}, {"_bytes", quantity{size, 1}},
	{"_milliseconds", milliseconds}, {"_seconds", seconds},
}

// ofSeries returns the quantity of a gauge's values by its name.
func ofSeries(name string) quantity {
	canonical, _ := vllm.Canonical(name)
	f, ok := dcgm.FieldOf(name)
	switch {
	case isRatio(name):
		return ratio
	case named[canonical].known():
		return named[canonical]
	case ok && f.Type == "code":
		return quantity{code, 1}
	case ok && f.Type == "gauge":
		return fieldUnits[f.Unit]
	case slices.Contains(unixTimes, name), strings.HasSuffix(name, "_timestamp_seconds"):
		return quantity{moment, 1}
	case ok || strings.Contains(name, "_time_"):
		return quantity{}
	}
	if c, f := classOf(name); f.Engine == "" && !c.cumulative() && !strings.Contains(name, ":") {
		for _, s := range bySuffix {
			if strings.HasSuffix(name, s.ending) {
				return s.quantity
			}
		}
	}
	return quantity{}
}

// unixTimes are gauges of a Unix time whose names do not end in _timestamp_seconds.
var unixTimes = []string{
	"process_start_time_seconds", "container_start_time_seconds", "node_boot_time_seconds", "kube_pod_start_time",
	"kube_pod_created", "kube_node_created", "kube_job_status_start_time", "kube_job_status_completion_time",
}

// cachedTokens are counters of tokens whose names do not say so.
var cachedTokens = []string{
	"vllm:prefix_cache_hits", "vllm:prefix_cache_queries", "vllm:external_prefix_cache_hits", "vllm:external_prefix_cache_queries",
}

// requestCounts are counters of requests whose names do not say so, of Triton and TGI.
var requestCounts = map[string]bool{
	"nv_inference_request_success": true, "nv_inference_request_failure": true, "tgi_request_count": true, "tgi_request_success": true,
}

// busySeconds are counters of the time for which processors were busy.
var busySeconds = map[string]bool{
	"container_cpu_usage_seconds_total": true, "container_cpu_user_seconds_total": true,
	"container_cpu_system_seconds_total": true, "process_cpu_seconds_total": true, "node_cpu_seconds_total": true,
}

// ofCounter returns the quantity that a counter counts.
func ofCounter(name string) quantity {
	canonical, _ := vllm.Canonical(name)
	f, ok := dcgm.FieldOf(name)
	class, family := classOf(name)
	switch {
	case busySeconds[name]:
		return quantity{cores, 1} // once it is a rate
	case ok && f.Type == "counter":
		return fieldUnits[f.Unit]
	case slices.Contains(cachedTokens, strings.TrimSuffix(canonical, "_total")):
		return quantity{tokens, 1}
	case class == sum && strings.HasSuffix(family.Name, "_tokens"), class == counter &&
		strings.HasSuffix(canonical, "_tokens_total"),
		canonical == "vllm:iteration_tokens_total_sum":
		return quantity{tokens, 1}
	case canonical == "vllm:request_success_total", slices.Contains(finishedCounts,
		canonical), canonical == "http_requests_total",
		canonical == "vllm:time_to_first_token_seconds_count", requestCounts[name]:
		return quantity{requests, 1}
	case isExporters(family) && strings.HasSuffix(name, "_duration_us"):
		return quantity{span, 1e-6}
	case family.Engine == "" && strings.HasSuffix(name, "_bytes_total"), class == counter && strings.Contains(canonical, "_bytes_per_gpu"):
		return quantity{size, 1}
	case family.Engine == "" && strings.HasSuffix(name, "_tokens_total"):
		return quantity{tokens, 1}
	}
	return quantity{}
}

// ofFamily returns the quantity that a histogram observes.
func ofFamily(family string) quantity {
	n, ok := dialect.Known(family)
	switch {
	case strings.HasSuffix(family, "_seconds"), ok && n.Name == "vllm:time_in_queue_requests":
		return seconds
	case strings.HasSuffix(family, "_milliseconds"), strings.HasSuffix(family, "_ms"):
		return milliseconds
	case strings.HasSuffix(family, "_bytes"):
		return quantity{size, 1}
	case ok && strings.HasSuffix(n.Name, "_tokens"):
		return quantity{tokens, 1}
	}
	return quantity{}
}

// perSecond are the dimensions of rates.
var perSecond = map[dimension]dimension{size: flow, energy: power, requests: requestRate, tokens: tokenRate, cores: cores}

// wholes are counters of which another one counts a part: their quotient is a
// ratio.
var wholes = map[string]string{
	"vllm:prefix_cache_hits_total":               "vllm:prefix_cache_queries_total",
	"vllm:gpu_prefix_cache_hits_total":           "vllm:gpu_prefix_cache_queries_total",
	"vllm:external_prefix_cache_hits_total":      "vllm:external_prefix_cache_queries_total",
	"vllm:spec_decode_num_accepted_tokens_total": "vllm:spec_decode_num_draft_tokens_total",
	"vllm:prompt_tokens_cached_total":            "vllm:prompt_tokens_total",
	"vllm:mm_cache_hits_total":                   "vllm:mm_cache_queries_total",
}

// quantityOf infers what an expression's values are; unknown where it cannot.
func (p *pass) quantityOf(e parser.Expr) quantity {
	if p.query == nil {
		return algebra{p.records, nil}.of(e, 0)
	}
	if p.quantities == nil {
		p.quantities = map[parser.Expr]quantity{}
	}
	return algebra{p.records, p.quantities}.of(e, 0)
}

// algebra carries quantities through an expression and the recording rules that it reads.
type algebra struct {
	records map[string]*query
	seen    map[parser.Expr]quantity // what was inferred before, nil to infer all anew
}

// resources are what Kubernetes' objects ask for, may take and have: each of their resources has a unit
// of its own.
var resources = regexp.MustCompile(`^kube_(pod_container_resource_(limits|requests)|node_status_(allocatable|capacity))$`)

func ofResource(v *parser.VectorSelector) quantity {
	for _, m := range v.LabelMatchers {
		switch {
		case m.Name != "resource" || m.Type != labels.MatchEqual:
		case m.Value == "cpu":
			return quantity{cores, 1}
		case m.Value == "memory" || m.Value == "ephemeral_storage":
			return quantity{size, 1}
		}
	}
	return quantity{}
}

// deepest bounds recording rules that read one another.
const deepest = 5

func (a algebra) of(e parser.Expr, depth int) quantity {
	if q, ok := a.seen[e]; ok && depth == 0 {
		return q
	}
	q := a.infer(e, depth)
	if a.seen != nil && depth == 0 {
		a.seen[e] = q
	}
	return q
}

func (a algebra) infer(e parser.Expr, depth int) quantity {
	switch n := unparen(e).(type) {
	case *parser.VectorSelector:
		if r := a.records[nameOf(n)]; r != nil && r.tree != nil && depth < deepest {
			return a.of(r.tree, depth+1)
		}
		if resources.MatchString(nameOf(n)) {
			return ofResource(n)
		}
		return ofSeries(nameOf(n))
	case *parser.MatrixSelector:
		return a.of(n.VectorSelector, depth)
	case *parser.SubqueryExpr:
		return a.of(n.Expr, depth)
	case *parser.AggregateExpr:
		switch n.Op {
		case parser.SUM, parser.AVG, parser.MAX, parser.MIN, parser.TOPK, parser.BOTTOMK, parser.QUANTILE:
			if v := plainSelector(n.Expr); n.Op == parser.AVG && v != nil && nameOf(v) == "node_cpu_seconds_total" &&
				isCall(unparen(n.Expr), "rate", "irate") {
				return ratio // of the time of one processor, in a mode
			}
			return a.of(n.Expr, depth)
		}
	case *parser.Call:
		return a.ofCall(n, depth)
	case *parser.BinaryExpr:
		return a.ofBinary(n, depth)
	}
	return quantity{}
}

func (a algebra) ofCall(n *parser.Call, depth int) quantity {
	if q, ok := quantileIn(n); ok {
		return ofFamily(q.family)
	}
	switch name := n.Func.Name; {
	case slices.Contains(rates, name):
		v := plainSelector(n)
		if v == nil {
			return quantity{}
		}
		q := ofCounter(nameOf(v))
		switch {
		case name != "increase":
			q.of = perSecond[q.of]
		case q.of == cores:
			q.of = span
		}
		return q
	case strings.HasSuffix(name, "_over_time") && !slices.Contains([]string{"count_over_time", "sum_over_time",
		"present_over_time", "absent_over_time", "stddev_over_time", "stdvar_over_time"}, name):
		return a.of(n.Args[len(n.Args)-1], depth)
	case slices.Contains(keepers, name), slices.Contains([]string{"round", "abs", "ceil", "floor", "delta", "idelta",
		"predict_linear", "scalar"}, name):
		return a.of(n.Args[0], depth)
	}
	return quantity{}
}

func (a algebra) ofBinary(n *parser.BinaryExpr, depth int) quantity {
	if v, ok := constant(n.RHS); ok {
		if n.ReturnBool {
			return quantity{}
		}
		return a.of(n.LHS, depth).scaled(n.Op, v)
	}
	if v, ok := constant(n.LHS); ok {
		switch q := a.of(n.RHS, depth); {
		case n.Op == parser.MUL:
			return q.scaled(n.Op, v)
		case n.Op == parser.SUB && (q == ratio && v == 1 || q == percent && v == 100): // what is left of a share
			return q
		}
		return quantity{}
	}
	if isJoin(n) {
		return a.of(value(n), depth)
	}
	switch n.Op {
	case parser.DIV:
		return a.ofQuotient(n, depth)
	case parser.SUB:
		if l, r := a.of(n.LHS, depth), a.of(n.RHS, depth); l.of == moment && r.of == moment {
			return quantity{span, l.scale}
		}
		return a.of(n.LHS, depth)
	case parser.LOR:
		if forBothScales(n) && factor(n.RHS) > factor(n.LHS) {
			return a.of(n.RHS, depth)
		}
		return a.of(n.LHS, depth)
	case parser.LAND, parser.LUNLESS, parser.ADD:
		return a.of(n.LHS, depth)
	}
	if isFilter(n) {
		return a.of(n.LHS, depth)
	}
	return quantity{}
}

func (a algebra) ofQuotient(n *parser.BinaryExpr, depth int) quantity {
	if left, right := a.of(n.LHS, depth), a.of(n.RHS, depth); (left.of == size || left.of == cores) && right.of == left.of {
		if ofItsPast(n) {
			return quantity{} // how much it grew
		}
		return quantity{share, left.scale / right.scale}
	} else if left.of == tokenRate && right.of == requestRate {
		return quantity{tokens, left.scale / right.scale}
	}
	l, r := selectors(n.LHS), selectors(n.RHS)
	if len(l) != 1 || len(r) != 1 {
		return quantity{}
	}
	ln, rn := nameOf(l[0]), nameOf(r[0])
	lc, _ := vllm.Canonical(ln)
	rc, _ := vllm.Canonical(rn)
	q := quantity{}
	if requestCounts[rn] && ofCounter(ln).of == span {
		q = ofCounter(ln)
	} else if family, ok := strings.CutSuffix(ln, "_sum"); ok && rn == family+"_count" {
		q = ofFamily(family)
	} else if over := aggregation(n.RHS); over != nil && over.Op == parser.COUNT && ln == rn {
		return a.of(n.LHS, depth) // a mean made by hand
	} else if wholes[lc] != "" && wholes[lc] == rc || isPart(l[0], r[0]) || ofAllTogether(n, l[0], r[0]) {
		q = ratio
	}
	if by := factor(n.LHS) / factor(n.RHS); by != 1 {
		return q.scaled(parser.MUL, by)
	}
	return q
}

// ofAllTogether reports whether a quotient divides each of some series by the sum of them all.
func ofAllTogether(n *parser.BinaryExpr, l, r *parser.VectorSelector) bool {
	all, one := aggregation(n.RHS), aggregation(n.LHS)
	if all == nil || all.Op != parser.SUM || all.Without || nameOf(l) != nameOf(r) || l.OriginalOffset != r.OriginalOffset ||
		len(l.LabelMatchers) != len(r.LabelMatchers) || windowIn(n.LHS) != windowIn(n.RHS) {
		return false
	}
	return one == nil || one.Op == parser.SUM && !one.Without && len(one.Grouping) > len(all.Grouping)
}

// windowIn is the range of the first selector under a node that has one.
func windowIn(n parser.Node) (d time.Duration) {
	parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
		if m, ok := n.(*parser.MatrixSelector); ok && d == 0 {
			d = m.Range
		}
		return nil
	})
	return d
}

// ofItsPast reports whether a quotient divides series by those of the same name at another time.
func ofItsPast(n *parser.BinaryExpr) bool {
	l, r := selectors(n.LHS), selectors(n.RHS)
	return slices.ContainsFunc(l, func(v *parser.VectorSelector) bool {
		return slices.ContainsFunc(r, func(o *parser.VectorSelector) bool {
			return nameOf(v) == nameOf(o) && v.OriginalOffset != o.OriginalOffset
		})
	})
}

// holdsSizes reports whether some operator under a node divides sizes: what is asked for
// may well be more than there is.
func (p *pass) holdsSizes(e parser.Expr) bool { return p.holdsSizesWithin(e, 0) }

func (p *pass) holdsSizesWithin(e parser.Expr, depth int) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			found = found || n.Op == parser.DIV && p.quantityOf(n.LHS).of == size && p.quantityOf(n.RHS).of == size
		case *parser.VectorSelector:
			if r := p.records[nameOf(n)]; !found && r != nil && r.tree != nil && depth < deepest {
				found = p.holdsSizesWithin(r.tree, depth+1)
			}
		}
		return nil
	})
	return found
}

// isPart reports whether a selector takes some of the series of another: those of errors
// among all of a counter, those of a bucket among a histogram's count, free bytes among all.
func isPart(part, whole *parser.VectorSelector) bool {
	p, w := nameOf(part), nameOf(whole)
	if p == "" || w == "" || part.OriginalOffset != whole.OriginalOffset {
		return false
	}
	if family, ok := strings.CutSuffix(p, "_bucket"); ok && w == family+"_count" {
		return true
	}
	if p != w {
		return false
	}
	has := func(of []*labels.Matcher, m *labels.Matcher) bool {
		return slices.ContainsFunc(of, func(o *labels.Matcher) bool { return o.String() == m.String() })
	}
	return len(part.LabelMatchers) > len(whole.LabelMatchers) &&
		!slices.ContainsFunc(whole.LabelMatchers, func(m *labels.Matcher) bool { return !has(part.LabelMatchers, m) })
}

// factors are the numbers by which one unit is turned into another. Any other, as the
// memory of a GPU that stands in an expression, makes something else of a quantity.
var factors = []float64{10, 100, 1e3, 1e6, 1e9, 1e12, 1 << 10, mebi, 1 << 30, 1 << 40, 60, 3600, 86400, 8}

func (q quantity) scaled(op parser.ItemType, by float64) quantity {
	switch {
	case op.IsComparisonOperator() || op == parser.ADD || op == parser.SUB:
		return q
	case op == parser.DIV:
		by = 1 / by
	case op != parser.MUL:
		return quantity{}
	}
	known := slices.ContainsFunc(factors, func(f float64) bool {
		return math.Abs(by-f) < 1e-9*f ||
			math.Abs(by*f-1) < 1e-9
	})
	switch {
	case by == 1:
		return q
	case !known || !q.known() || q.of == requests || q.of == temperature || q.of == code:
		return quantity{}
	}
	q.scale /= by
	return q
}

// twice says what was done twice, or the wrong way round, to come to such a unit; "" where it may
// be meant.
func (q quantity) twice() string {
	switch {
	case q.of == size && q.scale > 1<<43: // a tebibyte is 1<<40
		return "mebibytes, by the metric's name, divided as if they were bytes"
	case q.of == share && math.Abs(q.scale*1e4-1) < 1e-9:
		return "percent from 0 to 100, multiplied by 100 once more"
	case q.of == share && q.scale == 100:
		return "ratios from 0 to 1, divided by 100"
	}
	return ""
}

// constant returns the value of an expression of numbers alone.
func constant(e parser.Expr) (float64, bool) {
	if v, _, ok := number(e); ok {
		return v, true
	}
	n, ok := unparen(e).(*parser.BinaryExpr)
	if !ok || n.VectorMatching != nil {
		return 0, false
	}
	l, ok1 := constant(n.LHS)
	r, ok2 := constant(n.RHS)
	if !ok1 || !ok2 {
		return 0, false
	}
	switch n.Op {
	case parser.ADD:
		return l + r, true
	case parser.SUB:
		return l - r, true
	case parser.MUL:
		return l * r, true
	case parser.DIV:
		return l / r, true
	case parser.POW:
		return math.Pow(l, r), true
	}
	return 0, false
}

// times says by how much two units of one dimension differ, for people.
func times(a, b quantity) string {
	by := max(a.scale/b.scale, b.scale/a.scale)
	if power := math.Log2(by); power >= 10 && power == math.Trunc(power) {
		return fmt.Sprintf("2^%g", power)
	}
	return short(math.Round(by*1e4) / 1e4)
}
