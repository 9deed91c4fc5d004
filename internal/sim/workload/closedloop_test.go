package workload_test

import (
	"math"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
)

// Closed loops are found on recordings of real servers whose clients waited, and on no others.
func TestClientsThatWaitAreSeen(t *testing.T) {
	for _, tt := range []struct {
		recording, phase string
		clients          int
	}{
		{"thrashing-deep", "sick", 14},
		{"thrashing-mild", "sick", 8},
		{"full-but-quiet", "healthy", 6},
		{"thrashing-deep-v0.32", "sick", 14},
		{"thrashing-mild", "healthy", 0},       // a trickle
		{"higher-rate", "changed", 0},          // independent users
		{"two-seats", "sick", 0},               // more than the server can do: the queue grows
		{"saturation-long-prompts", "sick", 0}, //
		{"replica-imbalance", "healthy", 0},    // of two servers
		{"severe-degradation", "sick", 0},      //
		{"slow-decode-throttled", "sick", 0},   //
		{"queue-timeouts", "sick", 0},          // clients that leave
	} {
		t.Run(tt.recording+" "+tt.phase, func(t *testing.T) {
			from, to := readTruth(t, tt.recording).phase(t, tt.phase)
			l := readUpTo(t, tt.recording, from, to).Workload.Loop
			if l.Clients != tt.clients || l.Pause.Seconds() > 0.1 || l.Pause < 0 {
				t.Errorf("%d clients that pause for %v, there were %d without", l.Clients, l.Pause, tt.clients)
			}
		})
	}
}

func TestSharesOfTheReplicasAreSeen(t *testing.T) {
	from, to := readTruth(t, "replica-imbalance").phase(t, "sick")
	f := readUpTo(t, "replica-imbalance", from, to)
	shares := f.Shares()
	for i := range shares {
		shares[i] = math.Round(20*shares[i]) / 20
	}
	must.Equal(t, []float64{0.9, 0.1}, shares)
}

// A gap between the scrapes of two servers is no interval.
func TestAGapIsNoInterval(t *testing.T) {
	from, to := readTruth(t, "full-but-quiet").phase(t, "healthy")
	for _, e := range readUpTo(t, "full-but-quiet", from, to).Ranks {
		for _, i := range e.Intervals {
			if i.Seconds > 5 {
				t.Errorf("an interval of %.0f s", i.Seconds)
			}
		}
	}
}
