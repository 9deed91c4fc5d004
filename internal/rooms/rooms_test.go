package rooms

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

const (
	module     = "github.com/sixty-dev/sixty/"
	prometheus = "github.com/prometheus/prometheus/"
)

// pure lists the rooms that use no clock, files, network or global randomness: the same input always gives the same
// output. "/..." at the end of a name includes the rooms beneath it.
var pure = []string{
	"internal/audit",
	"internal/audit/checks",
	"internal/audit/files",
	"internal/base/docs", // an address
	"internal/base/heap",
	"internal/base/hint",
	"internal/base/period",
	"internal/base/stat",
	"internal/base/version", // it reads the program's own build information
	"internal/catalog",
	"internal/catalog/baseline",
	"internal/catalog/dialect",
	"internal/catalog/engine/...",
	"internal/catalog/indicator",
	"internal/modelconfig",
	"internal/catalog/slo",
	"internal/catalog/synonym",
	"internal/catalog/threshold",
	"internal/diagnose",
	"internal/diagnose/changepoint",
	"internal/diagnose/identity",
	"internal/diagnose/measure",
	"internal/diagnose/segments",
	"internal/generate",
	"internal/generate/autoscaling",
	"internal/generate/burnrate",
	"internal/generate/dashboard/...",
	"internal/generate/detect",
	"internal/generate/history",
	"internal/generate/pack",
	"internal/generate/runbookpage",
	"internal/generate/scrapeconfig",
	"internal/metrics", // the Querier interface alone
	"internal/metrics/hostmetrics/gpu",
	"internal/metrics/hostmetrics/nvidia",
	"internal/metrics/pages",
	"internal/monitor/anomaly",
	"internal/monitor/health",
	"internal/monitor/health/healthreport",
	"internal/monitor/incident",
	"internal/monitor/incident/postmortem",
	"internal/monitor/view",
	"internal/openai/...",
	"internal/pathologies/...",
	"internal/planning",
	"internal/planning/simreport",
	"internal/planning/tunereport",
	"internal/profile",
	"internal/profile/finding",
	"internal/profile/nsys/...",
	"internal/profile/profilereport",
	"internal/profile/torch",
	"internal/render",
	"internal/report",
	"internal/sim/...",
	"internal/trace",
}

// Three parts of the program that packages serve and cli bring together.
var (
	watch   = []string{"internal/monitor/...", "internal/top/..."}
	publish = []string{"internal/generate/...", "internal/audit/..."}
	lab     = []string{"internal/fleet/...", "internal/gateway/...", "internal/load/...", "internal/planning/...",
		"internal/profile/...", "internal/sim/..."}
)

// A rule says who may import what. Imports of tests do not count.
type rule struct {
	name        string
	who, except []string // the rooms that it is about match who, and not except
	never, but  []string // they import nothing that matches never, and not but
}

// rules are those of docs/architecture.md, section "Rules between packages".
var rules = []rule{
	{
		name: "pure rooms touch no files, network or processes",
		who:  pure,
		never: []string{
			"os/...", "net/...", "io/ioutil", "log/...", "syscall", "plugin",
			"golang.org/x/sys/...", "golang.org/x/net/...",
		},
		but: []string{"net/url", "net/netip"},
	},
	{
		name:  "pure rooms build on pure rooms",
		who:   pure,
		never: []string{module + "..."},
		but:   inModule(pure),
	},
	{
		name:  "a pathology sees the catalogue, the signals and the names of flags",
		who:   []string{"internal/pathologies/*"},
		never: []string{module + "..."},
		but: inModule([]string{"internal/catalog", "internal/catalog/dialect", "internal/catalog/engine",
			"internal/catalog/indicator"}),
	},
	{
		name:   "Prometheus' storage, rules and query engine stay behind the Querier",
		who:    []string{"..."},
		except: []string{"internal/metrics/collect", "internal/metrics/embedded"},
		// Packages beneath storage/remote store nothing.
		never: []string{prometheus + "promql", prometheus + "rules/...", prometheus + "storage",
			prometheus + "storage/remote", prometheus + "tsdb/..."},
	},
	{
		name:   "Prometheus' HTTP client stays behind the Querier",
		who:    []string{"..."},
		except: []string{"internal/metrics/api"},
		never:  []string{"github.com/prometheus/client_golang/api/..."},
	},
	{
		name:  "what watches does not import what publishes or measures",
		who:   watch,
		never: inModule(slices.Concat(publish, lab)),
	},
	{
		name:  "what publishes does not import what measures",
		who:   publish,
		never: inModule(lab),
	},
	{
		name:  "what measures does not import what publishes",
		who:   lab,
		never: inModule(publish),
	},
	{
		name: "what renders fetches nothing",
		who: []string{
			"internal/load/loadreport",
			"internal/monitor/health/healthreport",
			"internal/monitor/incident/postmortem",
			"internal/planning/simreport",
			"internal/planning/tunereport",
			"internal/profile/profilereport",
			"internal/render",
			"internal/report/...",
		},
		never: []string{"net/...", module + "internal/metrics/..."},
		but:   []string{"net/url"},
	},
}

func inModule(rooms []string) []string {
	var out []string
	for _, r := range rooms {
		out = append(out, module+r)
	}
	return out
}

// matches reports whether a path matches one of the patterns. "a/..." matches a and everything beneath it, as for the
// go command; "a/*" matches what is directly beneath it.
func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if p == "..." {
			return true
		}
		if base, ok := strings.CutSuffix(p, "/..."); ok {
			return path == base || strings.HasPrefix(path, base+"/")
		}
		if base, ok := strings.CutSuffix(p, "/*"); ok {
			rest, under := strings.CutPrefix(path, base+"/")
			return under && !strings.Contains(rest, "/")
		}
		return path == p
	})
}

// breaches returns the imports that break the rule.
func (r rule) breaches(p listed) []string {
	room := p.room()
	if !matches(room, r.who) || matches(room, r.except) {
		return nil
	}
	var out []string
	for _, imported := range p.Imports {
		if matches(imported, r.never) && !matches(imported, r.but) {
			out = append(out, fmt.Sprintf("%s imports %s", room, imported))
		}
	}
	return out
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	IgnoredGoFiles  []string // of other systems, and tests of other tags
	Imports         []string
}

// room returns the package's path within the module.
func (p listed) room() string { return strings.TrimPrefix(p.ImportPath, module) }

// list returns all packages of the module.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles,Imports",
		"./...")
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs the go command to list the packages")
	}
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		must.Succeed(t, err)
		packages = append(packages, p)
	}
}

func TestImportsKeepTheRules(t *testing.T) {
	packages := list(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, p := range packages {
				for _, breach := range r.breaches(p) {
					t.Error(breach)
				}
			}
		})
	}
}

// TestRulesSpeakOfRoomsThatExist finds the rules of rooms that were renamed.
func TestRulesSpeakOfRoomsThatExist(t *testing.T) {
	packages := list(t)
	for _, r := range rules {
		for _, pattern := range slices.Concat(r.who, r.except) {
			if !slices.ContainsFunc(packages, func(p listed) bool { return matches(p.room(), []string{pattern}) }) {
				t.Errorf("%s: no package matches %s", r.name, pattern)
			}
		}
	}
}

func TestPureRoomsReadNoClockAndNoGlobalRandomness(t *testing.T) {
	for _, p := range list(t) {
		for _, name := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			must.Succeed(t, err)
			for _, d := range inits(file) {
				t.Errorf("%s: %s: func init: hand values in instead", p.room(), fset.Position(d))
			}
			if !matches(p.room(), pure) {
				continue
			}
			for _, use := range impure(file) {
				t.Errorf("%s: %s: %s", p.room(), fset.Position(use.at), use.name)
			}
		}
	}
}

// clock lists the names of package time that read or wait for the clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// seeded lists the names of the rand packages that have their own seed. All others there use the process's global
// source.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf", "Rand", "PCG", "ChaCha8", "Source",
	"Source64", "Zipf"}

// use is one use of the clock or of global randomness.
type use struct {
	name string
	at   token.Pos
}

// impure returns the uses of the clock and of global randomness in a file, under whatever name it imports the packages.
func impure(file *ast.File) []use {
	var out []use
	names := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := strings.TrimSuffix(path, "/v2")
		name = name[strings.LastIndex(name, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		switch path {
		case "crypto/rand":
			out = append(out, use{path, spec.Pos()})
		case "time", "math/rand", "math/rand/v2":
			names[name] = path
			if name == "." {
				out = append(out, use{"dot import of " + path, spec.Pos()})
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok {
			path, imported := names[x.Name]
			switch {
			case !imported:
			case path == "time" && slices.Contains(clock, selector.Sel.Name),
				path != "time" && !slices.Contains(seeded, selector.Sel.Name):
				out = append(out, use{path + "." + selector.Sel.Name, selector.Pos()})
			}
		}
		return true
	})
	return out
}

// inits returns the positions at which a file declares func init.
func inits(file *ast.File) []token.Pos {
	var out []token.Pos
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			out = append(out, f.Pos())
		}
	}
	return out
}

func TestImportsThatBreakARuleAreFound(t *testing.T) {
	for _, tc := range []struct {
		name, room string
		imports    []string
		want       []string
	}{
		{"a pure room may parse URLs and PromQL", "internal/catalog/indicator", []string{"net/url", prometheus + "promql/parser"}, nil},
		{"a pure room may not open files", "internal/sim/perfmodel", []string{"os"}, []string{"internal/sim/perfmodel imports os"}},
		{"a pure room may not use the network", "internal/catalog/slo", []string{"net/http"}, []string{"internal/catalog/slo imports net/http"}},
		{"a pure room may not call an impure one", "internal/diagnose", []string{module + "internal/metrics/scrape"}, []string{"internal/diagnose imports " + module + "internal/metrics/scrape"}},
		{"a pathology may not see the diagnosis", "internal/pathologies/saturation", []string{module + "internal/diagnose"}, []string{"internal/pathologies/saturation imports " + module + "internal/diagnose"}},
		{"the storage stays in its room", "internal/metrics/scrape", []string{prometheus + "tsdb/chunkenc"}, []string{"internal/metrics/scrape imports " + prometheus + "tsdb/chunkenc"}},
		{"the query engine has its room", "internal/metrics/embedded", []string{prometheus + "promql"}, nil},
		{"the HTTP client stays in its room", "internal/cli", []string{"github.com/prometheus/client_golang/api/prometheus/v1"}, []string{"internal/cli imports github.com/prometheus/client_golang/api/prometheus/v1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, r := range rules {
				got = append(got, r.breaches(listed{ImportPath: module + tc.room, Imports: tc.imports})...)
			}
			slices.Sort(got)
			must.Equal(t, tc.want, slices.Compact(got))
		})
	}
}

func TestImpureUsesAreFound(t *testing.T) {
	for _, tc := range []struct {
		name, source string
		want         []string
	}{
		{"durations are no clock", `import "time"; const d = 5 * time.Second`, nil},
		{"a call", `import "time"; var t = time.Now()`, []string{"time.Now"}},
		{"a value", `import "time"; var now = time.Now`, []string{"time.Now"}},
		{"under another name", `import clock "time"; var c = clock.Tick(1)`, []string{"time.Tick"}},
		{"a dot import", `import . "time"`, []string{"dot import of time"}},
		{"a seeded generator", `import "math/rand/v2"; var r = rand.New(rand.NewPCG(1, 2))`, nil},
		{"the global generator", `import "math/rand/v2"; var n = rand.IntN(6)`, []string{"math/rand/v2.IntN"}},
		{"the operating system's generator", `import "crypto/rand"`, []string{"crypto/rand"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+tc.source,
				parser.SkipObjectResolution)
			must.Succeed(t, err)
			var got []string
			for _, u := range impure(file) {
				got = append(got, u.name)
			}
			must.Equal(t, tc.want, got)
		})
	}
}
