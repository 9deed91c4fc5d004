package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/render"
)

// seen returns the surface of a dialect as if it had been read from servers, with further metrics.
func seen(t *testing.T, id string, beside ...string) *checks.Surface {
	t.Helper()
	s, err := checks.SurfaceOf(id)
	must.Succeed(t, err)
	s.Live = true
	for _, name := range beside {
		s.AddName(name, "")
	}
	return s
}

// rulesOf parses a file of rules.
func rulesOf(t *testing.T, name, text string) *files.Document {
	t.Helper()
	d, err := files.Read(name, []byte(text))
	must.Succeed(t, err)
	return d
}

func mustNamed(t *testing.T, id string) dialect.Dialect {
	t.Helper()
	d, err := dialect.Named(id)
	must.Succeed(t, err)
	return d
}

func detected(t *testing.T, names ...string) dialect.Dialect {
	t.Helper()
	d, ok := dialect.Detect(names)
	if !ok {
		t.Fatalf("no dialect of %q", names)
	}
	return d
}

func find(t *testing.T, areas []Area, area, item string) Item {
	t.Helper()
	for _, a := range areas {
		for _, it := range a.Items {
			if a.ID == area && it.Name == item {
				return it
			}
		}
	}
	t.Fatalf("no item %q in %s", item, area)
	return Item{}
}

func TestChecklistHasTheEightAreas(t *testing.T) {
	var got []string
	for _, a := range Checklist(seen(t, "vllm-v1"), nil, false) {
		got = append(got, a.ID+" "+a.Status().String())
	}
	want := []string{
		"user-experience present", "offered-load present", "scheduler-pressure present", "memory-pressure present",
		"useful-work present", "workload-shape present", "infrastructure unknown", "operations unknown",
	}
	must.Equal(t, want, got)
}

func TestChecklistSaysWhatIsMissingAndHowToGetIt(t *testing.T) {
	whole := func(s *checks.Surface) *checks.Surface { s.Whole = true; return s }
	slow := whole(seen(t, "vllm-v1", "nginx_ingress_controller_requests", "node_cpu_seconds_total"))
	slow.Interval = time.Minute
	gpu := seen(t, "vllm-v1")
	gpu.AddTarget(detected(t, "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP"), "", "")
	idle := checks.NewSurface("1 server")
	idle.Live = true
	idle.AddTarget(detected(t, "vllm:num_requests_running"), "", "")
	idle.AddName("http_request_duration_highr_seconds_count", "")
	mixed := seen(t, "vllm-v1")
	mixed.AddTarget(mustNamed(t, "vllm-0.6"), "", "old:8000")
	for _, tc := range []struct {
		name       string
		s          *checks.Surface
		area, item string
		status     Status
		hint       string // part of it
	}{
		{"V0 counts no HTTP requests", seen(t, "vllm-v0"), "offered-load", "HTTP requests by status", Missing, "0.8.3"},
		{"nobody asked this server for anything yet", idle, "offered-load", "HTTP requests by status", Unknown, ""},
		{"Ray keeps HTTP for itself", seen(t, "vllm-v1-ray"), "offered-load", "HTTP requests by status", Missing, "ray_serve_num_http_requests"},
		{"SGLang has no such limits", seen(t, "sglang"), "workload-shape", "requested limits", Missing, "gateway"},
		{"an old release waits for no reason", seen(t, "vllm-0.16"), "scheduler-pressure", "waiting requests by reason", Missing, "upgrade: it came with vLLM 0.20"},
		{"a page cannot show a gateway", seen(t, "vllm-v1"), "offered-load", "gateway (timeouts, disconnects)", Unknown, "--prometheus"},
		{"a store without a gateway", whole(seen(t, "vllm-v1")), "offered-load", "gateway (timeouts, disconnects)", Missing, "scrape the gateway"},
		{"a store with one", slow, "offered-load", "gateway (timeouts, disconnects)", Present, ""},
		{"slow scrapes", slow, "infrastructure", "scrape interval", Partial, "5 to 15 s"},
		{"no GPU exporter in the store", slow, "infrastructure", "GPUs", Missing, "dcgm-exporter"},
		{"no GPU exporter among the servers", seen(t, "vllm-v1"), "infrastructure", "GPUs", Unknown, "GPU-HOST:9400"},
		{"an exporter with few fields", gpu, "infrastructure", "GPU errors (XID)", Missing, "DCGM_FI_DEV_XID_ERRORS"},
		{"an exporter's utilization", gpu, "infrastructure", "GPU utilization", Present, ""},
		{"one of two servers is old", mixed, "offered-load", "HTTP requests by status", Partial, "upgrade"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			it := find(t, Checklist(tc.s, nil, false), tc.area, tc.item)
			if it.Status != tc.status || !strings.Contains(it.Hint, tc.hint) || tc.status == Present && it.Hint != "" || tc.status == Missing && it.Hint == "" {
				t.Errorf("got %+v, want %s with %q", it, tc.status, tc.hint)
			}
		})
	}
}

func TestChecklistReadsTheRules(t *testing.T) {
	rules := rulesOf(t, "r.yaml", `
groups:
- name: g
  rules:
  - record: model:ttft:errors_ratio_rate5m
    expr: 1 - sum by (model_name) (rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m])) / sum by (model_name) (rate(vllm:time_to_first_token_seconds_count[5m]))
  - record: model:ttft:errors_ratio_rate1h
    expr: 1 - sum by (model_name) (rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[1h])) / sum by (model_name) (rate(vllm:time_to_first_token_seconds_count[1h]))
  - alert: Burn
    expr: model:ttft:errors_ratio_rate5m > 0.1 and model:ttft:errors_ratio_rate1h > 0.1
    annotations: {runbook_url: "https://example.com"}
  - alert: Down
    expr: up == 0
    for: 5m
`)
	areas := Checklist(seen(t, "vllm-v1"), []*files.Document{rules}, false)
	for item, want := range map[string]Status{
		"alert on user experience": Present, "alert on errors": Missing, "alert on a server that is down": Present,
		"SLO with burn-rate alerts": Present, "runbooks": Partial,
	} {
		if got := find(t, areas, "operations", item).Status; got != want {
			t.Errorf("%s: got %s, want %s", item, got, want)
		}
	}
	if got := find(t, Checklist(seen(t, "vllm-v1"), nil, true), "operations", "runbooks").Status; got != Missing {
		t.Errorf("a server without rules: runbooks are %s", got)
	}
}

func TestIsBurnRate(t *testing.T) {
	for expr, want := range map[string]bool{
		"a:errors:ratio_rate5m > 0.1 and a:errors:ratio_rate1h > 0.1":          true,
		"a:burn:5m > 0.1 and a:burn:1h > 0.1":                                  true,
		"increase(x_total[5m]) > 1 and increase(x_total[1h]) > 1":              true,
		"increase(x_total[10m]) > 0 and rate(y_total[5m]) > 1":                 false,
		"vllm:num_requests_running > 0 and vllm:num_requests_waiting > 0":      false,
		"increase(x_total[5m]) > 1 unless increase(x_total[1h]) > 1":           false,
		"vllm:prompt_tokens_total > 1 and vllm:prompt_tokens_cached_total > 1": false,
	} {
		if got := isBurnRate(expr); got != want {
			t.Errorf("%s: burn rate: %v", expr, got)
		}
	}
}

func TestReportFitsTheTerminalAndKeepsItsSchema(t *testing.T) {
	file := rulesOf(t, "r.yaml", "groups:\n- name: g\n  rules:\n  - alert: \"A\\e[31m\"\n    expr: sum(vllm:gpu_cache_usage_perc{pod=~\"a-very-long-name-of-a-pod-that-goes-on-and-on-.*\"}) by (namespace, cluster, region, zone) > 90\n")
	docs, s := []*files.Document{file}, seen(t, "vllm-v1")
	r := &Report{Surface: s, Areas: Checklist(s, docs, false), Files: []string{file.Name}, Findings: checks.Lint(docs, s)}
	for _, width := range []int{60, 80, 120} {
		var out bytes.Buffer
		must.Succeed(t, r.Text(&out, render.Options{Width: width}, false))
		for line := range strings.Lines(out.String()) {
			if n := render.Cells(strings.TrimRight(line, "\n")); n > width && !strings.Contains(line, "http") && strings.Count(strings.TrimSpace(line), " ") > 2 {
				t.Errorf("%d columns in %d: %s", n, width, line)
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Error("a file's control characters reach the terminal")
		}
	}
	var out bytes.Buffer
	must.Succeed(t, r.JSON(&out))
	var got struct {
		Schema, Status string
		Areas          []struct{ ID, Status string }
		Findings       []struct {
			Check, Severity, File string
			Line                  int
			Fixable               bool
		}
	}
	must.Succeed(t, json.Unmarshal(out.Bytes(), &got))
	if got.Schema != "sixty.audit/v2" || got.Status != "found" || len(got.Areas) != 8 || len(got.Findings) < 2 {
		t.Errorf("%+v", got)
	}
	if f := got.Findings[1]; f.Line != 5 || f.Severity != "page" {
		t.Errorf("%+v", f)
	}
	if worst, ok := r.Worst(); !ok || worst != catalog.Page {
		t.Errorf("worst %s, %v", worst, ok)
	}
	r.Errors = []error{errors.New("x")}
	out.Reset()
	if err := r.JSON(&out); err != nil || !strings.Contains(out.String(), `"status": "unknown"`) {
		t.Error("a file that could not be read leaves the status known", err)
	}
}

func TestTracesThatDoNotArrive(t *testing.T) {
	if it := TracesItem(0); it.Status != Missing || !strings.Contains(it.Hint, "--otlp-traces-endpoint") {
		t.Errorf("no span: %+v", it)
	}
	if it := TracesItem(7); it.Status != Present {
		t.Errorf("seven spans: %+v", it)
	}
}
