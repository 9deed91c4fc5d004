package modelconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/hint"
)

// Loading is what vllm serve is told of how to load a checkpoint. A zero value leaves it
// to the checkpoint.
type Loading struct {
	DType        DType  // --dtype: of activations and of weights that are not quantized
	Quantization string // --quantization
	TextOnly     bool   // --language-model-only: without encoders
}

// With returns the model as it is loaded. Errors carry a hint: a form that vLLM would
// refuse for this checkpoint.
func (m *Model) With(how Loading) (*Model, error) {
	if how == (Loading{}) {
		return m, nil
	}
	return parseAs(m.content, how)
}

// ParseDType reads a value of --dtype; "" is "auto".
func ParseDType(text string) (DType, error) {
	switch text {
	case "", "auto":
		return "", nil
	case "half":
		return "float16", nil
	case "float":
		return "float32", nil
	case "float16", "bfloat16", "float32":
		return DType(text), nil
	}
	return "", hint.With(fmt.Errorf("dtype %q is not known", text), "one of auto, bfloat16, float16 (half), float32 (float)")
}

// inFlight are the forms that vLLM makes of a checkpoint that has none while it loads
// it, as a quantization_config would say them (quantization/{fp8,bitsandbytes,
// experts_int8,ptpc_fp8}.py and, from 0.20 on, quantization/online and
// config/quantization.py).
var inFlight = map[string]map[string]any{
	"fp8":                          {"quant_method": "fp8"},
	"fp8_per_tensor":               {"quant_method": "fp8"},
	"ptpc_fp8":                     {"quant_method": "fbgemm_fp8"},
	"fp8_per_channel":              {"quant_method": "fbgemm_fp8"},
	"fp8_per_block":                {"quant_method": "fp8", "weight_block_size": []any{128.0, 128.0}},
	"mxfp8":                        {"quant_method": "mxfp8"},
	"mxfp4":                        {"quant_method": "mxfp4_linear"},
	"bitsandbytes":                 {"quant_method": "bitsandbytes", "load_in_4bit": true},
	"experts_int8":                 {"quant_method": "experts_int8"},
	"int8_per_channel_weight_only": {"quant_method": "experts_int8"},
	"nvfp4_per_token":              {"quant_method": "experts_nvfp4"},
}

// kernels are names of --quantization that choose kernels, and the methods of
// checkpoints that they are for.
var kernels = map[string][]string{
	"awq_marlin": {"awq"}, "auto_awq": {"awq"}, "gptq_marlin": {"gptq"}, "auto_gptq": {"gptq"}, "gptq_bitblas": {"gptq"},
	"moe_wna16": {"awq", "gptq"}, "humming": {"awq", "gptq", "fp8", "compressed-tensors", "modelopt", "mxfp4"}, "inc": {"auto-round", "auto_round", "inc"},
	"modelopt_fp4": {"modelopt"}, "modelopt_mxfp8": {"modelopt"}, "modelopt_mixed": {"modelopt"}, "gpt_oss_mxfp4": {"mxfp4"},
	"auto-round": {"auto_round"}, "auto_round": {"auto-round"}, "deepseek_v4_fp8": {"fp8"}, "online": {},
}

// quantization is the quantization_config that --quantization makes of a checkpoint's.
func (l Loading) quantization(checkpoint map[string]any) (map[string]any, error) {
	if l.Quantization == "" || l.Quantization == "None" {
		return checkpoint, nil
	}
	method, _ := checkpoint["quant_method"].(string)
	if _, algo := checkpoint["quant_algo"].(string); method == "" && algo {
		method = "modelopt"
	}
	if method != "" {
		if method == l.Quantization || slices.Contains(kernels[l.Quantization], method) {
			return checkpoint, nil
		}
		return nil, hint.With(fmt.Errorf("--quantization %s: the checkpoint is quantized as %s, and vLLM refuses to load it as another", l.Quantization, method),
			"leave --quantization out, or take the checkpoint that is not quantized")
	}
	if o, ok := inFlight[l.Quantization]; ok {
		return o, nil
	}
	if _, ok := kernels[l.Quantization]; ok || slices.Contains([]string{"awq", "gptq", "compressed-tensors", "modelopt", "fbgemm_fp8", "gguf", "quark", "fp_quant"}, l.Quantization) {
		return nil, hint.With(fmt.Errorf("--quantization %s: vLLM does not make it while it loads, and this checkpoint is not quantized", l.Quantization),
			"take a checkpoint of that form, or one of "+strings.Join(slices.Sorted(maps.Keys(inFlight)), ", ")+" with this one")
	}
	return nil, hint.With(fmt.Errorf("--quantization %s is not known", l.Quantization),
		"one of "+strings.Join(slices.Sorted(maps.Keys(inFlight)), ", ")+", or that of the checkpoint")
}
