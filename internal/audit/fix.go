package audit

import (
	"fmt"
	"slices"
	"strings"
)

// maxRounds bounds the repairs of one file: a round repairs at most one fault of each string.
const maxRounds = 10

// A Fixed is a file after its repair.
type Fixed struct {
	Data []byte
	// Repaired are the findings that are gone, and Left those that remain, doubts aside.
	Repaired, Left []Finding
}

// Fix repairs what can be repaired without a decision in files that belong together, each in the
// same place of the result: names with one successor, and the unit of a panel. Only the strings
// concerned change; files that cannot be read come back as they are.
func Fix(all []File, s *Surface, ignore ...string) []Fixed {
	out := make([]Fixed, len(all))
	current := slices.Clone(all)
	findings, _ := Lint(current, s, ignore...)
	for range maxRounds {
		again := false
		for i := range current {
			again = out[i].repair(&current[i], findings) || again
		}
		if !again {
			break
		}
		findings, _ = Lint(current, s, ignore...)
	}
	for i := range current {
		out[i].Data = current[i].Data
		for _, f := range findings {
			if f.File == current[i].Name && !f.Doubt {
				out[i].Left = append(out[i].Left, f)
			}
		}
	}
	return out
}

// repair applies one repair to every string of a file that has one, from the end of the file on, so that what
// stands before keeps its place; false where none was applied.
func (d *Fixed) repair(f *File, findings []Finding) bool {
	touched, done := map[*node]bool{}, false
	mine := slices.DeleteFunc(slices.Clone(findings), func(x Finding) bool { return x.File != f.Name || x.edit == nil })
	slices.SortStableFunc(mine, func(a, b Finding) int { return b.edit.node.offset - a.edit.node.offset })
	for _, x := range mine {
		if touched[x.edit.node] {
			continue
		}
		touched[x.edit.node] = true
		if data, ok := x.edit.apply(f); ok {
			f.Data, done = data, true
			d.Repaired = append(d.Repaired, x)
		}
	}
	slices.Reverse(d.Repaired)
	return done
}

// apply writes an edit into a file, in the string's own quoting; ok is false where the result does not read as
// intended.
func (e *edit) apply(f *File) (data []byte, ok bool) {
	at, placed := e.node.source(f.Data)
	text, writable := e.node.write(e.text)
	if !placed || !writable || e.start >= e.end || e.end >= len(at) {
		return nil, false
	}
	last := at[e.end-1]
	if _, size, found := e.node.find(f.Data, last, e.node.value[e.end-1]); found {
		last += size
	}
	data = slices.Concat(f.Data[:at[e.start]], []byte(text), f.Data[last:])
	want := squeeze(e.node.value[:e.start] + e.text + e.node.value[e.end:])
	d, err := read(&File{Name: f.Name, Data: data, Kind: f.Kind})
	return data, err == nil && slices.ContainsFunc(d.queries, func(q *query) bool {
		unit := q.panel != nil && q.panel.unitNode != nil && q.panel.unitNode.value == want
		return unit || q.err == nil && squeeze(q.node.value) == want
	})
}

// squeeze takes the white space out, which a folded block may move.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// Summary says in a few words what a repair did.
func (f Fixed) Summary() string {
	mechanical := len(f.Repaired)
	switch {
	case mechanical == 0 && len(f.Left) == 0:
		return "nothing to repair"
	case mechanical == 0:
		return fmt.Sprintf("nothing that can be repaired mechanically; %d left", len(f.Left))
	case len(f.Left) == 0:
		return fmt.Sprintf("%d repaired", mechanical)
	}
	return fmt.Sprintf("%d repaired, %d left", mechanical, len(f.Left))
}
