package serve_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/serve"
)

// kubeAPI is what service discovery asks of a cluster's API.
func kubeAPI(t *testing.T, pods ...corev1.Pod) (url, certificate string) {
	t.Helper()
	ended := make(chan struct{})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch {
		case r.Header.Get("Authorization") != "Bearer of-the-service-account":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/inference/pods":
			where := "at the cluster scope"
			if _, after, ok := strings.Cut(r.URL.Path, "/namespaces/"); ok {
				where = fmt.Sprintf("in the namespace %q", strings.TrimSuffix(after, "/pods"))
			}
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
				Reason: metav1.StatusReasonForbidden, Code: 403,
				Message: `pods is forbidden: User "sixty" cannot list resource "pods" in API group "" ` + where,
			})
		case q.Get("sendInitialEvents") != "": // as servers that know no such thing
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
				Reason: metav1.StatusReasonInvalid, Code: 422})
		case q.Get("watch") != "":
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		default:
			_ = json.NewEncoder(w).Encode(corev1.PodList{
				TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: pods,
			})
		}
	}))
	t.Cleanup(func() { close(ended); s.Close() })
	return s.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func kubeConfig(t *testing.T, url, certificate string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: of-the-service-account}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, url, certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// TestKubernetesDenies: where the cluster lets nobody list pods the page says so.
func TestKubernetesDenies(t *testing.T) {
	url, certificate := kubeAPI(t)
	r := start(t, func(c *serve.Config) {
		c.Kubernetes, c.KubeConfig, c.Namespace = true, kubeConfig(t, url, certificate), "elsewhere"
	})
	r.until("it says so", func() bool {
		o := r.overview()
		text := strings.Join(o.Problems, "\n")
		return o.State == view.Partial && strings.Contains(text,
			`discovery of job vllm by kubernetes fails: failed to list *v1.Pod: pods is forbidden`) &&
			strings.Contains(text, `in the namespace "elsewhere"`)
	})
}

// TestServeKubernetes finds the pods that run vLLM by a cluster's API, and judges them by
// their names.
func TestServeKubernetes(t *testing.T) {
	const ip = "127.7.0.2"
	fl, err := fleet.Start(fleet.Config{Addr: ip + ":8000", Replicas: 1, Warm: 2 * time.Minute})
	if err != nil {
		t.Skipf("no server at %s:8000, the port that vLLM's pods have: %v", ip, err)
	}
	defer fl.Close()
	pod := func(name, ip string, port int32, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "inference", UID: "1",
				Labels: map[string]string{"app": "vllm"}},
			Spec: corev1.PodSpec{NodeName: "node-1",
				Containers: []corev1.Container{{Name: "c",
					Ports: []corev1.ContainerPort{{ContainerPort: port, Protocol: corev1.ProtocolTCP}}}}},
			Status: corev1.PodStatus{PodIP: ip, HostIP: ip, Phase: phase},
		}
	}
	url, certificate := kubeAPI(t, pod("vllm-0", ip, 8000, corev1.PodRunning),
		pod("web-0", "127.7.0.3", 80, corev1.PodRunning), pod("vllm-done", "127.7.0.4", 8000, corev1.PodSucceeded))
	config := kubeConfig(t, url, certificate)
	r := start(t, func(c *serve.Config) { c.Kubernetes, c.KubeConfig, c.Namespace = true, config, "inference" })
	r.until("the pod is judged by its name", func() bool {
		o := r.overview()
		return o.State == view.OK && len(o.Models) == 1 && o.Models[0].Namespace == "inference" &&
			len(o.Models[0].Replicas) == 1 &&
			strings.HasPrefix(o.Models[0].Replicas[0].Target, "vllm-0:8000")
	})
	r.until("that GPU exporters may not be seen is a note", func() bool {
		o := r.overview()
		return o.State == view.OK && len(o.Problems) == 1 && strings.Contains(o.Problems[0], "GPUs cannot be read") &&
			strings.Contains(o.Problems[0], "at the cluster scope")
	})
	if _, body := r.get("/api/v1/query?query=count(up)"); !strings.Contains(body, `"1"`) {
		t.Errorf("other pods are scraped too: %s", body)
	}
}

// TestDryRun says which pods are targets and why the others are none.
func TestDryRun(t *testing.T) {
	pod := func(name, image, portName string, port int32) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "inference", UID: types.UID(name)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "c", Image: image, Ports: []corev1.ContainerPort{
					{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}}}}},
			Status: corev1.PodStatus{PodIP: "10.0.0.7", Phase: corev1.PodRunning},
		}
	}
	url, certificate := kubeAPI(t, pod("qwen-0", "vllm/vllm-openai:v0.23.0", "http", 28000),
		pod("web-0", "nginx:1.29", "http", 80), pod("zmq-0", "vllm/vllm-openai:v0.23.0", "kv-events", 5557))
	var out bytes.Buffer
	cfg := serve.Config{
		Log:      slog.New(slog.DiscardHandler),
		Settings: func(*monitor.Section) (s diagnose.Settings, err error) { return s, nil },
		Deployment: serve.Deployment{Kubernetes: true, KubeConfig: kubeConfig(t, url, certificate),
			Namespace: "inference"},
	}
	must.Succeed(t, serve.DryRun(t.Context(), cfg, &out))
	for _, want := range []string{
		"Targets: 1 of 3 containers and addresses found.",
		"http://10.0.0.7:28000/metrics",
		"Neither its image nor a label names an inference server",
		"inference/web-0, container c, image nginx:1.29, port http 80",
		"Its port is not one of an API or of metrics",
		"inference/zmq-0, container c, image vllm/vllm-openai:v0.23.0, port kv-events 5557",
		"Discovery of job dcgm-exporter by kubernetes: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if cfg.Namespace = "elsewhere"; serve.DryRun(t.Context(), cfg, &out) == nil ||
		!strings.Contains(out.String(), `cannot list resource "pods" in API group "" in the namespace "elsewhere"`) {
		t.Errorf("who may list nothing is not told so:\n%s", &out)
	}
}
