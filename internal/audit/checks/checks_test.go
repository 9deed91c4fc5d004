package checks

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// examples are one of each check with its fault and one without. Each is a panel's query; an alert's expression behind
// "alert: "; or, of several lines, a file.
func examples(t *testing.T) map[string]struct{ Bad, Good string } {
	t.Helper()
	data := must.ReadFile(t, "testdata/examples.yaml")
	var list []struct{ Check, Bad, Good string }
	must.Succeed(t, yaml.Unmarshal(data, &list))
	out := map[string]struct{ Bad, Good string }{}
	for _, e := range list {
		out[e.Check] = struct{ Bad, Good string }{e.Bad, e.Good}
	}
	return out
}

// exampleFile is the file that an example of a check stands for.
func exampleFile(example string) File {
	expr, alert := strings.CutPrefix(example, "alert: ")
	switch {
	case alert:
		return File{Name: "rules.yaml", Data: []byte(alerting(fmt.Sprintf("%q", expr)))}
	case !strings.Contains(example, "\n"):
		example = fmt.Sprintf("{\"panels\": [{\"title\": \"A\", \"type\": \"timeseries\", \"targets\": [{\"refId\": \"A\", \"expr\": %q}]}]}\n", example)
	}
	return File{Name: "example", Data: []byte(example)}
}

// alerting is a rule's alert.
func alerting(expr string) string {
	return "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: " + expr + "\n"
}

// TestExamples holds every check to its own examples: the fault is found in the one, and nothing of
// any check in the other.
func TestExamples(t *testing.T) {
	surface := newest(t)
	all := examples(t)
	for _, c := range Checks() {
		example := all[c.ID]
		t.Run(c.ID, func(t *testing.T) {
			s := *surface
			found := func(example string) []string {
				all, errs := lint([]File{exampleFile(example)}, &s)
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				var out []string
				for _, f := range all {
					out = append(out, f.Check)
					if f.Why == "" || f.Fix == "" || f.Where == "" || f.Fragment == "" {
						t.Errorf("a finding says too little: %+v", f)
					}
				}
				return out
			}
			if got := found(example.Bad); len(got) == 0 || strings.Join(got, " ") != strings.TrimSpace(strings.Repeat(c.ID+" ", len(got))) {
				t.Errorf("%s\nfound %q", example.Bad, got)
			}
			if got := found(example.Good); len(got) > 0 {
				t.Errorf("%s\nfound %q", example.Good, got)
			}
			if got, _ := lint([]File{exampleFile(example.Bad)}, &s, c.ID); len(got) > 0 {
				t.Errorf("found though it is to be ignored: %+v", got)
			}
			if c.Title == "" || c.Doc == "" || c.ID == "" {
				t.Error("a check without words")
			}
		})
	}
}

// TestDocumentation keeps the table of checks in docs/audit.md as the checks say it.
func TestDocumentation(t *testing.T) {
	const file, begin, end = "../../../docs/audit.md", "<!-- checks: written by go test ./internal/audit/checks -run Documentation -update -->\n", "<!-- end of checks -->"
	doc := must.ReadFile(t, file)
	var b bytes.Buffer
	b.WriteString(begin + "\n| check | severity | what it finds |\n|---|---|---|\n")
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		seen[c.ID] = true
		fmt.Fprintf(&b, "| `%s` | %s | %s. %s |\n", c.ID, c.Severity, strings.ToUpper(c.Title[:1])+c.Title[1:], strings.ReplaceAll(c.Doc, "|", `\|`))
	}
	before, rest, ok := strings.Cut(string(doc), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("docs/audit.md has no place for the checks")
	}
	want := before + b.String() + "\n" + end + after
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(want), 0o644))
	} else if want != string(doc) {
		t.Error("docs/audit.md is not what the checks say: make generate")
	}
}
