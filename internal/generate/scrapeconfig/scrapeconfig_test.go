package scrapeconfig

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/model/labels"
	relabels "github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/generate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// full is a configuration that uses everything its format has.
func full(f Format) Config {
	c := Config{
		Format: f, Cluster: "eu$1", Namespace: "llm", Labels: map[string]string{"env": "prod"}, Lean: true,
		MonitorLabels: map[string]string{"release": "kube-prometheus-stack"}, GPU: true,
	}
	if f == Prometheus || f == OpenTelemetry {
		c.Targets = []string{"vllm-server-0", "http://vllm-server-1:8000/metrics", "vllm-server-1:8001", "[::1]:8000"}
		c.GPUTargets = []string{"vllm-server-0", "vllm-server-1"}
		c.ShortInstance = true
	}
	return c
}

func TestGoldenFiles(t *testing.T) {
	for _, f := range Formats() {
		for _, file := range files(t, full(f)) {
			golden := filepath.Join("testdata", "golden", string(f), filepath.FromSlash(file.Path))
			if *update {
				must.Succeed(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				must.Succeed(t, os.WriteFile(golden, file.Content, 0o644))
			}
			want := must.ReadFile(t, golden)
			if diff := cmp.Diff(string(want), string(file.Content)); diff != "" {
				t.Errorf("%s (run with -update):\n%s", golden, diff)
			}
		}
	}
}

// pods stands for Prometheus' discovery of pods. The real client of Kubernetes would take a minute to build. The
// fields are the real ones.
type pods struct {
	Role       string `yaml:"role"`
	Namespaces struct {
		Names []string `yaml:"names"`
	} `yaml:"namespaces"`
	Selectors []struct {
		Role  string `yaml:"role"`
		Label string `yaml:"label"`
	} `yaml:"selectors"`
}

func (*pods) Name() string { return "kubernetes" }

func (*pods) NewDiscoverer(discovery.DiscovererOptions) (discovery.Discoverer, error) {
	return nil, fmt.Errorf("not in tests")
}

func (*pods) NewDiscovererMetrics(prometheus.Registerer, discovery.RefreshMetricsInstantiator) discovery.DiscovererMetrics {
	return nil
}

func TestMain(m *testing.M) {
	discovery.RegisterConfig(&pods{})
	os.Exit(m.Run())
}

func TestPrometheusLoadsIt(t *testing.T) {
	for _, f := range []Format{Prometheus, PrometheusKube, OpenTelemetry} {
		t.Run(string(f), func(t *testing.T) {
			cfg := load(t, full(f))
			jobs := cfg.ScrapeConfigs
			if len(jobs) != 2 || jobs[0].JobName != "vllm" || jobs[1].JobName != "dcgm-exporter" {
				t.Fatalf("jobs: %v", jobs)
			}
			vllm, gpu := jobs[0], jobs[1]
			if vllm.ScrapeInterval != model.Duration(5*time.Second) || vllm.ScrapeTimeout != model.Duration(4500*time.Millisecond) {
				t.Errorf("interval %s, timeout %s", vllm.ScrapeInterval, vllm.ScrapeTimeout)
			}
			if vllm.HonorLabels || !gpu.HonorLabels || vllm.SampleLimit != 10_000 || vllm.BodySizeLimit == 0 {
				t.Errorf("limits or labels are not as said: %+v", vllm)
			}
		})
	}
}

// load returns the configuration as Prometheus understands it. A collector's is
// taken out of its receiver, with its doubled dollar signs.
func load(t *testing.T, c Config) *config.Config {
	t.Helper()
	content := files(t, c)[0].Content
	if c.Format == OpenTelemetry {
		var doc struct {
			Receivers map[string]struct {
				Config yaml.Node `yaml:"config"`
			} `yaml:"receivers"`
		}
		must.Succeed(t, yaml.Unmarshal(content, &doc))
		node := doc.Receivers["prometheus/vllm"].Config
		out, err := yaml.Marshal(&node)
		must.Succeed(t, err)
		content = bytes.ReplaceAll(out, []byte("$$"), []byte("$"))
	}
	cfg, err := config.Load(string(content), promslog.NewNopLogger())
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	return cfg
}

func TestPromtoolAcceptsIt(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool")
	}
	dir := t.TempDir()
	write(t, dir, files(t, full(Prometheus))) // Debian's promtool knows no Kubernetes
	out, err := exec.CommandContext(t.Context(), promtool, "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRelabelling applies the rules as Prometheus does.
func TestRelabelling(t *testing.T) {
	kube := map[string]string{
		"__address__": "10.0.0.7:8000", "__meta_kubernetes_pod_name": "qwen-0", "__meta_kubernetes_namespace": "llm",
		"__meta_kubernetes_pod_node_name": "gpu-3", "__meta_kubernetes_pod_phase": "Running",
		"__meta_kubernetes_pod_container_port_number": "8000", "__meta_kubernetes_pod_container_port_name": "http",
		"__meta_kubernetes_pod_container_image": "vllm/vllm-openai:v0.23.0",
	}
	tests := map[string]struct {
		config Config
		target map[string]string
		want   map[string]string // nil: dropped
	}{
		"instance keeps its port, and the host has a label of its own": {
			Config{Format: Prometheus, Targets: []string{"a"}}, map[string]string{"__address__": "a:8000"}, map[string]string{"node": "a"},
		},
		"a short instance loses the usual port": {
			Config{Format: Prometheus, Targets: []string{"a"}, ShortInstance: true},
			map[string]string{"__address__": "a:8000"},
			map[string]string{"node": "a", "instance": "a"},
		},
		"a short instance keeps another port, so that two servers on a host remain two": {
			Config{Format: Prometheus, Targets: []string{"a"}, ShortInstance: true},
			map[string]string{"__address__": "a:8001"},
			map[string]string{"node": "a"},
		},
		"an address of version 6 keeps its brackets": {
			Config{Format: Prometheus, Targets: []string{"a"}}, map[string]string{"__address__": "[::1]:8000"}, map[string]string{"node": "[::1]"},
		},
		"a pod is known by its name": {
			Config{Format: PrometheusKube, Cluster: "eu$1"},
			kube,
			map[string]string{"node": "gpu-3", "instance": "qwen-0:8000", "pod": "qwen-0", "namespace": "llm", "cluster": "eu$1"},
		},
		"another port of the pod is no target": {
			Config{Format: PrometheusKube, Port: "9000"}, kube, nil,
		},
		"a port may be named": {
			Config{Format: PrometheusKube, Port: "http"},
			kube,
			map[string]string{"node": "gpu-3", "instance": "qwen-0:8000", "pod": "qwen-0", "namespace": "llm"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := labels.NewBuilder(labels.FromMap(tt.target))
			kept := relabels.ProcessBuilder(b, load(t, tt.config).ScrapeConfigs[0].RelabelConfigs...)
			var have map[string]string
			if kept {
				have = map[string]string{}
				b.Labels().Range(func(l labels.Label) {
					if !strings.HasPrefix(l.Name, "__") {
						have[l.Name] = l.Value
					}
				})
			}
			must.Equal(t, tt.want, have)
		})
	}
}

func TestLeanDropsWhatNothingReads(t *testing.T) {
	rules := load(t, Config{Format: Prometheus, Targets: []string{"a"}, Lean: true}).ScrapeConfigs[0].MetricRelabelConfigs
	for name, want := range map[string]bool{
		"vllm:generation_tokens_created":          true,
		"kserve_vllm:generation_tokens_created":   true,
		"vllm:request_generation_tokens_created":  false,
		"kserve_vllm:prompt_tokens_created":       false,
		"http_requests_created":                   false,
		"python_gc_objects_collected_total":       false,
		"python_info":                             false,
		"process_start_time_seconds":              true,
		"vllm:time_to_first_token_seconds_bucket": true,
		"vllm:prompt_tokens_total":                true,
		"another_created":                         true,
	} {
		if kept := relabels.ProcessBuilder(labels.NewBuilder(labels.FromStrings("__name__", name)), rules...); kept != want {
			t.Errorf("%s is kept: %t", name, kept)
		}
	}
}

// TestResourcesFitTheirSchemas compares the output with the fields of the operators' resource definitions
// (testdata/crd).
func TestResourcesFitTheirSchemas(t *testing.T) {
	for f, plural := range map[Format]string{PodMonitor: "podmonitors", ServiceMonitor: "servicemonitors"} {
		for _, port := range []string{"8000", "http"} {
			t.Run(string(f)+" port "+port, func(t *testing.T) {
				schema := readSchema(t, filepath.Join("testdata", "crd", plural+".fields"))
				c := full(f)
				c.Port = port
				documents := 0
				for d := yaml.NewDecoder(bytes.NewReader(files(t, c)[0].Content)); ; documents++ {
					var doc struct {
						APIVersion string `yaml:"apiVersion"`
						Kind       string `yaml:"kind"`
						Metadata   map[string]any
						Spec       any
					}
					if d.Decode(&doc) != nil {
						break
					}
					if got := doc.APIVersion + " " + doc.Kind; got != schema.kind {
						t.Errorf("%s, want %s", got, schema.kind)
					}
					for _, problem := range schema.problems("spec", doc.Spec) {
						t.Error(problem)
					}
				}
				if documents != 2 {
					t.Errorf("%d resources", documents)
				}
			})
		}
	}
}

// A schema is what a resource definition allows below spec.
type schema struct {
	kind   string
	fields map[string]string // path → type and restrictions
}

func readSchema(t *testing.T, file string) schema {
	t.Helper()
	b := must.ReadFile(t, file)
	s := schema{fields: map[string]string{}}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "# "); ok {
			s.kind, _, _ = strings.Cut(head, ":")
			continue
		}
		path, kind, _ := strings.Cut(line, "\t")
		s.fields[path] = kind
	}
	return s
}

var numberOrText = map[string]func(any) bool{
	"string":        func(v any) bool { _, ok := v.(string); return ok },
	"integer":       func(v any) bool { _, ok := v.(int); return ok },
	"boolean":       func(v any) bool { _, ok := v.(bool); return ok },
	"any":           func(any) bool { return true },
	"int-or-string": func(v any) bool { _, text := v.(string); _, n := v.(int); return text || n },
}

func (s schema) problems(path string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, sub := range v {
			at := path + "." + k
			if _, free := s.fields[path+".*"]; free {
				at = path + ".*"
			}
			out = append(out, s.problems(at, sub)...)
		}
		return out
	case []any:
		for _, sub := range v {
			out = append(out, s.problems(path+"[]", sub)...)
		}
		return out
	}
	declared, ok := s.fields[path]
	if !ok {
		return []string{path + " is no field"}
	}
	kind, restriction, _ := strings.Cut(declared, " ")
	if !numberOrText[kind](v) {
		out = append(out, fmt.Sprintf("%s: %v is no %s", path, v, kind))
	}
	if enum, ok := strings.CutPrefix(restriction, "enum="); ok && !slices.Contains(strings.Split(enum, ","), fmt.Sprint(v)) {
		out = append(out, fmt.Sprintf("%s: %v is none of %s", path, v, enum))
	}
	if pattern, ok := strings.CutPrefix(restriction, "pattern="); ok && !regexp.MustCompile(pattern).MatchString(fmt.Sprint(v)) {
		out = append(out, fmt.Sprintf("%s: %v does not match %s", path, v, pattern))
	}
	return out
}

func TestASchemaFindsWhatIsWrong(t *testing.T) {
	s := readSchema(t, filepath.Join("testdata", "crd", "podmonitors.fields"))
	for name, spec := range map[string]any{
		"a field that is not there": map[string]any{"podMetricsEndpoint": 1},
		"a wrong type":              map[string]any{"sampleLimit": "many"},
		"a wrong action":            map[string]any{"podMetricsEndpoints": []any{map[string]any{"relabelings": []any{map[string]any{"action": "discard"}}}}},
		"a wrong duration":          map[string]any{"podMetricsEndpoints": []any{map[string]any{"interval": "1.5s"}}},
	} {
		if len(s.problems("spec", spec)) != 1 {
			t.Errorf("%s: %v", name, s.problems("spec", spec))
		}
	}
}

func TestBadInputIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		c    Config
		want string
	}{
		"no format":                      {Config{}, `unknown format ""`},
		"no targets":                     {Config{Format: Prometheus}, "no targets"},
		"targets where they are found":   {Config{Format: PodMonitor, Targets: []string{"a"}}, "finds its targets itself"},
		"an interval of a millisecond":   {Config{Format: PodMonitor, Interval: time.Millisecond}, "interval of 1ms"},
		"an interval of an hour":         {Config{Format: PodMonitor, Interval: time.Hour}, "interval of 1h"},
		"no such server":                 {Config{Format: PodMonitor, Server: "lmdeploy"}, "unknown server"},
		"a password":                     {Config{Format: Prometheus, Targets: []string{"http://me:secret@a"}}, "target a carries credentials"},
		"a password that does not parse": {Config{Format: Prometheus, Targets: []string{"ftp://me:secret@a"}}, `"…@a" is no target`},
		"a parameter":                    {Config{Format: Prometheus, Targets: []string{"a?token=secret"}}, "target a carries"},
		"two schemes":                    {Config{Format: Prometheus, Targets: []string{"a", "https://b"}}, "differ in scheme"},
		"two paths":                      {Config{Format: Prometheus, Targets: []string{"a", "b/v1/metrics"}}, "differ in scheme or path"},
		"a target twice":                 {Config{Format: Prometheus, Targets: []string{"a", "a:8000"}}, "listed twice"},
		"port zero":                      {Config{Format: Prometheus, Targets: []string{"a:0"}}, "no such port"},
		"no host":                        {Config{Format: Prometheus, Targets: []string{":8000"}}, "is no target"},
		"a label's name":                 {Config{Format: PodMonitor, Labels: map[string]string{"a-b": "c"}}, "not a label name"},
		"a label that is taken":          {Config{Format: PodMonitor, Labels: map[string]string{"instance": "c"}}, "set otherwise"},
		"a selector":                     {Config{Format: PodMonitor, Selector: map[string]string{"app": "a b"}}, "not a Kubernetes label"},
		"a job's name":                   {Config{Format: PodMonitor, Job: "../x"}, "job name"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Generate(tt.c)
			if err == nil || !strings.Contains(err.Error(), tt.want) || out != nil {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error()+hint.Of(err), "secret") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestEveryServerHasItsPort(t *testing.T) {
	for server, port := range map[Server]string{VLLM: "8000", Ray: "8080", KServe: "8080", "sglang": "30000"} {
		got := files(t, Config{Format: Prometheus, Server: server, Targets: []string{"a"}})[0].Content
		if !bytes.Contains(got, []byte("a:"+port)) {
			t.Errorf("%s:\n%s", server, got)
		}
	}
}

func TestTimeoutStaysBelowTheInterval(t *testing.T) {
	for interval := minInterval; interval <= maxInterval; interval += 100 * time.Millisecond {
		if got := time.Duration(scrapeTimeout(interval)); got >= interval || got < interval/10 {
			t.Errorf("interval %s: timeout %s", interval, got)
		}
	}
}

// FuzzTargets looks for targets that Prometheus would not load.
func FuzzTargets(f *testing.F) {
	for _, s := range []string{"a", "a:8000", "https://a/metrics", "[::1]:8000", "a b", "${x}", "\x00", "é:1", "http://%41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		c := Config{Format: Prometheus, Targets: []string{target}}
		out, err := Generate(c)
		if err != nil {
			return
		}
		if _, err := config.Load(string(out[0].Content), promslog.NewNopLogger()); err != nil {
			t.Errorf("%q: %v", target, err)
		}
	})
}

func files(t *testing.T, c Config) []generate.File {
	t.Helper()
	out, err := Generate(c)
	must.Succeed(t, err)
	return out
}
