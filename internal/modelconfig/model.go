package modelconfig

import (
	"fmt"
	"slices"
	"strings"
)

// A Mixer is how a layer mixes information between tokens. It decides what the layer keeps for each request.
type Mixer uint8

// The zero value is a layer without a mixer.
const (
	NoMixer   Mixer = iota
	Attention       // multi-head, grouped-query or multi-query: keys and values
	Latent          // multi-head latent attention (DeepSeek): one latent vector
	Mamba1          // selective state space (Gu and Dao 2023): a state of constant size
	Mamba2          // state space duality (Dao and Gu 2024)
	DeltaNet        // gated delta rule (Yang et al. 2024), linear attention
)

var mixerNames = [...]string{"none", "attention", "MLA", "Mamba", "Mamba-2", "gated delta net"}

// String returns the mixer's name.
func (m Mixer) String() string { return mixerNames[m] }

// UnmarshalText reads a mixer's String.
func (m *Mixer) UnmarshalText(text []byte) error {
	i := slices.Index(mixerNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("mixer %q: want one of %v", text, mixerNames)
	}
	*m = Mixer(i)
	return nil
}

// Recurrent reports whether the layer keeps a state of constant size.
func (m Mixer) Recurrent() bool { return m >= Mamba1 }

// An FFN is a kind of feed-forward part of a layer.
type FFN uint8

// The zero value is a layer without a feed-forward part.
const (
	NoFFN FFN = iota
	Dense
	MoE // mixture of experts
)

// A Layer is one block of the decoder.
type Layer struct {
	Mixer  Mixer
	Window int // tokens that attention looks back, 0 for all
	FFN    FFN
	Shared bool // the layer reads the cache of an earlier layer and keeps none
}

// DType is a data type of weights, activations or the KV cache.
type DType string

// Bytes returns the size of one value, 0 for an unknown type.
func (d DType) Bytes() float64 {
	switch d {
	case "float32":
		return 4
	case "bfloat16", "float16":
		return 2
	case "fp8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2", "int8":
		return 1
	}
	return 0
}

// A State is the memory of a recurrent layer for a request.
type State struct {
	// The convolution keeps ConvWidth − 1 values per channel. It has ConvChannels, plus GroupChannels for each of
	// Groups. If the number of GPUs does not divide Groups, each GPU has a copy of some group (Mamba-2).
	ConvChannels, ConvWidth int
	Groups, GroupChannels   int

	Values float64 // values of the recurrent state, all heads together
	DType  DType   // data type of the recurrent state; the convolution has the model's

	// ChunkTokens is mamba_chunk_size, of which a block is a multiple if the engine caches states at block boundaries;
	// else 0.
	ChunkTokens int
}

// A Component is a part of the model, for the table of its parameters.
type Component string

// The parts, in the order of a table.
const (
	Embedding  Component = "embedding"
	Mixing     Component = "attention and state"
	MLP        Component = "MLP"
	Experts    Component = "experts"
	SharedFFN  Component = "shared experts"
	RouterPart Component = "router"
	Norms      Component = "norms"
	Head       Component = "head"
	Encoder    Component = "encoder" // for images or sound; an estimate
)

// A Split is how the GPUs of a tensor-parallel group divide a parameter.
type Split uint8

// The ways to divide.
const (
	Replicated  Split = iota // a copy on each GPU
	Divided                  // an equal share on each
	DividedHead              // by KV heads, at least one on each GPU
	Vocabulary               // by rows, whose number is padded to a multiple of 64
	ExpertShare              // an equal share of every expert or, with expert parallelism, of the experts
)

// A Weight is one parameter of the model, or one of several layers.
type Weight struct {
	Part   Component
	Name   string
	Count  float64 // parameters of one layer; exact below 2^53
	Layers []int   // layers that have it; nil if the model has it once
	Split  Split

	// Bytes per parameter as loaded, with the scales of a quantization. Low and High bound it if
	// the layout is unknown; else all three are equal.
	Bytes, Low, High float64

	// ActiveShare is the share that a token uses: below 1 for routed experts.
	ActiveShare float64

	in, out, copies int
}

// Shape returns the inputs and outputs of a linear layer, and the number of such matrices in one layer of the model.
// All are 0 for other weights.
func (w *Weight) Shape() (in, out, matrices int) { return w.in, w.out, w.copies }

// Times returns how often the model has the weight.
func (w *Weight) Times() int {
	if w.Layers == nil {
		return 1
	}
	return len(w.Layers)
}

// An Assumption is the value taken for a field that config.json lacks.
type Assumption struct {
	Field  string `json:"field"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// A Model is a model by its config.json.
type Model struct {
	Type         string // model_type, in a multimodal model the text model's
	Architecture string // architectures[0]
	Name         string // at Hugging Face; "" is unknown
	Known        bool   // Type is in families.yaml; else fields were read by their common names

	Hidden, Vocab, MaxPositions int

	// Attention layers. ValueDim differs from HeadDim in few models.
	Heads, KVHeads, HeadDim, ValueDim int
	LatentRank, RopeDim               int // latent attention: sizes of the cached vector and its position values
	IndexHeads, IndexDim              int // DeepSeek V3.2's indexer, which chooses the tokens for sparse attention
	RopeRows, RopeWidth               int // tables of rotary positions, all together; 0 without them

	FFNWidth                           int // dense layers
	ExpertWidth, Experts, ExpertsTaken int // a token uses ExpertsTaken of Experts
	SharedWidth                        int // all shared experts together

	State  State
	Layers []Layer
	DType  DType // data type of activations and of unquantized weights
	Tied   bool  // the head uses the embedding's weights

	Quant  Quantization
	KVType DType // the KV cache's data type, if the checkpoint says one; "" is DType

	Weights []Weight
	Assumed []Assumption
	Unknown []string // sentences about parts that are not understood, with the resulting bounds

	content []byte // config.json, for With

	local, global headSizes // in layers with a window, and in the others
}

// headSizes are the size of a layer's attention heads, and the number of its KV heads.
type headSizes struct{ dim, kv int }

// HeadsOf returns the size of an attention layer's heads, and the number of its KV heads.
func (m *Model) HeadsOf(l Layer) (dim, kv int) {
	if l.Window == 0 {
		return m.global.dim, m.global.kv
	}
	return m.local.dim, m.local.kv
}

// Total returns the number of parameters of all parts except encoders.
func (m *Model) Total() (n float64) {
	for i := range m.Weights {
		if w := &m.Weights[i]; w.Part != Encoder {
			n += w.Count * float64(w.Times())
		}
	}
	return n
}

// Active returns the number of parameters that a token uses. The whole embedding counts, although a token reads one
// row.
func (m *Model) Active() (n float64) {
	for i := range m.Weights {
		if w := &m.Weights[i]; w.Part != Encoder {
			n += w.Count * float64(w.Times()) * w.ActiveShare
		}
	}
	return n
}

// CountLayers returns how many layers satisfy a condition.
func (m *Model) CountLayers(is func(Layer) bool) int {
	n := 0
	for _, l := range m.Layers {
		if is(l) {
			n++
		}
	}
	return n
}

// HasRecurrent reports whether any layer keeps a state of constant size.
func (m *Model) HasRecurrent() bool {
	return m.CountLayers(func(l Layer) bool { return l.Mixer.Recurrent() }) > 0
}

// Kind describes the model in a line, such as "GQA 32:8, 32 layers".
func (m *Model) Kind() string {
	var parts []string
	full := m.CountLayers(func(l Layer) bool { return l.Mixer == Attention && l.Window == 0 })
	sliding := m.CountLayers(func(l Layer) bool { return l.Mixer == Attention && l.Window > 0 })
	latent := m.CountLayers(func(l Layer) bool { return l.Mixer == Latent })
	if full+sliding > 0 {
		name := "GQA"
		switch {
		case m.KVHeads == m.Heads:
			name = "MHA"
		case m.KVHeads == 1:
			name = "MQA"
		}
		parts = append(parts, name+" "+itoa(m.Heads)+":"+itoa(m.KVHeads)+" × "+itoa(m.HeadDim))
	}
	if latent > 0 {
		parts = append(parts, "MLA "+itoa(m.LatentRank)+" + "+itoa(m.RopeDim))
	}
	if sliding > 0 {
		parts = append(parts, itoa(sliding)+" of "+itoa(len(m.Layers))+" layers with a window")
	}
	for _, x := range []Mixer{Mamba1, Mamba2, DeltaNet} {
		if n := m.CountLayers(func(l Layer) bool { return l.Mixer == x }); n > 0 {
			parts = append(parts, itoa(n)+" of "+itoa(len(m.Layers))+" layers "+x.String())
		}
	}
	if m.Experts > 0 {
		parts = append(parts, "MoE "+itoa(m.ExpertsTaken)+" of "+itoa(m.Experts))
	}
	if len(parts) == 0 || full == len(m.Layers) || latent == len(m.Layers) {
		parts = append(parts, itoa(len(m.Layers))+" layers")
	}
	return strings.Join(parts, ", ")
}

// CountLayersWithWindow returns how many layers have a sliding window.
func (m *Model) CountLayersWithWindow() int {
	return m.CountLayers(func(l Layer) bool { return l.Window > 0 })
}
