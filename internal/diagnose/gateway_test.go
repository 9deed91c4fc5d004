package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestGatewaysOfAPrometheusServer finds sixty gateway by its metrics, and another product's
// by the name of its job alone: a deployment has many that stand before other things.
func TestGatewaysOfAPrometheusServer(t *testing.T) {
	const (
		own     = "process_cpu_seconds_total 1\nsixty_gateway_requests_total{route=\"/v1/completions\",status=\"success\"} %[1]d\nsixty_gateway_requests_total{route=\"/v1/completions\",status=\"upstream_error\"} %[1]d\n"
		haproxy = "haproxy_backend_http_responses_total{code=\"2xx\"} %[1]d\nhaproxy_backend_http_responses_total{code=\"5xx\"} %[1]d\n"
		istio   = "istio_requests_total{reporter=\"destination\",response_code=\"200\",response_flags=\"-\"} %[1]d\nistio_requests_total{reporter=\"destination\",response_code=\"504\",response_flags=\"UT\"} %[1]d\n"
	)
	for name, tt := range map[string]struct {
		job, page string
		every     bool
		want      string
	}{
		"sixty gateway":                 {"edge", own, false, "sixty gateway"},
		"HAProxy before the servers":    {diagnose.GatewayJob, haproxy, false, "HAProxy"},
		"HAProxy before something else": {"haproxy", haproxy, false, ""},
		"HAProxy that the user named":   {"haproxy", haproxy, true, "HAProxy"},
		"Istio before the servers":      {diagnose.GatewayJob, istio, false, "Istio"},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := embedded.Open(embedded.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			begin := time.Now().Add(-time.Minute)
			for i := range 12 {
				at := begin.Add(time.Duration(i) * 5 * time.Second)
				for _, x := range [][3]string{
					{"engine:1", "vllm", "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 0\n"},
					{"gateway:1", tt.job, fmt.Sprintf(tt.page, 50*(i+1))},
				} {
					if _, err := store.Append(embedded.Target{Instance: x[0], Job: x[1]}, at, []byte(x[2]), "", 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			at := begin.Add(57 * time.Second)
			// A monitor that has just begun does not know since when.
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: at, Interval: 5 * time.Second, Every: tt.every, Pathologies: pathologies.All()})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.want == "":
				if d.Boundary != nil {
					t.Errorf("%s is taken for the gateway", d.Boundary.Gateway)
				}
			case d.Boundary == nil || d.Boundary.Gateway != tt.want || d.Verdict.ID != "gateway-errors":
				t.Errorf("%+v, verdict %s", d.Boundary, d.Verdict.ID)
			}
		})
	}
}

// TestAGatewayLeavesDiscovery: one that nobody scrapes any more, while servers are scraped, is
// no target, and what was found there ends. One that is scraped in vain is lost.
func TestAGatewayLeavesDiscovery(t *testing.T) {
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const interval = 5 * time.Second
	begin := time.Unix(1_800_000_000, 0)
	for i := range 40 {
		at := begin.Add(time.Duration(i) * interval)
		pages := map[string]string{"engine:1": "vllm:num_requests_running{model_name=\"m\"} 1\n"}
		if i < 20 {
			own := fmt.Sprintf("sixty_gateway_requests_total{route=\"/v1/completions\",status=\"upstream_error\"} %d\n", 50*i)
			pages["left:1"], pages["lost:1"] = own, own
		}
		for instance, page := range pages {
			if _, err := store.Append(embedded.Target{Instance: instance}, at, []byte(page), "", 0); err != nil {
				t.Fatal(err)
			}
		}
		if i >= 20 {
			if err := store.AppendFailure(embedded.Target{Instance: "lost:1"}, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: begin.Add(39 * interval), First: begin, Interval: interval, Pathologies: pathologies.All()})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]diagnose.Life{}
	for _, t := range d.Targets {
		got[t.Name] = t.Life
	}
	if _, there := got["left:1"]; there || got["lost:1"] != diagnose.LifeLost || len(got) != 2 {
		t.Errorf("the targets are %v", got)
	}
	if !slices.ContainsFunc(d.Notes, func(n string) bool { return strings.Contains(n, "no longer scraped, last left:1") }) {
		t.Errorf("the notes are %q", d.Notes)
	}
}

// TestARouterAlone is judged by what only it sees, and is not called healthy.
func TestARouterAlone(t *testing.T) {
	const page = "llm_d_epp_info{commit=\"x\"} 1\nllm_d_epp_request_total %[1]d\nllm_d_epp_request_duration_seconds_count %[1]d\n" +
		"llm_d_epp_datalayer_poll_errors_total %[2]d\n"
	for name, tt := range map[string]struct {
		failed int // looks in 5 s
		want   string
	}{"well": {0, diagnose.InsufficientData}, "blind": {100, "misrouting"}} {
		t.Run(name, func(t *testing.T) {
			store, err := embedded.Open(embedded.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			begin := time.Unix(1_800_000_000, 0)
			for i := range 12 {
				at := begin.Add(time.Duration(i) * 5 * time.Second)
				if _, err := store.Append(embedded.Target{Instance: "picker:9090"}, at, fmt.Appendf(nil, page, 20*i, tt.failed*i), "", 0); err != nil {
					t.Fatal(err)
				}
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: begin.Add(57 * time.Second), Interval: 5 * time.Second, Pathologies: pathologies.All()})
			if err != nil {
				t.Fatal(err)
			}
			if d.Verdict.ID != tt.want || tt.failed == 0 && !strings.Contains(d.Verdict.Summary, "no server behind it is watched") {
				t.Errorf("%s: %s", d.Verdict.ID, d.Verdict.Summary)
			}
		})
	}
}
