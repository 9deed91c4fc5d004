package sim

import "time"

// cancel is a client that will leave.
type cancel struct {
	at         time.Duration
	id         int
	unanswered bool // the client leaves only if it has no token yet
}

// ComesBefore orders cancels by time, then by number.
func (c cancel) ComesBefore(o cancel) bool { return c.at < o.at || c.at == o.at && c.id < o.id }
