// Package engine describes inference engines, and holds an engine's configuration: settings, each with its source,
// which is the user's command-line arguments, a start-up log, labels of vllm:cache_config_info, or an inference from
// measurements. It performs no I/O.
package engine

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/shlex"
)

// Flags of vllm serve that sixty reads or proposes, without the dashes (vllm/engine/arg_utils.py). NumBlocks and
// KVTokens are facts that the server computes at start, and Adapters is one that it observes; they are not flags.
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
	PipelineParallelSize = "pipeline-parallel-size"
	DataParallelSize     = "data-parallel-size"
	ExpertParallel       = "enable-expert-parallel"
	NumBlocks            = "num-gpu-blocks"       // KV blocks of one engine
	KVTokens             = "kv-cache-size-tokens" // KV capacity in tokens (0.24 and later)

	NumBlocksOverride    = "num-gpu-blocks-override"
	KVCacheMemoryBytes   = "kv-cache-memory-bytes"
	KVCacheMetrics       = "kv-cache-metrics"
	LongPrefillThreshold = "long-prefill-token-threshold"
	APIServerCount       = "api-server-count"
	EnforceEager         = "enforce-eager"
	DType                = "dtype"
	Quantization         = "quantization"
	SpeculativeConfig    = "speculative-config"
	KVTransferConfig     = "kv-transfer-config"
	EnableLoRA           = "enable-lora"
	MaxLoRAs             = "max-loras"
	MaxLoRARank          = "max-lora-rank"
	Adapters             = "adapters"          // LoRA adapters in requests of the last hour
	StarvingAdapters     = "starving-adapters" // adapters that waited within the last minute and did not run
	CPUOffloadGB         = "cpu-offload-gb"
	DecodeContextSize    = "decode-context-parallel-size"
	GraphSizes           = "cudagraph-capture-sizes"
	ModelName            = "model"
	LargestGraph         = "max-cudagraph-capture-size"
	Nodes                = "nnodes"
	OneKVCacheGroup      = "disable-hybrid-kv-cache-manager"
	TextOnly             = "language-model-only"
	SchedulingPolicy     = "scheduling-policy"
	AsyncScheduling      = "async-scheduling"
	ReserveFullPrompt    = "scheduler-reserve-full-isl"
	Watermark            = "watermark"
	MaxQueuedRequests    = "max-num-queued-reqs"
	MaxQueuedTokens      = "max-num-queued-tokens"
)

// A Setting is the value of a flag, with its source.
type Setting struct {
	Value  string `json:"value"`
	Source string `json:"source"` // "--engine-args", "engine log", "cache_config_info", "inferred from …"
}

// Config maps flags, without dashes, to their settings.
type Config map[string]Setting

// Set records a setting unless it is known already: callers go from the most to the least trustworthy source.
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

// Or returns the settings of both, c's first.
func (c Config) Or(other Config) Config {
	out := Config{}
	out.Merge(c)
	out.Merge(other)
	return out
}

// Number returns a numeric setting.
func (c Config) Number(flag string) (v float64, source string, ok bool) {
	s := c[flag]
	v, err := strconv.ParseFloat(s.Value, 64)
	return v, s.Source, err == nil
}

// Bool returns a setting that is on or off.
func (c Config) Bool(flag string) (on, ok bool) {
	on, err := strconv.ParseBool(strings.ToLower(c[flag].Value))
	return on, err == nil
}

// FromCacheConfigInfo reads vllm:cache_config_info, whose labels carry every field of vLLM's CacheConfig as text
// (vllm/v1/metrics/loggers.py, v0.23.0).
func FromCacheConfigInfo(of []Info) Config {
	const metric = "cache_config_info"
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
		for _, i := range of {
			c.Set(flag, i.Labels[label], metric)
		}
	}
	return c
}

// An Info is a series whose labels are its information.
type Info struct {
	Labels map[string]string
	Value  float64
}

// FromLoRARequestsInfo reads vllm:lora_requests_info, whose values are the Unix time at
// which the scheduler last had these adapters at work or waiting. Series of other sets of
// adapters stay on the page for good (vllm/v1/metrics/loggers.py, v0.23.0).
func FromLoRARequestsInfo(sets []Info) Config {
	const metric, recently, lately = "lora_requests_info", 3600, 60
	c, last, adapters := Config{}, 0.0, map[string]bool{}
	waits, runs := map[string]bool{}, map[string]bool{} // by adapter, true if lately
	for _, set := range sets {
		last = max(last, set.Value)
	}
	for _, set := range sets {
		c.Set(MaxLoRAs, set.Labels["max_lora"], metric)
		if set.Value < last-recently {
			continue
		}
		for label, at := range map[string]map[string]bool{"running_lora_adapters": runs, "waiting_lora_adapters": waits} {
			for name := range strings.SplitSeq(set.Labels[label], ",") {
				if name != "" {
					adapters[name] = true
					at[name] = at[name] || set.Value >= last-lately
				}
			}
		}
	}
	maps.DeleteFunc(waits, func(name string, now bool) bool { return !now || runs[name] })
	if len(waits) > 0 {
		c.Set(StarvingAdapters, strings.Join(slices.Sorted(maps.Keys(waits)), ", "), metric)
	}
	if len(adapters) > 0 {
		c.Set(Adapters, strconv.Itoa(len(adapters)), metric)
	}
	return c
}

// short maps the short flags of vllm serve to their names.
var short = map[string]string{"-tp": TensorParallelSize, "-pp": PipelineParallelSize, "-dp": DataParallelSize, "-ep": ExpertParallel}

// ParseArgs reads the arguments of a vllm serve command line, as the user
// typed or copied them, with a shell's quotes and continued lines: --flag value,
// --flag=value, --flag and --no-flag. Words that are no flags are skipped.
func ParseArgs(line, source string) Config {
	c, _ := Flags(nil).parseLine(line, source)
	return c
}

// entries are the words of a command line after which vLLM's own arguments begin. The words before belong to the
// shell, Python or a container.
var entries = []string{"vllm/vllm-openai", "vllm.entrypoints.openai.api_server", "serve"}

// Lists are the flags that take several words.
var Lists = map[string]bool{
	GraphSizes: true, "cuda-graph-sizes": true, "lora-modules": true, "served-model-name": true, "middleware": true, "api-key": true,
	"prompt-adapters": true, "logits-processors": true,
}

// unwrapShell extracts the command line from a shell's argument: sh -c "vllm serve …".
func unwrapShell(words []string) []string {
	for _, w := range words {
		if inner := strings.Fields(w); len(inner) > 2 &&
			slices.ContainsFunc(inner, func(x string) bool { return slices.Contains(entries, x) }) {
			if split, err := shlex.Split(w); err == nil {
				return split
			}
		}
	}
	return words
}

// endsCommand reports whether a word belongs to the shell and ends the command.
func endsCommand(word string) bool {
	return slices.Contains([]string{"|", "||", "&&", ";", "&", ">", ">>"}, word) ||
		strings.HasPrefix(word, ">") || strings.HasPrefix(word, "2>")
}

// ImageRelease returns the release of the container image in a command line, "" without one.
func ImageRelease(line string) Release {
	m := imageTag.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	return FindRelease(m[1])
}

var imageTag = regexp.MustCompile(`vllm-openai:v?(\d+\.\d+[\w.]*)`)

// parseLine parses arguments, and also returns words that look like flags but are unknown.
func (f Flags) parseLine(line, source string) (c Config, stray []string) {
	words, whole := splitLine(line)
	p := lineParser{
		flags: f, spelt: f.flagSpellings(), origin: source, args: words, isCommand: whole,
		config: Config{}, nested: map[string]map[string]any{},
	}
	for p.next = 0; p.next < len(words) && !endsCommand(words[p.next]); {
		p.readArgument()
	}
	for flag, object := range p.nested {
		if text, err := json.Marshal(object); err == nil {
			p.setFlag(flag, string(text))
		}
	}
	return p.config, p.unknown
}

// splitLine splits a line into words. If it is a whole command line, it returns the words after the program, the first
// of which may be the model. It reports whether the line is such a command line.
func splitLine(line string) ([]string, bool) {
	line = quoteObjects(strings.NewReplacer("\\\r\n", " ", "\\\n", " ").Replace(line))
	words, err := shlex.Split(line)
	if err != nil { // a quote without its end
		words = strings.Fields(line)
	}
	words, whole := unwrapShell(words), false
	for _, e := range entries {
		isEntry := func(w string) bool { return w == e || strings.HasPrefix(w, e+":") }
		if i := slices.IndexFunc(words, isEntry); i >= 0 {
			words, whole = words[i+1:], true
		}
	}
	return words, whole
}

// A lineParser reads the words of a command line.
type lineParser struct {
	flags     Flags
	spelt     map[string]string // flags by their other spellings
	origin    string
	args      []string
	isCommand bool
	next      int // index of the next word
	config    Config
	nested    map[string]map[string]any // objects of dotted arguments, by flag
	unknown   []string
}

// setFlag keeps the last value of a repeated flag, as argparse does.
func (p *lineParser) setFlag(flag, value string) {
	delete(p.config, flag)
	p.config.Set(flag, value, p.origin)
}

// readArgument reads a flag with its values, or a word without one.
func (p *lineParser) readArgument() {
	word := p.args[p.next]
	p.next++
	name, value, hasValue := strings.Cut(word, "=")
	if level, ok := strings.CutPrefix(name, "-O"); ok && level != "" && !strings.HasPrefix(level, ".") {
		name, value, hasValue = "-O", strings.TrimPrefix(word, "-O"), true // -O3
	}
	name, key, isNested := strings.Cut(name, ".") // --speculative-config.method ngram
	flag, ok := p.findFlag(name)
	if !ok {
		p.readWord(word, name)
		return
	}
	if !hasValue {
		value, hasValue = p.readValues(flag)
	}
	if !hasValue {
		value = "true"
		if off, isOff := strings.CutPrefix(flag, "no-"); isOff {
			flag, value = off, "false"
		}
	}
	if !isNested {
		p.setFlag(flag, value)
		return
	}
	if p.nested[flag] == nil {
		p.nested[flag] = map[string]any{}
	}
	putValue(p.nested[flag], strings.Split(strings.ReplaceAll(key, "-", "_"), "."), value)
}

// findFlag returns the canonical flag of a name; ok is false for a word that is no flag.
func (p *lineParser) findFlag(name string) (found string, ok bool) {
	found, ok = strings.CutPrefix(name, "--")
	if !ok {
		found, ok = p.spelt[name]
		return found, ok
	}
	found = strings.ReplaceAll(found, "_", "-")
	return cmp.Or(p.spelt["--"+found], found), true
}

// readWord reads a word that is no flag: the model, or a stray one.
func (p *lineParser) readWord(word, name string) {
	_, named := p.config[ModelName]
	switch {
	case p.flags.looksLikeFlag(name, len(p.config) > 0):
		p.unknown = append(p.unknown, name)
	case p.flags == nil || word == "":
	case named || p.next > 1 && !p.isCommand:
		p.unknown = append(p.unknown, word)
	default:
		p.config.Set(ModelName, word, p.origin)
	}
}

// readValues reads the words that are a flag's value: one, or several if the flag takes a list.
func (p *lineParser) readValues(flag string) (joined string, ok bool) {
	if !p.atValue() || p.flags[flag].Switch && !onOrOff(p.args[p.next]) {
		return "", false
	}
	joined = p.args[p.next]
	for p.next++; Lists[flag] && p.atValue(); p.next++ {
		joined += " " + p.args[p.next]
	}
	return joined, true
}

// atValue reports whether the next word can be a value.
func (p *lineParser) atValue() bool {
	if p.next >= len(p.args) {
		return false
	}
	word := p.args[p.next]
	return !strings.HasPrefix(word, "--") && p.spelt[word] == "" && !endsCommand(word)
}

// quoteObjects encloses unquoted JSON objects in quotes. A command line that went through a shell already has such
// objects: the quotes within them belong to JSON.
func quoteObjects(line string) string {
	var out strings.Builder
	var quote byte // the open quote outside of objects, 0 if none is
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '{':
			if end := objectEnd(line[i:]); end > 0 && !strings.Contains(line[i:i+end], "'") {
				out.WriteString("'" + line[i:i+end] + "'")
				i += end - 1
				continue
			}
		}
		out.WriteByte(line[i])
	}
	return out.String()
}

// objectEnd returns the length of the JSON object that a text begins with, 0 if it does not end.
func objectEnd(text string) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// flagSpellings returns the flags by their other spellings on a command line, dashes included.
func (f Flags) flagSpellings() map[string]string {
	if f == nil {
		return short
	}
	out := map[string]string{}
	for name, flag := range f {
		for _, also := range flag.Also {
			if !strings.HasPrefix(also, "-") {
				also = "--" + also
			}
			out[also] = name
		}
	}
	return out
}

// looksLikeFlag reports whether an unknown word is probably meant as a flag: -max-num-seqs, or max-num-seqs among other
// flags.
func (f Flags) looksLikeFlag(word string, among bool) bool {
	name, dashed := strings.CutPrefix(word, "-")
	_, known := f[strings.ReplaceAll(name, "_", "-")]
	letter := name != "" && (name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z')
	return f != nil && (known && (dashed || among) || dashed && letter)
}

func onOrOff(word string) bool {
	_, err := strconv.ParseBool(strings.ToLower(word))
	return err == nil
}

// putValue sets a value in nested objects. Numbers and truth values are parsed.
func putValue(object map[string]any, keys []string, value string) {
	for _, k := range keys[:len(keys)-1] {
		inner, ok := object[k].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[k] = inner
		}
		object = inner
	}
	var v any
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		v = value
	}
	object[keys[len(keys)-1]] = v
}
