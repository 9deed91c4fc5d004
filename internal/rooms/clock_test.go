package rooms

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// sleeping lists the test files in which something sleeps by the clock of the machine, with
// the reason why.
var sleeping = map[string]string{
	"cmd/sixty/interrupt_test.go":                 "nothing tells when a process has begun its work; one that was interrupted too early is tried again",
	"internal/fleet/lateness_test.go":             "a benchmark, which spreads its streams over time",
	"internal/gateway/numbers_test.go":            "measures what a proxy costs, where it is asked to",
	"internal/generate/alertmanager_test.go":      "nothing tells that a real Alertmanager sends nothing more",
	"internal/load/loadreport/loadreport_test.go": "a server whose tokens come apart, by however much",
}

// TestNoTestSleeps holds that tests wait for what happens (polltest, channels), or stand in a
// bubble of virtual time (testing/synctest): on a busy machine no pause is long enough. What is
// built with the tag e2e is left out.
func TestNoTestSleeps(t *testing.T) {
	left := map[string]bool{}
	for _, p := range list(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		must.Succeed(t, err)
		for _, name := range files {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			must.Succeed(t, err)
			if virtual(file) || endToEnd(file) {
				continue
			}
			for _, u := range impure(file) {
				short := p.room() + "/" + filepath.Base(name)
				if u.name != "time.Sleep" {
					continue
				}
				left[short] = true
				if sleeping[short] == "" {
					t.Errorf("%s: time.Sleep: wait with polltest, or in virtual time", fset.Position(u.at))
				}
			}
		}
	}
	for name := range sleeping {
		if !left[name] {
			t.Errorf("%s does not sleep any more: take it off the list", name)
		}
	}
}

// virtual reports whether a file has tests in virtual time.
func virtual(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
}

// endToEnd reports whether a file is built with the tag e2e alone.
func endToEnd(file *ast.File) bool {
	return slices.ContainsFunc(file.Comments, func(c *ast.CommentGroup) bool {
		return slices.ContainsFunc(c.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:build e2e") })
	})
}
