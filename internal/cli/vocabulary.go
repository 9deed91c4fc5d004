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
		Texts: texts, Options: command.Terminal(stdout, "auto"), Exits: Exits,
		Last: []string{"http-config", "bearer-token-file", "basic-auth", "header", "tls-ca", "tls-cert", "tls-key", "insecure-skip-verify", "help"},
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

// list writes each of some things as a text.
func list[T any](things []T, text func(T) string) []string {
	var out []string
	for _, x := range things {
		out = append(out, text(x))
	}
	return out
}

func names[T ~string](things []T) []string {
	return list(things, func(x T) string { return string(x) })
}

func pathologyIDs() []string {
	return list(pathologies.All(), func(p *catalog.Pathology) string { return p.ID + "\t" + p.Name() })
}

func checkIDs() []string { return list(checks.Checks(), func(c *checks.Check) string { return c.ID }) }

func fleetScenarios() []string {
	all, err := fleet.Scenarios(pathologies.All())
	if err != nil {
		return nil // said when one is asked for
	}
	return list(all, func(s fleet.Scenario) string { return s.Name })
}

func loadScenarios() []string {
	return append([]string{"all"}, list(load.Scenarios(), func(s load.Scenario) string { return s.Name + "\t" + s.Goal })...)
}

// completeModels completes an argument that names a model; files and servers are arguments too.
func completeModels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return modelconfig.PublishedNames(), cobra.ShellCompDirectiveDefault
}

func gpus() []string { return list(perfmodel.GPUs(), func(g perfmodel.GPU) string { return g.Name }) }

// Exits are what the codes mean: the one table of help and of docs/install.md, which a test
// holds against what the commands do.
var Exits = command.Exits{
	{command.ExitOK, nil, "done; nothing found"},
	{command.ExitFound, []string{"diagnose", "audit", "profile", "top --once"}, "a finding of at least `--fail-on`: page, ticket (the default) or info"},
	{command.ExitFound, []string{"profile diff"}, "a step takes longer by more than `--gate`, and not by chance"},
	{command.ExitFound, []string{"bench"}, "an `--assert` fails, or no level of a `--search` meets the objective"},
	{command.ExitFound, []string{"bench compare"}, "something became worse"},
	{command.ExitFound, []string{"tune"}, "the targets cannot be met, or the model does not fit"},
	{command.ExitFound, []string{"demo"}, "a diagnosis was wrong"},
	{command.ExitFound, []string{"simulate"}, "no request was served"},
	{command.ExitNotCertain, []string{"diagnose", "top --once"}, "not certain yet: ask again after the next scrapes"},
	{command.ExitCannotCheck, nil, "could not check: bad input, no answer, no metrics of an inference server, not enough data"},
	{command.ExitCannotCheck, []string{"diagnose"}, "not done within `--timeout`"},
	{command.ExitCannotCheck, []string{"simulate"}, "the simulator cannot reproduce the servers' current behaviour"},
	{command.ExitCannotCheck, []string{"bench"}, "the load generator distorted the result"},
	{command.ExitInterrupted, nil, "interrupted by Ctrl-C or SIGTERM, even after printing results"},
	{command.ExitOK, []string{"record", "simulate --serve", "serve", "mcp"}, "stopped with Ctrl-C"},
}
