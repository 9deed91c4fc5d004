package checks

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/audit/files"
)

var scalingWrong = Check{
	ID: "scaling-wrong", Severity: ticket,
	Title: "an autoscaler on a metric that does not show whether another replica would help",
	Doc: "A compute-bound server may be saturated with a third of its KV cache in use: KV usage alone adds no " +
		"replica. GPU utilization is 100 % with one request: it alone adds replicas while all are nearly idle.",
	look: onQuery(func(p *pass) {
		const fix = "scale on the requests in flight: sixty generate autoscaling"
		if p.Role != files.Scaler || !p.AllPrometheus {
			return
		}
		var families []string
		for _, q := range p.Doc.Queries {
			if q.Where != p.Where {
				continue
			}
			if q.Tree == nil || len(Selectors(q.Tree)) == 0 { // the metric is not known
				return
			}
			for _, v := range Selectors(q.Tree) {
				_, f := p.typeOf(NameOf(v))
				families = append(families, f.Name)
			}
		}
		allAmong := func(some ...string) bool {
			return !slices.ContainsFunc(families, func(name string) bool { return !slices.Contains(some, name) })
		}
		switch {
		case allAmong("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"):
			p.reportDoubt(p.whole(), "it scales on KV cache usage alone: servers that are saturated by computation, "+
				"--max-num-seqs or prefill have KV cache left, and no replica is added",
				"it is right if these servers run out of KV cache first", fix)
		case allAmong("DCGM_FI_DEV_GPU_UTIL"):
			p.report(p.whole(), "it scales on GPU utilization alone, which is 100 % with a single request: replicas "+
				"are added while all are nearly idle", fix)
		}
	}),
}
