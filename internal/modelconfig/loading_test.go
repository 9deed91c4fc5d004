package modelconfig

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// small has the sizes of the models in TestNewerModels.
const small = `"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 4096,
	"max_position_embeddings": 4096, "torch_dtype": "bfloat16", "tie_word_embeddings": %t, "model_type": %q`

// TestNewerModels compares with the parameters that transformers 5.19 counts for the same fields, plus the routers'
// correction biases, which are no parameters there.
func TestNewerModels(t *testing.T) {
	sliding := `"layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"], "sliding_window": 512, `
	gemma := sliding + `"num_key_value_heads": 4, "global_head_dim": 128, "num_global_key_value_heads": 2, "intermediate_size": 1024`
	for _, tc := range []struct {
		kind, more string
		tied       bool
		want       float64
	}{
		{"llama4_text", `"intermediate_size": 256, "intermediate_size_mlp": 1024, "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2`, false, 23609856},
		{"gemma4_text", gemma + `, "vocab_size_per_layer_input": 4096, "hidden_size_per_layer_input": 32, "num_kv_shared_layers": 2`, true, 23221856},
		{"gemma4_text", gemma, true, 22562560},
		{"gemma4_text", gemma + `, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64`, true, 25741088},
		{"gemma4_text", gemma + `, "attention_k_eq_v": true`, true, 21776128 + 2*512*256}, // vLLM keeps the keys' matrix twice
		{"olmo2", `"intermediate_size": 1024`, false, 22033920},
		{"olmo3", sliding + `"intermediate_size": 1024`, false, 22033920},
		{"exaone4", sliding + `"intermediate_size": 1024`, false, 22029824},
		{"seed_oss", `"intermediate_size": 1024, "attention_bias": true, "attention_out_bias": false`, false, 22034944},
		{"minimax_m2", `"intermediate_size": 256, "num_local_experts": 4, "num_experts_per_tok": 2`, false, 22050304 + 8*4},
		{"glm_moe_dsa", `"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 128, "intermediate_size": 1024, "first_k_dense_replace": 2,
			"kv_lora_rank": 64, "q_lora_rank": 128, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "index_head_dim": 128, "index_n_heads": 4`, false, 21614592 + 6*8},
	} {
		m, err := Parse([]byte("{" + fmt.Sprintf(small, tc.tied, tc.kind) + ", " + tc.more + "}"))
		if err != nil {
			t.Errorf("%s: %v", tc.kind, err)
			continue
		}
		if !m.Known || m.Total() != tc.want {
			t.Errorf("%s: %.0f parameters, want %.0f (%+.0f), known %v", tc.kind, m.Total(), tc.want, m.Total()-tc.want,
				m.Known)
		}
	}
}

// weightBytes returns the bytes of all weights as loaded.
func weightBytes(m *Model) (sum float64) {
	for i := range m.Weights {
		sum += m.Weights[i].Count * float64(m.Weights[i].Times()) * m.Weights[i].Bytes
	}
	return sum
}

func TestWeightsAreLoadedAsAsked(t *testing.T) {
	llama := parse(t, "llama-3.1-8b") // 8.03 billion parameters, of which 1.05 of embedding and head
	for _, tc := range []struct {
		how  Loading
		want float64 // bytes
	}{
		{Loading{}, 2 * 8030261248},
		{Loading{DType: "float16"}, 2 * 8030261248},
		{Loading{DType: "float32"}, 4 * 8030261248},
		{Loading{Quantization: "fp8"}, 2*1050939392 + 6979321856},
		{Loading{Quantization: "fp8_per_block"}, 2*1050939392 + 6979321856},
		{Loading{Quantization: "bitsandbytes"}, 2*1050939392 + 6979321856*(0.5+4.0/64)},
		{Loading{Quantization: "mxfp4"}, 2*1050939392 + 6979321856*(0.5+1.0/32)},
		{Loading{Quantization: "experts_int8"}, 2 * 8030261248}, // it has none
	} {
		m, err := llama.With(tc.how)
		if err != nil {
			t.Errorf("%+v: %v", tc.how, err)
			continue
		}
		if got := weightBytes(m); math.Abs(got/tc.want-1) > 0.002 {
			t.Errorf("%+v: %.3g bytes, want %.3g", tc.how, got, tc.want)
		}
	}
	if got := weightBytes(llama); got != 2*8030261248 {
		t.Errorf("the model itself was changed: %.0f bytes", got)
	}
	for _, tc := range []struct{ model, form, want string }{
		{"llama-3.1-8b", "awq", "cannot quantize to it while loading"},
		{"llama-3.1-8b", "frobnicate", "is not known"},
		{"deepseek-v3", "awq", "quantized as fp8"},
		{"deepseek-v3", "fp8", ""},
		{"gpt-oss-20b", "fp8", "quantized as mxfp4"},
	} {
		_, err := parse(t, tc.model).With(Loading{Quantization: tc.form})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s as %s: %v, want %q", tc.model, tc.form, err, tc.want)
		}
	}
}
