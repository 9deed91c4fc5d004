//go:build e2e

// Package e2e drives real vLLM servers: it starts them, puts seeded load on
// them, hurts them, and scrapes them once a second meanwhile. TestRecord turns
// the scenarios of testdata/scenarios.yaml into the recordings under
// testdata/recordings, each with the truth about what was done; TestLive runs
// a command against a server while it is sick and checks its verdict, and
// TestPrometheus asks a Prometheus server that scrapes it.
//
// It measures no performance and judges nothing by itself: the verdicts in the
// scenarios are written by hand. It is built with -tags e2e only, needs Linux
// (/proc, SIGSTOP) and an installation of vLLM named by SIXTY_VLLM: a directory
// with a virtual environment in venv/ and a small model in model/. Without
// SIXTY_VLLM its tests skip.
package e2e
