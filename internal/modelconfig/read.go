package modelconfig

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Sources of defaults, for Assumption.
const (
	fromTransformers = "the default of transformers 5 for this model type"
	fromVLLM         = "what vLLM 0.23 takes (transformers_utils/model_arch_config_convertor.py)"
)

// Parse reads a config.json of at most MaxBytes. Errors name the field and carry a hint.
func Parse(content []byte) (*Model, error) { return parseAs(content, Loading{}) }

// parseAs reads a config.json as vLLM does with these arguments.
func parseAs(content []byte, loading Loading) (*Model, error) {
	object, err := decodeObject(content)
	if err != nil {
		return nil, fmt.Errorf("read model configuration: %w", err)
	}
	m := &Model{content: content}
	outer := &fields{raw: object, model: m, loading: loading}
	m.Type = outer.readText("model_type")
	name := outer.readText("_name_or_path")
	if !strings.HasPrefix(name, ".") && strings.Count(name, "/") == 1 && name[0] != '/' {
		m.Name = name
	}
	if a := outer.readTexts("architectures"); len(a) > 0 {
		m.Architecture = a[0]
	}
	if outer.readFlag("is_encoder_decoder", false) {
		return nil, hint.With(errors.New(
			"read model configuration: an encoder-decoder model, whose cross-attention is not modelled"),
			"the ledger is for decoder-only models, text or multimodal")
	}
	quant := outer.readObject("quantization_config")
	f := outer
	for _, name := range wrappers {
		if inner := outer.readObject(name); inner != nil {
			f = outer.enterTextModel(inner)
			break
		}
	}
	if quant == nil {
		quant = f.readObject("quantization_config")
	}
	if quant == nil {
		quant = outer.readObject("compression_config")
	}
	if quant, err = loading.quantizationOf(quant); err != nil {
		return nil, err
	}
	f.readModel(quant)
	if f.problem == nil && !loading.TextOnly {
		f.estimateEncoder(outer.readObject("vision_config"))
	}
	if f.problem != nil {
		return nil, hint.With(fmt.Errorf("read model configuration: %w", f.problem),
			"give the model's config.json, as Hugging Face has it beside the weights; "+
				"what it must have is in docs/tune-inputs.md")
	}
	return m, nil
}

// enterTextModel returns the fields of the text model in a multimodal model. It takes some that are missing there from
// the whole model.
func (f *fields) enterTextModel(raw map[string]any) *fields {
	in := &fields{raw: raw, model: f.model, loading: f.loading}
	for _, name := range []string{"torch_dtype", "dtype", "tie_word_embeddings"} {
		if v := f.raw[name]; v != nil && raw[name] == nil {
			raw[name] = v
		}
	}
	if t := in.readText("model_type"); t != "" {
		f.model.Type = t
	}
	return in
}

func (f *fields) readModel(quant map[string]any) {
	m := f.model
	fam, known := families()[m.Type]
	m.Known = known
	if !known {
		fam = f.guessFamily()
	}
	m.Hidden = f.requireInt(maxSize, "hidden_size", "n_embd", "d_model", "dim")
	m.Vocab = f.requireInt(maxVocab, "vocab_size")
	m.MaxPositions = f.readOptional(maxLen, "max_position_embeddings", "n_positions", "max_seq_len",
		"max_sequence_length", "seq_length", "model_max_length")
	if m.MaxPositions == 0 {
		m.MaxPositions = 2048
		f.noteAssumption("max_position_embeddings", "2048",
			"vLLM's default length (config/model.py, _get_and_verify_max_len)")
	}
	f.readDType()
	m.Tied = f.readFlag("tie_word_embeddings", fam.Tied)
	if !f.has("tie_word_embeddings") {
		f.noteAssumption("tie_word_embeddings", fmt.Sprint(fam.Tied), fromTransformers)
	}
	f.readQuantization(quant)
	f.readLayers(fam)
	if f.problem != nil {
		return
	}
	f.readAttention(fam)
	f.readFeedForward(fam)
	f.readState(fam)
	f.readRope(fam)
	if f.problem == nil {
		b := &builder{fields: f, family: fam, index: map[weightKey]int{}}
		b.addModel()
	}
}

func (f *fields) readDType() {
	m := f.model
	name := cmp.Or(f.readText("torch_dtype"), f.readText("dtype"))
	m.DType = DType(strings.TrimPrefix(name, "torch."))
	switch {
	case f.loading.DType != "":
		m.DType = f.loading.DType
	case name == "":
		m.DType = "bfloat16"
		f.noteAssumption("torch_dtype", "bfloat16",
			"vLLM's dtype=auto uses half precision by default (config/model.py)")
	case m.DType == "float32":
		m.DType = "bfloat16"
		f.noteAssumption("torch_dtype", "bfloat16 for float32", "vLLM's dtype=auto halves float32 (config/model.py)")
	case m.DType.Bytes() != 2:
		f.failField("torch_dtype is %s: want bfloat16, float16 or float32", quoteShort(name))
	}
}

// guessFamily makes a family for an unknown model type, by the fields that its configuration has.
func (f *fields) guessFamily() family {
	m := f.model
	fam := family{Mixer: Attention, Window: "alternate"}
	if f.has("kv_lora_rank") && f.has("qk_rope_head_dim") {
		fam.Mixer = Latent
	}
	for _, name := range []string{"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"} {
		if f.readOptional(maxCount, name) > 0 {
			fam.Experts = name
			fam.Sparse = "first-dense"
			if fam.ExpertWidth = "moe_intermediate_size"; !f.has(fam.ExpertWidth) {
				fam.ExpertWidth = "intermediate_size"
			}
			if f.has("n_shared_experts") {
				fam.Shared = "count"
			}
			break
		}
	}
	m.Unknown = append(m.Unknown, fmt.Sprintf("the model type %s: fields are read by their common names; "+
		"biases and additional norms are not counted, and the MLP may have two matrices instead of three",
		quoteShort(m.Type)))
	unusual := []string{ // beginnings of the names of fields about other layers than attention
		"mamba", "ssm", "linear_", "rwkv", "conv", "recurrent", "lru",
		"indexer", "index_", "compress", "attention_chunk", "kv_shared",
	}
	var signs []string
	for name := range f.raw {
		for _, p := range unusual {
			if strings.HasPrefix(name, p) || strings.Contains(name, "_"+p) {
				signs = append(signs, name)
				break
			}
		}
	}
	if len(signs) > 0 {
		slices.Sort(signs)
		shown := signs[:min(len(signs), 4)]
		for i := range shown {
			shown[i] = strings.Trim(quoteShort(shown[i]), `"`)
		}
		m.Unknown = append(m.Unknown,
			fmt.Sprintf("the meaning of %s: all layers are assumed to attend to the whole context, an upper bound "+
				"of the KV cache; recurrent states and other caches are not counted", strings.Join(shown, ", ")))
	}
	return fam
}

func (f *fields) readLayers(fam family) {
	m := f.model
	types := f.readTexts("layer_types")
	if len(types) == 0 {
		types = f.readTexts("layers_block_type")
	}
	if m.Type == "nemotron_h" {
		f.readPattern(types)
		return
	}
	n := f.requireInt(maxLayers, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
	if f.problem != nil {
		return
	}
	if len(types) > 0 && len(types) != n {
		f.failField("layer_types has %d entries for %d layers", len(types), n)
		return
	}
	window := f.readWindow(fam)
	sparse, full := f.sparseLayers(fam), 1
	if len(types) == 0 && fam.Mixer == DeltaNet {
		full = max(f.readOr("full_attention_interval", maxLayers, 4, fromTransformers), 1)
	}
	for i := range n {
		l := Layer{Mixer: fam.Mixer, FFN: Dense}
		if sparse(i) {
			l.FFN = MoE
		}
		f.setMixer(&l, i, types, full, window)
		m.Layers = append(m.Layers, l)
	}
	if m.Type == "granitemoehybrid" && len(types) == 0 {
		f.failField("layer_types is missing: it says which layers are Mamba and which attention")
	}
}

// setMixer sets the mixer and the window of layer i, by its type if layer_types has any.
func (f *fields) setMixer(l *Layer, i int, types []string, full int, window windows) {
	switch {
	case f.model.Type == "jamba":
		if i%max(f.readOptional(maxLayers, "attn_layer_period"), 1) == f.readOptional(maxLayers, "attn_layer_offset") {
			l.Mixer = Attention
		}
	case l.Mixer.Recurrent():
		if len(types) > 0 {
			if types[i] == "full_attention" || types[i] == "attention" {
				l.Mixer = Attention
			}
		} else if l.Mixer == DeltaNet && (i+1)%full == 0 {
			l.Mixer = Attention
		}
	case l.Mixer == Attention && len(types) > 0:
		switch types[i] {
		case "sliding_attention":
			l.Window = window.size
		case "full_attention", "attention", "global_attention":
		default:
			f.noteUnknownLayer(types[i])
		}
	default:
		if window.at(i) {
			l.Window = window.size
		}
	}
}

func (f *fields) noteUnknownLayer(kind string) {
	text := fmt.Sprintf("layers of type %s: they are assumed to attend to the whole context", quoteShort(kind))
	if !slices.Contains(f.model.Unknown, text) {
		f.model.Unknown = append(f.model.Unknown, text)
	}
}

// readPattern reads NemotronH's layers, each either a mixer or a feed-forward part: M, *, - and E
// in hybrid_override_pattern.
func (f *fields) readPattern(types []string) {
	m := f.model
	if p := f.readText("hybrid_override_pattern"); len(types) == 0 && p != "" {
		for _, c := range p {
			types = append(types, string(c))
		}
	}
	if len(types) == 0 {
		f.failField("hybrid_override_pattern is missing")
	}
	if len(types) > maxLayers {
		f.failField("%d layers", len(types))
		return
	}
	for _, t := range types {
		switch t {
		case "M", "mamba":
			m.Layers = append(m.Layers, Layer{Mixer: Mamba2})
		case "*", "attention":
			m.Layers = append(m.Layers, Layer{Mixer: Attention})
		case "-", "mlp":
			m.Layers = append(m.Layers, Layer{FFN: Dense})
		case "E", "moe":
			m.Layers = append(m.Layers, Layer{FFN: MoE})
		default:
			f.failField("hybrid_override_pattern has %s: want M, *, - or E", quoteShort(t))
		}
	}
}

// windows says which layers have a sliding window, and its size in tokens.
type windows struct {
	size int
	at   func(layer int) bool
}

func (f *fields) readWindow(fam family) windows {
	never := windows{at: func(int) bool { return false }}
	size := f.readOptional(maxLen, "sliding_window")
	if size == 0 || fam.Window == "" {
		return never
	}
	w := windows{size: size}
	switch fam.Window {
	case "every":
		w.at = func(int) bool { return true }
	case "use":
		if !f.readFlag("use_sliding_window", false) {
			return never
		}
		from := f.readOptional(maxLayers, "max_window_layers")
		w.at = func(i int) bool { return i >= from }
	case "alternate":
		if !f.model.Known && len(f.readTexts("layer_types")) == 0 {
			f.model.Unknown = append(f.model.Unknown, fmt.Sprintf("the layers with the sliding window of %d tokens: "+
				"it is assumed that none has it, an upper bound of the KV cache", size))
			return never
		}
		w.at = func(i int) bool { return i%2 == 0 }
	case "pattern6":
		every := 1
		if len(f.readTexts("layer_types")) == 0 {
			every = max(f.readOr("sliding_window_pattern", maxLayers, 6, fromTransformers), 1)
		}
		w.at = func(i int) bool { return (i+1)%every != 0 }
	}
	return w
}

// sparseLayers returns which layers have experts.
func (f *fields) sparseLayers(fam family) func(layer int) bool {
	if fam.Experts == "" || f.readOptional(maxCount, fam.Experts) == 0 && (f.has(fam.Experts) || fam.Shared == "mlp") {
		return func(int) bool { return false }
	}
	switch fam.Sparse {
	case "step":
		step, dense := max(f.readOptional(maxLayers, "decoder_sparse_step"), 1), f.readIndexes("mlp_only_layers")
		return func(i int) bool { return (i+1)%step == 0 && !dense[i] }
	case "first-dense":
		first, every := f.readOptional(maxLayers,
			"first_k_dense_replace"), max(f.readOptional(maxLayers, "moe_layer_freq"), 1)
		return func(i int) bool { return i >= first && i%every == 0 }
	case "interleaved":
		if listed := f.readIndexes("moe_layers"); len(listed) > 0 {
			return func(i int) bool { return listed[i] }
		}
		step := max(f.readOptional(maxLayers, "interleave_moe_layer_step"), 1)
		return func(i int) bool { return (i+1)%step == 0 }
	case "period":
		every, at := max(f.readOptional(maxLayers, "expert_layer_period"), 1), f.readOptional(maxLayers,
			"expert_layer_offset")
		return func(i int) bool { return i%every == at }
	}
	return func(int) bool { return true }
}

func (f *fields) readAttention(fam family) {
	m := f.model
	if m.CountLayers(func(l Layer) bool { return l.Mixer == Attention || l.Mixer == Latent }) == 0 {
		return
	}
	m.Heads = f.requireInt(maxCount, "num_attention_heads", "n_head", "n_heads")
	if f.problem != nil {
		return
	}
	if fam.Mixer == Latent {
		m.LatentRank = f.requireInt(maxSize, "kv_lora_rank")
		m.RopeDim = f.requireInt(maxSize, "qk_rope_head_dim")
		m.HeadDim = f.requireInt(maxSize, "qk_nope_head_dim") + m.RopeDim
		m.ValueDim = f.requireInt(maxSize, "v_head_dim")
		m.KVHeads = 1
		if m.IndexDim = f.readOptional(maxSize, "index_head_dim"); m.IndexDim > 0 {
			m.IndexHeads = f.requireInt(maxCount, "index_n_heads")
		}
		return
	}
	m.KVHeads = f.readOptional(maxCount,
		"num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num", "num_attention_groups")
	if m.KVHeads == 0 {
		m.KVHeads = m.Heads
		f.noteAssumption("num_key_value_heads", itoa(m.Heads), "as many as attention heads: "+fromVLLM)
	}
	if m.HeadDim = f.readOptional(maxSize, "head_dim", "attention_head_dim", "hidden_size_per_head"); m.HeadDim == 0 {
		if fam.HeadDim > 0 {
			m.HeadDim = fam.HeadDim
			f.noteAssumption("head_dim", itoa(fam.HeadDim), fromTransformers)
		} else {
			m.HeadDim = m.Hidden / m.Heads
			f.noteAssumption("head_dim", itoa(m.HeadDim), "hidden_size / num_attention_heads: "+fromVLLM)
		}
	}
	if m.HeadDim == 0 {
		f.failField("hidden_size %d is less than num_attention_heads %d", m.Hidden, m.Heads)
	}
	f.readGlobalHeads(fam)
	m.ValueDim = m.HeadDim
	if v := f.readOptional(maxSize, "v_head_dim"); v > 0 && !m.Known {
		m.ValueDim = v
	}
}

// readGlobalHeads reads the heads of layers without a window, which may differ (Gemma 4). HeadDim and KVHeads are then
// those that keep more in the cache.
func (f *fields) readGlobalHeads(fam family) {
	m := f.model
	m.local = headSizes{m.HeadDim, m.KVHeads}
	m.global = m.local
	if headDim := f.readOptional(maxSize, "global_head_dim"); headDim > 0 {
		m.global.dim = headDim
		if n := f.readOptional(maxCount, "num_global_key_value_heads"); n > 0 && f.readFlag("attention_k_eq_v", false) {
			m.global.kv = n
		}
	}
	for i, l := range m.Layers { // as transformers 5.19 writes it
		if own, ok := f.readObject("per_layer_config")[itoa(i)].(map[string]any); ok && l.Window == 0 {
			layer := fields{raw: own, model: m}
			headDim, kv := layer.readOptional(maxSize, "head_dim"), layer.readOptional(maxCount, "num_key_value_heads")
			m.global = headSizes{cmp.Or(headDim, m.global.dim), cmp.Or(kv, m.global.kv)}
			break
		}
	}
	if m.global.dim*m.global.kv > m.local.dim*m.local.kv {
		m.HeadDim, m.KVHeads = m.global.dim, m.global.kv
	}
	if m.global != m.local {
		m.Unknown = append(m.Unknown, fmt.Sprintf("layers with heads of two sizes (%d × %d and %d × %d): "+
			"the cache is computed with the larger ones, an upper bound",
			m.local.kv, m.local.dim, m.global.kv, m.global.dim))
	}
	first := len(m.Layers) - f.readOptional(maxLayers, "num_kv_shared_layers")
	for i := max(first, 0); i < len(m.Layers) && first > 0; i++ {
		m.Layers[i].Shared = true
	}
}

func (f *fields) readFeedForward(fam family) {
	m := f.model
	if m.CountLayers(func(l Layer) bool { return l.FFN == Dense }) > 0 {
		if fam.FFNWidth != "" {
			m.FFNWidth = f.requireInt(maxSize, fam.FFNWidth)
		} else {
			m.FFNWidth = f.readWidth()
		}
	}
	if m.CountLayers(func(l Layer) bool { return l.FFN == MoE }) == 0 {
		return
	}
	experts, width := fam.Experts, fam.ExpertWidth
	if m.Type == "nemotron_h" {
		experts, width = "n_routed_experts", "moe_intermediate_size"
	}
	m.Experts = f.requireInt(maxCount, experts)
	m.ExpertWidth = f.requireInt(maxSize, width, "intermediate_size")
	m.ExpertsTaken = f.requireInt(maxCount,
		"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "top_k_experts")
	if m.ExpertsTaken > m.Experts {
		f.failField("num_experts_per_tok %d is more than %s %d", m.ExpertsTaken, experts, m.Experts)
	}
	switch fam.Shared {
	case "field":
		m.SharedWidth = f.readOptional(maxSize, "shared_expert_intermediate_size")
	case "count":
		m.SharedWidth = f.readOptional(maxCount, "n_shared_experts") * m.ExpertWidth
	case "dense":
		m.SharedWidth = f.readOptional(maxSize, "shared_intermediate_size")
	case "one":
		m.SharedWidth = m.ExpertWidth
	case "mlp":
		m.SharedWidth = f.readWidth()
	}
	if m.Type == "nemotron_h" {
		m.SharedWidth = f.readOptional(maxCount, "n_shared_experts") * f.readOptional(maxSize,
			"moe_shared_expert_intermediate_size")
		if f.has("moe_latent_size") {
			m.Unknown = append(m.Unknown, "experts in a latent space (moe_latent_size): "+
				"their parameters are computed with the hidden size, an upper bound")
		}
	}
}

// readWidth returns the width of a dense feed-forward part.
func (f *fields) readWidth() int {
	if n := f.readOptional(maxSize, "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim"); n > 0 {
		return n
	}
	if f.model.Known {
		return f.requireInt(maxSize, "intermediate_size")
	}
	f.noteAssumption("intermediate_size", itoa(4*f.model.Hidden),
		"four times hidden_size, the usual width of a plain MLP")
	return min(4*f.model.Hidden, maxSize)
}

// readState reads the size of a recurrent layer's state, with the shapes of vLLM's MambaStateShapeCalculator
// (model_executor/layers/mamba/mamba_utils.py).
func (f *fields) readState(fam family) {
	m := f.model
	if !m.HasRecurrent() {
		return
	}
	s := &m.State
	s.DType = cmp.Or(fam.StateDType, m.DType)
	for _, name := range []string{"mamba_ssm_cache_dtype", "mamba_ssm_dtype"} {
		if t := DType(f.readText(name)); t.Bytes() >= 2 {
			s.DType = t
		}
	}
	switch {
	case m.Type == "jamba":
		inner := f.readOr("mamba_expand", 64, 2, fromTransformers) * m.Hidden
		s.ConvChannels, s.ConvWidth = inner, f.readOr("mamba_d_conv", maxCount, 4, fromTransformers)
		s.Values = float64(inner) * float64(f.readOr("mamba_d_state", maxCount, 16, fromTransformers))
	case m.Type == "nemotron_h":
		heads, headDim := f.requireInt(maxCount, "mamba_num_heads"), f.requireInt(maxSize, "mamba_head_dim")
		groups := f.readOr("n_groups", maxCount, 8, fromTransformers)
		stateSize := f.readOr("ssm_state_size", maxCount, 128, fromTransformers)
		f.setMamba2(heads, headDim, groups, stateSize, f.readOr("conv_kernel", maxCount, 4, fromTransformers))
	case fam.Mixer == Mamba2:
		heads := f.requireInt(maxCount, "mamba_n_heads")
		inner := f.readOr("mamba_expand", 64, 2, fromTransformers) * m.Hidden
		groups := f.readOr("mamba_n_groups", maxCount, 1, fromTransformers)
		stateSize := f.readOr("mamba_d_state", maxCount, 256, fromTransformers)
		width := f.readOr("mamba_d_conv", maxCount, 4, fromTransformers)
		f.setMamba2(heads, inner/max(heads, 1), groups, stateSize, width)
	default: // DeltaNet
		keys := f.requireInt(maxCount, "linear_num_key_heads") * f.requireInt(maxSize, "linear_key_head_dim")
		values := f.requireInt(maxCount, "linear_num_value_heads") * f.requireInt(maxSize, "linear_value_head_dim")
		s.ConvChannels, s.ConvWidth = 2*keys+values, f.readOr("linear_conv_kernel_dim", maxCount, 4, fromTransformers)
		s.Values = float64(values) * float64(f.readOptional(maxSize, "linear_key_head_dim"))
	}
	if fam.StateCaching {
		s.ChunkTokens = f.readOptional(maxSize, "mamba_chunk_size", "chunk_size")
	}
	if s.ConvWidth < 1 {
		f.failField("the width of the convolution is 0")
	}
}

func (f *fields) setMamba2(heads, headDim, groups, stateSize, width int) {
	s := &f.model.State
	s.ConvChannels, s.ConvWidth = heads*headDim, width
	s.Groups, s.GroupChannels = groups, 2*stateSize
	s.Values = float64(heads) * float64(headDim) * float64(stateSize)
}

// readRope computes the size of the tables of rotary positions, which vLLM keeps beside the weights
// (model_executor/layers/rotary_embedding).
func (f *fields) readRope(fam family) {
	m := f.model
	if m.Heads == 0 || fam.NoRope || f.readText("position_embedding_type") == "nope" {
		return
	}
	m.RopeWidth = m.HeadDim
	if fam.Mixer == Latent {
		m.RopeWidth = m.RopeDim
	}
	scaling := f.readObject("rope_scaling")
	if scaling == nil {
		scaling = f.readObject("rope_parameters")
	}
	for _, o := range []map[string]any{f.raw, scaling} {
		if p, ok := o["partial_rotary_factor"].(float64); ok && p > 0 && p <= 1 {
			m.RopeWidth = int(math.Ceil(p * float64(m.RopeWidth)))
		}
	}
	m.RopeRows = m.MaxPositions
	original, _ := scaling["original_max_position_embeddings"].(float64)
	factor, _ := scaling["factor"].(float64)
	rope := fields{raw: scaling}
	yarn := strings.Contains(cmp.Or(rope.readText("rope_type"), rope.readText("type")), "yarn")
	if yarn && original > 0 && factor > 0 && original*factor < maxLen {
		m.RopeRows = int(original * factor)
	}
	m.RopeRows *= max(fam.RopeTables, 1)
}

// estimateEncoder estimates the weights of a vision tower by its sizes, as if it were a plain transformer.
func (f *fields) estimateEncoder(vision map[string]any) {
	if vision == nil {
		return
	}
	v := &fields{raw: vision, model: f.model}
	h := float64(v.readOptional(maxSize, "hidden_size", "embed_dim", "width"))
	n := float64(v.readOptional(maxLayers, "num_hidden_layers", "depth", "layers"))
	width := float64(v.readOptional(maxSize, "intermediate_size"))
	if width == 0 {
		width = 4 * h
	}
	if v.problem != nil || h == 0 || n == 0 {
		f.model.Unknown = append(f.model.Unknown, "the encoder of images: its weights are not counted")
		return
	}
	f.model.Weights = append(f.model.Weights, Weight{
		Part: Encoder, Name: "vision tower", Count: n * (4*h*h + 2*h*width), ActiveShare: 0, Split: Replicated,
		Bytes: 2, Low: 0.5, High: 4,
	})
	f.model.Unknown = append(f.model.Unknown, "the encoder of images: its weights are estimated from its sizes, "+
		"and its activations and cache are not counted")
}
