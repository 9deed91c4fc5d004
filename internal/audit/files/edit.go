package files

import (
	"slices"
	"strings"
)

// An Edit replaces bytes of a decoded string, such as an expression's.
type Edit struct {
	Node       *Node
	Start, End int
	Text       string
}

// Place returns the line and the column, both from 1, of a byte of a string; 0 where the file's
// lines mean nothing.
func (d *Document) Place(n *Node, at int) (line, column int) {
	if d.Remote {
		return 0, 0
	}
	if bytes, ok := n.source(d.Data); ok {
		return position(d.Data, d.starts, bytes[at])
	}
	return position(d.Data, d.starts, n.offset)
}

// WrittenElsewhere reports whether a string is written elsewhere, such as in a string of another file: it can be pointed
// at, and not changed.
func (n *Node) WrittenElsewhere() bool { return n.aside }

// CanEdit reports whether a string can be changed where it stands.
func (d *Document) CanEdit(n *Node) bool {
	_, ok := n.source(d.Data)
	return ok && !d.Remote
}

// Edit writes changes into the file, one of a string and in its quoting, and returns the file as
// it then reads. It is nil where one cannot be written, or the result does not read as intended.
func (d *Document) Edit(all ...Edit) *Document {
	slices.SortStableFunc(all, func(a, b Edit) int { return b.Node.offset - a.Node.offset }) // so that what stands before keeps its place
	data := d.Data
	wanted := map[string]int{}
	for _, e := range all {
		at, placed := e.Node.source(data)
		text, writable := e.Node.write(e.Text)
		if !placed || !writable || e.Start >= e.End || e.End >= len(at) {
			return nil
		}
		last := at[e.End-1]
		if _, size, found := e.Node.find(data, last, e.Node.Value[e.End-1]); found {
			last += size
		}
		data = slices.Concat(data[:at[e.Start]], []byte(text), data[last:])
		wanted[stripSpace(e.Node.Value[:e.Start]+e.Text+e.Node.Value[e.End:])]++
	}
	out, err := Read(d.Name, data)
	if err != nil {
		return nil
	}
	for _, q := range out.Queries {
		if q.Err == nil {
			wanted[stripSpace(q.Node.Value)]--
		}
		if q.Panel != nil && q.Panel.UnitNode != nil {
			wanted[q.Panel.UnitNode.Value]--
		}
	}
	for _, n := range wanted {
		if n > 0 {
			return nil
		}
	}
	return out
}

// stripSpace takes the white space out, which a folded block may move.
func stripSpace(s string) string { return strings.Join(strings.Fields(s), "") }
