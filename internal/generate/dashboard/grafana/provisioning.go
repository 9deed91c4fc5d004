package grafana

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

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

// The files, with verbs of package fmt for the address and the interval, and for the folder.
const (
	datasourceFile = `apiVersion: 1
datasources:
  - name: Prometheus (vLLM)
    uid: sixty-prometheus
    type: prometheus
    access: proxy
    url: %s
    isDefault: false
    editable: false
    jsonData:
      httpMethod: POST
      timeInterval: %s
`
	providerFile = `apiVersion: 1
providers:
  - name: sixty
    orgId: 1
    folder: vLLM (sixty)
    type: file
    disableDeletion: false
    allowUiUpdates: false
    updateIntervalSeconds: 30
    options:
      path: %s
`
)

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
	return []generate.File{
		provisioned("datasources/sixty.yaml", "the Prometheus that scrapes the vLLM servers", datasourceFile, p.Prometheus, p.ScrapeInterval),
		provisioned("dashboards/sixty.yaml", "the folder that holds the dashboards' files", providerFile, p.Dashboards),
	}, nil
}

// provisioned fills values into a file.
func provisioned(path, what, text string, values ...any) generate.File {
	for i, v := range values {
		values[i] = scalar(v.(string))
	}
	const head = "# Written by sixty generate grafana-provisioning: %s.\n"
	return generate.File{Path: path, Content: fmt.Appendf(fmt.Appendf(nil, head, what), text, values...)}
}

// scalar writes a text as YAML, in one line.
func scalar(text string) string {
	out, err := yaml.Marshal(text)
	if line := strings.TrimSpace(string(out)); err == nil && !strings.Contains(line, "\n") {
		return line
	}
	return strconv.Quote(text)
}
