package gateway

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Admission limits what the upstreams get. The zero value lets everything
// through. Only requests that generate are limited.
type Admission struct {
	// MaxConcurrent is how many requests each upstream that is up gets at a time:
	// where a load test found the knee. 0 for no limit.
	MaxConcurrent int
	// MaxQueued is how many more wait, the most important first. Beyond, the
	// least important one is shed.
	MaxQueued    int
	QueueTimeout time.Duration // how long one waits at most; 10 s when 0
	// TokensPerSecond is how many prompt and output tokens requests may cost
	// together, over ten seconds; 0 for no limit. Costs are charged when they are
	// known.
	TokensPerSecond float64
}

const (
	defaultQueueTimeout = 10 * time.Second
	tokenBurst          = 10 // seconds
	maxRetryAfter       = 60 // seconds
)

func (a Admission) check() error {
	if a.MaxConcurrent < 0 || a.MaxQueued < 0 || a.QueueTimeout < 0 || a.TokensPerSecond < 0 || math.IsNaN(a.TokensPerSecond) {
		return errors.New("admission control: a limit is negative")
	}
	if a.MaxQueued > 0 && a.MaxConcurrent == 0 {
		return hint.With(errors.New("admission control: a queue needs a concurrency limit"), "set --max-concurrent")
	}
	return nil
}

type waiter struct {
	priority int
	ready    chan error // nil admits
}

type admission struct {
	g   *Gateway
	cfg Admission

	mu       sync.Mutex
	admitted int
	queue    []*waiter // the most important first, then the oldest
	ended    float64   // requests a second, smoothed
	lastEnd  int64
	balance  float64 // of tokens; negative while costs are paid off
	at       int64   // of the balance
}

func newAdmission(g *Gateway, cfg Admission) *admission {
	if cfg.QueueTimeout == 0 {
		cfg.QueueTimeout = defaultQueueTimeout
	}
	return &admission{g: g, cfg: cfg, balance: cfg.TokensPerSecond * tokenBurst}
}

// limit is how many requests may be admitted together now; 0 for any number.
func (a *admission) limit() int {
	if a.cfg.MaxConcurrent == 0 {
		return 0
	}
	up := 0
	for _, u := range a.g.upstreams {
		if !u.down.Load() {
			up++
		}
	}
	return a.cfg.MaxConcurrent * max(up, 1)
}

// acquire waits until a request may pass. What it lets through must leave.
func (a *admission) acquire(x *exchange) error {
	if a.cfg.MaxConcurrent == 0 && a.cfg.TokensPerSecond == 0 || x.work == "" {
		return nil
	}
	priority, _ := strconv.Atoi(x.r.Header.Get("X-Priority"))
	a.mu.Lock()
	if a.cfg.TokensPerSecond > 0 && a.refill(a.g.now()) <= 0 {
		a.mu.Unlock()
		return overloaded("token_rate_limit")
	}
	limit := a.limit()
	if limit == 0 || a.admitted < limit {
		a.admitted++
		x.counts = true
		a.mu.Unlock()
		return nil
	}
	w := &waiter{priority, make(chan error, 1)}
	if !a.line(w) {
		a.mu.Unlock()
		return overloaded("concurrency_limit")
	}
	a.mu.Unlock()

	t := time.NewTimer(a.cfg.QueueTimeout)
	defer t.Stop()
	var err error
	select {
	case err = <-w.ready:
	case <-x.ctx.Done():
		err = x.cancelCause(errClientGone)
	case <-t.C:
		err = overloaded("queue_timeout")
	}
	if err != nil {
		a.giveUp(w)
		return err
	}
	x.counts = true
	return nil
}

func overloaded(kind string) *end {
	return &end{status: Rejected, code: http.StatusTooManyRequests, kind: kind}
}

// line puts a waiter into the queue, and reports whether there was room or
// somebody less important to shed. Its caller holds the lock.
func (a *admission) line(w *waiter) bool {
	if len(a.queue) >= a.cfg.MaxQueued {
		if a.cfg.MaxQueued == 0 {
			return false
		}
		last := a.queue[len(a.queue)-1]
		if last.priority >= w.priority {
			return false
		}
		a.queue = a.queue[:len(a.queue)-1]
		last.ready <- overloaded("shed")
	}
	i, _ := slices.BinarySearchFunc(a.queue, w, func(q, w *waiter) int {
		return cmp.Or(cmp.Compare(w.priority, q.priority), -1) // behind its equals
	})
	a.queue = slices.Insert(a.queue, i, w)
	return true
}

// giveUp takes a waiter out of the queue. One that was admitted meanwhile gives
// its place back.
func (a *admission) giveUp(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.queue, w); i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
		return
	}
	select {
	case err := <-w.ready:
		if err == nil {
			a.admitted--
			a.next()
		}
	default:
	}
}

// release notes the end of a request.
func (a *admission) release(x *exchange) {
	if !x.counts {
		return
	}
	now := a.g.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted--
	if a.lastEnd > 0 {
		rate := 1 / max(time.Duration(now-a.lastEnd).Seconds(), 1e-3)
		a.ended += (rate - a.ended) / 16
	}
	a.lastEnd = now
	if a.cfg.TokensPerSecond > 0 {
		total, _ := x.meter.Tokens()
		a.refill(now)
		a.balance -= float64(total + x.meter.Usage.PromptTokens)
	}
	a.next()
}

// next admits who waits, as far as there is room. Its caller holds the lock.
func (a *admission) next() {
	for limit := a.limit(); len(a.queue) > 0 && a.admitted < limit; {
		w := a.queue[0]
		a.queue = slices.Delete(a.queue, 0, 1)
		a.admitted++
		w.ready <- nil
	}
}

// refill brings the balance up to date and returns it. Its caller holds the lock.
func (a *admission) refill(now int64) float64 {
	rate := a.cfg.TokensPerSecond
	if a.at > 0 {
		a.balance = min(a.balance+rate*time.Duration(now-a.at).Seconds(), rate*tokenBurst)
	}
	a.at = now
	return a.balance
}

// retryAfter is what a client that was refused is told to wait, in seconds; 0
// for nothing.
func (a *admission) retryAfter(e *end) int {
	if e.code != http.StatusTooManyRequests && e != errTooMany {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := 1.0
	switch {
	case e.kind == "token_rate_limit":
		wait = -a.balance / a.cfg.TokensPerSecond
	case a.ended > 0:
		wait = float64(len(a.queue)) / a.ended
	}
	return int(math.Ceil(min(max(wait, 1), maxRetryAfter)))
}
