package rooms

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// houseWords are phrases that the program and its documents once used, and the usual words for
// them. Code in backquotes is left alone.
var houseWords = map[string]string{
	`make-believe|\bmade-up\b`:                     "simulated, synthetic",
	`\b(falls?|fell|fallen) ill\b`:                 "fail",
	`\bcr(y|ies) wolf\b`:                           "raise false alarms",
	`\btravell?ed with\b`:                          "step through",
	`\bby right\b`:                                 "legitimately",
	`\bas ever\b`:                                  "as before",
	`\bnot any more\b`:                             "no longer",
	`\bstrangers?\b`:                               "other programs",
	`\bsays? more of\b`:                            "for details",
	`\bwhatever was said\b`:                        "even after printing results",
	`\bis none:|\band is none\b|\bthat are none\b`: "is not one",
	`\bTo have it\b`:                               "To enable",
	`\bto switch on\b`:                             "to enable",
	`\bIt worked when\b`:                           "Confirm",
	`\b[Ll]ooks? after it\b`:                       "Acknowledge",
	`\bnot fully there\b`:                          "incomplete",
	`\bobservation began then\b`:                   "since watching began",
	`\btells? (it )?nobody\b`:                      "are not sent",
	`\bmakes sure\b`:                               "check with",
	`\bbecomes another one and stays\b`:            "changes and holds",
	`\b(is|are) no (fault|sign|proof|error|PromQL|URL|JSON|share|capacity|metric|test|flag)\b`: "is not a",
	`\b[Nn]obody's\b`:                                 "none",
	`\btold apart\b`:                                  "distinguished, detected",
	`\bwithout a word\b`:                              "silently",
	`\bmended\b`:                                      "fixed",
	`\b[Nn]ot one scrape\b`:                           "no scrape",
	`\bas it stands\b`:                                "literally",
	`\b(past|servers) at hand\b`:                      "the available history, these servers",
	`\bin the mean\b`:                                 "on average",
	`\bby lot\b`:                                      "at random",
	`\bthe (one hand|company)\b`:                      "the renderer, other programs",
	`\bjudgement\b`:                                   "the diagnosis, the evaluation",
	`\bsat through\b|\bforetells?\b`:                  "predict",
	`\bnothing says\b`:                                "is not known",
	`\bforms? of the weights\b`:                       "weight formats",
	`\b[Ll]eads nowhere\b`:                            "has no values",
	`\bis woken\b`:                                    "is paged",
	`\bfor it (is|has|was|would)\b`:                   "because it",
	`\bfor ever\b|\bany more\b`:                       "forever, no longer",
	`\bthe time was over\b`:                           "the time limit was reached",
	`\bbeside what is normal\b`:                       "compared with normal",
	`\bholds? no scrapes\b`:                           "has no scrapes",
	`\bspoiled (by|the result)\b`:                     "distorted",
	`\bsimulation of now\b`:                           "current behaviour",
	`\bbatches of down to\b`:                          "batches below … were never measured",
	`\bservers as they are\b`:                         "the current servers",
	`\b(processor|processor's) (time|use|seconds)\b`:  "CPU time, CPU use",
	`\bthe [0-9%sd]+ of now\b|\bones? of now\b`:       "the present …",
	`\bfrom then; nothing\b|\bevaluates no more\b`:    "from that time; its evaluations have stopped",
	`\bnobody set; |\bwhoever reaches\b`:              "defaults; anyone who can reach",
	`\bis no (hang|success|outage|slow prefill)\b`:    "is not a",
	`\bis a hiccup\b|\bbears? witness\b|\bill-made\b`: "means little, confirms",
	`\bLet the numbers speak\b`:                       "compare",
	`\bbeside the last healthy\b`:                     "compare with the last healthy",
}

// TestHouseWordsAreGone looks for them in what the program can print, in the page and in the
// documents.
func TestHouseWordsAreGone(t *testing.T) {
	banned := map[string]*regexp.Regexp{}
	for pattern := range houseWords {
		banned[pattern] = regexp.MustCompile(pattern)
	}
	code := regexp.MustCompile("`[^`\n]*`")
	comment := regexp.MustCompile(`(?m)(^|\s)//.*$|(?s)/\*.*?\*/`)
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
	read := func(path string) string {
		text, err := os.ReadFile(path)
		must.Succeed(t, err)
		return string(text)
	}
	walk := func(root string, visit func(path string)) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				visit(path)
			}
			return err
		})
		must.Succeed(t, err)
	}
	walk("..", func(path string) {
		switch name := filepath.Base(path); {
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			check(path, literals(read(path))...)
		case name == "runbook.md", name == "scenario.yaml", filepath.Ext(path) == ".tmpl", filepath.Base(filepath.Dir(path)) == "help":
			check(path, read(path))
		}
	})
	walk("../../web/src", func(path string) {
		if ext := filepath.Ext(path); (ext == ".ts" || ext == ".tsx") && !strings.Contains(path, ".test.") {
			check(path, comment.ReplaceAllString(read(path), ""))
		}
	})
	for _, pattern := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../docs/*.md", "../../docs/adr/*.md"} {
		pages, err := filepath.Glob(pattern)
		must.Succeed(t, err)
		for _, page := range pages {
			check(page, read(page))
		}
	}
	if checked < 5000 {
		t.Errorf("%d texts: were they found?", checked)
	}
}

// literals are the strings of a Go file.
func literals(src string) (out []string) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(src)), []byte(src), nil, 0)
	for {
		switch _, tok, text := s.Scan(); tok {
		case token.EOF:
			return out
		case token.STRING:
			if text, err := strconv.Unquote(text); err == nil {
				out = append(out, text)
			}
		}
	}
}
