package pathologies_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// TestRunbooksKeepTheStepsThatPeopleKnow holds the runbooks to testdata/steps.yaml.
func TestRunbooksKeepTheStepsThatPeopleKnow(t *testing.T) {
	text, err := os.ReadFile("testdata/steps.yaml")
	must.Succeed(t, err)
	var known map[string][]string
	must.Succeed(t, yaml.Unmarshal(text, &known))
	if len(known) < 10 {
		t.Fatalf("%d runbooks", len(known))
	}
	for id, steps := range known {
		p := strings.ToLower(byID(id).Runbook)
		for _, step := range steps {
			if !hasParagraph(p, strings.Fields(strings.ToLower(step))) {
				t.Errorf("%s: no paragraph with all of %q", id, step)
			}
		}
	}
}

// hasParagraph reports whether one paragraph, list item or table row has all words.
func hasParagraph(page string, words []string) bool {
	var paragraph strings.Builder
	all := func() bool {
		for _, w := range words {
			if !strings.Contains(paragraph.String(), w) {
				return false
			}
		}
		return true
	}
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "|") ||
			len(text) > 2 && text[0] >= '0' && text[0] <= '9' && text[1] == '.' {
			if all() {
				return true
			}
			if text != "" || !strings.HasSuffix(strings.TrimSpace(paragraph.String()), ":") {
				paragraph.Reset() // code after a colon belongs to the text
			}
		}
		paragraph.WriteString(line)
	}
	return all()
}
