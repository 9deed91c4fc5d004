package engine

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/sixty-dev/sixty/internal/hint"
)

// A Release is a release of vLLM, "0.23.0" or, where its patch is not known,
// "0.23"; "" is not known.
type Release string

// DefaultRelease is the release whose rules are simulated and whose metrics are
// imitated where none is named: that of the servers that recordings were made of.
const DefaultRelease Release = "0.23.0"

// Releases in which vLLM changed something that is simulated, accounted for or
// imitated. Which release has which flag is in flags, which release shows which
// metric in package dialect.
const (
	V1ByDefault              Release = "0.8"    // the V1 engine, whose scheduler is simulated
	AsyncSchedulingByDefault Release = "0.14"   // --async-scheduling
	SortsToSample            Release = "0.11.1" // FlashInfer's sampler has to be asked for (v1/sample/ops/topk_topp_sampler.py)
	SamplesWithoutSorting    Release = "0.17"   // a Triton kernel for top-k and top-p, from 0.23 on FlashInfer's
	SamplesWithFlashInfer    Release = "0.23"   // by default, and the Triton kernel without it
	MarlinOnTuring           Release = "0.14"   // FP8 and AWQ through Marlin on compute capability 7.5
	FullPromptReserved       Release = "0.19"   // scheduler_reserve_full_isl, by a resolved configuration of 0.19.0
	UtilizationIs92Percent   Release = "0.20"   // --gpu-memory-utilization, 0.9 before
	CUDAGraphsInBudget       Release = "0.21"   // of memory (v1/worker/gpu_worker.py)
	CapacityByRequests       Release = "0.23"   // "GPU KV cache size" counts requests of max_model_len
	LargerBatchesFrom160GiB  Release = "0.28"   // of memory (engine/arg_utils.py, get_batch_defaults)
	LimitsQueuedRequests     Release = "0.29"   // --max-num-queued-reqs
)

// Utilization returns the default of --gpu-memory-utilization.
func (r Release) Utilization() float64 {
	if r.AtLeast(UtilizationIs92Percent) {
		return 0.92
	}
	return 0.9
}

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

// FindRelease returns the first release in a text, such as the oldest of the range
// "0.20 or later, before 0.30" that a server's metrics show; "" where there is none.
func FindRelease(text string) Release {
	if r := Release(releaseNumber.FindString(text)); r.Valid() {
		return r
	}
	return ""
}

// Compare returns -1, 0 or 1 for a release before, equal to or after another.
// "0.23" is 0.23.0, and one that is not known comes before all others.
func (r Release) Compare(other Release) int { return semver.Compare("v"+string(r), "v"+string(other)) }

// AtLeast reports whether the release is another one or comes after it.
func (r Release) AtLeast(other Release) bool { return r.Compare(other) >= 0 }

// Minor returns the release without its patch, "0.23", as whose any patch counts.
func (r Release) Minor() Release {
	return Release(strings.TrimPrefix(semver.MajorMinor("v"+string(r)), "v"))
}

// Full returns the release with its patch, "0.23.0", as /version tells it.
func (r Release) Full() Release {
	return Release(strings.TrimPrefix(semver.Canonical("v"+string(r)), "v"))
}

// Valid reports whether r is the name of a release.
func (r Release) Valid() bool { return semver.IsValid("v" + string(r)) }
