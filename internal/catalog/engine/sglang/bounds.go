package sglang

import "strings"

// Bounds returns the finite upper bounds of a histogram's buckets, in seconds; nil if they are unknown. Source:
// TokenizerMetricsCollector in SGLang 0.5.3 and later. --bucket-time-to-first-token and similar flags replace them,
// so a page takes precedence.
func Bounds(family string) []float64 {
	late := []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	switch strings.TrimPrefix(family, Engine.Prefix) {
	case "time_to_first_token_seconds":
		return late
	case "e2e_request_latency_seconds":
		return append(late, 600, 1200, 1800, 2400)
	case "inter_token_latency_seconds":
		return []float64{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}
	}
	return nil
}
