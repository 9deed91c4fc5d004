package workload

import (
	"testing"
	"time"
)

func TestLoop(t *testing.T) {
	for _, tt := range []struct {
		name     string
		inFlight []float64
		arrived  float64
		want     int
	}{
		{"a number that does not move, with many coming and going", []float64{14, 14, 13, 14, 14, 14, 13, 14, 14, 14}, 60, 14},
		{"a queue that grows", []float64{14, 16, 18, 20, 22, 24, 26, 28, 30, 32}, 60, 0},
		{"a number that wanders as independent arrivals let it", []float64{14, 18, 12, 9, 16, 20, 13, 11, 15, 17}, 60, 0},
		{"nobody came or went", []float64{14, 14, 14, 14, 14, 14, 14, 14, 14, 14}, 3, 0},
		{"answers longer than the time", []float64{14, 14, 14, 14, 14, 14, 14, 14, 14, 14}, 8, 14},
		{"too few moments", []float64{14, 14, 14}, 60, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Measured{From: time.Unix(1000, 0), Ranks: make([]Rank, 1)}
			for i, n := range tt.inFlight {
				f.To = f.From.Add(time.Duration(i+1) * time.Second)
				f.Ranks[0].Intervals = append(f.Ranks[0].Intervals, Interval{End: f.To, Running: n - 1, Waiting: 1})
			}
			f.Workload = Observed{Arrived: []float64{tt.arrived}, Every: f.To.Sub(f.From)}
			f.findLoop(time.Second)
			if got := f.Workload.Loop.Clients; got != tt.want {
				t.Errorf("%d clients, want %d", got, tt.want)
			}
		})
	}
}
