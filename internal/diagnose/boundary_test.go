package diagnose

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// bounds are those of sixty gateway's durations.
var bounds = []float64{.01, .02, .05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 60}

func observed(values []float64) histogram {
	h := histogram{bounds: bounds, upTo: make([]float64, len(bounds)), count: float64(len(values))}
	for _, v := range values {
		h.sum += v
		for i, b := range bounds {
			if v <= b {
				h.upTo[i]++
			}
		}
	}
	return h
}

// TestCorrectedFindsTheWaitThatNobodySaw has clients with a patience, so that long
// waits are given up: what ended looks quick, and the corrected quantile finds the
// distribution that the waits come from.
func TestCorrectedFindsTheWaitThatNobodySaw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var ended, cut, truth []float64
	for range 20000 {
		wait, patience := rng.ExpFloat64()*2, rng.ExpFloat64()*3
		truth = append(truth, wait)
		if wait <= patience {
			ended = append(ended, wait)
		} else {
			cut = append(cut, patience)
		}
	}
	slices.Sort(truth)
	for _, q := range []float64{0.5, 0.9, 0.95} {
		want := truth[int(q*float64(len(truth)))]
		got := corrected(q, observed(ended), observed(cut))
		if got.AtLeast || math.Abs(got.V/want-1) > 0.08 || got.V < got.Bucket.Low || got.V > got.Bucket.High {
			t.Errorf("quantile %v: %+v, the truth is %.3f", q, got, want)
		}
		if plain := corrected(q, observed(ended), histogram{}); plain.V >= got.V {
			t.Errorf("quantile %v: %.3f corrected, and %.3f without", q, got.V, plain.V)
		}
		alone := observed(ended)
		if naive := alone.reading(q); naive.V > 0.8*want {
			t.Errorf("quantile %v of what ended is %.3f: the case shows nothing", q, naive.V)
		}
	}
}

func TestCorrectedSaysWhereItDoesNotKnow(t *testing.T) {
	if got := corrected(0.95, observed([]float64{0.1, 0.1, 0.1}), observed([]float64{5, 5, 5})); !got.AtLeast || got.V < 3 {
		t.Errorf("%+v", got)
	}
	if got := corrected(0.5, observed([]float64{0.15, 0.15, 0.15}), histogram{}); got.AtLeast || got.V < 0.1 || got.V > 0.2 {
		t.Errorf("%+v", got)
	}
	if got := corrected(0.5, histogram{}, observed([]float64{1})); !got.AtLeast || got.OK {
		t.Errorf("%+v", got)
	}
}

const chat = "/v1/chat/completions"

// add adds a series to a page.
func (cs *counters) add(name string, v float64, labels ...string) {
	c := counter{name: name, labels: model.Metric{}, gain: v, total: v}
	for i := 0; i < len(labels); i += 2 {
		c.labels[model.LabelName(labels[i])] = model.LabelValue(labels[i+1])
	}
	*cs = append(*cs, c)
}

func (cs *counters) hist(name string, h histogram) {
	for i, b := range h.bounds {
		cs.add(name+"_bucket", h.upTo[i], "le", strconv.FormatFloat(b, 'g', -1, 64), "route", chat)
	}
	cs.add(name+"_sum", h.sum, "route", chat)
	cs.add(name+"_count", h.count, "route", chat)
}

func gatewayPage(ended map[string]float64, first, noFirst []float64, tokens, open, missing float64) counters {
	var p counters
	total := 0.0
	for status, n := range ended {
		p.add("sixty_gateway_requests_total", n, "status", status, "route", chat)
		total += n
	}
	p.add("sixty_gateway_requests_total", 1000, "status", "success", "route", "/health")
	p.add("sixty_gateway_requests_offered_total", total+open, "route", chat)
	p.add("sixty_gateway_output_tokens_total", tokens, "route", chat)
	p.add("sixty_gateway_requests_open", open, "state", "waiting")
	p.add("sixty_gateway_upstream_up", 1, "upstream", "a:8000")
	p.add("sixty_gateway_upstream_attempts_total", total, "upstream", "a:8000")
	p.add("sixty_gateway_upstream_engine_requests", open-missing, "upstream", "a:8000")
	p.add("sixty_gateway_upstream_engine_missing", missing, "upstream", "a:8000")
	p.hist("sixty_gateway_time_to_first_token_seconds", observed(first))
	p.hist("sixty_gateway_no_first_token_seconds", observed(noFirst))
	p.hist("sixty_gateway_request_duration_seconds", observed(first))
	p.hist("sixty_gateway_cut_request_duration_seconds", observed(noFirst))
	p.hist("sixty_gateway_queue_seconds", observed(times(len(first), .005)))
	p.hist("sixty_gateway_connect_seconds", observed(times(len(first), .01)))
	return p
}

func times(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }

// engines are the page of engines whose requests took so long.
func engines(took []float64) (p counters) {
	p.hist(familyNames[firstTokens], observed(took))
	p.hist(durations, observed(took))
	return p
}

func TestWhereTheDifferenceArises(t *testing.T) {
	v := newBoundary(gatewayPage(map[string]float64{"success": 100, "client_disconnect": 20}, times(100, .2), times(20, 3), 1000, 0, 0), engines(times(100, .12)), 15*time.Second)
	total := 0.0
	for _, p := range v.Waits {
		total += p.Seconds
	}
	if math.Abs(total-.2) > 1e-9 {
		t.Errorf("the parts %v add up to %v", v.Waits, total)
	}
}

func TestOtherGateways(t *testing.T) {
	for name, tt := range map[string]struct {
		page counters
		kind string
		want map[string]float64
	}{
		"Envoy": {func() (p counters) {
			p.add("envoy_cluster_upstream_rq_xx", 90, "envoy_response_code_class", "2")
			p.add("envoy_cluster_upstream_rq_xx", 10, "envoy_response_code_class", "5")
			p.add("envoy_cluster_upstream_rq_timeout", 4)
			p.add("envoy_cluster_upstream_rq_retry", 3)
			return p
		}(), "Envoy", map[string]float64{"success": 90, "upstream_error": 6, "timeout": 4}},
		"Istio": {func() (p counters) {
			p.add("istio_requests_total", 90, "response_code", "200", "response_flags", "-", "reporter", "destination")
			p.add("istio_requests_total", 90, "response_code", "200", "response_flags", "-", "reporter", "source")
			p.add("istio_requests_total", 5, "response_code", "0", "response_flags", "DC", "reporter", "destination")
			p.add("istio_requests_total", 2, "response_code", "504", "response_flags", "UT", "reporter", "destination")
			return p
		}(), "Istio", map[string]float64{"success": 90, "client_disconnect": 5, "timeout": 2}},
		"HAProxy": {func() (p counters) {
			p.add("haproxy_backend_http_responses_total", 90, "code", "2xx")
			p.add("haproxy_backend_http_responses_total", 9, "code", "5xx")
			p.add("haproxy_backend_client_aborts_total", 3)
			return p
		}(), "HAProxy", map[string]float64{"success": 90, "upstream_error": 9, "client_disconnect": 3}},
		"ingress-nginx": {func() (p counters) {
			p.add("nginx_ingress_controller_requests", 90, "status", "200")
			p.add("nginx_ingress_controller_requests", 7, "status", "499")
			p.add("nginx_ingress_controller_requests", 2, "status", "504")
			return p
		}(), "ingress-nginx", map[string]float64{"success": 90, "client_disconnect": 7, "timeout": 2}},
	} {
		b := newBoundary(tt.page, nil, time.Minute)
		if b == nil || b.Gateway != tt.kind {
			t.Fatalf("%s is taken for %+v", name, b)
		}
		for status, n := range tt.want {
			if b.Ended[status] != n {
				t.Errorf("%s: %s is %v, want %v", name, status, b.Ended[status], n)
			}
		}
	}
	var p counters
	if p.add("vllm:num_requests_running", 1); newBoundary(p, nil, time.Minute) != nil {
		t.Error("a server's page is taken for a gateway's")
	}
}

func TestLinesAreWords(t *testing.T) {
	v := newBoundary(gatewayPage(map[string]float64{"success": 70, "client_disconnect": 30}, times(70, .2), times(30, 3), 1000, 2, 0), engines(times(70, .12)), 15*time.Second)
	text := strings.Join(v.Lines(), "\n")
	for _, want := range []string{"102 requests arrived in 15 s and 100 ended, 70 of them successfully", "cancelled by clients 30 %", "corrected for the 30 cancelled", "in the engine: mean"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") {
		t.Errorf("no number:\n%s", text)
	}
}

// TestBucketsOfTwoReleases adds up those that both have.
func TestBucketsOfTwoReleases(t *testing.T) {
	both, other := engines(times(10, .12)), histogram{bounds: []float64{.1, .15, 1}, upTo: []float64{0, 10, 10}, count: 10, sum: 1.2}
	both.hist(familyNames[firstTokens], other)
	first := both.histogram(familyNames[firstTokens])
	if first.count != 20 || !slices.Equal(first.bounds, []float64{.1, 1}) || !slices.Equal(first.upTo, []float64{0, 20}) {
		t.Errorf("%+v", first)
	}
}
