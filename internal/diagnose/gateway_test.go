package diagnose_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
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
		"HAProxy before the servers":    {identity.GatewayJob, haproxy, false, "HAProxy"},
		"HAProxy before something else": {"haproxy", haproxy, false, ""},
		"HAProxy that the user named":   {"haproxy", haproxy, true, "HAProxy"},
		"Istio before the servers":      {identity.GatewayJob, istio, false, "Istio"},
	} {
		t.Run(name, func(t *testing.T) {
			store := embeddedtest.New(t)
			begin := time.Now().Add(-time.Minute)
			for i := range 12 {
				at := begin.Add(time.Duration(i) * 5 * time.Second)
				for _, x := range [][3]string{
					{"engine:1", "vllm", "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 0\n"},
					{"gateway:1", tt.job, fmt.Sprintf(tt.page, 50*(i+1))},
				} {
					embeddedtest.Append(t, store, embedded.Target{Instance: x[0], Job: x[1]}, at, x[2])
				}
			}
			at := begin.Add(57 * time.Second)
			// A monitor that has just begun does not know since when.
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: at, Interval: 5 * time.Second, Every: tt.every, Pathologies: pathologies.All()})
			must.Succeed(t, err)
			switch {
			case tt.want == "":
				if i := d.Gateway(); i >= 0 {
					t.Errorf("%s is taken for the gateway", d.Targets[i].Version)
				}
			case d.Gateway() < 0 || d.Targets[d.Gateway()].Version != tt.want || d.Verdict.ID != "gateway-errors":
				t.Errorf("gateway %d, verdict %s", d.Gateway(), d.Verdict.ID)
			}
		})
	}
}

// TestAGatewayLeavesDiscovery: one that nobody scrapes any more, while servers are scraped, is
// no target, and what was found there ends. One that is scraped in vain is lost.
func TestAGatewayLeavesDiscovery(t *testing.T) {
	store := embeddedtest.New(t)
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
			embeddedtest.Append(t, store, embedded.Target{Instance: instance}, at, page)
		}
		if i >= 20 {
			must.Succeed(t, store.AppendFailure(embedded.Target{Instance: "lost:1"}, at))
		}
	}
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: begin.Add(39 * interval), First: begin, Interval: interval, Pathologies: pathologies.All()})
	must.Succeed(t, err)
	got := map[string]identity.Life{}
	for _, t := range d.Targets {
		got[t.Name] = t.Life
	}
	if _, there := got["left:1"]; there || got["lost:1"] != identity.LifeLost || len(got) != 2 {
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
			store := embeddedtest.New(t)
			begin := time.Unix(1_800_000_000, 0)
			for i := range 12 {
				at := begin.Add(time.Duration(i) * 5 * time.Second)
				if _, err := store.Append(embedded.Target{Instance: "picker:9090"}, at, fmt.Appendf(nil, page, 20*i, tt.failed*i), "", 0); err != nil {
					t.Fatal(err)
				}
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: begin.Add(57 * time.Second), Interval: 5 * time.Second, Pathologies: pathologies.All()})
			must.Succeed(t, err)
			if d.Verdict.ID != tt.want || tt.failed == 0 && !strings.Contains(d.Verdict.Summary, "no server behind it is watched") {
				t.Errorf("%s: %s", d.Verdict.ID, d.Verdict.Summary)
			}
		})
	}
}

// TestTimeOutsideTheEngines compares what routers time with what the engines' own pages say, also
// where the router reads no engine, or only through a link that is slow.
func TestTimeOutsideTheEngines(t *testing.T) {
	const (
		engine = "vllm:num_requests_running{model_name=\"m\"} 20\nvllm:num_requests_waiting{model_name=\"m\"} 0\nvllm:request_success_total{model_name=\"m\"} %[1]d\n" +
			"vllm:time_to_first_token_seconds_count{model_name=\"m\"} %[1]d\nvllm:time_to_first_token_seconds_sum{model_name=\"m\"} %[2]f\n" +
			"vllm:e2e_request_latency_seconds_count{model_name=\"m\"} %[1]d\nvllm:e2e_request_latency_seconds_sum{model_name=\"m\"} %[2]f\n"
		own = "sixty_gateway_upstream_up{upstream=\"engine:1\"} 1\nsixty_gateway_requests_total{model=\"m\",route=\"/v1/completions\",status=\"success\"} %[1]d\n" +
			"sixty_gateway_client_blocked_seconds_total{route=\"/v1/completions\"} 0\n" +
			"sixty_gateway_request_duration_seconds_count{route=\"/v1/completions\"} %[1]d\nsixty_gateway_request_duration_seconds_sum{route=\"/v1/completions\"} %[2]f\n"
		litellm = "litellm_proxy_total_requests_metric_total{route=\"/v1/completions\",status_code=\"200\"} %[1]d\n" +
			"litellm_request_total_latency_metric_count %[1]d\nlitellm_request_total_latency_metric_sum %[2]f\n" +
			"python_info 1\nprocess_cpu_seconds_total %[3]f\n"
		dynamo = "dynamo_frontend_requests_started_total %[1]d\ndynamo_frontend_requests_total{status=\"success\"} %[1]d\n" +
			"dynamo_frontend_request_duration_seconds_count %[1]d\ndynamo_frontend_request_duration_seconds_sum %[2]f\n"
		router = "vllm_router_requests_total %[1]d\nvllm_router_generate_duration_seconds_count %[1]d\nvllm_router_generate_duration_seconds_sum %[2]f\n"
	)
	for name, tt := range map[string]struct {
		page       string
		rate       int     // requests a second at the gateway; the engine has 9
		mean       float64 // of their seconds there, in the engine 2
		finds      bool
		firstWords string // of the first fix
	}{
		"sixty gateway that cannot read the engine": {own, 9, 4.6, true, "Give the API server"},
		"LiteLLM has used up its core":              {litellm, 9, 55, true, "Run more processes"},
		"Dynamo's frontend":                         {dynamo, 9, 55, true, "Give the API server"},
		"vLLM's router":                             {router, 9, 55, true, "Give the API server"},
		"as long as in the engine":                  {litellm, 9, 2.1, false, ""},
		"most requests go elsewhere":                {litellm, 90, 55, false, ""},
		"most of the engine's come another way":     {litellm, 2, 55, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			store := embeddedtest.New(t)
			begin := time.Unix(1_800_000_000, 0)
			const every = 5
			for i := range 60 {
				at := begin.Add(time.Duration(i) * every * time.Second)
				n, all := 9*every*i, tt.rate*every*i
				for instance, page := range map[string]string{
					"engine:1": fmt.Sprintf(engine, n, 2*float64(n)),
					"router:1": fmt.Sprintf(tt.page, all, tt.mean*float64(all), 0.99*every*float64(i)),
				} {
					embeddedtest.Append(t, store, embedded.Target{Instance: instance, Job: instance[:6]}, at, page)
				}
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: begin.Add(59 * every * time.Second), First: begin, Interval: every * time.Second, Pathologies: pathologies.All()})
			must.Succeed(t, err)
			i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool {
				return f.Pathology.ID == "slow-outside-engine" && f.Status == diagnose.Firing
			})
			if (i >= 0) != tt.finds {
				t.Fatalf("found: %v, want %v; %s: %s", i >= 0, tt.finds, d.Verdict.ID, d.Verdict.Summary)
			}
			if tt.finds && (d.Verdict.ID != "slow-outside-engine" || !strings.HasPrefix(d.Findings[i].Fixes[0].Summary, tt.firstWords)) {
				t.Errorf("%s: %s; %q", d.Verdict.ID, d.Verdict.Summary, d.Findings[i].Fixes[0].Summary)
			}
		})
	}
}

// TestOtherGateways reads what the counters of other products mean: 90 of 100 requests succeed.
func TestOtherGateways(t *testing.T) {
	for want, tt := range map[string]struct {
		page                     string // %[1]d is a hundredth of the requests
		errors, gaveUp, timeouts float64
	}{
		"Envoy": {"envoy_cluster_upstream_rq_xx{envoy_response_code_class=\"2\"} %[2]d\nenvoy_cluster_upstream_rq_xx{envoy_response_code_class=\"5\"} %[3]d\n" +
			"envoy_cluster_upstream_rq_timeout %[1]d\n", 0.1, 0, 0.01},
		"Istio": {"istio_requests_total{response_code=\"200\",response_flags=\"-\",reporter=\"destination\"} %[2]d\n" +
			"istio_requests_total{response_code=\"200\",response_flags=\"-\",reporter=\"source\"} %[2]d\n" +
			"istio_requests_total{response_code=\"0\",response_flags=\"DC\",reporter=\"destination\"} %[3]d\n" +
			"istio_requests_total{response_code=\"504\",response_flags=\"UT\",reporter=\"destination\"} %[1]d\n", 1. / 91, 10. / 101, 0.01},
		"HAProxy": {"haproxy_backend_http_responses_total{code=\"2xx\"} %[2]d\nhaproxy_backend_http_responses_total{code=\"5xx\"} %[1]d\n" +
			"haproxy_backend_client_aborts_total %[3]d\n", 1. / 91, 10. / 101, 0},
		"ingress-nginx": {"nginx_ingress_controller_requests{status=\"200\"} %[2]d\nnginx_ingress_controller_requests{status=\"499\"} %[3]d\n" +
			"nginx_ingress_controller_requests{status=\"504\"} %[1]d\n", 1. / 91, 10. / 101, 0.01},
	} {
		store := embeddedtest.New(t)
		begin := time.Unix(1_800_000_000, 0)
		for i := range 60 {
			at := begin.Add(time.Duration(i) * 5 * time.Second)
			for instance, page := range map[string]string{
				"engine:1": "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 0\n", "gateway:1": fmt.Sprintf(tt.page, i, 90*i, 10*i),
			} {
				embeddedtest.Append(t, store, embedded.Target{Instance: instance, Job: strings.TrimSuffix(instance, ":1")}, at, page)
			}
		}
		d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: begin.Add(59 * 5 * time.Second), First: begin, Interval: 5 * time.Second, Pathologies: pathologies.All()})
		must.Succeed(t, err)
		g := d.Gateway()
		if g < 0 || d.Targets[g].Version != want {
			t.Fatalf("%s is taken for gateway %d", want, g)
		}
		read := func(s *indicator.Signal) float64 {
			if now, _ := d.Reading(g, s); now.OK {
				return now.V
			}
			for _, v := range d.Parts(g, s) {
				return v
			}
			return 0
		}
		for s, want := range map[*indicator.Signal]float64{indicator.GatewayErrors: tt.errors, indicator.GatewayGaveUp: tt.gaveUp} {
			if got := read(s); math.Abs(got-want) > 0.005 {
				t.Errorf("%s: %s is %.3f, want %.3f", d.Targets[g].Version, s.Name, got, want)
			}
		}
		if got := read(indicator.GatewayTimeouts) > 0; got != (tt.timeouts > 0) {
			t.Errorf("%s: timeouts %v", d.Targets[g].Version, got)
		}
	}
}

// TestSinceAtGateways: what is found at a gateway began when it did, also where the engines' own pages tell it, and not
// with a moment of the same a while before; and what it says was normal lies before the fault.
func TestSinceAtGateways(t *testing.T) {
	const (
		sick   = 3 * time.Minute
		engine = "vllm:num_requests_running{model_name=\"m\"} %[3]d\nvllm:num_requests_waiting{model_name=\"m\"} 0\nvllm:request_success_total{model_name=\"m\"} %[1]d\n" +
			"vllm:generation_tokens_total{model_name=\"m\"} %[1]d00\n" +
			"vllm:time_to_first_token_seconds_count{model_name=\"m\"} %[1]d\nvllm:time_to_first_token_seconds_sum{model_name=\"m\"} %[2]f\n" +
			"vllm:e2e_request_latency_seconds_count{model_name=\"m\"} %[1]d\nvllm:e2e_request_latency_seconds_sum{model_name=\"m\"} %[2]f\n"
		timed  = "sixty_gateway_request_duration_seconds_count{route=\"/v1/completions\"} %[1]d\nsixty_gateway_request_duration_seconds_sum{route=\"/v1/completions\"} %[2]f\n"
		router = "vllm_router_requests_total %[1]d\nvllm_router_generate_duration_seconds_count %[1]d\nvllm_router_generate_duration_seconds_sum %[2]f\n"
		reads  = "sixty_gateway_upstream_engine_ended_total{upstream=\"engine:1\"} %[1]d\nsixty_gateway_upstream_engine_ended_seconds_total{upstream=\"engine:1\"} %[1]d\n"
		ends   = "sixty_gateway_client_blocked_seconds_total{route=\"/v1/completions\"} 0\n" +
			"sixty_gateway_requests_open{state=\"waiting\"} %[3]d\n" +
			"sixty_gateway_requests_total{model=\"m\",route=\"/v1/completions\",status=\"success\"} %[1]d\n" +
			"sixty_gateway_requests_total{model=\"m\",route=\"/v1/completions\",status=\"upstream_error\"} %[4]d\n"
	)
	for name, tt := range map[string]struct {
		page    string
		wait    float64 // outside of the engine in the fault, in seconds
		fails   int     // of nine requests a second
		stops   bool    // nobody is answered
		always  bool
		healthy time.Duration // before the fault; 40 minutes where it is 0
		want    string
	}{
		"a router, by the engine's page": {page: router, wait: 4, want: "slow-outside-engine"},
		"a gateway, by its own":          {page: ends + timed + reads, wait: 4, want: "slow-outside-engine"},
		"as long as it was watched":      {page: router, wait: 4, always: true, want: "slow-outside-engine"},
		"watched for minutes":            {page: ends + timed + reads, wait: 4, healthy: 2 * time.Minute, want: "slow-outside-engine"},
		"errors":                         {page: ends, fails: 3, want: "gateway-errors"},
		"a hang, by the engine's page":   {page: ends, stops: true, want: "hang-outside-engine"},
	} {
		for _, interval := range []time.Duration{5 * time.Second, 15 * time.Second} {
			t.Run(fmt.Sprint(name, ", every ", interval), func(t *testing.T) {
				store := embeddedtest.New(t)
				begin := time.Unix(1_800_000_000, 0)
				onset := begin.Add(cmp.Or(tt.healthy, 40*time.Minute))
				end := onset.Add(sick)
				if tt.always {
					onset = begin
				}
				n, failed, open, whole, inside := 0, 0, 1, 0.0, 0.0
				for at := begin; !at.After(end); at = at.Add(interval) {
					since := at.Sub(onset)
					each := 9 * int(interval.Seconds())
					served, outside := each, 0.05
					switch {
					case since > 0:
						outside += tt.wait
						if tt.stops {
							served, open = 0, open+each
						}
						failed += tt.fails * int(interval.Seconds())
					case since > -5*time.Minute && since <= interval-5*time.Minute && tt.fails > 0:
						failed += each
					}
					n += served
					inside += float64(served)
					whole += float64(served) * (1 + outside)
					embeddedtest.Append(t, store, embedded.Target{Instance: "engine:1", Job: "engine"}, at, fmt.Sprintf(engine, n, inside, min(served, 1)))
					embeddedtest.Append(t, store, embedded.Target{Instance: "router:1", Job: "router"}, at, fmt.Sprintf(tt.page, n, whole, open, failed))
				}
				d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: end, First: begin, Interval: interval, Pathologies: pathologies.All()})
				must.Succeed(t, err)
				f := d.LeadingFinding(&d.Verdict)
				if f == nil || f.Pathology.ID != tt.want || f.Status != diagnose.Firing {
					t.Fatalf("%s: %s, want %s", d.Verdict.ID, d.Verdict.Summary, tt.want)
				}
				if off := f.Since.Sub(onset); off.Abs() > interval || f.SinceAtLeast != tt.always || d.Verdict.Since != f.Since {
					t.Errorf("since %s after the onset (at least: %t), the verdict %s", off, f.SinceAtLeast, d.Verdict.Since.Sub(onset))
				}
				if n := strings.Count(d.Verdict.Summary, "normally"); n != strings.Count(d.Verdict.Summary, "normally 1.05 s") { // before the fault
					t.Errorf("%s", d.Verdict.Summary)
				}
			})
		}
	}
}
