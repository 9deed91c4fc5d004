package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/slo"
)

// settingsFlags say what to judge, and by which numbers.
type settingsFlags struct {
	useCase, slo string
	set          []string
	only         []string
}

func (f *settingsFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.useCase, "use-case", "", "objectives of a use case: "+strings.Join(slo.UseCases(), ", "))
	s.StringVar(&f.slo, "slo", "", "`file` with objectives; --use-case then holds for what it does not match")
	s.StringArrayVar(&f.set, "set", nil, "set a threshold, as `name=value` in its base unit (seconds, ratio); may be repeated")
	s.StringSliceVar(&f.only, "only", nil, "look only for these pathologies, by `id`")
}

// settings checks the flags against the catalogue.
func (f *settingsFlags) settings(all []*catalog.Pathology) (diagnose.Settings, error) {
	var s diagnose.Settings
	if f.slo != "" {
		content, err := fileio.Read(f.slo, 1<<20)
		if err != nil {
			return s, fmt.Errorf("--slo: %w", err)
		}
		if s.Objectives, err = slo.Parse(f.slo, content); err != nil {
			return s, err
		}
	}
	if f.useCase != "" {
		o, err := slo.ForUseCase(f.useCase)
		if err != nil {
			return s, fmt.Errorf("--use-case: %w", err)
		}
		if s.Objectives == nil {
			s.Objectives = &slo.File{}
		}
		s.Objectives.Objectives = append(s.Objectives.Objectives, o)
	}
	for _, id := range f.only {
		if findPathology(all, id) == nil {
			return s, unknownPathology("--only", id)
		}
	}
	s.Only = f.only
	var err error
	s.Set, err = f.thresholds(all)
	return s, err
}

func (f *settingsFlags) thresholds(all []*catalog.Pathology) (map[string]float64, error) {
	var names []string
	for _, p := range all {
		note := func(c catalog.Cond) { names = append(names, c.Threshold.Name) }
		p.When.Leaves(note)
		for _, s := range p.Supports {
			s.Leaves(note)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	set := map[string]float64{}
	for _, text := range f.set {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, hint.With(fmt.Errorf("--set: %q is not name=value", text), "write it as "+names[0]+"=1.5")
		}
		if !slices.Contains(names, name) {
			return nil, hint.With(fmt.Errorf("--set: there is no threshold %q", name), "one of "+strings.Join(names, ", "))
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, hint.With(fmt.Errorf("--set: %s: %q is not a number", name, value), "give it in the threshold's base unit: 0.5 for half a second or 50 %")
		}
		set[name] = v
	}
	return set, nil
}

func findPathology(all []*catalog.Pathology, id string) *catalog.Pathology {
	if i := slices.IndexFunc(all, func(p *catalog.Pathology) bool { return p.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

func unknownPathology(where, id string) error {
	return hint.With(fmt.Errorf("%s: there is no pathology %q", where, id), "sixty explain lists them")
}
