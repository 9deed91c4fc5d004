package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Add classifies arguments: "prometheus=URL" is a Prometheus-compatible server, an existing file or directory is a
// recording, and everything else is the address of a server. A missing path, or a missing name with a file extension,
// is an error.
func (s *Spec) Add(args ...string) error {
	for _, a := range args {
		prometheus, isPrometheus := strings.CutPrefix(a, "prometheus=")
		switch {
		case isPrometheus:
			if s.Prometheus != "" {
				return hint.With(errors.New("two Prometheus servers"), "give one at a time")
			}
			s.Prometheus = prometheus
		case OnDisk(a):
			if s.Recording != "" {
				return hint.With(fmt.Errorf("two recordings: %s and %s", s.Recording, a), "give one at a time")
			}
			s.Recording = a
		case namesFile(a):
			return hint.With(fmt.Errorf("%s: no such file", a),
				"check the path; a server is written HOST:PORT or http://HOST:PORT")
		default:
			s.URLs = append(s.URLs, a)
		}
	}
	return s.Check()
}

// namesFile reports whether an argument can only be meant as a file.
func namesFile(a string) bool {
	if strings.Contains(a, "://") {
		return false
	}
	for _, begins := range []string{"/", "./", "../", "~"} {
		if strings.HasPrefix(a, begins) {
			return true
		}
	}
	return slices.Contains(endings, strings.ToLower(filepath.Ext(a)))
}

// endings are the extensions by which a missing name is taken for a misspelt file.
var endings = []string{".tar", ".gz", ".tgz", ".zst", ".prom", ".yaml", ".yml", ".json", ".rules"}

var errTwoSources = errors.New("give URLs, a recording or --prometheus, not two of them")

// SourceCount returns how many different sources a Spec names.
func (s *Spec) SourceCount() int {
	n := 0
	for _, set := range []bool{len(s.URLs) > 0, s.Recording != "", s.Prometheus != ""} {
		if set {
			n++
		}
	}
	return n
}

// Check refuses a Spec that names two sources.
func (s *Spec) Check() error {
	if s.SourceCount() > 1 {
		return errTwoSources
	}
	return nil
}

// OnDisk reports whether there is a file or a directory of this name.
func OnDisk(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
