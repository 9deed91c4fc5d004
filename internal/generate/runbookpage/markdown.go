package runbookpage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/render"
)

// A page is a Markdown page that is being written.
type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *page) writeSection(heading, text string) {
	p.printf("\n## %s\n\n%s\n", heading, strings.TrimSpace(text))
}

// Runbooks that mention capAtGateway link the page capRequests.
const (
	capAtGateway = "concurrent requests at the gateway"
	capRequests  = "https://github.com/sixty-dev/sixty/blob/main/docs/cap-requests.md"
)

var shellVariable = regexp.MustCompile(`\$([A-Z]{3,})\b`)

// listVariables returns the shell variables that a runbook's commands read, in their order.
func listVariables(runbook string) []string {
	var names []string
	for _, m := range shellVariable.FindAllStringSubmatch(runbook, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// codeSpan matches inline code.
var codeSpan = regexp.MustCompile("`[^`]+`")

// linkPathologies turns ids of other pathologies in inline code into links.
func linkPathologies(markdown, self string, titles map[string]string) string {
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

// linkTo links a pathology's page by its title.
func linkTo(id string, titles map[string]string) string {
	if titles[id] == "" {
		return render.Code(id)
	}
	return "[" + render.Escape(titles[id]) + "](" + id + ".md)"
}
