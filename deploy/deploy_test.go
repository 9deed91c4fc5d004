// Package deploy holds what runs sixty serve elsewhere; its tests check that against the
// types of Kubernetes' API.
package deploy

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/sixty-dev/sixty/internal/monitor"
)

// kinds are the types of what lies in kubernetes/.
func kinds() map[string]any {
	return map[string]any{
		"v1 Namespace": &corev1.Namespace{}, "v1 ServiceAccount": &corev1.ServiceAccount{}, "v1 Service": &corev1.Service{},
		"v1 PersistentVolumeClaim":                        &corev1.PersistentVolumeClaim{},
		"apps/v1 Deployment":                              &appsv1.Deployment{},
		"networking.k8s.io/v1 NetworkPolicy":              &networkingv1.NetworkPolicy{},
		"rbac.authorization.k8s.io/v1 ClusterRole":        &rbacv1.ClusterRole{},
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
		"monitoring.coreos.com/v1 PodMonitor":             &podMonitor{},
	}
}

// podMonitor has the fields of the operator's resource that the manifest uses.
type podMonitor struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		PodMetricsEndpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// documents decodes a file, strictly.
func documents(t *testing.T, name string) (out []any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	for i, doc := range strings.Split(string(text), "\n---\n") {
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, name := range append(k.Resources, "podmonitor.yaml") {
		for _, doc := range documents(t, name) {
			found[fmt.Sprintf("%T", doc)] = doc
		}
	}
	if len(found) != len(kinds()) {
		t.Errorf("%d kinds, want %d", len(found), len(kinds()))
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
	if err != nil {
		t.Fatal(err)
	}
	if _, err := monitor.ParseConfig(config, 0, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}
