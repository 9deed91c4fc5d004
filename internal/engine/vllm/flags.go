package vllm

import "github.com/sixty-dev/sixty/internal/engine"

// flags are those that fixes may propose, with the first release of vLLM that takes
// them; "" is older than any server whose metrics can be read. None of them has been
// taken away so far. The edges of --watermark, --max-num-queued-* and
// --kv-cache-metrics were read in vLLM's own sources, of 65 releases up to 0.33.0;
// those marked "unsure" are from memory of its release notes, and late rather than
// early.
var flags = engine.Flags{
	engine.MaxNumSeqs:           {},
	engine.MaxNumBatchedTokens:  {},
	engine.ChunkedPrefill:       {},
	engine.PrefixCaching:        {},
	engine.NumBlocksOverride:    {},
	engine.GPUMemoryUtilization: {},
	engine.KVCacheDtype:         {},
	engine.BlockSize:            {},
	engine.TensorParallelSize:   {},
	engine.EnforceEager:         {},

	engine.LongPrefillThreshold: {Since: "0.8"},  // unsure
	engine.APIServerCount:       {Since: "0.9"},  // unsure
	engine.KVCacheMemoryBytes:   {Since: "0.11"}, // unsure
	engine.KVCacheMetrics:       {Since: "0.12"},
	engine.Watermark:            {Since: "0.24"},
	engine.MaxQueuedRequests:    {Since: LimitsQueuedRequests},
	engine.MaxQueuedTokens:      {Since: LimitsQueuedRequests},
}
