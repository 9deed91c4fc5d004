package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/hint"
)

// metricsQL are names of functions that MetricsQL adds to PromQL's
// (https://docs.victoriametrics.com/victoriametrics/metricsql/).
var metricsQL = regexp.MustCompile(`^(label_(set|del|keep|copy|move|map|value|match|mismatch|transform|graphite_group|uppercase|lowercase)|labels_equal|alias|` +
	`(default_)?rollup\w*|aggr_over_time|(range|running|remove|smooth|ascent|descent|tmin|tmax|tfirst|tlast)_\w+|(top|bottom)k_\w+|` +
	`\w+_(prometheus|pure)|(count|share|sum)_(eq|ne|gt|le)_over_time|(median|mode|distinct|first|last|range|integrate|zscore|geomean|histogram|quantiles|` +
	`duration|increases|decreases|sum2|stale_samples)_over_time|keep_(last|next)_value|interpolate|prometheus_buckets|buckets_limit|histogram_share|` +
	`any|median|distinct|limit_offset|lag|lifetime|scrape_interval|share|outliersk|sum2|union|ru|ttf|now|step|start|end)$`)

func checkSyntax(p *pass) {
	var at posrange.PositionRange
	text := p.err.Error()
	if list, ok := p.err.(parser.ParseErrors); ok && len(list) > 0 { //nolint:errorlint // The parser returns the list bare.
		at, text = list[0].PositionRange, list[0].Err.Error()
	}
	if len(p.mentions) > 0 {
		p.reportAs(catalog.Info, at, "not PromQL with the variables filled in: "+text, advice("check the query in the dashboard; this one was not judged"))
		return
	}
	if name, ok := strings.CutPrefix(text, "unknown function with name "); ok &&
		metricsQL.MatchString(strings.Trim(name, `"`)) {
		p.reportAs(catalog.Info, at, "a function of VictoriaMetrics' MetricsQL, which Prometheus does not have",
			advice("nothing, if VictoriaMetrics answers; this query was not judged"))
		return
	}
	p.report(at, text, advice("correct the expression; extensions such as MetricsQL's cannot be judged here"))
}

// ours reports whether a name is in the name space of an inference server.
func ours(name string) bool {
	_, prefix := vllm.Canonical(name)
	return prefix != "" || strings.HasPrefix(name, "sglang:")
}

func known(name string) bool {
	_, ok := dialect.Known(name)
	return ok
}

// missing calls fn with every selector whose name is of an inference server and
// not exposed, and which no recording rule makes.
func (p *pass) missing(fn func(v *parser.VectorSelector, name string)) {
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return
		}
		name := nameOf(v)
		if name == "" || !ours(name) || p.records[name] != nil || p.surface.Exposes(name) || p.hasAlternative(path, v) {
			return
		}
		if p.besideItsHeir(name) {
			return
		}
		at := v.PositionRange()
		if v.Name != "" && p.opaque(at.Start, at.Start+posrange.Pos(len(v.Name))) {
			return
		}
		fn(v, name)
	})
}

// hasAlternative reports whether a selector is one side of an "or" whose other
// side is there: written for servers of several releases.
func (p *pass) hasAlternative(path []parser.Node, v *parser.VectorSelector) bool {
	for _, n := range path {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LOR {
			continue
		}
		other := b.LHS
		if contains(b.LHS, v) {
			other = b.RHS
		}
		if slices.ContainsFunc(selectors(other), func(v *parser.VectorSelector) bool { return p.surface.Exposes(nameOf(v)) }) {
			return true
		}
	}
	return false
}

// besideItsHeir reports whether the panel asks the same of the name that carries the values
// now: written for servers of several releases.
func (p *pass) besideItsHeir(name string) bool {
	to := p.renamed(name)
	if p.role != panelRole || to == "" {
		return false
	}
	same := func(q *query) string { return strings.Join(strings.Fields(q.node.value), "") }
	want := strings.ReplaceAll(same(p.query), name, to)
	return slices.ContainsFunc(p.mates(), func(q *query) bool { return q != p.query && same(q) == want })
}

// unknownFields reports names of fields that NVIDIA's DCGM does not have.
func (p *pass) unknownFields() {
	for _, v := range selectors(p.tree) {
		name := nameOf(v)
		f, ok := dcgm.FieldOf(name)
		if ok && f.Type == "text" && p.role != variableRole {
			p.report(v.PositionRange(),
				name+" is a text or a list, which dcgm-exporter exposes as a label at most, never as a series", advice("take the query out"))
		}
		if strings.HasPrefix(name, "dcgm_") && p.records[name] == nil && !p.surface.Exposes(name) {
			p.doubt(v.PositionRange(), "the names of NVIDIA's dcgm-exporter begin with DCGM_FI_: it does not have "+name, "another program may",
				advice("look at the exporter's /metrics for the name that it has"))
		}
		if ok || !strings.HasPrefix(name, "DCGM_FI_") || p.records[name] != nil || p.surface.Exposes(name) ||
			v.Name != "" && p.opaque(v.PosRange.Start, v.PosRange.Start+posrange.Pos(len(v.Name))) {
			continue
		}
		words := "look at the exporter's /metrics for the name that it has"
		if better := nearestField(name); better != "" {
			words = "perhaps " + better + " is meant"
		}
		p.report(v.PositionRange(), "DCGM has no field "+name+" (2.2 to 4.6)", advice(words))
	}
}

// nearestField returns the field whose words are most like those of a name, "" where none is like it.
func nearestField(name string) string {
	words := strings.Split(strings.TrimPrefix(name, "DCGM_FI_"), "_")
	best, most := "", 0.5
	for _, f := range dcgm.Fields() {
		if t, _ := dcgm.FieldOf(f); t.Type == "" || strings.Contains(f, "_CPU_") != strings.Contains(name, "_CPU_") {
			continue // rarely exported, or of a processor
		}
		score := alike(words, strings.Split(strings.TrimPrefix(f, "DCGM_FI_"), "_"))
		if score > most || score == most && best != "" && f < best {
			best, most = f, score
		}
	}
	return best
}

func checkUnknownMetric(p *pass) {
	p.unknownFields()
	for _, v := range selectors(p.tree) {
		name := nameOf(v)
		if v.Name == "" || p.records[name] != nil || p.surface.Exposes(name) || p.opaque(v.PosRange.Start, v.PosRange.Start+posrange.Pos(len(name))) {
			continue
		}
		if to := misspelled(name); to != "" {
			p.report(v.PositionRange(), "no exporter has "+name, suggestion{"write " + to, p.rename(v, to)})
		}
	}
	p.missing(func(v *parser.VectorSelector, name string) {
		if known(name) {
			return
		}
		if rest, ok := strings.CutPrefix(name, "sglang:"); ok && known("vllm:"+rest) && sglangs[rest] != "" {
			p.report(v.PositionRange(), "that is vLLM's name behind SGLang's prefix", suggestion{"write sglang:" + sglangs[rest], p.rename(v, "sglang:"+sglangs[rest])})
			return
		}
		if to := nearSGLang(name); to != "" {
			p.report(v.PositionRange(), "SGLang has no "+name, suggestion{"write " + to, p.rename(v, to)})
			return
		}
		if strings.HasPrefix(name, "sglang:") { // of which not every name is known
			if p.surface.Live {
				p.reportAs(catalog.Info, v.PositionRange(), "the servers at hand ("+p.surface.Source+") do not expose "+name, advice("look at the server's /metrics for the name that it has"))
			}
			return
		}
		better, certain, words := p.meant(name)
		if better != "" {
			words = "perhaps " + better + " is meant"
		}
		if strings.HasPrefix(name, "vllm_") && ofAnotherProgram(name) {
			return
		}
		if strings.HasPrefix(name, "vllm_") {
			p.doubt(v.PositionRange(), "no release of vLLM has "+name+"; its own names begin with vllm:",
				"another program may", advice(joined(words, "check that another program exposes it")))
			return
		}
		if rest, _ := vllm.Canonical(name); looksRecorded(rest) {
			p.doubt(v.PositionRange(), name+" looks like a recording rule's, and none of the rules at hand makes it", "another file may", advice("give the file with its recording rule too"))
			return
		}
		why := fmt.Sprintf("no release of vLLM (0.2.7 to %s) has %s", vllm.Newest, name)
		if certain {
			p.report(v.PositionRange(), why, suggestion{"write " + better, p.rename(v, better)})
			return
		}
		p.report(v.PositionRange(), why, advice(otherwise(words,
			"look at the server's /metrics for the name that it has")))
	})
}

// nearSGLang returns the name of SGLang's that another one differs from by one character, "" where there is none.
func nearSGLang(name string) string {
	if strings.HasPrefix(name, "sglang:") {
		for _, f := range dialect.Families() {
			if strings.HasPrefix(f.Name, "sglang:") && hint.Distance(name, f.Name, 2) < 2 {
				return f.Name
			}
		}
	}
	return ""
}

// sglangs are SGLang's names for what vLLM calls otherwise.
var sglangs = map[string]string{
	"num_requests_running": "num_running_reqs", "num_requests_waiting": "num_queue_reqs", "kv_cache_usage_perc": "token_usage",
	"gpu_cache_usage_perc": "token_usage", "request_success_total": "num_requests_total", "request_queue_time_seconds_bucket": "queue_time_seconds_bucket",
}

// others are words of names that programs beside vLLM give to their own metrics, such as
// vllm-project/router's vllm_router_requests_total.
var others = []string{
	"router", "proxy", "gateway", "exporter", "client", "bench", "benchmark", "operator", "controller", "autoscaler",
	"scaler", "monitor", "sidecar", "adapter", "wrapper", "probe", "loadtest", "semantic", "agent", "manager", "api",
	"backend", "service", "orchestrator", "job", "pod", "target", "health", "healthy", "up", "slo", "alert", "cost", "replica", "replicas",
}

func ofAnotherProgram(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "_"), func(w string) bool { return slices.Contains(others, w) })
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// aWindowOrQuantile are words of names that people give to recording rules: 5m, rate1h, p95.
var aWindowOrQuantile = regexp.MustCompile(`^(rate|avg|sum|increase)?\d+[smhd]$|^[pq]\d+$`)

// looksRecorded reports whether a name is one that people give to recording rules: a
// colon more than an engine's have, or a duration or a percentile among its words.
func looksRecorded(canonical string) bool {
	return strings.Count(canonical, ":") > 1 || slices.ContainsFunc(strings.Split(strings.TrimPrefix(canonical, engine.Canonical), "_"),
		aWindowOrQuantile.MatchString)
}

// renamed returns the name that carries the values now, on the servers at hand.
func (p *pass) renamed(name string) string {
	n, _ := dialect.Known(name)
	canonical, _ := vllm.Canonical(name)
	suffix := strings.TrimPrefix(canonical, n.Name)
	now := n.Name
	if n.Replacement != "" {
		now = n.Replacement
	}
	better := ""
	for _, d := range p.surface.Dialects {
		to := d.Metric(now + suffix)
		if to == name || !p.surface.Exposes(to) {
			continue
		}
		if better == "" || akin(to, name) && !akin(better, name) {
			better = to
		}
	}
	return better
}

// akin reports whether two names have the same prefix, but for its last
// character: Ray's changed from a colon to an underscore.
func akin(a, b string) bool {
	_, pa := vllm.Canonical(a)
	_, pb := vllm.Canonical(b)
	return strings.TrimRight(pa, ":_") == strings.TrimRight(pb, ":_") && pa != "" && (pa[0] != 'v' || pa == pb)
}

func checkRemovedMetric(p *pass) {
	p.missing(func(v *parser.VectorSelector, name string) {
		n, ok := dialect.Known(name)
		class, _ := classOf(name)
		if !ok || !p.surface.gone(n) || class == bareHistogram || class == created {
			return
		}
		why := name + " ended with vLLM " + n.Last
		if n.Hidden != "" {
			why = fmt.Sprintf("%s is hidden since vLLM %s and ended with %s", name, n.Hidden, n.Last)
		}
		if to := p.renamed(name); to != "" {
			p.report(v.PositionRange(), why+"; "+to+" carries the same values", suggestion{"write " + to, p.rename(v, to)})
			return
		}
		p.report(v.PositionRange(), why, advice(otherwise(n.Instead, "remove the query: nothing measures it any more")))
	})
}

func otherwise(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// notEverywhere reports names that some of the servers at hand have under
// another name: they are left out without a word.
func (p *pass) notEverywhere() {
	engines := p.surface.engines()
	if !p.surface.Live || len(engines) < 2 {
		return
	}
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok || !p.surface.Exposes(nameOf(v)) || slices.ContainsFunc(path, func(n parser.Node) bool {
			b, ok := n.(*parser.BinaryExpr)
			return ok && b.Op == parser.LOR
		}) {
			return
		}
		name := nameOf(v)
		family, ok := dialect.Known(name)
		if !ok || family.Engine == "" {
			return
		}
		canonical, _ := vllm.Canonical(name)
		canonical = strings.Replace(canonical, family.Name, otherwise(family.Replacement, family.Name), 1)
		for _, d := range engines {
			if other := d.Metric(canonical); d.Engine == family.Engine && !d.Exposes(name) && d.Exposes(other) && other != name {
				p.reportAs(catalog.Ticket, v.PositionRange(), fmt.Sprintf("the servers of %s %s expose it as %s: they are left out", d.ID, d.Version, other), advice("ask for both: "+name+" or "+other))
				return
			}
		}
	})
}

func checkNotExposed(p *pass) {
	p.notEverywhere()
	p.missing(func(v *parser.VectorSelector, name string) {
		n, ok := dialect.Known(name)
		class, _ := classOf(name)
		at := v.PositionRange()
		if ok && isRouters(n) {
			p.routers(v, name, n)
			return
		}
		if !ok || p.surface.gone(n) || class == bareHistogram || class == created {
			return
		}
		engines := p.surface.engines()
		if len(engines) == 0 {
			return
		}
		if to := p.renamed(name); to != "" {
			p.reportAs(catalog.Page, at, "the servers at hand ("+p.surface.Source+") expose it as "+to, suggestion{"write " + to, p.rename(v, to)})
			return
		}
		served := slices.ContainsFunc(engines, func(d dialect.Dialect) bool { return d.Engine == n.Engine })
		switch {
		case !served:
			p.report(at, fmt.Sprintf("the servers at hand (%s) are %s's", p.surface.Source, engines[0].Engine), advice("ask for that engine's metric"))
		case n.Needs != "" && !p.surface.Live: // nobody knows what is switched on
		case n.Needs != "":
			p.reportAs(catalog.Info, at, "it is there only with "+n.Needs, advice("switch it on, or take the query out"))
		case p.surface.generation() == "V0" && vllm.OnlyV1(&n) || p.surface.generation() == "V1" && vllm.OnlyV0(&n):
			p.report(at, fmt.Sprintf("the %s engine, which is served (%s), does not have it: only %s does",
				p.surface.generation(), p.surface.Source, map[string]string{
					"V0": "V1",
					"V1": "V0",
				}[p.surface.generation()]), advice(otherwise(n.Instead, "take the query out")))
		case !n.Released(p.surface.release()):
			p.report(at, fmt.Sprintf("it came with vLLM %s; the servers at hand (%s) are %s", n.Since, p.surface.Source, otherwise(engines[0].Version, "older")), advice("upgrade, or take the query out"))
		default:
			p.reportAs(catalog.Info, at, "the servers at hand ("+p.surface.Source+") do not expose it", advice("take the query out, or find out what switched it off"))
		}
	})
}

// routers reports a name of the production-stack's router where nothing speaks of one:
// the engine has another name for the same.
func (p *pass) routers(v *parser.VectorSelector, name string, f engine.Family) {
	if p.router || !taken(f) || selectsRouter(v) {
		return
	}
	better, _, words := p.meant(name)
	if better != "" {
		words = "the engine's own is " + better
	}
	p.report(v.PositionRange(),
		"no engine exposes "+name+": the router of vLLM's production-stack has it, and nothing here speaks of a router",
		advice(otherwise(words, "take the query out")))
}

// selectsRouter reports whether a selector names a router, as {job="vllm-router"} does.
func selectsRouter(v *parser.VectorSelector) bool {
	return slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name != labels.MetricName && strings.Contains(strings.ToLower(m.Value), "router")
	})
}

func checkHistogramName(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return
		}
		name := nameOf(v)
		class, family := classOf(name)
		if p.noBuckets(v, path) {
			return
		}
		if class != bareHistogram || p.records[name] != nil || p.surface.Exposes(name) || isRouters(family) &&
			!p.router {
			return
		}
		if under(path, "histogram_avg", "histogram_count", "histogram_sum", "histogram_fraction") && p.surface.Live &&
			!p.surface.Whole {
			return // of native histograms, where a store makes them
		}
		why := name + " is a histogram: only " + name + "_bucket, _sum and _count exist"
		switch {
		case under(path, "histogram_quantile"):
			p.report(v.PositionRange(), why, suggestion{"write " + name + "_bucket", p.rename(v, name+"_bucket")})
		case strings.HasSuffix(family.Name, "_total") && under(path, rates...):
			p.report(v.PositionRange(), why+", despite the name's ending", suggestion{"write " + name + "_sum for tokens; _count counts the engine's steps", p.rename(v, name+"_sum")})
		default:
			p.report(v.PositionRange(), why, advice("divide the rate of "+name+"_sum by that of "+name+"_count for a mean, or take histogram_quantile of "+name+"_bucket"))
		}
	})
}

// noBuckets reports a percentile of something else than a histogram's buckets.
func (p *pass) noBuckets(v *parser.VectorSelector, path []parser.Node) bool {
	name := nameOf(v)
	class, _ := classOf(name)
	other := class == sum || class == count || class == counter || class == gauge ||
		class == unknownClass && (isGauge(name) || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count"))
	at := slices.IndexFunc(path, func(n parser.Node) bool { return isCall(n, "histogram_quantile") })
	if !other || p.records[name] != nil || at < 0 ||
		slices.ContainsFunc(path[at:], func(n parser.Node) bool { _, ok := n.(*parser.BinaryExpr); return ok }) {
		return false
	}
	p.report(v.PositionRange(), name+" has no buckets, of which histogram_quantile computes: the result is empty",
		advice("take the _bucket series of a histogram, or quantile_over_time of a gauge"))
	return true
}

func checkCreated(p *pass) {
	p.walk(func(n parser.Node, path []parser.Node) {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return
		}
		if name := nameOf(v); name != "" {
			class, family := classOf(name)
			if canonical, _ := vllm.Canonical(name); canonical == "vllm:lora_requests_info" && p.role != variableRole {
				p.loraInfo(v, path)
			}
			if class != created || aboutTime(path) {
				return
			}
			base, _ := strings.CutSuffix(name, "_created")
			to := base + "_total"
			if family.Type != engine.Counter {
				to = base + "_count"
			}
			p.report(v.PositionRange(), name+" is the Unix time at which counting began (about 1.7e9), not a count", suggestion{"write " + to, p.rename(v, to)})
			return
		}
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName || m.Type != labels.MatchRegexp || m.Matches("up") {
				continue
			}
			if family := createdToo(v); family != "" && !isCount(path) {
				p.report(v.PositionRange(), fmt.Sprintf("the pattern selects %s_created as well, a Unix time of about 1.7e9", family), advice(`end the pattern in _total, or add __name__!~".*_created"`))
				return
			}
		}
	})
}

// loraInfo reports lora_requests_info shown or added up for its value: the adapters stand in
// its labels, and its value is the time of their last change.
func (p *pass) loraInfo(v *parser.VectorSelector, path []parser.Node) {
	shown := p.role == panelRole && (p.panel.kind == "table" || strings.Contains(p.panel.legend, "lora_adapters"))
	if shown && p.panel.isTable() && len(path) == 0 && moments.MatchString(p.claims()) {
		p.report(v.PositionRange(), "a set of adapters that ran once stays as a series until the server restarts: the table lists those of long ago too",
			advice("take the newest of each server: topk by (instance) (1, "+nameOf(v)+")"))
	}
	if shown || aboutTime(path) || under(path, "max_over_time", "last_over_time") || slices.ContainsFunc(path, func(n parser.Node) bool {
		a, ok := n.(*parser.AggregateExpr)
		return ok && (a.Op == parser.TOPK || slices.ContainsFunc(a.Grouping, func(l string) bool { return strings.HasSuffix(l, "lora_adapters") }))
	}) {
		return
	}
	p.report(v.PositionRange(), "the value of "+nameOf(v)+" is a Unix time (about 1.7e9), that of the last change: the adapters stand in its labels",
		advice("count the series of the last 5 minutes, or show running_lora_adapters of the newest one in a table"))
}

// isCount reports whether only the number of series is asked for.
func isCount(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		a, ok := n.(*parser.AggregateExpr)
		return ok && (a.Op == parser.COUNT || a.Op == parser.GROUP)
	})
}

// aboutTime reports whether a value is used as the time that it is: taken from
// or compared with another time, or watched for a change.
func aboutTime(path []parser.Node) bool {
	if under(path, rates...) {
		return false
	}
	return under(path, "changes", "timestamp", "count_over_time", "present_over_time", "absent", "absent_over_time") || isCount(path) ||
		slices.ContainsFunc(path, func(n parser.Node) bool {
			b, ok := n.(*parser.BinaryExpr)
			return ok && (b.Op == parser.SUB || b.Op.IsComparisonOperator())
		})
}

// mistaken are labels that people write for those that vLLM has.
var mistaken = map[string]string{
	"model": "model_name", "model_id": "model_name", "modelname": "model_name", "served_model_name": "model_name",
	"finish_reason": "finished_reason", "code": "status", "status_code": "status", "path": "handler", "engine_id": "engine", "dp_rank": "engine",
}

// ownLabels are labels of some families, or of other programs' counters, that no target has:
// on others they select nothing.
var ownLabels = []string{
	"finished_reason", "status", "handler", "sleep_state", "position", "transfer_type",
	"success", "error", "error_type", "outcome", "result", "reason", "quantile", "le", "token_type", "cache_type",
}

// namedLabels reports labels in a legend or in an alert's text that the metric lacks and that are
// often mistaken for one that it has.
func (p *pass) namedLabels() {
	if has := p.labelsOfAny(p.tree); has.known && has.exact {
		return // lost-label
	}
	all := selectors(p.tree)
	if len(all) == 0 || p.role != panelRole && p.role != alertRole {
		return
	}
	check := func(text string, named *regexp.Regexp, tell func(from, to int, why, fix string)) {
		for _, m := range named.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[2], m[3]
			if from < 0 {
				from, to = m[4], m[5]
			}
			label := text[from:to]
			better, sure := p.mistakenFor(nameOf(all[0]), label)
			if sure == yes && better != "" {
				tell(from, to, fmt.Sprintf("%s has no label %s: it is empty there", nameOf(all[0]), label), "write "+better)
				return
			}
		}
	}
	if p.role == panelRole {
		check(p.panel.legend, labelsLegends, func(_, _ int, why, fix string) {
			p.reportAs(catalog.Info, p.tree.PositionRange(), "in the legend: "+why, advice(fix))
		})
		return
	}
	for _, f := range p.rule.get("annotations").all() {
		check(f.value.str(), labelsNamed, func(from, to int, why, fix string) {
			p.reportText(f.value, from, to, why, fix)
		})
	}
}

// gpuLabels are labels that people write for those that dcgm-exporter gives its series, and
// whether another program's are often put there by relabelling.
var gpuLabels = map[string]string{
	"gpu_id": "gpu", "gpu_index": "gpu", "GPU": "gpu", "gpu_uuid": "UUID", "uuid": "UUID", "gpu_name": "modelName",
	"gpu_model": "modelName", "model_name": "modelName", "hostname": "Hostname",
}

func checkUnknownLabel(p *pass) {
	p.namedLabels()
	p.walk(func(n parser.Node, _ []parser.Node) {
		switch n := n.(type) {
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if to, sure := p.mistakenFor(nameOf(n), m.Name); sure != no && !m.Matches("") {
					p.unlessAdded(n, sure, fmt.Sprintf("%s has no label %s, so nothing is selected", nameOf(n), m.Name),
						p.relabel(to, func() []edit { return p.matcherEdit(n, m.Name, to, "") }))
				}
			}
		case *parser.AggregateExpr:
			if n.Without || p.opaque(n.PosRange.Start, n.Expr.PositionRange().Start) {
				return
			}
			for _, label := range n.Grouping {
				p.unknownGrouping(n, label)
			}
		}
	})
}

func (p *pass) unknownGrouping(n *parser.AggregateExpr, label string) {
	for _, v := range selectors(n.Expr) {
		if to, sure := p.mistakenFor(nameOf(v), label); sure != no {
			p.unlessAdded(n, sure, fmt.Sprintf("%s has no label %s, so grouping by it groups by nothing", nameOf(v), label), p.relabel(to, func() []edit {
				at, inner := n.PositionRange(), n.Expr.PositionRange()
				for _, item := range slices.Concat(p.tokens(at.Start, inner.Start), p.tokens(inner.End, at.End)) {
					if item.Val == label {
						return []edit{{p.node, int(item.Pos), int(item.Pos) + len(label), to}}
					}
				}
				return nil
			}))
			return
		}
	}
}

func (p *pass) relabel(to string, edits func() []edit) suggestion {
	if to == "" {
		return advice("take the label out")
	}
	return suggestion{"write " + to, edits()}
}

// unlessAdded reports a label that a metric lacks; where only the deployment knows whether
// it gives its targets the label, as a doubt.
func (p *pass) unlessAdded(n parser.Node, sure belief, why string, fix suggestion) {
	if sure == yes {
		p.report(n.PositionRange(), why, fix)
		return
	}
	p.doubt(n.PositionRange(), why, "it may be there if the scrape configuration adds it", fix)
}

// mistakenFor reports whether a series lacks a label, how sure that is, and which one is
// meant. A deployment may give its targets a label model or path; it does not where the
// files ask the engine for model_name elsewhere.
func (p *pass) mistakenFor(name, label string) (to string, sure belief) {
	if label == labels.MetricName || name == "" {
		return "", no
	}
	if strings.HasPrefix(name, "http_request_duration_highr_seconds") && slices.Contains([]string{"handler", "method", "status", "path"}, label) {
		return "", yes // it has none of its own
	}
	if to := p.misspelledLabel(name, label); to != "" {
		return to, yes
	}
	if p.lacksLabel(name, label) {
		return "", yes
	}
	if to := gpuLabels[label]; to != "" && strings.HasPrefix(name, "DCGM_FI_") && !p.surface.Live {
		if p.beside.words[to] || label != "hostname" && !p.beside.selected[label] {
			return to, yes
		}
		return to, cannotTell
	}
	if strings.HasPrefix(name, "http_request_duration_highr_seconds") && slices.Contains([]string{"handler", "method", "status"}, label) {
		return "", yes // of all requests, without labels of its own (prometheus-fastapi-instrumentator)
	}
	has, known := p.surface.hasLabel(name, label)
	_, n := classOf(name)
	if !known || has || n.Engine == "" && !p.surface.Live {
		return "", no // another program's http_requests_total, perhaps
	}
	if label == "model_name" || n.Engine == vllm.ID && slices.Contains(ownLabels, label) {
		return "", yes // such as model_name of cache_config_info
	}
	to, often := mistaken[label]
	if better, _ := p.surface.hasLabel(name, to); !often || !better {
		return "", no // a label of the target, perhaps
	}
	if p.surface.Live || to == "finished_reason" || to == "model_name" && p.models {
		return to, yes
	}
	return to, cannotTell
}

func checkLabelValue(p *pass) {
	for _, v := range selectors(p.tree) {
		for _, m := range v.LabelMatchers {
			if m.Name == "resource" && m.Type == labels.MatchEqual && strings.HasPrefix(nameOf(v), "kube_") &&
				strings.ContainsAny(m.Value, "./-") {
				to := strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(m.Value)
				p.report(v.PositionRange(),
					fmt.Sprintf("kube-state-metrics writes resources with underscores: resource is never %q", m.Value),
					suggestion{"write " + to, p.matcherEdit(v, "resource", "", to)})
			}
		}
		class, n := classOf(nameOf(v))
		if class == unknownClass { // unknown-metric says what is missing
			class, n = classOf(nameOf(v) + "_total")
		}
		if class == unknownClass {
			continue
		}
		if strings.HasPrefix(n.Name, "http_request_duration") {
			p.durationByStatus(v)
		}
		for _, m := range v.LabelMatchers {
			if strings.Contains(m.Value, "$") {
				continue
			}
			if n.Name == "http_requests_total" && m.Name == "status" {
				p.statusClass(v, m)
			}
			if m.Type != labels.MatchEqual {
				continue
			}
			switch {
			case n.Name == "vllm:request_success_total" && m.Name == "finished_reason" && m.Value == "abort":
				p.report(v.PositionRange(), "requests that clients abandon are counted nowhere: abort stays 0 (vllm-project/vllm#31503)", advice("count disconnects at the gateway, or compare vllm:time_to_first_token_seconds_count with completions"))
			case n.Name == "vllm:request_success_total" && m.Name == "finished_reason" && !slices.Contains([]string{"stop", "length", "abort", "error", "repetition", ""}, m.Value):
				p.report(v.PositionRange(), fmt.Sprintf("finished_reason is never %q", m.Value), advice("use one of stop, length, error (0.14) and repetition (0.17)"))
			}
		}
	}
}

// statusClass reports statuses that are asked for one by one: vLLM counts them by class.
// Other programs that count http_requests_total do not; whose it is, only the selector and
// the words around it can say.
func (p *pass) statusClass(v *parser.VectorSelector, m *labels.Matcher) {
	classes := []string{"1xx", "2xx", "3xx", "4xx", "5xx"}
	if p.surface.Whole || m.Type == labels.MatchNotEqual || m.Type == labels.MatchNotRegexp || m.Value == "" ||
		slices.ContainsFunc(classes, m.Matches) {
		return
	}
	fix := advice(`ask for a class, such as status="5xx"`)
	if c := m.Value[0]; m.Type == labels.MatchEqual && c >= '1' && c <= '5' {
		to := m.Value[:1] + "xx"
		fix = suggestion{"write " + to, p.matcherEdit(v, "status", "", to)}
	}
	p.ifEngines(v, fmt.Sprintf("vLLM counts HTTP statuses by class: status is never %q", m.Value), fix)
}

// ifEngines reports what is wrong with a metric if it is the engine's: as a doubt where that
// cannot be told.
func (p *pass) ifEngines(v *parser.VectorSelector, why string, fix suggestion) {
	switch p.isEngines(v) {
	case yes:
		p.report(v.PositionRange(), why, fix)
	case cannotTell:
		p.doubt(v.PositionRange(), why, "nothing here says whose requests these are", fix)
	}
}

// durationByStatus reports times of HTTP requests that are asked for by status: vLLM's have
// handler and method alone.
func (p *pass) durationByStatus(v *parser.VectorSelector) {
	for _, m := range v.LabelMatchers {
		if !slices.Contains([]string{"status", "status_code", "code"}, m.Name) || m.Matches("") || p.surface.Whole {
			continue
		}
		p.ifEngines(v, fmt.Sprintf("vLLM's %s has no label %s: nothing is selected", nameOf(v), m.Name),
			advice("take http_requests_total, which has status"))
	}
}

// isEngines reports whether a metric that many programs have is the engine's: by a label's
// value or the texts around it, or by handler, as the library calls paths that vLLM counts
// them with. Where nothing else is selected, it may be.
func (p *pass) isEngines(v *parser.VectorSelector) belief {
	if p.surface.Live || p.says("vllm") {
		return yes
	}
	b := cannotTell
	for _, m := range v.LabelMatchers {
		positive := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
		switch {
		case positive && speaksOfEngine(m.Value), m.Name == "handler":
			return yes
		case positive && !slices.Contains([]string{labels.MetricName, "status", "status_code", "code", "method"}, m.Name) &&
			!p.beside.engines[m.String()]:
			b = no
		}
	}
	p.walk(func(n parser.Node, _ []parser.Node) {
		if a, ok := n.(*parser.AggregateExpr); ok && slices.Contains(a.Grouping, "handler") {
			b = yes
		}
	})
	return b
}

// speaksOfEngine reports whether a label's value names vLLM, or a path that only servers
// of language models have.
func speaksOfEngine(value string) bool {
	value = strings.ToLower(value)
	return strings.Contains(value, "vllm") || strings.Contains(value, "/completions")
}
