package render

import "strings"

// screenLines is how many lines an answer takes on a terminal of 24 lines and
// DefaultWidth columns before more is asked for.
const screenLines = 20

// LineBudget is how many lines an answer may take before more is asked for: 20, and on a
// terminal narrower than DefaultWidth as many more as the text takes there.
func (t *Text) LineBudget() int { return max(screenLines, screenLines*DefaultWidth/t.width) }

// A droppable of a text leaves as a whole.
type droppable struct{ start, rank int }

// BeginDroppable begins a part of the text. Where there is no room for all, parts leave from the
// lowest rank on, of one rank the last one first; those of rank 0 stay.
func (t *Text) BeginDroppable(rank int) { t.parts = append(t.parts, droppable{t.b.Len(), rank}) }

// DropToFit leaves out the parts that there is no room for, and reports whether all stayed. What
// is written afterwards finds as many lines as were kept for it.
func (t *Text) DropToFit(kept int) (whole bool) {
	all := t.b.String()
	parts := append([]droppable{{}}, t.parts...)
	piece := func(i int) string {
		end := len(all)
		if i+1 < len(parts) {
			end = parts[i+1].start
		}
		return all[parts[i].start:end]
	}
	lines := func(i int) int { return strings.Count(piece(i), "\n") }
	room, used := t.LineBudget()-kept, t.Lines()
	var left []int // the first to leave first
	gone := map[int]bool{}
	for used > room {
		least := -1
		for i, p := range parts {
			if p.rank > 0 && !gone[i] && (least < 0 || p.rank <= parts[least].rank) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		gone[least], left, used = true, append(left, least), used-lines(least)
	}
	tooLong := 0 // the rank of a part that does not fit: those behind it would leave a gap
	for i := len(left) - 1; i >= 0; i-- {
		switch n, rank := lines(left[i]), parts[left[i]].rank; {
		case rank == tooLong:
		case used+n > room:
			tooLong = rank
		default: // shorter than one of a higher rank that did not fit
			used += n
			delete(gone, left[i])
		}
	}
	t.b.Reset()
	for i := range parts {
		if !gone[i] {
			t.b.WriteString(piece(i))
		}
	}
	t.parts = nil
	return len(gone) == 0
}
