// Package profile says where a GPU's time went: it holds a trace as a Timeline,
// whatever recorded it, and analyses it. Packages torch and nsys beneath it read
// traces; the command line draws what Analyze returns.
//
// It performs no I/O and reads no clock: the same trace gives the same analysis.
package profile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/render"
)

// Kind is what an Event of a device is.
type Kind uint8

// The kinds of what devices do.
const (
	Kernel Kind = iota
	Copy
	Set
	kinds
)

// Class is what an Event of a thread is.
type Class uint8

// The classes of what threads do.
const (
	Annotation Class = iota // a range that the program named: user_annotation, NVTX
	Python                  // a Python function
	Op                      // an operator of PyTorch
	Runtime                 // a call of the CUDA or HIP runtime or driver
	classes
)

// A Stream is a queue of a device.
type Stream struct {
	Process int64 // whose calls' correlations its activities carry; 0 where the trace does not say
	Device  int   // as the trace numbers it
	ID      int64
	Work    [kinds]Log
}

// A Thread is one of the host.
type Thread struct {
	Process, ID int64 // the low half of ID is the system's number of the thread
	Calls       [classes]Log
}

// A GPU is what the trace says of a device.
type GPU struct {
	Name      string
	Bandwidth float64 // of its memory, in bytes a second; 0 is unknown
}

// A Timeline is one trace: what the devices and the threads did, by time.
type Timeline struct {
	Source string // the file
	Tool   string // what recorded it
	Rank   int    // of the process in its job; -1 is unknown
	Base   int64  // nanoseconds since 1970 of the time 0; 0 is unknown
	Stacks bool   // Python functions were recorded

	Names   *Names
	Streams []*Stream
	Threads []*Thread
	GPUs    map[int]GPU // by the number of the device

	Events  int64            // read, those that were passed over included
	Dropped map[string]int64 // events that could not be used, by why
	Partial []string         // why the timeline is not the whole trace
	Notes   []string

	streams map[streamKey]*Stream
	threads map[threadKey]*Thread
	limit   int   // events that are held at most
	held    int   // events that are held
	until   int64 // events that begin later are left out
	first   int64
	final   int64
	began   bool
	stuck   bool           // more than may be held begin at one time
	starts  map[int64]*int // how many events begin in each period
	period  int64          // the one in which the last event began
	count   *int           // of that one

	lastStream *Stream // the streams and threads of neighbouring events are mostly the same
	lastThread *Thread
	lastSKey   streamKey
	lastTKey   threadKey
}

// Why an event could not be used.
const (
	Malformed = "skipped, not events"
	Oversized = "skipped, larger than any event"
	Halves    = "skipped, separate start or end events (ph B, E)"
	Negative  = "left out, with a negative duration"
	Overflow  = "left out, with times beyond 64 bits"
	Astray    = "left out, with times far away from all others"
	Lanes     = "left out, beyond 16384 threads and streams"
	late      = "" // beyond the part of the trace that was kept, which is said elsewhere
)

type streamKey struct {
	process int64
	device  int
	id      int64
}

type threadKey struct{ process, id int64 }

// DefaultLimit is how many events a timeline holds at most: about 1 GB.
const DefaultLimit = 100_000_000

// maxLanes is how many threads and streams are told apart.
const maxLanes = 1 << 14

// New returns an empty timeline that holds limit events at most, DefaultLimit when 0.
// Beyond that it halves the time that it covers, as often as it must, and says so.
func New(source, tool string, limit int) *Timeline {
	return &Timeline{
		Source: source, Tool: tool, Rank: -1, Names: newNames(), GPUs: map[int]GPU{},
		streams: map[streamKey]*Stream{}, threads: map[threadKey]*Thread{}, starts: map[int64]*int{}, Dropped: map[string]int64{}, limit: cmp.Or(limit, DefaultLimit), until: math.MaxInt64,
	}
}

// mayHold makes sure that an event may be held. It reports false for one to leave out.
func (t *Timeline) mayHold(start, dur int64) bool {
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
			t.halve()
		}
		if start > t.until || t.stuck {
			t.Dropped[late]++
			return false
		}
	}
	t.held++
	if p := start >> periodBits; p != t.period || t.count == nil {
		t.period, t.count = p, t.starts[p]
		if t.count == nil {
			t.count = new(int)
			if len(t.starts) < maxLanes {
				t.starts[p] = t.count
			}
		}
	}
	*t.count++
	return true
}

const (
	periodBits = 34 // nanoseconds of a period: 17 s
	farAway    = 35 // periods, ten minutes: how far at least a time is away from all others that is none
)

// dropAstray leaves out the few events whose times are no times of the trace: the clock of one event may
// have been read wrongly. The trace is where most events begin, and what lies within ten times its length.
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
		return // another part of the trace
	}
	first, last := periods[lo]<<periodBits, (periods[hi]+1)<<periodBits
	end := last + max(farAway<<periodBits, last-first)
	for l := range t.logs {
		if l.n > 0 && (l.from < first || l.to > end) {
			before := l.n
			l.keep(func(e *Event) bool { return e.Start >= first && e.Start < last && e.Start+e.Dur <= end })
			t.Dropped[Astray] += int64(before - l.n)
		}
	}
}

// logs calls yield for the log of every stream, whose class is classes, and of every thread.
func (t *Timeline) logs(yield func(*Log, Class) bool) {
	for _, s := range t.Streams {
		for k := range s.Work {
			if !yield(&s.Work[k], classes) {
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

// halve leaves out the later half of the time that is covered.
func (t *Timeline) halve() {
	t.until = t.first + (t.final-t.first)/2
	t.final, t.held = t.until, 0
	before := int64(0)
	for l := range t.logs {
		before += int64(l.n)
		l.keep(func(e *Event) bool { return e.Start <= t.until })
		t.held += l.n
	}
	t.Dropped[late] += before - int64(t.held)
	if t.stuck = t.held >= t.limit && t.until <= t.first; t.stuck {
		return // all of it at one time
	}
	if t.held >= t.limit {
		t.halve()
	}
}

// AddActivity adds what a device did.
func (t *Timeline) AddActivity(process int64, device int, stream int64, kind Kind, e Event) {
	key := streamKey{process, device, stream}
	s := t.lastStream
	if s == nil || t.lastSKey != key {
		if s = t.streams[key]; s == nil {
			if len(t.streams)+len(t.threads) >= maxLanes {
				t.Dropped[Lanes]++
				return
			}
			s = &Stream{Process: process, Device: device, ID: stream}
			t.streams[key] = s
			t.Streams = append(t.Streams, s)
		}
		t.lastStream, t.lastSKey = s, key
	}
	if t.mayHold(e.Start, e.Dur) {
		s.Work[kind].add(e)
	}
}

// AddCall adds what a thread did.
func (t *Timeline) AddCall(process, thread int64, class Class, e Event) {
	if h := t.Thread(process, thread); h != nil && t.mayHold(e.Start, e.Dur) {
		h.Calls[class].add(e)
	}
}

// Thread returns a thread, or nil where there are too many.
func (t *Timeline) Thread(process, id int64) *Thread {
	key := threadKey{process, id}
	if t.lastThread != nil && t.lastTKey == key {
		return t.lastThread
	}
	h := t.threads[key]
	if h == nil {
		if len(t.streams)+len(t.threads) >= maxLanes {
			t.Dropped[Lanes]++
			return nil
		}
		h = &Thread{Process: process, ID: id}
		t.threads[key] = h
		t.Threads = append(t.Threads, h)
	}
	t.lastThread, t.lastTKey = h, key
	return h
}

// Close ends the reading: it sorts what came out of order, and says what is missing.
func (t *Timeline) Close() {
	t.dropAstray()
	for l := range t.logs {
		l.sort()
	}
	slices.SortFunc(t.Streams, func(a, b *Stream) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Process, b.Process), cmp.Compare(a.ID, b.ID))
	})
	if t.until < math.MaxInt64 {
		t.Partial = append(t.Partial, fmt.Sprintf("only the first %s were kept, of more than %d events: raise --max-events for more", seconds(t.until-t.first), t.limit))
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
	t.Names.close()
}

func seconds(ns int64) string { return render.Seconds(float64(ns) / 1e9) }

// Names holds every name once.
type Names struct {
	Text  []string
	work  []Shape // by name; nil where no name has one
	ids   map[string]uint32
	bytes int
	full  bool
}

// A Shape is what an operator computes, where its inputs' shapes were recorded.
type Shape struct {
	Flops float64
	Bytes float64 // that it reads and writes at least; of a collective those that pass a GPU's link
	Dims  string  // for people
	Name  string  // of a collective
}

const (
	maxNames     = 1 << 19
	maxNameBytes = 128 << 20
	maxNameLen   = 4096
)

func newNames() *Names {
	return &Names{Text: []string{""}, ids: map[string]uint32{"": 0}}
}

// ID returns the number of a name.
func (n *Names) ID(name []byte) uint32 {
	if id, ok := n.ids[string(name)]; ok {
		return id
	}
	return n.add(string(name))
}

func (n *Names) add(key string) uint32 {
	if len(n.Text) >= maxNames || n.bytes > maxNameBytes {
		n.full = true
		return 0
	}
	id := uint32(len(n.Text)) //nolint:gosec // at most maxNames
	text := key
	if i := strings.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	if len(text) > maxNameLen {
		text = text[:maxNameLen]
	}
	n.Text = append(n.Text, strings.ToValidUTF8(text, "�"))
	n.ids[key] = id
	n.bytes += 2 * len(key)
	return id
}

// IDWith returns the number of an operator's name with a shape, which key tells apart
// from its other shapes. make is asked for the shape once.
func (n *Names) IDWith(name, key []byte, shape func() Shape) uint32 {
	all := make([]byte, 0, 256)
	all = append(append(append(all, name...), 0), key...)
	if id, ok := n.ids[string(all)]; ok {
		return id
	}
	id := n.add(string(all))
	if id > 0 {
		if grow := len(n.Text) - len(n.work); grow > 0 {
			n.work = append(n.work, make([]Shape, grow)...)
		}
		n.work[id] = shape()
	}
	return id
}

// Shape returns what an operator computes; its zero value is unknown.
func (n *Names) Shape(id uint32) Shape {
	if int(id) < len(n.work) {
		return n.work[id]
	}
	return Shape{}
}

func (n *Names) close() { n.ids = nil }
