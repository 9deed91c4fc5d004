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

// A Parameter is one number of the hardware prior that is the same for all deployments, except for effects of a GPU, a
// model, a kind of kernels or a host.
type Parameter struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Share says that the parameter is a share between 0 and 1, fitted as a logit; any other is positive and fitted as
	// a logarithm.
	Share bool `json:"share"`
	// Guess is the estimate from physics and documentation before any measurement, and SD its uncertainty, as a
	// standard deviation of the logit or the logarithm.
	Guess float64 `json:"guess"`
	SD    float64 `json:"sd"`
}

//go:embed parameters.yaml
var parametersYAML []byte

// priors returns the expectations before any measurement, from parameters.yaml.
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

// Parameters describes all parameters, by their place in Values.
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

// asShare and asSize return a parameter on its own scale.
func (v *Values) asShare(p int) float64 { return 1 / (1 + math.Exp(-v[p])) }
func (v *Values) asSize(p int) float64  { return math.Exp(v[p]) }

// Start is the parameter's guess as a logit or a logarithm.
func (p Parameter) Start() float64 {
	if p.Share {
		return math.Log(p.Guess / (1 - p.Guess))
	}
	return math.Log(p.Guess)
}

// An Effect is the difference of a parameter on deployments that share a level, such as a GPU. A level that was never
// measured has an effect of Mean, give or take SD.
type Effect struct {
	Level    string // "gpu H100 SXM"
	On       int    // the parameter
	Mean, SD float64
}

// effectsFor selects the effects of parameters.yaml for a deployment's levels, by kind of level, and for its kernels.
func effectsFor(levels map[string]string, kernels map[int]bool) []Effect {
	var out []Effect
	for _, e := range priors().Effects {
		on := slices.IndexFunc(Parameters(), func(p Parameter) bool { return p.Name == e.Parameter })
		if level, ok := levels[e.Level]; ok && (on < pFP8 || on > pNVFP4 || kernels[on]) {
			out = append(out, Effect{level, on, e.Mean, e.SD})
		}
	}
	return out
}

// Key names the effect in the table of fitted effects.
func (e Effect) Key() string { return Parameters()[e.On].Name + " of " + e.Level }

// A Shape is the work of a deployment's step on each of its GPUs, according to its model, its GPU and its settings. The
// parameters are applied to it.
type Shape struct {
	Effects []Effect

	chip                 string
	bandwidth, bf16      float64       // from the data sheet
	dense, experts       float64       // bytes of weights that a step reads, and of all experts
	expertShare          float64       // share of the experts that a token takes
	kernels              [6]kernelWork // by kind, from pCompute
	attentionWidth       float64       // layers × heads × size of a head, on one GPU
	recurrence           float64       // operations of a token on the states of recurrent layers, on one GPU
	layers, expertLayers float64
	hidden, vocab        float64 // sums over all GPUs
	elementBytes         float64
	kvBytes, stateBytes  float64 // per token, and per request
	tp, dp               float64
	pipeline             bool
	logits               float64 // operations per request
	link                 float64 // bytes per second
	bus, async           bool
	eager                bool // no CUDA graphs
	template             bool // the chat template is parsed for each request
}

// kernelWork is arithmetic for a token, as seconds at a GPU's peak.
type kernelWork struct{ dense, experts float64 }

// kernelFor returns the kernels that multiply weights of so many bytes each, and their peak.
func kernelFor(q *modelconfig.Quantization, bytesPerWeight float64, g GPU) (kernel int, peak float64) {
	switch {
	case bytesPerWeight > 1.5:
		return pCompute, g.BF16
	case bytesPerWeight > 0.8 && g.FP8 > 0:
		return pFP8, g.FP8
	case bytesPerWeight > 0.8:
		return pWeightOnly8, g.BF16
	case strings.Contains(q.Method, "mxfp4"):
		return pMXFP4, g.BF16
	case g.Family == "Blackwell" && g.FP4 > 0 &&
		(strings.Contains(q.Method, "modelopt") || strings.Contains(q.Method, "nvfp4")):
		return pNVFP4, g.FP4
	}
	return pWeightOnly4, g.BF16
}

// chunkedOperations is the operations on each value of a state for each prompt token, in chunked prefill: about four
// products of keys, values and queries within the chunk and with the state, of two operations each (Yang, Kautz and
// Hatamizadeh, "Gated Delta Networks", 2025).
const chunkedOperations = 8

// Shape computes the work of a step for requests that hold meanTokens on average. The device's data sheet must be
// known. Stages of a pipeline run one after the other.
func (l *Ledger) Shape(meanTokens float64) *Shape {
	m, s := l.Model, &l.Settings
	tp := float64(s.TP)
	g := s.Device
	sh := &Shape{
		chip: g.Chip, bandwidth: g.Bandwidth, bf16: g.BF16,
		layers: float64(len(m.Layers)), hidden: float64(m.Hidden), vocab: float64(m.Vocab),
		elementBytes: m.DType.Bytes(), kvBytes: l.ReadPerToken(meanTokens) * float64(s.PP), stateBytes: l.KV.StateBytes,
		tp: tp, dp: float64(s.DP), pipeline: s.PP > 1,
		async: s.Release.AtLeast(vllm.AsyncSchedulingByDefault), eager: s.EnforceEager,
	}
	if s.AsyncScheduling != nil {
		sh.async = *s.AsyncScheduling
	}
	// The Harmony format of gpt-oss has no template.
	sh.template = s.Release.AtLeast(vllm.ChatTemplateParsed) && !s.Release.AtLeast(vllm.ChatTemplateKept) &&
		m.Architecture != "GptOssForCausalLM"
	kinds := sh.addWeights(m, s)
	for _, x := range m.Layers {
		reach := 1.0
		if x.Window > 0 {
			reach = min(1, 2*float64(x.Window)/max(meanTokens, 1)) // share of a prompt's pairs
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
		"family": "family " + g.Family, "chip": "chip " + g.Chip,
		"model": fmt.Sprintf("model %s %d×%d", m.Architecture, len(m.Layers), m.Hidden),
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
	sh.Effects = effectsFor(levels, kinds)
	return sh
}

// addWeights adds a step's reading and computing of a model's weights, and returns the kinds of kernels that it uses.
func (s *Shape) addWeights(m *modelconfig.Model, of *Settings) map[int]bool {
	kinds := map[int]bool{}
	for i := range m.Weights {
		w := &m.Weights[i]
		share := of.shareOf(m, w)
		count := w.Count * float64(w.Times()) * share
		expert := w.Part == modelconfig.Experts && w.ActiveShare < 1 // and not the bias
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
		kind, peak := kernelFor(&m.Quant, w.Bytes, of.Device)
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

// On returns the shape with the effect of a published measurement's host: its processor and everything else about it.
func (s *Shape) On(host string) *Shape {
	c := *s
	host = "host " + host
	c.Effects = append(slices.Clip(c.Effects), effectsFor(map[string]string{"host": host}, nil)...)
	return &c
}

// Roofline is the cost of a step on GPUs that reach their data sheets and exchange bytes for nothing, with an engine
// that does no work of its own. Weights, experts and the KV cache are read at the full bandwidth, and arithmetic runs
// at its peak and hides behind the reading of the weights (Williams, Waterman and Patterson, 2009).
func (s *Shape) Roofline() sim.StepCost {
	products := 0.0
	for _, k := range s.kernels {
		products += k.dense + k.experts
	}
	return sim.StepCost{
		Base: s.dense / s.bandwidth, PerSeq: 2 * s.stateBytes / s.bandwidth,
		PerToken: products, PerKV: s.kvBytes / s.bandwidth,
		PerPair: 4 * s.attentionWidth / s.bf16, Knee: max(int((s.dense+s.experts)/s.bandwidth/products), 1),
		Experts: s.experts / s.bandwidth, ExpertShare: s.expertShare,
	}
}

// Cost applies the parameters to the shape. No step is faster than the roofline.
func (s *Shape) Cost(v *Values) (sim.StepCost, sim.Frontend) {
	bandwidth := s.bandwidth * v.asShare(pBandwidth)
	weights, experts := s.dense/bandwidth, s.experts*v.asSize(pExpertBytes)/bandwidth
	products := 0.0
	for i, k := range s.kernels {
		products += (k.dense + k.experts/v.asShare(pMoE)) / v.asShare(pCompute+i)
	}
	perToken := products + s.layers*s.hidden*s.elementBytes*v.asSize(pElementwise)/bandwidth +
		s.recurrence/(s.bf16*v.asShare(pRecurrence))
	step := v.asSize(pStep)
	if s.async {
		step *= v.asShare(pAsync)
	}
	c := sim.StepCost{
		Base:  step + s.layers*v.asSize(pLayer) + s.expertLayers*v.asSize(pMoELayer) + weights,
		Mixed: s.layers * v.asSize(pMixedLayer),
		PerSeq: v.asSize(pSeq) + s.vocab*4*v.asSize(pSampling)/bandwidth + s.logits/(s.bf16*v.asShare(pCompute)) +
			2*s.stateBytes/bandwidth,
		PerKV:   s.kvBytes / (s.bandwidth * v.asShare(pKVBandwidth)),
		PerPair: 4 * s.attentionWidth / (s.bf16 * v.asShare(pAttention)),
	}
	// All-reduces after attention and after the other half of each layer, and the gathering and scattering of experts
	// that are spread over data-parallel ranks.
	for _, x := range []struct{ reductions, among float64 }{{2 * s.layers, s.tp}, {2 * s.expertLayers, s.dp}} {
		if x.among < 2 || x.reductions == 0 {
			continue
		}
		latency, share := v.asSize(pLinkLatency), v.asShare(pLinkShare)
		if s.bus {
			latency, share = v.asSize(pBusLatency), v.asShare(pBusShare)
		}
		c.Base += x.reductions * latency * math.Sqrt(x.among/2)
		// No token's bytes hide behind the reading of the weights.
		reduce := x.reductions * s.hidden * s.elementBytes * 2 * (x.among - 1) / x.among / (s.link * share)
		perToken += reduce
		c.PerSeq += reduce
	}
	c.PerToken = perToken
	c.Knee = max(int(math.Round(v.asShare(pOverlap)*(weights+experts)/products)), 1)
	if s.eager {
		// The processor launches kernels while the GPU computes: the longer of the two counts.
		idle := max(s.layers*(v.asSize(pEagerLayer)-v.asSize(pLayer))-weights, 0)
		c.Base += idle
		c.Knee += int(math.Round(idle / perToken))
	}
	c.Experts, c.ExpertShare = experts, s.expertShare
	c = c.Scale(sim.Uniform(v.asSize(pOverall)))
	least := s.Roofline()
	for _, x := range []struct {
		v     *float64
		least float64
	}{
		{&c.Base, least.Base},
		{&c.PerKV, least.PerKV},
		{&c.PerToken, least.PerToken},
		{&c.PerPair, least.PerPair},
		{&c.Experts, least.Experts},
	} {
		*x.v = max(*x.v, x.least)
	}
	serial := v.asSize(pSerial) / 2 // half before tokenization, half after
	f := sim.Frontend{
		PerRequest: v.asSize(pDelay), PerToken: v.asSize(pDelayToken),
		Reading: serial, Serial: serial, SerialPerToken: v.asSize(pSerialToken),
	}
	if s.template {
		f.Reading += v.asSize(pTemplate)
	}
	return c, f
}
