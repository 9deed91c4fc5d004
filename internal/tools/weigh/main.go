// Command weigh prints how heavy the code is and where: lines by folder, the largest packages,
// files and functions, wide structs, long lines, and how folders import each other. Folders are
// those beneath internal, with all that lies beneath them; a line is any line of a Go file.
//
//	go run ./internal/tools/weigh [-all]
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const module = "github.com/sixty-dev/sixty/"

// What a folder, a package, a function, a struct and a line should not exceed.
const (
	maxFolder   = 12_000 // lines
	maxPackage  = 25     // files without tests
	maxFunction = 80     // lines
	maxStruct   = 20     // fields
	maxLine     = 120    // columns, a tab is four
)

// A weight is a name with a number of something.
type weight struct {
	name string
	n    int
}

// A house is what was counted.
type house struct {
	code, tests                map[string]int // lines by folder
	packages                   map[string]int // files
	files                      []weight
	functions, structs, longer []weight
	imports                    map[string]map[string]bool // of folders
}

func main() {
	all := flag.Bool("all", false, "list all that exceeds its limit, not the first of each kind")
	flag.Parse()
	h := house{code: map[string]int{}, tests: map[string]int{}, packages: map[string]int{}, imports: map[string]map[string]bool{}}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || len(path) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		return h.weigh(filepath.ToSlash(path))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	h.print(*all)
}

// folderOf is the folder that a file or a package belongs to: internal/NAME, or its top folder.
func folderOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// weigh counts a file.
func (h *house) weigh(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines, folder := bytes.Count(text, []byte("\n")), folderOf(path)
	if strings.HasSuffix(path, "_test.go") {
		h.tests[folder] += lines
		return nil
	}
	h.code[folder] += lines
	h.packages[filepath.ToSlash(filepath.Dir(path))]++
	h.files = append(h.files, weight{path, lines})
	for i, l := range strings.Split(string(text), "\n") {
		if n := utf8.RuneCountInString(strings.ReplaceAll(l, "\t", "    ")); n > maxLine {
			h.longer = append(h.longer, weight{path + ":" + strconv.Itoa(i+1), n})
		}
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, i := range f.Imports {
		if to, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ok && folderOf(to) != folder {
			if h.imports[folder] == nil {
				h.imports[folder] = map[string]bool{}
			}
			h.imports[folder][folderOf(to)] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if l := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1; l > maxFunction {
				h.functions = append(h.functions, weight{path + ": " + n.Name.Name, l})
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok && s.Fields.NumFields() > maxStruct {
				h.structs = append(h.structs, weight{path + ": " + n.Name.Name, s.Fields.NumFields()})
			}
		}
		return true
	})
	return nil
}

// floors numbers folders: one stands above all that it imports. Those of a cycle share a floor,
// and are returned together.
func (h *house) floors() (floor map[string]int, cycles [][]string) {
	reach := map[string]map[string]bool{}
	var visit func(from, at string)
	visit = func(from, at string) {
		for to := range h.imports[at] {
			if !reach[from][to] {
				reach[from][to] = true
				visit(from, to)
			}
		}
	}
	for f := range h.code {
		reach[f] = map[string]bool{}
		visit(f, f)
	}
	floor = map[string]int{}
	var height func(f string) int
	height = func(f string) int {
		if n, ok := floor[f]; ok {
			return n
		}
		n := 1
		for to := range reach[f] {
			if !reach[to][f] {
				n = max(n, height(to)+1)
			}
		}
		floor[f] = n
		return n
	}
	for _, f := range slices.Sorted(maps.Keys(h.code)) {
		height(f)
		if !reach[f][f] {
			continue
		}
		var knot []string
		for _, o := range slices.Sorted(maps.Keys(reach[f])) {
			if reach[o][f] {
				knot = append(knot, o)
			}
		}
		if knot[0] == f {
			cycles = append(cycles, knot)
		}
	}
	return floor, cycles
}

func (h *house) print(all bool) {
	floor, cycles := h.floors()
	folders := slices.SortedFunc(maps.Keys(h.code), func(a, b string) int {
		return cmp.Or(cmp.Compare(h.code[b], h.code[a]), cmp.Compare(a, b))
	})
	code, tests := 0, 0
	fmt.Printf("%-26s %8s %8s %6s\n", "folder", "code", "tests", "floor")
	for _, f := range folders {
		fmt.Printf("%-26s %8d %8d %6d\n", f, h.code[f], h.tests[f], floor[f])
		code, tests = code+h.code[f], tests+h.tests[f]
	}
	for f, n := range h.tests {
		if h.code[f] == 0 {
			tests += n
		}
	}
	fmt.Printf("%-26s %8d %8d %6d\n", "all", code, tests, slices.Max(slices.Collect(maps.Values(floor))))
	for _, c := range cycles {
		fmt.Println("\nimport each other:", strings.Join(c, " "))
	}
	above := func(m map[string]int, limit int) (out []weight) {
		for name, n := range m {
			if n > limit {
				out = append(out, weight{name, n})
			}
		}
		return out
	}
	for _, k := range []struct {
		title string
		list  []weight
	}{
		{fmt.Sprintf("folders of more than %d lines", maxFolder), above(h.code, maxFolder)},
		{fmt.Sprintf("packages of more than %d files", maxPackage), above(h.packages, maxPackage)},
		{"largest files, lines", h.files},
		{fmt.Sprintf("functions of more than %d lines", maxFunction), h.functions},
		{fmt.Sprintf("structs of more than %d fields", maxStruct), h.structs},
		{fmt.Sprintf("lines of more than %d columns", maxLine), h.longer},
	} {
		printLargest(k.title, k.list, all)
	}
}

// printLargest lists the ten largest of a kind, or all.
func printLargest(title string, list []weight, all bool) {
	slices.SortFunc(list, func(a, b weight) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	fmt.Printf("\n%s: %d\n", title, len(list))
	if !all {
		list = list[:min(10, len(list))]
	}
	for _, w := range list {
		fmt.Printf("%8d  %s\n", w.n, w.name)
	}
}
