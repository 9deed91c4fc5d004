package profile

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestKernelsHaveTheirGroups(t *testing.T) {
	text := must.ReadFile(t, "testdata/kernels.yaml")
	var kernels map[string][]string
	must.Succeed(t, yaml.Unmarshal(text, &kernels))
	for _, want := range groupNames {
		if len(kernels[want]) == 0 {
			t.Errorf("no kernels of the group %s", want)
		}
		for _, name := range kernels[want] {
			if got := MeaningOf(name).Group.String(); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	if got := MeaningOf("").Group; got != Other {
		t.Errorf("no name: %s", got)
	}
}

// TestRulesAreWellFormed: words have no capitals, underscores or spaces, and every row has a source.
func TestRulesAreWellFormed(t *testing.T) {
	for _, r := range ruleTable() {
		for _, w := range r.words {
			if w != strings.ToLower(strings.ReplaceAll(w, "_", "")) || len(strings.Trim(w, "^*")) < 2 {
				t.Errorf("%s: %q", r.Group, w)
			}
		}
		if len(r.words) == 0 || r.source == "" || r.Group == Groups && r.Library == "" {
			t.Errorf("%+v", r)
		}
	}
}
