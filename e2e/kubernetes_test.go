//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
)

// cluster is a Kubernetes API server without nodes: discovery, RBAC and validation are real, and no pod runs.
type cluster struct {
	t   *testing.T
	dir string
	bin string
}

// TestKubernetes applies the chart and the manifests to a real API server, and lets the monitor find pods there with
// the permissions that the chart gives it, and with one missing. It needs SIXTY_BIN, and SIXTY_KUBERNETES: a directory
// with etcd, kube-apiserver, kubectl, helm, and crd/ of the Prometheus operator.
func TestKubernetes(t *testing.T) {
	bin, tools := os.Getenv("SIXTY_BIN"), os.Getenv("SIXTY_KUBERNETES")
	if bin == "" || tools == "" {
		t.Skip("SIXTY_BIN and SIXTY_KUBERNETES are not both set: nothing to run")
	}
	c := startCluster(t, tools)
	for _, ns := range []string{"inference", "ops"} {
		c.kubectl("", "create", "namespace", ns)
	}
	c.kubectl("", "create", "serviceaccount", "default", "-n", "inference")
	c.kubectl("", "apply", "--server-side", "-f", filepath.Join(tools, "crd"))

	const repository = ".."
	chart := func(values ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "helm"), append([]string{
			"template", "watch", repository + "/deploy/helm/sixty", "--kube-version", "1.35.0", "--namespace", "ops",
		}, values...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("helm: %v", err)
		}
		return string(out)
	}
	c.kubectl("", "apply", "-k", repository+"/deploy/kubernetes", "--server-side")
	c.kubectl(chart("--set", "auth.tokenSecret.name=s,auth.tokenSecret.key=token,ingress.enabled=true,podMonitor.enabled=true,prometheusRule.enabled=true",
		"--set-file", "prometheusRule.rules="+repository+"/mixin/rules/rules.yaml"), "apply", "--server-side", "-n", "ops", "-f", "-")

	for _, pod := range []struct{ name, image, port string }{
		{"qwen-0", "vllm/vllm-openai:v0.23.0", "28000"}, {"qwen-1", "vllm/vllm-openai:v0.23.0", "28001"}, {"web-0", "nginx:1.29", "80"},
	} {
		c.kubectl(`{apiVersion: v1, kind: Pod, metadata: {name: `+pod.name+`, namespace: inference, labels: {app: `+strings.TrimRight(pod.name, "-01")+`}},
			spec: {containers: [{name: c, image: "`+pod.image+`", ports: [{name: http, containerPort: `+pod.port+`}]}]}}`, "apply", "-f", "-")
		c.kubectl("", "-n", "inference", "patch", "pod", pod.name, "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Running","podIP":"127.0.0.1"}}`)
	}
	monitor := func() string {
		out, _ := exec.CommandContext(t.Context(), bin, "serve", "--kubernetes", "--kubeconfig",
			c.config("of-the-monitor"), "--dry-run").CombinedOutput()
		return string(out)
	}
	found := monitor()
	for _, want := range []string{"Targets: 2 of 3", "http://127.0.0.1:28000/metrics", "http://127.0.0.1:28001/metrics",
		"inference/web-0, container c, image nginx:1.29"} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is missing in\n%s", want, found)
		}
	}
	c.kubectl(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ops-watch}, rules: [{apiGroups: [""], resources: [pods], verbs: [get, watch]}]}`,
		"apply", "--server-side", "--force-conflicts", "-f", "-")
	if denied := monitor(); !strings.Contains(denied, `cannot list resource "pods"`) || !strings.Contains(denied, "Targets: 0 of 0") {
		t.Errorf("without the right to list pods:\n%s", denied)
	}
}

func startCluster(t *testing.T, bin string) *cluster {
	c := &cluster{t, t.TempDir(), bin}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.Succeed(t, err)
	c.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	c.write("tokens.csv", "of-the-admin,admin,1,\"system:masters\"\nof-the-monitor,system:serviceaccount:ops:watch,2,\"system:serviceaccounts\"\n")
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c.start(ctx, "etcd", "--data-dir", c.path("etcd"), "--listen-client-urls", "http://127.0.0.1:23790",
		"--advertise-client-urls", "http://127.0.0.1:23790", "--listen-peer-urls", "http://127.0.0.1:23800")
	c.start(ctx, "kube-apiserver", "--etcd-servers=http://127.0.0.1:23790", "--secure-port=26443",
		"--bind-address=127.0.0.1", "--cert-dir="+c.path("certs"),
		"--service-account-issuer=https://k", "--service-account-key-file="+c.path("sa.key"), "--service-account-signing-key-file="+c.path("sa.key"),
		"--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24")
	polltest.Until(t, "the API server is ready", func() bool {
		_, err := c.run("", "get", "--raw", "/readyz")
		return err == nil
	})
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, content string) string {
	must.Succeed(c.t, os.WriteFile(c.path(name), []byte(content), 0o600))
	return c.path(name)
}

func (c *cluster) start(ctx context.Context, name string, args ...string) {
	c.t.Helper()
	path := filepath.Join(c.bin, name)
	if _, err := os.Stat(path); err != nil {
		path = name // installed on the system
	}
	cmd := exec.CommandContext(ctx, path, args...)
	must.Succeed(c.t, cmd.Start())
	c.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// config returns a kubeconfig for the holder of a token.
func (c *cluster) config(token string) string {
	return c.write(token+".yaml", `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:26443", insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: `+token+`}}]}`)
}

func (c *cluster) run(input string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", c.config("of-the-admin")},
		args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *cluster) kubectl(input string, args ...string) {
	c.t.Helper()
	if out, err := c.run(input, args...); err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
