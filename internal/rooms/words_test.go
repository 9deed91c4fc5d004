package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// houseWords are what the program and its documents once said in words of their own, and what
// people say. Code in backquotes is left alone.
var houseWords = map[string]string{
	`make-believe`:                 "simulated",
	`\b(falls?|fell|fallen) ill\b`: "fail",
	`\bcr(y|ies) wolf\b`:           "raise false alarms",
	`\btravell?ed with\b`:          "step through",
	`\bby right\b`:                 "legitimately",
	`\bas ever\b`:                  "as before",
	`\bnot any more\b`:             "no longer",
	`\bstrangers?\b`:               "other programs",
	`\bsays? more of\b`:            "for details",
	`\bwhatever was said\b`:        "even after printing results",
	`\bis none:|\band is none\b|\bthat are none\b`: "is not one",
	`\bTo have it\b`:                    "To enable",
	`\bIt worked when\b`:                "Confirm",
	`\b[Ll]ooks? after it\b`:            "Acknowledge",
	`\bnot fully there\b`:               "incomplete",
	`\bobservation began then\b`:        "since watching began",
	`\btells? (it )?nobody\b`:           "are not sent",
	`\bmakes sure\b`:                    "check with",
	`\bbecomes another one and stays\b`: "changes and holds",
}

// TestHouseWordsAreGone looks for them in what the program can print and in the documents.
func TestHouseWordsAreGone(t *testing.T) {
	banned := map[string]*regexp.Regexp{}
	for pattern := range houseWords {
		banned[pattern] = regexp.MustCompile(pattern)
	}
	code := regexp.MustCompile("`[^`\n]*`")
	checked := 0
	check := func(path string, texts ...string) {
		for _, text := range texts {
			checked++
			for pattern, re := range banned {
				if m := re.FindString(code.ReplaceAllString(text, "")); m != "" {
					t.Errorf("%s: %q; people say %q", path, m, houseWords[pattern])
				}
			}
		}
	}
	read := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		check(path, string(text))
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil || d.IsDir():
			return err
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			check(path, literals(t, path)...)
		case name == "runbook.md", name == "scenario.yaml", filepath.Base(filepath.Dir(path)) == "help":
			read(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			read(page)
		}
	}
	if checked < 5000 {
		t.Errorf("%d texts: were they found?", checked)
	}
}
