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

// An Engine is a configuration to simulate, with the assumptions behind it.
type Engine struct {
	Config  sim.Config
	Release engine.Release

	// Assumed lists defaults taken for unknown settings, as sentences; NotModelled lists known settings that the
	// simulation leaves out.
	Assumed, NotModelled []string
}

// NewEngine returns an engine's configuration from its release ("" is vllm.DefaultRelease) and its known settings:
// arguments, labels of vllm:cache_config_info, a start-up log. Unknown settings take vllm serve's defaults, which
// depend on the accelerator; a nil device is an unknown one.
//
// The size of the KV cache has no default: without it there is an error.
func NewEngine(release engine.Release, known engine.Config, device *GPU) (*Engine, error) {
	e := &Engine{Release: release}
	if release == "" {
		e.Release = vllm.DefaultRelease
		e.noteAssumption("the rules of vLLM %s", e.Release)
	}
	var err error
	if e.Config, err = sim.Defaults(e.Release); err != nil {
		return nil, hint.With(err, "give the server's version as 0.23.0")
	}
	s := flagReader{known: known}
	c := &e.Config
	s.readInt(engine.BlockSize, &c.BlockSize)
	if err := e.setBlocks(&s); err != nil {
		return nil, err
	}
	if !s.readInt(engine.MaxModelLen, &c.MaxModelLen) {
		c.MaxModelLen = max(c.Tokens(), 2)
		e.noteAssumption("a max-model-len that the whole KV cache holds (%d tokens)", c.MaxModelLen)
	}
	s.readBool(engine.ChunkedPrefill, &c.ChunkedPrefill)
	s.readBool(engine.PrefixCaching, &c.PrefixCaching)
	e.setLimits(&s, device)
	s.readInt(engine.LongPrefillThreshold, &c.LongPrefillTokenThreshold)
	s.readInt(engine.MaxQueuedRequests, &c.MaxQueuedRequests)
	s.readInt(engine.MaxQueuedTokens, &c.MaxQueuedTokens)
	s.readBool(engine.AsyncScheduling, &c.AsyncScheduling)
	s.readBool(engine.ReserveFullPrompt, &c.ReserveFullPrompt)
	s.readFloat(engine.Watermark, &c.Watermark)
	switch p := s.valueOf(engine.SchedulingPolicy); p {
	case "", sim.FCFS.String():
	case sim.Priority.String():
		c.Policy = sim.Priority
	default:
		s.errs = append(s.errs,
			fmt.Errorf("--%s %s: want %s or %s", engine.SchedulingPolicy, p, sim.FCFS, sim.Priority))
	}
	if err := s.joinErrors(); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e.listNotModelled(known)
	return e, nil
}

func (e *Engine) noteAssumption(format string, args ...any) {
	e.Assumed = append(e.Assumed, fmt.Sprintf(format, args...))
}

// setBlocks sets the number of blocks.
func (e *Engine) setBlocks(s *flagReader) error {
	c := &e.Config
	var tokens int
	switch {
	case s.readInt(engine.NumBlocksOverride, &c.NumBlocks):
	case s.readInt(engine.NumBlocks, &c.NumBlocks):
	case s.readInt(engine.KVTokens, &tokens):
		c.NumBlocks = tokens / max(c.BlockSize, 1) // the server counts the placeholder too
	case len(s.errs) == 0:
		return hint.With(errors.New("the size of the KV cache is not known"),
			"give --engine-args '--num-gpu-blocks-override N' with the num_gpu_blocks of vllm:cache_config_info, "+
				"or of the server's log: its KV cache size in tokens over the block size")
	}
	return nil
}

// setLimits sets the batch limit and the step's token budget.
func (e *Engine) setLimits(s *flagReader, device *GPU) {
	c := &e.Config
	var seqs, tokens int
	s.readInt(engine.MaxNumSeqs, &seqs)
	s.readInt(engine.MaxNumBatchedTokens, &tokens)
	what, m := "a GPU of less than 70 GiB", machine{Release: e.Release}
	if device != nil {
		what, m.Memory, m.Device = "the "+device.Name, device.Memory, device.Name
	}
	var assumed []string
	c.MaxNumSeqs, c.MaxNumBatchedTokens, assumed = m.defaultLimits(seqs, tokens, c.MaxModelLen, c.ChunkedPrefill, what)
	e.Assumed = append(e.Assumed, assumed...)
}

// A machine has the facts on which vLLM's default limits depend.
type machine struct {
	Release engine.Release
	Device  string  // "" is an unknown one
	Memory  float64 // bytes of one device
}

// defaultLimits returns max-num-seqs and max-num-batched-tokens. A limit that is 0 takes vLLM's default
// (engine/arg_utils.py@v0.23.0, get_batch_defaults and the adjustments after it), which is added to the assumptions.
func (m machine) defaultLimits(seqs, tokens, maxModelLen int, chunked bool,
	what string,
) (maxNumSeqs, maxNumBatchedTokens int, assumptions []string) {
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
		assumptions = append(assumptions, fmt.Sprintf("max-num-seqs %d, vLLM's default on %s", seqs, what))
	}
	if tokens == 0 {
		tokens = int(min(float64(max(defaultTokens, seqs)), float64(seqs)*float64(maxModelLen)))
		if !chunked {
			tokens = max(tokens, maxModelLen)
		}
		assumptions = append(assumptions, fmt.Sprintf("max-num-batched-tokens %d, vLLM's default on %s", tokens, what))
	}
	return seqs, tokens, assumptions
}

// listNotModelled lists settings that affect a server and not the simulation.
func (e *Engine) listNotModelled(known engine.Config) {
	e.NotModelled = vllm.Engine.Flags.LeftOut(known, engine.Schedule)
	if n, _, ok := known.Number(engine.PipelineParallelSize); ok && n > 1 {
		e.NotModelled = append(e.NotModelled,
			"--"+engine.PipelineParallelSize+": batches in flight in the pipeline's stages")
	}
	for _, x := range []struct{ flag, effect string }{
		{engine.SpeculativeConfig, "draft tokens"},
		{engine.EnableLoRA, "requests that wait for an adapter slot"},
	} {
		if s, ok := known[x.flag]; ok && s.Value != "false" {
			e.NotModelled = append(e.NotModelled, fmt.Sprintf("--%s: %s", x.flag, x.effect))
		}
	}
}

// flagReader reads flags and gathers their errors.
type flagReader struct {
	known engine.Config
	errs  []error
}

// joinErrors returns the errors with a hint.
func (s *flagReader) joinErrors() error {
	if err := errors.Join(s.errs...); err != nil {
		return hint.With(fmt.Errorf("engine settings: %w", err),
			"write them as for vllm serve, such as --engine-args '--max-num-seqs 256 --max-model-len 8k'")
	}
	return nil
}

func (s *flagReader) valueOf(flag string) string { return s.known[flag].Value }

func (s *flagReader) readInt(flag string, to *int) bool {
	text := s.valueOf(flag)
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

func (s *flagReader) readFloat(flag string, to *float64) {
	if text := s.valueOf(flag); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("--%s %s: not a number", flag, text))
			return
		}
		*to = v
	}
}

// readPositive reads a number, or a size of memory.
func (s *flagReader) readPositive(flag string, to *float64) {
	text := s.valueOf(flag)
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

func (s *flagReader) readBool(flag string, to *bool) {
	if text := s.valueOf(flag); text != "" {
		v, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("--%s %s: want true or false", flag, text))
			return
		}
		*to = v
	}
}

// ParseCount reads a whole number as vllm serve takes it: 8192, 8k for 8,000, 8K for 8,192, and m, M, g, G likewise
// (utils/argparse_utils.py, human_readable_int).
func ParseCount(text string) (int, error) {
	factor := 1.0
	if n := len(text); n > 0 {
		factors := map[byte]float64{'k': 1e3, 'K': 1 << 10, 'm': 1e6, 'M': 1 << 20, 'g': 1e9, 'G': 1 << 30}
		if f, ok := factors[text[n-1]]; ok {
			factor, text = f, text[:n-1]
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if v *= factor; err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<40 {
		return 0, errors.New("not a whole number")
	}
	return int(v), nil
}

const gib = 1 << 30

// ParseMemory reads "80GiB", "80GB" or "81559MiB".
func ParseMemory(s string) (float64, bool) {
	text := strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(s), " ", ""))
	for _, u := range []struct {
		suffix string
		factor float64
	}{{"GIB", gib}, {"MIB", 1 << 20}, {"GB", 1e9}, {"MB", 1e6}} {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			v, err := strconv.ParseFloat(n, 64)
			if err != nil || !(v > 0) || math.IsInf(v*u.factor, 0) || v*u.factor > 1<<50 {
				return 0, false
			}
			return v * u.factor, true
		}
	}
	return 0, false
}
