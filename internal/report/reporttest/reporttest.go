// Package reporttest checks what package report prints.
package reporttest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// FitsTheScreen checks that the short answer of a diagnosis leaves room on a terminal of 80
// columns and 24 lines, and begins with the verdict.
func FitsTheScreen(t *testing.T, name string, d diagnose.Diagnosis) {
	t.Helper()
	var b bytes.Buffer
	if err := report.Text(&b, d, report.Options{Again: "sixty diagnose http://vllm-0:8000"}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, d.Verdict.ID) {
		t.Errorf("%s: the first line is not the verdict %s:\n%s", name, d.Verdict.ID, text)
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
