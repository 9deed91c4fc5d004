//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
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

	"github.com/sixty-dev/sixty/internal/base/must"
	codes "github.com/sixty-dev/sixty/internal/cli/command"
)

// A documented command is a line of a document that a reader would type.
type documented struct {
	page string
	line int
	text string
}

// said is the server that the documents ask; a recording is served in its place.
const said = "http://localhost:8000"

// notRun are the documented commands that this test does not run, each with the reason. Of
// these the flags are checked.
var notRun = []struct {
	what *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`--serve\b|^sixty (gateway|serve|top|mcp) `), "goes on until it is interrupted: TestEveryVerbEndsWhenInterrupted"},
	{regexp.MustCompile(`/(etc|var)/`), "writes where Grafana reads"},
	{regexp.MustCompile(`\b(vllm-\d|prometheus|prod|gpu-host):\d|\bURL\b`), "needs servers of those names"},
	{regexp.MustCompile(`^sixty (bench|diagnose|record|audit|simulate|tune) (http://)?localhost:`), "needs a server that computes, and a machine that is not busy"},
	{regexp.MustCompile(`^sixty trace (traces|http)`), "needs traces of one's own, or a server that keeps them"},
	{regexp.MustCompile(`run\.csv|azure\.csv|^sixty profile (capture|diff|.*(trace|rank|decode))`), "needs a trace of one's own"},
}

// asked are the commands that are run against a server that replays a recording, or simulate
// a day, with flags that make them short.
var asked = map[string]string{
	"sixty simulate --step-cost base=10ms,":    " --duration 1h",
	"sixty diagnose " + said + " --baseline ":  " --duration 2s",
	"sixty audit " + said + " --rules alerts.": "",
	"sixty demo": " --fast", // TestScripts has one whose servers listen
	"sixty generate rules --dialect vllm-v0 --m": " --only kv-cache-thrashing", // each alert is played to its rules
}

// TestDocumentedCommands runs every command in the documents that needs no more than the
// files beside it, in the order in which they are written, in one directory for each page.
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

// run runs a command, or says why it does not and checks its flags.
func (sh *shell) run(t *testing.T, c documented, server string) {
	t.Helper()
	text, whole := c.text, false
	for begins, more := range asked {
		if strings.HasPrefix(text, begins) {
			text, whole = strings.ReplaceAll(text, said, server)+more, true
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

var printed = regexp.MustCompile("(?s)```text\n\\$ (sixty [^\n]*)\n(.*?)```\n")

// TestDocumentsShowWhatIsPrinted compares the output that documents show with what the command above it prints
// today. A last line of "…" stands for the rest of it.
func TestDocumentsShowWhatIsPrinted(t *testing.T) {
	found := 0
	for page, text := range documentPages(t) {
		for _, block := range printed.FindAllStringSubmatch(text, -1) {
			found++
			t.Run(filepath.Base(page), func(t *testing.T) {
				t.Parallel()
				_, got := documentShell(t).do(t, block[1])
				if want, cut := strings.CutSuffix(block[2], "…\n"); got != want && (!cut || !strings.HasPrefix(got, want)) {
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

// documentShell makes the files that the documents speak of.
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
	page, err := os.ReadFile(filepath.Join(root, "docs", "slo.md")) // its first example is what the others speak of
	must.Succeed(t, err)
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	must.Succeed(t, os.WriteFile(filepath.Join(sh.dir, "slo.yaml"), []byte(example), 0o600))
	sh.env = append(os.Environ(), asCommand+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir(), "HOME="+t.TempDir(),
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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // one that goes on belongs into notRun
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = sh.dir, sh.env
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
			text, err := os.ReadFile(page)
			must.Succeed(t, err)
			out[page] = string(text)
		}
	}
	return out
}

// documentedCommands finds the commands in the fenced and the indented blocks of the
// documents. What follows "&&" is another program's.
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
