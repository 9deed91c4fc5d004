package sim

import (
	"container/heap"
	"time"
)

// cancel is a client that will leave.
type cancel struct {
	at         time.Duration
	id         int
	unanswered bool // the client leaves only if it has no token yet
}

// cancelHeap orders them by time, then by number.
type cancelHeap []cancel

func (h *cancelHeap) push(c cancel) { heap.Push(h, c) }
func (h *cancelHeap) pop() cancel   { return heap.Pop(h).(cancel) }

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h cancelHeap) Len() int { return len(h) }

func (h cancelHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].id < h[j].id
}
func (h cancelHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cancelHeap) Push(x any)   { *h = append(*h, x.(cancel)) }
func (h *cancelHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
