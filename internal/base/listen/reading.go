package listen

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// How long a client may take to read a piece of an answer, in bytes, and how much of answers that hold no turn may
// wait to be read.
const (
	readTime  = 30 * time.Second
	piece     = 64 << 10
	maxUnread = 64 << 20
)

// CutStalled ends answers that are not read: the deadline of writing is renewed with each piece, streams are whole
// answers of pieces too. Between them a handler may take its time.
func CutStalled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &steady{w, http.NewResponseController(w)}
		s.limit(0) // an earlier answer of the connection set one
		next.ServeHTTP(s, r)
		s.limit(readTime) // for what is still in buffers
	})
}

// steady writes pieces, each by a deadline. What has no deadlines, as in tests, has none.
type steady struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (s *steady) limit(d time.Duration) {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	_ = s.c.SetWriteDeadline(until)
}

func (s *steady) Write(p []byte) (n int, err error) {
	defer s.limit(0)
	for err == nil && n < len(p) {
		var k int
		s.limit(readTime)
		k, err = s.ResponseWriter.Write(p[n:min(n+piece, len(p))])
		n += k
	}
	return n, err
}

// FlushError is for http.ResponseController, Flush for http.Flusher.
func (s *steady) FlushError() error {
	s.limit(readTime)
	defer s.limit(0)
	return s.c.Flush()
}

func (s *steady) Flush() { _ = s.FlushError() }

// Unwrap is for http.ResponseController.
func (s *steady) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Turns let some requests be computed at a time, the others when it is their turn. A turn ends with the first byte of
// the answer, which is complete then, and not when somebody has read it, unless too much of others is unread.
type Turns struct {
	all, unread *semaphore.Weighted
	patience    time.Duration
	user        func(*http.Request) string
	refuse      http.HandlerFunc
	share       int64 // of all, for one user

	mu    sync.Mutex
	users map[string]*share
}

// A share is what one user has of turns.
type share struct {
	*semaphore.Weighted
	asked int // requests that have or wait for a turn
}

// NewTurns returns n turns, of which one user may have all but one; nobody in particular, the user "",
// may have all, and where user is nil that is everybody.
// Refuse answers those whose turn does not come in time.
func NewTurns(n int, patience time.Duration, user func(*http.Request) string, refuse http.HandlerFunc) *Turns {
	return &Turns{
		all: semaphore.NewWeighted(int64(n)), unread: semaphore.NewWeighted(maxUnread), patience: patience, user: user, refuse: refuse,
		share: max(1, int64(n)-1), users: map[string]*share{},
	}
}

// Handler lets requests through in their turn.
func (t *Turns) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, ok := t.take(r)
		if !ok {
			t.refuse(w, r)
			return
		}
		a := &answer{ResponseWriter: w, turns: t, end: sync.OnceFunc(end)}
		defer func() {
			a.end()
			t.unread.Release(a.unread)
		}()
		next.ServeHTTP(a, r)
	})
}

// take waits for a turn and returns what ends it.
func (t *Turns) take(r *http.Request) (end func(), ok bool) {
	ctx, done := context.WithTimeout(r.Context(), t.patience)
	defer done()
	name, forget := "", func() {}
	if t.user != nil {
		name = t.user(r)
	}
	if name != "" {
		t.mu.Lock()
		of := t.users[name]
		if of == nil {
			of = &share{Weighted: semaphore.NewWeighted(t.share)}
			t.users[name] = of
		}
		of.asked++
		t.mu.Unlock()
		leave := func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if of.asked--; of.asked == 0 {
				delete(t.users, name)
			}
		}
		if of.Acquire(ctx, 1) != nil {
			leave()
			return nil, false
		}
		forget = func() { of.Release(1); leave() }
	}
	if t.all.Acquire(ctx, 1) != nil {
		forget()
		return nil, false
	}
	return func() { t.all.Release(1); forget() }, true
}

// An answer ends its turn with its first byte.
type answer struct {
	http.ResponseWriter
	turns  *Turns
	end    func()
	begun  bool
	unread int64 // bytes
}

func (a *answer) Write(p []byte) (int, error) {
	if n := int64(len(p)); !a.begun && a.turns.unread.TryAcquire(n) {
		a.unread = n
		a.end()
	}
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
