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
	style string
)

// A Form is one that a Document is read in; several may be combined.
type Form uint8

// The forms. Details are those that have room for everything.
const (
	Screen   Form = 1 << iota // text that fits a screen
	Full                      // text with all that there is to say
	Markdown                  // for a ticket, a chat or a wiki
	Page                      // HTML

	Details    = Full | Markdown | Page
	Everywhere = Screen | Details
)

// A Document is what a report says, in the order in which it is read: the answer first, then
// sections of paragraphs, named items, lists, tables, commands and charts. Text, Markdown
// and HTML are three ways to write it. What is added is cleaned of control characters.
type Document struct {
	Title  string // of the page
	More   string // what the full text shows, for the last line of a screen; "" where there is no full text
	blocks []*Block
	forms  Form
	rank   int
}

// NewDocument returns an empty document.
func NewDocument(title string) *Document { return &Document{Title: title, forms: Everywhere} }

// ShowIn says which forms show what is added next.
func (d *Document) ShowIn(f Form) { d.forms = f }

// Rank says how long what is added next stays on a screen: where there is no room for all,
// the lowest rank leaves first, of one rank the last one; rank 0 stays.
func (d *Document) Rank(n int) { d.rank = n }

// A Block is one thing that a document says. What adds it returns it, to be told more of.
type Block struct {
	Kind       string
	Head, Text string
	Style      Style // Bold is plain
	Most       int   // lines on a screen, 0 for all
	Name       bool  // of a section: its title is a name, which stays as it is
	Folded     bool  // of a section: a page shows its title until it is opened
	Level      int   // of a section: 0, or 1 for a part of the section before
	Columns    []Column
	Rows       [][]string
	Ranks      []int // of rows, nil where all stay with the table
	Figures    []Figure
	HTML       template.HTML

	forms Form
	rank  int
}

func (d *Document) add(b Block) *Block {
	b.forms, b.rank = d.forms, d.rank
	d.blocks = append(d.blocks, &b)
	return &b
}

// Answer says what the report comes to: a name that stands out, which may be "", and a
// sentence.
func (d *Document) Answer(s Style, head, text string) *Block {
	return d.add(Block{Kind: "answer", Style: s, Head: Clean(head), Text: Clean(text)})
}

// Section begins one. Of what it is follows its title, which a terminal shows in capitals.
func (d *Document) Section(title, of string) *Block {
	return d.add(Block{Kind: "section", Head: Clean(title), Text: Clean(of)})
}

// Subsection begins a part of a section.
func (d *Document) Subsection(title, of string) *Block {
	b := d.Section(title, of)
	b.Level = 1
	return b
}

// Paragraph adds a paragraph, behind a name unless that is "".
func (d *Document) Paragraph(name, text string) *Block {
	return d.add(Block{Kind: "say", Head: Clean(name), Text: Clean(text)})
}

// Ranked adds an item of a rank, if there is something to say.
func (d *Document) Ranked(rank int, name, text string) {
	if text == "" {
		return
	}
	before := d.rank
	d.Rank(rank)
	d.Item(name, text)
	d.Rank(before)
}

// Item adds what there is to say of a name; names that follow each other are aligned.
func (d *Document) Item(name, text string) *Block {
	return d.add(Block{Kind: "item", Head: Clean(name), Text: Clean(text)})
}

// List adds sentences, one below the other. There is no list without any.
func (d *Document) List(list ...string) {
	for _, s := range list {
		d.add(Block{Kind: "list", Text: Clean(s)})
	}
}

// Table adds rows in columns, where there are rows. A row may be shorter than the others:
// its last cell then goes over the rest.
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
	return d.add(b)
}

// Command adds a line to copy, which may be "": then there is none.
func (d *Document) Command(line string) {
	if line != "" {
		d.add(Block{Kind: "command", Text: Clean(line)})
	}
}

// Brief adds a line to copy where it takes no more than so many lines of a screen, which shows the words instead
// where it takes more.
func (d *Document) Brief(most int, line, words string) {
	d.add(Block{Kind: "command", Head: Clean(words), Text: Clean(line)}).Most = most
}

// Figures adds charts, which only a page shows.
func (d *Document) Figures(list ...Figure) {
	switch n := len(d.blocks) - 1; {
	case len(list) == 0:
	case n >= 0 && d.blocks[n].Kind == "figures":
		d.blocks[n].Figures = append(d.blocks[n].Figures, list...)
	default:
		d.add(Block{Kind: "figures", Figures: list}).forms &= Page
	}
}

// Drawing adds a drawing of the caller's own, which only a page shows.
func (d *Document) Drawing(h template.HTML) {
	if h != "" {
		d.add(Block{Kind: "drawing", HTML: h}).forms &= Page
	}
}

// runs are the blocks of a form, those that stand close together in one run.
func (d *Document) runs(f Form) [][]*Block {
	var out [][]*Block
	last := ""
	for _, b := range d.blocks {
		if b.forms&f == 0 {
			continue
		}
		if n := len(out) - 1; n >= 0 && (last == b.Kind && b.Kind != "table" && b.Kind != "section" || last == "answer" && b.Kind == "say") {
			out[n] = append(out[n], b)
		} else {
			out = append(out, []*Block{b})
		}
		last = b.Kind
	}
	return out
}

// Text writes the document for a terminal: what fits a screen or, in full, everything.
func (d *Document) Text(w io.Writer, o Options, full bool) error {
	t, form := NewText(o), Screen
	if full {
		form = Full
	}
	headed, last := false, ""
	for i, run := range d.runs(form) {
		kind := run[0].Kind
		// A paragraph belongs to what is before it, and under a heading so does all else.
		joined := last == "section" || kind == "say" && last != "item" || headed && (last == "say" || last == "command") && kind != "table"
		if i > 0 && (!joined || kind == "section") {
			t.BeginDroppable(lastRank(run))
			t.Line("")
		}
		headed, last = headed || kind == "section", run[len(run)-1].Kind
		column := 0
		if kind == "item" {
			for _, b := range run {
				column = max(column, Cells(b.Head)+2)
			}
			if column = min(column, widestName); !headed {
				column = min(column, widestLead)
			}
		}
		for _, b := range run {
			t.BeginDroppable(b.rank)
			t.block(b, column, headed, form)
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

// How far to the right the texts of items begin at most: in a section, and before any.
const widestName, widestLead = 24, 14

// lastRank is the rank of what of a run leaves last.
func lastRank(run []*Block) int {
	most := run[0].rank
	for _, b := range run {
		if b.rank == 0 {
			return 0
		}
		most = max(most, b.rank)
	}
	return most
}

// block writes one; items begin their texts at a column, and more to the right under a heading.
func (t *Text) block(b *Block, column int, headed bool, f Form) {
	say := t.Paragraph
	if b.Most > 0 && f == Screen {
		say = func(first, rest, s string) { t.Brief(b.Most, first, rest, s) }
	}
	switch b.Kind {
	case "answer":
		if b.Head == "" {
			say("", "  ", t.Style(b.Style, b.Text))
			return
		}
		say(t.Style(b.Style, b.Head), "  ", ": "+b.Text)
	case "section":
		head := t.Style(Bold, strings.ToUpper(b.Head))
		if b.Level > 0 || b.Name {
			head = t.Style(Bold, b.Head)
		}
		say("", "  ", head+t.Style(b.Style, b.Text))
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
		first := ""
		if headed {
			first, column = "  ", column+2
		}
		first += Pad(b.Head, column-len(first)-1) + " "
		rest := strings.Repeat(" ", min(column, t.width/2))
		if b.Style != Bold {
			first = strings.Replace(first, b.Head, t.Style(b.Style, b.Head), 1)
		}
		say(first, rest, b.Text)
	case "list":
		t.Paragraph("  ", "    ", b.Text)
	case "table":
		t.ranked(b.Columns, b.Rows, b.Ranks)
	case "command":
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
}

// Markdown writes the document as GitHub-flavoured Markdown.
func (d *Document) Markdown(w io.Writer) error {
	var b strings.Builder
	heading := "###"
	if d.Title != "" {
		heading = "##"
		fmt.Fprintf(&b, "# %s\n", Escape(Clean(d.Title)))
	}
	for _, run := range d.runs(Markdown) {
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

// pageSection is a section as a page shows it.
type pageSection struct {
	*Block
	Wide bool // it takes the whole width: it has charts, or a table with long rows
	Runs [][]*Block
}

// narrowRow is how many characters the columns of a table have that stands beside another.
const narrowRow = 64

// fullWidth reports whether a block takes the whole width of a page.
func (b *Block) fullWidth() bool {
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

// HTML writes the document as a page that needs nothing but itself: no scripts, no outside
// resources, readable in the dark and on paper.
func (d *Document) HTML(w io.Writer) error {
	all := []*pageSection{{Block: &Block{}, Wide: true}}
	for _, run := range d.runs(Page) {
		s := all[len(all)-1]
		if b := run[0]; b.Kind == "section" && b.Level == 0 {
			all = append(all, &pageSection{Block: b})
			continue
		}
		s.Runs = append(s.Runs, run)
		s.Wide = s.Wide || run[0].fullWidth()
	}
	page, err := template.New("page").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(style) }, //nolint:gosec // constant
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

// A pageCell is one of a table.
type pageCell struct {
	Text string
	Span int
	Left bool
}

// pageCells are those of a row, the last one of a short row over the rest.
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
