package profile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sixty-dev/sixty/internal/render"
)

// A Kind is a kind of activity of a device.
type Kind uint8

// The kinds.
const (
	Kernel Kind = iota
	Memcpy
	Memset
	kinds
)

// A Class is a class of calls of a thread.
type Class uint8

// The classes.
const (
	Annotation Class = iota // a range that the program named: user_annotation, NVTX
	Python                  // a Python function
	Op                      // an operator of PyTorch
	Runtime                 // a call of the CUDA or HIP runtime or driver
	classes
)

// A Stream is a queue of a device.
type Stream struct {
	Process    int64 // the process that launches into it, whose correlations its activities have; 0 is unknown
	Device     int   // number of the device in the trace
	ID         int64
	Activities [kinds]Log
}

// A Thread is a thread of the host.
type Thread struct {
	Process, ID int64
	Calls       [classes]Log
}

// A GPU is a device as the trace describes it.
type GPU struct {
	Name      string
	Bandwidth float64 // memory bandwidth in bytes a second; 0 is unknown
}

// A Timeline is one trace: the activities of devices and the calls of threads, by time.
type Timeline struct {
	Source string // path of the file
	Tool   string // tool that recorded it
	Rank   int    // rank of the process in its job; -1 is unknown
	Stacks bool   // Python functions were recorded

	Truncated bool // the file ends in the middle

	Names   *Names
	Streams []*Stream
	Threads []*Thread
	GPUs    map[int]GPU // by the number of the device

	Events  int64            // events read, with those that are not held
	Dropped map[string]int64 // events that could not be used, by reason
	Partial []string         // why the timeline is not the whole trace
	Notes   []string

	streams    map[streamKey]*Stream
	threads    map[threadKey]*Thread
	lastStream *Stream // neighbouring events mostly share a stream or thread
	lastThread *Thread

	limit        int   // most events to hold
	held         int   // events that are held
	until        int64 // events that begin later are left out
	began        bool  // first and final are set
	first, final int64 // earliest and latest start of an event
	stuck        bool  // more than limit events begin at one time

	starts map[int64]*int // how many events begin in each period
	period int64          // period of the last event
	count  *int           // starts[period]
}

// Reasons why an event could not be used.
const (
	Malformed = "skipped, not events"
	Oversized = "skipped, larger than any event"
	Halves    = "skipped, separate start or end events (ph B, E)"
	Negative  = "left out, with a negative duration"
	Overflow  = "left out, with times beyond 64 bits"
	Astray    = "left out, with times far away from all others"
	TooMany   = "left out, beyond 16384 threads and streams"
	late      = "" // it begins after Timeline.until; Close reports the kept time instead
)

type streamKey struct {
	process int64
	device  int
	id      int64
}

type threadKey struct{ process, id int64 }

// DefaultLimit is how many events a timeline holds by default: about 1 GB.
const DefaultLimit = 100_000_000

// maxLanes is the most threads and streams of a trace.
const maxLanes = 1 << 14

// New returns an empty timeline that holds at most limit events; 0 is DefaultLimit. If there are more, it keeps the
// first half of its time, or a quarter and so on, and is partial.
func New(source, tool string, limit int) *Timeline {
	return &Timeline{
		Source: source, Tool: tool, Rank: -1, Names: newNames(), GPUs: map[int]GPU{},
		streams: map[streamKey]*Stream{}, threads: map[threadKey]*Thread{}, starts: map[int64]*int{},
		Dropped: map[string]int64{}, limit: cmp.Or(limit, DefaultLimit), until: math.MaxInt64,
	}
}

// admitEvent reports whether an event may be held, and makes room for it.
func (t *Timeline) admitEvent(start, dur int64) bool {
	switch {
	case dur < 0:
		t.Dropped[Negative]++
		return false
	case start > math.MaxInt64-dur || start < -(1<<62) || start > 1<<62:
		t.Dropped[Overflow]++
		return false
	case start > t.until:
		t.Dropped[late]++
		return false
	}
	if !t.began {
		t.first, t.final, t.began = start, start, true
	}
	t.first, t.final = min(t.first, start), max(t.final, start)
	if t.held >= t.limit {
		if !t.stuck {
			t.halveTime()
		}
		if start > t.until || t.stuck {
			t.Dropped[late]++
			return false
		}
	}
	t.held++
	t.countStart(start)
	return true
}

const (
	periodBits = 34      // a period is 2^34 ns: 17 s
	farAway    = 35      // least distance, in periods, of a stray event from all others: ten minutes
	maxPeriods = 1 << 14 // most periods to count events in
)

// countStart counts an event in the period in which it begins.
func (t *Timeline) countStart(start int64) {
	if p := start >> periodBits; p != t.period || t.count == nil {
		t.period, t.count = p, t.starts[p]
		if t.count == nil {
			t.count = new(int)
			if len(t.starts) < maxPeriods {
				t.starts[p] = t.count
			}
		}
	}
	*t.count++
}

// dropAstray leaves out a few events far outside the trace: the profiler read a wrong clock for them. The trace begins
// with the period in which most events begin. It grows by each next period with events, unless the distance is more
// than farAway and more than ten times the length so far.
func (t *Timeline) dropAstray() {
	periods := slices.Sorted(maps.Keys(t.starts))
	if len(periods) == 0 {
		return
	}
	events := func(periods []int64) (n int) {
		for _, p := range periods {
			n += *t.starts[p]
		}
		return n
	}
	most := slices.MaxFunc(periods, func(a, b int64) int { return cmp.Compare(*t.starts[a], *t.starts[b]) })
	lo := slices.Index(periods, most)
	hi := lo
	for reach := int64(farAway); ; reach = max(farAway, 10*(periods[hi]-periods[lo]+1)) {
		if lo > 0 && periods[lo]-periods[lo-1] <= reach {
			lo--
		} else if hi+1 < len(periods) && periods[hi+1]-periods[hi] <= reach {
			hi++
		} else {
			break
		}
	}
	inside := events(periods[lo : hi+1])
	if astray := events(periods) - inside; astray > max(3, inside/1000) || 10*astray > inside {
		return // too many for wrong clocks: they are another part of the trace
	}
	first, last := periods[lo]<<periodBits, (periods[hi]+1)<<periodBits
	end := last + max(farAway<<periodBits, last-first)
	for l := range t.eachLog {
		if l.n > 0 && (l.from < first || l.to > end) {
			count := l.n
			l.keepIf(func(e *Event) bool { return e.Start >= first && e.Start < last && e.Start+e.Dur <= end })
			t.Dropped[Astray] += int64(count - l.n)
		}
	}
}

// eachLog calls yield for every log: a thread's with its class, and a stream's with classes.
func (t *Timeline) eachLog(yield func(*Log, Class) bool) {
	for _, s := range t.Streams {
		for k := range s.Activities {
			if !yield(&s.Activities[k], classes) {
				return
			}
		}
	}
	for _, h := range t.Threads {
		for k := range h.Calls {
			if !yield(&h.Calls[k], Class(k)) {
				return
			}
		}
	}
}

// halveTime leaves out the later half of the time, again and again until there is room for an event.
func (t *Timeline) halveTime() {
	t.until = t.first + (t.final-t.first)/2
	t.final, t.held = t.until, 0
	held := int64(0)
	for l := range t.eachLog {
		held += int64(l.n)
		l.keepIf(func(e *Event) bool { return e.Start <= t.until })
		t.held += l.n
	}
	t.Dropped[late] += held - int64(t.held)
	if t.stuck = t.held >= t.limit && t.until <= t.first; t.stuck {
		return // all events begin at one time
	}
	if t.held >= t.limit {
		t.halveTime()
	}
}

// AddActivity adds an activity of a device.
func (t *Timeline) AddActivity(process int64, device int, stream int64, kind Kind, e Event) {
	if s := t.streamOf(process, device, stream); s != nil && t.admitEvent(e.Start, e.Dur) {
		s.Activities[kind].addEvent(e)
	}
}

// streamOf returns a stream, or nil if there are too many.
func (t *Timeline) streamOf(process int64, device int, id int64) *Stream {
	if s := t.lastStream; s != nil && s.Process == process && s.Device == device && s.ID == id {
		return s
	}
	key := streamKey{process, device, id}
	s := t.streams[key]
	if s == nil {
		if !t.hasRoom() {
			return nil
		}
		s = &Stream{Process: process, Device: device, ID: id}
		t.streams[key] = s
		t.Streams = append(t.Streams, s)
	}
	t.lastStream = s
	return s
}

// hasRoom reports whether another stream or thread may be added, and counts the event as dropped if not.
func (t *Timeline) hasRoom() bool {
	if len(t.streams)+len(t.threads) < maxLanes {
		return true
	}
	t.Dropped[TooMany]++
	return false
}

// AddCall adds a call of a thread.
func (t *Timeline) AddCall(process, thread int64, class Class, e Event) {
	if h := t.threadOf(process, thread); h != nil && t.admitEvent(e.Start, e.Dur) {
		h.Calls[class].addEvent(e)
	}
}

// threadOf returns a thread, or nil if there are too many.
func (t *Timeline) threadOf(process, id int64) *Thread {
	if h := t.lastThread; h != nil && h.Process == process && h.ID == id {
		return h
	}
	key := threadKey{process, id}
	h := t.threads[key]
	if h == nil {
		if !t.hasRoom() {
			return nil
		}
		h = &Thread{Process: process, ID: id}
		t.threads[key] = h
		t.Threads = append(t.Threads, h)
	}
	t.lastThread = h
	return h
}

// Close sorts the events, after the last one was added. Partial and Notes then list the missing ones.
func (t *Timeline) Close() {
	t.dropAstray()
	for l := range t.eachLog {
		l.sortEvents()
	}
	slices.SortFunc(t.Streams, func(a, b *Stream) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Process, b.Process), cmp.Compare(a.ID, b.ID))
	})
	if t.until < math.MaxInt64 {
		t.Partial = append(t.Partial, fmt.Sprintf(
			"only the first %s were kept, of more than %d events: raise --max-events for more",
			formatSeconds(t.until-t.first), t.limit))
	}
	for _, why := range slices.Sorted(maps.Keys(t.Dropped)) {
		if why != late {
			t.Partial = append(t.Partial, fmt.Sprintf("%s: %d", why, t.Dropped[why]))
		}
	}
	if t.Names.full {
		t.Notes = append(t.Notes, fmt.Sprintf("more than %d different names: the rest share one name", maxNames))
	}
	t.streams, t.threads, t.starts, t.lastStream, t.lastThread = nil, nil, nil, nil, nil
	t.Names.closeNames()
}

func formatSeconds(ns int64) string { return render.Seconds(float64(ns) / 1e9) }
