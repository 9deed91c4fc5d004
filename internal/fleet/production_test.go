package fleet

import (
	"bytes"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/workload"
)

// produced is what a production gave.
type produced struct {
	pages, lost, slow map[string]int
	times             map[string][]time.Time
	last              map[string][]byte
	seen              map[Sight]int
	byReplica         map[int]int // requests asked
	stopped, started  []time.Duration
	asksWhileDown     int
	fingerprint       uint64
}

func produce(t *testing.T, p Production, seed uint64) *produced {
	t.Helper()
	x := &produced{pages: map[string]int{}, lost: map[string]int{}, slow: map[string]int{}, times: map[string][]time.Time{}, last: map[string][]byte{}, seen: map[Sight]int{}, byReplica: map[int]int{}}
	h := fnv.New64()
	down := map[int]bool{}
	began := time.Unix(1_790_000_000, 0)
	err := PlayProduction(t.Context(), p, DefaultRelease, seed, began, Spectator{
		Page: func(page Page) error {
			x.pages[page.Target]++
			x.times[page.Target] = append(x.times[page.Target], page.At)
			if page.Body == nil {
				x.lost[page.Target]++
			}
			if page.Took > 100*time.Millisecond {
				x.slow[page.Target]++
			}
			x.last[page.Target] = page.Body
			_, _ = h.Write(page.Body)
			return nil
		},
		Client: func(e Experience) {
			x.seen[e.What]++
			if e.What == Asked {
				x.byReplica[e.Replica]++
				if down[e.Replica] {
					x.asksWhileDown++
				}
			}
		},
		Stop:  func(i int, at time.Duration) { down[i] = true; x.stopped = append(x.stopped, at) },
		Start: func(i int, at time.Duration) { down[i] = false; x.started = append(x.started, at) },
	})
	if err != nil {
		t.Fatal(err)
	}
	x.fingerprint = h.Sum64()
	return x
}

func ordinary() Production {
	return Production{
		Replicas: 2, For: 30 * time.Minute, Shares: []float64{1, 3}, Noise: OrdinaryNoise, Scrapes: OrdinaryScrapes,
		Traffic: Traffic{Rate: 4, Spec: usual().Spec},
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

func TestARollingDeploymentHurtsNobody(t *testing.T) {
	p := ordinary()
	p.Deployments = []time.Duration{10 * time.Minute}
	x := produce(t, p, 1)
	if len(x.stopped) != 2 || len(x.started) != 2 || x.stopped[1] < x.started[0] {
		t.Fatalf("stopped at %v, started at %v", x.stopped, x.started)
	}
	if x.seen[Broken] > 0 || x.asksWhileDown > 0 {
		t.Errorf("%d answers broke off, %d requests went to a server that was down", x.seen[Broken], x.asksWhileDown)
	}
	for i := range p.Replicas {
		target := ReplicaTarget(i)
		if x.lost[target] < 3 || x.lost[target] > 6 {
			t.Errorf("%s: %d scrapes failed in the minute of its restart", target, x.lost[target])
		}
		if !bytes.Contains(x.last[target], []byte("vllm:generation_tokens_total")) {
			t.Errorf("%s does not serve at the end", target)
		}
	}
	if share := float64(x.byReplica[1]) / float64(x.byReplica[0]+x.byReplica[1]); share < 0.65 || share > 0.85 {
		t.Errorf("the second replica had %.2f of the requests, want three quarters", share)
	}
}

func TestStallsShowInFirstTokens(t *testing.T) {
	p := ordinary()
	p.For = 10 * time.Minute
	late := func(n Noise) (late int) {
		p.Noise = n
		err := PlayProduction(t.Context(), p, DefaultRelease, 1, time.Unix(1_790_000_000, 0), Spectator{Client: func(e Experience) {
			if e.What == FirstToken && e.At-e.Asked > 900*time.Millisecond {
				late++
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
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
		"1 shares for 2 replicas": func(p *Production) { p.Shares = []float64{1} },
		"once a second":           func(p *Production) { p.Scrapes.Interval = 0 },
		"workload has no prompt":  func(p *Production) { p.Traffic.Spec.Prompt = workload.Lengths{} },
		"KV cache of 2 blocks of": func(p *Production) { p.Settings.NumBlocks = 2 },
	} {
		p := ordinary()
		change(&p)
		err := PlayProduction(t.Context(), p, DefaultRelease, 1, time.Unix(0, 0), Spectator{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
}
