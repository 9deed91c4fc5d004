// Package heap is a priority queue of values that order themselves. It does what container/heap does, without an
// allocation for each value.
package heap

// A Heap is a binary heap: its first value comes before all others. The zero value is empty.
type Heap[T interface{ ComesBefore(T) bool }] []T

// Push adds a value.
func (h *Heap[T]) Push(x T) {
	*h = append(*h, x)
	v := *h
	for i := len(v) - 1; i > 0; {
		up := (i - 1) / 2
		if !v[i].ComesBefore(v[up]) {
			return
		}
		v[i], v[up] = v[up], v[i]
		i = up
	}
}

// Pop removes the first value and returns it. The heap must not be empty.
func (h *Heap[T]) Pop() T {
	v, last := *h, len(*h)-1
	x, none := v[0], *new(T)
	v[0], v[last] = v[last], none
	*h = v[:last]
	h.Sink()
	return x
}

// Sink moves the first value to its place after it has changed.
func (h Heap[T]) Sink() {
	for i := 0; ; {
		first := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < len(h) && h[k].ComesBefore(h[first]) {
				first = k
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}
