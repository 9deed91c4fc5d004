package pathologies_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/stat"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// mostOff returns the largest errors of "since" at a scrape interval, over all faults that are named at their end: in
// the median, and in nine of ten.
func mostOff(interval time.Duration) (median, nineOfTen time.Duration) {
	return interval + interval/10, 2*interval + 5*time.Second // scrapes are a little late
}

// mostMoved is how far "since" may move in nine of ten faults at one-second scrapes. If a fault grows (preemptions, a
// router's queue, clients that leave), its beginning is better known later.
const mostMoved = 3 * time.Second

// onsets are the errors of "since" at one scrape interval, positive if later than the truth.
type onsets struct {
	off   []time.Duration // at the end of each fault
	drift []time.Duration // how far it moved while one fault was named
	told  []string
}

// TestSince compares "since" with the true onset of every fault, and with itself while the fault continues. It takes
// two of the usual scrape intervals; a full measurement takes all, and the long recordings that slow scrapes need.
func TestSince(t *testing.T) {
	intervals, list := []time.Duration{time.Second, 15 * time.Second}, moreFiles(t)
	if accuracyIsFull() {
		intervals = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}
	}
	var mu sync.Mutex
	tallies := map[bool]map[time.Duration]*onsets{true: {}, false: {}}
	t.Run("recordings", func(t *testing.T) {
		for _, file := range list {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				for _, p := range playAtIntervals(t, file, intervals) {
					var c onsets
					c.judge(t, p)
					mu.Lock()
					own, interval := strings.HasPrefix(file, recordings), max(p.interval, time.Second)
					sum := tallies[own][interval]
					if sum == nil {
						sum = &onsets{}
						tallies[own][interval] = sum
					}
					sum.off = append(sum.off, c.off...)
					sum.drift = append(sum.drift, c.drift...)
					sum.told = append(sum.told, c.told...)
					mu.Unlock()
				}
			})
		}
	})
	var table bytes.Buffer
	for _, interval := range intervals {
		for _, own := range []bool{true, false} {
			c := tallies[own][interval]
			if c == nil || len(c.off) == 0 {
				continue
			}
			for _, s := range c.told {
				t.Log(s)
			}
			median, most, drift := c.sizes()
			line := fmt.Sprintf("| %.0f s | %d | %.1f s | %.1f s | %.1f s |\n", interval.Seconds(), len(c.off),
				median.Seconds(), most.Seconds(), drift.Seconds())
			t.Logf("own recordings: %v %s", own, line)
			if !own {
				continue
			}
			table.WriteString(line)
			wantMedian, wantMost := mostOff(interval)
			if median > wantMedian || len(c.off) >= 10 && most > wantMost {
				t.Errorf("every %s, since is off by %s in the median, and by %s in nine of ten; want %s and %s",
					interval, median, most, wantMedian, wantMost)
			}
			if drift > max(2*interval, mostMoved) {
				t.Errorf("every %s, since moves by %s while a fault goes on", interval, drift)
			}
		}
	}
	if *update && accuracyIsFull() {
		must.Succeed(t, os.WriteFile(sinceTable, table.Bytes(), 0o644))
	}
}

// sinceTable is where TestSince leaves its table for TestVerdicts' page.
const sinceTable = "testdata/since.md"

// sizes returns the median error, the error that nine of ten faults do not exceed, and the same of the drift.
func (c *onsets) sizes() (median, most, drift time.Duration) {
	sorted := func(ds []time.Duration) []time.Duration {
		out := make([]time.Duration, len(ds))
		for i, d := range ds {
			out[i] = d.Abs()
		}
		slices.Sort(out)
		return out
	}
	off, moved := sorted(c.off), sorted(c.drift)
	if len(moved) > 0 {
		drift = moved[(len(moved)*9-1)/10]
	}
	return stat.Median(off), off[(len(off)*9-1)/10], drift
}

// judge diagnoses throughout every fault, as a monitor does, and compares the onset that is named at its end.
func (c *onsets) judge(t *testing.T, p *played) {
	for i, phase := range p.truth.Phases {
		want := p.truth.accepted(i)
		begins, to := p.truth.onset(i), time.UnixMilli(phase.ToMS)
		interval := max(p.interval, time.Second)
		if !p.truth.tellsOnset(i, interval) {
			continue
		}
		var memory diagnose.Memory
		var first, last time.Time
		var said diagnose.Finding
		for at := begins.Add(10 * time.Second); ; at = at.Add(max(5*time.Second, p.interval)) {
			if at.After(to) {
				at = to
			}
			d := p.watched(t, at, &memory)
			said = diagnose.Finding{}
			if f := d.LeadingFinding(&d.Verdict); f != nil && slices.Contains(want, f.Pathology.ID) {
				said = *f
				if first.IsZero() {
					first, last = f.Since, f.Since
				}
				first = slices.MinFunc([]time.Time{first, f.Since}, time.Time.Compare)
				last = slices.MaxFunc([]time.Time{last, f.Since}, time.Time.Compare)
			}
			if !at.Before(to) {
				break
			}
		}
		if said.Pathology == nil {
			continue // not named: TestVerdicts counts that
		}
		c.off, c.drift = append(c.off, said.Since.Sub(begins)), append(c.drift, last.Sub(first))
		c.told = append(c.told, fmt.Sprintf("every %s: %s/%s: %s since %+.1f s (at least: %v), moved by %.1f s",
			interval, p.name, phase.Name, said.Pathology.ID, said.Since.Sub(begins).Seconds(), said.SinceAtLeast, last.Sub(first).Seconds()))
	}
}

// tellsOnset reports whether a phase is a fault that lasts for long enough to be dated.
func (tr *truth) tellsOnset(phase int, interval time.Duration) bool {
	lasts := time.UnixMilli(tr.Phases[phase].ToMS).Sub(tr.onset(phase))
	return phase > 0 && !quiet(tr.accepted(phase)[0]) && lasts >= 2*interval+15*time.Second
}

// playAtIntervals plays a recording at each of the scrape intervals at which one of its faults can be dated. Tests do
// not share long ones.
func playAtIntervals(t *testing.T, file string, intervals []time.Duration) (out []*played) {
	t.Helper()
	of := &played{name: filepath.Base(strings.TrimSuffix(file, ".tar.zst"))}
	of.readTruth(t, file)
	var steps []time.Duration
	for _, interval := range intervals {
		for i := range of.truth.Phases {
			if of.truth.tellsOnset(i, interval) {
				steps = append(steps, interval)
				break
			}
		}
	}
	if filepath.Base(filepath.Dir(file)) != "long" {
		for _, step := range steps {
			if step == time.Second {
				step = 0
			}
			out = append(out, playThinned(t, file, step))
		}
		return out
	}
	var keep []func(recording.Scrape) bool
	for _, step := range steps {
		keep = append(keep, everyStep(step, 0))
	}
	out = load(t, file, keep...)
	for i, p := range out {
		p.interval = steps[i]
		t.Cleanup(func() { p.store.Close() })
	}
	return out
}
