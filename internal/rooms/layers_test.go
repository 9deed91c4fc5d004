package rooms

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// layers are the folders of internal, the lowest first: a package imports packages of its own folder and of folders
// before it.
var layers = []string{
	"base",
	"openai",
	"modelconfig",
	"catalog",
	"render",
	"metrics",
	"sim",
	"diagnose",
	"trace",
	"report",
	"planning",
	"profile",
	"gateway",
	"load",
	"generate",
	"audit",
	"fleet",

	"monitor",
	"top",
	"serve",
	"pathologies",
	"cli",
}

// beside are folders of internal that are not part of the program.
var beside = []string{"rooms", "tools"}

// split returns the layer of a room and its folder within the layer, "" for the layer's own package. Both are ""
// outside of internal.
func split(room string) (layer, folder string) {
	parts := strings.Split(room, "/")
	if parts[0] != "internal" || len(parts) < 2 {
		return "", ""
	}
	if len(parts) > 2 {
		folder = parts[2]
	}
	return parts[1], folder
}

// upward returns the imports from a lower layer to a higher one, and the packages of internal without a layer.
func upward(packages []listed) (out []string) {
	for _, p := range packages {
		from, _ := split(p.room())
		if from == "" || slices.Contains(beside, from) {
			continue // commands and tests: nothing imports them
		}
		at := slices.Index(layers, from)
		if at < 0 {
			out = append(out, p.room()+" is in no layer")
		}
		for _, imported := range p.Imports {
			to, _ := split(strings.TrimPrefix(imported, module))
			if to != "" && strings.HasPrefix(imported, module) &&
				(at < 0 || slices.Index(layers, to) > at || !slices.Contains(layers, to)) {
				out = append(out, fmt.Sprintf("%s imports %s", p.room(), strings.TrimPrefix(imported, module)))
			}
		}
	}
	return out
}

// cycles returns the folders of a layer that import themselves through other folders.
func cycles(packages []listed) (out []string) {
	imports := map[string][]string{}
	for _, p := range packages {
		layer, folder := split(p.room())
		for _, imported := range p.Imports {
			if l, f := split(strings.TrimPrefix(imported, module)); strings.HasPrefix(imported, module) && l == layer &&
				l != "" && f != folder {
				imports[layer+"/"+folder] = append(imports[layer+"/"+folder], l+"/"+f)
			}
		}
	}
	for start := range imports {
		seen, next := map[string]bool{}, slices.Clone(imports[start])
		for len(next) > 0 {
			f := next[0]
			next = next[1:]
			if !seen[f] {
				seen[f] = true
				next = append(next, imports[f]...)
			}
		}
		if seen[start] {
			out = append(out, start+" imports itself")
		}
	}
	slices.Sort(out)
	return out
}

func TestImportsRunDown(t *testing.T) {
	packages := list(t)
	for _, b := range slices.Concat(upward(packages), cycles(packages)) {
		t.Error(b)
	}
	for _, l := range layers {
		if !slices.ContainsFunc(packages, func(p listed) bool { layer, _ := split(p.room()); return layer == l }) {
			t.Errorf("no package is in the layer %s", l)
		}
	}
}

func TestAnUpwardImportIsFound(t *testing.T) {
	for _, tc := range []struct {
		name string
		of   map[string]string // imports, one each
		want []string
	}{
		{"down", map[string]string{"internal/report": "internal/diagnose/source"}, nil},
		{"within a layer", map[string]string{"internal/diagnose/source": "internal/diagnose"}, nil},
		{"up", map[string]string{"internal/diagnose": "internal/pathologies"}, []string{"internal/diagnose imports internal/pathologies"}},
		{"the command line", map[string]string{"internal/load": "internal/cli"}, []string{"internal/load imports internal/cli"}},
		{"the command", map[string]string{"cmd/sixty": "internal/cli"}, nil},
		{"what is in no layer", map[string]string{"internal/util": "errors"}, []string{"internal/util is in no layer"}},
		{
			"a cycle of folders",
			map[string]string{"internal/diagnose": "internal/diagnose/source/probe",
				"internal/diagnose/source": "internal/diagnose"},
			[]string{"diagnose/ imports itself", "diagnose/source imports itself"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var packages []listed
			for room, imported := range tc.of {
				if strings.HasPrefix(imported, "internal/") {
					imported = module + imported
				}
				packages = append(packages, listed{ImportPath: module + room, Imports: []string{imported}})
			}
			if got := slices.Concat(upward(packages), cycles(packages)); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
