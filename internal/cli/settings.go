package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/slo"
	"github.com/sixty-dev/sixty/internal/threshold"
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
	s.StringArrayVar(&f.set, "set", nil, "set a threshold, as `name=value`: ttft_objective=500ms, kv_cache_full=95%; may be repeated")
	s.StringSliceVar(&f.only, "only", nil, "look only for these pathologies, by `id`")
}

// settings checks the flags against the catalogue.
func (f *settingsFlags) settings(all []*catalog.Pathology) (s diagnose.Settings, err error) {
	if s.Objectives, err = objectives(f.slo, f.useCase); err != nil {
		return s, err
	}
	for _, id := range f.only {
		if findPathology(all, id) == nil {
			return s, unknownPathology("--only", id)
		}
	}
	s.Only = f.only
	if s.Set, err = threshold.Parse(f.set, all); err != nil {
		return s, fmt.Errorf("--set: %w", err)
	}
	return s, nil
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
