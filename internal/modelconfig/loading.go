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

// Loading is the arguments of vllm serve for loading a checkpoint. A zero value leaves the choice
// to the checkpoint.
type Loading struct {
	DType        DType  // --dtype: for activations and for weights that are not quantized
	Quantization string // --quantization
	TextOnly     bool   // --language-model-only: without encoders
}

// With returns the model as loaded with these arguments. Errors carry a hint: a form that vLLM
// would refuse for this checkpoint.
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
	return "", hint.With(fmt.Errorf("dtype %q is not known", text),
		"one of auto, bfloat16, float16 (half), float32 (float)")
}

//go:embed quantization.yaml
var quantizationYAML []byte

// forms are the known forms of weights; quantization.yaml explains each.
var forms = sync.OnceValue(func() (of struct {
	Layouts       map[string]layout         `json:"layouts"`
	Capabilities  map[string]float64        `json:"capabilities"`
	InFlight      map[string]map[string]any `json:"inFlight"`
	Kernels       map[string][]string       `json:"kernels"`
	OfCheckpoints []string                  `json:"ofCheckpoints"`
},
) {
	mustParse(quantizationYAML, &of)
	return of
})

// quantizationOf applies --quantization to a checkpoint's quantization_config.
func (l Loading) quantizationOf(checkpoint map[string]any) (map[string]any, error) {
	if l.Quantization == "" || l.Quantization == "None" {
		return checkpoint, nil
	}
	method, _ := checkpoint["quant_method"].(string)
	if _, algo := checkpoint["quant_algo"].(string); method == "" && algo {
		method = "modelopt"
	}
	if method != "" {
		if method == l.Quantization || slices.Contains(forms().Kernels[l.Quantization], method) {
			return checkpoint, nil
		}
		return nil, hint.With(fmt.Errorf(
			"--quantization %s: the checkpoint is quantized as %s, and vLLM refuses to load it as another",
			l.Quantization, method),
			"leave --quantization out, or take the checkpoint that is not quantized")
	}
	if o, ok := forms().InFlight[l.Quantization]; ok {
		return o, nil
	}
	inFlight := strings.Join(slices.Sorted(maps.Keys(forms().InFlight)), ", ")
	if _, ok := forms().Kernels[l.Quantization]; ok || slices.Contains(forms().OfCheckpoints, l.Quantization) {
		return nil, hint.With(fmt.Errorf(
			"--quantization %s: vLLM does not make it while it loads, and this checkpoint is not quantized",
			l.Quantization),
			"take a checkpoint of that form, or one of "+inFlight+" with this one")
	}
	return nil, hint.With(fmt.Errorf("--quantization %s is not known", l.Quantization),
		"one of "+inFlight+", or that of the checkpoint")
}
