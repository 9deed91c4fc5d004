package engine

import (
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/hint"
)

// read are the flags that sixty reads, and those that look like one of them and are
// others: vLLM has some two hundred, and most mean nothing here.
var (
	read = []string{
		MaxNumSeqs, MaxNumBatchedTokens, MaxModelLen, ChunkedPrefill, PrefixCaching, GPUMemoryUtilization, KVCacheDtype, BlockSize, TensorParallelSize,
		DataParallelSize, NumBlocksOverride, KVCacheMemoryBytes, KVCacheMetrics, LongPrefillThreshold, APIServerCount, EnforceEager, Watermark, MaxQueuedRequests, MaxQueuedTokens,
	}
	others = []string{"max-logprobs", "data-parallel-rank", "data-parallel-size-local", "max-num-partial-prefills", "pipeline-parallel-size"}
)

// Misspelt says of flags that are none of those that sixty reads, but look like one, which
// may have been meant: one sentence each.
func (c Config) Misspelt() []string {
	var out []string
	for flag := range c {
		if slices.Contains(read, flag) || slices.Contains(others, flag) {
			continue
		}
		if near := hint.DidYouMean(flag, read); near != "" {
			out = append(out, fmt.Sprintf("--%s changes nothing: %s", flag, near))
		}
	}
	slices.Sort(out)
	return out
}
