package modelconfig

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

func parse(t *testing.T, name string) *Model {
	t.Helper()
	content := must.ReadFile(t, filepath.Join("testdata", name+".json"))
	m, err := Parse(content)
	must.Succeed(t, err)
	return m
}

// TestParametersEqualTransformers compares with the sum over model.named_parameters() of transformers 5.23 for the same
// files (AutoModelForCausalLM.from_config on the meta device), plus the routers' correction biases.
func TestParametersEqualTransformers(t *testing.T) {
	want := map[string]float64{
		"deepseek-v2-lite": 15706484224, "deepseek-v3": 671026404352 + 14848,
		"gemma-2-9b": 9241705984, "gemma-3-27b": 27009346304,
		"glm-4.5-air": 106852245504 + 5760, "gpt-oss-120b": 116829156672, "gpt-oss-20b": 20914757184,
		"granite-4.0-h-small": 32207337984, "jamba-v0.1": 51570323328,
		"llama-3.1-70b-w8a8": 70553706496, "llama-3.1-8b": 8030261248,
		"mistral-7b-v0.1": 7241732096, "mixtral-8x7b": 46702792704, "nemotron-h-8b": 8100852736,
		"qwen1.5-moe-a2.7b": 14315784192, "qwen2.5-7b": 7615616512, "qwen3-1.7b": 1720574976,
		"qwen3-235b-a22b-fp8": 235093634560, "qwen3-30b-a3b": 30532122624, "qwen3-32b": 32762123264,
		"qwen3-next-80b-a3b": 79674391296, "tiny-llama-cpu": 5245184,
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d configurations, %d expectations, %v", len(files), len(want), err)
	}
	for name, total := range want {
		m := parse(t, name)
		if !m.Known {
			t.Errorf("%s is not known", name)
		}
		if got := m.Total(); got != total {
			t.Errorf("%s: %.0f parameters, want %.0f (%+.0f)", name, got, total, got-total)
		}
		if a := m.Active(); a <= 0 || a > m.Total() {
			t.Errorf("%s: %.0f active of %.0f", name, a, m.Total())
		}
	}
}

func TestArchitecturesAreRead(t *testing.T) {
	for _, tc := range []struct{ name, kind, quant string }{
		{"llama-3.1-8b", "GQA 32:8 × 128, 32 layers", "none"},
		{"llama-3.1-70b-w8a8", "GQA 64:8 × 128, 80 layers", "compressed-tensors, 8 bits"},
		{"mistral-7b-v0.1", "GQA 32:8 × 128, 32 of 32 layers with a window", "none"},
		{"gemma-2-9b", "GQA 16:8 × 256, 21 of 42 layers with a window", "none"},
		{"gemma-3-27b", "GQA 32:16 × 128, 52 of 62 layers with a window", "none"},
		{"gpt-oss-20b", "GQA 64:8 × 64, 12 of 24 layers with a window, MoE 4 of 32", "mxfp4, 4 bits in groups of 32, experts only"},
		{"deepseek-v3", "MLA 512 + 64, MoE 8 of 256, 61 layers", "fp8, 8 bits in blocks of 128×128"},
		{"qwen3-next-80b-a3b", "GQA 16:2 × 256, 36 of 48 layers gated delta net, MoE 10 of 512", "none"},
		{"jamba-v0.1", "GQA 32:8 × 128, 28 of 32 layers Mamba, MoE 2 of 16", "none"},
		{"nemotron-h-8b", "GQA 32:8 × 128, 24 of 52 layers Mamba-2", "none"},
		{"qwen1.5-moe-a2.7b", "MHA 16:16 × 128, MoE 4 of 60, 24 layers", "none"},
	} {
		m := parse(t, tc.name)
		if diff := cmp.Diff([]string{tc.kind, tc.quant}, []string{m.Kind(), m.Quant.String()}); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
	if n := parse(t, "deepseek-v3").CountLayers(func(l Layer) bool { return l.FFN == Dense }); n != 3 {
		t.Errorf("DeepSeek-V3 has %d dense layers, want 3", n)
	}
	if l := parse(t, "gemma-3-27b").Layers; l[4].Window != 1024 || l[5].Window != 0 {
		t.Errorf("Gemma 3: layers 4 and 5 have windows %d and %d, want 1024 and 0", l[4].Window, l[5].Window)
	}
}

// quantized returns a small Llama with a quantization_config.
func quantized(t *testing.T, quant string) *Model {
	t.Helper()
	var raw map[string]any
	content, err := os.ReadFile("testdata/tiny-llama-cpu.json")
	must.Succeed(t, err)
	must.Succeed(t, json.Unmarshal(content, &raw))
	var q any
	must.Succeed(t, json.Unmarshal([]byte(quant), &q))
	raw["quantization_config"] = q
	content, err = json.Marshal(raw)
	must.Succeed(t, err)
	m, err := Parse(content)
	must.Succeed(t, err)
	return m
}

func TestQuantizedWeightsTakeTheirBytes(t *testing.T) {
	for _, tc := range []struct {
		name, quant string
		down, embed float64 // bytes per parameter of mlp.down_proj (768 inputs) and of the embedding
	}{
		{"FP8 by tensor", `{"quant_method": "fp8"}`, 1 + 4.0/(768*256), 2},
		{"FP8 by block", `{"quant_method": "fp8", "weight_block_size": [128, 128]}`, 1 + 4.0/16384, 2},
		{"AWQ has a scale and a zero point per group", `{"quant_method": "awq", "bits": 4, "group_size": 128}`, 0.5 + 2.5/128, 2},
		{"GPTQ, symmetric", `{"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true}`, 0.5 + 2.0/128, 2},
		{"int8 by channel", `{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}}`, 1 + 4.0/768, 2},
		{"NVFP4", `{"quant_method": "modelopt", "quant_algo": "NVFP4"}`, 0.5 + 1.0/16, 2},
		{"bitsandbytes NF4", `{"quant_method": "bitsandbytes", "load_in_4bit": true}`, 0.5 + 4.0/64, 2},
		{"a layer left out", `{"quant_method": "fp8", "modules_to_not_convert": ["mlp"]}`, 2, 2},
		{"left out by pattern", `{"quant_method": "fp8", "ignore": ["re:.*down_proj"]}`, 2, 2},
		{"left out by full name, in the first layer", `{"quant_method": "fp8", "ignore": ["model.layers.0.mlp.down_proj"]}`, 2, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := quantized(t, tc.quant)
			got := map[string]float64{}
			for _, w := range m.Weights {
				if _, seen := got[w.Name]; !seen {
					got[w.Name] = w.Bytes
				}
			}
			if math.Abs(got["mlp.down_proj"]-tc.down) > 1e-12 || got["embed_tokens"] != tc.embed {
				t.Errorf("down_proj %v, embedding %v; want %v, %v", got["mlp.down_proj"], got["embed_tokens"], tc.down,
					tc.embed)
			}
		})
	}
}

func TestUnknownPartsAreListedWithBounds(t *testing.T) {
	m := quantized(t, `{"quant_method": "hocus"}`)
	if len(m.Unknown) != 1 || !strings.Contains(m.Unknown[0], `"hocus"`) {
		t.Errorf("unknown: %q", m.Unknown)
	}
	for _, w := range m.Weights {
		if w.Name == "mlp.up_proj" && (w.Low != 0.5 || w.High != 2) {
			t.Errorf("up_proj is bounded by %v and %v, want 0.5 and 2", w.Low, w.High)
		}
	}
	m, err := Parse([]byte(`{"model_type": "novel", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "mamba_d_state": 16, "sliding_window": 8}`))
	must.Succeed(t, err)
	if m.Known || len(m.Unknown) != 3 {
		t.Errorf("known %v; %q", m.Known, m.Unknown)
	}
	if want := []string{"max_position_embeddings", "torch_dtype", "tie_word_embeddings", "num_key_value_heads", "head_dim", "intermediate_size"}; len(m.Assumed) != len(want) {
		t.Errorf("assumed %v, want %v", m.Assumed, want)
	}
	for _, a := range m.Assumed {
		if a.Source == "" || a.Value == "" {
			t.Errorf("%+v has no value or source", a)
		}
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	const good = `"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128`
	for _, tc := range []struct{ name, content, want string }{
		{"no JSON", `hello`, "no JSON object"},
		{"null", `null`, "it is null"},
		{"a list", `[1]`, "no JSON object"},
		{"nothing in it", `{}`, "hidden_size or n_embd or d_model or dim is missing"},
		{"a text where a number belongs", `{` + good + `, "num_key_value_heads": "two"}`, `num_key_value_heads is "two"`},
		{"a negative number", `{` + good + `, "head_dim": -1}`, "want a whole number from 0"},
		{"a huge number", `{` + good + `, "head_dim": 1e300}`, "want a whole number from 0"},
		{"more heads than width", `{"model_type": "llama", "hidden_size": 2, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9, "intermediate_size": 8}`, "hidden_size 2 is less than num_attention_heads 4"},
		{"no width", `{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}`, "intermediate_size is missing"},
		{"lists that contradict", `{` + good + `, "layer_types": ["full_attention"]}`, "layer_types has 1 entries for 2 layers"},
		{"an encoder and a decoder", `{"is_encoder_decoder": true}`, "encoder-decoder"},
		{"a data type that is none", `{` + good + `, "torch_dtype": "int4"}`, `torch_dtype is "int4"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse([]byte(tc.content))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if hint.Of(err) == "" && tc.name != "null" {
				t.Error("no hint")
			}
		})
	}
	if _, err := Parse(make([]byte, MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("too long: %v", err)
	}
}

func TestTheDocumentListsTheKnownTypes(t *testing.T) {
	doc := must.ReadFile(t, "../../docs/tune-inputs.md")
	for _, name := range slices.Sorted(maps.Keys(families())) {
		if !strings.Contains(string(doc), " "+name) && !strings.Contains(string(doc), "\n"+name) {
			t.Errorf("docs/tune-inputs.md does not list %s", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, name := range files {
		content := must.ReadFile(f, name)
		f.Add(content)
	}
	f.Add([]byte(`{"model_type":"x","hidden_size":1048576,"num_hidden_layers":4096,"num_attention_heads":65536,"head_dim":1048576,"vocab_size":16777216,"num_experts":65536,"num_experts_per_tok":1,"intermediate_size":1048576}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := Parse(content)
		if err != nil {
			return
		}
		if n := m.Total(); math.IsNaN(n) || math.IsInf(n, 0) || n <= 0 {
			t.Errorf("%v parameters", n)
		}
		if a := m.Active(); a > m.Total()*1.000001 {
			t.Errorf("%v active of %v", a, m.Total())
		}
		for _, w := range m.Weights {
			if !(w.Low <= w.Bytes && w.Bytes <= w.High) || w.Count <= 0 {
				t.Errorf("weight %+v", w)
			}
		}
		_ = m.Kind()
	})
}
