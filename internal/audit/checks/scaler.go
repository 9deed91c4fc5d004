package checks

import (
	"slices"

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
		var names []string
		for _, q := range p.Doc.Queries {
			if q.Where != p.Where {
				continue
			}
			if q.Tree == nil || len(Selectors(q.Tree)) == 0 { // nobody knows what it is
				return
			}
			for _, v := range Selectors(q.Tree) {
				_, f := p.typeOf(NameOf(v))
				names = append(names, f.Name)
			}
		}
		all := func(are ...string) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(are, name) })
		}
		switch {
		case all("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"):
			p.addDoubt(p.whole(),
				"nothing but KV cache usage is looked at: servers that are saturated by computing, by "+
					"--max-num-seqs or by prefill have a part of it free, and nothing is added",
				"where the KV cache is what these servers run out of first, it is right", fix)
		case all("DCGM_FI_DEV_GPU_UTIL"):
			p.report(p.whole(), "nothing but GPU utilization is looked at, which is 100 % with a single request: replicas are "+
				"added while all are nearly idle", fix)
		}
	}),
}
