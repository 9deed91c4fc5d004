package perfmodel

import (
	"math"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/modelconfig"
)

// The models whose configurations sixty knows have the published number of parameters, weights of the size of their
// format, and a KV cache per token that was computed by hand. The published number is that of the safetensors files at
// Hugging Face, without encoders and prediction layers, or else that of the model card.
func TestPublishedModels(t *testing.T) {
	// attention is for keys and values in BF16.
	attention := func(layers, heads, dim float64) float64 { return layers * heads * dim * 2 * 2 }
	latent := func(layers, indexer float64) float64 { return layers * ((512+64)*2 + indexer) }
	const indexer = 128 + 4 // bytes of an FP8 key and its scale
	const bf16, fp8 = 2, 1.02
	want := map[string]struct{ billions, bytes, kv float64 }{
		"Qwen/Qwen3-0.6B": {0.596, bf16, attention(28, 8, 128)},
		"Qwen/Qwen3-1.7B": {1.72, bf16, attention(28, 8, 128)},
		"Qwen/Qwen3-4B":   {4.02, bf16, attention(36, 8, 128)},
		"Qwen/Qwen3-8B":   {8.19, bf16, attention(36, 8, 128)},
		"Qwen/Qwen3-14B":  {14.8, bf16, attention(40, 8, 128)},
		"Qwen/Qwen3-32B":  {32.8, bf16, attention(64, 8, 128)},
		// Embedding and head are not quantized.
		"Qwen/Qwen3-32B-FP8":                            {32.8, 1.05, attention(64, 8, 128)},
		"Qwen/Qwen3-30B-A3B":                            {30.5, bf16, attention(48, 4, 128)},
		"Qwen/Qwen3-30B-A3B-FP8":                        {30.5, fp8, attention(48, 4, 128)},
		"Qwen/Qwen3-235B-A22B":                          {235.1, bf16, attention(94, 4, 128)},
		"Qwen/Qwen3-235B-A22B-FP8":                      {235.1, fp8, attention(94, 4, 128)},
		"Qwen/Qwen3-Coder-480B-A35B-Instruct":           {480.2, bf16, attention(62, 8, 128)},
		"Qwen/Qwen3-Next-80B-A3B-Instruct":              {79.7, bf16, attention(12, 2, 256)},
		"Qwen/Qwen3-VL-8B-Instruct":                     {8.19, bf16, attention(36, 8, 128)},
		"Qwen/Qwen3-VL-30B-A3B-Instruct":                {30.5, bf16, attention(48, 4, 128)},
		"Qwen/Qwen3.5-27B":                              {27, bf16, attention(16, 4, 256)},
		"Qwen/Qwen3.5-35B-A3B":                          {35, bf16, attention(10, 2, 256)},
		"Qwen/Qwen3.5-397B-A17B":                        {397, bf16, attention(15, 2, 256)},
		"Qwen/Qwen2.5-7B-Instruct":                      {7.62, bf16, attention(28, 4, 128)},
		"Qwen/Qwen2.5-14B-Instruct":                     {14.8, bf16, attention(48, 8, 128)},
		"Qwen/Qwen2.5-32B-Instruct":                     {32.8, bf16, attention(64, 8, 128)},
		"meta-llama/Llama-3.2-3B-Instruct":              {3.21, bf16, attention(28, 8, 128)},
		"meta-llama/Meta-Llama-3-8B-Instruct":           {8.03, bf16, attention(32, 8, 128)},
		"meta-llama/Meta-Llama-3-70B-Instruct":          {70.6, bf16, attention(80, 8, 128)},
		"meta-llama/Llama-3.1-8B-Instruct":              {8.03, bf16, attention(32, 8, 128)},
		"meta-llama/Llama-3.3-70B-Instruct":             {70.6, bf16, attention(80, 8, 128)},
		"meta-llama/Llama-4-Scout-17B-16E-Instruct":     {108, bf16, attention(48, 8, 128)},
		"meta-llama/Llama-4-Maverick-17B-128E-Instruct": {400, bf16, attention(48, 8, 128)},
		"deepseek-ai/DeepSeek-R1":                       {671, fp8, latent(61, 0)},
		"deepseek-ai/DeepSeek-V3.2":                     {671, fp8, latent(61, indexer)},
		"openai/gpt-oss-20b":                            {20.9, 0.69, attention(12, 8, 64)},
		"openai/gpt-oss-120b":                           {116.8, 0.59, attention(18, 8, 64)},
		"google/gemma-3-27b-it":                         {27, bf16, attention(10, 16, 128)},
		// With the larger kind of heads.
		"google/gemma-4-26B-A4B-it":                  {25.2, bf16, attention(5, 8, 256)},
		"mistralai/Mistral-Nemo-Instruct-2407":       {12.2, bf16, attention(40, 8, 128)},
		"mistralai/Mixtral-8x7B-Instruct-v0.1":       {46.7, bf16, attention(32, 8, 128)},
		"moonshotai/Kimi-K2-Instruct":                {1026, fp8, latent(61, 0)},
		"moonshotai/Kimi-K2.5":                       {1026, 0.58, latent(61, 0)}, // 594 GB of files
		"MiniMaxAI/MiniMax-M2.5":                     {228.7, fp8, attention(62, 8, 128)},
		"zai-org/GLM-4.5-Air":                        {106.9, bf16, attention(46, 8, 128)},
		"zai-org/GLM-5-FP8":                          {744, fp8, latent(78, indexer)},
		"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {31.6, bf16, attention(6, 2, 128)},
	}
	if len(want) != 42 {
		t.Fatalf("%d models are checked", len(want))
	}
	configs := map[string]bool{}
	for name, w := range want {
		if got, ok := modelconfig.PublishedName(strings.ToLower(name)); !ok || got != name {
			t.Errorf("%s is known as %q", name, got)
			continue
		}
		configs[string(modelconfig.Published(name))] = true
		m, err := modelconfig.Parse(modelconfig.Published(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var bytes float64
		for i := range m.Weights {
			if x := &m.Weights[i]; x.Part != modelconfig.Encoder {
				bytes += x.Count * float64(x.Times()) * x.Bytes
			}
		}
		l := ledger(t, m, Settings{Memory: Exact(1e15), Release: "0.23"})
		if off := m.Total()/w.billions/1e9 - 1; !m.Known || math.Abs(off) > 0.01 {
			t.Errorf("%s (known: %v): %.0f parameters, published are %g billion", name, m.Known, m.Total(), w.billions)
		}
		if per := bytes / m.Total(); math.Abs(per/w.bytes-1) > 0.02 {
			t.Errorf("%s: %.4g bytes of weights, %.3f a parameter; want %g", name, bytes, per, w.bytes)
		}
		if l.KV.BytesPerToken != w.kv {
			t.Errorf("%s: %.0f bytes of KV cache a token, want %.0f", name, l.KV.BytesPerToken, w.kv)
		}
	}
	for _, name := range modelconfig.PublishedNames() {
		if !configs[string(modelconfig.Published(name))] {
			t.Errorf("nothing checks %s", name)
		}
	}
}
