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

// DefaultWidth is the number of columns of a terminal of unknown width.
const DefaultWidth = 80

// minWidth keeps tables and hanging indents readable in tiny terminals.
const minWidth = 40

// Options are the layout of text.
type Options struct {
	Width int  // columns; 0 means DefaultWidth
	Color bool // ANSI colours
}

// A Style highlights a piece of text when colours are on.
type Style int

// The styles.
const (
	Bold Style = iota
	Dim
	Good
	Warning
	Uncertain // for a verdict that is not certain yet
	Bad
)

// Class returns the class of a style on a page, "" for plain.
func (s Style) Class() string {
	return map[Style]string{Good: "good", Warning: "warning", Uncertain: "uncertain", Bad: "critical", Dim: "soft"}[s]
}

func (s Style) terminalStyle() lipgloss.Style {
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

// A Text is laid out for a terminal, line by line. The caller writes it with WriteTo.
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

// Width returns the columns of a line.
func (t *Text) Width() int { return t.width }

// Lines counts the lines.
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

// Paint writes a piece of text in a style if colours are on.
func (t *Text) Paint(s Style, text string) string {
	if !t.color || text == "" {
		return text
	}
	return s.terminalStyle().Render(text)
}

// Line writes a line without wrapping it, so that it can be copied.
func (t *Text) Line(s string) {
	t.b.WriteString(strings.TrimRight(s, " "))
	t.b.WriteByte('\n')
}

// Command writes a shell command to copy. A long command continues on the next line before an argument, never inside
// quotes. A comment behind the command moves above it if both do not fit one line.
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
	for i, arg := range splitArguments(s) {
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

// splitArguments splits a command at spaces outside quotes. An option keeps its value.
func splitArguments(s string) []string {
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
			isOption := func(s string) bool { return strings.HasPrefix(s, "-") && !strings.Contains(s, " ") }
			if n := len(out) - 1; n >= 0 && isOption(out[n]) && !strings.HasPrefix(arg, "-") {
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

// Paragraph wraps a text. The first line begins with first, the others with rest.
func (t *Text) Paragraph(first, rest, s string) {
	for _, line := range Wrap(first+s, t.width, rest) {
		t.Line(line)
	}
}

// Brief is Paragraph cut off after some lines, with "…" at the end.
func (t *Text) Brief(lines int, first, rest, s string) {
	all := Wrap(first+s, t.width, rest)
	for i, line := range all[:min(lines, len(all))] {
		if i == lines-1 && len(all) > lines {
			line = cutWords(strings.Join(all[i:], " "), t.width) // of the whole rest, because a style may end in it
		}
		t.Line(Cut(line, t.width))
	}
}

// cutWords cuts a line off after a whole word and adds " …".
func cutWords(line string, width int) string {
	plain := ansi.Truncate(ansi.Strip(line), width, "")
	for Cells(plain)+2 > width { // drop the last word
		at := strings.LastIndexByte(plain, ' ')
		if at <= 0 {
			return line
		}
		plain = strings.TrimRight(plain[:at], " ,;:.")
	}
	return ansi.Truncate(line, Cells(plain)+2, " …")
}

// Styled is Paragraph with everything but the prefixes in a style.
func (t *Text) Styled(style Style, first, rest, s string) {
	for i, line := range Wrap(first+s, t.width, rest) {
		prefix := rest
		if i == 0 {
			prefix = first
		}
		if words, ok := strings.CutPrefix(line, prefix); ok {
			line = prefix + t.Paint(style, strings.TrimRight(words, " "))
		}
		t.Line(line)
	}
}

// Item writes a name and, from a column on, a text.
func (t *Text) Item(column int, name, s string) {
	first := Pad(name, column)
	if len(strings.TrimSpace(name)) > 0 && Cells(name) >= column {
		first = name + " "
	}
	t.Paragraph(first, strings.Repeat(" ", min(column, t.width/2)), s)
}

// A Column is a column of a table.
type Column struct {
	Title string
	Left  bool // words; numbers are aligned to the right
	Rank  int  // columns leave a narrow terminal from the lowest rank on; 0 stays
	Clip  bool // a last column is shortened in the middle instead of wrapped
}

// Columns returns a column of words and then columns of numbers.
func Columns(first string, numbers ...string) []Column {
	out := []Column{{Title: first, Left: true}}
	for _, n := range numbers {
		out = append(out, Column{Title: n})
	}
	return out
}

// Words makes the last column a column of words, which can be wrapped.
func Words(columns []Column) []Column {
	columns[len(columns)-1].Left = true
	return columns
}

// minWrapped is the least width of a wrapped last column.
const minWrapped = 14

// Table writes rows in columns, indented by two. If the terminal is too narrow, the columns move together, ranked
// columns leave, and a last column of words is wrapped. As a last resort each row becomes a paragraph. The last cell
// of a short row spans the remaining columns.
func (t *Text) Table(columns []Column, rows [][]string) { t.writeTable(columns, rows, nil) }

// writeTable writes a table whose rows may leave a full screen.
func (t *Text) writeTable(columns []Column, rows [][]string, ranks []int) {
	columns, rows = t.dropColumns(columns, rows)
	widths, titled := measureColumns(columns, rows)
	gap := 3
	if indent+sum(widths)+gap*(len(widths)-1) > t.width {
		gap = 2
	}
	last := len(widths) - 1
	before := indent + sum(widths[:last]) + gap*last
	if before+widths[last] > t.width && !(columns[last].Left && t.width-before >= minWrapped) {
		t.writeRowsAsParagraphs(columns, rows, titled)
		return
	}
	if columns[last].Clip {
		for i, r := range rows {
			if len(r) == len(columns) {
				rows[i] = append(r[:last:last], Clip(r[last], t.width-before))
			}
		}
	}
	if titled {
		var titles []string
		for _, c := range columns {
			titles = append(titles, c.Title)
		}
		t.Line(t.Paint(Dim, strings.TrimRight(t.formatRow(columns, widths, gap, titles), " ")))
	}
	for i, r := range rows {
		if i < len(ranks) {
			t.BeginDroppable(ranks[i])
		}
		if n := len(r) - 1; n < last || columns[last].Left {
			first := t.formatRow(columns, widths, gap, r[:n])
			if n > 0 {
				first += strings.Repeat(" ", gap)
			}
			hang := Cells(first)
			longest := minWrapped
			for _, w := range splitWords(r[n]) {
				longest = max(longest, Cells(w))
			}
			if t.width-hang < longest {
				hang = min(hang, t.width/2)
			}
			t.Paragraph(first, strings.Repeat(" ", hang), r[n])
			continue
		}
		t.Line(t.formatRow(columns, widths, gap, r))
	}
}

// indent is the indent of tables.
const indent = 2

// dropColumns removes columns until the table fits.
func (t *Text) dropColumns(columns []Column, rows [][]string) ([]Column, [][]string) {
	columns, rows = slices.Clone(columns), slices.Clone(rows)
	for {
		widths, _ := measureColumns(columns, rows)
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

func measureColumns(columns []Column, rows [][]string) (_ []int, titled bool) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = Cells(c.Title)
		titled = titled || c.Title != ""
		for _, r := range rows {
			if i < len(r) && (i < len(r)-1 || len(r) == len(columns)) {
				widths[i] = max(widths[i], Cells(r[i]))
			}
		}
	}
	return widths, titled
}

func (t *Text) formatRow(columns []Column, widths []int, gap int, cells []string) string {
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

// writeRowsAsParagraphs writes each row as a paragraph, with the titles of columns before their cells.
func (t *Text) writeRowsAsParagraphs(columns []Column, rows [][]string, withTitles bool) {
	for _, r := range rows {
		var parts []string
		for i, c := range r[1:] {
			if c == "" {
				continue
			}
			if withTitles && len(r) == len(columns) && columns[i+1].Title != "" {
				c = columns[i+1].Title + " " + c
			}
			parts = append(parts, c)
		}
		t.Paragraph("  "+r[0]+": ", "    ", strings.Join(parts, ", "))
	}
}

// Pairs writes names and texts in two columns and wraps the texts.
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

// Cells returns how many columns of a terminal a text takes: none for escape sequences, two for wide characters.
func Cells(s string) int { return ansi.StringWidth(s) }

// Pad fills a text with spaces on the right.
func Pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-Cells(s))) }

// Right fills a text with spaces on the left.
func Right(s string, width int) string { return strings.Repeat(" ", max(0, width-Cells(s))) + s }

// Cut cuts off the end of a text that is too wide.
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

// Wrap breaks a text at spaces. Lines after the first begin with the indent. Leading spaces and runs of spaces within
// a line stay, because they align columns. A number stays with its unit. A word longer than a line gets a line of its
// own: it may be a command or an address to copy.
func Wrap(s string, width int, indent string) []string {
	var lines []string
	line, used := "", false // used: the line has a word
	for _, word := range splitWords(s) {
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

// splitWords splits a text into words with the spaces before them. A number and a short word, most likely its unit,
// count as one word.
func splitWords(s string) []string {
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

// Clean makes foreign text safe for a terminal. Control characters, which could move the cursor or change colours,
// become spaces.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

// Sentence cleans a text and ends it with a period.
func Sentence(s string) string {
	if last, _ := utf8.DecodeLastRuneInString(s); s != "" && !strings.ContainsRune(".?!…", last) {
		s += "."
	}
	return Clean(s)
}

// ShellWord quotes a word for a shell if necessary.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=+,@%", r))
	}
	if s != "" && strings.TrimLeftFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
