package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// Policy is the order of the waiting queue and the choice of preemption victims (vllm serve --scheduling-policy).
type Policy uint8

const (
	FCFS     Policy = iota // first come, first served; the newest is preempted
	Priority               // smallest priority first; the largest is preempted
)

// String returns the value that vllm serve takes.
func (p Policy) String() string {
	if p == Priority {
		return "priority"
	}
	return "fcfs"
}

// Config is the configuration of one engine (one data-parallel rank). Field comments name vLLM's flag. A Config is a
// value: New validates it and nothing modifies it afterwards.
type Config struct {
	MaxNumSeqs          int // --max-num-seqs
	MaxNumBatchedTokens int // --max-num-batched-tokens: token budget of a step
	MaxModelLen         int // --max-model-len: prompt plus output, in tokens

	// BlockSize is the tokens of a KV block (--block-size). NumBlocks is the blocks of the pool as
	// vllm:cache_config_info reports num_gpu_blocks. One of them is a placeholder that no request gets
	// (v1/core/block_pool.py@v0.23.0, null_block).
	BlockSize, NumBlocks int

	ChunkedPrefill            bool   // --enable-chunked-prefill
	PrefixCaching             bool   // --enable-prefix-caching
	LongPrefillTokenThreshold int    // --long-prefill-token-threshold; 0 is off
	Policy                    Policy // --scheduling-policy
	AsyncScheduling           bool   // --async-scheduling: schedule one step ahead

	// ReserveFullPrompt admits a request only when its whole sequence fits in free blocks, not just its first chunk
	// (scheduler_reserve_full_isl).
	ReserveFullPrompt bool

	// Watermark is the share of NumBlocks left free by the admission of a waiting request while others run
	// (--watermark, 0.24 and later).
	Watermark float64

	// MaxQueuedRequests and MaxQueuedTokens reject arrivals with HTTP 503 (0.29 and later): at that many requests
	// waiting or running, or prompt tokens of requests without a first token. 0 is no limit. vLLM enforces them in its
	// API server, over all data-parallel ranks together; here they hold for each.
	MaxQueuedRequests, MaxQueuedTokens int
}

// Defaults returns the scheduler rules of a vLLM release such as "0.23.0", with the limits that vllm serve uses on a
// GPU of less than 70 GiB (2048 tokens, 256 sequences; engine/arg_utils.py, get_batch_defaults). The caller sets
// MaxModelLen and NumBlocks, which depend on model and memory.
//
// Releases differ in asynchronous scheduling and in the reservation of the full prompt.
func Defaults(release engine.Release) (Config, error) {
	if !release.Valid() {
		return Config{}, fmt.Errorf("vLLM release %q: want a form like 0.23.0", release)
	}
	if !release.AtLeast(vllm.V1ByDefault) {
		return Config{}, fmt.Errorf("vLLM release %q: the V0 scheduler is not modelled", release)
	}
	return Config{
		MaxNumSeqs:          256,
		MaxNumBatchedTokens: 2048,
		BlockSize:           16,
		ChunkedPrefill:      true,
		PrefixCaching:       true,
		AsyncScheduling:     release.AtLeast(vllm.AsyncSchedulingByDefault),
		ReserveFullPrompt:   release.AtLeast(vllm.FullPromptReserved),
	}, nil
}

// Validate reports every field that no engine could run with.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.MaxNumSeqs > 0, "max-num-seqs is %d, want at least 1", c.MaxNumSeqs)
	check(c.MaxNumBatchedTokens > 0, "max-num-batched-tokens is %d, want at least 1", c.MaxNumBatchedTokens)
	check(c.MaxNumBatchedTokens >= c.MaxNumSeqs,
		"max-num-batched-tokens %d is below max-num-seqs %d", c.MaxNumBatchedTokens, c.MaxNumSeqs)
	check(c.MaxModelLen > 1, "max-model-len is %d, want at least 2", c.MaxModelLen)
	check(c.ChunkedPrefill || c.MaxNumBatchedTokens >= c.MaxModelLen,
		"max-num-batched-tokens %d is below max-model-len %d without chunked prefill",
		c.MaxNumBatchedTokens, c.MaxModelLen)
	check(c.BlockSize > 0, "block-size is %d, want at least 1", c.BlockSize)
	check(c.NumBlocks > 1, "num-gpu-blocks is %d, want at least 2", c.NumBlocks)
	check(c.LongPrefillTokenThreshold >= 0, "long-prefill-token-threshold is negative")
	check(c.Policy <= Priority, "unknown scheduling policy %d", c.Policy)
	check(c.Watermark >= 0 && c.Watermark < 1, "watermark is %v, want 0 or more and below 1", c.Watermark)
	check(c.MaxQueuedRequests >= 0 && c.MaxQueuedTokens >= 0, "a queue limit is negative")
	if err := errors.Join(errs...); err != nil {
		return hint.With(fmt.Errorf("simulator configuration: %w", err),
			"give the values from the server's start-up log, or from vllm:cache_config_info")
	}
	return nil
}

// Tokens is the number of tokens that requests can hold: the capacity behind the KV cache usage and behind every
// computation.
func (c Config) Tokens() int { return c.usableBlocks() * c.BlockSize }

// CacheSize is the KV cache in tokens as a server logs it and reports it in kv_cache_size_tokens, with the placeholder:
// the number to show to people.
func (c Config) CacheSize() int { return c.NumBlocks * c.BlockSize }

// usableBlocks is the blocks that requests can hold.
func (c Config) usableBlocks() int { return c.NumBlocks - 1 }

// Fits reports whether a request that has the engine to itself could end. If not, it would wait forever, as vLLM lets
// it.
func (c Config) Fits(prompt, output int) bool {
	slots := min(prompt+output, c.MaxModelLen) - 1 // the last token needs no slot
	return blocksFor(slots, c.BlockSize) <= c.usableBlocks()
}

func blocksFor(tokens, size int) int { return (tokens + size - 1) / size }

// A Request is one call to the server. Times are offsets from the beginning of the simulation.
type Request struct {
	Arrival      time.Duration
	PromptTokens int
	OutputTokens int // tokens it will generate

	// MaxTokens is the limit that the client asked for; 0 means OutputTokens. When it is larger, the request ends by a
	// stop token, which asynchronous scheduling learns one step late.
	MaxTokens int

	// After is the number, from 1, of an earlier request in the list that this one follows, as a turn follows the last
	// turn of a conversation. The request comes a Pause after the end of that one, but not before Arrival. 0: the
	// request comes at Arrival.
	After int
	Pause time.Duration

	Priority    int           // smaller is served first, under the Priority policy
	CancelAfter time.Duration // after arrival the client leaves; 0: never
	Unanswered  bool          // the client leaves only if it has no token then

	// Blocks identifies the content of the request's leading full blocks, prompt and then output, by one hash of the
	// whole prefix per block. The prefix cache can serve a block from another request with the same value. Blocks
	// beyond the end of the list match no other request. See SharedPrefix.
	Blocks []uint64
}

func (r Request) validate() error {
	switch {
	case r.PromptTokens < 1:
		return fmt.Errorf("a prompt of %d tokens", r.PromptTokens)
	case r.OutputTokens < 1:
		return fmt.Errorf("an output of %d tokens", r.OutputTokens)
	case r.MaxTokens != 0 && r.MaxTokens < r.OutputTokens:
		return fmt.Errorf("an output of %d tokens is above its limit of %d", r.OutputTokens, r.MaxTokens)
	case r.Arrival < 0 || r.CancelAfter < 0 || r.Pause < 0 || r.After < 0:
		return errors.New("a negative time or number")
	case max(r.Arrival, r.CancelAfter, r.Pause) > horizon:
		return fmt.Errorf("a time of more than %v", horizon)
	}
	return nil
}
