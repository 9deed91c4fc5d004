package perfmodel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
)

// Settings are the arguments of vllm serve that affect memory, and a few facts about its machine. A zero value takes
// vLLM's default, which the ledger reports.
type Settings struct {
	Release engine.Release
	Device  GPU
	Memory  Estimate // bytes of one device; zero: as usual for the device

	TP, PP, DP     int // tensor, pipeline, data parallelism; 0 is 1
	ExpertParallel bool

	Utilization         float64 // gpu_memory_utilization
	MaxModelLen         int
	LongestThatFits     bool // lowers MaxModelLen to fit the KV cache, as --max-model-len auto does
	MaxNumSeqs          int
	MaxNumBatchedTokens int
	BlockSize           int
	KVType              string // kv_cache_dtype; "" is auto
	PrefixCaching       *bool  // nil is the default
	EnforceEager        bool
	AsyncScheduling     *bool   // nil is the release's default
	KVBytes             float64 // kv_cache_memory_bytes; 0: the rest of the memory
	NumBlocksOverride   int
	WholePrefills       bool // chunked prefill is off

	Loading      modelconfig.Loading
	Offload      float64 // cpu_offload_gb in bytes: weights of one GPU that stay with the host
	DCP          int     // decode_context_parallel_size; 0 is 1
	Nodes        int     // that one replica spans; 0: as few as hold it
	OneKVGroup   bool    // disable_hybrid_kv_cache_manager
	LargestGraph int     // the largest batch with a CUDA graph; 0 is the default
	LoRA         LoRA
	Speculation  Speculation

	// Set by resolveDefaults:
	assumed              []string
	kvBytesPerValue      float64
	prefixCaching        bool
	capturedGraphs       int
	dataParallelFlattens bool // experts are spread over TP × DP
}

// With fills unset settings from a configuration.
func (s Settings) With(c engine.Config) (Settings, error) {
	r := flagReader{known: c}
	for _, x := range []struct {
		flag string
		to   *int
	}{
		{engine.TensorParallelSize, &s.TP},
		{engine.PipelineParallelSize, &s.PP},
		{engine.DataParallelSize, &s.DP},
		{engine.MaxModelLen, &s.MaxModelLen},
		{engine.MaxNumSeqs, &s.MaxNumSeqs},
		{engine.MaxNumBatchedTokens, &s.MaxNumBatchedTokens},
		{engine.BlockSize, &s.BlockSize},
		{engine.NumBlocksOverride, &s.NumBlocksOverride},
		{engine.DecodeContextSize, &s.DCP},
		{engine.Nodes, &s.Nodes},
		{engine.LargestGraph, &s.LargestGraph},
	} {
		if *x.to == 0 && r.readInt(x.flag, x.to) && (*x.to < 1 || *x.to > 1<<31) {
			r.errs = append(r.errs, fmt.Errorf("--%s %s: out of range", x.flag, r.valueOf(x.flag)))
		}
	}
	r.readPositive(engine.GPUMemoryUtilization, &s.Utilization)
	r.readPositive(engine.KVCacheMemoryBytes, &s.KVBytes)
	if v := r.valueOf(engine.KVCacheDtype); v != "" {
		s.KVType = v
	}
	if on, ok := c.Bool(engine.PrefixCaching); ok {
		s.PrefixCaching = &on
	}
	if on, ok := c.Bool(engine.EnforceEager); ok {
		s.EnforceEager = on
	}
	if on, ok := c.Bool(engine.AsyncScheduling); ok {
		s.AsyncScheduling = &on
	}
	if on, ok := c.Bool(engine.ExpertParallel); ok {
		s.ExpertParallel = s.ExpertParallel || on
	}
	if on, ok := c.Bool(engine.ChunkedPrefill); ok {
		s.WholePrefills = !on
	}
	s.OneKVGroup, _ = c.Bool(engine.OneKVCacheGroup)
	r.readLoading(&s)
	r.readExtras(&s)
	return s, r.joinErrors()
}

func (s *Settings) deviceName() string {
	if s.Device.Name == "" {
		return "the GPU"
	}
	return s.Device.Name
}

func (s *Settings) noteAssumption(format string, args ...any) {
	s.assumed = append(s.assumed, fmt.Sprintf(format, args...))
}

// resolveDefaults fills in vLLM's defaults and refuses settings that vLLM would refuse.
func (s *Settings) resolveDefaults(m *modelconfig.Model) error {
	s.capturedGraphs = 0
	s.TP, s.PP, s.DP = max(s.TP, 1), max(s.PP, 1), max(s.DP, 1)
	if s.Release == "" {
		s.Release = vllm.DefaultRelease
		s.noteAssumption("the rules of vLLM %s", s.Release.Minor())
	}
	if !s.Release.AtLeast(vllm.V1ByDefault) {
		return hint.With(fmt.Errorf("vLLM release %q: its V0 engine is not modelled", s.Release),
			"the ledger knows 0.8 and later")
	}
	if m.Heads > 0 && m.Heads%s.TP != 0 {
		return hint.With(fmt.Errorf(
			"tensor parallelism %d does not divide the model's %d attention heads", s.TP, m.Heads),
			"take a divisor of "+strconv.Itoa(m.Heads)+", or --pipeline-parallel-size for the rest")
	}
	if s.PP > len(m.Layers) {
		return fmt.Errorf("pipeline parallelism %d is more than the model's %d layers", s.PP, len(m.Layers))
	}
	s.dataParallelFlattens = m.Experts > 0 && s.DP > 1
	if err := s.checkDivision(m); err != nil {
		return err
	}
	if s.Memory == (Estimate{}) && s.Device.Name != "" {
		s.Memory = s.Device.visibleMemory()
	}
	if s.Memory.Value <= 0 && s.KVBytes <= 0 && s.NumBlocksOverride <= 0 {
		return hint.With(fmt.Errorf("the GPU's memory is not known"),
			"pass --gpu with a name such as H100, or with a size such as 80GiB")
	}
	if s.Utilization == 0 {
		s.Utilization = vllm.Utilization(s.Release)
		s.noteAssumption("gpu-memory-utilization %g, vLLM %s's default", s.Utilization, s.Release.Minor())
	}
	if !(s.Utilization > 0 && s.Utilization <= 1) {
		return fmt.Errorf("gpu-memory-utilization %g: want more than 0 and at most 1", s.Utilization)
	}
	if s.MaxModelLen == 0 {
		s.MaxModelLen = m.MaxPositions
		s.noteAssumption("max-model-len %d, the model's", s.MaxModelLen)
	}
	if s.MaxModelLen > max(m.MaxPositions, m.RopeRows) {
		s.noteAssumption("that VLLM_ALLOW_LONG_MAX_MODEL_LEN is set: max-model-len %d is more than the model's %d "+
			"positions", s.MaxModelLen, m.MaxPositions)
	}
	if err := s.resolveKVType(m); err != nil {
		return err
	}
	s.resolvePrefixCaching(m)
	s.resolveLimits()
	if err := s.checkBatches(); err != nil {
		return err
	}
	s.countGraphs()
	return nil
}

func (s *Settings) resolveKVType(m *modelconfig.Model) error {
	if s.KVType == "" {
		s.KVType = "auto"
	}
	t := modelconfig.DType(s.KVType)
	if s.KVType == "auto" {
		t = m.DType
		if m.KVType != "" {
			t = m.KVType
			s.noteAssumption("kv-cache-dtype %s, from the checkpoint", t)
		}
	}
	switch {
	case strings.HasPrefix(string(t), "fp8"):
		s.kvBytesPerValue = 1
	case t == "nvfp4":
		s.kvBytesPerValue = 0.5 + 1.0/16
	default:
		if s.kvBytesPerValue = t.Bytes(); s.kvBytesPerValue == 0 {
			return hint.With(fmt.Errorf("kv-cache-dtype %q is not known", s.KVType),
				"one of auto, bfloat16, float16, fp8, fp8_e4m3, fp8_e5m2, fp8_ds_mla, nvfp4")
		}
	}
	return nil
}

// resolvePrefixCaching resolves prefix caching, which is off by default for a model that has layers with a state
// (config/model.py, is_prefix_caching_supported).
func (s *Settings) resolvePrefixCaching(m *modelconfig.Model) {
	if s.PrefixCaching != nil {
		s.prefixCaching = *s.PrefixCaching
		return
	}
	s.prefixCaching = !m.HasRecurrent()
	if !s.prefixCaching {
		s.noteAssumption("prefix caching off, vLLM's default for models with recurrent layers")
	}
}

// resolveLimits resolves the batch limits.
func (s *Settings) resolveLimits() {
	m := machine{Release: s.Release, Device: s.Device.Name, Memory: s.Memory.Value}
	var assumed []string
	s.MaxNumSeqs, s.MaxNumBatchedTokens, assumed = m.defaultLimits(
		s.MaxNumSeqs, s.MaxNumBatchedTokens, s.MaxModelLen, !s.WholePrefills, s.deviceName())
	s.assumed = append(s.assumed, assumed...)
}

// countGraphs counts the CUDA graphs of the default mode, FULL_AND_PIECEWISE. Their sizes are 1, 2, 4, every 8 to 256,
// every 16 to the largest, which is twice max_num_seqs and at most 512 (config/vllm.py, _set_cudagraph_sizes).
func (s *Settings) countGraphs() {
	largest := min(2*s.MaxNumSeqs, 512)
	if s.LargestGraph > 0 {
		largest = s.LargestGraph
	}
	for n := 1; n <= largest; {
		s.capturedGraphs++
		if n <= s.MaxNumSeqs {
			s.capturedGraphs++ // a full one for decoding
		}
		switch {
		case n < 4:
			n *= 2
		case n < 8:
			n = 8
		case n < 256:
			n += 8
		default:
			n += 16
		}
	}
}
