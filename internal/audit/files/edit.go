package files

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// A Rename writes another name in the place of one that an expression asks for.
type Rename struct {
	Query    *Query
	Start    int // offset of the name in the expression
	Name, To string
}

// Place returns the line and the column, both from 1, of a byte of an expression; 0 where the file's
// lines mean nothing.
func (q *Query) Place(at int) (line, column int) {
	if q.Doc.Remote {
		return 0, 0
	}
	return q.Doc.position(q.find(at))
}

// position returns the line and the column, both from 1, of an offset.
func (d *Document) position(offset int) (line, column int) {
	before := d.Data[:min(offset, len(d.Data))]
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// offsetOf returns the byte at which a node begins; a block's content begins on the line after its indicator.
func (d *Document) offsetOf(n *yaml.Node) int {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return append(d.lines, len(d.Data))[min(n.Line, len(d.lines))]
	}
	at := d.lines[min(n.Line, len(d.lines))-1]
	for c := 1; c < n.Column && at < len(d.Data); c++ {
		_, size := utf8.DecodeRune(d.Data[at:])
		at += size
	}
	for n.Kind == yaml.ScalarNode && at < len(d.Data) && (d.Data[at] == '&' || d.Data[at] == '!') { // an anchor, a tag
		word := bytes.IndexAny(d.Data[at:], " \n\t\r")
		if word < 0 {
			break
		}
		rest := d.Data[at+word:]
		at += word + len(rest) - len(bytes.TrimLeft(rest, " "))
	}
	return at
}

// find returns where in the file a byte of an expression stands. How the string is written need not be
// known: the word there is the one that comes as many times after the string's beginning.
func (q *Query) find(at int) int {
	start := at
	for start < len(q.Expr) && !isWord(q.Expr[start]) {
		start++
	}
	end := start
	for end < len(q.Expr) && (isWord(q.Expr[end]) || q.Expr[end] == ':') {
		end++
	}
	data, word, place := q.Doc.Data, q.Expr[start:end], q.offset
	if word == "" {
		return q.offset
	}
	for range strings.Count(q.Expr[:start], word) + 1 {
		next := bytes.Index(data[place:min(len(data), place+4*len(q.Expr)+searched)], []byte(word))
		if next < 0 {
			return q.offset
		}
		place += next + len(word)
	}
	if place -= len(word); at < start && !strings.ContainsAny(q.Expr[at:start], "\n\"\\'") {
		place -= start - at
	}
	return place
}

// searched is how far beyond four times a string's length its last word is looked for: the indentation
// of its lines.
const searched = 4 << 10

// CanRename reports whether an expression can be changed where it stands.
func (q *Query) CanRename() bool { return !q.Doc.Remote && !q.aside }

// Rename writes other names into the file and returns it as it then reads; nil where an expression
// would not read as intended.
func (d *Document) Rename(all []Rename) *Document {
	slices.SortFunc(all, func(a, b Rename) int { return cmp.Or(b.Query.offset-a.Query.offset, b.Start-a.Start) }) // from the end on
	data, wanted := string(d.Data), map[*Query]string{}
	for _, r := range all {
		at := r.Query.find(r.Start)
		if !strings.HasPrefix(data[at:], r.Name) {
			return nil
		}
		data = data[:at] + r.To + data[at+len(r.Name):]
		text := cmp.Or(wanted[r.Query], r.Query.Expr)
		wanted[r.Query] = text[:r.Start] + r.To + text[r.Start+len(r.Name):]
	}
	out, err := Read(d.Name, []byte(data))
	if err != nil || len(out.Queries) != len(d.Queries) {
		return nil
	}
	for i, q := range d.Queries {
		if strings.Join(strings.Fields(out.Queries[i].Expr), "") != strings.Join(strings.Fields(cmp.Or(wanted[q], q.Expr)), "") {
			return nil // white space of a folded block may move
		}
	}
	return out
}
