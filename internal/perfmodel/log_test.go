package perfmodel

import (
	"strings"
	"testing"
)

func TestLoadingTookIsTheLastStart(t *testing.T) {
	for _, tc := range []struct {
		name, log string
		want      float64 // GiB
	}{
		{"V1", "INFO 01-27 00:31:59 [gpu_model_runner.py:3905] Model loading took 64.38 GiB memory and 14.380607 seconds\n", 64.38},
		{"V0, in GB that are GiB", "INFO 01-30 03:18:12 gpu_model_runner.py:848] Loading model weights took 67.7229 GB", 67.7229},
		{"two starts", "Model loading took 10 GiB\nModel loading took 12.5 GiB\n", 12.5},
		{"none", "nothing of the kind\n", 0},
		{"a line without an end", strings.Repeat("x", 1<<20), 0},
		{"no number", "Model loading took ... GiB\n", 0},
	} {
		got, err := LoadingTook(strings.NewReader(tc.log))
		if err != nil || got != tc.want*gib {
			t.Errorf("%s: %v GiB, %v; want %v", tc.name, got/gib, err, tc.want)
		}
	}
}

func FuzzLoadingTook(f *testing.F) {
	f.Add("Model loading took 64.38 GiB memory and 14.380607 seconds")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := LoadingTook(strings.NewReader(s)); err != nil || v < 0 || v >= 1<<50 {
			t.Errorf("%v, %v", v, err)
		}
	})
}

func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"80GiB", "81559MiB", "80 GB", "1e300GiB", "-1GiB", "GiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := ParseMemory(s); ok && !(v > 0 && v <= 1<<50) {
			t.Errorf("%q is %v bytes", s, v)
		}
	})
}
