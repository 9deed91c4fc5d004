package cli

import (
	"embed"
	"io"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/generate/scrapeconfig"
	"github.com/sixty-dev/sixty/internal/load"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

//go:embed help
var texts embed.FS

// vocabulary is shared by all verbs: a flag's name means the same everywhere.
func vocabulary(stdout io.Writer) *command.Vocabulary {
	return &command.Vocabulary{
		Texts: texts, Options: command.Terminal(stdout, "auto"),
		Last: []string{"http-config", "bearer-token-file", "basic-auth", "header", "tls-ca", "tls-cert", "tls-key",
			"insecure-skip-verify", "help"},
		Values: map[string]command.Values{
			"color":        command.Closed("auto", "always", "never"),
			"fail-on":      command.Closed(catalog.Page.String(), catalog.Ticket.String(), catalog.Info.String()),
			"use-case":     command.Closed(slo.UseCases()...),
			"only":         {Names: pathologyIDs},
			"ignore":       {Names: checkIDs},
			"dialect":      {Names: dialect.IDs, Open: true},
			"fault":        {Names: fleetScenarios},
			"scenario":     {Names: loadScenarios, Open: true},
			"api":          command.Closed(string(load.Chat), string(load.Completions)),
			"search":       command.Closed("rate", "concurrency"),
			"gpu":          {Names: gpus, Open: true},
			"model-config": {Names: modelconfig.PublishedNames, Open: true},
			"server":       command.Closed(scrapeconfig.Servers()...),
		},
	}
}

// formatEach returns the text of each thing.
func formatEach[T any](things []T, text func(T) string) []string {
	var out []string
	for _, x := range things {
		out = append(out, text(x))
	}
	return out
}

func names[T ~string](things []T) []string {
	return formatEach(things, func(x T) string { return string(x) })
}

func pathologyIDs() []string {
	return formatEach(pathologies.All(), func(p *catalog.Pathology) string { return p.ID })
}

func checkIDs() []string {
	return formatEach(checks.Checks(), func(c *checks.Check) string { return c.ID })
}

func fleetScenarios() []string {
	all, err := fleet.Scenarios(pathologies.All())
	if err != nil {
		return nil // the command that uses one reports the error
	}
	return formatEach(all, func(s fleet.Scenario) string { return s.Name })
}

func loadScenarios() []string {
	return append([]string{"all"}, formatEach(load.Scenarios(), func(s load.Scenario) string { return s.Name })...)
}

// completeModels completes an argument that names a model, or a file.
func completeModels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return modelconfig.PublishedNames(), cobra.ShellCompDirectiveDefault
}

func gpus() []string {
	return formatEach(perfmodel.GPUs(), func(g perfmodel.GPU) string { return g.Name })
}
