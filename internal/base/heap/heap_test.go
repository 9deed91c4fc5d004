package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number int

func (n number) ComesBefore(o number) bool { return n < o }

// TestHeapSorts takes numbers out in order, some of which were changed at the top.
func TestHeapSorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		var h Heap[number]
		var want, got []number
		for range n {
			x := number(rng.IntN(50))
			h.Push(x)
			want = append(want, x)
		}
		slices.Sort(want)
		if n > 0 {
			h[0], want[0] = 60, 60
			h.Sink()
			slices.Sort(want)
		}
		for len(h) > 0 {
			got = append(got, h.Pop())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d numbers: %v, want %v", n, got, want)
		}
	}
}
