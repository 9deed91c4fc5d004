package whatif

import (
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim/calibrate"
)

// ModelCost returns what a step of a model costs, for an estimate from data sheets,
// and the bits of its weights. KVType is that of the KV cache (--kv-cache-dtype); ""
// and "auto" are the model's own.
//
// A step reads all weights but the embedding, of which a token takes one row: with
// more than a few requests in a batch every expert of a mixture is used by one of
// them. Recurrent layers have no keys and values to read.
func ModelCost(m *modelconfig.Model, kvType string) (cost calibrate.Model, bits int) {
	count := 0.0
	for i := range m.Weights {
		w := &m.Weights[i]
		if w.Part == modelconfig.Encoder || w.Part == modelconfig.Embedding && !m.Tied {
			continue
		}
		n := w.Count * float64(w.Times())
		count += n
		cost.WeightBytes += n * w.Bytes
		cost.Parameters += n * w.ActiveShare
	}
	kv := modelconfig.DType(kvType)
	if kv == "" || kv == "auto" {
		kv = m.KVType
	}
	bytes := kv.Bytes()
	if bytes == 0 {
		bytes = max(m.DType.Bytes(), 1)
	}
	for _, l := range m.Layers {
		switch l.Mixer {
		case modelconfig.Attention:
			cost.KVBytesPerToken += float64(m.KVHeads*(m.HeadDim+m.ValueDim)) * bytes
			cost.AttentionWidth += float64(m.Heads * m.HeadDim)
		case modelconfig.Latent:
			cost.KVBytesPerToken += float64(m.LatentRank+m.RopeDim) * bytes
			cost.AttentionWidth += float64(m.Heads * m.HeadDim)
		}
	}
	if count > 0 {
		bits = int(8*cost.WeightBytes/count + 0.5)
	}
	if bits > 8 && bits < 12 {
		bits = 8 // scales and unquantized parts beside 8-bit weights
	}
	return cost, bits
}
