package fleet

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// DefaultRelease is the one whose pages are compared with those of a real server.
const DefaultRelease = vllm.DefaultRelease

// imitated are releases without a patch, of which another than 0 is meant.
var imitated = map[engine.Release]engine.Release{"0.6": "0.6.6", "0.9": "0.9.2", "0.10": "0.10.2"}

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
	if r = r.Full(); has(r, "0.6.4", "0.6.99") || has(r, "0.9.2", "") && engine.Release(vllm.Newest).Minor().AtLeast(r.Minor()) {
		return r, nil
	}
	return "", hint.With(fmt.Errorf("the metrics of vLLM %s are not imitated", r), way)
}

// v0 reports whether the release's metrics are those of the V0 engine.
func v0(r engine.Release) bool { return !r.AtLeast("0.7.3") }

// has reports whether something that exists from since to until, both
// inclusive and open where "", exists in a release.
func has(r, since, until engine.Release) bool {
	return r.AtLeast(since) && (until == "" || until.AtLeast(r))
}
