package engine

import "testing"

// TestRolesAreRead of labels as the stacks write them, of names, and of arguments.
func TestRolesAreRead(t *testing.T) {
	for _, tt := range []struct {
		label, value string
		want         Role
	}{
		{"llm_d_ai_role", "prefill", Prefill},
		{"label_llm_d_ai_role", "decode", Decode},
		{"llm_d_ai_role", "both", Serve},
		{"llm_d_ai_role", "encode-prefill", Prefill},
		{"llm_d_ai_role", "prefill-decode", Serve},
		{"llm_d_ai_role", "encode-prefill-decode", Serve},
		{"llm_d_ai_role", "encode", Encode},
		{"llm_d_ai_role", "openai-api", ""},
		{"nvidia_com_dynamo_sub_component_type", "prefill", Prefill},
		{"nvidia_com_dynamo_component_type", "worker", ""},
		{"nvidia_com_dynamo_component", "VllmPrefillWorker", Prefill},
		{"nvidia_com_dynamo_component", "TRTLLMDecodeWorker", Decode},
		{"dynamo_component", "prefill", Prefill},
		{"dynamo_component", "backend", ""},
		{"role_name", "decode", Decode},
		{"model_aibrix_ai_role", "prefill", Prefill},
		{"engine_type", "unified", Serve},
		{"engine_type", "decode", Decode},
		{"app_kubernetes_io_component", "llminferenceservice-workload-prefill", Prefill},
		{"app_kubernetes_io_component", "llminferenceservice-workload", ""},
		{"role", "prefill", Prefill},
		{"role", "leader", ""},
		{"job", "prefill", ""},
	} {
		if got := RoleIn(func(l string) string { return map[string]string{tt.label: tt.value}[l] }); got != tt.want {
			t.Errorf("%s=%q: %q, want %q", tt.label, tt.value, got, tt.want)
		}
	}
	both := map[string]string{"llm_d_ai_role": "decode", "app_kubernetes_io_component": "llminferenceservice-workload-prefill"}
	if got := RoleIn(func(l string) string { return both[l] }); got != Decode {
		t.Errorf("of two labels the most particular counts: %q", got)
	}
	for name, want := range map[string]Role{
		"vllm-prefill-0:8000": Prefill, "prefiller": Prefill, "my-decoder-7d9f": Decode, "encoder": Encode, "vllm-0": "", "decoded": "", "decoder-only": Decode, "pd-prefill-decode": Serve,
	} {
		if got := RoleOfName(name); got != want {
			t.Errorf("the name %q: %q, want %q", name, got, want)
		}
	}
	for line, want := range map[string]Role{
		`vllm serve m --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}'`: Prefill,
		`vllm serve m --kv-transfer-config.kv_connector P2P --kv-transfer-config.kv_role kv_consumer`:  Decode,
		`vllm serve m --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'`:     "",
		`vllm serve m --kv-transfer-config 'none'`:                                                     "",
		`python -m sglang.launch_server --model m --disaggregation-mode decode`:                        Decode,
		`python -m sglang.launch_server --model m`:                                                     "",
	} {
		if got := ParseArgs(line, "test").Role(); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
