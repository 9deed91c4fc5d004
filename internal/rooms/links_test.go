package rooms

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/sixty-dev/sixty/internal/base/must"
)

const root = "../.."

// documents returns the paths of all documents.
func documents(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		must.Succeed(t, err)
		all = append(all, names...)
	}
	return all
}

// TestDocumentsNameTestsThatExist holds that a test in a document, or the beginning of its name, is in the repository.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	named, declared := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`), regexp.MustCompile(`(?m)^func (?:Test|Fuzz)\w*`)
	var tests []string
	for _, dir := range []string{"cmd", "e2e", "internal", "research"} {
		must.Succeed(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, "_test.go") {
				tests = append(tests, declared.FindAllString(string(must.ReadFile(t, path)), -1)...)
			}
			return err
		}))
	}
	for _, name := range documents(t) {
		for _, test := range named.FindAllString(string(must.ReadFile(t, name)), -1) {
			if !slices.ContainsFunc(tests, func(f string) bool { return strings.HasPrefix(f, "func "+test) }) {
				t.Errorf("%s names %s, which does not exist", name, test)
			}
		}
	}
}

// TestLinksOfDocuments holds that every link of the documents leads to a file, or to one of its headings, and that
// docs/README.md lists every document.
func TestLinksOfDocuments(t *testing.T) {
	links, anchors := map[string][]string{}, map[string][]string{}
	for _, name := range documents(t) {
		content := must.ReadFile(t, name)
		links[name], anchors[name] = linksOf(content)
	}
	listedPages := links[filepath.Join(root, "docs", "README.md")]
	for name, list := range links {
		for _, broken := range brokenLinks(name, list, anchors) {
			t.Errorf("%s: %s", name, broken)
		}
		page, err := filepath.Rel(filepath.Join(root, "docs"), name)
		must.Succeed(t, err)
		directory := filepath.Dir(page)
		mustBeListed := page != "README.md" && (directory == "." || directory == "lab")
		if mustBeListed && !slices.Contains(listedPages, filepath.ToSlash(page)) {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// brokenLinks returns the links of a document that lead to no file, or to no heading.
func brokenLinks(name string, links []string, anchors map[string][]string) (out []string) {
	for _, link := range links {
		u, err := url.Parse(link)
		if err != nil || u.Scheme != "" {
			continue
		}
		to := name
		if u.Path != "" {
			to = filepath.Join(filepath.Dir(name), u.Path)
		}
		if headings, ok := anchors[to]; ok && u.Fragment != "" && !slices.Contains(headings, u.Fragment) {
			out = append(out, link+": no such heading")
		} else if _, err := os.Stat(to); !ok && err != nil {
			out = append(out, link+": no such file")
		}
	}
	return out
}

// linksOf returns the addresses of a document's links and images, and the anchors that GitHub gives its headings.
func linksOf(content []byte) (links, headings []string) {
	tree := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(content))
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				links = append(links, string(n.Destination))
			}
		case *ast.Image:
			if entering {
				links = append(links, string(n.Destination))
			}
		case *ast.Heading:
			if entering {
				headings = append(headings, slug(textOf(n, content)))
			}
		}
		return ast.WalkContinue, nil
	})
	return links, headings
}

// slug returns the anchor that GitHub gives a heading.
func slug(heading string) string {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

// textOf returns the text of a node without its markup.
func textOf(n ast.Node, source []byte) string {
	if t, ok := n.(*ast.Text); ok {
		return string(t.Value(source))
	}
	out := ""
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		out += textOf(c, source)
	}
	return out
}

func TestABrokenLinkIsFound(t *testing.T) {
	links, headings := linksOf([]byte("# B, and `b`\n[a](absent.md) [b](#b-and-b) [c](#c) [d](https://example.com/x) [e](doc.go)"))
	got := brokenLinks("a.md", links, map[string][]string{"a.md": headings})
	if want := []string{"absent.md: no such file", "#c: no such heading"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
