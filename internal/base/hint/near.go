package hint

import (
	"slices"
	"strings"
)

// Nearest returns the names that a misspelt word may stand for. Names that begin with the word come first, and names
// followed by a hyphen with which the word begins. Without such names it returns the names at the least edit
// distance, if this is small for the length of the word. Case does not count.
func Nearest(word string, names []string) []string {
	word = strings.ToLower(word)
	least := min(len(word)/3, 2) + 1
	distances := make([]int, len(names))
	for i, n := range names {
		n = strings.ToLower(n)
		begins := len(word) > 1 && strings.HasPrefix(n, word) || n != "" && strings.HasPrefix(word, n+"-")
		if distances[i] = Distance(word, n, least); begins {
			distances[i] = 0
		}
	}
	best := slices.Min(append(distances, least))
	var out []string
	for i, n := range names {
		if distances[i] == best && best < least {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// DidYouMean returns a hint with the names nearest to an unknown word, or "".
func DidYouMean(word string, names []string) string {
	near := Nearest(word, names)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, ", or ") + "?"
}

// Distance returns the edit distance of two names, at most limit: the number of letters to change, delete, insert or
// swap with their neighbour that turns one into the other.
func Distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := range len(a) {
		before, above, row := rows[(i+2)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(above[j+1], row[j]) + 1
			if a[i] == b[j] {
				row[j+1] = above[j]
			} else {
				row[j+1] = min(row[j+1], above[j]+1)
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return min(rows[len(a)%3][len(b)], limit)
}
