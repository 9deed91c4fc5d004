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
	// Repaired are the findings that are gone, and Left those that remain, doubts aside.
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
			if f.File == current[i].Name && !f.Doubt {
				out[i].Left = append(out[i].Left, f)
			}
		}
	}
	return out
}

// fixOnce applies one repair to every string of a file that has one.
func fixOnce(f *File, findings []Finding, skip map[string]bool) ([]byte, []Finding) {
	chosen := choose(f, findings, skip)
	if len(chosen) == 0 {
		return f.Data, nil
	}
	return fixSome(f, chosen, skip)
}

// fixSome applies repairs whose result reads as intended: all of them, or, where
// one spoils the rest, those of a part. A repair that fails alone is remembered
// in skip.
func fixSome(f *File, chosen []Finding, skip map[string]bool) ([]byte, []Finding) {
	if data, ok := applyAll(f, chosen); ok {
		return data, chosen
	}
	half := len(chosen) / 2
	if half == 0 {
		skip[key(f, chosen[0])] = true
		return f.Data, nil
	}
	if data, done := fixSome(f, chosen[:half], skip); len(done) > 0 {
		return data, done
	}
	return fixSome(f, chosen[half:], skip)
}

// key names a repair that was tried.
func key(f *File, x Finding) string {
	return strings.Join([]string{f.Name, x.Path, x.Check, x.edits[0].node.value}, "\xff")
}

// choose picks one repair for each string.
func choose(f *File, findings []Finding, skip map[string]bool) []Finding {
	mine := slices.DeleteFunc(slices.Clone(findings), func(x Finding) bool { return x.File != f.Name || len(x.edits) == 0 })
	touched := map[*node]bool{}
	return slices.DeleteFunc(mine, func(x Finding) bool {
		n := x.edits[0].node
		if touched[n] || skip[key(f, x)] || slices.ContainsFunc(x.edits, func(e edit) bool { return e.node != n }) {
			return true
		}
		touched[n] = true
		return false
	})
}

// applyAll writes repairs into a file and reports whether the result reads as
// intended.
func applyAll(f *File, repairs []Finding) ([]byte, bool) {
	var splices []splice
	for _, x := range repairs {
		more, ok := spliced(f.Data, x.edits[0].node, x.edits)
		if !ok {
			return nil, false
		}
		splices = append(splices, more...)
	}
	data, ok := spliceAll(f.Data, splices)
	if !ok {
		return nil, false
	}
	d, err := read(&File{Name: f.Name, Data: data, Kind: f.Kind})
	if err != nil {
		return nil, false
	}
	queries := map[string][]*query{}
	for _, q := range d.queries {
		queries[q.path] = append(queries[q.path], q)
	}
	for _, x := range repairs {
		if !intended(queries[x.Path], x) {
			return nil, false
		}
	}
	return data, true
}

// A splice replaces bytes of a file.
type splice struct {
	from, to int
	text     string
}

// spliced turns the edits of one string into those of its file.
func spliced(data []byte, n *node, edits []edit) ([]splice, bool) {
	at, ok := n.source(data)
	if !ok {
		return nil, false
	}
	var out []splice
	for _, e := range edits {
		text, ok := n.write(e.text)
		if !ok || e.start > e.end || e.end >= len(at) {
			return nil, false
		}
		from, to := at[e.start], at[e.end]
		if e.end > e.start { // up to the end of the last byte, not to the next one
			to = at[e.end-1] + n.width(data, at, e.end-1)
		}
		out = append(out, splice{from, to, text})
	}
	return out, true
}

// spliceAll applies splices that do not overlap; those at one place are applied
// in their order.
func spliceAll(data []byte, all []splice) ([]byte, bool) {
	slices.SortStableFunc(all, func(a, b splice) int { return a.from - b.from })
	var out bytes.Buffer
	last := 0
	for _, s := range all {
		if s.from < last || s.to < s.from || s.to > len(data) {
			return nil, false
		}
		out.Write(data[last:s.from])
		out.WriteString(s.text)
		last = s.to
	}
	out.Write(data[last:])
	return out.Bytes(), true
}

// width returns how many bytes write a byte of the decoded string.
func (n *node) width(data []byte, at []int, i int) int {
	_, size, ok := n.find(data, at[i], n.value[i])
	if !ok || isSpace(n.value[i]) {
		return 1
	}
	return size
}

// intended reports whether a repaired string reads as it should.
func intended(queries []*query, x Finding) bool {
	want := edited(x.edits[0].node.value, x.edits)
	return slices.ContainsFunc(queries, func(q *query) bool {
		if q.panel != nil && q.panel.unitNode != nil && q.panel.unitNode.value == want {
			return true
		}
		return q.err == nil && squeeze(q.node.value) == squeeze(want)
	})
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
