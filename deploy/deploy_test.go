// Package deploy holds what runs sixty serve elsewhere; its tests check that against the
// types of Kubernetes' API.
package deploy

import (
	"errors"
	"fmt"
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
		"v1 ConfigMap":                                    &corev1.ConfigMap{},
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

			Authorization struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"podMetricsEndpoints"`
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

// TestChart renders the Helm chart with few settings and with all, where helm is at hand.
func TestChart(t *testing.T) {
	helm, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("no helm")
	}
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
			case *corev1.ConfigMap:
				if _, err := monitor.ParseConfig([]byte(o.Data["sixty.yaml"]), 0, slog.New(slog.DiscardHandler)); err != nil {
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
	for _, bad := range []string{"replicas=0", "ingress.enabled=true", "image.tag=latest", "prometheusRule.enabled=true", "watchNamespaces=x"} {
		if text, err := template("--set", bad); text != "" {
			t.Errorf("%s is taken: %v", bad, err)
		}
	}
}
