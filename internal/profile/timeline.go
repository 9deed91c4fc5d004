// Package profile says where a GPU's time went. It answers two questions about a trace of torch.profiler or Nsight
// Systems: the kernels that took the device's time, and the reasons for which the device was idle in between.
//
// The data, in the order of their making:
//
//   - A Timeline holds a trace: a packed Log of Events for each Stream of a device and each Thread of the host.
//     Packages torch and nsys beneath this one fill it.
//   - Analyze makes an Analysis from it. It reads names once (nameInfo), finds steps, walks through the threads'
//     calls to the launches (walk), and sweeps through each device's activities by time (sweep). Each nanosecond of
//     a device's Work belongs to a Group of kernels, to communication or copies that nothing hides, or to one Cause
//     of idleness: the parts add up to the wall time.
//   - Combine adds the analyses of several ranks up to a Profile, and compares how long devices waited for others.
//   - Compare makes a Diff of two profiles, step by step, with Welch's t-test against chance.
//
// The package judges nothing; package finding does. It performs no I/O and reads no clock: the same trace gives the
// same analysis.
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

// Kind is the kind of a device's Event.
type Kind uint8

// The kinds of activities.
const (
	Kernel Kind = iota
	Copy
	Set
	kinds
)

// Class is the class of a thread's Event.
type Class uint8

// The classes of calls.
const (
	Annotation Class = iota // a range that the program named: user_annotation, NVTX
	Python                  // a Python function
	Op                      // an operator of PyTorch
	Runtime                 // a call of the CUDA or HIP runtime or driver
	classes
)

// A Stream is a queue of a device.
type Stream struct {
	Process int64 // whose calls' correlations its activities carry; 0: unknown
	Device  int   // as the trace numbers it
	ID      int64
	Work    [kinds]Log
}

// A Thread is a thread of the host.
type Thread struct {
	Process, ID int64 // the low half of ID is the system's number of the thread
	Calls       [classes]Log
}

// A GPU is a device as the trace describes it.
type GPU struct {
	Name      string
	Bandwidth float64 // memory bandwidth in bytes a second; 0 is unknown
}

// A Timeline is one trace: the activities of devices and the calls of threads, by time.
type Timeline struct {
	Source string // the file
	Tool   string // the tool that recorded it
	Rank   int    // rank of the process in its job; -1 is unknown
	Stacks bool   // Python functions were recorded

	Names   *Names
	Streams []*Stream
	Threads []*Thread
	GPUs    map[int]GPU // by the number of the device

	Events  int64            // events read, including those that were passed over
	Dropped map[string]int64 // events that could not be used, by reason
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
	stuck   bool           // more events than may be held begin at one time
	starts  map[int64]*int // how many events begin in each period
	period  int64          // period of the last event
	count   *int           // starts[period]

	lastStream *Stream // neighbouring events mostly share a stream or thread
	lastThread *Thread
	lastSKey   streamKey
	lastTKey   threadKey
}

// Reasons for which an event could not be used.
const (
	Malformed = "skipped, not events"
	Oversized = "skipped, larger than any event"
	Halves    = "skipped, separate start or end events (ph B, E)"
	Negative  = "left out, with a negative duration"
	Overflow  = "left out, with times beyond 64 bits"
	Astray    = "left out, with times far away from all others"
	Lanes     = "left out, beyond 16384 threads and streams"
	late      = "" // beyond the part of the trace that was kept; reported elsewhere
)

type streamKey struct {
	process int64
	device  int
	id      int64
}

type threadKey struct{ process, id int64 }

// DefaultLimit is the most events that a timeline holds: about 1 GB.
const DefaultLimit = 100_000_000

// maxLanes is the most threads and streams of a trace.
const maxLanes = 1 << 14

// New returns an empty timeline that holds at most limit events; 0 is DefaultLimit. Beyond the
// limit it halves its time as often as it must, and reports that.
func New(source, tool string, limit int) *Timeline {
	return &Timeline{
		Source: source, Tool: tool, Rank: -1, Names: newNames(), GPUs: map[int]GPU{},
		streams: map[streamKey]*Stream{}, threads: map[threadKey]*Thread{}, starts: map[int64]*int{},
		Dropped: map[string]int64{}, limit: cmp.Or(limit, DefaultLimit), until: math.MaxInt64,
	}
}

// mayHold reports whether an event may be held, and makes room for it.
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
			t.halveTime()
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
	farAway    = 35 // least distance, in periods, of a stray time from all others: ten minutes
)

// dropAstray leaves out the few events whose times lie outside the trace: the clock of one event may have been read
// wrongly. The trace is the time in which most events begin, extended by ten times its length.
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
	for l := range t.eachLog {
		if l.n > 0 && (l.from < first || l.to > end) {
			count := l.n
			l.keepIf(func(e *Event) bool { return e.Start >= first && e.Start < last && e.Start+e.Dur <= end })
			t.Dropped[Astray] += int64(count - l.n)
		}
	}
}

// eachLog calls yield for the log of every thread, with its class, and of every stream, with the class classes.
func (t *Timeline) eachLog(yield func(*Log, Class) bool) {
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

// halveTime leaves out the later half of the covered time.
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
		s.Work[kind].addEvent(e)
	}
}

// AddCall adds a call of a thread.
func (t *Timeline) AddCall(process, thread int64, class Class, e Event) {
	if h := t.Thread(process, thread); h != nil && t.mayHold(e.Start, e.Dur) {
		h.Calls[class].addEvent(e)
	}
}

// Thread returns a thread, or nil if there are too many.
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

// Close ends the reading: it sorts the events, and lists the missing ones.
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

// Names holds every name once.
type Names struct {
	Text  []string
	work  []Shape // by name; nil if no name has a shape
	ids   map[string]uint32
	bytes int
	full  bool
}

// A Shape is the work of an operator whose inputs' shapes were recorded.
type Shape struct {
	Flops float64
	Bytes float64 // least bytes read and written; for a collective, bytes over a GPU's link
	Dims  string  // for people
	Name  string  // the collective, for people
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
	return n.addName(string(name))
}

func (n *Names) addName(key string) uint32 {
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

// IDWith returns the number of an operator's name with a shape; key distinguishes the shapes of one
// name. It calls shape once for each key.
func (n *Names) IDWith(name, key []byte, shape func() Shape) uint32 {
	all := make([]byte, 0, 256)
	all = append(append(append(all, name...), 0), key...)
	if id, ok := n.ids[string(all)]; ok {
		return id
	}
	id := n.addName(string(all))
	if id > 0 {
		if grow := len(n.Text) - len(n.work); grow > 0 {
			n.work = append(n.work, make([]Shape, grow)...)
		}
		n.work[id] = shape()
	}
	return id
}

// Shape returns an operator's shape; its zero value is unknown.
func (n *Names) Shape(id uint32) Shape {
	if int(id) < len(n.work) {
		return n.work[id]
	}
	return Shape{}
}

func (n *Names) closeNames() { n.ids = nil }
