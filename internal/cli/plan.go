package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/engine"
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
	out                                        outputFlags
}

func (f *planFlags) register(s *pflag.FlagSet, formats ...string) {
	f.out.register(s, formats...)
	f.out.registerFull(s, "show everything, not the answer alone")
	f.source.register(s)
	s.StringVar(&f.modelConfig, "model-config", "", "the model's config.json, or the `directory` that has it")
	s.StringVar(&f.gpu, "gpu", "", "`name` of the GPU, such as H100 or 'RTX 4090', or the memory of one, such as 80GiB")
	s.StringVar(&f.engineArgs, flagArgs, "", "`arguments` as vllm serve takes them, such as '--max-num-seqs 256'")
	s.StringVar(&f.release, flagRelease, "", "`release` of vLLM, such as 0.23 (default: the measured server's)")
	s.StringVar(&f.useCase, "use-case", "", "objectives of a `use case`: chat, code-completion, batch, rag or agentic")
	s.StringVar(&f.slo, "slo", "", "`file` with objectives; --use-case then holds for what it does not match")
}

// known reads and measures what is known of the deployment.
func (f *planFlags) known(ctx context.Context, stderr io.Writer, before engine.Config) (k planning.Known, err error) {
	args, err := engine.CheckArgs(f.engineArgs, "--"+flagArgs)
	if err != nil {
		return k, err
	}
	k.Args = engine.Config{}
	k.Args.Merge(before)
	k.Args.Merge(args)
	if f.gpu != "" {
		if k.Device, k.Memory, err = perfmodel.ParseGPU(f.gpu); err != nil {
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
	return k, nil
}

// readModel reads config.json, from a directory too.
func readModel(path string) (*modelconfig.Model, error) {
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
