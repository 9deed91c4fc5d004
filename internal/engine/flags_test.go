package engine

import "testing"

func TestTakes(t *testing.T) {
	for _, tt := range []struct {
		version, flag string
		want          bool
	}{
		{"0.23.0", Watermark, false},
		{"0.24.0", Watermark, true},
		{"0.24.0rc1", Watermark, true},
		{"v0.32.1", Watermark, true},
		{"0.20 or later, before 0.30", Watermark, false}, // it may be 0.23
		{"0.24 or later, before 0.27", Watermark, true},
		{"0.30 or later", MaxQueuedRequests, true},
		{"0.20 or later", MaxQueuedRequests, false},
		{"", Watermark, false},
		{"", MaxNumSeqs, true},
		{"0.9.2", Watermark, false},
		{"0.9.2", MaxNumSeqs, true},
		{"1.0.0", Watermark, true},
		{"dev", Watermark, false},
		{"0.32.0", "no-such-flag", false},
	} {
		if got := Takes(tt.version, tt.flag); got != tt.want {
			t.Errorf("%q takes --%s: %v, want %v", tt.version, tt.flag, got, tt.want)
		}
	}
}
