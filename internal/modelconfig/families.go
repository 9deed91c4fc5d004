package modelconfig

import (
	_ "embed" // families.yaml
	"fmt"
	"sync"

	"sigs.k8s.io/yaml"
)

// A family says how the models of a type differ from others. families.yaml explains each field.
type family struct {
	Mixer      Mixer  `json:"mixer"`
	QKVBias    bool   `json:"qkvBias"`
	OutputBias bool   `json:"outputBias"`
	QKNorm     string `json:"qkNorm"`
	Norms      int    `json:"norms"`

	Plain       bool   `json:"plain"`
	FFNWidth    string `json:"ffnWidth"`
	Experts     string `json:"experts"`
	ExpertWidth string `json:"expertWidth"`
	Shared      string `json:"shared"`
	Sparse      string `json:"sparse"`
	ExpertBias  bool   `json:"expertBias"`
	ScoreBias   bool   `json:"scoreBias"`

	Window       string `json:"window"`
	Tied         bool   `json:"tied"`
	HeadDim      int    `json:"headDim"`
	Sinks        bool   `json:"sinks"`
	GatedQuery   bool   `json:"gatedQuery"`
	StateDType   DType  `json:"stateDType"`
	StateCaching bool   `json:"stateCaching"`
	NoRope       bool   `json:"noRope"`
	RopeTables   int    `json:"ropeTables"`
}

//go:embed families.yaml
var familiesYAML []byte

// families are the known model types, by model_type.
var families = sync.OnceValue(func() map[string]family {
	var out map[string]family
	mustParse(familiesYAML, &out)
	for name, f := range out {
		if f.Mixer == NoMixer {
			f.Mixer = Attention
			out[name] = f
		}
	}
	return out
})

// mustParse reads data that is part of the program. It panics on an error, which every test would see.
func mustParse(data []byte, to any) {
	if err := yaml.UnmarshalStrict(data, to); err != nil {
		panic(fmt.Sprintf("modelconfig: its own data: %v", err))
	}
}

// wrappers are fields that contain the text model of a multimodal model.
var wrappers = []string{"text_config", "llm_config", "language_config"}
