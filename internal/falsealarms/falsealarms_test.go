package falsealarms

import (
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var (
	weeks  = flag.Float64("weeks", 0, "play at least so many replica-weeks")
	budget = flag.Duration("budget", 0, "play all at once, and count what was played in this time; 0: play to the end")
	length = flag.Duration("length", week, "in plays of this length")
	from   = flag.Duration("from", 0, "from this time of a Monday on")
	shape  = flag.String("shape", "", "of this traffic alone")
	seed   = flag.Uint64("seed", 1, "of the first play")
	alarmd = flag.String("alarms", "", "write recordings of false alarms to this directory")
	update = flag.Bool("update", false, "write the table to docs/false-alarms.md")
	most   = flag.Int("recordings", 5, "recordings of a pathology in one play, at most")
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// deployments are at ten on a Monday and on a Thursday, and a hotfix in the night
// of a Wednesday.
func deployments() []time.Time {
	return []time.Time{monday.Add(10 * time.Hour), monday.Add(52*time.Hour + 40*time.Minute), monday.Add(82 * time.Hour)}
}

const week = 7 * 24 * time.Hour

// plays lists what to play: all shapes in turn, each time with another seed.
func plays(t *testing.T, weeks float64, length time.Duration) []Options {
	var out []Options
	for round := uint64(0); ; round++ {
		before := len(out)
		for _, s := range Shapes() {
			if *shape != "" && s.Name != *shape {
				continue
			}
			out = append(out, Options{
				Shape: s, From: monday.Add(*from), For: length, Seed: *seed + round, Deployments: deployments(), Noise: fleet.OrdinaryNoise, Scrapes: fleet.OrdinaryScrapes,
				Pathologies: pathologies.All(), Dir: *alarmd, MaxRecordings: *most,
			})
			weeks -= float64(s.Replicas) * float64(length) / float64(week)
			if weeks <= 0 {
				return out
			}
		}
		if len(out) == before {
			t.Fatalf("there is no traffic %q", *shape)
		}
	}
}

// playAll plays as many at once as there are processors, or all within the budget.
func playAll(t *testing.T, all []Options) []*Result {
	t.Helper()
	results := make([]*Result, len(all))
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(runtime.GOMAXPROCS(0))
	if *budget > 0 {
		eg.SetLimit(len(all))
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *budget)
		defer cancel()
	}
	for i, o := range all {
		eg.Go(func() (err error) {
			began := time.Now()
			results[i], err = Play(ctx, o)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			t.Logf("%s, seed %d: %s played in %s", o.Shape.Name, o.Seed, results[i].Played, time.Since(began).Round(time.Second))
			for _, e := range results[i].Episodes {
				if e.False() {
					t.Logf("%s, seed %d: %s (%s) on %s at %s, %s after its start, %d of %d evaluations false: %s %s", o.Shape.Name, o.Seed, e.Pathology, e.Severity,
						e.Target, e.At.Format(time.RFC3339), e.Before.Round(time.Second), e.By[False], e.Length, e.Summary, e.Recording)
				}
			}
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		t.Fatal(err)
	}
	return results
}

// mostShort is how many false alarms the short form may have.
const mostShort = 0

// TestShort plays a part of a morning with a deployment of each kind of traffic, with two
// replicas that are diagnosed every ninety seconds.
func TestShort(t *testing.T) {
	var all []Options
	for _, s := range Shapes() {
		s.Replicas = 2
		all = append(all, Options{
			Shape: s, From: monday.Add(9 * time.Hour), For: 80 * time.Minute, Every: 90 * time.Second, Seed: 1, Deployments: deployments(),
			Noise: fleet.OrdinaryNoise, Scrapes: fleet.OrdinaryScrapes, Pathologies: pathologies.All(), Dir: *alarmd, MaxRecordings: *most,
		})
	}
	results := playAll(t, all)
	t.Log("\n" + Table(results))
	alarms, served, told := 0, 0, 0
	for _, r := range results {
		served += r.Requests - r.Bad
		for _, e := range r.Episodes {
			told += e.By[Restart]
			if e.False() && e.Alarm() {
				alarms++
			}
		}
		if r.Bad > r.Requests/50 {
			t.Errorf("%s: %d of %d requests were badly served: that is no healthy traffic", r.Shape, r.Bad, r.Requests)
		}
	}
	if told == 0 || served == 0 {
		t.Errorf("%d requests, and %d evaluations told of the deployment: nothing was judged", served, told)
	}
	if alarms > mostShort {
		t.Errorf("%d false alarms, want at most %d", alarms, mostShort)
	}
}

// TestRate is the long form.
func TestRate(t *testing.T) {
	if *weeks == 0 {
		t.Skip("takes minutes a replica-week: make false-alarms WEEKS=30")
	}
	if *alarmd != "" {
		if err := os.MkdirAll(*alarmd, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	table := Table(playAll(t, plays(t, *weeks, *length)))
	t.Log("\n" + table)
	if *update {
		writeResults(t, table)
	}
}

// writeResults replaces what stands between the marks of the page.
func writeResults(t *testing.T, table string) {
	t.Helper()
	const (
		page       = "../../docs/false-alarms.md"
		begin, end = "<!-- results: make false-alarms -->\n", "<!-- end -->"
	)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the results", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
