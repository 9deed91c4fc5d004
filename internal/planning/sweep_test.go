package planning

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

func TestParseSweep(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Axis
		err  string
	}{
		{"max-num-seqs=16,32,64", Axis{Parameter: "max-num-seqs", Values: []string{"16", "32", "64"}}, ""},
		{"--max_num_seqs = 16", Axis{Parameter: "max-num-seqs", Values: []string{"16"}}, ""},
		{"rate=1:2:0.5", Axis{Parameter: "rate", Values: []string{"1", "1.5", "2"}}, ""},
		{"rate=ramp:1-5:2m;steps:1,2:30s", Axis{Parameter: "rate", Values: []string{"ramp:1-5:2m", "steps:1,2:30s"}}, ""},
		{"prompt-tokens=lognormal:800,1.2;512", Axis{Parameter: "prompt-tokens", Values: []string{"lognormal:800,1.2", "512"}}, ""},
		{"prompt-tokens=128,512", Axis{Parameter: "prompt-tokens", Values: []string{"128", "512"}}, ""},
		{"num-gpu-blocks-override=100,200", Axis{Parameter: "num-gpu-blocks", Values: []string{"100", "200"}}, ""},
		{"rate=2:1:1", Axis{}, "has no values"},
		{"rate=1:2:0", Axis{}, "has no values"},
		{"cv=1:x:1", Axis{}, "not a number"},
		{"rate=1,,2", Axis{}, "empty or comes twice"},
		{"rate=1,1", Axis{}, "empty or comes twice"},
		{"rate", Axis{}, "no values"},
		{"tensor-parallel-size=1,2", Axis{}, "not a simulated setting"},
	} {
		got, err := ParseSweep(tt.text)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || hint.Of(err) == "" {
				t.Errorf("%q: error %v, want one with %q and a way out", tt.text, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", tt.text, err, diff)
		}
	}
}
