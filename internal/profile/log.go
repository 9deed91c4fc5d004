package profile

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"

	"github.com/sixty-dev/sixty/internal/base/heap"
)

// An Event is an activity of a device or a call of a thread. Times are nanoseconds since the timeline's base.
type Event struct {
	Start, Dur  int64
	Size        uint64 // bytes of a copy or a memset
	Name        uint32 // in Timeline.Names
	Correlation uint32 // shared by a device's activity and the call that launched it; 0 is unknown
}

// compareEvents orders events by their start; with equal starts, the longer comes first.
func compareEvents(a, b Event) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Dur, a.Dur))
}

// A Log holds the packed events of one stream or thread, mostly in 5 to 12 bytes each. The zero value is empty.
//
// An event is a head of two bytes and five fields: start, duration, name, correlation and size. The start and the
// correlation are differences from the previous event. Each field has as many bytes as its value needs. Three bits of
// the head give that number, as an index in widths.
type Log struct {
	chunks   [][]byte
	n        int
	last     Event // the last event added
	from, to int64 // span of all events
	unsorted bool
}

const (
	minLogChunk = 512     // bytes of a log's first chunk
	maxLogChunk = 1 << 16 // bytes of its last ones
	// maxEvent is the most bytes of an event, with those behind it that reading the last field touches.
	maxEvent = 2 + 8 + 8 + 4 + 4 + 8 + 8
	// sortAtOnce is how many events are sorted at once.
	sortAtOnce = 1 << 16
)

// widths are the possible numbers of bytes of a field.
var widths = [8]uint{0, 1, 2, 3, 4, 5, 6, 8}

// widthIndex returns the index in widths for a value.
func widthIndex(v uint64) uint {
	n := uint(bits.Len64(v)+7) / 8
	if n > 6 {
		return 7
	}
	return n
}

// zigzag maps small numbers of both signs to small numbers without a sign.
func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) } //nolint:gosec // two's complement

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) } //nolint:gosec // two's complement

func (l *Log) addEvent(e Event) {
	if l.n == 0 {
		l.from, l.to = e.Start, e.Start+e.Dur
	} else {
		l.from, l.to = min(l.from, e.Start), max(l.to, e.Start+e.Dur)
		l.unsorted = l.unsorted || compareEvents(l.last, e) > 0
	}
	k := len(l.chunks) - 1
	if k < 0 || cap(l.chunks[k])-len(l.chunks[k]) < maxEvent {
		size := minLogChunk
		if k >= 0 {
			size = min(2*cap(l.chunks[k]), maxLogChunk)
		}
		l.chunks = append(l.chunks, make([]byte, 0, size))
		k++
	}
	fields := [5]uint64{
		zigzag(e.Start - l.last.Start), uint64(e.Dur), uint64(e.Name), //nolint:gosec // never negative
		zigzag(int64(int32(e.Correlation - l.last.Correlation))), e.Size, //nolint:gosec // two's complement
	}
	c := l.chunks[k]
	at := len(c)
	c = c[:at+maxEvent]
	head, end := uint(0), at+2
	for i, v := range fields {
		w := widthIndex(v)
		head |= w << (3 * i)
		binary.LittleEndian.PutUint64(c[end:], v)
		end += int(widths[w]) //nolint:gosec // at most 8
	}
	binary.LittleEndian.PutUint16(c[at:], uint16(head)) //nolint:gosec // 15 bits
	l.chunks[k] = c[:end]
	l.last = e
	l.n++
}

// Len is the number of events.
func (l *Log) Len() int { return l.n }

// All calls yield for every event, in the order of their starts once the timeline is closed. The next event overwrites
// the one that yield got.
func (l *Log) All(yield func(*Event) bool) {
	for c := (cursor{log: l}); c.next(); {
		if !yield(&c.event) {
			return
		}
	}
}

// drainEvents empties the log and returns its events. It frees each chunk after reading it.
func (l *Log) drainEvents() iter.Seq[*Event] {
	old := *l
	*l = Log{}
	return func(yield func(*Event) bool) {
		for c := (cursor{log: &old}); c.next() && yield(&c.event); {
			if c.chunk > 0 {
				old.chunks[c.chunk-1] = nil
			}
		}
	}
}

// sortEvents sorts sortAtOnce events at once into runs, and merges the runs.
func (l *Log) sortEvents() {
	if !l.unsorted {
		return
	}
	var runs []*Log
	part := make([]Event, 0, min(l.n, sortAtOnce))
	flush := func() {
		slices.SortFunc(part, compareEvents)
		if k := len(runs) - 1; k < 0 || len(part) > 0 && compareEvents(runs[k].last, part[0]) > 0 {
			runs = append(runs, &Log{})
		}
		for _, e := range part {
			runs[len(runs)-1].addEvent(e)
		}
		part = part[:0]
	}
	for e := range l.drainEvents() {
		if part = append(part, *e); len(part) == cap(part) {
			flush()
		}
	}
	flush()
	if len(runs) == 1 {
		*l = *runs[0]
		return
	}
	for _, e := range mergeLogs(runs) {
		l.addEvent(*e)
	}
}

func (l *Log) keepIf(keep func(*Event) bool) {
	for e := range l.drainEvents() {
		if keep(e) {
			l.addEvent(*e)
		}
	}
}

// A cursor reads a log.
type cursor struct {
	log           *Log
	index         int   // the log's index among several
	chunk, offset int   // the position of the next event
	event         Event // the last one read
}

func (c *cursor) next() bool {
	for ; c.chunk < len(c.log.chunks); c.chunk, c.offset = c.chunk+1, 0 {
		b := c.log.chunks[c.chunk]
		if c.offset >= len(b) {
			continue
		}
		b = b[c.offset:min(c.offset+maxEvent, cap(b))]
		head, at := uint(binary.LittleEndian.Uint16(b)), uint(2)
		var fields [5]uint64
		for i := range fields {
			w := widths[head>>(3*i)&7]
			fields[i] = binary.LittleEndian.Uint64(b[at:]) & (uint64(1)<<(8*w) - 1)
			at += w
		}
		c.offset += int(at) //nolint:gosec // at most maxEvent
		c.event.Start += unzigzag(fields[0])
		c.event.Dur = int64(fields[1])                     //nolint:gosec // never negative
		c.event.Name = uint32(fields[2])                   //nolint:gosec // addEvent packed 32 bits
		c.event.Correlation += uint32(unzigzag(fields[3])) //nolint:gosec // modulo 2^32, as addEvent packed it
		c.event.Size = fields[4]
		return true
	}
	return false
}

// ComesBefore orders cursors as compareEvents does; with equal events, the first log's comes first.
func (c *cursor) ComesBefore(o *cursor) bool {
	if c.event.Start != o.event.Start {
		return c.event.Start < o.event.Start
	}
	return c.event.Dur > o.event.Dur || c.event.Dur == o.event.Dur && c.index < o.index
}

// mergeLogs returns the events of sorted logs by their starts, each with the index of its log.
func mergeLogs(logs []*Log) iter.Seq2[int, *Event] {
	return func(yield func(int, *Event) bool) {
		var heads heap.Heap[*cursor]
		for i, l := range logs {
			if c := (&cursor{log: l, index: i}); c.next() {
				heads.Push(c)
			}
		}
		for len(heads) > 0 {
			c := heads[0]
			if !yield(c.index, &c.event) {
				return
			}
			if c.next() {
				heads.Sink()
			} else {
				heads.Pop()
			}
		}
	}
}
