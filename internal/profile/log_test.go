package profile

import (
	"math"
	"slices"
	"testing"
)

func TestALogReturnsValuesOfAllWidths(t *testing.T) {
	var l Log
	var want []Event
	for i := range 63 {
		for _, d := range []int64{-1, 0, 1} {
			v := int64(1)<<i + d
			want = append(want,
				Event{Start: v, Dur: max(v, 0), Size: uint64(v), Name: uint32(v), Correlation: uint32(v)},
				Event{Start: -v / 2, Dur: 0, Size: math.MaxUint64, Name: math.MaxUint32, Correlation: math.MaxUint32 - uint32(v)})
		}
	}
	for range 50 { // beyond a chunk of the largest size
		want = append(want, want[:300]...)
	}
	for _, e := range want {
		l.addEvent(e)
	}
	i := 0
	for e := range l.All {
		if *e != want[i] {
			t.Fatalf("%d: %+v, want %+v", i, *e, want[i])
		}
		i++
	}
	if i != len(want) || l.Len() != i {
		t.Errorf("%d of %d events, Len %d", i, len(want), l.Len())
	}
}

// TestALogIsSorted sorts events that are out of order within a run, and between runs.
func TestALogIsSorted(t *testing.T) {
	for name, start := range map[string]func(int) int64{
		"near":      func(i int) int64 { return int64(i ^ 3) },
		"backwards": func(i int) int64 { return int64(-i) },
		"far":       func(i int) int64 { return int64(i * 7919 % 200_003) },
		"alike":     func(i int) int64 { return int64(i / 1000) },
	} {
		var l Log
		var want []Event
		for i := range 3*sortAtOnce + 11 {
			e := Event{Start: start(i), Dur: int64(i % 5), Correlation: uint32(i)}
			want = append(want, e)
			l.addEvent(e)
		}
		l.sortEvents()
		var got []Event
		for e := range l.All {
			got = append(got, *e)
		}
		if !slices.IsSortedFunc(got, compareEvents) {
			t.Errorf("%s: not in order", name)
		}
		byNumber := func(a, b Event) int { return int(a.Correlation) - int(b.Correlation) }
		slices.SortFunc(got, byNumber)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the events changed", name)
		}
	}
}
