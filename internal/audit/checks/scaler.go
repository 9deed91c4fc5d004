package checks

import (
	"strings"

	"github.com/sixty-dev/sixty/internal/audit/files"
)

var scalingWrong = Check{
	ID: "scaling-wrong", Severity: ticket,
	Title: "an autoscaler on a metric that does not show whether another replica would help",
	Doc: "A compute-bound server may be saturated with a third of its KV cache in use: KV usage alone adds no replica. GPU " +
		"utilization is 100 % with one request: it alone adds replicas while all are nearly idle.",
	look: onQuery(func(p *pass) {
		const fix = "scale on the requests in flight: sixty generate autoscaling"
		if p.Role != files.Scaler || !p.Alone {
			return
		}
		only := map[string]bool{}
		for _, q := range p.Doc.Queries {
			if q.Where != p.Where {
				continue
			}
			if q.Tree == nil || len(Selectors(q.Tree)) == 0 { // nobody knows what it is
				return
			}
			for _, v := range Selectors(q.Tree) {
				only[p.misleading(NameOf(v))] = true
			}
		}
		switch {
		case only[""]: // something else is among them
		case only[ofCache]:
			p.addDoubt(p.whole(),
				"nothing but KV cache usage is looked at: servers that are saturated by computing, by "+
					"--max-num-seqs or by prefill have a part of it free, and nothing is added",
				"where the KV cache is what these servers run out of first, it is right", fix)
		case only[ofGPU]:
			p.report(p.whole(), "nothing but GPU utilization is looked at, which is 100 % with a single request: replicas are "+
				"added while all are nearly idle", fix)
		}
	}),
}

// Metrics that mislead an autoscaler.
const ofCache, ofGPU = "cache", "GPU"

// misleading says which of them a metric is, "" for none.
func (p *pass) misleading(name string) string {
	_, f := p.classOf(name)
	switch {
	case strings.HasSuffix(f.Name, "cache_usage_perc") || f.Name == "token_usage":
		return ofCache
	case f.Name == "DCGM_FI_DEV_GPU_UTIL":
		return ofGPU
	}
	return ""
}
