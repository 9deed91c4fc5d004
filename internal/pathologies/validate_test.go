package pathologies_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/gateway"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/synonym"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/generate/runbookpage"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestNothingIsLeftToDo finds TODOs that the scaffold wrote and nobody replaced.
func TestNothingIsLeftToDo(t *testing.T) {
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") && filepath.Dir(path) == "." {
			return err
		}
		text, err := os.ReadFile(path)
		if i := bytes.Index(text, []byte("TODO")); i >= 0 {
			line, _, _ := bytes.Cut(text[i:], []byte("\n"))
			t.Errorf("%s: %s", path, line)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEverySignalOfAConditionIsListed(t *testing.T) {
	all := indicator.All()
	for _, p := range pathologies.All() {
		conds := p.Conditions()
		for _, l := range p.Chain {
			conds = append(conds, l.When)
		}
		for _, c := range conds {
			c.Signals(func(s *indicator.Signal) {
				if !slices.Contains(all, s) {
					t.Errorf("%s reads %q, which indicator.All lacks: nobody would fetch or document it", p.ID, s.Name)
				}
			})
		}
	}
}

func TestEveryConditionCompilesToPromQL(t *testing.T) {
	o := catalog.Compilation{
		Query: func(s *indicator.Signal, baseline bool) (string, error) { return s.Guarded(), nil },
		Limit: func(*catalog.Threshold) (float64, string, bool) { return 0, "", false },
		GPU:   []string{"node"},
	}
	for _, p := range pathologies.All() {
		expr, err := p.When.Compile(o)
		if err != nil {
			t.Errorf("%s: %v", p.ID, err)
			continue
		}
		if _, err := indicator.Parse(expr); err != nil {
			t.Errorf("%s: %v\n%s", p.ID, err, expr)
		}
	}
}

// TestLinksAreShortSentences holds that chains are readable, and that each signal is in one of their links.
func TestLinksAreShortSentences(t *testing.T) {
	for _, p := range pathologies.All() {
		says, reads := map[string]bool{}, map[*indicator.Signal]string{}
		for _, l := range p.Chain {
			if n := len(strings.Fields(l.Says)); n < 2 || n > 5 || !unicode.IsUpper(rune(l.Says[0])) ||
				strings.ContainsAny(l.Says, ".,;:") || says[l.Says] {
				t.Errorf("%s: %q is no sentence of two to five words, or not the only one", p.ID, l.Says)
			}
			says[l.Says] = true
			l.When.Leaves(func(c catalog.Cond) {
				if c.Role() == catalog.Guarded {
					return
				}
				if other := reads[c.Signal]; other != "" && other != l.Says {
					t.Errorf("%s: %q and %q both read %s", p.ID, other, l.Says, c.Signal.Title)
				}
				reads[c.Signal] = l.Says
			})
		}
	}
}

// checkStory checks that every firing finding shows evidence besides guards, and that its chain reaches what users
// feel.
func checkStory(t *testing.T, name string, d *diagnose.Diagnosis) {
	t.Helper()
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Status != diagnose.Firing {
			continue
		}
		if !slices.ContainsFunc(f.Evidence, func(e catalog.Evidence) bool { return e.Shown() }) {
			t.Errorf("%s: %s shows no evidence", name, f.Pathology.ID)
		}
		felt := slices.ContainsFunc(f.Evidence, func(e catalog.Evidence) bool {
			return e.Shown() && e.Role == catalog.Symptom
		})
		last := catalog.Cause
		for _, s := range f.Chain {
			last = s.Evidence.Role
		}
		if len(f.Chain) == 0 || felt && last != catalog.Symptom {
			t.Errorf("%s: the story of %s does not reach its users: %q", name, f.Pathology.ID, f.Story())
		}
		if os.Getenv("STORIES") != "" {
			t.Logf("%s: %s: %s", name, f.Pathology.ID, f.Story())
		}
	}
}

// TestOneConditionIsAboutOneKindOfPart holds that no condition mixes a gateway's parts by model with those by upstream.
func TestOneConditionIsAboutOneKindOfPart(t *testing.T) {
	for _, p := range pathologies.All() {
		seen, outside := map[string]bool{}, false
		p.When.Signals(func(s *indicator.Signal) {
			seen[s.Per] = true
			outside = outside || s.Scope == indicator.Gateway
			if s.Per != "" && !strings.Contains(s.PromQL(), "by (instance)") {
				t.Errorf("%s is by %s and not added up by instance", s.Name, s.Per)
			}
		})
		if len(seen) != 1 {
			t.Errorf("%s is about %v", p.ID, seen)
		}
		if outside && p.Scope() != indicator.Gateway {
			t.Errorf("%s reads a gateway and a server", p.ID)
		}
	}
}

// TestRunbookQueriesParse parses the PromQL that people paste in an incident. Each line of a block is one expression;
// an indented line continues the one before.
func TestRunbookQueriesParse(t *testing.T) {
	if got := queries("```promql\na\n  + b\nc\n```\n"); !slices.Equal(got, []string{"a\n  + b", "c"}) {
		t.Fatalf("queries are read wrongly: %q", got)
	}
	for _, p := range pathologies.All() {
		for _, expr := range queries(p.Runbook) {
			if _, err := indicator.Parse(expr); err != nil {
				t.Errorf("%s: %v\n%s", p.ID, err, expr)
			}
		}
	}
}

func TestRunbooksNameOnlyPathologiesThatExist(t *testing.T) {
	ids := map[string]bool{}
	for _, p := range pathologies.All() {
		ids[p.ID] = true
	}
	for _, p := range pathologies.All() {
		for i, code := range strings.Split(p.Runbook, "`") {
			looksLikeID := i%2 == 1 && strings.Contains(code, "-") && !strings.ContainsAny(code, " \n=./_") && !strings.HasPrefix(code, "-") && code == strings.ToLower(code)
			if looksLikeID && !ids[code] {
				t.Errorf("%s: the runbook refers to %q", p.ID, code)
			}
		}
	}
}

// queries returns the expressions in a page's promql blocks.
func queries(markdown string) []string {
	var out []string
	in, indent := false, 0
	for _, line := range strings.Split(markdown, "\n") {
		text := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(text, "```promql"):
			in, indent = true, len(line)-len(text)
		case strings.HasPrefix(text, "```"):
			in = false
		case in && len(line)-len(text) > indent && len(out) > 0:
			out[len(out)-1] += "\n" + line[indent:]
		case in:
			out = append(out, text)
		}
	}
	return out
}

// TestRunbookPages compares docs/pathologies, to which reports link, with the catalogue.
func TestRunbookPages(t *testing.T) {
	const dir = "../../docs/pathologies"
	pages, err := runbookpage.Markdown(runbookpage.Config{
		Pathologies: pathologies.All(),
		Notice: func(p *catalog.Pathology) string {
			if p == nil {
				return "From internal/pathologies by go test -update. DO NOT EDIT."
			}
			return "From internal/pathologies/" + strings.ReplaceAll(p.ID, "-", "") + " by go test -update. DO NOT EDIT."
		},
	})
	must.Succeed(t, err)
	var names []string
	for _, page := range pages {
		names = append(names, page.Path)
		file := filepath.Join(dir, page.Path)
		if *update {
			must.Succeed(t, os.WriteFile(file, page.Content, 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != string(page.Content) {
			t.Errorf("%s is not what the catalogue says: make generate", file)
		}
	}
	entries, err := os.ReadDir(dir)
	must.Succeed(t, err)
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			t.Errorf("%s is no page of the catalogue", e.Name())
		}
	}
}

// TestGlossary keeps the table of signals in docs/glossary.md the same as what reports say,
// and their titles so short that the evidence fits a line.
func TestGlossary(t *testing.T) {
	table := "| name | in JSON | unit | meaning |\n|---|---|---|---|\n"
	titles := map[string]bool{}
	for _, s := range indicator.All() {
		if titles[s.Title] {
			t.Errorf("two signals are called %q", s.Title)
		}
		titles[s.Title] = true
		if n := len(s.Title); n > 35 {
			t.Errorf("%q has %d letters: a row of the evidence no longer fits 80 columns", s.Title, n)
		}
		table += fmt.Sprintf("| %s | `%s` | %s | %s |\n", s.Title, s.Name, s.Unit, strings.ReplaceAll(s.Doc, "|", `\|`))
	}
	table += "\n## Names that others use\n\n| name | meaning | here | who exposes it |\n|---|---|---|---|\n"
	for _, s := range synonym.All() {
		who := s.By
		if who == "" && s.Exposed() != "" {
			who = "nobody"
		}
		table += fmt.Sprintf("| `%s` | %s | `%s`%s | %s |\n", s.Name, s.Meaning, s.Here, strings.TrimSuffix(", "+s.Note, ", "), who)
	}
	keepTable(t, "../../docs/glossary.md", table)
}

// TestFleetTable keeps the table of scenarios in docs/fleet.md the same as what the
// catalogue says.
func TestFleetTable(t *testing.T) {
	scenarios, err := fleet.Scenarios(pathologies.All())
	must.Succeed(t, err)
	table := "| scenario | fault |\n|---|---|\n"
	for _, s := range scenarios {
		table += "| `" + s.Name + "` | " + s.Fault + " |\n"
	}
	keepTable(t, "../../docs/fleet.md", table)
}

// TestEngines keeps docs/engine-tables.md the same as what engines and routers expose, and conditions ask.
func TestEngines(t *testing.T) {
	table := "| engine | dialects | releases | tried against |\n|---|---|---|---|\n"
	ids := []string{"vllm-v1", "vllm-v0"}
	for _, e := range append([]engine.Engine{vllm.Engine}, dialect.Others()...) {
		table += fmt.Sprintf("| %s | `%s` | %s | %s |\n", e.Title, strings.Join(e.IDs, "`, `"), e.Releases, e.Tried)
	}
	for _, e := range dialect.Others() {
		ids = append(ids, string(e.ID))
	}
	table += "\nWhat is judged, with all options:\n\n| engine | judged | in part, without | not judged |\n|---|---|---|---|\n"
	for _, id := range ids {
		d, err := dialect.Named(id)
		must.Succeed(t, err)
		names := d.Names() // without those of options
		for _, f := range dialect.Families() {
			switch {
			case f.Engine != d.Engine || f.Last != "" || strings.HasSuffix(id, "v0"):
			case f.Type == engine.Histogram || f.Type == engine.Summary:
				names = append(names, f.Name+"_count", f.Name+"_sum")
			default:
				names = append(names, f.Name)
			}
		}
		if d, _ = dialect.Detect(names); d.ID != id {
			t.Errorf("with all options %s is %s", id, d.ID)
		}
		judged, part, not := judgedBy(d, indicator.Model, indicator.Instance)
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", id, judged, part, not)
	}
	table += "\nAt a router or gateway:\n\n| router or gateway | judged | in part, without | releases, tried against |\n|---|---|---|---|\n"
	for _, p := range slices.Insert(slices.Clone(gateway.Others), 0, gateway.Own) {
		d, ok := dialect.Detect(p.Names())
		if !ok {
			t.Fatalf("%s is not detected by its own names", p.Title)
		}
		if judged, part, _ := judgedBy(d, indicator.Gateway); judged != none {
			table += fmt.Sprintf("| %s | %s | %s | %s |\n", p.Title, judged, part, cmp.Or(strings.Join(slices.DeleteFunc([]string{p.Releases, p.Tried}, func(s string) bool { return s == "" }), ": "), none))
		}
	}
	keepTable(t, "../../docs/engine-tables.md", table)
}

const none = "–"

// judgedBy lists what can be judged by the names of a page, of the pathologies of some scopes.
func judgedBy(d dialect.Dialect, scopes ...indicator.Scope) (yes, inPart, no string) {
	var judged, part, not []string
	for _, p := range pathologies.All() {
		if !slices.Contains(scopes, p.Scope()) {
			continue
		}
		lacks, tells := map[string]bool{}, false
		expr, err := p.When.Compile(catalog.Compilation{
			Instance: []string{"instance"}, Model: []string{"model_name"},
			Limit:  func(*catalog.Threshold) (float64, string, bool) { return 0, "", false },
			Normal: func(*indicator.Signal) (float64, bool) { return 1, true },
			Query: func(s *indicator.Signal, _ bool) (string, error) {
				there := len(d.Missing(s)) == 0
				if tells = tells || there; !there && !s.Optional {
					lacks[s.Title] = true
					return "", nil
				}
				return "x", nil
			},
		})
		id := "`" + p.ID + "`"
		switch {
		case err != nil || expr == "" || !tells:
			not = append(not, id)
		case len(lacks) > 0:
			part = append(part, id+" ("+strings.Join(slices.Sorted(maps.Keys(lacks)), ", ")+")")
		default:
			judged = append(judged, id)
		}
	}
	list := func(ids []string) string {
		slices.Sort(ids)
		return cmp.Or(strings.Join(ids, ", "), none)
	}
	return list(judged), list(part), list(not)
}

// keepTable compares the generated table of a page with what it should be.
func keepTable(t *testing.T, file, want string) {
	t.Helper()
	const begin, end = "-update. -->\n\n", "\n<!-- End of the table. -->"
	doc, err := os.ReadFile(file)
	must.Succeed(t, err)
	head, rest, ok1 := strings.Cut(string(doc), begin)
	table, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644))
		table = want
	}
	if table != want {
		t.Errorf("%s is not what the catalogue says: make generate", file)
	}
}
