package diagnose

import (
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// Requests at a gateway and in engines are taken for the same if their numbers agree within this share. They differ
// at the edges of the window.
const sameRequests = 0.25

// readOutside computes how long requests are outside the engines, and how many of a gateway's requests no engine holds.
// It reads the engines' own pages: a gateway may not scrape them, or only through the link that is slow.
func (s *Snapshot) readOutside() {
	for i := range s.Targets {
		if t := &s.Targets[i]; !t.IsGateway() || t.Problem != "" {
			continue
		}
		outside, missing := s.readings[i].of(indicator.GatewayOutside), s.readings[i].of(indicator.GatewayMissing)
		if now := s.timeOutsideEngines(i, s.Now, s.Spans[i].Window.Length()); now.OK {
			outside.now = now
		}
		if normal := s.timeOutsideEngines(i, s.Normal, s.Spans[i].Baseline.Length()); normal.OK {
			outside.normal = normal
		}
		if now := s.countMissing(i, s.Now); now.V > 0 && !missing.now.OK {
			missing.now, s.readings[i].of(indicator.GatewayMade).now = now, indicator.Known(0)
		}
	}
}

// timeOutsideEngines returns by how much the mean time of a request at a gateway exceeds the mean time in the engines
// behind it. It is unknown unless both served the same requests over the time. It is a lower bound: what chance may add
// to the difference is subtracted.
func (s *Snapshot) timeOutsideEngines(gateway int, read func(int, *indicator.Signal) indicator.Value,
	over time.Duration) indicator.Value {
	whole := read(gateway, indicator.GatewayE2EMean)
	if !whole.OK {
		return whole
	}
	var timed, ended, completed, spent float64
	for i := range s.Targets {
		// the gateway's replicas share the engines
		if s.Targets[i].IsGateway() && s.Targets[i].Version == s.Targets[gateway].Version {
			timed += read(i, indicator.GatewayTimed).Or(0)
			ended += read(i, indicator.GatewayEnded).Or(0)
		}
	}
	for _, i := range s.enginesBehind(gateway) {
		rate, mean := read(i, indicator.CompletionRate), read(i, indicator.E2EMean)
		if rate.Or(0) == 0 {
			continue
		}
		if !mean.OK || s.roleOf(i) != engine.Serve {
			return indicator.Unknown("the engines behind the gateway do not say how long a request is in them")
		}
		completed += rate.V
		spent += rate.V * mean.V
	}
	span := max(over.Seconds(), 1)
	few := 2 / span
	if completed == 0 || timed > completed*(1+sameRequests)+few || completed > max(timed, ended)*(1+sameRequests)+few {
		return indicator.Unknown("the engines that are watched did not serve the requests that the gateway timed")
	}
	// These requests ended between the scrape of the one and of the other, and count for one of the two only.
	edge := math.Abs(timed-completed)*span + timed*s.interval.Seconds()
	chance := 2 * max(whole.V, spent/completed) * math.Sqrt(edge) / max(timed*span, 1)
	v := indicator.Known(whole.V - spent/completed - chance)
	v.AtLeast = true
	return v
}

// countMissing returns how many of the requests that were open at a gateway at its last two scrapes no engine shows,
// while nobody was answered and no token came; 0 if any did.
func (s *Snapshot) countMissing(gateway int, read func(int, *indicator.Signal) indicator.Value) (none indicator.Value) {
	open, answered, engines := read(gateway, indicator.GatewayWaiting), read(gateway, indicator.GatewayAnswered),
		s.enginesBehind(gateway)
	if !open.OK || !answered.OK || len(engines) == 0 {
		return none
	}
	for _, i := range engines {
		running, waiting, tokens := read(i, indicator.Running), read(i, indicator.Waiting),
			read(i, indicator.GenerationTokenRate)
		if s.Spans[i].Failing || !running.OK || !waiting.OK || !tokens.OK {
			return none
		}
		open.V -= running.V + waiting.V
		answered.V += tokens.V
	}
	if answered.V > 0 || open.V <= someUnserved {
		open.V = 0
	}
	return open
}

// enginesBehind lists the servers behind a gateway, by the addresses or models that it knows, else all servers.
func (s *Snapshot) enginesBehind(gateway int) (out []int) {
	g := &s.Targets[gateway]
	for _, known := range []struct {
		label  string
		values []string
	}{{"instance", g.Upstreams}, {"model_name", g.Models}, {}} {
		for i := range s.Targets {
			if t := &s.Targets[i]; t.Serves() &&
				(known.label == "" || slices.Contains(known.values, t.Labels[known.label])) {
				out = append(out, i)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}
