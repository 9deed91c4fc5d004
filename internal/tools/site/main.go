// Command site builds the documentation's site: README.md, CHANGELOG.md and the Markdown files
// of docs as HTML pages. The menu is the first link of each list item of docs/README.md, which
// is the first page. A link that leads nowhere is an error.
//
//	go run ./internal/tools/site
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"log"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/sixty-dev/sixty/internal/base/fileio"
)

const (
	first  = "docs/README.md"
	source = "https://github.com/sixty-dev/sixty/blob/main/" // of what is not on the site
)

//go:embed page.html
var layout string

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

func main() {
	s, err := read(".")
	if err == nil {
		err = s.write("dist/site")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A site is the documents by their paths in the repository, and the images that they show.
type site struct {
	root   string
	pages  map[string]*document
	images map[string]bool
	menu   []heading
}

type document struct {
	source  []byte
	tree    ast.Node
	title   string
	anchors slugs
}

type heading struct {
	Title string
	Links [][2]string // title and address
}

// read parses every document and resolves its links.
func read(root string) (*site, error) {
	s := &site{root: root, pages: map[string]*document{}, images: map[string]bool{}}
	for _, pattern := range []string{"README.md", "CHANGELOG.md", "docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			d := &document{source: content, anchors: slugs{}}
			d.tree = markdown.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(d.anchors))))
			s.pages[filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator)))] = d
		}
	}
	var broken []error
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		d := s.pages[name]
		broken = append(broken, ast.Walk(d.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering {
				if err := s.resolve(name, d, n); err != nil {
					broken = append(broken, fmt.Errorf("%s: %w", name, err))
				}
			}
			return ast.WalkContinue, nil
		}))
	}
	return s, errors.Join(broken...)
}

// resolve takes from a node what the page and the menu need, and lets its link lead to a page.
func (s *site) resolve(name string, d *document, n ast.Node) (err error) {
	switch n := n.(type) {
	case *ast.Heading:
		if title := textOf(n, d.source); d.title == "" {
			d.title = title
		} else if name == first {
			s.menu = append(s.menu, heading{Title: title})
		}
	case *ast.Image:
		n.Destination, err = s.target(name, string(n.Destination))
	case *ast.Link:
		n.Destination, err = s.target(name, string(n.Destination))
		if i := len(s.menu) - 1; name == first && i >= 0 && n.PreviousSibling() == nil && n.Parent().Parent().Kind() == ast.KindListItem {
			s.menu[i].Links = append(s.menu[i].Links, [2]string{textOf(n, d.source), strings.TrimPrefix(string(n.Destination), "../")})
		}
	}
	return err
}

// target is where a link of a document leads on the site.
func (s *site) target(from, link string) ([]byte, error) {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" {
		return []byte(link), err
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if s.pages[to+"/README.md"] != nil {
		to += "/README.md"
	}
	d := s.pages[to]
	_, err = os.Stat(filepath.Join(s.root, to))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: no such file", link)
	case d != nil && u.Fragment != "" && !d.anchors[u.Fragment]:
		return nil, fmt.Errorf("%s: no such heading", link)
	case d != nil:
		u.Path = up(from) + address(to)
	case strings.HasPrefix(to, "docs/images/"):
		s.images[to] = true
		u.Path = up(from) + to
	default:
		return []byte(source + to), nil
	}
	return []byte(u.String()), nil
}

// address is the path of a document's page, and up the way from it to the site's first page.
func address(name string) string { return strings.TrimSuffix(name, ".md") + ".html" }
func up(name string) string      { return strings.Repeat("../", strings.Count(name, "/")) }

// write renders the pages into a directory.
func (s *site) write(dir string) error {
	page, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	var files []fileio.File
	for name := range s.images {
		content, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return err
		}
		files = append(files, fileio.File{Path: name, Content: content})
	}
	for name, d := range s.pages {
		var body, b bytes.Buffer
		if err := markdown.Renderer().Render(&body, d.source, d.tree); err != nil {
			return err
		}
		if err := page.Execute(&b, map[string]any{
			"Title": d.title, "Root": up(name), "Menu": s.menu, "Source": source + name, "Here": address(name),
			"Body": template.HTML(body.String()), //nolint:gosec // of this repository; raw HTML stays out by default
		}); err != nil {
			return err
		}
		files = append(files, fileio.File{Path: address(name), Content: b.Bytes()})
		if name == first { // the site's own address shows it too
			base := fmt.Sprintf("<base href=%q>\n<style>", address(first))
			files = append(files, fileio.File{Path: "index.html", Content: bytes.Replace(b.Bytes(), []byte("<style>"), []byte(base), 1)})
		}
	}
	_, err = fileio.WriteAll(dir, files)
	return err
}

// slugs names headings as GitHub does, so that a link works on both.
type slugs map[string]bool

var dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

func (s slugs) Put(value []byte) { s[string(value)] = true }

// Generate names a heading, and another one like it with a number.
func (s slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	base := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(value))), ""), " ", "-")
	name := base
	for i := 1; s[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	s[name] = true
	return []byte(name)
}

// textOf is the text of a node without its marks.
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
