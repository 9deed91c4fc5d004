package perfmodel

import (
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/render"
)

// A Line of the ledger is an amount of memory on one GPU: the GPU that holds the most of the model.
type Line struct {
	ID      string   `json:"id"` // "weights", "activations", …: stable
	Name    string   `json:"name"`
	Bytes   Estimate `json:"bytes"`
	Exact   bool     `json:"exact"`   // the bytes are known
	Formula string   `json:"formula"` // with numbers
	Source  string   `json:"source"`  // sources of the formula and its constants
}

// The ids of the lines.
const (
	LineTotal       = "total"
	LineRequested   = "requested"
	LineWeights     = "weights"
	LineTables      = "tables"
	LineAdapters    = "adapters"
	LineDraft       = "draft"
	LineActivations = "activations"
	LineGraphs      = "cuda_graphs"
	LineOther       = "other"
	LineKV          = "kv_cache"
)

// A Ledger lists the contents of a GPU's memory under some settings.
type Ledger struct {
	Model    *modelconfig.Model
	Settings Settings // resolved: every default is filled in
	Assumed  []string // defaults that were assumed, as sentences
	Lines    []Line
	KV       Layout

	Available Estimate // bytes for the KV cache on one GPU; negative if the model does not fit
	Capacity

	pipelineStage int     // whose GPUs the ledger describes
	offloaded     float64 // bytes of one GPU's weights that stay with the host
}

// Capacity is the room in the KV cache of one engine.
type Capacity struct {
	Blocks      Estimate `json:"num_gpu_blocks"`
	Tokens      Estimate `json:"capacity_tokens"`        // as the log line "GPU KV cache size" prints it
	Concurrency Estimate `json:"max_concurrency"`        // requests of max_model_len that fit, as the log prints it
	MaxLen      Estimate `json:"longest_request_tokens"` // the longest request that fits alone
}

// NewLedger computes the ledger of a model under settings. It returns an error, with a hint, for settings that vLLM
// would refuse, and if the memory is not known. A model that does not fit is no error: Available is then negative, and
// Remedies returns changes that make it fit.
func NewLedger(given *modelconfig.Model, asked Settings) (*Ledger, error) {
	s := asked
	m, err := s.loadModel(given)
	if err != nil {
		return nil, err
	}
	if err := s.resolveDefaults(m); err != nil {
		return nil, err
	}
	var worst *Ledger
	for stage := range s.PP {
		l := &Ledger{Model: m, Settings: s, Assumed: s.assumed, pipelineStage: stage}
		if l.KV, err = newLayout(m, &l.Settings, stage); err != nil {
			return nil, err
		}
		l.fillLines()
		if worst == nil || l.availableBlocks() < worst.availableBlocks() {
			worst = l
		}
	}
	worst.setCapacity()
	if longest := int(worst.MaxLen.Value); asked.LongestThatFits && worst.Concurrency.Value < 1 && longest >= 1 {
		asked.MaxModelLen, asked.LongestThatFits = longest, false
		asked.noteAssumption("max-model-len %d, the longest that the KV cache holds", longest)
		return NewLedger(given, asked)
	}
	return worst, nil
}

// availableBlocks is how many blocks fit on a GPU of the stage, which may be negative. The stage with the fewest
// decides for all of them (v1/core/kv_cache_utils.py, get_kv_cache_configs).
func (l *Ledger) availableBlocks() float64 {
	if l.KV.BytesPerBlock == 0 {
		return math.Inf(1)
	}
	return l.Available.Value / l.KV.BytesPerBlock
}

// fillLines adds the lines of the stage.
func (l *Ledger) fillLines() {
	s := &l.Settings
	switch {
	case s.KVBytes > 0:
		l.weightLines()
		l.Available = Exact(s.KVBytes)
		l.addLine(LineKV, "KV cache, as given", l.Available, "kv_cache_memory_bytes",
			"v1/worker/gpu_worker.py: the utilization is not looked at")
	case s.Memory.Value <= 0:
		l.weightLines()
		l.Available = Exact(float64(s.NumBlocksOverride) * l.KV.BytesPerBlock)
		l.addLine(LineKV, "KV cache, by its blocks", l.Available,
			fmt.Sprintf("%d × %.0f bytes", s.NumBlocksOverride, l.KV.BytesPerBlock),
			"num_gpu_blocks of the server; the GPU's memory is not known")
	default:
		l.fillFromMemory()
	}
}

func (l *Ledger) addLine(id, name string, v Estimate, formula, source string) {
	l.Lines = append(l.Lines, Line{id, name, v, v.Low == v.High, formula, source})
}

// Line returns a line by its id.
func (l *Ledger) Line(id string) (Line, bool) {
	for _, x := range l.Lines {
		if x.ID == id {
			return x, true
		}
	}
	return Line{}, false
}

// fillFromMemory fills the lines from the device's memory down to the rest for the KV cache.
func (l *Ledger) fillFromMemory() {
	s := &l.Settings
	l.addLine(LineTotal, "memory of "+s.deviceName(), s.Memory, "as reported by the driver",
		"logs of vLLM, see docs/lab/tune.md; otherwise the data sheet")
	requested := Estimate{s.Memory.Value * s.Utilization, s.Memory.Low * s.Utilization, s.Memory.High * s.Utilization}
	l.addLine(LineRequested, "requested", requested,
		fmt.Sprintf("%.4g × %s", s.Utilization, render.GiB(s.Memory.Value)), "v1/worker/utils.py, request_memory")
	l.weightLines()
	l.addActivations()
	l.addGraphs()
	l.addNonTorch()
	l.Available = requested
	for _, x := range l.Lines {
		switch x.ID {
		case LineWeights, LineTables, LineAdapters, LineDraft, LineActivations, LineGraphs, LineOther:
			l.Available = l.Available.minus(x.Bytes)
		}
	}
	l.addLine(LineKV, "left for the KV cache", l.Available, "requested − the lines above",
		"v1/worker/gpu_worker.py, determine_available_memory")
}

// weightLines adds the weights, and adapters and drafts beside them.
func (l *Ledger) weightLines() {
	m, s := l.Model, &l.Settings
	bytes := s.weightBytes(m, l.pipelineStage)
	formula := fmt.Sprintf("%s parameters, %s", render.Large(m.Total()), weightType(m))
	if s.TP*s.PP*s.DP > 1 {
		formula += fmt.Sprintf("; TP %d", s.TP)
	}
	if s.PP > 1 {
		formula += fmt.Sprintf(", stage %d of %d", l.pipelineStage+1, s.PP)
	}
	if s.dataParallelFlattens {
		formula += fmt.Sprintf(", experts over %d GPUs", s.TP*s.DP)
	}
	source := "config.json; layouts of vllm/model_executor"
	if l.offloaded = min(s.Offload, bytes.Value); l.offloaded > 0 {
		formula += fmt.Sprintf("; %s of it offloaded to the host, read in every step", render.GiB(l.offloaded))
		bytes = bytes.minus(Exact(l.offloaded))
		source += "; cpu_offload_gb"
	}
	l.addLine(LineWeights, "weights", bytes, formula, source)
	l.addTables(l.pipelineStage)
	first, stop := s.stageLayers(len(m.Layers), l.pipelineStage)
	if s.LoRA.Adapters > 0 {
		l.addLine(LineAdapters, "room for LoRA adapters", s.adapterBytes(m, first, stop),
			fmt.Sprintf("%d of rank %d per linear layer, at most the experts", s.LoRA.Adapters, s.LoRA.Rank),
			"vllm/lora/layers; counted in “Model loading took”")
	}
	if s.Speculation.Drafts() && l.pipelineStage == s.PP-1 {
		l.addDraft()
	}
}

// addDraft adds a draft layer: one like the model's last, and a projection that joins two hidden states into its input.
// It shares the model's embedding and head.
func (l *Ledger) addDraft() {
	m, s := l.Model, &l.Settings
	v := 2 * float64(m.Hidden) * float64(m.Hidden) * m.DType.Bytes()
	for i := range m.Weights {
		w := &m.Weights[i]
		if n := len(w.Layers); n > 0 && w.Layers[n-1] == len(m.Layers)-1 {
			v += w.Count * s.shareOf(m, w) * w.Bytes
		}
	}
	l.addLine(LineDraft, "draft layer", Estimate{v, v / 2, 2 * v}, "as the model's last layer + 2 × hidden_size²",
		"estimated; counted in “Model loading took”")
}

// addTables adds constant tensors, which are not parameters.
func (l *Ledger) addTables(stage int) {
	m, s := l.Model, &l.Settings
	var v float64
	formula := ""
	if m.RopeRows > 0 {
		v = float64(m.RopeRows) * float64(m.RopeWidth) * m.DType.Bytes()
		formula = fmt.Sprintf("rotary positions %d × %d × %g", m.RopeRows, m.RopeWidth, m.DType.Bytes())
	}
	if m.LatentRank > 0 && m.Quant.Method != "" {
		first, stop := s.stageLayers(len(m.Layers), stage)
		heads, dims := m.Heads/s.TP, m.HeadDim-m.RopeDim+m.ValueDim
		v += float64(stop-first) * float64(m.LatentRank) * float64(heads) * float64(dims) * m.DType.Bytes()
		if formula != "" {
			formula += "; "
		}
		formula += fmt.Sprintf("W_UK and W_UV unpacked for MLA: %d layers × %d × %d heads × %d × %g",
			stop-first, m.LatentRank, heads, dims, m.DType.Bytes())
	}
	if v > 0 {
		l.addLine(LineTables, "tables next to the weights", Exact(v), formula,
			"layers/rotary_embedding, layers/attention/mla_attention.py; counted in “Model loading took”")
	}
}

func weightType(m *modelconfig.Model) string {
	if m.Quant.Method == "" {
		return string(m.DType)
	}
	return m.Quant.String() + ", else " + string(m.DType)
}

// weightBytes is the bytes of a pipeline stage's weights on one of its GPUs.
func (s *Settings) weightBytes(m *modelconfig.Model, stage int) Estimate {
	first, stop := s.stageLayers(len(m.Layers), stage)
	var e Estimate
	for k := range m.Weights {
		w := &m.Weights[k]
		n := 0.0
		switch {
		case w.Layers != nil:
			n = float64(countWithin(w.Layers, first, stop))
		case w.Part == modelconfig.Embedding:
			if stage == 0 || m.Tied && stage == s.PP-1 {
				n = 1
			}
		case w.Part == modelconfig.Encoder:
			if stage == 0 {
				n = 1
			}
		default:
			if stage == s.PP-1 {
				n = 1
			}
		}
		share := n * w.Count * s.shareOf(m, w)
		if w.Part == modelconfig.Experts && w.Low < w.High && m.Quant.Padded && s.usesMarlin() {
			width := 128 * s.TP
			if s.ExpertParallel {
				width = 128
			}
			padded := modelconfig.PaddingFactor(m.Hidden, 256) * modelconfig.PaddingFactor(m.ExpertWidth, width)
			e = e.plus(Exact(share * w.Low * padded))
			continue
		}
		e.Value += share * w.Bytes
		e.Low += share * w.Low
		e.High += share * w.High
	}
	return e
}

// usesMarlin reports whether Marlin's kernels compute experts in MXFP4. They pad the hidden size to 256 and each GPU's
// part of the width to 128 (layers/quantization/mxfp4.py@v0.10.2). They serve chips before Hopper, and Hopper before
// vLLM had Triton's kernels.
func (s *Settings) usesMarlin() bool {
	c := s.Device.Capability
	return c > 0 && c < 9 || c == 9 && !s.Release.AtLeast(vllm.TritonForMXFP4)
}

// shareOf is the part of a weight that one GPU of its tensor-parallel group holds.
func (s *Settings) shareOf(m *modelconfig.Model, w *modelconfig.Weight) float64 {
	tp := float64(s.TP)
	switch w.Split {
	case modelconfig.Divided:
		return 1 / tp
	case modelconfig.DividedHead:
		return float64(max(m.KVHeads/s.TP, 1)) / float64(m.KVHeads)
	case modelconfig.Vocabulary:
		// layers/vocab_parallel_embedding.py, pad_vocab_size: to 64, and divisible by TP
		return modelconfig.PaddingFactor(m.Vocab, 64*s.TP) / tp
	case modelconfig.ExpertShare:
		if s.dataParallelFlattens {
			return 1 / (tp * float64(s.DP))
		}
		return 1 / tp
	}
	return 1
}

// countWithin counts the layers from first to before stop among sorted layers.
func countWithin(layers []int, first, stop int) int {
	from, _ := slices.BinarySearch(layers, first)
	to, _ := slices.BinarySearch(layers, stop)
	return to - from
}

// stageLayers returns the first layer of a pipeline stage and the first one after it. A remainder goes to the stages
// before the last (distributed/utils.py, get_pp_indices).
func (s *Settings) stageLayers(layers, i int) (int, int) {
	per, rest := layers/s.PP, layers%s.PP
	size := func(k int) int {
		if fromEnd := s.PP - 1 - k; fromEnd >= 1 && fromEnd <= rest {
			return per + 1
		}
		return per
	}
	first := 0
	for k := range i {
		first += size(k)
	}
	return first, first + size(i)
}

// Parts of the peak of the profiling run. The forward pass holds the hidden state, the residual and one layer's widest
// intermediate results in two bytes each. Three times the hidden size matches vLLM's logs for Llama 3.1 8B at 20,000
// and at 29,000 tokens to 1 % (vllm-project/vllm#10517).
const (
	hiddenCopies    = 3
	forwardDoubt    = 0.4
	latentWorkspace = 64 << 10 // tokens whose keys and values MLA's chunked prefill unpacks at once
)

// perLogit is the bytes that the profiling run's sampling holds for each logit of max_num_seqs requests, read in
// v1/sample/ops/topk_topp_sampler.py of 29 releases. Sorting keeps the logits in 16 and in 32 bits, their order in 64,
// the sorted logits and their probabilities: 29 to 37 bytes in logs. FlashInfer (0.8 to 0.11.0 where it is installed,
// and again from 0.23 on) and the Triton kernel (from 0.17 on) keep logits, masked logits and probabilities, 2 + 4 + 4
// + 4 bytes: 13 in a log of 0.10 and 15 in one of 2026. But a server with the first Triton kernels (0.19) took as much
// memory as with sorting.
func perLogit(r engine.Release) Estimate {
	lean := Estimate{14, 10, 20}
	switch {
	case r.AtLeast(vllm.SamplesWithFlashInfer):
		return lean
	case r.AtLeast(vllm.SamplesWithoutSorting):
		return Estimate{24, lean.Low, 36}
	case r.AtLeast(vllm.SortsToSample):
		return Estimate{32, 28, 40}
	}
	return Estimate{13, lean.Low, 38} // the most on four servers of 0.10; 37 were seen with sorting
}

// addActivations estimates the peak of vLLM's profiling run, which has max_num_batched_tokens tokens and then
// max_num_seqs samples.
func (l *Ledger) addActivations() {
	m, s := l.Model, &l.Settings
	tokens, seqs := float64(s.MaxNumBatchedTokens), float64(min(s.MaxNumSeqs, s.MaxNumBatchedTokens))
	width, what := l.widestLayer()
	forward := tokens * width * m.DType.Bytes()
	formula := fmt.Sprintf("forward: %.0f tokens × (%s) × %g", tokens, what, m.DType.Bytes())
	if m.LatentRank > 0 {
		workspaceRows := min(max(8*float64(s.MaxModelLen), 4*float64(s.MaxNumSeqs*l.KV.BlockTokens)), latentWorkspace)
		heads, dims := m.Heads/s.TP, m.HeadDim-m.RopeDim+m.ValueDim
		forward += workspaceRows * float64(heads) * float64(dims) * m.DType.Bytes()
		formula += fmt.Sprintf(" + %.0f × %d heads × %d × %g of MLA", workspaceRows, heads, dims, m.DType.Bytes())
	}
	f := Estimate{forward, forward * (1 - forwardDoubt), forward * (1 + forwardDoubt)}
	if m.HasRecurrent() || !m.Known {
		f.High = 2 * forward // scans keep states of every chunk
	}
	per := perLogit(s.Release)
	logits := seqs * float64(m.Vocab)
	if l.pipelineStage < s.PP-1 {
		logits = 0 // the last stage samples
	}
	g := Estimate{logits * per.Value, logits * per.Low, logits * per.High}
	v := Estimate{max(f.Value, g.Value), max(f.Low, g.Low), max(f.High, g.High)}
	if logits > 0 {
		formula += fmt.Sprintf("; sampling: %.0f × %d logits × %.0f; the larger", seqs, m.Vocab, per.Value)
	}
	l.addLine(LineActivations, "activations at their peak", v, formula,
		"estimated; vLLM measures it at start (v1/worker/gpu_model_runner.py, profile_run)")
}

// widestLayer returns the values per token of the widest layer.
func (l *Ledger) widestLayer() (float64, string) {
	m, s := l.Model, &l.Settings
	tp := float64(s.TP)
	width, what := 0.0, ""
	try := func(v float64, format string, args ...any) {
		if v > width {
			width, what = v, fmt.Sprintf("%d × %d + %s", hiddenCopies, m.Hidden, fmt.Sprintf(format, args...))
		}
	}
	base := float64(hiddenCopies * m.Hidden)
	if m.FFNWidth > 0 {
		try(base+3*float64(m.FFNWidth)/tp, "3 × %d / %d", m.FFNWidth, s.TP)
	}
	if m.Experts > 0 {
		share := tp
		if s.ExpertParallel {
			share = 1
		}
		i := float64(m.ExpertWidth) / share
		try(base+float64(m.ExpertsTaken)*(max(2*i, float64(m.Hidden))+i), "%d experts × (max(2 × %.0f, %d) + %.0f)",
			m.ExpertsTaken, i, m.Hidden, i)
	}
	if m.Heads > 0 {
		q, kv := float64(m.Heads*m.HeadDim)/tp, float64(m.KVHeads*m.HeadDim)/tp
		if m.LatentRank > 0 {
			kv = q
		}
		try(base+2*q+2*kv, "2 × (%.0f + %.0f)", q, kv)
	}
	if m.State.ConvChannels > 0 {
		c := float64(m.State.ConvChannels) / tp
		try(base+4*c, "4 × %.0f", c)
	}
	return width, what
}

// Bytes of a captured CUDA graph: 9 to 23 MiB each in the logs of docs/lab/tune.md.
const (
	graphBase  = 64 << 20
	graphEach  = 10 << 20
	graphLeast = 2 << 20
	graphMost  = 30 << 20
)

// addGraphs estimates CUDA graph memory, which the budget includes from 0.21.
func (l *Ledger) addGraphs() {
	s := &l.Settings
	n := float64(s.capturedGraphs)
	v := Estimate{graphBase + n*graphEach, n * graphLeast, graphBase + n*graphMost}
	if s.EnforceEager {
		return
	}
	formula := fmt.Sprintf("%.0f graphs × %s + %s", n, render.GiB(graphEach), render.GiB(graphBase))
	if s.Release.AtLeast(vllm.CUDAGraphsInBudget) {
		l.addLine(LineGraphs, "CUDA graphs", v, formula,
			"estimated; vLLM captures two of each kind and multiplies (profile_cudagraph_memory)")
	} else {
		l.addLine("cuda_graphs_outside", "CUDA graphs, outside the budget", v, formula,
			"before 0.21 they use memory that was not requested")
	}
}

// addNonTorch adds memory that PyTorch does not allocate: the CUDA context's growth, NCCL's and the custom all-reduce's
// buffers, workspaces of kernels.
func (l *Ledger) addNonTorch() {
	s := &l.Settings
	v := Estimate{0.25 * gib, 0.05 * gib, 0.7 * gib}
	formula := "one GPU: workspaces of kernels"
	if s.TP*s.PP*s.DP > 1 {
		v = Estimate{0.6 * gib, 0.1 * gib, 2.5 * gib}
		formula = "several GPUs: NCCL, custom all-reduce, workspaces"
	}
	l.addLine(LineOther, "not PyTorch's", v, formula, "estimated from the logs of docs/lab/tune.md")
}

// setCapacity turns bytes into blocks and tokens.
func (l *Ledger) setCapacity() {
	s := &l.Settings
	per := l.KV.BytesPerBlock
	blocks := func(v float64) float64 {
		if s.NumBlocksOverride > 0 {
			return float64(s.NumBlocksOverride)
		}
		if per == 0 {
			return 1
		}
		return max(math.Floor(v/per), 0)
	}
	each := func(f func(float64) float64) Estimate {
		return Estimate{f(l.Available.Value), f(l.Available.Low), f(l.Available.High)}
	}
	l.Blocks = each(blocks)
	perRequest := float64(max(l.KV.BlocksFor(s.MaxModelLen), 1))
	l.Concurrency = each(func(v float64) float64 { return blocks(v) / perRequest })
	l.Tokens = each(func(v float64) float64 { return l.KV.capacityTokens(s, blocks(v)) })
	l.MaxLen = each(func(v float64) float64 {
		return float64(l.KV.longestRequest(max(l.Model.MaxPositions, s.MaxModelLen), int(blocks(v))))
	})
}

// SafeConcurrency is how many requests of a length fit at once without preemption. One of the pool's blocks is a
// placeholder.
func (l *Ledger) SafeConcurrency(tokens int) int {
	return int(max(l.Blocks.Value-1, 0)) / max(l.KV.BlocksFor(tokens), 1)
}

// PlainBlocks is the pool in blocks of a size and one group, because the simulation has no other kind. A model with
// windows or states gets the blocks for as many requests of this length as it can decode at once. The tokens of a whole
// step are counted once: steps free tokens outside a window (v1/core/single_type_kv_cache_manager.py,
// remove_skipped_blocks).
func (l *Ledger) PlainBlocks(length, size int) int {
	g := l.KV.Groups
	if len(g) == 1 && l.KV.BlockTokens == size && g[0].window == 0 && !g[0].state {
		return int(min(l.Blocks.Value, 1<<30))
	}
	perRequest := (length + size - 1) / size
	one, most := float64(l.KV.blocksFor(length, 1)), float64(l.KV.BlocksFor(length))
	n := max((l.Blocks.Value-1-(most-one))/one, (l.Blocks.Value-1)/most) // requests
	return int(min(n*float64(perRequest), 1<<30)) + 1
}

// EngineConfig returns the ledger's results as settings with their source.
func (l *Ledger) EngineConfig(source string) engine.Config {
	s := &l.Settings
	c := engine.Config{}
	c.Set(engine.MaxModelLen, fmt.Sprint(s.MaxModelLen), source)
	c.Set(engine.MaxNumSeqs, fmt.Sprint(s.MaxNumSeqs), source)
	c.Set(engine.MaxNumBatchedTokens, fmt.Sprint(s.MaxNumBatchedTokens), source)
	c.Set(engine.BlockSize, fmt.Sprint(l.KV.BlockTokens), source)
	c.Set(engine.PrefixCaching, fmt.Sprint(s.prefixCaching), source)
	c.Set(engine.NumBlocks, fmt.Sprintf("%.0f", l.Blocks.Value), source)
	return c
}
