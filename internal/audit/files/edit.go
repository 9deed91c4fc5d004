package files

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// A Rename writes another name in the place of one that an expression asks for.
type Rename struct {
	Node     *Node
	Start    int // of the name in the expression
	Name, To string
}

// Place returns the line and the column, both from 1, of a byte of a string; 0 where the file's
// lines mean nothing.
func (d *Document) Place(n *Node, at int) (line, column int) {
	if d.Remote {
		return 0, 0
	}
	return position(d.Data, d.starts, d.find(n, at))
}

// find returns where in the file a byte of a string stands. How the string is written need not be
// known: the word there is the one that comes as many times after the string's beginning.
func (d *Document) find(n *Node, at int) int {
	start := at
	for start < len(n.Value) && !isWord(n.Value[start]) {
		start++
	}
	end := start
	for end < len(n.Value) && (isWord(n.Value[end]) || n.Value[end] == ':') {
		end++
	}
	word, place := n.Value[start:end], n.offset
	if word == "" {
		return n.offset
	}
	for range strings.Count(n.Value[:start], word) + 1 {
		next := bytes.Index(d.Data[place:min(len(d.Data), place+4*len(n.Value)+searched)], []byte(word))
		if next < 0 {
			return n.offset
		}
		place += next + len(word)
	}
	if place -= len(word); at < start && !strings.ContainsAny(n.Value[at:start], "\n\"\\'") {
		place -= start - at
	}
	return place
}

// searched is how far beyond four times a string's length its last word is looked for: the indentation
// of its lines.
const searched = 4 << 10

// CanRename reports whether an expression can be changed where it stands.
func (d *Document) CanRename(n *Node) bool { return !d.Remote && !n.aside }

// Rename writes other names into the file and returns it as it then reads; nil where an expression
// would not read as intended.
func (d *Document) Rename(all []Rename) *Document {
	slices.SortFunc(all, func(a, b Rename) int { return cmp.Or(b.Node.offset-a.Node.offset, b.Start-a.Start) }) // from the end on
	data, wanted := string(d.Data), map[*Node]string{}
	for _, r := range all {
		at := d.find(r.Node, r.Start)
		if !strings.HasPrefix(data[at:], r.Name) {
			return nil
		}
		data = data[:at] + r.To + data[at+len(r.Name):]
		text := cmp.Or(wanted[r.Node], r.Node.Value)
		wanted[r.Node] = text[:r.Start] + r.To + text[r.Start+len(r.Name):]
	}
	out, err := Read(d.Name, []byte(data))
	if err != nil || len(out.Queries) != len(d.Queries) {
		return nil
	}
	for i, q := range d.Queries {
		if got := out.Queries[i].Node.Value; strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(cmp.Or(wanted[q.Node], q.Node.Value)), "") {
			return nil // white space of a folded block may move
		}
	}
	return out
}
