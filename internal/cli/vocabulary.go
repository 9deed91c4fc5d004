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

// vocabulary is that of all verbs: one name means one thing, and stands in one group.
func vocabulary(stdout, stderr io.Writer) *command.Vocabulary {
	return &command.Vocabulary{
		Texts: texts, Options: command.Terminal(stdout, "auto"), Errors: command.Terminal(stderr, "auto"), Exits: Exits,
		Groups: []command.Group{
			{Title: "Servers", Flags: []string{
				"prometheus", "match", "model", "metrics", "engine-args", "engine-log",
				"diagnose gateway", "record gateway", "serve gateway", "no-host-metrics",
				"trace recording", "id", "at", "since", "window", "baseline", "healthy", "past", "watch", "observe", "incidents", "diagnose duration", "record duration", "interval", "timeout",
			}},
			{Title: "The monitor", Flags: []string{
				"config", "kubernetes", "kubeconfig", "serve namespace", "serve selector", "serve gpu-target", "dry-run", "shard", "data", "keep", "keep-size", "trace-buffer", "query-max-samples", "query-concurrency", "query-timeout",
				"evaluation-interval", "once", "page", "external-url", "web-config", "token-file", "cluster-listen", "cluster-peer", "cluster-tls-config", "verbose-log",
			}},
			{Title: "Traces", Flags: []string{
				"profile max-events", "profile capture max-events", "profile diff max-events", "steps", "profile capture load", "longest",
				"dir", "gate",
			}},
			{Title: "Upstreams and clients", Flags: []string{"upstream", "listen", "admin", "upstream-ca", "upstream-insecure", "health-path", "health-interval"}},
			{Title: "Limits", Flags: []string{"connect-timeout", "header-timeout", "request-timeout", "idle-timeout", "client-timeout", "drain-timeout", "drain-delay", "max-body", "max-requests"}},
			{Title: "What is measured", Flags: []string{"ask-usage", "tenant-header", "max-tenants", "hash-tenants", "leak-age"}},
			{Title: "Where to serve", Flags: []string{"serve", "fault", "gpu-exporter", "accelerate"}},
			{Title: "Metric names", Flags: []string{"dialect", "detect", "instance-labels", "model-labels", "gpu-labels"}},
			{Title: "What to scrape", Flags: []string{
				"server", "target", "gpu-target", "dcgm", "cluster", "namespace", "selector", "port", "job",
				"label", "workload", "min-replicas", "max-replicas", "start-time", "in-flight", "monitor-label", "lean", "short-instance", "scrape-interval", "dashboards",
			}},
			{Title: "Input", Flags: []string{"rules", "audit dashboards", "ignore", "only", "skip", "skip-unrelated", "audit vllm-version", "fast", "fix"}},
			{Title: "Model and hardware", Flags: []string{
				"model-config", "gpu", "tp",
				"max-gpus", "price", "compare-quantization", "acceptance", "vllm-version", "load-test", "load-test-args", "step-cost", "replicas", "route",
			}},
			{Title: "Objectives and thresholds", Flags: []string{
				"use-case", "slo", "slo-period", "ttft-p95", "itl-p95", "e2e-p95", "throughput",
				"set", "from", "ago", "assert", "fail-on", "tolerance",
			}},
			{Title: "Workload", Flags: []string{
				"scenario", "scale", "rate", "rate-scale", "prompt-scale", "output-scale", "concurrency", "max-concurrency", "cv", "requests", "duration",
				"prompt-tokens", "output-tokens", "system-tokens", "prefix-share", "prefix-groups", "think-time",
				"trace", "trace-from", "trace-length", "speed", "workload-from", "seed",
			}},
			{Title: "Search", Flags: []string{
				"search", "sweep", "search-from", "search-to",
				"samples", "warmup",
			}},
			{Title: "Requests", Flags: []string{"bench model", "bench request-timeout", "api", "extra-body", "no-stream"}},
			{Title: "Links, labels and objects", Flags: []string{
				"runbook-url", "runbook-suffix", "dashboard-url", "generate rules label", "generate all label",
				"generate runbooks label", "severity", "keep-firing-for",
				"name", "generate rules namespace", "generate all namespace", "object-label", "max-rules-per-group", "tests",
			}},
			{Title: "Output", Flags: []string{"output", "out", "full", "color", "width", "save", "csv", "save-baseline", "no-descriptions", "help", "version"}},
			{Title: "Authentication and TLS", Flags: []string{
				"header", "bearer-token-file", "basic-auth", "http-config", "tls-ca", "tls-cert", "tls-key",
				"insecure-skip-verify",
			}},
		},
		Values: map[string]command.Values{
			"color":          command.Closed("auto", "always", "never"),
			"fail-on":        command.Closed(catalog.Page.String(), catalog.Ticket.String(), catalog.Info.String()),
			"use-case":       command.Closed(slo.UseCases()...),
			"only":           {Names: pathologyIDs},
			"ignore":         {Names: checkIDs},
			"dialect":        {Names: dialect.IDs, Open: true},
			"demo fault":     {Names: func() []string { return append([]string{"all"}, fleetScenarios()...) }},
			"simulate fault": {Names: fleetScenarios},
			"scenario":       {Names: loadScenarios, Open: true},
			"bench api":      command.Closed(string(load.Chat), string(load.Completions)),
			"bench search":   command.Closed("rate", "concurrency"),
			"simulate route": command.Closed(string(perfmodel.RoundRobin), string(perfmodel.LeastLoaded), string(perfmodel.PrefixAffinity)),
			"gpu":            {Names: gpus, Open: true},
			"model-config":   {Names: modelconfig.PublishedNames, Open: true},
			"server":         command.Closed(scrapeconfig.Servers()...),
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
	{command.ExitOK, []string{"record", "simulate --serve", "diagnose --watch", "serve", "mcp"}, "stopped with Ctrl-C"},
}
