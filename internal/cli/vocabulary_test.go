package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/render"
)

// everyCommand calls fn for each command that help shows.
func everyCommand(t *testing.T, fn func(path string)) {
	t.Helper()
	n := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		n++
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		fn(path)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(io.Discard, io.Discard))
	if n < 25 {
		t.Fatalf("%d commands: were they found?", n)
	}
}

// A flag has one type and takes one kind of value in all commands that have it.
func TestAFlagMeansOneThing(t *testing.T) {
	seen := map[string]map[string][]string{}
	everyCommand(t, func(path string) {
		c, _, err := newRoot(io.Discard, io.Discard).Find(strings.Fields(path))
		must.Succeed(t, err)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			noun, _ := pflag.UnquoteUsage(f)
			if len(command.Names(f)) > 0 {
				noun = "" // one of a closed set, which help lists
			}
			kind := fmt.Sprint(f.Value.Type() == "bool", " ", strings.TrimSuffix(noun, "s"))
			if seen[f.Name] == nil {
				seen[f.Name] = map[string][]string{}
			}
			seen[f.Name][kind] = append(seen[f.Name][kind], path)
		})
	})
	if len(seen) < 100 {
		t.Fatalf("%d flags: were they found?", len(seen))
	}
	for name, kinds := range seen {
		if len(kinds) > 1 {
			t.Errorf("--%s: %v", name, kinds)
		}
	}
}

// Help fits 80 columns, -h a screen, and --help shows examples before flags.
func TestHelpFits(t *testing.T) {
	everyCommand(t, func(path string) {
		short, _, err := sixty(t, append(strings.Fields(path), "-h")...)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		if n := strings.Count(short, "\n"); n > 20 {
			t.Errorf("%s -h takes %d lines", path, n)
		}
		out, _, err := sixty(t, append(strings.Fields(path), "--help")...)
		if err != nil {
			t.Errorf("%s --help: %v", path, err)
			return
		}
		if same, _, _ := sixty(t, append([]string{"help"}, strings.Fields(path)...)...); same != out && path != "" { // --version is a flag of the root
			t.Errorf("help %s and %[1]s --help differ", path)
		}
		if strings.Contains(out, "(default )") {
			t.Errorf("%s: a flag has an empty default", path)
		}
		for line := range strings.Lines(short + out) {
			line = strings.TrimRight(line, "\n")
			if render.Cells(line) > 80 {
				t.Errorf("%s: %d columns: %s", path, render.Cells(line), line)
			}
		}
		examples, output := strings.Index(out, "Examples:"), strings.Index(out, "Output:")
		if examples >= 0 && output >= 0 && examples > output {
			t.Errorf("%s: flags come before examples", path)
		}
	})
}

// The values of flags are completed in shells.
func TestValuesAreCompleted(t *testing.T) {
	for args, want := range map[string]string{
		"diagnose --output ": "markdown", "diagnose --fail-on ": "ticket", "diagnose --use-case ": "chat", "diagnose --only ": "saturation",
		"diagnose --color ": "never", "audit --ignore ": "no-such-bucket", "generate rules --output ": "mimir", "generate scrape --output ": "podmonitor",
		"generate rules --dialect ": "vllm-v0", "bench --scenario ": "burst", "bench --search ": "rate", "bench --api ": "chat", "bench --use-case ": "rag",
		"demo --fault ": "memory-leak", "simulate --fault ": "engine-hung",
		"tune --gpu ": "H20", "tune --output ": "html", "explain ": "kv-cache-thrashing", "help generate ": "rules",
	} {
		out, _, err := sixty(t, append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		var names []string
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			names = append(names, name)
		}
		if err != nil || !slices.Contains(names, want) {
			t.Errorf("%s: %v, %q; want %q", args, err, names, want)
		}
	}
}
