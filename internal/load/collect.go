package load

import (
	"iter"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// A Recording holds everything that a test measured. Summarize makes a Result from it.
type Recording struct {
	Start    time.Time
	Duration time.Duration // from the start to the last response's end
	// Dispatched is when the last request was scheduled. Afterwards the load drains.
	Dispatched  time.Duration
	Interrupted bool // the user or a limit ended the test before its plan was done
	Full        bool // the limit was maxStreams
	Slices      []Slice
	SliceWidth  time.Duration
	Errors      map[Outcome][]string // a few distinct messages of each kind
	Retried     int                  // requests sent again because a kept connection had died
	Connections int                  // opened
	Reads       int64                // reads that brought tokens
	Events      int64                // events that brought tokens
	Generator   Generator

	records slab
}

// Records yields every request, in the order of their ends.
func (r *Recording) Records() iter.Seq[*Record] { return r.records.eachRecord }

// Len returns the number of records.
func (r *Recording) Len() int { return r.records.n }

// A Slice is a short part of the test.
type Slice struct {
	Tokens int64 // output tokens that arrived in it
	// Gaps counts token-weighted inter-token latencies by bucket.
	Gaps map[uint32]int64
}

const (
	firstSlice = 100 * time.Millisecond
	maxSlices  = 600
	// gapBits is how many significant bits of a gap in µs a bucket keeps: an error of 0.05 % at most.
	gapBits = 11
)

// gapBucket returns the bucket of a gap in µs, and gapValue the middle of a bucket.
func gapBucket(us uint32) uint32 {
	if n := bits.Len32(us); n > gapBits {
		shift := n - gapBits
		return uint32(shift)<<gapBits | us>>shift
	}
	return us
}

func gapValue(bucket uint32) int64 {
	shift := bucket >> gapBits
	if shift == 0 {
		return int64(bucket)
	}
	lowest := int64(bucket&(1<<gapBits-1)) << shift
	return lowest + int64(1)<<(shift-1)
}

// An arrival is a read that brought tokens.
type arrival struct {
	us     uint32 // since the request was sent
	tokens uint32
}

// A collector gathers the measurements of the streams. It is locked once per request, never per event.
type collector struct {
	mu     sync.Mutex
	rec    *Recording
	live   Progress
	recent []time.Duration // TTFTs since the last progress
}

// Progress is the state of a running test.
type Progress struct {
	Elapsed      time.Duration
	Sent         int
	InFlight     int
	Complete     int
	Failed       int
	OutputTokens int64
	TTFTs        []time.Duration // TTFTs of the requests that ended since the last Progress
}

func newCollector(start time.Time) *collector {
	return &collector{
		rec: &Recording{Start: start, SliceWidth: firstSlice, Errors: map[Outcome][]string{}},
	}
}

func (c *collector) noteSent() {
	c.mu.Lock()
	c.live.Sent++
	c.live.InFlight++
	c.mu.Unlock()
}

const (
	maxMessages  = 5
	maxMessage   = 200
	recentTTFTs  = 4096
	maxArrivalUS = 1<<32 - 1
)

// storeRecord stores a finished request and its arrivals.
func (c *collector) storeRecord(r *Record, arrivals []arrival, events int, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.rec.records.addRecord() = *r
	c.live.InFlight--
	c.live.OutputTokens += int64(r.OutputTokens)
	switch {
	case r.Outcome == Complete:
		c.live.Complete++
		if r.First > 0 && len(c.recent) < recentTTFTs {
			c.recent = append(c.recent, r.TTFT())
		}
	case r.Outcome.Failed():
		c.live.Failed++
	}
	if message != "" {
		c.addMessage(r.Outcome, message)
	}
	c.rec.Duration = max(c.rec.Duration, r.End)
	c.rec.Reads += int64(len(arrivals))
	c.rec.Events += int64(events)
	var last uint32
	for i, a := range arrivals {
		s := c.sliceAt(r.Sent + time.Duration(a.us)*time.Microsecond)
		s.Tokens += int64(a.tokens)
		if i > 0 && a.tokens > 0 {
			if s.Gaps == nil {
				s.Gaps = map[uint32]int64{}
			}
			s.Gaps[gapBucket((a.us-last)/a.tokens)] += int64(a.tokens)
		}
		last = a.us
	}
}

func (c *collector) addMessage(o Outcome, m string) {
	if len(m) > maxMessage {
		m = m[:maxMessage] + "…"
	}
	if known := c.rec.Errors[o]; len(known) < maxMessages && !slices.Contains(known, m) {
		c.rec.Errors[o] = append(known, m)
	}
}

// sliceAt returns the slice of a moment. If the test outgrows the slices, they become twice as wide.
func (c *collector) sliceAt(at time.Duration) *Slice {
	r := c.rec
	for at/r.SliceWidth >= maxSlices {
		for i := range r.Slices {
			if i%2 == 0 {
				r.Slices[i/2] = r.Slices[i]
			} else {
				r.Slices[i/2].addSlice(&r.Slices[i])
			}
		}
		r.Slices = r.Slices[:(len(r.Slices)+1)/2]
		r.SliceWidth *= 2
	}
	i := int(at / r.SliceWidth)
	for len(r.Slices) <= i {
		r.Slices = append(r.Slices, Slice{})
	}
	return &r.Slices[i]
}

// addSlice merges another slice into s.
func (s *Slice) addSlice(o *Slice) {
	s.Tokens += o.Tokens
	if s.Gaps == nil {
		s.Gaps = o.Gaps
		return
	}
	for b, n := range o.Gaps {
		s.Gaps[b] += n
	}
}

// takeProgress returns the state and begins a new interval.
func (c *collector) takeProgress(elapsed time.Duration) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.live
	p.Elapsed = elapsed
	p.TTFTs, c.recent = c.recent, nil
	return p
}

func (c *collector) noteRetried() {
	c.mu.Lock()
	c.rec.Retried++
	c.mu.Unlock()
}
