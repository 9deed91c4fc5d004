//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	codes "github.com/sixty-dev/sixty/internal/cli/command"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/fleet"
)

// A documented command is a line of a document that a reader would type.
type documented struct {
	page string
	line int
	text string
}

// documentedServer is the server that documents diagnose. A recording is served in its place.
const documentedServer = "http://localhost:8000"

// notRun are the documented commands that this test does not run, each with the reason. Their flags are checked.
var notRun = []struct {
	what *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`--serve\b|^sixty (gateway|serve|top|mcp) `), "runs until it is interrupted: TestEveryVerbEndsWhenInterrupted"},
	{regexp.MustCompile(`/(etc|var)/`), "writes where Grafana reads"},
	{regexp.MustCompile(`https://aps-workspaces`), "needs an AWS account: TestDiagnoseAManagedPrometheus"},
	{regexp.MustCompile(`\b(vllm-\d|prometheus|prod|gpu-host):\d|\bURL\b`), "needs servers of those names"},
	{regexp.MustCompile(`^sixty (bench|diagnose|record|audit|simulate|tune) (http://)?localhost:`), "needs a server that computes, and a machine that is not busy"},
	{regexp.MustCompile(`^sixty trace (traces|http)`), "needs traces of one's own, or a server that keeps them"},
	{regexp.MustCompile(`run\.csv|azure\.csv|^sixty profile (capture|diff|.*(trace|rank|decode))`), "needs a trace of one's own"},
}

// shortened are commands that take long, or ask a server, and the flags that make them short. A server that replays a
// recording answers them.
var shortened = map[string]string{
	"sixty simulate meta-llama/Llama-3.1-8B-":              " --duration 10m",
	"sixty diagnose " + documentedServer + " --baseline ":  " --duration 2s",
	"sixty audit " + documentedServer + " --rules alerts.": "",
	"sixty generate rules --dialect vllm-v0 --m":           " --only kv-cache-thrashing", // every alert is tested
}

// TestDocumentedCommands runs the commands of each document in their order, in one directory, if the files of
// documentShell are enough.
func TestDocumentedCommands(t *testing.T) {
	commands := documentedCommands(t)
	if len(commands) < 40 {
		t.Fatalf("the documents hold %d commands: were they found?", len(commands))
	}
	used := make([]bool, len(notRun))
	pages := slices.CompactFunc(slices.Clone(commands), func(a, b documented) bool { return a.page == b.page })
	const replayed = "full-but-quiet"
	served := serve(map[string][][]byte{
		replayed: load(t, filepath.Join("..", "..", "testdata", "recordings", replayed+".tar.zst")),
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + replayed + r.URL.Path
		served.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for _, p := range pages {
		var here []documented
		for _, c := range commands {
			if c.page == p.page {
				here = append(here, c)
			}
			for i, n := range notRun {
				used[i] = used[i] || n.what.MatchString(c.text)
			}
		}
		t.Run(filepath.Base(p.page), func(t *testing.T) {
			t.Parallel()
			sh := documentShell(t)
			for _, c := range here {
				sh.run(t, c, server.URL)
			}
		})
	}
	for i, u := range used {
		if !u {
			t.Errorf("no document has a command like %s any more", notRun[i].what)
		}
	}
}

// run runs a command, or checks its flags and logs why it does not run it.
func (sh *shell) run(t *testing.T, c documented, server string) {
	t.Helper()
	text, whole := c.text, false
	for begins, more := range shortened {
		if strings.HasPrefix(text, begins) {
			text, whole = strings.ReplaceAll(text, documentedServer, server)+more, true
		}
	}
	if !whole {
		for _, n := range notRun {
			if n.what.MatchString(text) {
				t.Logf("%s:%d: flags only: %s: %s", c.page, c.line, n.why, c.text)
				text += " --help"
				break
			}
		}
	}
	code, out := sh.do(t, text)
	found := code == codes.ExitFound && regexp.MustCompile(`^sixty (diagnose|audit|profile) `).MatchString(text)
	if code != codes.ExitOK && !found {
		t.Errorf("%s:%d: exit code %d of: %s\n%s", c.page, c.line, code, text, out)
	}
}

// loaders read the blocks of YAML and JSON in the documents, by the first key of each.
var loaders = map[string]func(t *testing.T, sh *shell, text string) error{
	"objectives": func(_ *testing.T, _ *shell, text string) error {
		_, err := slo.Parse("slo.yaml", []byte(text))
		return err
	},
	"title": func(_ *testing.T, _ *shell, text string) error {
		_, err := fleet.ReadScenario("documented", text)
		return err
	},
	"alert": func(_ *testing.T, _ *shell, text string) error {
		rules := "groups:\n- name: documented\n  rules:\n  - " + strings.ReplaceAll(text, "\n", "\n    ")
		_, errs := rulefmt.Parse([]byte(rules), false, model.UTF8Validation, parser.NewParser(parser.Options{}),
			slog.New(slog.DiscardHandler))
		return errors.Join(errs...)
	},
	"global": servesWith, "alerting": servesWith, "sixty": servesWith, "scrape_configs": servesWith,
	"relabel_configs": func(t *testing.T, sh *shell, text string) error {
		return servesWith(t, sh, "scrape_configs:\n- job_name: documented\n  "+strings.ReplaceAll(text, "\n", "\n  "))
	},
	"sigv4": func(t *testing.T, sh *shell, text string) error {
		file := filepath.Join(sh.dir, "http.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		_, signing, err := (&source.Access{File: file}).Load()
		if err == nil && signing.SigV4 == nil {
			err = errors.New("it has no sigv4")
		}
		return err
	},
	"jobs": func(t *testing.T, sh *shell, text string) error {
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct {
					Uses string
					With map[string]string
				}
			}
		}
		var action struct {
			Inputs map[string]any
		}
		offered, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
		if err = errors.Join(err, yaml.Unmarshal(offered, &action),
			yaml.Unmarshal([]byte(text), &workflow)); err != nil {
			return err
		}
		for _, step := range workflow.Jobs["rules"].Steps {
			if !strings.HasPrefix(step.Uses, "sixty-dev/sixty@") {
				continue
			}
			for name := range step.With {
				if action.Inputs[name] == nil {
					return fmt.Errorf("the action has no input %s", name)
				}
			}
			return sh.succeed(t, "sixty audit --rules "+step.With["files"]+" --dashboards "+step.With["dashboards"]+" --vllm-version "+step.With["version"])
		}
		return errors.New("no step uses the action")
	},
	"repos": func(t *testing.T, sh *shell, text string) error {
		var hooks struct {
			Repos []struct {
				Hooks []struct {
					ID   string
					Args []string
				}
			}
		}
		if err := yaml.Unmarshal([]byte(text), &hooks); err != nil {
			return err
		}
		hook := hooks.Repos[0].Hooks[0]
		offered, err := os.ReadFile(filepath.Join("..", "..", ".pre-commit-hooks.yaml"))
		if !strings.Contains(string(offered), "- id: "+hook.ID+"\n") {
			return errors.Join(fmt.Errorf("there is no hook %s", hook.ID), err)
		}
		return sh.succeed(t, "sixty audit --skip-unrelated "+strings.Join(hook.Args, " "))
	},
	"apiVersion": func(t *testing.T, sh *shell, text string) error {
		const command = "sixty generate autoscaling --workload llm --match namespace=prod --in-flight 24"
		_, printed := sh.do(t, command)
		if text, _, _ = strings.Cut(text, "…"); !strings.HasPrefix(printed, text) {
			return fmt.Errorf("%s prints:\n%s", command, printed)
		}
		return nil
	},
	"mcpServers": func(t *testing.T, sh *shell, text string) error {
		var clients struct {
			Servers map[string]struct {
				Command string
				Args    []string
				URL     string
			} `json:"mcpServers"`
		}
		err := json.Unmarshal([]byte(text), &clients)
		if server := clients.Servers["sixty"]; err == nil && server.URL == "" {
			return sh.succeed(t, server.Command+" "+strings.Join(server.Args, " ")+" --help")
		}
		return err
	},
}

// servesWith loads a configuration of sixty serve, beside the files that it names.
func servesWith(t *testing.T, sh *shell, text string) error {
	t.Helper()
	for name, content := range map[string]string{
		"sixty.yaml": text, "targets/vllm.json": `[{"targets": ["localhost:8000"]}]`,
		"normal.json": `{"schema": "sixty.baseline/v1", "thresholds": []}`,
	} {
		path := filepath.Join(sh.dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return sh.succeed(t, "sixty serve localhost:8000 --config sixty.yaml --dry-run")
}

// succeed runs a command line. Findings are no failure.
func (sh *shell) succeed(t *testing.T, line string) error {
	t.Helper()
	if code, out := sh.do(t, line); code != codes.ExitOK && code != codes.ExitFound {
		return fmt.Errorf("exit code %d of %s:\n%s", code, line, out)
	}
	return nil
}

var (
	fencedBlock   = regexp.MustCompile("(?ms)^```(?:yaml|yml|json)\n(.*?)^```")
	indentedBlock = regexp.MustCompile(`(?m)^\n((?: {4}[a-z_]+:(?: .*)?\n)(?: {4}.*\n)*)`)
	anyFence      = regexp.MustCompile("(?ms)^```.*?^```")
	firstKey      = regexp.MustCompile(`(?m)\A(?:#.*\n|[{"\s])*(\w+)`)
)

// TestDocumentedFilesAreRead lets the program read every block of YAML and JSON in the documents.
func TestDocumentedFilesAreRead(t *testing.T) {
	found := map[string]bool{}
	for page, text := range documentPages(t) {
		blocks := fencedBlock.FindAllStringSubmatch(text, -1)
		for _, b := range indentedBlock.FindAllStringSubmatch(anyFence.ReplaceAllString(text, ""), -1) {
			blocks = append(blocks, []string{"", regexp.MustCompile("(?m)^ {4}").ReplaceAllString(b[1], "")})
		}
		for _, b := range blocks {
			key := firstKey.FindStringSubmatch(b[1])
			if key == nil || loaders[key[1]] == nil {
				t.Errorf("%s: no loader reads this block:\n%s", page, b[1])
				continue
			}
			found[key[1]] = true
			t.Run(filepath.Base(page)+"/"+key[1], func(t *testing.T) {
				t.Parallel()
				if err := loaders[key[1]](t, documentShell(t), b[1]); err != nil {
					t.Errorf("%v\nof\n%s", err, b[1])
				}
			})
		}
	}
	for key := range loaders {
		if !found[key] {
			t.Errorf("no document has a block that begins with %s any more", key)
		}
	}
}

var printed = regexp.MustCompile("(?s)```text\n\\$ (sixty [^\n]*)\n(.*?)```\n")

// TestDocumentsShowWhatIsPrinted compares the output in documents with what the command above it prints. A last line
// "…" stands for the rest.
func TestDocumentsShowWhatIsPrinted(t *testing.T) {
	found := 0
	for page, text := range documentPages(t) {
		for _, block := range printed.FindAllStringSubmatch(text, -1) {
			found++
			t.Run(filepath.Base(page), func(t *testing.T) {
				t.Parallel()
				_, got := documentShell(t).do(t, block[1])
				if want, cut := strings.CutSuffix(block[2], "…\n"); got != want &&
					(!cut || !strings.HasPrefix(got, want)) {
					t.Errorf("%s shows for %q:\n%s\nprinted:\n%s", page, block[1], want, got)
				}
			})
		}
	}
	if found < 3 {
		t.Errorf("%d blocks of output in the documents: were they found?", found)
	}
}

// shell runs command lines in a directory.
type shell struct {
	dir string
	env []string
}

// documentShell makes the files that the documents' commands use.
func documentShell(t *testing.T) *shell {
	t.Helper()
	sh := &shell{dir: t.TempDir()}
	exe, err := os.Executable()
	must.Succeed(t, err)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must.Succeed(t, err)
	bin := t.TempDir()
	must.Succeed(t, os.Symlink(exe, filepath.Join(bin, "sixty")))
	must.Succeed(t, os.Symlink(filepath.Join(root, "testdata"), filepath.Join(sh.dir, "testdata")))
	for to, from := range map[string]string{ // copies: commands write into them
		"incident.tar.zst": "testdata/incident.tar.zst",
		"config.json":      "internal/modelconfig/testdata/llama-3.1-8b.json",
		"before.json":      "cmd/sixty/testdata/bench.json",
		"after.json":       "cmd/sixty/testdata/bench.json",
		"carried.json":     "cmd/sixty/testdata/carried.json",
		"alerts.yaml":      "mixin/rules/rules.yaml",
		"vllm.json":        "mixin/dashboards/grafana/sixty-incident.json",
		"rules":            "mixin/rules",
		"dashboards":       "mixin/dashboards/grafana",
	} {
		copied(t, filepath.Join(sh.dir, to), filepath.Join(root, filepath.FromSlash(from)))
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "slo.md")) // its first example is the slo.yaml of all documents
	must.Succeed(t, err)
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	must.Succeed(t, os.WriteFile(filepath.Join(sh.dir, "slo.yaml"), []byte(example), 0o600))
	sh.env = append(os.Environ(), asCommand+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir(),
		"HOME="+t.TempDir(),
		"ARGS=--max-num-seqs 64")
	return sh
}

// copied copies a file or a directory.
func copied(t *testing.T, to, from string) {
	t.Helper()
	info, err := os.Stat(from)
	must.Succeed(t, err)
	if info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		var b []byte
		if b, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
	}
	must.Succeed(t, err)
}

func (sh *shell) do(t *testing.T, line string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // commands that do not end belong into notRun
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = sh.dir, sh.env
	cmd.WaitDelay = time.Minute // a process that it leaves behind holds the output open
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	must.Succeed(t, cmd.Start())
	return wait(t, cmd), b.String()
}

var (
	typed   = regexp.MustCompile(`^(?:\$ )?(?:(?:\./)?bin/)?(sixty .*)$`)
	comment = regexp.MustCompile(`\s+#\s.*$`)
)

// documentPages returns the texts of the documents by their paths.
func documentPages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/lab/*.md"} {
		pages, err := filepath.Glob(pattern)
		must.Succeed(t, err)
		for _, page := range pages {
			text := must.ReadFile(t, page)
			out[page] = string(text)
		}
	}
	return out
}

// documentedCommands finds the commands in the fenced and indented blocks of the documents. After "&&" there are other
// programs.
func documentedCommands(t *testing.T) []documented {
	t.Helper()
	var out []documented
	pages := documentPages(t)
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		out = append(out, commandsOf(page, pages[page])...)
	}
	return out
}

func commandsOf(page, text string) []documented {
	var out []documented
	fenced := false
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		l, at := lines[i], i+1
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
			continue
		}
		code, indented := strings.CutPrefix(l, "    ")
		m := typed.FindStringSubmatch(strings.TrimSpace(code))
		if !fenced && !indented || m == nil {
			continue
		}
		command := m[1]
		for strings.HasSuffix(command, `\`) && i+1 < len(lines) {
			i++
			command = strings.TrimSuffix(command, `\`) + strings.TrimSpace(lines[i])
		}
		command, _, _ = strings.Cut(comment.ReplaceAllString(command, ""), " && ")
		out = append(out, documented{page, at, command})
	}
	return out
}

func TestCommandsOf(t *testing.T) {
	text := "sixty in prose\n\n    sixty a --b 'c d'   # why\n    sixty e \\\n      --f && other\n    another program\n" +
		"```\n$ sixty g\nsixty said this? No.\n```\n    ./bin/sixty h\n"
	want := []string{"3 sixty a --b 'c d'", "4 sixty e --f", "8 sixty g", "9 sixty said this? No.", "11 sixty h"}
	var got []string
	for _, c := range commandsOf("page", text) {
		got = append(got, fmt.Sprintf("%d %s", c.line, c.text))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
