// Package version says which build of sixty this is.
package version

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// release is the version of a release build, set by the linker:
// -ldflags "-X github.com/sixty-dev/sixty/internal/base/version.release=v1.2.3".
var release string

// unversioned is the version of tests and of sources outside a repository.
const unversioned = "devel"

// An Info identifies a build. Fields that the build does not know are empty.
type Info struct {
	Version  string `json:"version"`            // v1.2.3, a pseudo-version of Go modules, or "devel"
	Revision string `json:"revision,omitempty"` // the commit it was built from
	Date     string `json:"date,omitempty"`     // when the commit was made, RFC 3339
	Modified bool   `json:"modified,omitempty"` // the sources differed from the commit
	Go       string `json:"go"`                 // the release of Go, such as go1.26.0
	Platform string `json:"platform"`           // operating system and architecture, such as linux/amd64
}

// A Tool names, in JSON documents, the program that wrote them.
type Tool struct {
	Version string `json:"version"`
}

// Get describes the running build.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return describeBuild(build, release)
}

// released matches the versions of releases, and not the pseudo-versions that Go makes of commits.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$`)

// Ref returns the Git reference of this build's sources: the tag of its release, or main.
func (i Info) Ref() string {
	if released.MatchString(i.Version) {
		return i.Version
	}
	return "main"
}

// This names the running build for JSON documents.
func This() Tool { return Tool{Version: Get().Version} }

// String returns the program and its version, as pages name their author.
func (t Tool) String() string { return "sixty " + t.Version }

func describeBuild(build *debug.BuildInfo, release string) Info {
	i := Info{
		Version: cmp.Or(release, strings.Trim(build.Main.Version, "()"), unversioned),
		Go:      runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Revision = s.Value
		case "vcs.time":
			i.Date = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}

// Text writes one line for each known field, the version first.
func (v Info) Text(w io.Writer) error {
	fmt.Fprintf(w, "sixty %s\n", v.Version)
	if v.Revision != "" {
		modified := ""
		if v.Modified {
			modified = ", modified since"
		}
		fmt.Fprintf(w, "commit   %s of %s%s\n", v.Revision, v.Date, modified)
	}
	_, err := fmt.Fprintf(w, "go       %s\nplatform %s\n", v.Go, v.Platform)
	return err
}
