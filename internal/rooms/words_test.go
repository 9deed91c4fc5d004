package rooms

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestHouseWordsAreGone looks for the phrases of testdata/words.yaml in the program's strings, in the page and in the
// documents.
func TestHouseWordsAreGone(t *testing.T) {
	houseWords, banned := map[string]string{}, map[string]*regexp.Regexp{}
	text := must.ReadFile(t, "testdata/words.yaml")
	must.Succeed(t, yaml.Unmarshal(text, &houseWords))
	for pattern := range houseWords {
		banned[pattern] = regexp.MustCompile(pattern)
	}
	code := regexp.MustCompile("`[^`\n]*`")
	comment := regexp.MustCompile(`(?m)(^|\s)//.*$|(?s)/\*.*?\*/`)
	checked := 0
	check := func(path string, texts ...string) {
		for _, text := range texts {
			checked++
			for pattern, re := range banned {
				if m := re.FindString(code.ReplaceAllString(text, "")); m != "" {
					t.Errorf("%s: %q; people say %q", path, m, houseWords[pattern])
				}
			}
		}
	}
	read := func(path string) string {
		text := must.ReadFile(t, path)
		return string(text)
	}
	walk := func(root string, visit func(path string)) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				visit(path)
			}
			return err
		})
		must.Succeed(t, err)
	}
	walk("..", func(path string) {
		switch name := filepath.Base(path); {
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			check(path, literals(read(path))...)
		case name == "runbook.md", name == "scenario.yaml", filepath.Ext(path) == ".tmpl", filepath.Base(filepath.Dir(path)) == "help":
			check(path, read(path))
		}
	})
	walk("../../web/src", func(path string) {
		if ext := filepath.Ext(path); (ext == ".ts" || ext == ".tsx") && !strings.Contains(path, ".test.") {
			check(path, comment.ReplaceAllString(read(path), ""))
		}
	})
	for _, pattern := range []string{
		"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../docs/*.md", "../../docs/lab/*.md",
		"../../docs/adr/*.md",
	} {
		pages, err := filepath.Glob(pattern)
		must.Succeed(t, err)
		for _, page := range pages {
			check(page, read(page))
		}
	}
	if checked < 5000 {
		t.Errorf("%d texts: were they found?", checked)
	}
}

// literals returns the strings of a Go file.
func literals(src string) (out []string) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(src)), []byte(src), nil, 0)
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
