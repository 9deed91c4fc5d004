package engine

import (
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{
		"0.23.0": "0.23.0", "v0.23.1": "0.23.1", " 0.23 ": "0.23", "1.0": "1.0",
		"": "", "23": "", "0.x": "", "latest": "", "0.23.0.1": "", "0.-1": "", "0.023": "", "0.23rc1": "",
	} {
		got, err := ParseRelease(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseRelease(%q) = %q, %v; want %q", text, got, err, want)
		}
		if err != nil && hint.Of(err) == "" {
			t.Errorf("ParseRelease(%q): no way out: %v", text, err)
		}
	}
}

func TestFindRelease(t *testing.T) {
	for text, want := range map[string]Release{
		"0.20 or later, before 0.30": "0.20", "0.24.0rc1": "0.24.0", "v0.32.1+cu130": "0.32.1", "dev": "", "": "",
	} {
		if got := FindRelease(text); got != want {
			t.Errorf("FindRelease(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestReleasesAreOrdered(t *testing.T) {
	order := []Release{"", "0.8", "0.9.2", "0.10", "0.10.2", "0.23.0", "1.0"}
	for i, r := range order[1:] {
		if before := order[i]; r.Compare(before) != 1 || before.AtLeast(r) || !r.AtLeast(before) {
			t.Errorf("%q is not after %q", r, before)
		}
	}
	if r := Release("0.23"); r.Compare("0.23.0") != 0 || r.Full() != "0.23.0" || Release("0.23.4").Minor() != r {
		t.Errorf("%q, in full %q", r, r.Full())
	}
}
