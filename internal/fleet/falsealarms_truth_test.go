package fleet_test

import (
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/fleet"
)

// client adds a request to a truth. Its first token came after ttft and the others after gap each; with a negative ttft
// it still waits.
func client(t *truth, asked, ttft, gap time.Duration, tokens int) {
	t.hear(fleet.Experience{What: fleet.Asked, Asked: asked, At: asked})
	if ttft < 0 {
		return
	}
	first := asked + ttft
	t.hear(fleet.Experience{What: fleet.FirstToken, Asked: asked, At: first, First: first, Tokens: 1})
	t.hear(fleet.Experience{What: fleet.Answered, Asked: asked, At: first + time.Duration(tokens-1)*gap, First: first,
		Tokens: tokens})
}

func TestTruthIsWhatClientsGot(t *testing.T) {
	limits := Limits{TTFT: time.Second, TPOT: 50 * time.Millisecond}
	const many = 30
	tests := map[string]struct {
		each func(t *truth, i int, at time.Duration)
		sick bool
	}{
		"well served": {func(t *truth, _ int, at time.Duration) {
			client(t, at, 100*time.Millisecond, 20*time.Millisecond, 10)
		}, false},
		"one in ten late": {func(t *truth, i int, at time.Duration) {
			ttft := 100 * time.Millisecond
			if i%10 == 0 {
				ttft = 1500 * time.Millisecond
			}
			client(t, at, ttft, 20*time.Millisecond, 10)
		}, true},
		"two late are no minute gone bad": {func(t *truth, i int, at time.Duration) {
			ttft := 100 * time.Millisecond
			if i < 2 {
				ttft = 1500 * time.Millisecond
			}
			client(t, at, ttft, 20*time.Millisecond, 10)
		}, false},
		"slow answers": {func(t *truth, _ int, at time.Duration) {
			client(t, at, 100*time.Millisecond, 60*time.Millisecond, 10)
		}, true},
		"answers of one token have no pace": {func(t *truth, _ int, at time.Duration) {
			client(t, at, 100*time.Millisecond, 60*time.Millisecond, 1)
		}, false},
		"nobody is answered": {func(t *truth, _ int, at time.Duration) { client(t, at, -1, 0, 0) }, true},
		"the server dies": {func(t *truth, _ int, at time.Duration) {
			t.hear(fleet.Experience{What: fleet.Asked, Asked: at, At: at})
			t.hear(fleet.Experience{What: fleet.Broken, Asked: at, At: at + time.Millisecond})
		}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			truth := newTruth(limits)
			for i := range many {
				tc.each(truth, i, time.Duration(i)*time.Second)
			}
			truth.look(35 * time.Second)
			if truth.sick != tc.sick {
				t.Errorf("sick is %v, want %v", truth.sick, tc.sick)
			}
			if got := truth.class("saturation", 35*time.Second); (got == Degraded) != tc.sick {
				t.Errorf("an alarm is of class %d", got)
			}
		})
	}
}

func TestTruthForgets(t *testing.T) {
	truth := newTruth(Limits{TTFT: time.Second, TPOT: time.Second})
	for i := range 10 {
		client(truth, time.Duration(i)*time.Second, 3*time.Second, 0, 2)
	}
	truth.look(15 * time.Second)
	if !truth.sick {
		t.Fatal("ten late first tokens are not sick")
	}
	truth.look(80 * time.Second)
	if truth.sick {
		t.Error("still sick a minute later")
	}
	if truth.class("saturation", 80*time.Second) != Degraded ||
		truth.class("saturation", 15*time.Second+afterSick) != False {
		t.Error("an alarm is excused for another time than afterSick")
	}
}

func TestASlowMachineIsSlow(t *testing.T) {
	truth := newTruth(Limits{TTFT: time.Second, TPOT: 100 * time.Millisecond})
	truth.slow(time.Minute, 1.4)
	truth.slow(3*time.Minute, 1)
	for _, tt := range []struct {
		id   string
		at   time.Duration
		want Class
	}{
		{"slow-decode", 2 * time.Minute, Slowed},
		{"slow-decode", 4 * time.Minute, Slowed},
		{"slow-decode", 6 * time.Minute, False},
		{"saturation", 2 * time.Minute, False},
	} {
		if got := truth.class(tt.id, tt.at); got != tt.want {
			t.Errorf("%s after %s: class %d, want %d", tt.id, tt.at, got, tt.want)
		}
	}
	fresh := newTruth(Limits{})
	fresh.slow(time.Minute, 1.2)
	if got := fresh.class("slow-decode", 2*time.Minute); got != False {
		t.Errorf("a machine that is a fifth slower excuses an alarm: class %d", got)
	}
}
