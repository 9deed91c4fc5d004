package pack

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/grafana"
)

// configMaps renders Grafana's dashboards as ConfigMaps. The sidecar of Grafana's Helm chart, also in
// kube-prometheus-stack, loads those with the label grafana_dashboard.
func configMaps(c dashboard.Config) ([]generate.File, error) {
	return asObjects(c, func(name, file, content string) any {
		return struct {
			APIVersion string            `yaml:"apiVersion"`
			Kind       string            `yaml:"kind"`
			Metadata   generate.Metadata `yaml:"metadata"`
			Data       map[string]string `yaml:"data"`
		}{
			"v1", "ConfigMap",
			generate.Metadata{Name: name, Labels: map[string]string{"grafana_dashboard": "1"}},
			map[string]string{file: content},
		}
	})
}

// grafanaDashboards renders Grafana's dashboards as resources of Grafana's operator. They select the instances with the
// label of its documentation.
func grafanaDashboards(c dashboard.Config) ([]generate.File, error) {
	return asObjects(c, func(name, _, content string) any {
		selector := map[string]any{"matchLabels": map[string]string{"dashboards": "grafana"}}
		return generate.Object{
			APIVersion: "grafana.integreatly.org/v1beta1", Kind: "GrafanaDashboard",
			Metadata: generate.Metadata{Name: name},
			Spec:     map[string]any{"instanceSelector": selector, "json": content},
		}
	})
}

// asObjects returns a file with an object for each dashboard, and a kustomization for kubectl.
func asObjects(c dashboard.Config, wrap func(name, file, content string) any) ([]generate.File, error) {
	dashboards, err := grafana.Files(c)
	if err != nil {
		return nil, err
	}
	var out []generate.File
	for _, d := range dashboards {
		name := strings.TrimSuffix(d.Path, ".json")
		content, err := generate.YAML("", wrap(name, d.Path, string(d.Content)))
		if err != nil {
			return nil, err
		}
		out = append(out, generate.File{Path: name + ".yaml", Content: content})
	}
	all, err := generate.Kustomization(out)
	return append(out, all), err
}
