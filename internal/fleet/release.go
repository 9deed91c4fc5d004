package fleet

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
)

// DefaultRelease is the release whose pages are compared with a real server's.
const DefaultRelease = vllm.DefaultRelease

// imitated lists the releases without a patch number that stand for another patch than 0.
var imitated = map[engine.Release]engine.Release{"0.9": "0.9.2", "0.10": "0.10.2"}

// ParseRelease reads "0.23", "0.10.2" or "v0.23.0". The metrics of 0.9.2 to 0.33 are imitated.
func ParseRelease(s string) (engine.Release, error) {
	const way = "choose one of 0.10.2, 0.12, 0.16, 0.20, 0.23, 0.33"
	r, err := engine.ParseRelease(s)
	if err != nil {
		return "", hint.With(err, way)
	}
	if patched, ok := imitated[r]; ok {
		r = patched
	}
	if r = r.Full(); r.AtLeast("0.9.2") && engine.Release(vllm.Newest).Minor().AtLeast(r.Minor()) {
		return r, nil
	}
	return "", hint.With(fmt.Errorf("the metrics of vLLM %s are not imitated", r), way)
}
