package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/command"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/tunereport"
	"github.com/sixty-dev/sixty/internal/slo"
)

// tuneFlags are the flags of tune as they were given.
type tuneFlags struct {
	modelConfig, gpu, version string
	tp, pp, dp, maxGPUs       int
	expertParallel, cpu       bool

	engineArgs, engineLog string
	urls                  []string
	source                observedFlags

	useCase, slo    string
	ttft, itl, e2e  time.Duration
	throughput      float64
	rate            string
	cv              float64
	prompt, outputs string
	systemTokens    int
	prefixShare     float64
	requests        int
	seed            uint64
	output, served  string
	width           int
}

const tuneLong = `Says what a model's memory holds on a GPU, line by line, and finds the vLLM
configuration that meets targets of latency and throughput: tensor parallelism,
replicas, max-num-seqs, max-num-batched-tokens, memory utilization, KV cache type,
prefix caching, chunked prefill.

The memory follows vLLM's own arithmetic from the model's config.json. It is checked
against a start-up log (--engine-log) or against servers that are seen at their URLs
or in a recording, and the line that is off is named. The configuration is found by
simulating vLLM's scheduler under the workload: one that is described (--rate,
--prompt-tokens, --output-tokens), or the one measured on those servers. Step times
come from their metrics, or are estimated from the GPU's data sheet.`

const tuneExample = `  sixty tune --model-config config.json --gpu H100
  sixty tune --model-config Llama-3.1-8B/ --gpu L40S --use-case chat --rate 5 --prompt-tokens 900 --output-tokens 250
  sixty tune --model-config config.json --gpu H200 --tp 8 --engine-log vllm.log
  sixty tune --model-config config.json --gpu A100 --ttft-p95 1s --itl-p95 60ms monday.tar.zst
  sixty tune http://vllm-0:8000 --model-config config.json --gpu H100 --use-case rag --output html > tune.html`

func newTuneCommand() *cobra.Command {
	f := &tuneFlags{}
	cmd := &cobra.Command{
		Use:     "tune --model-config FILE --gpu NAME [URL… | RECORDING]",
		Short:   "The memory a model needs, and the configuration that meets your targets",
		Long:    tuneLong,
		Example: tuneExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTune(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), append(args, f.urls...), f)
		},
	}
	f.register(cmd)
	return cmd
}

// simulatedRequests of each configuration: enough for a P95, and few enough that a
// search of fifty ends in seconds.
const simulatedRequests = 1500

func (f *tuneFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.modelConfig, "model-config", "", "the model's config.json, or the `directory` that has it")
	s.StringVar(&f.gpu, "gpu", "", "`name` of the GPU, such as H100, or the memory of one, such as 80GiB")
	s.StringVar(&f.version, "vllm-version", "", "release of vLLM, such as 0.23 (default: the server's, or 0.23)")
	s.IntVar(&f.tp, "tp", 0, "tensor parallelism (default: found)")
	s.IntVar(&f.pp, "pp", 0, "pipeline parallelism (default 1)")
	s.IntVar(&f.dp, "dp", 0, "data parallelism within a replica (default 1)")
	s.BoolVar(&f.expertParallel, "enable-expert-parallel", false, "spread experts by number, not by width")
	s.BoolVar(&f.cpu, "cpu", false, "the server runs on a CPU; give its KV cache with --engine-args '--kv-cache-memory-bytes N'")
	s.IntVar(&f.maxGPUs, "max-gpus", 64, "GPUs of the whole deployment, at most")
	s.StringVar(&f.engineArgs, "engine-args", "", "`arguments` of vllm serve that are fixed, such as '--max-model-len 8192'")
	s.StringVar(&f.engineLog, "engine-log", "", "`file` with a server's start-up log, to check the memory against")
	s.StringArrayVar(&f.urls, "url", nil, "a running server, to measure and to check against; may be repeated, or given without the flag")
	f.source.register(s)
	s.StringVar(&f.useCase, "use-case", "", "targets of a use case: chat, code-completion, batch, rag, agentic")
	s.StringVar(&f.slo, "slo", "", "`file` with objectives")
	s.DurationVar(&f.ttft, "ttft-p95", 0, "target of the 95th percentile of the time to the first token")
	s.DurationVar(&f.itl, "itl-p95", 0, "target of the 95th percentile of the time between tokens")
	s.DurationVar(&f.e2e, "e2e-p95", 0, "target of the 95th percentile of a whole answer")
	s.Float64Var(&f.throughput, "throughput", 0, "target of output tokens per second, of the whole deployment")
	s.StringVar(&f.rate, "rate", "", "requests per second to the whole deployment (default: measured)")
	s.Float64Var(&f.cv, "burstiness", 1, "coefficient of variation of the times between requests; 1 is Poisson")
	s.StringVar(&f.prompt, "prompt-tokens", "", "prompt length: 512, uniform:100-900, normal:512,128 or lognormal:800,1.2 (default: measured)")
	s.StringVar(&f.outputs, "output-tokens", "", "answer length, written like --prompt-tokens (default: measured)")
	s.IntVar(&f.systemTokens, "system-tokens", 0, "tokens of a system prompt that all prompts begin with")
	s.Float64Var(&f.prefixShare, "prefix-share", 0, "share of each prompt that all have in common, 0 to 1")
	s.IntVar(&f.requests, "requests", simulatedRequests, "requests to simulate of each configuration")
	s.Uint64Var(&f.seed, "seed", 1, "of everything random; the same seed gives the same answer")
	s.StringVarP(&f.output, "output", "o", "text", "form of the answer")
	command.SetValues(s, "output", "text", "json", "html")
	s.StringVar(&f.served, "served-model", "", "`name` or path to put after vllm serve (default: that of --model-config)")
	s.IntVar(&f.width, "width", 0, "columns of text (default: the terminal's, or 80)")
}

func (f *tuneFlags) check(urls []string) error {
	if err := f.source.check(urls); err != nil {
		return err
	}
	switch {
	case f.modelConfig == "":
		return hint.With(errors.New("no model is given"), "pass --model-config with the model's config.json or its directory")
	case f.tp < 0 || f.pp < 0 || f.dp < 0 || f.tp > 1024 || f.pp > 1024 || f.dp > 1024:
		return errors.New("--tp, --pp and --dp: want 1 to 1024")
	case f.maxGPUs < 1 || f.maxGPUs > 1<<14:
		return fmt.Errorf("--max-gpus %d: want 1 to %d", f.maxGPUs, 1<<14)
	case f.requests < 50 || f.requests > 100_000:
		return fmt.Errorf("--requests %d: want 50 to 100000", f.requests)
	case f.ttft < 0 || f.itl < 0 || f.e2e < 0 || !(f.throughput >= 0 && f.throughput < 1e12):
		return errors.New("a target is negative")
	case !(f.cv >= 0 && f.cv <= 100):
		return fmt.Errorf("--burstiness %v: want 0 to 100", f.cv)
	}
	return nil
}

// model reads config.json, from a directory too.
func (f *tuneFlags) model() (*modelconfig.Model, error) {
	path := f.modelConfig
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	content, err := fileio.Read(path, modelconfig.MaxBytes)
	if err != nil {
		return nil, hint.With(fmt.Errorf("--model-config: %w", err), "give the config.json that lies beside the model's weights, or their directory")
	}
	m, err := modelconfig.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("--model-config %s: %w", path, err)
	}
	return m, nil
}

// targets are those of the use case or the file, and over them one's own.
func (f *tuneFlags) targets(model string) (planning.Targets, error) {
	var t planning.Targets
	if f.slo != "" || f.useCase != "" {
		g := simulateFlags{slo: f.slo, useCase: f.useCase}
		o, err := g.objective(model)
		if err != nil {
			return t, err
		}
		if o != nil {
			t = ofObjective(*o)
		}
	}
	t.TTFTP95, t.ITLP95, t.E2EP95 = cmp.Or(f.ttft, t.TTFTP95), cmp.Or(f.itl, t.ITLP95), cmp.Or(f.e2e, t.E2EP95)
	t.TokensPerSecond = f.throughput
	return t, nil
}

func ofObjective(o slo.Objective) planning.Targets {
	return planning.Targets{TTFTP95: o.TTFTP95, ITLP95: o.ITLP95, E2EP95: o.E2EP95}
}

func runTune(ctx context.Context, stdout, stderr io.Writer, urls []string, f *tuneFlags) error {
	if err := f.check(urls); err != nil {
		return err
	}
	t, err := newTuning(ctx, stderr, f)
	if err != nil {
		return err
	}
	answer, err := t.answer(ctx)
	if err != nil {
		return err
	}
	switch f.output {
	case "json":
		err = render.JSON(stdout, answer)
	case "html":
		err = tunereport.HTML(stdout, answer)
	default:
		o := terminal(stdout, "auto")
		o.Width = cmp.Or(f.width, o.Width)
		err = tunereport.Text(stdout, answer, o)
	}
	if err != nil {
		return err
	}
	if answer.Status == "not_met" || answer.Status == "ledger" && answer.Ledger.MaxConcurrency.Value < 1 {
		return errFound
	}
	return nil
}
