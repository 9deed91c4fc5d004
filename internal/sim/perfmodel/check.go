package perfmodel

import (
	"fmt"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/render"
)

// Observed is a server's own account of its memory, from its log or from the labels of
// vllm:cache_config_info. A zero value is not reported.
type Observed struct {
	Source      string
	NumBlocks   float64
	BlockSize   int
	KVBytes     float64 // "Available KV cache memory"
	KVTokens    float64 // "GPU KV cache size"
	WeightBytes float64 // "Model loading took"
}

// FromConfig reads an engine's settings.
func FromConfig(c engine.Config, source string) Observed {
	o := Observed{Source: source}
	o.NumBlocks, _, _ = c.Number(engine.NumBlocks)
	if n, _, ok := c.Number(engine.BlockSize); ok {
		o.BlockSize = int(min(n, 1<<20))
	}
	o.KVTokens, _, _ = c.Number(engine.KVTokens)
	return o
}

// A Check sets the ledger beside a server's own account.
type Check struct {
	Source      string       `json:"source"`
	Comparisons []Comparison `json:"comparisons"`
}

// A Comparison sets one of the ledger's numbers beside the server's.
type Comparison struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Unit   string   `json:"unit"` // "bytes", "blocks", "tokens", "requests"
	Ledger Estimate `json:"ledger"`
	Server float64  `json:"server"`
	Off    float64  `json:"off"`            // the ledger's error, as a share of the server's number
	Within bool     `json:"within"`         // the server's number is in the ledger's range, or within 1 %
	Says   string   `json:"says,omitempty"` // the suspected line
}

// rounding is the difference between two numbers that may mean the same: logs print GiB with two
// digits.
const rounding = 0.01

// Check compares the ledger with a server's own account, and names the line that must be off where
// they differ. The KV cache is the rest after all other lines, so an error of one of them shows
// there in full.
func (l *Ledger) Check(o Observed) []Comparison {
	var out []Comparison
	add := func(id, name, unit string, v Estimate, server float64, says string) {
		if server <= 0 || math.IsInf(server, 0) || math.IsNaN(server) {
			return
		}
		c := Comparison{ID: id, Name: name, Unit: unit, Ledger: v, Server: server, Off: v.Value/server - 1, Says: says}
		slack := rounding * server
		c.Within = server >= v.Low-slack && server <= v.High+slack
		out = append(out, c)
	}
	add("block_size", "tokens of a block", "tokens", Exact(float64(l.KV.BlockTokens)), float64(o.BlockSize),
		"the block size, which changes little but the number of blocks")
	weights := Estimate{}
	for _, id := range []string{LineWeights, LineTables} {
		if x, ok := l.Line(id); ok {
			weights = weights.plus(x.Bytes)
		}
	}
	add("weights", "weights and tables", "bytes", weights, o.WeightBytes,
		"the weights: a quantization that kernels pad, layers kept in another type, an adapter or a draft model")
	bytes := o.KVBytes
	if bytes == 0 && o.NumBlocks > 0 && l.Settings.NumBlocksOverride == 0 &&
		(o.BlockSize == 0 || o.BlockSize == l.KV.BlockTokens) {
		bytes = o.NumBlocks * l.KV.BytesPerBlock
	}
	if l.Settings.NumBlocksOverride == 0 {
		add(LineKV, "memory for the KV cache", "bytes", l.Available, bytes, l.blameLine(bytes, o))
	}
	blocks := l.Blocks
	if o.KVBytes > 0 && l.KV.BytesPerBlock > 0 { // then blocks test the layout alone
		b := math.Floor(o.KVBytes / l.KV.BytesPerBlock)
		blocks = Exact(b)
	}
	add("blocks", "blocks", "blocks", blocks, o.NumBlocks,
		"the bytes of a block: the KV type, tensor parallelism, or how layers are grouped")
	if o.KVTokens > 0 && (o.KVBytes > 0 || o.NumBlocks > 0) {
		b := o.NumBlocks
		if b == 0 {
			b = math.Floor(o.KVBytes / l.KV.BytesPerBlock)
		}
		add("tokens", "capacity in tokens, from the server's own memory", "tokens",
			Exact(l.KV.capacityTokens(&l.Settings, b)), o.KVTokens,
			"the bytes of a block, max-model-len, or the release's way of counting")
	} else {
		add("tokens", "capacity in tokens", "tokens", l.Tokens, o.KVTokens,
			"the memory for the KV cache or the bytes of a block")
	}
	return out
}

// blameLine names the line in which to look for a difference in KV memory.
func (l *Ledger) blameLine(server float64, o Observed) string {
	if server <= 0 {
		return ""
	}
	has, others := "more", "smaller"
	more := l.Available.Value - server
	if more > 0 {
		has, others = "less", "larger"
	}
	text := fmt.Sprintf("the server has %s %s", render.GiB(math.Abs(more)), has)
	if o.WeightBytes > 0 {
		return text + fmt.Sprintf(": with its weights known, activations, CUDA graphs and non-PyTorch memory must be "+
			"%s by that much, or the GPU's memory or utilization differs", others)
	}
	name, widest := "", 0.0
	for _, x := range l.Lines {
		if w := x.Bytes.High - x.Bytes.Low; w > widest && x.ID != LineKV && x.ID != LineRequested {
			name, widest = x.Name, w
		}
	}
	if name == "" {
		return text + ": the GPU's memory, the utilization or the model differs from the input"
	}
	return text + fmt.Sprintf("; the least certain line is “%s”", name)
}

// Adopt returns settings with which the ledger has the server's KV memory, so that later numbers
// rest on a measurement.
func (l *Ledger) Adopt(o Observed) (Settings, bool) {
	s := l.Settings
	switch {
	case o.NumBlocks >= 1:
		s.NumBlocksOverride = int(min(o.NumBlocks, 1<<40))
		if o.BlockSize > 0 {
			s.BlockSize = o.BlockSize
		}
	case o.KVBytes > 0:
		s.KVBytes = o.KVBytes
	default:
		return s, false
	}
	return s, true
}

// TooLarge is the error for a model that leaves no room for a KV cache. It says what would fit; the
// flag takes arguments of vllm serve.
func (l *Ledger) TooLarge(flag string) error {
	s := &l.Settings
	what := fmt.Sprintf("%d × %s", s.TP*s.PP*s.DP, s.deviceName())
	weights, _ := l.Line(LineWeights)
	err := fmt.Errorf("the model does not fit: on %s its weights take %s of each GPU's %s, and %s are missing before "+
		"the first block of a KV cache",
		what, render.GiB(weights.Bytes.Value), render.GiB(s.Memory.Value), render.GiB(max(-l.Available.Value, 0)))
	for _, r := range l.Remedies() {
		if r.Ledger != nil {
			return hint.With(err, fmt.Sprintf("%s '%s' makes it fit; sixty tune without targets shows the memory "+
				"line by line", flag, r.Change))
		}
	}
	return hint.With(err, "take a GPU with more memory, several of them, or a quantized checkpoint")
}

// A Remedy is a change that makes a model fit.
type Remedy struct {
	Change string   `json:"change"`
	Left   Estimate `json:"kv_bytes"` // on one GPU, after the change
	Ledger *Ledger  `json:"-"`        // after the change; nil if it needs another checkpoint
}

// Remedies are single changes, or more GPUs, for a model that leaves no memory for a KV cache. Each
// gives the KV cache room for a request of max_model_len.
func (l *Ledger) Remedies() []Remedy {
	var out []Remedy
	try := func(change string, alter func(*Settings)) bool {
		s := l.Settings
		alter(&s)
		other, ok := fittingLedger(l.Model, s)
		if ok {
			out = append(out, Remedy{change, other.Available, other})
		}
		return ok
	}
	for _, tp := range []int{2, 4, 8, 16} {
		if tp > l.Settings.TP && try(fmt.Sprintf("--tensor-parallel-size %d", tp), func(s *Settings) { s.TP = tp }) {
			break
		}
	}
	for pp := 2; len(out) == 0 && pp <= 64 && l.Model.Heads%8 == 0; pp *= 2 {
		try(fmt.Sprintf("--tensor-parallel-size 8 --pipeline-parallel-size %d", pp),
			func(s *Settings) { s.TP, s.PP = 8, pp })
	}
	for _, seqs := range []int{256, 64, 16} {
		change := fmt.Sprintf("--max-num-seqs %d, for its logits", seqs)
		if seqs < l.Settings.MaxNumSeqs && try(change, func(s *Settings) { s.MaxNumSeqs = seqs }) {
			break
		}
	}
	if l.Settings.Utilization < 0.95 {
		try("--gpu-memory-utilization 0.95", func(s *Settings) { s.Utilization = 0.95 })
	}
	if l.Settings.kvBytesPerValue > 1 {
		try("--kv-cache-dtype fp8", func(s *Settings) { s.KVType = "fp8" })
	}
	if n := int(l.MaxLen.Value) / 256 * 256; n > 0 && n < l.Settings.MaxModelLen {
		try(fmt.Sprintf("--max-model-len %d", n), func(s *Settings) { s.MaxModelLen = n })
	}
	if l.Model.Quant.Method == "" {
		out = append(out, l.smallerCheckpoint()...)
	}
	return out
}

// fittingLedger returns the ledger of a model if its KV cache holds a request of max_model_len.
func fittingLedger(m *modelconfig.Model, s Settings) (*Ledger, bool) {
	other, err := NewLedger(m, s)
	return other, err == nil && other.Concurrency.Value >= 1
}

// smallerCheckpoint returns the widest quantization of the model's weights that makes it fit.
func (l *Ledger) smallerCheckpoint() []Remedy {
	for _, q := range []struct {
		name  string
		bytes float64
	}{{"weights in FP8 (another checkpoint)", 1}, {"weights in 4 bits (another checkpoint)", 0.56}} {
		m := *l.Model
		m.Weights = slices.Clone(m.Weights)
		for i := range m.Weights {
			switch w := &m.Weights[i]; w.Part {
			case modelconfig.Mixing, modelconfig.MLP, modelconfig.Experts, modelconfig.SharedFFN:
				w.Bytes, w.Low, w.High = q.bytes, q.bytes, q.bytes
			}
		}
		if other, ok := fittingLedger(&m, l.Settings); ok {
			return []Remedy{{Change: q.name, Left: other.Available}}
		}
	}
	return nil
}

// Unvalidated lists, in sentences, the parts of an answer that no public measurement was compared
// with, or the error of such a comparison.
func (l *Ledger) Unvalidated() []string {
	var out []string
	s := &l.Settings
	if n := s.Device.NodeSize(); s.SpansNodes() {
		out = append(out, fmt.Sprintf("a tensor-parallel group of %d GPUs exceeds a node of %d: its all-reduces "+
			"cross the network, slower than NVLink; --pipeline-parallel-size between nodes avoids that", s.TP, n))
	}
	if s.PP > 1 {
		out = append(out, "unvalidated: pipeline parallelism is simulated as one batch per stage, each with its "+
			"share of the requests and the cache, without waiting for each other; no public measurement to compare")
	}
	if s.LoRA.Adapters > 0 {
		out = append(out, "unvalidated: LoRA adapters use memory but no time here; no public measurement to compare")
	}
	if g := s.Speculation; g.Tokens > 0 {
		if g.Model != "" && !g.Drafts() {
			out = append(out, fmt.Sprintf("the memory and the time of the draft model %s are not counted", g.Model))
		}
		if g.Acceptance > 0 {
			out = append(out, fmt.Sprintf("unvalidated: a step drafts %d tokens, each accepted with probability "+
				"%.2g: %.2f tokens per step; no public load test to compare", g.Tokens, g.Acceptance, g.PerStep()))
		} else {
			out = append(out, "speculative decoding uses memory but saves no time here: --acceptance sets the share "+
				"of accepted draft tokens (vllm:spec_decode_num_accepted_tokens_total over "+
				"vllm:spec_decode_num_draft_tokens_total, of a server that has it)")
		}
	}
	if s.Offload > 0 {
		out = append(out,
			"unvalidated: weights offloaded to the host are read over PCIe in every step, without overlap")
	}
	if s.DCP > 1 {
		out = append(out,
			"unvalidated: context parallelism is in the memory; the time to combine the parts is not simulated")
	}
	return out
}
