package sglang

import (
	"slices"
	"strings"
)

// Upper bounds of SGLang's histograms of latencies, from the TokenizerMetricsCollector of 0.5.3 and later.
// --bucket-time-to-first-token, --bucket-inter-token-latency and --bucket-e2e-request-latency replace
// them: believe a page, where there is one.
var bounds = map[string][]float64{
	"time_to_first_token_seconds": {.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400},
	"inter_token_latency_seconds": {.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8},
	"e2e_request_latency_seconds": {.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400},
}

// Bounds returns the finite upper bounds of a histogram's buckets, in seconds; nil where they are not
// known.
func Bounds(family string) []float64 {
	name, ok := strings.CutPrefix(family, Engine.Prefix)
	if !ok {
		return nil
	}
	return slices.Clone(bounds[name])
}
