package perfmodel

import (
	"fmt"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/sim"
)

// UsualBatch is the batch for which the share of experts that a step reads is
// worked out: a step's constants do not depend on its batch.
const UsualBatch = 32

// stepModel is what a step of the model costs on one tensor-parallel group, for
// FromHardware. KV bytes are those of all its GPUs together, as the
// bandwidth is.
func (l *Ledger) stepModel(meanTokens float64) StepModel {
	m, s := l.Model, &l.Settings
	tp := float64(s.TP)
	var weights float64
	for i := range m.Weights {
		w := &m.Weights[i]
		read := 1.0
		switch w.Part {
		case modelconfig.Embedding:
			if !m.Tied {
				read = 0 // one row for each token
			}
		case modelconfig.Encoder:
			read = 0
		case modelconfig.Experts:
			read = 1 - math.Pow(1-w.ActiveShare, UsualBatch)
		}
		weights += w.Count * float64(w.Times()) * w.Bytes * s.share(m, w) * tp * read
	}
	attention := m.CountLayers(func(x modelconfig.Layer) bool {
		return x.Mixer == modelconfig.Attention || x.Mixer == modelconfig.Latent
	})
	params := m.Active()
	if !m.Tied {
		params -= m.PartTotal(modelconfig.Embedding)
	}
	return StepModel{
		WeightBytes:     weights,
		Parameters:      params,
		KVBytesPerToken: l.ReadPerToken(meanTokens) * tp,
		AttentionWidth:  float64(attention) * float64(m.Heads) * float64(m.HeadDim),
	}
}

// ReadPerToken is what a decode step reads of one GPU's cache for each token of
// context, on average over a request of meanTokens: windows end, states do not
// grow.
func (l *Ledger) ReadPerToken(meanTokens float64) float64 {
	m, s := l.Model, &l.Settings
	per := tokenBytes(m, s)
	var sum float64
	for _, x := range m.Layers {
		switch {
		case x.Mixer == modelconfig.Attention && x.Window > 0:
			sum += per * min(1, float64(x.Window)/max(meanTokens, 1))
		case x.Mixer == modelconfig.Attention || x.Mixer == modelconfig.Latent:
			sum += per
		}
	}
	return sum / float64(s.PP)
}

// Interconnects: bytes per second from one GPU, in one direction, and what one
// all-reduce costs before its bytes. NVIDIA's data sheets of NVLink 3 to 5, AMD's
// of Infinity Fabric; all others are taken to have PCIe 4 ×16. The latencies are
// round numbers of the right order.
func interconnect(device string) (bandwidth, latency float64) {
	switch {
	case strings.Contains(device, "PCIe"), strings.HasSuffix(device, "NVL"):
		return 25e9, 30e-6
	case strings.HasPrefix(device, "B200"), strings.HasPrefix(device, "B300"), strings.HasPrefix(device, "GB200"):
		return 900e9, 8e-6
	case strings.HasPrefix(device, "H"), strings.HasPrefix(device, "GH"):
		return 450e9, 8e-6
	case strings.HasPrefix(device, "A100"):
		return 300e9, 10e-6
	case strings.HasPrefix(device, "MI3"):
		return 350e9, 12e-6
	case strings.HasPrefix(device, "V100"):
		return 150e9, 12e-6
	}
	return 25e9, 30e-6
}

// StepCost is what a step costs on one tensor-parallel group by the data sheets, for
// requests that hold so many tokens on average: the roofline model, with the two
// all-reduces that each layer needs under tensor parallelism, and the states that
// recurrent layers read and write. The device's data sheet must be known.
func (l *Ledger) StepCost(meanTokens float64) Prior {
	m, s := l.Model, &l.Settings
	tp := float64(s.TP)
	c := FromHardware(l.stepModel(meanTokens),
		Accelerators{MemoryBandwidth: s.Device.Bandwidth * tp, FLOPS: s.Device.FLOPS(int(m.Quant.Bits)) * tp})
	if s.TP > 1 {
		bandwidth, latency := interconnect(s.Device.Name)
		if s.SpansNodes() {
			bandwidth, latency = 50e9, 40e-6 // 400 Gb/s between machines
		}
		layers := float64(len(m.Layers))
		c.Base += 2 * layers * latency
		c.PerToken += 2 * layers * float64(m.Hidden) * m.DType.Bytes() * 2 * (tp - 1) / tp / bandwidth
	}
	c.Base += l.fetchSeconds()
	if l.KV.StateBytes > 0 && s.Device.Bandwidth > 0 {
		c.PerSeq += 2 * l.KV.StateBytes / s.Device.Bandwidth
	}
	return c
}

// StepTimesFrom says what StepCost rests on, for people.
func (l *Ledger) StepTimesFrom() string {
	text := l.Settings.Device.Name
	if l.Settings.TP > 1 {
		text = fmt.Sprintf("%d × %s", l.Settings.TP, text)
	}
	if name := l.Model.Architecture; name != "" {
		text += " and the configuration of a " + name
	}
	return text
}

// Transfer scales a fit that was made on one deployment to another by what the
// data sheets say of both.
func (f *Fit) Transfer(from, to sim.StepCost) *Fit {
	ratio := func(a, b float64) float64 {
		if a > 0 && b > 0 {
			return b / a
		}
		return 1
	}
	by := sim.StepCost{
		Base: ratio(from.Base, to.Base), Mixed: ratio(from.Mixed, to.Mixed), PerSeq: ratio(from.PerSeq, to.PerSeq),
		PerToken: ratio(from.PerToken, to.PerToken), PerKV: ratio(from.PerKV, to.PerKV), PerPair: ratio(from.PerPair, to.PerPair),
	}
	return f.Scale(by)
}
