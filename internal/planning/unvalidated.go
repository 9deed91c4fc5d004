package planning

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/perfmodel"
)

// Unvalidated says, in sentences, which parts of an answer no public measurement was
// compared with, or how far off such a comparison was.
func Unvalidated(l *perfmodel.Ledger) []string {
	var out []string
	s := &l.Settings
	if n := s.Device.NodeSize(); s.SpansNodes() {
		out = append(out, fmt.Sprintf("one tensor-parallel group of %d GPUs is more than a node of %d has: its all-reduces cross the network, and cannot have the speed of NVLink; --pp between nodes avoids that", s.TP, n))
	}
	if s.PP > 1 {
		out = append(out, "unvalidated: pipeline parallelism is taken as one batch for every stage, each with its share of the requests and of the cache, that never wait for each other; nothing public was compared")
	}
	if s.LoRA.Adapters > 0 {
		out = append(out, "unvalidated: LoRA adapters take memory here and no time; nothing public was compared")
	}
	if g := s.Speculation; g.Tokens > 0 {
		if g.Model != "" && !g.Drafts() {
			out = append(out, fmt.Sprintf("the memory and the time of the draft model %s are not counted", g.Model))
		}
		if g.Acceptance > 0 {
			out = append(out, fmt.Sprintf("unvalidated: a step guesses %d tokens, of which a share of %.2g each is taken to be right: %.2f tokens a step; no public load test was compared", g.Tokens, g.Acceptance, g.PerStep()))
		} else {
			out = append(out, "speculative decoding takes memory here and saves no time: --acceptance says how often a guess is right (vllm:spec_decode_num_accepted_tokens_total over vllm:spec_decode_num_draft_tokens_total, of a server that has it)")
		}
	}
	if s.Offload > 0 {
		out = append(out, "unvalidated: weights that stay with the host are read over PCIe in every step, without overlap")
	}
	if s.DCP > 1 {
		out = append(out, "unvalidated: context parallelism is in the memory, and the time that it takes to join the parts is not")
	}
	return out
}
