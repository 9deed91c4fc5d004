package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/report"
)

// A store is a directory with one of each incident, which holds these files. Each is
// written whole under another name first, so that a process that is killed leaves the old
// one or the new one.
const (
	recordFile    = "incident.json"
	diagnosisFile = "diagnosis.json"   // sixty.diagnosis/v1, of the moment that the recording ends at
	evidenceFile  = "evidence.tar.zst" // a recording for sixty diagnose
	asideDir      = "set-aside"        // for what cannot be read
	maxRecord     = 4 << 20            // bytes of a record
	maxDocument   = 16 << 20           // bytes of a diagnosis
	temporaryMark = "."                // names of files that are being written begin with it
)

type fileStore struct {
	dir string
	// write puts a file in its place; tests let it fail.
	write func(path string, write func(io.Writer) error) error
}

// validID is what names of directories look like: all that Tracker gives.
var validID = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{4}-[a-zA-Z0-9_-]{1,100}$`)

// openStore reads a directory, and creates it if necessary. Unreadable incidents are set aside with a warning.
func openStore(dir string) (s *fileStore, records []*incident.Record, warnings []string, err error) {
	s = &fileStore{dir: dir, write: fileio.Write}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, nil, hint.With(fmt.Errorf("open the incidents: %w", fileio.StripOp(err)),
			"name a writable directory")
	}
	ids, err := s.ids()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open the incidents: %w", err)
	}
	for _, id := range ids {
		unbegun, err := s.sweep(id)
		if unbegun {
			continue
		}
		var r *incident.Record
		if err == nil {
			r, err = s.load(id)
		}
		if err != nil {
			warnings = append(warnings, s.setAside(id, err))
			continue
		}
		records = append(records, r)
	}
	return s, records, warnings, nil
}

// ids are the names of the directories that are ours.
func (s *fileStore) ids() (out []string, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if e.IsDir() && validID.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, fileio.StripOp(err)
}

// sweep removes what a killed process left behind, and the whole directory where nothing is in
// its place yet.
func (s *fileStore) sweep(id string) (unbegun bool, err error) {
	incidentDir := filepath.Join(s.dir, id)
	files, err := os.ReadDir(incidentDir)
	unbegun = err == nil
	for _, f := range files {
		if strings.HasPrefix(f.Name(), temporaryMark) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(incidentDir, f.Name())))
		} else {
			unbegun = false
		}
	}
	if unbegun && err == nil {
		err = os.Remove(incidentDir)
	}
	return unbegun && err == nil, fileio.StripOp(err)
}

// load reads a record.
func (s *fileStore) load(id string) (*incident.Record, error) {
	b, err := fileio.Read(s.filePath(id, recordFile), maxRecord)
	if err != nil {
		return nil, err
	}
	r := new(incident.Record)
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	if err := check(r, id); err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	r.HasRecording = s.has(id, evidenceFile)
	return r, nil
}

// check refuses a record that cannot have been written here.
func check(r *incident.Record, id string) error {
	switch {
	case r.ID != id:
		return fmt.Errorf("it is of %q", r.ID)
	case r.Began.IsZero(), r.Pathology == "", r.Severity == "", len(r.Evolution) == 0, r.State.LastSeen.IsZero():
		return errors.New("a required field is missing")
	}
	if r.Notes == nil {
		r.Notes = []view.Note{}
	}
	if r.Targets == nil {
		r.Targets = []string{}
	}
	return nil
}

// setAside moves an unreadable incident away, so that nothing is lost, and returns the warning.
func (s *fileStore) setAside(id string, why error) string {
	to := filepath.Join(s.dir, asideDir)
	err := os.MkdirAll(to, 0o755)
	for n := 0; err == nil; n++ {
		name := filepath.Join(to, id)
		if n > 0 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		if _, missing := os.Lstat(name); errors.Is(missing, fs.ErrNotExist) {
			if err = os.Rename(filepath.Join(s.dir, id), name); err == nil {
				return fmt.Sprintf("incident %s cannot be read and was moved to %s: %v", id, name, why)
			}
		}
	}
	return fmt.Sprintf("incident %s cannot be read and is left out: %v; moving it failed too: %v", id, why,
		fileio.StripOp(err))
}

func (s *fileStore) has(id, file string) bool {
	info, err := os.Stat(s.filePath(id, file))
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

func (s *fileStore) filePath(id, file string) string { return filepath.Join(s.dir, id, file) }

// save writes a record.
func (s *fileStore) save(r *incident.Record) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return s.put(r.ID, recordFile, b)
}

// put writes a file of an incident, and makes sure that it is there after a loss of power.
func (s *fileStore) put(id, file string, content []byte) error {
	incidentDir := filepath.Join(s.dir, id)
	if err := os.Mkdir(incidentDir, 0o755); err == nil {
		fileio.SyncDir(s.dir)
	} else if !errors.Is(err, fs.ErrExist) {
		return fileio.StripOp(err)
	}
	return s.write(s.filePath(id, file), func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// diagnosis writes a diagnosis of an incident as JSON.
func (s *fileStore) diagnosis(id, file string, d diagnose.Diagnosis) error {
	var b bytes.Buffer
	if err := report.JSON(&b, d, report.Options{}); err != nil {
		return err
	}
	return s.put(id, file, b.Bytes())
}

// document reads a diagnosis that was kept, nil without one.
func (s *fileStore) document(id, file string) (json.RawMessage, error) {
	b, err := fileio.Read(s.filePath(id, file), maxDocument)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !json.Valid(b):
		return nil, fmt.Errorf("%s is damaged", file)
	}
	return bytes.TrimSpace(b), nil
}

// prune removes the oldest closed records beyond a number and an age, and the oldest
// recordings beyond a size; it returns the records that stay.
func (s *fileStore) prune(stored []*incident.Record, now time.Time, c *Config) (kept []*incident.Record, err error) {
	kept = slices.SortedStableFunc(slices.Values(stored), incident.Latest)
	for i := len(kept) - 1; i >= 0; i-- {
		r := kept[i]
		if r.Open() || len(kept) <= c.MaxIncidents && now.Sub(*r.Ended) <= c.Retention {
			continue
		}
		if e := os.RemoveAll(filepath.Join(s.dir, r.ID)); e != nil {
			err = errors.Join(err, fileio.StripOp(e))
			continue
		}
		kept = slices.Delete(kept, i, i+1)
	}
	size := int64(0)
	for _, r := range kept {
		info, e := os.Stat(s.filePath(r.ID, evidenceFile))
		if e != nil {
			continue
		}
		if size += info.Size(); size <= c.MaxEvidence || r.Open() {
			continue
		}
		if e := os.Remove(s.filePath(r.ID, evidenceFile)); e != nil {
			err = errors.Join(err, fileio.StripOp(e))
			continue
		}
		size -= info.Size()
		r.HasRecording = false
	}
	return kept, err
}
