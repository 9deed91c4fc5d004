package perfmodel

import (
	"math"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/render"
)

func device(t testing.TB, name string) GPU {
	t.Helper()
	d, err := FindGPU(name)
	must.Succeed(t, err)
	return d
}

func ledger(t testing.TB, m *modelconfig.Model, s Settings) *Ledger {
	t.Helper()
	l, err := NewLedger(m, s)
	must.Succeed(t, err)
	return l
}

// TestLayoutEqualsVLLMs compares with what get_kv_cache_groups, get_kv_cache_config_from_groups and
// get_max_concurrency_for_kv_cache_config of vLLM 0.23.0 return for the same layers, 20 GiB of KV memory and
// max_num_batched_tokens of 8192.
func TestLayoutEqualsVLLMs(t *testing.T) {
	for _, tc := range []struct {
		name           string
		block          int
		groups         int
		blocks, tokens float64
	}{
		{"llama-3.1-8b", 16, 1, 10240, 163840},
		{"gemma-3-27b", 16, 7, 16384, 184270},
		{"gemma-2-9b", 16, 2, 7801, 62347},
		{"gpt-oss-120b", 16, 2, 36408, 547695},
		{"mistral-7b-v0.1", 16, 1, 10240, 436338},
		{"deepseek-v3", 16, 1, 19099, 305584},
		{"qwen3-next-80b-a3b", 544, 4, 1606, 868047},
		{"nemotron-h-8b", 1040, 7, 1260, 737280},
		{"jamba-v0.1", 80, 8, 16384, 1307846},
	} {
		l := ledger(t, modelconfigtest.Read(t, tc.name),
			Settings{Release: "0.23", KVBytes: 20 * gib, MaxNumBatchedTokens: 8192})
		if l.KV.BlockTokens != tc.block || len(l.KV.Groups) != tc.groups || l.Blocks.Value != tc.blocks ||
			l.Tokens.Value != tc.tokens {
			t.Errorf("%s: blocks of %d tokens, %d groups, %.0f blocks, %.0f tokens; vLLM has %d, %d, %.0f, %.0f",
				tc.name, l.KV.BlockTokens, len(l.KV.Groups), l.Blocks.Value, l.Tokens.Value, tc.block, tc.groups,
				tc.blocks, tc.tokens)
		}
	}
}

// TestLedgerAgainstLogs compares with what real servers logged; docs/lab/tune.md has the sources. Weights are those
// that vLLM says loading took.
func TestLedgerAgainstLogs(t *testing.T) {
	for _, tc := range []struct {
		name     string
		settings Settings
		weights  float64 // GiB
		within   float64 // relative
	}{
		{"llama-3.1-8b", Settings{Device: device(t, "RTX 3090")}, 14.9888, 0.001},
		{"llama-3.1-70b-w8a8", Settings{Device: device(t, "H100")}, 67.7229, 0.001},
		{"deepseek-v2-lite", Settings{Device: device(t, "H100")}, 29.3010, 0.001},
		{"gpt-oss-120b", Settings{Device: device(t, "H100")}, 64.38, 0.002},
		{"gpt-oss-120b", Settings{Device: device(t, "H100"), Release: "0.10"}, 65.97, 0.002}, // by Marlin
	} {
		l := ledger(t, modelconfigtest.Read(t, tc.name), tc.settings)
		weights, _ := l.Line(LineWeights)
		tables, _ := l.Line(LineTables)
		if off := (weights.Bytes.Value+tables.Bytes.Value)/(tc.weights*gib) - 1; math.Abs(off) > tc.within {
			t.Errorf("%s: %s and %s in the ledger, %.4f GiB in the log (%+.2f %%)", tc.name,
				render.GiB(weights.Bytes.Value), render.GiB(tables.Bytes.Value), tc.weights, 100*off)
		}
	}

	// A run of vLLM 0.19.0 on an RTX 4090: 2588 blocks.
	l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), Settings{
		Release: "0.19", Device: device(t, "RTX 4090"), Memory: Exact(25250627584),
		MaxNumSeqs: 256, MaxNumBatchedTokens: 2048, MaxModelLen: 32768, Utilization: 0.9,
	})
	if l.Blocks.Low > 2588 || l.Blocks.High < 2588 || math.Abs(l.Blocks.Value/2588-1) > 0.05 {
		t.Errorf("Llama 3.1 8B on an RTX 4090: %+v blocks, the server had 2588", l.Blocks)
	}

	// "4.54 GiB KV cache is needed" for one request of 131,072 tokens.
	l = ledger(t, modelconfigtest.Read(t, "gpt-oss-120b"),
		Settings{Release: "0.11", Device: device(t, "H100"), Utilization: 0.95, MaxNumBatchedTokens: 1024})
	if need := float64(l.KV.BlocksFor(131072)) * l.KV.BytesPerBlock / gib; math.Abs(need-4.54) > 0.005 {
		t.Errorf("gpt-oss-120b needs %.3f GiB for its longest request, the server said 4.54", need)
	}
	// "0.95 GiB" for one of 32,768.
	l = ledger(t, modelconfigtest.Read(t, "deepseek-v2-lite"), Settings{Device: device(t, "A10")})
	if need := float64(l.KV.BlocksFor(32768)) * l.KV.BytesPerBlock / gib; math.Abs(need-0.95) > 0.005 {
		t.Errorf("DeepSeek-V2-Lite needs %.3f GiB for 32,768 tokens, the server said 0.95", need)
	}
	// TP 2, KV in FP8: 90,048 tokens, 1.66x for 215,040 tokens.
	s := Settings{Release: "0.11", Device: device(t, "H100"), TP: 2, KVType: "fp8_e5m2", MaxModelLen: 215040,
		NumBlocksOverride: 338}
	l = ledger(t, modelconfigtest.Read(t, "qwen3-next-80b-a3b"), s)
	if l.KV.BlockTokens != 1072 || l.Tokens.Value != 90048 || math.Abs(l.Concurrency.Value-1.66) > 0.005 {
		t.Errorf("Qwen3-Next: blocks of %d, %.0f tokens, %.2fx", l.KV.BlockTokens, l.Tokens.Value, l.Concurrency.Value)
	}
	// 18.78 GiB hold 175,856 tokens.
	l = ledger(t, modelconfigtest.Read(t, "qwen3-1.7b"),
		Settings{Release: "0.14", KVBytes: 18.78 * gib, MaxModelLen: 1024})
	if math.Abs(l.Tokens.Value/175856-1) > 0.0005 {
		t.Errorf("Qwen3-1.7B: %.0f tokens in 18.78 GiB, the server had 175,856", l.Tokens.Value)
	}
	// vLLM 0.23.0 on a CPU, with VLLM_CPU_KVCACHE_SPACE=1: 4096 blocks of 128.
	l = ledger(t, modelconfigtest.Read(t, "tiny-llama-cpu"),
		Settings{Release: "0.23", BlockSize: 128, KVBytes: gib, MaxModelLen: 8192})
	o := ObservedIn(engine.FromCacheConfigInfo([]engine.Info{{Labels: map[string]string{"block_size": "128",
		"num_gpu_blocks": "4096"}}}))
	if l.Blocks.Value != o.NumBlocks || l.KV.BlockTokens != o.BlockSize {
		t.Errorf("CPU server: %v blocks of %d, the server had %v of %d", l.Blocks.Value, l.KV.BlockTokens, o.NumBlocks,
			o.BlockSize)
	}
}

// The logs are of two servers with gated delta nets in three of four layers, prefix caching and an FP8 cache. Sizes
// that do not affect the cache are small here.
func TestHybridCapacityEqualsLogs(t *testing.T) {
	for _, tc := range []struct {
		name, config  string
		settings      Settings
		block, blocks int
		tokens        float64
	}{
		{
			"27 billion, TP 2, 4.99 GiB",
			`{"model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 1024, "vocab_size": 1024, "max_position_embeddings": 262144, "num_hidden_layers": 64,
			"num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
			"linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "torch_dtype": "bfloat16"}`,
			Settings{TP: 2, KVBytes: 4.99 * gib},
			1568, 208, 302921,
		},
		{
			"35 billion with experts, 5.98 GiB",
			`{"model_type": "qwen3_5_moe_text", "hidden_size": 1024, "moe_intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1024,
			"max_position_embeddings": 262144, "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4,
			"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "torch_dtype": "bfloat16"}`,
			Settings{KVBytes: 5.98 * gib},
			2096, 299, 567978,
		},
	} {
		m, err := modelconfig.Parse([]byte(tc.config))
		must.Succeed(t, err)
		on := true
		s := tc.settings
		s.Release, s.KVType, s.PrefixCaching, s.MaxModelLen, s.MaxNumBatchedTokens = "0.24", "fp8", &on, 131072, 8192
		l := ledger(t, m, s)
		if l.KV.BlockTokens != tc.block || l.Blocks.Value != float64(tc.blocks) || l.Tokens.Value != tc.tokens {
			t.Errorf("%s: %.0f blocks of %d, %.0f tokens; the server had %d of %d, %.0f", tc.name, l.Blocks.Value,
				l.KV.BlockTokens, l.Tokens.Value, tc.blocks, tc.block, tc.tokens)
		}
	}
}

func TestLedgerByHand(t *testing.T) {
	// Llama 3.1 8B, TP 2: 32 layers × (4 heads × 256 values × 2 bytes) × 16 tokens.
	l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), Settings{Device: device(t, "H100"), TP: 2})
	if l.KV.BytesPerBlock != 32*4*256*2*16 || l.KV.BytesPerToken != 65536 {
		t.Errorf("TP 2: %v bytes a block, %v a token", l.KV.BytesPerBlock, l.KV.BytesPerToken)
	}
	// Eight KV heads on 16 GPUs are repeated: no less than one each.
	l = ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), Settings{Device: device(t, "H100"), TP: 16})
	if l.KV.BytesPerToken != 32*256*2 {
		t.Errorf("TP 16: %v bytes a token", l.KV.BytesPerToken)
	}
	// The latent vector is not divided: 61 layers × 576 × 2 at any TP.
	for _, tp := range []int{1, 8, 16} {
		if l = ledger(t, modelconfigtest.Read(t, "deepseek-v3"),
			Settings{Device: device(t, "H200"), TP: tp}); l.KV.BytesPerToken != 70272 {
			t.Errorf("MLA, TP %d: %v bytes a token", tp, l.KV.BytesPerToken)
		}
	}
	// Pipeline stages: 32 layers on 3 GPUs are 11, 11 and 10.
	s := Settings{PP: 3}
	for i, want := range [][2]int{{0, 11}, {11, 22}, {22, 32}} {
		if a, b := s.stageLayers(32, i); a != want[0] || b != want[1] {
			t.Errorf("stage %d: layers %d to %d, want %v", i, a, b, want)
		}
	}
	// 35 sizes to 256 and 16 more to 512, as a log says for 256 sequences: "PIECEWISE=51 (largest=512), FULL=35
	// (largest=256)".
	s = Settings{MaxNumSeqs: 256}
	s.countGraphs()
	if s.capturedGraphs != 86 {
		t.Errorf("%d graphs, want 86", s.capturedGraphs)
	}
	// Sixteen requests of 2,000 tokens need 125 blocks each; one block is a placeholder.
	l = ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), Settings{Device: device(t, "H100"), NumBlocksOverride: 2001})
	if n := l.SafeConcurrency(2000); n != 16 {
		t.Errorf("%d requests are safe, want 16", n)
	}
}

func TestDefaultsFollowTheRelease(t *testing.T) {
	for _, tc := range []struct {
		release     engine.Release
		device      string
		utilization float64
		seqs        int
		graphs      bool
	}{
		{"0.19", "H100", 0.90, 1024, false},
		{"0.20", "H100", 0.92, 1024, false},
		{"0.21", "H100", 0.92, 1024, true},
		{"0.23", "A100 SXM 80GB", 0.92, 256, true},
		{"0.23", "L4", 0.92, 256, true},
	} {
		l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"),
			Settings{Release: tc.release, Device: device(t, tc.device)})
		_, counted := l.Line(LineGraphs)
		if l.Settings.Utilization != tc.utilization || l.Settings.MaxNumSeqs != tc.seqs || counted != tc.graphs {
			t.Errorf("%s on %s: utilization %v, %d sequences, graphs counted %v", tc.release, tc.device,
				l.Settings.Utilization, l.Settings.MaxNumSeqs, counted)
		}
		if len(l.Assumed) < 4 {
			t.Errorf("assumed only %q", l.Assumed)
		}
	}
	l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"),
		Settings{Device: device(t, "H100"), MaxNumSeqs: 8, MaxNumBatchedTokens: 512, MaxModelLen: 4096,
			Utilization: 0.9, Release: "0.23"})
	if len(l.Assumed) != 0 {
		t.Errorf("everything was given, and yet assumed: %q", l.Assumed)
	}
}

func TestMoreMemoryIsNeverFewerBlocks(t *testing.T) {
	for _, name := range []string{"llama-3.1-8b", "gemma-3-27b", "qwen3-next-80b-a3b", "deepseek-v2-lite",
		"gpt-oss-20b", "nemotron-h-8b"} {
		m := modelconfigtest.Read(t, name)
		last := Ledger{}
		for g := 16.0; g < 400; g *= 1.13 {
			l := ledger(t, m, Settings{Memory: Exact(g * gib), MaxNumSeqs: 64, MaxNumBatchedTokens: 2048})
			if l.Blocks.Value < last.Blocks.Value || l.MaxLen.Value < last.MaxLen.Value {
				t.Errorf("%s: %.1f GiB hold %v blocks, less memory %v", name, g, l.Blocks.Value, last.Blocks.Value)
			}
			if !(l.Available.Low <= l.Available.Value && l.Available.Value <= l.Available.High) {
				t.Errorf("%s: %+v is no range", name, l.Available)
			}
			last = *l
		}
		// An FP8 cache never lowers the capacity, and more sequences never raise it.
		fp8 := ledger(t, m, Settings{Memory: Exact(200 * gib), KVType: "fp8", MaxNumSeqs: 64,
			MaxNumBatchedTokens: 2048})
		plain := ledger(t, m, Settings{Memory: Exact(200 * gib), MaxNumSeqs: 64, MaxNumBatchedTokens: 2048})
		many := ledger(t, m, Settings{Memory: Exact(200 * gib), MaxNumSeqs: 1024, MaxNumBatchedTokens: 2048})
		if fp8.Tokens.Value < plain.Tokens.Value || many.Available.Value > plain.Available.Value {
			t.Errorf("%s: %v tokens in FP8, %v plain; %v left for 1024 sequences, %v for 64", name, fp8.Tokens.Value,
				plain.Tokens.Value, many.Available.Value, plain.Available.Value)
		}
	}
}

func TestAModelThatDoesNotFitHasRemedies(t *testing.T) {
	l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), Settings{Device: device(t, "T4"), MaxModelLen: 8192})
	if l.Available.Value >= 0 || l.Blocks.Value != 0 {
		t.Fatalf("Llama 3.1 8B fits a T4: %+v", l.Available)
	}
	var changes []string
	for _, r := range l.Remedies() {
		changes = append(changes, r.Change)
		if r.Left.Value <= 0 {
			t.Errorf("%+v leaves nothing", r)
		}
	}
	if len(changes) < 2 || changes[0] != "--tensor-parallel-size 2" {
		t.Errorf("remedies %q", changes)
	}
}

func TestImpossibleSettingsAreRefused(t *testing.T) {
	m := modelconfigtest.Read(t, "llama-3.1-8b")
	h100 := device(t, "H100")
	for name, s := range map[string]Settings{
		"a TP that does not divide the heads": {Device: h100, TP: 3},
		"more stages than layers":             {Device: h100, PP: 33},
		"no memory":                           {},
		"a utilization above 1":               {Device: h100, Utilization: 1.2},
		"a KV type that is none":              {Device: h100, KVType: "fp3"},
		"a release of the V0 engine":          {Device: h100, Release: "0.7.3"},
	} {
		if _, err := NewLedger(m, s); err == nil {
			t.Errorf("%s is taken", name)
		} else if name != "more stages than layers" && name != "a utilization above 1" && hint.Of(err) == "" {
			t.Errorf("%s: %v has no hint", name, err)
		}
	}
}

func TestTheServersBlocksAreAdopted(t *testing.T) {
	l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), Settings{Release: "0.23", Device: device(t, "H100")})
	s := l.Adopt(Observed{NumBlocks: 1000, BlockSize: 32})
	if a := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), s); a.Blocks.Value != 1000 || a.KV.BlockTokens != 32 {
		t.Errorf("adopted %v blocks of %d", a.Blocks.Value, a.KV.BlockTokens)
	}
}

func TestTheLongestThatFits(t *testing.T) {
	s := Settings{Release: "0.23", Device: device(t, "RTX 4090"), LongestThatFits: true}
	l := ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), s)
	if n := l.Settings.MaxModelLen; n >= 131072 || n < 8192 || l.Concurrency.Value < 1 {
		t.Errorf("max-model-len %d, of which %.3g requests fit", n, l.Concurrency.Value)
	}
	s.Device = device(t, "H100")
	if l = ledger(t, modelconfigtest.Read(t, "llama-3.1-8b"), s); l.Settings.MaxModelLen != 131072 {
		t.Errorf("max-model-len %d where the model's fits", l.Settings.MaxModelLen)
	}
}

// Steps free the tokens outside a window. So the number of concurrent requests hardly depends on the token budget of a
// step, although a request in prefill may hold as many tokens as the budget.
func TestBlocksOfWindowsAreFreed(t *testing.T) {
	at := func(batched int) int {
		l := ledger(t, modelconfigtest.Read(t, "gemma-3-27b"),
			Settings{Device: device(t, "H200"), NumBlocksOverride: 20000, MaxNumBatchedTokens: batched})
		if least := (20000 - 1) / l.KV.BlocksFor(8192) * (8192 / 16); l.PlainBlocks(8192, 16) < least {
			t.Errorf("%d tokens in a step: fewer than %d blocks", batched, least)
		}
		return l.PlainBlocks(8192, 16)
	}
	if small, large := at(512), at(8192); large < small*8/10 || large > small {
		t.Errorf("%d blocks with 512 tokens in a step, %d with 8192", small, large)
	}
}
