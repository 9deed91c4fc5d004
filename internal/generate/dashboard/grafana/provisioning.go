package grafana

import (
	"cmp"
	"fmt"
	"net/url"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/generate"
)

// A Provision holds the addresses of Prometheus and of the dashboards.
type Provision struct {
	// Prometheus is the address at which Grafana reaches it, http://localhost:9090 when empty.
	Prometheus string
	// ScrapeInterval is the interval of the vLLM jobs, 15s when empty. Grafana derives the shortest range of a rate
	// from it.
	ScrapeInterval string
	// Dashboards is the folder of the dashboard files on Grafana's machine, /var/lib/grafana/dashboards/sixty when
	// empty.
	Dashboards string
}

// Provisioning returns the data source and the dashboard provider, for Grafana's provisioning folder
// (/etc/grafana/provisioning).
func Provisioning(p Provision) (files []generate.File, err error) {
	p.Prometheus = cmp.Or(p.Prometheus, "http://localhost:9090")
	if u, err := url.Parse(p.Prometheus); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, hint.With(fmt.Errorf("grafana provisioning: %q is not a Prometheus address", p.Prometheus),
			"write it as http://prometheus:9090")
	}
	for _, f := range []struct {
		path, what, list string
		entry            map[string]any
	}{
		{"datasources/sixty.yaml", "the Prometheus that scrapes the vLLM servers", "datasources", map[string]any{
			"name": "Prometheus (vLLM)", "uid": "sixty-prometheus", "type": "prometheus", "access": "proxy",
			"url":       p.Prometheus,
			"isDefault": false, "editable": false,
			"jsonData": map[string]string{"httpMethod": "POST", "timeInterval": cmp.Or(p.ScrapeInterval, "15s")},
		}},
		{"dashboards/sixty.yaml", "the folder of the dashboards' files", "providers", map[string]any{
			"name": "sixty", "orgId": 1, "folder": "vLLM (sixty)", "type": "file", "disableDeletion": false,
			"allowUiUpdates":        false,
			"updateIntervalSeconds": 30,
			"options": map[string]string{"path": cmp.Or(p.Dashboards,
				"/var/lib/grafana/dashboards/sixty")},
		}},
	} {
		content, err := generate.YAML("Written by sixty generate grafana-provisioning: "+f.what+".",
			map[string]any{"apiVersion": 1, f.list: []any{f.entry}})
		if err != nil {
			return nil, err
		}
		files = append(files, generate.File{Path: f.path, Content: content})
	}
	return files, nil
}
