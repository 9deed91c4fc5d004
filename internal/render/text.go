package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// DefaultWidth is how many columns text has where the width of the terminal is
// unknown.
const DefaultWidth = 80

// minWidth keeps tables and hanging indents readable in tiny terminals.
const minWidth = 40

// Options say how text is laid out.
type Options struct {
	Width int  // columns; 0 means DefaultWidth
	Color bool // ANSI colours
}

// Style is how a piece of text stands out where colours are on.
type Style int

// The styles.
const (
	Bold Style = iota
	Dim
	Good
	Warning
	Uncertain // what is not certain yet: neither well nor known to be ill
	Bad
)

// Class is a style's on a page, "" where it is plain there.
func (s Style) Class() string {
	return map[Style]string{Good: "good", Warning: "warning", Uncertain: "uncertain", Bad: "critical", Dim: "soft"}[s]
}

func (s Style) style() lipgloss.Style {
	out := lipgloss.NewStyle()
	switch s {
	case Dim:
		return out.Faint(true)
	case Good:
		return out.Bold(true).Foreground(lipgloss.Green)
	case Warning:
		return out.Bold(true).Foreground(lipgloss.Yellow)
	case Uncertain:
		return out.Bold(true).Foreground(lipgloss.Magenta)
	case Bad:
		return out.Bold(true).Foreground(lipgloss.Red)
	}
	return out.Bold(true)
}

// Text is laid out for a terminal, line by line. The caller writes it with
// WriteTo.
type Text struct {
	b     strings.Builder
	width int
	color bool
	parts []droppable
}

// NewText returns an empty text.
func NewText(o Options) *Text {
	if o.Width <= 0 {
		o.Width = DefaultWidth
	}
	return &Text{width: max(o.Width, minWidth), color: o.Color}
}

// Width is how many columns lines may have.
func (t *Text) Width() int { return t.width }

// Lines is how many lines there are.
func (t *Text) Lines() int { return strings.Count(t.b.String(), "\n") }

func (t *Text) String() string { return t.b.String() }

// WriteTo writes the text at once.
func (t *Text) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, t.b.String())
	if err != nil {
		return int64(n), fmt.Errorf("write text: %w", err)
	}
	return int64(n), nil
}

// Style gives a piece of text a style, where colours are on.
func (t *Text) Style(s Style, text string) string {
	if !t.color || text == "" {
		return text
	}
	return s.style().Render(text)
}

// Line writes one line as it is: what is to be copied is not wrapped.
func (t *Text) Line(s string) {
	t.b.WriteString(strings.TrimRight(s, " "))
	t.b.WriteByte('\n')
}

// Command writes a shell command to copy, continued on the next line where it is too
// long: before an option or another argument, outside quotes. A comment behind it stands above
// where there is no room for it.
func (t *Text) Command(indent, s string) {
	if command, comment, ok := strings.Cut(s, "  # "); ok {
		if Cells(indent+s) <= t.width {
			t.Line(indent + s)
			return
		}
		t.Paragraph(indent+"# ", indent+"# ", strings.TrimSpace(comment))
		s = strings.TrimSpace(command)
	}
	line := indent
	for i, arg := range arguments(s) {
		switch {
		case i == 0:
		case Cells(line)+1+Cells(arg)+len(` \`) > t.width:
			t.Line(line + ` \`)
			line = indent + "    "
		default:
			line += " "
		}
		line += arg
	}
	t.Line(line)
}

// arguments splits a command at spaces outside quotes; an option's value stays with it.
func arguments(s string) []string {
	var out []string
	arg, quote, escaped := "", rune(0), false
	for _, r := range s + " " {
		switch {
		case escaped, r == '\\' && quote != '\'':
			escaped = !escaped
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && r == ' ':
			if n := len(out) - 1; n >= 0 && strings.HasPrefix(out[n], "-") && !strings.Contains(out[n], " ") && !strings.HasPrefix(arg, "-") {
				out[n] += " " + arg
			} else if arg != "" {
				out = append(out, arg)
			}
			arg = ""
			continue
		}
		arg += string(r)
	}
	return out
}

// Heading writes a title after an empty line.
func (t *Text) Heading(s string) {
	t.Line("")
	t.Styled(Bold, "", "  ", s)
}

// Paragraph writes wrapped text behind a first prefix; the lines that follow
// begin with the second.
func (t *Text) Paragraph(first, rest, s string) {
	for _, line := range Wrap(first+s, t.width, rest) {
		t.Line(line)
	}
}

// Brief is Paragraph cut off after some lines, at "…".
func (t *Text) Brief(lines int, first, rest, s string) {
	all := Wrap(first+s, t.width, rest)
	for i, line := range all[:min(lines, len(all))] {
		if i == lines-1 && len(all) > lines {
			line = cutWords(strings.Join(all[i:], " "), t.width) // all of it: a style ends at its end
		}
		t.Line(Cut(line, t.width))
	}
}

// cutWords cuts a line off behind a whole word, at " …".
func cutWords(line string, width int) string {
	plain := ansi.Truncate(ansi.Strip(line), width, "") // at most one word too much
	for Cells(plain)+2 > width {
		at := strings.LastIndexByte(plain, ' ')
		if at <= 0 {
			return line
		}
		plain = strings.TrimRight(plain[:at], " ,;:.")
	}
	return ansi.Truncate(line, Cells(plain)+2, " …")
}

// Styled is Paragraph with all but the prefixes in a style.
func (t *Text) Styled(style Style, first, rest, s string) {
	for i, line := range Wrap(first+s, t.width, rest) {
		prefix := rest
		if i == 0 {
			prefix = first
		}
		if words, ok := strings.CutPrefix(line, prefix); ok {
			line = prefix + t.Style(style, strings.TrimRight(words, " "))
		}
		t.Line(line)
	}
}

// Item writes a name and, from a column on, what there is to say of it.
func (t *Text) Item(column int, name, s string) {
	first := Pad(name, column)
	if len(strings.TrimSpace(name)) > 0 && Cells(name) >= column {
		first = name + " "
	}
	t.Paragraph(first, strings.Repeat(" ", min(column, t.width/2)), s)
}

// Column is one of a table's.
type Column struct {
	Title string
	Left  bool // words; numbers stand at the right
	Rank  int  // where there is little room, columns leave from the lowest rank on; 0 stays
	Clip  bool // of the last one: shortened in the middle where it must be, not wrapped
}

// Columns returns a column of words and then columns of numbers.
func Columns(first string, numbers ...string) []Column {
	out := []Column{{Title: first, Left: true}}
	for _, n := range numbers {
		out = append(out, Column{Title: n})
	}
	return out
}

// Words makes the last column one of words, which is wrapped where it must.
func Words(columns []Column) []Column {
	columns[len(columns)-1].Left = true
	return columns
}

// leastWrapped is how wide a wrapped last column is at least.
const leastWrapped = 14

// Table writes rows in columns, behind an indent of two. Where the terminal is too
// narrow the columns move together, those with a rank leave, the last one is
// wrapped if it holds words or, at last, each row becomes a paragraph. A row may
// be shorter than the others: its last cell is then wrapped over the rest.
func (t *Text) Table(columns []Column, rows [][]string) { t.ranked(columns, rows, nil) }

// ranked is Table of rows that may leave where there is no room for all.
func (t *Text) ranked(columns []Column, rows [][]string, ranks []int) {
	columns, rows = t.fit(columns, rows)
	widths, heads := measure(columns, rows)
	gap := 3
	if indent+sum(widths)+gap*(len(widths)-1) > t.width {
		gap = 2
	}
	last := len(widths) - 1
	before := indent + sum(widths[:last]) + gap*last
	if before+widths[last] > t.width && !(columns[last].Left && t.width-before >= leastWrapped) {
		t.paragraphs(columns, rows, heads)
		return
	}
	if columns[last].Clip {
		for i, r := range rows {
			if len(r) == len(columns) {
				rows[i] = append(r[:last:last], Clip(r[last], t.width-before))
			}
		}
	}
	if heads {
		var titles []string
		for _, c := range columns {
			titles = append(titles, c.Title)
		}
		t.Line(t.Style(Dim, strings.TrimRight(t.row(columns, widths, gap, titles), " ")))
	}
	for i, r := range rows {
		if i < len(ranks) {
			t.BeginDroppable(ranks[i])
		}
		if n := len(r) - 1; n < last || columns[last].Left {
			first := t.row(columns, widths, gap, r[:n])
			if n > 0 {
				first += strings.Repeat(" ", gap)
			}
			hang := Cells(first)
			longest := leastWrapped
			for _, w := range words(r[n]) {
				longest = max(longest, Cells(w))
			}
			if t.width-hang < longest {
				hang = min(hang, t.width/2)
			}
			t.Paragraph(first, strings.Repeat(" ", hang), r[n])
			continue
		}
		t.Line(t.row(columns, widths, gap, r))
	}
}

// indent is that of tables.
const indent = 2

// fit leaves out the columns that there is no room for.
func (t *Text) fit(columns []Column, rows [][]string) ([]Column, [][]string) {
	columns, rows = slices.Clone(columns), slices.Clone(rows)
	for {
		widths, _ := measure(columns, rows)
		least := -1
		for i, c := range columns {
			if c.Rank > 0 && (least < 0 || c.Rank < columns[least].Rank) {
				least = i
			}
		}
		if least < 0 || indent+sum(widths)+2*(len(widths)-1) <= t.width {
			return columns, rows
		}
		columns = slices.Delete(columns, least, least+1)
		for i, r := range rows {
			if least < len(r) && (least < len(r)-1 || len(r) == len(columns)+1) {
				rows[i] = slices.Delete(slices.Clone(r), least, least+1)
			}
		}
	}
}

func measure(columns []Column, rows [][]string) (widths []int, heads bool) {
	widths = make([]int, len(columns))
	for i, c := range columns {
		widths[i] = Cells(c.Title)
		heads = heads || c.Title != ""
		for _, r := range rows {
			if i < len(r) && (i < len(r)-1 || len(r) == len(columns)) {
				widths[i] = max(widths[i], Cells(r[i]))
			}
		}
	}
	return widths, heads
}

func (t *Text) row(columns []Column, widths []int, gap int, cells []string) string {
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", indent))
	for i, c := range cells {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		if columns[i].Left {
			b.WriteString(Pad(c, widths[i]))
		} else {
			b.WriteString(Right(c, widths[i]))
		}
	}
	return b.String()
}

// paragraphs writes each row as one, the titles of the columns before its cells.
func (t *Text) paragraphs(columns []Column, rows [][]string, heads bool) {
	for _, r := range rows {
		var parts []string
		for i, c := range r[1:] {
			if c == "" {
				continue
			}
			if heads && len(r) == len(columns) && columns[i+1].Title != "" {
				c = columns[i+1].Title + " " + c
			}
			parts = append(parts, c)
		}
		t.Paragraph("  "+r[0]+": ", "    ", strings.Join(parts, ", "))
	}
}

// Pairs writes names and texts in two columns, the second one wrapped.
func (t *Text) Pairs(rows [][]string) {
	w := 0
	for _, r := range rows {
		w = max(w, Cells(r[0]))
	}
	for _, r := range rows {
		t.Item(w+4, "  "+Pad(r[0], w), r[1])
	}
}

func sum(v []int) int {
	n := 0
	for _, x := range v {
		n += x
	}
	return n
}

// Cells is how many columns of a terminal a text takes: none for its escape
// sequences, two for wide characters.
func Cells(s string) int { return ansi.StringWidth(s) }

// Pad fills a text up to a width with spaces behind it.
func Pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-Cells(s))) }

// Right fills a text up to a width with spaces before it.
func Right(s string, width int) string { return strings.Repeat(" ", max(0, width-Cells(s))) + s }

// Cut leaves out what does not fit at a text's end.
func Cut(s string, width int) string { return ansi.Truncate(s, width, "…") }

// Clip shortens a text in its middle.
func Clip(s string, width int) string {
	n := Cells(s)
	if n <= width {
		return s
	}
	head := width * 2 / 3
	return ansi.Truncate(s, head, "") + "…" + ansi.TruncateLeft(s, n-(width-head-1), "")
}

// Wrap breaks a text at spaces; lines but the first begin with the indent. The
// leading spaces of the text and runs of spaces within a line are kept, for they
// align columns. A number stays with its unit. A word longer than a line gets one
// of its own, for it may be a command or an address to copy.
func Wrap(s string, width int, indent string) []string {
	var lines []string
	line, used := "", false // used: the line has a word
	for _, word := range words(s) {
		bare := strings.TrimLeft(word, " ")
		if used && Cells(line)+Cells(word) > width && bare != "" {
			lines = append(lines, strings.TrimRight(line, " "))
			line, used, word = indent, false, bare
		}
		line += word
		used = used || bare != ""
	}
	return append(lines, line)
}

// words splits a text into words with the spaces before them. A number and a short
// word, most likely its unit, are one.
func words(s string) []string {
	var out []string
	for s != "" {
		start := len(s) - len(strings.TrimLeft(s, " "))
		end := len(s)
		if i := strings.IndexByte(s[start:], ' '); i >= 0 {
			end = start + i
		}
		word := s[:end]
		s = s[end:]
		unit := strings.TrimRight(strings.TrimLeft(word, " "), ".,;:)")
		if n := len(out) - 1; n >= 0 && start == 1 && unit != "" && Cells(unit) <= 3 && endsInDigit(out[n]) {
			out[n] += word
			continue
		}
		out = append(out, word)
	}
	return out
}

func endsInDigit(s string) bool { return s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9' }

// Clean makes foreign text safe for a terminal: control characters, with which
// a label could move the cursor or change colours, become spaces.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

// Sentence ends a text with a period, and makes it safe as Clean does.
func Sentence(s string) string {
	if last, _ := utf8.DecodeLastRuneInString(s); s != "" && !strings.ContainsRune(".?!…", last) {
		s += "."
	}
	return Clean(s)
}

// ShellWord writes a word for a shell.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=+,@%", r))
	}
	if s != "" && strings.TrimLeftFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
