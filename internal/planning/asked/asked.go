// Package asked turns the flags and arguments of simulate and tune into a planning.Simulation or a planning.Tuning.
// It reads files and measures running servers. Its errors name the flags.
package asked

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// Flags with the same meaning in several verbs.
const (
	FlagRelease = "vllm-version"
	FlagArgs    = "engine-args"
)

// Say holds the ways to inform people.
type Say struct {
	Note func([]string)                   // remarks
	Show func(format string, args ...any) // a line that the next one overwrites
}

// A Deployment holds the flags about a deployment and its objectives.
type Deployment struct {
	Source  source.Observed
	Promise settings.Promised

	EngineArgs, ReleaseOf string // as vllm serve takes them, and vLLM's release
	gpus                  []string
	modelConfig           string
	loadTest              string
}

// AddFlags adds the common flags of simulate and tune, without the output format.
func (f *Deployment) AddFlags(s *pflag.FlagSet) {
	f.Source.AddFlags(s)
	s.StringVar(&f.modelConfig, "model-config", "",
		"the model's config.json, the `directory` that has it, or its name at Hugging Face; an argument that is a "+
			"name does the same")
	s.StringSliceVar(&f.gpus, "gpu", nil,
		"`name` of the GPU, such as H100 or 'RTX 4090', or the memory of one, such as 80GiB")
	s.StringVar(&f.EngineArgs, FlagArgs, "", "`arguments` as vllm serve takes them, such as '--max-num-seqs 256'")
	s.StringVar(&f.ReleaseOf, FlagRelease, "", "`release` of vLLM, such as 0.23 (default: the measured server's)")
	s.StringVar(&f.loadTest, "load-test", "", "fit step times to a load test's `file`: sixty bench --csv of one replica")
	f.Promise.AddFlags(s)
}

// readKnown reads and measures the facts about the deployment.
func (f *Deployment) readKnown(ctx context.Context, say Say) (k planning.Known, err error) {
	if len(f.gpus) > 0 {
		if k.Device, k.Memory, err = perfmodel.ParseGPU(f.gpus[0]); err != nil {
			return k, fmt.Errorf("--gpu: %w", err)
		}
	}
	if f.modelConfig != "" {
		if k.Model, f.modelConfig, err = readModel(f.modelConfig); err != nil {
			return k, err
		}
	}
	if f.loadTest != "" {
		content, err := fileio.Read(f.loadTest, 1<<30)
		if err != nil {
			return k, fmt.Errorf("--load-test: %w", err)
		}
		k.LoadTest, k.LoadTestFrom = bytes.NewReader(content), f.loadTest
	}
	if f.Source.SourceCount() > 0 {
		if k.Seen, err = f.Source.Observe(ctx, say.Note, say.Show); err != nil {
			return k, err
		}
	}
	if err = k.FindRelease(f.ReleaseOf); err != nil {
		return k, fmt.Errorf("--%s: %w", FlagRelease, err)
	}
	k.Release = cmp.Or(k.Release, engine.ImageRelease(f.EngineArgs))
	strict := cmp.Or(k.Release, vllm.DefaultRelease)
	if k.Seen != nil && f.ReleaseOf == "" {
		strict = "" // Release is only the oldest that fits their metrics
	}
	if k.Args, err = vllm.Engine.Flags.CheckArgs(f.EngineArgs, "--"+FlagArgs, strict); err != nil {
		return k, err
	}
	if v := k.Args[engine.MaxModelLen].Value; v == "auto" || v == "-1" {
		k.LongestThatFits = true
		delete(k.Args, engine.MaxModelLen)
	}
	return k, nil
}

// modelName returns the name by which objectives are looked up.
func (f *Deployment) modelName(k *planning.Known, otherwise string) string {
	if k.Seen != nil {
		return k.Seen.Model
	}
	return otherwise
}
