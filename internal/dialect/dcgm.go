package dialect

import "github.com/sixty-dev/sixty/internal/indicator"

// DCGM is NVIDIA's dcgm-exporter.
const DCGM Engine = "dcgm"

var dcgmExporter = program{engine: DCGM, selector: "DCGM_FI_.+", detect: hasPrefix("DCGM_FI_", dcgm), page: dcgmPage}

func dcgm(has map[string]bool) Dialect {
	d := Dialect{ID: "dcgm", Engine: DCGM, has: has, prefix: canonical, renamed: map[string]string{}}
	const reasons, older = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
	if !has[reasons] && has[older] {
		d.renamed[reasons] = older
	}
	return d
}

func dcgmPage() []string {
	var page []string
	for _, s := range indicator.All() {
		if s.Scope != indicator.GPU {
			continue
		}
		if names, err := indicator.Metrics(s.PromQL()); err == nil {
			page = append(page, names...)
		}
	}
	return page
}
