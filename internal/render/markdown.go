package render

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// MarkdownHTML renders Markdown for a page. Whatever looks like HTML in it is left out.
// Tables may be scrolled where they are too wide.
func MarkdownHTML(text string) (template.HTML, error) {
	var b bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.Table)).Convert([]byte(text), &b); err != nil {
		return "", fmt.Errorf("render Markdown: %w", err)
	}
	out := strings.ReplaceAll(b.String(), "<table>", `<div class="scroll" role="region" tabindex="0" aria-label="Table"><table>`)
	return template.HTML(strings.ReplaceAll(out, "</table>", "</table></div>")), nil //nolint:gosec // raw HTML stays out by default
}

// Escape takes the meaning from the characters that Markdown and HTML give
// one, in tables too: names and labels come from foreign servers.
func Escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "|", `\|`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "\n", " ",
	).Replace(s)
}

// Code writes a code span, without what would end it.
func Code(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

// Fence is a fence for a block of code that holds none like it.
func Fence(code string) string {
	fence := "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	return fence
}

// Markdown lays a Markdown text out for a terminal: paragraphs and lists are
// wrapped and tables aligned; blocks of code are indented, and not wrapped, to be copied. It
// knows what runbooks use: headings, paragraphs, lists, tables and fenced code.
func (t *Text) Markdown(source string) {
	var block []string // lines of one paragraph, list item or table
	flush := func() {
		switch {
		case len(block) == 0:
		case len(block) > 2 && strings.HasPrefix(block[0], "|"):
			t.markdownTable(block)
		default:
			first := block[0]
			start := len(first) - len(strings.TrimLeft(first, " "))
			rest := strings.Repeat(" ", start+marker(first[start:]))
			body := first[start:]
			for _, line := range block[1:] {
				body += " " + strings.TrimSpace(line)
			}
			t.Paragraph(first[:start], rest, body)
		}
		block = nil
	}
	fenced := false
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, " \n")
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```")
		switch {
		case fence || fenced:
			flush()
			if fenced = fenced != fence; !fence {
				t.Line("  " + line)
			}
		case trimmed == "":
			flush()
			t.Line("")
		case strings.HasPrefix(line, "#"):
			flush()
			t.Styled(Bold, "", "", line)
		case marker(trimmed) > 0, strings.HasPrefix(trimmed, "|") != (len(block) > 0 && strings.HasPrefix(block[0], "|")):
			flush()
			block = []string{line}
		default:
			block = append(block, line)
		}
	}
	flush()
}

// marker is the width of the mark that begins a list's item, 0 where there is
// none: "- " or "2. ".
func marker(s string) int {
	mark, _, ok := strings.Cut(s, " ")
	number := strings.TrimSuffix(mark, ".")
	if ok && (mark == "-" || mark == "*" || number != mark && number != "" && strings.Trim(number, "0123456789") == "") {
		return len(mark) + 1
	}
	return 0
}

// markdownTable lays out the rows of a table; the second one is a rule.
func (t *Text) markdownTable(lines []string) {
	var columns []Column
	var rows [][]string
	for i, line := range lines {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, "\x00"), "|")
		for k := range cells {
			cells[k] = strings.ReplaceAll(strings.TrimSpace(cells[k]), "\x00", "|")
		}
		switch i {
		case 0:
			for _, c := range cells {
				columns = append(columns, Column{Title: c, Left: true})
			}
		case 1:
		default:
			rows = append(rows, cells[:min(len(cells), len(columns))])
		}
	}
	t.Table(columns, rows)
}
