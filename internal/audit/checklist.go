package audit

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Status says whether an item or an area is measured. The zero value is Unknown, so that an unchecked item is never
// shown as present.
type Status uint8

// The statuses.
const (
	Unknown Status = iota // could not be checked
	Missing
	Partial // on some servers, or in part
	Present
)

var statusNames = [...]string{"unknown", "missing", "partial", "present"}

func (s Status) String() string { return statusNames[s] }

// MarshalText writes a status's name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// An Area groups items of the checklist that a deployment should measure, such as the offered load.
type Area struct {
	ID, Title string
	Items     []Item
}

// An Item is one quantity or practice of an area.
type Item struct {
	Name     string           `json:"name"`
	Status   Status           `json:"status"`
	Severity catalog.Severity `json:"severity"` // of its absence
	Detail   string           `json:"detail,omitempty"`
	Hint     string           `json:"hint,omitempty"` // how to enable it
}

// isLacking reports whether the item is missing, in whole or in part.
func (it Item) isLacking() bool { return it.Status == Missing || it.Status == Partial }

// Status sums up the items. An optional item, whose severity is info, counts only if it is present.
func (a Area) Status() Status {
	var count [len(statusNames)]int
	for _, it := range a.Items {
		if it.Severity > catalog.Info || it.Status == Present {
			count[it.Status]++
		}
	}
	switch {
	case count[Missing]+count[Partial] == 0 && count[Present] > 0:
		return Present
	case count[Present]+count[Partial] > 0:
		return Partial
	case count[Missing] > 0:
		return Missing
	}
	return Unknown
}

// A quantity is an item that is present if servers expose the metrics of a signal.
type quantity struct {
	name     string
	signal   *indicator.Signal
	severity catalog.Severity
	hint     string // if the dialect has none; "" means hintDropped
}

// hintDropped is for a metric that a server always exposes.
const hintDropped = "the server exposes it from the start: look for what drops it, such as metric_relabel_configs"

// engineAreas are the areas that engines' own metrics answer.
var engineAreas = []struct {
	id, title string
	items     []quantity
}{
	{"user-experience", "User experience", []quantity{
		{name: "time to first token", signal: indicator.TTFTP95, severity: catalog.Page},
		{name: "inter-token latency", signal: indicator.ITLP95, severity: catalog.Page},
		{name: "request-level time per output token", signal: indicator.TPOTP95, severity: catalog.Info},
		{name: "end-to-end latency", signal: indicator.E2EP95, severity: catalog.Ticket},
	}},
	{"offered-load", "Offered load", []quantity{
		{
			name: "HTTP requests by status", signal: indicator.HTTPRate, severity: catalog.Ticket,
			hint: "it appears with the first request; if it does not, scrape the API server itself (vLLM 0.8.3 and " +
				"later)",
		},
	}},
	{"scheduler-pressure", "Scheduler pressure", []quantity{
		{name: "queue time", signal: indicator.QueueTimeMean, severity: catalog.Ticket},
		{name: "waiting requests", signal: indicator.Waiting, severity: catalog.Ticket},
		{name: "running requests", signal: indicator.Running, severity: catalog.Ticket},
		{name: "waiting requests by reason", signal: indicator.Deferred, severity: catalog.Info},
	}},
	{"memory-pressure", "Memory pressure", []quantity{
		{name: "KV-cache usage", signal: indicator.KVUsage, severity: catalog.Ticket},
		{name: "preemptions", signal: indicator.PreemptionRate, severity: catalog.Ticket},
		{
			name: "prefix-cache hits", signal: indicator.PrefixHitRatio, severity: catalog.Info,
			hint: "start the server with --enable-prefix-caching, where it is not the default",
		},
	}},
	{"useful-work", "Useful work", []quantity{
		{name: "prompt tokens per second", signal: indicator.PromptTokenRate, severity: catalog.Ticket},
		{name: "generated tokens per second", signal: indicator.GenerationTokenRate, severity: catalog.Ticket},
	}},
	{"workload-shape", "Workload shape", []quantity{
		{name: "prompt lengths", signal: indicator.PromptTokensP99, severity: catalog.Ticket},
		{name: "output lengths", signal: indicator.OutputTokens, severity: catalog.Ticket},
		{name: "requested limits", signal: indicator.MaxTokens, severity: catalog.Info},
		{name: "computed prompt tokens", signal: indicator.PrefillTimePerToken, severity: catalog.Info},
	}},
}

// A checklist compares a deployment's surface with what should be measured.
type checklist struct{ *checks.Surface }

// Checklist compares a deployment with the eight areas of a guide to monitoring vLLM: which items are present, which
// are missing, and how to enable them. Without rules the items on alerts are unknown, unless the absence of rules is
// itself known (rulesComplete).
func Checklist(surface *checks.Surface, docs []*files.Document, rulesComplete bool) []Area {
	s := checklist{surface}
	var areas []Area
	for _, e := range engineAreas {
		a := Area{ID: e.id, Title: e.title}
		for _, q := range e.items {
			a.Items = append(a.Items, s.measure(q, s.Engines()))
		}
		if e.id == "offered-load" {
			a.Items = append(a.Items, s.gatewayItem())
		}
		areas = append(areas, a)
	}
	operations := operationsArea(docs, rulesComplete)
	operations.Items = append(operations.Items, s.exposureItems()...)
	return append(areas, s.infrastructureArea(), operations)
}

// exposures are the items on information that must not be readable.
var exposures = []struct {
	kind       checks.Exposure
	name, hint string
	severity   catalog.Severity
}{
	{checks.Secrets, "labels without secrets",
		"drop the label by metric_relabel_configs (action: labeldrop), and change the key: it is in the store",
		catalog.Page},
	{checks.People, "labels without users",
		"drop the label by metric_relabel_configs (action: labeldrop); count users in logs", catalog.Ticket},
	{checks.Prompts, "labels without prompts", "drop the label by metric_relabel_configs (action: labeldrop)",
		catalog.Page},
	{checks.CommandLines, "command lines without secrets", "give it in the environment, such as VLLM_API_KEY and " +
		"HF_TOKEN, or in a file: every user of the machine can list arguments", catalog.Ticket},
	{checks.OpenPages, "metrics behind a password", "an API key does not cover /metrics: let the scraper alone reach " +
		"it, by a network policy or a proxy with a password", catalog.Info},
}

// exposureItems returns an item for each kind of exposure that was seen. Absent ones have no item.
func (s checklist) exposureItems() (items []Item) {
	for _, e := range exposures {
		if places := s.Exposed[e.kind]; len(places) > 0 {
			detail := "exposed: " + strings.Join(places[:min(3, len(places))], ", ")
			if more := len(places) - 3; more > 0 {
				detail += fmt.Sprintf(" and %d more", more)
			}
			items = append(items, Item{e.name, Missing, e.severity, detail, e.hint})
		}
	}
	return items
}

// measure returns the item of a quantity on the servers of some dialects.
func (s checklist) measure(q quantity, servers []dialect.Dialect) Item {
	it := Item{Name: q.name, Severity: q.severity}
	if len(servers) == 0 {
		it.Detail = "no inference server was seen"
		return it
	}
	var absent []string
	for _, d := range servers {
		names := indicator.Reads(d.Expr(q.signal))
		missing := d.Missing(q.signal)
		if len(missing) == 0 {
			for i, n := range names {
				names[i] = d.Metric(n)
			}
			if it.Detail == "" {
				it.Detail = strings.Join(names, ", ")
			}
			continue
		}
		absent = append(absent, missing...)
		it.Hint = hintFor(missing[0], d, cmp.Or(q.hint, hintDropped))
	}
	absent = slices.Compact(slices.Sorted(slices.Values(absent)))
	switch {
	case len(absent) == 0:
		it.Status = Present
	case it.Detail != "":
		it.Status, it.Detail = Partial, "some servers do not expose "+strings.Join(absent, ", ")
	case q.signal == indicator.HTTPRate && s.Exposes("http_request_duration_highr_seconds_count"):
		// The same middleware exposes both, this one from the start.
		it.Detail, it.Hint = "http_requests_total appears with the first request, and there was none", ""
	default:
		it.Status, it.Detail = Missing, "not exposed: "+strings.Join(absent, ", ")
	}
	return it
}

// hintFor says how to get a metric that a dialect lacks; otherwise is the hint if nothing is known about it.
func hintFor(name string, d dialect.Dialect, otherwise string) string {
	n, ok := dialect.Known(name)
	release, _, _ := strings.Cut(d.Version, " ")
	switch {
	case d.Enable != "":
		return strings.TrimSuffix(d.Enable, ".") + "; what it does not expose, measure at the gateway"
	case strings.HasSuffix(d.ID, "-ray") && strings.HasPrefix(name, "http_"):
		return "scrape Ray Serve's own ray_serve_num_http_requests beside the engine's metrics"
	case ok && n.Needs != "":
		return "start the server with " + n.Needs
	case ok && release != "" && !vllm.InV1(&n, release):
		return fmt.Sprintf("upgrade: it came with vLLM %s, and this is %s", n.Since, d.Version)
	}
	return otherwise
}

// gateways are request counters of gateways, proxies and routers.
var gateways = []string{
	"sixty_gateway_requests_total", "nginx_ingress_controller_requests", "envoy_http_downstream_rq_total",
	"envoy_cluster_upstream_rq_total", "istio_requests_total",
	"traefik_service_requests_total", "haproxy_backend_http_responses_total", "kong_http_requests_total",
	"litellm_proxy_total_requests_metric_total",
	"inference_objective_request_total", "inference_model_request_total", "ray_serve_num_http_requests_total",
	"vllm:num_incoming_requests_total", "caddy_http_requests_total", "gateway_requests_total",
}

// hosts are metrics of node_exporter.
var hosts = []string{"node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "node_network_receive_bytes_total"}

// Wanted lists the metrics beside the engines' that the checklist looks for in a Prometheus server.
func Wanted() []string {
	return slices.Concat(gateways, hosts, []string{"container_memory_working_set_bytes", "http_requests_total",
		"ALERTS", "probe_success", "http_request_duration_highr_seconds_count"})
}

// hintPrometheus is for what only a Prometheus server knows.
const hintPrometheus = "audit the Prometheus server, with --prometheus"

// lookFor completes an item that is present if any program exposes one of some metrics.
func (s checklist) lookFor(it Item, names ...string) Item {
	i := slices.IndexFunc(names, s.Exposes)
	switch {
	case i >= 0:
		it.Status, it.Detail, it.Hint = Present, names[i], ""
	case s.Whole:
		it.Status, it.Detail = Missing, "none of "+strings.Join(names[:min(3, len(names))], ", ")+" and the like"
	default:
		it.Detail, it.Hint = "cannot be seen on an inference server's own page", hintPrometheus
	}
	return it
}

func (s checklist) gatewayItem() Item {
	return s.lookFor(Item{
		Name: "gateway (timeouts, disconnects)", Severity: catalog.Ticket,
		Hint: "scrape the gateway; the server does not count requests that time out or are abandoned " +
			"(vllm-project/vllm#31503)",
	}, gateways...)
}

// maxInterval is the longest scrape interval that gives an incident of a minute four samples.
const maxInterval = 15 * time.Second

// hintExporter is for what a GPU exporter exposes by default.
const hintExporter = "run dcgm-exporter on the GPU hosts and scrape it (port 9400)"

// gpuItems are the items that a GPU exporter answers.
var gpuItems = []quantity{
	{name: "GPU utilization", signal: indicator.GPUUtil, severity: catalog.Ticket, hint: hintExporter},
	{name: "GPU temperature and power", signal: indicator.GPUTemp, severity: catalog.Info, hint: hintExporter},
	{
		name: "GPU clocks and throttling", signal: indicator.ThermalReason, severity: catalog.Ticket,
		hint: "add DCGM_FI_DEV_CLOCKS_EVENT_REASONS to the exporter's counters file",
	},
	{
		name: "SM activity", signal: indicator.SMActive, severity: catalog.Info,
		hint: "add DCGM_FI_PROF_SM_ACTIVE to the exporter's counters file: utilization says only that something ran",
	},
	{
		name: "GPU errors (XID)", signal: indicator.XID, severity: catalog.Ticket,
		hint: "add DCGM_FI_DEV_XID_ERRORS to the exporter's counters file",
	},
}

func (s checklist) infrastructureArea() Area {
	a := Area{ID: "infrastructure", Title: "Infrastructure"}
	i := slices.IndexFunc(s.Dialects, func(d dialect.Dialect) bool { return dialect.ShowsGPUs(d.Engine) })
	switch {
	case i >= 0:
		for _, q := range gpuItems {
			if s.Dialects[i].Lacks[q.signal.Name] == "" { // the exporter can expose it
				a.Items = append(a.Items, s.measure(q, s.Dialects[i:i+1]))
			}
		}
	case s.Whole:
		a.Items = append(a.Items, Item{"GPUs", Missing, catalog.Ticket, "no GPU exporter", hintExporter})
	default:
		a.Items = append(a.Items, Item{"GPUs", Unknown, catalog.Ticket, "no GPU exporter among the servers",
			"name it too: sixty audit VLLM:8000 GPU-HOST:9400"})
	}
	host := s.lookFor(Item{Name: "host and network", Severity: catalog.Info, Hint: "scrape node_exporter on the hosts"},
		hosts...)
	memory := s.lookFor(Item{
		Name: "memory of the processes", Severity: catalog.Info,
		Hint: "scrape the kubelet's cAdvisor: with several API servers vLLM exposes no process metrics",
	}, "container_memory_working_set_bytes")
	a.Items = append(a.Items, host, memory, s.intervalItem())
	return a
}

func (s checklist) intervalItem() Item {
	it := Item{Name: "scrape interval", Severity: catalog.Info}
	switch {
	case !s.Whole:
		it.Detail, it.Hint = "known to the Prometheus server", hintPrometheus
	case s.Interval > maxInterval:
		it.Status, it.Severity, it.Hint = Partial, catalog.Ticket, "scrape the servers every 5 to 15 s"
		it.Detail = fmt.Sprintf("every %s: an incident of a minute is hardly seen", render.Span(s.Interval))
	case s.Interval == 0:
		it.Detail = "too little history to tell"
	default:
		it.Status, it.Detail = Present, "every "+render.Span(s.Interval)
	}
	return it
}

// coverage lists, for each area, the families one of which an alert must read.
var coverage = []struct {
	title    string
	severity catalog.Severity
	families []string
}{
	{"user experience", catalog.Ticket, []string{"time_to_first_token_seconds", "inter_token_latency_seconds",
		"time_per_output_token_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds"}},
	{"errors", catalog.Ticket, []string{"http_requests_total", "request_success_total", "request_errors_total"}},
	{"scheduler pressure", catalog.Info, []string{"request_queue_time_seconds", "num_requests_waiting",
		"num_requests_running", "time_in_queue_requests", "num_queue_reqs"}},
	{"memory pressure", catalog.Info, []string{"kv_cache_usage_perc", "gpu_cache_usage_perc", "num_preemptions_total",
		"token_usage"}},
	{"a server that is down", catalog.Ticket, []string{"up"}},
}

// operationsArea returns the items on alerts. Without alerts it is unknown, unless the files are all rules that there
// are.
func operationsArea(docs []*files.Document, rulesComplete bool) Area {
	a := Area{ID: "operations", Title: "Operations"}
	alerts, records := queriesIn(docs)
	if len(alerts) == 0 && !rulesComplete {
		a.Items = append(a.Items, Item{Name: "alerts", Detail: "no rules were given",
			Hint: "give them with --rules, or audit the Prometheus server, with --prometheus"})
		return a
	}
	const generate = "sixty generate rules writes them from the catalogue"
	for _, c := range coverage {
		it := Item{Name: "alert on " + c.title, Severity: c.severity, Status: Missing, Detail: "no alert reads it",
			Hint: generate}
		for _, q := range alerts {
			if readsAny(q, records, c.families, 0) {
				it.Status, it.Detail, it.Hint = Present, q.Name, ""
				break
			}
		}
		a.Items = append(a.Items, it)
	}
	burnRate := Item{Name: "SLO with burn-rate alerts", Severity: catalog.Info, Status: Missing,
		Detail: "no alert compares two windows", Hint: generate + ", with --slo"}
	linked := 0
	for _, q := range alerts {
		if isBurnRate(q.Expr) {
			burnRate.Status, burnRate.Detail, burnRate.Hint = Present, q.Name, ""
		}
		if q.Runbook != "" {
			linked++
		}
	}
	runbooks := Item{"runbooks", Partial, catalog.Info, fmt.Sprintf("%d of %d alerts link one", linked, len(alerts)),
		"annotate each with runbook_url; sixty explain prints runbooks"}
	switch linked {
	case 0:
		runbooks.Status = Missing
	case len(alerts):
		runbooks.Status, runbooks.Hint = Present, ""
	}
	a.Items = append(a.Items, burnRate, runbooks)
	return a
}

// TracesItem returns the item on request traces of a monitor that received a number of spans since its start.
func TracesItem(spans int64) Item {
	it := Item{Name: "request traces", Severity: catalog.Ticket, Status: Present,
		Detail: fmt.Sprintf("%d spans were received", spans)}
	if spans == 0 {
		it.Status, it.Detail = Missing, "traces are configured (--trace-buffer), and none arrive"
		it.Hint = "start vLLM with --otlp-traces-endpoint http://THIS-MONITOR/v1/traces and " +
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf: by default it speaks gRPC"
	}
	return it
}

// queriesIn returns the alerts of files, and their recording rules by name, without those that are not PromQL.
func queriesIn(docs []*files.Document) (alerts []*files.Query, records map[string]*files.Query) {
	records = map[string]*files.Query{}
	for _, d := range docs {
		for _, q := range d.Queries {
			switch {
			case q.Tree == nil:
			case q.Role == files.Record:
				records[q.Name] = q
			case q.Role == files.Alert:
				alerts = append(alerts, q)
			}
		}
	}
	return alerts, records
}

// maxDepth bounds how far recording rules are followed, which may read each other.
const maxDepth = 4

// readsAny reports whether a query reads one of some families, perhaps through recording rules.
func readsAny(q *files.Query, records map[string]*files.Query, families []string, depth int) bool {
	for _, v := range checks.Selectors(q.Tree) {
		name := checks.NameOf(v)
		if r := records[name]; r != nil && depth < maxDepth {
			if readsAny(r, records, families, depth+1) {
				return true
			}
			continue
		}
		if n, ok := dialect.Known(name); ok {
			name = n.Name
		}
		other, _ := dialect.OtherOf(name)
		name = strings.TrimPrefix(strings.TrimPrefix(name, engine.Canonical), other.Prefix)
		if slices.Contains(families, name) {
			return true
		}
	}
	return false
}

// isBurnRate reports whether an alert compares one quantity over two windows, as burn-rate alerts do: by two ranges of
// one metric, or by recorded ratios whose names differ only in their window.
func isBurnRate(expr string) bool {
	windows, hasTwo := map[string]string{}, false
	for _, m := range windowed.FindAllStringSubmatch(expr, -1) {
		hasTwo = hasTwo || windows[m[1]] != "" && windows[m[1]] != m[2]
		windows[m[1]] = m[2]
	}
	return hasTwo && conjunction.MatchString(expr)
}

var (
	// windowed matches a metric with its range, and a name that ends in a window.
	windowed    = regexp.MustCompile(`([a-zA-Z_:]+)(?:\{[^}]*\})?\[?([0-9]+[smhdw])\b`)
	conjunction = regexp.MustCompile(`\band\b`)
)
