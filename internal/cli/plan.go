package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/engine/vllm"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/perfmodel"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/source"
)

// planFlags are what simulate and tune have in common: what is known of a deployment, and
// what users were promised.
type planFlags struct {
	source                                     observedFlags
	gpu, modelConfig, engineArgs, log, release string
	useCase, slo                               string
	acceptance                                 float64
	out                                        outputFlags
}

func (f *planFlags) register(s *pflag.FlagSet, formats ...string) {
	f.out.register(s, formats...)
	f.out.registerFull(s, "show everything, not the answer alone")
	f.source.register(s)
	s.StringVar(&f.modelConfig, "model-config", "", "the model's config.json, the `directory` that has it, or its name at Hugging Face where the local cache has it")
	s.StringVar(&f.gpu, "gpu", "", "`name` of the GPU, such as H100 or 'RTX 4090', or the memory of one, such as 80GiB")
	s.StringVar(&f.engineArgs, flagArgs, "", "`arguments` as vllm serve takes them, such as '--max-num-seqs 256'")
	s.Float64Var(&f.acceptance, "acceptance", 0, "share of guessed tokens that are right, with --speculative-config among the engine's arguments")
	s.StringVar(&f.release, flagRelease, "", "`release` of vLLM, such as 0.23 (default: the measured server's)")
	s.StringVar(&f.useCase, "use-case", "", "objectives of a `use case`: chat, code-completion, batch, rag or agentic")
	s.StringVar(&f.slo, "slo", "", "`file` with objectives; --use-case then holds for what it does not match")
}

// known reads and measures what is known of the deployment.
func (f *planFlags) known(ctx context.Context, stderr io.Writer, before engine.Config) (k planning.Known, err error) {
	if !(f.acceptance >= 0 && f.acceptance <= 1) {
		return k, fmt.Errorf("--acceptance %g: want a share from 0 to 1", f.acceptance)
	}
	k.Acceptance = f.acceptance
	if gpus := f.gpus(); len(gpus) > 0 {
		if k.Device, k.Memory, err = perfmodel.ParseGPU(gpus[0]); err != nil {
			return k, fmt.Errorf("--gpu: %w", err)
		}
	}
	if f.modelConfig != "" {
		if k.Model, err = readModel(f.modelConfig); err != nil {
			return k, err
		}
	}
	if f.log != "" {
		if k.Log, err = source.ReadLog(f.log); err != nil {
			return k, err
		}
		k.LogFrom = filepath.Base(f.log)
	}
	if f.source.given() {
		if k.Seen, err = f.source.observe(ctx, stderr); err != nil {
			return k, err
		}
	}
	if err = k.FindRelease(f.release); err != nil {
		return k, fmt.Errorf("--%s: %w", flagRelease, err)
	}
	strict := k.Release
	switch {
	case k.Seen != nil && f.release == "" && k.Log == nil:
		strict = "" // the oldest that their metrics fit
	case strict == "":
		strict = vllm.DefaultRelease
	}
	args, err := vllm.Engine.Flags.CheckArgs(f.engineArgs, "--"+flagArgs, strict)
	if err != nil {
		return k, err
	}
	k.Args = engine.Config{}
	k.Args.Merge(before)
	k.Args.Merge(args)
	return k, nil
}

// gpus are the names that --gpu has, of which tune takes several.
func (f *planFlags) gpus() []string {
	return strings.FieldsFunc(f.gpu, func(c rune) bool { return c == ',' })
}

// readModel reads config.json: a file, one in a directory, or that of a model's name in the
// local cache of Hugging Face.
func readModel(name string) (*modelconfig.Model, error) {
	path := name
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		path = filepath.Join(path, "config.json")
	case err != nil && hubName.MatchString(name):
		if path = cachedConfig(name); path == "" {
			return nil, hint.With(fmt.Errorf("--model-config %s: no such file, and no such model in the cache %s", name, hubCache()),
				"hf download "+name+" config.json, or save https://huggingface.co/"+name+"/resolve/main/config.json and name that file")
		}
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

// hubName is what a model's name looks like: an owner and a name.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// hubCache is where Hugging Face's clients keep what they fetched.
func hubCache() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub")
	}
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "huggingface", "hub")
}

// cachedConfig is the config.json of a model in the cache: of its main revision or, without
// one, of the last by name; "" where there is none.
func cachedConfig(name string) string {
	repo := filepath.Join(hubCache(), "models--"+strings.ReplaceAll(name, "/", "--"))
	if revision, err := fileio.Read(filepath.Join(repo, "refs", "main"), 1<<10); err == nil {
		path := filepath.Join(repo, "snapshots", strings.TrimSpace(string(revision)), "config.json")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	found, _ := filepath.Glob(filepath.Join(repo, "snapshots", "*", "config.json"))
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// objective finds what users of a model were promised, nil for nothing.
func (f *planFlags) objective(model string) (*slo.Objective, error) {
	return objectiveFor(f.slo, f.useCase, model)
}

// objectiveFor is the objective of a model in a file or of a use case, nil for neither.
func objectiveFor(path, useCase, model string) (*slo.Objective, error) {
	file, err := objectives(path, useCase)
	if err != nil || file == nil {
		return nil, err
	}
	o, ok := file.For(map[string]string{"model": model, "model_name": model})
	if !ok {
		return nil, hint.With(fmt.Errorf("%s has no objective for model %q", path, model), `add one with model: "*", or name a use case: `+strings.Join(slo.UseCases(), ", "))
	}
	return &o, nil
}

// objectives are those of a file, and after them those of a use case; nil for neither.
func objectives(path, useCase string) (*slo.File, error) {
	if path == "" && useCase == "" {
		return nil, nil
	}
	file := &slo.File{}
	if path != "" {
		content, err := fileio.Read(path, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("--slo: %w", err)
		}
		if file, err = slo.Parse(path, content); err != nil {
			return nil, err
		}
	}
	if useCase != "" {
		o, err := slo.ForUseCase(useCase)
		if err != nil {
			return nil, fmt.Errorf("--use-case: %w", err)
		}
		file.Objectives = append(file.Objectives, o)
	}
	return file, nil
}
