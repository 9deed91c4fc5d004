package checks_test

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/audit/checks"
)

func TestExposedLabels(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        checks.Exposure
		none        bool
	}{
		{name: "api_key", value: "x", want: checks.Secrets},
		{name: "upstream", value: "https://admin:hunter2@vllm:8000", want: checks.Secrets},
		{name: "hint", value: "Bearer abcdefghijklmnop1234", want: checks.Secrets},
		{name: "key", value: "sk-proj-abcdefghijklmnop", want: checks.Secrets},
		{name: "User_ID", value: "u-17", want: checks.People},
		{name: "caller", value: "ann@example.com", want: checks.People},
		{name: "prompt", value: "hello", want: checks.Prompts},
		{name: "detail", value: "Please write a poem about the sea and the moon in four short lines", want: checks.Prompts},
		{name: "user", value: "", none: true},
		{name: "user", value: "None", none: true},
		{name: "model_name", value: "meta-llama/Llama-3.1-8B-Instruct", none: true},
		{name: "running_lora_adapters", value: strings.Repeat("adapter-17,", 100), none: true},
		{name: "instance", value: "http://10.0.0.1:8000/metrics", none: true},
		{name: "image", value: "registry/vllm@sha256:0123456789abcdef", none: true},
		{name: "UUID", value: "GPU-8d7c1f0e-1111-2222-3333-444444444444", none: true},
		{name: "modelName", value: "NVIDIA H100 80GB HBM3", none: true},
	} {
		s := checks.NewSurface("")
		s.AddLabel("x", tc.name, tc.value)
		found := 0
		for e := checks.Secrets; e <= checks.OpenPages; e++ {
			for _, what := range s.Exposed[e] {
				if found++; e != tc.want || tc.none || !strings.Contains(what, tc.name) || len(tc.value) > 8 && strings.Contains(what, tc.value) {
					t.Errorf("%s=%q: %d %q", tc.name, tc.value, e, what)
				}
			}
		}
		if (found == 0) != tc.none {
			t.Errorf("%s=%q: %d found", tc.name, tc.value, found)
		}
	}
}

func TestExposedCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"vllm serve m --api-key s3cret --port 8000":        "--api-key",
		"python -m sglang.launch_server --api-key=s3cret":  "--api-key",
		"vllm serve m --hf-token hf_abc":                   "--hf-token",
		"vllm serve https://u:p@host/m":                    "an argument",
		"vllm serve m --port 8000 --max-num-seqs 64":       "",
		"vllm serve m --api-key":                           "",
		"vllm serve m --tokenizer x --tokenizer-mode auto": "",
	} {
		s := checks.NewSurface("")
		s.AddCommandLine(line)
		if got := strings.Join(s.Exposed[checks.CommandLines], " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
