package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAGatewayBesideTheServers diagnoses a server with a gateway before it, live and from a
// recording: of sixty gateway, and of another product.
func TestAGatewayBesideTheServers(t *testing.T) {
	page := func(form string) *httptest.Server {
		var scrapes atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				fmt.Fprint(w, strings.ReplaceAll(form, "N", fmt.Sprint(50*scrapes.Add(1))))
			}
		}))
		t.Cleanup(s.Close)
		return s
	}
	engine := page("vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 0\n" +
		"vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} N\nvllm:time_to_first_token_seconds_count{model_name=\"m\"} N\nvllm:time_to_first_token_seconds_sum{model_name=\"m\"} N\n")
	own := page("sixty_gateway_requests_offered_total{model=\"m\",route=\"/v1/completions\"} N\nsixty_gateway_requests_open{state=\"waiting\"} 1\n" +
		"sixty_gateway_requests_total{model=\"m\",route=\"/v1/completions\",status=\"success\"} N\nsixty_gateway_requests_total{model=\"m\",route=\"/v1/completions\",status=\"upstream_error\"} N\n")
	other := page("haproxy_backend_http_responses_total{code=\"2xx\",proxy=\"b\"} N\nhaproxy_backend_http_responses_total{code=\"5xx\",proxy=\"b\"} N\n")
	for name, gateway := range map[string]*httptest.Server{"sixty gateway": own, "HAProxy": other} {
		path := filepath.Join(t.TempDir(), "r.tar.zst")
		if _, stderr, err := sixty(t, "record", engine.URL, "--gateway", gateway.URL, "--out", path, "--interval", "200ms", "--duration", "2s", "--no-host-metrics"); err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		for what, args := range map[string][]string{
			"live":           {engine.URL, "--gateway", gateway.URL, "--duration", "3s", "--interval", "300ms", "--no-host-metrics"},
			"of a recording": {path},
		} {
			stdout, stderr, err := sixty(t, append([]string{"diagnose", "--full"}, args...)...)
			if err == nil || !strings.Contains(stdout, "http-errors") || !strings.Contains(stdout, "AT THE GATEWAY") || !strings.Contains(stdout, "50 %") {
				t.Errorf("%s, %s: %v\n%s%s", name, what, err, stdout, stderr)
			}
		}
	}
	if _, _, err := sixty(t, "diagnose", own.URL, "--duration", "2s", "--no-host-metrics"); err == nil || !strings.Contains(err.Error(), "gateway") {
		t.Errorf("a gateway alone: %v", err)
	}
	stdout, _, err := sixty(t, "diagnose", engine.URL, "--gateway", "127.0.0.1:1", "--duration", "2s", "--full", "--no-host-metrics")
	if !strings.Contains(stdout, "the gateway 127.0.0.1:1 cannot be read") {
		t.Errorf("a gateway that does not answer: %v\n%s", err, stdout)
	}
	for _, id := range []string{"hang-outside-engine", "retry-storm", "one-engine-answers"} {
		if stdout, _, err := sixty(t, "explain", id); err != nil || !strings.Contains(stdout, "1. ") {
			t.Errorf("explain %s: %v\n%s", id, err, stdout)
		}
	}
}
