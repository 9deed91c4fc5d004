package modelconfig

// family is what distinguishes the architectures of a kind that are otherwise
// built alike: attention, then a feed-forward part, with norms before each.
type family struct {
	mixer  Mixer // of layers that nothing else says otherwise of
	bias   biases
	qkNorm norm
	norms  int  // of the hidden size, in a layer; 0 means 2
	plain  bool // the MLP has two matrices, not three with a gate

	experts      string // field with their number; "" for a dense model
	expertWidth  string
	shared       sharedWidth
	sparse       sparsity
	expertBias   bool // gpt-oss
	scoreBias    bool // a bias that corrects the router's scores (DeepSeek-V3)
	window       windowRule
	tied         bool // tie_word_embeddings where it is missing
	headDim      int  // head_dim where it is missing; 0 is hidden_size / heads
	sinks        bool // a learned value for each head (gpt-oss)
	gatedQuery   bool // the query projection also gives an output gate (Qwen3-Next)
	stateDType   DType
	stateCaching bool // vLLM caches its states at all block boundaries (SupportsMambaPrefixCaching)
}

type biases struct{ qkv, output bool }

type norm uint8

const (
	noNorm       norm = iota
	headNorm          // over a head
	wideNorm          // over all heads together
	optionalNorm      // over a head, if use_qk_norm
)

type windowRule uint8

const (
	noWindow    windowRule = iota
	everyWindow            // all layers, if sliding_window is set
	useWindow              // those from max_window_layers, if use_sliding_window
	alternate              // layer_types, or every second layer
	pattern6               // layer_types, or all but every sixth (sliding_window_pattern)
)

type sparsity uint8

const (
	everyLayer  sparsity = iota
	sparseStep           // decoder_sparse_step and mlp_only_layers (Qwen)
	firstDense           // first_k_dense_replace and moe_layer_freq (DeepSeek)
	period               // expert_layer_period and expert_layer_offset (Jamba)
	interleaved          // moe_layers, or every interleave_moe_layer_step-th (Llama 4)
)

type sharedWidth uint8

const (
	noShared    sharedWidth = iota
	sharedField             // shared_expert_intermediate_size, with a gate (Qwen)
	sharedCount             // n_shared_experts × moe_intermediate_size (DeepSeek)
	sharedDense             // shared_intermediate_size (Granite)
	sharedOne               // one more expert (Llama 4)
	sharedMLP               // the dense MLP, beside the experts (Gemma 4)
)

// families are the model types that are understood, by model_type.
var families = map[string]family{
	"llama":       {mixer: Attention},
	"mistral":     {mixer: Attention, window: everyWindow},
	"ministral3":  {mixer: Attention, window: everyWindow},
	"phi3":        {mixer: Attention, window: everyWindow},
	"qwen2":       {mixer: Attention, bias: biases{qkv: true}, window: useWindow},
	"qwen3":       {mixer: Attention, qkNorm: headNorm, window: useWindow},
	"smollm3":     {mixer: Attention, tied: true, window: useWindow},
	"granite":     {mixer: Attention},
	"gemma":       {mixer: Attention, tied: true, headDim: 256},
	"gemma2":      {mixer: Attention, norms: 4, tied: true, headDim: 256, window: alternate},
	"gemma3_text": {mixer: Attention, norms: 4, qkNorm: headNorm, tied: true, headDim: 256, window: pattern6},
	"gemma4_text": {
		mixer: Attention, norms: 4, qkNorm: headNorm, tied: true, headDim: 256, window: pattern6,
		experts: "num_experts", expertWidth: "moe_intermediate_size", shared: sharedMLP,
	},
	"olmo2":         {mixer: Attention, qkNorm: wideNorm},
	"olmo3":         {mixer: Attention, qkNorm: wideNorm, window: alternate},
	"exaone4":       {mixer: Attention, qkNorm: headNorm, window: alternate},
	"seed_oss":      {mixer: Attention, bias: biases{qkv: true}, headDim: 128},
	"ernie4_5":      {mixer: Attention},
	"qwen3_vl_text": {mixer: Attention, qkNorm: headNorm},

	"mixtral":   {mixer: Attention, experts: "num_local_experts", expertWidth: "intermediate_size", window: everyWindow},
	"qwen2_moe": {mixer: Attention, bias: biases{qkv: true}, experts: "num_experts", expertWidth: "moe_intermediate_size", shared: sharedField, sparse: sparseStep, window: useWindow},
	"qwen3_moe": {mixer: Attention, qkNorm: headNorm, experts: "num_experts", expertWidth: "moe_intermediate_size", sparse: sparseStep},
	"glm4_moe":  {mixer: Attention, qkNorm: optionalNorm, experts: "n_routed_experts", expertWidth: "moe_intermediate_size", shared: sharedCount, sparse: firstDense, scoreBias: true},
	"gpt_oss": {
		mixer: Attention, bias: biases{true, true}, experts: "num_local_experts", expertWidth: "intermediate_size", expertBias: true, sinks: true,
		headDim: 64, window: alternate,
	},

	"deepseek_v2": {mixer: Latent, experts: "n_routed_experts", expertWidth: "moe_intermediate_size", shared: sharedCount, sparse: firstDense},
	"deepseek_v3": {mixer: Latent, experts: "n_routed_experts", expertWidth: "moe_intermediate_size", shared: sharedCount, sparse: firstDense, scoreBias: true},
	"kimi_k2":     {mixer: Latent, experts: "n_routed_experts", expertWidth: "moe_intermediate_size", shared: sharedCount, sparse: firstDense, scoreBias: true},

	"deepseek_v32": {mixer: Latent, experts: "n_routed_experts", expertWidth: "moe_intermediate_size", shared: sharedCount, sparse: firstDense, scoreBias: true},
	"glm_moe_dsa":  {mixer: Latent, experts: "n_routed_experts", expertWidth: "moe_intermediate_size", shared: sharedCount, sparse: firstDense, scoreBias: true},

	"llama4_text":       {mixer: Attention, experts: "num_local_experts", expertWidth: "intermediate_size", shared: sharedOne, sparse: interleaved},
	"minimax_m2":        {mixer: Attention, qkNorm: wideNorm, experts: "num_local_experts", expertWidth: "intermediate_size", scoreBias: true},
	"qwen3_vl_moe_text": {mixer: Attention, qkNorm: headNorm, experts: "num_experts", expertWidth: "moe_intermediate_size", sparse: sparseStep},

	"jamba": {mixer: Mamba1, experts: "num_experts", expertWidth: "intermediate_size", sparse: period, stateCaching: true},
	"qwen3_next": {
		mixer: DeltaNet, qkNorm: headNorm, experts: "num_experts", expertWidth: "moe_intermediate_size", shared: sharedField, sparse: sparseStep,
		headDim: 256, gatedQuery: true,
	},
	"qwen3_5_text": {mixer: DeltaNet, qkNorm: headNorm, headDim: 256, gatedQuery: true, stateDType: "float32"},
	"qwen3_5_moe_text": {
		mixer: DeltaNet, qkNorm: headNorm, experts: "num_experts", expertWidth: "moe_intermediate_size", shared: sharedField,
		headDim: 256, gatedQuery: true, stateDType: "float32",
	},
	"granitemoehybrid": {mixer: Mamba2, experts: "num_local_experts", expertWidth: "intermediate_size", shared: sharedDense, stateCaching: true},
	"nemotron_h":       {mixer: Mamba2, plain: true, headDim: 128, stateDType: "float32", stateCaching: true},
}

// wrappers are fields that hold the text model of a multimodal one.
var wrappers = []string{"text_config", "llm_config", "language_config"}
