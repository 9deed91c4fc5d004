package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/indicator"
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
	s.StringArrayVar(&f.set, "set", nil, "set a threshold, as `name=value`, such as ttft_objective=500ms or kv_cache_full=95%; may be repeated")
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
	units := map[string]indicator.Unit{}
	for _, p := range all {
		note := func(c catalog.Cond) { units[c.Threshold.Name] = c.Threshold.Unit }
		p.When.Leaves(note)
		for _, s := range p.Supports {
			s.Leaves(note)
		}
	}
	names := slices.Sorted(maps.Keys(units))
	set := map[string]float64{}
	for _, text := range f.set {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, hint.With(fmt.Errorf("--set: %q is not name=value", text), "write it as "+names[0]+"=1.5")
		}
		name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
		unit, ok := units[name]
		if !ok {
			return nil, hint.With(fmt.Errorf("--set: there is no threshold %q", name), cmp.Or(hint.DidYouMean(name, names), "one of "+strings.Join(names, ", ")))
		}
		v, err := indicator.ParseNumber(value, unit)
		if err != nil {
			return nil, fmt.Errorf("--set: %s: %w", name, err)
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
