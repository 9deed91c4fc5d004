// Package reporttest checks what package report prints.
package reporttest

import (
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/render"
)

// FitsTheScreen checks that a short answer leaves room on a terminal of 80 columns and 24
// lines, and begins with the verdict.
func FitsTheScreen(t *testing.T, name, verdict, text string) {
	t.Helper()
	if !strings.HasPrefix(text, verdict) {
		t.Errorf("%s: the first line is not the verdict %s:\n%s", name, verdict, text)
	}
	if n := strings.Count(text, "\n"); n > 20 {
		t.Errorf("%s takes %d lines:\n%s", name, n, text)
	}
	for line := range strings.Lines(text) {
		if n := render.Cells(strings.TrimSuffix(line, "\n")); n > render.DefaultWidth {
			t.Errorf("%s has a line of %d columns: %s", name, n, line)
		}
	}
}
