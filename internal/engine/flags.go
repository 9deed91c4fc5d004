package engine

import (
	"regexp"
	"slices"
	"strconv"
)

// flags are those that fixes may propose, with the first release of vLLM that takes
// them; "" is older than any server whose metrics can be read. None of them has been
// taken away so far. The edges of --watermark, --max-num-queued-* and
// --kv-cache-metrics were read in vLLM's own sources, of 65 releases up to 0.33.0;
// those marked "unsure" are from memory of its release notes, and late rather than
// early.
var flags = map[string]string{
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
	MaxQueuedRequests:    "0.29",
	MaxQueuedTokens:      "0.29",
}

// Since returns the first release that has a flag, "" where all have.
func Since(flag string) string { return flags[flag] }

// Takes reports whether a server of a version is sure to take a flag, without
// dashes. The version is one that the server told, "0.23.0", or what its metrics
// show, "0.20 or later, before 0.30", of which the oldest counts; "" is not known.
func Takes(version, flag string) bool {
	since, known := flags[flag]
	if !known || since == "" {
		return known
	}
	least := release(version)
	return least != nil && slices.Compare(least, release(since)) >= 0
}

var releaseNumber = regexp.MustCompile(`(\d+)\.(\d+)`)

// release reads the major and the minor number of the first release in a text, nil
// where there is none.
func release(text string) []int {
	m := releaseNumber.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	major, err1 := strconv.Atoi(m[1])
	minor, err2 := strconv.Atoi(m[2])
	if err1 != nil || err2 != nil {
		return nil
	}
	return []int{major, minor}
}
