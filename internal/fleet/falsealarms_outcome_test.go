package fleet_test

import (
	"time"

	"github.com/sixty-dev/sixty/internal/fleet"
)

// Bounds of what clients notice, and how long after it an alarm is not false. A diagnosis reads the past, too: a page
// that is resolved within minutes of the recovery was right.
const (
	over      = time.Minute // requests of this time are counted
	badShare  = 0.05        // more of them than this must be badly served,
	badAtAll  = 3           // and at least so many
	afterSick = 5 * time.Minute
	// A machine that is slower by this factor is slow, whether its clients notice or not. Its measurements stay in the
	// window for afterSlow.
	slower    = 1.3
	afterSlow = 2 * time.Minute
)

// A truth is the experience of the clients of one replica.
type truth struct {
	limits  Limits
	waiting map[time.Duration]bool // requests without a first token, by when they were asked
	first   ages                   // first tokens
	whole   ages                   // answers

	sick     bool
	lastSick time.Duration
	slowed   bool          // the machine is slower by slower or more
	slowAt   time.Duration // since then, or until then

	requests, bad int
}

// ages are outcomes of the last minute.
type ages []age

type age struct {
	at  time.Duration
	bad bool
}

func newTruth(l Limits) *truth {
	return &truth{limits: l, waiting: map[time.Duration]bool{}, lastSick: -1 << 62, slowAt: -1 << 62}
}

// hear adds an event that a client saw.
func (t *truth) hear(e fleet.Experience) {
	note := func(a *ages, bad bool) {
		*a = append(*a, age{e.At, bad})
		t.requests++
		if bad {
			t.bad++
		}
	}
	if e.What == fleet.Asked {
		t.waiting[e.Asked] = true
		return
	}
	late := e.At-e.Asked > t.limits.TTFT
	delete(t.waiting, e.Asked)
	switch e.What {
	case fleet.FirstToken:
		note(&t.first, late)
	case fleet.Left:
		if e.Tokens == 0 && late {
			note(&t.first, true)
		}
	case fleet.Broken:
		note(&t.whole, true)
	case fleet.Answered:
		note(&t.whole, e.Tokens > 1 && (e.At-e.First)/time.Duration(e.Tokens-1) > t.limits.TPOT)
	}
}

// look updates the truth for a time, which must not be before the last one.
func (t *truth) look(at time.Duration) {
	n, bad := t.first.count(at)
	for asked := range t.waiting {
		if at-asked > t.limits.TTFT {
			n++
			bad++
		}
	}
	answers, slow := t.whole.count(at)
	t.sick = many(bad, n) || many(slow, answers)
	if t.sick {
		t.lastSick = at
	}
}

func many(bad, n int) bool { return bad >= badAtAll && float64(bad) > badShare*float64(n) }

// count drops old outcomes.
func (a *ages) count(at time.Duration) (n, bad int) {
	old := 0
	for old < len(*a) && (*a)[old].at <= at-over {
		old++
	}
	*a = append((*a)[:0], (*a)[old:]...)
	for _, x := range *a {
		if x.bad {
			bad++
		}
	}
	return len(*a), bad
}

func (t *truth) slow(at time.Duration, factor float64) {
	if now := factor >= slower; now != t.slowed {
		t.slowed, t.slowAt = now, at
	}
}

// A Class says whether an alarm is right.
type Class uint8

const (
	False    Class = iota // clients were well served
	Degraded              // clients were badly served in the last minutes
	Slowed                // it tells of a slow machine, and that it was
	Injected              // a fault was injected
)

func (c Class) String() string {
	return [...]string{"false", "badly served", "slow machine", "of a fault"}[c]
}

// class returns the class of an alarm about a pathology at a time.
func (t *truth) class(id string, at time.Duration) Class {
	switch {
	case at-t.lastSick < afterSick:
		return Degraded
	case (id == "slow-decode" || id == "slow-prefill" || id == "severe-degradation") &&
		(t.slowed || at-t.slowAt < afterSlow):
		return Slowed
	}
	return False
}
