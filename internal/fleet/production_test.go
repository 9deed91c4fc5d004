package fleet

import (
	"bytes"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// produced is what a production gave.
type produced struct {
	pages, lost, slow map[string]int
	times             map[string][]time.Time
	last              map[string][]byte
	seen              map[Sight]int
	replicas          int // at the end
	fingerprint       uint64
}

func produce(t *testing.T, p Production, seed uint64) *produced {
	t.Helper()
	x := &produced{pages: map[string]int{}, lost: map[string]int{}, slow: map[string]int{},
		times: map[string][]time.Time{}, last: map[string][]byte{}, seen: map[Sight]int{}}
	h := fnv.New64()
	s, err := NewStage(p, DefaultRelease, seed, time.Unix(1_790_000_000, 0), Spectator{
		Page: func(page Scrape) error {
			name := page.Target + page.Labels["prometheus_replica"]
			x.pages[name]++
			x.times[name] = append(x.times[name], page.At)
			if page.Body == nil {
				x.lost[name]++
			}
			if page.Took > 100*time.Millisecond {
				x.slow[name]++
			}
			x.last[name] = page.Body
			_, _ = h.Write(page.Body)
			return nil
		},
		Client: func(e Experience) { x.seen[e.What]++ },
	})
	if err == nil {
		err = s.Advance(t.Context(), p.For)
	}
	must.Succeed(t, err)
	x.fingerprint, x.replicas = h.Sum64(), s.Replicas()
	return x
}

func ordinary() Production {
	return Production{
		Replicas: 2, For: 30 * time.Minute, GPUs: true, Noise: OrdinaryNoise, Scrapes: OrdinaryScrapes,
		Traffic: Traffic{Rate: 4, Spec: usualTraffic().Spec},
	}
}

func TestAProductionIsScrapedAsProductionsAre(t *testing.T) {
	p := ordinary()
	p.Scrapes.Lost, p.Scrapes.Slow = 0.2, 0.2
	x := produce(t, p, 1)
	if len(x.pages) != 3 {
		t.Fatalf("pages of %v", x.pages)
	}
	for target, n := range x.pages {
		// Of 120 scrapes 12 leave no trace, 12 fail, and of the others a fifth is slow.
		if n < 90 || n > 119 || x.lost[target] < 3 || x.lost[target] > 25 || x.slow[target] < 8 || x.slow[target] > 45 {
			t.Errorf("%s: %d pages, %d failed, %d slow", target, n, x.lost[target], x.slow[target])
		}
		jittered := false
		for i, at := range x.times[target][1:] {
			gap := at.Sub(x.times[target][i])
			jittered = jittered || gap%time.Second != 0
			if gap < 14*time.Second {
				t.Errorf("%s: two scrapes within %s", target, gap)
			}
		}
		if !jittered {
			t.Errorf("%s: scraped like clockwork", target)
		}
	}
	if a, b := x.times[ReplicaTarget(0)][0], x.times[ReplicaTarget(1)][0]; a.Sub(b).Abs() < 50*time.Millisecond {
		t.Error("both replicas are scraped at the same moment")
	}
}

func TestAProductionIsTheSameForTheSameSeed(t *testing.T) {
	p := ordinary()
	p.For = 5 * time.Minute
	a, b, c := produce(t, p, 1), produce(t, p, 1), produce(t, p, 2)
	if a.fingerprint != b.fingerprint || a.fingerprint == c.fingerprint {
		t.Errorf("fingerprints %x, %x and, of another seed, %x", a.fingerprint, b.fingerprint, c.fingerprint)
	}
}

// TestChangesOfAProductionAreApplied: by how many targets are seen, how many are there at the end, and
// whether a client is hurt.
func TestChangesOfAProductionAreApplied(t *testing.T) {
	at := func(e Event) []Event { e.At = 10 * time.Minute; return []Event{e} }
	for name, tc := range map[string]struct {
		pods          bool
		views         []string
		events        []Event
		seen, there   int
		broken, fewer bool // answers broke off; a page was missing
	}{
		"nothing":           {seen: 3, there: 2},
		"two Prometheuses":  {views: []string{"a", "b"}, seen: 5, there: 2},
		"a restart of each": {events: at(Event{Do: Upgrade}), seen: 3, there: 2, fewer: true},
		"new pods": {pods: true, events: at(Event{Do: Upgrade, Settings: Settings{MaxNumSeqs: 64}}), seen: 5,
			there: 2, fewer: true},
		"one hangs": {pods: true, events: at(Event{Do: Stuck, For: 10 * time.Minute}), seen: 4, there: 2,
			fewer: true},
		"out":               {pods: true, events: at(Event{Do: Scale, N: 4}), seen: 5, there: 4, fewer: true},
		"in":                {pods: true, events: at(Event{Do: Scale, N: 1}), seen: 3, there: 1},
		"a node is drained": {pods: true, events: at(Event{Do: DrainNode, N: 1}), seen: 4, there: 2, fewer: true},
		"late pages": {events: at(Event{Do: PagesLate, N: 1, For: 15 * time.Minute}), seen: 3, there: 2,
			fewer: true},
		"a batch": {events: at(Event{Do: AskMore, For: 5 * time.Minute,
			Traffic: Traffic{Clients: 4, Spec: usualTraffic().Spec}}), seen: 3, there: 2},
		"other traffic": {events: at(Event{Do: AskAnother, Traffic: Traffic{Rate: 1, Spec: usualTraffic().Spec}}),
			seen: 3, there: 2},
		"a fault": {events: at(Event{Do: Break, N: 1, For: 5 * time.Minute, Faults: Faults{Down: true}}),
			seen: 3, there: 2, broken: true, fewer: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := ordinary()
			p.Noise, p.Scrapes.Lost, p.Pods, p.Views, p.Events = Noise{}, 0, tc.pods, tc.views, tc.events
			x := produce(t, p, 1)
			if len(x.pages) != tc.seen || x.replicas != tc.there {
				t.Errorf("%d targets seen, %d replicas at the end", len(x.pages), x.replicas)
			}
			lost := 0
			for _, n := range x.lost {
				lost += n
			}
			if broken := x.seen[Broken] > 0; broken != tc.broken || lost > 0 != tc.fewer {
				t.Errorf("%d answers broke off, %d scrapes failed", x.seen[Broken], lost)
			}
			if x.seen[Answered] < x.seen[Asked]*9/10 {
				t.Errorf("%d of %d requests were answered", x.seen[Answered], x.seen[Asked])
			}
			serves := 0
			for _, body := range x.last {
				if bytes.Contains(body, []byte("vllm:generation_tokens_total")) {
					serves++
				}
			}
			if serves < tc.there {
				t.Errorf("%d targets serve at the end", serves)
			}
		})
	}
}

func TestStallsShowInFirstTokens(t *testing.T) {
	p := ordinary()
	p.For = 10 * time.Minute
	late := func(n Noise) (late int) {
		p.Noise = n
		s, err := NewStage(p, DefaultRelease, 1, time.Unix(1_790_000_000, 0), Spectator{Client: func(e Experience) {
			if e.What == FirstToken && e.At-e.Asked > 900*time.Millisecond {
				late++
			}
		}})
		if err == nil {
			err = s.Advance(t.Context(), p.For)
		}
		must.Succeed(t, err)
		return late
	}
	if n := late(Noise{}); n > 0 {
		t.Errorf("%d first tokens are late without noise", n)
	}
	if n := late(Noise{StallsPerDay: 24 * 60}); n < 10 {
		t.Errorf("%d first tokens are late with a stall each minute", n)
	}
}

func TestAProductionRefuses(t *testing.T) {
	for want, change := range map[string]func(*Production){
		"0 replicas":              func(p *Production) { p.Replicas = 0 },
		"once a second":           func(p *Production) { p.Scrapes.Interval = 0 },
		"workload has no prompt":  func(p *Production) { p.Traffic.Spec.Prompt = workload.Lengths{} },
		"KV cache of 2 blocks of": func(p *Production) { p.Settings.NumBlocks = 2 },
	} {
		p := ordinary()
		change(&p)
		_, err := NewStage(p, DefaultRelease, 1, time.Unix(0, 0), Spectator{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
}
