package fleet

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
)

// Releases at which the metrics page changed.
const (
	r0_6_4  engine.Release = "0.6.4"
	r0_7_3  engine.Release = "0.7.3"
	r0_9_2  engine.Release = "0.9.2"
	r0_10_2 engine.Release = "0.10.2"
	r0_11_0 engine.Release = "0.11.0"
	r0_11_1 engine.Release = "0.11.1"
	r0_11_2 engine.Release = "0.11.2"
	r0_12_0 engine.Release = "0.12.0"
	r0_13_0 engine.Release = "0.13.0"
	r0_14_0 engine.Release = "0.14.0"
	r0_16_0 engine.Release = "0.16.0"
	r0_17_0 engine.Release = "0.17.0"
	r0_19_1 engine.Release = "0.19.1"
	r0_20_0 engine.Release = "0.20.0"
	r0_23_0 engine.Release = "0.23.0"
	r0_24_0 engine.Release = "0.24.0"
	r0_27_0 engine.Release = "0.27.0"
	r0_30_0 engine.Release = "0.30.0"
	r0_32_0 engine.Release = "0.32.0"
	newest  engine.Release = "0.33" // with all of its patches
)

// DefaultRelease is the one whose pages are compared with those of a real server.
const DefaultRelease = engine.DefaultRelease

// imitated are releases without a patch, of which another than 0 is meant.
var imitated = map[engine.Release]engine.Release{"0.6": "0.6.6", "0.9": r0_9_2, "0.10": r0_10_2}

// ParseRelease reads "0.23", "0.10.2" or "v0.23.0". Those whose metrics are
// imitated are the V0 engine of 0.6.4 to 0.6.6 and the V1 engine from 0.9.2 to
// 0.33.
func ParseRelease(s string) (engine.Release, error) {
	const way = "choose one of 0.6.6, 0.10.2, 0.12, 0.16, 0.20, 0.23, 0.33"
	r, err := engine.ParseRelease(s)
	if err != nil {
		return "", hint.With(err, way)
	}
	if patched, ok := imitated[r]; ok {
		r = patched
	}
	if r = r.Full(); has(r, r0_6_4, "0.6.99") || has(r, r0_9_2, "") && r.Minor().Compare(newest) <= 0 {
		return r, nil
	}
	return "", hint.With(fmt.Errorf("the metrics of vLLM %s are not imitated", r), way)
}

// v0 reports whether the release's metrics are those of the V0 engine.
func v0(r engine.Release) bool { return !r.AtLeast(r0_7_3) }

// has reports whether something that exists from since to until, both
// inclusive and open where "", exists in a release.
func has(r, since, until engine.Release) bool {
	return r.AtLeast(since) && (until == "" || until.AtLeast(r))
}
