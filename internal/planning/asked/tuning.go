package asked

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// simulatedRequests is the number of requests for each configuration: enough for a P95, and few enough that a search
// of fifty configurations ends in seconds.
const simulatedRequests = 1500

// A Tuning holds the flags of tune.
type Tuning struct {
	Deployment
	planning.Tuning // AddFlags binds its plain fields; Read sets the others

	tp                    int
	quantizations, priced []string
}

// AddFlags adds the flags of sixty tune, without the output format.
func (f *Tuning) AddFlags(s *pflag.FlagSet) {
	f.Deployment.AddFlags(s)
	f.Load.AddFlags(s, workload.ScaledRates|workload.NoUsualLengths)
	f.Load.Requests = simulatedRequests
	s.Lookup("requests").DefValue = strconv.Itoa(simulatedRequests)
	s.IntVar(&f.tp, "tp", 0, "tensor parallelism (default: found)")
	s.IntVar(&f.MaxGPUs, "max-gpus", 64, "GPUs of the whole deployment, at most")
	s.DurationVar(&f.Targets.TTFTP95, "ttft-p95", 0, "target of the 95th percentile of the time to the first token")
	s.DurationVar(&f.Targets.ITLP95, "itl-p95", 0, "target of the 95th percentile of the time between tokens")
	s.DurationVar(&f.Targets.E2EP95, "e2e-p95", 0, "target of the 95th percentile of a whole answer")
	s.Float64Var(&f.Targets.TokensPerSecond, "throughput", 0,
		"target of output tokens per second, of the whole deployment")
	s.StringSliceVar(&f.quantizations, "compare-quantization", nil, "compare weight formats that vLLM converts to "+
		"at load time: `none,fp8`, or bitsandbytes and others; --gpu H100,L40S also compares")
	s.StringArrayVar(&f.priced, "price", nil, "price per hour of one GPU, such as `H100=2.49`; may be repeated "+
		"(default: list prices of November 2026, in dollars)")
}

// listMissing lists what an answer needs and nothing gives. promised reports whether objectives were named.
func (f *Tuning) listMissing(promised bool) (out []string) {
	aims := promised || !f.Targets.Empty()
	measured := f.Source.SourceCount() > 0 || f.loadTest != ""
	for _, x := range []struct {
		lacks bool
		what  string
	}{
		{f.modelConfig == "", "the model (an argument, such as Qwen/Qwen3-32B)"},
		{len(f.gpus) == 0 && !measured, "the GPU (--gpu)"},
		{aims && !measured && f.Load.Prompt == "", "the length of prompts (--prompt-tokens)"},
		{aims && !measured && f.Load.Output == "", "the length of answers (--output-tokens)"},
		{aims && !measured && f.Load.Rate == "" && f.Targets.TokensPerSecond == 0, "the load (--rate or --throughput)"},
		{!aims && f.Load.Rate != "", "a target (--use-case, --ttft-p95, --itl-p95, --e2e-p95 or --throughput)"},
	} {
		if x.lacks {
			out = append(out, x.what)
		}
	}
	return out
}

func (f *Tuning) checkFlags(promised bool) error {
	if lacks := f.listMissing(promised); len(lacks) > 1 {
		return hint.With(fmt.Errorf("%d inputs are missing: %s", len(lacks), strings.Join(lacks, ", ")),
			"sixty tune Qwen/Qwen3-32B --gpu H100 --use-case chat --rate 5 --prompt-tokens 900 --output-tokens 250")
	}
	switch t := &f.Targets; {
	case f.modelConfig == "" && len(f.Source.URLs) == 1 && hubName.MatchString(f.Source.URLs[0]):
		return hint.With(fmt.Errorf("no model is given: %s is treated as a server's address", f.Source.URLs[0]),
			"--model-config "+f.Source.URLs[0])
	case f.modelConfig == "":
		return hint.With(errors.New("no model is given"),
			"name it as an argument, as in sixty tune Qwen/Qwen3-32B, or pass --model-config with its config.json")
	case f.tp < 0 || f.tp > 1024:
		return fmt.Errorf("--tp %d: want 1 to 1024", f.tp)
	case f.MaxGPUs < 1 || f.MaxGPUs > 1<<14:
		return fmt.Errorf("--max-gpus %d: want 1 to %d", f.MaxGPUs, 1<<14)
	case f.Load.Requests < 50 || f.Load.Requests > 100_000:
		return fmt.Errorf("--requests %d: want 50 to 100000", f.Load.Requests)
	case min(t.TTFTP95, t.ITLP95, t.E2EP95) < 0 || !(t.TokensPerSecond >= 0 && t.TokensPerSecond < 1e12):
		return errors.New("a target is negative")
	}
	return f.Load.Check()
}

// Read validates the flags and arguments and reads the files that they name. changed reports whether a flag was
// given.
func (f *Tuning) Read(ctx context.Context, args []string, changed func(flag string) bool, say Say) (err error) {
	f.Load.Given(changed)
	if err := f.resolveArgs(args); err != nil {
		return err
	}
	if err := f.checkFlags(changed("use-case") || changed("slo")); err != nil {
		return err
	}
	f.Prices = planning.ListPrices()
	for _, p := range f.priced {
		if err := f.Prices.Set(p, "--price"); err != nil {
			return fmt.Errorf("--price: %w", err)
		}
	}
	if f.Known, err = f.readKnown(ctx, say); err != nil {
		return err
	}
	if f.Check = ctx.Err; f.tp > 0 {
		f.Args.Set(engine.TensorParallelSize, strconv.Itoa(f.tp), "the flag")
	}
	if f.Choices, err = f.readChoices(); err != nil {
		return err
	}
	o, err := f.Promise.Objective(f.modelName(&f.Known, f.Model.Architecture))
	if err != nil {
		return err
	}
	if t := &f.Targets; o != nil {
		t.TTFTP95, t.ITLP95, t.E2EP95 = cmp.Or(t.TTFTP95, o.TTFTP95), cmp.Or(t.ITLP95, o.ITLP95),
			cmp.Or(t.E2EP95, o.E2EP95)
	}
	return nil
}

// readChoices returns all combinations of --gpu and --compare-quantization. The checkpoint's own format is always
// included.
func (f *Tuning) readChoices() (out []planning.Choice, err error) {
	forms := []string{""}
	for _, q := range f.quantizations {
		if q != "none" && !slices.Contains(forms, q) {
			forms = append(forms, q)
		}
	}
	for _, name := range f.gpus {
		c := planning.Choice{}
		if c.Device, c.Memory, err = perfmodel.ParseGPU(name); err != nil {
			return nil, fmt.Errorf("--gpu: %w", err)
		}
		for _, c.Quantization = range forms {
			out = append(out, c)
		}
	}
	switch {
	case len(out) > 1 && (f.Source.SourceCount() > 0 || f.loadTest != ""):
		return nil, hint.With(errors.New("measured step times are for one kind of GPU and one weight format"),
			"compare from data sheets, without servers and --load-test, or name one --gpu")
	case len(out) == 0 && len(forms) > 1:
		return nil, hint.With(errors.New("--compare-quantization: no GPU is named"), "pass --gpu")
	}
	return out, nil
}

// ServedName returns the model argument of vllm serve: from the user's command line, else from the servers or the
// configuration, else the directory of the weights. It returns "" if all are unknown.
func (f *Tuning) ServedName() string {
	if name := cmp.Or(f.Args[engine.ModelName].Value, f.modelName(&f.Known, "")); name != "" {
		return name
	}
	if _, err := os.Stat(f.modelConfig); err != nil { // a name in the cache
		return f.modelConfig
	}
	dir := strings.TrimSuffix(f.modelConfig, "config.json")
	if weights, _ := filepath.Glob(filepath.Join(dir, "*.safetensors*")); len(weights) > 0 {
		return filepath.Clean(cmp.Or(dir, "."))
	}
	return f.Model.Name
}
