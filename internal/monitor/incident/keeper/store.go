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

// The store is a directory with one directory for each incident, named by its ID, which holds these files. Each file is
// written whole under a temporary name first: a killed process leaves the old file or the new one.
const (
	recordFile    = "incident.json"
	diagnosisFile = "diagnosis.json"   // sixty.diagnosis/v1, of the time at which the recording ends
	evidenceFile  = "evidence.tar.zst" // a recording for sixty diagnose
	asideDir      = "set-aside"        // for incidents that cannot be read
	maxRecord     = 4 << 20            // bytes of a record
	maxDocument   = 16 << 20           // bytes of a diagnosis
	temporaryMark = "."                // temporary names begin with it
)

type fileStore struct {
	dir string
	// write puts a file in its place. Tests let it fail.
	write func(path string, write func(io.Writer) error) error
}

// validID matches the IDs that a Tracker gives.
var validID = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{4}-[a-zA-Z0-9_-]{1,100}$`)

// openStore reads a directory, and creates it if necessary. Incidents that cannot be read are set aside with a warning.
func openStore(dir string) (s *fileStore, records []*incident.Record, warnings []string, err error) {
	s = &fileStore{dir: dir, write: fileio.Write}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, nil, hint.With(fmt.Errorf("open the incidents: %w", fileio.StripOp(err)),
			"name a writable directory")
	}
	ids, err := s.listIDs()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open the incidents: %w", err)
	}
	for _, id := range ids {
		empty, err := s.removeLeftovers(id)
		if empty {
			continue
		}
		var r *incident.Record
		if err == nil {
			r, err = s.loadRecord(id)
		}
		if err != nil {
			warnings = append(warnings, s.setAside(id, err))
			continue
		}
		records = append(records, r)
	}
	return s, records, warnings, nil
}

// listIDs returns the names of the incidents' directories.
func (s *fileStore) listIDs() (out []string, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if e.IsDir() && validID.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, fileio.StripOp(err)
}

// removeLeftovers removes the temporary files of a killed process, and the directory if nothing else is in it: empty
// reports that.
func (s *fileStore) removeLeftovers(id string) (empty bool, err error) {
	incidentDir := filepath.Join(s.dir, id)
	files, err := os.ReadDir(incidentDir)
	empty = err == nil
	for _, f := range files {
		if strings.HasPrefix(f.Name(), temporaryMark) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(incidentDir, f.Name())))
		} else {
			empty = false
		}
	}
	if empty && err == nil {
		err = os.Remove(incidentDir)
	}
	return empty && err == nil, fileio.StripOp(err)
}

// loadRecord reads a record.
func (s *fileStore) loadRecord(id string) (*incident.Record, error) {
	b, err := fileio.Read(s.filePath(id, recordFile), maxRecord)
	if err != nil {
		return nil, err
	}
	r := new(incident.Record)
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	if err := validateRecord(r, id); err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	r.HasRecording = s.hasFile(id, evidenceFile)
	return r, nil
}

// validateRecord returns an error for a record that cannot have been written here. It replaces null lists.
func validateRecord(r *incident.Record, id string) error {
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

// setAside moves the directory of an unreadable incident to asideDir, so that nothing is lost. It returns the warning.
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

// hasFile reports whether an incident has a file that is not empty.
func (s *fileStore) hasFile(id, file string) bool {
	info, err := os.Stat(s.filePath(id, file))
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

func (s *fileStore) filePath(id, file string) string { return filepath.Join(s.dir, id, file) }

// saveRecord writes a record.
func (s *fileStore) saveRecord(r *incident.Record) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return s.writeFile(r.ID, recordFile, b)
}

// writeFile writes a file of an incident so that it survives a loss of power.
func (s *fileStore) writeFile(id, file string, content []byte) error {
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

// saveDiagnosis writes the diagnosis of an incident as JSON.
func (s *fileStore) saveDiagnosis(id string, d diagnose.Diagnosis) error {
	var b bytes.Buffer
	if err := report.JSON(&b, d, report.Options{}); err != nil {
		return err
	}
	return s.writeFile(id, diagnosisFile, b.Bytes())
}

// readDiagnosis reads the stored diagnosis of an incident. It returns nil without one.
func (s *fileStore) readDiagnosis(id string) (json.RawMessage, error) {
	b, err := fileio.Read(s.filePath(id, diagnosisFile), maxDocument)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !json.Valid(b):
		return nil, fmt.Errorf("%s is damaged", diagnosisFile)
	}
	return bytes.TrimSpace(b), nil
}

// prune removes closed incidents beyond the number and the age of c, and then recordings of closed incidents beyond its
// size, the oldest first. It returns the records that stay, the latest first.
func (s *fileStore) prune(stored []*incident.Record, now time.Time, c *Config) (kept []*incident.Record, err error) {
	kept = slices.SortedStableFunc(slices.Values(stored), incident.Latest)
	for i := len(kept) - 1; i >= 0; i-- {
		r := kept[i]
		if r.Open() || len(kept) <= c.MaxIncidents && now.Sub(*r.Ended) <= c.Retention {
			continue
		}
		if removeErr := os.RemoveAll(filepath.Join(s.dir, r.ID)); removeErr != nil {
			err = errors.Join(err, fileio.StripOp(removeErr))
			continue
		}
		kept = slices.Delete(kept, i, i+1)
	}
	size := int64(0)
	for _, r := range kept {
		path := s.filePath(r.ID, evidenceFile)
		info, statErr := os.Stat(path)
		if statErr != nil {
			continue
		}
		if size += info.Size(); size <= c.MaxEvidence || r.Open() {
			continue
		}
		if removeErr := os.Remove(path); removeErr != nil {
			err = errors.Join(err, fileio.StripOp(removeErr))
			continue
		}
		size -= info.Size()
		r.HasRecording = false
	}
	return kept, err
}
