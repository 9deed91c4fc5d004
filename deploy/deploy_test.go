// Package deploy holds what runs sixty serve elsewhere; its tests check that against the
// types of Kubernetes' API.
package deploy

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/monitor"
)

// kinds are the types of what lies in kubernetes/.
func kinds() map[string]any {
	return map[string]any{
		"v1 Namespace": &corev1.Namespace{}, "v1 ServiceAccount": &corev1.ServiceAccount{}, "v1 Service": &corev1.Service{},
		"v1 PersistentVolumeClaim":                        &corev1.PersistentVolumeClaim{},
		"apps/v1 Deployment":                              &appsv1.Deployment{},
		"apps/v1 StatefulSet":                             &appsv1.StatefulSet{},
		"policy/v1 PodDisruptionBudget":                   &policyv1.PodDisruptionBudget{},
		"networking.k8s.io/v1 NetworkPolicy":              &networkingv1.NetworkPolicy{},
		"rbac.authorization.k8s.io/v1 ClusterRole":        &rbacv1.ClusterRole{},
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
		"monitoring.coreos.com/v1 PodMonitor":             &podMonitor{},
		"monitoring.coreos.com/v1 PrometheusRule":         &prometheusRule{},
		"networking.k8s.io/v1 Ingress":                    &networkingv1.Ingress{},
		"rbac.authorization.k8s.io/v1 Role":               &rbacv1.Role{},
		"rbac.authorization.k8s.io/v1 RoleBinding":        &rbacv1.RoleBinding{},
		"v1 Secret":                              &corev1.Secret{},
		"gateway.networking.k8s.io/v1 HTTPRoute": &httpRoute{},
	}
}

// prometheusRule is the operator's resource of alert rules.
type prometheusRule struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       map[string]any    `json:"spec"`
}

// podMonitor has the fields of the operator's resource that the manifest uses.
type podMonitor struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		PodMetricsEndpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
			Scheme   string `json:"scheme"`

			TLSConfig map[string]any `json:"tlsConfig"`

			Authorization struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// httpRoute has the fields of the Gateway API's resource that the chart uses.
type httpRoute struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       struct {
		ParentRefs []map[string]string `json:"parentRefs"`
		Hostnames  []string            `json:"hostnames"`
		Rules      []struct {
			Matches []struct {
				Path map[string]string `json:"path"`
			} `json:"matches"`
			BackendRefs []struct {
				Name string `json:"name"`
				Port int    `json:"port"`
			} `json:"backendRefs"`
		} `json:"rules"`
	} `json:"spec"`
}

// documents decodes a file, strictly.
func documents(t *testing.T, name string) (out []any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("kubernetes", name))
	must.Succeed(t, err)
	return decode(t, name, string(text))
}

func decode(t *testing.T, name, text string) (out []any) {
	t.Helper()
	for i, doc := range strings.Split(text, "\n---\n") {
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		into := kinds()[head.APIVersion+" "+head.Kind]
		if into == nil {
			t.Fatalf("%s, document %d: %s %s is not known here", name, i+1, head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
			t.Errorf("%s, document %d: %v", name, i+1, err)
		}
		out = append(out, into)
	}
	return out
}

func TestManifests(t *testing.T) {
	text, err := os.ReadFile("kubernetes/kustomization.yaml")
	must.Succeed(t, err)
	var k struct {
		APIVersion         string           `json:"apiVersion"`
		Kind               string           `json:"kind"`
		Namespace          string           `json:"namespace"`
		Labels             []map[string]any `json:"labels"`
		Resources          []string         `json:"resources"`
		ConfigMapGenerator []struct {
			Name  string   `json:"name"`
			Files []string `json:"files"`
		} `json:"configMapGenerator"`
		Images []map[string]string `json:"images"`
	}
	must.Succeed(t, yaml.UnmarshalStrict(text, &k))
	found := map[string]any{}
	for _, name := range append(k.Resources, "podmonitor.yaml") {
		for _, doc := range documents(t, name) {
			found[fmt.Sprintf("%T", doc)] = doc
		}
	}
	if len(found) != 9 {
		t.Errorf("%d kinds, want 9: %v", len(found), found)
	}
	d := found["*v1.Deployment"].(*appsv1.Deployment)
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || c.SecurityContext.Capabilities.Drop[0] != "ALL" {
		t.Error("the pod may do more than it needs")
	}
	if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Error("two pods would share a data directory")
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	for _, m := range c.VolumeMounts {
		if _, ok := volumes[m.Name]; !ok {
			t.Errorf("no volume %s", m.Name)
		}
	}
	if name := volumes["config"].ConfigMap.Name; name != k.ConfigMapGenerator[0].Name {
		t.Errorf("the configuration is mounted from %s and made as %s", name, k.ConfigMapGenerator[0].Name)
	}
	labels := d.Spec.Template.Labels
	selects := func(what string, selector map[string]string) {
		for k, v := range selector {
			if labels[k] != v {
				t.Errorf("%s selects %s=%s, the pod has %v", what, k, v, labels)
			}
		}
	}
	selects("the deployment", d.Spec.Selector.MatchLabels)
	selects("the service", found["*v1.Service"].(*corev1.Service).Spec.Selector)
	selects("the network policy", found["*v1.NetworkPolicy"].(*networkingv1.NetworkPolicy).Spec.PodSelector.MatchLabels)
	selects("the pod monitor", found["*deploy.podMonitor"].(*podMonitor).Spec.Selector.MatchLabels)
	role := found["*v1.ClusterRole"].(*rbacv1.ClusterRole)
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("the role may %s", verb)
			}
		}
	}
	config, err := os.ReadFile(filepath.Join("kubernetes", k.ConfigMapGenerator[0].Files[0]))
	must.Succeed(t, err)
	if _, err := monitor.ParseConfig(config, 0, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

// findHelm is what make chart installs, or the system's.
func findHelm(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"../bin/helm", "helm"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no helm: make chart installs one")
	return ""
}

// TestChartIsLinted has Helm look for mistakes in the chart.
func TestChartIsLinted(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), findHelm(t), "lint", "--strict", "helm/sixty").CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 0 chart(s) failed") || strings.Contains(string(out), "[INFO]") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestChart renders the Helm chart with few settings and with all, where helm is at hand.
func TestChart(t *testing.T) {
	helm := findHelm(t)
	template := func(more ...string) (string, error) {
		args := append([]string{"template", "watch", "helm/sixty", "--kube-version", "1.31.0", "--namespace", "ops"}, more...)
		cmd := exec.CommandContext(t.Context(), helm, args...)
		var failed strings.Builder
		cmd.Stderr = &failed
		out, err := cmd.Output()
		return strings.TrimPrefix(string(out), "---\n"), errors.Join(err, errors.New(failed.String()))
	}
	render := func(more ...string) (deployment *appsv1.Deployment, others []any) {
		t.Helper()
		text, err := template(more...)
		if text == "" {
			t.Fatal(err)
		}
		for _, o := range decode(t, "chart", text) {
			switch o := o.(type) {
			case *appsv1.Deployment:
				deployment = o
			case *corev1.Secret:
				if _, err := monitor.ParseConfig([]byte(o.StringData["sixty.yaml"]), 0, slog.New(slog.DiscardHandler)); err != nil {
					t.Errorf("the configuration: %v", err)
				}
			case *prometheusRule:
				rules, err := yaml.Marshal(o.Spec)
				must.Succeed(t, err)
				if _, errs := rulefmt.Parse(rules, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler)); len(errs) > 0 {
					t.Errorf("the rules: %v", errs)
				}
				others = append(others, o)
			default:
				others = append(others, o)
			}
		}
		return deployment, others
	}
	of := func(list []any, kind string) bool {
		return slices.ContainsFunc(list, func(o any) bool { return strings.HasSuffix(fmt.Sprintf("%T", o), "."+kind) })
	}

	d, others := render()
	if image := d.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":0.1.0") {
		t.Errorf("image %s, want the chart's version", image)
	}
	if d.Spec.Template.Spec.Containers[0].StartupProbe == nil || !of(others, "ClusterRole") || !of(others, "NetworkPolicy") || of(others, "Ingress") {
		t.Errorf("with few settings: %T", others)
	}
	d, others = render("--set", "watchNamespace=inference,selector.team=ml,auth.tokenSecret.name=s,auth.tokenSecret.key=token,ingress.enabled=true,ingress.tlsSecret=tls,podMonitor.enabled=true,prometheusRule.enabled=true",
		"--set-file", "prometheusRule.rules=../mixin/rules/rules.yaml")
	args := strings.Join(d.Spec.Template.Spec.Containers[0].Args, " ")
	for _, want := range []string{"--namespace=inference", "--selector=team=ml", "--token-file=/etc/sixty-token/token", "--external-url=https://sixty.example.com"} {
		if !strings.Contains(args, want) {
			t.Errorf("%q is not among the arguments %s", want, args)
		}
	}
	if !of(others, "Role") || of(others, "ClusterRole") || !of(others, "Ingress") || !of(others, "podMonitor") || !of(others, "prometheusRule") {
		t.Errorf("with all settings: %T", others)
	}
	// What the README shows.
	readme, err := os.ReadFile("helm/sixty/README.md")
	must.Succeed(t, err)
	_, values, _ := strings.Cut(string(readme), "```yaml\n")
	values, _, _ = strings.Cut(values, "```")
	file := filepath.Join(t.TempDir(), "values.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(values), 0o600))
	if d, _ = render("--values", file); !slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "sixty-files" }) {
		t.Errorf("as in the README: %+v", d.Spec.Template.Spec.Volumes)
	}
	// Files of a secret, and everything that a cluster may ask for.
	d, others = render("--values", "testdata/everything.yaml")
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	switch {
	case d.Name != "watcher" || d.Annotations["team"] != "ml" || pod.PriorityClassName != "high" || len(pod.TopologySpreadConstraints) != 1:
		t.Errorf("with everything: %+v", d.ObjectMeta)
	case pod.ServiceAccountName != "theirs" || of(others, "ServiceAccount") || of(others, "ClusterRole"):
		t.Errorf("rights are made that exist: %s, %T", pod.ServiceAccountName, others)
	case volumes["data"].PersistentVolumeClaim.ClaimName != "mine" || of(others, "PersistentVolumeClaim"):
		t.Errorf("a volume is made that exists: %+v", volumes["data"])
	case volumes["files"].Secret.SecretName != "sixty-files" || mounts["files"] != "/etc/sixty-files" || mounts["rules"] != "/etc/rules" || volumes["rules"].ConfigMap == nil:
		t.Errorf("files: %v, %v", mounts, volumes)
	case len(c.Env) != 1 || !slices.Contains(c.Args, "--external-url=https://sixty.example.com"):
		t.Errorf("env %v, arguments %v", c.Env, c.Args)
	}
	for _, o := range others {
		switch o := o.(type) {
		case *podMonitor:
			if e := o.Spec.PodMetricsEndpoints[0]; e.Scheme != "https" || e.TLSConfig["insecureSkipVerify"] != true {
				t.Errorf("the endpoint with TLS: %+v", e)
			}
		case *httpRoute:
			if r := o.Spec.Rules[0].BackendRefs[0]; r.Name != "watcher" || r.Port != 6060 || o.Spec.Hostnames[0] != "sixty.example.com" {
				t.Errorf("the route: %+v", o.Spec)
			}
		case *corev1.ConfigMap:
			t.Errorf("a ConfigMap, which many may read, has the configuration: %v", o.Data)
		}
	}
	if !of(others, "httpRoute") || !of(others, "podMonitor") {
		t.Errorf("with everything: %T", others)
	}
	// Two monitors have a volume each, keep apart, and find one another.
	d, others = render("--set", "replicas=2")
	i := slices.IndexFunc(others, func(o any) bool { _, is := o.(*appsv1.StatefulSet); return is })
	if d != nil || i < 0 || of(others, "PersistentVolumeClaim") || !of(others, "PodDisruptionBudget") {
		t.Fatalf("of two: %v, %T", d, others)
	}
	set := others[i].(*appsv1.StatefulSet)
	args = strings.Join(set.Spec.Template.Spec.Containers[0].Args, " ")
	if *set.Spec.Replicas != 2 || len(set.Spec.VolumeClaimTemplates) != 1 || set.Spec.Template.Spec.Affinity.PodAntiAffinity == nil ||
		!strings.Contains(args, "--cluster-peer="+set.Spec.ServiceName+".ops.svc:9094") {
		t.Errorf("of two: %+v", set.Spec)
	}
	if !slices.ContainsFunc(others, func(o any) bool {
		s, is := o.(*corev1.Service)
		return is && s.Name == set.Spec.ServiceName && s.Spec.ClusterIP == "None" && s.Spec.PublishNotReadyAddresses
	}) {
		t.Errorf("of two: no service %s", set.Spec.ServiceName)
	}
	for _, bad := range []string{"replicas=0", "ingress.enabled=true", "image.tag=latest", "prometheusRule.enabled=true", "watchNamespaces=x", "httpRoute.enabled=true", "replicas=2,persistence.existingClaim=mine"} {
		if text, err := template("--set", bad); text != "" {
			t.Errorf("%s is taken: %v", bad, err)
		}
	}
}

// TestWheels makes wheels of a release's archives and reads them as pip does.
func TestWheels(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python")
	}
	archives, out := t.TempDir(), t.TempDir()
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		archive := tar.NewWriter(z)
		for name, content := range map[string]string{"sixty": "binary of " + platform, "README.md": "# sixty", "LICENSE": "Apache"} {
			must.Succeed(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
			_, err := archive.Write([]byte(content))
			must.Succeed(t, err)
		}
		must.Succeed(t, errors.Join(archive.Close(), z.Close()))
		must.Succeed(t, os.WriteFile(filepath.Join(archives, "sixty_1.2.0-rc.1_"+platform+".tar.gz"), b.Bytes(), 0o600))
	}
	if said, err := exec.CommandContext(t.Context(), python, "wheel/build.py", "--version", "1.2.0-rc.1", "--archives", archives, "--out", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	wheels, err := filepath.Glob(filepath.Join(out, "sixty_llm-1.2.0rc1-py3-none-*.whl"))
	if must.Succeed(t, err); len(wheels) != 4 {
		t.Fatalf("%d wheels", len(wheels))
	}
	for _, path := range wheels {
		wheel, err := zip.OpenReader(path)
		must.Succeed(t, err)
		files := map[string]string{}
		for _, f := range wheel.File {
			in, err := f.Open()
			must.Succeed(t, err)
			content, err := io.ReadAll(in)
			must.Succeed(t, err)
			if files[f.Name] = string(content); strings.Contains(f.Name, "/scripts/") && f.Mode()&0o111 == 0 {
				t.Errorf("%s cannot be run", f.Name)
			}
		}
		must.Succeed(t, wheel.Close())
		record := files["sixty_llm-1.2.0rc1.dist-info/RECORD"]
		for name, content := range files {
			sum := sha256.Sum256([]byte(content))
			line := fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(content))
			if !strings.Contains(record, line) && !strings.HasSuffix(name, "/RECORD") {
				t.Errorf("RECORD lacks %s", line)
			}
		}
		if !strings.HasPrefix(files["sixty_llm-1.2.0rc1.data/scripts/sixty"], "binary of ") || !strings.Contains(files["sixty_llm-1.2.0rc1.dist-info/METADATA"], "Version: 1.2.0rc1\n") {
			t.Errorf("%s: %v", path, files)
		}
	}
}
