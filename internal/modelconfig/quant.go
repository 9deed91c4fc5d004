package modelconfig

import (
	"fmt"
	"regexp"
	"strings"
)

// Quantization is how the weights of linear layers are stored.
type Quantization struct {
	Method string // quant_method: "fp8", "awq", …; "" for none
	layout
	Block [2]int // size of the blocks that share a scale (DeepSeek's FP8); zero without blocks

	zeroBits float64 // bits of a group's zero point
	unknown  bool    // the layout is unknown

	ignored  map[string]bool  // modules that are not quantized, or parts of their paths
	patterns []*regexp.Regexp // names of such modules
}

// layout is the layout of weights and their scales. quantization.yaml explains the fields.
type layout struct {
	Bits        float64 `json:"bits"`
	Group       int     `json:"group"`
	ScaleBytes  float64 `json:"scaleBytes"`
	ExpertsOnly bool    `json:"expertsOnly"`
	Padded      bool    `json:"padded"`
}

// maxPatterns is the most regular expressions of an ignore list.
const maxPatterns = 16

// String describes the quantization in a few words.
func (q *Quantization) String() string {
	if q.Method == "" {
		return "none"
	}
	if q.unknown {
		return q.Method + " (layout not known)"
	}
	s := fmt.Sprintf("%s, %g bits", q.Method, q.Bits)
	switch {
	case q.Block[0] > 0:
		s += fmt.Sprintf(" in blocks of %d×%d", q.Block[0], q.Block[1])
	case q.Group > 0:
		s += fmt.Sprintf(" in groups of %d", q.Group)
	}
	if q.ExpertsOnly {
		s += ", experts only"
	}
	return s
}

// Capability returns the least compute capability that the method needs; 0 is any.
func (q *Quantization) Capability() float64 { return quantizations().Capabilities[q.Method] }

// readQuantization reads quantization_config.
func (f *fields) readQuantization(o map[string]any) {
	q := &f.model.Quant
	if o == nil {
		return
	}
	c := &fields{raw: o, model: f.model}
	q.Method = c.readText("quant_method")
	if q.Method == "" && c.readText("quant_algo") != "" {
		q.Method = "modelopt"
	}
	for _, key := range []string{"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"} {
		q.addIgnored(c.readTexts(key))
	}
	q.layout = quantizations().Layouts[q.Method]
	c.readLayout(q, o)
	q.Bits = min(q.Bits, 32)
	if q.unknown {
		f.model.Unknown = append(f.model.Unknown,
			fmt.Sprintf("the quantization method %s: a weight of a linear layer is assumed to take 0.5 to 2 bytes",
				quoteShort(q.Method)))
	}
	f.model.KVType = kvType(o)
}

// readLayout reads the fields of a method into q, which has the method's usual layout.
func (f *fields) readLayout(q *Quantization, o map[string]any) {
	_, known := quantizations().Layouts[q.Method]
	switch q.Method {
	case "fp8", "fbgemm_fp8":
		if b, ok := o["weight_block_size"].([]any); ok && len(b) == 2 {
			x, _ := b[0].(float64)
			y, _ := b[1].(float64)
			if x >= 1 && y >= 1 && x <= maxSize && y <= maxSize {
				q.Block = [2]int{int(x), int(y)}
			}
		}
	case "awq", "gptq", "awq_marlin", "gptq_marlin", "auto-round", "auto_round":
		q.Bits = float64(f.readOr("bits", 16, 4, "the usual value of "+q.Method))
		q.Group, q.ScaleBytes = f.readOr("group_size", maxSize, 128, "the usual value of "+q.Method), 2
		if q.Method == "awq" || !f.readFlag("sym", true) {
			q.zeroBits = q.Bits
		}
	case "bitsandbytes":
		if f.readFlag("load_in_4bit", false) || !f.readFlag("load_in_8bit", false) {
			q.Bits, q.Group = 4, 64
			if f.readFlag("bnb_4bit_use_double_quant", false) {
				q.ScaleBytes = 1 + 4.0/256
			}
		}
	case "compressed-tensors":
		f.readCompressed(q)
	case "modelopt":
		q.layout, known = quantizations().Layouts["modelopt "+strings.ToUpper(f.readText("quant_algo"))]
		q.unknown = !known
	default:
		q.unknown = !known
	}
}

// readCompressed reads the first group of compressed-tensors. If there are several, each is for other kinds of layers,
// which its targets name.
func (f *fields) readCompressed(q *Quantization) {
	groups := f.readObject("config_groups")
	group, _ := groups["group_0"].(map[string]any)
	if group == nil && len(groups) == 1 {
		for _, g := range groups {
			group, _ = g.(map[string]any)
		}
	}
	weights, _ := group["weights"].(map[string]any)
	if weights == nil {
		q.unknown = true
		return
	}
	w := &fields{raw: weights, model: f.model}
	q.Bits = float64(w.readOr("num_bits", 16, 8, "the usual value of compressed-tensors"))
	q.ScaleBytes = 2
	switch w.readText("strategy") {
	case "group", "tensor_group":
		q.Group = w.readOr("group_size", maxSize, 128, "the usual value of compressed-tensors")
		if w.readText("type") == "float" && q.Bits == 4 {
			q.ScaleBytes = 1 // NVFP4: FP8 scales
		}
	case "tensor":
		q.Group = -1
	case "block":
		q.Block = [2]int{128, 128}
	default:
		q.Group, q.ScaleBytes = 0, 4
	}
	if !w.readFlag("symmetric", true) {
		q.zeroBits = q.Bits
	}
	if len(groups) > 1 {
		f.model.Unknown = append(f.model.Unknown, fmt.Sprintf("compressed-tensors with %d groups: "+
			"all layers that are quantized are assumed to have the layout of the first", len(groups)))
	}
}

// kvType reads the checkpoint's data type for the KV cache.
func kvType(o map[string]any) DType {
	if s, ok := o["kv_cache_quant_algo"].(string); ok && strings.EqualFold(s, "FP8") {
		return "fp8"
	}
	s, _ := o["kv_cache_scheme"].(map[string]any)
	if bits, _ := s["num_bits"].(float64); bits == 8 {
		return "fp8"
	}
	return ""
}

func (q *Quantization) addIgnored(names []string) {
	if q.ignored == nil {
		q.ignored = map[string]bool{}
	}
	for _, n := range names {
		if p, ok := strings.CutPrefix(n, "re:"); ok {
			if len(q.patterns) < maxPatterns && len(p) < 1000 {
				if re, err := regexp.Compile("^(?:" + p + ")"); err == nil { // Python's re.match
					q.patterns = append(q.patterns, re)
				}
			}
			continue
		}
		q.ignored[canonicalName(n)] = true
	}
}

// canonicalName removes the prefixes of multimodal models and of the text model from a module's name.
func canonicalName(name string) string {
	name = strings.TrimPrefix(name, "language_model.")
	name = strings.TrimPrefix(name, "model.")
	return strings.TrimPrefix(name, "language_model.")
}

// ignoresModule reports whether a module, such as layers.3.mlp.gate, is not quantized: if the ignore list has the
// module, a module around it, or a part of its path.
func (q *Quantization) ignoresModule(module string) bool {
	if len(q.ignored) == 0 && len(q.patterns) == 0 {
		return false
	}
	for name := module; name != ""; {
		if q.ignored[name] {
			return true
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			break
		}
		name = name[:i]
	}
	for part := range strings.SplitSeq(module, ".") {
		if q.ignored[part] {
			return true
		}
	}
	for _, re := range q.patterns {
		if re.MatchString("model." + module) {
			return true
		}
	}
	return false
}

// bytesPerWeight returns the bytes of a weight with its share of scales, and their bounds. The weight's linear layer
// has in inputs and out outputs. plain are the bytes without quantization.
func (q *Quantization) bytesPerWeight(in, out int, plain float64) (value, low, high float64) {
	if q.unknown {
		return 1, 0.5, 2
	}
	if q.Method == "" || in == 0 || out == 0 {
		return plain, plain, plain
	}
	b := q.Bits / 8
	switch {
	case q.Block[0] > 0:
		b += q.ScaleBytes / float64(q.Block[0]*q.Block[1])
	case q.Group > 0:
		b += (q.ScaleBytes + q.zeroBits/8) / float64(q.Group)
	case q.Group == 0:
		b += q.ScaleBytes / float64(in)
	default:
		b += q.ScaleBytes / (float64(in) * float64(out))
	}
	return b, b, b
}
