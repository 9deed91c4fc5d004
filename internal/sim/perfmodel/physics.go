package perfmodel

import (
	_ "embed" // parameters.yaml
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A Parameter is one number of the hardware prior that is the same for all deployments,
// but for the effects that belong to a GPU, a model, a kind of kernels or a host.
type Parameter struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Share says that the parameter is a share between 0 and 1, fitted as a logit; any
	// other is positive and fitted as a logarithm.
	Share bool `json:"share"`
	// Guess is what physics and documentation suggest before any measurement, and
	// SD how well that is known, as a standard deviation of the logit or the logarithm.
	Guess float64 `json:"guess"`
	SD    float64 `json:"sd"`
}

//go:embed parameters.yaml
var parametersYAML []byte

// priors are what is expected before any measurement.
var priors = sync.OnceValue(func() (of struct {
	Parameters []Parameter `json:"parameters"`
	Effects    []struct {
		Level     string  `json:"level"` // the kind of levels
		Parameter string  `json:"parameter"`
		Mean      float64 `json:"mean"`
		SD        float64 `json:"sd"`
	} `json:"effects"`
},
) {
	mustParse(parametersYAML, &of)
	return of
})

// Parameters describes all of them, by their place in Values.
func Parameters() []Parameter { return priors().Parameters }

// The parameters in the order of parameters.yaml.
const (
	pBandwidth = iota
	pExpertBytes
	pKVBandwidth
	pOverlap
	pCompute // the first of the kinds of kernels
	pFP8
	pWeightOnly8
	pWeightOnly4
	pMXFP4
	pNVFP4
	pMoE
	pAttention
	pRecurrence
	pElementwise
	pStep
	pAsync
	pLayer
	pEagerLayer
	pMoELayer
	pMixedLayer
	pSeq
	pSampling
	pLinkLatency
	pLinkShare
	pBusLatency
	pBusShare
	pDelay
	pDelayToken
	pSerial
	pSerialToken
	pTemplate
	pOverall
	parameters
)

// Values are the parameters of one deployment, as logits and logarithms.
type Values [parameters]float64

// share and size are a parameter on its own scale.
func (v *Values) share(p int) float64 { return 1 / (1 + math.Exp(-v[p])) }
func (v *Values) size(p int) float64  { return math.Exp(v[p]) }

// Start is the parameter's guess as a logit or a logarithm.
func (p Parameter) Start() float64 {
	if p.Share {
		return math.Log(p.Guess / (1 - p.Guess))
	}
	return math.Log(p.Guess)
}

// An Effect is by how much a parameter differs for deployments that have something in
// common: a level, such as a GPU. Levels that were never measured have an effect of
// Mean, give or take SD.
type Effect struct {
	Level    string // "gpu H100 SXM"
	On       int    // the parameter
	Mean, SD float64
}

// effects are those of parameters.yaml, for the levels that a deployment has of each kind and
// the kernels that it takes.
func effects(levels map[string]string, kernels map[int]bool) []Effect {
	var out []Effect
	for _, e := range priors().Effects {
		on := slices.IndexFunc(Parameters(), func(p Parameter) bool { return p.Name == e.Parameter })
		if level, ok := levels[e.Level]; ok && (on < pFP8 || on > pNVFP4 || kernels[on]) {
			out = append(out, Effect{level, on, e.Mean, e.SD})
		}
	}
	return out
}

// Key names the effect in the table of fitted ones.
func (e Effect) Key() string { return Parameters()[e.On].Name + " of " + e.Level }

// A Shape is what a step of a deployment does on each of its GPUs, as far as its model,
// its GPU and its settings tell: what the parameters are applied to.
type Shape struct {
	Effects []Effect

	chip                 string
	bandwidth, bf16      float64 // of a GPU's data sheet
	dense, experts       float64 // bytes of weights that a step reads; of all experts
	expertShare          float64 // of them that a token takes
	kernels              [6]work // by kind, from pCompute
	attentionWidth       float64 // layers × heads × size of a head, of one GPU
	recurrence           float64 // operations of a token on the states of recurrent layers, of one GPU
	layers, expertLayers float64
	hidden, vocab        float64 // of all GPUs
	elementBytes         float64
	kvBytes, stateBytes  float64 // of a token, and of a request
	tp, dp               float64
	pipeline             bool
	logits               float64 // operations of a request
	link                 float64 // bytes per second
	bus, async           bool
	eager                bool // no CUDA graphs
	template             bool // is parsed for each request
}

// work is arithmetic for a token, as seconds at a GPU's peak.
type work struct{ dense, experts float64 }

// kernel says with which kernels weights of so many bytes each are multiplied, and at
// which peak.
func kernel(q *modelconfig.Quantization, bytes float64, g GPU) (kind int, peak float64) {
	switch {
	case bytes > 1.5:
		return pCompute, g.BF16
	case bytes > 0.8 && g.FP8 > 0:
		return pFP8, g.FP8
	case bytes > 0.8:
		return pWeightOnly8, g.BF16
	case strings.Contains(q.Method, "mxfp4"):
		return pMXFP4, g.BF16
	case g.Family == "Blackwell" && g.FP4 > 0 && (strings.Contains(q.Method, "modelopt") || strings.Contains(q.Method, "nvfp4")):
		return pNVFP4, g.FP4
	}
	return pWeightOnly4, g.BF16
}

// chunkedOperations are those on each value of a state for each token of a prompt that is taken in
// chunks: products of keys, values and queries within the chunk and with the state, about four, of
// two operations (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2025).
const chunkedOperations = 8

// Shape works out what a step does for requests that hold so many tokens on average. The
// device's data sheet must be known. Stages of a pipeline are taken one after the other.
func (l *Ledger) Shape(meanTokens float64) *Shape {
	m, s := l.Model, &l.Settings
	tp := float64(s.TP)
	g := s.Device
	sh := &Shape{
		chip: g.Chip, bandwidth: g.Bandwidth, bf16: g.BF16, layers: float64(len(m.Layers)), hidden: float64(m.Hidden), vocab: float64(m.Vocab),
		elementBytes: m.DType.Bytes(), kvBytes: l.ReadPerToken(meanTokens) * float64(s.PP), stateBytes: l.KV.StateBytes, tp: tp, dp: float64(s.DP), pipeline: s.PP > 1,
		async: s.Release.AtLeast(vllm.AsyncSchedulingByDefault), eager: s.EnforceEager,
	}
	if s.AsyncScheduling != nil {
		sh.async = *s.AsyncScheduling
	}
	// The Harmony format of gpt-oss has no template.
	sh.template = s.Release.AtLeast(vllm.ChatTemplateParsed) && !s.Release.AtLeast(vllm.ChatTemplateKept) && m.Architecture != "GptOssForCausalLM"
	kinds := sh.weights(m, s)
	for _, x := range m.Layers {
		reach := 1.0
		if x.Window > 0 {
			reach = min(1, 2*float64(x.Window)/max(meanTokens, 1)) // of the pairs of a prompt
		}
		switch {
		case x.Mixer.Recurrent():
			sh.recurrence += chunkedOperations * m.State.Values / tp
		case x.Mixer == modelconfig.Attention:
			dim, _ := m.HeadsOf(x)
			sh.attentionWidth += reach * float64(m.Heads*dim) / tp
		case x.Mixer == modelconfig.Latent:
			sh.attentionWidth += float64(m.Heads*m.HeadDim) / tp
		}
	}
	if m.Experts > 0 {
		sh.expertLayers = float64(m.CountLayers(func(x modelconfig.Layer) bool { return x.FFN == modelconfig.MoE }))
	}
	if s.TP*s.DP > 1 {
		sh.link, sh.bus = g.Link, g.Link == 0
		if sh.bus {
			sh.link = g.Bus
		}
		if s.SpansNodes() {
			sh.link, sh.bus = betweenNodes, true
		}
	}
	levels := map[string]string{
		"family": "family " + g.Family, "chip": "chip " + g.Chip, "model": fmt.Sprintf("model %s %d×%d", m.Architecture, len(m.Layers), m.Hidden),
	}
	if g.Capability == 0 {
		levels["maker"] = "maker of " + g.Family
	}
	if strings.HasSuffix(g.Chip, "GeForce") {
		levels["board"] = "GeForce"
	}
	if !s.Release.AtLeast(vllm.AsyncSchedulingByDefault) {
		levels["release"] = "releases before 0.14"
	}
	if sh.template {
		levels["architecture"] = "model " + m.Architecture
	}
	sh.Effects = effects(levels, kinds)
	return sh
}

// weights adds what a step reads and computes of a model's weights, and returns the kinds of
// kernels that it takes.
func (s *Shape) weights(m *modelconfig.Model, of *Settings) map[int]bool {
	kinds := map[int]bool{}
	for i := range m.Weights {
		w := &m.Weights[i]
		share := of.share(m, w)
		count := w.Count * float64(w.Times()) * share
		expert := w.Part == modelconfig.Experts && w.ActiveShare < 1 // and no bias
		switch {
		case w.Part == modelconfig.Encoder, w.Part == modelconfig.Embedding && !m.Tied:
			continue // no token reads more than a row
		case w.Part == modelconfig.Embedding, w.Part == modelconfig.Head: // tied, or not
			s.dense += count * w.Bytes
			s.logits += 2 * count
			continue
		case expert:
			s.experts += count * w.Bytes
			s.expertShare = w.ActiveShare
		default:
			s.dense += count * w.Bytes
		}
		kind, peak := kernel(&m.Quant, w.Bytes, of.Device)
		if peak > 0 {
			kinds[kind] = true
			k := &s.kernels[kind-pCompute]
			if expert {
				k.experts += 2 * count * w.ActiveShare / peak
			} else {
				k.dense += 2 * count / peak
			}
		}
	}
	return kinds
}

// On returns the shape with what the host of a published measurement adds: its
// processor, and all else that is its own.
func (s *Shape) On(host string) *Shape {
	c := *s
	c.Effects = append(c.Effects[:len(c.Effects):len(c.Effects)], effects(map[string]string{"host": "host " + host}, nil)...)
	return &c
}

// Roofline is what a step takes on GPUs that reach every number of their data sheet, between
// which bytes cost nothing, and of an engine without any work of its own: weights, experts
// and the KV cache are read at the bandwidth, and arithmetic is at its peak and hides behind
// the reading of weights (Williams, Waterman and Patterson, 2009).
func (s *Shape) Roofline() sim.StepCost {
	products := 0.0
	for _, k := range s.kernels {
		products += k.dense + k.experts
	}
	return sim.StepCost{
		Base: s.dense / s.bandwidth, PerSeq: 2 * s.stateBytes / s.bandwidth, PerToken: products, PerKV: s.kvBytes / s.bandwidth,
		PerPair: 4 * s.attentionWidth / s.bf16, Knee: max(int((s.dense+s.experts)/s.bandwidth/products), 1),
		Experts: s.experts / s.bandwidth, ExpertShare: s.expertShare,
	}
}

// Cost applies the values of the parameters. No step is faster than the roofline.
func (s *Shape) Cost(v *Values) (sim.StepCost, sim.Frontend) {
	bandwidth := s.bandwidth * v.share(pBandwidth)
	weights, experts := s.dense/bandwidth, s.experts*v.size(pExpertBytes)/bandwidth
	products := 0.0
	for i, k := range s.kernels {
		products += (k.dense + k.experts/v.share(pMoE)) / v.share(pCompute+i)
	}
	perToken := products + s.layers*s.hidden*s.elementBytes*v.size(pElementwise)/bandwidth + s.recurrence/(s.bf16*v.share(pRecurrence))
	step := v.size(pStep)
	if s.async {
		step *= v.share(pAsync)
	}
	c := sim.StepCost{
		Base:    step + s.layers*v.size(pLayer) + s.expertLayers*v.size(pMoELayer) + weights,
		Mixed:   s.layers * v.size(pMixedLayer),
		PerSeq:  v.size(pSeq) + s.vocab*4*v.size(pSampling)/bandwidth + s.logits/(s.bf16*v.share(pCompute)) + 2*s.stateBytes/bandwidth,
		PerKV:   s.kvBytes / (s.bandwidth * v.share(pKVBandwidth)),
		PerPair: 4 * s.attentionWidth / (s.bf16 * v.share(pAttention)),
	}
	// All-reduces after attention and after the other half of each layer, and what experts that
	// are spread over data-parallel ranks gather and scatter.
	for _, x := range []struct{ times, among float64 }{{2 * s.layers, s.tp}, {2 * s.expertLayers, s.dp}} {
		if x.among < 2 || x.times == 0 {
			continue
		}
		latency, share := v.size(pLinkLatency), v.share(pLinkShare)
		if s.bus {
			latency, share = v.size(pBusLatency), v.share(pBusShare)
		}
		c.Base += x.times * latency * math.Sqrt(x.among/2)
		// No token's bytes hide behind the reading of the weights.
		reduce := x.times * s.hidden * s.elementBytes * 2 * (x.among - 1) / x.among / (s.link * share)
		perToken += reduce
		c.PerSeq += reduce
	}
	c.PerToken = perToken
	c.Knee = max(int(math.Round(v.share(pOverlap)*(weights+experts)/products)), 1)
	if s.eager {
		// The processor launches kernels while the GPU computes: whichever takes longer.
		idle := max(s.layers*(v.size(pEagerLayer)-v.size(pLayer))-weights, 0)
		c.Base += idle
		c.Knee += int(math.Round(idle / perToken))
	}
	c.Experts, c.ExpertShare = experts, s.expertShare
	c = c.Scale(sim.Uniform(v.size(pOverall)))
	least := s.Roofline()
	for _, x := range []struct {
		v     *float64
		least float64
	}{{&c.Base, least.Base}, {&c.PerKV, least.PerKV}, {&c.PerToken, least.PerToken}, {&c.PerPair, least.PerPair}, {&c.Experts, least.Experts}} {
		*x.v = max(*x.v, x.least)
	}
	serial := v.size(pSerial) / 2 // as much before as after tokenization
	f := sim.Frontend{
		PerRequest: v.size(pDelay), PerToken: v.size(pDelayToken), Reading: serial, Serial: serial, SerialPerToken: v.size(pSerialToken),
	}
	if s.template {
		f.Reading += v.size(pTemplate)
	}
	return c, f
}
