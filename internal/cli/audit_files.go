package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/audit"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/source"
)

// maxAuditFiles bounds what a directory may hold.
const maxAuditFiles = 2000

// sortArguments tells the servers and the recording among the arguments from
// files that a shell made of --rules *.yaml.
func sortArguments(args []string) (targets, files []string) {
	for _, a := range args {
		if ext := strings.ToLower(filepath.Ext(a)); source.OnDisk(a) && slices.Contains(auditExtensions, ext) {
			files = append(files, a)
			continue
		}
		targets = append(targets, a)
	}
	return targets, files
}

var auditExtensions = []string{".yaml", ".yml", ".json", ".rules"}

// files reads what --rules, --dashboards and the arguments name. What stands in
// a directory or among the arguments is taken for what it is.
func (f *auditFlags) files(stderr io.Writer) ([]audit.File, error) {
	var out []audit.File
	seen := map[string]bool{}
	for _, given := range []struct {
		paths []string
		kind  audit.FileKind
		named string
	}{{f.rules, audit.Rules, "--rules: "}, {f.dashboards, audit.Dashboards, "--dashboards: "}, {f.more, "", ""}} {
		for _, path := range given.paths {
			names, err := expand(path)
			if err != nil {
				return nil, fmt.Errorf("%s%w", given.named, err)
			}
			for _, name := range names {
				if seen[name] {
					continue
				}
				seen[name] = true
				data, err := readBounded(name)
				if err != nil {
					return nil, fmt.Errorf("%s%w", given.named, err)
				}
				file := audit.File{Name: name, Data: data, Kind: given.kind}
				if given.kind == "" || name != path {
					file.Kind = audit.KindOf(data)
					if f.skipUnrelated && audit.IsTemplate(data) {
						file.Kind = ""
					}
					if file.Kind == "" {
						notes(stderr, []string{name + " is skipped: it holds neither rules nor a dashboard"})
						continue
					}
				}
				out = append(out, file)
			}
		}
	}
	if len(out) == 0 && f.anyFile() && !f.skipUnrelated {
		return nil, hint.With(errors.New("no rules and no dashboards in the files"), "check the paths")
	}
	return out, nil
}

// expand returns the files under a directory, or the file itself. Links to
// directories and hidden directories are not followed.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, hint.With(fileio.Bare(err), "check the path")
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fileio.Bare(err)
		case e.IsDir() && name != path && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.Type().IsRegular() && slices.Contains(auditExtensions, strings.ToLower(filepath.Ext(name))):
			if out = append(out, name); len(out) > maxAuditFiles {
				return hint.With(fmt.Errorf("%s: more than %d files", path, maxAuditFiles), "name a directory further down")
			}
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = hint.With(fmt.Errorf("%s: no .yaml, .yml or .json file in it", path), "name the files")
	}
	return out, err
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fileio.Bare(err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() > audit.MaxFile:
		return nil, fmt.Errorf("%s: larger than %d MiB", path, audit.MaxFile>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fileio.Bare(err)
	}
	return data, nil
}
