package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report/tunereport"
)

// tuneFlags are the flags of tune as they were given.
type tuneFlags struct {
	planFlags
	planning.Tuning // what needs no reading; question adds the rest

	tp, pp, dp     int
	expertParallel bool
	urls           []string
	ttft, itl, e2e time.Duration
	served         string
	loadTest       string
	loadTestArgs   string
	width          int

	quantizations []string
	priced        []string
	prices        string
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
come from their metrics, or are estimated from the GPU's data sheet.

The answer comes first; --full shows what it rests on: the memory line by line, what
one step of each knob costs, and what else was tried.`

const tuneExample = `  sixty tune --model-config config.json --gpu H100
  sixty tune --model-config Llama-3.1-8B/ --gpu L40S --use-case chat --rate 5 --prompt-tokens 900 --output-tokens 250
  sixty tune --model-config Qwen/Qwen3-8B --gpu H100,L40S,L4 --compare-quantization none,fp8 --use-case chat --rate 5 --prompt-tokens 900 --output-tokens 250
  sixty tune --model-config config.json --gpu H200 --tp 8 --engine-log vllm.log
  sixty tune --model-config config.json --gpu A100 --ttft-p95 1s --itl-p95 60ms monday.tar.zst
  sixty tune http://vllm-0:8000 --model-config config.json --gpu H100 --use-case rag --output html > tune.html`

// simulatedRequests of each configuration: enough for a P95, and few enough that a
// search of fifty ends in seconds.
const simulatedRequests = 1500

func newTuneCommand() *cobra.Command {
	f := &tuneFlags{}
	cmd := &cobra.Command{
		Use:     "tune --model-config FILE --gpu NAME [URL… | RECORDING]",
		Short:   "The memory a model needs, and the configuration that meets your targets",
		Long:    tuneLong,
		Example: tuneExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			givenWorkload(cmd.Flags(), &f.Load)
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), append(args, f.urls...))
		},
	}
	s := cmd.Flags()
	f.planFlags.register(s, "text", "json", "html")
	registerWorkload(s, &f.Load, scaledRates|noUsualLengths)
	f.Load.Requests = simulatedRequests
	s.Lookup("requests").DefValue = strconv.Itoa(simulatedRequests)
	s.IntVar(&f.tp, "tp", 0, "tensor parallelism (default: found)")
	s.IntVar(&f.pp, "pp", 0, "pipeline parallelism (default 1)")
	s.IntVar(&f.dp, "dp", 0, "data parallelism within a replica (default 1)")
	s.BoolVar(&f.expertParallel, engine.ExpertParallel, false, "spread experts by number, not by width")
	s.BoolVar(&f.CPU, "cpu", false, "the server runs on a CPU; give its KV cache with --engine-args '--kv-cache-memory-bytes N'")
	s.IntVar(&f.MaxGPUs, "max-gpus", 64, "GPUs of the whole deployment, at most")
	s.StringVar(&f.log, "engine-log", "", "`file` with a server's start-up log, to check the memory against")
	s.StringVar(&f.loadTest, "load-test", "", "fit step times to a load test's `file` of one replica: sixty bench --csv, or vllm bench serve --save-detailed")
	s.StringVar(&f.loadTestArgs, "load-test-args", "", "what vllm serve was `given` in that test, where it is not what is looked for")
	s.StringArrayVar(&f.urls, "url", nil, "a running server, to measure and to check against; may be repeated, or given without the flag")
	s.DurationVar(&f.ttft, "ttft-p95", 0, "target of the 95th percentile of the time to the first token")
	s.DurationVar(&f.itl, "itl-p95", 0, "target of the 95th percentile of the time between tokens")
	s.DurationVar(&f.e2e, "e2e-p95", 0, "target of the 95th percentile of a whole answer")
	s.Float64Var(&f.Targets.TokensPerSecond, "throughput", 0, "target of output tokens per second, of the whole deployment")
	s.StringVar(&f.served, "served-model", "", "`name` or path to put after vllm serve (default: that of --model-config)")
	s.StringSliceVar(&f.quantizations, "compare-quantization", nil, "compare forms that vLLM makes of the weights while it loads them: `none,fp8`, or bitsandbytes and others; also --gpu H100,L40S compares")
	s.StringArrayVar(&f.priced, "price", nil, "price of an hour of one GPU, such as `H100=2.49`; may be repeated (default: list prices of November 2026, in dollars)")
	s.StringVar(&f.prices, "prices", "", "`file` with such prices, a line for each GPU: H100,2.49")
	s.IntVar(&f.width, "width", 0, "columns of text (default: the terminal's, or 80)")
	return cmd
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
	case f.MaxGPUs < 1 || f.MaxGPUs > 1<<14:
		return fmt.Errorf("--max-gpus %d: want 1 to %d", f.MaxGPUs, 1<<14)
	case f.Load.Requests < 50 || f.Load.Requests > 100_000:
		return fmt.Errorf("--requests %d: want 50 to 100000", f.Load.Requests)
	case f.ttft < 0 || f.itl < 0 || f.e2e < 0 || !(f.Targets.TokensPerSecond >= 0 && f.Targets.TokensPerSecond < 1e12):
		return errors.New("a target is negative")
	}
	return f.Load.Check()
}

// question reads what the flags name.
func (f *tuneFlags) question(ctx context.Context, stderr io.Writer) (err error) {
	fixed := engine.Config{}
	for flag, n := range map[string]int{engine.TensorParallelSize: f.tp, engine.PipelineParallelSize: f.pp, engine.DataParallelSize: f.dp} {
		if n > 0 {
			fixed.Set(flag, strconv.Itoa(n), "the flag")
		}
	}
	if f.expertParallel {
		fixed.Set(engine.ExpertParallel, "true", "the flag")
	}
	cpu := f.CPU
	if f.Prices, err = f.readPrices(); err != nil {
		return err
	}
	if f.Known, err = f.known(ctx, stderr, fixed); err != nil {
		return err
	}
	f.CPU, f.Check = cpu, ctx.Err
	model := f.Model.Architecture
	if f.Seen != nil {
		model = f.Seen.Model
	}
	o, err := f.objective(model)
	if err != nil {
		return err
	}
	t := &f.Targets
	if o != nil {
		t.TTFTP95, t.ITLP95, t.E2EP95 = o.TTFTP95, o.ITLP95, o.E2EP95
	}
	t.TTFTP95, t.ITLP95, t.E2EP95 = cmp.Or(f.ttft, t.TTFTP95), cmp.Or(f.itl, t.ITLP95), cmp.Or(f.e2e, t.E2EP95)
	return nil
}

func (f *tuneFlags) run(ctx context.Context, stdout, stderr io.Writer, urls []string) error {
	if err := f.check(urls); err != nil {
		return err
	}
	if err := f.question(ctx, stderr); err != nil {
		return err
	}
	if f.loadTest != "" {
		file, err := os.Open(f.loadTest)
		if err != nil {
			return fmt.Errorf("open --load-test: %w", err)
		}
		defer file.Close()
		f.LoadTest, f.LoadTestFrom = file, f.loadTest
		f.LoadTestArgs = engine.ParseArgs(f.loadTestArgs, "--load-test-args")
	}
	answer, err := f.answer(stderr)
	if err != nil {
		return err
	}
	err = f.out.write(stdout, func(w io.Writer, o render.Options) error {
		switch f.out.form() {
		case "json":
			return render.JSON(w, answer)
		case "html":
			return tunereport.HTML(w, answer)
		}
		o.Width = cmp.Or(f.width, o.Width)
		return tunereport.Text(w, answer, f.out.full, o)
	})
	if err == nil && !answer.Met() {
		err = errFound
	}
	return err
}

// answer is that of the one GPU, or of the best of several alternatives.
func (f *tuneFlags) answer(stderr io.Writer) (*tunereport.Answer, error) {
	choices, err := f.choices()
	if err != nil {
		return nil, err
	}
	if len(choices) < 2 {
		tuned, err := f.Answer()
		if err != nil {
			return nil, err
		}
		return tunereport.New(tuned, f.servedName()), nil
	}
	if f.source.given() || f.loadTest != "" {
		return nil, hint.With(errors.New("steps that were measured are of one kind of GPU and one form of the weights"), "compare by data sheets, without servers and --load-test, or name one --gpu")
	}
	line := newProgress(stderr)
	defer line.clear()
	line.show("comparing %d alternatives", len(choices))
	all, best, err := f.Compare(choices)
	if err != nil {
		return nil, err
	}
	answer := tunereport.New(all[best].Tuned, f.servedName())
	answer.AddComparison(all, best, f.servedName())
	return answer, nil
}

// choices are the alternatives that --gpu and --compare-quantization name, together.
func (f *tuneFlags) choices() ([]planning.Choice, error) {
	forms := f.quantizations
	if len(forms) == 0 {
		forms = []string{""}
	}
	var out []planning.Choice
	for _, name := range f.gpus() {
		device, memory, err := perfmodel.ParseGPU(name)
		if err != nil {
			return nil, fmt.Errorf("--gpu: %w", err)
		}
		for _, q := range forms {
			if q == "none" {
				q = ""
			}
			out = append(out, planning.Choice{Device: device, Memory: memory, Quantization: q})
		}
	}
	return out, nil
}

func (f *tuneFlags) readPrices() (planning.Prices, error) {
	prices := planning.ListPrices()
	if f.prices != "" {
		content, err := fileio.Read(f.prices, 1<<20)
		if err == nil {
			err = prices.Read(bytes.NewReader(content), f.prices)
		}
		if err != nil {
			return nil, fmt.Errorf("--prices: %w", err)
		}
	}
	for _, p := range f.priced {
		if err := prices.Set(p, "--price"); err != nil {
			return nil, fmt.Errorf("--price: %w", err)
		}
	}
	return prices, nil
}

// servedName is what follows vllm serve.
func (f *tuneFlags) servedName() string {
	switch {
	case f.served != "":
		return f.served
	case f.Seen != nil && f.Seen.Model != "":
		return f.Seen.Model
	case filepath.Base(f.modelConfig) == "config.json":
		return filepath.Dir(f.modelConfig)
	}
	return f.modelConfig
}
