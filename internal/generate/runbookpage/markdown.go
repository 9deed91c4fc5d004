package runbookpage

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sixty-dev/sixty/internal/render"
)

// A page is a runbook page while it is written, in Markdown.
type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// section writes a heading and the text below it.
func (p *page) section(heading, text string) {
	p.printf("\n## %s\n\n%s\n", heading, strings.TrimSpace(text))
}

// entry writes PromQL with what it is, folded away below a title.
func (p *page) entry(title, text, promQL string) {
	p.printf("\n<details>\n<summary>%s</summary>\n", escapeHTML(title))
	if text != "" {
		p.printf("\n%s\n", text)
	}
	fence := render.Fence(promQL)
	p.printf("\n%spromql\n%s\n%s\n\n</details>\n", fence, promQL, fence)
}

// codeSpan is a span of code in a line.
var codeSpan = regexp.MustCompile("`[^`]+`")

// linked makes links of the pathologies that a text names in code, but for the
// page's own.
func linked(markdown, self string, titles map[string]string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(markdown) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fenced = fenced != fence; !fenced && !fence {
			line = codeSpan.ReplaceAllStringFunc(line, func(span string) string {
				id := strings.Trim(span, "`")
				if titles[id] == "" || id == self {
					return span
				}
				return "[" + span + "](" + id + ".md)"
			})
		}
		b.WriteString(line)
	}
	return b.String()
}

// reference links a pathology's page by its title.
func reference(id string, titles map[string]string) string {
	if titles[id] == "" {
		return render.Code(id)
	}
	return "[" + render.Escape(titles[id]) + "](" + id + ".md)"
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
