package vllm

import (
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// Upper bounds of vLLM's histograms (vllm/v1/metrics/loggers.py, 0.33.0), and the shorter ones before 0.8.4. From
// 0.32 on --custom-histogram-buckets may replace any bounds, so a page takes precedence.
var (
	ttftBounds = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
		640, 2560}
	itlBounds  = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	timeBounds = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	stepBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
)

var bounds = map[string]struct {
	bounds []float64
	before float64 // the last bound before 0.8.4
}{
	"time_to_first_token_seconds":           {ttftBounds, 10},
	"inter_token_latency_seconds":           {itlBounds, 80},
	"time_per_output_token_seconds":         {itlBounds, 2.5},
	"request_time_per_output_token_seconds": {itlBounds, 80},
	"e2e_request_latency_seconds":           {timeBounds, 60},
	"request_queue_time_seconds":            {timeBounds, 60},
	"request_inference_time_seconds":        {timeBounds, 60},
	"request_prefill_time_seconds":          {timeBounds, 60},
	"request_decode_time_seconds":           {timeBounds, 60},
	"iteration_tokens_total":                {stepBounds, 16384},
}

// Bounds returns the finite upper bounds of a histogram's buckets in a release of vLLM, "" for the newest. It returns
// nil if they are unknown, as for lengths, whose bounds end at the model's (LengthBounds).
func Bounds(family, release string) []float64 {
	canonical, prefix := Canonical(family)
	b, ok := bounds[strings.TrimPrefix(canonical, engine.Canonical)]
	if prefix == "" || !ok {
		return nil
	}
	out := slices.Clone(b.bounds)
	if release != "" && isNewer("0.8.4", release) {
		out = slices.DeleteFunc(out, func(v float64) bool { return v > b.before })
	}
	return out
}

// LengthBounds returns the finite upper bounds of histograms of a request's tokens, by the server's longest sequence:
// 1, 2, 5, 10, … (build_1_2_5_buckets).
func LengthBounds(longest int) []float64 {
	var out []float64
	for scale := 1.0; ; scale *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if m*scale > float64(longest) {
				return out
			}
			out = append(out, m*scale)
		}
	}
}
