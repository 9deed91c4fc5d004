package vllm

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

func TestTakes(t *testing.T) {
	for _, tt := range []struct {
		version, flag string
		want          bool
	}{
		{"0.23.0", engine.Watermark, false},
		{"0.24.0", engine.Watermark, true},
		{"0.24.0rc1", engine.Watermark, true},
		{"v0.32.1", engine.Watermark, true},
		{"0.20 or later, before 0.30", engine.Watermark, false}, // it may be 0.23
		{"0.24 or later, before 0.27", engine.Watermark, true},
		{"0.30 or later", engine.MaxQueuedRequests, true},
		{"0.20 or later", engine.MaxQueuedRequests, false},
		{"", engine.Watermark, false},
		{"", engine.MaxNumSeqs, true},
		{"0.9.2", engine.Watermark, false},
		{"0.9.2", engine.MaxNumSeqs, true},
		{"1.0.0", engine.Watermark, true},
		{"dev", engine.Watermark, false},
		{"0.32.0", "no-such-flag", false},
	} {
		if got := flags.Accepts(tt.version, tt.flag); got != tt.want {
			t.Errorf("%q takes --%s: %v, want %v", tt.version, tt.flag, got, tt.want)
		}
	}
}
