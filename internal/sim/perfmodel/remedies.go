package perfmodel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/render"
)

// Observed is a server's own account of its KV cache. A zero value is not reported.
type Observed struct {
	NumBlocks float64
	BlockSize int
}

// ObservedIn reads what a server reports in the labels of vllm:cache_config_info.
func ObservedIn(c engine.Config) (o Observed) {
	o.NumBlocks, _, _ = c.Number(engine.NumBlocks)
	if n, _, ok := c.Number(engine.BlockSize); ok {
		o.BlockSize = int(min(n, 1<<20))
	}
	return o
}

// Adopt returns settings with which the ledger has the server's blocks, so that later numbers rest on a measurement.
func (l *Ledger) Adopt(o Observed) Settings {
	s := l.Settings
	s.NumBlocksOverride = int(min(o.NumBlocks, 1<<40))
	s.BlockSize = cmp.Or(o.BlockSize, s.BlockSize)
	return s
}

// TooLarge is the error for a model that leaves no room for a KV cache. It says what would fit; the flag takes
// arguments of vllm serve.
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

// Remedies are single changes, or more GPUs, for a model that leaves no memory for a KV cache. Each gives the KV cache
// room for a request of max_model_len.
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

// Unvalidated lists, in sentences, the parts of an answer that no public measurement was compared with, or the error of
// such a comparison.
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
		out = append(out, "speculative decoding uses memory but saves no time here: measure it by a load test")
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
