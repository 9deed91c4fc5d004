package sim

import "github.com/sixty-dev/sixty/internal/base/heap"

// A waitingQueue holds the requests that wait, first come first served or by priority
// (v1/core/sched/request_queue.py@v0.23.0). Requests that left while waiting stay inside, marked as ended, and are
// dropped when they come to the front.
type waitingQueue struct {
	policy Policy
	ring   []*request // FCFS: ring buffer
	head   int
	stored int // requests in the ring
	heap   heap.Heap[*request]
	live   int // requests that have not ended
}

func (q *waitingQueue) len() int { return q.live }

// push adds a request that arrived.
func (q *waitingQueue) push(r *request) {
	q.live++
	if q.policy == Priority {
		q.heap.Push(r)
		return
	}
	q.growRing()
	q.ring[(q.head+q.stored)%len(q.ring)] = r
	q.stored++
}

// pushFront adds a preempted request before all others, or at its place by priority.
func (q *waitingQueue) pushFront(r *request) {
	if q.policy == Priority {
		q.push(r)
		return
	}
	q.live++
	q.growRing()
	q.head = (q.head - 1 + len(q.ring)) % len(q.ring)
	q.ring[q.head] = r
	q.stored++
}

// dropEnded accounts for a waiting request that ended.
func (q *waitingQueue) dropEnded() { q.live-- }

// peek returns the next request, or nil.
func (q *waitingQueue) peek() *request {
	if q.live == 0 {
		return nil
	}
	for {
		r := q.front()
		if r.state != ended {
			return r
		}
		q.discardFront()
	}
}

// pop removes what peek returned.
func (q *waitingQueue) pop() {
	q.live--
	q.discardFront()
}

func (q *waitingQueue) front() *request {
	if q.policy == Priority {
		return q.heap[0]
	}
	return q.ring[q.head]
}

func (q *waitingQueue) discardFront() {
	if q.policy == Priority {
		q.heap.Pop()
		return
	}
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.stored--
}

func (q *waitingQueue) growRing() {
	if q.stored < len(q.ring) {
		return
	}
	ring := make([]*request, max(16, 2*len(q.ring)))
	for i := range q.stored {
		ring[i] = q.ring[(q.head+i)%len(q.ring)]
	}
	q.ring, q.head = ring, 0
}
