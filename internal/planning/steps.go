package planning

import (
	"fmt"
	"math"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// The knobs that a search moves, by their flags.
const (
	maxNumSeqs           = "--" + engine.MaxNumSeqs
	maxNumBatchedTokens  = "--" + engine.MaxNumBatchedTokens
	gpuMemoryUtilization = "--" + engine.GPUMemoryUtilization
	tensorParallelSize   = "--" + engine.TensorParallelSize
)

// A step changes one knob of a point.
type step struct {
	knob, from, value string
	to                Knobs
}

// steps are the single steps from a point: by a factor where a knob is a number of many.
func steps(p *Point, factor float64) []step {
	k := p.Knobs
	var out []step
	add := func(knob string, from, value any, alter func(*Knobs)) {
		to := k
		if alter(&to); to != k {
			out = append(out, step{knob, fmt.Sprint(from), fmt.Sprint(value), to})
		}
	}
	for _, times := range []float64{1 / factor, factor} {
		if n := round8(float64(k.MaxNumSeqs) * times); n >= 1 && n <= min(2048, k.MaxNumBatchedTokens) {
			add(maxNumSeqs, k.MaxNumSeqs, n, func(k *Knobs) { k.MaxNumSeqs = n })
		}
	}
	for _, times := range []float64{1 / factor, factor} {
		if n := round64(float64(k.MaxNumBatchedTokens) * times); n >= max(k.MaxNumSeqs, 128) && n <= 32768 {
			add(maxNumBatchedTokens, k.MaxNumBatchedTokens, n, func(k *Knobs) { k.MaxNumBatchedTokens = n })
		}
	}
	for _, u := range []float64{k.Utilization - 0.05, min(k.Utilization+0.03, 0.97)} {
		u = math.Round(u*100) / 100
		add(gpuMemoryUtilization, k.Utilization, u, func(k *Knobs) { k.Utilization = u })
	}
	other := "fp8"
	if k.KVType != "auto" {
		other = "auto"
	}
	add("--"+engine.KVCacheDtype, k.KVType, other, func(k *Knobs) { k.KVType = other })
	add("--"+engine.PrefixCaching, k.PrefixCaching, !k.PrefixCaching, func(k *Knobs) { k.PrefixCaching = !k.PrefixCaching })
	add("--"+engine.ChunkedPrefill, k.ChunkedPrefill, !k.ChunkedPrefill, func(k *Knobs) { k.ChunkedPrefill = !k.ChunkedPrefill })
	for _, n := range []int{k.Replicas - 1, k.Replicas + 1} {
		if n > 0 {
			add("replicas", k.Replicas, n, func(k *Knobs) { k.Replicas = n })
		}
	}
	for _, tp := range []int{k.TP / 2, 2 * k.TP} {
		if tp >= 1 && tp <= 16 {
			add(tensorParallelSize, k.TP, tp, func(k *Knobs) { k.TP = tp })
		}
	}
	return out
}
