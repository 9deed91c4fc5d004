package plot

import (
	"cmp"
	"slices"
)

// Sort orders the points by X.
func (l *Line) Sort() {
	order := make([]int, len(l.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.X[a], l.X[b]) })
	s := Line{Name: l.Name, Dots: l.Dots, Loose: l.Loose}
	for _, i := range order {
		s.X, s.Y = append(s.X, l.X[i]), append(s.Y, l.Y[i])
		if i < len(l.Label) {
			s.Label = append(s.Label, l.Label[i])
		}
	}
	*l = s
}
