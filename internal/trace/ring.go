package trace

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// A Ring keeps the latest traces in bounded memory. If it is full, it drops the trace that has been without a new span
// for the longest time. It is safe for concurrent use.
type Ring struct {
	mu        sync.Mutex
	limit     int // bytes
	size      int // bytes, about
	spanCount int
	received  int64
	traces    map[string]*list.Element // each a *Trace
	byArrival list.List                // of *Trace, by the arrival of their last spans
}

// NewRing returns a ring of about limit bytes.
func NewRing(limit int) *Ring { return &Ring{limit: limit, traces: map[string]*list.Element{}} }

// overhead is the memory of a trace beside its spans.
const overhead = 256

// Add adds spans.
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
		if len(t.Spans) == maxTraceSpans {
			t.Dropped++
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

// Received returns the number of spans received.
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

// judgedPerSlow is how many of the longest requests are judged for each slow one that is wanted. Not all of them are
// slow: long answers take long.
const judgedPerSlow = 10

// Slowest returns the requests that were slow between two times, at most this many, the slowest first. known is used as
// in Judge. Without it, an incident that slows most requests seems normal.
func (r *Ring) Slowest(from, to time.Time, most int, known Known) []Slow {
	all := Group(r.Spans(""))
	out, others := []Slow{}, NewPopulation(all)
	within := slices.DeleteFunc(all, func(t *Trace) bool {
		return !t.OfRequest() || t.Began().After(to) || t.Began().Add(t.Took()).Before(from)
	})
	slices.SortStableFunc(within, func(a, b *Trace) int { return int(min(max(b.Took()-a.Took(), -1), 1)) })
	for _, t := range within[:min(len(within), judgedPerSlow*most)] {
		if len(out) == most {
			break
		}
		if j := Judge(t, others, known); j.Slow != nil && *j.Slow {
			out = append(out, Slow{ID: j.ID, Request: j.Request, Began: j.Began, TookS: j.TookS, Summary: j.Summary})
		}
	}
	return out
}
