package dialect

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/engine"
	"github.com/sixty-dev/sixty/internal/hint"
)

// The releases that dialects without one stand for, and those at which pages
// changed their ways.
const (
	lastV0      = "0.8.2"  // the last release whose V0 engine showed all of its names
	firstV1     = "0.8"    // from here on V1 is what a server runs by default
	withCreated = "0.11.1" // _created series
	sanitized   = "0.11"   // Ray's prefix without a colon
)

const namedHint = "name one of vllm-v1, vllm-v0, vllm-v1-ray, vllm-v0-ray, vllm-v1-kserve, vllm-v1-normalized, sglang, dcgm, or a release such as vllm-0.10"

// Named returns the dialect of servers that are not at hand: as Detect would
// find it on the page of such a server with its features at their defaults.
//
// An id is that of a Dialect ("vllm-v1", "vllm-v0", "sglang", "dcgm"), where
// vllm-v1 means the newest release known, or a release of vLLM ("vllm-0.10",
// "vllm-0.10.2"); both may end in -ray, -kserve or -normalized.
func Named(id string) (Dialect, error) {
	for _, e := range engines {
		if id == string(e.engine) && e.page != nil {
			return detected(e.page())
		}
	}
	rest, ok := strings.CutPrefix(id, "vllm-")
	release, suffix, _ := strings.Cut(rest, "-")
	if suffix != "" {
		suffix = "-" + suffix
	}
	v0 := release == "v0"
	asked := ""
	switch release {
	case "v1":
		release = Newest
	case "v0":
		release = lastV0
	default:
		if ok = ok && isRelease(release); ok && newer(release, Newest) {
			return Dialect{}, hint.With(fmt.Errorf("dialect %q: the newest release of vLLM whose names are known is %s", id, Newest), "use vllm-v1 for newer ones, or look at a server that runs")
		}
		asked, v0 = release, newer(firstV1, release)
	}
	prefix, known := prefixOf(suffix, release)
	if !ok || !known {
		return Dialect{}, hint.With(fmt.Errorf("unknown dialect %q", id), namedHint)
	}
	d, err := detected(vllmPage(prefix, release, v0))
	if asked != "" {
		d.Version = asked
	}
	return d, err
}

func detected(page []string) (Dialect, error) {
	d, ok := Detect(page)
	if !ok {
		return d, fmt.Errorf("no dialect fits %d names", len(page))
	}
	return d, nil
}

// isRelease reports whether a text is one of vLLM's releases from the first one
// with metrics, written 0.MINOR or 0.MINOR.PATCH.
func isRelease(text string) bool {
	r, err := engine.ParseRelease(text)
	return err == nil && string(r) == text && newer(text, "0.2.6")
}

// prefixOf returns the prefix that a dialect's suffix stands for.
func prefixOf(suffix, release string) (string, bool) {
	switch suffix {
	case "-ray":
		if newer(sanitized, release) {
			return "ray_vllm:", true
		}
		return "ray_vllm_", true
	case "-kserve":
		return "kserve_vllm:", true
	case "-normalized":
		return "vllm_", true
	}
	return canonical, suffix == ""
}

// vllmPage returns the names on the metrics page of a release of vLLM.
func vllmPage(prefix, release string, v0 bool) []string {
	ray := strings.HasPrefix(prefix, "ray_")
	created := !v0 && !ray && !newer(withCreated, release)
	var page []string
	for _, n := range table() {
		switch n.kind {
		case bothNames:
		case v0Names:
			if !v0 {
				continue
			}
		case v1Names:
			if v0 {
				continue
			}
		case httpNames, processNames:
			if ray || v0 && n.kind == httpNames { // Ray exports the engine's metrics alone
				continue
			}
		default:
			continue
		}
		if n.Needs != "" || !n.released(release) {
			continue
		}
		for _, name := range n.samples(created) {
			if rest, ok := strings.CutPrefix(name, canonical); ok {
				name = prefix + rest
			}
			page = append(page, name)
		}
	}
	return page
}
