package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// maxRounds bounds the repairs of one file: every round repairs at most one
// fault of each string.
const maxRounds = 40

// A Fixed is a file after its repair.
type Fixed struct {
	Data []byte
	// Repaired are the findings that are gone, and Left those that remain.
	Repaired, Left []Finding
}

// Fix repairs what can be repaired mechanically in files that belong together,
// each in the same place of the result. Only the strings concerned change:
// comments, order and layout stay as they are. Files that cannot be read come
// back as they are.
func Fix(files []File, s *Surface, ignore ...string) []Fixed {
	out := make([]Fixed, len(files))
	skip := map[string]bool{}
	current := slices.Clone(files)
	for range maxRounds {
		findings, _ := Lint(current, s, ignore...)
		again := false
		for i := range current {
			data, done := fixOnce(&current[i], findings, skip)
			if len(done) > 0 {
				current[i].Data = data
				out[i].Repaired = append(out[i].Repaired, done...)
				again = true
			}
		}
		if !again {
			break
		}
	}
	left, _ := Lint(current, s, ignore...)
	for i := range current {
		out[i].Data = current[i].Data
		for _, f := range left {
			if f.File == current[i].Name {
				out[i].Left = append(out[i].Left, f)
			}
		}
	}
	return out
}

// fixOnce applies, to every string of a file, the first repair that holds: that
// gives a file which reads as intended. Others are remembered in skip.
func fixOnce(f *File, findings []Finding, skip map[string]bool) ([]byte, []Finding) {
	data := f.Data
	var done []Finding
	touched := map[*node]bool{}
	// From the end to the beginning, so that positions before stay as they are.
	mine := slices.DeleteFunc(slices.Clone(findings), func(x Finding) bool { return x.File != f.Name || len(x.edits) == 0 })
	slices.SortStableFunc(mine, func(a, b Finding) int { return b.edits[0].node.offset - a.edits[0].node.offset })
	for _, x := range mine {
		n := x.edits[0].node
		key := f.Name + "\xff" + x.Path + "\xff" + x.Check + "\xff" + n.value
		if touched[n] || skip[key] || slices.ContainsFunc(x.edits, func(e edit) bool { return e.node != n }) {
			continue
		}
		next, ok := apply(data, f.Data, n, x.edits)
		if !ok || !reads(File{Name: f.Name, Data: next, Kind: f.Kind}, x.Path, n, x.edits) {
			skip[key] = true
			continue
		}
		data, touched[n] = next, true
		done = append(done, x)
	}
	return data, done
}

// apply writes the edits of one string into the file. original is the file that
// the node was read from; data may have changed behind the node.
func apply(data, original []byte, n *node, edits []edit) ([]byte, bool) {
	at, ok := n.source(original)
	if !ok {
		return nil, false
	}
	sortedEdits := slices.SortedStableFunc(slices.Values(edits), func(a, b edit) int { return b.start - a.start })
	out := bytes.Clone(data)
	for _, e := range sortedEdits {
		text, ok := n.write(e.text)
		if !ok || e.start > e.end || e.end >= len(at) {
			return nil, false
		}
		from, to := at[e.start], at[e.end]
		if e.end > e.start { // up to the end of the last byte, not to the next one
			to = at[e.end-1] + n.width(original, at, e.end-1)
		}
		if from > to || to > len(out) {
			return nil, false
		}
		out = slices.Concat(out[:from], []byte(text), out[to:])
	}
	return out, true
}

// width returns how many bytes write a byte of the decoded string.
func (n *node) width(data []byte, at []int, i int) int {
	_, size, ok := n.find(data, at[i], n.value[i])
	if !ok || isSpace(n.value[i]) {
		return 1
	}
	return size
}

// reads reports whether the changed file still reads, with the string as
// intended.
func reads(f File, path string, n *node, edits []edit) bool {
	d, err := read(&f)
	if err != nil {
		return false
	}
	want := edited(n.value, edits)
	for _, q := range d.queries {
		if q.path != path {
			continue
		}
		if q.node.value == want || q.panel != nil && q.panel.unitNode != nil && q.panel.unitNode.value == want {
			return true
		}
		if squeeze(q.node.value) == squeeze(want) {
			return q.err == nil
		}
	}
	return false
}

// edited returns a decoded string with its edits.
func edited(s string, edits []edit) string {
	for _, e := range slices.SortedStableFunc(slices.Values(edits), func(a, b edit) int { return b.start - a.start }) {
		s = s[:e.start] + e.text + s[e.end:]
	}
	return s
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
