package surface

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/audit"
	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/render"
)

// maxFiles bounds the files below a directory.
const maxFiles = 2000

var extensions = []string{".yaml", ".yml", ".json", ".rules"}

func hasExtension(path string) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(path)))
}

// Paths are the files and directories that a user named. A file's content decides what it is, not the flag that names
// it.
type Paths struct {
	Named         []string
	SkipUnrelated bool // files without rules or dashboards, and templates, are no error even if no other file is left
}

// Add adds a file or a directory.
func (p *Paths) Add(path string) error {
	p.Named = append(p.Named, path)
	return nil
}

// AddArguments adds those arguments that are files or directories of rules and dashboards. It returns the others:
// servers, or a recording.
func (p *Paths) AddArguments(args []string) (targets []string) {
	for _, a := range args {
		if source.OnDisk(a) && (hasExtension(a) || holdsFiles(a)) {
			p.Named = append(p.Named, a)
			continue
		}
		targets = append(targets, a)
	}
	return targets
}

// holdsFiles reports whether a path is a directory with files to audit and without the scrapes of a recording.
func holdsFiles(dir string) bool {
	scrapes, _ := filepath.Glob(filepath.Join(dir, "*", "*.prom*"))
	names, _ := expand(dir)
	return len(scrapes) == 0 && len(names) > 0 && names[0] != dir
}

// Any reports whether a file was named.
func (p *Paths) Any() bool { return len(p.Named) > 0 }

// A Reading is the content of all files.
type Reading struct {
	Docs   []*files.Document
	Errors []error // for files that do not parse
	Notes  []string
}

// Read reads the files, each once. Files without rules or dashboards are skipped, and a note counts them.
func (p *Paths) Read() (out Reading, err error) {
	var names, skipped []string
	var unrelated error
	for _, path := range p.Named {
		more, err := expand(path)
		if err != nil {
			return out, err
		}
		names = append(names, more...)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		data, err := fileio.Read(name, files.MaxFile)
		if err != nil {
			return out, err
		}
		doc, err := files.Read(name, data)
		switch {
		case errors.Is(err, files.ErrUnrelated) || p.SkipUnrelated && files.IsTemplate(data):
			skipped, unrelated = append(skipped, name), err
		case err != nil:
			out.Errors = append(out.Errors, err)
		default:
			out.Docs = append(out.Docs, doc)
		}
	}
	if n := len(skipped); n > 0 {
		out.Notes = []string{render.Plural(n, "file") + " without rules or a dashboard skipped, the first " +
			skipped[0]}
	}
	if len(names) > 0 && len(out.Docs)+len(out.Errors) == 0 && !p.SkipUnrelated {
		err = hint.With(errors.New("no rules and no dashboards in the files"), hint.Of(unrelated))
	}
	return out, err
}

// expand returns the files to audit below a directory, or the file itself. It skips hidden directories and links to
// directories.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, hint.With(fileio.StripOp(err), "check the path")
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fileio.StripOp(err)
		case e.IsDir() && name != path && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.Type().IsRegular() && hasExtension(name):
			if out = append(out, name); len(out) > maxFiles {
				return hint.With(fmt.Errorf("%s: more than %d files", path, maxFiles), "name a directory further down")
			}
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = hint.With(fmt.Errorf("%s: no .yaml, .yml or .json file in it", path), "name the files")
	}
	return out, err
}

// Audit judges the files and the rules of the deployment's Prometheus server. fix first repairs the files on disk.
// ignore lists IDs of checks.
func (d *Deployment) Audit(read Reading, fix bool, ignore ...string) (*audit.Report, error) {
	r := &audit.Report{Surface: d.Surface, Errors: read.Errors}
	docs := slices.Concat(read.Docs, d.Rules)
	if fix {
		findings := checks.Lint(read.Docs, d.Surface, ignore...)
		for i, doc := range read.Docs {
			fixed, repaired := checks.Fix(doc, findings)
			if repaired == 0 {
				continue
			}
			if err := fileio.Replace(doc.Name, fixed.Data); err != nil {
				return nil, err
			}
			docs[i], r.Repaired = fixed, r.Repaired+repaired
		}
	}
	for _, doc := range docs {
		r.Files = append(r.Files, doc.Name)
		for _, q := range doc.Queries {
			if q.Err != nil {
				r.Unjudged++
			}
		}
		r.Expressions += len(doc.Queries)
	}
	r.Findings = checks.Lint(docs, d.Surface, ignore...)
	if d.Surface.Live {
		r.Areas = audit.Checklist(d.Surface, docs, d.AllRules)
	}
	return r, nil
}
