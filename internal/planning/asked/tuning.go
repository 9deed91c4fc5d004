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
	"time"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// simulatedRequests of each configuration: enough for a P95, and few enough that a
// search of fifty ends in seconds.
const simulatedRequests = 1500

// Tuning is what tune is asked.
type Tuning struct {
	Deployment
	planning.Tuning // what needs no reading; Read adds the rest

	tp, pp, dp     int
	expertParallel bool
	ttft, itl, e2e time.Duration
	served         string
	loadTestArgs   string
	loadTestModel  string

	quantizations []string
	priced        []string
}

// AddFlags adds the flags of sixty tune, but for the form of the answer.
func (f *Tuning) AddFlags(s *pflag.FlagSet) {
	f.Deployment.AddFlags(s)
	f.Load.AddFlags(s, workload.ScaledRates|workload.NoUsualLengths)
	f.Load.Requests = simulatedRequests
	s.Lookup("requests").DefValue = strconv.Itoa(simulatedRequests)
	s.IntVar(&f.tp, "tp", 0, "tensor parallelism (default: found)")
	s.IntVar(&f.pp, "pp", 0, "pipeline parallelism (default 1)")
	s.IntVar(&f.dp, "dp", 0, "data parallelism within a replica (default 1)")
	s.BoolVar(&f.expertParallel, engine.ExpertParallel, false, "distribute experts by number, not by width")
	s.BoolVar(&f.CPU, "cpu", false, "the server runs on a CPU; give its KV cache with --engine-args '--kv-cache-memory-bytes N'")
	s.IntVar(&f.MaxGPUs, "max-gpus", 64, "GPUs of the whole deployment, at most")
	s.StringVar(&f.log, "engine-log", "", "`file` with a server's start-up log, to check the memory against")
	s.StringVar(&f.loadTest, "load-test", "", "fit step times to a load test's `file` for one replica: sixty bench --csv, or vllm bench serve --save-detailed")
	s.StringVar(&f.loadTestArgs, "load-test-args", "", "vllm serve `arguments` of that test, if they differ from those searched for")
	s.StringVar(&f.loadTestModel, "load-test-model", "", "`config.json` of the tested model, if it is another: its step times are then scaled")
	s.DurationVar(&f.ttft, "ttft-p95", 0, "target of the 95th percentile of the time to the first token")
	s.DurationVar(&f.itl, "itl-p95", 0, "target of the 95th percentile of the time between tokens")
	s.DurationVar(&f.e2e, "e2e-p95", 0, "target of the 95th percentile of a whole answer")
	s.Float64Var(&f.Targets.TokensPerSecond, "throughput", 0, "target of output tokens per second, of the whole deployment")
	s.StringVar(&f.served, "served-model", "", "`name` or path to put after vllm serve (default: that of --model-config)")
	s.StringSliceVar(&f.quantizations, "compare-quantization", nil, "compare weight formats that vLLM converts to at load time: `none,fp8`, or bitsandbytes and others; --gpu H100,L40S also compares")
	s.StringArrayVar(&f.priced, "price", nil, "price per hour of one GPU, such as `H100=2.49`; may be repeated (default: list prices of November 2026, in dollars)")
}

// check refuses flags that contradict each other.
func (f *Tuning) check() error {
	switch {
	case f.modelConfig == "" && len(f.Source.URLs) == 1 && hubName.MatchString(f.Source.URLs[0]):
		return hint.With(fmt.Errorf("no model is given: %s is treated as a server's address", f.Source.URLs[0]), "--model-config "+f.Source.URLs[0])
	case f.modelConfig == "":
		return hint.With(errors.New("no model is given"), "name it as an argument, as in sixty tune Qwen/Qwen3-32B, or pass --model-config with its config.json")
	case f.tp < 0 || f.pp < 0 || f.dp < 0 || f.tp > 1024 || f.pp > 1024 || f.dp > 1024:
		return errors.New("--tp, --pp and --dp: want 1 to 1024")
	case f.MaxGPUs < 1 || f.MaxGPUs > 1<<14:
		return fmt.Errorf("--max-gpus %d: want 1 to %d", f.MaxGPUs, 1<<14)
	case f.Load.Requests < 50 || f.Load.Requests > 100_000:
		return fmt.Errorf("--requests %d: want 50 to 100000", f.Load.Requests)
	case f.loadTest == "" && (f.loadTestArgs != "" || f.loadTestModel != ""):
		return hint.With(errors.New("--load-test-args and --load-test-model need a load test"), "pass --load-test with its results")
	case f.loadTestModel != "" && f.gpu == "":
		return hint.With(errors.New("--load-test-model: step times are carried over by the GPU's data sheet, and no GPU is named"), "pass --gpu")
	case f.ttft < 0 || f.itl < 0 || f.e2e < 0 || !(f.Targets.TokensPerSecond >= 0 && f.Targets.TokensPerSecond < 1e12):
		return errors.New("a target is negative")
	}
	return f.Load.Check()
}

// Read checks the flags and arguments and reads what they name; changed says which flags
// were given.
func (f *Tuning) Read(ctx context.Context, args []string, changed func(flag string) bool, say Say) (err error) {
	f.Load.Given(changed)
	if err := f.resolve(args); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
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
	if f.Known, err = f.known(ctx, say, fixed); err != nil {
		return err
	}
	f.CPU, f.Check = cpu, ctx.Err
	if f.Choices, err = f.choices(); err != nil {
		return err
	}
	model := f.Model.Architecture
	if f.Seen != nil {
		model = f.Seen.Model
	}
	o, err := f.Promise.Objective(model)
	if err != nil {
		return err
	}
	t := &f.Targets
	if o != nil {
		t.TTFTP95, t.ITLP95, t.E2EP95 = o.TTFTP95, o.ITLP95, o.E2EP95
	}
	t.TTFTP95, t.ITLP95, t.E2EP95 = cmp.Or(f.ttft, t.TTFTP95), cmp.Or(f.itl, t.ITLP95), cmp.Or(f.e2e, t.E2EP95)
	if f.loadTest != "" {
		tested := cmp.Or(f.loadTestModel, f.modelConfig)
		if f.LoadTestArgs, err = testArgs(f.loadTestArgs, tested); err != nil {
			return err
		}
		if tested != f.modelConfig {
			f.LoadTestOf, _, err = readModel("--load-test-model", tested)
		}
	}
	return err
}

// choices are the alternatives that --gpu and --compare-quantization name, together. The form
// of the checkpoint is always one of them.
func (f *Tuning) choices() (out []planning.Choice, err error) {
	forms := []string{""}
	for _, q := range f.quantizations {
		if q != "none" && !slices.Contains(forms, q) {
			forms = append(forms, q)
		}
	}
	for _, name := range f.gpus() {
		c := planning.Choice{}
		if c.Device, c.Memory, err = perfmodel.ParseGPU(name); err != nil {
			return nil, fmt.Errorf("--gpu: %w", err)
		}
		for _, c.Quantization = range forms {
			out = append(out, c)
		}
	}
	if len(out) > 1 && (f.Source.SourceCount() > 0 || f.loadTest != "") {
		return nil, hint.With(errors.New("measured step times are for one kind of GPU and one weight format"), "compare from data sheets, without servers and --load-test, or name one --gpu")
	}
	if len(out) == 0 && len(forms) > 1 {
		return nil, hint.With(errors.New("--compare-quantization: no GPU is named"), "pass --gpu")
	}
	return out, nil
}

func (f *Tuning) readPrices() (planning.Prices, error) {
	prices := planning.ListPrices()
	for _, p := range f.priced {
		if err := prices.Set(p, "--price"); err != nil {
			return nil, fmt.Errorf("--price: %w", err)
		}
	}
	return prices, nil
}

// ServedName is what follows vllm serve: what the user says, else what the servers or the
// configuration do, else where the weights lie; "" where nothing tells.
func (f *Tuning) ServedName() string {
	seen := ""
	if f.Seen != nil {
		seen = f.Seen.Model
	}
	if name := cmp.Or(f.served, f.Args[engine.ModelName].Value, seen); name != "" {
		return name
	}
	if _, err := os.Stat(f.modelConfig); err != nil { // it is in the cache
		return f.modelConfig
	}
	dir := strings.TrimSuffix(f.modelConfig, "config.json")
	if weights, _ := filepath.Glob(filepath.Join(dir, "*.safetensors*")); len(weights) > 0 {
		return filepath.Clean(cmp.Or(dir, "."))
	}
	return f.Model.Name
}

// testArgs are the arguments of a load test's server, which had that model.
func testArgs(line, model string) (engine.Config, error) {
	args, err := vllm.Engine.Flags.CheckArgs(line, "--load-test-args", "")
	if err != nil {
		return nil, err
	}
	name := func(path string) string {
		return strings.ToLower(strings.TrimSuffix(filepath.Base(strings.TrimSuffix(path, "/config.json")), ".json"))
	}
	if given := args[engine.ModelName].Value; given != "" && name(given) != name(model) {
		return nil, hint.With(fmt.Errorf("--load-test-args: the test is for %s, and the model is %s", given, model),
			"if it is the same, leave --model out; otherwise give its config.json with --load-test-model")
	}
	return args, nil
}
