package render

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/version"
)

var (
	//go:embed document.html
	documentHTML string
	//go:embed style.css
	styleCSS string
)

// A Form is a way to read a Document. Forms can be combined.
type Form uint8

// The forms. Details are the forms with room for everything.
const (
	Screen   Form = 1 << iota // text that fits a screen
	Full                      // the whole text
	Markdown                  // for a ticket, a chat or a wiki
	Page                      // HTML

	Details    = Full | Markdown | Page
	Everywhere = Screen | Details
)

// A Document is a report in reading order: the answer first, then sections of paragraphs, named items, lists, tables,
// commands and charts. Text, Markdown and HTML write it. Added texts are cleaned of control characters.
type Document struct {
	Title  string // title of the page
	More   string // contents that only the full text has, for the last line of a screen; "" if there is no full text
	blocks []*Block
	forms  Form
	rank   int
}

// NewDocument returns an empty document.
func NewDocument(title string) *Document { return &Document{Title: title, forms: Everywhere} }

// ShowIn sets the forms that show the blocks added next.
func (d *Document) ShowIn(f Form) { d.forms = f }

// Rank sets how long the blocks added next stay on a screen that is too small. The lowest rank leaves first, and the
// last block of a rank before the others. Rank 0 stays.
func (d *Document) Rank(n int) { d.rank = n }

// A Block is one element of a Document. The methods that add a block return it, so that callers can set more fields.
type Block struct {
	Kind       string // "answer", "section", "say", "item", "list", "table", "command", "figures", "drawing"
	Head, Text string
	Style      Style // Bold is the plain style
	Most       int   // at most this many lines on a screen, 0 for all
	Name       bool  // the title of a section is a name, and keeps its case
	Folded     bool  // a page shows only the title of a section until it is opened
	Level      int   // 0 for a section, 1 for a subsection
	Columns    []Column
	Rows       [][]string
	Ranks      []int // ranks of the rows; nil if all rows stay with the table
	Figures    []Figure
	HTML       template.HTML

	forms Form
	rank  int
}

// In sets the forms that show the block alone.
func (b *Block) In(f Form) *Block {
	b.forms = f
	return b
}

func (d *Document) addBlock(b Block) *Block {
	b.forms, b.rank = d.forms, d.rank
	d.blocks = append(d.blocks, &b)
	return &b
}

// Answer adds the conclusion of the report: a highlighted name, which may be "", and a sentence.
func (d *Document) Answer(s Style, head, text string) *Block {
	return d.addBlock(Block{Kind: "answer", Style: s, Head: Clean(head), Text: Clean(text)})
}

// Section begins a section. A terminal shows the title in capitals; the subject, which may be "", follows it.
func (d *Document) Section(title, subject string) *Block {
	return d.addBlock(Block{Kind: "section", Head: Clean(title), Text: Clean(subject)})
}

// Subsection begins a part of a section.
func (d *Document) Subsection(title, subject string) *Block {
	b := d.Section(title, subject)
	b.Level = 1
	return b
}

// Paragraph adds a paragraph. A name that is not "" stands before it.
func (d *Document) Paragraph(name, text string) *Block {
	return d.addBlock(Block{Kind: "say", Head: Clean(name), Text: Clean(text)})
}

// Ranked adds an item with a rank of its own, unless the text is empty.
func (d *Document) Ranked(rank int, name, text string) {
	if text != "" {
		d.Item(name, text).rank = rank
	}
}

// Item adds a name and a text. Texts of adjacent items are aligned.
func (d *Document) Item(name, text string) *Block {
	return d.addBlock(Block{Kind: "item", Head: Clean(name), Text: Clean(text)})
}

// List adds sentences, one below the other.
func (d *Document) List(sentences ...string) {
	for _, s := range sentences {
		d.addBlock(Block{Kind: "list", Text: Clean(s)})
	}
}

// Table adds a table, unless it has no rows. The last cell of a short row spans the remaining columns.
func (d *Document) Table(columns []Column, rows [][]string) *Block {
	b := Block{Kind: "table", Columns: columns}
	for _, r := range rows {
		row := make([]string, len(r))
		for i := range r {
			row[i] = Clean(r[i])
		}
		b.Rows = append(b.Rows, row)
	}
	if len(rows) == 0 {
		return &b
	}
	return d.addBlock(b)
}

// Command adds a line to copy, unless it is "".
func (d *Document) Command(line string) {
	if line != "" {
		d.addBlock(Block{Kind: "command", Text: Clean(line)})
	}
}

// Brief adds a line to copy. A screen shows the words instead if the line takes more than most lines.
func (d *Document) Brief(most int, line, words string) {
	d.addBlock(Block{Kind: "command", Head: Clean(words), Text: Clean(line)}).Most = most
}

// Figures adds charts, which only pages show.
func (d *Document) Figures(list ...Figure) {
	switch n := len(d.blocks) - 1; {
	case len(list) == 0:
	case n >= 0 && d.blocks[n].Kind == "figures":
		d.blocks[n].Figures = append(d.blocks[n].Figures, list...)
	default:
		d.addBlock(Block{Kind: "figures", Figures: list}).forms &= Page
	}
}

// Drawing adds HTML of the caller, which only pages show.
func (d *Document) Drawing(h template.HTML) {
	if h != "" {
		d.addBlock(Block{Kind: "drawing", HTML: h}).forms &= Page
	}
}

// groupBlocks returns the blocks of a form. Blocks that stand close together form one run.
func (d *Document) groupBlocks(f Form) [][]*Block {
	var out [][]*Block
	last := ""
	for _, b := range d.blocks {
		if b.forms&f == 0 {
			continue
		}
		alike := last == b.Kind && b.Kind != "table" && b.Kind != "section" || last == "answer" && b.Kind == "say"
		if n := len(out) - 1; n >= 0 && alike {
			out[n] = append(out[n], b)
		} else {
			out = append(out, []*Block{b})
		}
		last = b.Kind
	}
	return out
}

// Text writes the document for a terminal: the part that fits a screen or, if full, everything.
func (d *Document) Text(w io.Writer, o Options, full bool) error {
	t, form := NewText(o), Screen
	if full {
		form = Full
	}
	headed, last := false, ""
	for i, run := range d.groupBlocks(form) {
		kind := run[0].Kind
		if i > 0 && (kind == "section" || !isJoined(kind, last, headed)) {
			t.BeginDroppable(lastRank(run))
			t.Line("")
		}
		headed, last = headed || kind == "section", run[len(run)-1].Kind
		column := itemColumn(run, headed)
		for _, b := range run {
			t.BeginDroppable(b.rank)
			t.writeBlock(b, column, headed, form)
		}
	}
	t.BeginDroppable(0)
	switch {
	case full:
	case d.More == "":
		t.DropToFit(0)
	default:
		more := "--full shows " + d.More + "."
		if all := "--full shows what was left out, " + d.More + "."; !t.DropToFit(2) && Cells(all) <= t.width {
			more = all
		}
		t.Line("")
		t.Brief(1, "", "", more)
	}
	_, err := t.WriteTo(w)
	return err
}

// isJoined reports whether no empty line separates a block from the last one. headed says that a section has begun.
func isJoined(kind, last string, headed bool) bool {
	return last == "section" || kind == "say" && last != "item" ||
		headed && (last == "say" || last == "command") && kind != "table"
}

// The last columns in which texts of items may begin.
const (
	maxItemColumn = 24 // in a section
	maxLeadColumn = 14 // before the first section
)

// itemColumn returns the column in which the texts of a run of items begin.
func itemColumn(run []*Block, headed bool) int {
	if run[0].Kind != "item" {
		return 0
	}
	column := 0
	for _, b := range run {
		column = max(column, Cells(b.Head)+2)
	}
	if !headed {
		return min(column, maxLeadColumn)
	}
	return min(column, maxItemColumn)
}

// lastRank returns the rank of the block of a run that leaves a screen last.
func lastRank(run []*Block) int {
	highest := run[0].rank
	for _, b := range run {
		if b.rank == 0 {
			return 0
		}
		highest = max(highest, b.rank)
	}
	return highest
}

// writeBlock writes a block. Texts of items begin in a column, which a heading shifts to the right.
func (t *Text) writeBlock(b *Block, column int, headed bool, f Form) {
	say := t.Paragraph
	if b.Most > 0 && f == Screen {
		say = func(first, rest, s string) { t.Brief(b.Most, first, rest, s) }
	}
	switch b.Kind {
	case "answer":
		if b.Head == "" {
			say("", "  ", t.Paint(b.Style, b.Text))
			return
		}
		say(t.Paint(b.Style, b.Head), "  ", ": "+b.Text)
	case "section":
		head := t.Paint(Bold, strings.ToUpper(b.Head))
		if b.Level > 0 || b.Name {
			head = t.Paint(Bold, b.Head)
		}
		say("", "  ", head+t.Paint(b.Style, b.Text))
	case "say":
		first, rest := "  ", "  "
		if b.Head != "" {
			first, rest = "  "+b.Head+": ", "    "
		}
		if b.Style != Bold {
			t.Styled(b.Style, first, rest, b.Text)
			return
		}
		say(first, rest, b.Text)
	case "item":
		first, rest := t.itemPrefixes(b, column, headed)
		say(first, rest, b.Text)
	case "list":
		t.Paragraph("  ", "    ", b.Text)
	case "table":
		t.writeTable(b.Columns, b.Rows, b.Ranks)
	case "command":
		t.writeCommand(b, headed, f)
	}
}

// writeCommand writes a command, or the words that replace it on a screen if it takes too many lines.
func (t *Text) writeCommand(b *Block, headed bool, f Form) {
	indent := "  "
	if headed {
		indent = "    "
	}
	if trial := NewText(Options{Width: t.width}); b.Most > 0 && f == Screen {
		if trial.Command(indent, b.Text); trial.Lines() > b.Most {
			t.Line(indent + b.Head)
			return
		}
	}
	t.Command(indent, b.Text)
}

// itemPrefixes returns the prefixes of an item's first line and of the lines that follow it.
func (t *Text) itemPrefixes(b *Block, column int, headed bool) (firstPrefix, restPrefix string) {
	if headed {
		firstPrefix, column = "  ", column+2
	}
	firstPrefix += Pad(b.Head, column-len(firstPrefix)-1) + " "
	if b.Style != Bold {
		firstPrefix = strings.Replace(firstPrefix, b.Head, t.Paint(b.Style, b.Head), 1)
	}
	return firstPrefix, strings.Repeat(" ", min(column, t.width/2))
}

// Markdown writes the document as GitHub-flavoured Markdown.
func (d *Document) Markdown(w io.Writer) error {
	var b strings.Builder
	heading := "###"
	if d.Title != "" {
		heading = "##"
		fmt.Fprintf(&b, "# %s\n", Escape(Clean(d.Title)))
	}
	for _, run := range d.groupBlocks(Markdown) {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		for k, x := range run {
			switch head, text := Escape(x.Head), Escape(x.Text); x.Kind {
			case "answer":
				if head != "" {
					head = "**" + head + "**: "
				}
				fmt.Fprintf(&b, "%s%s\n", head, text)
			case "section":
				fmt.Fprintf(&b, "%s%s %s%s\n", heading, "#"[:x.Level], head, text)
			case "say":
				if k > 0 {
					b.WriteString("\n")
				}
				if head != "" {
					head += ": "
				}
				fmt.Fprintf(&b, "%s%s\n", head, text)
			case "item":
				fmt.Fprintf(&b, "- **%s**: %s\n", cmp.Or(head, "…"), text)
			case "list":
				fmt.Fprintf(&b, "- %s\n", text)
			case "table":
				b.WriteString(markdownRows(x.Columns, x.Rows))
			case "command":
				fmt.Fprintf(&b, "%[1]s\n%[2]s\n%[1]s\n", Fence(x.Text), x.Text)
			}
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

// markdownRows writes a table.
func markdownRows(columns []Column, rows [][]string) string {
	var b strings.Builder
	row := func(cell func(i int) string) {
		b.WriteString("|")
		for i := range columns {
			b.WriteString(" " + cell(i) + " |")
		}
		b.WriteString("\n")
	}
	row(func(i int) string { return Escape(columns[i].Title) })
	row(func(int) string { return "---" })
	for _, r := range rows {
		row(func(i int) string {
			if i < len(r) {
				return Escape(r[i])
			}
			return ""
		})
	}
	return b.String()
}

// A pageSection is a section of a page.
type pageSection struct {
	*Block
	Wide bool // takes the full width: it has charts, or a table with long rows
	Runs [][]*Block
}

// narrowRow is the width in characters of tables that may stand beside another section.
const narrowRow = 64

// isFullWidth reports whether a block takes the full width of a page.
func (b *Block) isFullWidth() bool {
	width := 0
	for i, c := range b.Columns {
		widest := Cells(c.Title)
		for _, row := range b.Rows {
			if i < len(row) {
				widest = max(widest, Cells(row[i]))
			}
		}
		width += widest + 2
	}
	return b.Kind == "figures" || b.Kind == "drawing" || width > narrowRow+2
}

// HTML writes the document as a self-contained page: no scripts, no outside resources, readable in dark mode and on
// paper.
func (d *Document) HTML(w io.Writer) error {
	all := []*pageSection{{Block: &Block{}, Wide: true}}
	for _, run := range d.groupBlocks(Page) {
		s := all[len(all)-1]
		if b := run[0]; b.Kind == "section" && b.Level == 0 {
			all = append(all, &pageSection{Block: b})
			continue
		}
		s.Runs = append(s.Runs, run)
		s.Wide = s.Wide || run[0].isFullWidth()
	}
	page, err := template.New("page").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(styleCSS) }, //nolint:gosec // constant
		"tool":  version.This,
		"cells": pageCells,
		"class": Style.Class,
		"heads": func(columns []Column) bool {
			return slices.ContainsFunc(columns, func(c Column) bool { return c.Title != "" })
		},
	}).Parse(documentHTML)
	if err != nil {
		return fmt.Errorf("parse page: %w", err)
	}
	if err := page.Execute(w, struct {
		Title    string
		Sections []*pageSection
	}{d.Title, all}); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// A pageCell is a cell of a table on a page.
type pageCell struct {
	Text string
	Span int
	Left bool
}

// pageCells returns the cells of a row. The last cell of a short row spans the remaining columns.
func pageCells(columns []Column, row []string) []pageCell {
	out := make([]pageCell, 0, len(row))
	for i, text := range row {
		c := pageCell{Text: text, Span: 1, Left: columns[i].Left}
		if i == len(row)-1 && len(row) < len(columns) {
			c.Span, c.Left = len(columns)-i, true
		}
		out = append(out, c)
	}
	return out
}
