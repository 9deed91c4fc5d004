// Package settings reads what servers are judged by: objectives and thresholds, from the
// flags of the command line and from files. Errors name the flags.
package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// Promised says what users were promised.
type Promised struct {
	UseCase string
	File    string // slo.yaml
}

// AddFlags adds --use-case and --slo.
func (f *Promised) AddFlags(s *pflag.FlagSet) {
	s.StringVar(&f.UseCase, "use-case", "", "objectives of a use case: "+strings.Join(slo.UseCases(), ", "))
	s.StringVar(&f.File, "slo", "", "`file` with objectives; --use-case then applies to models that it does not match")
}

// Flags say what to judge, and by which numbers.
type Flags struct {
	Promised
	Set  []string // name=value
	Only []string // IDs of pathologies
}

// AddFlags adds the flags of a diagnosis' settings.
func (f *Flags) AddFlags(s *pflag.FlagSet) {
	f.Promised.AddFlags(s)
	s.StringArrayVar(&f.Set, "set", nil,
		"set a threshold, as `name=value`: ttft_objective=500ms, kv_cache_full=95%; may be repeated")
	s.StringSliceVar(&f.Only, "only", nil, "check only these pathologies, by `id`")
}

// Read checks the flags against the catalogue and reads the files that they name.
func (f *Flags) Read(all []*catalog.Pathology) (s diagnose.Settings, err error) {
	if s.Objectives, err = f.Objectives(); err != nil {
		return s, err
	}
	for _, id := range f.Only {
		if !slices.ContainsFunc(all, func(p *catalog.Pathology) bool { return p.ID == id }) {
			return s, hint.With(fmt.Errorf("--only: there is no pathology %q", id), "sixty explain lists them")
		}
	}
	s.Only = f.Only
	if s.Set, err = threshold.Parse(f.Set, all, diagnose.Thresholds()...); err != nil {
		return s, fmt.Errorf("--set: %w", err)
	}
	return s, nil
}

// Objective finds what users of a model were promised, nil for nothing.
func (f *Promised) Objective(model string) (*slo.Objective, error) {
	file, err := f.Objectives()
	if err != nil || file == nil {
		return nil, err
	}
	o, ok := file.For(map[string]string{"model": model, "model_name": model})
	if !ok {
		return nil, hint.With(fmt.Errorf("%s has no objective for model %q", f.File, model),
			`add one with model: "*", or name a use case: `+strings.Join(slo.UseCases(), ", "))
	}
	return &o, nil
}

// Objectives returns the objectives of the file, followed by those of the use case; nil without either.
func (f *Promised) Objectives() (*slo.File, error) {
	if f.File == "" && f.UseCase == "" {
		return nil, nil
	}
	file := &slo.File{}
	if f.File != "" {
		content, err := fileio.Read(f.File, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("--slo: %w", err)
		}
		if file, err = slo.Parse(f.File, content); err != nil {
			return nil, err
		}
	}
	if f.UseCase != "" {
		o, err := slo.ForUseCase(f.UseCase)
		if err != nil {
			return nil, fmt.Errorf("--use-case: %w", err)
		}
		file.Objectives = append(file.Objectives, o)
	}
	return file, nil
}
