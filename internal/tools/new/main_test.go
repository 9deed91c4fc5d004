package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestAddPathology(t *testing.T) {
	catalogue := t.TempDir()
	list := must.ReadFile(t, "../../pathologies/pathologies.go")
	must.Succeed(t, os.WriteFile(filepath.Join(catalogue, "pathologies.go"), list, 0o600))
	must.Succeed(t, addPathology(catalogue, "zone-lost"))
	for _, name := range []string{"pathologies.go", "zonelost/zonelost.go", "zonelost/refine.go"} {
		if _, err := parser.ParseFile(token.NewFileSet(), filepath.Join(catalogue, name), nil,
			parser.AllErrors); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"runbook.md", "scenario.yaml", "testdata/fires.txt", "testdata/nearmiss.txt",
		"testdata/nodata.txt", "testdata/refine.yaml"} {
		if _, err := os.Stat(filepath.Join(catalogue, "zonelost", name)); err != nil {
			t.Error(err)
		}
	}
	after := must.ReadFile(t, filepath.Join(catalogue, "pathologies.go"))
	if strings.Count(string(after), "pathologies/zonelost\"") != 1 ||
		strings.Count(string(after), "zonelost.Pathology,") != 1 {
		t.Errorf("the list is\n%s", after)
	}
	if err := addPathology(catalogue, "zone-lost"); err == nil {
		t.Error("an existing directory is overwritten")
	}
	if err := addPathology(catalogue, "Zone lost"); err == nil {
		t.Error("an id with capitals and spaces is accepted")
	}
}
