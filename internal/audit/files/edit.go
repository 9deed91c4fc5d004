package files

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// A Rename replaces a metric's name in an expression.
type Rename struct {
	Query    *Query
	Name, To string
}

// CanRename reports whether the file has the expression itself, and not an alias of it.
func (q *Query) CanRename() bool { return q.node != nil && q.node.Kind == yaml.ScalarNode }

// offset returns the offset in the file, in bytes, at which the expression begins.
func (q *Query) offset() int {
	data, at := q.Doc.Data, 0
	for range q.Line(0) - 1 {
		at += bytes.IndexByte(data[at:], '\n') + 1
	}
	if q.isBlock() {
		return at
	}
	for c := 1; c < q.node.Column && at < len(data); c++ {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return at
}

// Rename applies all renames and returns the new file; nil if an expression would not parse as intended.
func (d *Document) Rename(all []Rename) *Document {
	// The last query comes first, so that the offsets of the others hold.
	slices.SortStableFunc(all, func(a, b Rename) int { return cmp.Compare(b.Query.offset(), a.Query.offset()) })
	data, wanted := string(d.Data), map[*Query]string{}
	for _, r := range all {
		at, expr := r.Query.offset(), cmp.Or(wanted[r.Query], r.Query.Expr)
		data = data[:at] + replaceName(data[at:], expr, r.Name, r.To)
		wanted[r.Query] = replaceName(expr, expr, r.Name, r.To)
	}
	out, err := Read(d.Name, []byte(data))
	if err != nil || len(out.Queries) != len(d.Queries) {
		return nil
	}
	for i, q := range d.Queries {
		got, want := strings.Fields(out.Queries[i].Expr), strings.Fields(cmp.Or(wanted[q], q.Expr))
		if strings.Join(got, "") != strings.Join(want, "") { // white space of a folded block may move
			return nil
		}
	}
	return out
}

// replaceName replaces a name in the text by which a file writes an expression, perhaps quoted and with escapes. The
// name occurs in both equally often and in the same order; expr tells which occurrences are whole words.
func replaceName(text, expr, name, to string) string {
	var out strings.Builder
	for at := 0; ; {
		k, i := strings.Index(text, name), strings.Index(expr[at:], name)
		if k < 0 || i < 0 {
			return out.String() + text
		}
		out.WriteString(text[:k])
		before, after := expr[:at+i], expr[at+i+len(name):]
		if strings.TrimRightFunc(before, isNameRune) == before && strings.TrimLeftFunc(after, isNameRune) == after {
			out.WriteString(to)
		} else {
			out.WriteString(name)
		}
		text, at = text[k+len(name):], at+i+len(name)
	}
}

// isNameRune reports whether a character may be part of a metric's name.
func isNameRune(r rune) bool {
	return r == ':' || r == '_' || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
