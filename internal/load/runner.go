package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// Config describes one test.
type Config struct {
	Target     Target
	Vocabulary *Vocabulary // DefaultVocabulary when nil
	Source     workload.Source
	Prompts    []Prompt // sent in turn in place of words; the lengths of the Source's prompts are then unused

	// Exactly one of these is set: Concurrency streams that send the next request when the previous one ended (closed
	// loop), Arrivals (open loop), or Trace, which takes the arrivals of the Source's sessions.
	Concurrency int
	Arrivals    *workload.Arrivals
	Trace       bool

	MaxRequests int           // requests in total; 0 is no limit
	Duration    time.Duration // requests begin within it; 0 is no limit
	Timeout     time.Duration // for one request, and for the drain at the end; 0 is ten minutes
	Seed        uint64
}

const (
	maxStreams     = 10_000 // in an open loop, which ends if it needs more
	maxConcurrency = 200_000
	dialers        = 64 // connections opened at once before a closed loop
)

// A Runner runs one test, once.
type Runner struct {
	cfg       Config
	endpoint  *endpoint
	start     time.Time
	collector *collector
	runID     uint32
	ids       atomic.Uint64
	begun     atomic.Int64    // requests, against MaxRequests
	live      context.Context // context of everything in flight
	stop      context.CancelFunc

	over     chan struct{} // closed when no further request may begin
	overOnce sync.Once

	sourceMu sync.Mutex // guards cfg.Source

	openedMu sync.Mutex
	opened   []*stream

	workers  sync.WaitGroup
	queue    queue
	last     atomic.Int64 // when the last request was scheduled
	truncate bool         // another limit than MaxRequests and Duration ended the test
}

// New validates a test.
func New(cfg Config) (*Runner, error) {
	if cfg.Vocabulary == nil {
		cfg.Vocabulary = DefaultVocabulary()
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	e, err := newEndpoint(cfg.Target, cfg.Vocabulary)
	if err != nil {
		return nil, err
	}
	if err := e.setPrompts(cfg.Prompts); err != nil {
		return nil, err
	}
	return &Runner{
		cfg: cfg, endpoint: e, runID: rand.Uint32(), over: make(chan struct{}),
	}, nil
}

func (c *Config) validate() error {
	ways := 0
	for _, set := range []bool{c.Concurrency != 0, c.Arrivals != nil, c.Trace} {
		if set {
			ways++
		}
	}
	switch {
	case c.Source == nil:
		return errors.New("the test has no workload")
	case ways != 1:
		return hint.With(errors.New("the test needs one of a concurrency, a rate, and a trace"),
			"pass one of --concurrency, --rate and --trace")
	case c.Concurrency < 0 || c.Concurrency > maxConcurrency:
		return fmt.Errorf("concurrency %d: want 1 to %d", c.Concurrency, maxConcurrency)
	case c.MaxRequests < 0 || c.Duration < 0 || c.Timeout < 0:
		return errors.New("a limit of the test is negative")
	case c.Timeout > time.Hour:
		return fmt.Errorf("request timeout %s is over an hour", c.Timeout)
	case c.MaxRequests == 0 && c.Duration == 0 && !c.Trace && c.isEndless():
		return hint.With(errors.New("the test has no end condition"), "pass --requests or --duration")
	}
	if c.Arrivals != nil {
		return c.Arrivals.Validate()
	}
	return nil
}

// isEndless reports whether the load shape never ends by itself.
func (c *Config) isEndless() bool {
	return c.Arrivals == nil || len(c.Arrivals.Profile) == 0 ||
		c.Arrivals.Profile[len(c.Arrivals.Profile)-1].Duration == 0
}

// Run runs the test until its plan is done or ctx ends. It returns the measurements so far in both cases; an error
// means that nothing could be measured. progress, if not nil, is called about every interval from one goroutine.
func (r *Runner) Run(ctx context.Context, interval time.Duration, progress func(Progress)) (*Recording, error) {
	r.live, r.stop = context.WithCancel(ctx)
	defer r.stop()
	defer r.closeAll()
	streams, err := r.openStreams(ctx)
	if err != nil {
		return nil, err
	}
	r.start = time.Now()
	r.collector = newCollector(r.start)
	j := measureSelf()
	stopProgress := r.reportProgress(interval, progress)
	if r.cfg.Concurrency > 0 {
		r.runClosedLoop(ctx, streams)
	} else if err = r.runOpenLoop(); err != nil {
		r.stop()
	}
	r.drainStreams(ctx)
	stopProgress()
	recording := r.collector.rec
	recording.Generator = j.stopAndMeasure()
	recording.Generator.ReceiveLag = r.mergeReceiveLags()
	recording.Dispatched = time.Duration(r.last.Load())
	recording.Interrupted = ctx.Err() != nil || r.truncate
	for _, s := range r.opened {
		recording.Connections += int(s.way.Opened.Load())
	}
	return recording, err
}

// elapsed returns the time since the start of the test.
func (r *Runner) elapsed() time.Duration { return time.Since(r.start) }

// isStopped reports whether the requests in flight are being interrupted.
func (r *Runner) isStopped() bool { return r.live.Err() != nil }

// reportProgress calls progress at intervals until the returned function is called, and then once more.
func (r *Runner) reportProgress(interval time.Duration, progress func(Progress)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	state := func() Progress { return r.collector.takeProgress(r.elapsed()) }
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				progress(state())
			case <-quit:
				progress(state())
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// openStreams creates the streams of a closed loop and opens their connections, so that the test does not begin with a
// burst of handshakes.
func (r *Runner) openStreams(ctx context.Context) ([]*stream, error) {
	streams := make([]*stream, r.cfg.Concurrency)
	errs := make([]error, r.cfg.Concurrency)
	var wg sync.WaitGroup
	limit := make(chan struct{}, dialers)
	for i := range streams {
		streams[i] = r.newStream()
		limit <- struct{}{}
		wg.Go(func() {
			errs[i] = streams[i].way.Open(ctx)
			<-limit
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, hint.With(fmt.Errorf("connect to %s: %w", r.endpoint.url.Host, err), wayToConnect(err))
		}
	}
	return streams, nil
}

// wayToConnect returns the hint for a closed loop that cannot open its connections. The system may lack open files or
// local ports.
func wayToConnect(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files with ulimit -n, or in a container with --ulimit nofile=…"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return `widen the range of local ports with sysctl -w net.ipv4.ip_local_port_range="1024 65535"`
	}
	return "check that the server runs and accepts that many connections"
}

// drainStreams waits for the streams, but no longer than a request may take.
func (r *Runner) drainStreams(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		r.workers.Wait()
		close(done)
	}()
	t := time.NewTimer(r.cfg.Timeout)
	defer t.Stop()
	select {
	case <-done:
		return
	case <-t.C:
		r.truncate = true
	case <-ctx.Done():
	}
	r.stop()
	<-done
}

// mergeReceiveLags merges the receive lags of all streams.
func (r *Runner) mergeReceiveLags() (l Lag) {
	all := map[uint32]int64{}
	for _, s := range r.opened {
		s.lagMu.Lock()
		for bucket, n := range s.lags {
			all[bucket] += n
			l.Count += n
		}
		s.lagMu.Unlock()
	}
	l.P50, l.P99, l.Max = gapQuantile(all, 0.5), gapQuantile(all, 0.99), gapQuantile(all, 1)
	return l
}

// closeAll closes the connections of all streams.
func (r *Runner) closeAll() {
	for _, s := range r.opened {
		s.way.Close()
	}
}

// claimRequest takes one request from the budget, and reports whether it may begin.
func (r *Runner) claimRequest(at time.Duration) bool {
	if r.isStopped() || r.cfg.Duration > 0 && at >= r.cfg.Duration {
		r.stopSending()
		return false
	}
	if n := r.begun.Add(1); r.cfg.MaxRequests > 0 && n > int64(r.cfg.MaxRequests) {
		r.stopSending()
		return false
	}
	return true
}

// noteScheduled records when the last request was scheduled.
func (r *Runner) noteScheduled(at time.Duration) {
	for {
		last := r.last.Load()
		if int64(at) <= last || r.last.CompareAndSwap(last, int64(at)) {
			return
		}
	}
}

// stopSending ends the sending of requests.
func (r *Runner) stopSending() { r.overOnce.Do(func() { close(r.over) }) }

// runClosedLoop runs the streams, and returns when no further request may begin.
func (r *Runner) runClosedLoop(ctx context.Context, streams []*stream) {
	for _, s := range streams {
		r.workers.Go(func() {
			var sess workload.Session
			for {
				r.sourceMu.Lock()
				more := r.cfg.Source.Next(&sess)
				r.sourceMu.Unlock()
				if !more || !s.runSession(&sess, r.elapsed(), false) {
					r.stopSending()
					return
				}
			}
		})
	}
	var limit <-chan time.Time
	if r.cfg.Duration > 0 {
		t := time.NewTimer(r.cfg.Duration)
		defer t.Stop()
		limit = t.C
	}
	select {
	case <-r.over:
	case <-limit:
	case <-ctx.Done():
	}
}

// runSession sends the turns of a session one after another, and reports whether the test goes on. due is the first
// turn's schedule. In an open loop its body is composed in advance.
func (s *stream) runSession(sess *workload.Session, due time.Duration, composed bool) bool {
	r := s.r
	for i := range sess.Turns {
		t := &sess.Turns[i]
		scheduled := due
		if i > 0 {
			scheduled = max(s.ended, due+t.At)
			if !r.sleep(scheduled - r.elapsed()) {
				return false
			}
		}
		if i > 0 || !composed {
			s.body = r.endpoint.appendBody(nil, t)
			if !r.claimRequest(max(scheduled, 0)) {
				return false
			}
		}
		r.noteScheduled(scheduled)
		s.beginTurn(t, scheduled)
		r.collector.noteSent()
		s.exchangeTurn(r.ids.Add(1))
		s.rec.Turn = uint16(min(i, 1<<16-1))
		r.collector.storeRecord(&s.rec, s.arrivals, s.bearing, s.message)
		if s.rec.Outcome.Failed() || s.rec.Outcome == Unfinished {
			r.pauseAfterFailure(s.rec.Outcome)
			return !r.isStopped()
		}
	}
	return true
}

// pauseAfterFailure keeps a closed loop from hammering a server that refuses requests immediately.
func (r *Runner) pauseAfterFailure(o Outcome) {
	if r.cfg.Concurrency > 0 && o.Failed() && o != Timeout {
		r.sleep(failurePause)
	}
}

const failurePause = 50 * time.Millisecond

// sleep waits, and reports whether the test goes on.
func (r *Runner) sleep(d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.live.Done():
		}
	}
	return !r.isStopped()
}

// A job is a session of an open loop with a body that is composed before it is due.
type job struct {
	session workload.Session
	body    []byte
	due     time.Duration
}

// runOpenLoop dispatches sessions when they are due, independently of the server.
func (r *Runner) runOpenLoop() error {
	var pacer workload.Pacer
	if r.cfg.Arrivals != nil {
		var err error
		if pacer, err = r.cfg.Arrivals.Pacer(r.cfg.Seed); err != nil {
			return err
		}
	}
	defer r.queue.endIdleStreams()
	jobs := make(chan *job, composeAhead)
	r.workers.Go(func() { r.composeSessions(pacer, jobs) })
	for j := range jobs {
		if !r.sleep(j.due - r.elapsed()) {
			return nil
		}
		r.noteScheduled(j.due)
		if !r.dispatchJob(j) {
			r.collector.rec.Full, r.truncate = true, true
			r.stop()
		}
	}
	return nil
}

// composeAhead is how many sessions are composed in advance. Sessions of a trace that arrive at the same moment then
// do not wait for each other's prompts.
const composeAhead = 64

// composeSessions draws sessions, sets their schedule, and writes their first bodies, until no further session may
// begin.
func (r *Runner) composeSessions(pacer workload.Pacer, jobs chan<- *job) {
	defer close(jobs)
	for {
		j := &job{}
		if !r.cfg.Source.Next(&j.session) {
			return
		}
		if j.due = j.session.Arrival; pacer != nil {
			var ok bool
			if j.due, ok = pacer.Next(); !ok {
				return
			}
		}
		if !r.claimRequest(j.due) {
			return
		}
		j.body = r.endpoint.appendBody(nil, &j.session.Turns[0])
		select {
		case jobs <- j:
		case <-r.live.Done():
			return
		}
	}
}

// A queue connects the dispatcher of an open loop to its streams.
type queue struct {
	mu      sync.Mutex
	idle    []chan *job // streams without a session, the last used last
	running int
	over    bool // no more sessions come
}

// dispatchJob hands a session to the stream that became idle last, else to a new stream. Few connections then stay
// warm, rather than many going stale. It returns false if maxStreams are busy.
func (r *Runner) dispatchJob(j *job) bool {
	q := &r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.idle); n > 0 {
		q.idle[n-1] <- j
		q.idle = q.idle[:n-1]
		return true
	}
	if q.running == maxStreams {
		return false
	}
	q.running++
	r.workers.Go(func() { r.runStream(j) })
	return true
}

// runStream runs one stream of the open loop, one session after another.
func (r *Runner) runStream(j *job) {
	s := r.newStream()
	inbox := make(chan *job, 1)
	for j != nil {
		s.body, j.body = j.body, nil
		s.runSession(&j.session, j.due, true)
		j = r.queue.nextJob(inbox)
	}
}

// nextJob returns a stream's next session, or nil if there will be none.
func (q *queue) nextJob(inbox chan *job) *job {
	q.mu.Lock()
	if q.over {
		q.mu.Unlock()
		return nil
	}
	q.idle = append(q.idle, inbox)
	q.mu.Unlock()
	return <-inbox
}

// endIdleStreams ends the idle streams.
func (q *queue) endIdleStreams() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	for _, inbox := range q.idle {
		close(inbox)
	}
	q.idle = nil
}
