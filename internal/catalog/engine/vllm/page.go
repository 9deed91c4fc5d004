package vllm

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// Newest is the newest release whose names are known.
const Newest = "0.33.0"

// The releases that dialects without a release stand for, and the releases in which pages changed.
const (
	lastV0      = "0.8.2"  // the last release whose V0 engine showed all of its names
	firstV1     = "0.8"    // the first release that runs V1 by default
	withCreated = "0.11.1" // _created series
	sanitized   = "0.11"   // Ray's prefix without a colon
)

// releaseNames returns the names that a server with default features exposes. id is a dialect, where vllm-v1 means
// the newest known release, or a release ("vllm-0.10", "vllm-0.10.2"); both may end in -ray, -kserve or -normalized.
func releaseNames(id string) (names []string, asked string, err error) {
	rest, ok := strings.CutPrefix(id, "vllm-")
	release, suffix, _ := strings.Cut(rest, "-")
	if suffix != "" {
		suffix = "-" + suffix
	}
	v0 := release == "v0"
	switch release {
	case "v1":
		release = Newest
	case "v0":
		release = lastV0
	default:
		if ok = ok && isRelease(release); ok && isNewer(release, Newest) {
			return nil, "", hint.With(
				fmt.Errorf("dialect %q: the newest release of vLLM whose names are known is %s", id, Newest),
				"use vllm-v1 for newer ones, or look at a server that runs")
		}
		asked, v0 = release, isNewer(firstV1, release)
	}
	prefix, known := prefixOf(suffix, release)
	if !ok || !known {
		return nil, "", nil
	}
	return pageOf(prefix, release, v0), asked, nil
}

// isRelease reports whether a text is one of vLLM's releases from the first one
// with metrics, written 0.MINOR or 0.MINOR.PATCH.
func isRelease(text string) bool {
	r, err := engine.ParseRelease(text)
	return err == nil && string(r) == text && isNewer(text, "0.2.6")
}

// prefixOf returns the prefix that a dialect's suffix stands for.
func prefixOf(suffix, release string) (string, bool) {
	switch suffix {
	case "-ray":
		if isNewer(sanitized, release) {
			return "ray_vllm:", true
		}
		return "ray_vllm_", true
	case "-kserve":
		return "kserve_vllm:", true
	case "-normalized":
		return "vllm_", true
	}
	return engine.Canonical, suffix == ""
}

// pageOf returns the names on the metrics page of a release of vLLM.
func pageOf(prefix, release string, v0 bool) []string {
	ray := strings.HasPrefix(prefix, "ray_")
	created := !v0 && !ray && !isNewer(withCreated, release)
	var page []string
	for _, f := range families() {
		switch f.Kind {
		case bothEngines:
		case v0Engine:
			if !v0 {
				continue
			}
		case v1Engine:
			if v0 {
				continue
			}
		case frontend, process:
			if ray || v0 && f.Kind == frontend { // Ray exports only the engine's metrics
				continue
			}
		default: // a router's
			continue
		}
		if f.Needs != "" || !f.Released(release) {
			continue
		}
		for _, name := range f.Samples(created && f.Kind != process) {
			if rest, ok := strings.CutPrefix(name, engine.Canonical); ok {
				name = prefix + rest
			}
			page = append(page, name)
		}
	}
	return page
}
