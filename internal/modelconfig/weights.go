package modelconfig

import (
	"cmp"
	"fmt"
)

// A builder lists the weights of a model, layer by layer.
type builder struct {
	*fields
	family family
	index  map[weightKey]int // in Model.Weights
}

// A weightKey is what the layers of a Weight have in common, with its Count.
type weightKey struct {
	part  Component
	name  string
	bytes float64
	split Split
}

// addWeight adds a parameter of a layer; layer −1 stands for a parameter that the model has once.
func (b *builder) addWeight(w Weight, layer int) {
	if w.Count == 0 {
		return
	}
	if w.ActiveShare == 0 {
		w.ActiveShare = 1
	}
	m := b.fields.model
	key := weightKey{w.Part, w.Name, w.Bytes, w.Split}
	if i, ok := b.index[key]; ok && layer >= 0 && m.Weights[i].Count == w.Count {
		m.Weights[i].Layers = append(m.Weights[i].Layers, layer)
		return
	}
	if layer >= 0 {
		w.Layers = []int{layer}
	}
	b.index[key] = len(m.Weights)
	m.Weights = append(m.Weights, w)
}

// addVector adds parameters that are never quantized.
func (b *builder) addVector(part Component, name string, layer, count int, split Split) {
	size := b.fields.model.DType.Bytes()
	b.addWeight(Weight{Part: part, Name: name, Count: float64(count), Split: split, Bytes: size, Low: size, High: size},
		layer)
}

// addLinear adds a matrix, which is quantized if the checkpoint's linear layers are.
func (b *builder) addLinear(part Component, name string, layer, in, out int, split Split) {
	b.addMatrices(part, name, layer, 1, in, out, split, 1)
}

// addMatrices adds copies of a matrix, such as one for each expert. active is the share of them that a token uses.
func (b *builder) addMatrices(part Component, name string, layer, copies, in, out int, split Split, active float64) {
	m := b.fields.model
	w := Weight{
		Part: part, Name: name, Split: split, ActiveShare: active,
		in: in, out: out, copies: copies,
		Count: float64(copies) * float64(in) * float64(out),
	}
	plain := m.DType.Bytes()
	w.Bytes, w.Low, w.High = plain, plain, plain
	q := &m.Quant
	quantized := q.Method != "" && part != RouterPart && (!q.ExpertsOnly || part == Experts) &&
		!q.ignoresModule(fmt.Sprintf("layers.%d.%s", layer, name))
	if quantized {
		w.Bytes, w.Low, w.High = q.bytesPerWeight(in, out, plain)
		if q.Padded {
			// Kernels of MXFP4 pad both dimensions to a multiple of 128 or 256, or none
			// (model_executor/layers/fused_moe/oracle/mxfp4.py@v0.23.0). Bytes is for Triton's
			// layout on Hopper, which pads the values along the inputs.
			padIn, padOut := PaddingFactor(in, 256), PaddingFactor(out, 256)
			w.High = w.Bytes * padIn * padOut
			w.Bytes = q.Bits/8*padIn + q.ScaleBytes/float64(q.Group)
		}
	}
	if !m.Known && name == "mlp.gate_proj" {
		w.Low = 0 // the MLP may have no gate
	}
	b.addWeight(w, layer)
}

// PaddingFactor returns the factor by which n grows if it is rounded up to a multiple.
func PaddingFactor(n, multiple int) float64 {
	return float64((n+multiple-1)/multiple*multiple) / float64(n)
}

func (b *builder) addModel() {
	m := b.fields.model
	embed := Weight{
		Part: Embedding, Name: "embed_tokens", Count: float64(m.Vocab) * float64(m.Hidden), Split: Vocabulary,
	}
	embed.Bytes = m.DType.Bytes()
	embed.Low, embed.High = embed.Bytes, embed.Bytes
	b.addWeight(embed, -1)
	for i, l := range m.Layers {
		switch l.Mixer {
		case Attention:
			b.addAttention(i)
		case Latent:
			b.addLatent(i)
		case Mamba1:
			b.addMamba1(i)
		case Mamba2:
			b.addMamba2(i)
		case DeltaNet:
			b.addDeltaNet(i)
		}
		switch l.FFN {
		case Dense:
			width := m.FFNWidth
			if l.Shared && b.readFlag("use_double_wide_mlp", false) {
				width *= 2
			}
			b.addMLP(MLP, "mlp", i, width)
		case MoE:
			b.addExperts(i)
		}
		b.addPerLayerInput(i)
		b.addVector(Norms, "norms", i, cmp.Or(b.family.Norms, 2)*m.Hidden, Replicated)
	}
	b.addVector(Norms, "final norm", -1, m.Hidden, Replicated)
	if !m.Tied {
		head := embed
		head.Part, head.Name = Head, "lm_head"
		b.addWeight(head, -1)
	}
}

// addPerLayerInput adds an embedding for each layer (Gemma 3n and 4).
func (b *builder) addPerLayerInput(i int) {
	m := b.fields.model
	size := b.readOptional(maxSize, "hidden_size_per_layer_input")
	if size == 0 {
		return
	}
	if i == 0 {
		rows, width := max(b.readOptional(maxVocab, "vocab_size_per_layer_input"), m.Vocab), len(m.Layers)*size
		bytes := m.DType.Bytes()
		b.addWeight(Weight{
			Part: Embedding, Name: "embed_tokens_per_layer", Count: float64(rows) * float64(width),
			Split: Vocabulary, Bytes: bytes, Low: bytes, High: bytes,
		}, -1)
		b.addVector(MLP, "per_layer_model_projection", -1, m.Hidden*width, Divided)
		b.addVector(Norms, "per-layer projection norm", -1, size, Replicated)
	}
	b.addLinear(MLP, "per_layer_input_gate", i, m.Hidden, size, Replicated)
	b.addLinear(MLP, "per_layer_projection", i, size, m.Hidden, Replicated)
	b.addVector(Norms, "per-layer norm", i, m.Hidden, Replicated)
}

func (b *builder) addAttention(i int) {
	m, qkvBias, outputBias := b.fields.model, b.family.QKVBias, b.family.OutputBias
	if b.readFlag("attention_bias", false) || b.readFlag("qkv_bias", false) {
		qkvBias = true
		onOutput := b.readFlag("attention_out_bias", b.readFlag("attention_bias", false))
		outputBias = outputBias || onOutput && b.family.Experts == "" // GLM's output has no bias
	}
	headDim, kvHeads := m.HeadsOf(m.Layers[i])
	valueDim := m.ValueDim
	if m.global != m.local {
		valueDim = headDim
	}
	q, kv := m.Heads*headDim, kvHeads*headDim
	qWithGate := q
	if b.family.GatedQuery {
		qWithGate = 2 * q
	}
	b.addLinear(Mixing, "self_attn.q_proj", i, m.Hidden, qWithGate, Divided)
	if !m.Layers[i].Shared {
		b.addLinear(Mixing, "self_attn.k_proj", i, m.Hidden, kv, DividedHead)
		b.addLinear(Mixing, "self_attn.v_proj", i, m.Hidden, kvHeads*valueDim, DividedHead)
	}
	b.addLinear(Mixing, "self_attn.o_proj", i, m.Heads*valueDim, m.Hidden, Divided)
	if qkvBias {
		b.addVector(Mixing, "self_attn.bias", i, qWithGate+2*kv, Divided)
	}
	if outputBias {
		b.addVector(Mixing, "self_attn.o_proj.bias", i, m.Hidden, Replicated)
	}
	if b.family.QKNorm == "head" || b.family.QKNorm == "optional" && b.readFlag("use_qk_norm", false) {
		n := 2 * headDim
		if m.Layers[i].Shared {
			n = headDim
		}
		b.addVector(Norms, "q and k norm", i, n, Replicated)
	}
	if b.family.QKNorm == "wide" {
		b.addVector(Norms, "q and k norm", i, q+kv, Divided)
	}
	if b.family.Sinks {
		b.addVector(Mixing, "self_attn.sinks", i, m.Heads, Divided)
	}
}

func (b *builder) addLatent(i int) {
	m := b.fields.model
	nope := m.HeadDim - m.RopeDim
	if rank := b.readOptional(maxSize, "q_lora_rank"); rank > 0 {
		b.addLinear(Mixing, "self_attn.q_a_proj", i, m.Hidden, rank, Replicated)
		b.addVector(Norms, "q_a norm", i, rank, Replicated)
		b.addLinear(Mixing, "self_attn.q_b_proj", i, rank, m.Heads*m.HeadDim, Divided)
	} else {
		b.addLinear(Mixing, "self_attn.q_proj", i, m.Hidden, m.Heads*m.HeadDim, Divided)
	}
	b.addLinear(Mixing, "self_attn.kv_a_proj", i, m.Hidden, m.LatentRank+m.RopeDim, Replicated)
	b.addVector(Norms, "kv_a norm", i, m.LatentRank, Replicated)
	b.addLinear(Mixing, "self_attn.kv_b_proj", i, m.LatentRank, m.Heads*(nope+m.ValueDim), Divided)
	b.addLinear(Mixing, "self_attn.o_proj", i, m.Heads*m.ValueDim, m.Hidden, Divided)
	if m.IndexDim > 0 { // model_executor/models/deepseek_v2.py, Indexer
		b.addLinear(Mixing, "self_attn.indexer.wq_b", i, b.readOptional(maxSize, "q_lora_rank"),
			m.IndexHeads*m.IndexDim, Replicated)
		b.addLinear(Mixing, "self_attn.indexer.wk", i, m.Hidden, m.IndexDim, Replicated)
		b.addVector(Mixing, "self_attn.indexer.weights_proj", i, m.Hidden*m.IndexHeads, Replicated)
		b.addVector(Norms, "indexer norm", i, 2*m.IndexDim, Replicated)
	}
}

func (b *builder) addMLP(part Component, name string, i, width int) {
	m := b.fields.model
	if !b.family.Plain {
		b.addLinear(part, name+".gate_proj", i, m.Hidden, width, Divided)
	}
	b.addLinear(part, name+".up_proj", i, m.Hidden, width, Divided)
	b.addLinear(part, name+".down_proj", i, width, m.Hidden, Divided)
	if b.readFlag("mlp_bias", false) {
		b.addVector(part, name+".bias", i, 2*width+m.Hidden, Divided)
	}
}

func (b *builder) addExperts(i int) {
	m := b.fields.model
	active := float64(m.ExpertsTaken) / float64(m.Experts)
	if !b.family.Plain {
		b.addMatrices(Experts, "mlp.experts.gate_proj", i, m.Experts, m.Hidden, m.ExpertWidth, ExpertShare, active)
	}
	b.addMatrices(Experts, "mlp.experts.up_proj", i, m.Experts, m.Hidden, m.ExpertWidth, ExpertShare, active)
	b.addMatrices(Experts, "mlp.experts.down_proj", i, m.Experts, m.ExpertWidth, m.Hidden, ExpertShare, active)
	b.addLinear(RouterPart, "mlp.gate", i, m.Hidden, m.Experts, Replicated)
	if b.family.ExpertBias {
		b.addVector(RouterPart, "mlp.gate.bias", i, m.Experts, Replicated)
		b.addVector(Experts, "mlp.experts.bias", i, m.Experts*(2*m.ExpertWidth+m.Hidden), ExpertShare)
	}
	if b.family.ScoreBias {
		b.addVector(RouterPart, "mlp.gate.e_score_correction_bias", i, m.Experts, Replicated)
	}
	if b.family.Shared == "mlp" { // norms of both parts, and scales of the experts
		b.addVector(Norms, "norms of experts and MLP", i, 3*m.Hidden+m.Experts, Replicated)
		b.addVector(RouterPart, "router scale", i, m.Hidden, Replicated)
	}
	if m.SharedWidth > 0 {
		b.addMLP(SharedFFN, "mlp.shared_experts", i, m.SharedWidth)
		if b.family.Shared == "field" {
			b.addVector(RouterPart, "mlp.shared_expert_gate", i, m.Hidden, Replicated)
		}
	}
}

func (b *builder) addMamba1(i int) {
	m := b.fields.model
	inner := m.State.ConvChannels
	state := int(m.State.Values) / max(inner, 1)
	rank := b.readOptional(maxSize, "mamba_dt_rank")
	if rank == 0 {
		rank = (m.Hidden + 15) / 16 // "auto"
	}
	b.addLinear(Mixing, "mamba.in_proj", i, m.Hidden, 2*inner, Divided)
	b.addVector(Mixing, "mamba.conv1d", i, inner*(m.State.ConvWidth+1), Divided)
	b.addLinear(Mixing, "mamba.x_proj", i, inner, rank+2*state, Divided)
	b.addLinear(Mixing, "mamba.dt_proj", i, rank, inner, Divided)
	b.addVector(Mixing, "mamba.A, D, dt bias", i, inner*(state+2), Divided)
	b.addVector(Norms, "mamba norms", i, rank+2*state, Replicated)
	b.addLinear(Mixing, "mamba.out_proj", i, inner, m.Hidden, Divided)
}

func (b *builder) addMamba2(i int) {
	m, s := b.fields.model, b.fields.model.State
	inner, groups := s.ConvChannels, s.Groups*s.GroupChannels
	heads := b.readOptional(maxCount, "mamba_n_heads", "mamba_num_heads")
	b.addLinear(Mixing, "mixer.in_proj", i, m.Hidden, 2*inner+groups+heads, Divided)
	conv := (inner + groups) * s.ConvWidth
	if b.readFlag("mamba_conv_bias", true) && b.readFlag("use_conv_bias", true) {
		conv += inner + groups
	}
	b.addVector(Mixing, "mixer.conv1d", i, conv, Divided)
	b.addVector(Mixing, "mixer.A, D, dt bias", i, 3*heads, Divided)
	b.addVector(Norms, "mixer norm", i, inner, Divided)
	b.addLinear(Mixing, "mixer.out_proj", i, inner, m.Hidden, Divided)
}

func (b *builder) addDeltaNet(i int) {
	m, s := b.fields.model, b.fields.model.State
	heads := b.readOptional(maxCount, "linear_num_value_heads")
	values := heads * b.readOptional(maxSize, "linear_value_head_dim")
	b.addLinear(Mixing, "linear_attn.in_proj_qkvz", i, m.Hidden, s.ConvChannels+values, Divided)
	b.addLinear(Mixing, "linear_attn.in_proj_ba", i, m.Hidden, 2*heads, Divided)
	b.addVector(Mixing, "linear_attn.conv1d", i, s.ConvChannels*s.ConvWidth, Divided)
	b.addVector(Mixing, "linear_attn.A, dt bias", i, 2*heads, Divided)
	b.addVector(Norms, "linear_attn norm", i, b.readOptional(maxSize, "linear_value_head_dim"), Replicated)
	b.addLinear(Mixing, "linear_attn.out_proj", i, values, m.Hidden, Divided)
}
