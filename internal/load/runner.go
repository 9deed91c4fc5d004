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

// Config is one test.
type Config struct {
	Target     Target
	Vocabulary *Vocabulary // DefaultVocabulary when nil
	Source     workload.Source

	// Exactly one of the three says when: Concurrency streams that send the next
	// request when the one before ended (closed loop), Arrivals (open loop), or
	// the arrivals of the Source's own sessions (trace).
	Concurrency int
	Arrivals    *workload.Arrivals
	Trace       bool

	MaxConcurrency int           // streams of an open loop; more sessions wait; 0 is 10,000
	MaxRequests    int           // requests in all; 0 is without limit
	Duration       time.Duration // requests begin within; 0 is without limit
	Timeout        time.Duration // of one request, and of what is in flight at the end; 0 is ten minutes
	Seed           uint64
}

// DefaultMaxConcurrency is the number of streams that an open loop may use.
const DefaultMaxConcurrency = 10_000

const (
	maxConcurrency = 200_000
	maxBacklog     = 1_000_000 // sessions that wait for a stream
	dialers        = 64        // connections opened at once before a closed loop
)

// Runner runs one test. It is used once.
type Runner struct {
	cfg       Config
	endpoint  *endpoint
	start     time.Time
	collector *collector
	run       uint32
	ids       atomic.Uint64
	begun     atomic.Int64    // requests, against MaxRequests
	live      context.Context // of everything in flight
	stop      context.CancelFunc

	over     chan struct{} // closed when no request may begin any more
	overOnce sync.Once

	sourceMu sync.Mutex // guards cfg.Source

	allMu sync.Mutex
	all   []*stream

	streams  sync.WaitGroup
	queue    queue
	waiting  atomic.Int64
	last     atomic.Int64 // when the last request was scheduled
	truncate bool         // a limit other than MaxRequests and Duration ended the test
}

// New validates a test.
func New(cfg Config) (*Runner, error) {
	if cfg.Vocabulary == nil {
		cfg.Vocabulary = DefaultVocabulary()
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxConcurrency == 0 {
		cfg.MaxConcurrency = DefaultMaxConcurrency
	}
	e, err := newEndpoint(cfg.Target, cfg.Vocabulary)
	if err != nil {
		return nil, err
	}
	return &Runner{
		cfg: cfg, endpoint: e, run: rand.Uint32(), over: make(chan struct{}),
	}, nil
}

func (c *Config) check() error {
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
		return hint.With(errors.New("the test needs one of a concurrency, a rate, and a trace"), "pass one of --concurrency, --rate and --trace")
	case c.Concurrency < 0 || c.Concurrency > maxConcurrency:
		return fmt.Errorf("concurrency %d: want 1 to %d", c.Concurrency, maxConcurrency)
	case c.MaxConcurrency < 0 || c.MaxConcurrency > maxConcurrency:
		return fmt.Errorf("maximum concurrency %d: want 1 to %d", c.MaxConcurrency, maxConcurrency)
	case c.MaxRequests < 0 || c.Duration < 0 || c.Timeout < 0:
		return errors.New("a limit of the test is negative")
	case c.Timeout > time.Hour:
		return fmt.Errorf("request timeout %s is over an hour", c.Timeout)
	case c.MaxRequests == 0 && c.Duration == 0 && !c.Trace && c.endless():
		return hint.With(errors.New("the test has no end condition"), "pass --requests or --duration")
	}
	if c.Arrivals != nil {
		return c.Arrivals.Validate()
	}
	return nil
}

// endless reports whether nothing in the load shape ends the test.
func (c *Config) endless() bool {
	return c.Arrivals == nil || len(c.Arrivals.Profile) == 0 || c.Arrivals.Profile[len(c.Arrivals.Profile)-1].Duration == 0
}

// Run runs the test until its plan is done or ctx ends. What was measured until
// then is returned in either case; an error means that nothing could be.
// Progress, if not nil, is called about every interval from one goroutine.
func (r *Runner) Run(ctx context.Context, interval time.Duration, progress func(Progress)) (*Recording, error) {
	r.live, r.stop = context.WithCancel(ctx)
	defer r.stop()
	defer r.closeAll()
	streams, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	r.start = time.Now()
	r.collector = newCollector(r.start)
	j := newJudge()
	stopProgress := r.report(interval, progress)
	if r.cfg.Concurrency > 0 {
		r.closedLoop(ctx, streams)
	} else if err = r.openLoop(); err != nil {
		r.stop()
	}
	r.drain(ctx)
	stopProgress()
	rec := r.collector.rec
	rec.Generator = j.end()
	rec.Generator.ReceiveLag = r.receiveLag()
	rec.Dispatched = time.Duration(r.last.Load())
	rec.Interrupted = ctx.Err() != nil || r.truncate
	for _, s := range r.all {
		rec.Connections += int(s.way.Opened.Load())
	}
	return rec, err
}

// now is the time since the test's start.
func (r *Runner) now() time.Duration { return time.Since(r.start) }

// stopped reports whether everything in flight is being interrupted.
func (r *Runner) stopped() bool { return r.live.Err() != nil }

// report calls progress until the returned function is called, and once more.
func (r *Runner) report(interval time.Duration, progress func(Progress)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	state := func() Progress {
		p := r.collector.progress(r.now())
		p.Waiting = int(r.waiting.Load())
		return p
	}
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

// prepare opens a closed loop's connections, so that its beginning is not a
// burst of handshakes, and returns its streams.
func (r *Runner) prepare(ctx context.Context) ([]*stream, error) {
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

// wayToConnect is the way out where the connections of a closed loop cannot be opened: the
// system may have too few files or local ports for them.
func wayToConnect(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files with ulimit -n, or in a container with --ulimit nofile=…"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return `widen the range of local ports with sysctl -w net.ipv4.ip_local_port_range="1024 65535"`
	}
	return "check that the server runs and accepts that many connections"
}

// drain waits for the streams, for at most the time that a request may take.
func (r *Runner) drain(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		r.streams.Wait()
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

// receiveLag sums up all streams.
func (r *Runner) receiveLag() (l Lag) {
	all := map[uint32]int64{}
	for _, s := range r.all {
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

func (r *Runner) closeAll() {
	for _, s := range r.all {
		s.way.Close()
	}
}

// claim takes one request of the budget, or reports that none may begin.
func (r *Runner) claim(at time.Duration) bool {
	if r.stopped() || r.cfg.Duration > 0 && at >= r.cfg.Duration {
		r.finish()
		return false
	}
	if n := r.begun.Add(1); r.cfg.MaxRequests > 0 && n > int64(r.cfg.MaxRequests) {
		r.finish()
		return false
	}
	return true
}

// scheduled notes the time of the last request that was sent.
func (r *Runner) scheduled(at time.Duration) {
	for {
		last := r.last.Load()
		if int64(at) <= last || r.last.CompareAndSwap(last, int64(at)) {
			return
		}
	}
}

// finish says that no request may begin any more.
func (r *Runner) finish() { r.overOnce.Do(func() { close(r.over) }) }

// closedLoop runs every stream until nothing is left to send, and returns when
// only what is in flight is left.
func (r *Runner) closedLoop(ctx context.Context, streams []*stream) {
	for _, s := range streams {
		r.streams.Go(func() {
			var sess workload.Session
			for {
				r.sourceMu.Lock()
				more := r.cfg.Source.Next(&sess)
				r.sourceMu.Unlock()
				if !more || !s.session(&sess, r.now(), 0, false) {
					r.finish()
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

// session sends a session's turns one after another. In an open loop the first
// turn's body was composed before, its schedule is due, and free is when the
// stream became free for it, if it waited. It reports whether the test goes on.
func (s *stream) session(sess *workload.Session, due, free time.Duration, composed bool) bool {
	r := s.r
	s.history = s.history[:0]
	begun := due
	for i := range sess.Turns {
		t := &sess.Turns[i]
		scheduled := due
		if i > 0 {
			scheduled = max(s.ended+t.Think, begun+t.At)
			if !r.sleep(scheduled - r.now()) {
				return false
			}
		}
		if i > 0 || !composed {
			s.body = r.endpoint.body(nil, s.history, t)
		}
		if !(i == 0 && composed) && !r.claim(max(scheduled, 0)) {
			return false
		}
		r.scheduled(scheduled)
		ready := scheduled
		if i == 0 && composed {
			ready = max(due, free)
		}
		s.keep = i+1 < len(sess.Turns) && sess.Turns[i+1].Continues
		s.begin(t, scheduled, ready)
		r.collector.sent()
		s.exchange(r.ids.Add(1))
		s.rec.Turn = uint16(min(i, 1<<16-1))
		r.collector.done(&s.rec, s.arrivals, s.bearing, s.message)
		if s.rec.Outcome.Failed() || s.rec.Outcome == Unfinished {
			r.pause(s.rec.Outcome)
			return !r.stopped()
		}
		if s.keep {
			if s.rec.Outcome == Cancelled {
				return true // the client left
			}
			s.history = r.endpoint.remember(s.history, t, s.answer)
		}
	}
	return true
}

// pause keeps a closed loop from hammering a server that refuses at once.
func (r *Runner) pause(o Outcome) {
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
	return !r.stopped()
}

// job is a session of an open loop, its first body composed before it is due.
type job struct {
	session workload.Session
	body    []byte
	due     time.Duration
	queued  bool // it waited for a stream
}

// openLoop dispatches sessions when they are due, whatever the server does.
func (r *Runner) openLoop() error {
	var pacer workload.Pacer
	if r.cfg.Arrivals != nil {
		var err error
		if pacer, err = r.cfg.Arrivals.Pacer(r.cfg.Seed); err != nil {
			return err
		}
	}
	defer r.queue.end()
	jobs := make(chan *job, composeAhead)
	r.streams.Go(func() { r.compose(pacer, jobs) })
	for j := range jobs {
		if !r.sleep(j.due - r.now()) {
			return nil
		}
		r.scheduled(j.due)
		if !r.dispatch(j) {
			return hint.With(fmt.Errorf("%d sessions wait for a stream: the server is far too slow for this rate", maxBacklog), "lower the rate, or raise --max-concurrency")
		}
	}
	return nil
}

// composeAhead is how many sessions are composed before they are due, so that
// arrivals at the same moment, as traces have them, do not wait for each other's
// prompts to be written.
const composeAhead = 64

// compose draws sessions, decides when they are due, and writes their first
// bodies, until no more may begin.
func (r *Runner) compose(pacer workload.Pacer, jobs chan<- *job) {
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
		if !r.claim(j.due) {
			return
		}
		j.body = r.endpoint.body(nil, nil, &j.session.Turns[0])
		select {
		case jobs <- j:
		case <-r.live.Done():
			return
		}
	}
}

// queue is where an open loop's dispatcher and its streams meet.
type queue struct {
	mu      sync.Mutex
	backlog []*job      // sessions without a stream
	idle    []chan *job // streams without a session, the last used last
	running int
	over    bool // no more sessions come
}

// dispatch hands a session to the stream that was idle last, so that few
// connections stay warm rather than many go stale; else to a new stream; else
// to the backlog, which it reports full with false.
func (r *Runner) dispatch(j *job) bool {
	q := &r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.idle); n > 0 {
		q.idle[n-1] <- j
		q.idle = q.idle[:n-1]
		return true
	}
	if q.running < r.cfg.MaxConcurrency {
		q.running++
		r.streams.Go(func() { r.work(j) })
		return true
	}
	if len(q.backlog) == maxBacklog {
		return false
	}
	j.queued = true
	q.backlog = append(q.backlog, j)
	r.waiting.Store(int64(len(q.backlog)))
	return true
}

// work is one stream of the open loop: it takes sessions from the backlog, and
// waits for new ones when there are none.
func (r *Runner) work(j *job) {
	s := r.newStream()
	inbox := make(chan *job, 1)
	for j != nil {
		s.body, j.body = j.body, nil
		free := time.Duration(0)
		if j.queued {
			free = s.ended
		}
		s.session(&j.session, j.due, free, true)
		j = r.nextJob(inbox)
	}
}

// nextJob returns a stream's next session, or nil when no more come.
func (r *Runner) nextJob(inbox chan *job) *job {
	q := &r.queue
	q.mu.Lock()
	if len(q.backlog) > 0 {
		j := q.backlog[0]
		q.backlog[0] = nil
		q.backlog = q.backlog[1:]
		r.waiting.Store(int64(len(q.backlog)))
		q.mu.Unlock()
		return j
	}
	if q.over {
		q.mu.Unlock()
		return nil
	}
	q.idle = append(q.idle, inbox)
	q.mu.Unlock()
	return <-inbox
}

// end lets idle streams end.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	for _, inbox := range q.idle {
		close(inbox)
	}
	q.idle = nil
}
