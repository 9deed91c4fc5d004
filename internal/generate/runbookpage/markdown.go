package runbookpage

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/render"
)

// Markdown returns the pages as README.md and ID.md, for a repository or a
// wiki: tables as GitHub has them, diagrams in Mermaid.
func Markdown(c Config) ([]generate.File, error) {
	pages, err := c.book(func(id string) string { return id + ".md" })
	if err != nil {
		return nil, err
	}
	var out []generate.File
	for i, p := range pages {
		name, about := "README.md", (*catalog.Pathology)(nil)
		if i > 0 {
			name, about = p.id+".md", c.Pathologies[i-1]
		}
		notice := "Written by `sixty generate runbooks`. DO NOT EDIT."
		if c.Notice != nil {
			notice = c.Notice(about)
		}
		out = append(out, generate.File{Path: name, Content: p.asMarkdown(notice)})
	}
	return out, nil
}

func (p runbook) asMarkdown(notice string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s -->\n\n# %s\n\n%s\n", notice, p.title, render.Escape(p.lead))
	if len(p.facts) > 0 {
		b.WriteString("\n")
	}
	for _, f := range p.facts {
		fmt.Fprintf(&b, "- **%s:** %s\n", f.name, f.value)
	}
	for _, s := range p.sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.heading, strings.TrimSpace(s.markdown))
		if s.graph != nil {
			fmt.Fprintf(&b, "\n```mermaid\n%s```\n", s.graph.mermaid())
		}
		for _, e := range s.entries {
			fmt.Fprintf(&b, "\n<details>\n<summary>%s</summary>\n", escapeHTML(e.title))
			if e.text != "" {
				fmt.Fprintf(&b, "\n%s\n", e.text)
			}
			fence := render.Fence(e.code)
			fmt.Fprintf(&b, "\n%spromql\n%s\n%s\n\n</details>\n", fence, e.code, fence)
		}
	}
	return b.Bytes()
}

// parse takes a runbook apart: its title and its sections.
func parse(markdown string) (title string, sections []section) {
	fenced := false
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if t, ok := strings.CutPrefix(line, "# "); ok && !fenced && title == "" {
			title = strings.TrimSpace(t)
			continue
		}
		if h, ok := strings.CutPrefix(line, "## "); ok && !fenced {
			sections = append(sections, section{heading: strings.TrimSpace(h)})
			continue
		}
		if len(sections) > 0 {
			sections[len(sections)-1].markdown += line
		}
	}
	return title, sections
}

// linked makes links of the pathologies that a text names in code, but for the
// page's own.
func linked(markdown, self string, titles map[string]string, link linker) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			b.WriteString(line)
			continue
		}
		spans := strings.Split(line, "`")
		for i, span := range spans {
			whole := i%2 == 1 && i < len(spans)-1
			switch {
			case whole && titles[span] != "" && span != self:
				fmt.Fprintf(&b, "[`%s`](%s)", span, link(span))
			case whole:
				b.WriteString("`" + span + "`")
			case i%2 == 1:
				b.WriteString("`" + span)
			default:
				b.WriteString(span)
			}
		}
	}
	return b.String()
}

// reference links a pathology's page by its title.
func reference(id string, titles map[string]string, link linker) string {
	if titles[id] == "" {
		return render.Code(id)
	}
	return node{label: titles[id], href: link(id)}.link()
}

// link leads to the node's page.
func (n node) link() string { return "[" + render.Escape(n.label) + "](" + n.href + ")" }

// anchor returns a heading's anchor as GitHub makes it.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
