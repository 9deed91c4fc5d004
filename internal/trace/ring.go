package trace

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// A Ring keeps the latest traces, within bounds. If it is full, it drops the trace whose last span
// came first. It is safe for concurrent use.
type Ring struct {
	mu        sync.Mutex
	limit     int // bytes
	size      int
	spanCount int
	received  int64
	traces    map[string]*list.Element // each a *Trace
	byArrival list.List
}

// NewRing returns a ring of about limit bytes.
func NewRing(limit int) *Ring { return &Ring{limit: limit, traces: map[string]*list.Element{}} }

// overhead is the memory of a trace beside its spans.
const overhead = 256

// Add adds spans. Beyond Largest spans of one trace, they are counted and dropped.
func (r *Ring) Add(spans []Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received += int64(len(spans))
	for _, s := range spans {
		e := r.traces[s.Trace]
		if e == nil {
			e = r.byArrival.PushBack(&Trace{ID: s.Trace})
			r.traces[s.Trace] = e
			r.size += overhead
		}
		r.byArrival.MoveToBack(e)
		t := e.Value.(*Trace)
		if len(t.Spans) == Largest {
			t.Left++
			continue
		}
		t.Spans = append(t.Spans, s)
		r.size += s.memoryBytes()
		r.spanCount++
		for r.size > r.limit || r.spanCount > maxSpans {
			r.dropTrace(r.byArrival.Front())
		}
	}
}

func (r *Ring) dropTrace(e *list.Element) {
	t := r.byArrival.Remove(e).(*Trace)
	delete(r.traces, t.ID)
	r.spanCount -= len(t.Spans)
	r.size -= overhead
	for i := range t.Spans {
		r.size -= t.Spans[i].memoryBytes()
	}
}

// Received is the number of spans received.
func (r *Ring) Received() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received
}

// Spans returns the spans of one trace, or of all if the id is "".
func (r *Ring) Spans(id string) (out []Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != "" {
		if e := r.traces[id]; e != nil {
			out = slices.Clone(e.Value.(*Trace).Spans)
		}
		return out
	}
	for e := r.byArrival.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(*Trace).Spans...)
	}
	return out
}

// A Slow request took longer than others in some time range.
type Slow struct {
	ID      string    `json:"trace_id"`
	Request string    `json:"request_id"`
	Began   time.Time `json:"began"`
	TookS   float64   `json:"took_s"`
	Summary string    `json:"summary"`
}

// triedFor limits the long requests to judge for each slow one that is listed: a long answer is not slow.
const triedFor = 10

// Slowest returns the requests that were slow between two times, at most this many, the slowest first. Known works
// as in Judge; without it an incident that slows most of the traces would seem normal.
func (r *Ring) Slowest(from, to time.Time, most int, known Known) []Slow {
	all := Group(r.Spans(""))
	out, others := []Slow{}, NewPopulation(all)
	within := slices.DeleteFunc(all, func(t *Trace) bool {
		return !t.OfRequest() || t.Began().After(to) || t.Began().Add(t.Took()).Before(from)
	})
	slices.SortStableFunc(within, func(a, b *Trace) int { return int(min(max(b.Took()-a.Took(), -1), 1)) })
	for _, t := range within[:min(len(within), triedFor*most)] {
		if len(out) == most {
			break
		}
		if j := Judge(t, others, known); j.Slow != nil && *j.Slow {
			out = append(out, Slow{ID: j.ID, Request: j.Request, Began: j.Began, TookS: j.TookS, Summary: j.Summary})
		}
	}
	return out
}
