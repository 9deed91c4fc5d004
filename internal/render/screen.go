package render

import "strings"

// screenLines is the number of lines of an answer that fit a terminal of 24 lines and DefaultWidth columns.
const screenLines = 20

// LineBudget returns how many lines an answer may take on a screen: screenLines, and more on a terminal narrower than
// DefaultWidth, where the same text takes more lines.
func (t *Text) LineBudget() int { return max(screenLines, screenLines*DefaultWidth/t.width) }

// A droppable is a part of a text that leaves a full screen as a whole.
type droppable struct{ start, rank int }

// BeginDroppable begins a part of the text. On a full screen, parts leave from the lowest rank on, and the last part
// of a rank before the others. Parts of rank 0 stay.
func (t *Text) BeginDroppable(rank int) { t.parts = append(t.parts, droppable{t.b.Len(), rank}) }

// DropToFit removes parts until the text fits the LineBudget, less the lines that the caller keeps for itself. It
// reports whether all parts stayed.
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
	var removed []int // indices of parts, in the order of their removal
	isGone := map[int]bool{}
	for used > room {
		least := -1
		for i, p := range parts {
			if p.rank > 0 && !isGone[i] && (least < 0 || p.rank <= parts[least].rank) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		isGone[least], removed, used = true, append(removed, least), used-lines(least)
	}
	// A part that was removed before a longer one may fit after all.
	tooLong := 0 // the rank of a part that does not fit: later parts of this rank would leave a gap
	for i := len(removed) - 1; i >= 0; i-- {
		switch n, part := lines(removed[i]), parts[removed[i]]; {
		case part.rank == tooLong:
		case used+n > room:
			tooLong = part.rank
		default:
			used += n
			delete(isGone, removed[i])
		}
	}
	t.b.Reset()
	blank := false
	for i := range parts {
		switch text := piece(i); {
		case isGone[i] || text == "":
		case text == "\n":
			blank = true // an empty line separates two parts that stay
		default:
			if blank && t.b.Len() > 0 {
				t.b.WriteByte('\n')
			}
			blank = false
			t.b.WriteString(text)
		}
	}
	t.parts = nil
	return len(isGone) == 0
}
