package render

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// MarkdownHTML renders Markdown for a page. It omits raw HTML. Tables that are too wide can be scrolled.
func MarkdownHTML(text string) (template.HTML, error) {
	var b bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.Table)).Convert([]byte(text), &b); err != nil {
		return "", fmt.Errorf("render Markdown: %w", err)
	}
	const scroll = `<div class="scroll" role="region" tabindex="0" aria-label="Table">`
	out := strings.NewReplacer("<table>", scroll+"<table>", "</table>", "</table></div>").Replace(b.String())
	return template.HTML(out), nil //nolint:gosec // raw HTML stays out by default
}

// Escape escapes the characters that have a meaning in Markdown, in its tables or in HTML. Names and labels come from
// foreign servers.
func Escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "|", `\|`, "[", `\[`, "]", `\]`,
		"<", "&lt;", ">", "&gt;", "&", "&amp;", "\n", " ",
	).Replace(s)
}

// Code writes a code span. Backquotes in it become apostrophes.
func Code(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

// Fence returns a fence for a block of code, longer than any fence in the code.
func Fence(code string) string {
	fence := "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	return fence
}

// Markdown lays out Markdown for a terminal: paragraphs and lists are wrapped, tables are aligned, blocks of code are
// indented but not wrapped, so that they can be copied. It knows the Markdown of runbooks: headings, paragraphs,
// lists, tables and fenced code.
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
			rest := strings.Repeat(" ", start+measureMarker(first[start:]))
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
		case measureMarker(trimmed) > 0,
			strings.HasPrefix(trimmed, "|") != (len(block) > 0 && strings.HasPrefix(block[0], "|")):
			flush()
			block = []string{line}
		default:
			block = append(block, line)
		}
	}
	flush()
}

// measureMarker returns the width of the mark that begins a list item, "- " or "2. ", or 0.
func measureMarker(s string) int {
	mark, _, ok := strings.Cut(s, " ")
	number := strings.TrimSuffix(mark, ".")
	numbered := number != mark && number != "" && strings.Trim(number, "0123456789") == ""
	if ok && (mark == "-" || mark == "*" || numbered) {
		return len(mark) + 1
	}
	return 0
}

// markdownTable lays out the rows of a table. The second row is a rule.
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
