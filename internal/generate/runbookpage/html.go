package runbookpage

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/render"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed style.css
	styleCSS string
)

// HTML returns the pages as index.html and ID.html: each complete in one file,
// without scripts, readable in the dark and on paper. Whatever a runbook holds
// that looks like HTML is shown as text or left out.
func HTML(c Config) ([]generate.File, error) {
	pages, err := c.book(func(id string) string { return id + ".html" })
	if err != nil {
		return nil, err
	}
	var out []generate.File
	for i, p := range pages {
		name := "index.html"
		if p.id != "" {
			name = p.id + ".html"
		}
		data, err := p.asHTML()
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		if i > 1 {
			data.Before = &neighbour{pages[i-1].id + ".html", pages[i-1].title}
		}
		if i > 0 && i+1 < len(pages) {
			data.After = &neighbour{pages[i+1].id + ".html", pages[i+1].title}
		}
		var b bytes.Buffer
		if err := render.HTML(&b, pageHTML, template.FuncMap{"runbook": func() template.CSS { return template.CSS(styleCSS) }}, data); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		out = append(out, generate.File{Path: name, Content: b.Bytes()})
	}
	return out, nil
}

// What page.html is given.
type (
	htmlPage struct {
		Index         bool
		Title, Lead   string
		Facts         []htmlFact
		Sections      []htmlSection
		Before, After *neighbour
	}
	htmlFact struct {
		Name  string
		Value template.HTML
	}
	htmlSection struct {
		ID, Heading string
		Body        template.HTML
		Entries     []htmlEntry
	}
	htmlEntry struct {
		Title, Code string
		Text        template.HTML
	}
	neighbour struct{ Href, Title string }
)

func (p runbook) asHTML() (*htmlPage, error) {
	out := &htmlPage{Index: p.id == "", Title: p.title, Lead: p.lead}
	for _, f := range p.facts {
		value, err := render.MarkdownHTML(f.value)
		if err != nil {
			return nil, err
		}
		inline := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(value)), "<p>"), "</p>")
		out.Facts = append(out.Facts, htmlFact{f.name, template.HTML(inline)})
	}
	for _, s := range p.sections {
		text := s.markdown
		if out.Index && s.graph != nil { // the other pages name what their graphs show
			text += "\n" + s.graph.list()
		}
		body, err := render.MarkdownHTML(text)
		if err != nil {
			return nil, err
		}
		h := htmlSection{ID: anchor(s.heading), Heading: s.heading, Body: body}
		for _, e := range s.entries {
			text, err := render.MarkdownHTML(e.text)
			if err != nil {
				return nil, err
			}
			h.Entries = append(h.Entries, htmlEntry{Title: e.title, Code: e.code, Text: text})
		}
		out.Sections = append(out.Sections, h)
	}
	return out, nil
}
