package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A plant is a store that scrapers fill. Its times are in seconds.
type plant struct {
	*testing.T
	store   *Store
	pending []arrival
	pages   map[string]map[string]float64 // the last page of each target
}

// An arrival is a sample on its way to the store.
type arrival struct {
	at, arrives float64
	lset        labels.Labels
	v           float64
}

// A scraper scrapes a target as Prometheus does.
type scraper struct {
	*plant
	target   []string           // its labels
	lag      map[string]float64 // of remote writes, by metric
	shift    float64            // of the samples of pages, which then have times of their own
	unmarked bool               // it writes no staleness markers,
	upHidden bool               // nor up
	dropped  string             // a label of the target that the samples of pages lack
}

// scrape writes the samples of a page by metric; nil is a scrape that failed.
func (s *scraper) scrape(at float64, page map[string]float64) {
	up, key := 1.0, fmt.Sprint(s.target)
	if page == nil {
		up = 0
	}
	if !s.upHidden {
		s.write("up", at, s.lag["up"], up)
	}
	for name, v := range page {
		s.write(name, at+s.shift, s.lag[name], v)
	}
	for name := range s.pages[key] {
		if _, there := page[name]; !there && !s.unmarked && s.shift == 0 {
			s.write(name, at, s.lag[name], staleNaN)
		}
	}
	s.pages[key] = page
}

// remove ends the target, whose last scrape was at the given time.
func (s *scraper) remove(last, interval float64) {
	key := fmt.Sprint(s.target)
	for _, name := range append(slices.Collect(maps.Keys(s.pages[key])), "up") {
		s.write(name, last+interval, 1.1*interval, staleNaN)
	}
	s.pages[key] = nil
}

func (s *scraper) write(name string, at, lag, v float64) {
	b := labels.NewBuilder(labels.FromStrings(s.target...)).Set(labels.MetricName, name)
	if name != "up" {
		b.Del(s.dropped)
	}
	s.pending = append(s.pending, arrival{at, at + lag, b.Labels(), v})
}

// advance appends what arrives until a time.
func (p *plant) advance(now float64) {
	slices.SortStableFunc(p.pending, func(a, b arrival) int { return cmp.Compare(a.arrives, b.arrives) })
	p.pending = slices.DeleteFunc(p.pending, func(a arrival) bool {
		if a.arrives > now {
			return false
		}
		app := p.store.recent.wrapAppender(p.store.db.AppenderV2(p.Context()))
		if _, err := app.Append(0, a.lset, 0, sec(a.at).UnixMilli(), a.v, nil, nil, storage.AOptions{}); err != nil {
			must.Succeed(p, app.Rollback()) // a marker that comes after the next sample
			return true
		}
		must.Succeed(p, app.Commit())
		return true
	})
}

// broken answers nothing while it is away.
type broken struct {
	asked
	away bool
}

var errAway = errors.New("away")

func (b *broken) Samples(ctx context.Context, selector string, at time.Time, span time.Duration) (model.Matrix, error) {
	if b.away {
		return nil, errAway
	}
	return b.asked.Samples(ctx, selector, at, span)
}

// TestAMirrorKnowsWhereSeriesEnd plays set-ups of scrapers and stores, and compares answers that depend on the ends of
// series.
func TestAMirrorKnowsWhereSeriesEnd(t *testing.T) {
	const every, scrapes = 15.0, 70
	page := func(k int) map[string]float64 {
		return map[string]float64{"x": float64(k / 3 % 3), "y": float64(k)}
	}
	target := func(p *plant, name string) *scraper {
		return &scraper{plant: p, target: []string{"job", "vllm", "instance", name, "pod", name + "-0"}}
	}
	lost := func(k int, name string, from, to int) map[string]float64 {
		out := page(k)
		if k >= from && k < to {
			delete(out, name)
		}
		return out
	}
	failing := func(k, from, to int) map[string]float64 {
		if k >= from && k < to {
			return nil
		}
		return page(k)
	}
	type setup struct {
		write     func(p *plant, k int, at float64) // what happens at a scrape
		away      [2]float64                        // when the store does not answer
		clock     float64                           // by how much the store's clock is ahead of the monitor's
		mostAsked float64                           // the largest part of the questions that the server may be asked; 0 for all
	}
	fast := func(p *plant, k int, at, interval float64, f func(k int, at float64)) {
		n := int(every / interval)
		for i := range n {
			f(k*n+i, at+float64(i)*interval)
		}
	}
	for name, s := range map[string]setup{
		"all is well": {mostAsked: 0.01, write: func(p *plant, k int, at float64) { target(p, "a").scrape(at, page(k)) }},
		"a target fails, and is back": {mostAsked: 0.1, write: func(p *plant, k int, at float64) {
			target(p, "a").scrape(at, failing(k, 30, 40))
			target(p, "b").scrape(at+3, page(k))
		}},
		"a target flaps": {mostAsked: 0.1, write: func(p *plant, k int, at float64) {
			target(p, "a").scrape(at, failing(k%4, 3, 4))
		}},
		"a metric is missing once": {write: func(p *plant, k int, at float64) { target(p, "a").scrape(at, lost(k, "x", 30, 31)) }},
		"a metric vanishes":        {write: func(p *plant, k int, at float64) { target(p, "a").scrape(at, lost(k, "x", 30, 99)) }},
		"a metric comes late":      {mostAsked: 0.05, write: func(p *plant, k int, at float64) { target(p, "a").scrape(at, lost(k, "y", 0, 30)) }},
		"a target is removed": {mostAsked: 0.1, write: func(p *plant, k int, at float64) {
			target(p, "b").scrape(at, page(k))
			switch a := target(p, "a"); {
			case k < 30:
				a.scrape(at, page(k))
			case k == 30:
				a.remove(at-every, every)
			}
		}},
		"a target is removed, and is back": {write: func(p *plant, k int, at float64) {
			switch a := target(p, "a"); {
			case k == 30:
				a.remove(at-every, every)
			case k < 30 || k > 35:
				a.scrape(at, page(k))
			}
		}},
		"a target is removed and back at once": {write: func(p *plant, k int, at float64) {
			switch a := target(p, "a"); {
			case k == 30:
				a.remove(at-every, every)
			case k < 30 || k > 32:
				a.scrape(at, page(k))
			}
		}},
		"the server restarts": {away: [2]float64{30 * every, 34 * every}, write: func(p *plant, k int, at float64) {
			if k < 30 || k > 33 {
				target(p, "a").scrape(at, page(k))
			}
		}},
		"a scraper is away, not the store": {write: func(p *plant, k int, at float64) {
			if k < 30 || k > 36 {
				target(p, "a").scrape(at, page(k))
			}
		}},
		"a scraper is away for long": {write: func(p *plant, k int, at float64) {
			if k < 20 || k > 50 {
				target(p, "a").scrape(at, page(k))
			}
		}},
		"the elected replica changes": {write: func(p *plant, k int, at float64) {
			switch {
			case k < 30:
				target(p, "a").scrape(at, page(k))
			case k > 32:
				target(p, "a").scrape(at+6, page(k))
			}
		}},
		"a series of the other replica": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.scrape(at, map[string]float64{"x": float64(k)})
			clear(p.pages)
			a.upHidden, a.shift = true, 6.5
			if k > 20 && k < 40 {
				a.scrape(at, map[string]float64{"y": float64(k)})
			}
		}},
		"two targets with the same labels": {write: func(p *plant, k int, at float64) {
			a, b := target(p, "a"), target(p, "a")
			a.scrape(at, map[string]float64{"x": 1})
			clear(p.pages)
			b.scrape(at+4, map[string]float64{"y": 1})
			clear(p.pages)
		}},
		"federation": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.unmarked = true
			a.scrape(at, failing(k, 30, 36))
			(&scraper{plant: p, target: []string{"job", "federate", "instance", "prometheus"}}).scrape(at+2, map[string]float64{})
		}},
		"a scraper without markers": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.unmarked = true
			a.scrape(at, lost(k, "x", 30, 36))
		}},
		"other intervals": {write: func(p *plant, k int, at float64) {
			fast(p, k, at, 3, func(k int, at float64) {
				a := target(p, "a")
				switch k % 60 {
				case 30:
					a.remove(at-3, 3)
				case 31, 32, 33, 34:
				default:
					a.scrape(at, page(k/5))
				}
			})
			if k%4 == 0 {
				switch b := target(p, "b"); k {
				case 32:
					b.remove(at-59, 60)
				case 36, 40:
				default:
					b.scrape(at+1, page(k/4))
				}
			}
		}},
		"a target changes its interval": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			switch {
			case k < 25:
				fast(p, k, at, 3, func(k int, at float64) { a.scrape(at, page(k/5)) })
			case k == 25:
				a.remove(at-3, 3)
			case k < 50 && k%4 == 0:
				a.scrape(at, page(k))
			case k == 50:
				a.remove(at-30, 60)
			case k > 50:
				fast(p, k, at, 3, func(k int, at float64) { a.scrape(at, page(k/5)) })
			}
		}},
		"samples have times of their own": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.shift = -3.5
			a.scrape(at, lost(k, "x", 30, 36))
		}},
		"nobody scrapes": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.upHidden = true
			a.scrape(at, lost(k, "x", 30, 36))
		}},
		"a label of the target is dropped": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.dropped = "pod"
			a.scrape(at, failing(k, 30, 36))
		}},
		"another target's labels are honored": {write: func(p *plant, k int, at float64) {
			a, b := target(p, "a"), target(p, "a")
			a.scrape(at, map[string]float64{"x": 1})
			b.upHidden, b.unmarked = true, true
			if k < 30 {
				b.scrape(at+2, map[string]float64{"y": 1})
			}
			clear(p.pages)
		}},
		"samples of up come late": {mostAsked: 0.05, write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.lag = map[string]float64{"up": 9, "x": 4, "y": 2}
			a.scrape(at, failing(k, 30, 36))
		}},
		"samples of up come first": {mostAsked: 0.05, write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.lag = map[string]float64{"up": 1, "x": 9, "y": 5}
			a.scrape(at, failing(k, 30, 36))
		}},
		"one of the queues is behind": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			if k > 25 && k < 35 {
				a.lag = map[string]float64{"x": 50}
			}
			a.scrape(at, failing(k, 10, 12))
		}},
		"up comes after minutes, all at once": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.lag = map[string]float64{"up": max(0, 300-at)}
			a.scrape(at, lost(k, "x", 6, 9))
		}},
		"up is behind": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			if k > 25 && k < 45 {
				a.lag = map[string]float64{"up": 50}
			}
			a.scrape(at, page(k))
		}},
		"up is written from some time on": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.upHidden = k < 30
			a.scrape(at, lost(k, "x", 15, 20))
		}},
		"up is written until some time": {write: func(p *plant, k int, at float64) {
			a := target(p, "a")
			a.upHidden = k > 30
			a.scrape(at, lost(k, "x", 36, 40))
		}},
		"the store's clock is ahead":  {clock: 30, write: func(p *plant, k int, at float64) { target(p, "a").scrape(at, failing(k, 30, 36)) }},
		"the store's clock is behind": {clock: -30, write: func(p *plant, k int, at float64) { target(p, "a").scrape(at, lost(k, "x", 30, 36)) }},
	} {
		for _, begins := range []int{0, 45} { // the scrape with which the monitor begins
			t.Run(fmt.Sprintf("%s, seen from %d on", name, begins), func(t *testing.T) {
				p := &plant{T: t, store: openStore(t, Config{}), pages: map[string]map[string]float64{}}
				server := &broken{asked: asked{Querier: p.store}}
				scope := indicator.Is("job", "vllm")
				var m Mirror
				questions := 0
				for k := range scrapes {
					at := float64(k) * every
					s.write(p, k, at)
					now := at + 12
					p.advance(now)
					server.away = at >= s.away[0] && at < s.away[1]
					if k < begins {
						continue
					}
					now -= s.clock
					q := m.Over(server, []*labels.Matcher{scope}, sec(now), 10*time.Minute, every*time.Second)
					for _, e := range []indicator.Expr{
						indicator.Now("up", scope), indicator.Now("x", scope), indicator.Now("y", scope),
						indicator.BeforeGap("x", scope).In(4 * time.Minute), indicator.BeforeGap("y", scope).In(4 * time.Minute),
						indicator.LastAbove("x", scope).In(4 * time.Minute), indicator.LastAtZero("x", scope).In(2 * time.Minute),
						indicator.LastChange("y", scope).In(2 * time.Minute), indicator.First("y", scope).In(2 * time.Minute),
					} {
						for _, ago := range []float64{0, 15, 180} {
							got, err := q.Evaluate(t.Context(), e, sec(now-ago))
							if server.away {
								continue
							}
							must.Succeed(t, err)
							questions++
							want, err := p.store.Query(t.Context(), e.String(), sec(now-ago))
							must.Succeed(t, err)
							compare(t, fmt.Sprintf("evaluation %d, %g s ago, %s", k, ago, e), got, want)
						}
					}
					if t.Failed() {
						return
					}
				}
				part := float64(server.questions.Load()) / float64(questions)
				t.Logf("%.3f of the questions were left to the server", part)
				if s.mostAsked > 0 && part > s.mostAsked {
					t.Errorf("%.3f of the questions were left to the server", part)
				}
			})
		}
	}
}
