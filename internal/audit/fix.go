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

// repair applies one repair to every string of a file that has one: all of them, or, where the result does not
// read as intended, those that do each by itself; false where none was applied.
func (d *Fixed) repair(f *File, findings []Finding) bool {
	touched := map[*node]bool{}
	var mine []Finding
	for _, x := range findings {
		if x.File == f.Name && x.edit != nil && !touched[x.edit.node] {
			touched[x.edit.node] = true
			mine = append(mine, x)
		}
	}
	// From the end of the file on, so that what stands before keeps its place.
	slices.SortStableFunc(mine, func(a, b Finding) int { return b.edit.node.offset - a.edit.node.offset })
	if data, ok := apply(f, mine); ok {
		f.Data, d.Repaired = data, append(d.Repaired, mine...)
		return len(mine) > 0
	}
	done := false
	for i := range mine {
		if data, ok := apply(f, mine[i:i+1]); ok {
			f.Data, d.Repaired, done = data, append(d.Repaired, mine[i]), true
		}
	}
	return done
}

// apply writes repairs into a file, each in its string's own quoting; ok is false where one cannot be written, or
// the result does not read as intended.
func apply(f *File, all []Finding) (data []byte, ok bool) {
	data = f.Data
	wanted := map[string]int{}
	for _, x := range all {
		e := x.edit
		at, placed := e.node.source(data)
		text, writable := e.node.write(e.text)
		if !placed || !writable || e.start >= e.end || e.end >= len(at) {
			return nil, false
		}
		last := at[e.end-1]
		if _, size, found := e.node.find(data, last, e.node.value[e.end-1]); found {
			last += size
		}
		data = slices.Concat(data[:at[e.start]], []byte(text), data[last:])
		wanted[squeeze(e.node.value[:e.start]+e.text+e.node.value[e.end:])]++
	}
	d, err := read(&File{Name: f.Name, Data: data, Kind: f.Kind})
	if err != nil {
		return nil, false
	}
	for _, q := range d.queries {
		if q.err == nil {
			wanted[squeeze(q.node.value)]--
		}
		if q.panel != nil && q.panel.unitNode != nil {
			wanted[q.panel.unitNode.value]--
		}
	}
	for _, n := range wanted {
		if n > 0 {
			return nil, false
		}
	}
	return data, true
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
