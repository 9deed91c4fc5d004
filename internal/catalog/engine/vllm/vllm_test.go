package vllm

import "testing"

func TestNewer(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"0.10.2", "0.9.2", true},
		{"0.9.2", "0.10.2", false},
		{"0.11.1", "0.11", true},
		{"0.11", "0.11.1", false},
		{"0.11", "0.11", false},
		{"0.3", "", true},
		{"", "0.3", false},
		{"0.12rc1", "0.11", true},
	} {
		if got := isNewer(tt.a, tt.b); got != tt.want {
			t.Errorf("newer(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}

func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		family, release string
		last            float64 // 0: not known
	}{
		{"vllm:time_to_first_token_seconds", "", 2560},
		{"vllm:time_to_first_token_seconds", "0.8.3", 10},
		{"ray_vllm_request_queue_time_seconds", "0.33.0", 7680},
		{"vllm:request_prompt_tokens", "", 0},
		{"time_to_first_token_seconds", "", 0},
	} {
		last := 0.0
		if b := Bounds(tc.family, tc.release); len(b) > 0 {
			last = b[len(b)-1]
		}
		if last != tc.last {
			t.Errorf("%s of %q: ends at %v, want %v", tc.family, tc.release, last, tc.last)
		}
	}
}

func TestTheUtilizationGrew(t *testing.T) {
	if Utilization("0.19.1") != 0.9 || Utilization("0.20") != 0.92 {
		t.Error("--gpu-memory-utilization is another by default")
	}
}
