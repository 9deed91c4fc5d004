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

// maxFiles bounds what a directory may hold.
const maxFiles = 2000

var extensions = []string{".yaml", ".yml", ".json", ".rules"}

func hasExtension(path string) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(path)))
}

// Paths are the named files and directories. Each file is taken for what it holds, whichever flag names it.
type Paths struct {
	Named         []string
	SkipUnrelated bool // that no file holds rules or a dashboard is no error
}

// Add adds a file or a directory.
func (p *Paths) Add(path string) error {
	p.Named = append(p.Named, path)
	return nil
}

// Sort takes the files out of arguments, such as a shell makes of *.yaml, and
// returns the others: servers and a recording.
func (p *Paths) Sort(args []string) (targets []string) {
	for _, a := range args {
		if source.OnDisk(a) && (hasExtension(a) || holdsFiles(a)) {
			p.Named = append(p.Named, a)
			continue
		}
		targets = append(targets, a)
	}
	return targets
}

// holdsFiles reports whether a directory is one of rules and dashboards: it has files of
// their kinds, and no scrapes as a recording has.
func holdsFiles(dir string) bool {
	scrapes, _ := filepath.Glob(filepath.Join(dir, "*", "*.prom*"))
	names, _ := expand(dir)
	return len(scrapes) == 0 && len(names) > 0 && names[0] != dir
}

// Any reports whether a file was named.
func (p *Paths) Any() bool { return len(p.Named) > 0 }

// A Reading holds what was read from the files.
type Reading struct {
	Docs   []*files.Document
	Errors []error // files without readable rules or dashboards
	Notes  []string
}

// Read reads the files, each once. One that is neither rules nor a dashboard is skipped, and noted.
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

// expand returns the files under a directory, or the file itself. Links to
// directories and hidden directories are not followed.
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

// OfRelease returns the surface of servers that cannot be reached, by their dialect; without one, of all newest ones.
func OfRelease(ids ...string) (d *Deployment, err error) {
	d = &Deployment{}
	d.Surface, err = checks.SurfaceOf(ids...)
	return d, err
}

// Audit judges the deployment with files and the rules of its server, and repairs the
// files where that was asked for.
func (d *Deployment) Audit(read Reading, fix bool, ignore ...string) (*audit.Report, error) {
	r := &audit.Report{Surface: d.Surface, Errors: read.Errors}
	docs := slices.Concat(read.Docs, d.Rules)
	if fix {
		found := checks.Lint(read.Docs, d.Surface, ignore...)
		for i, doc := range read.Docs {
			fixed, repaired := checks.Fix(doc, found)
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
