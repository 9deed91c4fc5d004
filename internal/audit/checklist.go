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

// Status of an item or an area. The zero value is Unknown, so an unchecked item is never shown as present.
type Status uint8

// The statuses.
const (
	Unknown Status = iota // could not be looked at
	Missing
	Partial // on some servers, or some of it
	Present
)

var statusNames = [...]string{"unknown", "missing", "partial", "present"}

func (s Status) String() string { return statusNames[s] }

// MarshalText writes a status's name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// An Area is one line of the checklist: what a deployment should measure.
type Area struct {
	ID, Title string
	Items     []Item
}

// An Item is one quantity or practice of an area.
type Item struct {
	Name     string           `json:"name"`
	Status   Status           `json:"status"`
	Severity catalog.Severity `json:"severity"`         // severity of its absence
	Detail   string           `json:"detail,omitempty"` // what is present, or missing
	Hint     string           `json:"hint,omitempty"`   // how to switch it on
}

// isLacking reports whether the item can be enabled.
func (it Item) isLacking() bool { return it.Status == Missing || it.Status == Partial }

// Status of an area is Missing where all that could be looked at is missing.
func (a Area) Status() Status {
	var seen [len(statusNames)]int
	for _, it := range a.Items {
		if it.Severity > catalog.Info || it.Status == Present { // optional items do not decide
			seen[it.Status]++
		}
	}
	switch {
	case seen[Missing]+seen[Partial] == 0 && seen[Present] > 0:
		return Present
	case seen[Present]+seen[Partial] > 0:
		return Partial
	case seen[Missing] > 0:
		return Missing
	}
	return Unknown
}

// measured is an item that a signal of the catalogue stands for.
type measured struct {
	name     string
	signal   *indicator.Signal
	severity catalog.Severity
	hint     string // if the signal has none; "" means dropped
}

// dropped is the hint for what every server has whose other metrics are seen.
const dropped = "the server exposes it from the start: look for what drops it, such as metric_relabel_configs"

// measuredAreas are the areas that are read from the engines' own metrics.
var measuredAreas = []struct {
	id, title string
	items     []measured
}{
	{"user-experience", "User experience", []measured{
		{name: "time to first token", signal: indicator.TTFTP95, severity: catalog.Page},
		{name: "inter-token latency", signal: indicator.ITLP95, severity: catalog.Page},
		{name: "request-level time per output token", signal: indicator.TPOTP95, severity: catalog.Info},
		{name: "end-to-end latency", signal: indicator.E2EP95, severity: catalog.Ticket},
	}},
	{"offered-load", "Offered load", []measured{
		{
			name: "HTTP requests by status", signal: indicator.HTTPRate, severity: catalog.Ticket,
			hint: "it appears with the first request; where it does not, scrape the API server itself (vLLM 0.8.3 and later)",
		},
	}},
	{"scheduler-pressure", "Scheduler pressure", []measured{
		{name: "queue time", signal: indicator.QueueTimeMean, severity: catalog.Ticket},
		{name: "waiting requests", signal: indicator.Waiting, severity: catalog.Ticket},
		{name: "running requests", signal: indicator.Running, severity: catalog.Ticket},
		{name: "waiting requests by reason", signal: indicator.Deferred, severity: catalog.Info},
	}},
	{"memory-pressure", "Memory pressure", []measured{
		{name: "KV-cache usage", signal: indicator.KVUsage, severity: catalog.Ticket},
		{name: "preemptions", signal: indicator.PreemptionRate, severity: catalog.Ticket},
		{
			name: "prefix-cache hits", signal: indicator.PrefixHitRatio, severity: catalog.Info,
			hint: "start the server with --enable-prefix-caching, where it is not the default",
		},
	}},
	{"useful-work", "Useful work", []measured{
		{name: "prompt tokens per second", signal: indicator.PromptTokenRate, severity: catalog.Ticket},
		{name: "generated tokens per second", signal: indicator.GenerationTokenRate, severity: catalog.Ticket},
	}},
	{"workload-shape", "Workload shape", []measured{
		{name: "prompt lengths", signal: indicator.PromptTokensP99, severity: catalog.Ticket},
		{name: "output lengths", signal: indicator.OutputTokens, severity: catalog.Ticket},
		{name: "requested limits", signal: indicator.MaxTokens, severity: catalog.Info},
		{name: "computed prompt tokens", signal: indicator.PrefillTimePerToken, severity: catalog.Info},
	}},
}

// A checklist looks at a deployment for what should be measured.
type checklist struct{ *checks.Surface }

// Checklist compares a deployment with the eight areas of a guide to monitoring vLLM: which items are present, which
// are missing, and how to enable them. rules are the alerts at hand; if known is set they are complete, and areas
// without an alert are missing.
func Checklist(surface *checks.Surface, docs []*files.Document, known bool) []Area {
	s := checklist{surface}
	var areas []Area
	for _, m := range measuredAreas {
		a := Area{ID: m.id, Title: m.title}
		for _, it := range m.items {
			a.Items = append(a.Items, s.measure(it, s.Engines()))
		}
		if m.id == "offered-load" {
			a.Items = append(a.Items, s.gateway())
		}
		areas = append(areas, a)
	}
	practice := operations(docs, known)
	practice.Items = append(practice.Items, s.exposure()...)
	return append(areas, s.infrastructure(), practice)
}

// exposures are the items of what should not be seen.
var exposures = []struct {
	of         checks.Exposure
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
	{checks.CommandLines, "command lines without secrets",
		"give it in the environment, such as VLLM_API_KEY and HF_TOKEN, or in a file: every user of the machine can list arguments", catalog.Ticket},
	{checks.OpenPages, "metrics behind a password",
		"an API key does not cover /metrics: let the scraper alone reach it, by a network policy or a proxy with a password", catalog.Info},
}

// exposure lists what is visible and should not be. Invisible things have no item.
func (s checklist) exposure() (items []Item) {
	for _, e := range exposures {
		if seen := s.Exposed[e.of]; len(seen) > 0 {
			detail := strings.Join(seen[:min(3, len(seen))], ", ")
			if more := len(seen) - 3; more > 0 {
				detail += fmt.Sprintf(" and %d more", more)
			}
			items = append(items, Item{Name: e.name, Severity: e.severity, Status: Missing, Detail: "exposed: " +
				detail, Hint: e.hint})
		}
	}
	return items
}

// measure looks for a quantity on the servers of some dialects.
func (s checklist) measure(m measured, engines []dialect.Dialect) Item {
	it := Item{Name: m.name, Severity: m.severity}
	if len(engines) == 0 {
		it.Detail = "no inference server was seen"
		return it
	}
	var without []string
	for _, d := range engines {
		names := indicator.Reads(d.Expr(m.signal))
		missing := d.Missing(m.signal)
		if len(missing) == 0 {
			for i, n := range names {
				names[i] = d.Metric(n)
			}
			if it.Detail == "" {
				it.Detail = strings.Join(names, ", ")
			}
			continue
		}
		without = append(without, missing...)
		it.Hint = hintFor(missing[0], d, cmp.Or(m.hint, dropped))
	}
	without = slices.Compact(slices.Sorted(slices.Values(without)))
	switch {
	case len(without) == 0:
		it.Status = Present
	case it.Detail != "":
		it.Status, it.Detail = Partial, "some servers do not expose "+strings.Join(without, ", ")
	case m.signal == indicator.HTTPRate && s.Exposes("http_request_duration_highr_seconds_count"):
		// the same instrumentation shows it
		it.Detail, it.Hint = "http_requests_total appears with the first request, and there was none", ""
	default:
		it.Status, it.Detail = Missing, "not exposed: "+strings.Join(without, ", ")
	}
	return it
}

// hintFor says how to get a metric that one dialect lacks.
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

// gateways are request counters of what may stand before the servers.
var gateways = []string{
	"sixty_gateway_requests_total", "nginx_ingress_controller_requests", "envoy_http_downstream_rq_total",
	"envoy_cluster_upstream_rq_total", "istio_requests_total",
	"traefik_service_requests_total", "haproxy_backend_http_responses_total", "kong_http_requests_total",
	"litellm_proxy_total_requests_metric_total",
	"inference_objective_request_total", "inference_model_request_total", "ray_serve_num_http_requests_total",
	"vllm:num_incoming_requests_total", "caddy_http_requests_total", "gateway_requests_total",
}

// Wanted lists names beside the engines' that the checklist looks for in a
// Prometheus server.
func Wanted() []string {
	return slices.Concat(gateways, hosts, []string{"container_memory_working_set_bytes", "http_requests_total",
		"ALERTS", "probe_success", "http_request_duration_highr_seconds_count"})
}

var hosts = []string{"node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "node_network_receive_bytes_total"}

// askPrometheus is the hint for what only a Prometheus server knows.
const askPrometheus = "audit the Prometheus server, with --prometheus"

// lookFor looks for an item that any series of some names stands for, whoever exposes it.
func (s checklist) lookFor(it Item, names ...string) Item {
	i := slices.IndexFunc(names, s.Exposes)
	switch {
	case i >= 0:
		it.Status, it.Detail, it.Hint = Present, names[i], ""
	case s.Whole:
		it.Status, it.Detail = Missing, "none of "+strings.Join(names[:min(3, len(names))], ", ")+" and the like"
	default:
		it.Detail, it.Hint = "cannot be seen on an inference server's own page", askPrometheus
	}
	return it
}

func (s checklist) gateway() Item {
	return s.lookFor(Item{
		Name: "gateway (timeouts, disconnects)", Severity: catalog.Ticket,
		Hint: "scrape the gateway; the server does not count requests that time out or are abandoned (vllm-project/vllm#31503)",
	}, gateways...)
}

// usualScrape is the interval above which an incident of a minute is seen in
// fewer than four samples.
const usualScrape = 15 * time.Second

// exporter is the hint for what a GPU exporter shows from the start.
const exporter = "run dcgm-exporter on the GPU hosts and scrape it (port 9400)"

// ofGPUs are items that a GPU exporter's metrics stand for.
var ofGPUs = []measured{
	{name: "GPU utilization", signal: indicator.GPUUtil, severity: catalog.Ticket, hint: exporter},
	{name: "GPU temperature and power", signal: indicator.GPUTemp, severity: catalog.Info, hint: exporter},
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

func (s checklist) infrastructure() Area {
	a := Area{ID: "infrastructure", Title: "Infrastructure"}
	i := slices.IndexFunc(s.Dialects, func(d dialect.Dialect) bool { return dialect.ShowsGPUs(d.Engine) })
	switch {
	case i >= 0:
		for _, m := range ofGPUs {
			if s.Dialects[i].Lacks[m.signal.Name] == "" { // else its user could not switch it on
				a.Items = append(a.Items, s.measure(m, s.Dialects[i:i+1]))
			}
		}
	case s.Whole:
		a.Items = append(a.Items, Item{"GPUs", Missing, catalog.Ticket, "no GPU exporter", exporter})
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
	a.Items = append(a.Items, host, memory, s.pace())
	return a
}

func (s checklist) pace() Item {
	it := Item{Name: "scrape interval", Severity: catalog.Info}
	switch {
	case !s.Whole:
		it.Detail, it.Hint = "known to the Prometheus server", askPrometheus
	case s.Interval > usualScrape:
		it.Status, it.Severity = Partial, catalog.Ticket
		it.Detail, it.Hint = fmt.Sprintf("every %s: an incident of a minute is hardly seen", render.Span(s.Interval)),
			"scrape the servers every 5 to 15 s"
	case s.Interval == 0:
		it.Detail = "too little history to tell"
	default:
		it.Status, it.Detail = Present, "every "+render.Span(s.Interval)
	}
	return it
}

// covering are the families whose alerts cover an area.
var covering = []struct {
	title    string
	severity catalog.Severity
	names    []string
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

// operations is what the rules at hand say of the practice.
func operations(docs []*files.Document, known bool) Area {
	a := Area{ID: "operations", Title: "Operations"}
	alerts, records := alertsIn(docs)
	if len(alerts) == 0 && !known {
		a.Items = append(a.Items, Item{Name: "alerts", Detail: "no rules were given",
			Hint: "give them with --rules, or audit the Prometheus server, with --prometheus"})
		return a
	}
	const generate = "sixty generate rules writes them from the catalogue"
	for _, c := range covering {
		it := Item{Name: "alert on " + c.title, Severity: c.severity, Status: Missing, Detail: "no alert reads it",
			Hint: generate}
		for _, q := range alerts {
			if readsAny(q, records, c.names, 0) {
				it.Status, it.Detail, it.Hint = Present, q.Name, ""
				break
			}
		}
		a.Items = append(a.Items, it)
	}
	burn := Item{Name: "SLO with burn-rate alerts", Severity: catalog.Info, Status: Missing,
		Detail: "no alert compares two windows", Hint: generate + ", with --slo"}
	linked := 0
	for _, q := range alerts {
		if isBurnRate(q.Expr) {
			burn.Status, burn.Detail, burn.Hint = Present, q.Name, ""
		}
		if q.Runbook != "" {
			linked++
		}
	}
	books := Item{"runbooks", Partial, catalog.Info, fmt.Sprintf("%d of %d alerts link one", linked, len(alerts)),
		"annotate each with runbook_url; sixty explain prints runbooks"}
	switch linked {
	case 0:
		books.Status = Missing
	case len(alerts):
		books.Status, books.Hint = Present, ""
	}
	a.Items = append(a.Items, burn, books)
	return a
}

// Traces counts the spans that a monitor received since it started.
func Traces(spans int64) Item {
	it := Item{Name: "request traces", Severity: catalog.Ticket, Status: Present,
		Detail: fmt.Sprintf("%d spans were received", spans)}
	if spans == 0 {
		it.Status, it.Detail = Missing, "traces are configured (--trace-buffer), and none arrive"
		it.Hint = "start vLLM with --otlp-traces-endpoint http://THIS-MONITOR/v1/traces and OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf: by default it speaks gRPC"
	}
	return it
}

// alertsIn returns the alerts about inference servers, and all recording rules.
func alertsIn(docs []*files.Document) (alerts []*files.Query, records map[string]*files.Query) {
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

// readsDepth bounds how far recording rules are followed.
const readsDepth = 4

// readsAny reports whether a query reads one of some families, perhaps through recording rules.
func readsAny(q *files.Query, records map[string]*files.Query, families []string, depth int) bool {
	for _, v := range checks.Selectors(q.Tree) {
		name := checks.NameOf(v)
		if r := records[name]; r != nil && depth < readsDepth {
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

// isBurnRate reports whether an alert looks at one quantity over two windows, as burn-rate alerts do: by ranges, or by
// recorded ratios whose names differ in their window alone.
func isBurnRate(expr string) bool {
	windows, two := map[string]string{}, false
	for _, m := range windowed.FindAllStringSubmatch(expr, -1) {
		two = two || windows[m[1]] != "" && windows[m[1]] != m[2]
		windows[m[1]] = m[2]
	}
	return two && conjunction.MatchString(expr)
}

var (
	// windowed matches a name with the window of its range, or at its own end.
	windowed    = regexp.MustCompile(`([a-zA-Z_:]+)(?:\{[^}]*\})?\[?([0-9]+[smhdw])\b`)
	conjunction = regexp.MustCompile(`\band\b`)
)
