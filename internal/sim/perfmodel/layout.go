package perfmodel

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
)

// A Group is a set of layers that share a block table.
type Group struct {
	Kind        string `json:"kind"`   // "attention", "MLA", "sliding window 4096", "state"
	Layers      int    `json:"layers"` // on the GPU in question
	BlockTokens int    `json:"-"`      // tokens of a block; 0 for a state
	window      int    // 0 for all tokens
	state       bool
	indexes     []int
}

// A Layout is how the layers of a model share the blocks of the KV cache, as v1/core/kv_cache_utils.py@v0.23.0 lays
// them out: all blocks have one size, and a block belongs to one group at a time.
type Layout struct {
	BlockTokens   int     `json:"block_size"`                        // as the server reports it
	PageBytes     float64 `json:"-"`                                 // one layer's part of a block
	BytesPerBlock float64 `json:"bytes_per_block"`                   // on one GPU
	Formula       string  `json:"block_formula"`                     // derivation of BytesPerBlock
	BytesPerToken float64 `json:"kv_bytes_per_token"`                // growth per token of a long context, on one GPU
	StateBytes    float64 `json:"state_bytes_per_request,omitempty"` // on one GPU, for any length
	Groups        []Group `json:"groups"`

	mamba   string // mamba_cache_mode: none, align, all
	batched int
	parts   int // decode context parallelism: GPUs that share the tokens
}

// A cacheKind is one layer's kind of cache.
type cacheKind struct {
	kind   string
	window int
	state  bool
}

// newLayout returns the layout of one pipeline stage.
func newLayout(m *modelconfig.Model, s *Settings, stage int) (Layout, error) {
	l := Layout{BlockTokens: 16, mamba: "none", batched: s.MaxNumBatchedTokens, parts: max(s.DCP, 1)}
	if s.BlockSize > 0 {
		l.BlockTokens = s.BlockSize
	}
	perToken := tokenBytes(m, s)
	stateBytes := layerStateBytes(m, s)
	if m.HasRecurrent() {
		if s.prefixCaching {
			l.mamba = "align"
			if m.State.ChunkTokens > 0 {
				l.mamba = "all"
			}
		}
		if perToken > 0 {
			l.alignToState(m, perToken, stateBytes)
		}
	}
	layersByKind := map[cacheKind][]int{}
	var order []cacheKind
	for i, layer := range m.Layers {
		k, ok := cacheKindOf(layer, s)
		if !ok {
			continue
		}
		if layersByKind[k] == nil {
			order = append(order, k)
		}
		layersByKind[k] = append(layersByKind[k], i)
	}
	if len(order) == 0 {
		return l, hint.With(fmt.Errorf("the model has no layer with a KV cache or state"),
			"the ledger is for models that generate text")
	}
	l.PageBytes = perToken * float64(l.BlockTokens)
	if perToken == 0 {
		l.PageBytes = stateBytes
	}
	if s.Speculation.Drafts() {
		k := order[len(order)-1]
		if i := slices.IndexFunc(order, func(k cacheKind) bool { return !k.state && k.window == 0 }); i >= 0 {
			k = order[i]
		}
		layersByKind[k] = append(layersByKind[k], len(m.Layers)) // the draft layer, in the last stage
	}
	l.groupLayers(order, layersByKind)
	l.countBytes(m, s, stage, perToken, stateBytes)
	return l, nil
}

// cacheKindOf returns a layer's kind of cache, false if it has none of its own.
func cacheKindOf(layer modelconfig.Layer, s *Settings) (cacheKind, bool) {
	switch {
	case layer.Shared:
	case layer.Mixer.Recurrent():
		return cacheKind{kind: "state", state: true}, true
	case layer.Mixer == modelconfig.Latent:
		return cacheKind{kind: "MLA"}, true
	case layer.Mixer == modelconfig.Attention && layer.Window > 0 && !s.OneKVGroup:
		return cacheKind{kind: fmt.Sprintf("sliding window %d", layer.Window), window: layer.Window}, true
	case layer.Mixer == modelconfig.Attention:
		return cacheKind{kind: "attention"}, true
	}
	return cacheKind{}, false
}

// tokenBytes is the bytes that one attention layer keeps for a token on one GPU. MLA's latent vector is not divided.
// GQA's heads are repeated if there are fewer than GPUs (config/model.py, get_num_kv_heads).
func tokenBytes(m *modelconfig.Model, s *Settings) float64 {
	switch {
	case m.LatentRank > 0 && (s.KVType == "fp8_ds_mla" || m.IndexDim > 0 && strings.HasPrefix(s.KVType, "fp8")):
		return 656 + indexBytes(m)
	case m.LatentRank > 0:
		return float64(m.LatentRank+m.RopeDim)*s.kvBytesPerValue + indexBytes(m)
	case m.Heads > 0:
		return float64(max(m.KVHeads/s.TP, 1)) * float64(m.HeadDim+m.ValueDim) * s.kvBytesPerValue
	}
	return 0
}

// indexBytes is the bytes that the indexer of sparse attention keeps for a token beside the latent vector: a key in FP8
// and a scale in 32 bits for each 128 of its values (model_executor/models/deepseek_v2.py, DeepseekV32IndexerCache).
func indexBytes(m *modelconfig.Model) float64 {
	return float64(m.IndexDim + m.IndexDim/128*4)
}

// layerStateBytes is the bytes that one recurrent layer keeps for a request on one GPU (layers/mamba/mamba_utils.py).
func layerStateBytes(m *modelconfig.Model, s *Settings) float64 {
	st := m.State
	if st.ConvWidth == 0 {
		return 0
	}
	groups := st.Groups
	if groups%s.TP != 0 {
		groups = s.TP // repeated, one for each GPU
	}
	channels := float64(st.ConvChannels+groups*st.GroupChannels) / float64(s.TP)
	return channels*float64(st.ConvWidth-1)*m.DType.Bytes() + st.Values/float64(s.TP)*st.DType.Bytes()
}

// alignToState enlarges the block until a page of attention holds a state (platforms/interface.py,
// _align_hybrid_block_size).
func (l *Layout) alignToState(m *modelconfig.Model, perToken, state float64) {
	align := max(16, l.BlockTokens)
	need := state / perToken
	var block int
	if l.mamba == "all" {
		chunk := lcm(m.State.ChunkTokens, align)
		block = chunk * int(math.Ceil(math.Ceil(need)/float64(chunk)))
	} else {
		block = align * int(math.Ceil(need/float64(align)))
	}
	l.BlockTokens = max(l.BlockTokens, block)
}

func lcm(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// groupLayers splits the layers of each kind into groups of one size (_get_kv_cache_groups_uniform_page_size).
func (l *Layout) groupLayers(order []cacheKind, layersByKind map[cacheKind][]int) {
	size := len(layersByKind[order[0]])
	if len(order) > 1 {
		least, most := math.MaxInt, 0
		for _, k := range order {
			least, most = min(least, len(layersByKind[k])), max(most, len(layersByKind[k]))
		}
		if size = least; float64(most) < 1.5*float64(least) {
			size = most
		}
	}
	for _, k := range order {
		indexes := layersByKind[k]
		n := (len(indexes) + size - 1) / size
		for i := range n {
			g := Group{Kind: k.kind, window: k.window, state: k.state, BlockTokens: l.BlockTokens}
			for j := i; j < len(indexes); j += n {
				g.indexes = append(g.indexes, indexes[j])
			}
			if k.state && l.mamba == "none" {
				g.BlockTokens = 0
			}
			l.Groups = append(l.Groups, g)
		}
	}
}

// countBytes computes the bytes on the GPUs of a pipeline stage.
func (l *Layout) countBytes(m *modelconfig.Model, s *Settings, stage int, perToken, state float64) {
	most := 0
	first, stop := s.stageLayers(len(m.Layers), stage)
	if stage == s.PP-1 {
		stop++ // the draft layer
	}
	for i, g := range l.Groups {
		l.Groups[i].Layers = countWithin(g.indexes, first, stop)
		most = max(most, l.Groups[i].Layers)
	}
	l.BytesPerBlock = l.PageBytes * float64(most)
	l.Formula = fmt.Sprintf("%d layers × %d tokens × %.6g bytes", most, l.BlockTokens, perToken)
	if perToken == 0 {
		l.Formula = fmt.Sprintf("%d layers × %.6g bytes of state", most, state)
	}
	for _, g := range l.Groups {
		switch {
		case g.state:
			l.StateBytes += float64(g.Layers) * state
		case g.window == 0:
			l.BytesPerToken += float64(most) * perToken
		}
	}
}

// BlocksFor is the most blocks that a request of this many tokens holds: while a step computes as many of its tokens as
// a step can.
func (l *Layout) BlocksFor(tokens int) int { return l.blocksFor(tokens, l.batched) }

// blocksFor is how many blocks a request of this many tokens holds while a step computes the last computed ones of
// them. By then the tokens before a window have been freed.
func (l *Layout) blocksFor(tokens, computed int) int {
	n := 0
	tokens = (tokens + l.parts - 1) / l.parts
	for _, g := range l.Groups {
		switch {
		case g.state && l.mamba == "all", !g.state && g.window == 0:
			n += (tokens + l.BlockTokens - 1) / l.BlockTokens
		case g.state && l.mamba == "align":
			n += 2
		case g.state:
			n++
		default:
			n += (min(g.window-1+computed, tokens)+l.BlockTokens-1)/l.BlockTokens + 1
		}
	}
	return n
}

// capacityTokens is the capacity as the log prints it: from 0.23 in requests of max_model_len, before that by the
// blocks of one group.
func (l *Layout) capacityTokens(s *Settings, blocks float64) float64 {
	if s.Release.AtLeast(vllm.CapacityByRequests) {
		return math.Floor(blocks / float64(max(l.BlocksFor(s.MaxModelLen), 1)) * float64(s.MaxModelLen))
	}
	return math.Floor(blocks/float64(len(l.Groups))) * float64(l.BlockTokens*l.parts)
}

// longestRequest is the longest request, up to most tokens, that fits into this many blocks.
func (l *Layout) longestRequest(most, blocks int) int {
	return sort.Search(most, func(n int) bool { return l.BlocksFor(n+1) > blocks })
}
