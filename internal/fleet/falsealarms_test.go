// This file and its neighbours falsealarms_*_test.go measure how often the monitor calls a healthy
// server sick, and how often it misses one that is.
//
// Play runs a cluster of simulated servers for days of production-like traffic in simulated time (stage_test.go), with
// upgrades, drained nodes, nightly batches and faults. It scrapes the cluster as Prometheus servers would, and the real
// monitor and its alerter judge it. Their alerts are compared with the injected faults and with the clients'
// experience: no part of this truth comes from a metric or from a diagnosis. Each false alarm can be written as a
// recording.
//
// The long one is `make false-alarms`.

package fleet_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var (
	weeks    = flag.Float64("weeks", 0, "play at least so many replica-weeks")
	budget   = flag.Duration("budget", 0, "stop after this time, and count what was played; 0: play to the end")
	from     = flag.Duration("from", 0, "begin at this time of a Monday")
	length   = flag.Duration("length", 0, "play no longer than so long at once")
	interval = flag.Duration("interval", 0, "scrape and evaluate at this interval alone")
	only     = flag.String("only", "", "play this deployment alone")
	seed     = flag.Uint64("seed", 1, "of the first play")
	alarmd   = flag.String("alarms", "", "write recordings of false alarms to this directory")
	progress = flag.String("progress", "", "write the table so far to this file after each simulated hour")
	update   = flag.Bool("update", false, "write the table to docs/lab/false-alarms.md")
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const week = 7 * 24 * time.Hour

// turns are intervals of scrapes and evaluations, with the length of a play at each. All plays cost about the same.
var turns = []struct{ interval, length time.Duration }{{time.Minute, 72 * time.Hour},
	{30 * time.Second, 24 * time.Hour}, {15 * time.Second, 6 * time.Hour}}

// options returns the options of a play of the cluster.
func options(seed uint64, from, length, interval time.Duration) Options {
	o := Options{
		Name: interval.String(), Deployments: Cluster(), From: from, For: length, Seed: seed,
		Noise: fleet.OrdinaryNoise, Scrapes: fleet.OrdinaryScrapes, Pathologies: pathologies.All(), Dir: *alarmd,
	}
	o.Scrapes.Interval = interval
	if *only != "" {
		o.Deployments = slices.DeleteFunc(o.Deployments, func(d Deployment) bool { return d.Name != *only })
	}
	return o
}

// TestRate is the long form: plays follow each other through the week until enough was played.
func TestRate(t *testing.T) {
	if *weeks == 0 {
		t.Skip("takes a while: make false-alarms WEEKS=40")
	}
	if *alarmd != "" {
		must.Succeed(t, os.MkdirAll(*alarmd, 0o755))
	}
	ctx := t.Context()
	if *budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *budget)
		defer cancel()
	}
	var results []*Result
	at, played := *from, 0.0
	for n := uint64(0); played < *weeks && ctx.Err() == nil; n++ {
		turn := turns[n%uint64(len(turns))]
		if *interval > 0 {
			turn.interval = *interval
		}
		if *length > 0 {
			turn.length = *length
		}
		o := options(*seed+n, at%week, turn.length, turn.interval)
		at += turn.length
		o.Tell = t.Logf
		o.Hourly = func(r *Result) {
			if *progress != "" {
				text := fmt.Sprintf("%s, seed %d, from %s on\n\n%s", time.Now().UTC().Format(time.RFC3339), *seed,
					*from, Table(append(slices.Clone(results), r)))
				if err := os.WriteFile(*progress, []byte(text), 0o644); err != nil {
					t.Error(err)
				}
			}
		}
		began := time.Now()
		r, err := Play(ctx, o)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		results = append(results, r)
		played += r.weeks()
		t.Logf("seed %d, %s, from %s on: %s of the cluster, %.2f replica-weeks, in %s", o.Seed, o.Name, o.From,
			r.Played, r.weeks(), time.Since(began).Round(time.Second))
	}
	table := Table(results)
	t.Log("\n" + table)
	if *update {
		writeResults(t, table)
	}
}

// TestAMorning is the short form. Pods scale with the traffic and are upgraded, and one dies. Two servers, which a pair
// of Prometheus servers scrapes, are restarted.
func TestAMorning(t *testing.T) {
	o := options(1, 7*time.Hour+55*time.Minute, 130*time.Minute, 30*time.Second)
	chat, long := o.Deployments[0], o.Deployments[2]
	chat.Events = []Event{
		upgrade(0, 8, 55, chat.Shape.flags(192)), fault("one replica dies", 0, 9, 25, 1, 8*time.Minute,
			fleet.Faults{Down: true}),
	}
	long.Events = []Event{upgrade(0, 8, 55, long.Shape.flags(0)), deed(0, 9, 20, fleet.PagesLate, 1, 20*time.Minute)}
	o.Deployments = []Deployment{chat, long}
	o.Tell = t.Logf
	r, err := Play(t.Context(), o)
	must.Succeed(t, err)
	t.Log("\n" + Table([]*Result{r}))
	if known, missed := r.faults(); known == 0 || missed > 0 {
		t.Errorf("%d faults, %d of them missed", known, missed)
	}
	if n := r.wrong(); n > 0 || r.Failed > 0 {
		t.Errorf("%d false alarms, %d evaluations failed", n, r.Failed)
	}
	if r.Bad > r.Requests/50 || r.Requests == 0 {
		t.Errorf("%d of %d requests were badly served: that is no healthy traffic", r.Bad, r.Requests)
	}
	for _, do := range []fleet.Deed{fleet.Upgrade, fleet.Scale, fleet.PagesLate, fleet.Break} {
		if r.Done[do] == 0 {
			t.Errorf("no %s", do)
		}
	}
}

// writeResults replaces the text between the marks of the page.
func writeResults(t *testing.T, table string) {
	t.Helper()
	const (
		page       = "../../docs/lab/false-alarms.md"
		begin, end = "<!-- results: make false-alarms -->\n", "<!-- end -->"
	)
	text := must.ReadFile(t, page)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the results", page)
	}
	must.Succeed(t, os.WriteFile(page, []byte(before+begin+table+end+after), 0o644))
}
