package listen

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	readTime  = 30 * time.Second // in which a client must read one piece
	piece     = 64 << 10         // bytes
	maxUnread = 64 << 20         // bytes of answers that released their turn before the client has read them
)

// CutStalled ends answers that the client does not read. Each piece of an answer or of a stream has its own write
// deadline. A handler may take any time between two pieces.
func CutStalled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &steady{w, http.NewResponseController(w)}
		s.limit(0) // an earlier answer on this connection may have set a deadline
		next.ServeHTTP(s, r)
		s.limit(readTime) // to flush the buffers
	})
}

// steady writes an answer in pieces, each with a deadline. Writers without deadlines, such as those of tests, never
// time out.
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

// Turns bound how many requests are computed concurrently; the others wait. Handlers compute the whole answer before
// they write it, so a turn ends with the first byte. But while clients have not read maxUnread bytes of earlier
// answers, it ends only when the client has read the answer.
type Turns struct {
	all, unread *semaphore.Weighted
	patience    time.Duration
	user        func(*http.Request) string
	refuse      http.HandlerFunc
	share       int64 // turns that one user may have at a time

	mu    sync.Mutex
	users map[string]*share
}

// A share holds the turns of one user.
type share struct {
	*semaphore.Weighted
	asked int // requests that hold or wait for a turn
}

// NewTurns returns n turns. One user may have all but one of them. The anonymous user "" may have all; if user is
// nil, every request is anonymous. refuse answers requests that waited longer than patience.
func NewTurns(n int, patience time.Duration, user func(*http.Request) string, refuse http.HandlerFunc) *Turns {
	return &Turns{
		all: semaphore.NewWeighted(int64(n)), unread: semaphore.NewWeighted(maxUnread),
		patience: patience, user: user, refuse: refuse,
		share: max(1, int64(n)-1), users: map[string]*share{},
	}
}

// Handler passes a request on when it has a turn.
func (t *Turns) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release, ok := t.acquire(r)
		if !ok {
			t.refuse(w, r)
			return
		}
		a := &answer{ResponseWriter: w, turns: t, releaseTurn: sync.OnceFunc(release)}
		defer func() {
			a.releaseTurn()
			t.unread.Release(a.unread)
		}()
		next.ServeHTTP(a, r)
	})
}

// acquire waits for a turn. The caller must call release.
func (t *Turns) acquire(r *http.Request) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), t.patience)
	defer cancel()
	name, releaseShare := "", func() {}
	if t.user != nil {
		name = t.user(r)
	}
	if name != "" {
		t.mu.Lock()
		own := t.users[name]
		if own == nil {
			own = &share{Weighted: semaphore.NewWeighted(t.share)}
			t.users[name] = own
		}
		own.asked++
		t.mu.Unlock()
		leave := func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if own.asked--; own.asked == 0 {
				delete(t.users, name)
			}
		}
		if own.Acquire(ctx, 1) != nil {
			leave()
			return nil, false
		}
		releaseShare = func() { own.Release(1); leave() }
	}
	if t.all.Acquire(ctx, 1) != nil {
		releaseShare()
		return nil, false
	}
	return func() { t.all.Release(1); releaseShare() }, true
}

// An answer releases its turn with its first byte.
type answer struct {
	http.ResponseWriter
	turns       *Turns
	releaseTurn func()
	begun       bool
	unread      int64 // bytes
}

func (a *answer) Write(p []byte) (int, error) {
	if n := int64(len(p)); !a.begun && a.turns.unread.TryAcquire(n) {
		a.unread = n
		a.releaseTurn()
	}
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
