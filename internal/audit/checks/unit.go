package checks

import (
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/catalog/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// A dimension is what values are amounts of.
type dimension string

const (
	span        dimension = "time"
	busy        dimension = "seconds of all requests together, per second"
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
	cores       dimension = "processors kept busy"
)

// A unit is what the values of a vector are amounts of: as many of the dimension's first
// unit as scale says, which are seconds, 1 (for shares), bytes, joules, watts, degrees
// Celsius, hertz, requests and tokens. The zero value is unknown.
type unit struct {
	of    dimension
	scale float64
}

var (
	seconds      = unit{span, 1}
	milliseconds = unit{span, 0.001}
	ratio        = unit{share, 1}
	percent      = unit{share, 0.01}
)

const mebi = 1 << 20

// known reports whether anything is known of a unit.
func (u unit) known() bool { return u.of != "" }

// counted reports whether amounts are numbers of things.
func (u unit) counted() bool {
	return slices.Contains([]dimension{requests, requestRate, tokens, tokenRate}, u.of)
}

// is reports whether two units are the same, or nearly: megabytes and mebibytes are.
func (u unit) is(o unit) bool {
	const near = 1.12
	return u.of == o.of && (u.scale == o.scale || u.scale < near*o.scale && o.scale < near*u.scale)
}

// unitWords are units, for people and by Grafana's and Perses' names.
var unitWords = []struct {
	unit
	words, grafana, perses string
}{
	{seconds, "seconds", "s", "seconds"},
	{milliseconds, "milliseconds", "ms", "milliseconds"},
	{unit{span, 1e-6}, "microseconds", "µs", ""},
	{unit{span, 1e-9}, "nanoseconds", "ns", ""},
	{ratio, "ratios from 0 to 1", "percentunit", "percent-decimal"},
	{percent, "percent from 0 to 100", "percent", "percent"},
	{unit{size, 1}, "bytes", "bytes", "bytes"},
	{unit{size, 1 << 10}, "kibibytes", "kbytes", ""},
	{unit{size, mebi}, "mebibytes", "mbytes", ""},
	{unit{size, 1 << 30}, "gibibytes", "gbytes", ""},
	{unit{flow, 1}, "bytes per second", "Bps", "bytes/sec"},
	{unit{flow, 1 << 10}, "kibibytes per second", "KiBs", ""},
	{unit{flow, mebi}, "mebibytes per second", "MiBs", ""},
	{unit{energy, 1}, "joules", "joule", ""},
	{unit{energy, 0.001}, "millijoules", "", ""},
	{unit{power, 1}, "watts", "watt", ""},
	{unit{power, 0.001}, "milliwatts", "mwatt", ""},
	{unit{power, 1000}, "kilowatts", "kwatt", ""},
	{unit{temperature, 1}, "degrees Celsius", "celsius", ""},
	{unit{frequency, 1e6}, "megahertz", "rotmhz", ""},
	{unit{frequency, 1}, "hertz", "hertz", ""},
	{unit{requestRate, 1}, "requests per second", "reqps", "requests/sec"},
	{unit{moment, 1}, "a Unix time in seconds", "", ""},
}

func (u unit) String() string {
	for _, w := range unitWords {
		if u.is(w.unit) {
			return w.words
		}
	}
	return string(u.of)
}

// panelUnits are units by Grafana's and Perses' names of them.
var panelUnits = map[string]unit{
	"s": seconds, "seconds": seconds, "dtdurations": seconds, "clocks": seconds, "m": {span, 60}, "minutes": {span, 60}, "h": {span, 3600},
	"hours": {span, 3600}, "ms": milliseconds, "milliseconds": milliseconds, "dtdurationms": milliseconds, "µs": {span, 1e-6}, "ns": {span, 1e-9},
	"percent": percent, "percentunit": ratio, "percent-decimal": ratio,
	"bytes": {size, 1}, "decbytes": {size, 1}, "kbytes": {size, 1 << 10}, "deckbytes": {size, 1e3}, "mbytes": {size, mebi}, "decmbytes": {size, 1e6},
	"gbytes": {size, 1 << 30}, "decgbytes": {size, 1e9}, "tbytes": {size, 1 << 40}, "dectbytes": {size, 1e12}, "Bps": {flow, 1}, "binBps": {flow, 1},
	"bytes/sec": {flow, 1}, "decbytes/sec": {flow, 1}, "KBs": {flow, 1e3}, "KiBs": {flow, 1 << 10}, "MBs": {flow, 1e6}, "MiBs": {flow, mebi},
	"GBs": {flow, 1e9}, "GiBs": {flow, 1 << 30}, "bps": {flow, 0.125}, "binbps": {flow, 0.125},
	"watt": {power, 1}, "mwatt": {power, 0.001}, "kwatt": {power, 1000}, "joule": {energy, 1}, "watth": {energy, 3600}, "kwatth": {energy, 3.6e6},
	"celsius": {temperature, 1}, "fahrenheit": {temperature, 5. / 9}, "hertz": {frequency, 1}, "rothz": {frequency, 1}, "rotmhz": {frequency, 1e6},
	"reqps": {requestRate, 1}, "requests/sec": {requestRate, 1},
	"dateTimeAsIso": {moment, 0.001}, "dateTimeAsLocal": {moment, 0.001}, "dateTimeFromNow": {moment, 0.001},
}

// unitNames are units by what the catalogue's tables of families and of DCGM's fields call them.
var unitNames = map[string]unit{
	"%": percent, "ratio": ratio, "MiB": {size, mebi}, "B": {size, 1}, "W": {power, 1}, "mJ": {energy, 0.001}, "J": {energy, 1},
	"C": {temperature, 1}, "MHz": {frequency, 1e6}, "Hz": {frequency, 1}, "B/s": {flow, 1}, "KiB/s": {flow, 1 << 10},
	"s": seconds, "ns": {span, 1e-9}, "us": {span, 1e-6}, "ms": milliseconds,
	"requests": {requests, 1}, "tokens": {tokens, 1}, "tokens/s": {tokenRate, 1}, "none": {},
}

// named are units of other programs' metrics whose names do not say them, or say another one.
var named = map[string]unit{
	"ray_node_cpu_utilization": percent, "ray_node_disk_utilization_percentage": percent, "ray_node_mem_used": {size, 1},
	"ray_node_mem_available": {size, 1}, "ray_node_mem_total": {size, 1}, "ray_node_gram_used": {size, mebi}, "ray_node_gram_available": {size, mebi},
	"container_cpu_usage_seconds_total": {cores, 1}, "container_cpu_user_seconds_total": {cores, 1}, "container_cpu_system_seconds_total": {cores, 1},
	"process_cpu_seconds_total": {cores, 1}, "node_cpu_seconds_total": {cores, 1}, // once it is a rate
	"process_start_time_seconds": {moment, 1}, "node_time_seconds": {moment, 1}, "container_start_time_seconds": {moment, 1}, "node_boot_time_seconds": {moment, 1},
	"kube_pod_start_time": {moment, 1}, "kube_pod_created": {moment, 1}, "kube_node_created": {moment, 1},
	// dcgm-exporter before 2.0 (its file 1.x-compatibility-metrics.csv)
	"dcgm_gpu_utilization": percent, "dcgm_mem_copy_utilization": percent, "dcgm_fb_used": {size, mebi}, "dcgm_fb_free": {size, mebi},
	"dcgm_gpu_temp": {temperature, 1}, "dcgm_power_usage": {power, 1}, "dcgm_xid_errors": {code, 1}, "nvidia_gpu_duty_cycle": percent,
}

// bySuffix are units by the endings of names of the catalogue.
var bySuffix = []struct {
	ending string
	unit
}{
	{"_timestamp_seconds", unit{moment, 1}}, {"_celsius", unit{temperature, 1}}, {"_watts", unit{power, 1}}, {"_bytes", unit{size, 1}},
	{"_milliseconds", milliseconds}, {"_ms", milliseconds}, {"_duration_us", unit{span, 1e-6}}, {"_seconds", seconds},
	{"_tokens", unit{tokens, 1}}, {"_ratio", ratio}, {"_usage_perc", ratio}, {"_hit_rate", ratio},
}

// finishedCounts are the histograms that are observed once for every finished request: their _count
// and request_success_total count the same (vllm/v1/metrics/loggers.py).
var finishedCounts = []string{
	"vllm:e2e_request_latency_seconds_count", "vllm:request_queue_time_seconds_count", "vllm:request_inference_time_seconds_count",
	"vllm:request_prefill_time_seconds_count", "vllm:request_decode_time_seconds_count", "vllm:request_prompt_tokens_count",
	"vllm:request_generation_tokens_count", "vllm:request_params_n_count", "vllm:request_params_max_tokens_count",
	"vllm:request_max_num_generation_tokens_count",
}

// cachedTokens are counters of tokens whose names do not say so.
var cachedTokens = []string{
	"vllm:prefix_cache_hits", "vllm:prefix_cache_queries", "vllm:external_prefix_cache_hits", "vllm:external_prefix_cache_queries",
}

// unitOf returns the unit of a series of the catalogue: of a gauge's values, or of what a counter counts.
func unitOf(name string, v *parser.VectorSelector) unit {
	canonical, _ := vllm.Canonical(name)
	c, family := classOf(name)
	f, field := dcgm.FieldOf(name)
	byName, listed := named[canonical]
	switch {
	case listed:
		return byName
	case field && f.Type == "code":
		return unit{code, 1}
	case field:
		return unitNames[f.Unit]
	case v != nil && slices.Contains(manifold["resource"], name):
		for _, m := range v.LabelMatchers {
			if m.Name == "resource" && m.Type == labels.MatchEqual {
				return map[string]unit{"cpu": {cores, 1}, "memory": {size, 1}, "ephemeral_storage": {size, 1}}[m.Value]
			}
		}
	case c == unknownClass, c == bucket, c == created, c == bareHistogram:
	case slices.Contains(finishedCounts, canonical), canonical == "vllm:time_to_first_token_seconds_count":
		return unit{requests, 1}
	case c == count:
	case slices.Contains(cachedTokens, strings.TrimSuffix(canonical, "_total")):
		return unit{tokens, 1}
	case c == counter && strings.Contains(canonical, "_bytes_per_gpu"):
		return unit{size, 1}
	case family.Unit != "":
		return unitNames[family.Unit]
	default:
		return unitOfName(family.Name)
	}
	return unit{}
}

func unitOfName(name string) unit {
	for _, s := range bySuffix {
		if strings.HasSuffix(strings.TrimSuffix(name, "_total"), s.ending) {
			return s.unit
		}
	}
	return unit{}
}

// unitOfFamily returns the unit of what a histogram of the catalogue observes.
func unitOfFamily(family string) unit {
	if c, f := classOf(family + "_sum"); c == sum {
		return unitOf(f.Name+"_sum", nil)
	}
	return unit{}
}

// rate is the unit of a counter's rate or increase.
func (u unit) rate(function string) unit {
	if function == "increase" {
		if u.of == cores {
			u.of = span
		}
		return u
	}
	perSecond := map[dimension]dimension{size: flow, energy: power, requests: requestRate, tokens: tokenRate, cores: cores, span: busy}
	u.of = perSecond[u.of]
	if u.of == "" {
		return unit{}
	}
	return u
}

// wholes are counters of which another one counts a part.
var wholes = map[string]string{
	"vllm:prefix_cache_hits_total":               "vllm:prefix_cache_queries_total",
	"vllm:gpu_prefix_cache_hits_total":           "vllm:gpu_prefix_cache_queries_total",
	"vllm:external_prefix_cache_hits_total":      "vllm:external_prefix_cache_queries_total",
	"vllm:spec_decode_num_accepted_tokens_total": "vllm:spec_decode_num_draft_tokens_total",
	"vllm:prompt_tokens_cached_total":            "vllm:prompt_tokens_total",
	"vllm:mm_cache_hits_total":                   "vllm:mm_cache_queries_total",
}

func unitOfBinary(n *parser.BinaryExpr, l, r unit) unit {
	if n.ReturnBool {
		return unit{}
	}
	if v, ok := constant(n.RHS); ok {
		return l.scaled(n.Op, v)
	}
	if v, ok := constant(n.LHS); ok {
		if n.Op == parser.MUL || n.Op == parser.SUB && (r == ratio && v == 1 || r == percent && v == 100) { // what is left of a share
			return r.scaled(n.Op, v)
		}
		return unit{}
	}
	switch {
	case n.Op == parser.DIV:
		return unitOfQuotient(n, l, r)
	case n.Op == parser.SUB && l.of == moment && r.of == moment:
		return unit{span, l.scale}
	case n.Op == parser.LOR && l.known() && r.known() && !l.is(r):
		return unit{}
	case n.Op == parser.SUB, n.Op == parser.ADD, n.Op.IsSetOperator(), isFilter(n), isJoin(n):
		return l
	}
	return unit{}
}

func unitOfQuotient(n *parser.BinaryExpr, left, right unit) unit {
	ls, rs := Selectors(n.LHS), Selectors(n.RHS)
	past := len(ls) > 0 && len(rs) > 0 && NameOf(ls[0]) == NameOf(rs[0]) && ls[0].OriginalOffset != rs[0].OriginalOffset
	switch {
	case past: // how much it grew
		return unit{}
	case left.of == right.of && (left.of == size || left.of == flow || left.of == cores):
		return unit{share, left.scale / right.scale}
	case left.of == tokenRate && right.of == requestRate:
		return unit{tokens, left.scale / right.scale}
	case len(ls) != 1 || len(rs) != 1:
		return unit{}
	}
	ln, rn := NameOf(ls[0]), NameOf(rs[0])
	lc, _ := vllm.Canonical(ln)
	rc, _ := vllm.Canonical(rn)
	u := unit{}
	family, isSum := strings.CutSuffix(ln, "_sum")
	over, _ := unparen(n.RHS).(*parser.AggregateExpr)
	switch {
	case isSum && rn == family+"_count":
		u = unitOfFamily(family)
	case over != nil && over.Op == parser.COUNT && ln == rn:
		return left // a mean made by hand
	case wholes[lc] != "" && wholes[lc] == rc || isPart(ls[0], rs[0]):
		u = ratio
	}
	return u.scaled(parser.MUL, factor(n.LHS)/factor(n.RHS))
}

// isPart reports whether a selector takes some of the series of another: those of errors among all of a
// counter, those of a bucket among a histogram's count.
func isPart(part, whole *parser.VectorSelector) bool {
	if family, ok := strings.CutSuffix(NameOf(part), "_bucket"); ok && NameOf(whole) == family+"_count" && selectsBy(part, "le") {
		return true
	}
	return NameOf(part) != "" && NameOf(part) == NameOf(whole) && len(part.LabelMatchers) > len(whole.LabelMatchers) &&
		!slices.ContainsFunc(whole.LabelMatchers, func(m *labels.Matcher) bool {
			return !slices.ContainsFunc(part.LabelMatchers, func(o *labels.Matcher) bool { return o.String() == m.String() })
		})
}

// factor is the number that a vector's values are multiplied with, NaN where they are part of another calculation.
func factor(e parser.Expr) float64 {
	switch n := value(e).(type) {
	case *parser.AggregateExpr:
		return factor(n.Expr)
	case *parser.BinaryExpr:
		l, left := constant(n.LHS)
		r, right := constant(n.RHS)
		switch {
		case right && n.Op == parser.MUL:
			return factor(n.LHS) * r
		case right && n.Op == parser.DIV:
			return factor(n.LHS) / r
		case left && n.Op == parser.MUL:
			return l * factor(n.RHS)
		}
		return math.NaN()
	}
	return 1
}

// factors are the numbers by which one unit is turned into another. Any other, as the memory of a GPU
// that stands in an expression, makes something else of the values.
var factors = []float64{10, 100, 1e3, 1e6, 1e9, 1e12, 1 << 10, mebi, 1 << 30, 1 << 40, 60, 3600, 86400, 8}

func (u unit) scaled(op parser.ItemType, by float64) unit {
	switch {
	case op.IsComparisonOperator() || op == parser.ADD || op == parser.SUB || by == 1:
		return u
	case op == parser.DIV:
		by = 1 / by
	case op != parser.MUL:
		return unit{}
	}
	known := slices.ContainsFunc(factors, func(f float64) bool { return math.Abs(by-f) < 1e-9*f || math.Abs(by*f-1) < 1e-9 })
	if !known || !u.known() || u.of == requests || u.of == temperature || u.of == code {
		return unit{}
	}
	u.scale /= by
	return u
}

// times says by how much two units of one dimension differ, for people.
func times(a, b unit) string {
	by := max(a.scale/b.scale, b.scale/a.scale)
	if power := math.Log2(by); power >= 10 && power == math.Trunc(power) {
		return "2^" + short(power)
	}
	return short(math.Round(by*1e4) / 1e4)
}
