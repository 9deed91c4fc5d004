package sim

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// An API server reads all requests of a burst before it hands the first to the engine, in both loops of the simulation.
func TestABurstIsReadFirst(t *testing.T) {
	const n = 10
	f := Frontend{PerRequest: 5e-3, Reading: 10e-3, Serial: 1e-3}
	if got, want := f.Delay(100), 16*time.Millisecond; got != want {
		t.Errorf("alone: %v, want %v", got, want)
	}
	var rs []Request
	for range n {
		rs = append(rs, Request{PromptTokens: 100, OutputTokens: 2})
	}
	rs = append(rs, Request{Arrival: time.Second, PromptTokens: 100, OutputTokens: 2})
	cfg, err := Defaults("0.23.0")
	must.Succeed(t, err)
	cfg.MaxModelLen, cfg.NumBlocks, cfg.BlockSize = 1000, 1000, 16
	for name, o := range map[string]Options{"open": {Frontend: f}, "clients": {Frontend: f, Clients: n + 1}} {
		res, err := Run(cfg, StepCost{Base: 1e-3}, rs, o)
		must.Succeed(t, err)
		for i := range rs {
			want := f.Delay(100)
			if i < n {
				want = n*10*time.Millisecond + time.Duration(i+1)*time.Millisecond + 5*time.Millisecond
			}
			if got := res.Requests[i].Frontend; got != want {
				t.Errorf("%s: request %d is at the engine after %v, want %v", name, i, got, want)
			}
		}
	}
}

// The API server takes the earlier of two requests first, even if it learns of the later one before.
func TestAnEarlierRequestIsTakenFirst(t *testing.T) {
	rs := make([]Request, 3)
	a := apiServer{Frontend: Frontend{Reading: 1, Serial: 1}}
	a.addArrival(arrival{10 * time.Second, 10 * time.Second, 0})
	if got, want := a.nextEvent(), 11*time.Second; got != want {
		t.Fatalf("next: %v, want %v", got, want)
	}
	a.addArrival(arrival{3 * time.Second, 3 * time.Second, 1})
	a.addArrival(arrival{9 * time.Second, 9 * time.Second, 2})
	var order []int
	for a.nextEvent() < forever {
		if x, ok := a.completeVisit(rs); ok {
			order = append(order, x.index)
		}
	}
	if len(order) != 3 || order[0] != 1 || order[1] != 2 || order[2] != 0 {
		t.Errorf("order %v", order)
	}
	if want := 13 * time.Second; a.now != want {
		t.Errorf("the end is %v, want %v", a.now, want)
	}
}
