package cli

import (
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

var (
	// named finds a command in a text, up to where a sentence goes on or a value is quoted.
	named = regexp.MustCompile("\\bsixty ([a-z][a-z-]*(?: [^`;,()\"'\\n]*)?)")
	// quotedCommand is one in a sentence of a document.
	quotedCommand = regexp.MustCompile("`sixty [^`]+`")

	ends    = regexp.MustCompile(` (or|and|kept|before) .*`)
	options = regexp.MustCompile(`\s--([a-z][a-z0-9-]*)`)
	// prose is what follows the program's name, or the number, in sentences.
	prose = regexp.MustCompile(`^(minutes|seconds|requests|session|can|find|reads?|is|was|has|does|asks?|watches|saw|sees|knows|needs|itself|answers|could|cannot|with|for|and|to|in|of|on|at|scrapes|says|stores|judges|holds|measures|writes|run|runs|that|as|by|or|the|a)\b`)
)

// TestCommandsThatAreNamedExist looks for commands in what the program can print, its texts and
// the pages that are compiled into it, and in what the documents quote: each is a command of
// sixty's, and has the flags.
func TestCommandsThatAreNamedExist(t *testing.T) {
	checked := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case filepath.Base(path) == "removed.txt": // names what there was
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			for _, text := range literals(t, path) {
				checked += commandsExist(t, path, text)
			}
		case filepath.Base(path) == "runbook.md", filepath.Base(filepath.Dir(path)) == "help":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			checked += commandsExist(t, path, string(text))
		}
		return nil
	})
	must.Succeed(t, err)
	for _, pattern := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../docs/*.md", "../../docs/lab/*.md"} {
		pages, err := filepath.Glob(pattern)
		must.Succeed(t, err)
		for _, page := range pages {
			text := must.ReadFile(t, page)
			for _, quoted := range quotedCommand.FindAllString(string(text), -1) {
				checked += commandsExist(t, page, strings.ReplaceAll(quoted, "\n", " "))
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d commands: were they found?", checked)
	}
}

// literals are the strings of a source file.
func literals(t *testing.T, path string) (out []string) {
	t.Helper()
	src := must.ReadFile(t, path)
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(path, -1, len(src)), src, nil, 0)
	for {
		switch _, tok, text := s.Scan(); tok {
		case token.EOF:
			return out
		case token.STRING:
			if text, err := strconv.Unquote(text); err == nil {
				out = append(out, text)
			}
		}
	}
}

// commandsExist checks the commands in a text, and returns how many there are.
func commandsExist(t *testing.T, path, text string) (n int) {
	t.Helper()
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if prose.MatchString(m[1]) {
			continue
		}
		n++
		command := ends.ReplaceAllString(m[1], "")
		cmd, _, err := newRoot(io.Discard, io.Discard).Find(strings.Fields(command))
		if err != nil || !cmd.HasParent() {
			t.Errorf("%s: there is no command sixty %s", path, command)
			continue
		}
		for _, o := range options.FindAllStringSubmatch(command, -1) {
			if cmd.Flags().Lookup(o[1]) == nil && cmd.InheritedFlags().Lookup(o[1]) == nil && o[1] != "help" {
				t.Errorf("%s: sixty %s has no flag --%s", path, command, o[1])
			}
		}
	}
	return n
}
