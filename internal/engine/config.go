// Package engine holds what is known of an inference engine's configuration,
// setting by setting, each with its source: command-line arguments that the
// user gave, a start-up log, labels of vllm:cache_config_info, or an inference
// from what was observed. It performs no I/O.
package engine

import (
	"strconv"
	"strings"

	"github.com/google/shlex"
)

// Flags of vllm serve that sixty reads or proposes, without the dashes
// (vllm/engine/arg_utils.py). NumBlocks and KVTokens are facts that the server
// works out at start; as flags they do not exist.
const (
	MaxNumSeqs           = "max-num-seqs"
	MaxNumBatchedTokens  = "max-num-batched-tokens"
	MaxModelLen          = "max-model-len"
	ChunkedPrefill       = "enable-chunked-prefill"
	PrefixCaching        = "enable-prefix-caching"
	GPUMemoryUtilization = "gpu-memory-utilization"
	KVCacheDtype         = "kv-cache-dtype"
	BlockSize            = "block-size"
	TensorParallelSize   = "tensor-parallel-size"
	DataParallelSize     = "data-parallel-size"
	NumBlocks            = "num-gpu-blocks"       // KV blocks of one engine
	KVTokens             = "kv-cache-size-tokens" // KV capacity in tokens (0.24 and later)

	NumBlocksOverride    = "num-gpu-blocks-override"
	KVCacheMemoryBytes   = "kv-cache-memory-bytes"
	KVCacheMetrics       = "kv-cache-metrics"
	LongPrefillThreshold = "long-prefill-token-threshold"
	APIServerCount       = "api-server-count"
	EnforceEager         = "enforce-eager"
	Watermark            = "watermark"
	MaxQueuedRequests    = "max-num-queued-reqs"
	MaxQueuedTokens      = "max-num-queued-tokens"
)

// A Setting is the value of a flag and where it was learnt.
type Setting struct {
	Value  string
	Source string // "--engine-args", "engine log", "cache_config_info", "inferred from …"
}

// Config maps flags, without dashes, to what is known of them.
type Config map[string]Setting

// Set records a setting unless it is known already: callers go from the most
// to the least trustworthy source.
func (c Config) Set(flag, value, source string) {
	if _, known := c[flag]; !known && value != "" && value != "None" {
		c[flag] = Setting{Value: value, Source: source}
	}
}

// Merge adds the settings of other that c does not know.
func (c Config) Merge(other Config) {
	for flag, s := range other {
		c.Set(flag, s.Value, s.Source)
	}
}

// Number returns a numeric setting.
func (c Config) Number(flag string) (v float64, source string, ok bool) {
	s, known := c[flag]
	if !known {
		return 0, "", false
	}
	v, err := strconv.ParseFloat(s.Value, 64)
	return v, s.Source, err == nil
}

// Bool returns a setting that is on or off.
func (c Config) Bool(flag string) (on, ok bool) {
	s, known := c[flag]
	if !known {
		return false, false
	}
	on, err := strconv.ParseBool(strings.ToLower(s.Value))
	return on, err == nil
}

// FromCacheConfigInfo reads the labels of vllm:cache_config_info, which
// carries every field of vLLM's CacheConfig as text
// (vllm/v1/metrics/loggers.py, v0.23.0).
func FromCacheConfigInfo(labels map[string]string) Config {
	const source = "cache_config_info"
	c := Config{}
	for flag, label := range map[string]string{
		BlockSize:            "block_size",
		NumBlocks:            "num_gpu_blocks",
		KVTokens:             "kv_cache_size_tokens",
		PrefixCaching:        "enable_prefix_caching",
		GPUMemoryUtilization: "gpu_memory_utilization",
		KVCacheDtype:         "cache_dtype",
		NumBlocksOverride:    "num_gpu_blocks_override",
		KVCacheMemoryBytes:   "kv_cache_memory_bytes",
	} {
		c.Set(flag, labels[label], source)
	}
	return c
}

// ParseArgs reads the arguments of a vllm serve command line, as the user
// typed or copied them, with a shell's quotes and continued lines: --flag value,
// --flag=value, --flag and --no-flag. Words that are no flags are skipped.
func ParseArgs(line, source string) Config {
	c := Config{}
	line = strings.ReplaceAll(strings.ReplaceAll(line, "\\\r\n", " "), "\\\n", " ")
	words, err := shlex.Split(line)
	if err != nil { // a quote without its end
		words = strings.Fields(line)
	}
	for i := 0; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "--")
		if !ok {
			continue
		}
		name, value, hasValue := strings.Cut(name, "=")
		name = strings.ReplaceAll(name, "_", "-")
		if !hasValue && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value, hasValue = words[i], true
		}
		if !hasValue {
			value = "true"
			if off, isOff := strings.CutPrefix(name, "no-"); isOff {
				name, value = off, "false"
			}
		}
		c.Set(name, value, source)
	}
	return c
}
