package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// engine is the page of a server that has made some tokens since it was born.
func engine(born float64, tokens int) string {
	return fmt.Sprintf(`vllm:num_requests_running{model_name="m",engine="0"} 1
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} %d
vllm:generation_tokens_created{model_name="m",engine="0"} %f
vllm:prompt_tokens_total{model_name="m",engine="0"} %d
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} %f
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} %d
`, tokens, born, 3*tokens, 0.013*float64(tokens), tokens/10)
}

type scraped struct {
	target embedded.Target
	page   func(second int) string // "": the scrape failed
	phase  time.Duration
}

// discoverTargets scrapes for three minutes, every five seconds, and looks for targets.
func discoverTargets(t *testing.T, every bool, all ...scraped) ([]identity.Target, identity.Layout, error) {
	t.Helper()
	return identity.Discover(t.Context(), scrape(t, all...), identity.Search{At: noon, Lookback: time.Minute, Every: every})
}

// scrape is a storage with three minutes of scrapes, every five seconds.
func scrape(t *testing.T, all ...scraped) *embedded.Store {
	t.Helper()
	store, err := embedded.Open(embedded.Config{})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = store.Close() })
	for second := -120; second <= 60; second += 5 {
		for _, s := range all {
			at := noon.Add(time.Duration(second-60)*time.Second - time.Second + s.phase)
			if page := s.page(second); page == "" {
				err = store.AppendFailure(s.target, at)
			} else {
				_, err = store.Append(s.target, at, []byte(page), "", 0)
			}
			must.Succeed(t, err)
		}
	}
	return store
}

// TestRolesAreReadFromLabels of series as relabelling and a stack's servers give them.
func TestRolesAreReadFromLabels(t *testing.T) {
	page := func(born float64) func(int) string {
		return func(second int) string { return engine(born, 1000+70*(second+120)) }
	}
	server := func(instance, label, value string) scraped {
		return scraped{embedded.Target{Instance: instance, Job: "vllm", Labels: map[string]string{label: value}}, page(1777636000 + float64(len(value))), 0}
	}
	for name, all := range map[string][]scraped{
		"the pod's, relabelled":    {server("a", "label_llm_d_ai_role", "prefill"), server("b", "label_llm_d_ai_role", "decode")},
		"the monitor's":            {server("a", "role", "prefill"), server("b", "role", "decode")},
		"Dynamo's component":       {server("a", "dynamo_component", "prefill"), server("b", "dynamo_component", "decode")},
		"a labelmap's of AIBrix":   {server("a", "role_name", "prefill"), server("b", "role_name", "decode")},
		"KServe's":                 {server("a", "app_kubernetes_io_component", "llminferenceservice-workload-prefill"), server("b", "llm_d_ai_role", "decode")},
		"two that serve both ways": {server("a", "llm_d_ai_role", "both"), server("b", "engine_type", "unified")},
	} {
		d, err := diagnose.Run(t.Context(), scrape(t, all...), diagnose.Options{At: noon, First: noon.Add(-3 * time.Minute), Interval: 5 * time.Second})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, w := range d.Deployments {
			for _, st := range w.Stages {
				got = append(got, fmt.Sprint(st.Role, st.Targets))
			}
		}
		want := []string{"prefill[a]", "decode[b]"}
		if name == "two that serve both ways" {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestServersSeenTwiceAreOne(t *testing.T) {
	at := func(instance, job string, more ...string) embedded.Target {
		l := map[string]string{}
		for i := 0; i+1 < len(more); i += 2 {
			l[more[i]] = more[i+1]
		}
		return embedded.Target{Instance: instance, Job: job, Labels: l}
	}
	grows := func(born float64, from, by int) func(int) string {
		return func(second int) string { return engine(born, from+by*(second+120)) }
	}
	const born, later = 1777636000.123456, 1777636003.654321
	late := 2 * time.Second
	lagging := func(second int) string { return engine(born, 1000+70*(second+122)) } // two seconds on
	tests := map[string]struct {
		scraped []scraped
		want    []string
	}{
		"two replicas": {[]scraped{{at("a", "vllm"), grows(born, 1000, 70), 0}, {at("b", "vllm"), grows(later, 900, 66), 0}}, []string{"a", "b"}},
		"two jobs":     {[]scraped{{at("a", "pods"), grows(born, 1000, 70), 0}, {at("a", "services"), lagging, late}}, []string{"a"}},
		"a pod and behind its service": {
			[]scraped{{at("10.0.0.1:8000", "pods"), grows(born, 1000, 70), 0}, {at("vllm.svc:8000", "services"), lagging, late}}, []string{"10.0.0.1:8000"},
		},
		"a pair of Prometheus servers": {
			[]scraped{{at("a", "vllm", "prometheus_replica", "0"), grows(born, 1000, 70), 0}, {at("a", "vllm", "prometheus_replica", "1"), lagging, late}}, []string{"a"},
		},
		"a pair that shows two replicas": {
			[]scraped{
				{at("a", "vllm", "__replica__", "0"), grows(born, 1000, 70), 0},
				{at("a", "vllm", "__replica__", "1"), lagging, late},
				{at("b", "vllm", "__replica__", "0"), grows(later, 500, 20), 0},
				{at("b", "vllm", "__replica__", "1"), grows(later, 520, 20), time.Second},
			}, []string{"a", "b"},
		},
		"replicas behind one address": {
			[]scraped{{at("vllm.svc", "vllm", "pod", "x"), grows(born, 1000, 70), 0}, {at("vllm.svc", "vllm", "pod", "y"), grows(later, 900, 66), 0}}, []string{"vllm.svc", "vllm.svc"},
		},
		"replicas that began at the same moment": {[]scraped{{at("a", "vllm"), grows(born, 1000, 70), 0}, {at("b", "vllm"), grows(born, 400, 61), 0}}, []string{"a", "b"}},
		"a pair of which the first lags": {
			[]scraped{
				{at("a", "vllm", "replica", "0"), grows(born, 20000-90*70, 70), 0},
				{at("a", "vllm", "replica", "1"), grows(born, 20000, 70), late},
				{at("b", "vllm", "replica", "0"), grows(later, 700, 0), 0},
				{at("b", "vllm", "replica", "1"), grows(later, 700, 0), late},
			}, []string{"a", "b"},
		},
		"a pair of an idle server": {[]scraped{{at("a", "vllm", "replica", "0"), grows(born, 0, 0), 0}, {at("a", "vllm", "replica", "1"), grows(born, 0, 0), late}}, []string{"a"}},
		"a pair that shows no birth, of which one lags": {
			[]scraped{{at("a", "vllm", "replica", "0"), grows(1777636000, 20000-60*70, 70), 0}, {at("a", "vllm", "replica", "1"), grows(1777636000, 20000, 70), late}}, []string{"a"},
		},
		"replicas that never worked":      {[]scraped{{at("a", "vllm"), grows(born, 0, 0), 0}, {at("b", "vllm"), grows(born, 0, 0), 0}}, []string{"a", "b"}},
		"replicas whose birth is rounded": {[]scraped{{at("a", "vllm"), grows(1777636000, 1000, 70), 0}, {at("b", "vllm"), grows(1777636000, 1000, 70), 0}}, []string{"a", "b"}},
	}
	for name, tt := range tests {
		targets, layout, err := discoverTargets(t, false, tt.scraped...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, target := range targets {
			got = append(got, target.Labels["instance"])
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v (by %v, without %v)", name, got, tt.want, layout.Instance, layout.Without)
		}
		for i, target := range targets {
			if one := len(tt.scraped) > len(tt.want); one && (len(target.Notes) == 0 || !strings.Contains(target.Notes[0], "also seen as ")) {
				t.Errorf("%s: %s does not say where else it is seen: %q", name, target.Name, target.Notes)
			}
			for _, other := range targets[:i] {
				if other.Name == target.Name && tt.want[0] != "vllm.svc" {
					t.Errorf("%s: two targets are called %s", name, target.Name)
				}
			}
		}
		if strings.Contains(name, "lags") && (!strings.Contains(targets[0].Notes[0], "behind") || !layout.Without[0].Matches("1")) {
			t.Errorf("%s: the copy that lags is judged: %q", name, targets[0].Notes)
		}
		// What is seen for the second time is left out of the sums over a fleet, too.
		if len(tt.scraped) > len(tt.want) && len(layout.Without) == 0 {
			t.Errorf("%s: nothing keeps the second view out of the queries", name)
		}
	}
}

func TestServersWithoutEngineMetricsAreNotPassedOver(t *testing.T) {
	vllm := func(born float64) func(int) string {
		return func(int) string { return engine(born, 900) }
	}
	mute := func(int) string {
		return "python_info 1\nhttp_requests_total{handler=\"/v1/chat/completions\",status=\"2xx\"} 5\n"
	}
	shop := func(int) string { return "python_info 1\nhttp_requests_total{handler=\"/cart\",status=\"2xx\"} 5\n" }
	dead := func(int) string { return "" }
	in := func(instance, job string) embedded.Target { return embedded.Target{Instance: instance, Job: job} }
	targets, _, err := discoverTargets(t, false,
		scraped{in("a", "vllm"), vllm(1777636000.5), 0}, scraped{in("b", "vllm"), dead, 0},
		scraped{in("c", "pods"), vllm(1777636001.5), 0}, scraped{in("d", "pods"), mute, 0}, scraped{in("e", "pods"), shop, 0}, scraped{in("f", "pods"), dead, 0},
	)
	must.Succeed(t, err)
	var got []string
	for _, target := range targets {
		got = append(got, target.Name+map[bool]string{true: " cannot be judged", false: ""}[target.Problem != ""])
	}
	// The cart is another program, and a dead one in a job of many kinds may be one.
	if want := []string{"c", "d cannot be judged", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRecordedSeriesAreNotEnough(t *testing.T) {
	recorded := func(int) string {
		return "vllm:time_to_first_token_seconds:p95_5m 0.2\nvllm:requests:rate5m 3\n"
	}
	_, _, err := discoverTargets(t, false, scraped{embedded.Target{Instance: "rules"}, recorded, 0})
	if err == nil || !strings.Contains(err.Error(), "recording rules") || !strings.Contains(err.Error(), "vllm:requests:rate5m") {
		t.Errorf("error %v, want one that names the recorded series", err)
	}
}

// TestManyLabelSets looks for targets where a page has tens of thousands of label
// sets, and where there are more targets than can be judged together.
func TestManyLabelSets(t *testing.T) {
	var handlers, models strings.Builder
	handlers.WriteString(engine(1777636000.5, 900))
	for i := range 20_000 {
		fmt.Fprintf(&handlers, "http_requests_total{handler=\"/x/%d\",status=\"2xx\"} 1\n", i)
		fmt.Fprintf(&models, "vllm:num_requests_running{model_name=\"m%d\",engine=\"0\"} 0\n", i)
	}
	look := func(page string) ([]identity.Target, error) {
		store := embeddedtest.New(t)
		for _, at := range []time.Time{noon.Add(-5 * time.Second), noon} {
			embeddedtest.Append(t, store, embedded.Target{Instance: "a"}, at, page)
		}
		targets, _, err := identity.Discover(t.Context(), store, identity.Search{At: noon, Lookback: time.Minute, Every: true})
		return targets, err
	}
	targets, err := look(handlers.String())
	if err != nil || len(targets) != 1 {
		t.Errorf("20,000 handlers: %d targets: %v", len(targets), err)
	}
	targets, err = look(models.String())
	if err == nil || !strings.Contains(err.Error(), "20000 targets exceed") {
		t.Errorf("20,000 models: %d targets: %v", len(targets), err)
	}
}

// A page of the operating system that sixty read itself is no server, and no target that
// cannot be judged; pages of GPUs with the same content are not one page seen twice.
func TestPagesOfTheServersMachine(t *testing.T) {
	vllm := func(born float64) func(int) string {
		return func(second int) string { return engine(born, 900+70*second) }
	}
	gpus := func(int) string {
		return "sixty_host_info{nodename=\"h\"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",Hostname=\"h\"} 60\nDCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu=\"0\",Hostname=\"h\"} 3\n"
	}
	host := func(int) string {
		return "sixty_host_info{nodename=\"h\"} 1\nnode_load5 2\nnode_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 7\n"
	}
	in := func(instance string) embedded.Target { return embedded.Target{Instance: instance} }
	targets, _, err := discoverTargets(t, true,
		scraped{in("localhost:8000"), vllm(1777636000.5), 0}, scraped{in("localhost:8001"), vllm(1777636001.5), 0},
		scraped{in("localhost:8000-gpus"), gpus, 0}, scraped{in("localhost:8001-gpus"), gpus, 0}, scraped{in("h-host"), host, 0})
	must.Succeed(t, err)
	var got []string
	for _, target := range targets {
		got = append(got, target.Name)
		if target.Problem != "" {
			t.Errorf("%s: %s", target.Name, target.Problem)
		}
	}
	slices.Sort(got)
	if want := []string{"localhost:8000", "localhost:8000-gpus", "localhost:8001", "localhost:8001-gpus"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The router of production-stack shows gauges under the servers' names, one for each of its servers: its page is one
// router, and no servers.
func TestARoutersGaugesOfServersAreNoServers(t *testing.T) {
	t.Parallel()
	router := scraped{target: embedded.Target{Instance: "router"}, page: func(int) string {
		return `vllm:num_requests_running{server="http://a"} 3
vllm:num_requests_running{server="http://b"} 0
vllm:num_requests_swapped{server="http://a"} 0
vllm:num_requests_swapped{server="http://b"} 0
vllm:num_incoming_requests_total{model="m"} 40
vllm:request_latency_seconds_count{server="http://a",model="m",status="success"} 40
`
	}}
	targets, _, err := discoverTargets(t, true, router)
	must.Succeed(t, err)
	if len(targets) != 1 || targets[0].Dialect.Engine != dialect.Gateway {
		t.Errorf("%d targets, the first of them %+v, want one router", len(targets), targets[0])
	}
}
