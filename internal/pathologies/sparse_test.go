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
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

// thin plays one scrape of every step of a recording, as a Prometheus server that scrapes every 15 or 30 s would see
// it: recordings hold one scrape a second. The offset is where the grid of steps begins. The store is the test's own.
func thin(t *testing.T, file string, step, offset time.Duration) *played {
	t.Helper()
	p := load(t, file, everyStep(step, offset))[0]
	t.Cleanup(func() { p.store.Close() })
	p.interval = step
	return p
}

// everyStep keeps the first scrape of each step of a target, or all if the step is 0.
func everyStep(step, offset time.Duration) func(recording.Scrape) bool {
	slots := map[string]int64{}
	return func(sc recording.Scrape) bool {
		if step == 0 {
			return true
		}
		slot := (sc.At.UnixMilli() - offset.Milliseconds()) / step.Milliseconds()
		last, seen := slots[sc.Target]
		slots[sc.Target] = slot
		return !seen || slot != last
	}
}

// load plays a recording once for each function, with the scrapes that the function keeps, in one pass over the file.
// The caller closes the stores.
func load(t *testing.T, file string, keep ...func(recording.Scrape) bool) []*played {
	t.Helper()
	rec, err := recording.Open(t.Context(), file)
	must.Succeed(t, err)
	defer rec.Close()
	all := make([]*played, len(keep))
	for i := range all {
		all[i] = &played{name: filepath.Base(strings.TrimSuffix(file, ".tar.zst"))}
		all[i].readTruth(t, file)
		all[i].store, err = embedded.Open(embedded.Config{})
		must.Succeed(t, err)
	}
	err = rec.Scrapes(func(sc recording.Scrape) error {
		for i, p := range all {
			if !keep[i](sc) {
				continue
			}
			if err := p.scrape(sc); err != nil {
				return err
			}
		}
		return nil
	})
	must.Succeed(t, err)
	for _, p := range all {
		p.tellBirths()
	}
	return all
}

func (p *played) scrape(sc recording.Scrape) error {
	return p.take(embedded.Target{Instance: sc.Target}, sc.At, sc.Body, sc.Took)
}

func (p *played) readTruth(t *testing.T, file string) {
	t.Helper()
	embeddedtest.ReadTruth(t, file, &p.truth)
	if p.name == "saturation" && len(p.truth.Accept) == 0 {
		// A batch pinned at eight seats over an empty cache is both, and the
		// recording's notes say so.
		p.truth.Accept = []string{"concurrency-limit"}
	}
}

// A goal is the share of faults that must be named some time after their onset, at a scrape interval. A zero after
// means the end of the phase.
type goal struct {
	interval, after time.Duration
	share           float64
}

var goals = []goal{
	{time.Second, 15 * time.Second, 0.85},
	{time.Second, 0, 0.98},
	{5 * time.Second, 15 * time.Second, 0.80},
	{5 * time.Second, 0, 0.95},
	{15 * time.Second, 30 * time.Second, 0.85},
	{15 * time.Second, 60 * time.Second, 0.95},
	{15 * time.Second, 0, 0.95},
	{30 * time.Second, 60 * time.Second, 0.85},
	{30 * time.Second, 90 * time.Second, 0.95},
	{60 * time.Second, 180 * time.Second, 0.85},
}

// A sparse tally counts verdicts at one scrape interval.
type sparse struct {
	right, of       map[time.Duration]int // by time after the onset
	alarms, moments int
	well, sick      int // moments of a fault with the verdict healthy or idle, and all
	unsure          int // healthy moments whose verdict is insufficient-data or not-certain
	wrong           []string
}

// judge judges one thinned recording: every fault at the times of the goals, and healthy phases throughout, once the
// last two scrapes are of that phase.
func (c *sparse) judge(t *testing.T, p *played) {
	for i, phase := range p.truth.Phases {
		want := p.truth.accepted(i)
		from, to := time.UnixMilli(phase.FromMS), time.UnixMilli(phase.ToMS)
		if quiet(want[0]) {
			step := max(5*time.Second, p.interval/2)
			for at := from.Add(max(20*time.Second, 2*p.interval)); !at.After(to); at = at.Add(step) {
				c.moments++
				d := p.diagnose(t, at)
				if got := d.Verdict.ID; got == diagnose.InsufficientData || got == diagnose.NotCertain {
					c.unsure++
					c.wrong = append(c.wrong, fmt.Sprintf("every %s: %s, %s + %s: unsure: %s", p.interval, p.name,
						phase.Name, at.Sub(from), d.Verdict.Summary))
				} else if !quiet(got) && !slices.Contains(want, got) {
					c.alarms++
					c.wrong = append(c.wrong, fmt.Sprintf("every %s: %s, %s + %s: false alarm %s: %s", p.interval,
						p.name, phase.Name, at.Sub(from), got, d.Verdict.Summary))
				}
			}
			continue
		}
		if !slices.ContainsFunc(want, quiet) {
			c.judgeWell(t, p, phase.Name, p.truth.onset(i), to)
		}
		for _, g := range goals {
			at := p.truth.onset(i).Add(g.after)
			if g.after == 0 {
				at = to
			}
			if g.interval != p.interval || at.After(to) {
				continue
			}
			d := p.diagnose(t, at)
			c.of[g.after]++
			if slices.Contains(want, d.Verdict.ID) {
				c.right[g.after]++
				continue
			}
			c.wrong = append(c.wrong, fmt.Sprintf("every %s: %s, %s + %s: %s (%.2f), want %s: %s",
				p.interval, p.name, phase.Name, at.Sub(p.truth.onset(i)), d.Verdict.ID, d.Verdict.Confidence, strings.Join(want, " or "), d.Verdict.Summary))
		}
	}
}

// judgeWell counts the moments at which a fault is called healthy or idle, from half a minute and two scrapes after its
// onset on.
func (c *sparse) judgeWell(t *testing.T, p *played, phase string, onset, to time.Time) {
	for at := onset.Add(30*time.Second + 2*p.interval); !at.After(to); at = at.Add(max(5*time.Second, p.interval/2)) {
		c.sick++
		if d := p.diagnose(t, at); quiet(d.Verdict.ID) {
			c.well++
			c.wrong = append(c.wrong, fmt.Sprintf("every %s: %s, %s + %s: called %s: %s", p.interval, p.name, phase,
				at.Sub(onset), d.Verdict.ID, d.Verdict.Summary))
		}
	}
}

// accuracyIsFull reports whether SIXTY_ACCURACY=full asks for the full measurement, at every interval and several
// phases of the scrape grid.
func accuracyIsFull() bool { return os.Getenv("SIXTY_ACCURACY") == "full" }

// moreFiles lists the recordings of files, in a full measurement the long ones, and those that SIXTY_RECORDINGS names.
func moreFiles(t *testing.T) []string {
	t.Helper()
	list := files(t)
	if accuracyIsFull() { // phases of minutes, for scrapes once a minute
		long, err := filepath.Glob(recordings + "/long/*.tar.zst")
		must.Succeed(t, err)
		list = append(list, long...)
	}
	for _, pattern := range strings.Fields(os.Getenv("SIXTY_RECORDINGS")) {
		more, err := filepath.Glob(pattern)
		must.Succeed(t, err)
		list = append(list, more...)
	}
	return list
}

// missing is how far the full measurement may miss a goal before the test fails: it has recordings that no threshold
// was adjusted to. The page shows every result.
const missing = 0.02

// mostAlarms is the largest share of false alarms at healthy moments.
const mostAlarms = 0.01

// TestSparse judges the faults of TestVerdicts on recordings that are thinned to the scrape intervals of production.
func TestSparse(t *testing.T) {
	intervals, phases := []time.Duration{15 * time.Second, 30 * time.Second}, 1
	if accuracyIsFull() {
		intervals = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}
		phases = 4
	}
	list := moreFiles(t)
	var mu sync.Mutex
	tallies := map[bool]map[time.Duration]*sparse{true: {}, false: {}}
	t.Run("recordings", func(t *testing.T) {
		for _, interval := range intervals {
			for _, file := range list {
				t.Run(fmt.Sprint(interval, "/", filepath.Base(file)), func(t *testing.T) {
					t.Parallel()
					n := phases
					if interval < 15*time.Second {
						n = 1
					}
					for k := range n {
						c := sparse{right: map[time.Duration]int{}, of: map[time.Duration]int{}}
						p := playThinned(t, file, interval)
						if k > 0 {
							p = thin(t, file, interval, interval*time.Duration(k)/time.Duration(n))
						}
						c.judge(t, p)
						mu.Lock()
						sum := tallies[strings.HasPrefix(file, recordings)]
						if sum[interval] == nil {
							sum[interval] = &sparse{right: map[time.Duration]int{}, of: map[time.Duration]int{}}
						}
						sum[interval].add(&c)
						mu.Unlock()
					}
				})
			}
		}
	})
	var table bytes.Buffer
	for _, interval := range intervals {
		own, others := tallies[true][interval], tallies[false][interval]
		if own == nil { // no test of it ran
			own = &sparse{}
		}
		for _, c := range []*sparse{own, others} {
			if c == nil {
				continue
			}
			for _, w := range c.wrong {
				t.Log(w)
			}
		}
		for _, g := range goals {
			if g.interval != interval {
				continue
			}
			if others != nil && others.of[g.after] > 0 {
				t.Logf("others, every %s, %s after the onset: %d of %d right", interval, g.after, others.right[g.after],
					others.of[g.after])
			}
			if own.of[g.after] == 0 {
				continue
			}
			after := "at the end of the fault"
			if g.after > 0 {
				after = fmt.Sprintf("%.0f s after its onset", g.after.Seconds())
			}
			share := float64(own.right[g.after]) / float64(own.of[g.after])
			fmt.Fprintf(&table, "| %.0f s | %s | %d of %d | %.0f %% | %.0f %% |\n", interval.Seconds(), after,
				own.right[g.after], own.of[g.after], 100*share, 100*g.share)
			if least := g.share; own.of[g.after] >= 20 && share < least-missing {
				t.Errorf("every %s, %s: %d of %d right, want %.0f %%", interval, after, own.right[g.after],
					own.of[g.after], 100*g.share)
			}
		}
		if float64(own.alarms) > mostAlarms*float64(own.moments) {
			t.Errorf("every %s: %d false alarms at %d healthy moments", interval, own.alarms, own.moments)
		}
		fmt.Fprintf(&table, "| %.0f s | at healthy moments | %d false alarms of %d | | 0 |\n", interval.Seconds(),
			own.alarms, own.moments)
		fmt.Fprintf(&table, "| %.0f s | at healthy moments, nothing certain said | %d of %d | %.1f %% | 3 %% |\n",
			interval.Seconds(), own.unsure, own.moments, percent(own.unsure, own.moments))
		fmt.Fprintf(&table, "| %.0f s | sick, called healthy or idle | %d of %d | %.1f %% | 2 %% |\n",
			interval.Seconds(), own.well, own.sick, percent(own.well, own.sick))
		if others != nil {
			t.Logf("others, every %s: %d false alarms at %d healthy moments, nothing certain at %d; sick called well at %d of %d", interval, others.alarms, others.moments, others.unsure, others.well, others.sick)
		}
	}
	t.Logf("own recordings:\n%s", table.String())
	if *update && accuracyIsFull() {
		must.Succeed(t, os.WriteFile(sparseTable, []byte(table.String()), 0o644))
	}
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }

func (c *sparse) add(o *sparse) {
	for after, n := range o.of {
		c.of[after] += n
		c.right[after] += o.right[after]
	}
	c.alarms += o.alarms
	c.well += o.well
	c.sick += o.sick
	c.unsure += o.unsure
	c.moments += o.moments
	c.wrong = append(c.wrong, o.wrong...)
}

// sparseTable is where TestSparse leaves its table for TestVerdicts' page.
const sparseTable = "testdata/sparse.md"
