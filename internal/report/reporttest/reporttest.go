// Package reporttest checks what package report prints.
package reporttest

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

// signalName matches words that look like names of signals.
var signalName = regexp.MustCompile(`[a-z0-9]+(_[a-z0-9]+)+`)

// PlainWords checks that the texts of a diagnosis have the titles of signals, not their names.
func PlainWords(t *testing.T, name string, d diagnose.Diagnosis) {
	t.Helper()
	for i := range d.Findings {
		f := &d.Findings[i]
		texts := append([]string{f.Summary}, f.Reasons...)
		for _, x := range f.Fixes {
			texts = append(append(texts, x.Summary, x.Tradeoff, x.Verify), x.Arithmetic...)
		}
		for _, text := range texts {
			for _, word := range signalName.FindAllString(text, -1) {
				if word != indicator.MaxTokens.Name && slices.ContainsFunc(indicator.All(),
					func(s *indicator.Signal) bool { return s.Name == word }) {
					t.Errorf("%s: %s says %q for a signal that has a title: %s", name, f.Pathology.ID, word, text)
				}
			}
		}
	}
}

// FitsTheScreen checks that the short answer of a diagnosis fits 20 lines of 80 columns and begins with the verdict.
func FitsTheScreen(t *testing.T, name string, d diagnose.Diagnosis) {
	t.Helper()
	rendered := func(o report.Options) string {
		var b bytes.Buffer
		must.Succeed(t, report.Text(&b, d, o))
		return b.String()
	}
	text := rendered(report.Options{Commands: true})
	for line := range strings.Lines(text + rendered(report.Options{Full: true})) {
		if strings.TrimSpace(line) == "(baseline)" {
			t.Errorf("%s: the evidence is wrapped:\n%s", name, rendered(report.Options{Full: true}))
			break
		}
	}
	title := diagnose.NameOf(d.Verdict.ID)
	if f := d.LeadingFinding(&d.Verdict); f != nil {
		title = cmp.Or(f.Pathology.Name(), d.Verdict.ID)
	}
	if !strings.HasPrefix(text, title) {
		t.Errorf("%s: the first line is not the verdict %s:\n%s", name, title, text)
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
