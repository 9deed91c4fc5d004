package fleet

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/hint"
)

// A Release is a release of vLLM, all of which so far begin with 0: the minor
// number times a hundred plus the patch.
type Release int

// Releases at which the metrics page changed.
const (
	r0_6_4  Release = 6_04
	r0_7_3  Release = 7_03
	r0_9_2  Release = 9_02
	r0_10_2 Release = 10_02
	r0_11_0 Release = 11_00
	r0_11_1 Release = 11_01
	r0_11_2 Release = 11_02
	r0_12_0 Release = 12_00
	r0_13_0 Release = 13_00
	r0_14_0 Release = 14_00
	r0_16_0 Release = 16_00
	r0_17_0 Release = 17_00
	r0_19_1 Release = 19_01
	r0_20_0 Release = 20_00
	r0_23_0 Release = 23_00
	r0_24_0 Release = 24_00
	r0_27_0 Release = 27_00
	r0_29_0 Release = 29_00
	r0_30_0 Release = 30_00
	r0_32_0 Release = 32_00
	newest  Release = 33_99
)

// DefaultRelease is the one whose pages are compared with those of a real server.
const DefaultRelease = r0_23_0

// ParseRelease reads "0.23", "0.10.2" or "v0.23.0". Those whose metrics are
// imitated are the V0 engine of 0.6.4 to 0.6.6 and the V1 engine from 0.9.2 to
// 0.33.
func ParseRelease(s string) (Release, error) {
	way := "choose one of 0.6.6, 0.10.2, 0.12, 0.16, 0.20, 0.23, 0.33"
	parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
	if len(parts) < 2 || len(parts) > 3 || parts[0] != "0" {
		return 0, hint.With(fmt.Errorf("vLLM release %q: want a form like 0.23", s), way)
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil || minor < 0 || minor > 99 {
		return 0, hint.With(fmt.Errorf("vLLM release %q: want a form like 0.23", s), way)
	}
	r := Release(minor * 100)
	switch {
	case len(parts) == 3:
		patch, err := strconv.Atoi(parts[2])
		if err != nil || patch < 0 || patch > 99 {
			return 0, hint.With(fmt.Errorf("vLLM release %q: want a form like 0.23.0", s), way)
		}
		r += Release(patch)
	case minor == 6:
		r = 6_06
	case minor == 9 || minor == 10:
		r += 2
	}
	if r >= r0_6_4 && r <= 6_99 || r >= r0_9_2 && r <= newest {
		return r, nil
	}
	return 0, hint.With(fmt.Errorf("the metrics of vLLM %s are not imitated", r), way)
}

// String returns the form that vLLM's /version gives.
func (r Release) String() string { return fmt.Sprintf("0.%d.%d", r/100, r%100) }

// v0 reports whether the release's metrics are those of the V0 engine.
func (r Release) v0() bool { return r < r0_7_3 }

// has reports whether something that exists from since to until, both
// inclusive and open where zero, exists in the release.
func (r Release) has(since, until Release) bool {
	return r >= since && (until == 0 || r <= until)
}
