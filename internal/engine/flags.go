package engine

// flags are those that fixes may propose, with the first release of vLLM that takes
// them; "" is older than any server whose metrics can be read. None of them has been
// taken away so far. The edges of --watermark, --max-num-queued-* and
// --kv-cache-metrics were read in vLLM's own sources, of 65 releases up to 0.33.0;
// those marked "unsure" are from memory of its release notes, and late rather than
// early.
var flags = map[string]Release{
	MaxNumSeqs:           "",
	MaxNumBatchedTokens:  "",
	ChunkedPrefill:       "",
	PrefixCaching:        "",
	NumBlocksOverride:    "",
	GPUMemoryUtilization: "",
	KVCacheDtype:         "",
	BlockSize:            "",
	TensorParallelSize:   "",
	EnforceEager:         "",

	LongPrefillThreshold: "0.8",  // unsure
	APIServerCount:       "0.9",  // unsure
	KVCacheMemoryBytes:   "0.11", // unsure
	KVCacheMetrics:       "0.12",
	Watermark:            "0.24",
	MaxQueuedRequests:    LimitsQueuedRequests,
	MaxQueuedTokens:      LimitsQueuedRequests,
}

// Since returns the first release that has a flag, "" where all have.
func Since(flag string) Release { return flags[flag] }

// Takes reports whether a server of a version is sure to take a flag, without
// dashes. The version is one that the server told, "0.23.0", or what its metrics
// show, "0.20 or later, before 0.30", of which the oldest counts; "" is not known.
func Takes(version, flag string) bool {
	since, known := flags[flag]
	if !known || since == "" {
		return known
	}
	return FindRelease(version).AtLeast(since)
}
