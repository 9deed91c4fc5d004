package perfmodel

import (
	"fmt"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
)

// A Parameter is one number of the hardware prior that is the same for all deployments,
// but for the effects that belong to a GPU, a model, a kind of kernels or a host.
type Parameter struct {
	Name, Text string
	// Share says that the parameter is a share between 0 and 1, fitted as a logit; any
	// other is positive and fitted as a logarithm.
	Share bool
	// Guess is what physics and documentation let one expect before any measurement, and
	// SD how well that is known, as a standard deviation of the logit or the logarithm.
	Guess, SD float64
}

// The parameters, by their place in Values.
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
	pElementwise
	pStep
	pAsync
	pLayer
	pEagerLayer
	pMoELayer
	pMixed
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

// Parameters describes all of them. Guesses of shares are of what kernels are known to
// reach; those of times are of the order that vLLM's own profiles show.
func Parameters() []Parameter {
	return []Parameter{
		pBandwidth:   {"bandwidth", "share of the memory bandwidth that reading weights reaches", true, 0.80, 0.4},
		pExpertBytes: {"expert-bytes", "times as long as any other weight's byte an expert's takes to read", false, 1.1, 0.3},
		pKVBandwidth: {"kv-bandwidth", "share of the memory bandwidth that reading the KV cache reaches", true, 0.8, 0.6},
		pOverlap:     {"overlap", "share of the time of reading weights that arithmetic hides behind", true, 0.5, 1},
		pCompute:     {"compute", "share of the peak arithmetic in 16 bits that matrix products reach", true, 0.6, 0.4},
		pFP8:         {"fp8", "the same in FP8, of the FP8 peak", true, 0.5, 0.5},
		pWeightOnly8: {"weight-only-8", "the same with 8-bit weights unpacked to 16 bits, of the 16-bit peak", true, 0.5, 0.5},
		pWeightOnly4: {"weight-only-4", "the same with 4-bit weights unpacked to 16 bits", true, 0.5, 0.5},
		pMXFP4:       {"mxfp4", "the same with MXFP4 weights and 16-bit arithmetic", true, 0.4, 0.6},
		pNVFP4:       {"nvfp4", "the same in NVFP4, of the FP4 peak", true, 0.4, 0.6},
		pMoE:         {"moe", "arithmetic of experts, of that of dense layers of the same kind", true, 0.6, 0.6},
		pAttention:   {"attention", "share of the 16-bit peak that attention of prompts reaches", true, 0.4, 0.6},
		pElementwise: {"elementwise", "times that a layer reads or writes a token's hidden state", false, 16, 0.5},
		pStep:        {"step", "seconds of the engine's own work for a step", false, 2e-3, 0.6},
		pAsync:       {"async", "share of that which asynchronous scheduling does not hide", true, 0.3, 0.7},
		pLayer:       {"layer", "seconds that a layer's kernels take to launch", false, 15e-6, 0.6},
		pEagerLayer:  {"eager-layer", "seconds of the processor to launch a layer's kernels one by one, without CUDA graphs", false, 450e-6, 0.4},
		pMoELayer:    {"moe-layer", "seconds that the routing of a layer of experts takes", false, 30e-6, 0.7},
		pMixed:       {"mixed", "additional seconds of a step with a prompt", false, 1.5e-3, 0.8},
		pMixedLayer:  {"mixed-layer", "additional seconds of a layer of such a step", false, 40e-6, 0.8},
		pSeq:         {"sequence", "seconds of the processor for a request in a step", false, 15e-6, 0.8},
		pSampling:    {"sampling", "times that the logits of a request are read or written", false, 20, 0.7},
		pLinkLatency: {"link-latency", "seconds of an all-reduce over NVLink or its like before its bytes", false, 12e-6, 0.5},
		pLinkShare:   {"link-share", "share of that link's bandwidth that an all-reduce reaches", true, 0.5, 0.6},
		pBusLatency:  {"bus-latency", "seconds of an all-reduce over PCIe before its bytes", false, 40e-6, 0.6},
		pBusShare:    {"bus-share", "share of PCIe's bandwidth that an all-reduce reaches", true, 0.5, 0.6},
		pDelay:       {"delay", "seconds of a request outside the engine", false, 6e-3, 0.6},
		pDelayToken:  {"delay-token", "the same for each token of its prompt", false, 6e-6, 0.8},
		pSerial:      {"serial", "seconds of a request in which the API server takes no other", false, 2e-3, 0.8},
		pSerialToken: {"serial-token", "the same for each token of its prompt", false, 3e-6, 0.8},
		pTemplate:    {"template", "the same where a release parses the chat template for each request", false, 8e-3, 0.5},
		pOverall:     {"overall", "times that all that the engine does takes", false, 1, 1e-3},
	}
}

// Values are the parameters of one deployment, as logits and logarithms.
type Values [parameters]float64

// in is the parameter's own scale.
func (v *Values) in(p int, share bool) float64 {
	if share {
		return 1 / (1 + math.Exp(-v[p]))
	}
	return math.Exp(v[p])
}

func (v *Values) share(p int) float64 { return v.in(p, true) }
func (v *Values) size(p int) float64  { return v.in(p, false) }

// Start is the parameter's guess as a logit or a logarithm.
func (p Parameter) Start() float64 {
	if p.Share {
		return math.Log(p.Guess / (1 - p.Guess))
	}
	return math.Log(p.Guess)
}

// An Effect is by how much a parameter differs for deployments that have something in
// common: a level, such as a GPU. Levels that were never measured have an effect of
// zero, give or take SD.
type Effect struct {
	Level string // "gpu H100 SXM"
	On    int    // the parameter
	SD    float64
}

// Key names the effect in the table of fitted ones.
func (e Effect) Key() string { return Parameters()[e.On].Name + " of " + e.Level }

// A Shape is what a step of a deployment does on each of its GPUs, as far as its model,
// its GPU and its settings tell: what the parameters are applied to.
type Shape struct {
	Effects []Effect

	device               string
	bandwidth, bf16      float64 // of a GPU's data sheet
	dense, experts       float64 // bytes of weights that a step reads; of all experts
	expertShare          float64 // of them that a token takes
	kernels              [6]work // by kind, from pCompute
	attentionWidth       float64 // layers × heads × size of a head, of one GPU
	layers, expertLayers float64
	hidden, vocab        float64 // of all GPUs
	elementBytes         float64
	kvBytes, stateBytes  float64 // of a token, and of a request
	tp                   float64
	logits               float64 // operations of a request
	link                 float64 // bytes per second; 0 where there is one GPU
	bus, async           bool
	eager                bool // no CUDA graphs
	template             bool // is parsed for each request
}

// work is arithmetic for a token, as seconds at a GPU's peak.
type work struct{ dense, experts float64 }

// generation is the family of chips that a GPU belongs to.
func generation(device string) string {
	for _, g := range []struct{ name, devices string }{
		{"Hopper", "H100 H200 H20 GH200"},
		{"Blackwell", "B200 B300 GB200 GB300 RTX5090 RTXPRO"},
		{"Ampere", "A100 A30 A40 A10 RTXA6000 RTX3090"},
		{"Ada", "L4 L40 L40S RTX6000Ada RTX4090"},
		{"CDNA", "MI210 MI250 MI300 MI325 MI355"},
		{"Gaudi", "Gaudi"},
	} {
		for d := range strings.FieldsSeq(g.devices) {
			if strings.HasPrefix(strings.ReplaceAll(device, " ", ""), d) {
				return g.name
			}
		}
	}
	return "older"
}

// kernel says with which kernels weights of so many bytes each are multiplied, and at
// which peak.
func kernel(q *modelconfig.Quantization, bytes float64, g GPU) (kind int, peak float64) {
	gen := generation(g.Name)
	switch {
	case bytes > 1.5:
		return pCompute, g.BF16
	case bytes > 0.8 && g.FP8 > 0:
		return pFP8, g.FP8
	case bytes > 0.8:
		return pWeightOnly8, g.BF16
	case strings.Contains(q.Method, "mxfp4"):
		return pMXFP4, g.BF16
	case strings.Contains(q.Method, "modelopt") && gen == "Blackwell" && g.FP4 > 0,
		strings.Contains(q.Method, "nvfp4") && gen == "Blackwell" && g.FP4 > 0:
		return pNVFP4, g.FP4
	}
	return pWeightOnly4, g.BF16
}

// Shape works out what a step does for requests that hold so many tokens on average. The
// device's data sheet must be known. Stages of a pipeline are taken one after the other.
func (l *Ledger) Shape(meanTokens float64) *Shape {
	m, s := l.Model, &l.Settings
	tp := float64(s.TP)
	g := s.Device
	sh := &Shape{
		device: g.Name, bandwidth: g.Bandwidth, bf16: g.BF16, layers: float64(len(m.Layers)), hidden: float64(m.Hidden), vocab: float64(m.Vocab),
		elementBytes: m.DType.Bytes(), kvBytes: l.ReadPerToken(meanTokens) * float64(s.PP), stateBytes: l.KV.StateBytes, tp: tp,
		async: s.Release.AtLeast(vllm.AsyncSchedulingByDefault), eager: s.EnforceEager,
	}
	if s.AsyncScheduling != nil {
		sh.async = *s.AsyncScheduling
	}
	// The Harmony format of gpt-oss has no template.
	sh.template = s.Release.AtLeast(vllm.ChatTemplateParsed) && !s.Release.AtLeast(vllm.ChatTemplateKept) && m.Architecture != "GptOssForCausalLM"
	kinds := map[int]bool{}
	for i := range m.Weights {
		w := &m.Weights[i]
		share := s.share(m, w)
		count := w.Count * float64(w.Times()) * share
		expert := w.Part == modelconfig.Experts && w.ActiveShare < 1 // and no bias
		switch {
		case w.Part == modelconfig.Encoder, w.Part == modelconfig.Embedding && !m.Tied:
			continue // no token reads more than a row
		case w.Part == modelconfig.Embedding, w.Part == modelconfig.Head: // tied, or not
			sh.dense += count * w.Bytes
			sh.logits += 2 * count
			continue
		case expert:
			sh.experts += count * w.Bytes
			sh.expertShare = w.ActiveShare
		default:
			sh.dense += count * w.Bytes
		}
		kind, peak := kernel(&m.Quant, w.Bytes, g)
		if peak > 0 {
			kinds[kind] = true
			k := &sh.kernels[kind-pCompute]
			if expert {
				k.experts += 2 * count * w.ActiveShare / peak
			} else {
				k.dense += 2 * count / peak
			}
		}
	}
	for _, x := range m.Layers {
		reach := 1.0
		if x.Window > 0 {
			reach = min(1, 2*float64(x.Window)/max(meanTokens, 1)) // of the pairs of a prompt
		}
		if x.Mixer == modelconfig.Attention || x.Mixer == modelconfig.Latent {
			sh.attentionWidth += reach * float64(m.Heads) * float64(m.HeadDim) / tp
		}
	}
	if m.Experts > 0 {
		sh.expertLayers = float64(m.CountLayers(func(x modelconfig.Layer) bool { return x.FFN == modelconfig.MoE }))
	}
	if s.TP > 1 {
		sh.link, sh.bus = interconnect(g.Name)
		if s.SpansNodes() {
			sh.link, sh.bus = betweenNodes, true
		}
	}
	gen := generation(g.Name)
	sh.Effects = []Effect{
		{"family " + gen, pBandwidth, 0.25},
		sh.gpu(),
		{"family " + gen, pCompute, 0.25},
		{sh.gpu().Level, pCompute, 0.15},
		{sh.gpu().Level, pOverall, 0.10},
		{"family " + gen, pAttention, 0.4},
		{"family " + gen, pKVBandwidth, 0.5},
		{"family " + gen, pLinkLatency, 0.5},
		{"family " + gen, pLinkShare, 0.8},
		{fmt.Sprintf("model %s %d×%d", m.Architecture, len(m.Layers), m.Hidden), pOverall, 0.06},
	}
	if !s.Release.AtLeast(vllm.AsyncSchedulingByDefault) { // and of all that became faster until then
		const level = "releases before 0.14"
		sh.Effects = append(sh.Effects,
			Effect{level, pOverall, 0.2}, Effect{level, pStep, 0.4}, Effect{level, pLayer, 0.4}, Effect{level, pMoELayer, 0.5}, Effect{level, pSeq, 0.5},
			Effect{level, pDelay, 0.5}, Effect{level, pSerial, 0.4}, Effect{level, pCompute, 0.5}, Effect{level, pBandwidth, 0.2},
			Effect{level, pLinkLatency, 0.4}, Effect{level, pLinkShare, 0.6})
	}
	if sh.template { // a model's is longer than another's
		sh.Effects = append(sh.Effects, Effect{"model " + m.Architecture, pTemplate, 0.4})
	}
	for kind := pFP8; kind <= pNVFP4; kind++ {
		if kinds[kind] {
			sh.Effects = append(sh.Effects, Effect{"family " + gen, kind, 0.25})
		}
	}
	return sh
}

// gpu is the effect of the GPU on what weights take to read: all that were measured have one.
func (s *Shape) gpu() Effect { return Effect{"gpu " + s.device, pBandwidth, 0.15} }

// On returns the shape with what the host of a published measurement adds: its
// processor, and all else that is its own.
func (s *Shape) On(host string) *Shape {
	c := *s
	c.Effects = append(c.Effects[:len(c.Effects):len(c.Effects)], hostEffects(host)...)
	return &c
}

func hostEffects(host string) []Effect {
	level := "host " + host
	return []Effect{
		{level, pStep, 0.25},
		{level, pSeq, 0.5},
		{level, pDelay, 0.4},
		{level, pSerial, 0.4},
		{level, pCompute, 0.3},
		{level, pBandwidth, 0.15},
		{level, pOverall, 0.05},
		{level, pLinkLatency, 0.4},
		{level, pLinkShare, 0.5},
		{level, pBusLatency, 0.4},
		{level, pBusShare, 0.5},
	}
}

// Cost applies the values of the parameters.
func (s *Shape) Cost(v *Values) (sim.StepCost, sim.Frontend) {
	bandwidth := s.bandwidth * v.share(pBandwidth)
	weights, experts := s.dense/bandwidth, s.experts*v.size(pExpertBytes)/bandwidth
	products := 0.0
	for i, k := range s.kernels {
		products += (k.dense + k.experts/v.share(pMoE)) / v.share(pCompute+i)
	}
	perToken := products + s.layers*s.hidden*s.elementBytes*v.size(pElementwise)/bandwidth
	step := v.size(pStep)
	if s.async {
		step *= v.share(pAsync)
	}
	c := sim.StepCost{
		Base:    step + s.layers*v.size(pLayer) + s.expertLayers*v.size(pMoELayer) + weights,
		Mixed:   v.size(pMixed) + s.layers*v.size(pMixedLayer),
		PerSeq:  v.size(pSeq) + s.vocab*4*v.size(pSampling)/bandwidth + s.logits/(s.bf16*v.share(pCompute)) + 2*s.stateBytes/bandwidth,
		PerKV:   s.kvBytes / (s.bandwidth * v.share(pKVBandwidth)),
		PerPair: 4 * s.attentionWidth / (s.bf16 * v.share(pAttention)),
	}
	if s.link > 0 {
		latency, share := v.size(pLinkLatency), v.share(pLinkShare)
		if s.bus {
			latency, share = v.size(pBusLatency), v.share(pBusShare)
		}
		c.Base += 2 * s.layers * latency * math.Sqrt(s.tp/2)
		// No token's bytes hide behind the reading of the weights.
		reduce := 2 * s.layers * s.hidden * s.elementBytes * 2 * (s.tp - 1) / s.tp / (s.link * share)
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
	serial := v.size(pSerial) / 2 // as much before as after tokenization
	f := sim.Frontend{
		PerRequest: v.size(pDelay), PerToken: v.size(pDelayToken), Reading: serial, Serial: serial, SerialPerToken: v.size(pSerialToken),
	}
	if s.template {
		f.Reading += v.size(pTemplate)
	}
	return c, f
}
