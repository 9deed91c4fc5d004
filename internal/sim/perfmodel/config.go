package perfmodel

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/sim"
)

// An Engine is a configuration to simulate, with what was taken for granted.
type Engine struct {
	Config  sim.Config
	Release engine.Release

	// Assumed are settings that nothing told, as sentences; NotModelled are those
	// that were told and that the simulation leaves out.
	Assumed, NotModelled []string
}

// Config makes an engine's configuration of its release ("" is vllm.DefaultRelease)
// and of what is known of its settings: arguments, labels of
// vllm:cache_config_info, a start-up log. What is not known are vllm serve's
// defaults, which depend on the accelerator; nil is an unknown one.
//
// The size of the KV cache has no default: without it there is an error.
func Config(release engine.Release, known engine.Config, device *GPU) (*Engine, error) {
	e := &Engine{Release: release}
	if release == "" {
		e.Release = vllm.DefaultRelease
		e.assume("the rules of vLLM %s", e.Release)
	}
	var err error
	if e.Config, err = sim.Defaults(e.Release); err != nil {
		return nil, hint.With(err, "give the server's version as 0.23.0")
	}
	s := settings{known: known}
	c := &e.Config
	s.number(engine.BlockSize, &c.BlockSize)
	if err := e.cache(&s); err != nil {
		return nil, err
	}
	if !s.number(engine.MaxModelLen, &c.MaxModelLen) {
		c.MaxModelLen = max(c.Tokens(), 2)
		e.assume("a max-model-len that the whole KV cache holds (%d tokens)", c.MaxModelLen)
	}
	s.boolean(engine.ChunkedPrefill, &c.ChunkedPrefill)
	s.boolean(engine.PrefixCaching, &c.PrefixCaching)
	e.limits(&s, device)
	s.number(engine.LongPrefillThreshold, &c.LongPrefillTokenThreshold)
	s.number(engine.MaxQueuedRequests, &c.MaxQueuedRequests)
	s.number(engine.MaxQueuedTokens, &c.MaxQueuedTokens)
	s.boolean(engine.AsyncScheduling, &c.AsyncScheduling)
	s.boolean(engine.ReserveFullPrompt, &c.ReserveFullPrompt)
	s.ratio(engine.Watermark, &c.Watermark)
	switch p := s.text(engine.SchedulingPolicy); p {
	case "", sim.FCFS.String():
	case sim.Priority.String():
		c.Policy = sim.Priority
	default:
		s.errs = append(s.errs, fmt.Errorf("--%s %s: want %s or %s", engine.SchedulingPolicy, p, sim.FCFS, sim.Priority))
	}
	if err := s.err(); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e.leaveOut(known)
	return e, nil
}

func (e *Engine) assume(format string, args ...any) {
	e.Assumed = append(e.Assumed, fmt.Sprintf(format, args...))
}

// cache sets the number of blocks.
func (e *Engine) cache(s *settings) error {
	c := &e.Config
	var tokens int
	switch {
	case s.number(engine.NumBlocksOverride, &c.NumBlocks):
	case s.number(engine.NumBlocks, &c.NumBlocks):
	case s.number(engine.KVTokens, &tokens):
		c.NumBlocks = tokens / max(c.BlockSize, 1) // which the server counts with the placeholder
	case len(s.errs) == 0:
		return hint.With(errors.New("the size of the KV cache is not known"),
			"give --engine-args '--num-gpu-blocks-override N' with the num_gpu_blocks of vllm:cache_config_info, or of the server's log: its KV cache size in tokens over the block size")
	}
	return nil
}

// limits sets the batch limit and the step's token budget.
func (e *Engine) limits(s *settings, device *GPU) {
	c := &e.Config
	var seqs, tokens int
	s.number(engine.MaxNumSeqs, &seqs)
	s.number(engine.MaxNumBatchedTokens, &tokens)
	what, m := "a GPU of less than 70 GiB", machine{Release: e.Release}
	if device != nil {
		what, m.Memory, m.Device = "the "+device.Name, device.Memory, device.Name
	}
	var assumed []string
	c.MaxNumSeqs, c.MaxNumBatchedTokens, assumed = m.limits(seqs, tokens, c.MaxModelLen, c.ChunkedPrefill, what)
	e.Assumed = append(e.Assumed, assumed...)
}

// A machine is what vLLM's default limits depend on.
type machine struct {
	Release engine.Release
	Device  string  // "" is an unknown one
	Memory  float64 // of one device, in bytes
}

// limits returns max-num-seqs and max-num-batched-tokens, with vLLM's defaults for
// those that are 0 (engine/arg_utils.py@v0.23.0, get_batch_defaults and the
// adjustments after it), which it says.
func (m machine) limits(seqs, tokens, maxModelLen int, chunked bool, what string) (maxNumSeqs, maxNumBatchedTokens int, assumed []string) {
	defaultSeqs, defaultTokens := 256, 2048
	small := strings.HasPrefix(m.Device, "A100") && m.Release.AtLeast("0.9")
	switch {
	case m.Memory >= 160*gib && m.Release.AtLeast(vllm.LargerBatchesFrom160GiB):
		defaultSeqs, defaultTokens = 1024, 16384
	case m.Memory >= 70*gib && !small:
		defaultSeqs, defaultTokens = 1024, 8192
	}
	if seqs == 0 {
		if seqs = defaultSeqs; tokens > 0 {
			seqs = min(seqs, tokens)
		}
		assumed = append(assumed, fmt.Sprintf("max-num-seqs %d, vLLM's default on %s", seqs, what))
	}
	if tokens == 0 {
		tokens = int(min(float64(max(defaultTokens, seqs)), float64(seqs)*float64(maxModelLen)))
		if !chunked {
			tokens = max(tokens, maxModelLen)
		}
		assumed = append(assumed, fmt.Sprintf("max-num-batched-tokens %d, vLLM's default on %s", tokens, what))
	}
	return seqs, tokens, assumed
}

// leaveOut tells of settings that change what a server does and not what is
// simulated.
func (e *Engine) leaveOut(known engine.Config) {
	e.NotModelled = vllm.Engine.Flags.LeftOut(known, engine.Schedule)
	if n, _, ok := known.Number(engine.PipelineParallelSize); ok && n > 1 {
		e.NotModelled = append(e.NotModelled, "--"+engine.PipelineParallelSize+": batches in flight in the pipeline's stages")
	}
	for _, x := range []struct{ flag, what string }{
		{engine.SpeculativeConfig, "draft tokens"},
		{engine.EnableLoRA, "requests that wait for an adapter slot"},
	} {
		if s, ok := known[x.flag]; ok && s.Value != "false" {
			e.NotModelled = append(e.NotModelled, fmt.Sprintf("--%s: %s", x.flag, x.what))
		}
	}
}

// settings reads flags and gathers what is wrong with them.
type settings struct {
	known engine.Config
	errs  []error
}

// err is all that is wrong with them.
func (s *settings) err() error {
	if err := errors.Join(s.errs...); err != nil {
		return hint.With(fmt.Errorf("engine settings: %w", err), "write them as for vllm serve, such as --engine-args '--max-num-seqs 256 --max-model-len 8k'")
	}
	return nil
}

func (s *settings) text(flag string) string { return s.known[flag].Value }

func (s *settings) number(flag string, to *int) bool {
	text := s.text(flag)
	if text == "" {
		return false
	}
	v, err := ParseCount(text)
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("--%s %s: %w", flag, text, err))
		return false
	}
	*to = v
	return true
}

func (s *settings) ratio(flag string, to *float64) {
	if text := s.text(flag); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("--%s %s: not a number", flag, text))
			return
		}
		*to = v
	}
}

// positive reads a number, or a size of memory.
func (s *settings) positive(flag string, to *float64) {
	text := s.text(flag)
	if text == "" {
		return
	}
	v, ok := ParseMemory(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		v, ok = n, n > 0 && !math.IsInf(n, 0)
	}
	if !ok {
		s.errs = append(s.errs, fmt.Errorf("--%s %s: want a positive number", flag, text))
		return
	}
	*to = v
}

func (s *settings) boolean(flag string, to *bool) {
	if text := s.text(flag); text != "" {
		v, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("--%s %s: want true or false", flag, text))
			return
		}
		*to = v
	}
}

// ParseCount reads a whole number as vllm serve takes it: 8192, 8k for 8,000, 8K for
// 8,192, and m, M, g, G likewise (utils/argparse_utils.py, human_readable_int).
func ParseCount(text string) (int, error) {
	factor := 1.0
	if n := len(text); n > 0 {
		if f, ok := map[byte]float64{'k': 1e3, 'K': 1 << 10, 'm': 1e6, 'M': 1 << 20, 'g': 1e9, 'G': 1 << 30}[text[n-1]]; ok {
			factor, text = f, text[:n-1]
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if v *= factor; err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<40 {
		return 0, errors.New("not a whole number")
	}
	return int(v), nil
}
