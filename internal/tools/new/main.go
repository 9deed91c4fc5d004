// Command new writes the files of a new pathology, with a TODO wherever something must be filled in:
//
//	go run ./internal/tools/new pathology NAME
//
// NAME is the pathology's id, such as kv-cache-thrashing. The files compile. Tests find every TODO that is left; the
// command prints how to run them. CONTRIBUTING.md describes each file.
package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed pathology
var templates embed.FS

func main() {
	if len(os.Args) != 3 || os.Args[1] != "pathology" {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/tools/new pathology NAME")
		os.Exit(2)
	}
	if err := addPathology("internal/pathologies", os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Printf(next, os.Args[2], packageOf(os.Args[2]))
}

// next tells what to do next: a format with the id and its package.
const next = `Written: internal/pathologies/%[2]s, and its line at the end of the list in
internal/pathologies/pathologies.go: move it to its place, causes before symptoms.
Replace each TODO. While you do (seconds, once it is built):

  go test ./internal/pathologies -run 'Valid|LeftToDo|Cases/%[1]s|Refine/%[1]s|Survives'
  go test ./internal/fleet -run 'EveryScenario/%[1]s'
  go test ./internal/generate -run RulesAreValid      # lists alerts that V0 and SGLang lack

A fault that the simulated servers lack is a new field of Faults in internal/fleet/scenario.go.

Then run make generate, read the diff, and run the tests that CONTRIBUTING.md names.
`

// packageOf returns the package name of a pathology.
func packageOf(id string) string { return strings.ReplaceAll(id, "-", "") }

var kebabCase = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// addPathology writes the directory of a pathology into the catalogue's directory, and its line into the list.
func addPathology(catalogue, id string) error {
	if !kebabCase.MatchString(id) {
		return fmt.Errorf("%q is no id: want lower-case words with hyphens, such as kv-cache-thrashing", id)
	}
	list := filepath.Join(catalogue, "pathologies.go")
	source, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("run this in the root of the repository: %w", err)
	}
	words := strings.Split(id, "-")
	alert := ""
	for _, w := range words {
		alert += strings.ToUpper(w[:1]) + w[1:]
	}
	names := map[string]string{
		"ID": id, "Package": packageOf(id), "Alert": alert,
		"Words": strings.Join(words, " "), "Threshold": strings.Join(words, "_"),
	}
	if source, err = enlist(source, names["Package"]); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	dir := filepath.Join(catalogue, names["Package"])
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already", dir)
	}
	if err := writeFiles(dir, names); err != nil {
		return err
	}
	return os.WriteFile(list, source, 0o644)
}

// enlist adds a package to the imports and to the end of the list.
func enlist(source []byte, name string) ([]byte, error) {
	const path = "github.com/sixty-dev/sixty/internal/pathologies/"
	text := string(source)
	imports, list := strings.LastIndex(text, "\t\""+path), strings.LastIndex(text, ".Pathology,\n")
	if imports < 0 || list < 0 {
		return nil, errors.New("it has no imports or no list of pathologies")
	}
	list += len(".Pathology,\n")
	text = text[:imports] + fmt.Sprintf("\t%q\n", path+name) + text[imports:list] +
		"\t" + name + ".Pathology,\n" + text[list:]
	return format.Source([]byte(text))
}

// writeFiles renders the templates into a directory.
func writeFiles(dir string, names map[string]string) error {
	return fs.WalkDir(templates, "pathology", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		t, err := template.ParseFS(templates, path)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, names); err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, "pathology/"), ".tmpl")
		if name == "pathology.go" {
			name = names["Package"] + ".go"
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, b.Bytes(), 0o644)
	})
}
