package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestREADMEShowsWhatIsPrinted runs the commands whose output README shows.
func TestREADMEShowsWhatIsPrinted(t *testing.T) {
	t.Chdir("../..")
	readme := must.ReadFile(t, "README.md")
	shown := regexp.MustCompile("(?s)```text\n\\$ sixty ([^\n]*)\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(shown) == 0 {
		t.Fatal("README shows no output of a command")
	}
	for _, s := range shown {
		got, _, _ := sixty(t, strings.Fields(s[1])...) // an error is that something was found
		if diff := cmp.Diff(s[2], got); diff != "" {
			t.Errorf("sixty %s (-README +printed):\n%s", s[1], diff)
		}
	}
}
