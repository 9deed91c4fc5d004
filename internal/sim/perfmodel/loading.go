package perfmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
)

// LoRA is room for adapters; zero Adapters: no room.
type LoRA struct{ Adapters, Rank int }

// Speculation is drafting tokens ahead; zero Tokens: no drafting.
type Speculation struct {
	Method string // "ngram", "eagle3", "mtp", …; "" is a draft model
	Model  string // the draft model
	Tokens int    // drafted per step
}

// readLoading reads how the checkpoint is loaded.
func (r *flagReader) readLoading(s *Settings) {
	var err error
	if s.Loading.DType == "" {
		if s.Loading.DType, err = modelconfig.ParseDType(r.valueOf(engine.DType)); err != nil {
			r.errs = append(r.errs, fmt.Errorf("--%s: %w", engine.DType, err))
		}
	}
	s.Loading.Quantization = cmp.Or(s.Loading.Quantization, r.valueOf(engine.Quantization))
	r.readBool(engine.TextOnly, &s.Loading.TextOnly)
	if text := r.valueOf(engine.CPUOffloadGB); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < 0 || v > 1<<20 {
			r.errs = append(r.errs, fmt.Errorf("--%s %s: want GiB", engine.CPUOffloadGB, text))
		}
		s.Offload = v * gib
	}
}

// readExtras reads adapters, graph sizes and speculation.
func (r *flagReader) readExtras(s *Settings) {
	if on, ok := r.known.Bool(engine.EnableLoRA); ok && on {
		s.LoRA = LoRA{1, 16} // vLLM's defaults
		r.readInt(engine.MaxLoRAs, &s.LoRA.Adapters)
		r.readInt(engine.MaxLoRARank, &s.LoRA.Rank)
		if ranks := []int{1, 8, 16, 32, 64, 128, 256, 320, 512}; !slices.Contains(ranks, s.LoRA.Rank) {
			r.errs = append(r.errs, fmt.Errorf("--%s %d: vLLM takes %v", engine.MaxLoRARank, s.LoRA.Rank, ranks))
		}
		if s.LoRA.Adapters < 1 || s.LoRA.Adapters > 1<<16 {
			r.errs = append(r.errs, fmt.Errorf("--%s %d: want 1 or more", engine.MaxLoRAs, s.LoRA.Adapters))
		}
	}
	if text := r.valueOf(engine.GraphSizes); text != "" && s.LargestGraph == 0 {
		for _, n := range strings.FieldsFunc(text, func(c rune) bool { return c < '0' || c > '9' }) {
			v, _ := strconv.Atoi(n)
			s.LargestGraph = max(s.LargestGraph, v)
		}
	}
	r.readSpeculation(&s.Speculation)
}

func (r *flagReader) readSpeculation(to *Speculation) {
	var o struct {
		Method string  `json:"method"`
		Model  string  `json:"model"`
		Tokens float64 `json:"num_speculative_tokens"`
	}
	if text := r.valueOf(engine.SpeculativeConfig); text != "" {
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			r.errs = append(r.errs, fmt.Errorf("--%s: no JSON object: %w", engine.SpeculativeConfig, err))
			return
		}
	}
	tokens := int(o.Tokens)
	r.readInt("spec-tokens", &tokens)
	*to = Speculation{
		Method: cmp.Or(r.valueOf("spec-method"), o.Method), Model: cmp.Or(r.valueOf("spec-model"), o.Model),
		Tokens: tokens,
	}
	if to.Method != "" || to.Model != "" {
		to.Tokens = max(to.Tokens, 1)
	}
	if to.Tokens < 0 || to.Tokens > 128 {
		r.errs = append(r.errs, fmt.Errorf("--%s: %d guessed tokens: want 1 to 128", engine.SpeculativeConfig, tokens))
	}
}

// loadModel returns the model as these settings load it, or an error if the device cannot.
func (s *Settings) loadModel(m *modelconfig.Model) (*modelconfig.Model, error) {
	s.assumed = nil
	how, capability := s.Loading, s.Device.Capability
	old := capability > 0 && capability < 8
	switch {
	case old && how.DType == "bfloat16":
		return nil, hint.With(fmt.Errorf(
			"--dtype bfloat16 on %s: it has compute capability %.1f, and bfloat16 needs 8.0", s.deviceName(),
			capability),
			"pass --dtype half, as in vLLM's own error")
	case old && how.DType == "" && m.DType == "bfloat16":
		how.DType = "float16"
		if strings.HasPrefix(m.Type, "gemma") && m.Type != "gemma" || m.Type == "plamo2" || m.Type == "glm4" {
			how.DType = "float32" // vLLM's _FLOAT16_NOT_SUPPORTED_MODELS
		}
		s.noteAssumption("dtype %s, which vLLM takes for bfloat16 on %s (compute capability %.1f)",
			how.DType, s.deviceName(), capability)
	}
	m, err := m.With(how)
	if err != nil {
		return nil, err
	}
	least := m.Quant.Capability()
	release := cmp.Or(s.Release, vllm.DefaultRelease)
	if q := m.Quant.Method; (q == "fp8" || q == "mxfp8") && release.AtLeast(vllm.MarlinOnTuring) {
		least = 7.5
	}
	if capability > 0 && capability < least {
		return nil, hint.With(fmt.Errorf("weight format %s on %s: vLLM needs compute capability %.1f, and it has %.1f",
			m.Quant.Method, s.deviceName(), least, capability),
			"take another checkpoint or a newer GPU")
	}
	return m, nil
}

// SpansNodes reports whether one tensor-parallel group is divided between machines.
func (s *Settings) SpansNodes() bool {
	node := s.Device.NodeSize()
	return s.TP > node || s.Nodes > 1 && s.TP*max(s.PP, 1) > node && s.TP > s.TP*max(s.PP, 1)/s.Nodes
}

// checkDivision refuses divisions of a model that vLLM refuses.
func (s *Settings) checkDivision(m *modelconfig.Model) error {
	s.DCP = max(s.DCP, 1)
	if s.TP > 1 && m.FFNWidth > 0 {
		if err := s.checkDivides("intermediate_size", m.FFNWidth); err != nil {
			return err
		}
	}
	if err := s.checkExperts(m); err != nil {
		return err
	}
	if kv := m.KVHeads; m.LatentRank == 0 && kv > 0 && s.TP > 1 && kv%s.TP != 0 && s.TP%kv != 0 {
		return hint.With(fmt.Errorf("tensor parallelism %d and %d KV heads: neither divides the other", s.TP, kv),
			"take a divisor or a multiple of "+strconv.Itoa(kv))
	}
	if s.DCP > 1 {
		copies := s.TP // holding each KV head; MLA has one head
		if m.LatentRank == 0 {
			copies = s.TP / max(m.KVHeads, 1)
		}
		if s.TP%s.DCP != 0 || copies%s.DCP != 0 || copies < 1 {
			return hint.With(fmt.Errorf(
				"--%s %d: tensor parallelism %d keeps each KV head on %d GPUs, a number that it must divide",
				engine.DecodeContextSize, s.DCP, s.TP, max(copies, 1)),
				"raise --tensor-parallel-size, or leave it out")
		}
	}
	return nil
}

func (s *Settings) checkDivides(what string, n int) error {
	if n%s.TP == 0 {
		return nil
	}
	return hint.With(fmt.Errorf("tensor parallelism %d does not divide %s %d", s.TP, what, n),
		"take a divisor of "+strconv.Itoa(n)+", or --pipeline-parallel-size for the rest")
}

// checkExperts refuses divisions of a mixture's experts.
func (s *Settings) checkExperts(m *modelconfig.Model) error {
	if s.TP > 1 && m.Experts > 0 && !s.ExpertParallel {
		if err := s.checkDivides("the width of an expert,", m.ExpertWidth); err != nil {
			return err
		}
		if b := m.Quant.Block[0]; b > 0 && m.ExpertWidth/s.TP%b != 0 {
			return hint.With(fmt.Errorf(
				"tensor parallelism %d gives experts of width %d, which their quantization blocks of %d do not divide",
				s.TP, m.ExpertWidth/s.TP, b),
				"pass --enable-expert-parallel, or a smaller --tensor-parallel-size")
		}
	}
	if s.ExpertParallel && m.Experts == 0 {
		return hint.With(fmt.Errorf("--%s: the model has no experts", engine.ExpertParallel), "leave it out")
	}
	return nil
}

// checkBatches refuses limits that contradict each other (config/scheduler.py).
func (s *Settings) checkBatches() error {
	if s.MaxNumBatchedTokens < s.MaxNumSeqs {
		return hint.With(fmt.Errorf("--%s %d is less than --%s %d",
			engine.MaxNumBatchedTokens, s.MaxNumBatchedTokens, engine.MaxNumSeqs, s.MaxNumSeqs),
			"every running request needs a token in a step")
	}
	if s.WholePrefills && s.MaxNumBatchedTokens < s.MaxModelLen {
		return hint.With(fmt.Errorf(
			"--%s %d is less than --%s %d, and without chunked prefill a prompt must fit into a step",
			engine.MaxNumBatchedTokens, s.MaxNumBatchedTokens, engine.MaxModelLen, s.MaxModelLen),
			"raise the one, lower the other, or leave chunked prefill on")
	}
	return nil
}

// adapterBytes is LoRA's room for adapters on one GPU. Each adapter has two matrices of the largest rank beside every
// linear layer, in the model's type (lora/layers), divided as the layers are if vLLM divides them. Layers of experts
// have adapters too from 0.11.1 on, which is the upper bound.
func (s *Settings) adapterBytes(m *modelconfig.Model, first, stop int) Estimate {
	var low, high float64
	for i := range m.Weights {
		w := &m.Weights[i]
		in, out, times := w.Shape()
		if in == 0 || w.Layers == nil || w.Part == modelconfig.RouterPart {
			continue
		}
		each := float64(countWithin(w.Layers, first,
			stop)*s.LoRA.Adapters*s.LoRA.Rank) * float64(times) * m.DType.Bytes()
		part := each * (float64(in) + float64(out)*s.shareOf(m, w))
		high += part
		if w.Part != modelconfig.Experts {
			low += part
		}
	}
	return Estimate{low, low, max(low, high)}
}

// betweenNodes is the bytes per second that one GPU exchanges with another machine: 400 Gb/s of InfiniBand, one adapter
// for each GPU as in NVIDIA's DGX H100.
const betweenNodes = 50e9

// addOffloading adds the time to read offloaded weights to a step.
func (l *Ledger) addOffloading(c *sim.StepCost) {
	if l.offloaded > 0 {
		c.Base += l.offloaded / l.Settings.Device.Host
	}
}

// Drafts reports whether a layer beside the model drafts: MTP, EAGLE and their like.
func (p Speculation) Drafts() bool {
	mtp := p.Model == "" && strings.Contains(p.Method, "mtp")
	return p.Tokens > 0 && (mtp || strings.Contains(p.Method, "eagle"))
}
