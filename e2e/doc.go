//go:build e2e

// Package e2e drives real vLLM servers: it starts them, sends seeded traffic, injects faults, and scrapes them once a
// second. TestRecord turns the scenarios of testdata/scenarios.yaml into the recordings under testdata/recordings, each
// with the truth about what was done. TestLive runs sixty against a sick server and checks its verdict. TestPrometheus
// does so through a Prometheus server.
//
// It measures no performance, and the verdicts in the scenarios are written by hand. It is built with -tags e2e only,
// and needs Linux (/proc, SIGSTOP) and an installation of vLLM: SIXTY_VLLM names a directory with a virtual environment
// in venv/ and a small model in model/. Without SIXTY_VLLM its tests skip.
package e2e
