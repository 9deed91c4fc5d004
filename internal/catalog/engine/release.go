package engine

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// A Release is a release of vLLM: "0.23.0", or "0.23" if its patch is unknown; "" is unknown.
type Release string

var releaseForm = regexp.MustCompile(`^v?(\d{1,4}\.\d{1,4}(\.\d{1,4})?)$`)

// ParseRelease reads "0.23.0", "v0.23.0" or "0.23".
func ParseRelease(text string) (Release, error) {
	m := releaseForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || !Release(m[1]).Valid() {
		return "", hint.With(fmt.Errorf("vLLM release %q is not one", text), "write it as 0.23 or 0.23.0")
	}
	return Release(m[1]), nil
}

var releaseNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// FindRelease returns the first release in a text, or "". In "0.20 or later, before 0.30" that is the oldest one.
func FindRelease(text string) Release {
	if r := Release(releaseNumber.FindString(text)); r.Valid() {
		return r
	}
	return ""
}

// Compare returns -1, 0 or 1 for a release before, equal to or after another. "0.23" is 0.23.0, and an unknown
// release comes before all others.
func (r Release) Compare(other Release) int { return semver.Compare("v"+string(r), "v"+string(other)) }

// AtLeast reports whether the release is another one or comes after it.
func (r Release) AtLeast(other Release) bool { return r.Compare(other) >= 0 }

// Minor returns the release without its patch, such as "0.23".
func (r Release) Minor() Release {
	return Release(strings.TrimPrefix(semver.MajorMinor("v"+string(r)), "v"))
}

// Full returns the release with its patch, "0.23.0", as /version has it.
func (r Release) Full() Release {
	return Release(strings.TrimPrefix(semver.Canonical("v"+string(r)), "v"))
}

// Valid reports whether r is the name of a release.
func (r Release) Valid() bool { return semver.IsValid("v" + string(r)) }
