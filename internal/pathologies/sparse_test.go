package pathologies_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// A production Prometheus scrapes every 15 or 30 s, and our recordings once a
// second. thin keeps one page of every step, as a slower scrape would have seen
// it; the offset says where on the grid the first one falls.
func thin(t *testing.T, file string, step, offset time.Duration) *played {
	t.Helper()
	p := &played{name: filepath.Base(strings.TrimSuffix(file, ".tar.zst")), interval: step}
	p.readTruth(t, strings.TrimSuffix(file, ".tar.zst")+".json")
	rec, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if p.store, err = embedded.Open(embedded.Config{}); err != nil {
		t.Fatal(err)
	}
	slots := map[string]int64{}
	err = rec.Scrapes(func(sc recording.Scrape) error {
		slot := (sc.At.UnixMilli() - offset.Milliseconds()) / step.Milliseconds()
		if last, seen := slots[sc.Target]; seen && slot == last {
			return nil
		}
		slots[sc.Target] = slot
		if p.first.IsZero() {
			p.first = sc.At
		}
		target := embedded.Target{Instance: sc.Target}
		if len(sc.Body) == 0 {
			return p.store.AppendFailure(target, sc.At)
		}
		_, err := p.store.Append(target, sc.At, sc.Body, "", 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range p.store.Targets() {
		if at, ok := p.store.FirstCreated(target); ok && (p.created.IsZero() || at.Before(p.created)) {
			p.created = at
		}
	}
	return p
}

// A goal is what a scrape interval must give: how long after the onset of a
// fault how many of them are named. A zero after means the end of the phase.
type goal struct {
	interval time.Duration
	after    time.Duration
	share    float64
}

var goals = []goal{
	{time.Second, 15 * time.Second, 0.85}, {time.Second, 0, 0.98},
	{5 * time.Second, 15 * time.Second, 0.80}, {5 * time.Second, 0, 0.95},
	{15 * time.Second, 30 * time.Second, 0.85}, {15 * time.Second, 60 * time.Second, 0.95}, {15 * time.Second, 0, 0.95},
	{30 * time.Second, 60 * time.Second, 0.85}, {30 * time.Second, 90 * time.Second, 0.95}, {30 * time.Second, 0, 0.95},
	{60 * time.Second, 180 * time.Second, 0.85},
}

// TestSparse thins every recording to the intervals of production, at several
// phases of the scrape grid, and judges the same faults.
func TestSparse(t *testing.T) {
	set := map[time.Duration][]time.Duration{}
	for _, g := range goals {
		set[g.interval] = append(set[g.interval], g.after)
	}
	only := os.Getenv("SPARSE")
	type key struct {
		interval, after time.Duration
	}
	type count struct{ right, of int }
	tally := map[key]*count{}
	alarms, moments := map[time.Duration]int{}, map[time.Duration]int{}
	var mu sync.Mutex
	log := func(format string, args ...any) {
		if only != "" {
			fmt.Printf(format+"\n", args...)
		}
	}
	var list []string
	for _, pattern := range strings.Fields(os.Getenv("SPARSE_FILES")) {
		more, _ := filepath.Glob(pattern)
		list = append(list, more...)
	}
	if list == nil {
		list = files(t)
	}
	t.Run("recordings", func(t *testing.T) {
		for _, interval := range []time.Duration{1, 5, 15, 30, 60} {
			interval *= time.Second
			if only != "" && !slices.Contains(strings.Split(only, ","), strconv.Itoa(int(interval.Seconds()))) {
				continue
			}
			for _, file := range list {
				t.Run(fmt.Sprint(interval, "/", filepath.Base(file)), func(t *testing.T) {
					t.Parallel()
					offsets := 1
					if interval >= 15*time.Second {
						offsets = 3
					}
					for k := range offsets {
						p := thin(t, file, interval, interval*time.Duration(k)/time.Duration(offsets))
						for i, phase := range p.truth.Phases {
							want := p.truth.accepted(i)
							from, to := time.UnixMilli(phase.FromMS), time.UnixMilli(phase.ToMS)
							if quiet(want[0]) {
								for at := from.Add(max(20*time.Second, 2*interval)); !at.After(to); at = at.Add(max(5*time.Second, interval/2)) {
									d := p.diagnose(t, at)
									mu.Lock()
									moments[interval]++
									if got := d.Verdict.ID; !quiet(got) && !slices.Contains(want, got) && got != diagnose.InsufficientData {
										alarms[interval]++
										log("ALARM %s %s+%d %s +%ds: %s: %s", interval, p.name, k, phase.Name, int(at.Sub(from).Seconds()), got, d.Verdict.Summary)
										if os.Getenv("SPARSE_V") != "" {
											for _, f := range d.Findings {
												if f.Status == diagnose.Firing {
													log("   %s %s %s", f.Pathology.ID, f.Status, explain(d, f))
												}
											}
										}
									}
									mu.Unlock()
								}
								continue
							}
							for _, after := range set[interval] {
								at := from.Add(after)
								if after == 0 {
									at = to
								} else if at.After(to) {
									continue
								}
								d := p.diagnose(t, at)
								mu.Lock()
								c := tally[key{interval, after}]
								if c == nil {
									c = &count{}
									tally[key{interval, after}] = c
								}
								c.of++
								if slices.Contains(want, d.Verdict.ID) {
									c.right++
								} else {
									log("MISS %s %s+%d %s after %s (%s): %s (%.2f) want %v: %s", interval, p.name, k, phase.Name, after, at.Sub(from).Round(time.Second), d.Verdict.ID, d.Verdict.Confidence, want, d.Verdict.Summary)
									if os.Getenv("SPARSE_V") != "" {
										for _, f := range d.Findings {
											if slices.Contains(want, f.Pathology.ID) || f.Status >= diagnose.Pending {
												log("   %s %s %s", f.Pathology.ID, f.Status, explain(d, f))
											}
										}
									}
								}
								mu.Unlock()
							}
						}
						p.store.Close()
					}
				})
			}
		}
	})
	for _, g := range goals {
		if c := tally[key{g.interval, g.after}]; c != nil {
			fmt.Printf("interval %s after %s: %d/%d = %.0f %% (goal %.0f)\n", g.interval, g.after, c.right, c.of, 100*float64(c.right)/float64(c.of), 100*g.share)
		}
	}
	for i, n := range moments {
		fmt.Printf("interval %s: %d alarms at %d moments\n", i, alarms[i], n)
	}
}

func (p *played) readTruth(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &p.truth); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if p.name == "saturation" && len(p.truth.Accept) == 0 {
		p.truth.Accept = []string{"concurrency-limit"}
	}
}
