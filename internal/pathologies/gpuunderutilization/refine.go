package gpuunderutilization

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

const verify = "GPU activity and generated tokens per second rise, while ITL P50 stays below its objective"

func refineFinding(p *catalog.Pass) {
	p.Summary = "The engine always has work, but the GPU is mostly idle"
	for _, s := range []*indicator.Signal{indicator.SMActive, indicator.EngineActive, indicator.GPUUtil} {
		if p.Known(s) {
			p.Summary = fmt.Sprintf("The engine always has work, but %s is %s", s.Title, p.Text(s))
			break
		}
	}
	if n, ok := p.Measured(indicator.RunningP50); ok {
		p.Summary += fmt.Sprintf(", with %s requests running", catalog.Digits(n))
	}
	p.Reason("A decode step reads all weights whatever the batch, so few requests leave most of the GPU idle. This " +
		"costs money, not latency.")
	p.Observe("What it computed", indicator.ModelFLOPs)
	addHostFixes(p)
	if n, ok := p.Setting(engine.MaxNumSeqs); ok && n.V < 8 {
		p.Fix(catalog.Fix{
			Summary:    fmt.Sprintf("Raise --max-num-seqs from %s to 32", n.Flag()),
			Changes:    []catalog.Change{{Flag: "--max-num-seqs", From: n.Flag(), To: "32"}},
			Arithmetic: []string{fmt.Sprintf("max_num_seqs = %s (%s) keeps the batch small", n.Flag(), n.Source)},
			Tradeoff:   "ITL rises somewhat with the batch",
			Verify:     verify,
		})
	}
	p.Fix(catalog.Fix{
		Summary:  "Send more at once: raise the concurrency of the clients, or let fewer replicas take this traffic",
		Tradeoff: "ITL rises somewhat with the batch; fewer replicas leave less to fail over to",
		Verify:   verify,
	})
	if tp, ok := p.Setting(engine.TensorParallelSize); ok && tp.V > 1 {
		p.Fix(catalog.Fix{
			Summary: fmt.Sprintf("Spread each replica over fewer GPUs than %s, if the model and its KV cache fit",
				tp.Flag()),
			Changes: []catalog.Change{
				{Flag: "--tensor-parallel-size", From: tp.Flag(), To: catalog.Whole(max(1, float64(int(tp.V)/2)))},
			},
			Arithmetic: []string{
				fmt.Sprintf("tensor parallel size = %s (%s): half of it halves the communication per step", tp.Flag(),
					tp.Source),
			},
			Tradeoff: "a token takes longer, and the KV cache is smaller",
			Verify:   verify,
		})
	}
}

// addHostFixes adds fixes for a GPU that waits for the host.
func addHostFixes(p *catalog.Pass) {
	if on, known := p.Config.Bool(engine.EnforceEager); known && on {
		p.Fix(catalog.Fix{
			Summary:  "Remove --enforce-eager: without CUDA graphs the GPU waits for the host to launch each kernel",
			Changes:  []catalog.Change{{Flag: "--enforce-eager", From: "true"}},
			Tradeoff: "a start takes longer, and the graphs take some GPU memory",
			Verify:   verify,
		})
	}
	p.RelieveAPIServer("Relieve the API server: --api-server-count 2 or more", verify)
}
