package grafana

import (
	"bytes"
	"fmt"
	"net/url"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/hint"
)

// A Provision says where a Grafana finds Prometheus and the dashboards.
type Provision struct {
	// Prometheus is its address as Grafana reaches it; empty means
	// http://localhost:9090.
	Prometheus string
	// ScrapeInterval is that of the vLLM jobs, such as "5s", from which Grafana
	// takes the shortest range of a rate; empty means 15s.
	ScrapeInterval string
	// Dashboards is the folder on Grafana's machine that holds the dashboards'
	// files; empty means /var/lib/grafana/dashboards/sixty.
	Dashboards string
}

const (
	usualPrometheus = "http://localhost:9090"
	usualInterval   = "15s"
	usualFolder     = "/var/lib/grafana/dashboards/sixty"
)

type datasourceFile struct {
	APIVersion  int                    `yaml:"apiVersion"`
	Datasources []provisioningEndpoint `yaml:"datasources"`
}

type provisioningEndpoint struct {
	Name      string            `yaml:"name"`
	UID       string            `yaml:"uid"`
	Type      string            `yaml:"type"`
	Access    string            `yaml:"access"`
	URL       string            `yaml:"url"`
	IsDefault bool              `yaml:"isDefault"`
	Editable  bool              `yaml:"editable"`
	JSONData  map[string]string `yaml:"jsonData"`
}

type providerFile struct {
	APIVersion int        `yaml:"apiVersion"`
	Providers  []provider `yaml:"providers"`
}

type provider struct {
	Name                  string            `yaml:"name"`
	OrgID                 int               `yaml:"orgId"`
	Folder                string            `yaml:"folder"`
	Type                  string            `yaml:"type"`
	DisableDeletion       bool              `yaml:"disableDeletion"`
	AllowUIUpdates        bool              `yaml:"allowUiUpdates"`
	UpdateIntervalSeconds int               `yaml:"updateIntervalSeconds"`
	Options               map[string]string `yaml:"options"`
}

// Provisioning returns the data source and the dashboard provider, to be put
// below Grafana's provisioning folder (/etc/grafana/provisioning).
func Provisioning(p Provision) ([]generate.File, error) {
	if p.Prometheus == "" {
		p.Prometheus = usualPrometheus
	}
	if u, err := url.Parse(p.Prometheus); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, hint.With(fmt.Errorf("grafana provisioning: %q is no address of a Prometheus", p.Prometheus), "write it as http://prometheus:9090")
	}
	if p.ScrapeInterval == "" {
		p.ScrapeInterval = usualInterval
	}
	if p.Dashboards == "" {
		p.Dashboards = usualFolder
	}
	source, err := yamlFile("datasources/sixty.yaml", "the Prometheus that scrapes the vLLM servers", datasourceFile{
		APIVersion: 1,
		Datasources: []provisioningEndpoint{{
			Name: "Prometheus (vLLM)", UID: "sixty-prometheus", Type: "prometheus", Access: "proxy", URL: p.Prometheus,
			JSONData: map[string]string{"httpMethod": "POST", "timeInterval": p.ScrapeInterval},
		}},
	})
	if err != nil {
		return nil, err
	}
	folder, err := yamlFile("dashboards/sixty.yaml", "the folder that holds the dashboards' files", providerFile{
		APIVersion: 1,
		Providers: []provider{{
			Name: "sixty", OrgID: 1, Folder: "vLLM (sixty)", Type: "file", UpdateIntervalSeconds: 30,
			Options: map[string]string{"path": p.Dashboards},
		}},
	})
	if err != nil {
		return nil, err
	}
	return []generate.File{source, folder}, nil
}

func yamlFile(path, what string, v any) (generate.File, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by sixty generate grafana-provisioning: %s.\n", what)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return generate.File{}, fmt.Errorf("encode %s: %w", path, err)
	}
	return generate.File{Path: path, Content: b.Bytes()}, nil
}
