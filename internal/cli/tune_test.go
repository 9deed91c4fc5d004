package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

const large = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
	"num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": false}`

// cached puts a model into a cache as Hugging Face's clients have it.
func cached(t *testing.T, name, config string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HF_HUB_CACHE", dir)
	repo := filepath.Join(dir, "models--"+strings.ReplaceAll(name, "/", "--"))
	for file, content := range map[string]string{"refs/main": "abc\n", "snapshots/abc/config.json": config, "snapshots/zzz/config.json": "{}"} {
		path := filepath.Join(repo, file)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

func TestModelsByTheirName(t *testing.T) {
	cached(t, "meta-llama/Llama-3.1-70B", large)
	out, _, err := sixty(t, "tune", "--model-config", "meta-llama/Llama-3.1-70B", "--gpu", "H100", "--engine-args", "--tensor-parallel-size 4")
	if err != nil || !strings.HasPrefix(out, "It fits: LlamaForCausalLM") || !strings.Contains(out, "vllm serve meta-llama/Llama-3.1-70B") {
		t.Errorf("%v: %s", err, out)
	}
}

// A name is enough for the models whose configuration sixty knows, without a cache and a network.
func TestAModelIsNamedByAnArgument(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	for _, name := range []string{"Qwen/Qwen3-32B", "qwen/qwen3-32b", "Qwen3-32B"} {
		out, _, err := sixty(t, "tune", name, "--gpu", "H100", "--engine-args", "--tensor-parallel-size 2")
		if err != nil || !strings.Contains(out, "\n  vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	out, _, err := sixty(t, "simulate", "openai/gpt-oss-20b", "--gpu", "H100", "--rate", "2", "--requests", "50", "--prompt-tokens", "500", "--output-tokens", "50")
	if err != nil || !strings.Contains(out, "H100") {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{{"tune", ""}, {"simulate", ""}, {"tune", "--model-config", ""}} {
		if out, _, err := sixty(t, append([]string{"__complete"}, args...)...); err != nil || !strings.Contains(out, "openai/gpt-oss-120b\n") {
			t.Errorf("completion of %q: %v: %s", args, err, out)
		}
	}
	cached(t, "Qwen/Qwen3-32B", large) // goes before what is known
	out, _, err = sixty(t, "tune", "qwen/qwen3-32b", "--gpu", "H200", "--engine-args", "--tensor-parallel-size 4")
	if err != nil || !strings.HasPrefix(out, "It fits: LlamaForCausalLM") || !strings.Contains(out, "vllm serve Qwen/Qwen3-32B") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestEveryArgumentCounts(t *testing.T) {
	cached(t, "meta-llama/Llama-3.1-70B", large)
	out, _, err := sixty(t, "tune", "--model-config", "meta-llama/Llama-3.1-70B", "--gpu", "H200", "--full",
		"--engine-args", "--tensor-parallel-size 4 --quantization fp8 --seed 3 --enable-dbo --max-model-len 8192")
	if err != nil && !errors.Is(err, errFound) {
		t.Fatal(err)
	}
	for _, want := range []string{"--quantization fp8", "--seed 3", "--enable-dbo", "fp8, 8 bits", "--enable-dbo: the overlap of two half batches", "no effect  --seed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

func TestComparison(t *testing.T) {
	cached(t, "meta-llama/Llama-3.1-70B", large)
	out, _, err := sixty(t, "tune", "--model-config", "meta-llama/Llama-3.1-70B", "--gpu", "H100,H200,T4", "--rate", "0.5", "--prompt-tokens", "500",
		"--output-tokens", "100", "--ttft-p95", "2s", "--itl-p95", "100ms", "--engine-args", "--max-model-len 8192", "--requests", "100", "--price", "H200=3", "--price", "H100=2.5", "--output", "json")
	must.Succeed(t, err)
	var a struct {
		Status string
		Result struct {
			Rows []struct {
				Row, GPU, Command string
				GPUs              int
				Cost              struct{ Hour, Million_output_tokens float64 }
			}
			Offers []struct {
				GPU, Impossible          string
				Surely_gpus, Likely_gpus int
				GPU_hour                 float64
			}
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(out), &a))
	r := a.Result
	if len(r.Offers) != 3 || len(r.Rows) < 1 || a.Status != "found" {
		t.Fatalf("%+v", a)
	}
	first := r.Rows[0]
	if first.Row != "surely" || first.Cost.Hour <= 0 || first.Cost.Million_output_tokens <= 0 {
		t.Errorf("%+v", first)
	}
	for _, o := range r.Offers {
		if n := float64(o.Surely_gpus) * o.GPU_hour; n > 0 && n < first.Cost.Hour*0.999 {
			t.Errorf("%+v is cheaper than the answer, %+v", o, first)
		}
	}
}
