package modelconfig

import (
	_ "embed" // quantization.yaml
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Loading has the arguments of vllm serve for loading a checkpoint. The checkpoint decides about those that are zero.
type Loading struct {
	DType        DType  // --dtype: for activations and for weights that are not quantized
	Quantization string // --quantization
	TextOnly     bool   // --language-model-only: without encoders
}

// With returns the model as vLLM loads it with these arguments. It returns an error with a hint if vLLM
// refuses them for this checkpoint.
func (m *Model) With(loading Loading) (*Model, error) {
	if loading == (Loading{}) {
		return m, nil
	}
	return parseAs(m.content, loading)
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
	return "", hint.With(fmt.Errorf("dtype %q is not known", text),
		"one of auto, bfloat16, float16 (half), float32 (float)")
}

//go:embed quantization.yaml
var quantizationYAML []byte

// quantizations is quantization.yaml, which explains its parts.
var quantizations = sync.OnceValue(func() (all struct {
	Layouts       map[string]layout         `json:"layouts"`
	Capabilities  map[string]float64        `json:"capabilities"`
	InFlight      map[string]map[string]any `json:"inFlight"`
	Kernels       map[string][]string       `json:"kernels"`
	OfCheckpoints []string                  `json:"ofCheckpoints"`
},
) {
	mustParse(quantizationYAML, &all)
	return all
})

// quantizationOf returns the loaded model's quantization_config, by the checkpoint's and by --quantization.
func (l Loading) quantizationOf(checkpoint map[string]any) (map[string]any, error) {
	if l.Quantization == "" || l.Quantization == "None" {
		return checkpoint, nil
	}
	method, _ := checkpoint["quant_method"].(string)
	if _, algo := checkpoint["quant_algo"].(string); method == "" && algo {
		method = "modelopt"
	}
	if method != "" {
		if method == l.Quantization || slices.Contains(quantizations().Kernels[l.Quantization], method) {
			return checkpoint, nil
		}
		return nil, hint.With(fmt.Errorf(
			"--quantization %s: the checkpoint is quantized as %s, and vLLM refuses to load it as another",
			l.Quantization, method),
			"leave --quantization out, or take the checkpoint that is not quantized")
	}
	if o, ok := quantizations().InFlight[l.Quantization]; ok {
		return o, nil
	}
	inFlight := strings.Join(slices.Sorted(maps.Keys(quantizations().InFlight)), ", ")
	_, kernel := quantizations().Kernels[l.Quantization]
	if kernel || slices.Contains(quantizations().OfCheckpoints, l.Quantization) {
		return nil, hint.With(fmt.Errorf(
			"--quantization %s: vLLM cannot quantize to it while loading, and this checkpoint is not quantized",
			l.Quantization),
			"take a checkpoint that is quantized so, or one of "+inFlight+" with this one")
	}
	return nil, hint.With(fmt.Errorf("--quantization %s is not known", l.Quantization),
		"one of "+inFlight+", or that of the checkpoint")
}
