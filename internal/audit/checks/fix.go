package checks

import (
	"fmt"
	"slices"

	"github.com/sixty-dev/sixty/internal/audit/files"
)

// maxRounds bounds the repairs of one file: a round repairs at most one fault of each string.
const maxRounds = 10

// A Fixed is a file after its repair.
type Fixed struct {
	*files.Document
	// Repaired are the findings that are gone, and Left those that remain, doubts aside.
	Repaired, Left []Problem
}

// Fix repairs what can be repaired without a decision in files that belong together, each in the
// same place of the result: names with one successor, and the unit of a panel. Only the strings
// concerned change.
func Fix(docs []*files.Document, s *Surface, ignore ...string) []Fixed {
	out, current := make([]Fixed, len(docs)), slices.Clone(docs)
	findings := Lint(current, s, ignore...)
	for range maxRounds {
		again := false
		for i, d := range current {
			var done []Problem
			current[i], done = repair(d, findings)
			out[i].Repaired = append(out[i].Repaired, done...)
			again = again || len(done) > 0
		}
		if !again {
			break
		}
		findings = Lint(current, s, ignore...)
	}
	for i, d := range current {
		out[i].Document = d
		for _, f := range findings {
			if f.File == d.Name && !f.Doubt {
				out[i].Left = append(out[i].Left, f)
			}
		}
	}
	return out
}

// repair applies one repair to every string of a file that has one: all of them, or, where the result does not
// read as intended, those that do each by itself.
func repair(d *files.Document, findings []Problem) (*files.Document, []Problem) {
	touched := map[*files.Node]bool{}
	var mine []Problem
	var edits []files.Edit
	for _, x := range findings {
		if x.File == d.Name && x.edit != nil && !touched[x.edit.Node] {
			touched[x.edit.Node] = true
			mine, edits = append(mine, x), append(edits, *x.edit)
		}
	}
	if len(mine) == 0 {
		return d, nil
	}
	if out := d.Edit(edits...); out != nil {
		return out, mine
	}
	var done []Problem
	for _, x := range slices.Backward(mine) { // from the end of the file on, so that what stands before keeps its place
		if out := d.Edit(*x.edit); out != nil {
			d, done = out, append(done, x)
		}
	}
	return d, done
}

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
